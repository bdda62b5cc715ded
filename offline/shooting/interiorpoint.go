package shooting

import (
	"context"
	"math"
	"time"

	"github.com/gpc-engine/gpc/internal/dense"
)

// The interior point method minimises f subject to the dynamics, g ≥ 0 and a box.
// Each inequality is elastic: g + v = s with s, v > 0 and v charged ρ in the objective,
// an exact penalty, so that a start need not be feasible and an infeasible problem still
// has a solution, at which v says how far it is off. For given g both s and v have a
// closed form that keeps the barrier problem's conditions s·z = μ and v·(ρ − z) = μ for
// one z, so the iterates are the variables, the multipliers λ of the dynamics and z; g
// itself may do what it likes. Newton's step with the primal–dual curvature of s and v
// has the dynamics as its only equations and is solved by a Riccati recursion. Rules for
// μ, the fraction to the boundary, the reset of multipliers, the filter and the
// second-order correction are those of Wächter and Biegler (2006). Where their filter
// asks for a restoration, a roll-out under the step's own feedback keeps every equation.

// ipmOptions of one solve.
type ipmOptions struct {
	tolerance  float64 // of the scaled KKT residual
	iterations int
	mu         float64   // first barrier parameter
	warm       bool      // the start is a solution before
	deadline   time.Time // zero: none
	// extraIterations iterations are made at most for a violation that the tolerance allows and
	// the problem's own does not.
	extraIterations int
	ctx             context.Context // nil: none
}

// outOfTime reports whether the solve has no time left.
func (o *ipmOptions) outOfTime() bool {
	return !o.deadline.IsZero() && !time.Now().Before(o.deadline) || o.ctx != nil && o.ctx.Err() != nil
}

// lastBarrier is the parameter at which the tolerance is met.
func (o ipmOptions) lastBarrier() float64 { return o.tolerance / 20 }

// ipmResult is the last iterate.
type ipmResult struct {
	f          float64
	kkt        float64 // scaled KKT residual of the problem itself: stationarity, violation, complementarity
	elasticKKT float64 // that of the problem in which a violation has a price
	violation  float64 // largest −g
	iterations int
}

// slack is what each inequality has besides its value.
type slack struct{ s, v []float64 }

// ipm is the workspace of solves of one program, and what the next may start from.
type ipm struct {
	q                      *program
	r                      riccati
	opt                    ipmOptions
	objectiveScale         float64
	rho, mu                float64
	cur, trial             *point
	slacks, trialSlacks    slack
	z                      []float64 // of the inequalities
	zl, zu                 []float64 // of the box, [steps][nu]
	lambda                 []float64 // of the dynamics, [steps+1][nX]
	h, lin                 []float64 // the quadratic program: [steps][d][d], [steps][d]
	w, finalXi             []float64 // its solution: [steps][d], ξ_N
	defect                 []float64 // right-hand sides of the dynamics
	newLambda              []float64
	slopes                 []float64 // of the stages' Lagrangians, [steps][d]
	slopesValid            bool      // whether slopes are those of the iterate
	blockSlopes            []float64 // slopes of the actions of a block, with the box's multipliers
	dz, dg                 []float64 // steps of z and of g
	weighted               []float64 // margins of a stage times their weights, [nm][d]
	squares                dense.Product
	weights, barrierSlopes []float64 // of the inequalities: of their squares in the condensed Hessian, and of their gradients, −μ/s
	dzl, dzu               []float64
	filter                 []filterEntry
	thetaMax               float64
	thetaMin               float64
	defectPenalty          float64 // most that φ may rise for a unit of θ
	iterations             int
	shift                  float64 // last diagonal shift that made the step matrix definite
	hasFeedback            bool    // whether the recursion holds the feedback of a step
	missedActive           bool    // a component that was taken to be constant moves
	keptStates             bool    // whether the start kept the states of a plan that had led elsewhere
	minShift               float64 // shift that a step begins with, after one that made no progress
}

func newIPM(q *program) *ipm { return &ipm{q: q, cur: new(point), trial: new(point)} }

