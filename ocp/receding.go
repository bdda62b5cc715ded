package ocp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
)

// Receding solves the decisions of one closed loop. Each starts from the previous solution, shifted by a stage:
// actions, states and multipliers. The feedback of its last step corrects the actions where the state is not the
// predicted one. After the first calls of the longest horizon it allocates nothing but where it keeps bounds. It is not safe for concurrent
// use.
type Receding struct {
	opt           Options
	terminalCosts *terminalCosts
	ctx           context.Context // ends a solve
	iterations    int             // of a decision
	barrier       float64         // first barrier parameter of a plan from Begin
	timeLimit     time.Duration   // of a decision; 0: none
	p             *ipm
	weights       []float64
	bounds        []domain.Bound // of the sums of objectives, of a plan from Begin
	first         []float64      // state and context
	startPlan     []float64      // the plan from Begin
	ready         bool           // a previous decision can warm-start the next
	solution      *point         // the plan
	status        Status
}

// Status describes the solve of a decision. Where no plan satisfies the margins, the solve converges to one that
// violates them least. The penalty per unit is a thousand times the objective's largest first derivative. Violation
// marks such a plan.
type Status struct {
	Converged    bool    // KKT within the solver's tolerance
	Warm         bool    // started from the previous decision
	KKT          float64 // largest scaled residual of the optimality conditions, with that penalty
	Violation    float64 // largest −margin of the plan, in the margin's size
	Cost         float64 // Σσᵀ J of the plan; with TerminalCost it is the minimised value
	TerminalCost float64 // beyond the plan (Options.TerminalCost)
	Iterations   int
}

// Receding returns a controller's solver of the weighted sum. iterations limits each decision, 0: the Solver's.
// timeLimit limits its time, 0: none; it is checked between iterations.
func (s *Solver) Receding(iterations int, timeLimit time.Duration) (*Receding, error) {
	if iterations < 0 || timeLimit < 0 {
		return nil, fmt.Errorf("limits of %d iterations and %v, want none negative", iterations, timeLimit)
	}
	iterations = cmp.Or(iterations, s.opt.Iterations)
	return newReceding(s, iterations, timeLimit), nil
}

func newReceding(s *Solver, iterations int, timeLimit time.Duration) *Receding {
	p := newIPM(newProgram(s.problem, s.opt.StateScale))
	p.q.blocks = s.opt.Blocks
	return &Receding{opt: s.opt, terminalCosts: s.terminalCosts, ctx: s.ctx, iterations: iterations, timeLimit: timeLimit, p: p, barrier: plannedBarrier}
}

// Reset forgets the previous decision: the next solve starts from the fallback action.
func (r *Receding) Reset() { r.ready, r.startPlan = false, r.startPlan[:0] }

// Begin makes plan, [steps·action], the start of the next decision. Its last action repeats where that has more
// steps.
func (r *Receding) Begin(plan []float64) {
	r.ready, r.startPlan = false, append(r.startPlan[:0], plan...)
}

