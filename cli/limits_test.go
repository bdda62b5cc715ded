package cli

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// commands are all commands of a program, with their names behind the program's.
func commands(app *App) map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if _, name, ok := strings.Cut(c.CommandPath(), " "); ok {
			all[name] = c
		}
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	app.Name = "gpc"
	add(app.root())
	return all
}

func TestEveryFlagThatCountsHasALimit(t *testing.T) {
	app, _ := cart(t)
	used := map[string]bool{"max-iterations": true} // of the networks' commands
	for name, c := range commands(app) {
		c.Flags().AddFlagSet(c.InheritedFlags())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			own := name + " " + f.Name
			switch f.Value.Type() {
			case "int", "intSlice", countOrMeasured:
				if _, ok := limits[own]; ok {
					used[own] = true
				} else if _, ok := limits[f.Name]; ok {
					used[f.Name] = true
				} else {
					t.Errorf("gpc %s --%s has no limit", name, f.Name)
				}
			case "duration":
				if _, ok := longest[own]; !ok {
					t.Errorf("gpc %s --%s has no limit", name, f.Name)
				}
			}
		})
	}
	for name := range limits {
		if !used[name] {
			t.Errorf("there is no flag %s", name)
		}
	}
}

func TestBeyondALimitIsRefusedWithFlagValueAndLimit(t *testing.T) {
	app, _ := cart(t)
	for line, says := range map[string]string{
		"cases --threads 1025":               "--threads 1025: want 0 to 1024",
		"cases --threads -1":                 "--threads -1: want 0 to 1024",
		"eval cart --episodes 10000001":      "--episodes 10000001: want 1 to 10000000",
		"eval pair cart --parallel 0":        "--parallel 0: want 1 to 1024",
		"refine cart --flow-steps 1001":      "--flow-steps 1001: want 0 to 1000",
		"refine cart --look-ahead 10001":     "--look-ahead 10001: want 0 to 10000",
		"refine cart --candidates 2000000":   "--candidates 2000000: want 1 to 1048576",
		"refine cart --repeat 0":             "--repeat 0: want 1 to 1000000",
		"refine cart --within -1s":           "--within -1s: want 0 to 1h0m0s",
		"bench gemm --batch 1,0":             "--batch 0: want 1 to 1048576",
		"bench --time 2h":                    "--time 2h0m0s: want 0 to 1h0m0s",
		"train cart --epochs -1":             "--epochs -1: want 0 to 1000000",
		"train cart --codes 1000001":         "--codes 1000001: want at most 1000000",
		"serve cart --waiting 0":             "--waiting 0: want 1 to 1048576",
		"steer cart --divisions 1001":        "--divisions 1001: want 1 to 1000",
		"dataset cart --scenarios 10000001":  "--scenarios 10000001: want 1 to 10000000",
		"export cart --records 65537":        "--records 65537: want 1 to 65536",
		"compile cart --rounds 1001 --out m": "--rounds 1001: want 0 to 1000",
	} {
		refused(t, app, says, strings.Fields(line)...)
	}
}

// A number that is none is null in what any command prints.
func TestNoNumberIsNullInJSON(t *testing.T) {
	app, _ := cart(t)
	app.Commands = []func(*App) *cobra.Command{func(a *App) *cobra.Command {
		return &cobra.Command{Use: "none", RunE: func(*cobra.Command, []string) error {
			return a.Print(&batchnav.Refinement{Cost: math.Inf(1), Sigma: []float64{math.NaN(), 0.5}}, nil)
		}}
	}}
	code, out, log := run(app, "none", "--json")
	var result struct {
		Cost  *float64
		Sigma []*float64
	}
	require.OK(t, json.Unmarshal([]byte(out), &result))
	if code != 0 || result.Cost != nil || len(result.Sigma) != 2 || result.Sigma[0] != nil || *result.Sigma[1] != 0.5 {
		t.Errorf("exit code %d, %s%s", code, out, log)
	}
}

// Whatever is typed ends without a panic and with an exit code that means something.
func FuzzArguments(f *testing.F) {
	for _, line := range []string{
		"cases", "methods cart --group own", "eval cart --episodes 1", "refine cart --candidates 4 --state -", "dataset cart --scenarios 1 --out d",
		"train cart --data d --out m --epochs 1", "steer cart --divisions 2", "bench gemm --batch 1,2 --time 1ms", "new crane --name crane", "compile cart --out m --target 1%",
		"export m --c c", "verify t", "eval pair cart --methods direct:1,gpc", "dataset merge a b --out c", "scene cart --out s", "eval cart --scene s", "mcap t m", "--help", "eval --shard 1/2", "completion bash",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "/\\~\x00") || strings.Contains(line, "..") {
			t.Skip("only what stays in this test's folder")
		}
		app, _ := cart(t)
		t.Chdir(t.TempDir())
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		a := *app
		a.Stdin, a.Stdout, a.Stderr = strings.NewReader(""), &strings.Builder{}, &strings.Builder{}
		if code := a.Run(ctx, strings.Fields(line)); code < 0 || code > 2 {
			t.Errorf("exit code %d", code)
		}
	})
}
