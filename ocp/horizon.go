package ocp

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Oracle is the least cost over the given number of decisions from a scenario's start (s, c), and the plan
// [steps][action] that attains it, for closedloop.Simulation. Of a plant that runs on, both are of the first stages of a
// plan that ends as late as the receding loop's last one.
func (s *Solver) Oracle(deadline context.Context, state, ctx []float64, steps int, pref domain.Preference) (cost float64, plan [][]float64, err error) {
	s = s.Until(deadline).(*Solver)
	if plan, states := s.withoutBlocks().simulateReceding(state, ctx, steps, pref); plan != nil {
		t := task{solver: s, state: state, ctx: ctx, steps: len(plan), seed: 1, starts: [][][]float64{plan}, states: states}
		if best, err := t.reference(pref, false); err == nil {
			return best.stageCost(steps), best.U[:steps], nil
		}
	}
	t, err := s.taskFromStart(state, ctx, steps+s.problem.Spec().Tail(steps), 1)
	if err != nil {
		return math.NaN(), nil, err
	}
	best, err := t.reference(pref, true)
	if err != nil {
		return math.NaN(), nil, err
	}
	return best.stageCost(steps), best.U[:steps], nil
}

// stageCost is the cost of the first stages.
func (t *Trajectory) stageCost(steps int) float64 {
	cost := t.Cost - t.TerminalCost
	for i, j := range t.J[steps:] {
		cost -= tensor.DotInOrder(t.Sigma[steps+i], j)
	}
	return cost
}

// reference is minimiseBest, continued to a thousandth of the tolerance. Products of slack and multiplier within the tolerance
// cost little each, and their sum over a plan some 1e-4 of a cost that is small beside its derivatives.
func (t *task) reference(pref domain.Preference, screened bool) (*Trajectory, error) {
	t.keepWorkspace = true
	best, err := t.minimiseBest(pref, screened)
	if err != nil {
		return nil, err
	}
	defer t.solver.work.workspaces.Put(t.workspace)
	closer := *t.solver
	closer.opt.Tolerance *= 1e-3
	next := task{solver: &closer, state: t.state, ctx: t.ctx, steps: t.steps, neighbour: t.workspace, following: true}
	if c, err := next.minimise(pref, domain.WeightedSum); err == nil && c.Cost < best.Cost {
		return c, nil
	}
	return best, nil
}

// simulateReceding drives the plant by a receding loop for the given steps, and on by its last plan. It returns the plan
// and the states and contexts before each step, concatenated: a long plan is far easier to find from them. It returns nil
// for a finite horizon, and where one decision fails.
func (s *Solver) simulateReceding(state, ctx []float64, steps int, pref domain.Preference) (plan [][]float64, states []float64) {
	spec := s.problem.Spec()
	ahead := spec.LookAhead()
	if !s.opt.TerminalCost || steps <= ahead {
		return nil, nil
	}
	h, nu := s.NewHorizon(0), spec.ActionSize()
	state, ctx = slices.Clone(state), slices.Clone(ctx)
	nextS, nextC, next := make([]float64, len(state)), make([]float64, len(ctx)), make([]float64, ahead*nu)
	for step := range steps + spec.Tail(steps) {
		if step >= steps {
			next = next[nu:]
		} else if _, solved, err := h.Solve(state, ctx, pref, next); err != nil || !solved || s.ctx.Err() != nil {
			return nil, nil
		}
		plan, states = append(plan, slices.Clone(next[:nu])), append(append(states, state...), ctx...)
		s.problem.Step(state, ctx, next[:nu], nextS, nextC)
		state, nextS = nextS, state
		ctx, nextC = nextC, ctx
	}
	return plan, append(append(states, state...), ctx...)
}

// NewHorizon implements domain.Receding. Each decision starts warm from the previous one, with its multipliers. Where that
// misses a feasible optimum, the Solver's own starts follow. The first decision of an episode also starts from the Solver's
// library, where it has the whole look-ahead. The library is built where Prepare has not done so. The last resort is
// the previous plan, shifted, or the problem's fallback.
func (s *Solver) NewHorizon(iterations int) domain.Horizon {
	opt := s.opt
	opt.Iterations = cmp.Or(iterations, opt.Iterations)
	cold := newSolver(s.problem, s.axes, s.initial, opt, s.terminalCosts)
	cold.blocks, cold.single, cold.ctx = opt.Blocks, s.single, s.ctx
	return &horizon{shared: s, cold: cold, warm: newReceding(cold, opt.Iterations, 0)}
}

