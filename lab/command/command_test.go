package command

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

// cart is the laboratory's program with one case whose map is exact by construction, written to a model file.
func cart(t *testing.T) (*cli.App, string) {
	t.Helper()
	p := testdomain.NewCart(8)
	solver := require.Get(ocp.New(p, testdomain.Starts, testdomain.Start, ocp.Options{}))(t)
	file := filepath.Join(t.TempDir(), "cart.safetensors")
	require.OK(t, testdomain.Map(p, 9, true).WriteFile(file))
	return &cli.App{
		Catalogue:  gpc.Catalogue{Cases: []domain.Case{{Problem: p, Solver: solver, Plant: closedloop.Simulated(p, testdomain.Starts, testdomain.Start)}}},
		Commands:   []func(*cli.App) *cobra.Command{Demo, Report, Compare, Certify},
		Operations: Operations(), Benchmarks: []func(*cli.App) *cobra.Command{Deadline, Scaling},
	}, file
}

// run executes a command line and returns exit code, stdout and stderr.
func run(app *cli.App, args ...string) (int, string, string) {
	var out, log bytes.Buffer
	a := *app
	a.Stdout, a.Stderr, a.Stdin = &out, &log, strings.NewReader("")
	code := a.Run(context.Background(), args)
	return code, out.String(), log.String()
}

func read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

// recordOf writes what gpc bench printed, with the time of every row times a factor.
func recordOf(t *testing.T, printed, name string, factor float64) string {
	t.Helper()
	var r bench.Record
	require.OK(t, json.Unmarshal([]byte(printed), &r))
	for i := range r.Results {
		row := &r.Results[i]
		row.P50 *= factor
		for j := range row.Latencies {
			row.Latencies[j] *= factor
		}
	}
	path := filepath.Join(t.TempDir(), name)
	require.OK(t, os.WriteFile(path, require.Get(json.Marshal(r))(t), 0o644))
	return path
}

// A record compared with itself has no change; one half as fast ends with exit code 1 and the
// rows, and its table and figures are written.
func TestBenchCompare(t *testing.T) {
	app, _ := cart(t)
	code, printed, log := run(app, "bench", "gemm", "step", "--case", "size:integrator", "--batch", "1,8", "--time", "10ms", "--threads", "1", "--backend", "cpu", "--json")
	if code != 0 {
		t.Fatalf("bench: exit code %d: %s", code, log)
	}
	before, same, slower := recordOf(t, printed, "before.json", 1), recordOf(t, printed, "same.json", 1), recordOf(t, printed, "slower.json", 2)
	if code, out, log := run(app, "compare", before, same, "--max-regression", "5%"); code != 0 || strings.Contains(out, "REGRESSION") || !strings.Contains(out, "× 1.000") || !strings.Contains(out, "~") {
		t.Errorf("with itself: exit code %d, %s%s", code, out, log)
	}
	dir := t.TempDir()
	table, figures := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "figures")
	code, out, log := run(app, "compare", before, slower, "--max-regression", "5%", "--csv", table, "--figures", figures)
	if code != 1 || strings.Count(out, "REGRESSION beyond 5 %") != 4 || !strings.Contains(out, "+100.0 %") || !strings.Contains(out, "× 2.000") {
		t.Errorf("half as fast: exit code %d, %s%s", code, out, log)
	}
	if code, out, _ := run(app, "compare", before, slower); code != 0 || !strings.Contains(out, "+100.0 %") {
		t.Errorf("without a limit: exit code %d, %s", code, out)
	}
	if code, out, _ := run(app, "compare", slower, before, "--max-regression", "0"); code != 0 || !strings.Contains(out, "-50.0 %") {
		t.Errorf("twice as fast: exit code %d, %s", code, out)
	}
	lines := require.Get(csv.NewReader(strings.NewReader(string(require.Get(os.ReadFile(table))(t)))).ReadAll())(t)
	if len(lines) != 1+4*2 || lines[0][0] != "op" || lines[2][18] != "2" {
		t.Errorf("the table is %q", lines)
	}
	for _, name := range []string{"roofline.svg", "roofline.png", "latency-gemm.svg", "latency-step-integrator.svg", "histogram-step-integrator.png"} {
		if info, err := os.Stat(filepath.Join(figures, name)); err != nil || info.Size() == 0 {
			t.Errorf("no %s", name)
		}
	}
	_, out, _ = run(app, "compare", before, slower, "--json")
	var c struct {
		Records []struct {
			Geomean *float64 `json:"geomean_ratio"`
		}
		Max *float64 `json:"max_regression_pct"`
	}
	require.OK(t, json.Unmarshal([]byte(out), &c))
	if len(c.Records) != 2 || c.Records[0].Geomean != nil || *c.Records[1].Geomean < 1.999 || c.Max != nil {
		t.Errorf("JSON %s", out)
	}
}

