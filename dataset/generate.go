package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Generate makes a dataset, or one shard of it, in OutDir. It continues an earlier run. When ctx ends, it has one
// second to finish the chunk in progress and drops it otherwise. It then returns the context's error with the
// counters so far. Nothing is half-written, and the same call completes the dataset later. Counters are those of the
// whole shard; rate and wall time are those of this run.
func Generate(ctx context.Context, c domain.Case, opt Options, progress func(Progress)) (Counters, error) {
	start := time.Now()
	h, err := opt.header(c)
	if err != nil {
		return Counters{}, err
	}
	g, err := newGenerator(&c, &opt, &h, progress)
	if err != nil {
		return Counters{}, err
	}
	if err = durable.ProbeFolder(opt.OutDir); err == nil {
		err = os.MkdirAll(opt.OutDir, 0o755)
	}
	if err != nil {
		return Counters{}, durable.Refusef("dataset: %w", err)
	}
	lock, err := durable.Acquire(opt.OutDir)
	if err != nil {
		return Counters{}, fmt.Errorf("dataset: %w", err)
	}
	defer lock.Release()
	if err := begin(opt.OutDir, &h); err != nil {
		return Counters{}, err
	}
	total, missing, err := resume(opt.OutDir, &h)
	if err != nil {
		return total, err
	}
	earlier := total.Solves
	if len(missing) > 0 {
		err = g.generate(ctx, &opt, missing, &total)
	}
	total.WallSeconds = time.Since(start).Seconds()
	if solved := total.Solves - earlier; solved > 0 {
		total.SolvesPerSecond = float64(solved) / total.WallSeconds
	}
	if err == nil && total.Samples == 0 && h.Shard.Count == 1 {
		err = fmt.Errorf("dataset: %s has no samples of %d scenarios; %s", opt.OutDir, total.Scenarios, total.Missing())
	}
	return total, err
}

// resume reads the parts of an earlier run. It returns their counters and the chunks of the shard without a part.
func resume(dir string, h *Header) (counters Counters, missing []int, err error) {
	for _, chunk := range h.ownChunks() {
		m, err := readManifest(dir, h, chunk)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, chunk)
			continue
		}
		if err != nil {
			return counters, nil, err
		}
		if err := h.decode(dir, &m, newColumns(h.Layout, m.Rows), 0); err != nil {
			return counters, nil, fmt.Errorf("%w; without that file and %s the part is made again", err, manifestName(chunk))
		}
		counters.Add(m.Counters)
	}
	return counters, missing, nil
}

// graceContext is a context that ends a second after ctx.
func graceContext(ctx context.Context) (grace context.Context, cancel func()) {
	grace, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, end) })
	return grace, func() {
		stop()
		end()
	}
}

