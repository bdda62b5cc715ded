package dual

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

// Explicit is an initial value problem for RK4: ṡ = ODE(s, c, u) with c and u held, over Span
// in the unit of time of the ode, in Substeps equal steps. Real and Dual are the ode in both types
// of number.
type Explicit struct {
	Real     func(s, c, u, ds []float64)
	Dual     func(s, c, u, ds []complex128)
	Span     float64
	Substeps int
}

// Integrate is RK4 of the problem.
func Integrate[T Scalar](p *Explicit, s, c, u, next []T) {
	switch s := any(s).(type) {
	case []float64:
		RK4(p.Real, s, any(c).([]float64), any(u).([]float64), any(next).([]float64), p.Span, p.Substeps)
	case []complex128:
		RK4(p.Dual, s, any(c).([]complex128), any(u).([]complex128), any(next).([]complex128), p.Span, p.Substeps)
	}
}

// order of RK4, and its number of stages.
const order = 4

// Tape is a step of an Explicit, recorded with its derivatives along some directions, so that those
// of a function of the result, first and second, follow backwards through the stages. It is a workspace
// for one caller at a time.
type Tape struct {
	of *Explicit
	n  int // states
	nc int // entries of c
	k  int // directions

	vary   []int        // the inputs that have directions: every state, some of c and u
	sizes  []float64    // [len(vary)]
	place  []int        // of each input in vary, -1 without directions
	known  *Structure   // nil: nothing
	rows   []int        // all of them
	x      []complex128 // s, c and u
	f      []complex128 // [n]
	stage  []float64    // [order·Substeps][n]
	along  []float64    // directions of the stages' inputs, [order·Substeps][len(vary)][k]
	slopes []float64    // of the ode at every stage by those inputs, times Step, [order·Substeps][len(vary)][n]

	state, sum             []float64 // [n]
	stateAlong             []float64 // [n][k]
	slope, slopeAlong      []float64 // the last stage's, [n] and [n][k]
	sumAlong               []float64 // [n][k]
	adjoint, weights, back []float64 // [n]
	before                 []float64 // [len(vary)]
	imaginary              []float64 // [n]
	curvature              Curvature
}

// Tape makes one for so many states and entries of c and u. The structure of the ode is optional.
func (p *Explicit) Tape(ns, nc, nu int, known *Structure) *Tape {
	t := &Tape{of: p, n: ns, nc: nc, known: known, place: make([]int, ns+nc+nu)}
	t.x, t.f = make([]complex128, ns+nc+nu), make([]complex128, ns)
	for r := range ns {
		t.rows = append(t.rows, r)
	}
	stages := order * p.Substeps
	t.stage = make([]float64, stages*ns)
	for _, b := range []*[]float64{&t.state, &t.sum, &t.slope, &t.adjoint, &t.weights, &t.back, &t.imaginary} {
		*b = make([]float64, ns)
	}
	t.curvature = Curvature{F: func(x []complex128) float64 {
		t.ode(x)
		return t.weigh()
	}}
	return t
}

// ode evaluates it at x = (s, c, u).
func (t *Tape) ode(x []complex128) { t.of.Dual(x[:t.n], x[t.n:t.n+t.nc], x[t.n+t.nc:], t.f) }

// weigh is weightsᵀ of the derivatives in f.
func (t *Tape) weigh() float64 {
	for i, v := range t.f {
		t.imaginary[i] = imag(v)
	}
	return tensor.DotInOrder(t.weights, t.imaginary)
}

// Structure is where the derivatives of an ode can be other than zero, as some points show: the
// rows of each column of its first ones, columns that share no row in one group, and the pairs of inputs
// that it has second ones by. It saves evaluations. A Tape finds out where it does not hold.
type Structure struct {
	rows   [][]int   // [inputs]
	trial  []float64 // [inputs]: a direction that tells columns apart
	groups [][]int   // of inputs
	second *Pattern
}

