package ocp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// task is one solve from a state.
type task struct {
	solver     *Solver
	state, ctx []float64
	steps      int
	seed       uint64
	starts     [][][]float64
	// states, [steps+1][nx], are those of the first of starts; nil: a roll-out. A roll-out of an unstable plant
	// leaves a long plan by rounding alone.
	states    []float64
	pinned    []float64 // actions that are given, as program.pinned
	ownStarts int       // the Solver's own starts, after these
	retries   int       // more of them, where none converges
	// neighbour is a solve nearby. Its last iterate, shifted, is tried in place of starts. nil: none.
	neighbour *ipm
	shift     int
	// keepWorkspace asks for the solution's workspace, for warm starts; the caller puts it back.
	keepWorkspace bool
	workspace     *ipm
	level         int  // of the rounding of corners
	following     bool // the task is one of followCorners
}

// taskFrom is the task of Minimise.
func (s *Solver) taskFrom(state, ctx []float64, steps int, seed uint64, starts ...[][]float64) *task {
	return &task{solver: s, state: state, ctx: ctx, steps: steps, seed: seed, starts: starts, ownStarts: max(0, s.opt.Starts-len(starts)), retries: retries}
}

// retries of a single solve, of which the last may take lastRetry times the iterations: along a curved bend of a penalty steps are
// short.
const retries, lastRetry = 2, 5

// solveStarts runs every start and returns the solution of least cost.
func (t *task) solveStarts(configure func(*program)) (*Trajectory, error) {
	s := t.solver
	defer s.device.occupy()()
	found, first := t.solveWarm(configure), 0
	if found != nil {
		first = len(t.starts)
	}
	infeasible, lostStates, runs := 0, 0, 0
	lowest := math.Inf(1)
	p := s.work.workspaces.Get().(*ipm)
	defer func() { s.work.workspaces.Put(p) }()
	if p.q.stagesErr != nil {
		return nil, p.q.stagesErr
	}
	if found == nil && p.q.levels > 0 && !t.following && t.pinned == nil && t.states == nil {
		if followed := t.followCorners(p.q.levels-1, configure); followed != nil {
			return followed, nil
		}
	}
	startCount := len(t.starts) + t.ownStarts
	for k := first; k < startCount || k < startCount+t.retries && found == nil && infeasible < runs; k++ {
		mu, hold := t.firstBarrier(k)
		iterations := s.opt.Iterations
		if k >= startCount && k == startCount+t.retries-1 && !t.following && !s.single {
			iterations *= lastRetry
		}
		t.configure(p, configure, iterations)
		p.opt.mu = mu
		p.setInitialState(t.state, t.ctx, t.steps)
		t.writeStart(p.q, p.cur, k)
		r, feasible := ipmResult{kkt: math.Inf(1), violation: math.Inf(1)}, true
		states := t.states
		if k > 0 || len(t.starts) == 0 {
			states = nil
		}
		if p.start(hold, states) {
			r, feasible = p.minimise()
		}
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		runs++
		s.work.starts.Add(1)
		s.work.iterations.Add(int64(p.iterations))
		if !feasible {
			infeasible++
			continue
		}
		lowest = math.Min(lowest, r.kkt)
		if r.kkt <= s.opt.Tolerance && (found == nil || r.f < found.Cost) {
			if candidate := p.trajectory(r); !s.losesState(candidate) {
				found = candidate
				p = t.exchangeWorkspace(p)
			} else {
				infeasible++
				lostStates++
			}
		}
	}
	switch {
	case found != nil:
		return found, nil
	case lostStates == runs:
		return nil, fmt.Errorf("from state %v: %w", t.state, &domain.Reason{Kind: domain.ErrInfeasible, Text: "lost state"})
	case infeasible == runs:
		return nil, fmt.Errorf("from state %v: %w", t.state, domain.ErrInfeasible)
	case !(lowest < math.Inf(1)):
		return nil, fmt.Errorf("from state %v: %w", t.state, &domain.Reason{Kind: domain.ErrNotConverged, Text: "not finite"})
	default:
		return nil, fmt.Errorf("from state %v: KKT residual %.1e, want at most %.1e: %w", t.state, lowest, s.opt.Tolerance, domain.ErrNotConverged)
	}
}

