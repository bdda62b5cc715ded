package shooting

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
)

// Receding solves the decisions of one closed loop: each starts from the solution of
// the one before, actions, states and multipliers a stage further on, under the
// feedback of its last step where the state is not the one predicted. After the first
// calls of the longest horizon it allocates nothing. It is not safe for concurrent use.
type Receding struct {
	opt           Options
	terminalCosts *terminalCosts
	iterations    int           // of one decision
	barrier       float64       // first barrier parameter of a plan that Begin gave
	timeLimit     time.Duration // of its call; 0: any
	p             *ipm
	weights       []float64
	first         []float64 // state and context
	startPlan     []float64 // what Begin gave
	ready         bool      // whether there is a decision to start from
	solution      *point    // the plan
	status        Status
}

// Status says what a decision's solve came to. Where no plan keeps the margins the
// solve converges to one that violates them least, at a price of a thousand times the
// objective's largest first derivative per unit: Violation tells such a plan.
type Status struct {
	Converged    bool    // KKT within the solver's tolerance
	Warm         bool    // whether it began from the decision before
	KKT          float64 // largest scaled residual of the optimality conditions, at that price
	Violation    float64 // largest −margin of the plan
	Cost         float64 // Σσᵀ J of the plan; with Beyond it is what was minimised
	TerminalCost float64 // what is counted behind the plan (Options.Lasting)
	Iterations   int
}

// Receding returns a controller's solver of the weighted sum. One decision has at most so many iterations, 0: the
// solver's, within a time from the call, 0: any, which is looked at between iterations.
func (s *Solver) Receding(iterations int, timeLimit time.Duration) (*Receding, error) {
	if iterations < 0 || timeLimit < 0 {
		return nil, fmt.Errorf("shooting: limits of %d iterations and %v, want none negative", iterations, timeLimit)
	}
	if iterations == 0 {
		iterations = s.opt.Iterations
	}
	return newReceding(s, iterations, timeLimit), nil
}

func newReceding(s *Solver, iterations int, timeLimit time.Duration) *Receding {
	p := newIPM(newProgram(s.problem, s.opt.StateScale))
	p.q.blocks = s.opt.Blocks
	return &Receding{opt: s.opt, terminalCosts: s.terminalCosts, iterations: iterations, timeLimit: timeLimit, p: p, barrier: plannedBarrier}
}

// Reset forgets the decision before: the next is solved from the problem's fallback
// actions.
func (r *Receding) Reset() { r.ready, r.startPlan = false, r.startPlan[:0] }

// Begin makes plan, [steps·action], the start of the next decision in place of the one
// before; its last action is held where that decision is of more steps.
func (r *Receding) Begin(plan []float64) {
	r.ready, r.startPlan = false, append(r.startPlan[:0], plan...)
}

