package cli

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

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
	if code, out, log := run(app, "bench", "compare", before, same, "--max-regression", "5%"); code != 0 || strings.Contains(out, "REGRESSION") || !strings.Contains(out, "× 1.000") || !strings.Contains(out, "~") {
		t.Errorf("with itself: exit code %d, %s%s", code, out, log)
	}
	dir := t.TempDir()
	table, figures := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "figures")
	code, out, log := run(app, "bench", "compare", before, slower, "--max-regression", "5%", "--csv", table, "--figures", figures)
	if code != 1 || strings.Count(out, "REGRESSION beyond 5 %") != 4 || !strings.Contains(out, "+100.0 %") || !strings.Contains(out, "× 2.000") {
		t.Errorf("half as fast: exit code %d, %s%s", code, out, log)
	}
	if code, out, _ := run(app, "bench", "compare", before, slower); code != 0 || !strings.Contains(out, "+100.0 %") {
		t.Errorf("without a limit: exit code %d, %s", code, out)
	}
	if code, out, _ := run(app, "bench", "compare", slower, before, "--max-regression", "0"); code != 0 || !strings.Contains(out, "-50.0 %") {
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
	_, out, _ = run(app, "bench", "compare", before, slower, "--json")
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

// What cannot be compared, kept or measured ends with exit code 2 and what it is.
func TestBenchRefuses(t *testing.T) {
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
		"two records":                   {"bench", "compare", good},
		"results[0].p50_us: -2":         {"bench", "compare", good, bad},
		"nowhere.json":                  {"bench", "compare", good, filepath.Join(dir, "nowhere.json")},
		"results is missing":            {"bench", "compare", write("empty.json", `{}`), good},
		"--max-regression":              {"bench", "compare", good, good, "--max-regression", "much"},
		"--max-regression NaN%":         {"bench", "compare", good, good, "--max-regression", "NaN"},
		"--max-regression -1%":          {"bench", "compare", good, good, "--max-regression", "-1%"},
		"--csv":                         {"bench", "compare", good, good, "--csv", good},
		"--case is required":            {"bench", "deadline"},
		`unknown case "boat"`:           {"bench", "deadline", "--case", "boat"},
		"a rate of 0":                   {"bench", "deadline", "--case", "cart", "--model", file, "--rate", "0"},
		"--for 25h0m0s: want 0 to":      {"bench", "deadline", "--case", "cart", "--model", file, "--for", "25h"},
		"--episodes 0":                  {"bench", "deadline", "--case", "cart", "--model", file, "--episodes", "0"},
		"magic":                         {"bench", "deadline", "--case", "cart", "--model", file, "--method", "magic"},
		"--out is required":             {"bench", "scaling"},
		"--axes hope (want some of bat": {"bench", "scaling", "--out", dir, "--axes", "hope"},
	} {
		refused(t, app, says, args...)
	}
}

func read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

// A loop of a map's decisions: as many as the rate and the time say, each of them the recorded
// one.
func TestBenchDeadline(t *testing.T) {
	app, file := cart(t)
	figures := filepath.Join(t.TempDir(), "figures")
	code, out, log := run(app, "bench", "deadline", "--case", "cart", "--model", file, "--rate", "500", "--for", "100ms", "--figures", figures, "--json")
	var d bench.Deadlines
	require.OK(t, json.Unmarshal([]byte(out), &d))
	if code != 0 || d.Releases != 50 || d.Decisions+d.Skipped != 50 || d.Differing != 0 || d.Method != "navigator" || d.Threads != 1 || !(d.Response.P50 > 0) || d.Command == "" {
		t.Errorf("exit code %d, %s, %s", code, out, log)
	}
	if info, err := os.Stat(filepath.Join(figures, "deadline-cart-navigator.svg")); err != nil || info.Size() == 0 {
		t.Error("no histogram")
	}
	if code, out, log := run(app, "bench", "deadline", "--case", "cart", "--method", "hold", "--rate", "500", "--for", "50ms", "--deadline", "1ms"); code != 0 || !strings.Contains(out, "deadline 1000 µs") || !strings.Contains(out, "release jitter") || !strings.Contains(out, "deadlines missed") {
		t.Errorf("exit code %d, %s, %s", code, out, log)
	}
}

// The record of some axes can be read again.
func TestBenchScaling(t *testing.T) {
	app, _ := cart(t)
	dir := filepath.Join(t.TempDir(), "record")
	figures := filepath.Join(dir, "figures")
	code, out, log := run(app, "bench", "scaling", "--out", dir, "--axes", "n_z", "--time", "1ms", "--threads", "1", "--figures", figures)
	if code != 0 || !strings.Contains(out, "n_z") || strings.Contains(out, "codes") {
		t.Fatalf("exit code %d, %s, %s", code, out, log)
	}
	var s bench.Scaling
	require.OK(t, json.Unmarshal([]byte(require.Get(read(filepath.Join(dir, "scaling.json")))(t)), &s))
	require.OK(t, s.Validate())
	if len(s.Curves) != 1 || s.Curves[0].Axis != "n_z" || s.Device == "" || s.Threads != 1 || !(s.Peak > 0) {
		t.Errorf("%+v", s)
	}
	if info, err := os.Stat(filepath.Join(figures, "scaling-n_z.svg")); err != nil || info.Size() == 0 {
		t.Error("no figure")
	}
}