// What is wrong in a command line ends with exit code 2 and what it is, before any work.
func TestWrongInputIsNamed(t *testing.T) {
	app, file := cart(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	good := write("good.json", `{"device":"d","commit":"c","command":"gpc bench","results":[{"op":"step","case":"cart","batch":1,"p50_us":2,"calls":3}]}`)
	bad := write("bad.json", strings.Replace(require.Get(read(good))(t), `"p50_us":2`, `"p50_us":-2`, 1))
	for says, args := range map[string][]string{
		"two records":              {"compare", good},
		"results[0].p50_us: -2":    {"compare", good, bad},
		"nowhere.json":             {"compare", good, filepath.Join(dir, "nowhere.json")},
		"results is missing":       {"compare", write("empty.json", `{}`), good},
		"--max-regression":         {"compare", good, good + "2", "--max-regression", "much"},
		"--max-regression NaN%":    {"compare", good, good + "2", "--max-regression", "NaN"},
		"--max-regression -1%":     {"compare", good, good + "2", "--max-regression", "-1%"},
		"names " + good + " twice": {"compare", good, good},
		"--csv":                    {"compare", good, bad, "--csv", good},
		"no recorded runs":         {"report", "--results", t.TempDir(), "--out", dir + "/report"},
		"--out is required":        {"report"},
		"--recovery-steps 1000000: want 1 to 100000": {"certify", "cart", "--recovery-steps", "1000000"},
		"--scenarios 1: want 2 to 100000":            {"demo", "--scenarios", "1", "--out", dir + "/demo"},
		file:                                         {"demo", "--out", file},
	} {
		if code, _, log := run(app, args...); code != 2 || !strings.Contains(log, says) {
			t.Errorf("%q: exit code %d, %q; want 2 and %q", args, code, log, says)
		}
	}
}

// A certificate is one JSON object, and names the problem and the map that it is of.
func TestACertificateIsOneObject(t *testing.T) {
	app, file := cart(t)
	code, out, log := run(app, "certify", "cart", "--scenarios", "2", "--episodes", "1", "--recovery-steps", "3", "--model", file, "--json")
	var c struct {
		Problem string `json:"problem_sha256"`
		Model   string `json:"model_sha256"`
	}
	require.OK(t, json.Unmarshal([]byte(out), &c))
	if code != 0 || len(c.Problem) != 64 || len(c.Model) != 64 {
		t.Errorf("exit code %d, %s, %s", code, out, log)
	}
}

// The loop at a rate and the axes of costs have figures.
func TestBenchmarksAreDrawn(t *testing.T) {
	app, file := cart(t)
	figures := t.TempDir()
	if code, _, log := run(app, "bench", "deadline", "--case", "cart", "--model", file, "--rate", "500", "--for", "20ms", "--figures", figures); code != 0 {
		t.Errorf("exit code %d, %s", code, log)
	}
	if code, _, log := run(app, "bench", "scaling", "--out", t.TempDir(), "--axes", "n_z", "--time", "1ms", "--threads", "1", "--figures", figures); code != 0 {
		t.Errorf("exit code %d, %s", code, log)
	}
	for _, name := range []string{"deadline-cart-navigator.svg", "scaling-n_z.svg"} {
		if info, err := os.Stat(filepath.Join(figures, name)); err != nil || info.Size() == 0 {
			t.Errorf("no %s", name)
		}
	}
}

// A trace alone is a report: the case draws its episodes, or its time lines stand for them.
func TestATraceBecomesAReport(t *testing.T) {
	app, file := cart(t)
	runs, out := t.TempDir(), filepath.Join(t.TempDir(), "report")
	if code, _, log := run(app, "eval", "cart", "--method", "direct", "--episodes", "1", "--model", file, "--trace", filepath.Join(runs, "cart.jsonl")); code != 0 {
		t.Fatalf("eval: exit code %d: %s", code, log)
	}
	code, text, log := run(app, "report", "--results", runs, "--out", out)
	if code != 0 || !strings.Contains(text, "cart-direct-motion.svg") || !strings.Contains(text, "report.html") {
		t.Fatalf("report: exit code %d: %s%s", code, text, log)
	}
	info := require.Get(os.Stat(filepath.Join(out, "figures", "cart-direct-motion.svg")))(t)
	if info.Size() == 0 || info.Size() > 1<<20 {
		t.Errorf("the animation has %d bytes", info.Size())
	}
}
