package command

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type optimalFlowOutput struct {
	Status     string
	Objective  *float64
	Iterations int
	WallMS     float64  `json:"wall_ms"`
	Mismatch   *float64 `json:"max_mismatch_pu"`
	J          []float64
	Bus        []struct {
		ID     int
		Vm, Va float64
		Pd     float64
		Price  float64
	}
	Binding []struct {
		limitOutput
		Multiplier float64
	}
	Why *struct {
		Status    string
		Cost      *float64
		Shortfall *float64 `json:"shortfall_mw"`
		Limits    []struct {
			limitOutput
			By float64
		}
	}
	dispatchOutput
}

// limitOutput is what others read of a limit.
type limitOutput struct {
	Limit                      string
	Bus, Gen, Branch, From, To int
	End, Unit                  string
	Value, Bound               float64
}

// dispatchOutput is what others read of units and branches.
type dispatchOutput struct {
	Gen []struct {
		Bus    int
		Pg, Qg float64
	}
	Branch []struct {
		From, To int
		Sf       float64  `json:"sf_mva"`
		St       float64  `json:"st_mva"`
		Rate     *float64 `json:"rate_mva"`
	}
}

func runOptimalFlowJSON(t *testing.T, want int, args ...string) optimalFlowOutput {
	t.Helper()
	code, out, log := run(append([]string{"opf", "--json"}, args...)...)
	if code != want {
		t.Fatalf("opf %v: exit code %d, want %d: %s", args, code, want, log)
	}
	var r optimalFlowOutput
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOptimalFlowAsJSON: the keys others rely on, MATPOWER's optimum, limits
// kept in the file's units.
func TestOptimalFlowAsJSON(t *testing.T) {
	r := runOptimalFlowJSON(t, 0, "case30")
	if r.Status != "optimal" || r.Objective == nil || math.Abs(*r.Objective-576.8923) > 5e-4 || r.Iterations < 3 || r.WallMS <= 0 ||
		r.Mismatch == nil || *r.Mismatch > 1e-8 || len(r.Bus) != 30 || len(r.Gen) != 6 || len(r.Branch) != 41 || len(r.J) != 3 {
		t.Fatalf("result %+v", r)
	}
	for _, b := range r.Branch {
		if b.Rate != nil && max(b.Sf, b.St) > *b.Rate+1e-4 {
			t.Errorf("branch %d–%d carries %g and %g MVA of %g", b.From, b.To, b.Sf, b.St, *b.Rate)
		}
	}
	for _, b := range r.Bus {
		if b.Vm < 0.95-1e-8 || b.Vm > 1.1+1e-8 || b.Price < 3 || b.Price > 10 {
			t.Errorf("bus %+v", b)
		}
	}
}

func TestOptimalFlowWithoutAnOptimum(t *testing.T) {
	r := runOptimalFlowJSON(t, 1, "case30", "--scale", "1.2")
	if r.Status != "infeasible" || r.Objective != nil || r.Bus == nil || len(r.Bus) != 0 {
		t.Errorf("result %+v", r)
	}
	if r := runOptimalFlowJSON(t, 1, "case30", "--scale", "1.2", "--weights", "0.2,0.3,0.5"); r.Status != "infeasible" {
		t.Errorf("with weights: %+v", r)
	}
	if r := runOptimalFlowJSON(t, 1, "case30", "--max-iterations", "2"); r.Status != "iteration limit" {
		t.Errorf("two iterations: %+v", r)
	}
}

// TestOptimalFlowOfWeights: more weight on a penalty lowers it and raises cost.
func TestOptimalFlowOfWeights(t *testing.T) {
	economic := runOptimalFlowJSON(t, 0, "case30", "--weights", "0,0,1")
	thermal := runOptimalFlowJSON(t, 0, "case30", "--weights", "0.9,0,0.1")
	voltage := runOptimalFlowJSON(t, 0, "case30", "--weights", "0,0.9,0.1")
	if !(thermal.J[0] < 0.5*economic.J[0] && thermal.J[2] > economic.J[2]) {
		t.Errorf("thermal weights give %v, economic ones %v", thermal.J, economic.J)
	}
	if !(voltage.J[1] < 0.5*economic.J[1] && voltage.J[2] > economic.J[2]) {
		t.Errorf("voltage weights give %v, economic ones %v", voltage.J, economic.J)
	}
}

func TestOptimalFlowBadInput(t *testing.T) {
	for want, args := range map[string][]string{
		"--scale -1":                           {"case30", "--scale", "-1"},
		"--weights":                            {"case30", "--weights", "1,2"},
		"--feasibility 0: want a number above": {"case30", "--feasibility", "0"},
		"takes one argument, got 0":            {},
		"no embedded case":                     {"nothing.m"},
		"Optimality 2":                         {"case30", "--optimality", "2"},
		"--max-iterations -3: want 0 to 10000": {"case30", "--max-iterations", "-3"},
		`--scale "much": want a number`:        {"case30", "--scale", "much"},
	} {
		code, _, log := run(append([]string{"opf"}, args...)...)
		if code != 2 || !strings.Contains(log, want) {
			t.Errorf("opf %v: exit code %d, %q; want 2 and %q", args, code, log, want)
		}
	}
}

// A weighted optimum is a table of its objectives: weight, value, ideal and nadir of each.
func TestWeightedFlowAsText(t *testing.T) {
	_, out, _ := run("opf", "case39", "--weights", "0.2,0.3,0.5")
	for _, want := range []string{"least (ideal)", "thermal penalty     0.2", "voltage penalty     0.3", "cost                0.5", "41864.1778"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestOptimalFlowAsText(t *testing.T) {
	code, out, log := run("opf", "case14")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	for _, want := range []string{"optimal after", "objective 8081.52", "loss ", "unit  bus", "branch  from", "unit 4 at bus 6", "loaded %"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A flag of another command, several networks and a folder name the command that has them.
func TestOtherCommandsAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"opf has no --secure; `gpc opf secure` is":    {"opf", "case30", "--secure", "--outages", "branches"},
		"opf has no --loads; `gpc opf series` is":     {"opf", "case30", "--loads", "day.csv"},
		"series has no --record; `gpc opf batch` is":  {"opf", "series", "case30", "--record", "r.json"},
		"pf has no --outages; `gpc pf outages` is":    {"pf", "case30", "--outages", "all"},
		"of several, or of a folder, is `gpc opf bat": {"opf", "case9", "case14"},
		"takes one network":                           {"opf", t.TempDir()},
		"unknown flag: --scal; did you mean --scale?": {"opf", "case30", "--scal", "2"},
	} {
		if code, _, log := run(args...); code != 2 || !strings.Contains(log, want) {
			t.Errorf("%v: exit code %d, %q; want 2 and %q", args, code, log, want)
		}
	}
}

// Soft limits give at their price, in the case's units, as IPOPT has it (package acopf).
func TestSoftLimits(t *testing.T) {
	var r struct {
		optimalFlowOutput
		Soft []struct {
			limitOutput
			By float64
		}
	}
	code, out, log := run("opf", "case9", "--scale", "2.3", "--soft", "rating=1000,voltage=1e6,generation=5000", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d: %v, %s", code, err, log)
	}
	if math.Abs(*r.Objective-22904.31383-66325.119) > 0.02 || len(r.Soft) != 2 || r.Soft[0].Limit != "rating" || r.Soft[0].Branch != 1 || math.Abs(r.Soft[0].By-35.449) > 1e-3 {
		t.Errorf("objective %v, %+v", *r.Objective, r.Soft)
	}
	// A price a limit, by IPOPT too; an infinite one keeps it hard, and kinds give way to single limits.
	for arguments, want := range map[string]float64{
		"rating=1000,rating:1=3000,voltage=1e6,pmax=5000,qmax=800":                       22666.931862 + 107072.823901,
		"pmax:1=100,rating:1=inf,rating=1000,vmin=1e4,vmax=1e6,generation=5000,qmin=200": 22734.033106 + 105697.318041,
		"rating=1000,pmax:2=300,pmax=5000,vmin:5=2000":                                   22904.313815 + 66325.116255,
	} {
		code, out, log := run("opf", "case9", "--scale", "2.3", "--soft", arguments, "--json")
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || math.Abs(*r.Objective-want) > 0.02 {
			t.Errorf("--soft %s: exit code %d, %v, %s; want %v", arguments, code, *r.Objective, log, want)
		}
	}
	for _, arguments := range []string{"rating=-1", "rating=x", "ratings=1", "rating:10=1", "vmin:x=1", "pmax:0=1"} {
		if code, _, log := run("opf", "case9", "--soft", arguments); code != 2 || !strings.Contains(log, "--soft") {
			t.Errorf("--soft %s: exit code %d, %s", arguments, code, log)
		}
	}
	for _, flag := range [][]string{{"--weights", "0.2,0.3,0.5"}, {"--starts", "2"}} {
		if code, _, log := run(append([]string{"opf", "case9", "--soft", "rating=1000"}, flag...)...); code != 2 || !strings.Contains(log, "--soft takes no --weights and --starts") {
			t.Errorf("--soft with %v: exit code %d, %s", flag, code, log)
		}
	}
	if code, out, _ := run("opf", "case9", "--scale", "3", "--soft", "rating=1000", "--why=false"); code != 1 || !strings.Contains(out, "not soft") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// --controls makes settings variables. Those in steps are rounded, the case of --out has them, and its optimum and power flow are
// the same; a power flow refuses controls without a band.
func TestControlsOfAnOptimum(t *testing.T) {
	dir := t.TempDir()
	controls, solved, tables := filepath.Join(dir, "controls"), filepath.Join(dir, "solved.m"), filepath.Join(dir, "tables")
	if err := os.WriteFile(controls, []byte("tap 8 0.9 1.1 16\ntap 10 bus 6 1.05 1.055 0.9 1.1\nshift 9 -10 10\nshunt 9 0 40\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, log := run("opf", "case14", "--controls", controls, "--json", "--out", solved, "--csv", tables)
	if code != 0 {
		t.Fatal(log)
	}
	var y struct {
		optimalFlowOutput
		Controls []struct {
			Setting, Value float64
			Keeps          bool
		}
		Continuous float64 `json:"continuous_objective"`
	}
	if err := json.Unmarshal([]byte(out), &y); err != nil || len(y.Controls) != 4 {
		t.Fatal(err, out)
	}
	if tap := y.Controls[0].Setting; math.Abs(tap-0.975) > 1e-12 || y.Controls[1].Keeps || math.Abs(y.Controls[1].Value-1.06) > 1e-6 || !y.Controls[3].Keeps {
		t.Errorf("%+v", y.Controls)
	}
	if d := *y.Objective - y.Continuous; !(d > 1e-5 && d < 1) {
		t.Errorf("%.8g $/h with rounded settings, %.8g before", *y.Objective, y.Continuous)
	}
	var file optimalFlowOutput
	if code, out, log = run("opf", solved, "--json"); code != 0 || json.Unmarshal([]byte(out), &file) != nil || math.Abs(*file.Objective-*y.Objective) > 1e-7**y.Objective {
		t.Errorf("the case with these settings: %s%s", log, out)
	}
	var flow optimalFlowOutput
	if code, out, log = run("pf", solved, "--json"); code != 0 || json.Unmarshal([]byte(out), &flow) != nil {
		t.Fatal(log)
	}
	for i, b := range flow.Bus {
		if math.Abs(b.Vm-y.Bus[i].Vm) > 1e-7 {
			t.Errorf("bus %d: %v pu by the power flow of --out, %v at the optimum", b.ID, b.Vm, y.Bus[i].Vm)
		}
	}
	if text, err := os.ReadFile(filepath.Join(tables, "branch.csv")); err != nil || !strings.Contains(string(text), "ratio,shift_deg,") {
		t.Error(err, string(text))
	}
	if code, out, log := run("opf", "case14", "--controls", controls, "--soft", "voltage=1e5", "--scale", "1.02"); code != 0 || !strings.Contains(out, "least") {
		t.Error(code, log, out)
	}
	if code, _, log := run("pf", "case14", "--controls", controls); code != 2 || !strings.Contains(log, "control 1, tap: a power flow needs a band") {
		t.Error(code, log)
	}
	if code, _, log := run("opf", "secure", "case14", "--controls", controls); code != 2 || !strings.Contains(log, "controls") {
		t.Error(code, log)
	}
}
