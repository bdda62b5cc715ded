package ocp

import "github.com/gpc-engine/gpc/domain"

// Polish is domain.ProblemAbilities.Polish by interior point iterations from the roll-out of plan, without known
// multipliers. It is safe for concurrent use.
func (s *Solver) Polish(state, ctx []float64, pref domain.Preference, plan []float64, iterations int) bool {
	r := s.work.polishes.Get().(*Receding)
	defer s.work.polishes.Put(r)
	r.iterations = iterations
	r.Begin(plan)
	if _, err := r.Solve(state, ctx, len(plan)/r.p.q.nu, pref); err != nil {
		return false
	}
	copy(plan, r.solution.u)
	return true
}
