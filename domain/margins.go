package domain

import "math"

// Smallest is the least of margins: NaN where one is, +Inf where there are none.
func Smallest(margins []float64) float64 {
	least := math.Inf(1)
	for _, m := range margins {
		if !(m >= least) { // as a NaN is not
			if least = m; math.IsNaN(least) {
				return least
			}
		}
	}
	return least
}

// StateMargins writes the margins that are of a state alone, +Inf for the others: m and the
// scratch other are of the size of Margins. A problem with MarginsOfState says which they are; abilities are
// its own. Of another they are those that no action changes: u is any action, which is tried with other entries and
// comes back as it was.
func StateMargins(p Problem, abilities *ProblemAbilities, s, c, u, m, other []float64) {
	if abilities.MarginsOfState != nil {
		abilities.MarginsOfState(s, c, m)
		return
	}
	p.Margins(s, c, u, m)
	for j, a := range p.Spec().Action {
		original := u[j]
		if u[j] = a.Lo; !a.Bounded() || original == a.Lo {
			u[j] = original + 1
		}
		p.Margins(s, c, u, other)
		u[j] = original
		for i := range m {
			if other[i] != m[i] {
				m[i] = math.Inf(1)
			}
		}
	}
}

// SoftLimits are limits that an action may exceed at a price, which the objectives count. They are none of Spec.Margins: exceeding
// one is not unsafe.
type SoftLimits struct {
	Limits []Variable
	// Margins writes how far each is from being exceeded, below zero where it is, as Problem.Margins does.
	Margins func(s, c, u, m []float64)
}
