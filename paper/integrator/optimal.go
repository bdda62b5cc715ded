package integrator

import (
	"github.com/gpc-engine/gpc/domain"
)

// Optimal writes the first action of the best certified optimum of what remains
// from a state of an episode, solved from holding u₋₁ and from every structured
// cold start; it needs no library. See domain.SolverAbilities.Optimal.
func (v *Solver) Optimal(s, c []float64, pref domain.Preference, u []float64) bool {
	if stepOf(c) >= Horizon {
		return false
	}
	w := v.system.interiors.Get().(*interior)
	defer v.system.interiors.Put(w)
	cold := recedingHorizon{system: v.system, work: w, steps: Horizon}
	d, err := cold.Decide(s, c, pref, u)
	return err == nil && d.Solved()
}
