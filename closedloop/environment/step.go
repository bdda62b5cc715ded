package environment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/tensor"
)

// Step takes one step in every environment. Where it returns an error no environment has
// moved, unless the error is of drawing an episode, which ctx ends.
func (f *Fleet[T]) Step(ctx context.Context, rows *Rows[T]) error {
	if !f.active {
		return fmt.Errorf("environment: step was called before the first reset: call reset first")
	}
	if err := f.check(rows, true); err != nil {
		return err
	}
	var finished []int
	for i := range f.slots {
		e := &f.slots[i]
		e.reset = e.finished
		if e.finished {
			finished = append(finished, i)
		}
	}
	if len(finished) > 0 {
		if f.opt.Autoreset == Disabled {
			return fmt.Errorf("environment: the episode of environment %d has ended: reset it before the next step", finished[0])
		}
		if err := f.begin(ctx, finished, rows); err != nil {
			return err
		}
		for _, i := range finished {
			f.clear(rows, i)
		}
	}
	if err := f.parallel(len(f.slots), f.share(), func(w *worker, lo, hi int) error { return f.step(ctx, w, rows, lo, hi) }); err != nil {
		return err
	}
	if f.opt.Autoreset != SameStep {
		return nil
	}
	finished = finished[:0]
	for i := range f.slots {
		if f.slots[i].finished {
			f.observe(rows.Final, i)
			finished = append(finished, i)
		}
	}
	return f.begin(ctx, finished, rows)
}

// lanes is a number that those of every stepper divide.
const lanes = 8

// share is how many environments a thread takes at a time.
func (f *Fleet[T]) share() int {
	size := (len(f.slots) + 4*len(f.workers) - 1) / (4 * len(f.workers))
	return min(max((size+lanes-1)/lanes*lanes, lanes), 32*lanes)
}

// check says what is wrong with the caller's arrays; stepping, actions have to be there.
func (f *Fleet[T]) check(rows *Rows[T], stepping bool) error {
	n := len(f.slots)
	for _, v := range []struct {
		name          string
		length, width int
	}{
		{"observation", len(rows.Observation), f.ns + f.nc}, {"final", len(rows.Final), f.ns + f.nc}, {"reward", len(rows.Reward), 1}, {"cost", len(rows.Cost), 1},
		{"violated", len(rows.Violated), 1}, {"terminated", len(rows.Terminated), 1}, {"truncated", len(rows.Truncated), 1}, {"stepped", len(rows.IsStep), 1},
		{"objectives", len(rows.Objectives), f.nj}, {"margins", len(rows.Margins), f.nm}, {"sigma", len(rows.Sigma), f.nj}, {"episode", len(rows.Episode), 1},
	} {
		if v.length != 0 && v.length != n*v.width {
			return fmt.Errorf("environment: %s has %d entries, want %d for each of %d environments", v.name, v.length, v.width, n)
		}
	}
	if !stepping {
		return nil
	}
	if len(rows.Action) != n*f.nu {
		return fmt.Errorf("environment: action has %d entries, want %d for each of %d environments", len(rows.Action), f.nu, n)
	}
	for k, v := range rows.Action {
		if v-v != 0 {
			return fmt.Errorf("environment: action %s of environment %d is %v, want a finite number", f.spec.Action[k%f.nu].Name, k/f.nu, v)
		}
	}
	return nil
}

// clear writes the row of an environment that was not stepped.
func (f *Fleet[T]) clear(rows *Rows[T], i int) {
	store(rows.Reward, i, 0)
	store(rows.Cost, i, 0)
	for _, v := range [][]bool{rows.Violated, rows.Terminated, rows.Truncated, rows.IsStep} {
		store(v, i, false)
	}
	for _, v := range []struct {
		row   []float64
		width int
	}{{rows.Objectives, f.nj}, {rows.Margins, f.nm}, {rows.Sigma, f.nj}} {
		if v.row != nil {
			clear(v.row[i*v.width : (i+1)*v.width])
		}
	}
}

// parallel calls do with shares of n items on all threads. Of several errors it returns
// that of the first item.
func (f *Fleet[T]) parallel(n, share int, work func(w *worker, lo, hi int) error) error {
	shares := (n + share - 1) / share
	if len(f.workers) > 1 && shares > 1 {
		errs := make([]error, shares)
		parallel.Each(len(f.workers), shares, func(worker, k int) { errs[k] = work(f.workers[worker], k*share, min((k+1)*share, n)) })
		return cmp.Or(errs...)
	}
	for lo := 0; lo < n; lo += share { // without allocating
		if err := work(f.workers[0], lo, min(lo+share, n)); err != nil {
			return err
		}
	}
	return nil
}

