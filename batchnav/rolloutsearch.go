package batchnav

import (
	"context"
	"math"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/tensor"
)

// rolloutSearch is what a refinement adds to proposals: rounds of offsets along the roll-out.
type rolloutSearch struct {
	finder
	project []float64
}

// Split is the number of candidates of a refinement that are proposals, and the number left for the rounds after them.
// There are as many proposals as one round has; on a device they are one of the rounds. steps is the length of a
// roll-out, places the backend's (backend.Description).
func Split(spec *domain.Spec, o RefineOptions, steps, places int) (proposed, offset int) {
	if spec.Plan > 1 || o.NoRounds {
		return o.Candidates, 0
	}
	rounds := roundsOf(o.Candidates, steps, places)
	if places == 0 {
		rounds++
	}
	proposed = roundSize(o.Candidates, rounds)
	return proposed, o.Candidates - proposed
}

// newRolloutSearch prepares rounds of n candidates in all, along roll-outs of steps decisions.
func newRolloutSearch(l *loaded, n, round, steps int) (*rolloutSearch, error) {
	private := *l // with a stepper of its own
	r, err := newSearch(&private, &Options{Search: SearchOptions{Candidates: n, LookAhead: steps, round: round}})
	if err != nil {
		return nil, err
	}
	return &rolloutSearch{newFinder(r), make([]float64, l.spec.ActionSize())}, nil
}

// search improves what the proposals found by n candidates along the roll-out. The best
// proposal enters twice: for its own action, and held as an offset to the end.
func (r *Refiner) search(ctx context.Context, obs Observation, opt *RefineOptions, steps, n int, start time.Time, result *Refinement) (err error) {
	if round := min(n, result.Candidates); r.rounds == nil || r.rounds.opt.Candidates != n || r.rounds.round != round || r.rounds.steps < steps {
		if r.rounds, err = newRolloutSearch(r.loaded, n, round, max(steps, r.spec.LookAhead())); err != nil {
			return err
		}
	}
	a := r.rounds
	a.roundContext = ctx
	a.noProjection, a.threads = opt.NoProjection, max(1, opt.Threads)
	x, err := a.encode(obs.S, obs.C, obs.Preference)
	if err != nil {
		return err
	}
	a.memory.forget()
	a.sampler.Seed(opt.Seed)
	a.sampler.Begin(a.memory.Memory, steps)
	for _, constant := range []bool{false, true} {
		o := a.sampler.Offer()
		for j := range o {
			if constant || j < len(x.z) {
				o[j] = result.Latent[j%len(x.z)] - x.z[j%len(x.z)]
			}
		}
	}
	stats := domain.SourceStatistics{Source: domain.SourceSearched, BestCost: math.Inf(1)}
	whole, err := a.searchOnDevice(n, x, steps, false, opt.TimeLimit, time.Since(start))
	if err != nil {
		return err
	}
	if whole {
		a.report(obs, &stats, result)
	}
	for rounds, improved := 0, !whole; improved && stats.Candidates < n && !late(opt.TimeLimit, start, rounds+1); rounds++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		size := min(a.round, n-stats.Candidates)
		if improved, err = a.next(size, x, steps); err != nil {
			return err
		}
		a.count(&stats, size)
		a.choose(obs, result)
		result.Candidates += size
		result.endRound()
	}
	if stats.Feasible > 0 {
		stats.MeanCost /= float64(stats.Feasible)
	} else {
		stats.BestCost = 0
	}
	result.FeasibleCount += stats.Feasible
	result.Sources = append(result.Sources, stats)
	end := time.Since(start)
	if result.Latency.Evaluate > 0 { // a backend that refines by itself tells the total only
		result.Latency.Evaluate += machine.Microseconds(end) - result.Latency.Total
	}
	result.Latency.Total = machine.Microseconds(end)
	return nil
}

// report adds the rounds that a device has made.
func (a *rolloutSearch) report(obs Observation, stats *domain.SourceStatistics, result *Refinement) {
	incumbent := crossentropy.Elite{Cost: result.Cost, Margin: result.Margin}
	for _, round := range a.device.out.Rounds {
		stats.Candidates += round.Candidates
		stats.Feasible += round.Feasible
		stats.MeanCost += round.Total
		stats.BestCost = min(stats.BestCost, round.Least)
		result.Candidates += round.Candidates
		best := crossentropy.Elite{Cost: round.Cost, Margin: round.Margin}
		if len(a.device.out.Outcome.Number) == 0 || !a.sampler.Better(&best, &incumbent) {
			best = incumbent
		}
		result.Rounds = append(result.Rounds, RefineRound{Candidates: result.Candidates, Cost: best.Cost, Margin: best.Margin, Feasible: a.sampler.Feasible(&best)})
	}
	a.choose(obs, result)
}

// count adds the round of n candidates to what is known of all.
func (a *rolloutSearch) count(all *domain.SourceStatistics, n int) {
	all.Candidates += n
	for i, cost := range a.cost[:n] {
		if e := (crossentropy.Elite{Cost: cost, Margin: a.margin[i]}); a.sampler.Feasible(&e) {
			all.Feasible++
			all.MeanCost += cost
			all.BestCost = min(all.BestCost, cost)
		}
	}
}

// choose makes the best of the rounds so far the refinement's where it is better.
func (a *rolloutSearch) choose(obs Observation, result *Refinement) {
	best := a.memory.Best()
	if now := (crossentropy.Elite{Cost: result.Cost, Margin: result.Margin}); best == nil || !a.sampler.Better(best, &now) {
		return
	}
	tensor.Widen(a.project, best.Payload)
	if d := a.device; d != nil && len(d.out.Executed) > 0 { // what was scored
		copy(a.project, d.out.Executed)
	} else if !a.noProjection {
		a.problem.Project(obs.S, obs.C, a.project)
	}
	copy(result.U, a.project)
	result.Cost, result.Margin, result.Feasible = best.Cost, best.Margin, a.sampler.Feasible(best)
	result.Source, result.Index = domain.SourceSearched, result.Rounds[0].Candidates+best.Number
	for j := range result.Latent {
		result.Latent[j] = a.z.Row(0)[j] + best.Offsets[j]
	}
}
