package command

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower/cases"

	"github.com/gpc-engine/gpc/grid/results"
)

// TestPowerFlowAsJSON: the keys others rely on, in the file's units, with the
// balance of the whole network closed.
func TestPowerFlowAsJSON(t *testing.T) {
	code, out, log := run("pf", "case14", "--json", "--flat")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var r struct {
		Converged  bool    `json:"converged"`
		Iterations int     `json:"iterations"`
		Mismatch   float64 `json:"max_mismatch_pu"`
		Loss       float64 `json:"loss_mw"`
		Bus        []struct {
			ID     int     `json:"id"`
			Vm, Va float64 `json:",omitempty"`
			Pd     float64 `json:"pd"`
		} `json:"bus"`
		dispatchOutput
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !r.Converged || r.Iterations < 2 || r.Mismatch > 1e-9 || len(r.Bus) != 14 || len(r.Gen) != 5 || len(r.Branch) != 20 {
		t.Fatalf("result %+v", r)
	}
	balance := -r.Loss
	for _, b := range r.Bus {
		balance -= b.Pd
	}
	for _, g := range r.Gen {
		balance += g.Pg
	}
	if math.Abs(balance) > 1e-6 {
		t.Errorf("%g MW are left over", balance)
	}
	// The published solution of the IEEE case: 232.4 MW at bus 1, −16.04° at bus 14.
	if math.Abs(r.Gen[0].Pg-232.4) > 0.1 || math.Abs(r.Bus[13].Va+16.04) > 0.05 || math.Abs(r.Branch[0].Sf-158.2) > 0.1 || r.Branch[0].Rate != nil {
		t.Errorf("bus 1 generates %g MW, bus 14 is at %g°, branch 1 carries %g MVA", r.Gen[0].Pg, r.Bus[13].Va, r.Branch[0].Sf)
	}
}

// TestPowerFlowOfAFile and of standard input give what the embedded case does.
func TestPowerFlowOfAFile(t *testing.T) {
	text, err := cases.Text("case30")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mine.m")
	if err := os.WriteFile(file, append(text, "mpc.bus_name = {'a'};\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, log := run("pf", file)
	if code != 0 || !strings.Contains(log, "not used: bus_name") {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var stdin bytes.Buffer
	a := program()
	a.Stdin, a.Stdout, a.Stderr = bytes.NewReader(text), &stdin, &stdin
	if code := a.Run(context.Background(), []string{"pf", "-"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, stdin.String())
	}
	_, embedded, _ := run("pf", "case30")
	rest := func(s string) string { return s[strings.Index(s, "\n"):] } // the first line has the time
	if rest(out) != rest(embedded) || rest(stdin.String()) != rest(embedded) {
		t.Errorf("file, standard input and embedded case differ:\n%s\n%s\n%s", out, stdin.String(), embedded)
	}
	if lines := strings.Split(embedded, "\n"); len(lines) < 30+6+41 || !strings.Contains(embedded, "loaded %") {
		t.Errorf("tables:\n%s", embedded)
	}
}

// A power flow keeps no limit by itself: what it breaks is listed, the rating of a branch at its heavier end.
func TestPowerFlowNamesTheLimitsItBreaks(t *testing.T) {
	code, out, log := run("pf", "case30", "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var r results.PowerFlow
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Violations) != 1 {
		t.Fatalf("broken are %+v", r.Violations)
	}
	l, b := r.Violations[0], r.Branch[9]
	if l.Kind != "rating" || l.Limit.Branch != 10 || b.Branch != 10 || l.End != "from" || math.Abs(l.Value-b.Sf) > 1e-9 || math.Abs(l.Excess-(b.Sf-32)) > 1e-9 {
		t.Errorf("broken is %+v, branch %+v", l, b)
	}
	_, text, _ := run("pf", "case30")
	if !strings.Contains(text, "broken limit  at") || !strings.Contains(text, "branch 10 from bus 6 to bus 8, from end") {
		t.Errorf("tables:\n%s", text)
	}
	if _, out, _ = run("pf", "case9", "--json"); !strings.Contains(out, `"violations":[]`) {
		t.Errorf("case9 breaks a limit: %s", out)
	}
	if _, out, _ = run("pf", "case118", "--json"); !strings.Contains(out, `"limit":"qmin"`) {
		t.Error("no unit beyond its reactive limits in case118 where they are not held")
	}
}

// TestPowerFlowExitCodes: 1 with a reason where there is no solution, 2 where
// the input is bad, with its line.
func TestPowerFlowExitCodes(t *testing.T) {
	code, out, _ := run("pf", "case30", "--scale", "5", "--json")
	var r map[string]any
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 || r["converged"] != false || len(r["bus"].([]any)) != 0 || r["reason"] == "" {
		t.Errorf("five times the load: exit code %d, %v, %s", code, err, out)
	}
	bad := filepath.Join(t.TempDir(), "bad.m")
	if err := os.WriteFile(bad, []byte("function mpc = bad\nmpc.version = '1';\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"pf", bad}, "bad.m:2: this is a version 1 case file"},
		{[]string{"pf", "case30.m"}, "give its name alone: case30"},
		{[]string{"pf", "nothing"}, "there are case9"},
		{[]string{"pf"}, "usage: gpc pf FILE.m"},
		{[]string{"pf", "case9", "--scale", "-1"}, "--scale -1"},
		{[]string{"pf", "case9", "--tolerance", "-1"}, "tolerance -1"},
		{[]string{"pf", "case9", "--tolerance", "0"}, "--tolerance 0: want a number above 0"},
		{[]string{"pf", "case9", "--max-iterations", "-1"}, "--max-iterations -1: want 0 to 10000"},
		{[]string{"pf", t.TempDir()}, "directory"},
	} {
		code, out, log := run(c.args...)
		if code != 2 || out != "" || !strings.Contains(log, c.want) {
			t.Errorf("%v: exit code %d, %q, want %q", c.args, code, log, c.want)
		}
	}
}

// TestPowerFlowHoldsReactiveLimits where it is asked to.
func TestPowerFlowHoldsReactiveLimits(t *testing.T) {
	_, out, _ := run("pf", "case118", "--json", "--enforce-q")
	if strings.Count(out, `"q_limit":"m`) < 3 {
		t.Errorf("few buses at a limit: %.300s", out)
	}
	if _, out, _ = run("pf", "case118", "--json"); strings.Contains(out, `"q_limit":"m`) {
		t.Error("limits are held without being asked for")
	}
}

// shiftedCase has two transformers of a vector group with 150° side by side, and equal angles.
const shiftedCase = `function mpc = shifted
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
1 3 0 0 0 0 1 1.02 0 110 1 1.1 0.9;
2 2 21.7 12.7 0 0 1 1.01 0 110 1 1.1 0.9;
3 1 44.2 19 0 12 1 1 0 110 1 1.1 0.9;
4 1 37.8 6.1 0 0 1 1 0 110 1 1.1 0.9;
5 1 27.6 1.6 0 0 1 1 0 110 1 1.1 0.9;
6 2 11.2 7.5 0 0 1 1.02 0 110 1 1.1 0.9
];
mpc.gen = [
1 40 0 90 -60 1.02 100 1 180 0;
2 60 0 60 -40 1.01 100 1 100 10;
6 30 0 40 -20 1.02 100 1 70 5
];
mpc.branch = [
1 2 0.019 0.059 0.053 130 0 0 0 0 1 -360 360;
1 5 0.054 0.223 0.049 130 0 0 0 0 1 -360 360;
2 3 0.047 0.198 0.044 65 0 0 0 0 1 -360 360;
2 4 0.058 0.176 0.034 65 0 0 0 0 1 -360 360;
2 5 0.057 0.174 0.035 65 0 0 0 0 1 -360 360;
3 4 0.067 0.171 0.013 65 0 0 0 0 1 -360 360;
4 5 0.013 0.042 0 65 0 0 0 0 1 -360 360;
5 6 0 0.252 0 65 0 0 0.97 150 1 -360 360;
4 6 0 0.3 0 65 0 0 0.98 150 1 -360 360
];
mpc.gencost = [
2 0 0 3 0.02 20 10;
2 0 0 3 0.03 25 0;
2 0 0 3 0.015 32 0
];
`

// Where the file's angles are equal, or with --flat, the start follows the phase shifts: MATPOWER's solution from the angles of
// its linear power flow. From other angles Newton's method ends at a low-voltage solution, and the remark says so.
func TestAStartBehindAVectorGroup(t *testing.T) {
	solve := func(text string, args ...string) (r results.PowerFlow, table string) {
		path := filepath.Join(t.TempDir(), "shifted.m")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, log := run(append([]string{"pf", path, "--json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || !r.Converged {
			t.Fatalf("exit code %d, %v: %s", code, err, log)
		}
		_, table, _ = run(append([]string{"pf", path}, args...)...)
		return r, table
	}
	other := strings.Replace(shiftedCase, "4 1 37.8 6.1 0 0 1 1 0", "4 1 37.8 6.1 0 0 1 1 0.001", 1)
	for _, c := range []struct {
		text string
		args []string
		low  bool
	}{{shiftedCase, nil, false}, {shiftedCase, []string{"--flat"}, false}, {other, []string{"--flat"}, false}, {other, nil, true}} {
		r, table := solve(c.text, c.args...)
		if usual := math.Abs(r.Bus[3].Vm-0.9954) < 1e-4 && math.Abs(*r.LossMW-1.536) < 1e-3; usual == c.low {
			t.Errorf("%v: %g pu at bus 4, a loss of %g MW", c.args, r.Bus[3].Vm, *r.LossMW)
		}
		if says := "remark: the voltage of bus 4 is 0.386 pu"; (r.Remark != "") != c.low || strings.Contains(table, says) != c.low {
			t.Errorf("%v: remark %q in\n%s", c.args, r.Remark, table)
		}
	}
}

// With --participation units share what the reference takes up otherwise.
func TestParticipationInAPowerFlow(t *testing.T) {
	sum := map[string]float64{}
	for _, how := range []string{"", "pmax", "headroom"} {
		var r struct{ dispatchOutput }
		code, out, log := run("pf", "case39", "--scale", "1.01", "--json", "--participation="+how)
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
			t.Fatalf("exit code %d: %v, %s", code, err, log)
		}
		sum[how] = r.Gen[1].Pg // unit 2, at the reference
	}
	if code, _, log := run("pf", "case9", "--participation", "pmin"); code != 2 || !strings.Contains(log, "want range, pmax, equal or a file of lines such as \"unit 2 0.4\", or headroom") {
		t.Errorf("exit code %d: %s", code, log)
	}
	if !(sum["pmax"] < sum[""]-30 && sum["headroom"] < sum[""]-30) {
		t.Errorf("the reference gives %v", sum)
	}
	if code, _, log := run("pf", "case39", "--participation", "most"); code != 2 || !strings.Contains(log, "--participation") {
		t.Errorf("exit code %d: %s", code, log)
	}
}

// --controls keeps bands, and --out has the settings.
func TestControls(t *testing.T) {
	dir := t.TempDir()
	controls, solved := filepath.Join(dir, "controls"), filepath.Join(dir, "solved.m")
	if err := os.WriteFile(controls, []byte("tap 9 bus 9 1.04 1.045 0.85 1.15\nshift 8 flow 32 33 -20 20 # MW\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, log := run("pf", "case14", "--controls", controls, "--out", solved)
	if code != 0 || strings.Count(out, "yes") != 2 {
		t.Fatalf("exit code %d: %s%s", code, out, log)
	}
	var r results.PowerFlow
	code, out, log = run("pf", solved, "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d: %v, %s", code, err, log)
	}
	if v, f := r.Bus[8].Vm, r.Branch[7].Pf; v < 1.04-1e-5 || v > 1.045+1e-5 || f < 32-1e-3 || f > 33+1e-3 {
		t.Errorf("%v pu and %v MW with the settings of --out", v, f)
	}
	if code, _, log := run("pf", "case14", "--controls", solved); code != 2 || !strings.Contains(log, "--controls") {
		t.Errorf("exit code %d: %s", code, log)
	}
}

// What a PSS/E file regulates is kept with --controls file: the voltages of two taps and the flow of a phase shifter; a file
// without any is refused, and convert writes the lines.
func TestControlsOfTheFile(t *testing.T) {
	code, out, log := run("pf", "../formats/testdata/controls.raw", "--controls", "file", "--json")
	var r results.PowerFlow
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || len(r.Controls) != 6 {
		t.Fatalf("exit code %d, %v, %s", code, err, log)
	}
	for k, c := range r.Controls {
		if c.Keeps != (k < 3) || c.Keeps && (c.Value < c.Low-1e-5 || c.Value > c.High+1e-5) {
			t.Errorf("%+v", c)
		}
	}
	if p := r.Branch[3].Pf; p < 30-1e-3 || p > 32+1e-3 || r.Bus[2].Vm > 1.00001 {
		t.Errorf("%v MW through the phase shifter, %v pu at bus 3", p, r.Bus[2].Vm)
	}
	if code, _, log := run("pf", "case9", "--controls", "file"); code != 2 || !strings.Contains(log, "give a FILE of lines") {
		t.Errorf("exit code %d: %s", code, log)
	}
	dir := t.TempDir()
	if code, _, log := run("pf", "convert", "../formats/testdata/controls.raw", "--csv", dir); code != 0 {
		t.Fatal(log)
	}
	code, lines, log := run("pf", "../formats/testdata/controls.raw", "--controls", filepath.Join(dir, "controls.txt"), "--json")
	var same results.PowerFlow
	if err := json.Unmarshal([]byte(lines), &same); err != nil || code != 0 || same.Controls[0] != r.Controls[0] {
		t.Errorf("exit code %d, %v, %s: %+v", code, err, log, same.Controls)
	}
}
