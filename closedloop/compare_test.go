package closedloop_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Shards joined from their traces say what the whole run says.
func TestJoinedShardsAreTheWhole(t *testing.T) {
	c, dir := cartCase(t), t.TempDir()
	o := options(dir)
	o.Episodes = 7
	whole := evaluate(t, c, direct(c), o)
	var paths []string
	for i := range 3 {
		part := o
		part.ShardIndex, part.ShardCount = i, 3
		part.TracePath = filepath.Join(dir, fmt.Sprintf("shard-%d.jsonl", i))
		evaluate(t, c, direct(c), part)
		paths = append(paths, part.TracePath)
	}
	spec := c.Problem.Spec()
	joined := require.Get(closedloop.Join(t.Context(), spec, []string{paths[2], paths[0], paths[1]}))(t)
	timeless := func(r *closedloop.Result) string {
		r.Latency, r.Shares, r.Load = closedloop.Latency{}, closedloop.Shares{}, nil
		return string(require.Get(finite.Marshal(r))(t))
	}
	if joined.Episodes != 7 || joined.Latency.P50 == 0 {
		t.Errorf("joined %+v", joined)
	}
	if a, b := timeless(joined), timeless(whole); a != b {
		t.Errorf("joined %s\nwhole  %s", a, b)
	}
	// Shards that were made twice are those of either run, in any order.
	again := o
	again.ShardIndex, again.ShardCount, again.TracePath = 1, 3, filepath.Join(dir, "again.jsonl")
	evaluate(t, c, direct(c), again)
	if a, b := timeless(require.Get(closedloop.Join(t.Context(), spec, []string{again.TracePath, paths[2], paths[0]}))(t)), timeless(joined); a != b {
		t.Errorf("joined with a shard made again %s\nbefore %s", a, b)
	}
	other := o
	other.Seed++
	other.ShardIndex, other.ShardCount, other.TracePath = 1, 3, filepath.Join(dir, "other.jsonl")
	evaluate(t, c, direct(c), other)
	short := filepath.Join(dir, "short.jsonl")
	lines := strings.SplitAfter(string(require.Get(os.ReadFile(paths[0]))(t)), "\n")
	require.OK(t, os.WriteFile(short, []byte(strings.Join(lines[:1+steps+3], "")), 0o644))
	longer := o
	longer.Episodes, longer.ShardIndex, longer.ShardCount, longer.TracePath = 8, 1, 3, filepath.Join(dir, "longer.jsonl")
	evaluate(t, c, direct(c), longer)
	for _, bad := range []struct {
		name  string
		paths []string
		says  string
	}{
		{"nothing", nil, "no traces"},
		{"one shard of three", paths[:1], "1 traces of 3 shards: missing 1/3, 2/3"},
		{"two shards of three", paths[1:], "2 traces of 3 shards: missing 0/3"},
		{"one shard twice", []string{paths[0], paths[0], paths[1]}, "as is " + paths[0]},
		{"one shard made twice", []string{paths[0], paths[1], again.TracePath, paths[2]}, "as is " + paths[1]},
		{"another seed", []string{paths[0], other.TracePath, paths[2]}, "another run"},
		{"an interrupted shard", []string{short, paths[1], paths[2]}, "1 of its 3 episodes"},
		{"another number of episodes", []string{paths[0], longer.TracePath, paths[2]}, "episodes 7, this run's is 8"},
		{"no trace", []string{filepath.Join(dir, "none")}, "none"},
	} {
		if _, err := closedloop.Join(t.Context(), spec, bad.paths); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: error %v, want one that says %q", bad.name, err, bad.says)
		}
	}
}

