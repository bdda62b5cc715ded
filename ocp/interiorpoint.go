package ocp

import (
	"context"
	"math"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/dense"
)

// The interior point method minimises f subject to the dynamics, g ≥ 0 and a box.
//
// Each inequality is elastic: g + v = s with s, v > 0, and the objective charges ρ per unit of v. This penalty is
// exact. A start need not be feasible, and an infeasible problem still has a solution, whose v measures the
// violation. For given g, both s and v have a closed form that keeps the barrier conditions s·z = μ and v·(ρ − z) = μ
// for one z. The iterates are therefore the variables, the multipliers λ of the dynamics, and z.
//
// Newton's step uses the primal–dual curvature of s and v. Its only equations are the dynamics, so a Riccati
// recursion solves it. The rules for μ, the fraction to the boundary, the reset of multipliers, the filter and the
// second-order correction are those of Wächter and Biegler (2006). Where their filter restores feasibility, a
// roll-out under the step's own feedback satisfies every equation.

// ipmOptions of one solve.
type ipmOptions struct {
	tolerance  float64 // on the scaled KKT residual
	iterations int
	mu         float64   // first barrier parameter
	warm       bool      // the start shifts an earlier solution
	deadline   time.Time // zero: none
	// extraIterations run at most while the tolerance allows a violation that the problem's own does not.
	extraIterations int
	ctx             context.Context // nil: none
}

// outOfTime reports whether the deadline has passed or the context has ended.
func (o *ipmOptions) outOfTime() bool {
	return !o.deadline.IsZero() && !time.Now().Before(o.deadline) || o.ctx != nil && o.ctx.Err() != nil
}

// lastBarrier is the barrier parameter that meets the tolerance.
func (o ipmOptions) lastBarrier() float64 { return o.tolerance / 20 }

// ipmResult is the last iterate.
type ipmResult struct {
	f          float64
	kkt        float64 // scaled KKT residual of the problem itself: stationarity, violation, complementarity
	elasticKKT float64 // the same for the elastic problem, in which violations cost ρ
	violation  float64 // largest −g
	iterations int
}

// slack holds s and v of each inequality.
type slack struct{ s, v []float64 }

// ipm is the workspace of one program's solves. It keeps the last iterate for a warm start.
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
	slopesValid            bool      // slopes belong to the present iterate
	blockSlopes            []float64 // a block's slopes by its action, with the box's multipliers
	dz, dg                 []float64 // steps of z and of g
	weighted               []float64 // margins of a stage times their weights, [nm][d]
	squares                dense.Product
	weights, barrierSlopes []float64 // of the inequalities: weights in the condensed Hessian, and −μ/s
	dzl, dzu               []float64
	filter                 []filterEntry
	thetaMax               float64
	thetaMin               float64
	defectPenalty          float64 // largest rise of φ per unit of θ
	iterations             int
	shift                  float64              // last diagonal shift that made the step matrix definite
	hasFeedback            bool                 // the recursion holds a step's feedback gains
	missedActive           bool                 // a component that counts as constant moves
	keptStates             bool                 // the start kept the states of a plan whose roll-out strayed
	minShift               float64              // first shift of a step that follows one without progress
	view                   *domain.PlanSolution // the iterate of a neighbour without buffers; nil: has none
}

func newIPM(q *program) *ipm { return &ipm{q: q, cur: new(point), trial: new(point)} }

// resize sizes the buffers for the program's layout.
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

// Penalties of a violated constraint, in units of the scaled objective per unit of g. The second is for a feasible
// problem that the first was too weak for.
const (
	firstPenalty  = 1e3
	secondPenalty = 1e6
)

// First barrier parameters.
const (
	firstBarrier    = 3.0  // of a roll-out
	holdBarrier     = 0.3  // of held states
	plannedBarrier  = 1e-2 // of a plan
	polishedBarrier = 1e-4 // of a plan near an optimum, for few iterations
)

// boxInset is the least distance of a start's action from its box, in half widths; a small barrier parameter lowers
// it. The multiplier, μ over this distance, stays below half of the objective's largest first derivative.
const boxInset = 0.02

// A warm start runs warmIterations with the barrier parameter of its violation. Afterwards the elastic residual sets
// it.
const warmIterations = 4

// A start that keeps the states of a plan is rolled out after keptStateIterations with open defects. Perhaps no plan
// near the old one starts at the new state.
const keptStateIterations = 30

// barrierFor is the barrier parameter of a start with residual e: a start further from a solution needs a larger one.
func barrierFor(e float64) float64 { return math.Min(1, 1e-4*e*e) }

// start prepares a solve from the scaled actions and the first state in p.cur. The states are the given ones, or,
// with hold, the first state at every stage, or the roll-out. Held states have defects, but for an unstable system
// they are much nearer to an optimum. start finds the active components. It returns false where the start is not
// finite.
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

// widen marks every component active and rolls out the present actions again.
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

// minBound is the smallest τ that satisfies the totals of the roll-out in p.cur, plus 0.1.
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

// minimise solves the program from p.cur, which start has prepared. feasible is false where minimising the violation
// alone ends at a stationary point that still violates a constraint by more than the tolerance.
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
		// A stationary point of the violation shows that no feasible point is near. A stalled iteration shows
		// nothing.
		return r, feasibility.kkt > math.Sqrt(p.opt.tolerance)
	}
	p.rho = secondPenalty
	return p.run(scale), true
}