// Solve plans n steps from a state and context. Without an error, the plan is a roll-out of finite actions within
// their box, converged or not. An error reports wrong sizes, the preference, or domain.ErrNotConverged where not even
// the start is finite.
func (r *Receding) Solve(state, ctx []float64, n int, pref domain.Preference) (Status, error) {
	p, q := r.p, r.p.q
	if q.stagesErr != nil {
		return Status{}, q.stagesErr
	}
	if err := check(q.spec, state, ctx, n, pref); err != nil {
		return Status{}, err
	}
	if len(r.startPlan)%q.nu != 0 {
		return Status{}, fmt.Errorf("a plan of %d values begins a decision, want a multiple of %d", len(r.startPlan), q.nu)
	}
	p.opt = ipmOptions{tolerance: r.opt.Tolerance, iterations: r.iterations, mu: r.barrier, ctx: r.ctx}
	if r.timeLimit > 0 {
		p.opt.deadline = time.Now().Add(r.timeLimit)
	}
	r.weights = append(r.weights[:0], pref.W...)
	q.setWeights(pref.Adaptive, r.weights)
	for _, b := range r.bounds {
		e := make([]float64, q.no)
		e[b.Objective] = 1 / b.Unit
		q.totals = append(q.totals, total{b: b.Most / b.Unit, e: e})
	}
	q.terminal, _ = r.terminalCosts.forPlan(state, ctx, n, pref)
	r.first = append(append(r.first[:0], state...), ctx...)
	var result ipmResult
	switch {
	case r.ready && p.warmStart(p, 1, r.first, n, r.status.Converged):
		r.status = Status{Warm: true}
		result = p.iterate()
		if p.missedActive {
			p.widen()
			result = p.run(p.scale())
		}
	default:
		p.setInitialState(state, ctx, n)
		hold := len(r.startPlan) == 0
		if hold {
			p.opt.mu = holdBarrier
			r.startPlan = append(r.startPlan, q.minus[:q.nu]...)
			q.problem.Fallback(state, ctx, r.startPlan)
		}
		for i := range p.cur.v {
			j := i % q.nu
			p.cur.v[i] = q.scaled(j, r.startPlan[min(i, len(r.startPlan)-q.nu+j)])
		}
		r.ready, r.status, r.startPlan = false, Status{}, r.startPlan[:0]
		if !p.start(hold, nil) {
			return Status{}, fmt.Errorf("from state %v: the start's roll-out is not finite: %w", state, domain.ErrNotConverged)
		}
		p.missedActive = !q.differentiate(p.cur)
		p.rho = firstPenalty
		result = p.run(p.scale())
	}
	r.status.KKT = math.Min(result.kkt, result.elasticKKT)
	r.status.Converged = r.status.KKT <= r.opt.Tolerance
	r.status.TerminalCost = q.terminal.value(q, p.cur)
	r.status.Violation, r.status.Cost, r.status.Iterations = result.violation, result.f-r.status.TerminalCost, p.iterations
	// A stalled point cannot warm-start the next decision.
	stalled := !r.status.Converged && p.iterations < p.opt.iterations && r.timeLimit == 0
	r.solution, r.ready = p.cur, !stalled
	if !p.cur.rolled {
		// The next decision continues from the iterate; the plan is its roll-out.
		if !p.rollOut(p.cur.x[:q.nx]) {
			r.ready = false
			return r.status, fmt.Errorf("from state %v: no roll-out of the plan is finite: %w", state, domain.ErrNotConverged)
		}
		r.solution = p.trial
		r.status.TerminalCost = q.terminal.value(q, p.trial)
		r.status.Cost, r.status.Violation = p.trial.f-r.status.TerminalCost, 0
		for _, g := range p.trial.g {
			r.status.Violation = math.Max(r.status.Violation, -g)
		}
	}
	return r.status, nil
}

// Action views the plan's action of step t until the next Solve.
func (r *Receding) Action(t int) []float64 {
	nu := r.p.q.nu
	return r.solution.u[t*nu : (t+1)*nu : (t+1)*nu]
}

// State views the plan's state and context before step t until the next Solve.
func (r *Receding) State(t int) (s, c []float64) { return r.p.q.state(r.solution, t) }

// Linearise prepares Correct for the last Solve and leaves its plan as it is. It computes the derivatives of one more
// iteration, including those in the initial state. It returns false where that solve did not converge or its
// quadratic program is not convex.
func (r *Receding) Linearise() bool {
	p, q := r.p, r.p.q
	if !r.ready || !r.status.Converged {
		return false
	}
	q.initialFree = true
	defer q.fixInitialState()
	q.differentiate(p.cur)
	q.hessian(p.cur, p.mu, p.objectiveScale, p.z, p.lambda)
	p.assemble()
	p.hasFeedback = p.r.factor(p.h, q.next, 0, 0)
	return p.hasFeedback
}

