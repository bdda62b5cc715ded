package closedloop

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/domain"
)

// optimum is what the reference of an episode costs, NaN with a failure where it could not be found.
type optimum struct {
	cost      Number
	failure   string
	bestKnown bool // it is the method's own cost
}

// referenceTolerance is the share of a reference by which a safe method must cost less for it to be none.
const referenceTolerance = 1e-4

// improved is the optimum where a method drove the episode safely at less cost, or there is none. The solver of the plant
// then looks for a better one from the actions of the episode. Where it finds none, the method's cost is the best known.
func (o optimum) improved(cs *domain.Case, ep domain.Episode, end *End) optimum {
	weak := func() bool { return !(end.Cost >= o.cost-Number(referenceTolerance*math.Abs(float64(o.cost)))) }
	e, ok := ep.(*simulated)
	if !ok || e.plant.Oracle == nil || !end.Safe || !weak() {
		return o
	}
	solver := domain.SolverUntil(e.ctx, e.plant.Solver)
	if e.plant.Problem == cs.Problem {
		solver = cs.Solver
	}
	receding, ok := solver.(domain.Receding)
	if !ok {
		return o
	}
	if cost, ok := e.solveDriven(receding.NewHorizon(0)); ok && !(cost >= float64(o.cost)) {
		o = optimum{cost: Number(cost)}
	}
	// Else it may be luck, or what it takes from the time after the episode.
	if e.scene.Process == 0 && e.plant.Problem.Spec().Horizon == 0 && o.failure == "" && weak() {
		o = optimum{cost: end.Cost, bestKnown: true}
	}
	return o
}

// solveDriven is the least cost of an episode that a solver of its plant finds from the actions that acted in it. It returns
// false where there is none, or its plan passes through a lost state.
func (e *simulated) solveDriven(horizon domain.Horizon) (float64, bool) {
	first, cost, err := e.beginning()
	if err != nil {
		return 0, false
	}
	plan := slices.Concat(e.actions[first.t:]...)
	horizon.Begin(plan)
	spec := e.plant.Problem.Spec()
	plan = append(plan, make([]float64, spec.Tail(len(e.actions)-first.t)*spec.ActionSize())...)
	_, solved, err := horizon.Solve(first.s, first.c, e.scene.Preference, plan)
	for u := range slices.Chunk(plan, len(e.actions[0])) {
		if !solved || err != nil || first.Done() {
			break
		}
		var out domain.Outcome
		out, err = first.Apply(u)
		cost, solved = cost+out.Cost, solved && !out.Failed
	}
	return cost, solved && err == nil
}

// halfTheTime is what a reference has of the time that is left, so that other episodes have some.
func halfTheTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, end.Add(-time.Until(end)/2))
	}
	return ctx, func() {}
}

// optimumOf asks the episode.
func optimumOf(ep domain.Episode) optimum {
	cost, _, err := ep.Oracle()
	if err != nil {
		return optimum{cost: Number(math.NaN()), failure: err.Error()}
	}
	return optimum{cost: Number(cost)}
}

// noOptimum is of an episode whose optimum was not computed.
var noOptimum = optimum{cost: Number(math.NaN())}

// optima remember the costs of the references of episodes, for methods that run on the same ones. The optimum of an
// episode does not depend on how it was driven.
type optima struct {
	mu        sync.Mutex
	byEpisode map[int]optimum
}

// ask is the optimum of an episode by its number; of those that do not remember it is asked anew.
func (o *optima) ask(number int, ep domain.Episode) optimum {
	if o == nil {
		return optimumOf(ep)
	}
	o.mu.Lock()
	cached, ok := o.byEpisode[number]
	o.mu.Unlock()
	if ok {
		return cached
	}
	return optimumOf(ep) // no two threads have one episode
}

// keep remembers the optimum of an episode.
func (o *optima) keep(number int, best optimum) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	best.bestKnown = false
	o.byEpisode[number] = best
}
