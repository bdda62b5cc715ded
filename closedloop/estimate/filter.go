// Package estimate finds the state of a plant, with unknown parameters and disturbances, from what is
// measured of it.
//
// The central type is Filter, an extended Kalman filter in square-root form (Bierman 1977). It has
// Potter's update and a QR factorisation in the prediction. It takes the exact derivatives of the
// problem's own equations (domain.Derivatives). State, parameters and disturbances are estimated together. A missing value, an outlier
// and a sensor that no longer moves are left out of the update and said. With domain.Measurement.Window the estimate is a
// moving-horizon one, whose arrival cost the filter gives.
package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

const (
	// Gate is how many standard deviations of its prediction an output may be off before it is taken for an
	// outlier.
	Gate = 6.0
	// Persistent outliers of one output in a row are no outliers: the estimate is wrong, and widened.
	Persistent = 4
	// Still is the number of decisions after which an output counts as frozen. It does not change in a single bit then, while
	// its prediction moves by more than its deviation. A rounded output may stand still at a steady state.
	Still = 4
)

// Fault is what is wrong with an output at a decision.
type Fault uint8

// The faults. What is wrong with an output is not used.
const (
	Fine    Fault = iota
	Missing       // no number
	Outlier       // farther from its prediction than Gate standard deviations
	Frozen        // bit for bit what it was for several decisions, in which its prediction has moved
)

// String names a fault.
func (f Fault) String() string { return FaultNames[f] }

// FaultNames are the names of the faults, in their order.
var FaultNames = [...]string{"fine", "missing", "outlier", "frozen"}

// Filter is the estimator of one closed loop. It is used by one goroutine, and allocates nothing after New.
type Filter struct {
	problem     domain.Problem
	dual        domain.Derivatives
	measurement *domain.Measurement
	ns, nc      int
	nu, ny      int
	n           int       // of states and unknown context entries
	mean        []float64 // of the state before anything is measured
	spread      []float64 // and its standard deviation, then the unknown's
	noise       []float64 // standard deviation that a step adds to each

	x    []float64 // estimate
	root []float64 // [n][n], lower triangular: covariance = root·rootᵀ
	c    []float64 // context, with the estimates in it
	u    []float64 // the action before

	faults    []Fault
	last      []float64 // outputs
	reference []float64 // what was predicted when each became what it is
	repeated  []int
	rejected  []int

	jac, stack, before []float64 // [n][n], columns of [2n][n], and [n]
	rows, phi          []float64 // [ny][n], [n]
	y, next, after     []float64
	duals              duals
	dn, da             []complex128                    // state and context after a step
	step               func(s, c, u, ofNext []float64) // differentiates one; nil: dual numbers do
	slopes             []float64                       // of all entries of state and context after a step, [ns+nc][n]

	whole   movement
	parts   []movement // of a plant that is measured within a period: the rest of the period, and into it
	widened bool       // by the present Update
	window  *window    // nil: what is measured is taken one decision after the other

	set                          *errorSet // what the error may be; nil: no bounds are stated
	gain, clipped, widths, scale []float64 // [n] of these
}

// movement is how state and context move under an action: a step of the problem, or a part of one.
type movement struct {
	real func(s, c, u, sNext, cNext []float64)
	dual func(s, c, u, sNext, cNext []complex128)
	acts bool // the noise of a step is added
	step bool // it is a step of the problem
}

