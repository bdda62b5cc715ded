// Package environment is a case's plant as learners take one: thousands of its closed-loop
// episodes side by side, each begun anew when it has ended.
//
// The central type is Fleet, which steps all of them in one call, in parallel, and reads and
// writes arrays of the caller's. Everything in it is the case's own: the episodes are those
// of closedloop.Evaluate for a seed and number, an observation is what a controller is
// given there, a step is Episode.Apply, the reward is minus the stage cost, the cost is how
// far margins are broken. What is written does not depend on the number of threads.
package environment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Float is the type of observations and actions.
type Float interface{ float32 | float64 }

// Autoreset says when an environment whose episode has ended begins its next. The three are
// those of Gymnasium's vector environments.
type Autoreset string

const (
	// NextStep: in the step after the last, whose action is not looked at; the default.
	NextStep Autoreset = "next-step"
	// SameStep: in the last step itself; Rows.Final has what was observed before.
	SameStep Autoreset = "same-step"
	// Disabled: when Reset is called.
	Disabled Autoreset = "disabled"
)

// Options of a Fleet.
type Options struct {
	Environments int    // how many, at least 1
	Seed         uint64 // of the episodes
	// Cycle, where it is not 0, is the number of different episodes: behind Cycle − 1 follows
	// 0 again.
	Cycle int
	// Preference of scoring, and so of the reward; Noise and Regime are those of
	// domain.EpisodeOptions.
	Preference domain.Preference
	Noise      float64
	Regime     string
	// Safeguard has each action before the plant does: domain.Safeguard.
	Safeguard bool
	// Past: an episode goes on to its last step also after its goal has been met, as an
	// evaluation does; otherwise it terminates there. For a case without goals they are the same.
	Past bool
	// FailureCost is what each step that a failure leaves untaken costs; 0: twice the largest
	// stage cost, in absolute value, of episode 0 of seed 0 under Problem.Fallback.
	FailureCost float64
	Autoreset   Autoreset // "": NextStep
	Threads     int       // 0: as many as processors
}

// validate says what cannot be.
func (o *Options) validate(spec *domain.Spec) error {
	o.Autoreset = cmp.Or(o.Autoreset, NextStep)
	switch {
	case o.Environments < 1 || o.Environments > maxEnvironments:
		return fmt.Errorf("environment: %d environments, want 1 to %d", o.Environments, maxEnvironments)
	case o.Cycle < 0 || o.Threads < 0:
		return fmt.Errorf("environment: a cycle of %d episodes and %d threads, want none negative", o.Cycle, o.Threads)
	case !(o.FailureCost >= 0) || math.IsInf(o.FailureCost, 0):
		return fmt.Errorf("environment: a failure costs %v a step, want a finite number ≥ 0", o.FailureCost)
	case !slices.Contains([]Autoreset{NextStep, SameStep, Disabled}, o.Autoreset):
		return fmt.Errorf("environment: autoreset %q, want %s, %s or %s", o.Autoreset, NextStep, SameStep, Disabled)
	}
	return o.Preference.Validate(spec.ObjectiveSize())
}

// maxEnvironments bounds what a request can ask for.
const maxEnvironments = 1 << 20

// Rows are what a step reads and writes, one row an environment, without gaps. All but
// Action may be nil: not wanted. A row of an environment that was reset and not stepped is
// zero but for Observation and Episode.
type Rows[T Float] struct {
	Action      []T // [n][action] in [−1, 1]; see domain.Unit
	Observation []T // [n][measured state, context], in their units: of what comes next
	// Final is, under SameStep and where an episode ended, what was observed at its end; other
	// rows are left as they are.
	Final  []T
	Reward []float64 // [n]: −σᵀJ of the step as the plant counts it
	// Cost is Σ max(0, −m) over the margins m that are violated, in their units, and Violated whether any is.
	Cost     []float64 // [n]
	Violated []bool    // [n]
	// Terminated: the goal was met, the state lost, or the action refused by the plant.
	// Truncated: the last step was taken.
	Terminated, Truncated      []bool    // [n]
	Stepped                    []bool    // [n]: whether the row is of a step
	Objectives, Margins, Sigma []float64 // [n][J], [n][margins], [n][J], as domain.Outcome's
	Episode                    []int64   // [n]: the number of the episode that is observed
}

