package offline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/tensor"
)

// Options of Generate.
type Options struct {
	// Scenarios is the number of Latin hypercube points.
	Scenarios int
	// Points are the scenarios instead, [Scenarios][parameters]; nil: a Latin hypercube.
	Points [][]float64
	// Adaptive solves every scenario with the adaptive priority σ(ŝ); Weights
	// with fixed preferences besides. At least one of the two must give a solve.
	Adaptive bool
	Weights  Weights
	// Scalarization applies to fixed preferences, "" is domain.WeightedSum; the
	// adaptive priority is always a weighted sum.
	Scalarization domain.Scalarization
	Seed          uint64
	Shard         Shard // zero: the whole
	// OutDir is the dataset folder. Chunks that an earlier run of the same
	// provenance finished there are kept.
	OutDir string
	// Threads is the number of scenarios solved at once; 0: all processors.
	Threads int
	// Chunk is the number of scenarios in a part, 0: 64. Work is lost only for
	// the chunk in progress.
	Chunk int
	// Policy makes one controller for each thread that solves; with it every solve
	// under the weighted sum also gives the optima at the states which that
	// controller visits (domain.VisitedSolver). Visiting says in the provenance
	// which it is.
	Policy   func() (domain.Controller, error)
	Visiting Policy
	// Distil makes the policy the teacher: a scenario is an episode of the case's plant,
	// drawn by Seed from no stream that evaluation draws from, nothing is solved, and the
	// samples are the policy's own decisions (domain.Loop). Regime is the episodes'.
	Distil bool
	Regime string
	// Program and Command are recorded as they are.
	Program, Command string
}

// Progress is what Generate reports after every scenario.
type Progress struct {
	Stage       string // "prepare" or "solve"
	Done, Total int    // scenarios of this shard, those of earlier runs included
	Counters    Counters
}

// header is the dataset that the options describe.
func (o Options) header(c domain.Case) (Header, error) {
	if c.MapProblem() == nil || c.Solver == nil && !o.Distil {
		return Header{}, errors.New("offline: the case has no solver; package offline/shooting has a generic one")
	}
	spec := c.MapProblem().Spec()
	level, err := isa.Name()
	if err != nil {
		return Header{}, fmt.Errorf("offline: %w", err)
	}
	h := Header{
		Format: datasetFormat, Version: formatVersion, Shard: o.Shard, Command: o.Command, Layout: LayoutOf(spec),
		Provenance: Provenance{
			Case: spec.Name, ProblemSHA256: durable.Sum(domain.FingerprintOf(c.MapProblem())),
			Program: o.Program, ISA: level, Seed: o.Seed, Scenarios: o.Scenarios, Adaptive: o.Adaptive,
			Weights: o.Weights, Scalarization: o.Scalarization, Chunk: o.Chunk, Policy: o.Visiting,
			Distilled: o.Distil, Regime: o.Regime,
		},
	}
	p := &h.Provenance
	if !o.Distil {
		p.Parameters = c.Solver.Parameters()
	}
	if h.Shard == (Shard{}) {
		h.Shard.Count = 1
	}
	p.Chunk = cmp.Or(p.Chunk, 64)
	p.Scalarization = cmp.Or(p.Scalarization, domain.WeightedSum)
	p.Weights.Design = cmp.Or(p.Weights.Design, RandomWeights)
	if p.Weights.Design != LogarithmicWeights && p.Weights.Design != MixedWeights {
		p.Weights.Reference, p.Weights.LogLo, p.Weights.LogHi = 0, 0, 0
	}
	switch p.Scalarization {
	case domain.WeightedSum, domain.Chebyshev, domain.EpsilonConstraint:
	default:
		return h, fmt.Errorf("offline: unknown scalarization %q, want %q, %q or %q", p.Scalarization, domain.WeightedSum, domain.Chebyshev, domain.EpsilonConstraint)
	}
	if (o.Policy == nil) != (o.Visiting == Policy{}) {
		return h, errors.New("offline: a policy and its name come together")
	}
	if o.Points != nil {
		if o.Distil {
			return h, errors.New("offline: points are scenarios of a solver, a policy that is distilled drives episodes")
		}
		if len(o.Points) != o.Scenarios {
			return h, fmt.Errorf("offline: %d points for %d scenarios", len(o.Points), o.Scenarios)
		}
		sum := sha256.New()
		for i, point := range o.Points {
			if len(point) != len(p.Parameters) || !tensor.Finite(point) {
				return h, fmt.Errorf("offline: point %d is %v, want %d finite parameters", i, point, len(p.Parameters))
			}
			for _, v := range point {
				binary.Write(sum, binary.LittleEndian, v)
			}
		}
		p.PointsSHA256 = hex.EncodeToString(sum.Sum(nil))
	}
	if o.Regime != "" && !o.Distil {
		return h, fmt.Errorf("offline: regime %q is of episodes, and no policy is distilled", o.Regime)
	}
	if _, ok := c.Solver.(domain.VisitedSolver); o.Policy != nil && !o.Distil && (!ok || p.Scalarization != domain.WeightedSum) {
		return h, fmt.Errorf("offline: case %s cannot solve from the states a policy visits, scalarization %q", spec.Name, p.Scalarization)
	}
	if !p.Adaptive && p.Weights.Count == 0 {
		return h, errors.New("offline: neither the adaptive priority nor fixed weights are asked for")
	}
	if err := h.validate(); err != nil {
		return h, fmt.Errorf("offline: %w", err)
	}
	return h, nil
}