// New makes the filter of a problem with a Measurement. mean and spread are what is known of the state at
// first where the Measurement does not say it.
func New(problem domain.Problem, measurement *domain.Measurement, mean, spread []float64) (*Filter, error) {
	spec := problem.Spec()
	if err := measurement.Validate(spec); err != nil {
		return nil, fmt.Errorf("estimate: case %q: %w", spec.Name, err)
	}
	d := domain.AbilitiesOfProblem(problem).Derivatives
	if !d.Dual() {
		return nil, fmt.Errorf("estimate: the problem of case %q has no functions of dual numbers, whose derivatives the filter needs", spec.Name)
	}
	bounded := measurement.Bounded
	measurement = measurement.Deviations()
	if measurement.Mean != nil {
		mean, spread = measurement.Mean, measurement.Initial
	}
	ns, nc, nu := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize()
	ny := len(measurement.Outputs)
	if len(mean) != ns || len(spread) != ns {
		return nil, fmt.Errorf("estimate: a mean of %d and a spread of %d states, case %q has %d", len(mean), len(spread), spec.Name, ns)
	}
	n := ns + len(measurement.Unknown)
	f := &Filter{
		problem: problem, dual: d, measurement: measurement, ns: ns, nc: nc, nu: nu, ny: ny, n: n,
		mean: slices.Clone(mean), spread: slices.Clone(spread), noise: make([]float64, n),
		x: make([]float64, n), root: make([]float64, n*n), c: make([]float64, nc), u: make([]float64, nu),
		faults: make([]Fault, ny), last: make([]float64, ny), reference: make([]float64, ny), repeated: make([]int, ny), rejected: make([]int, ny),
		jac: make([]float64, n*n), stack: make([]float64, 2*n*n), before: make([]float64, n), rows: make([]float64, ny*n), phi: make([]float64, n),
		y: make([]float64, ny), next: make([]float64, ns), after: make([]float64, nc),
		duals: newDuals(measurement, ns, nc, nu), dn: make([]complex128, ns), da: make([]complex128, nc),
		whole: movement{problem.Step, d.Step, true, true},
	}
	copy(f.noise, measurement.Process)
	for i, p := range measurement.Unknown {
		f.spread = append(f.spread, p.Deviation)
		f.noise[ns+i] = p.Drift
	}
	if err := f.differentiate(&d); err != nil {
		return nil, fmt.Errorf("estimate: case %q: %w", spec.Name, err)
	}
	if measurement.Window > 0 {
		var err error
		if f.window, err = newWindow(f); err != nil {
			return nil, err
		}
	}
	if bounded {
		f.set, f.gain, f.clipped = newErrorSet(n), make([]float64, n), make([]float64, n)
		f.widths, f.scale = widths(f.noise), make([]float64, n)
		for i, v := range f.spread {
			if f.scale[i] = v; v == 0 {
				f.scale[i] = 1
			}
		}
	}
	f.Reset()
	return f, nil
}

// fewEntries are differentiated by dual numbers in no more time than otherwise.
const fewEntries = 8

// differentiate makes what differentiates a step by many entries otherwise than by dual numbers, where the problem has it.
func (f *Filter) differentiate(d *domain.Derivatives) (err error) {
	if d.Steps == nil || f.n <= fewEntries {
		return nil
	}
	entries := make([]int, f.n)
	for i := range entries {
		entries[i] = f.entry(i)
	}
	f.slopes = make([]float64, (f.ns+f.nc)*f.n)
	f.step, err = d.Steps(entries)
	return err
}

// entry is which entry of (s, c) an estimated one is.
func (f *Filter) entry(i int) int {
	if i < f.ns {
		return i
	}
	return f.ns + f.measurement.Unknown[i-f.ns].Context
}

// Reset begins an episode: nothing is measured yet.
func (f *Filter) Reset() {
	copy(f.x, f.mean)
	clear(f.root)
	for i, v := range f.spread {
		f.root[i*f.n+i] = v
	}
	for i, p := range f.measurement.Unknown {
		f.x[f.ns+i] = p.Mean
	}
	clear(f.faults)
	clear(f.repeated)
	clear(f.rejected)
	tensor.Fill(f.last, math.NaN())
	clear(f.u)
	if f.window != nil {
		f.window.clear()
	}
	if f.set != nil {
		f.set.cut(0)
		f.set.add(widths(f.spread))
	}
}

// Size is the number of entries that are estimated: the states, then the unknown entries of the context.
func (f *Filter) Size() int { return f.n }

// Prior is the estimate before anything is measured, and its standard deviation, of each entry.
func (f *Filter) Prior() (mean, deviation []float64) {
	mean = slices.Clone(f.mean)
	for _, p := range f.measurement.Unknown {
		mean = append(mean, p.Mean)
	}
	return mean, slices.Clone(f.spread)
}

// Root views the square root of the estimate's covariance, [Size][Size]: covariance = root·rootᵀ.
func (f *Filter) Root() []float64 { return f.root }

// Process views the standard deviation that a step adds to each entry.
func (f *Filter) Process() []float64 { return f.noise }

// Faults views what was wrong with each output of the last Update.
func (f *Filter) Faults() []Fault { return f.faults }

// Update takes what is measured: y and the context c, whose unknown entries are not read. It writes the estimate of the
// state, and the context with the estimates in it.
func (f *Filter) Update(y, c, s, context []float64) error {
	if len(y) != f.ny || len(c) != f.nc || len(s) != f.ns || len(context) != f.nc {
		return fmt.Errorf("estimate: %d outputs, %d context entries, room for %d states and %d context entries: case %q has %d outputs, %d states and %d context entries",
			len(y), len(c), len(s), len(context), f.problem.Spec().Name, f.ny, f.ns, f.nc)
	}
	if !tensor.Finite(f.x) || !tensor.Finite(f.root) { // from a prediction that has left the numbers no measurement leads back
		f.Reset()
	}
	for i, v := range c {
		if v-v == 0 { // what nobody measured is as predicted
			f.c[i] = v
		}
	}
	f.place()
	if f.window != nil {
		f.window.open(f)
	}
	f.linearise()
	copy(f.before, f.x)
	f.widened = false
	for i := range y {
		f.take(i, y[i])
	}
	f.bound()
	if f.window != nil {
		f.window.settle(f, y)
	}
	f.place()
	copy(s, f.x)
	copy(context, f.c)
	for i, v := range c {
		if v-v != 0 && !slices.ContainsFunc(f.measurement.Unknown, func(p domain.Unknown) bool { return p.Context == i }) {
			context[i] = v // no decision is made by it
		}
	}
	return nil
}

