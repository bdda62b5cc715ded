package opf

import (
	"math"
	"slices"
)

// Constants of the projection.
const (
	// projectionRounds of linearisation and quadratic program at most.
	projectionRounds = 3
	// projectionPivots of the active set in one program at most.
	projectionPivots = 60
	// Room that a corrected margin is given, pu. What the linearisation leaves out is
	// for the next round: room for it would cost every dispatch at a limit more than a
	// map loses (docs/opf.md).
	voltageGuard = 1e-6
	powerGuard   = 3e-6
	// A limit further away than this, pu, is left out of the program.
	voltageReach = 0.02
	powerReach   = 0.06
	// elasticity of the network's limits: s violates one at the price s²/ε, with the
	// change of a set-point priced at its square.
	elasticity = 1e-7
	// programTolerance, pu, is how far the program may break a constraint.
	programTolerance = 1e-7
)

// projection is the scratch of Project.
type projection struct {
	program *leastChange
	control []int // entry of u that each variable of the program changes
	// others is the derivative of the quantity at hand in the P_G of the other units
	// at the reference bus, which its balance knows and no voltage does.
	others float64
}

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
	return p
}

// Project moves u onto the limits: first into the box and the ramp window, then,
// where the power flow of the result breaks a limit, by the smallest change of
// the set-points that keeps all limits near it as the power flow linearised there
// predicts them. Rounds and pivots are bounded. The reference unit's P_G becomes
// what the power flow gives it. It reports whether the power flow of the result
// keeps every limit to MarginTolerance.
func (y *System) Project(s, c, u []float64) bool {
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	for i, v := range u {
		if v-v != 0 {
			u[i] = 0
		}
	}
	y.clip(c, u)
	for round := 0; ; round++ {
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
		if low >= 0 || round == projectionRounds {
			return low >= -MarginTolerance
		}
		w.correct(c, u)
		y.clip(c, u)
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

func (w *workspace) smallest() float64 { return slices.Min(w.margin) }

// correct changes u by the program at the present solution.
func (w *workspace) correct(c, u []float64) {
	if !w.solver.Linearise() {
		return
	}
	p := w.projection
	p.program.inverse = w.system.metric()
	p.program.reset()
	w.boxes(c, u)
	w.limitRows(c)
	p.program.solve(programTolerance, projectionPivots)
	for j, at := range p.control {
		u[at] += p.program.x[j]
	}
	w.known = false
}

// boxes bound the change of every set-point by its box and ramp window.
func (w *workspace) boxes(c, u []float64) {
	n, p, gens := w.system.Network, w.projection, w.system.layout.gens
	previous := c[w.system.layout.previous:]
	for j, at := range p.control {
		var lo, hi float64
		if at < gens {
			lo, hi = w.system.window(at, previous[at])
		} else {
			b := n.GenBus[at-gens]
			lo, hi = n.VMin[b], n.VMax[b]
		}
		p.program.lo[j], p.program.hi[j] = lo-u[at], hi-u[at]
	}
}

// limitRows adds the limits of the network within reach, linearised.
func (w *workspace) limitRows(c []float64) {
	y, n, m, l := w.system, w.system.Network, &w.system.model, &w.system.layout
	lo, hi := y.window(m.slackGen, c[l.previous+m.slackGen])
	if pg := w.solution.Pg[m.slackGen]; math.Min(pg-lo, hi-pg) < powerReach {
		w.begin()
		w.solver.AddInjectionGradient(n.Slack, 1, 0, w.angle, w.vm)
		w.projection.others = -1
		w.limit(pg, lo, hi, powerGuard, powerReach)
	}
	for g, b := range n.GenBus {
		if m.leads[g] && w.margin[l.marginQ+g] < powerReach {
			w.begin()
			w.solver.AddInjectionGradient(b, 0, 1, w.angle, w.vm)
			qmin, qmax := 0.0, 0.0
			for other, at := range n.GenBus {
				if at == b {
					qmin, qmax = qmin+n.QMin[other], qmax+n.QMax[other]
				}
			}
			_, q := w.solver.Injection(b)
			w.limit(q+w.qd[b], qmin, qmax, powerGuard, powerReach)
		}
	}
	for i, v := range w.solution.Vm {
		if m.unit[i] < 0 && w.margin[l.marginV+i] < voltageReach {
			w.begin()
			w.vm[i] = 1
			w.limit(v, n.VMin[i], n.VMax[i], voltageGuard, voltageReach)
		}
	}
	for r, k := range l.rated {
		if w.margin[l.marginS+r] < powerReach {
			w.branchLimit(k, n.Rate[k], w.flows.Pf[k], w.flows.Qf[k], true)
			w.branchLimit(k, n.Rate[k], w.flows.Pt[k], w.flows.Qt[k], false)
		}
	}
}

// branchLimit adds |S| ≤ rate at one end of branch k.
func (w *workspace) branchLimit(k int, rate, p, q float64, from bool) {
	size := math.Sqrt(p*p + q*q)
	if rate-size >= powerReach || size == 0 {
		return
	}
	w.begin()
	w.solver.AddFlowGradient(k, from, p/size, q/size, w.angle, w.vm)
	w.limit(size, math.Inf(-1), rate, powerGuard, powerReach)
}

// begin starts the gradient of a quantity.
func (w *workspace) begin() {
	clear(w.angle)
	clear(w.vm)
	w.projection.others = 0
}

// limit turns the gradient begun into one in the set-points and adds the rows lo +
// guard ≤ value + change ≤ hi − guard for the sides within reach.
func (w *workspace) limit(value, lo, hi, guard, reach float64) {
	p := w.projection
	w.solver.Sensitivity(w.angle, w.vm)
	if hi-lo < 2*guard {
		guard = math.Max(0, (hi-lo)/2)
	}
	var first []float64
	for side, gap := range [2]float64{value - lo, hi - value} {
		if gap >= reach {
			continue
		}
		sign := 1.0
		if side == 1 {
			sign = -1
		}
		row := p.program.add(guard-gap, elasticity)
		if first != nil {
			for j := range row {
				row[j] = -first[j]
			}
			continue
		}
		first = row
		for j, at := range p.control {
			row[j] = sign * w.sensitivity(at)
		}
	}
}

// sensitivity is the derivative in one set-point of the quantity whose
// sensitivities are at hand.
func (w *workspace) sensitivity(at int) float64 {
	n := w.system.Network
	if gens := n.Gens(); at >= gens {
		return w.vm[n.GenBus[at-gens]]
	}
	if b := n.GenBus[at]; b != n.Slack {
		return w.angle[b]
	}
	return w.projection.others
}
