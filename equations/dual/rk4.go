package dual

import "sync"

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

// RK4 integrates ṡ = ode(s, c, u) from s over span, in the ode's unit of time, and writes the state into next. c and
// u are constant. It takes substeps equal steps of the classical Runge–Kutta method of order 4. next does not overlap
// s.
func RK4[T Scalar](ode func(s, c, u, ds []T), s, c, u, next []T, span float64, substeps int) {
	n := len(s)
	pool, lent := borrow[T](3 * n)
	defer pool.Put(lent)
	point, slope, sum := (*lent)[:n], (*lent)[n:2*n], (*lent)[2*n:]
	length := span / float64(substeps)
	h, half, sixth := Const[T](length), Const[T](length/2), Const[T](length/6)
	copy(next, s)
	for range substeps {
		ode(next, c, u, slope)
		for i, k := range slope {
			sum[i], point[i] = k, next[i]+half*k
		}
		ode(point, c, u, slope)
		for i, k := range slope {
			sum[i], point[i] = sum[i]+2*k, next[i]+half*k
		}
		ode(point, c, u, slope)
		for i, k := range slope {
			sum[i], point[i] = sum[i]+2*k, next[i]+h*k
		}
		ode(point, c, u, slope)
		for i, k := range slope {
			next[i] += sixth * (sum[i] + k)
		}
	}
}
