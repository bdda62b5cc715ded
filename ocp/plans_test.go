package ocp

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/gpc-engine/gpc/domain"
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
	w.layout = own.On(w).(*Solver)
	return w, newSolver(s.problem, s.axes, s.initial, s.opt, s.terminalCosts).On(w).(*Solver)
}

func (w *Twin) Places() int { return 16 }

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
	case job.From != nil:
		if !p.warmStart(w.layout.device.q.neighbour(job.From, job.From.Steps), job.Shift, slices.Concat(job.S, job.C), job.Steps, true) {
			return
		}
		r = p.iterate()
	default:
		p.opt.mu = job.Barrier
		p.setInitialState(job.S, job.C, job.Steps)
		copy(p.cur.v, job.Start)
		if !p.start(job.Held, nil) {
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
