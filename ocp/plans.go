package ocp

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
)

// device collects the plans that many goroutines want solved, and has a domain.Plans solve them in batches. While a batch runs,
// the next one gathers. It also waits until the plans of the last one are verified: most of their solves soon want another.
type device struct {
	plans     *domain.Plans
	q         *program      // with the layout of all plans; read only
	cores     chan struct{} // each a place of a solve on the CPU
	lock      sync.Mutex
	requests  []*planRequest
	jobs      int // of the requests
	running   bool
	err       error // of the plans: the CPU solves everything, or nothing is solved any more
	verifying int   // requests of past batches
}

// planRequest is what one goroutine waits for.
type planRequest struct {
	ctx    context.Context
	jobs   []*domain.PlanJob
	solved chan error
}

// Accelerate is domain.SolverAbilities.Accelerate. Without domain.Stages, with corners that are rounded, and in blocks, the CPU solves everything.
func (s *Solver) Accelerate(planner domain.Planner) (domain.Solver, error) {
	q := newProgram(s.problem, s.opt.StateScale)
	switch {
	case q.stagesErr != nil:
		return nil, q.stagesErr
	case q.staged == nil || q.levels > 0 || len(s.opt.Blocks) > 0:
		return nil, errors.New("a problem without equations, with corners, or with plans in blocks")
	}
	plans, err := planner(s.problem, s.opt.Horizon, s.opt.Tolerance, s.opt.Iterations)
	if err != nil {
		return nil, err
	}
	for _, a := range q.staged.Moving() {
		q.isActive[a] = true
	}
	q.layout(1)
	copied := *s
	copied.device = &device{plans: plans, q: q, cores: make(chan struct{}, runtime.GOMAXPROCS(0))}
	return &copied, nil
}

// places is the number of solves that are worth starting at once.
func (s *Solver) places() int {
	if s.device == nil {
		return 0
	}
	return s.device.plans.Places
}

// solve has jobs solved. After an error, of the device or the context, none is; else finish comes after what the caller does with
// the solutions.
func (d *device) solve(ctx context.Context, jobs []*domain.PlanJob) error {
	r := &planRequest{ctx, jobs, make(chan error, 1)}
	d.lock.Lock()
	d.requests, d.jobs = append(d.requests, r), d.jobs+len(jobs)
	d.begin()
	d.lock.Unlock()
	err := <-r.solved
	if err != nil {
		d.finish()
	}
	return err
}

func (d *device) finish() {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.verifying--
	d.begin()
}

// begin runs the next batch if it is time. The lock is held.
func (d *device) begin() {
	if !d.running && len(d.requests) > 0 && (d.verifying == 0 || d.jobs >= d.plans.Places) {
		d.running = true
		go d.run()
	}
}