// resize makes room for the program's present layout.
func (p *ipm) resize() {
	q := p.q
	q.resize(p.cur)
	q.resize(p.trial)
	p.r.resize(q.blocked, q.nu, q.nX, q.tau)
	m := q.constraints()
	for _, b := range []*[]float64{&p.slacks.s, &p.slacks.v, &p.trialSlacks.s, &p.trialSlacks.v, &p.z, &p.dz, &p.dg, &p.weights, &p.barrierSlopes} {
		size(b, m)
	}
	for _, b := range []*[]float64{&p.zl, &p.zu, &p.dzl, &p.dzu} {
		size(b, q.steps*q.nu)
	}
	size(&p.lambda, (q.steps+1)*q.nX)
	size(&p.newLambda, (q.steps+1)*q.nX)
	size(&p.h, q.steps*q.d*q.d)
	size(&p.lin, q.steps*q.d)
	size(&p.weighted, q.nm*q.d)
	p.squares = dense.NewTransposed(q.d, q.nm, q.d).Lower()
	size(&p.slopes, q.steps*q.d)
	size(&p.blockSlopes, q.nu)
	size(&p.w, q.steps*q.d)
	size(&p.finalXi, q.nX)
	size(&p.defect, q.steps*q.nX)
}

// Penalties of a violated constraint, in units of the scaled objective per unit
// of g; the second is used when the first was too weak for a feasible problem.
const (
	firstPenalty  = 1e3
	secondPenalty = 1e6
)

// First barrier parameters: of a roll-out of which nothing is known, of a start whose
// states are held, of a plan, and of one near an optimum, which few iterations are to make better.
const (
	firstBarrier    = 3.0
	holdBarrier     = 0.3
	plannedBarrier  = 1e-2
	polishedBarrier = 1e-4
)

// boxInset is how far from its box an action begins, in half widths, or less where the barrier parameter is small: its multiplier, the
// parameter over that, is no more than half of the objective's largest first derivative.
const boxInset = 0.02

// A warm start has so many iterations in the room that the size of its violation asks for, and
// from then on that which the price of the violation asks for.
const warmIterations = 4

// A start that has kept the states of a plan is rolled out after all where so many iterations have not closed its defects: no
// plan near that one may lead on from the new state.
const keptStateIterations = 30

// barrierFor is the barrier parameter for a start of residual e: the further it is from a solution,
// the more room its path needs.
func barrierFor(e float64) float64 { return math.Min(1, 1e-4*e*e) }

// start starts from the scaled actions and the first state in p.cur: from their roll-out,
// or, held, from states that stay where they are, with defects, which an unstable system is
// much nearer to an optimum in, or from the given states, if there are some. It finds out what moves, and reports false where the start
// is not finite.
func (p *ipm) start(hold bool, states []float64) bool {
	q := p.q
	p.iterations, p.shift = 0, 0
	p.missedActive, p.hasFeedback, p.keptStates = false, false, false
	p.resize()
	limit := 1 - math.Min(boxInset, 2*p.opt.mu)
	for i, v := range p.cur.v {
		if q.bounded[i%q.nu] {
			p.cur.v[i] = math.Max(-limit, math.Min(limit, v))
		}
	}
	q.averageBlocks(p.cur.v)
	if q.staged != nil {
		q.discoverStages(p.cur)
	} else {
		q.roll(p.cur)
		if !hold && states == nil && !q.finite(p.cur) {
			return false
		}
		q.discover(p.cur)
	}
	p.resize()
	if q.tau {
		p.cur.y[q.naug-1] = p.minBound()
	}
	switch {
	case states != nil:
		copy(p.cur.x, states)
		q.evaluate(p.cur, false)
	case hold:
		q.holdState(p.cur)
	default:
		q.roll(p.cur)
	}
	return q.finite(p.cur)
}

// widen takes every component of the state and context to move, and begins again from
// the present actions.
func (p *ipm) widen() {
	q := p.q
	for i := range q.isActive {
		q.isActive[i] = true
	}
	q.layout(q.steps)
	p.resize()
	p.missedActive, p.hasFeedback = false, false
	q.roll(p.cur)
	q.differentiate(p.cur)
}

// minBound is the smallest τ that keeps the totals of the roll-out in p.cur, and a
// little room.
func (p *ipm) minBound() float64 {
	q := p.q
	clear(p.cur.y[:q.naug])
	q.roll(p.cur)
	bound := 0.0
	for _, g := range p.cur.g[q.steps*q.nm:] {
		bound = math.Max(bound, -g)
	}
	if math.IsNaN(bound) {
		bound = 0
	}
	return bound + 0.1
}

// minimise solves the program from p.cur, which begin has made. feasible is false
// when minimising the violation alone ends at a stationary point that still violates
// a constraint by more than the tolerance.
func (p *ipm) minimise() (r ipmResult, feasible bool) {
	p.missedActive = !p.q.differentiate(p.cur)
	scale := p.scale()
	p.rho = firstPenalty
	if r = p.run(scale); p.acceptable(&r) {
		return r, true
	}
	p.rho = 1
	feasibility := p.run(0)
	if feasibility.violation > p.opt.tolerance {
		// Only a stationary point of the violation says that there is no feasible
		// point near; an iteration that stalled says nothing.
		return r, feasibility.kkt > math.Sqrt(p.opt.tolerance)
	}
	p.rho = secondPenalty
	return p.run(scale), true
}

