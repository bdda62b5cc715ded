package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// certificateReach, pu: a limit with more room is no row of a certificate at first.
const certificateReach = 1e-3

// certificate is the scratch of gap.
type certificate struct {
	program   leastCost
	slope     []float64 // of the objectives less what units cost by themselves, by control
	total     []float64 // of the objectives
	state     []float64 // gradients in state and powers
	objective []float64
}

func newCertificate(w *workspace) *certificate {
	l, k := &w.system.layout, len(w.projection.control)
	return &certificate{
		program: leastCost{leastChange: w.projection.program}, slope: make([]float64, k), total: make([]float64, k),
		state: make([]float64, 2*l.buses), objective: make([]float64, l.gens),
	}
}

// gap is domain.ProblemAbilities.Gap of a secure dispatch. Let f be what u is counted by, and
// a_i·x ≥ −m_i its limits, linearised at u and at the power flows after outages there. For every λ ≥ 0 and
// every x within box and ramp that keeps these limits,
//
//	f(u) − f(u+x) ≤ Σ λ_i m_i + Σ_j max −(f_j(x_j) − (Aᵀλ)_j x_j)   over lo_j ≤ x_j ≤ hi_j,
//
// which is weak duality: f_j is what unit j costs beyond u and else the slope of f, which is convex in what the
// linearised power flows say. λ are the multipliers of the program that projects, with the slope of f
// added. The limits are those that units, after an outage, are at as they are at u. It is +Inf where u breaks a limit.
func (y *System) gap(s, c []float64, pref domain.Preference, u []float64) float64 {
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	if !w.dispatch(s, c, u) || !y.spec.Keeps(w.smallest()) || !w.linear.LineariseAt(w.solver) {
		return math.Inf(1)
	}
	var weights, J [objectives]float64
	y.Weigh(pref, weights[:])
	w.objectives(c, J[:])
	value := tensor.DotInOrder(weights[:], J[:])
	if w.certificate == nil {
		w.certificate = newCertificate(w)
	}
	w.slopes(c, weights)
	w.multipliers(c, u, weights[economic])
	return math.Max(0, w.dualGap(u, weights[economic])) / value
}

// slopes are those of the weighted objectives by every control, along the linearised power flow.
func (w *workspace) slopes(c []float64, weights [objectives]float64) {
	y, p, cert := w.system, w.projection, w.certificate
	n, nb := y.Network, y.layout.buses
	evaluate(&y.model.terms, w.scored, w.solution.Pg, c, weights[:], nil, cert.state, cert.objective)
	angle, vm := p.angle[0], p.magnitude[0]
	copy(vm, cert.state[:nb])
	copy(angle, cert.state[nb:])
	price := cert.objective[y.model.slackGen]
	w.linear.AddInjectionGradient(n.Slack, price, 0, angle, vm)
	w.linear.Sensitivities(p.angle[:1], p.magnitude[:1])
	for j, entry := range p.control {
		cert.slope[j] = w.sensitivity(entry, -price, angle, vm)
		if cert.total[j] = cert.slope[j]; entry < y.layout.gens {
			cert.total[j] += cert.objective[entry]
		}
	}
}

// multipliers finds those of the limits near u: before outages, and after those that leave little room.
func (w *workspace) multipliers(c, u []float64, weight float64) {
	p := w.projection
	p.watch = append(p.watch[:0], w.system.likely()...)
	w.watched(true, math.Inf(1))
	w.boxes(c, u)
	w.prices(c, w.system.metric(), weight, nil)
}

// prices solves the program with the slopes and a metric, within its boxes: the limits are those near, and those after the outages
// that are watched. It begins at what the one before has held, and takes note of what this one holds.
func (w *workspace) prices(c []float64, m *metric, weight float64, previous *activeSet) {
	p, cert := w.projection, w.certificate
	program := &cert.program
	program.metric, program.slack = m, elasticity
	program.reset()
	w.limitsWithin(c)
	warm := previous != nil && previous.side != nil
	if warm {
		copy(program.side, previous.side)
		program.forget()
		for k := range p.limits {
			p.limits[k].binding = slices.Contains(previous.rows, p.limits[k].place(-1))
		}
	}
	for j := range cert.total { // the metric is that of the units' cost alone
		cert.total[j] /= weight
	}
	program.begin(cert.total)
	p.candidates = p.candidates[:0]
	for k := range p.limits {
		if l := &p.limits[k]; l.bound > -certificateReach || l.binding {
			p.candidates = append(p.candidates, k)
		}
	}
	w.addOutages()
	for k, row := range p.outageRows {
		program.binds[k] = warm && slices.Contains(previous.rows, row)
	}
	for start, more := 0, true; more; {
		w.addChosen()
		program.nearby = warm && start == 0
		program.solve(start, programTolerance)
		start, more = len(program.bound), w.choosePredicted()
	}
	if previous != nil {
		previous.take(p)
	}
}

// activeSet are the constraints that a program holds, whatever the linearisation.
type activeSet struct {
	side []int8  // of the variables; nil: none is known
	rows []place // of limits
}

func (h *activeSet) take(p *projection) {
	h.side, h.rows = append(h.side[:0], p.program.side...), h.rows[:0]
	for k, row := range p.outageRows {
		if p.program.binds[k] {
			h.rows = append(h.rows, row)
		}
	}
	for k := range p.limits {
		if l := &p.limits[k]; l.row >= 0 && p.program.binds[l.row] {
			h.rows = append(h.rows, l.place(-1))
		}
	}
}

// dualGap is the bound by the multipliers.
func (w *workspace) dualGap(u []float64, weight float64) (bound float64) {
	p, cert := w.projection, w.certificate
	program := &cert.program
	reduced := cert.total // slope less what the limits pull
	copy(reduced, cert.slope)
	for k, lambda := range program.lambda {
		if lambda > 0 {
			bound += weight * lambda * (powerGuard - program.boundOf(k))
			tensor.Axpy(-weight*lambda, program.row(k), reduced)
		}
	}
	for j, entry := range p.control {
		lo, hi := program.box(j)
		bound -= w.system.cheapest(entry, u[entry], weight, reduced[j], lo, hi)
	}
	return bound
}

// cheapest is the least of weight·(cost(p+x) − cost(p)) + slope·x over lo ≤ x ≤ hi, of the unit that a
// set-point is the power of, and with no cost where it is a voltage; by its tangent where the cost is of a
// degree above two.
func (y *System) cheapest(entry int, p, weight, slope, lo, hi float64) float64 {
	if entry >= y.layout.gens {
		return math.Min(slope*lo, slope*hi)
	}
	cost := &y.Network.Cost[entry]
	value, first, second := cost.At(p)
	if tangent := weight*first + slope; cost.PiecewiseLinear() || len(cost.Polynomial) > 3 {
		return math.Min(tangent*lo, tangent*hi)
	}
	objective := func(x float64) float64 {
		v, _, _ := cost.At(p + x)
		return weight*(v-value) + slope*x
	}
	least := math.Min(objective(lo), objective(hi))
	if second > 0 {
		least = math.Min(least, objective(math.Min(math.Max(-(first+slope/weight)/second, lo), hi)))
	}
	return least
}
