package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/powerflow"
)

// Constants of the projection.
const (
	// projectionRounds of linearisation and quadratic program at most where the result
	// keeps every limit to MarginTolerance. Where it does not, others follow as long as
	// the program could keep its limits to contradiction, pu, and one round of the last
	// patience has left a tenth less of the violation.
	projectionRounds = 3
	patience         = 4
	leastProgress    = 0.9
	contradiction    = 1e-3
	// Margins that a power flow to its tolerance, or rounding at a limit, leaves negative
	// by up to this, pu, are no violation to correct.
	flowNoise = 1e-8
	// Room that a corrected margin is given, pu. What the linearisation leaves out is
	// for the next round: room for it would cost every dispatch at a limit more than a
	// map loses (docs/contribute/notebook/opf.md).
	voltageGuard = 1e-6
	powerGuard   = 3e-6
	// A limit further away than this, pu, is left out of the program.
	voltageReach = 0.02
	powerReach   = 0.06
	// elasticity of the network's limits: s violates one at the price s²/ε, with the
	// change of a set-point priced at its square.
	elasticity = 1e-7
	// Of networks with more than mostModes + 1 set-points: a share of MarginTolerance that a
	// round of its own is not worth, and what a round leaves at most of the violation, as a
	// share and in pu, for its linearisation to serve the next one too.
	negligible = 0.1
	frozen     = 0.1
	frozenMost = 0.01
	// Of such networks: a limit this near, pu, is a row from the start.
	rowReach = 2e-4
	// programTolerance, pu, is how far the program may break a constraint.
	programTolerance = 1e-9
)

// projection is the scratch of Project.
type projection struct {
	program    *leastChange
	control    []int   // entry of u that each variable of the program changes
	limits     []limit // within reach of the linearisation
	candidates []int   // limits that are to become rows
	binding    []place // limits that bound in the linearisation before
	linearised bool    // there was one
	// Gradients of limits by bus, and their sensitivities.
	angle, magnitude [powerflow.RightHandSides][]float64
	// tolerance is the violation, pu, that is not corrected; frozen and reach are as the constants
	// frozen and rowReach, or 0: every round has a linearisation of its own, and rows only of
	// what is violated.
	tolerance, frozen, reach float64
	// Of a secure dispatch: outages that are watched, limits after them, of which the first rows are some of the
	// program, all those that are in its order, and the derivatives, by variable of the program, of the reference's
	// power before outages.
	watch         []bool
	nearby, batch []limit
	outageRows    []place
	rows          int
	slackRow      []float64
}

// limit is one side of a limit of the network within reach.
type limit struct {
	kind        quantity
	index       int     // bus, or branch
	sign        float64 // +1 of a lower limit, −1 of an upper one
	edge, guard float64 // the limit, and the room it is given
	bound       float64 // what sign times the change of the quantity has to reach
	p, q        float64 // direction of |S| of a branch
	row         int     // of the program, −1: none
	binding     bool    // it bound in the linearisation before
	// Of a limit after an outage: that, and where its power flow stands.
	outage, lane int
}

// place is a limit whatever the linearisation.
type place struct {
	kind   quantity
	index  int
	sign   float64
	outage int // after which; −1: none
}

func (l *limit) place(outage int) place { return place{l.kind, l.index, l.sign, outage} }

// lacks is the bound where the quantity has a value.
func (l *limit) lacks(value float64) float64 {
	if l.sign > 0 {
		return l.guard - (value - l.edge)
	}
	return l.guard - (l.edge - value)
}

// quantity is what a limit bounds.
type quantity uint8

const (
	slackPower quantity = iota
	reactivePower
	magnitude
	flowFrom
	flowTo
)

func newProjection(y *System) *projection {
	m, gens := &y.model, y.layout.gens
	p := &projection{}
	for g := range gens {
		if g != m.slackGen {
			p.control = append(p.control, g)
		}
	}
	for g, leads := range m.leads {
		if leads {
			p.control = append(p.control, gens+g)
		}
	}
	p.program = newLeastChange(len(p.control))
	for k := range powerflow.RightHandSides {
		p.angle[k], p.magnitude[k] = make([]float64, y.layout.buses), make([]float64, y.layout.buses)
	}
	if p.tolerance = flowNoise; len(p.control) > mostModes+1 {
		p.tolerance, p.frozen, p.reach = negligible*MarginTolerance, frozen, rowReach
	}
	return p
}