// Fleet is many environments of one case. It is used by one goroutine.
type Fleet[T Float] struct {
	plant          domain.Plant
	problem        domain.Problem
	spec           *domain.Spec
	unit           *domain.Unit
	opt            Options
	ns, nc, nu, nj int
	nm             int
	slots          []slot
	workers        []*worker
	begun          bool
	once           sync.Once // of failure and unknown
	failure        failure
	unknown        error // why failure is not known
}

// slot is one environment.
type slot struct {
	episode domain.Episode
	number  int64 // of its episode
	next    int64 // of the episode that follows
	left    int   // steps
	ended   bool  // and not begun anew
	reset   bool  // in this step
	s, c, u []float64
}

// worker is what one thread computes in.
type worker struct {
	stepper  domain.Stepper    // nil: one by one
	guard    *domain.Safeguard // nil: none
	a        []float64
	margins  []float64
	index    []int // environments that are stepped, with the same of each in what follows
	episodes []domain.Episode
	u        [][]float64
	outcomes []domain.Outcome
	errs     []error
}

// failure is what a step that is not taken costs.
type failure struct {
	cost float64
	j    []float64
}

// New makes environments of a case. Nothing is drawn before Reset.
func New[T Float](c *domain.Case, opt Options) (*Fleet[T], error) {
	spec := c.Problem.Spec()
	if err := opt.validate(spec); err != nil {
		return nil, err
	}
	if c.Plant == nil {
		return nil, fmt.Errorf("environment: case %q has no plant; see closedloop.Simulated", spec.Name)
	}
	unit, err := domain.NewUnit(c.Problem)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	n := opt.Environments
	f := &Fleet[T]{
		plant: c.Plant, problem: c.Problem, spec: spec, unit: unit, opt: opt,
		ns: spec.MeasuredSize(), nc: spec.ContextSize(), nu: spec.ActionSize(), nj: spec.ObjectiveSize(), nm: len(spec.Margins),
		slots: make([]slot, n),
	}
	threads := cmp.Or(opt.Threads, runtime.GOMAXPROCS(0))
	for range min(threads, n) {
		w := &worker{a: make([]float64, f.nu), margins: make([]float64, f.nm)}
		if t, ok := c.Plant.(domain.Together); ok {
			w.stepper = t.NewStepper()
		}
		if opt.Safeguard {
			w.guard = domain.NewSafeguard(c)
		}
		f.workers = append(f.workers, w)
	}
	width := f.ns + f.nc + f.nu
	all := make([]float64, n*width)
	for i := range f.slots {
		row := all[i*width : (i+1)*width : (i+1)*width]
		f.slots[i].s, f.slots[i].c, f.slots[i].u = row[:f.ns:f.ns], row[f.ns:f.ns+f.nc:f.ns+f.nc], row[f.ns+f.nc:]
	}
	f.Seed(opt.Seed)
	return f, nil
}

// Seed makes the next Reset, which is to be of all, begin with the first episodes of a seed:
// number i in environment i.
func (f *Fleet[T]) Seed(seed uint64) {
	f.opt.Seed = seed
	for i := range f.slots {
		f.slots[i].next = int64(i)
	}
	f.begun = false
}

// Reset begins an episode in every environment, or in those that which marks, and writes
// Observation and Episode of them. numbers, where they are not nil, are those of the
// episodes; otherwise it is each environment's next: after episode e follows e + n, n the
// number of environments. Drawing some cases' episodes takes long; ctx ends it with its error.
func (f *Fleet[T]) Reset(ctx context.Context, which []bool, numbers []int64, rows *Rows[T]) error {
	n := len(f.slots)
	if which != nil && len(which) != n || numbers != nil && len(numbers) != n {
		return fmt.Errorf("environment: a reset of %d marks and %d numbers, want %d of each or none", len(which), len(numbers), n)
	}
	if err := f.check(rows, false); err != nil {
		return err
	}
	if which != nil && !f.begun && slices.Contains(which, false) {
		return fmt.Errorf("environment: the first reset is of all environments, not of some")
	}
	var list []int
	for i := range f.slots {
		if which != nil && !which[i] {
			continue
		}
		if numbers != nil {
			if numbers[i] < 0 {
				return fmt.Errorf("environment: environment %d is to begin episode %d, want ≥ 0", i, numbers[i])
			}
			f.slots[i].next = numbers[i]
		}
		list = append(list, i)
	}
	if err := f.begin(ctx, list, rows); err != nil {
		return err
	}
	f.begun = true
	return nil
}

