package command

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// folder has these networks and a table that says of some what their optimum is.
func folder(t *testing.T, table string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "more"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		text, err := cases.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		at := dir
		if i%2 == 1 {
			at = filepath.Join(dir, "more")
		}
		if err := os.WriteFile(filepath.Join(at, name+".m"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if table != "" {
		if err := os.WriteFile(filepath.Join(dir, publishedTable), []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const table = `Words.

| **Case Name** | **Nodes** | **DC (\$/h)** | **AC (\$/h)** | **AC Time (sec.)** |
| --- | --- | --- | --- | --- |
| case9 | 9 | 1 | 5.2967e+03 | <1 |
| case14 | 14 | 1 | 8.0000e+03 | 3 |
| case39 | 39 | 1 | -- | 3 |
`

// A folder's networks are solved the smallest file first, beside what is published of them, and
// their dispatches keep all limits by a power flow.
func TestOptimaOfAFolder(t *testing.T) {
	dir := folder(t, table, "case9", "case30", "case14")
	code, out, log := run("opf", "batch", dir, "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var r optima.OptimalFlows
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Networks) != 3 || r.Published != publishedTable || r.Networks[0].Name != "case9" {
		t.Fatalf("networks %+v, published %q", r.Networks, r.Published)
	}
	for _, n := range r.Networks {
		if n.Status != "optimal" || n.Violation == nil || *n.Violation > 1e-6 || *n.Difference > 1e-6 || n.Iterations < 3 || n.Buses == 0 {
			t.Errorf("%+v", n)
		}
	}
	if nine := r.Of("case9"); nine.Gap == nil || math.Abs(*nine.Gap) > 1e-5 || nine.PeerMS != nil {
		t.Errorf("case9: gap %v, published time %v", nine.Gap, nine.PeerMS)
	}
	if fourteen := r.Of("case14"); fourteen.Gap == nil || math.Abs(*fourteen.Gap-(8081.5265-8000)/8000) > 1e-5 || fourteen.PeerMS == nil || *fourteen.PeerMS != 3000 {
		t.Errorf("case14: gap %v, published time %v", fourteen.Gap, fourteen.PeerMS)
	}
	if r.Of("case30").Published != nil {
		t.Error("case30 has a published value")
	}
	if !strings.Contains(log, "[3/3] case30: optimal") && !strings.Contains(log, "[3/3] case14: optimal") {
		t.Errorf("progress %q", log)
	}
	if code, out, _ := run("opf", "batch", dir); code != 0 || !strings.Contains(out, "3 of 3 optimal; 1 of 2 at the published optimum") {
		t.Errorf("exit code %d, table %s", code, out)
	}
}

// A record is continued: what is in it is not solved again, and a record that is not one, or of
// another build, is refused.
func TestARecordIsContinued(t *testing.T) {
	dir := folder(t, "", "case9", "case14")
	record := filepath.Join(t.TempDir(), "r.json")
	if code, _, log := run("opf", "batch", dir, "--record", record); code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	r, err := optima.ReadOptimalFlows(record)
	if err != nil || len(r.Networks) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	mark := -17.0
	r.Networks[1].Objective, r.Networks = &mark, r.Networks[1:]
	kept := r.Networks[0].Name
	if err := r.Write(record); err != nil {
		t.Fatal(err)
	}
	code, _, log := run("opf", "batch", dir, "--record", record)
	if code != 0 || strings.Count(log, "[") != 1 {
		t.Errorf("exit code %d, progress %q, want one network", code, log)
	}
	if r, err = optima.ReadOptimalFlows(record); err != nil || len(r.Networks) != 2 || *r.Of(kept).Objective != mark || r.Load != nil && !r.Load.Partial {
		t.Errorf("%+v, %v", r, err)
	}
	r.Commit = "another"
	if err := r.Write(record); err != nil {
		t.Fatal(err)
	}
	if code, _, log := run("opf", "batch", dir, "--record", record); code != 2 || !strings.Contains(log, "another") {
		t.Errorf("exit code %d: %s", code, log)
	}
	if err := os.WriteFile(record, []byte(`{"networks":[{"name":""}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, log := run("opf", "batch", dir, "--record", record); code != 2 || !strings.Contains(log, "has no name") {
		t.Errorf("exit code %d: %s", code, log)
	}
}

// A record is of its files, options and published values, and one process writes it. What could not be read is read again.
func TestARecordOfAnotherBatchIsRefused(t *testing.T) {
	dir, record := folder(t, table, "case9", "case14"), filepath.Join(t.TempDir(), "r.json")
	write := func(name, text string) {
		t.Helper()
		require.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("faulty.m", "mpc.bus = [\n")
	if code, _, log := run("opf", "batch", dir, "--record", record); code != 1 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	nine := string(require.Get(cases.Text("case9"))(t))
	write("faulty.m", strings.Replace(nine, "case9", "faulty", 1))
	if code, _, log := run("opf", "batch", dir, "--record", record); code != 0 || strings.Count(log, "[") != 1 {
		t.Errorf("a file that was mended: exit code %d: %s", code, log)
	}
	refused := func(says string, args ...string) {
		t.Helper()
		if code, _, log := run(append([]string{"opf", "batch", "--record", record}, args...)...); code != 2 || !strings.Contains(log, says) {
			t.Errorf("%v: exit code %d: %s", args, code, log)
		}
	}
	another := "is of another file, option or published value"
	for _, option := range []string{"--scale=1.1", "--starts=2", "--dispatchable=plain", "--feasibility=1e-6", "--max-iterations=60", "--threads=3"} {
		refused(another, dir, option)
	}
	refused(another, filepath.Join(dir, "case9.m")) // the record has more
	write(publishedTable, strings.Replace(table, "5.2967", "5.3967", 1))
	refused("network case9 in it "+another, dir)
	write(publishedTable, table)
	write("case9.m", strings.Replace(nine, "90", "91", 1))
	refused("network case9 in it "+another, dir)
	write("case9.m", nine)
	lock := require.Get(durable.Acquire(record))(t)
	refused("is being written by", dir)
	require.OK(t, lock.Release())
	if code, _, log := run("opf", "batch", dir, "--record", record); code != 0 || strings.Contains(log, "[") {
		t.Errorf("the same command: exit code %d: %s", code, log)
	}
}

// A file that cannot be read, and loads without an optimum, are rows with a reason.
func TestReasonsOfAFolder(t *testing.T) {
	dir := folder(t, "", "case9", "case30")
	if err := os.WriteFile(filepath.Join(dir, "broken.m"), []byte("mpc.bus = [\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, _ := run("opf", "batch", dir, "--json", "--scale", "2")
	var r optima.OptimalFlows
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if n := r.Of("broken"); n.Status != "not read" || n.Reason == "" {
		t.Errorf("%+v", n)
	}
	if n := r.Of("case30"); n.Status != "infeasible" || !strings.Contains(n.Reason, "balance is off by") || n.Objective != nil {
		t.Errorf("%+v", n)
	}
	_, out, log := run("opf", "batch", dir)
	if !strings.Contains(out, "broken   –      not read  –") || !strings.Contains(log, "[1/3] broken: not read\n") {
		t.Errorf("%s\n%s", log, out)
	}
}

func TestArgumentsOfSeveralNetworks(t *testing.T) {
	dir := folder(t, "", "case9", "case14")
	twice := folder(t, "", "case9")
	for _, args := range [][]string{
		{dir, "--weights", "0,0,1"}, {dir, "--out", filepath.Join(dir, "x.m")}, {dir, "--published", filepath.Join(dir, "case9.m")},
		{}, {dir, twice}, {t.TempDir()}, {dir, "--dispatchable", "some"},
		{dir, "--max-load", "0.000001", "--any-load=maybe"},
	} {
		if code, _, log := run(append([]string{"opf", "batch"}, args...)...); code != 2 || log == "" {
			t.Errorf("%v: exit code %d, %q", args, code, log)
		}
	}
	if code, out, _ := run("opf", "batch", "case9", "case14"); code != 0 || !strings.Contains(out, "2 of 2 optimal") {
		t.Errorf("two names: exit code %d, %s", code, out)
	}
}

func TestPublishedTables(t *testing.T) {
	values, err := parsePublished(strings.NewReader(table + "\n" + strings.ReplaceAll(table, "case", "other")))
	if err != nil || len(values) != 4 || values["othe"+"r14"].objective != 8000 || values["case9"].seconds != nil {
		t.Errorf("%v, %v", values, err)
	}
	for _, wrong := range []string{"", "| a | b |\n|---|---|\n", "| Case Name | AC ($/h) |\n|---|---|\n| x | many |\n"} {
		if _, err := parsePublished(strings.NewReader(wrong)); err == nil {
			t.Errorf("%q is a table", wrong)
		}
	}
}

// A dispatch that breaks limits is seen by the power flow, which names the worst.
func TestViolationsByPowerFlow(t *testing.T) {
	n := networktest.Load(t, "case30")
	s, err := acopf.New(n, acopf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := make([]acopf.Result, 1)
	if err := s.Solve(t.Context(), make([]acopf.Problem, 1), r); err != nil {
		t.Fatal(err)
	}
	v, err := verify(t.Context(), n, n.Pd, n.Qd, &r[0])
	if err != nil || v.excess > 1e-6 || v.difference > 1e-6 {
		t.Errorf("%+v, %v", v, err)
	}
	bus := n.GenBus[2]
	r[0].Vm[bus] = n.VMax[bus] + 0.2
	if v, err = verify(t.Context(), n, n.Pd, n.Qd, &r[0]); err != nil || v.excess < 0.1 || v.limit == "" {
		t.Errorf("with a voltage 0.2 pu too high: %+v, %v", v, err)
	}
}

// Of two starts the record has both, and the iterations and times of those up to the one with the objective.
func TestStartsOfARecord(t *testing.T) {
	code, out, log := run("opf", "batch", folder(t, "", "case9", "case30"), "--json", "--starts", "2")
	var r optima.OptimalFlows
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, log)
	}
	for _, n := range r.Networks {
		if len(n.Starts) != 2 || n.Starts[0].Status != "optimal" || n.Starts[1].Status != "optimal" || n.Starts[1].Iterations <= n.Starts[0].Iterations {
			t.Fatalf("%s: starts %+v", n.Name, n.Starts)
		}
		if n.Iterations != n.Starts[0].Iterations || n.CPUMS != n.Starts[0].CPUMS || *n.Objective != *n.Starts[0].Objective || n.Lower() {
			t.Errorf("%s: %+v, want what the flat start has", n.Name, n)
		}
		if d := math.Abs(*n.Starts[1].Objective - *n.Objective); d > 1e-6**n.Objective {
			t.Errorf("%s: the feasible point's optimum is %g away", n.Name, d)
		}
	}
}

// A later start takes the place of an earlier one where its optimum is lower by more than tolerances leave, or the only one.
func TestTheLowestOfStarts(t *testing.T) {
	optimum := func(f float64) acopf.Result { return acopf.Result{Status: acopf.Optimal, Objective: f} }
	none := acopf.Result{Status: acopf.IterationLimit, Objective: -1e9}
	for _, c := range []struct {
		results []acopf.Result
		want    int
	}{
		{[]acopf.Result{optimum(100), optimum(99)}, 1}, {[]acopf.Result{optimum(99), optimum(100)}, 0},
		{[]acopf.Result{optimum(100), optimum(100 - 1e-5)}, 0}, {[]acopf.Result{optimum(-100), optimum(-101)}, 1},
		{[]acopf.Result{none, optimum(100)}, 1}, {[]acopf.Result{optimum(100), none}, 0}, {[]acopf.Result{none, none}, 0},
	} {
		if got := lowest(c.results); got != c.want {
			t.Errorf("%+v: start %d, want %d", c.results, got, c.want)
		}
	}
}
