package command

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// readCaseFile reads a file that was written.
func readCaseFile(t *testing.T, path string) *matpower.Case {
	t.Helper()
	f := require.Get(os.Open(path))(t)
	defer f.Close()
	return require.Get(matpower.Read(path, f))(t)
}

// column reads a column of a table of --csv.
func column(t *testing.T, path, name string) []float64 {
	t.Helper()
	f := require.Get(os.Open(path))(t)
	defer f.Close()
	rows := require.Get(csv.NewReader(f).ReadAll())(t)
	for k, title := range rows[0] {
		if title != name {
			continue
		}
		var out []float64
		for _, row := range rows[1:] {
			if row[k] == "" {
				out = append(out, math.NaN())
				continue
			}
			out = append(out, require.Get(strconv.ParseFloat(row[k], 64))(t))
		}
		return out
	}
	t.Fatalf("%s has no column %s, but %v", path, name, rows[0])
	return nil
}

// TestSolvedCase: what --out writes is the case with the optimum in MATPOWER's columns:
// balances close, multipliers stand at binding limits alone and are those of the JSON,
// the tables say the same, and the case itself is as it was.
func TestSolvedCase(t *testing.T) {
	dir := t.TempDir()
	path, tables := filepath.Join(dir, "solved case.m"), filepath.Join(dir, "tables")
	r := runOptimalFlowJSON(t, 0, "case30", "--out", path, "--csv", tables)
	c, before := readCaseFile(t, path), require.Get(cases.Read("case30"))(t)
	if c.Name != "solved_case" || !c.HasFlows || !c.HasMultipliers || len(c.Bus) != 30 {
		t.Fatalf("case %s with %d buses, flows %v, multipliers %v", c.Name, len(c.Bus), c.HasFlows, c.HasMultipliers)
	}
	p, q := map[int]float64{}, map[int]float64{}
	for i, b := range c.Bus {
		was := before.Bus[i]
		if b.Pd != was.Pd || b.Qd != was.Qd || b.VMax != was.VMax || b.Type != was.Type || b.Vm != r.Bus[i].Vm || b.Va != r.Bus[i].Va || b.LamP != r.Bus[i].Price {
			t.Errorf("bus %+v, was %+v, the result has %+v", b, was, r.Bus[i])
		}
		p[b.ID] -= b.Pd + b.Gs*b.Vm*b.Vm
		q[b.ID] -= b.Qd - b.Bs*b.Vm*b.Vm
	}
	for i, g := range c.Gen {
		if g.Vg != r.Bus[g.Bus-1].Vm || g.Pg != r.Gen[i].Pg || g.Cost.Value(10) != before.Gen[i].Cost.Value(10) {
			t.Errorf("generator %+v", g)
		}
		p[g.Bus] += g.Pg
		q[g.Bus] += g.Qg
	}
	for _, b := range c.Branch {
		p[b.From], q[b.From] = p[b.From]-b.Pf, q[b.From]-b.Qf
		p[b.To], q[b.To] = p[b.To]-b.Pt, q[b.To]-b.Qt
	}
	for id := range p {
		if !(math.Abs(p[id]) <= 1e-6 && math.Abs(q[id]) <= 1e-6) {
			t.Errorf("bus %d: %g MW and %g MVAr are left over", id, p[id], q[id])
		}
	}
	// What a unit's limits leave of its marginal cost is the price at its bus.
	for _, g := range c.Gen {
		marginal := (g.Cost.Value(g.Pg+1e-3) - g.Cost.Value(g.Pg-1e-3)) / 2e-3
		if price := c.Bus[g.Bus-1].LamP; !(math.Abs(marginal+g.MuPMax-g.MuPMin-price) <= 1e-5) {
			t.Errorf("generator at bus %d: marginal cost %g, μ %g and %g, price %g $/MWh", g.Bus, marginal, g.MuPMax, g.MuPMin, price)
		}
		if price := c.Bus[g.Bus-1].LamQ; !(math.Abs(g.MuQMax-g.MuQMin-price) <= 1e-5) {
			t.Errorf("generator at bus %d: μ %g and %g, price of reactive power %g", g.Bus, g.MuQMax, g.MuQMin, price)
		}
	}
	got := map[string]float64{}
	binding := 0
	add := func(at string, mu float64) {
		if mu != 0 {
			got[at], binding = mu, binding+1
		}
	}
	for _, b := range c.Bus {
		add("vmin "+strconv.Itoa(b.ID), b.MuVMin)
		add("vmax "+strconv.Itoa(b.ID), b.MuVMax)
	}
	for i, g := range c.Gen {
		add("pmin "+strconv.Itoa(i+1), g.MuPMin)
		add("pmax "+strconv.Itoa(i+1), g.MuPMax)
		add("qmin "+strconv.Itoa(i+1), g.MuQMin)
		add("qmax "+strconv.Itoa(i+1), g.MuQMax)
	}
	for i, b := range c.Branch {
		add("rating from "+strconv.Itoa(i+1), b.MuSf)
		add("rating to "+strconv.Itoa(i+1), b.MuSt)
	}
	if binding < 3 || len(r.Binding) != binding {
		t.Errorf("%d limits bind in the file, %d in the result", binding, len(r.Binding))
	}
	for _, l := range r.Binding {
		at := l.Limit + " " + strconv.Itoa(l.Bus)
		switch {
		case l.Gen > 0:
			at = l.Limit + " " + strconv.Itoa(l.Gen)
		case l.Branch > 0:
			at = l.Limit + " " + l.End + " " + strconv.Itoa(l.Branch)
		}
		if mu := got[at]; !(math.Abs(mu-l.Multiplier) <= 1e-12*mu && mu > 0) || !(math.Abs(l.Value-l.Bound) <= 1e-4) {
			t.Errorf("%+v; the file has %g at %q", l, mu, at)
		}
	}
	for i, v := range column(t, filepath.Join(tables, "bus.csv"), "lam_p_per_mwh") {
		if v != c.Bus[i].LamP {
			t.Errorf("price %g in the table, %g in the case", v, c.Bus[i].LamP)
		}
	}
	for i, v := range column(t, filepath.Join(tables, "gen.csv"), "qg_mvar") {
		if v != c.Gen[i].Qg {
			t.Errorf("%g MVAr in the table, %g in the case", v, c.Gen[i].Qg)
		}
	}
	for i, v := range column(t, filepath.Join(tables, "branch.csv"), "loaded_pct") {
		if want := 100 * max(math.Hypot(c.Branch[i].Pf, c.Branch[i].Qf), math.Hypot(c.Branch[i].Pt, c.Branch[i].Qt)) / c.Branch[i].RateA; !(math.Abs(v-want) <= 1e-9) {
			t.Errorf("branch %d loaded %g %%, want %g", i+1, v, want)
		}
	}
}