// Generate makes a dataset, or one shard of it, in OutDir, continuing what an
// earlier run left. When ctx ends it finishes the chunk in progress where a second is
// enough for that, drops it otherwise, and returns the context's error with the
// counters so far; nothing is half-written, and the same call later completes the
// dataset. Counters are of
// the whole shard, their rate and wall time of this run.
func Generate(ctx context.Context, c domain.Case, opt Options, progress func(Progress)) (Counters, error) {
	start := time.Now()
	var total Counters
	h, err := opt.header(c)
	if err != nil {
		return total, err
	}
	if opt.OutDir == "" {
		return total, errors.New("offline: no output folder")
	}
	if opt.Threads < 0 {
		return total, fmt.Errorf("offline: %d threads, want at least 1, or 0 for all processors", opt.Threads)
	}
	opt.Threads = cmp.Or(opt.Threads, runtime.GOMAXPROCS(0))
	points := opt.Points
	if points == nil {
		if points, err = LatinHypercube(h.Provenance.Parameters, h.Provenance.Scenarios, opt.Seed); err != nil {
			return total, err
		}
	}
	var t *teacher
	if opt.Distil {
		if t, err = newTeacher(&c, &opt); err != nil {
			return total, err
		}
	}
	if err := os.MkdirAll(opt.OutDir, 0o755); err != nil {
		return total, durable.Refusef("offline: %w", err)
	}
	lock, err := durable.Acquire(opt.OutDir)
	if err != nil {
		return total, fmt.Errorf("offline: %w", err)
	}
	defer lock.Release()
	if err := begin(opt.OutDir, &h); err != nil {
		return total, err
	}
	p := Progress{Stage: "solve"}
	var missing []int
	for _, chunk := range h.own() {
		from, to := h.span(chunk)
		p.Total += to - from
		m, err := readManifest(opt.OutDir, &h, chunk)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return total, err
		}
		if err != nil {
			missing = append(missing, chunk)
			continue
		}
		if err := h.decode(opt.OutDir, &m, newColumns(h.Layout, m.Rows), 0); err != nil {
			return total, fmt.Errorf("%w; without that file and %s the part is made again", err, manifestName(chunk))
		}
		p.Done += to - from
		total.Add(m.Counters)
	}
	earlier := total.Solves
	finish := func(err error) (Counters, error) {
		total.WallSeconds = time.Since(start).Seconds()
		if solved := total.Solves - earlier; solved > 0 {
			total.SolvesPerSecond = float64(solved) / total.WallSeconds
		}
		if err == nil && total.Samples == 0 && h.Shard.Count == 1 {
			err = fmt.Errorf("offline: %s has no samples of %d scenarios; %s", opt.OutDir, total.Scenarios, total.Missing())
		}
		return total, err
	}
	stopped := func(err error) error {
		return fmt.Errorf("offline: stopped at %d of %d scenarios in %s, the same command continues: %w", p.Done, p.Total, opt.OutDir, err)
	}
	if len(missing) == 0 {
		return finish(nil)
	}
	report := func(p Progress) {
		if progress != nil {
			progress(p)
		}
	}
	if !opt.Distil {
		if err := c.Solver.Prepare(ctx, opt.Seed, func(done, of int) { report(Progress{Stage: "prepare", Done: done, Total: of}) }); err != nil {
			return finish(fmt.Errorf("offline: preparing the solver of %s: %w", h.Provenance.Case, err))
		}
	}
	policies := make([]domain.Controller, opt.Threads)
	if opt.Policy != nil {
		for i := range policies {
			if policies[i], err = opt.Policy(); err != nil {
				return finish(fmt.Errorf("offline: policy %s: %w", opt.Visiting, err))
			}
		}
	}
	late, cancel := grace(ctx)
	defer cancel()
	for _, chunk := range missing {
		if err := ctx.Err(); err != nil {
			return finish(stopped(err))
		}
		began := time.Now()
		g := generator{ctx: late, solver: domain.SolverUntil(late, c.Solver), teacher: t, header: &h, spec: c.MapProblem().Spec(), points: points, policies: policies}
		columns, counters, err := g.chunk(chunk, opt.Threads, func(now Counters) {
			q := p
			q.Done += int(now.Scenarios)
			q.Counters = total
			q.Counters.Add(now)
			report(q)
		})
		if late.Err() != nil {
			err = stopped(ctx.Err())
		}
		if err != nil {
			return finish(err)
		}
		counters.WallSeconds = time.Since(began).Seconds()
		if err := writePart(opt.OutDir, &h, chunk, columns, counters); err != nil {
			return finish(err)
		}
		total.Add(counters)
		p.Done += int(counters.Scenarios)
	}
	return finish(nil)
}

