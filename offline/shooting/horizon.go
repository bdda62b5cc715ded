package shooting

import (
	"cmp"
	"errors"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

var _ domain.Receding = (*Solver)(nil)

// Oracle is the least cost over the given number of decisions from (s, c) and the plan
// [steps][action] that attains it, as closedloop.Simulation asks for them.
func (s *Solver) Oracle(state, ctx []float64, steps int, pref domain.Preference) (cost float64, plan [][]float64, err error) {
	best, err := s.Minimise(state, ctx, steps, pref, domain.WeightedSum, 1)
	if err != nil {
		return math.NaN(), nil, err
	}
	return best.Cost, best.U, nil
}

// NewHorizon implements domain.Receding. What a solve from the decision before does not
// bring to convergence is solved again from the Solver's own starts; the last resort is
// the decision before, one on, and before there is one the problem's fallback.
func (s *Solver) NewHorizon(iterations int) domain.Horizon {
	h := &horizon{cold: Solver{problem: s.problem, axes: s.axes, initial: s.initial, opt: s.opt}}
	h.cold.opt.Iterations = cmp.Or(iterations, s.opt.Iterations)
	h.warm = Solver{problem: s.problem, axes: s.axes, initial: s.initial, opt: h.cold.opt}
	h.warm.opt.Starts = 1
	return h
}

// horizon is a Solver asked again and again: warm from a plan alone, cold from its own
// starts.
type horizon struct {
	warm, cold Solver
	plan       []float64 // last solution or resort, or what Begin gave
	given      bool      // the latter
	rows       [][]float64
}

// Begin implements domain.Horizon.
func (h *horizon) Begin(plan []float64) {
	h.plan, h.given = append(h.plan[:0], plan...), len(plan) > 0
}

// Solve implements domain.Horizon.
func (h *horizon) Solve(s, c []float64, pref domain.Preference, plan []float64) (float64, bool, error) {
	nu := h.cold.problem.Spec().ActionSize()
	found, err := (*Trajectory)(nil), domain.ErrNotConverged
	if len(h.plan) > 0 {
		h.start(nu, len(plan))
		found, err = h.warm.Minimise(s, c, len(plan)/nu, pref, domain.WeightedSum, 1, h.rows)
	}
	if !h.given && unsolved(err) {
		found, err = h.cold.Minimise(s, c, len(plan)/nu, pref, domain.WeightedSum, 1)
	}
	if err != nil && !unsolved(err) {
		return math.NaN(), false, err
	}
	cost := math.NaN()
	switch {
	case err == nil:
		cost = found.Cost
		for i, u := range found.U {
			copy(plan[i*nu:], u)
		}
	case len(h.plan) > 0:
		copy(plan, h.plan)
	default:
		for at := 0; at < len(plan); at += nu {
			h.cold.problem.Fallback(s, c, plan[at:at+nu])
		}
	}
	h.Begin(plan)
	h.given = false
	return cost, err == nil, nil
}

// start makes plan the start of a solve of that size: as it was given, or one decision
// on, its last action held.
func (h *horizon) start(nu, size int) {
	from := nu
	if h.given || len(h.plan) == nu {
		from = 0
	}
	h.plan = append(h.plan[:0], h.plan[from:]...)
	for len(h.plan) < size {
		h.plan = append(h.plan, h.plan[len(h.plan)-nu:]...)
	}
	h.plan, h.rows = h.plan[:size], h.rows[:0]
	for at := 0; at < size; at += nu {
		h.rows = append(h.rows, h.plan[at:at+nu])
	}
}

// unsolved says of an error that there is no solution, not that something is wrong.
func unsolved(err error) bool {
	return errors.Is(err, domain.ErrInfeasible) || errors.Is(err, domain.ErrNotConverged)
}
