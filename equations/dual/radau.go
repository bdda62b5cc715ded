package dual

import (
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/tensor"
)

// Radau IIA of two stages, order 3, L-stable: nodes 1/3 and 1 (Hairer and Wanner, Solving
// Ordinary Differential Equations II, table IV.5.5). Its second stage is the result.
var radau = [2][2]float64{{5. / 12, -1. / 12}, {3. / 4, 1. / 4}}

// Newton's method reuses its factors while each step is at most radauContraction of the previous one. It ends where
// the error is rounding: about the square of a step with factors at its start, relative to 1 + |s|, or that step
// times the last contraction. It gives up after radauIterations.
const (
	radauTolerance   = 1e-9
	radauRounding    = 1e-15
	radauContraction = 0.1
	radauIterations  = 40
	// Damped steps are at most dampedIterations, each at least leastShare of Newton's.
	dampedIterations, leastShare = 100, 1e-15
)

// Stiff is an initial value problem for Radau: ṡ = ODE(s, c, u) with constant c and u. Span is in the ode's unit of
// time; Substeps are equal steps. Auto and Error are those of Explicit. The fields are set once.
type Stiff struct {
	ODE      func(s, c, u, ds []complex128)
	Span     float64
	Substeps int
	Error    float64

	spaces sync.Pool // of *collocation
}

// With is the problem with another ode.
func (p *Stiff) With(ode func(s, c, u, ds []complex128)) *Stiff {
	return &Stiff{ODE: ode, Span: p.Span, Substeps: p.Substeps, Error: p.Error}
}

// solution is the solution of a Stiff at one (s, c, u).
type solution struct {
	m      int       // 2n
	point  []float64 // s, c and u
	solved bool      // valid at point
	stage  []float64 // [Substeps][2][n]
	// matrix is [Substeps][2n][2n], the factors of the stages' equations. Once factored, they are those at the
	// solution.
	matrix    []float64
	pivot     []int // [Substeps][2n]
	factored  bool
	slopes    []float64 // of the ode at every stage by every input, times Step: [Substeps][2][inputs][n]
	columns   []float64 // ∂stage by every input, [inputs][Substeps][2][n]
	hasColumn []bool    // [inputs], of columns and the slopes by c and u
}

// The cache holds sets of two solutions and evicts the older one. A horizon's stages are evaluated in turn, then
// differentiated, then differentiated twice.
const (
	sets = 128
	ways = 2
)

// collocation is the workspace of a Stiff with its last solutions. A solution depends on its s, c and u alone.
type collocation struct {
	n, nc, inputs int
	solutions     [sets][ways]*solution

	point []float64
	x     []complex128 // stage, c and u
	f     []complex128
	r     []float64 // [2n]
	slope []float64 // [n]

}

// Radau is RK4 by an implicit method, for stiff equations. It is Radau IIA of two stages and order
// 3, which is collocation of degree 2 at Radau's points. The stages are solved for by
// Newton's method, whose derivatives are the ode's own: it is the instantiation at
// complex128 whatever T is. The derivative of the result is that of the exact solution of
// the stages. Where Newton's method does not converge, next is NaN.
func Radau[T Scalar](p *Stiff, s, c, u, next []T) {
	w := p.borrow(len(s), len(c), len(u))
	defer p.spaces.Put(w)
	for i, x := range s {
		w.point[i] = Value(x)
	}
	for i, x := range c {
		w.point[w.n+i] = Value(x)
	}
	for i, x := range u {
		w.point[w.n+w.nc+i] = Value(x)
	}
	e := p.find(w)
	if !e.solved {
		tensor.Fill(next, Const[T](math.NaN()))
		return
	}
	end := e.stage[len(e.stage)-w.n:]
	d, ok := any(next).([]complex128)
	if !ok {
		for i, v := range end {
			next[i] = Const[T](v)
		}
		return
	}
	clear(w.slope)
	first := 0
	for _, part := range [3][]T{s, c, u} {
		for i, x := range part {
			if v := imag(any(x).(complex128)); v != 0 {
				column := p.column(w, e, first+i)
				tensor.Axpy(v, column[len(column)-w.n:], w.slope)
			}
		}
		first += len(part)
	}
	for i, v := range end {
		d[i] = complex(v, w.slope[i])
	}
}

// borrow returns a workspace for n states, nc entries of c and nu of u.
func (p *Stiff) borrow(n, nc, nu int) *collocation {
	if w, ok := p.spaces.Get().(*collocation); ok && w.n == n && w.nc == nc && w.inputs == n+nc+nu {
		return w
	}
	w := &collocation{n: n, nc: nc, inputs: n + nc + nu}
	w.point, w.x, w.f = make([]float64, w.inputs), make([]complex128, w.inputs), make([]complex128, n)
	w.r, w.slope = make([]float64, 2*n), make([]float64, n)
	return w
}