// TestSolvedCaseIsASolution: a power flow from what pf or opf wrote takes no step.
func TestSolvedCaseIsASolution(t *testing.T) {
	path := filepath.Join(t.TempDir(), "solved.m")
	for _, args := range [][]string{{"pf", "case118", "--scale", "1.1"}, {"opf", "case118", "--scale", "0.9"}, {"pf", "case_ieee30"}} {
		if code, _, log := run(append(args, "--out", path)...); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, log)
		}
		if c := readCaseFile(t, path); c.HasMultipliers != (args[0] == "opf") || !c.HasFlows {
			t.Errorf("%v: multipliers %v, flows %v", args, c.HasMultipliers, c.HasFlows)
		}
		code, out, log := run("pf", path, "--json", "--tolerance", "1e-7")
		var r struct{ Iterations int }
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || r.Iterations != 0 {
			t.Errorf("%v: %d iterations from the solution, exit code %d, %v: %s", args, r.Iterations, code, err, log)
		}
	}
}

// TestOutputsThatAreRefused before anything is computed, and none without a solution.
func TestOutputsThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine.m")
	text := require.Get(cases.Text("case9"))(t)
	require.OK(t, os.WriteFile(mine, text, 0o644))
	list := filepath.Join(dir, "outages.csv")
	require.OK(t, os.WriteFile(list, []byte("branch 1\n"), 0o644))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"opf", mine, "--out", mine}, "would overwrite the case"},
		{[]string{"pf", mine, "--out", filepath.Join(dir, "none", "x.m")}, "does not exist"},
		{[]string{"pf", "case9", "--csv", mine}, "--csv: " + mine + " is a file, want a folder"},
		{[]string{"opf", "case9", "--out", dir}, "not a regular file"},
		{[]string{"opf", "case9", "--csv", dir, "--out", filepath.Join(dir, "gen.csv")}, "would overwrite"},
		{[]string{"pf", "outages", "case9", "--csv", dir, "--outages", list}, "would overwrite --outages"},
		{[]string{"pf", "outages", "case9", "--csv", dir, "--out", list}, "would overwrite"},
		{[]string{"pf", "outages", "case9", "--out", list, "--participation", list, "--enforce-q"}, "would overwrite --participation"},
		{[]string{"pf", "outages", "case9", "--out", filepath.Join(dir, "x.txt")}, "want a file that ends in .csv, .json or .m"},
		{[]string{"pf", "outages", "case9", "--out", filepath.Join(dir, "outages-000000.json"), "--record", dir}, "in the folder of --record"},
		{[]string{"pf", "outages", "case9", "--record", mine}, "--record: " + mine + " is a file, want a folder"},
		{[]string{"opf", "secure", "case9", "--out", list, "--outages", list}, "would overwrite --outages"},
		{[]string{"pf", "case9", "--out", list, "--controls", list}, "would overwrite --controls"},
		{[]string{"pf", "dc", "case9", "--ptdf", list, "--csv", dir, "--out", list}, "would overwrite"},
		{[]string{"pf", "convert", "case9", "--csv", dir, "--out", filepath.Join(dir, "controls.txt")}, "would overwrite"},
	} {
		if code, _, log := run(c.args...); code != 2 || !strings.Contains(log, c.want) {
			t.Errorf("%v: exit code %d, %q, want 2 and %q", c.args, code, log, c.want)
		}
	}
	if after := require.Get(os.ReadFile(mine))(t); string(after) != string(text) {
		t.Error("the case was changed")
	}
	if after := require.Get(os.ReadFile(list))(t); string(after) != "branch 1\n" {
		t.Error("the list of outages was changed")
	}
	for _, command := range []string{"pf", "opf"} {
		path := filepath.Join(dir, command+".m")
		if code, _, _ := run(command, "case30", "--scale", "5", "--out", path); code != 1 {
			t.Errorf("%s: exit code %d", command, code)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s wrote a case without a solution", command)
		}
	}
}