// acceptable reports whether a result keeps the constraints, or at least the limits without their room, where that is a result of its own.
func (p *ipm) acceptable(r *ipmResult) bool {
	if r.violation <= p.opt.tolerance {
		return true
	}
	worst := p.limitViolation()
	if worst > p.q.spec.MarginTolerance {
		return false
	}
	r.kkt, r.violation = r.elasticKKT, worst
	return true
}

// limitViolation is the largest violation of the limits themselves, +Inf where there is no room.
func (p *ipm) limitViolation() float64 {
	q := p.q
	if q.room == nil {
		return math.Inf(1)
	}
	worst := 0.0
	for i, g := range p.cur.g {
		if i < q.steps*q.nm {
			g += q.room[i%q.nm]
		}
		worst = math.Max(worst, -g)
	}
	return worst
}

// scale of the objective: to a largest first derivative of one with respect to the
// scaled actions and states of a stage at the iterate, one near the optimum excepted.
func (p *ipm) scale() float64 {
	largest := math.Max(1e-8, 1e-3*math.Abs(p.cur.f))
	for _, v := range p.q.objective {
		largest = math.Max(largest, math.Abs(v))
	}
	return 1 / largest
}

// computeSlacks writes s and v for constraint values g such that g + v = s and the barrier
// conditions hold for one z.
func (p *ipm) computeSlacks(g, s, v []float64) {
	half := 0.5 / p.rho
	for i, gi := range g {
		// v solves ρ = μ/v + μ/(g+v); the larger of s and v, at least 2μ/ρ, is computed without cancellation, the smaller from the
		// barrier conditions' symmetry.
		charged := p.rho * math.Abs(gi)
		larger := (2*p.mu + charged + math.Sqrt(charged*charged+4*p.mu*p.mu)) * half
		smaller := p.mu * larger / (p.rho*larger - p.mu)
		if gi >= 0 {
			s[i], v[i] = larger, smaller
		} else {
			s[i], v[i] = smaller, larger
		}
	}
}

// run solves from p.cur with the current penalty, from multipliers at the barrier's
// own values.
func (p *ipm) run(objectiveScale float64) ipmResult {
	q := p.q
	p.objectiveScale, p.mu = objectiveScale, p.opt.mu
	q.differentiate(p.cur)
	p.computeSlacks(p.cur.g, p.slacks.s, p.slacks.v)
	for i := range p.z {
		p.z[i] = p.mu / p.slacks.s[i]
	}
	for i, v := range p.cur.v {
		p.zl[i], p.zu[i] = 0, 0
		if q.bounded[i%q.nu] {
			p.zl[i], p.zu[i] = p.mu/(1+v), p.mu/(1-v)
		}
	}
	p.adjoint(objectiveScale)
	r := p.iterate()
	if p.missedActive {
		p.widen()
		return p.run(objectiveScale)
	}
	return r
}

// iterate goes on from an evaluated and differentiated p.cur with its multipliers.
func (p *ipm) iterate() ipmResult {
	smallest := p.opt.lastBarrier()
	p.filter = p.filter[:0]
	p.minShift, p.slopesValid = 0, false
	theta := infeasibility(p.cur)
	p.thetaMax, p.thetaMin = 1e4*math.Max(1, theta), 1e-4*math.Max(1, theta)
	for further := p.opt.extraIterations; ; {
		kkt, elastic, violation := p.residual(0)
		if math.Min(kkt, elastic) <= p.opt.tolerance || p.objectiveScale == 0 && violation == 0 {
			// The result is a trajectory: it is certified as one.
			if p.missedActive {
				break
			}
			if !p.cur.rolled {
				if !p.restore() {
					break
				}
				continue
			}
			if violation <= p.q.spec.MarginTolerance || violation > p.opt.tolerance || further == 0 {
				break
			}
			further--
		}
		if p.missedActive || p.iterations >= p.opt.iterations || p.opt.outOfTime() {
			break
		}
		if p.opt.warm && p.iterations == warmIterations {
			p.raiseBarrier(elastic)
		}
		if p.keptStates && p.iterations == keptStateIterations {
			if p.keptStates = false; !p.cur.rolled && p.restore() {
				_, elastic, _ = p.residual(0)
				p.raiseBarrier(elastic)
			}
		}
		for p.mu > smallest {
			if e, _, _ := p.residual(p.mu); e > 10*p.mu {
				break
			}
			p.mu = math.Max(smallest, math.Min(0.2*p.mu, math.Pow(p.mu, 1.5)))
			p.computeSlacks(p.cur.g, p.slacks.s, p.slacks.v)
			p.filter = p.filter[:0]
		}
		p.iterations++
		if !p.newtonStep() {
			break
		}
	}
	kkt, elastic, violation := p.residual(0)
	return ipmResult{f: p.cur.f, kkt: kkt, elasticKKT: elastic, violation: violation, iterations: p.iterations}
}

