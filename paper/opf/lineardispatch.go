package opf

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/tensor"
)

// plannedStep is a step of a plan: a dispatch, its power flow, and how both answer to a
// change of the controls.
type plannedStep struct {
	u        []float64 // set-points
	vm, va   []float64 // of the power flow, and where the next one begins
	pg       []float64 // what the units give
	quantity []float64 // what each of the limits bounds
	value    float64   // weighted objectives
	// At u, by linearise; a control is a column.
	gradient, hessian []float64 // of value
	slope             []float64 // of every quantity, a row each
	lessSlack         []float64 // −slope of the reference unit's power
}

// linearDispatch linearises dispatches under one context.
type linearDispatch struct {
	system    *System
	work      *workspace
	control   []int   // entry of u that each control is
	limits    []limit // of the network, with lo ≤ quantity ≤ hi; the first is the reference unit's power
	lo, hi    []float64
	c         []float64 // context
	weights   [objectives]float64
	curvature []float64 // second derivative of the generation cost, positive definite
	// Of one step: what a unit of each control does to angles and magnitudes, and the
	// gradients in state and powers.
	angle, vm        []float64
	state, objective []float64
	line             []float64
}

// flattest is the least curvature that a model of the cost has, in units of the largest.
const flattest = 1e-4

func newLinearDispatch(y *System) *linearDispatch {
	n, m, l := y.Network, &y.model, &y.layout
	d := &linearDispatch{system: y, work: newWorkspace(y), c: make([]float64, l.context)}
	d.control = d.work.projection.control
	bound := func(kind quantity, index int, lo, hi float64) {
		d.limits = append(d.limits, limit{kind: kind, index: index})
		d.lo, d.hi = append(d.lo, lo), append(d.hi, hi)
	}
	bound(slackPower, n.Slack, n.PMin[m.slackGen], n.PMax[m.slackGen])
	for g, b := range n.GenBus {
		if m.leads[g] {
			lo, hi := y.reactive(b)
			bound(reactivePower, b, lo, hi)
		}
	}
	for i := range n.BusID {
		if m.unit[i] < 0 {
			bound(magnitude, i, n.VMin[i], n.VMax[i])
		}
	}
	for _, k := range l.rated {
		bound(flowFrom, k, math.Inf(-1), n.Rate[k])
		bound(flowTo, k, math.Inf(-1), n.Rate[k])
	}
	k := len(d.control)
	d.angle, d.vm = make([]float64, k*l.buses), make([]float64, k*l.buses)
	d.state, d.objective, d.line = make([]float64, 2*l.buses), make([]float64, l.gens), make([]float64, k)
	d.curvature = make([]float64, k*k)
	return d
}

func (d *linearDispatch) newStep() *plannedStep {
	l, k := &d.system.layout, len(d.control)
	return &plannedStep{
		u: make([]float64, 2*l.gens), vm: make([]float64, l.buses), va: make([]float64, l.buses), pg: make([]float64, l.gens), quantity: make([]float64, len(d.limits)),
		gradient: make([]float64, k), hessian: make([]float64, k*k), slope: make([]float64, k*len(d.limits)), lessSlack: make([]float64, k),
	}
}

// begin takes the context of a decision and what it minimises.
func (d *linearDispatch) begin(c []float64, weights [objectives]float64) {
	copy(d.c, c)
	d.weights = weights
	d.work.cached = false
	d.work.setContext(d.c)
}

// evaluate fills in the power flow of a step's set-points, with what it is worth; it
// reports whether there is one.
func (d *linearDispatch) evaluate(t *plannedStep) bool {
	w := d.work
	w.cached = false
	copy(w.solution.Vm, t.vm)
	copy(w.solution.Va, t.va)
	if !w.flow(powerflow.FromSolution, t.u) && !w.flow(powerflow.Flat, t.u) {
		return false
	}
	copy(t.vm, w.solution.Vm)
	copy(t.va, w.solution.Va)
	copy(t.pg, w.solution.Pg)
	w.solver.BranchFlows(w.solution, w.flows)
	for i := range d.limits {
		l := &d.limits[i]
		t.quantity[i], l.p, l.q = w.value(l)
	}
	var J [objectives]float64
	w.objectives(d.c, J[:])
	t.value = tensor.Dot(d.weights[:], J[:])
	return true
}

// linearise fills in the derivatives at a step that evaluate has solved.
func (d *linearDispatch) linearise(t *plannedStep) bool {
	w, y := d.work, d.system
	if !d.evaluate(t) || !w.linear.LineariseAt(w.solver) {
		return false
	}
	nb, k := y.layout.buses, len(d.control)
	evaluate(&y.model.terms, w.scored, t.pg, d.c, d.weights[:], nil, d.state, d.objective)
	for j, entry := range d.control {
		angle, vm := d.angle[j*nb:(j+1)*nb], d.vm[j*nb:(j+1)*nb]
		clear(angle)
		clear(vm)
		slackInjection := w.inject(entry, 1, angle, vm)
		w.linear.Response(angle, vm)
		for i := range d.limits {
			t.slope[i*k+j] = w.change(&d.limits[i], slackInjection, angle, vm)
		}
		t.gradient[j] = tensor.Dot(d.state[:nb], vm) + tensor.Dot(d.state[nb:], angle) + d.objective[y.model.slackGen]*t.slope[j]
		if entry < y.layout.gens {
			t.gradient[j] += d.objective[entry]
		}
		t.lessSlack[j] = -t.slope[j]
	}
	for i, v := range d.curvature {
		t.hessian[i] = d.weights[economic] * v
	}
	d.penalties(t)
	return true
}

// penalties add the Gauss–Newton part of J₁'s and J₂'s second derivatives.
func (d *linearDispatch) penalties(t *plannedStep) {
	w, nb, k := d.work, d.system.layout.buses, len(d.control)
	terms := &d.system.model.terms
	add := func(weight float64) {
		for a, v := range d.line {
			tensor.Axpy(weight*v, d.line, t.hessian[a*k:(a+1)*k])
		}
	}
	for i := range terms.from {
		line := fromFlow(terms, i, w.scored, d.c)
		excess := line.load - ThermalThreshold
		if excess <= 0 {
			continue
		}
		f, o := terms.from[i], terms.to[i]
		for j := range d.line {
			angle, vm := d.angle[j*nb:], d.vm[j*nb:]
			d.line[j] = line.vf*vm[f] + line.vt*vm[o] + line.angle*(angle[f]-angle[o])
		}
		add(12 * d.weights[thermal] * excess * excess)
	}
	for i, v := range t.vm {
		if math.Abs(v-1) > VoltageDeadband {
			for j := range d.line {
				d.line[j] = d.vm[j*nb+i]
			}
			add(2 * d.weights[voltage])
		}
	}
}

// bend takes the curvature of the generation cost at set-points u that are dispatched from
// the state s, by differences, and its eigenvalues up to flattest.
func (d *linearDispatch) bend(s, u []float64) {
	k := len(d.control)
	h := mat.NewSymDense(k, nil)
	var eigen mat.EigenSym
	if !d.work.costCurvature(s, d.c, u, h) || !eigen.Factorize(h, true) {
		clear(d.curvature) // the last one may be of another network
		for j := range k {
			d.curvature[j*k+j] = 1
		}
		return
	}
	values := eigen.Values(nil)
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	least := flattest * math.Max(1, math.Max(values[k-1], -values[0]))
	clear(d.curvature)
	for v, value := range values {
		for a := range k {
			for b := range k {
				d.curvature[a*k+b] += math.Max(value, least) * vectors.At(a, v) * vectors.At(b, v)
			}
		}
	}
}