// Correct writes the plan's first action for another initial state and context, to first order, within its box.
// Linearise comes first. Changes of inactive components are ignored. The barrier holds an action near its bound, and
// margins alike.
func (r *Receding) Correct(state, ctx, u []float64) {
	p, q := r.p, r.p.q
	copy(q.y, state)
	copy(q.y[q.ns:], ctx)
	clear(u)
	p.r.feedback(0, p.deviation(q.y, r.solution.x), u)
	for j, step := range u {
		v := r.solution.v[j] + step
		if q.bounded[j] {
			v = math.Max(-1, math.Min(1, v))
		}
		u[j] = q.mid[j] + q.half[j]*v
	}
}

// warmStart starts a solve of n steps from the last iterate of an earlier one, shifted by the given stages. previous
// may be p itself; its functions are the same. A converged iterate is rolled out and begins with the last barrier
// parameter. It keeps its states where that roll-out strays. Any other iterate keeps its states, its defects and its
// barrier parameter. warmStart returns false where no start is finite.
func (p *ipm) warmStart(previous *ipm, shift int, initial []float64, n int, converged bool) bool {
	q := p.q
	p.shiftIterate(previous, shift, n)
	p.opt.warm = converged
	if converged {
		p.mu = math.Min(p.mu, p.opt.lastBarrier())
	}
	// Actions at their bounds move inside to where their multipliers place them.
	for i, v := range p.cur.v {
		if q.bounded[i%q.nu] {
			low, high := math.Min(0.1, p.mu/p.zl[i]), math.Min(0.1, p.mu/p.zu[i])
			p.cur.v[i] = math.Max(low-1, math.Min(1-high, v))
		}
	}
	q.averageBlocks(p.cur.v)
	rollOut := converged && len(q.blocks) == 0
	if !rollOut {
		p.keepStates(initial)
	}
	barrier := 0.0 // the barrier parameter of a strayed roll-out
	if rollOut || !q.finite(p.cur) {
		if !p.rollOut(initial) {
			return false
		}
		if barrier = p.strayBarrier(); rollOut && barrier > 0 {
			p.keepStates(initial)
			p.keptStates = q.finite(p.cur)
		}
		if !p.keptStates {
			p.cur, p.trial = p.trial, p.cur
		}
	}
	p.missedActive = !q.differentiate(p.cur)
	oldScale := p.objectiveScale
	p.objectiveScale = p.scale()
	ratio := p.objectiveScale / oldScale
	for _, b := range [][]float64{p.z, p.zl, p.zu, p.lambda} {
		for i := range b {
			b[i] *= ratio
		}
	}
	// Multipliers stay near their barrier values.
	for i, g := range p.cur.g {
		p.z[i] = math.Max(math.Min(p.z[i], 0.99*p.rho), 0.1*p.mu/math.Max(g, 1e-3))
	}
	for i, v := range p.cur.v {
		if q.bounded[i%q.nu] {
			p.zl[i] = math.Max(p.zl[i], 0.1*p.mu/(1+v))
			p.zu[i] = math.Max(p.zu[i], 0.1*p.mu/(1-v))
		}
	}
	// The new last stage has no multiplier yet.
	if clear(p.lambda[n*q.nX:]); q.terminal != nil {
		q.terminal.addGradient(q, p.cur, p.objectiveScale, p.lambda[n*q.nX:])
	}
	if n > 1 {
		q.gradient(n-1, p.objectiveScale, q.stageDuals(n-1, p.z), p.lambda, q.slope)
		copy(p.lambda[(n-1)*q.nX:n*q.nX], q.slope[q.nu:])
	}
	if p.slopesValid = false; converged {
		e, _, _ := p.residual(0)
		if p.mu = math.Max(p.mu, barrierFor(e)); p.keptStates {
			p.mu, p.opt.warm = math.Max(p.mu, barrier), false
		}
	}
	p.computeSlacks(p.cur.g, p.slacks.s, p.slacks.v)
	return true
}