// firstBarrier is that of start k, and whether its states are held.
func (t *task) firstBarrier(k int) (mu float64, hold bool) {
	switch {
	case k < len(t.starts) && (t.pinned != nil || t.neighbour != nil && t.following):
		return polishedBarrier, false
	case k < len(t.starts):
		return plannedBarrier, false
	case k == len(t.starts):
		return holdBarrier, true
	}
	return firstBarrier, false
}

// followCorners solves the task with its corners rounded at a level, and continues with ever less rounding while that
// converges. Costs are always those of the problem's own functions. nil where no first solve converges.
func (t *task) followCorners(level int, configure func(*program)) *Trajectory {
	s := t.solver
	solve := func(next task) (*Trajectory, *ipm) {
		next.following, next.keepWorkspace = true, true
		best, err := next.solveStarts(configure)
		if err != nil {
			return nil, nil
		}
		return best, next.workspace
	}
	next := *t
	next.level, next.workspace, next.neighbour = level, nil, nil
	best, workspace := solve(next)
	for ; best == nil && next.level > 2; best, workspace = solve(next) {
		next.level -= 2 // it may be too wide
	}
	for ; best != nil && next.level > 0; next.level-- {
		closer, space := solve(task{solver: s, state: t.state, ctx: t.ctx, steps: t.steps, starts: [][][]float64{best.U}, neighbour: workspace, level: next.level - 1})
		if closer == nil {
			break
		}
		s.work.workspaces.Put(workspace)
		best, workspace = closer, space
	}
	if best != nil {
		s.work.workspaces.Put(t.exchangeWorkspace(workspace))
	}
	return best
}

// configure sets up a workspace for a solve.
func (t *task) configure(p *ipm, configure func(*program), iterations int) {
	configure(p.q)
	p.q.room, p.q.blocks, p.q.pinned = t.solver.room, t.solver.blocks, t.pinned
	p.q.setLevel(t.level)
	p.opt = ipmOptions{tolerance: t.solver.opt.Tolerance, iterations: iterations, extraIterations: 5, ctx: t.solver.ctx}
}

// exchangeWorkspace stores a solution's workspace, if the task keeps one, and returns another.
func (t *task) exchangeWorkspace(p *ipm) *ipm {
	if !t.keepWorkspace {
		return p
	}
	spare := t.workspace
	if spare == nil {
		spare = t.solver.work.workspaces.Get().(*ipm)
	}
	t.workspace = p
	return spare
}

// warmTaskIterations bound a warm solve; a cold start would take fewer than more of them.
const warmTaskIterations = 40

// solveWarm solves from the neighbour's last iterate: actions under its feedback, with its multipliers. nil where
// that does not converge.
func (t *task) solveWarm(configure func(*program)) *Trajectory {
	if t.neighbour == nil {
		return nil
	}
	return t.continueSolve(configure, warmTaskIterations, func(p *ipm, initial []float64) bool {
		return p.warmStart(t.neighbour, t.shift, initial, t.steps, true)
	})
}

// continueSolve solves from the iterate that start prepares from the initial state; nil where that does not converge.
func (t *task) continueSolve(configure func(*program), iterations int, start func(p *ipm, initial []float64) bool) *Trajectory {
	s := t.solver
	p := s.work.workspaces.Get().(*ipm)
	defer func() { s.work.workspaces.Put(p) }()
	t.configure(p, configure, min(iterations, s.opt.Iterations))
	s.work.starts.Add(1)
	if p.q.stagesErr != nil || !start(p, slices.Concat(t.state, t.ctx)) {
		return nil
	}
	r := p.iterate()
	s.work.iterations.Add(int64(p.iterations))
	if p.missedActive || !p.acceptable(&r) || !(r.kkt <= s.opt.Tolerance) {
		return nil
	}
	candidate := p.trajectory(r)
	if s.losesState(candidate) {
		return nil
	}
	p = t.exchangeWorkspace(p)
	return candidate
}

