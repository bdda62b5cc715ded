package command

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/cli"
)

func program() *cli.App {
	return &cli.App{Commands: []func(*cli.App) *cobra.Command{PowerFlow, OptimalFlow}, Operations: Operations()}
}

// run executes a command line and returns exit code, stdout and stderr.
func run(args ...string) (int, string, string) {
	var out, log bytes.Buffer
	a := program()
	a.Stdout, a.Stderr, a.Stdin = &out, &log, strings.NewReader("")
	code := a.Run(context.Background(), args)
	return code, out.String(), log.String()
}

// The benchmarks are known by name beside the engine's, each with its own sizes and
// its rows in double precision under half the float32 ceiling.
func TestBenchmarks(t *testing.T) {
	code, out, log := run("bench", "opf", "opf-sweep", "--loads", "2", "--time", "1ms", "--threads", "1", "--backend", "cpu", "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var r struct {
		Results []struct {
			Op, Case, Precision string
			Batch               int
			Work                float64 `json:"gflop"`
			Fraction            float64
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	want := []struct {
		op, name string
		batch    int
	}{{"opf", "case30", 1}, {"opf", "case39", 1}, {"opf", "case118", 1}, {"opf", "case30", opfBatch}, {"opf-sweep", "case30", 100}}
	if len(r.Results) != len(want) {
		t.Fatalf("%d rows, want %d: %s", len(r.Results), len(want), out)
	}
	for i, w := range want {
		if g := r.Results[i]; g.Op != w.op || g.Case != w.name || g.Batch != w.batch || g.Precision != "fp64" || !(g.Work > 0 && g.Fraction > 0) {
			t.Errorf("row %d: %+v, want %v", i, g, w)
		}
	}
	for _, loads := range []string{"0", "-1", "1000001", "many"} {
		if code, _, log := run("bench", "opf-sweep", "--loads", loads); code != 2 || !strings.Contains(log, "loads") || !strings.Contains(log, "want 1 to 1000000") {
			t.Errorf("--loads %s: exit code %d, %q", loads, code, log)
		}
	}
	if code, _, log := run("bench", "opf-swoop"); code != 2 || !strings.Contains(log, "kernels, opf, opf-sweep, dispatch") {
		t.Errorf("an unknown operation: exit code %d, %q", code, log)
	}
}

// Dispatches of a network are timed where a chain of exact optima goes: the exact solver beside
// the projection, each with what it found there.
func TestDispatchesOfANetwork(t *testing.T) {
	code, out, log := run("bench", "dispatch", "--network", "case9.m", "--network-loads", "envelope:0.8:1", "--seed", "991", "--time", "1ms", "--threads", "1", "--backend", "cpu", "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var r bench.Record
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ op, outcome string }{
		{"exact, cold", "60/60 optimal"}, {"exact, warm", "60/60 optimal"},
		{"projection of merit", "60/60 keep the limits, "}, {"projection of hold", "60/60 keep the limits, "}, {"projection of map", "60/60 keep the limits, "},
	} {
		if len(r.Results) <= i {
			t.Fatalf("%d rows: %s", len(r.Results), out)
		}
		if g := r.Results[i]; g.Op != "dispatch, "+want.op || g.Case != "opf:case9.m" || g.Size != "9 buses, envelope:0.8:1" || !strings.HasPrefix(g.Outcome, want.outcome) || g.Threads != 1 || !(g.P50 > 0 && g.CPU > 0) {
			t.Errorf("row %d: %+v, want %v", i, g, want)
		}
	}
	if r.Load == nil {
		t.Error("the record does not say the machine's load")
	}
	for says, args := range map[string][]string{
		"none.m":                                 {"--network", "none.m"},
		"storm":                                  {"--network", "case9.m", "--network-loads", "storm"},
		"no optimum follows from the one before": {"--network", "case9.m", "--network-loads", "envelope:9:9"},
	} {
		if code, _, log := run(append([]string{"bench", "dispatch", "--backend", "cpu"}, args...)...); code != 2 || !strings.Contains(log, says) {
			t.Errorf("%v: exit code %d: %s", args, code, log)
		}
	}
}

// Percentages of any size have two digits.
func TestSignificant(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.000312: "0.00031", 0.0023: "0.0023", 0.47: "0.47", 3.26: "3.3", 1234: "1234", -0.0123: "-0.012"} {
		if got := significant(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

// The cost of a solve is measured along networks that have so many buses.
func TestAxisOfBuses(t *testing.T) {
	axis := Axes()[0]
	for _, buses := range axis.Values {
		net, err := openNetwork(networksBySize[buses])
		if err != nil || net.Buses() != buses {
			t.Errorf("%s has %d buses, not %d: %v", networksBySize[buses], net.Buses(), buses, err)
		}
	}
	us, flops, err := axis.Measure(t.Context(), &bench.Runner{}, 9)
	if err != nil || len(us) == 0 || !(flops > 0) {
		t.Errorf("%d times, %v FLOP, %v", len(us), flops, err)
	}
}