// run solves one batch: the first requests that the places have room for, and at least one.
func (d *device) run() {
	d.lock.Lock()
	n := 0
	var jobs []*domain.PlanJob
	for ; n < len(d.requests) && (n == 0 || len(jobs)+len(d.requests[n].jobs) <= d.plans.Places); n++ {
		jobs = append(jobs, d.requests[n].jobs...)
	}
	batch := d.requests[:n:n]
	d.requests, d.jobs = d.requests[n:], d.jobs-len(jobs)
	ctx := batch[0].ctx
	err := cmp.Or(d.err, ctx.Err())
	d.lock.Unlock()
	if err == nil {
		err = d.plans.Solve(ctx, jobs)
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	if ctx.Err() == nil {
		d.err = err
	}
	d.running, d.verifying = false, d.verifying+n
	for _, r := range batch {
		r.solved <- err
	}
	d.begin()
}

// occupy waits for a core and returns what leaves it, so that solves hold few workspaces. Without a device there are no more
// goroutines than cores.
func (d *device) occupy() (leave func()) {
	if d == nil {
		return func() {}
	}
	d.cores <- struct{}{}
	return func() { <-d.cores }
}

// verifyIterations bound the CPU's own iterations from a plan of the device.
const verifyIterations = 2 * warmIterations

// solveByDevice is the best of the device's plans from the starts of solveStarts, verified; nil where the CPU has to solve. The
// given starts follow a warm solve that failed, and retries follow where none is solved.
func (t *task) solveByDevice(pref domain.Preference, ending *terminalCost, configure func(*program)) (*Trajectory, error) {
	s, d := t.solver, t.solver.device
	if d == nil || t.steps > s.opt.Horizon || t.following || t.pinned != nil || t.states != nil {
		return nil, nil
	}
	all := len(t.starts) + t.ownStarts
	rounds := [3][2]int{{0, all}, {}, {all, all + t.retries}}
	var jobs []*domain.PlanJob
	if t.neighbour != nil && t.neighbour.view != nil {
		rounds[0][0], rounds[1][1] = len(t.starts), len(t.starts)
		jobs = append(jobs, t.job(pref, ending))
		jobs[0].Warm, jobs[0].Shift = t.neighbour.view, t.shift
	}
	var best *domain.PlanSolution
	verifying := false
	defer func() {
		if verifying {
			d.finish()
		}
	}()
	for round, starts := range rounds {
		for k := starts[0]; k < starts[1]; k++ {
			job, start := t.job(pref, ending), point{v: make([]float64, t.steps*d.q.nu)}
			job.Barrier, job.Hold = t.firstBarrier(k)
			t.writeStart(d.q, &start, k)
			job.Start = start.v
			jobs = append(jobs, job)
		}
		if len(jobs) == 0 {
			continue
		}
		if verifying {
			d.finish()
		}
		err := d.solve(s.ctx, jobs)
		if verifying = err == nil; errors.Is(err, errors.ErrUnsupported) {
			return nil, s.ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		for _, job := range jobs {
			if plan := &job.Solution; plan.Solved && (best == nil || plan.Cost < best.Cost) {
				best = plan
			}
		}
		if best != nil && (round > 0 || jobs[0].Warm == nil || jobs[0].Solution.Solved) {
			break
		}
		jobs = nil
	}
	if best == nil {
		return nil, s.ctx.Err()
	}
	defer d.occupy()()
	trajectory := t.verify(best, configure)
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	return trajectory, nil
}

// job is a solve of the task by a device.
func (t *task) job(pref domain.Preference, ending *terminalCost) *domain.PlanJob {
	job := &domain.PlanJob{S: t.state, C: t.ctx, Steps: t.steps, Preference: pref, Room: t.solver.room}
	if ending != nil {
		job.Terminal = &ending.Quadratic
	}
	return job
}

// verify is the trajectory of a device's plan where it meets the conditions of a solve; nil otherwise.
func (t *task) verify(plan *domain.PlanSolution, configure func(*program)) *Trajectory {
	start := t.solver.device.q.neighbour(plan, t.steps)
	if start == nil {
		return nil
	}
	return t.continueSolve(configure, verifyIterations, func(p *ipm, initial []float64) bool { return p.adopt(start, initial) })
}

// plan views the iterate as a device's plan.
func (p *ipm) plan() *domain.PlanSolution {
	return &domain.PlanSolution{
		Solved: true, Steps: p.q.steps, Cost: p.cur.f, Actions: p.cur.v, States: p.cur.x, Dynamics: p.lambda, Limits: p.z, Lower: p.zl, Upper: p.zu,
		Factor: p.r.l, Gains: p.r.y, Barrier: p.mu, Penalty: p.rho, Scale: p.objectiveScale,
	}
}

// neighbour views a device's plan as a workspace that a solve continues from; nil where its sizes or settings are others.
func (q *program) neighbour(plan *domain.PlanSolution, steps int) *ipm {
	for _, b := range []struct {
		values []float64
		size   int
	}{
		{plan.Actions, steps * q.nu}, {plan.States, (steps + 1) * q.nx}, {plan.Dynamics, (steps + 1) * q.nX}, {plan.Limits, steps * q.nm},
		{plan.Lower, steps * q.nu}, {plan.Upper, steps * q.nu}, {plan.Factor, steps * q.nu * q.nu}, {plan.Gains, steps * q.nX * q.nu},
	} {
		if len(b.values) != b.size {
			return nil
		}
	}
	if plan.Steps != steps || !(plan.Scale > 0 && plan.Barrier > 0 && plan.Penalty >= firstPenalty) {
		return nil
	}
	return (&program{steps: steps, nX: q.nX, isActive: q.isActive, blocked: make([]bool, steps)}).iterate(plan)
}

// iterate views a plan as a workspace of the layout q.
func (q *program) iterate(plan *domain.PlanSolution) *ipm {
	return &ipm{
		q: q, cur: &point{v: plan.Actions, x: plan.States}, lambda: plan.Dynamics, z: plan.Limits, zl: plan.Lower, zu: plan.Upper,
		r: riccati{l: plan.Factor, y: plan.Gains}, mu: plan.Barrier, rho: plan.Penalty, objectiveScale: plan.Scale, hasFeedback: true, view: plan,
	}
}

// detach returns a copy of the iterate alone, for solves nearby, and puts the workspace back.
func (s *Solver) detach(p *ipm) *ipm {
	defer s.work.workspaces.Put(p)
	plan := p.plan()
	for _, b := range []*[]float64{&plan.Actions, &plan.States, &plan.Dynamics, &plan.Limits, &plan.Lower, &plan.Upper, &plan.Factor, &plan.Gains} {
		*b = slices.Clone(*b)
	}
	q := p.q
	copied := (&program{steps: q.steps, ns: q.ns, nX: q.nX, isActive: slices.Clone(q.isActive), blocked: slices.Clone(q.blocked)}).iterate(plan)
	if copied.hasFeedback = p.hasFeedback; !p.hasFeedback {
		copied.view = nil
	}
	return copied
}

// adopt makes a device's plan the iterate, rolled out from a state; false where that is not finite or outside the box.
func (p *ipm) adopt(plan *ipm, initial []float64) bool {
	p.shiftIterate(plan, 0, plan.q.steps)
	p.opt.warm = true
	for i, v := range p.cur.v {
		if p.q.bounded[i%p.q.nu] && !(math.Abs(v) < 1) {
			return false
		}
	}
	if !p.rollOut(initial) {
		return false
	}
	p.computeSlacks(p.trial.g, p.trialSlacks.s, p.trialSlacks.v)
	p.accept()
	return true
}
