package command

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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
	if code, _, log := run("bench", "opf-swoop"); code != 2 || !strings.Contains(log, "kernels, opf, opf-sweep") {
		t.Errorf("an unknown operation: exit code %d, %q", code, log)
	}
}

// TestFlagsOfOtherCommandsAreNotShown: networks are solved on the CPU, without random numbers.
func TestFlagsOfOtherCommandsAreNotShown(t *testing.T) {
	for _, line := range []string{"pf", "pf outages", "opf", "opf secure", "opf series", "opf batch"} {
		code, out, _ := run(append(strings.Fields(line), "-h")...)
		if code != 0 || !strings.Contains(out, "--threads") || !strings.Contains(out, "--json") {
			t.Errorf("%s -h: code %d, %s", line, code, out)
		}
		for _, flag := range []string{"--tf32", "--backend", "--device", "--seed"} {
			if strings.Contains(out, flag) {
				t.Errorf("%s -h shows %s", line, flag)
			}
		}
	}
	if _, out, _ := run("bench", "-h"); !strings.Contains(out, "--tf32") {
		t.Error("bench -h lacks --tf32")
	}
}
