package secure

import (
	"cmp"
	"context"
	"math"

	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

const (
	// initialPenalty is the penalty of a limit after an outage, scaled, per pu of |S|: ten times the largest
	// marginal cost. It grows by penaltyGrowth while elastic slacks remain.
	initialPenalty = 10 * gradientScale
	penaltyGrowth  = 10
	maxPenalty     = 1e4
	// Balances cost more than limits from the start on.
	initialBalancePenalty = 10 * initialPenalty
	maxBalancePenalty     = 10 * maxPenalty
	minElasticSlack       = 1e-7 // pu
	boundaryFraction      = 0.9995
	minShift              = 1e-12 // added to every primal diagonal
	firstShift            = 1e-4  // first shift for inertia, which grows by shiftGrowth
	shiftGrowth           = 8
	largestShift          = 1e12
	dualShift             = 1e-8
	refinements           = 3
	refinementTolerance   = 1e-10 // of the right-hand side
	laneRefinements       = 10
	laneTolerance         = 1e-7 // residual above which pivots are chosen by size
	conditionLimit        = 1e-6
	hiddenGap             = 1e-6 // relative gap below which rounding hides the inertia
	nearFeasibility       = 1e-8 // pu, accepted where rounding prevents more
	patience              = 8
	shortStep             = 0.1
	errorReduction        = 0.9
	// So many shifts of this size mean that the balances have to be elastic: the matrix is mostly shift.
	hopelessShift, hopelessSteps = 1e5, 5
	stuckStep, stuckSteps        = 0.03, 40 // no progress: so many steps in a row that are shorter
	blockedSteps                 = 4        // so many short steps in a row: limits are too close for the barrier
)

// initialPoint sets slacks and multipliers of limits: their product is the barrier, and slacks are at least slack.
// With usesMultipliers a slack is at most barrier over multiplier.
type initialPoint struct {
	barrier, slack  float64
	usesMultipliers bool
}

var (
	coldStart       = initialPoint{1, 0.1, false}    // without an optimum
	resumedStart    = initialPoint{1e-3, 1e-2, true} // at the optimum of another problem
	raisedStart     = initialPoint{0.1, 1e-2, true}  // after a raised penalty, with elastic balances
	switchedStart   = initialPoint{1e-5, 1e-3, true} // after units have switched
	unblockingStart = initialPoint{1e-3, 1e-2, true} // where close limits block several steps
	// From an optimum at other loads. These needed the fewest iterations on pglib_opf_case118_ieee of barriers 1e-8
	// to 1e-3 and slacks 3e-5 to 1e-2, for changes of load of 0.1 % and 3 %.
	warmStart = initialPoint{1e-7, 1e-4, false}
)

// interior is a primal–dual interior point over the states of a network.
type interior struct {
	sys    *system
	states []*state // the base state, then one for each remembered outage
	// The first states at the optimum of the narrow smoothing; nil: none was found.
	smoothedStates []*state
	threads        int
	limits         int // of all states

	shift, lastShift float64
	barrier, error   float64
	smoothing        float64
	elastic          bool    // balances after outages are elastic
	monotone         bool    // barrier held from the start
	ceiling          float64 // objective that a try of other modes has to come below; 0: none
	warm             bool    // started at an earlier result
	unsolvedOutage   bool    // the last round added an outage without a power flow
	iterations       int
	kkt              KKT
	lastObjective    float64
	trace            func(Iterate)

	pivoted bool         // states after outages are factored with pivots chosen by size, not in lanes
	shifted bool         // the last factorisation needed a shift
	root    *laneGroup   // the base state
	groups  []*laneGroup // states after outages
}

// startAfterSwitch is the start after units have switched. With elastic balances the optimum may be far away.
func (p *interior) startAfterSwitch() initialPoint {
	if p.elastic {
		return resumedStart
	}
	return switchedStart
}

// each runs f for every state in parallel.
func (p *interior) each(f func(t *state)) {
	parallel.Each(p.threads, len(p.states), func(_, k int) { f(p.states[k]) })
}

// begin sets slacks and multipliers of limits so that s·z is the barrier. Large values of a state that was solved
// before stay.
func (p *interior) begin(point initialPoint) {
	barrier := point.barrier
	p.limits = 0
	p.evaluate()
	for _, t := range p.states {
		p.limits += len(t.limits)
		for i := range t.limits {
			minSlack := point.slack
			if point.usesMultipliers {
				minSlack = min(barrier/t.z[i], minSlack)
			}
			if !t.soft(i) {
				t.s[i] = max(-t.h[i], minSlack)
				t.z[i] = max(t.z[i], barrier/t.s[i])
				continue
			}
			p.limits++
			if t.z[i] == 0 && t.elasticSlack[i] == 0 && point.usesMultipliers && !p.elastic {
				// The first steps reduce a new violation. A start at its elastic slack would cost the full penalty.
				t.s[i] = max(-t.h[i], minSlack)
				t.z[i] = min(barrier/t.s[i], t.penalty[i]/2)
				t.elasticDual[i] = t.penalty[i] - t.z[i]
				t.elasticSlack[i] = barrier / t.elasticDual[i]
				continue
			}
			if t.z[i] == 0 {
				t.z[i] = centred(t.h[i], t.penalty[i], barrier)
				t.elasticDual[i] = t.penalty[i] - t.z[i]
				t.s[i], t.elasticSlack[i] = barrier/t.z[i], barrier/t.elasticDual[i]
				continue
			}
			t.elasticDual[i] = max(t.penalty[i]-t.z[i], 1e-6*t.penalty[i])
			t.elasticSlack[i] = max(t.elasticSlack[i], barrier/t.elasticDual[i])
			t.s[i] = max(t.elasticSlack[i]-t.h[i], minSlack)
			t.z[i] = max(t.z[i], barrier/t.s[i])
		}
		if t.elastic != nil {
			p.limits += len(t.elastic.row)
			t.elastic.begin(t, barrier)
		}
	}
	p.shift, p.lastShift, p.barrier = 0, 0, 0
	p.iterations = 0
	p.error, p.lastObjective = math.Inf(1), math.NaN()
	p.evaluate()
}

// relaxBalances makes the balances after outages elastic and resets all multipliers. Voltages and powers stay.
func (p *interior) relaxBalances() {
	p.elastic = true
	for _, t := range p.states {
		clear(t.z)
		if !t.after {
			continue
		}
		if t.elastic == nil {
			t.elastic = newElastic(t)
		}
		clear(t.elastic.slack)
		for v, dual := range t.dual {
			if dual {
				t.x[v] = 0
			}
		}
	}
}

// centred is the z in (0, penalty) with μ/z − μ/(penalty − z) = −h. There the slack, the elastic slack and their
// multipliers are consistent, and both products are μ.
func centred(h, penalty, mu float64) float64 {
	// z²·h − z·(h·penalty − 2μ) − μ·penalty = 0
	b := h*penalty - 2*mu
	root := math.Sqrt(b*b + 4*h*mu*penalty)
	z := penalty / 2
	switch {
	case b < 0:
		z = 2 * mu * penalty / (root - b)
	case h > 0:
		z = (b + root) / (2 * h)
	}
	return min(max(z, 1e-9*penalty), (1-1e-9)*penalty)
}

// evaluate copies the set-points to every state and evaluates the states.
func (p *interior) evaluate() {
	base := p.states[0]
	p.each(func(t *state) {
		if t.after {
			for k, v := range t.setPoints {
				t.x[v] = base.x[base.setPoints[k]]
			}
		}
		t.evaluate(p.smoothing)
	})
	for _, t := range p.states[1:] {
		for k, v := range t.setPoints {
			base.r[base.setPoints[k]] += t.r[v]
			t.r[v] = 0
		}
	}
}

// gap is the sum of all complementarity products.
func (p *interior) gap() (sum float64) {
	for _, t := range p.states {
		for i := range t.limits {
			sum += t.s[i] * t.z[i]
			if t.soft(i) {
				sum += t.elasticSlack[i] * t.elasticDual[i]
			}
		}
		if e := t.elastic; e != nil {
			for i := range e.row {
				sum += e.slack[i] * e.dual[i]
			}
		}
	}
	return sum
}

// objective is the scaled cost with the penalties of elastic slacks.
func (p *interior) objective() float64 {
	f := p.states[0].objective
	for _, t := range p.states {
		for i := range t.limits {
			if t.soft(i) {
				f += t.penalty[i] * t.elasticSlack[i]
			}
		}
		if e := t.elastic; e != nil {
			for _, slack := range e.slack {
				f += e.penalty * slack
			}
		}
	}
	return f
}

// norms measures an iterate.
type norms struct{ gradient, mismatch, violation, slack, x, multiplier, s, average float64 }

func (p *interior) norms() (m norms) {
	count := 0
	for _, t := range p.states {
		for v, r := range t.r {
			if t.omit[v] {
				continue
			}
			count++
			m.average += math.Abs(r)
			if t.dual[v] {
				m.mismatch = max(m.mismatch, math.Abs(r))
				m.multiplier = max(m.multiplier, math.Abs(t.x[v]))
			} else {
				m.gradient = max(m.gradient, math.Abs(r))
				m.x = max(m.x, math.Abs(t.x[v]))
			}
		}
		for i := range t.limits {
			slack := 0.0
			if t.soft(i) {
				slack = t.elasticSlack[i]
				m.gradient = max(m.gradient, math.Abs(t.penalty[i]-t.z[i]-t.elasticDual[i]))
			}
			residual := t.h[i] - slack
			m.violation = max(m.violation, residual)
			m.slack = max(m.slack, math.Abs(residual+t.s[i]))
			m.average += math.Abs(residual + t.s[i])
			m.multiplier = max(m.multiplier, t.z[i])
			m.s = max(m.s, t.s[i])
			count++
		}
		if e := t.elastic; e != nil {
			for i := range e.row {
				m.gradient = max(m.gradient, math.Abs(e.dualResidual(i, t)))
			}
		}
	}
	m.average /= float64(count)
	return m
}

// run iterates to an optimum.
func (p *interior) run(ctx context.Context, maxIterations int, goal tolerances) Status {
	nearCount, stuck := 0, 0
	length, hopeless := 1.0, 0
	blocked, freed := 0, false
	for {
		gap, m := p.gap(), p.norms()
		f := p.objective()
		p.kkt = KKT{Mismatch: m.mismatch, Violation: m.violation, Feasibility: max(m.mismatch, m.violation) / (1 + max(m.x, m.s)),
			Gradient: m.gradient / (1 + m.multiplier), Complementarity: gap / (1 + m.x), Cost: math.Abs(f-p.lastObjective) / (1 + math.Abs(p.lastObjective))}
		p.lastObjective = f
		if p.trace != nil {
			p.trace(Iterate{Iteration: p.iterations, Outages: len(p.states) - 1, Objective: f / p.states[0].scale, KKT: p.kkt, Barrier: gap / float64(max(1, p.limits)), Smoothing: p.smoothing, Step: length, Shift: p.shift})
		}
		switch {
		case math.IsNaN(m.gradient+m.mismatch+gap) || math.IsInf(m.gradient+m.mismatch+gap, 0):
			return Numerical
		case ctx.Err() != nil:
			return NotSolved
		case p.ceiling > 0 && max(m.mismatch, m.violation) <= wideTolerances.feasibility/10 && f-2*gap > p.ceiling:
			return Insecure
		}
		good := max(m.mismatch, m.violation) <= goal.feasibility && p.kkt.Gradient <= goal.gradient
		if p.shifted {
			good = good || p.kkt.Feasibility <= goal.shiftedFeasibility && p.kkt.Gradient <= goal.shiftedGradient
		}
		nearly := max(m.mismatch, m.violation) <= nearFeasibility
		if good && gap <= goal.gap*(1+math.Abs(f)) && (goal.gradient > conditionLimit || p.kkt.Max() <= conditionLimit) {
			return converged
		}
		if p.kkt.Max() <= conditionLimit || nearCount > 0 {
			if nearCount > patience && nearly && p.kkt.Max() <= conditionLimit {
				return converged
			}
			nearCount++
		}
		if stuck++; length > stuckStep {
			stuck = 0
		}
		if p.iterations == maxIterations || stuck == stuckSteps {
			return IterationLimit
		}
		p.iterations++
		if !p.factorise() {
			if nearly && p.kkt.Gradient <= conditionLimit && gap <= hiddenGap*(1+math.Abs(f)) {
				return converged // rounding hides the inertia at high penalties
			}
			return Numerical
		}
		if goal.maxShift > 0 && p.shift >= goal.maxShift {
			return IterationLimit
		}
		if p.shift >= hopelessShift {
			hopeless++
		}
		if hopeless == hopelessSteps && !p.elastic {
			return IterationLimit
		}
		mean := gap / float64(max(1, p.limits))
		minBarrier := 0.1 * min(goal.gap*(1+math.Abs(f)), max(goal.gap, conditionLimit)) / float64(max(1, p.limits))
		if p.sys.setCount > maxPivotedSetPoints { // lanes alone reach no smaller products
			minBarrier = 0.5 * min(goal.gap*(1+math.Abs(f)), conditionLimit*(1+m.x)) / float64(max(1, p.limits))
		}
		p.direction(0, false)
		aP, aD := p.lengths(1)
		after := p.gapAlong(aP, aD)
		ratio := max(after, 0) / gap
		mu, second := max(ratio*ratio*ratio*mean, minBarrier), true
		if math.IsNaN(ratio) { // pivots in a fixed order failed; the next step chooses them
			mu, second = mean, false
		}
		if p.keepsBarrier(m, mean, minBarrier, length) {
			mu, second = p.barrier, false
		}
		p.direction(mu, second)
		aP, aD = p.lengths(boundaryFraction)
		length = aP
		p.move(aP, aD)
		p.evaluate()
		if blocked++; length > shortStep {
			blocked = 0
		}
		if blocked >= blockedSteps && !freed && mean < unblockingStart.barrier/10 {
			freed = true
			iterations := p.iterations
			p.begin(unblockingStart)
			p.iterations = iterations
		}
	}
}

// keepsBarrier decides, as package acopf does, whether the barrier stays fixed until the iterate meets its
// conditions.
func (p *interior) keepsBarrier(m norms, mean, minBarrier, length float64) bool {
	err := m.average + mean
	if !p.monotone && (err <= errorReduction*p.error || p.barrier == 0 && (p.iterations < 3 || length > shortStep)) {
		p.error, p.barrier = err, 0
		return false
	}
	p.barrier = cmp.Or(p.barrier, mean)
	scale := max(1, m.multiplier/100)
	for p.barrier > minBarrier {
		residual := 0.0
		for _, t := range p.states {
			for i := range t.limits {
				residual = max(residual, math.Abs(t.s[i]*t.z[i]-p.barrier))
			}
			if e := t.elastic; e != nil {
				for i := range e.row {
					residual = max(residual, math.Abs(e.slack[i]*e.dual[i]-p.barrier))
				}
			}
		}
		if max(m.mismatch, m.slack, m.gradient/scale, residual/scale) > 10*p.barrier {
			break
		}
		p.barrier = max(minBarrier, min(p.barrier/5, math.Pow(p.barrier, 1.5)))
	}
	p.barrier = max(p.barrier, minBarrier)
	return true
}

// lengths are the longest steps that keep every slack and multiplier positive.
func (p *interior) lengths(fraction float64) (primal, dual float64) {
	primal, dual = 1, 1
	reach := func(length *float64, x, d float64) {
		if d < 0 {
			*length = min(*length, -fraction*x/d)
		}
	}
	for _, t := range p.states {
		for i := range t.limits {
			reach(&primal, t.s[i], t.ds[i])
			reach(&dual, t.z[i], t.dz[i])
			if t.soft(i) {
				reach(&primal, t.elasticSlack[i], t.dElasticSlack[i])
				reach(&dual, t.elasticDual[i], t.dElasticDual[i])
			}
		}
		if e := t.elastic; e != nil {
			for i := range e.row {
				reach(&primal, e.slack[i], e.dslack[i])
				reach(&dual, e.dual[i], e.ddual[i])
			}
		}
	}
	return primal, dual
}

// gapAlong is the gap after a step.
func (p *interior) gapAlong(primal, dual float64) (sum float64) {
	for _, t := range p.states {
		for i := range t.limits {
			sum += (t.s[i] + primal*t.ds[i]) * (t.z[i] + dual*t.dz[i])
			if t.soft(i) {
				sum += (t.elasticSlack[i] + primal*t.dElasticSlack[i]) * (t.elasticDual[i] + dual*t.dElasticDual[i])
			}
		}
		if e := t.elastic; e != nil {
			for i := range e.row {
				sum += (e.slack[i] + primal*e.dslack[i]) * (e.dual[i] + dual*e.ddual[i])
			}
		}
	}
	return sum
}

// move takes the step.
func (p *interior) move(primal, dual float64) {
	p.each(func(t *state) {
		for v, d := range t.d {
			if t.dual[v] {
				t.x[v] += dual * d
			} else {
				t.x[v] += primal * d
			}
		}
		for i := range t.limits {
			t.s[i] += primal * t.ds[i]
			t.z[i] += dual * t.dz[i]
			if t.soft(i) {
				t.elasticSlack[i] += primal * t.dElasticSlack[i]
				t.elasticDual[i] += dual * t.dElasticDual[i]
			}
		}
		if t.elastic != nil {
			t.elastic.move(primal, dual)
		}
	})
}

// raisePenalties raises the penalties of positive elastic slacks and reports whether any could be raised.
func (p *interior) raisePenalties() (raised bool) {
	for _, t := range p.states {
		for i := range t.limits {
			if l := &t.limits[i]; t.soft(i) && t.elasticSlack[i]*l.weight > minElasticSlack && t.penalty[i] < maxPenalty*l.weight {
				t.penalty[i] *= penaltyGrowth
				t.z[i] = 0
				raised = true
			}
		}
		if e := t.elastic; e != nil && e.penalty < maxBalancePenalty {
			if _, slack := e.largest(); slack > minElasticSlack {
				e.penalty *= penaltyGrowth
				clear(e.slack)
				raised = true
			}
		}
	}
	return raised
}

// clone copies the states.
func (p *interior) clone() (list []*state) {
	for _, t := range p.states {
		list = append(list, t.clone())
	}
	return list
}

// restore returns to cloned states.
func (p *interior) restore(list []*state) {
	for k, t := range p.states {
		*t = *list[k]
	}
	p.evaluate()
}