// TestWhyThereIsNoOptimum: the line that is too tight is named with its amount, and a
// network of too little generation with the megawatts that are missing; the text says so.
func TestWhyThereIsNoOptimum(t *testing.T) {
	tight := strings.NewReplacer("RATE", "60", "PMAX", "300").Replace(radial)
	file := filepath.Join(t.TempDir(), "radial.m")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(tight)
	// 80 MW and 30 MVAr behind 0.02 + 0.1j pu, fed at 1.05 pu: 81.3787 MW and 36.8935 MVAr.
	v2, p, q := 1.05*1.05-2*(0.02*0.8+0.1*0.3), 0.0, 0.0
	v2 = (v2 + math.Sqrt(v2*v2-4*(0.02*0.02+0.1*0.1)*0.73)) / 2
	p, q = 80+100*0.02*0.73/v2, 30+100*0.1*0.73/v2
	r := runOptimalFlowJSON(t, 1, file)
	if r.Status != "infeasible" || r.Why == nil || r.Why.Status != "optimal" || len(r.Why.Limits) != 1 || *r.Why.Shortfall != 0 {
		t.Fatalf("%+v, why %+v", r, r.Why)
	}
	l := r.Why.Limits[0]
	if l.Limit != "rating" || l.Branch != 1 || l.From != 1 || l.To != 2 || l.End != "from" || l.Unit != "MVA" || !(math.Abs(l.By-(math.Hypot(p, q)-60)) <= 1e-4) || l.Bound != 60 {
		t.Errorf("%+v, want %.6f MVA of branch 1", l, math.Hypot(p, q)-60)
	}
	if code, out, _ := run("opf", file); code != 1 || !strings.Contains(out, "branch 1 from bus 1 to bus 2, from end") || !strings.Contains(out, "least relaxation") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	write(strings.NewReplacer("RATE", "0", "PMAX", "50").Replace(radial))
	r = runOptimalFlowJSON(t, 1, file)
	if r.Why == nil || len(r.Why.Limits) != 1 || r.Why.Limits[0].Limit != "pmax" || r.Why.Limits[0].Gen != 1 || r.Why.Limits[0].Bus != 1 || !(math.Abs(*r.Why.Shortfall-(p-50)) <= 1e-4) {
		t.Errorf("why %+v, want %.6f MW missing", r.Why, p-50)
	}
	if r = runOptimalFlowJSON(t, 1, file, "--why=false"); r.Why != nil {
		t.Errorf("explained without being asked: %+v", r.Why)
	}
	// The solver's failure is not the network's.
	if r = runOptimalFlowJSON(t, 1, "case30", "--max-iterations", "2"); r.Why == nil || len(r.Why.Limits) != 0 || *r.Why.Cost != 0 {
		t.Errorf("two iterations of a feasible network: %+v", r.Why)
	}
}

const radial = `function mpc = radial
mpc.version = '2'; mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 100 1 1.05 0.9; 2 1 80 30 0 0 1 1 0 100 1 1.1 0.8];
mpc.gen = [1 0 0 200 -200 1 100 1 PMAX 0];
mpc.branch = [1 2 0.02 0.1 0 RATE 0 0 0 0 1];
mpc.gencost = [2 0 0 2 1 0];
`
