package ocp

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Twin is a domain.Plans that solves jobs by the method itself, one by one.
type Twin struct {
	Spoil         func(*domain.PlanJob) // changes solutions; nil: none
	Err           error
	Jobs, Batches atomic.Int64
	plain, layout *Solver
}

// NewTwin is that of a solver, with the solver on it.
func NewTwin(s *Solver) (*Twin, *Solver) {
	own := newSolver(s.problem, s.axes, s.initial, s.opt, s.terminalCosts)
	w := &Twin{plain: own}
	w.layout = w.On(own)
	return w, w.On(newSolver(s.problem, s.axes, s.initial, s.opt, s.terminalCosts))
}

// On is the solver on the twin.
func (w *Twin) On(s *Solver) *Solver {
	on, err := s.Accelerate(w.NewPlans)
	if err != nil {
		panic(err)
	}
	return on.(*Solver)
}

// NewPlans is a domain.Planner.
func (w *Twin) NewPlans(domain.Problem, int, float64, int) (*domain.Plans, error) {
	return &domain.Plans{Places: 16, Solve: w.Solve}, nil
}

func (w *Twin) Solve(ctx context.Context, jobs []*domain.PlanJob) error {
	w.Batches.Add(1)
	if w.Err != nil {
		return w.Err
	}
	for _, job := range jobs {
		w.Jobs.Add(1)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.solve(job)
		if w.Spoil != nil {
			w.Spoil(job)
		}
	}
	return nil
}

func (w *Twin) solve(job *domain.PlanJob) {
	solver := *w.plain
	solver.room = job.Room
	p := solver.work.workspaces.Get().(*ipm)
	defer solver.work.workspaces.Put(p)
	(&task{solver: &solver}).configure(p, func(q *program) {
		q.setWeights(job.Preference.Adaptive, job.Preference.W)
		if q.terminal = nil; job.Terminal != nil {
			q.terminal = &terminalCost{Quadratic: *job.Terminal}
		}
	}, solver.opt.Iterations)
	var r ipmResult
	switch {
	case job.Warm != nil:
		if !p.warmStart(w.layout.device.q.neighbour(job.Warm, job.Warm.Steps), job.Shift, slices.Concat(job.S, job.C), job.Steps, true) {
			return
		}
		r = p.iterate()
	default:
		p.opt.mu = job.Barrier
		p.setInitialState(job.S, job.C, job.Steps)
		copy(p.cur.v, job.Start)
		if !p.start(job.Hold, nil) {
			return
		}
		r, _ = p.minimise()
	}
	solved := p.acceptable(&r) && r.kkt <= solver.opt.Tolerance
	job.Solution = *solver.detach(p).view
	job.Solution.Solved, job.Solution.KKT, job.Solution.Iterations = solved, r.kkt, p.iterations
	for i := range job.Solution.Actions { // another order of sums
		job.Solution.Actions[i] *= 1 - 1e-14*math.Sin(float64(i))
	}
}

// gate is a domain.Plans whose batches wait until they are let through.
type gate struct {
	calls chan []*domain.PlanJob
	end   chan error
}

func (g gate) Solve(_ context.Context, jobs []*domain.PlanJob) error {
	g.calls <- jobs
	return <-g.end
}