// grace is a context that ends a second after ctx.
func grace(ctx context.Context) (late context.Context, cancel func()) {
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, end) })
	return late, func() {
		stop()
		end()
	}
}

// begin writes the header of a new dataset, or checks that the folder holds the
// same one.
func begin(dir string, h *Header) error {
	var old Header
	err := readHeader(dir, &old)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.WriteSealed(filepath.Join(dir, headerName), h); err != nil {
			return fmt.Errorf("offline: %w", err)
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
		return durable.Refusef("offline: %s holds another dataset: %s to continue it; choose an empty folder for a new one", dir, diff)
	}
	return nil
}

func writePart(dir string, h *Header, chunk int, c *Columns, counters Counters) error {
	m := manifest{Chunk: chunk, Rows: c.Rows(), SamplesSHA256: c.hash(0, c.Rows()).String(), Counters: counters}
	sum := sha256.New()
	err := durable.Create(filepath.Join(dir, partName(chunk)), func(w io.Writer) error {
		return encodePart(io.MultiWriter(w, sum, (*length)(&m.Bytes)), *h, chunk, c)
	})
	if err == nil {
		m.PartSHA256 = hex.EncodeToString(sum.Sum(nil))
		err = durable.WriteSealed(filepath.Join(dir, manifestName(chunk)), &m)
	}
	if err != nil {
		return fmt.Errorf("offline: part %d of %s: %w", chunk, dir, err)
	}
	return nil
}

// length counts what is written to it.
type length int64

func (n *length) Write(b []byte) (int, error) {
	*n += length(len(b))
	return len(b), nil
}

// generator solves the scenarios of a chunk.
type generator struct {
	ctx     context.Context
	solver  domain.Solver
	teacher *teacher // instead of the solver; nil: none
	header  *Header
	spec    *domain.Spec
	points  [][]float64
	// policies are one for each thread, nil where none is asked for.
	policies []domain.Controller
}

// solved is the result of one scenario.
type solved struct {
	samples  []domain.Sample
	counters Counters
	err      error
}

