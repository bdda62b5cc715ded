package dual

import (
	"math"
	"sync"
)

// scratch lends slices, so that an integrator neither allocates nor limits the sizes.
var scratch = [2]sync.Pool{
	{New: func() any { return new([]float64) }},
	{New: func() any { return new([]complex128) }},
}

// borrow lends n numbers of undefined content. Give the pointer back to the pool.
func borrow[T Scalar](n int) (pool *sync.Pool, lent *[]T) {
	pool = &scratch[0]
	if _, ok := any(T(0)).(complex128); ok {
		pool = &scratch[1]
	}
	lent = pool.Get().(*[]T)
	if cap(*lent) < n {
		*lent = make([]T, n)
	}
	*lent = (*lent)[:n]
	return pool, lent
}

// RK4 writes into next the state that ṡ = ode(s, c, u) leads to from s after
// span, in the unit of time of the ode, with c and u held, in substeps equal steps of the classical Runge–Kutta method
// of order 4. next does not overlap s.
func RK4[T Scalar](ode func(s, c, u, ds []T), s, c, u, next []T, span float64, substeps int) {
	n := len(s)
	pool, lent := borrow[T](3 * n)
	defer pool.Put(lent)
	at, slope, sum := (*lent)[:n], (*lent)[n:2*n], (*lent)[2*n:]
	length := span / float64(substeps)
	h, half, sixth := Const[T](length), Const[T](length/2), Const[T](length/6)
	copy(next, s)
	for range substeps {
		ode(next, c, u, slope)
		for i, k := range slope {
			sum[i], at[i] = k, next[i]+half*k
		}
		ode(at, c, u, slope)
		for i, k := range slope {
			sum[i], at[i] = sum[i]+2*k, next[i]+half*k
		}
		ode(at, c, u, slope)
		for i, k := range slope {
			sum[i], at[i] = sum[i]+2*k, next[i]+h*k
		}
		ode(at, c, u, slope)
		for i, k := range slope {
			next[i] += sixth * (sum[i] + k)
		}
	}
}

// Radau IIA of two stages, order 3, L-stable: nodes 1/3 and 1 (Hairer and Wanner, Solving
// Ordinary Differential Equations II, table IV.5.5). Its second stage is the result.
var radau = [2][2]float64{{5. / 12, -1. / 12}, {3. / 4, 1. / 4}}

// Newton's method ends after a step of radauTolerance relative to 1 + |s|, the error being
// about its square then, and gives up after radauIterations.
const (
	radauTolerance  = 1e-9
	radauIterations = 20
)

// Stiff is an initial value problem for Radau: ṡ = ODE(s, c, u) with c and u held, over
// Span in the unit of time of the ode, in Substeps equal steps. The fields are set once.
type Stiff struct {
	ODE      func(s, c, u, ds []complex128)
	Span     float64
	Substeps int

	last sync.Pool // *collocation
}

// collocation is the solution of a Stiff at some s, c and u. What does not depend on the
// direction of a derivative is kept for the next one: a Jacobian is asked for column by
// column.
type collocation struct {
	at     []float64 // s, c and u
	solved bool      // at them
	stage  []float64 // [Substeps][2][n]
	// matrix is [Substeps][2n][2n], that of the stages' equations in factors once factored.
	matrix   []float64
	pivot    []int // [Substeps][2n]
	factored bool

	y, f, c, u []complex128
	dc, du     []complex128 // c and u with their direction
	r          []float64    // [2n]
}

// Radau is RK4 by an implicit method, for stiff equations: Radau IIA of two stages and order
// 3, which is collocation of degree 2 at Radau's points. The stages are solved for by
// Newton's method, whose derivatives are the ode's own: it is the instantiation at
// complex128 whatever T is. The derivative of the result is that of the exact solution of
// the stages. Where Newton's method does not converge, next is NaN.
func Radau[T Scalar](p *Stiff, s, c, u, next []T) {
	w, ok := p.last.Get().(*collocation)
	if !ok {
		w = new(collocation)
	}
	defer p.last.Put(w)
	if !at(w, s, c, u) {
		w.size(p.Substeps, len(s))
		w.solved, w.factored = p.solve(w), false
	}
	n := len(s)
	if !w.solved {
		for i := range next {
			next[i] = Const[T](math.NaN())
		}
		return
	}
	end := w.stage[len(w.stage)-n:]
	d, ok := any(next).([]complex128)
	if !ok {
		for i, v := range end {
			next[i] = Const[T](v)
		}
		return
	}
	for i, v := range s {
		d[i] = complexOf(v)
	}
	for i, v := range c {
		w.dc[i] = complexOf(v)
	}
	for i, v := range u {
		w.du[i] = complexOf(v)
	}
	p.differentiate(w, d)
}

// at reports whether w is at s, c and u to the bit, and brings it there.
func at[T Scalar](w *collocation, s, c, u []T) bool {
	same := len(w.at) == len(s)+len(c)+len(u) && len(w.c) == len(c) && len(w.u) == len(u)
	if !same {
		w.at = make([]float64, len(s)+len(c)+len(u))
		w.c, w.u = make([]complex128, len(c)), make([]complex128, len(u))
		w.dc, w.du = make([]complex128, len(c)), make([]complex128, len(u))
	}
	to := w.at
	for _, part := range [3][]T{s, c, u} {
		for i, x := range part {
			v := Value(x)
			same = same && math.Float64bits(to[i]) == math.Float64bits(v)
			to[i] = v
		}
		to = to[len(part):]
	}
	return same
}

// size makes room for so many substeps of n states.
func (w *collocation) size(substeps, n int) {
	if len(w.y) == n {
		return
	}
	m := 2 * n
	w.y, w.f, w.r = make([]complex128, n), make([]complex128, n), make([]float64, m)
	w.stage, w.matrix, w.pivot = make([]float64, substeps*m), make([]float64, substeps*m*m), make([]int, substeps*m)
}

