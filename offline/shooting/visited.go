package shooting

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// visitedRows of the optimum from a visited state are kept: the state's own and
// its successor, for the losses that look at both.
const visitedRows = 2

// SolveVisited is domain.SolverAbilities.SolveVisited: the policy drives by the known dynamics
// for the steps that are kept. The first optimum is Solve's; that from each later state is
// solved from what is left of the one before it, and from the Solver's own starts where that
// does not converge. It ends where the state is lost or no longer finite.
func (s *Solver) SolveVisited(scenario int, p []float64, pref domain.Preference, policy domain.Controller) ([]domain.Sample, error) {
	s = s.sampling()
	spec := s.problem.Spec()
	if len(p) != len(s.axes) {
		return nil, fmt.Errorf("shooting: scenario has %d parameters, want %d", len(p), len(s.axes))
	}
	if err := policy.Reset(nil); err != nil {
		return nil, err
	}
	state, ctx, u := make([]float64, len(spec.Measured)), make([]float64, len(spec.Context)), make([]float64, len(spec.Action))
	nextState, nextCtx := make([]float64, len(state)), make([]float64, len(ctx))
	s.initial(p, state, ctx)
	var samples []domain.Sample
	var left [][]float64 // of the last optimum, from the present state on
	for k := 0; k < s.opt.Keep; k++ {
		if s.may.Lost(state, ctx) || !tensor.Finite(state) || !tensor.Finite(ctx) {
			break
		}
		best, err := s.resolve(state, ctx, s.opt.Horizon-k, pref, uint64(scenario), left)
		if err != nil {
			return nil, err
		}
		if best != nil {
			left = best.U
			if k > 0 {
				samples = s.follow(samples, best, s.opt.Perturbed+k, k, visitedRows, scenario, pref)
			}
		}
		if _, err := policy.Decide(state, ctx, pref, u); err != nil {
			return nil, fmt.Errorf("policy at step %d: %w", k, err)
		}
		s.problem.Step(state, ctx, u, nextState, nextCtx)
		state, nextState, ctx, nextCtx = nextState, state, nextCtx, ctx
		left = left[min(1, len(left)):]
	}
	return samples, nil
}

// resolve is the optimum from a state, begun from what is left of a plan where there is one;
// nil where none was found.
func (s *Solver) resolve(state, ctx []float64, steps int, pref domain.Preference, seed uint64, plan [][]float64) (best *Trajectory, err error) {
	err = domain.ErrNotConverged
	if len(plan) == steps {
		best, err = s.Minimise(state, ctx, steps, pref, domain.WeightedSum, seed, plan)
	}
	switch {
	case unsolved(err) && steps == s.opt.Horizon:
		best, err = s.fromStart(state, ctx, steps, pref, domain.WeightedSum, seed)
	case unsolved(err):
		best, err = s.Minimise(state, ctx, steps, pref, domain.WeightedSum, seed)
	}
	if unsolved(err) {
		return nil, nil
	}
	return best, err
}