// find returns the solution at w.point, from the cache where that has the same bits.
func (p *Stiff) find(w *collocation) *solution {
	hash := uint64(0)
	for _, v := range w.point {
		hash = (hash ^ math.Float64bits(v)) * 0x9e3779b97f4a7c15
		hash ^= hash >> 32
	}
	set := &w.solutions[hash%sets]
	for i, e := range set {
		if e != nil && tensor.SameBits(e.point, w.point) {
			set[0], set[i] = e, set[0]
			return e
		}
	}
	set[0], set[ways-1] = set[ways-1], set[0]
	if set[0] == nil {
		m, stages := 2*w.n, 2*w.n*p.Substeps
		set[0] = &solution{
			m: m, point: make([]float64, w.inputs), stage: make([]float64, stages), matrix: make([]float64, stages*m), pivot: make([]int, stages),
			slopes: make([]float64, stages*w.inputs), columns: make([]float64, stages*w.inputs), hasColumn: make([]bool, w.inputs),
		}
	}
	e := set[0]
	copy(e.point, w.point)
	clear(e.hasColumn)
	e.factored = false
	e.solved = p.solve(w, e)
	return e
}

// views are the stages, the matrix and the pivots of a substep.
func (e *solution) views(substep int) (stage, matrix []float64, pivot []int) {
	m := e.m
	return e.stage[substep*m : (substep+1)*m], e.matrix[substep*m*m : (substep+1)*m*m], e.pivot[substep*m : (substep+1)*m]
}

// slope views the ode's derivatives at a stage by an input.
func (e *solution) slope(w *collocation, substep, stage, input int) []float64 {
	first := ((2*substep+stage)*w.inputs + input) * w.n
	return e.slopes[first : first+w.n]
}

// setInputs writes a solution's c and u into w.x.
func (p *Stiff) setInputs(w *collocation, e *solution) {
	for i, v := range e.point[w.n:] {
		w.x[w.n+i] = complex(v, 0)
	}
}

// setStage writes a stage into w.x.
func (w *collocation) setStage(stage []float64) {
	for i, v := range stage {
		w.x[i] = complex(v, 0)
	}
}

// solve finds the stages at e.point; false where Newton's method does not converge.
func (p *Stiff) solve(w *collocation, e *solution) bool {
	n := w.n
	p.setInputs(w, e)
	state := e.point[:n]
	for substep := range p.Substeps {
		if !p.solveStages(w, e, substep, state) && !p.damp(w, e, substep, state, false) && !p.damp(w, e, substep, state, true) {
			return false
		}
		stage, _, _ := e.views(substep)
		state = stage[n:]
	}
	return true
}

// solveStages solves a substep's equations from the state at its beginning.
func (p *Stiff) solveStages(w *collocation, e *solution, substep int, state []float64) bool {
	stage, matrix, pivot := e.views(substep)
	copy(stage, state)
	copy(stage[w.n:], state)
	if !p.newton(w, e, substep, true) {
		return false
	}
	fresh, previousSize := true, 0.0
	for range radauIterations {
		for i := range w.r {
			w.r[i] += state[i%w.n] - stage[i]
		}
		substitute(matrix, pivot, w.r)
		size := 0.0
		for i, d := range w.r {
			// NaN stays.
			if v := math.Abs(d) / (1 + math.Abs(stage[i]+d)); !(v <= size) && size == size {
				size = v
			}
		}
		if !fresh && !(size <= radauContraction*previousSize) {
			if fresh = true; !p.newton(w, e, substep, false) {
				return false
			}
			continue
		}
		if math.IsNaN(size) {
			return false
		}
		for i, d := range w.r {
			stage[i] += d
		}
		if fresh && size <= radauTolerance || !fresh && size*size <= radauRounding*previousSize {
			return true
		}
		fresh, previousSize = false, size
		p.increments(w, stage)
	}
	return false
}