// prepared is how many scenes a domain.Preparing keeps, together how many of them a thread draws.
const (
	prepared = 128
	together = 2 * lanes
)

// begin begins the next episodes of some environments.
func (f *Fleet[T]) begin(ctx context.Context, list []int, rows *Rows[T]) error {
	p, ok := f.plant.(domain.Preparing)
	if !ok || len(list) == 1 {
		return f.open(ctx, list, rows)
	}
	for part := range slices.Chunk(list, prepared) {
		var numbers []int
		for _, i := range part {
			numbers = append(numbers, f.number(i))
		}
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		// No more together than leaves every thread some.
		share := min(max((len(numbers)+len(f.workers)-1)/len(f.workers), 1), together)
		err := f.parallel(len(numbers), share, func(_ *worker, lo, hi int) error {
			return p.Prepare(ctx, f.opt.Seed, numbers[lo:hi], domain.EpisodeOptions{Regime: f.opt.Regime, Preference: f.opt.Preference})
		})
		if err != nil {
			return fmt.Errorf("environment: %w", err)
		}
		if err := f.open(ctx, part, rows); err != nil {
			return err
		}
	}
	return nil
}

// number is that of the episode that follows in environment i.
func (f *Fleet[T]) number(i int) int {
	if f.opt.Cycle > 0 {
		return int(f.slots[i].next % int64(f.opt.Cycle))
	}
	return int(f.slots[i].next)
}

// open opens the next episodes of some environments.
func (f *Fleet[T]) open(ctx context.Context, list []int, rows *Rows[T]) error {
	return f.parallel(len(list), 1, func(_ *worker, at, _ int) error {
		i := list[at]
		e := &f.slots[i]
		number := f.number(i)
		ep, err := f.plant.Episode(f.opt.Seed, number, domain.EpisodeOptions{
			Noise: f.opt.Noise, Regime: f.opt.Regime, Preference: f.opt.Preference, Context: ctx,
		})
		if err != nil {
			return fmt.Errorf("environment: episode %d of %s: %w", number, f.spec.Name, err)
		}
		e.episode, e.number, e.next, e.left, e.ended = ep, int64(number), e.next+int64(len(f.slots)), ep.Steps(), false
		ep.Observe(e.s, e.c)
		f.observe(rows.Observation, i)
		put(rows.Episode, i, e.number)
		return nil
	})
}

// observe writes what environment i observed.
func (f *Fleet[T]) observe(into []T, i int) {
	if into == nil {
		return
	}
	e, row := &f.slots[i], into[i*(f.ns+f.nc):]
	for k, v := range e.s {
		row[k] = T(v)
	}
	for k, v := range e.c {
		row[f.ns+k] = T(v)
	}
}

func put[V any](into []V, i int, v V) {
	if into != nil {
		into[i] = v
	}
}

func putRow(into []float64, i int, v []float64) {
	if into != nil {
		copy(into[i*len(v):], v)
	}
}

