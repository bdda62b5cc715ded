package ocp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

const (
	// exchangeNeighbours is the number of neighbours whose plans a library scenario tries, exchangeRounds the most
	// rounds.
	exchangeNeighbours = 4
	exchangeRounds     = 6
	// startNeighbours is the number of library plans that a new scenario starts from.
	startNeighbours = 3
	// improvement is the relative decrease in cost that counts as another optimum.
	improvement = 1e-4
	// librarySeed draws the scenarios.
	librarySeed = 0x6c69_6272_6172_7921 // "library!"
)

// library is a set of solved scenarios under the adaptive priority. One solve finds one of several local optima.
// Scenarios that take over their neighbours' plans, round by round, leave the worse ones and come to agree.
type library struct {
	entries []entry
	scale   []float64 // of each component of entry.start: 1 over its range; 0 where all are equal
}

// entry is a scenario of a library.
type entry struct {
	start []float64 // the initial state and context
	plan  [][]float64
	cost  float64 // +Inf without a plan
}

// Prepare solves the Solver's library. It does not depend on the seed, so that all data and references of a problem
// share it.
func (s *Solver) Prepare(ctx context.Context, _ uint64, progress func(done, total int)) error {
	_, err := s.library(ctx, progress)
	return err
}

// library builds the library at its first use; nil where the options have none.
func (s *Solver) library(ctx context.Context, progress func(done, total int)) (*library, error) {
	if s.opt.Library == 0 {
		return nil, nil
	}
	s.work.libraryLock.Lock()
	defer s.work.libraryLock.Unlock()
	if s.work.library == nil {
		l, err := s.build(ctx, progress)
		if err != nil {
			return nil, fmt.Errorf("library: %w", err)
		}
		s.work.library = l
	}
	return s.work.library, nil
}

// build solves the library's scenarios from the Solver's own starts and exchanges their plans until none improves. It
// has no entries where the exchange improved none: the problem then has one basin.
func (s *Solver) build(ctx context.Context, progress func(done, total int)) (*library, error) {
	b := libraryBuild{solver: s.Until(ctx).(*Solver), entries: make([]entry, s.opt.Library), progress: progress}
	if err := b.solve(); err != nil {
		return nil, err
	}
	l := &library{entries: b.entries, scale: scales(b.entries)}
	improved, err := b.exchange(l)
	if err != nil {
		return nil, err
	}
	if progress != nil {
		progress((1+exchangeRounds)*len(b.entries), (1+exchangeRounds)*len(b.entries))
	}
	if !improved {
		l.entries = nil
	}
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return e.plan == nil })
	return l, nil
}

// libraryBuild is the state of a build.
type libraryBuild struct {
	solver   *Solver // with the build's context
	entries  []entry
	progress func(done, total int)
}

// forEach calls f for every scenario and reports the progress of a turn.
func (b *libraryBuild) forEach(turn int, f func(i int) error) error {
	n := len(b.entries)
	errs := make([]error, n)
	var finished atomic.Int64
	parallel.Each(max(runtime.GOMAXPROCS(0), b.solver.places()), n, func(worker, i int) {
		if errs[i] = b.solver.ctx.Err(); errs[i] == nil {
			errs[i] = f(i)
		}
		if k := finished.Add(1); b.progress != nil && worker == 0 {
			b.progress(turn*n+int(k), (1+exchangeRounds)*n)
		}
	})
	return cmp.Or(errs...)
}

// solve draws the scenarios and solves each from the Solver's own starts.
func (b *libraryBuild) solve() error {
	s := b.solver
	spec := s.problem.Spec()
	return b.forEach(0, func(i int) error {
		rng, p := rand.New(rand.NewPCG(librarySeed, uint64(i))), make([]float64, len(s.axes))
		domain.DrawScenario(rng, s.axes, p)
		state, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		s.initial(p, state, c)
		b.entries[i] = entry{start: slices.Concat(state, c), cost: math.Inf(1)}
		best, err := s.Minimise(state, c, s.opt.Horizon, domain.Preference{Adaptive: true}, domain.WeightedSum, uint64(i))
		return b.entries[i].improve(best, err)
	})
}

