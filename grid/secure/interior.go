package secure

import (
	"context"
	"math"

	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

const (
	// firstPrice is what a limit after an outage may be exceeded at, per pu of |S|, scaled: ten times the
	// largest marginal cost. It grows by priceGrowth where limits give.
	firstPrice  = 10 * gradientScale
	priceGrowth = 10
	lastPrice   = 1e4
	// What a balance after an outage may give costs more than a limit from the start on.
	firstBalancePrice = 10 * firstPrice
	lastBalancePrice  = 10 * lastPrice
	leastGive         = 1e-7 // pu
	boundaryFraction  = 0.9995
	leastShift        = 1e-12 // added to every primal diagonal
	firstShift        = 1e-4  // the first that is tried for inertia, then times shiftGrowth
	shiftGrowth       = 8
	largestShift      = 1e12
	dualShift         = 1e-8
	refinements       = 3
	refineTo          = 1e-10 // of the right-hand side
	laneRefinements   = 10
	laneTo            = 1e-7 // where pivots in a fixed order do not come to it, they are chosen
	conditionLimit    = 1e-6
	hiddenGap         = 1e-6 // of the objective, where rounding hides the inertia
	nearFeasibility   = 1e-8 // pu, where rounding keeps a point from more
	patience          = 8
	shortStep         = 0.1
	enoughError       = 0.9
	// So many steps with a shift so large say that balances have to give: the matrix is all shift.
	hopelessShift, hopelessSteps = 1e5, 5
	stuckStep, stuckSteps        = 0.03, 40 // so many steps in a row, none of them longer, lead nowhere
	blockedSteps                 = 4        // so many short steps in a row say that limits stand too near for the barrier
)

// start is what slacks and multipliers of limits begin with: s·z at a barrier, and slacks of so much at least.
// Where known, a slack is at most what a limit's multiplier asks for.
type start struct {
	barrier, slack float64
	known          bool
}

var (
	farStart    = start{1, 0.1, false}    // from no optimum
	nearStart   = start{1e-3, 1e-2, true} // from that of another problem
	raisedStart = start{0.1, 1e-2, true}  // where a price was raised and balances may give
	cornerStart = start{1e-5, 1e-3, true} // where units have changed their sides
	freeStart   = start{1e-3, 1e-2, true} // where limits near block one step after another
	// From the optimum at other loads: of barriers from 1e-8 to 1e-3 and slacks from 3e-5 to 1e-2 these took the
	// fewest iterations on pglib_opf_case118_ieee, whether loads had moved by 0.1 % or 3 %.
	warmStart = start{1e-7, 1e-4, false}
)

// interior is a primal–dual interior point over the states of a network.
type interior struct {
	sys    *system
	states []*state // before any outage, then after each that is remembered
	// The first of the states at the optimum of narrow smooth corners; nil: none was found.
	smoothed []*state
	threads  int
	limits   int // of all states

	shift, lastShift float64
	barrier, error   float64
	width            float64
	elastic          bool // balances after outages may give
	careful          bool // the barrier is held from the start
	warm             bool // begun at an earlier result
	blind            bool // an outage was added last that has no power flow at the dispatch
	iterations       int
	kkt              KKT
	previous         float64 // objective
	trace            func(Iterate)

	pivoted bool         // states after outages were factored with pivots chosen by size, else in lanes
	shifted bool         // the last factorisation took a shift
	root    *laneGroup   // the state before any outage
	groups  []*laneGroup // those after one
}

// crossed is how a solve begins in which units have changed their sides. Where balances give, the optimum may then
// be far away.
func (p *interior) crossed() start {
	if p.elastic {
		return nearStart
	}
	return cornerStart
}

// each runs f for every state, side by side.
func (p *interior) each(f func(t *state)) {
	parallel.Each(p.threads, len(p.states), func(_, k int) { f(p.states[k]) })
}

// begin gives limits slacks and multipliers for s·z at a barrier: those of a state that was
// solved before stay where they are large.
func (p *interior) begin(from start) {
	barrier := from.barrier
	p.limits = 0
	p.evaluate()
	for _, t := range p.states {
		p.limits += len(t.limits)
		for i := range t.limits {
			least := from.slack
			if from.known && t.z[i] > 0 {
				least = min(barrier/t.z[i], least)
			}
			if !t.gives(i) {
				t.s[i] = max(-t.h[i], least)
				t.z[i] = max(t.z[i], barrier/t.s[i])
				continue
			}
			p.limits++
			if t.z[i] == 0 && t.give[i] == 0 && from.known && !p.elastic {
				// What a new outage breaks is left to the first steps: from what it gives, it would cost its whole price.
				t.s[i] = max(-t.h[i], least)
				t.z[i] = min(barrier/t.s[i], t.price[i]/2)
				t.hold[i] = t.price[i] - t.z[i]
				t.give[i] = barrier / t.hold[i]
				continue
			}
			if t.z[i] == 0 {
				t.z[i] = centred(t.h[i], t.price[i], barrier)
				t.hold[i] = t.price[i] - t.z[i]
				t.s[i], t.give[i] = barrier/t.z[i], barrier/t.hold[i]
				continue
			}
			t.hold[i] = max(t.price[i]-t.z[i], 1e-6*t.price[i])
			t.give[i] = max(t.give[i], barrier/t.hold[i])
			t.s[i] = max(t.give[i]-t.h[i], least)
			t.z[i] = max(t.z[i], barrier/t.s[i])
		}
		if t.elastic != nil {
			p.limits += len(t.elastic.row)
			t.elastic.begin(t, barrier)
		}
	}
	p.shift, p.lastShift, p.barrier, p.error, p.iterations, p.previous = 0, 0, 0, math.Inf(1), 0, math.NaN()
	p.evaluate()
}

// soften lets balances after outages give, and leaves a start that depends on voltages and powers alone.
func (p *interior) soften() {
	p.elastic = true
	for _, t := range p.states {
		clear(t.z)
		if !t.after {
			continue
		}
		if t.elastic == nil {
			t.elastic = newElastic(t)
		}
		clear(t.elastic.give)
		for v, dual := range t.dual {
			if dual {
				t.x[v] = 0
			}
		}
	}
}

// centred is the z in (0, price) at which μ/z − μ/(price − z) = −h: slack, what a limit gives and
// their multipliers then fit together, with both products μ.
func centred(h, price, mu float64) float64 {
	// z²·h − z·(h·price − 2μ) − μ·price = 0
	b := h*price - 2*mu
	root := math.Sqrt(b*b + 4*h*mu*price)
	z := price / 2
	switch {
	case b < 0:
		z = 2 * mu * price / (root - b)
	case h > 0:
		z = (b + root) / (2 * h)
	}
	return min(max(z, 1e-9*price), (1-1e-9)*price)
}

// evaluate brings the set-points to every state and evaluates them.
func (p *interior) evaluate() {
	base := p.states[0]
	p.each(func(t *state) {
		if t.after {
			for k, at := range t.set {
				t.x[at] = base.x[base.set[k]]
			}
		}
		t.evaluate(p.width)
	})
	for _, t := range p.states[1:] {
		for k, at := range t.set {
			base.r[base.set[k]] += t.r[at]
			t.r[at] = 0
		}
	}
}

// gap is the sum of all s·z.
func (p *interior) gap() (sum float64) {
	for _, t := range p.states {
		for i := range t.limits {
			sum += t.s[i] * t.z[i]
			if t.gives(i) {
				sum += t.give[i] * t.hold[i]
			}
		}
		if e := t.elastic; e != nil {
			for i := range e.row {
				sum += e.give[i] * e.hold[i]
			}
		}
	}
	return sum
}

// objective is the scaled cost, with the price of what limits give.
func (p *interior) objective() float64 {
	f := p.states[0].objective
	for _, t := range p.states {
		for i := range t.limits {
			if t.gives(i) {
				f += t.price[i] * t.give[i]
			}
		}
		if e := t.elastic; e != nil {
			for _, give := range e.give {
				f += e.price * give
			}
		}
	}
	return f
}

// norms are what an iterate is judged by.
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
			give := 0.0
			if t.gives(i) {
				give = t.give[i]
				m.gradient = max(m.gradient, math.Abs(t.price[i]-t.z[i]-t.hold[i]))
			}
			off := t.h[i] - give
			m.violation = max(m.violation, off)
			m.slack = max(m.slack, math.Abs(off+t.s[i]))
			m.average += math.Abs(off + t.s[i])
			m.multiplier = max(m.multiplier, t.z[i])
			m.s = max(m.s, t.s[i])
			count++
		}
		if e := t.elastic; e != nil {
			for i := range e.row {
				m.gradient = max(m.gradient, math.Abs(e.off(i, t)))
			}
		}
	}
	m.average /= float64(count)
	return m
}

