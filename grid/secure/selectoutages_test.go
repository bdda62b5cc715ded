package secure

import (
	"slices"
	"testing"
)

// A round adds the worst outage for every limit, those without a power flow, and second ones where there is room.
func TestOutagesOfARound(t *testing.T) {
	check := func(branch, at int) *Check {
		c := &Check{Outage: Outage{Branch: branch, Unit: -1}, Solved: at >= 0}
		if c.Solved {
			c.Violations = []Violation{{Kind: HighVoltage, Element: at}}
		}
		return c
	}
	branches := func(list []*Check) (out []int) {
		for _, c := range list {
			out = append(out, c.Branch)
		}
		return out
	}
	few := []*Check{check(0, -1), check(1, 5), check(2, 5), check(3, 5), check(4, 6)}
	if got := branches(selectOutages(few)); !slices.Equal(got, []int{0, 1, 4, 2}) {
		t.Errorf("branches %v, want one without a power flow, the worst for either limit, and the second for one", got)
	}
	var many []*Check
	for k := range 40 {
		many = append(many, check(2*k, k), check(2*k+1, k))
	}
	got := branches(selectOutages(many))
	if len(got) != outagesPerRound || slices.ContainsFunc(got, func(k int) bool { return k%2 == 1 }) {
		t.Errorf("branches %v of 40 limits, want the worst for %d of them", got, outagesPerRound)
	}
}