// place writes the estimates into the context.
func (f *Filter) place() {
	for i, p := range f.measurement.Unknown {
		f.c[p.Context] = f.x[f.ns+i]
	}
}

// bound keeps each entry within its bounds.
func (f *Filter) bound() {
	for i, x := range f.x {
		lo, hi := f.measurement.Bounds(i, f.ns)
		f.x[i] = math.Min(hi, math.Max(lo, x))
		if f.set != nil {
			f.clipped[i] = f.x[i] - x
		}
	}
	if f.set != nil {
		f.set.add(f.clipped)
		f.set.enclose(f.scale)
	}
}

// linearise writes y and its derivatives in the estimated entries at the prediction.
func (f *Filter) linearise() {
	f.measurement.Output(f.x[:f.ns], f.c, f.u, f.y)
	f.duals.outputs(f.x[:f.ns], f.c, f.u, f.rows, f.n)
}

// take is the update by output i alone, where nothing is wrong with its value.
func (f *Filter) take(i int, value float64) {
	predicted, variance := f.expect(i)
	if f.faults[i] = f.judge(i, value, predicted, variance); f.faults[i] == Fine {
		f.absorb(i, value-predicted, variance)
	}
}

// expect is the prediction of output i, corrected by what outputs before it have moved, and its variance; f.phi becomes rootᵀh.
func (f *Filter) expect(i int) (predicted, variance float64) {
	n, h := f.n, f.rows[i*f.n:(i+1)*f.n]
	predicted = f.y[i]
	for k, d := range h {
		predicted += d * (f.x[k] - f.before[k])
	}
	clear(f.phi)
	for a, v := range h {
		if v != 0 {
			tensor.Axpy(v, f.root[a*n:(a+1)*n], f.phi)
		}
	}
	variance = f.measurement.Deviation[i] * f.measurement.Deviation[i]
	for _, v := range f.phi {
		variance += v * v
	}
	return predicted, variance
}

// absorb is Potter's update by an innovation of output i. With φ = rootᵀh and α = 1/(φᵀφ + r),
//
//	K = α root φ, root ← root − γ K φᵀ with γ = 1/(1 + √(α r)).
func (f *Filter) absorb(i int, innovation, variance float64) {
	n := f.n
	alpha := 1 / variance
	gamma := 1 / (1 + math.Sqrt(alpha*f.measurement.Deviation[i]*f.measurement.Deviation[i]))
	for a := range n {
		row := f.root[a*n : (a+1)*n]
		gain := tensor.Dot(row, f.phi) * alpha
		f.x[a] += gain * innovation
		tensor.Axpy(-gamma*gain, f.phi, row)
		if f.set != nil {
			f.gain[a] = gain
		}
	}
	if f.set != nil {
		f.set.tell(f.rows[i*n:(i+1)*n], f.gain, domain.UniformBound*f.measurement.Deviation[i])
	}
}

// judge says what is wrong with a value of output i.
func (f *Filter) judge(i int, value, predicted, variance float64) Fault {
	if value-value != 0 {
		return Missing
	}
	if value == f.last[i] {
		f.repeated[i]++
	} else {
		f.repeated[i], f.reference[i] = 0, predicted
	}
	f.last[i] = value
	if f.repeated[i] >= Still && math.Abs(predicted-f.reference[i]) > f.measurement.Deviation[i] {
		return Frozen
	}
	if innovation := value - predicted; innovation*innovation <= Gate*Gate*variance {
		f.rejected[i] = 0
		return Fine
	}
	if f.rejected[i]++; f.rejected[i] < Persistent {
		return Outlier
	}
	// That number in a row is the plant's doing, not the sensor's: the covariance is the initial one again.
	f.rejected[i], f.widened = 0, true
	f.widenTo(f.spread)
	return Outlier
}

// widenTo adds the first spread to the covariance of every entry.
func (f *Filter) widenTo(spread []float64) {
	n := f.n
	clear(f.stack)
	for a := range n {
		copy(f.stack[a*2*n:], f.root[a*n:(a+1)*n])
	}
	f.triangularise(spread)
	if f.set != nil {
		f.set.add(widths(spread))
	}
}

// Predict takes the action that acts, and moves the estimate to the next decision.
func (f *Filter) Predict(u []float64) { f.act(&f.whole, u) }