// shiftIterate copies an earlier solve's iterate, shifted by the given stages, for a solve of n steps. previous may be p itself.
func (p *ipm) shiftIterate(previous *ipm, shift, n int) {
	q, oldSteps := p.q, previous.q.steps
	if p != previous {
		p.copySettings(previous)
	}
	p.iterations, p.missedActive, p.keptStates = 0, false, false
	shiftStages(&p.cur.x, previous.cur.x, oldSteps+1, n+1, shift, q.nx)
	shiftStages(&p.cur.v, previous.cur.v, oldSteps, n, shift, q.nu)
	shiftStages(&p.zl, previous.zl, oldSteps, n, shift, q.nu)
	shiftStages(&p.zu, previous.zu, oldSteps, n, shift, q.nu)
	shiftStages(&p.z, previous.z, oldSteps, n, shift, q.nm)
	shiftStages(&p.lambda, previous.lambda, oldSteps+1, n+1, shift, previous.q.nX)
	shiftStages(&p.r.l, previous.r.l, oldSteps, n, shift, q.nu*q.nu)
	shiftStages(&p.r.y, previous.r.y, oldSteps, n, shift, previous.q.nX*q.nu)
	for t := range n {
		if previous.q.blocked[min(t+shift, oldSteps-1)] {
			p.r.clearFeedback(t, q.nu, previous.q.nX)
		}
	}
	if p != previous || n != oldSteps {
		q.layout(n)
	}
	p.resize()
}

// keepStates changes the iterate's initial state and context and keeps its other states. The first transition then
// has a defect.
func (p *ipm) keepStates(initial []float64) {
	copy(p.cur.x, initial)
	p.q.propagate(p.cur, p.q.nx)
}

// A roll-out from another state strays where it violates a limit by more than brokenLimit. It also strays where its
// deviation from the plan exceeds the typical sizes and strayedGrowth times the first deviation. Feedback moves no
// action at its bound, so Newton's method would have to undo the deviation. The plan's own states respect the limits
// and leave less to do. A large deviation needs room for another plan: a barrier parameter of at least
// strayedBarrier.
const (
	brokenLimit    = 1e-3 // in the margins' sizes
	strayedGrowth  = 10
	strayedBarrier = 3e-3
)

// strayBarrier is the least barrier parameter for a start from the iterate's states instead of the trial, its
// roll-out; 0 where that does not stray.
func (p *ipm) strayBarrier() float64 {
	q := p.q
	far := 1.0
	for t := range q.transitions() + 1 {
		var furthest largest
		for i, component := range p.deviation(p.trial.x[t*q.nx:], p.cur.x[t*q.nx:])[:q.na] {
			// The context's memory of actions has no typical size.
			if q.active[i] < q.ns {
				furthest.include(component)
			}
		}
		if t == 0 {
			far = math.Max(far, strayedGrowth*float64(furthest))
		}
		if float64(furthest) > far {
			return strayedBarrier
		}
	}
	if slices.ContainsFunc(p.trial.g, func(g float64) bool { return g < -brokenLimit }) {
		return p.opt.lastBarrier()
	}
	return 0
}

// copySettings copies the settings of a solve that do not depend on its stages.
func (p *ipm) copySettings(previous *ipm) {
	p.rho, p.mu = previous.rho, previous.mu
	p.objectiveScale, p.hasFeedback = previous.objectiveScale, previous.hasFeedback
	p.shift, p.minShift = 0, 0
	copy(p.q.isActive, previous.q.isActive)
}

// shiftStages moves every stage's entries to the front by shift stages and repeats the last one up to newSteps. to
// and old may be the same.
func shiftStages(to *[]float64, old []float64, oldSteps, newSteps, shift, width int) {
	size(to, newSteps*width)
	for t := range newSteps {
		from := min(t+shift, oldSteps-1)
		copy((*to)[t*width:(t+1)*width], old[from*width:(from+1)*width])
	}
}
