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

// Radau is RK4 by an implicit method, for stiff equations: Radau IIA of two stages and order
// 3, which is collocation of degree 2 at Radau's points. The stages are solved for by
// Newton's method, whose derivatives are the ode's own: it is the instantiation at
// complex128 whatever T is. The derivative of the result is that of the exact solution of
// the stages. Where Newton's method does not converge, next is NaN.
func Radau[T Scalar](ode func(s, c, u, ds []complex128), s, c, u, next []T, span float64, substeps int) {
	n, m := len(s), 2*len(s)
	pool, lent := borrow[complex128](2*n + 2*(len(c)+len(u)))
	defer pool.Put(lent)
	work := *lent
	cut := func(n int) (part []complex128) { part, work = work[:n], work[n:]; return part }
	y, f := cut(n), cut(n)
	held := [2][2][]complex128{{cut(len(c)), cut(len(u))}, {cut(len(c)), cut(len(u))}} // without their derivatives, and with
	for i, v := range [2][]T{c, u} {
		for j, x := range v {
			held[0][i][j], held[1][i][j] = complex(Value(x), 0), complexOf(x)
		}
	}
	reals, lentReals := borrow[float64](m*m + 2*m + n)
	defer reals.Put(lentReals)
	a, rest := (*lentReals)[:m*m], (*lentReals)[m*m:]
	stage, r, from := rest[:m], rest[m:2*m], rest[2*m:]
	h := span / float64(substeps)

	// newton writes the matrix of the stages' equations, and the residual negated.
	newton := func() {
		clear(a)
		for i := range m {
			a[i*m+i], r[i] = 1, from[i%n]-stage[i]
		}
		for j := range 2 {
			for k, v := range stage[j*n : (j+1)*n] {
				y[k] = complex(v, 0)
			}
			for k := range n {
				y[k] = complex(real(y[k]), Step)
				ode(y, held[0][0], held[0][1], f)
				y[k] = complex(real(y[k]), 0)
				for i, v := range f {
					d := h * Derivative(v)
					a[i*m+j*n+k] -= radau[0][j] * d
					a[(n+i)*m+j*n+k] -= radau[1][j] * d
				}
			}
			for i, v := range f {
				r[i] += h * radau[0][j] * real(v)
				r[n+i] += h * radau[1][j] * real(v)
			}
		}
	}
	copy(next, s)
	for range substeps {
		varies := false
		for i, v := range next {
			from[i], stage[i], stage[n+i] = Value(v), Value(v), Value(v)
		}
		converged := false
		for range radauIterations {
			newton()
			if !solve(a, r, m) {
				break
			}
			size := 0.0
			for i, d := range r {
				stage[i] += d
				size = math.Max(size, math.Abs(d)/(1+math.Abs(stage[i])))
			}
			if converged = size <= radauTolerance; converged || math.IsNaN(size) {
				break
			}
		}
		if !converged {
			for i := range next {
				next[i] = Const[T](math.NaN())
			}
			return
		}
		if _, ok := any(T(0)).(complex128); !ok {
			for i := range next {
				next[i] = Const[T](stage[n+i])
			}
			continue
		}
		// One more step, of the derivatives alone: they follow from linear equations.
		newton()
		for i, v := range next {
			d := Derivative(complexOf(v))
			r[i], r[n+i] = d, d
			varies = varies || d != 0
		}
		for j := range 2 {
			for k, v := range stage[j*n : (j+1)*n] {
				y[k] = complex(v, 0)
			}
			ode(y, held[1][0], held[1][1], f)
			for i, v := range f {
				d := h * Derivative(v)
				r[i] += radau[0][j] * d
				r[n+i] += radau[1][j] * d
				varies = varies || d != 0
			}
		}
		if varies {
			solve(a, r, m)
		}
		for i := range next {
			next[i] = any(Seed(stage[n+i], r[n+i])).(T)
		}
	}
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

// solve overwrites b with a⁻¹b, [n], and a, [n][n], by elimination with row pivots. It
// reports whether a is regular.
func solve(a, b []float64, n int) bool {
	for k := range n {
		at := k
		for i := k + 1; i < n; i++ {
			if math.Abs(a[i*n+k]) > math.Abs(a[at*n+k]) {
				at = i
			}
		}
		pivot := a[at*n+k]
		if pivot == 0 || math.IsNaN(pivot) {
			return false
		}
		if at != k {
			for j := k; j < n; j++ {
				a[at*n+j], a[k*n+j] = a[k*n+j], a[at*n+j]
			}
			b[at], b[k] = b[k], b[at]
		}
		top := a[k*n+k+1 : k*n+n]
		for i := k + 1; i < n; i++ {
			q := a[i*n+k] / pivot
			if q == 0 {
				continue
			}
			for j, v := range top {
				a[i*n+k+1+j] -= q * v
			}
			b[i] -= q * b[k]
		}
	}
	for k := n - 1; k >= 0; k-- {
		for j := k + 1; j < n; j++ {
			b[k] -= a[k*n+j] * b[j]
		}
		b[k] /= a[k*n+k]
	}
	return true
}