// Solve plans n steps from a state and context. Whatever it ends with, the plan is a
// roll-out of finite actions within their box, unless it returns an error: of sizes or
// the preference, or domain.ErrNotConverged where not even the start has finite values.
func (r *Receding) Solve(state, ctx []float64, n int, pref domain.Preference) (Status, error) {
	p, q := r.p, r.p.q
	if q.stagesErr != nil {
		return Status{}, fmt.Errorf("shooting: %w", q.stagesErr)
	}
	if err := pref.Validate(q.no); err != nil {
		return Status{}, fmt.Errorf("shooting: %w", err)
	}
	if len(r.startPlan)%q.nu != 0 {
		return Status{}, fmt.Errorf("shooting: a plan of %d values begins a decision, want a multiple of %d", len(r.startPlan), q.nu)
	}
	if len(state) != q.ns || len(ctx) != q.nc {
		return Status{}, fmt.Errorf("shooting: state and context have %d and %d components, want %d and %d", len(state), len(ctx), q.ns, q.nc)
	}
	if n < 1 || n*q.nu > maxVariables {
		return Status{}, fmt.Errorf("shooting: %d steps with %d actions, want at least 1 step and at most %d variables", n, q.nu, maxVariables)
	}
	p.opt = ipmOptions{tolerance: r.opt.Tolerance, iterations: r.iterations, mu: r.barrier}
	if r.timeLimit > 0 {
		p.opt.deadline = time.Now().Add(r.timeLimit)
	}
	r.weights = append(r.weights[:0], pref.W...)
	q.setWeights(pref.Adaptive, r.weights)
	q.terminal = r.terminalCosts.forContext(ctx, pref)
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
			u := r.startPlan[min(i, len(r.startPlan)-q.nu+j)]
			p.cur.v[i] = (u - q.mid[j]) / q.half[j]
		}
		r.ready, r.status, r.startPlan = false, Status{}, r.startPlan[:0]
		if !p.start(hold, nil) {
			return Status{}, fmt.Errorf("shooting: from state %v: the start's roll-out is not finite: %w", state, domain.ErrNotConverged)
		}
		p.missedActive = !q.differentiate(p.cur)
		p.rho = firstPenalty
		result = p.run(p.scale())
	}
	r.status.KKT = math.Min(result.kkt, result.elasticKKT)
	r.status.Converged = r.status.KKT <= r.opt.Tolerance
	r.status.TerminalCost = q.terminal.value(q, p.cur)
	r.status.Violation, r.status.Cost, r.status.Iterations = result.violation, result.f-r.status.TerminalCost, p.iterations
	// From a point without progress the next would have none either.
	stalled := !r.status.Converged && p.iterations < p.opt.iterations && r.timeLimit == 0
	r.solution, r.ready = p.cur, !stalled
	if !p.cur.rolled {
		// The next decision goes on from the iterate; the plan is a roll-out of it.
		if !p.rollOut(p.cur.x[:q.nx]) {
			r.ready = false
			return r.status, fmt.Errorf("shooting: from state %v: no roll-out of the plan is finite: %w", state, domain.ErrNotConverged)
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

// Linearise prepares Correct for the last Solve, whose plan stays as it is: the derivatives of one
// more iteration, with those in the first state. It reports false where that solve did not
// converge, or its quadratic program is not convex.
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

// Correct writes what the plan's first action becomes to first order from another first state
// and context, within its box; Linearise comes first. What no action moves is taken as it was.
// The barrier holds an action near its bound there, as it does margins.
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

// warmStart makes the last iterate of a solve of the same functions, which may be p's own, so many stages further on, the start
// of the next of n steps from the given state and context. One that had converged is rolled out from there and
// begins with the last barrier parameter, but keeps its states where that roll-out strays; another keeps its states, its defects
// and its parameter. It reports false where nothing of it is finite.
func (p *ipm) warmStart(previous *ipm, shift int, initial []float64, n int, converged bool) bool {
	q, oldSteps := p.q, previous.q.steps
	if p != previous {
		p.copySettings(previous)
	}
	p.iterations, p.missedActive, p.opt.warm = 0, false, converged
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
	if converged {
		p.mu = p.opt.lastBarrier()
	}
	// Actions on their bounds are moved inside to where their multipliers want them.
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
	barrier := 0.0 // the barrier parameter that it asks for
	if p.keptStates = false; rollOut || !q.finite(p.cur) {
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
	// Multipliers not far below what the barrier asks for.
	for i, g := range p.cur.g {
		p.z[i] = math.Max(math.Min(p.z[i], 0.99*p.rho), 0.1*p.mu/math.Max(g, 1e-3))
	}
	for i, v := range p.cur.v {
		if q.bounded[i%q.nu] {
			p.zl[i] = math.Max(p.zl[i], 0.1*p.mu/(1+v))
			p.zu[i] = math.Max(p.zu[i], 0.1*p.mu/(1-v))
		}
	}
	// The stage that is new at the end has no multiplier before it yet.
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

// keepStates makes the iterate start at another state and context, with its own states behind, of which the first equation is then
// left open.
func (p *ipm) keepStates(initial []float64) {
	copy(p.cur.x, initial)
	p.q.propagate(p.cur, p.q.nx)
}

// A roll-out of a plan from another state strays where it breaks a limit by more than brokenLimit, or comes further from the plan
// than the state's typical sizes and strayedGrowth times as far as it begins: the plan's feedback moves no action that is at its
// bound, and Newton's method would have to come back from there. It has less to do from the states of the plan, which keep the
// limits. One that comes so far has room for another plan, strayedBarrier at least.
const (
	brokenLimit    = 1e-3 // in the margins' own units
	strayedGrowth  = 10
	strayedBarrier = 3e-3
)

// strayBarrier is the least barrier parameter for a start at the iterate's states in place of the trial, its roll-out; 0 where that
// does not stray.
func (p *ipm) strayBarrier() float64 {
	q := p.q
	far := 1.0
	for t := range q.transitions() + 1 {
		var furthest largest
		for i, component := range p.deviation(p.trial.x[t*q.nx:], p.cur.x[t*q.nx:])[:q.na] {
			// What the context remembers of the actions has no typical size.
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

// copySettings takes over what a solve has besides its stages.
func (p *ipm) copySettings(previous *ipm) {
	p.rho, p.mu = previous.rho, previous.mu
	p.objectiveScale, p.hasFeedback = previous.objectiveScale, previous.hasFeedback
	p.shift, p.minShift = 0, 0
	copy(p.q.isActive, previous.q.isActive)
}

// shiftStages writes every stage's entries to the stage so many before, drops the first ones and
// repeats the last as often as the new number of stages asks for; the two may be the same.
func shiftStages(to *[]float64, old []float64, oldSteps, newSteps, shift, width int) {
	size(to, newSteps*width)
	for t := range newSteps {
		from := min(t+shift, oldSteps-1)
		copy((*to)[t*width:(t+1)*width], old[from*width:(from+1)*width])
	}
}