// Project moves u onto the limits: first into the box and the ramp window, then,
// where the power flow of the result breaks a limit, by the smallest change of
// the set-points that keeps all limits near it as the power flow linearised there
// predicts them. Rounds are bounded. The reference unit's P_G becomes
// what the power flow gives it. It reports whether the power flow of the result
// keeps every limit to MarginTolerance.
func (y *System) Project(s, c, u []float64) bool {
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	p := w.projection
	for i, v := range u {
		if v-v != 0 {
			u[i] = 0
		}
	}
	y.clip(c, u)
	if y.security != nil {
		return y.projectSecure(w, s, c, u, nil)
	}
	p.linearised = false
	best, last, infeasibility := math.Inf(-1), 0.0, 0.0
	for round, stalled := 0, 0; ; round++ {
		if !w.dispatch(s, c, u) {
			// Nothing to linearise at: the merit order is near a solution.
			if round > 0 {
				return false
			}
			y.Base(s, c, u)
			y.clip(c, u)
			continue
		}
		slack := y.model.slackGen
		u[slack] = math.Min(math.Max(w.solution.Pg[slack], y.Network.PMin[slack]), y.Network.PMax[slack])
		low := w.smallest()
		if stalled++; low > leastProgress*best {
			best, stalled = low, 0
		}
		if low >= -p.tolerance || round >= projectionRounds && (y.spec.Keeps(low) || stalled >= patience || infeasibility > contradiction) {
			return y.spec.Keeps(low)
		}
		infeasibility = w.correct(c, u, low >= math.Max(p.frozen*last, -frozenMost))
		y.clip(c, u)
		last = low
	}
}

// clip moves set-points into the box and P_G into the ramp window.
func (y *System) clip(c, u []float64) {
	n, previous := y.Network, c[y.layout.previous:]
	for g, b := range n.GenBus {
		lo, hi := y.window(g, previous[g])
		u[g] = math.Min(math.Max(u[g], lo), hi)
		v := n.Gens() + g
		u[v] = math.Min(math.Max(u[v], n.VMin[b]), n.VMax[b])
	}
}

func (w *workspace) smallest() float64 {
	w.checkOutages(nil, math.Inf(1))
	return slices.Min(w.margin)
}

// correct changes u by the program at the present solution. A limit becomes a row of it
// once it is violated, here or as the linearised power flow predicts. With keep the
// linearisation of the round before serves, with its limits, rows and the constraints that
// held; the power flow here says how far away the limits are. Otherwise what held is where the
// new program begins, where the rounds are of one projection and limits near are rows. It
// returns by how much the program breaks a limit at most, because limits contradict each other.
func (w *workspace) correct(c, u []float64, keep bool) (infeasibility float64) {
	p := w.projection
	p.program.metric, p.program.slack = w.system.metric(), elasticity
	if keep {
		for k := range p.limits {
			l := &p.limits[k]
			value, _, _ := w.value(l)
			if l.bound = l.lacks(value); l.row >= 0 {
				p.program.bound[l.row] = l.bound
			}
		}
	} else {
		if !w.linear.LineariseAt(w.solver) {
			return math.Inf(1)
		}
		p.hold()
		w.limitsWithin(c)
		p.recall()
	}
	w.boxes(c, u)
	p.candidates = p.candidates[:0]
	for k := range p.limits {
		if l := &p.limits[k]; l.row < 0 && (l.bound > -p.reach || l.binding) {
			p.candidates = append(p.candidates, k)
		}
	}
	return w.move(u)
}

// move solves the program with the chosen limits, and with those that its solution would break, and moves u there. infeasibility
// is the largest price of a limit that it gives up.
func (w *workspace) move(u []float64) (infeasibility float64) {
	p := w.projection
	for more := true; more; {
		w.addChosen()
		p.program.solve(programTolerance)
		more = w.choosePredicted()
	}
	for j, entry := range p.control {
		u[entry] += p.program.x[j]
	}
	w.cached = false
	for _, v := range p.program.lambda {
		infeasibility = math.Max(infeasibility, elasticity*v)
	}
	return infeasibility
}

// hold takes note of the limits that bind and leaves the program without rows, and with nothing
// held where it is the first.
func (p *projection) hold() {
	p.binding = p.binding[:0]
	if !p.linearised || p.reach == 0 {
		p.program.reset()
		p.linearised = true
		return
	}
	for k := range p.limits {
		if l := &p.limits[k]; l.row >= 0 && p.program.binds[l.row] {
			p.binding = append(p.binding, l.place(-1))
		}
	}
	p.program.forget()
}

