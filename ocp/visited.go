package ocp

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// visitedRows are the samples of a visited state's optimum: the state's own and its successor, for the losses that
// use both.
const visitedRows = 2

// SolveVisited is domain.SolverAbilities.SolveVisited: the policy drives the known dynamics for the kept steps, until the
// state is lost or no longer finite. The first optimum is Solve's. Each later state starts warm from the previous optimum,
// else from the Solver's own starts.
func (s *Solver) SolveVisited(scenario int, parameters []float64, pref domain.Preference, policy domain.Lender) ([]domain.Sample, error) {
	s = s.forSamples()
	if len(parameters) != len(s.axes) {
		return nil, fmt.Errorf("scenario has %d parameters, want %d", len(parameters), len(s.axes))
	}
	var visited [][2][]float64
	err := policy(func(c domain.Controller) (err error) {
		visited, err = s.drive(parameters, pref, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	var samples []domain.Sample
	rows := visitedRows
	if len(s.blocks) > 0 {
		rows = 1 // later rows are no decisions
	}
	previous := previousOptimum{}
	for k, point := range visited {
		best, err := s.resolve(point[0], point[1], s.opt.Horizon-k, pref, uint64(scenario), &previous)
		if err != nil {
			return nil, err
		}
		if best != nil && k > 0 {
			samples = s.appendPerturbed(samples, best, s.opt.Perturbed+k, k, rows, scenario, pref)
		}
		previous.shift++
	}
	return samples, nil
}

// drive returns the states and contexts that a policy visits from a scenario's start.
func (s *Solver) drive(parameters []float64, pref domain.Preference, policy domain.Controller) (visited [][2][]float64, err error) {
	if err := policy.Reset(nil); err != nil {
		return nil, err
	}
	spec := s.problem.Spec()
	state, ctx, u := make([]float64, len(spec.Measured)), make([]float64, len(spec.Context)), make([]float64, len(spec.Action))
	s.initial(parameters, state, ctx)
	for k := range s.opt.Keep {
		if s.abilities.Lost(state, ctx) || !tensor.Finite(state) || !tensor.Finite(ctx) {
			break
		}
		visited = append(visited, [2][]float64{state, ctx})
		if _, err := policy.Decide(state, ctx, pref, u); err != nil {
			return nil, fmt.Errorf("policy at step %d: %w", k, err)
		}
		nextState, nextCtx := make([]float64, len(state)), make([]float64, len(ctx))
		s.problem.Step(state, ctx, u, nextState, nextCtx)
		state, ctx = nextState, nextCtx
	}
	return visited, nil
}

// previousOptimum is the last optimum, shift steps ago: its plan and its iterate.
type previousOptimum struct {
	plan    [][]float64
	iterate *ipm // nil: none
	shift   int
}

// resolve is the optimum from a state, warm from the previous one if there is one; nil where none is found.
func (s *Solver) resolve(state, ctx []float64, steps int, pref domain.Preference, seed uint64, previous *previousOptimum) (*Trajectory, error) {
	fresh := s.taskFrom(state, ctx, steps, seed)
	if steps == s.opt.Horizon {
		var err error
		if fresh, err = s.taskFromStart(state, ctx, steps, seed); err != nil {
			return nil, err
		}
	}
	tasks := []*task{fresh}
	if previous.iterate != nil {
		warm := s.taskFrom(state, ctx, steps, seed, previous.plan[previous.shift:])
		warm.neighbour, warm.shift = previous.iterate, previous.shift
		tasks = []*task{warm, fresh}
	}
	for _, t := range tasks {
		t.keepWorkspace = true
		best, err := t.minimise(pref, domain.WeightedSum)
		if err == nil {
			*previous = previousOptimum{plan: best.U, iterate: s.detach(t.workspace)}
			return best, nil
		}
		if !unsolved(err) {
			return nil, err
		}
	}
	return nil, nil
}
