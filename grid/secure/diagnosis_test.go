package secure

import (
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
)

// Every solve ends with a dispatch that survives, or with what would have to give after which outage, or
// with an outage whose power flow was not found: none ends at a limit of iterations.
func TestEverySolveEndsWithADiagnosis(t *testing.T) {
	type problem struct {
		name            string
		scale           float64
		branches, units bool
	}
	cases := []problem{{"case9", 1, true, true}, {"case9", 1.3, true, true}, {"case14", 1, true, true}, {"case30", 1, true, true}}
	if !testing.Short() {
		cases = append(cases, problem{"case39", 0.9, false, true}, problem{"case39", 1, true, true}, problem{"case39", 0.9, true, true},
			problem{"pglib_opf_case118_ieee", 0.9, true, true})
	}
	secure, gives := 0, 0
	for _, c := range cases {
		n := networktest.Load(t, c.name)
		opt := DefaultOptions()
		opt.Outages = []Outage{}
		if c.branches {
			opt.Outages = append(opt.Outages, Branches(n)...)
		}
		if c.units {
			opt.Outages = append(opt.Outages, Units(n)...)
		}
		s, r := solve(t, n, opt, c.scale, nil)
		switch {
		case r.Status == Secure:
			secure++
			pd, qd := n.Loads(c.scale)
			survives(t, s, r, pd, qd)
		case r.Status != Insecure || r.Reason == "":
			t.Errorf("%s at %g of its load: %v: %s", c.name, c.scale, r.Status, r.Reason)
		case len(r.Relaxations) > 0:
			gives++
			for i, g := range r.Relaxations {
				if !(g.Excess > 0) || g.describe(n) == "" || i > 0 && g.Severity > r.Relaxations[i-1].Severity {
					t.Errorf("%s at %g of its load: gives %+v", c.name, c.scale, g)
				}
			}
		}
	}
	if secure == 0 || gives == 0 {
		t.Errorf("%d secure, %d with what would have to give: want some of each", secure, gives)
	}
}

// Where a unit's outage leaves more load than the others carry, balances or limits of units give, and the
// unit is named.
func TestWhatGivesAfterAUnitsOutage(t *testing.T) {
	n := networktest.Load(t, "case39")
	opt := DefaultOptions()
	out := Outage{Branch: -1, Unit: 9}
	opt.Outages = []Outage{out}
	_, r := solve(t, n, opt, 0.9, nil)
	if r.Status != Insecure || len(r.Relaxations) == 0 {
		t.Fatalf("%v with %d gives: %s", r.Status, len(r.Relaxations), r.Reason)
	}
	for _, g := range r.Relaxations {
		if g.Outage != out {
			t.Errorf("after %s", g.name(n))
		}
	}
}