// Structure is that of the problem at points (s, c, u) moved by parts of the inputs' sizes.
func (p *Explicit) Structure(points [][]float64, sizes []float64, ns, nc int) *Structure {
	t := p.Tape(ns, nc, len(sizes)-ns-nc, nil)
	for i := range t.weights {
		t.weights[i] = scattered(i)
	}
	known := &Structure{rows: make([][]int, len(sizes)), second: NewPattern(len(sizes))}
	for i := range sizes {
		known.trial, t.vary = append(known.trial, scattered(i)), append(t.vary, i)
	}
	slopes := make([]float64, len(sizes)*ns)
	for _, x := range points {
		t.curvature.Learn(known.second, x, sizes)
		for i, v := range x {
			t.x[i] = complex(v, 0)
		}
		t.columns(slopes)
		for i, v := range slopes {
			if a, r := i/ns, i%ns; v != 0 && !slices.Contains(known.rows[a], r) {
				known.rows[a] = append(known.rows[a], r)
			}
		}
	}
	taken := [][]bool{} // by group and row
	for a, rows := range known.rows {
		if len(rows) == 0 {
			continue
		}
		free := func(row []bool) bool {
			return slices.IndexFunc(rows, func(r int) bool { return row[r] }) < 0
		}
		g := slices.IndexFunc(taken, free)
		if g < 0 {
			g = len(taken)
			taken, known.groups = append(taken, make([]bool, ns)), append(known.groups, nil)
		}
		known.groups[g] = append(known.groups[g], a)
		for _, r := range rows {
			taken[g][r] = true
		}
	}
	return known
}

// scattered are numbers from 0.5 to 1.5 that have no simple relations.
func scattered(i int) float64 {
	_, part := math.Modf(float64(i+1) * math.Phi)
	return 0.5 + part
}

// Forward records the step from x = (s, c, u), numbers without derivatives. vary lists the inputs
// that have directions, in their order, all of s among them; along are these, [len(vary)][k], and
// sizes the inputs' typical ones, [len(vary)]. It writes the result and its directions, [len(s)][k].
func (t *Tape) Forward(x []complex128, vary []int, along, sizes []float64, k int, next, nextAlong []float64) {
	n, many, p := t.n, len(vary), t.of
	t.k, t.vary, t.sizes = k, append(t.vary[:0], vary...), append(t.sizes[:0], sizes...)
	stages := order * p.Substeps
	grow(&t.along, stages*many*k)
	grow(&t.slopes, stages*many*n)
	grow(&t.before, many)
	for _, b := range []*[]float64{&t.stateAlong, &t.slopeAlong, &t.sumAlong} {
		grow(b, n*k)
	}
	copy(t.x, x)
	for i := range t.place {
		t.place[i] = -1
	}
	for i, a := range vary {
		t.place[a] = i
	}
	for i, v := range x[:n] {
		t.state[i] = real(v)
	}
	h := p.Span / float64(p.Substeps)
	copy(t.stateAlong, along[:n*k])
	for stage := range stages {
		// The classical method's nodes and weights.
		ahead, share := 0.0, h/6
		switch stage % order {
		case 0:
			clear(t.sum)
			clear(t.sumAlong)
		case 1, 2:
			ahead, share = h/2, h/3
		case 3:
			ahead = h
		}
		values, own := t.stage[stage*n:(stage+1)*n], t.along[stage*many*k:(stage+1)*many*k]
		copy(values, t.state)
		copy(own, t.stateAlong)
		copy(own[n*k:], along[n*k:])
		if ahead != 0 {
			tensor.Axpy(ahead, t.slope, values)
			tensor.Axpy(ahead, t.slopeAlong, own)
		}
		t.stand(stage)
		slopes := t.slopes[stage*many*n : (stage+1)*many*n]
		sparse := t.known != nil && t.columnsInGroups(slopes)
		if !sparse {
			t.columns(slopes)
		}
		clear(t.slopeAlong)
		for i, a := range vary {
			rows := t.rows
			if sparse {
				rows = t.known.rows[a]
			}
			for _, r := range rows {
				if v := slopes[i*n+r]; v != 0 {
					tensor.Axpy(v/Step, own[i*k:(i+1)*k], t.slopeAlong[r*k:])
				}
			}
		}
		for r, v := range t.f {
			t.slope[r] = real(v)
		}
		tensor.Axpy(share, t.slope, t.sum)
		tensor.Axpy(share, t.slopeAlong, t.sumAlong)
		if stage%order == order-1 {
			tensor.Axpy(1, t.sum, t.state)
			tensor.Axpy(1, t.sumAlong, t.stateAlong)
		}
	}
	copy(next, t.state)
	copy(nextAlong, t.stateAlong)
}

