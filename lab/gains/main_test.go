package main

import (
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/bundled"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// system is a case of the gallery.
func system(t *testing.T, name string) *gpc.Case {
	t.Helper()
	catalogue := bundled.Cases()
	return require.Get(catalogue.Find(name))(t)
}

// Contenders are driven in the same episodes and see what they should of the gains: themselves, estimates that come near, or 1. The
// bundled map decides in the plant with gains as it does in its own.
func TestContendersSeeTheirGains(t *testing.T) {
	c, o := system(t, "cartpole"), &options{maps: t.TempDir(), traces: t.TempDir(), episodes: 2, parallel: 2, seed: 5, log: io.Discard}
	all := []contender{{"nmpc", known}, {"nmpc", estimated}, {"nmpc", unknown}, {"direct", unknown}}
	rows := require.Get(drive(t.Context(), c, all, o))(t)
	k := require.Get(newContest(c))(t)
	gain := k.gains.from
	for i, one := range all {
		if r := rows[i]; r.Episodes != 2 || r.MeasuredNoise != noise || r.Tightening != level || r.offset != nil {
			t.Errorf("%+v: %+v", one, r)
		}
		path := filepath.Join(o.traces, "cartpole-"+one.method+"-"+one.gains+".jsonl")
		require.Get(closedloop.ReadEpisodes(t.Context(), path, func(e *closedloop.EpisodeRecord) error {
			p := k.plant.Definition().Plant.(*closedloop.Simulation).Start(o.seed, e.Episode)
			truth := p[len(p)-1]
			first, last := e.Lines[0].C[gain], e.Lines[len(e.Lines)-1].C[gain]
			switch {
			case one.gains == known && (first != truth || last != truth):
				t.Errorf("%+v is told gains of %v to %v, which are %v", one, first, last, truth)
			case one.gains == unknown && (first != 1 || last != 1):
				t.Errorf("%+v takes the gain for %v to %v, want 1", one, first, last)
			case one.gains == estimated && !(math.Abs(last-truth) < math.Abs(first-truth)):
				t.Errorf("%+v: the estimate of a gain of %v goes from %v to %v", one, truth, first, last)
			}
			return nil
		}))(t)
	}
	// What is there is not driven again, and a map that is not there is asked for.
	again := require.Get(drive(t.Context(), c, all, o))(t)
	if again[2].Difference.Mean != rows[2].Difference.Mean {
		t.Errorf("continued %+v, before %+v", again[2], rows[2])
	}
	if err := run(t.Context(), io.Discard, &options{maps: o.maps, traces: o.traces, methods: "direct"}, []string{"cartpole"}); err == nil || !strings.Contains(err.Error(), "--methods direct") {
		t.Errorf("without the method that others are beside: %v", err)
	}
	if _, err := drive(t.Context(), c, []contender{{"direct", estimated}}, o); err == nil || !strings.Contains(err.Error(), "lab/scripts/gains.sh") {
		t.Errorf("without a map of the gains: %v", err)
	}
}

// A plant that runs on has its distance from the reference at rest. Each row is a line that lab/record keeps.
func TestRowsAreLinesOfABenchmark(t *testing.T) {
	if testing.Short() {
		t.Skip("drives a reactor for hours")
	}
	c, o := system(t, "cstr-runs-on"), &options{maps: t.TempDir(), traces: t.TempDir(), episodes: 1, parallel: 1, seed: 5, log: io.Discard}
	all := []contender{{"nmpc", known}, {"nmpc", estimated}, {"nmpc", unknown}}
	var printed strings.Builder
	for _, r := range require.Get(drive(t.Context(), c, all, o))(t) {
		require.OK(t, r.print(&printed, c.Name()))
	}
	lines := require.Get(peerrecord.ParseBenchmarks(printed.String()))(t)
	var offsets []float64
	for i, l := range lines {
		if want := "BenchmarkGains/cstr-runs-on/nmpc/" + all[i].gains; l.Name != want || l.Metrics["episodes"] != 1 || l.Metrics["safe"] != 1 {
			t.Errorf("%+v, want %s, safe in 1 episode", l, want)
		}
		if _, is := l.Metrics["above_%"]; is == (i == 0) {
			t.Errorf("%s: %v, want a cost above the first of the others alone", l.Name, l.Metrics)
		}
		offsets = append(offsets, l.Metrics["offset_%"])
	}
	if len(offsets) != 3 || !(max(offsets[0], offsets[1]) < 0.5) || slices.Max(offsets) != offsets[2] {
		t.Errorf("offsets at rest of %v %%, want less than 0.5 of the first two, and most of the one that knows no gains", offsets)
	}
}
