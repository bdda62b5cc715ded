package estimate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
)

// Samples is the Solver of a case whose loops tighten the constraints. Its optima keep the tightening too, which a
// Margin of the same level finds along the plan of each start. Where no plan keeps all of it, it is a half, a quarter,
// or nothing, and the samples say so (domain.Sample.NoRoom). Several goroutines may use it.
type Samples struct {
	problem domain.Problem // without tightening
	solver  domain.Solver  // the case's own
	start   func(p, s, c []float64)
	newOne  func() (*keeper, error)
	ctx     context.Context
	free    *keepers
}

// keepers are the free ones.
type keepers struct {
	mu   sync.Mutex
	list []*keeper
}

// keeper solves under a tightening. It is used by one goroutine.
type keeper struct {
	backoff *domain.Backoff
	solver  domain.Solver
	horizon domain.Horizon
	margin  *Margin
	filter  *Filter
	delay   domain.Delay
	s, c    []float64
	plan    []float64
}

// NewSamples is that of a case with a Tightened and a Level above 0. filter makes the estimator of one loop.
func NewSamples(cs *domain.Case, filter func() (*Filter, error)) (*Samples, error) {
	spec := cs.Problem.Spec()
	start := domain.AbilitiesOfSolver(cs.Solver).Start
	if cs.Tightened == nil || start == nil {
		return nil, fmt.Errorf("estimate: case %q cannot solve samples that keep off its limits: it has no Tightened, or its solver no Start", spec.Name)
	}
	newKeeper := func() (*keeper, error) {
		k := &keeper{
			backoff: domain.NewBackoff(spec), delay: cs.Delay, s: make([]float64, spec.MeasuredSize()), c: make([]float64, spec.ContextSize()),
			plan: make([]float64, spec.LookAhead()*spec.ActionSize()),
		}
		tight, err := cs.Tightened(k.backoff)
		if err != nil {
			return nil, err
		}
		receding, recedes := tight.Solver.(domain.Receding)
		if !recedes {
			return nil, fmt.Errorf("estimate: the solver of case %q plans no horizon, along which limits are kept off", spec.Name)
		}
		if k.filter, err = filter(); err != nil {
			return nil, err
		}
		k.solver, k.horizon = tight.Solver, receding.NewHorizon(0)
		k.margin, err = NewMargin(cs.Problem, k.backoff, k.filter, cs.Level)
		return k, err
	}
	return &Samples{problem: cs.Problem, solver: cs.Solver, start: start, newOne: newKeeper, ctx: context.Background(), free: &keepers{}}, nil
}

// Parameters implements domain.Solver, as do Prepare and Solve.
func (m *Samples) Parameters() []domain.Variable { return m.solver.Parameters() }

// Prepare makes the first solver of a goroutine. What the solvers share is without tightening.
func (m *Samples) Prepare(ctx context.Context, seed uint64, progress func(done, total int)) error {
	k, err := m.newOne()
	if err == nil {
		err = k.solver.Prepare(ctx, seed, progress)
	}
	if err == nil {
		m.give(k)
	}
	return err
}

// take is one that is free, or a new one.
func (m *Samples) take() (*keeper, error) {
	m.free.mu.Lock()
	if n := len(m.free.list); n > 0 {
		k := m.free.list[n-1]
		m.free.list = m.free.list[:n-1]
		m.free.mu.Unlock()
		return k, nil
	}
	m.free.mu.Unlock()
	k, err := m.newOne()
	if err == nil {
		err = k.solver.Prepare(m.ctx, 0, nil)
	}
	return k, err
}

func (m *Samples) give(k *keeper) {
	k.backoff.Clear()
	m.free.mu.Lock()
	m.free.list = append(m.free.list, k)
	m.free.mu.Unlock()
}

// Solve returns the samples of one scenario under the tightening along its plan.
func (m *Samples) Solve(scenario int, p []float64, pref domain.Preference, scalarization domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	return m.solveTightened(p, pref, func(s domain.Solver) ([]domain.Sample, error) { return s.Solve(scenario, p, pref, scalarization, seed) })
}