// columns writes the ode's derivatives at x times Step, [len(vary)][n], and leaves its value in f.
func (t *Tape) columns(slopes []float64) {
	for i, a := range t.vary {
		at := t.x[a]
		t.x[a] = complex(real(at), Step)
		t.ode(t.x)
		t.x[a] = at
		for r, v := range t.f {
			slopes[i*t.n+r] = imag(v)
		}
	}
}

// columnsInGroups is columns by one evaluation a group of the structure, and one more along all
// inputs at once, which tells whether the structure holds here.
func (t *Tape) columnsInGroups(slopes []float64) bool {
	clear(slopes)
	n := t.n
	clear(t.imaginary)
	magnitude := t.weights // not in use going forward
	clear(magnitude)
	for _, group := range t.known.groups {
		for _, a := range group {
			t.seed(a, 1)
		}
		t.ode(t.x)
		for _, a := range group {
			t.seed(a, 0)
			i := t.place[a]
			if i < 0 {
				continue
			}
			for _, r := range t.known.rows[a] {
				v := imag(t.f[r])
				slopes[i*n+r] = v
				t.imaginary[r] += t.known.trial[a] * v
				magnitude[r] += math.Abs(v)
			}
		}
	}
	for _, a := range t.vary {
		t.seed(a, t.known.trial[a])
	}
	t.ode(t.x)
	for _, a := range t.vary {
		t.seed(a, 0)
	}
	for r, v := range t.f {
		if !(math.Abs(imag(v)-t.imaginary[r]) <= 1e-9*magnitude[r]) {
			return false
		}
	}
	return true
}

// seed gives an input a derivative if it has directions.
func (t *Tape) seed(a int, derivative float64) {
	if t.place[a] >= 0 {
		t.x[a] = complex(real(t.x[a]), derivative*Step)
	}
}

// stand writes a stage's state into x.
func (t *Tape) stand(stage int) {
	for i, v := range t.stage[stage*t.n : (stage+1)*t.n] {
		t.x[i] = complex(v, 0)
	}
}

// Backward takes weightsᵀ of the step's result: it adds its derivatives by the inputs to adjoint,
// [s, c and u], and its second derivatives along the directions to the lower triangle of h, [k][k].
// Inputs without directions have no derivatives.
func (t *Tape) Backward(weights, adjoint, h []float64) {
	n, many, k, length := t.n, len(t.vary), t.k, t.of.Span/float64(t.of.Substeps)
	if tensor.AllZero(weights) {
		return
	}
	// Of the state after a substep, then of that before it.
	copy(t.adjoint, weights)
	last := order*t.of.Substeps - 1
	for stage := last; stage >= 0; stage-- {
		// back is the adjoint of the stage after, which this one's slope leads to.
		share, ahead := length/6, 0.0
		switch stage % order {
		case 3:
			copy(t.state, t.adjoint) // of the substep's end, as t.adjoint grows
		case 2:
			share, ahead = length/3, length
		case 1:
			share, ahead = length/3, length/2
		case 0:
			ahead = length / 2
		}
		for i, v := range t.state {
			t.weights[i] = share * v
		}
		if ahead != 0 {
			tensor.Axpy(ahead, t.back, t.weights)
		}
		t.stand(stage)
		slopes := t.slopes[stage*many*n : (stage+1)*many*n]
		for i := range t.vary {
			t.before[i] = tensor.DotInOrder(t.weights, slopes[i*n:(i+1)*n])
		}
		if stage == last {
			t.curvature.Pattern = nil
			if t.known != nil && !t.curvature.Exceeds(t.known.second, t.x, t.vary, t.before, t.sizes) {
				t.curvature.Pattern = t.known.second
			}
		}
		t.curvature.Add(t.x, t.vary, t.before, t.sizes, t.along[stage*many*k:(stage+1)*many*k], k, h)
		for i, v := range t.before[:n] {
			t.back[i] = v / Step
			t.adjoint[i] += t.back[i]
		}
		for i, v := range t.before[n:] {
			adjoint[t.vary[n+i]] += v / Step
		}
	}
	tensor.Axpy(1, t.adjoint, adjoint)
}