// predictPart is Predict of a plant that is measured a share into each period. It predicts the rest of the period of u,
// then that share of the period of next.
func (f *Filter) predictPart(delay *domain.Delay, u, next []float64) {
	f.act(&f.movements(delay)[0], u)
	f.actPartly(delay, next)
}

// actPartly moves the estimate into a period, to where it is measured.
func (f *Filter) actPartly(delay *domain.Delay, u []float64) { f.act(&f.movements(delay)[1], u) }

// movements are the two parts of a period.
func (f *Filter) movements(delay *domain.Delay) []movement {
	if f.parts != nil {
		return f.parts
	}
	share := delay.Share()
	f.parts = []movement{{
		real: func(s, c, u, sNext, cNext []float64) {
			f.problem.Step(s, c, u, sNext, cNext)
			delay.Part(1-share, s, c, u, sNext)
		},
		dual: func(s, c, u, sNext, cNext []complex128) {
			f.dual.Step(s, c, u, sNext, cNext)
			delay.PartDual(1-share, s, c, u, sNext)
		},
		acts: true,
	}, {
		real: func(s, c, u, sNext, cNext []float64) {
			delay.Part(share, s, c, u, sNext)
			copy(cNext, c)
		},
		dual: func(s, c, u, sNext, cNext []complex128) {
			delay.PartDual(share, s, c, u, sNext)
			copy(cNext, c)
		},
	}}
	return f.parts
}

// begin is before the first measurement of a plant with queued actions.
func (f *Filter) begin(c []float64, w *actionQueue) {
	if w.share == 0 || len(c) != f.nc {
		return
	}
	copy(f.c, c)
	f.place()
	f.actPartly(&w.delay, w.way[0])
}

// act moves the estimate under an action, which the window remembers.
func (f *Filter) act(m *movement, u []float64) {
	copy(f.u, u)
	if f.window != nil {
		f.window.record(f, m, u)
	}
	f.move(m, u)
}

// move moves estimate and covariance under u.
func (f *Filter) move(m *movement, u []float64) {
	n, ns := f.n, f.ns
	f.slope(m, u)
	m.real(f.x[:ns], f.c, u, f.next, f.after)
	copy(f.x, f.next)
	copy(f.c, f.after)
	for i, p := range f.measurement.Unknown {
		f.x[ns+i] = f.after[p.Context]
	}
	// [F·root | noise]ᵀ, of which the triangular factor is the root after the step.
	clear(f.stack)
	for a := range n {
		for k, v := range f.jac[a*n : (a+1)*n] {
			if v != 0 {
				tensor.Axpy(v, f.root[k*n:(k+1)*n], f.stack[a*2*n:])
			}
		}
	}
	var added []float64
	if m.acts && !tensor.AllZero(f.noise) {
		added = f.noise
	}
	f.triangularise(added)
	if f.set != nil {
		f.set.move(f.jac, n, nil)
		if added != nil {
			f.set.add(f.widths)
		}
	}
}

// slope writes the derivatives of a movement in what is estimated.
func (f *Filter) slope(m *movement, u []float64) {
	n, ns := f.n, f.ns
	if m.step && f.step != nil {
		f.step(f.x[:ns], f.c, u, f.slopes)
		for i := range n {
			copy(f.jac[i*n:(i+1)*n], f.slopes[f.entry(i)*n:])
		}
		return
	}
	d := &f.duals
	d.set(f.x[:ns], f.c, u)
	for k := range n {
		d.vary(k, func() { m.dual(d.s, d.c, d.u, f.dn, f.da) })
		slopes(f.dn, f.jac, n, k)
		for a, p := range f.measurement.Unknown {
			f.jac[(ns+a)*n+k] = imag(f.da[p.Context]) / domain.DualStep
		}
	}
}

// triangularise writes the root of stackᵀ·stack, by Householder reflections, below the upper half of which is the diagonal of added;
// nil: nothing. Row n+a is zero before column a, so that reflection k ends with row n+k.
func (f *Filter) triangularise(added []float64) {
	n, m := f.n, 2*f.n
	for a, v := range added {
		f.stack[a*m+n+a] = v
	}
	for k := range n {
		end := n
		if added != nil {
			end += k + 1
		}
		pivot := f.stack[k*m+k : k*m+end]
		norm := 0.0
		for _, v := range pivot {
			norm = math.Hypot(norm, v)
		}
		if norm == 0 {
			continue
		}
		if pivot[0] > 0 {
			norm = -norm
		}
		pivot[0] -= norm
		for j := k + 1; j < n; j++ {
			column := f.stack[j*m+k : j*m+end]
			tensor.Axpy(tensor.Dot(pivot, column)/(norm*pivot[0]), pivot, column)
		}
		pivot[0] = norm
	}
	for a := range n {
		clear(f.root[a*n : (a+1)*n])
		copy(f.root[a*n:], f.stack[a*m:a*m+a+1])
	}
}