// SolveVisited is domain.SolverAbilities.SolveVisited under the tightening along the plan of the scenario's start.
func (m *Samples) SolveVisited(scenario int, p []float64, pref domain.Preference, policy domain.Lender) ([]domain.Sample, error) {
	return m.solveTightened(p, pref, func(s domain.Solver) ([]domain.Sample, error) {
		return domain.AbilitiesOfSolver(s).SolveVisited(scenario, p, pref, policy)
	})
}

// solveTightened solves under the tightening from the start of a scenario.
func (m *Samples) solveTightened(p []float64, pref domain.Preference, solve func(domain.Solver) ([]domain.Sample, error)) ([]domain.Sample, error) {
	if want := len(m.solver.Parameters()); len(p) != want {
		return nil, fmt.Errorf("estimate: a scenario of %d parameters, want %d", len(p), want)
	}
	k, err := m.take()
	if err != nil {
		return nil, err
	}
	defer m.give(k)
	m.start(p, k.s, k.c)
	all, err := k.settle(pref)
	if err != nil {
		return nil, err
	}
	samples, err := solve(domain.SolverUntil(m.ctx, k.solver))
	for i := range samples {
		sample := &samples[i]
		sample.NoRoom, sample.Margins = !all, make([]float64, len(sample.Margins)) // those of the case
		m.problem.Margins(sample.S, sample.C, sample.U[:k.margin.nu], sample.Margins)
	}
	return samples, err
}

// shares of the tightening are tried one after another where no plan keeps all of it.
var shares = [...]float64{1, 0.5, 0.25}

// settle finds the tightening of the plan from the start, along the plan before it, as a Loop does for its first
// decision. It reports whether it is all of it.
func (k *keeper) settle(pref domain.Preference) (all bool, err error) {
	k.backoff.Clear()
	k.horizon.Begin(nil)
	plan := k.plan[:k.margin.remaining(k.c)*k.margin.nu]
	_, solved, err := k.horizon.Solve(k.s, k.c, pref, plan)
	if err != nil || !solved { // there is no way without tightening either, or none is found
		return false, err
	}
	plain := slices.Clone(plan)
	for _, share := range shares {
		copy(plan, plain)
		solved = true
		for turn := 1; turn < Settling && solved; turn++ {
			k.margin.Nominal(k.s, k.c, plan, k.filter, k.delay)
			k.backoff.Scale(share)
			if solved, err = k.resolve(pref, plan); err != nil {
				return false, err
			}
		}
		if solved {
			return share == 1, nil
		}
	}
	k.backoff.Clear()
	return false, nil
}

// resolve solves from a plan, and from the solver's own starts where that finds none.
func (k *keeper) resolve(pref domain.Preference, plan []float64) (solved bool, err error) {
	k.horizon.Begin(plan)
	if _, solved, err = k.horizon.Solve(k.s, k.c, pref, plan); solved || err != nil {
		return solved, err
	}
	k.horizon.Begin(nil)
	_, solved, err = k.horizon.Solve(k.s, k.c, pref, plan)
	return solved, err
}

// Abilities implements domain.Able.
func (m *Samples) Abilities() *domain.SolverAbilities {
	abilities := &domain.SolverAbilities{Start: m.start, Until: func(ctx context.Context) domain.Solver {
		clone := *m
		clone.ctx = ctx
		return &clone
	}}
	if domain.AbilitiesOfSolver(m.solver).SolveVisited != nil {
		abilities.SolveVisited = m.SolveVisited
	}
	return abilities
}

// Nominal is Along from where an episode begins, which is known: as large as the errors of an estimate there are after a first measurement.
// Queued actions are the problem's Fallback.
func (m *Margin) Nominal(s, c, plan []float64, f *Filter, delay domain.Delay) {
	f.startAt(s, c)
	queue := newActionQueue(m.problem, delay)
	queue.begin(s, c)
	queue.ahead(slices.Clone(s), slices.Clone(c))
	m.Along(s, c, plan, f, queue)
}

// startAt is the estimate after a first measurement whose errors are zero, of a state and context.
func (f *Filter) startAt(s, c []float64) {
	f.Reset()
	copy(f.x, s)
	copy(f.c, c)
	for i, p := range f.measurement.Unknown {
		f.x[f.ns+i] = c[p.Context]
	}
	f.linearise()
	copy(f.before, f.x)
	for i := range f.y {
		f.take(i, f.y[i])
	}
}
