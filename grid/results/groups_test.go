package results_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func groupsOf(t *testing.T, c *matpower.Case, lines string) map[string]*results.AfterOutage {
	t.Helper()
	n := networktest.Of(t, c)
	list, groups, err := results.ReadOutages(n, "lines", strings.NewReader(lines))
	require.OK(t, err)
	all, err := results.After(context.Background(), n, results.FlowProblem{}, results.SecurityOptions{List: list, Groups: groups, Threads: 1})
	require.OK(t, err)
	out := map[string]*results.AfterOutage{}
	for i := range all.Outages {
		out[all.Outages[i].Label] = &all.Outages[i]
	}
	return out
}

// A group breaks what the power flow of the case without its elements breaks; names, labels and busbars name them.
func TestGroupsAreOfTheCaseWithoutThem(t *testing.T) {
	c := networktest.Case(t, "case39")
	c.Branch[12].Name, c.Gen[4].Name = "North line", "Steam 5"
	got := groupsOf(t, c, "branch 3\nbranch 4, branch 8\nwest: North line, Steam 5 # by names\nbus 16\n")
	if len(got) != 4 || got[""].Row != 3 || got["west"] == nil || got["bus 16"] == nil {
		t.Fatalf("outages %v", got)
	}
	base, _, err := results.Flow(networktest.Of(t, c), results.FlowProblem{})
	require.OK(t, err)
	for label, change := range map[string]func(*matpower.Case){
		"branch 4, branch 8": func(c *matpower.Case) { c.Branch[3].InService, c.Branch[7].InService = false, false },
		"west":               func(c *matpower.Case) { c.Branch[12].InService, c.Gen[4].InService = false, false },
	} {
		changed := networktest.Case(t, "case39")
		change(changed)
		flow, _, err := results.Flow(networktest.Of(t, changed), results.FlowProblem{})
		require.OK(t, err)
		worse := map[string]float64{}
		for _, v := range flow.Violations {
			worse[v.Kind+v.Where()] = v.Excess
		}
		for _, v := range base.Violations {
			if key := v.Kind + v.Where(); worse[key] <= v.Excess*1.001 {
				delete(worse, key)
			}
		}
		r := got[label]
		ends := map[int]bool{} // a power flow lists the heavier end alone, an outage both
		for _, v := range r.Violations {
			if want := worse[v.Kind+v.Where()]; math.Abs(v.Excess-want) > 1e-5 && !ends[v.Branch] {
				t.Errorf("%s: %s of %s by %v, want %v", label, v.Kind, v.Where(), v.Excess, want)
			}
			ends[v.Branch] = v.Branch > 0
			delete(worse, v.Kind+v.Where())
		}
		if !r.Converged || len(r.Violations) == 0 || len(worse) > 1 {
			t.Errorf("%s: %s, not listed: %v", label, r.Reason, worse)
		}
	}
	// Bus 16 takes its load of 329 MW, and leaves 19 with its units on their own: another bus takes up their balance.
	if r := got["bus 16"]; r.LostMW < 329-1e-9 || len(r.References) == 0 || r.Islanded[len(r.Islanded)-1] < 16 {
		t.Errorf("a busbar: %+v", r)
	}
}

// Parts without a unit are without supply; a case with nothing left has no power flow; what is wrong in a list is said.
func TestGroupsThatTakePartsApart(t *testing.T) {
	c := networktest.Case(t, "case14")
	got := groupsOf(t, c, "branch 17, branch 20\nall: unit 1, unit 2, unit 3, unit 4, unit 5\n")
	if r := got["branch 17, branch 20"]; !r.Converged || math.Abs(r.LostMW-14.9) > 1e-9 || len(r.Islanded) != 1 || r.Islanded[0] != 14 {
		t.Errorf("%+v", r)
	}
	if r := got["all"]; r.Converged || r.Reason == "" || math.Abs(r.LostMW-259) > 1e-9 {
		t.Errorf("%+v", r)
	}
	n := require.Get(network.New(c))(t)
	n.BranchName = append([]string{"tie", "", "tie"}, make([]string, n.Branches()-3)...)
	for lines, reason := range map[string]string{"tie": `2 elements of the case have the name "tie"`, "north: ": `"": want`, "branch 1,": `"": want`, "branch 1e9": "row 1e9 of its table\n", "branch 1, branch 99": "no branch in service is row 99", "bus 77": "no bus in service is 77", "x": "a name of the case", "branch 1, bus 2\nbus 2, branch 1": "line 2", "": "no outage"} {
		if _, _, err := results.ReadOutages(n, "lines", strings.NewReader(lines)); err == nil || !strings.Contains(err.Error()+"\n", reason) {
			t.Errorf("%q: %v, want %q", lines, err, reason)
		}
	}
	if list, err := results.ReadElements(n, "lines", strings.NewReader("branch 4\nunit 2\n")); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := results.ReadElements(n, "lines", strings.NewReader("branch 4\nunit 2, branch 5\n")); err == nil || !strings.Contains(err.Error(), `lines: "unit 2, branch 5": want branch ROW or unit ROW`) {
		t.Error(err)
	}
}

// A DC line goes with the part that has one of its ends and no supply: then the rest is the network in which the line is out.
func TestADCLineGoesWithItsEnd(t *testing.T) {
	after := func(inService bool, lines string) (*results.Security, float64) {
		c := networktest.Case(t, "case30")
		c.AddDCLine(matpower.DCLine{From: 26, To: 10, InService: inService, Pf: 5, Pt: 4.5, Vf: 1, Vt: 1, PMax: 10, QMinF: -10, QMaxF: 10, QMinT: -10, QMaxT: 10, Loss0: 0.5})
		n := require.Get(network.New(c))(t)
		list, groups, err := results.ReadOutages(n, "list", strings.NewReader(lines))
		require.OK(t, err)
		y := require.Get(results.After(t.Context(), n, results.FlowProblem{}, results.SecurityOptions{List: list, Groups: groups}))(t)
		if list := y.Elements; len(list) == 0 || list[0].Outage != y.Outages[0].Outage {
			t.Errorf("%s: %d elements", lines, len(list))
		}
		for _, e := range y.Elements {
			if e.Gen == 1 && e.Unit == "MW" {
				return y, e.Value
			}
		}
		return y, 0
	}
	for _, lines := range []string{"branch 34", "branch 34, branch 30"} { // bus 26 is left
		want, power := after(false, lines)
		got, same := after(true, lines)
		a, b := got.Outages[0], want.Outages[0]
		if math.Abs(power-same) > 1e-6 || a.LostUnitsMW != 0 || a.LostMW != b.LostMW || len(a.References) > 0 || !a.Converged || len(a.Violations) != len(b.Violations) || math.Abs(*a.Severity-*b.Severity) > 1e-6 {
			t.Errorf("%s: unit 1 gives %g MW, %+v; without the line %g MW, %+v", lines, same, a, power, b)
		}
	}
}