// step steps some environments.
func (f *Fleet[T]) step(ctx context.Context, w *worker, rows *Rows[T], lo, hi int) error {
	w.index, w.episodes, w.u = w.index[:0], w.episodes[:0], w.u[:0]
	for i := lo; i < hi; i++ {
		e := &f.slots[i]
		if e.reset {
			continue
		}
		for k := range w.a {
			w.a[k] = float64(rows.Action[i*f.nu+k])
		}
		f.act(w, e, w.a, e.u)
		w.index, w.episodes, w.u = append(w.index, i), append(w.episodes, e.episode), append(w.u, e.u)
	}
	for n := len(w.index); len(w.outcomes) < n; {
		w.outcomes, w.errs = append(w.outcomes, domain.Outcome{}), append(w.errs, nil)
	}
	if n := len(w.index); w.stepper != nil {
		w.stepper.Apply(w.episodes, w.u, w.outcomes[:n], w.errs[:n])
	} else {
		for k, ep := range w.episodes {
			w.outcomes[k], w.errs[k] = ep.Apply(w.u[k])
		}
	}
	for k, i := range w.index {
		out := &w.outcomes[k] // one that diverged has no cost to learn from
		if err := f.score(ctx, w, rows, i, out, w.errs[k] != nil || !tensor.Finite(out.S) || math.IsNaN(out.Cost-out.Cost)); err != nil {
			return err
		}
	}
	return nil
}

// stepRow is a step as its row says it.
type stepRow struct {
	reward, cost      float64
	j, sigma, margins []float64
}

// score writes the row of a step that was taken in environment i, or refused.
func (f *Fleet[T]) score(ctx context.Context, w *worker, rows *Rows[T], i int, out *domain.Outcome, refused bool) error {
	e := &f.slots[i]
	e.remaining--
	step := stepRow{reward: -out.Cost, cost: depth(out.Named, f.spec.MarginTolerance), j: out.J, sigma: out.Sigma, margins: out.Named}
	terminated := refused || out.Failed
	if terminated {
		if f.probe.Do(func() { f.failure, f.unknown = f.measureFailure(ctx) }); f.unknown != nil {
			return f.unknown
		}
		step = f.countUntaken(w, e, step, refused)
	}
	if !refused {
		if e.arrived != nil && !f.opt.Past && e.arrived() {
			terminated = true
		}
		e.episode.Observe(e.s, e.c)
	}
	truncated := !terminated && e.episode.Done()
	e.finished = terminated || truncated
	f.observe(rows.Observation, i)
	store(rows.Episode, i, e.number)
	store(rows.Reward, i, step.reward)
	store(rows.Cost, i, step.cost)
	store(rows.Violated, i, step.cost > 0)
	store(rows.Terminated, i, terminated)
	store(rows.Truncated, i, truncated)
	store(rows.IsStep, i, true)
	storeRow(rows.Objectives, i, step.j)
	storeRow(rows.Margins, i, step.margins)
	storeRow(rows.Sigma, i, step.sigma)
	return nil
}

// countUntaken adds the steps that a failed episode does not take any more. The failed step is among them where the
// plant refused its action. That one has no objectives, and the margins that the problem predicts.
func (f *Fleet[T]) countUntaken(w *worker, e *slot, step stepRow, refused bool) stepRow {
	untaken, j := float64(e.remaining), make([]float64, f.nj)
	if refused {
		untaken++
		step.reward, step.sigma, step.margins = 0, slices.Repeat([]float64{math.NaN()}, f.nj), w.margins
		f.problem.Margins(e.s, e.c, e.u, step.margins)
		step.cost = untaken * math.Max(1, depth(step.margins, f.spec.MarginTolerance))
	} else {
		copy(j, step.j)
		step.cost += untaken
	}
	step.reward -= untaken * f.failure.cost
	tensor.Axpy(untaken, f.failure.j, j)
	step.j = j
	return step
}

// depth is Σ max(0, −m) over the margins that are violated; one that is no number counts 1.
func depth(margins []float64, tolerance float64) float64 {
	sum := 0.0
	for _, m := range margins {
		switch {
		case m >= -tolerance:
		case m < 0:
			sum -= m
		default:
			sum++
		}
	}
	return sum
}

// measureFailure finds what a step that is not taken costs; see Options.FailureCost.
func (f *Fleet[T]) measureFailure(ctx context.Context) (failure, error) {
	fail := failure{cost: f.opt.FailureCost, j: slices.Repeat([]float64{f.opt.FailureCost}, f.nj)}
	if fail.cost > 0 {
		return fail, nil
	}
	ep, err := f.plant.Episode(0, 0, domain.EpisodeOptions{Regime: f.opt.Regime, Preference: f.opt.Preference, Context: ctx})
	if err != nil {
		return fail, fmt.Errorf("environment: the cost of a failure in %s cannot be taken from episode 0 of seed 0: %w", f.spec.Name, err)
	}
	s, c, u := make([]float64, f.ns), make([]float64, f.nc), make([]float64, f.nu)
	for !ep.Done() {
		ep.Observe(s, c)
		f.problem.Fallback(s, c, u)
		out, err := ep.Apply(u)
		if err != nil || !tensor.Finite(out.J) {
			break
		}
		fail.cost = math.Max(fail.cost, 2*math.Abs(out.Cost))
		for k, v := range out.J {
			fail.j[k] = math.Max(fail.j[k], 2*math.Abs(v))
		}
	}
	if fail.cost == 0 {
		return fail, fmt.Errorf("environment: the conservative action of %s costs nothing, from which no cost of a failure follows: give that cost (failure_cost)", f.spec.Name)
	}
	return fail, nil
}

// act writes the action that a stands for in an environment.
func (f *Fleet[T]) act(w *worker, e *slot, a, u []float64) {
	f.unit.Action(e.s, e.c, a, u)
	if w.guard != nil {
		w.guard.Keep(e.s, e.c, f.opt.Preference, u)
	}
}