// exchange solves every scenario of l from the plans of its neighbours, round by round, and reports whether any
// improved. A round reads only the previous round's plans, so the order does not matter.
func (b *libraryBuild) exchange(l *library) (improved bool, err error) {
	s, n := b.solver, len(l.entries)
	measured := s.problem.Spec().MeasuredSize()
	neighbours := make([][]int, n)
	for i := range neighbours {
		neighbours[i] = l.nearest(l.entries[i].start, i, exchangeNeighbours)
	}
	next, changed := make([]entry, n), slices.Repeat([]bool{true}, n)
	for round := range exchangeRounds {
		err := b.forEach(1+round, func(i int) error {
			next[i] = l.entries[i]
			t := task{solver: s, state: next[i].start[:measured], ctx: next[i].start[measured:], steps: s.opt.Horizon}
			for _, j := range neighbours[i] {
				if changed[j] && l.entries[j].plan != nil {
					t.starts = append(t.starts, l.entries[j].plan)
				}
			}
			if len(t.starts) == 0 {
				return nil
			}
			ending := s.terminalCosts.forContext(t.ctx, domain.Preference{Adaptive: true})
			best, err := t.solveWeighted(domain.Preference{Adaptive: true}, ending)
			return next[i].improve(best, err)
		})
		if err != nil {
			return false, err
		}
		for i := range next {
			changed[i] = next[i].cost < l.entries[i].cost
		}
		l.entries, next = next, l.entries
		if !slices.Contains(changed, true) {
			break
		}
		improved = true
	}
	return improved, nil
}

// improve stores a solution that is another and better optimum. An unsolved one is no error.
func (e *entry) improve(t *Trajectory, err error) error {
	if unsolved(err) {
		return nil
	}
	if err == nil && (e.plan == nil || t.Cost < e.cost-improvement*math.Abs(e.cost)) {
		e.plan, e.cost = t.U, t.Cost
	}
	return err
}

// scales are 1 over the range of each component of the entries' starts.
func scales(entries []entry) []float64 {
	out := make([]float64, len(entries[0].start))
	for j := range out {
		lo, hi := math.Inf(1), math.Inf(-1)
		for i := range entries {
			lo, hi = math.Min(lo, entries[i].start[j]), math.Max(hi, entries[i].start[j])
		}
		if hi > lo {
			out[j] = 1 / (hi - lo)
		}
	}
	return out
}

// nearest are the indices of up to k entries nearest to start, without entry self.
func (l *library) nearest(start []float64, self, k int) []int {
	type candidate struct {
		index    int
		distance float64
	}
	var candidates []candidate
	for i := range l.entries {
		if i == self {
			continue
		}
		d := 0.0
		for j, v := range l.entries[i].start {
			e := (v - start[j]) * l.scale[j]
			d += e * e
		}
		candidates = append(candidates, candidate{i, d})
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var out []int
	for _, c := range candidates[:min(k, len(candidates))] {
		out = append(out, c.index)
	}
	return out
}

// plans are the plans of the scenarios nearest to (state, ctx), cut to the given steps; none without a library.
func (l *library) plans(state, ctx []float64, steps int) (plans [][][]float64) {
	if l == nil {
		return nil
	}
	for _, i := range l.nearest(slices.Concat(state, ctx), -1, startNeighbours) {
		if plan := l.entries[i].plan; steps <= len(plan) {
			plans = append(plans, plan[:steps])
		}
	}
	return plans
}

// taskFromStart is the task of Minimise from a scenario's start: from the plans of the nearest library scenarios, and the
// Solver's own starts.
func (s *Solver) taskFromStart(state, ctx []float64, steps int, seed uint64) (*task, error) {
	l, err := s.library(s.ctx, nil)
	if err != nil {
		return nil, err
	}
	t := s.taskFrom(state, ctx, steps, seed)
	if t.starts = l.plans(state, ctx, steps); len(t.starts) > 0 {
		t.ownStarts = max(1, t.ownStarts-len(t.starts))
	}
	return t, nil
}

// ColdStarts are the starts of a receding loop's decision where no previous plan leads to an optimum.
type ColdStarts struct {
	// Starts is the number of the Solver's own starts: the fallback held, its roll-out, then smooth actions. Waves
	// describes the smooth ones, and two more for retries: level, two amplitudes and a phase of each action, in
	// halves of the box.
	Starts int
	Waves  [][][4]float64
	// A first decision also tries the plans of the Nearest scenarios. States are their states and contexts, Plans
	// [steps][action] their plans, and Scale weighs the components of a distance.
	Nearest int
	Scale   []float64
	States  [][]float64
	Plans   [][][]float64
}

// ColdStarts are those of NewHorizon. It builds the library where needed.
func (s *Solver) ColdStarts(ctx context.Context) (*ColdStarts, error) {
	l, err := s.library(ctx, nil)
	if err != nil {
		return nil, err
	}
	b := &ColdStarts{Starts: s.opt.Starts, Nearest: startNeighbours}
	for k := 2; k < s.opt.Starts+retries; k++ {
		b.Waves = append(b.Waves, waves(horizonSeed, k, s.problem.Spec().ActionSize()))
	}
	if l != nil {
		b.Scale = l.scale
		for _, e := range l.entries {
			b.States, b.Plans = append(b.States, e.start), append(b.Plans, e.plan)
		}
	}
	return b, nil
}