// run iterates to an optimum.
func (p *interior) run(ctx context.Context, most int, to ending) Status {
	near, stuck := 0, 0
	length, hopeless := 1.0, 0
	blocked, freed := 0, false
	for {
		gap, m := p.gap(), p.norms()
		f := p.objective()
		p.kkt = KKT{Mismatch: m.mismatch, Violation: m.violation, Feasibility: max(m.mismatch, m.violation) / (1 + max(m.x, m.s)),
			Gradient: m.gradient / (1 + m.multiplier), Complementarity: gap / (1 + m.x), Cost: math.Abs(f-p.previous) / (1 + math.Abs(p.previous))}
		p.previous = f
		if p.trace != nil {
			p.trace(Iterate{Iteration: p.iterations, Outages: len(p.states) - 1, Objective: f / p.states[0].scale, KKT: p.kkt, Barrier: gap / float64(max(1, p.limits)), Corner: p.width, Step: length, Shift: p.shift})
		}
		switch {
		case math.IsNaN(m.gradient+m.mismatch+gap) || math.IsInf(m.gradient+m.mismatch+gap, 0):
			return Numerical
		case ctx.Err() != nil:
			return NotSolved
		}
		good := max(m.mismatch, m.violation) <= to.feasibility && p.kkt.Gradient <= to.gradient
		if p.shifted {
			good = good || p.kkt.Feasibility <= to.shiftedFeasibility && p.kkt.Gradient <= to.shiftedGradient
		}
		nearly := max(m.mismatch, m.violation) <= nearFeasibility
		if good && gap <= to.gap*(1+math.Abs(f)) && (to.gradient > conditionLimit || p.kkt.Max() <= conditionLimit) {
			return converged
		}
		if p.kkt.Max() <= conditionLimit || near > 0 {
			if near > patience && nearly && p.kkt.Max() <= conditionLimit {
				return converged
			}
			near++
		}
		if stuck++; length > stuckStep {
			stuck = 0
		}
		if p.iterations == most || stuck == stuckSteps {
			return IterationLimit
		}
		p.iterations++
		if !p.factorise() {
			if nearly && p.kkt.Gradient <= conditionLimit && gap <= hiddenGap*(1+math.Abs(f)) {
				return converged // rounding hides the inertia at high prices
			}
			return Numerical
		}
		if to.most > 0 && p.shift >= to.most {
			return IterationLimit
		}
		if p.shift >= hopelessShift {
			hopeless++
		}
		if hopeless == hopelessSteps && !p.elastic {
			return IterationLimit
		}
		mean := gap / float64(max(1, p.limits))
		least := 0.1 * min(to.gap*(1+math.Abs(f)), max(to.gap, conditionLimit)) / float64(max(1, p.limits))
		if p.sys.setCount > mostPivoted { // lanes alone do not come to smaller products
			least = 0.5 * min(to.gap*(1+math.Abs(f)), conditionLimit*(1+m.x)) / float64(max(1, p.limits))
		}
		p.direction(0, false)
		aP, aD := p.lengths(1)
		after := p.gapAlong(aP, aD)
		ratio := max(after, 0) / gap
		mu, second := max(ratio*ratio*ratio*mean, least), true
		if math.IsNaN(ratio) { // pivots in a fixed order came to nothing; the step that follows has them chosen
			mu, second = mean, false
		}
		if p.holds(m, mean, least, length) {
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
		if blocked >= blockedSteps && !freed && mean < freeStart.barrier/10 {
			freed = true
			at := p.iterations
			p.begin(freeStart)
			p.iterations = at
		}
	}
}

// holds decides, as package acopf does, whether s·z is held until the conditions for that are
// met.
func (p *interior) holds(m norms, mean, least, length float64) bool {
	err := m.average + mean
	if !p.careful && (err <= enoughError*p.error || p.barrier == 0 && (p.iterations < 3 || length > shortStep)) {
		p.error, p.barrier = err, 0
		return false
	}
	if p.barrier == 0 {
		p.barrier = mean
	}
	scale := max(1, m.multiplier/100)
	for p.barrier > least {
		off := 0.0
		for _, t := range p.states {
			for i := range t.limits {
				off = max(off, math.Abs(t.s[i]*t.z[i]-p.barrier))
			}
			if e := t.elastic; e != nil {
				for i := range e.row {
					off = max(off, math.Abs(e.give[i]*e.hold[i]-p.barrier))
				}
			}
		}
		if max(m.mismatch, m.slack, m.gradient/scale, off/scale) > 10*p.barrier {
			break
		}
		p.barrier = max(least, min(p.barrier/5, math.Pow(p.barrier, 1.5)))
	}
	p.barrier = max(p.barrier, least)
	return true
}

// lengths are how far the step may go with every slack and multiplier staying positive.
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
			if t.gives(i) {
				reach(&primal, t.give[i], t.dgive[i])
				reach(&dual, t.hold[i], t.dhold[i])
			}
		}
		if e := t.elastic; e != nil {
			for i := range e.row {
				reach(&primal, e.give[i], e.dgive[i])
				reach(&dual, e.hold[i], e.dhold[i])
			}
		}
	}
	return primal, dual
}