// begin writes the header of a new dataset, or checks that an old one is the same.
func begin(dir string, h *Header) error {
	var old Header
	err := readHeader(dir, &old)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.WriteSealed(filepath.Join(dir, headerName), h); err != nil {
			return fmt.Errorf("dataset: %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	diff := h.differs(&old)
	if diff == "" && old.Shard != h.Shard {
		diff = fmt.Sprintf("shard is %s, want %s", h.Shard, old.Shard)
	}
	if diff != "" {
		return durable.Refusef("dataset: %s holds another dataset: this run's %s to continue it; choose an empty folder for a new one", dir, diff)
	}
	return nil
}

// generator makes the parts of a shard.
type generator struct {
	solver   domain.Solver
	teacher  *teacher // replaces the solver; nil: none
	header   *Header
	spec     *domain.Spec
	points   [][]float64
	threads  int
	progress func(Progress)
	// generate sets these: ctx cancels solves, and policies are the free ones of one for each thread, or nil.
	ctx      context.Context
	policies chan domain.Controller
	places   int // of solves on a device; 0: none
}

func newGenerator(c *domain.Case, opt *Options, h *Header, progress func(Progress)) (*generator, error) {
	if opt.OutDir == "" {
		return nil, errors.New("dataset: the output folder is missing, want a path")
	}
	if opt.Threads < 0 {
		return nil, fmt.Errorf("dataset: %d threads, want at least 1, or 0 for all processors", opt.Threads)
	}
	g := &generator{
		solver: c.Solver, header: h, spec: c.MapProblem().Spec(), points: opt.Points,
		threads: cmp.Or(opt.Threads, runtime.GOMAXPROCS(0)), progress: progress,
	}
	if progress == nil {
		g.progress = func(Progress) {}
	}
	var err error
	if g.points == nil {
		if g.points, err = LatinHypercube(h.Provenance.Parameters, h.Provenance.Scenarios, opt.Seed); err != nil {
			return nil, err
		}
	}
	if opt.Distil {
		g.teacher, err = newTeacher(c, opt)
	} else if opt.Inward != 0 {
		g.solver, err = inward(c.Solver, opt.Inward, false)
	}
	return g, err
}

// generate makes the parts of the missing chunks, writes each when it is solved, and adds its counters to total.
func (g *generator) generate(ctx context.Context, opt *Options, missing []int, total *Counters) error {
	if g.teacher == nil {
		prepared := func(done, count int) { g.progress(Progress{Stage: "prepare", Done: done, Total: count}) }
		if err := g.solver.Prepare(ctx, opt.Seed, prepared); err != nil {
			return fmt.Errorf("dataset: preparing the solver of %s: %w", g.header.Provenance.Case, err)
		}
	}
	if opt.Policy != nil {
		g.policies = make(chan domain.Controller, g.threads)
		for range g.threads {
			policy, err := opt.Policy()
			if err != nil {
				return fmt.Errorf("dataset: policy %s: %w", opt.Visiting, err)
			}
			g.policies <- policy
		}
	}
	grace, cancel := graceContext(ctx)
	defer cancel()
	g.ctx, g.solver = grace, domain.SolverUntil(grace, g.solver)
	if g.teacher == nil {
		g.places = domain.AbilitiesOfSolver(g.solver).Places
	}
	scenarios := g.header.scenarios()
	stopped := func() error {
		return fmt.Errorf("dataset: stopped at %d of %d scenarios in %s, the same command continues: %w", total.Scenarios, scenarios, opt.OutDir, ctx.Err())
	}
	for _, chunk := range missing {
		if ctx.Err() != nil {
			return stopped()
		}
		report := func(partial Counters) {
			q := *total
			q.Add(partial)
			g.progress(Progress{Stage: "solve", Done: int(q.Scenarios), Total: scenarios, Counters: q})
		}
		counters, err := makePart(opt.OutDir, g.header, chunk, func(p *partWriter) (Counters, error) { return g.chunk(chunk, p, report) })
		if grace.Err() != nil {
			return stopped()
		}
		if err != nil {
			return err
		}
		total.Add(counters)
	}
	return nil
}

// solved is the result of one scenario.
type solved struct {
	columns  *Columns // nil: unsolved, or written
	counters Counters
	err      error
}

// chunk solves one chunk and writes its samples in the order of scenarios and preferences, each scenario after all
// before it. It returns the error of the first scenario that has one.
func (g *generator) chunk(chunk int, p *partWriter, report func(Counters)) (Counters, error) {
	start := time.Now()
	from, to := g.header.span(chunk)
	results, next := make([]solved, to-from), 0
	var mu sync.Mutex
	var counters Counters
	var writeErr error
	var failed atomic.Bool
	parallel.Each(max(g.threads, g.places/len(g.preferences(from))), to-from, func(_, i int) {
		// Scenarios start in order: when one fails, all before it have started.
		if failed.Load() || g.ctx.Err() != nil {
			return
		}
		r := g.scenario(from + i)
		mu.Lock()
		defer mu.Unlock()
		if results[i] = r; r.err != nil {
			failed.Store(true)
			return
		}
		for ; next < len(results) && results[next].columns != nil && writeErr == nil; next++ {
			if writeErr = g.write(p, results[next].columns); writeErr != nil {
				failed.Store(true)
			}
			results[next].columns = nil
		}
		counters.Add(r.counters)
		report(counters)
	})
	for _, r := range results {
		if r.err != nil {
			return Counters{}, r.err
		}
	}
	if writeErr == nil && next < len(results) {
		writeErr = g.ctx.Err()
	}
	counters.WallSeconds = time.Since(start).Seconds()
	return counters, writeErr
}

// write adds the samples of a scenario to a part.
func (g *generator) write(p *partWriter, c *Columns) error {
	if p.rows+c.Rows() > maxPartRows {
		return fmt.Errorf("dataset: more than %d samples in a part of %d scenarios: choose a smaller chunk", maxPartRows, g.header.Provenance.Chunk)
	}
	return p.write(c)
}

// scenario solves one scenario under every preference, and from the states that a policy visits.
func (g *generator) scenario(scenario int) solved {
	r := solved{counters: Counters{Scenarios: 1}}
	prefs := g.preferences(scenario)
	first := int64(scenario) * int64(len(prefs)) // number of the first solve in the dataset
	solve, err := g.solveFunc(scenario, first, prefs)
	if err != nil {
		r.err = err
		return r
	}
	abilities := domain.AbilitiesOfSolver(g.solver)
	solvesTogether := abilities.SolveAll != nil
	var collected []domain.Sample
	for k, pref := range prefs {
		if r.err = g.ctx.Err(); r.err != nil {
			return r
		}
		samples, err := solve(k)
		r.counters.Solves++
		if err == nil && g.policies != nil && g.teacher == nil {
			var visited []domain.Sample
			visited, err = abilities.SolveVisited(scenario, g.points[scenario], pref, g.lend)
			samples = append(samples, visited...)
		}
		if err == nil && len(samples) == 0 {
			err = &domain.Reason{Kind: domain.ErrNotConverged, Text: "nothing returned"}
		}
		if err == nil {
			err = g.adopt(samples, scenario, first+int64(k), pref)
		}
		switch {
		case err == nil:
			collected = append(collected, samples...)
			if samples[0].NoRoom {
				r.counters.NoRoom++
			}
		case errors.Is(err, domain.ErrInfeasible) || errors.Is(err, domain.ErrNotConverged):
			r.counters.unsolved(err)
		default:
			r.err = fmt.Errorf("dataset: scenario %d at %v, preference %+v: %w", scenario, g.points[scenario], pref, err)
			return r
		}
		if !solvesTogether && errors.Is(err, domain.ErrInfeasible) && len(collected) == 0 {
			break
		}
	}
	r.counters.Samples = int64(len(collected))
	if len(collected) > 0 {
		r.counters.Retained = 1
	} else {
		r.counters.Discarded = 1
	}
	r.columns, r.err = ColumnsOf(g.header.Layout, collected)
	return r
}

// lend lends a free policy.
func (g *generator) lend(f func(domain.Controller) error) error {
	policy := <-g.policies
	defer func() { g.policies <- policy }()
	return f(policy)
}

// preferences are the preferences of a scenario.
func (g *generator) preferences(scenario int) (prefs []domain.Preference) {
	p := &g.header.Provenance
	if p.Adaptive {
		prefs = append(prefs, domain.Preference{Adaptive: true})
	}
	for _, w := range p.Weights.Of(scenario, len(g.spec.Objectives), p.Seed) {
		prefs = append(prefs, domain.Preference{W: w})
	}
	return prefs
}

// solveFunc returns the function that gives a scenario's samples under preference k. They come from the teacher, from
// a solver of all preferences together, or from one solve each: on a device all at once.
func (g *generator) solveFunc(scenario int, first int64, prefs []domain.Preference) (func(k int) ([]domain.Sample, error), error) {
	if g.teacher != nil {
		return func(k int) (samples []domain.Sample, err error) {
			err = g.lend(func(policy domain.Controller) error {
				samples, err = g.teacher.episode(g.ctx, scenario, prefs[k], policy)
				return err
			})
			return samples, err
		}, nil
	}
	p := &g.header.Provenance
	seeds := make([]uint64, len(prefs))
	for k := range seeds {
		seeds[k] = derive(p.Seed, streamSolve, uint64(first+int64(k)))
	}
	solveAll := domain.AbilitiesOfSolver(g.solver).SolveAll
	if solveAll == nil || p.Adaptive && p.Scalarization != domain.WeightedSum {
		solve := func(k int) ([]domain.Sample, error) {
			scalarization := p.Scalarization
			if prefs[k].Adaptive {
				scalarization = domain.WeightedSum
			}
			return g.solver.Solve(scenario, g.points[scenario], prefs[k], scalarization, seeds[k])
		}
		if g.places == 0 {
			return solve, nil
		}
		solveAll = func(int, []float64, []domain.Preference, domain.Scalarization, []uint64) ([][]domain.Sample, []error) {
			samples, errs := make([][]domain.Sample, len(prefs)), make([]error, len(prefs))
			parallel.Each(len(prefs), len(prefs), func(_, k int) { samples[k], errs[k] = solve(k) })
			return samples, errs
		}
	}
	samples, errs := solveAll(scenario, g.points[scenario], prefs, p.Scalarization, seeds)
	if len(samples) != len(prefs) || len(errs) != len(prefs) {
		return nil, fmt.Errorf("dataset: scenario %d: SolveAll gave %d results and %d errors for %d preferences", scenario, len(samples), len(errs), len(prefs))
	}
	return func(k int) ([]domain.Sample, error) { return samples[k], errs[k] }, nil
}

// adopt checks a solver's samples against the spec and numbers their trajectories uniquely in the dataset: solve
// number × 2²⁰ plus the order in which the solver's own numbers appear.
func (g *generator) adopt(samples []domain.Sample, scenario int, number int64, pref domain.Preference) error {
	local := map[int64]int64{}
	for i := range samples {
		s := &samples[i]
		if err := g.header.Layout.check(s); err != nil {
			return fmt.Errorf("the solver's sample %d has %w", i, err)
		}
		if s.Step < 0 || s.Step > maxStep {
			return fmt.Errorf("the solver's sample %d has step %d", i, s.Step)
		}
		id, numbered := local[s.Trajectory]
		if !numbered {
			id = int64(len(local))
			local[s.Trajectory] = id
			if id >= maxLocal {
				return fmt.Errorf("the solver's samples have more than %d trajectories", maxLocal)
			}
		}
		id += number * maxLocal
		if i > 0 && numbered && !s.Perturbed && !samples[i-1].Perturbed && (samples[i-1].Trajectory != id || samples[i-1].Step+1 != s.Step) {
			return fmt.Errorf("the solver's sample %d, step %d, does not follow its trajectory's step before it", i, s.Step)
		}
		s.Scenario, s.Trajectory, s.Preference = scenario, id, pref
	}
	return nil
}
