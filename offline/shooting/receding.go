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

// NewHorizon implements domain.Receding. A warm solve has the given plan as its only
// start, another has the Solver's.
func (s *Solver) NewHorizon() domain.Horizon {
	own := &Solver{problem: s.problem, axes: s.axes, initial: s.initial, opt: s.opt}
	own.workspaces.New = s.workspaces.New
	return &horizon{solver: own, opt: s.opt}
}

// horizon is a Solver asked again and again, by one goroutine at a time.
type horizon struct {
	solver *Solver
	opt    Options     // of an unlimited cold solve
	start  [][]float64 // rows of a warm start
}

// Solve implements domain.Horizon.
func (h *horizon) Solve(s, c []float64, pref domain.Preference, plan []float64, warm bool, iterations int) (float64, bool, error) {
	nu := h.solver.problem.Spec().ActionSize()
	steps := len(plan) / nu
	h.solver.opt = h.opt
	h.solver.opt.Iterations = cmp.Or(iterations, h.opt.Iterations)
	var starts [][][]float64
	if warm {
		h.solver.opt.Starts = 1
		h.start = h.start[:0]
		for t := range steps {
			h.start = append(h.start, plan[t*nu:(t+1)*nu])
		}
		starts = [][][]float64{h.start}
	}
	t, err := h.solver.Minimise(s, c, steps, pref, domain.WeightedSum, 1, starts...)
	if errors.Is(err, domain.ErrInfeasible) || errors.Is(err, domain.ErrNotConverged) {
		return math.NaN(), false, nil
	}
	if err != nil {
		return math.NaN(), false, err
	}
	for i, u := range t.U {
		copy(plan[i*nu:], u)
	}
	return t.Cost, true, nil
}