// recall marks those among the limits of another linearisation, which stand in the same order.
func (p *projection) recall() {
	next := 0
	for _, h := range p.binding {
		for i := next; i < len(p.limits); i++ {
			if l := &p.limits[i]; l.index == h.index && l.kind == h.kind && l.sign == h.sign {
				l.binding, next = true, i+1
				break
			}
		}
	}
}

// boxes bound the change of every set-point by its box and ramp window.
func (w *workspace) boxes(c, u []float64) {
	n, p, gens := w.system.Network, w.projection, w.system.layout.gens
	previous := c[w.system.layout.previous:]
	for j, entry := range p.control {
		var lo, hi float64
		if entry < gens {
			lo, hi = w.system.window(entry, previous[entry])
		} else {
			b := n.GenBus[entry-gens]
			lo, hi = n.VMin[b], n.VMax[b]
		}
		p.program.lo[j], p.program.hi[j] = lo-u[entry], hi-u[entry]
	}
}

// limitsWithin lists the limits of the network within reach.
func (w *workspace) limitsWithin(c []float64) {
	y, n := w.system, w.system.Network
	m, l := &y.model, &y.layout
	w.projection.limits = w.projection.limits[:0]
	lo, hi := y.window(m.slackGen, c[l.previous+m.slackGen])
	w.sides(limit{kind: slackPower, index: n.Slack}, w.solution.Pg[m.slackGen], lo, hi, powerGuard, powerReach)
	for g, b := range n.GenBus {
		if m.leads[g] && w.margin[l.marginQ+g] < powerReach {
			qmin, qmax := y.reactive(b)
			_, q := w.solver.Injection(b)
			w.sides(limit{kind: reactivePower, index: b}, q+w.qd[b], qmin, qmax, powerGuard, powerReach)
		}
	}
	for i, v := range w.solution.Vm {
		if m.unit[i] < 0 {
			w.sides(limit{kind: magnitude, index: i}, v, n.VMin[i], n.VMax[i], voltageGuard, voltageReach)
		}
	}
	for r, k := range l.rated {
		if w.margin[l.marginS+r] < powerReach {
			for end, s := range [2][2]float64{{w.flows.Pf[k], w.flows.Qf[k]}, {w.flows.Pt[k], w.flows.Qt[k]}} {
				if size := math.Sqrt(s[0]*s[0] + s[1]*s[1]); size > 0 {
					w.sides(limit{kind: flowFrom + quantity(end), index: k, p: s[0] / size, q: s[1] / size}, size, math.Inf(-1), n.Rate[k], powerGuard, powerReach)
				}
			}
		}
	}
}

// reactive are the limits of what the units at a bus give in all.
func (y *System) reactive(bus int) (qmin, qmax float64) {
	for g, b := range y.Network.GenBus {
		if b == bus {
			qmin, qmax = qmin+y.Network.QMin[g], qmax+y.Network.QMax[g]
		}
	}
	return qmin, qmax
}

// sides lists lo + guard ≤ value + change ≤ hi − guard for the sides within reach.
func (w *workspace) sides(l limit, value, lo, hi, guard, reach float64) {
	if hi-lo < 2*guard {
		guard = math.Max(0, (hi-lo)/2)
	}
	for side, gap := range [2]float64{value - lo, hi - value} {
		if gap < reach {
			l.sign, l.edge, l.row = 1-2*float64(side), [2]float64{lo, hi}[side], -1
			l.guard, l.bound = guard, guard-gap
			w.projection.limits = append(w.projection.limits, l)
		}
	}
}

// value is what the quantity of a limit is at the solution, and where it is a flow its
// direction there.
func (w *workspace) value(l *limit) (value, p, q float64) {
	switch l.kind {
	case slackPower:
		return w.solution.Pg[w.system.model.slackGen], 0, 0
	case reactivePower:
		_, q = w.solver.Injection(l.index)
		return q + w.qd[l.index], 0, 0
	case magnitude:
		return w.solution.Vm[l.index], 0, 0
	case flowFrom:
		p, q = w.flows.Pf[l.index], w.flows.Qf[l.index]
	default:
		p, q = w.flows.Pt[l.index], w.flows.Qt[l.index]
	}
	if value = math.Sqrt(p*p + q*q); value > 0 {
		p, q = p/value, q/value
	}
	return value, p, q
}

