package batchnav

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// ExactFront solves one observation under every weighting of the options. Each solve begins with its neighbour's plan, through the list and back. It begins once more with the plan of the same
// point of initial, a front of these weightings with its Plans; nil: there is none. The cheapest plan stays. Weightings whose
// solves do not converge are left out. TimeLimit ends it with what it has by then.
func ExactFront(ctx context.Context, p domain.Problem, solver domain.Receding, obs Observation, opt FrontOptions, initial *Front) (*Front, error) {
	spec := p.Spec()
	decisions, err := opt.decisions(spec, domain.AbilitiesOfProblem(p), obs.C)
	if err != nil {
		return nil, err
	}
	weights := opt.Weights
	if initial != nil && (len(initial.Points) != len(weights) || initial.LookAhead != decisions) {
		return nil, fmt.Errorf("front: the initial one has %d points of %d decisions, want %d of %d", len(initial.Points), initial.LookAhead, len(weights), decisions)
	}
	if len(weights) > MostPoints {
		return nil, fmt.Errorf("front: %d weightings, want at most %d", len(weights), MostPoints)
	}
	run, end := opt.limit(ctx)
	defer end()
	if s, ok := solver.(domain.Solver); ok { // which ends in the middle of a solve
		if bounded, ok := domain.SolverUntil(run, s).(domain.Receding); ok {
			solver = bounded
		}
	}
	horizon, plan := solver.NewHorizon(0), make([]float64, decisions*spec.ActionSize())
	costs, plans := slices.Repeat([]float64{math.Inf(1)}, len(weights)), make([][]float64, len(weights))
	solve := func(i int, neighbour []float64) error {
		pref := domain.Preference{W: weights[i]}
		if err := spec.CheckObservation(obs.S, obs.C, pref); err != nil {
			return fmt.Errorf("front: point %d: the observation %w", i, err)
		}
		if end, ok := run.Deadline(); ok {
			horizon.Within(max(1, time.Until(end)))
		}
		horizon.Begin(neighbour)
		cost, solved, err := horizon.Solve(obs.S, obs.C, pref, plan)
		if err == nil && !solved && neighbour != nil && run.Err() == nil {
			horizon.Begin(nil)
			cost, solved, err = horizon.Solve(obs.S, obs.C, pref, plan)
		}
		if solved && cost < costs[i] {
			costs[i], plans[i] = cost, slices.Clone(plan)
		}
		return cmp.Or(err, run.Err())
	}
	var neighbour []float64
	for k := 0; k < 2*len(weights) && err == nil; k++ {
		i := min(k, 2*len(weights)-1-k)
		err = solve(i, neighbour)
		if err == nil && k == i && initial != nil && initial.Points[i].Feasible {
			err = solve(i, initial.Points[i].plan)
		}
		if plans[i] != nil {
			neighbour = plans[i]
		}
	}
	if err != nil && (run.Err() == nil || ctx.Err() != nil) {
		return nil, err
	}
	front := &Front{Points: []FrontPoint{}, LookAhead: decisions, Incomplete: err != nil}
	for i, plan := range plans {
		if plan != nil {
			front.Points = append(front.Points, simulated(p, obs, weights[i], plan, false))
		}
	}
	front.compare(spec.ObjectiveSize())
	return front, nil
}

// simulated is a plan with what follows from it, its actions projected in place where that is asked for.
func simulated(p domain.Problem, obs Observation, w, plan []float64, project bool) FrontPoint {
	spec := p.Spec()
	r := newRollouts(&loaded{problem: p, abilities: domain.AbilitiesOfProblem(p), spec: spec})
	r.grow(1, 1)
	r.totals, r.executed = make([]float64, spec.ObjectiveSize()), plan
	b := domain.PlanBatch{S: obs.S, C: obs.C, NoProjection: !project, Projected: make([]float64, spec.PlanSize()), Cost: make([]float64, 1), Margin: make([]float64, 1)}
	r.replay(&b, plan)
	return FrontPoint{W: w, plan: plan, U: plan[:spec.ActionSize()], J: r.totals, Margin: b.Margin[0], Feasible: spec.Keeps(b.Margin[0]) && tensor.Finite(r.totals)}
}