// Step takes one step in every environment. Where it returns an error no environment has
// moved, unless the error is of drawing an episode, which ctx ends.
func (f *Fleet[T]) Step(ctx context.Context, rows *Rows[T]) error {
	if !f.begun {
		return fmt.Errorf("environment: a step before the first reset")
	}
	if err := f.check(rows, true); err != nil {
		return err
	}
	var ended []int
	for i := range f.slots {
		e := &f.slots[i]
		e.reset = e.ended
		if e.ended {
			ended = append(ended, i)
		}
	}
	if len(ended) > 0 {
		if f.opt.Autoreset == Disabled {
			return fmt.Errorf("environment: the episode of environment %d has ended: reset it before the next step", ended[0])
		}
		if err := f.begin(ctx, ended, rows); err != nil {
			return err
		}
		for _, i := range ended {
			f.clear(rows, i)
		}
	}
	if err := f.parallel(len(f.slots), f.share(), func(w *worker, lo, hi int) error { return f.step(ctx, w, rows, lo, hi) }); err != nil {
		return err
	}
	if f.opt.Autoreset != SameStep {
		return nil
	}
	ended = ended[:0]
	for i := range f.slots {
		if f.slots[i].ended {
			f.observe(rows.Final, i)
			ended = append(ended, i)
		}
	}
	return f.begin(ctx, ended, rows)
}

// lanes is a number that those of every stepper divide.
const lanes = 8

// share is how many environments a thread takes at a time.
func (f *Fleet[T]) share() int {
	each := (len(f.slots) + 4*len(f.workers) - 1) / (4 * len(f.workers))
	return min(max((each+lanes-1)/lanes*lanes, lanes), 32*lanes)
}

