package ocp

import "github.com/gpc-engine/gpc/domain"

// Polish is domain.ProblemAbilities.Polish by interior point iterations from the roll-out of plan, without known
// multipliers, within bounds unless actions stand in blocks. It is safe for concurrent use.
func (s *Solver) Polish(state, ctx []float64, pref domain.Preference, bounds []domain.Bound, plan []float64, iterations int) bool {
	r := s.work.polishes.Get().(*Receding)
	defer s.work.polishes.Put(r)
	if r.iterations, r.bounds = iterations, bounds; len(bounds) > 0 && len(r.opt.Blocks) > 0 {
		return false
	}
	r.Begin(plan)
	if _, err := r.Solve(state, ctx, len(plan)/r.p.q.nu, pref); err != nil {
		return false
	}
	copy(plan, r.solution.u)
	return true
}
