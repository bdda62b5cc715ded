package ocp

import "testing"

// The filter has every iterate whose accepted step was not at once one of descent, by the switching condition, and
// one that descends enough, by Armijo's: Wächter and Biegler (2006), section 2.3, equation (22). An iterate that
// it has is no trial any more.
func TestTheFilterHasWhatWasNoDescent(t *testing.T) {
	const theta, phi = 1.0, 0.0
	for name, c := range map[string]struct {
		slope, newPhi float64
		entered       bool
	}{
		"descent":                 {-10, -1, false},
		"too little of a descent": {-10, 0, true},
		"a fall without descent":  {1, -1, true},
		"neither":                 {1, 1, true},
	} {
		p := &ipm{thetaMax: 1e4, thetaMin: 1e-4, defectPenalty: 10}
		if !p.filterAccepts(theta, phi, theta/2, c.newPhi, 1, c.slope, 0) {
			t.Errorf("%s: a trial with half the defect is refused", name)
		}
		if entered := len(p.filter) == 1; entered != c.entered {
			t.Errorf("%s: entered %t, want %t", name, entered, c.entered)
		}
		if again := p.filterAccepts(theta, phi, theta, phi, 1, -10, 1); again == c.entered {
			t.Errorf("%s: the iterate itself is a trial again: %t", name, again)
		}
	}
}