// check says what is wrong with the caller's arrays; stepping, actions have to be there.
func (f *Fleet[T]) check(rows *Rows[T], stepping bool) error {
	n := len(f.slots)
	for _, v := range []struct {
		name       string
		got, width int
	}{
		{"observation", len(rows.Observation), f.ns + f.nc}, {"final", len(rows.Final), f.ns + f.nc}, {"reward", len(rows.Reward), 1}, {"cost", len(rows.Cost), 1},
		{"violated", len(rows.Violated), 1}, {"terminated", len(rows.Terminated), 1}, {"truncated", len(rows.Truncated), 1}, {"stepped", len(rows.Stepped), 1},
		{"objectives", len(rows.Objectives), f.nj}, {"margins", len(rows.Margins), f.nm}, {"sigma", len(rows.Sigma), f.nj}, {"episode", len(rows.Episode), 1},
	} {
		if v.got != 0 && v.got != n*v.width {
			return fmt.Errorf("environment: %s has %d entries, want %d for each of %d environments", v.name, v.got, v.width, n)
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
	put(rows.Reward, i, 0)
	put(rows.Cost, i, 0)
	for _, v := range [][]bool{rows.Violated, rows.Terminated, rows.Truncated, rows.Stepped} {
		put(v, i, false)
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
func (f *Fleet[T]) parallel(n, share int, do func(w *worker, lo, hi int) error) error {
	shares := (n + share - 1) / share
	if threads := min(len(f.workers), shares); threads > 1 {
		var next atomic.Int64
		var wait sync.WaitGroup
		errs, panics := make([]error, shares), make([]any, threads)
		for i, w := range f.workers[:threads] {
			wait.Go(func() {
				defer func() { panics[i] = recover() }()
				for k := int(next.Add(1)) - 1; k < shares; k = int(next.Add(1)) - 1 {
					errs[k] = do(w, k*share, min((k+1)*share, n))
				}
			})
		}
		wait.Wait()
		for _, p := range panics {
			if p != nil {
				panic(p) // where the caller can catch it
			}
		}
		return cmp.Or(errs...)
	}
	for lo := 0; lo < n; lo += share {
		if err := do(f.workers[0], lo, min(lo+share, n)); err != nil {
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
		if err := f.score(ctx, w, rows, i, &w.outcomes[k], w.errs[k]); err != nil {
			return err
		}
	}
	return nil
}

// score writes the row of a step that was taken in environment i, or refused.
func (f *Fleet[T]) score(ctx context.Context, w *worker, rows *Rows[T], i int, out *domain.Outcome, refused error) error {
	e := &f.slots[i]
	e.left--
	terminated := refused != nil || out.Failed
	var j, sigma []float64
	cost, named, reward := 0.0, out.Named, -out.Cost
	if terminated {
		if f.once.Do(func() { f.failure, f.unknown = f.measureFailure(ctx) }); f.unknown != nil {
			return f.unknown
		}
		fail := &f.failure
		j, sigma = make([]float64, f.nj), out.Sigma
		untaken := float64(e.left)
		if refused != nil {
			untaken++
			reward, sigma, named = 0, slices.Repeat([]float64{math.NaN()}, f.nj), w.margins
			f.problem.Margins(e.s, e.c, e.u, named)
			cost = untaken * math.Max(1, depth(named, f.spec.MarginTolerance))
		} else {
			copy(j, out.J)
			cost = depth(named, f.spec.MarginTolerance) + untaken
		}
		reward -= untaken * fail.cost
		for k := range j {
			j[k] += untaken * fail.j[k]
		}
	} else {
		j, sigma, cost = out.J, out.Sigma, depth(named, f.spec.MarginTolerance)
	}
	if refused == nil {
		if a, ok := e.episode.(domain.Arrived); ok && !f.opt.Past && a.Arrived() {
			terminated = true
		}
		e.episode.Observe(e.s, e.c)
	}
	truncated := !terminated && e.episode.Done()
	e.ended = terminated || truncated
	f.observe(rows.Observation, i)
	put(rows.Episode, i, e.number)
	put(rows.Reward, i, reward)
	put(rows.Cost, i, cost)
	put(rows.Violated, i, cost > 0)
	put(rows.Terminated, i, terminated)
	put(rows.Truncated, i, truncated)
	put(rows.Stepped, i, true)
	putRow(rows.Objectives, i, j)
	putRow(rows.Margins, i, named)
	putRow(rows.Sigma, i, sigma)
	return nil
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
		return fail, fmt.Errorf("environment: episode 0 of seed 0 of %s, whose cost under the conservative action is that of a failure: %w", f.spec.Name, err)
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
		return fail, fmt.Errorf("environment: the conservative action of %s costs nothing at all, so that the cost of a failure has to be given", f.spec.Name)
	}
	return fail, nil
}

// Sizes are the numbers of entries of one row.
func (f *Fleet[T]) Sizes() (observation, action, objectives, margins int) {
	return f.ns + f.nc, f.nu, f.nj, f.nm
}

// Environments is how many there are.
func (f *Fleet[T]) Environments() int { return len(f.slots) }

// Threads is on how many a step runs at most.
func (f *Fleet[T]) Threads() int { return len(f.workers) }

// Physical writes the action that a of [−1, 1]ⁿ stands for in environment i now, as the plant
// would be given it, the safeguard included.
func (f *Fleet[T]) Physical(i int, a, u []float64) {
	f.act(f.workers[0], &f.slots[i], a, u)
}

// act writes the action that a stands for in an environment.
func (f *Fleet[T]) act(w *worker, e *slot, a, u []float64) {
	f.unit.Action(e.s, e.c, a, u)
	if w.guard != nil {
		w.guard.Keep(e.s, e.c, f.opt.Preference, u)
	}
}

// Spread is the mean and the standard deviation of what the first observations of an own
// seed are, [measured state, context]: a normalisation for a case without a map. A deviation of zero is 1.
func Spread(ctx context.Context, c *domain.Case, opt Options) (mean, deviation []float64, err error) {
	const starts = 64
	opt.Environments, opt.Seed, opt.Cycle, opt.Noise = starts, spreadSeed, 0, 0
	f, err := New[float64](c, opt)
	if err != nil {
		return nil, nil, err
	}
	width := f.ns + f.nc
	rows := &Rows[float64]{Observation: make([]float64, starts*width)}
	if err := f.Reset(ctx, nil, nil, rows); err != nil {
		return nil, nil, err
	}
	mean, deviation = make([]float64, width), make([]float64, width)
	for k := range width {
		sum, squares := 0.0, 0.0
		for i := range starts {
			sum += rows.Observation[i*width+k]
		}
		mean[k] = sum / starts
		for i := range starts {
			d := rows.Observation[i*width+k] - mean[k]
			squares += d * d
		}
		if deviation[k] = math.Sqrt(squares / starts); deviation[k] == 0 {
			deviation[k] = 1
		}
	}
	return mean, deviation, nil
}

// spreadSeed is apart from what anyone trains or tests on.
const spreadSeed = 0x7370_7265_6164 // "spread"