// acceptable reports whether a result satisfies the constraints. Where it satisfies the limits but not their room,
// the elastic residual and the violation of the limits become the result's.
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

// limitViolation is the largest violation of the limits without their room; +Inf where there is no room.
func (p *ipm) limitViolation() float64 {
	q := p.q
	if q.room == nil {
		return math.Inf(1)
	}
	worst := 0.0
	for i, g := range p.cur.g {
		if i < q.steps*q.nm {
			g += q.room[i%q.nm] / q.marginSizes[i%q.nm]
		}
		worst = math.Max(worst, -g)
	}
	return worst
}

// scale is the factor of the objective that makes its largest first derivative at the iterate one. The derivatives
// are those with respect to the scaled actions and states of a stage. Near the optimum the objective's value bounds
// it.
func (p *ipm) scale() float64 {
	largest := math.Max(1e-8, 1e-3*math.Abs(p.cur.f))
	for _, v := range p.q.objective {
		largest = math.Max(largest, math.Abs(v))
	}
	return 1 / largest
}

// computeSlacks writes s and v for constraint values g such that g + v = s and the barrier conditions hold for one z.
func (p *ipm) computeSlacks(g, s, v []float64) {
	half := 0.5 / p.rho
	for i, gi := range g {
		// v solves ρ = μ/v + μ/(g+v). The larger of s and v, at least 2μ/ρ, is computed without cancellation. The
		// symmetry of the barrier conditions gives the smaller.
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

// run solves from p.cur with the current penalty. The multipliers begin at their barrier values.
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

// A solve that has converged continues with a lower barrier, sharpenings times at most, while the barrier costs more than the
// share worthless of the cost. The tolerance is relative to the steepest slope, and says little where that is a logarithm's.
const worthless, sharpenings, sharper = 1e-3, 6, 0.1

// isDear reports whether the barrier costs more than worthless of the cost. A step without it, by the factors of the last step,
// predicts that. It costs at most its parameter for each inequality.
func (p *ipm) isDear() bool {
	mu, least := p.mu, worthless*p.objectiveScale*math.Abs(p.cur.f)
	if p.iterations == 0 || mu*float64(len(p.z)+2*len(p.zl)) <= least {
		return false
	}
	p.mu = 0
	clear(p.barrierSlopes)
	clear(p.defect)
	p.linear()
	p.solve()
	excess := -p.slope()
	p.mu = mu
	return excess > least
}

// iterate continues from p.cur, evaluated and differentiated, with its multipliers.
func (p *ipm) iterate() ipmResult {
	smallest, sharpened := math.Min(p.mu, p.opt.lastBarrier()), 0
	p.filter = p.filter[:0]
	p.minShift, p.slopesValid = 0, false
	theta := infeasibility(p.cur)
	p.thetaMax, p.thetaMin = 1e4*math.Max(1, theta), 1e-4*math.Max(1, theta)
	for further := p.opt.extraIterations; ; {
		kkt, elastic, violation := p.residual(0)
		if math.Min(kkt, elastic) <= p.opt.tolerance || p.objectiveScale == 0 && violation == 0 {
			// The certificate is for a trajectory.
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
				if sharpened++; sharpened > sharpenings || !p.isDear() {
					break
				}
				smallest *= sharper
			} else {
				further--
			}
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

// raiseBarrier raises the barrier parameter to that of a residual.
func (p *ipm) raiseBarrier(e float64) {
	p.mu = math.Max(p.mu, barrierFor(e))
	p.computeSlacks(p.cur.g, p.slacks.s, p.slacks.v)
	p.resetDuals()
	p.filter = p.filter[:0]
}

// restore replaces the iterate by its roll-out; false where no roll-out is finite.
func (p *ipm) restore() bool {
	if !p.rollOut(p.cur.x[:p.q.nx]) {
		return false
	}
	p.computeSlacks(p.trial.g, p.trialSlacks.s, p.trialSlacks.v)
	// Feedback does not know the totals: without it they may be nearer.
	if fed := p.barrier(p.trial, p.trialSlacks); p.hasFeedback && len(p.q.totals) > 0 {
		for _, feedback := range [2]bool{false, true} {
			p.rollWithFeedback(feedback)
			if p.computeSlacks(p.trial.g, p.trialSlacks.s, p.trialSlacks.v); p.barrier(p.trial, p.trialSlacks) <= fed {
				break
			}
		}
	}
	p.accept()
	p.filter = p.filter[:0]
	return true
}

// rollOut writes to the trial a roll-out of the iterate's actions from a state. It uses the feedback of the last step,
// or open loop where that is not finite. It returns false where neither is finite.
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

// rollWithFeedback rolls the iterate's actions out from the trial's first state. With feedback, the last step's gains
// correct the actions within the box.
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

// deviation is ξ of a state and context relative to the plan's; p.finalXi holds it.
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

// resetDuals keeps multipliers within a wide factor of their barrier values at the new point, Wächter and Biegler
// (2006), eq. 16.
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
		// Only a clamped dual is recomputed: ρ − (ρ − z) loses a small z.
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
