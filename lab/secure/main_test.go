package main

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/paper/opf"
)

// Every method has a line that lab/record keeps, with all decisions of its trajectories or the first that are asked for, and
// the exact chain costs nothing above itself.
func TestRowsAreLinesOfABenchmark(t *testing.T) {
	o := options{name: "opf-secure", methods: "hold:2,secure", episodes: 1, seed: 5, bounds: 20, resume: filepath.Join(t.TempDir(), "parts.json")}
	require.Get(run(o))(t)
	// The same command goes on, by what is kept: a part that says something else is told as it says.
	kept := require.Get(openJournal(o.resume, o))(t)
	kept.Parts[0].Secure = 0
	require.OK(t, durable.WriteSealed(o.resume, kept))
	o.episodes = 2
	r := require.Get(run(o))(t)
	if n := r.rows[0].secure; n != 2 {
		t.Errorf("hold is secure in %d decisions, want 2: none of the kept trajectory and those of the second", n)
	}
	o.seed = 6
	if _, err := run(o); err == nil || !strings.Contains(err.Error(), "take another file") {
		t.Errorf("a file of another seed: error %v", err)
	}
	var printed strings.Builder
	require.OK(t, r.benchmark(&printed, "Secure39"))
	lines := require.Get(peerrecord.ParseBenchmarks(printed.String()))(t)
	if len(lines) != 2 || lines[0].Name != "BenchmarkSecure39/hold" || lines[1].Name != "BenchmarkSecure39/secure" {
		t.Fatalf("lines %+v of %q, want one of hold and one of secure", lines, printed.String())
	}
	if n := lines[1].Metrics["bounds"]; n != 30 {
		t.Errorf("%v of 600 decisions have a bound, want every twentieth", n)
	}
	for k, want := range [][2]float64{{4, 2}, {600, 600}} {
		if l := lines[k]; l.Metrics["decisions"] != want[0] || l.Metrics["secure"] != want[1] || !(l.Metrics["cpu_p50_ms"] > 0) {
			t.Errorf("%s: %v, want %v decisions, %v secure, with a time", l.Name, l.Metrics, want[0], want[1])
		}
	}
	if hold, exact := lines[0].Metrics["above_%"], lines[1].Metrics["above_%"]; !(exact < 1e-6) || !(hold > 1e-4) {
		t.Errorf("hold costs %v %% above the exact chain, which costs %v %% above itself", hold, exact)
	}
	for _, wrong := range []string{"hold:0", "hold:", "hold:2:3"} {
		if _, err := run(options{name: "opf-secure", methods: wrong, episodes: 1, seed: 5}); err == nil || !strings.Contains(err.Error(), "NAME:STEPS") {
			t.Errorf("%s: error %v, want one that says NAME:STEPS", wrong, err)
		}
	}
}

// failing is an episode that refuses its second action.
type failing struct {
	domain.Episode
	applied *int
}

func (e failing) Apply(u []float64) (domain.Outcome, error) {
	if *e.applied++; *e.applied == 2 {
		return domain.Outcome{}, errors.New("no power flow")
	}
	return e.Episode.Apply(u)
}

// A trajectory that a method ends early counts as not secure from there on, and not in the method's cost.
func TestATrajectoryThatEndsIsCounted(t *testing.T) {
	c := opf.Secure()
	for _, m := range c.Methods {
		if m.Name != "hold" {
			continue
		}
		k := require.Get(m.New(domain.Means{}))(t)
		ended := &part{Method: "hold", Optimum: 1}
		episode := failing{require.Get(c.Plant.Episode(5, 0, domain.EpisodeOptions{Preference: adaptive}))(t), new(int)}
		require.OK(t, (&driven{of: &c, k: k, to: ended}).drive(episode, 4))
		if ended.Decisions != 4 || ended.Secure != 1 || !strings.HasPrefix(ended.Failure, "decision 1: ") {
			t.Errorf("%d decisions, %d secure, failure %q: want 4, 1 and one in decision 1", ended.Decisions, ended.Secure, ended.Failure)
		}
		r := rowOf([]part{*ended, {Method: "hold", Decisions: 4, Secure: 4, Cost: 3, Optimum: 2, CPU: []float64{1}}})
		if r.decisions != 8 || r.secure != 5 || math.Abs(r.above-50) > 1e-12 {
			t.Errorf("%d decisions, %d secure, %g %% above: want 8, 5 and 50", r.decisions, r.secure, r.above)
		}
		return
	}
	t.Fatal("no method hold")
}