// chunk solves one chunk with the given number of threads and returns its
// samples in the order of scenarios and preferences. Of several errors it
// returns that of the first scenario.
func (g *generator) chunk(chunk, threads int, report func(Counters)) (*Columns, Counters, error) {
	from, to := g.header.span(chunk)
	results := make([]solved, to-from)
	var (
		mu   sync.Mutex
		next = from
		now  Counters
		wg   sync.WaitGroup
		bad  bool
	)
	for thread := range min(threads, to-from) {
		policy := g.policies[thread]
		wg.Go(func() {
			for {
				mu.Lock()
				scenario := next
				next++
				stop := bad || g.ctx.Err() != nil
				mu.Unlock()
				// Scenarios are taken in order: when one fails, all before it are taken.
				if scenario >= to || stop {
					return
				}
				r := g.scenario(scenario, policy)
				mu.Lock()
				results[scenario-from] = r
				now.Add(r.counters)
				bad = bad || r.err != nil
				if r.err == nil {
					report(now)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var samples []domain.Sample
	for _, r := range results {
		if r.err != nil {
			return nil, Counters{}, r.err
		}
		samples = append(samples, r.samples...)
	}
	if len(samples) > maxPartRows {
		return nil, Counters{}, fmt.Errorf("offline: %d scenarios gave %d samples, a part holds at most %d: choose a smaller chunk", to-from, len(samples), maxPartRows)
	}
	c, err := ColumnsOf(g.header.Layout, samples)
	return c, now, err
}

// scenario solves one scenario under every preference, and from the states that
// the policy visits, if there is one.
func (g *generator) scenario(scenario int, policy domain.Controller) solved {
	p := &g.header.Provenance
	r := solved{counters: Counters{Scenarios: 1}}
	var prefs []domain.Preference
	if p.Adaptive {
		prefs = append(prefs, domain.Preference{Adaptive: true})
	}
	for _, w := range p.Weights.Of(scenario, len(g.spec.Objectives), p.Seed) {
		prefs = append(prefs, domain.Preference{W: w})
	}
	seeds := make([]uint64, len(prefs))
	for k := range seeds {
		seeds[k] = derive(p.Seed, streamSolve, uint64(int64(scenario)*int64(len(prefs))+int64(k)))
	}
	solve := g.oneByOne(scenario, prefs, seeds)
	if all, ok := g.solver.(domain.ScenarioSolver); ok && (!p.Adaptive || p.Scalarization == domain.WeightedSum) {
		samples, errs := all.SolveAll(scenario, g.points[scenario], prefs, p.Scalarization, seeds)
		if len(samples) != len(prefs) || len(errs) != len(prefs) {
			r.err = fmt.Errorf("offline: scenario %d: SolveAll gave %d results and %d errors for %d preferences", scenario, len(samples), len(errs), len(prefs))
			return r
		}
		solve = func(k int) ([]domain.Sample, error) { return samples[k], errs[k] }
	}
	if g.teacher != nil {
		solve = func(k int) ([]domain.Sample, error) { return g.teacher.episode(g.ctx, scenario, prefs[k], policy) }
	}
	for k, pref := range prefs {
		if r.err = g.ctx.Err(); r.err != nil {
			return r
		}
		number := int64(scenario)*int64(len(prefs)) + int64(k)
		samples, err := solve(k)
		r.counters.Solves++
		if err == nil && policy != nil && g.teacher == nil {
			var visited []domain.Sample
			visited, err = g.solver.(domain.VisitedSolver).SolveVisited(scenario, g.points[scenario], pref, policy)
			samples = append(samples, visited...)
		}
		if err == nil && len(samples) == 0 {
			err = &domain.Reason{Kind: domain.ErrNotConverged, Text: "nothing returned"}
		}
		if err == nil {
			err = g.adopt(samples, scenario, number, pref)
		}
		switch {
		case err == nil:
			r.samples = append(r.samples, samples...)
		case errors.Is(err, domain.ErrInfeasible) || errors.Is(err, domain.ErrNotConverged):
			r.counters.unsolved(err)
		default:
			r.err = fmt.Errorf("offline: scenario %d at %v, preference %+v: %w", scenario, g.points[scenario], pref, err)
			return r
		}
		if _, together := g.solver.(domain.ScenarioSolver); !together && errors.Is(err, domain.ErrInfeasible) && len(r.samples) == 0 {
			break
		}
	}
	r.counters.Samples = int64(len(r.samples))
	if len(r.samples) > 0 {
		r.counters.Retained = 1
	} else {
		r.counters.Discarded = 1
	}
	return r
}

// oneByOne solves preference k when it is asked for.
func (g *generator) oneByOne(scenario int, prefs []domain.Preference, seeds []uint64) func(k int) ([]domain.Sample, error) {
	return func(k int) ([]domain.Sample, error) {
		how := g.header.Provenance.Scalarization
		if prefs[k].Adaptive {
			how = domain.WeightedSum
		}
		return g.solver.Solve(scenario, g.points[scenario], prefs[k], how, seeds[k])
	}
}

// adopt checks a solver's samples against the spec and gives their
// trajectories numbers that are unique in the dataset: solve number × 2²⁰ plus
// the order in which the solver's own numbers appear.
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
		id, seen := local[s.Trajectory]
		if !seen {
			id = int64(len(local))
			local[s.Trajectory] = id
			if id >= maxLocal {
				return fmt.Errorf("the solver's samples have more than %d trajectories", maxLocal)
			}
		}
		id += number * maxLocal
		if i > 0 && seen && !s.Perturbed && !samples[i-1].Perturbed && (samples[i-1].Trajectory != id || samples[i-1].Step+1 != s.Step) {
			return fmt.Errorf("the solver's sample %d, step %d, does not follow its trajectory's step before it", i, s.Step)
		}
		s.Scenario, s.Trajectory, s.Preference = scenario, id, pref
	}
	return nil
}
