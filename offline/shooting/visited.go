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
	s = s.forSamples()
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
	rows := visitedRows
	if len(s.blocks) > 0 {
		rows = 1 // what comes behind is no decision
	}
	previous := previousOptimum{solver: s}
	defer previous.setWorkspace(nil)
	for k := 0; k < s.opt.Keep; k++ {
		if s.abilities.Lost(state, ctx) || !tensor.Finite(state) || !tensor.Finite(ctx) {
			break
		}
		best, err := s.resolve(state, ctx, s.opt.Horizon-k, pref, uint64(scenario), &previous)
		if err != nil {
			return nil, err
		}
		if best != nil && k > 0 {
			samples = s.appendPerturbed(samples, best, s.opt.Perturbed+k, k, rows, scenario, pref)
		}
		if _, err := policy.Decide(state, ctx, pref, u); err != nil {
			return nil, fmt.Errorf("policy at step %d: %w", k, err)
		}
		s.problem.Step(state, ctx, u, nextState, nextCtx)
		state, nextState = nextState, state
		ctx, nextCtx = nextCtx, ctx
		previous.shift++
	}
	return samples, nil
}

// previousOptimum is what is left of the last optimum so many steps later: its plan, and the solve that found it.
type previousOptimum struct {
	solver    *Solver
	plan      [][]float64
	workspace *ipm // nil: none
	shift     int
}

// setWorkspace makes a solve's workspace the leftover's, or that of none.
func (l *previousOptimum) setWorkspace(workspace *ipm) {
	if l.workspace != nil {
		l.solver.work.workspaces.Put(l.workspace)
	}
	l.workspace, l.shift = workspace, 0
}

// resolve is the optimum from a state, begun from what is left of the last one where there is one;
// nil where none was found.
func (s *Solver) resolve(state, ctx []float64, steps int, pref domain.Preference, seed uint64, previous *previousOptimum) (*Trajectory, error) {
	fresh := s.taskFrom(state, ctx, steps, seed)
	if steps == s.opt.Horizon {
		var err error
		if fresh, err = s.taskFromStart(state, ctx, steps, seed); err != nil {
			return nil, err
		}
	}
	tasks := []*task{fresh}
	if previous.workspace != nil {
		warm := s.taskFrom(state, ctx, steps, seed, previous.plan[previous.shift:])
		warm.neighbour, warm.shift = previous.workspace, previous.shift
		tasks = []*task{warm, fresh}
	}
	for _, t := range tasks {
		t.keepWorkspace = true
		best, err := t.minimise(pref, domain.WeightedSum)
		if err == nil {
			previous.setWorkspace(t.workspace)
			previous.plan = best.U
			return best, nil
		}
		if !unsolved(err) {
			return nil, err
		}
	}
	return nil, nil
}
