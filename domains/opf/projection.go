package opf

import "math"

// Constants of the projection.
const (
	// projectionRounds of linearisation and quadratic program at most.
	projectionRounds = 3
	// projectionPivots of the active set in one program at most.
	projectionPivots = 60
	// Room that a corrected margin is given, pu: it covers what the linearisation
	// leaves out.
	voltageGuard = 1e-4
	powerGuard   = 3e-4
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
	// The gradient being built: derivatives in the units' voltages, and in the P_G
	// of the other units at the reference bus.
	direct []float64
	others float64
}

func newProjection(y *System) *projection {
	m, gens := &y.model, y.layout.gens
	p := &projection{direct: make([]float64, gens)}
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
		u[y.model.slackGen] = math.Min(math.Max(w.pg[y.model.slackGen], y.Network.PMin[y.model.slackGen]), y.Network.PMax[y.model.slackGen])
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

func (w *workspace) smallest() float64 {
	low := math.Inf(1)
	for _, m := range w.margin {
		low = math.Min(low, m)
	}
	return low
}

// correct changes u by the program at the present solution.
func (w *workspace) correct(c, u []float64) {
	w.evaluate(true)
	if !w.system.model.lu.factor(w.values, w.inverse) {
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
	if pg := w.pg[m.slackGen]; math.Min(pg-lo, hi-pg) < powerReach {
		w.begin()
		w.addInjection(n.Slack, false)
		w.projection.others = -1
		w.limit(pg, lo, hi, powerGuard, powerReach)
	}
	for g, b := range n.GenBus {
		if m.leads[g] && w.margin[l.marginQ+g] < powerReach {
			w.begin()
			w.addInjection(b, true)
			qmin, qmax := 0.0, 0.0
			for other, at := range n.GenBus {
				if at == b {
					qmin, qmax = qmin+n.QMin[other], qmax+n.QMax[other]
				}
			}
			w.limit(w.q[b]+w.qd[b], qmin, qmax, powerGuard, powerReach)
		}
	}
	for i := range w.vm {
		if m.size[i] >= 0 && w.margin[l.marginV+i] < voltageReach {
			w.begin()
			w.addSize(i, 1)
			w.limit(w.vm[i], n.VMin[i], n.VMax[i], voltageGuard, voltageReach)
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
	w.addFlow(k, from, p/size, q/size)
	w.limit(size, math.Inf(-1), rate, powerGuard, powerReach)
}

// begin starts the gradient of a quantity, in the unknowns (row) and in the
// units' voltages (direct).
func (w *workspace) begin() {
	clear(w.row)
	clear(w.projection.direct)
	w.projection.others = 0
}

func (w *workspace) addAngle(i int, v float64) {
	if r := w.system.model.angle[i]; r >= 0 {
		w.row[r] += v
	}
}

func (w *workspace) addSize(i int, v float64) {
	m := &w.system.model
	if r := m.size[i]; r >= 0 {
		w.row[r] += v
	} else {
		w.projection.direct[m.unit[i]] += v
	}
}

// addFlow adds a·dP + b·dQ of the flow into branch k at one of its ends.
func (w *workspace) addFlow(k int, from bool, a, b float64) {
	n, y, s := w.system.Network, w.y, &w.branch[k]
	f, t := n.From[k], n.To[k]
	vf, vt := w.vm[f], w.vm[t]
	var angle, sizeF, sizeT float64
	if from {
		angle = vf * vt * (b*s.along - a*s.across)
		sizeF = a*(2*vf*y.Gff[k]+vt*s.along) + b*(vt*s.across-2*vf*y.Bff[k])
		sizeT = vf * (a*s.along + b*s.across)
	} else {
		angle = -vf * vt * (a*s.reverse + b*s.back)
		sizeF = vt * (a*s.back - b*s.reverse)
		sizeT = a*(2*vt*y.Gtt[k]+vf*s.back) - b*(2*vt*y.Btt[k]+vf*s.reverse)
	}
	w.addAngle(f, angle)
	w.addAngle(t, -angle)
	w.addSize(f, sizeF)
	w.addSize(t, sizeT)
}

// addInjection adds the gradient of the net P or Q that bus b sends out.
func (w *workspace) addInjection(b int, reactive bool) {
	n := w.system.Network
	p, q, shunt := 1.0, 0.0, 2*w.vm[b]*n.Gs[b]
	if reactive {
		p, q, shunt = 0, 1, -2*w.vm[b]*n.Bs[b]
	}
	w.addSize(b, shunt)
	for _, k := range w.system.model.near[b] {
		w.addFlow(k, n.From[k] == b, p, q)
	}
}

// limit turns the gradient begun into one in the set-points and adds the rows lo +
// guard ≤ value + change ≤ hi − guard for the sides within reach.
func (w *workspace) limit(value, lo, hi, guard, reach float64) {
	m, p, gens := &w.system.model, w.projection, w.system.layout.gens
	m.lu.solveTransposed(w.values, w.inverse, w.row)
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
			row[j] = sign * w.sensitivity(at, gens)
		}
	}
}

// sensitivity is the derivative in one set-point, by the adjoint in row.
func (w *workspace) sensitivity(at, gens int) float64 {
	m := &w.system.model
	if at < gens {
		if r := m.angle[w.system.Network.GenBus[at]]; r >= 0 {
			return w.row[r]
		}
		return w.projection.others
	}
	g := at - gens
	d := w.projection.direct[g]
	for _, e := range m.columns[g] {
		d -= w.row[e.row] * w.values[e.at]
	}
	return d
}