// addChosen makes the limits chosen rows of the program.
func (w *workspace) addChosen() {
	p := w.projection
	for remaining := p.candidates; len(remaining) > 0; {
		batch := remaining[:min(len(remaining), powerflow.RightHandSides)]
		remaining = remaining[len(batch):]
		for i, k := range batch {
			w.gradient(&p.limits[k], p.angle[i], p.magnitude[i])
		}
		w.linear.Sensitivities(p.angle[:len(batch)], p.magnitude[:len(batch)])
		for i, k := range batch {
			l := &p.limits[k]
			slackInjection := 0.0
			if l.kind == slackPower {
				slackInjection = -1
			}
			row := p.program.add(l.bound)
			for j, entry := range p.control {
				row[j] = l.sign * w.sensitivity(entry, slackInjection, p.angle[i], p.magnitude[i])
			}
			l.row = p.program.complete()
			p.program.binds[l.row] = l.binding
		}
	}
}

// gradient writes that of a limit's quantity in the voltages, by bus.
func (w *workspace) gradient(l *limit, angle, magnitudes []float64) {
	clear(angle)
	clear(magnitudes)
	switch l.kind {
	case slackPower:
		w.linear.AddInjectionGradient(l.index, 1, 0, angle, magnitudes)
	case reactivePower:
		w.linear.AddInjectionGradient(l.index, 0, 1, angle, magnitudes)
	case magnitude:
		magnitudes[l.index] = 1
	default:
		w.linear.AddFlowGradient(l.index, l.kind == flowFrom, l.p, l.q, angle, magnitudes)
	}
}

// choosePredicted chooses the limits that the program's answer violates as the linearised
// power flow predicts, and reports whether there are any.
func (w *workspace) choosePredicted() bool {
	p := w.projection
	clear(w.angle)
	clear(w.vm)
	slackInjection := 0.0
	for j, entry := range p.control {
		slackInjection += w.inject(entry, p.program.x[j], w.angle, w.vm)
	}
	w.linear.Response(w.angle, w.vm)
	p.candidates = p.candidates[:0]
	change, last := 0.0, -1 // the sides of a quantity stand together
	for k := range p.limits {
		l := &p.limits[k]
		if l.row >= 0 {
			continue
		}
		if last < 0 || p.limits[last].kind != l.kind || p.limits[last].index != l.index {
			change, last = w.change(l, slackInjection, w.angle, w.vm), k
		}
		if l.bound-l.sign*change > programTolerance {
			p.candidates = append(p.candidates, k)
		}
	}
	return len(p.candidates) > 0
}

// inject adds a change of one set-point to what a power flow is given, by bus as Response
// has it, and returns that of the other units' power at the reference bus.
func (w *workspace) inject(entry int, change float64, angle, magnitudes []float64) (slackInjection float64) {
	n := w.system.Network
	switch gens := n.Gens(); {
	case entry >= gens:
		magnitudes[n.GenBus[entry-gens]] = change
	case n.GenBus[entry] == n.Slack:
		return change
	default:
		angle[n.GenBus[entry]] += change
	}
	return 0
}

// change is that of a limit's quantity with changes of the voltages, by bus, and of the
// other units' power at the reference bus.
func (w *workspace) change(l *limit, slackInjection float64, angle, magnitudes []float64) float64 {
	switch l.kind {
	case slackPower:
		return w.linear.InjectionChange(l.index, 1, 0, angle, magnitudes) - slackInjection
	case reactivePower:
		return w.linear.InjectionChange(l.index, 0, 1, angle, magnitudes)
	case magnitude:
		return magnitudes[l.index]
	}
	return w.linear.FlowChange(l.index, l.kind == flowFrom, l.p, l.q, angle, magnitudes)
}

// sensitivity is the derivative in one set-point of a quantity, of its sensitivities by bus
// and of slackInjection: the derivative in the P_G of the other units at the reference bus, which
// its balance knows and no voltage does.
func (w *workspace) sensitivity(entry int, slackInjection float64, angle, magnitudes []float64) float64 {
	n := w.system.Network
	if gens := n.Gens(); entry >= gens {
		return magnitudes[n.GenBus[entry-gens]]
	}
	if b := n.GenBus[entry]; b != n.Slack {
		return angle[b]
	}
	return slackInjection
}