// horizon solves successive decisions: warm from the previous one where that was solved, else cold.
type horizon struct {
	shared *Solver // holds the library
	cold   *Solver
	warm   *Receding
	plan   []float64 // the last solution or resort, or the plan given to Begin
	// planGiven: plan is from Begin; warmValid: plan is warm's last solution.
	planGiven, warmValid bool
}

// Begin implements domain.Horizon.
func (h *horizon) Begin(plan []float64) {
	h.plan, h.planGiven, h.warmValid = append(h.plan[:0], plan...), len(plan) > 0, false
}

// Within implements domain.Horizon.
func (h *horizon) Within(limit time.Duration) { h.warm.timeLimit = limit }

// Linearise implements domain.Horizon.
func (h *horizon) Linearise() bool { return h.warmValid && h.warm.Linearise() }

// Correct implements domain.Horizon.
func (h *horizon) Correct(s, c, u []float64) { h.warm.Correct(s, c, u) }

// Solve implements domain.Horizon.
func (h *horizon) Solve(s, c []float64, pref domain.Preference, plan []float64) (float64, bool, error) {
	nu := h.cold.problem.Spec().ActionSize()
	steps := len(plan) / nu
	cost, solved := math.NaN(), false
	if len(h.plan) > 0 {
		h.shift(nu, len(plan))
		if !h.warmValid {
			h.warm.Begin(h.plan)
		}
		status, err := h.warm.Solve(s, c, steps, pref)
		if err != nil && !unsolved(err) {
			return math.NaN(), false, err
		}
		if solved = err == nil && status.Converged && status.Violation <= h.warm.opt.Tolerance; solved {
			cost = status.Cost
			copy(plan, h.warm.solution.u)
		}
	}
	if !solved && !h.planGiven {
		found, err := h.solveCold(s, c, steps, pref)
		if err != nil && !unsolved(err) {
			return math.NaN(), false, err
		}
		if solved = err == nil; solved {
			cost = found.Cost - found.TerminalCost
			for i, u := range found.U {
				copy(plan[i*nu:], u)
			}
		}
	}
	warm := solved
	switch {
	case solved:
	case len(h.plan) > 0:
		copy(plan, h.plan)
	default:
		for first := 0; first < len(plan); first += nu {
			h.cold.problem.Fallback(s, c, plan[first:first+nu])
		}
	}
	h.Begin(plan)
	h.planGiven, h.warmValid = false, warm
	return cost, solved, nil
}

// horizonSeed draws a decision's random starts.
const horizonSeed = 1

// solveCold solves from the Solver's own starts, and hands the solution's iterate to warm. A first decision with the whole
// look-ahead also tries the library's plans and the screened ones, so it never costs more than without them.
func (h *horizon) solveCold(s, c []float64, steps int, pref domain.Preference) (*Trajectory, error) {
	t := task{solver: h.cold, state: s, ctx: c, steps: steps, seed: horizonSeed, ownStarts: h.cold.opt.Starts, retries: retries, keepWorkspace: true}
	first := len(h.plan) == 0 && steps >= h.cold.problem.Spec().LookAhead()
	if first {
		l, err := h.shared.library(h.shared.ctx, nil)
		if err != nil {
			return nil, err
		}
		t.starts = l.plans(s, c, steps)
	}
	best, err := t.minimiseBest(pref, first)
	if err == nil {
		t.workspace.q.setLevel(0)
		h.cold.work.workspaces.Put(h.warm.p)
		h.warm.p, h.warm.solution = t.workspace, t.workspace.cur
		h.warm.ready, h.warm.status = true, Status{Converged: true}
	}
	return best, err
}

// shift resizes plan for a solve: a given plan as it is, another one step on. The last action repeats.
func (h *horizon) shift(nu, size int) {
	from := nu
	if h.planGiven || len(h.plan) == nu {
		from = 0
	}
	h.plan = append(h.plan[:0], h.plan[from:]...)
	for len(h.plan) < size {
		h.plan = append(h.plan, h.plan[len(h.plan)-nu:]...)
	}
	h.plan = h.plan[:size]
}

// unsolved reports whether an error means that no solution was found.
func unsolved(err error) bool {
	return errors.Is(err, domain.ErrInfeasible) || errors.Is(err, domain.ErrNotConverged)
}