// part is what w has of a substep: its stages, the matrix of their equations, and its pivots.
func (w *collocation) part(substep int) (stage, matrix []float64, pivot []int) {
	m := len(w.r)
	return w.stage[substep*m : (substep+1)*m], w.matrix[substep*m*m : (substep+1)*m*m], w.pivot[substep*m : (substep+1)*m]
}

// solve finds the stages at w.at, and reports whether Newton's method converged.
func (p *Stiff) solve(w *collocation) bool {
	n := len(w.y)
	for i := range w.c {
		w.c[i] = complex(w.at[n+i], 0)
	}
	for i := range w.u {
		w.u[i] = complex(w.at[n+len(w.c)+i], 0)
	}
	from := w.at[:n]
	for substep := range p.Substeps {
		stage, matrix, pivot := w.part(substep)
		copy(stage, from)
		copy(stage[n:], from)
		converged := false
		for range radauIterations {
			p.newton(w, stage, matrix)
			for i := range w.r {
				w.r[i] += from[i%n] - stage[i]
			}
			if !factor(matrix, pivot) {
				return false
			}
			substitute(matrix, pivot, w.r)
			size := 0.0
			for i, d := range w.r {
				stage[i] += d
				size = math.Max(size, math.Abs(d)/(1+math.Abs(stage[i])))
			}
			if math.IsNaN(size) {
				return false
			}
			if converged = size <= radauTolerance; converged {
				break
			}
		}
		if !converged {
			return false
		}
		from = stage[n:]
	}
	return true
}

// newton writes the matrix of the stages' equations at them, and the stages' increments
// into w.r.
func (p *Stiff) newton(w *collocation, stage, matrix []float64) {
	n, m, h := len(w.y), len(w.r), p.Span/float64(p.Substeps)
	clear(matrix)
	clear(w.r)
	for i := range m {
		matrix[i*m+i] = 1
	}
	for j := range 2 {
		for k, v := range stage[j*n : (j+1)*n] {
			w.y[k] = complex(v, 0)
		}
		for k := range n {
			w.y[k] = complex(real(w.y[k]), Step)
			p.ODE(w.y, w.c, w.u, w.f)
			w.y[k] = complex(real(w.y[k]), 0)
			for i, v := range w.f {
				d := h * Derivative(v)
				matrix[i*m+j*n+k] -= radau[0][j] * d
				matrix[(n+i)*m+j*n+k] -= radau[1][j] * d
			}
		}
		for i, v := range w.f {
			w.r[i] += h * radau[0][j] * real(v)
			w.r[n+i] += h * radau[1][j] * real(v)
		}
	}
}

// differentiate takes d from the state before to the one after, in its direction and those
// of dc and du: the stages' derivatives follow from linear equations.
func (p *Stiff) differentiate(w *collocation, d []complex128) {
	n, h := len(d), p.Span/float64(p.Substeps)
	for substep := range p.Substeps {
		stage, matrix, pivot := w.part(substep)
		if !w.factored {
			p.newton(w, stage, matrix)
			if !factor(matrix, pivot) {
				for i := range d {
					d[i] = complex(math.NaN(), 0)
				}
				return
			}
		}
		for i, v := range d {
			w.r[i], w.r[n+i] = Derivative(v), Derivative(v)
		}
		for j := range 2 {
			for k, v := range stage[j*n : (j+1)*n] {
				w.y[k] = complex(v, 0)
			}
			p.ODE(w.y, w.dc, w.du, w.f)
			for i, v := range w.f {
				w.r[i] += h * radau[0][j] * Derivative(v)
				w.r[n+i] += h * radau[1][j] * Derivative(v)
			}
		}
		substitute(matrix, pivot, w.r)
		for i := range d {
			d[i] = Seed(stage[n+i], w.r[n+i])
		}
	}
	w.factored = true
}

// complexOf is x as a dual number.
func complexOf[T Scalar](x T) complex128 {
	switch x := any(x).(type) {
	case complex128:
		return x
	default:
		return complex(x.(float64), 0)
	}
}

// factor overwrites a, [n][n] for n pivots, with its factors by elimination with row pivots:
// step k exchanged rows k and pivot[k]. It reports whether a is regular.
func factor(a []float64, pivot []int) bool {
	n := len(pivot)
	for k := range n {
		at := k
		for i := k + 1; i < n; i++ {
			if math.Abs(a[i*n+k]) > math.Abs(a[at*n+k]) {
				at = i
			}
		}
		pivot[k] = at
		if v := a[at*n+k]; v == 0 || math.IsNaN(v) {
			return false
		}
		if at != k {
			for j := range n {
				a[at*n+j], a[k*n+j] = a[k*n+j], a[at*n+j]
			}
		}
		top := a[k*n+k+1 : k*n+n]
		for i := k + 1; i < n; i++ {
			q := a[i*n+k] / a[k*n+k]
			a[i*n+k] = q
			if q == 0 {
				continue
			}
			for j, v := range top {
				a[i*n+k+1+j] -= q * v
			}
		}
	}
	return true
}

// substitute overwrites b, [n], with the solution of the equations that factor has factored.
func substitute(a []float64, pivot []int, b []float64) {
	n := len(b)
	for k, at := range pivot {
		b[k], b[at] = b[at], b[k]
	}
	for i := range n {
		for j, v := range a[i*n : i*n+i] {
			b[i] -= v * b[j]
		}
	}
	for i := n - 1; i >= 0; i-- {
		for j := i + 1; j < n; j++ {
			b[i] -= a[i*n+j] * b[j]
		}
		b[i] /= a[i*n+i]
	}
}
