package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/peerrecord"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Every method has a line that bench/record keeps, with all decisions of its trajectories or the first that are asked for, and
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