// damp solves a substep's equations where full steps of Newton's method do not end, as between both sides of a corner. Each
// is halved until the residual is smaller, or with natural the step that would follow with the same factors.
func (p *Stiff) damp(w *collocation, e *solution, substep int, state []float64, natural bool) bool {
	stage, matrix, pivot := e.views(substep)
	start, step := slices.Concat(state, state), make([]float64, len(stage))
	last := slices.Clone(start)
	norm := func(v []float64) (size float64) {
		for i, x := range v {
			size += math.Abs(x) / (1 + math.Abs(last[i]))
		}
		return size
	}
	// measure is the norm that is to fall; it leaves the next step in w.r.
	measure := func() float64 {
		for i, s := range start {
			w.r[i] += s - stage[i]
		}
		size := norm(w.r)
		if substitute(matrix, pivot, w.r); natural {
			size = norm(w.r)
		}
		return size
	}
	copy(stage, start)
	for range dampedIterations {
		copy(last, stage)
		if !p.newton(w, e, substep, false) {
			return false
		}
		size := measure()
		copy(step, w.r)
		for share := 1.0; ; share /= 2 {
			for i, d := range step {
				stage[i] = last[i] + share*d
			}
			if norm(step) <= radauTolerance {
				return true
			}
			if p.increments(w, stage); measure() < size {
				break
			}
			if share < leastShare || math.IsNaN(size) {
				return false
			}
		}
	}
	return false
}

// increments writes the stages' increments into w.r.
func (p *Stiff) increments(w *collocation, stage []float64) {
	n, h := w.n, p.Span/float64(p.Substeps)
	clear(w.r)
	for j := range 2 {
		w.setStage(stage[j*n : (j+1)*n])
		p.ODE(w.x[:n], w.x[n:n+w.nc], w.x[n+w.nc:], w.f)
		w.addIncrement(j, h)
	}
}

// addIncrement adds the ode at stage j, in w.f, to the increments.
func (w *collocation) addIncrement(j int, h float64) {
	for i, v := range w.f {
		w.r[i] += h * radau[0][j] * real(v)
		w.r[w.n+i] += h * radau[1][j] * real(v)
	}
}

// newton writes the factored matrix of a substep's equations at its stages, and the increments into w.r. It returns
// false where the matrix is singular. equalStages: both stages are equal.
func (p *Stiff) newton(w *collocation, e *solution, substep int, equalStages bool) bool {
	stage, matrix, pivot := e.views(substep)
	n, m, h := w.n, len(w.r), p.Span/float64(p.Substeps)
	clear(matrix)
	clear(w.r)
	for i := range m {
		matrix[i*m+i] = 1
	}
	for j := range 2 {
		if j == 0 || !equalStages {
			w.setStage(stage[j*n : (j+1)*n])
		}
		for k := range n {
			slope := e.slope(w, substep, j, k)
			if j == 0 || !equalStages {
				p.differentiate(w, k, slope)
			} else {
				copy(slope, e.slope(w, substep, 0, k))
			}
			for i, v := range slope {
				d := h / Step * v
				matrix[i*m+j*n+k] -= radau[0][j] * d
				matrix[(n+i)*m+j*n+k] -= radau[1][j] * d
			}
		}
		w.addIncrement(j, h)
	}
	return factor(matrix, pivot)
}

// differentiate writes the ode's derivatives at w.x by one input, times Step.
func (p *Stiff) differentiate(w *collocation, input int, slope []float64) {
	value := w.x[input]
	w.x[input] = complex(real(value), Step)
	p.ODE(w.x[:w.n], w.x[w.n:w.n+w.nc], w.x[w.n+w.nc:], w.f)
	w.x[input] = value
	for i, v := range w.f {
		slope[i] = imag(v)
	}
}

// column is the derivative of all stages by one input: the solution of their differentiated
// equations. It is not a number where these are singular.
func (p *Stiff) column(w *collocation, e *solution, input int) []float64 {
	n, m, h := w.n, len(w.r), p.Span/float64(p.Substeps)
	column := e.columns[input*len(e.stage) : (input+1)*len(e.stage)]
	if e.hasColumn[input] {
		return column
	}
	e.hasColumn[input] = true
	p.setInputs(w, e)
	for substep := range p.Substeps {
		if !e.factored && !p.newton(w, e, substep, false) {
			fill(e.columns, math.NaN())
			tensor.Fill(e.hasColumn, true)
			break
		}
		stage, matrix, pivot := e.views(substep)
		r := column[substep*m : (substep+1)*m]
		clear(r)
		switch {
		case substep > 0:
			copy(r, column[substep*m-n:substep*m])
			copy(r[n:], r[:n])
		case input < n:
			r[input], r[n+input] = 1, 1
		}
		if input >= n {
			for j := range 2 {
				w.setStage(stage[j*n : (j+1)*n])
				slope := e.slope(w, substep, j, input)
				p.differentiate(w, input, slope)
				for i, v := range slope {
					r[i] += h * radau[0][j] / Step * v
					r[n+i] += h * radau[1][j] / Step * v
				}
			}
		}
		substitute(matrix, pivot, r)
	}
	e.factored = true
	return column
}

func fill(b []float64, v float64) {
	tensor.Fill(b, v)
}