// gapAlong is the sum of all s·z after a step.
func (p *interior) gapAlong(primal, dual float64) (sum float64) {
	for _, t := range p.states {
		for i := range t.limits {
			sum += (t.s[i] + primal*t.ds[i]) * (t.z[i] + dual*t.dz[i])
			if t.gives(i) {
				sum += (t.give[i] + primal*t.dgive[i]) * (t.hold[i] + dual*t.dhold[i])
			}
		}
		if e := t.elastic; e != nil {
			for i := range e.row {
				sum += (e.give[i] + primal*e.dgive[i]) * (e.hold[i] + dual*e.dhold[i])
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
			if t.gives(i) {
				t.give[i] += primal * t.dgive[i]
				t.hold[i] += dual * t.dhold[i]
			}
		}
		if t.elastic != nil {
			t.elastic.move(primal, dual)
		}
	})
}

// raise makes what limits give dearer, and says whether any does that can be.
func (p *interior) raise() (again bool) {
	for _, t := range p.states {
		for i := range t.limits {
			if l := &t.limits[i]; t.gives(i) && t.give[i]*l.weight > leastGive && t.price[i] < lastPrice*l.weight {
				t.price[i] *= priceGrowth
				t.z[i] = 0
				again = true
			}
		}
		if e := t.elastic; e != nil && e.price < lastBalancePrice {
			if _, give := e.most(); give > leastGive {
				e.price *= priceGrowth
				clear(e.give)
				again = true
			}
		}
	}
	return again
}

// clone copies the states.
func (p *interior) clone() (list []*state) {
	for _, t := range p.states {
		list = append(list, t.clone())
	}
	return list
}

// restore goes back to states that were cloned.
func (p *interior) restore(list []*state) {
	for k, t := range p.states {
		*t = *list[k]
	}
	p.evaluate()
}