// writeStart writes the scaled actions of start k.
func (t *task) writeStart(q *program, to *point, k int) {
	defer q.eachPinned(func(step, j int) { to.v[step*q.nu+j] = 0 })
	action := func(step, j int) *float64 { return &to.v[step*q.nu+j] }
	scaled := func(step, j int, u float64) {
		x := q.scaled(j, u)
		if q.bounded[j] {
			x = math.Max(-0.9, math.Min(0.9, x))
		}
		*action(step, j) = x
	}
	if k < len(t.starts) {
		for step, u := range t.starts[k] {
			for j := range q.nu {
				*action(step, j) = q.scaled(j, u[j])
			}
		}
		return
	}
	switch k -= len(t.starts); k {
	case 0:
		u := make([]float64, q.nu)
		q.problem.Fallback(t.state, t.ctx, u)
		for step := range t.steps {
			for j := range u {
				scaled(step, j, u[j])
			}
		}
	case 1:
		plan := make([]float64, q.spec.PlanSize())
		q.problem.Base(t.state, t.ctx, plan)
		for step := range t.steps {
			action := min(step, q.spec.Plan-1) * q.nu
			for j := range q.nu {
				scaled(step, j, plan[action+j])
			}
		}
	default:
		// A random constant and two slow waves per action.
		for j, wave := range waves(t.seed, k, q.nu) {
			level, phase := wave[0], wave[3]
			for step := range t.steps {
				w := math.Pi * float64(step) / float64(t.steps)
				scaled(step, j, q.mid[j]+q.half[j]*(level+wave[1]*math.Sin(w+phase)+wave[2]*math.Sin(2*w+phase)))
			}
		}
	}
}

// waves are, for each action of start k: the constant, the amplitudes of two slow waves, and their phase.
func waves(seed uint64, k, actions int) [][4]float64 {
	rng := rand.New(rand.NewPCG(seed, uint64(k)))
	out := make([][4]float64, actions)
	for j := range out {
		level, a, b := 1.2*rng.Float64()-0.6, 0.4*rng.NormFloat64(), 0.4*rng.NormFloat64()
		out[j] = [4]float64{level, a, b, 2 * math.Pi * rng.Float64()}
	}
	return out
}

// setInitialState sets the initial state of the next solve.
func (p *ipm) setInitialState(state, ctx []float64, steps int) {
	q := p.q
	q.layout(steps)
	q.resize(p.cur)
	clear(p.cur.y)
	copy(p.cur.x, state)
	copy(p.cur.x[q.ns:], ctx)
}

// trajectory copies the solution.
func (p *ipm) trajectory(r ipmResult) *Trajectory {
	q, solution := p.q, p.cur
	if q.levels > 0 { // costs and margins are those of the problem's own functions
		solution = p.trial
		copy(solution.x, p.cur.x)
		copy(solution.v, p.cur.v)
		copy(solution.y, p.cur.y)
		staged := q.staged
		q.staged = nil
		q.evaluate(solution, false)
		q.staged = staged
		r.f = solution.f
	}
	rows := func(flat []float64, count, width int) [][]float64 {
		out := make([][]float64, count)
		flat = slices.Clone(flat[:count*width])
		for i := range out {
			out[i] = flat[i*width : (i+1)*width : (i+1)*width]
		}
		return out
	}
	t := &Trajectory{
		TerminalCost: q.terminal.value(q, solution),
		U:            rows(solution.u, q.steps, q.nu), Sigma: rows(solution.sigma, q.steps, q.no), J: rows(solution.j, q.steps, q.no), Margins: rows(solution.g, q.steps, q.nm),
		Cost: r.f, KKT: r.kkt, Violation: r.violation, Iterations: r.iterations,
	}
	for _, m := range t.Margins {
		for i := range m {
			m[i] *= q.marginSizes[i]
		}
		tensor.Axpy(1, q.room, m)
	}
	if q.pinned != nil {
		t.Gains = p.gains()
	}
	for _, x := range rows(solution.x, q.steps+1, q.nx) {
		t.S, t.C = append(t.S, x[:q.ns:q.ns]), append(t.C, x[q.ns:])
	}
	return t
}