// A batch has all jobs that came while the one before ran, up to the places. The next one begins when the plans of the last are
// verified, or enough jobs wait. After an error the device is not asked again; an ended context is none.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate{make(chan []*domain.PlanJob), make(chan error)}
		d := &device{plans: &domain.Plans{Places: 3, Solve: g.Solve}}
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan bool, 9)
		request := func(n int) {
			go func() { answers <- d.solve(ctx, make([]*domain.PlanJob, n)) == nil }()
			synctest.Wait()
		}
		batch := func(jobs int, err error, want ...bool) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-g.calls:
				if len(got) != jobs {
					t.Errorf("a batch of %d jobs, want %d", len(got), jobs)
				}
			default:
				t.Fatalf("no batch, want one of %d jobs", jobs)
			}
			g.end <- err
			for _, ok := range want {
				if <-answers != ok {
					t.Errorf("solved %v, want %v", !ok, ok)
				}
			}
		}
		none := func(why string) {
			t.Helper()
			synctest.Wait()
			select {
			case jobs := <-g.calls:
				t.Fatalf("a batch of %d jobs %s", len(jobs), why)
			default:
			}
		}
		request(1)
		request(2)
		request(1)
		request(1)
		batch(1, nil, true)
		batch(3, nil, true, true) // by its places, though a plan of the first is verified
		none("while plans are verified")
		d.finish()
		d.finish()
		none("while a plan is verified")
		d.finish()
		request(4) // more than the places
		batch(1, nil, true)
		d.finish()
		batch(4, nil, true)
		d.finish()
		request(1)
		cancel()
		batch(1, ctx.Err(), false)
		request(1)
		none("of an ended context")
		if ctx = t.Context(); <-answers {
			t.Error("solved under an ended context")
		}
		request(1)
		batch(1, errors.New("lost"), false)
		request(1)
		none("of a device that failed")
		if <-answers {
			t.Error("solved by a device that failed")
		}
	})
}

// Each job of many goroutines is solved once, one batch at a time, also where some end early.
func TestManyRequests(t *testing.T) {
	var busy, solved atomic.Int64
	d := &device{plans: &domain.Plans{Places: 16, Solve: tally{&busy, &solved}.Solve}}
	parallel.Each(40, 400, func(_, i int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if i%7 == 0 {
			cancel()
		}
		jobs := make([]*domain.PlanJob, 1+i%3)
		for k := range jobs {
			jobs[k] = new(domain.PlanJob)
		}
		if d.solve(ctx, jobs) == nil {
			d.finish()
			for _, job := range jobs {
				if job.Steps != 1 {
					t.Errorf("job %d is solved %d times", i, job.Steps)
				}
			}
		}
	})
	if d.running || d.verifying != 0 || d.jobs != 0 || solved.Load() < 100 {
		t.Errorf("%d solved, then %+v", solved.Load(), d)
	}
}

type tally struct{ busy, solved *atomic.Int64 }

func (c tally) Solve(_ context.Context, jobs []*domain.PlanJob) error {
	if c.busy.Add(1) != 1 {
		panic("two batches at once")
	}
	for _, job := range jobs {
		job.Steps++
		c.solved.Add(1)
	}
	c.busy.Add(-1)
	return nil
}

// A dataset by a device is the same however its solves come together in batches.
func TestADatasetOfADevice(t *testing.T) {
	plain := newTanks(Options{})
	var hashes []string
	for _, chunk := range []int{1, 6} {
		twin, device := NewTwin(require.Get(New(stagedTanks{}, plain.axes, plain.initial, Options{Perturbed: 2, Horizon: 12}))(t))
		dir := t.TempDir()
		counters := require.Get(dataset.Generate(t.Context(), domain.Case{Problem: stagedTanks{}, Solver: device}, dataset.Options{
			Scenarios: 6, Adaptive: true, Weights: dataset.Weights{Count: 1}, Seed: 3, OutDir: dir, Chunk: chunk,
		}, nil))(t)
		if n := twin.Jobs.Load(); counters.Retained != 6 || n < 30 || device.Counts().Iterations > n/10 {
			t.Errorf("%+v of %d jobs in %d batches, the CPU did %+v", counters, n, twin.Batches.Load(), device.Counts())
		}
		t.Logf("%d jobs in %d batches", twin.Jobs.Load(), twin.Batches.Load())
		hashes = append(hashes, require.Get(dataset.Open(dir))(t).Hash())
	}
	if hashes[0] != hashes[1] {
		t.Error("parts of one and of six scenarios are different datasets")
	}
}