// raiseBarrier raises the barrier parameter to what a residual asks for.
func (p *ipm) raiseBarrier(e float64) {
	p.mu = math.Max(p.mu, barrierFor(e))
	p.computeSlacks(p.cur.g, p.slacks.s, p.slacks.v)
	p.resetDuals()
	p.filter = p.filter[:0]
}

// restore makes the iterate a roll-out of itself; false where none is finite.
func (p *ipm) restore() bool {
	if !p.rollOut(p.cur.x[:p.q.nx]) {
		return false
	}
	p.computeSlacks(p.trial.g, p.trialSlacks.s, p.trialSlacks.v)
	p.accept()
	p.filter = p.filter[:0]
	return true
}

// rollOut writes to the trial the roll-out of the iterate's actions from a state, under
// the feedback of the last step, or of the actions alone where that is not finite; false
// where neither is.
func (p *ipm) rollOut(initial []float64) bool {
	for _, feedback := range [2]bool{true, false} {
		if feedback && !p.hasFeedback {
			continue
		}
		copy(p.trial.x, initial)
		p.rollWithFeedback(feedback)
		if p.q.finite(p.trial) {
			return true
		}
	}
	return false
}

// rollWithFeedback writes to the trial the roll-out of the iterate's actions from the
// trial's first state, corrected by the feedback of the last step where the state is
// another; within the box.
func (p *ipm) rollWithFeedback(feedback bool) {
	q := p.q
	copy(p.trial.y[:q.naug], p.cur.y[:q.naug])
	u := q.step[:q.nu]
	for t := range q.steps {
		v := p.trial.v[t*q.nu : (t+1)*q.nu]
		copy(v, p.cur.v[t*q.nu:])
		switch {
		case q.blocked[t]:
			copy(v, p.trial.v[(t-1)*q.nu:])
		case feedback:
			clear(u)
			p.r.feedback(t, p.deviation(p.trial.x[t*q.nx:], p.cur.x[t*q.nx:]), u)
			for j, d := range u {
				if q.bounded[j] {
					d = math.Max(0.9*(-1-v[j]), math.Min(0.9*(1-v[j]), d))
				}
				v[j] += d
			}
		}
		q.action(p.trial, t)
		q.forward(p.trial, t)
		copy(p.trial.x[(t+1)*q.nx:(t+2)*q.nx], p.trial.image[t*q.nx:])
	}
	q.evaluate(p.trial, true)
}

// deviation is ξ of a state and context at beside that of the plan, in p.last.
func (p *ipm) deviation(state, plan []float64) []float64 {
	clear(p.finalXi)
	for i, a := range p.q.active {
		p.finalXi[i] = (state[a] - plan[a]) / p.q.scale[a]
	}
	return p.finalXi
}

// accept makes the trial the iterate.
func (p *ipm) accept() {
	p.cur, p.trial = p.trial, p.cur
	p.slacks, p.trialSlacks = p.trialSlacks, p.slacks
	p.resetDuals()
	p.missedActive = !p.q.differentiate(p.cur) || p.missedActive
}

// resetDuals keeps multipliers within a wide factor of their barrier values at the
// new point, Wächter and Biegler (2006), eq. 16.
func (p *ipm) resetDuals() {
	p.slopesValid = false
	const kappa = 1e10
	low, high := p.mu/kappa, p.mu*kappa
	clamp := func(z, slack float64) float64 {
		if product := z * slack; low <= product && product <= high {
			return z
		}
		return max(low/slack, min(high/slack, z))
	}
	for i := range p.z {
		z := clamp(p.z[i], p.slacks.s[i])
		// Only where it is clamped: ρ − (ρ − z) has lost a small z.
		if upper := clamp(p.rho-z, p.slacks.v[i]); upper != p.rho-z {
			z = max(p.rho-upper, low/p.slacks.s[i])
		}
		// ρ − z is a divisor.
		p.z[i] = min(z, p.rho*(1-1e-12))
	}
	for i, v := range p.cur.v {
		if p.q.bounded[i%p.q.nu] {
			p.zl[i] = clamp(p.zl[i], 1+v)
			p.zu[i] = clamp(p.zu[i], 1-v)
		}
	}
}