// Methods are compared on the episodes in which both are safe, one by one.
func TestCompareIsPaired(t *testing.T) {
	c, dir := cartCase(t), t.TempDir()
	o := options(dir)
	o.Episodes, o.Method = 6, "exact"
	exact := evaluate(t, c, direct(c), o)
	first := o.TracePath
	lazy := o
	lazy.Method, lazy.TracePath = "lazy", filepath.Join(dir, "lazy.jsonl")
	evaluate(t, c, controller(func(int, []float64) (float64, bool, error) { return 0, true, nil }), lazy)
	rows := require.Get(closedloop.Compare(t.Context(), []string{first, first, lazy.TracePath}))(t)
	if rows[0].DifferencePct != 0 || rows[1].DifferencePct != 0 || rows[0].Episodes != 6 || rows[0].Compared != rows[2].Compared || rows[2].Compared != rows[2].Safe {
		t.Errorf("compared %+v", rows)
	}
	if rows[2].Safe > 0 && !(rows[2].DifferencePct > 0) {
		t.Errorf("doing nothing costs %v %% more than the exact feedback", rows[2].DifferencePct)
	}
	if d := rows[2].Difference; d.N != rows[2].Compared || d.N > 0 && (math.Abs(float64(d.Mean-rows[2].DifferencePct)) > 1e-9 || d.Median > d.P90 || d.P90 > d.Max) {
		t.Errorf("the difference of %v %% over %d is distributed as %+v", rows[2].DifferencePct, rows[2].Compared, d)
	}
	if rows[2].Compared == 6 && math.Abs(float64(rows[0].CostMean-exact.CostMean)) > 1e-9 {
		t.Errorf("mean cost %v, evaluated %v", rows[0].CostMean, exact.CostMean)
	}
	other := o
	other.Seed++
	other.TracePath = filepath.Join(dir, "other.jsonl")
	evaluate(t, c, direct(c), other)
	if _, err := closedloop.Compare(t.Context(), []string{first, other.TracePath}); err == nil || !strings.Contains(err.Error(), "same episodes") {
		t.Errorf("other episodes: error %v", err)
	}
	if _, err := closedloop.Compare(t.Context(), []string{first}); err == nil {
		t.Error("one trace is compared with nothing")
	}
}

// wayless does nothing, and finds no way from every third start.
type wayless struct {
	*feedback
	starts int
}

func (l *wayless) Reset(e domain.Episode) error {
	l.starts++
	return l.feedback.Reset(e)
}

func (l *wayless) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Way: func() bool { return l.starts%3 != 0 }}
}

// Every method is counted on the episodes from whose start the first had a way, whether it had one itself or not.
func TestCompareCountsWaysOfTheFirst(t *testing.T) {
	c, dir := cartCase(t), t.TempDir()
	o := options(dir)
	o.Episodes, o.Method = 7, "exact"
	evaluate(t, c, direct(c), o)
	first := o
	first.Method, first.TracePath = "lost", filepath.Join(dir, "lost.jsonl")
	evaluate(t, c, func() (domain.Controller, error) {
		return &wayless{feedback: &feedback{decide: func(int, []float64) (float64, bool, error) { return 0, true, nil }}}, nil
	}, first)
	rows := require.Get(closedloop.Compare(t.Context(), []string{first.TracePath, o.TracePath}))(t)
	for i, path := range []string{first.TracePath, o.TracePath} {
		safe := 0
		require.Get(closedloop.ReadEpisodes(t.Context(), path, func(e *closedloop.EpisodeRecord) error {
			if e.End.Safe && e.Episode%3 != 2 {
				safe++
			}
			return nil
		}))(t)
		if r := rows[i]; r.NoWay != 2-2*i || r.Way != 5 || r.SafeOfWay != safe || r.Episodes != 7 {
			t.Errorf("%s: %d episodes, %d without a way of its own, %d of %d safe of the first's, want %d", r.Method, r.Episodes, r.NoWay, r.SafeOfWay, r.Way, safe)
		}
	}
	rows[0].Untimed()
	if !math.IsNaN(float64(rows[0].Latency.P50)) || math.IsNaN(float64(rows[1].Latency.P50)) {
		t.Errorf("latencies %+v and %+v, want none and some", rows[0].Latency, rows[1].Latency)
	}
}
