package ocp

import (
	"math"

	"github.com/gpc-engine/gpc/internal/simd/dense"
	"github.com/gpc-engine/gpc/tensor"
)

// riccati solves the equality-constrained quadratic program of one Newton step,
//
//	min  Σ_t ½ wᵀH_t w + h_tᵀw  +  ½ ξ_NᵀP_N ξ_N + p_Nᵀξ_N,   w = (υ_t, ξ_t)
//	s.t. ξ_{t+1} = F_t w + b_t,
//
// by the Riccati recursion, which factors υ's block of each stage: O(N·(nu + nX)³). ξ_0 is fixed, except for its last
// component with lastFree. H_t is given by its lower triangle, [d][d] with d = nu + nX and υ first; F_t is [nX][d].
//
// A blocked stage repeats the previous υ. Its cost-to-go is a quadratic function of (υ, ξ). The first stage of the
// block eliminates υ.
type riccati struct {
	steps, nu, nX, d int
	lastFree         bool
	blocked          []bool // [steps]; the first never is
	// Of each stage: the Cholesky factor of υ's block [nu][nu], and the coupling Y [nX][nu] with feedback
	//
	//	υ = −L⁻ᵀ(l + Yᵀξ).
	//
	// The cost-to-go is ½ξᵀPξ + pᵀξ, [nX][nX] and [nX], for t = 0…N. A blocked stage stores
	//
	//	½(υ, ξ)ᵀ[R Sᵀ; S P](υ, ξ) + (l, p)ᵀ(υ, ξ)
	//
	// instead: the lower triangle of R in place of the factor, and S in place of Y.
	l, y, feedforward, P, p []float64
	product, m, w           []float64
	zeros, coupled          []float64 // zeros, and [S 0] of a blocked stage, [nX][d]
	nextGradient            []float64 // p + P b of the next stage
	negatedY                []float64 // −Yᵀ of a stage, [nu][nX]
	vectors, values         []float64 // [nu][nu] and [nu], of a reflected block
	flops                   int64     // multiply-adds so far
	// P F, Fᵀ(P F) and −Y Yᵀ; a row times P, and a row times F.
	forwardProduct, hessianProduct, schurProduct, rowTimesP, rowTimesF dense.Product
}

func (r *riccati) resize(blocked []bool, nu, nX int, lastFree bool) {
	steps := len(blocked)
	r.steps, r.nu, r.nX = steps, nu, nX
	r.d, r.lastFree, r.blocked = nu+nX, lastFree, blocked
	r.forwardProduct, r.hessianProduct, r.schurProduct = dense.New(nX, nX, r.d), dense.NewTransposed(r.d, nX, r.d).Lower(), dense.New(nX, nu, nX).Within(r.d).Lower()
	r.rowTimesP, r.rowTimesF = dense.New(1, nX, nX), dense.New(1, nX, r.d)
	size(&r.l, steps*nu*nu)
	size(&r.y, steps*nX*nu)
	size(&r.feedforward, steps*nu)
	size(&r.P, (steps+1)*nX*nX)
	size(&r.p, (steps+1)*nX)
	size(&r.product, nX*r.d)
	size(&r.zeros, nX*r.d)
	size(&r.coupled, nX*r.d)
	size(&r.m, r.d*r.d)
	size(&r.negatedY, nu*nX)
	size(&r.w, r.d)
	size(&r.nextGradient, nX)
	size(&r.vectors, nu*nu)
	size(&r.values, nu)
}

// size sets the length of *b to n. It keeps the values, or allocates zeros where the capacity is too small.
func size[T any](b *[]T, n int) {
	if cap(*b) < n {
		*b = make([]T, n)
	}
	*b = (*b)[:n]
}

// factor runs the recursion of the matrices with shift added to the diagonal of H; P holds P_N. It returns false
// where υ's block of a stage is not positive definite: H is then not positive definite on the null space of the
// dynamics, and needs a larger shift. In at most reflections stages, the magnitudes of the block's eigenvalues
// replace them instead.
func (r *riccati) factor(h, f []float64, shift float64, reflections int) bool {
	nu, nX, d := r.nu, r.nX, r.d
	for t := r.steps - 1; t >= 0; t-- {
		next := r.P[(t+1)*nX*nX : (t+2)*nX*nX]
		ft := f[t*nX*d : (t+1)*nX*d]
		blocked := t+1 < r.steps && r.blocked[t+1]
		r.forwardProduct.Sum(r.product, r.coupling(t+1, blocked), next, ft)
		r.hessianProduct.Sum(r.m, h[t*d*d:], ft, r.product)
		if blocked {
			r.addBlocked(t+1, ft)
		}
		if shift != 0 {
			for i := range d {
				r.m[i*d+i] += shift
			}
		}
		r.flops += int64(nX*nX*d + nX*d*(d+1)/2)
		l, y, P := r.l[t*nu*nu:(t+1)*nu*nu], r.y[t*nX*nu:(t+1)*nX*nu], r.P[t*nX*nX:(t+1)*nX*nX]
		if r.blocked[t] {
			r.storeBlocked(l, y, P)
			continue
		}
		if !cholesky(r.m, d, l, nu) {
			if reflections == 0 {
				return false
			}
			reflections--
			r.reflect()
			if !cholesky(r.m, d, l, nu) {
				return false
			}
		}
		for i := range nX {
			yi, mi := y[i*nu:(i+1)*nu], r.m[(nu+i)*d:(nu+i+1)*d]
			for j := range nu {
				yi[j] = (mi[j] - tensor.DotInOrder(l[j*nu:j*nu+j], yi[:j])) / l[j*nu+j]
			}
			for j, v := range yi {
				r.negatedY[j*nX+i] = -v
			}
		}
		r.schurProduct.Sum(P, r.m[min(nu*(d+1), len(r.m)):], y, r.negatedY) // of ξ's block, if any
		mirror(P, nX)
		r.flops += int64(nu*nu*nu/6 + nX*nu*nu/2 + nX*nX*nu/2)
	}
	return !r.lastFree || r.P[nX*nX-1] > 0 && !math.IsInf(r.P[nX*nX-1], 0)
}

// coupling is the matrix that P F is added to: [S 0] of stage t where that is blocked, else zeros.
func (r *riccati) coupling(t int, blocked bool) []float64 {
	if !blocked {
		return r.zeros
	}
	clear(r.coupled)
	for i := range r.nX {
		copy(r.coupled[i*r.d:], r.y[(t*r.nX+i)*r.nu:(t*r.nX+i+1)*r.nu])
	}
	return r.coupled
}

// addBlocked adds the terms R + SᵀF of the blocked stage t to υ's block of the previous stage.
func (r *riccati) addBlocked(t int, ft []float64) {
	nu, nX, d := r.nu, r.nX, r.d
	for i := range nu {
		tensor.Axpy(1, r.l[(t*nu+i)*nu:(t*nu+i)*nu+i+1], r.m[i*d:])
	}
	for k := range nX {
		for i, v := range r.y[(t*nX+k)*nu : (t*nX+k+1)*nu] {
			tensor.Axpy(v, ft[k*d:k*d+i+1], r.m[i*d:])
		}
	}
	r.flops += int64(nX * nu * (nu + 1) / 2)
}

// storeBlocked stores R, S and P of r.m for a blocked stage.
func (r *riccati) storeBlocked(l, y, P []float64) {
	nu, nX, d := r.nu, r.nX, r.d
	for i := range nu {
		copy(l[i*nu:i*nu+i+1], r.m[i*d:])
	}
	for i := range nX {
		row := r.m[(nu+i)*d : (nu+i+1)*d]
		copy(y[i*nu:(i+1)*nu], row)
		copy(P[i*nX:i*nX+i+1], row[nu:])
	}
	mirror(P, nX)
}

// mirror writes the upper triangle of a symmetric [n][n] from the lower one.
func mirror(a []float64, n int) {
	for i := range n {
		for j := range i {
			a[j*n+i] = a[i*n+j]
		}
	}
}

// cholesky factors the leading n×n block of m, in rows of d, into l; false where it is not
// positive definite.
func cholesky(m []float64, d int, l []float64, n int) bool {
	for i := range n {
		for j := range i + 1 {
			v := m[i*d+j] - tensor.DotInOrder(l[i*n:i*n+j], l[j*n:j*n+j])
			if i != j {
				l[i*n+j] = v / l[j*n+j]
				continue
			}
			// The sign of a pivot of rounding errors means nothing.
			if !(v > 1e-14*math.Abs(m[i*d+i])) || math.IsInf(v, 0) {
				return false
			}
			l[i*n+i] = math.Sqrt(v)
		}
	}
	return true
}

// reflect replaces the eigenvalues of υ's block in r.m by their magnitudes.
func (r *riccati) reflect() {
	n, d := r.nu, r.d
	a, q := r.m, r.vectors
	clear(q)
	for i := range n {
		q[i*n+i] = 1
		for j := range i {
			a[j*d+i] = a[i*d+j]
		}
	}
	// Jacobi's rotations, in cyclic order; the block is small.
	for range 30 {
		off, sum := 0.0, 0.0
		for i := range n {
			for j := range n {
				if sum += a[i*d+j] * a[i*d+j]; i != j {
					off += a[i*d+j] * a[i*d+j]
				}
			}
		}
		if !(off > 1e-30*sum) {
			break
		}
		for i := range n {
			for j := range i {
				if a[i*d+j] != 0 {
					rotate(a, d, q, n, i, j)
				}
			}
		}
	}
	for i := range n {
		r.values[i] = math.Abs(a[i*d+i])
	}
	for i := range n {
		for j := range i + 1 {
			sum := 0.0
			for k, v := range r.values {
				sum += v * q[i*n+k] * q[j*n+k]
			}
			a[i*d+j] = sum
		}
	}
}

// rotate makes entry (i, j) of the symmetric a, n×n in rows of d, zero by a rotation, which
// the columns of q, [n][n], follow.
func rotate(a []float64, d int, q []float64, n, i, j int) {
	theta := (a[i*d+i] - a[j*d+j]) / (2 * a[i*d+j])
	tan := math.Copysign(1/(math.Abs(theta)+math.Hypot(theta, 1)), theta)
	cos := 1 / math.Hypot(tan, 1)
	sin := tan * cos
	for k := range n {
		x, y := a[k*d+i], a[k*d+j]
		a[k*d+i], a[k*d+j] = cos*x+sin*y, cos*y-sin*x
	}
	for k := range n {
		x, y := a[i*d+k], a[j*d+k]
		a[i*d+k], a[j*d+k] = cos*x+sin*y, cos*y-sin*x
		x, y = q[k*n+i], q[k*n+j]
		q[k*n+i], q[k*n+j] = cos*x+sin*y, cos*y-sin*x
	}
}

// solve writes the minimiser, w [steps][d] and ξ_N, and the multipliers λ [steps+1][nX] of ξ_t's equation. It takes
// the linear terms h [steps][d] and defects b [steps][nX], with the last factorisation; p holds p_N.
func (r *riccati) solve(h, f, b, w, last, lambda []float64) {
	nu, nX, d := r.nu, r.nX, r.d
	for t := r.steps - 1; t >= 0; t-- {
		next, p := r.P[(t+1)*nX*nX:(t+2)*nX*nX], r.p[(t+1)*nX:(t+2)*nX]
		bt := b[t*nX : (t+1)*nX]
		r.rowTimesP.Sum(r.nextGradient, p, bt, next) // P is symmetric
		r.rowTimesF.Sum(r.w, h[t*d:], r.nextGradient, f[t*nX*d:])
		if t+1 < r.steps && r.blocked[t+1] {
			tensor.Axpy(1, r.feedforward[(t+1)*nu:(t+2)*nu], r.w)
			for k, v := range bt {
				tensor.Axpy(v, r.y[((t+1)*nX+k)*nu:((t+1)*nX+k+1)*nu], r.w)
			}
		}
		if r.blocked[t] {
			copy(r.feedforward[t*nu:], r.w[:nu])
			copy(r.p[t*nX:], r.w[nu:])
			continue
		}
		l, lead := r.l[t*nu*nu:(t+1)*nu*nu], r.feedforward[t*nu:(t+1)*nu]
		for j := range nu {
			lead[j] = (r.w[j] - tensor.DotInOrder(l[j*nu:j*nu+j], lead[:j])) / l[j*nu+j]
		}
		for i := range nX {
			r.p[t*nX+i] = r.w[nu+i] - tensor.DotInOrder(r.y[(t*nX+i)*nu:(t*nX+i+1)*nu], lead)
		}
	}
	xi := w[nu:d]
	clear(xi)
	if r.lastFree {
		xi[nX-1] = -r.p[nX-1] / r.P[nX*nX-1]
	}
	for t := range r.steps {
		wt := w[t*d : (t+1)*d]
		if r.blocked[t] {
			copy(wt[:nu], w[(t-1)*d:])
		} else {
			copy(wt[:nu], r.feedforward[t*nu:(t+1)*nu])
			r.feedback(t, wt[nu:], wt[:nu])
		}
		to := last
		if t+1 < r.steps {
			to = w[(t+1)*d+nu : (t+2)*d]
		}
		for k := range nX {
			to[k] = b[t*nX+k] + tensor.DotInOrder(f[(t*nX+k)*d:(t*nX+k+1)*d], wt)
		}
	}
	for t := range r.steps + 1 {
		xi := last
		if t < r.steps {
			xi = w[t*d+nu : (t+1)*d]
		}
		to := lambda[t*nX : (t+1)*nX]
		r.rowTimesP.Sum(to, r.p[t*nX:], xi, r.P[t*nX*nX:])
		if t < r.steps && r.blocked[t] {
			for i := range to {
				to[i] += tensor.DotInOrder(r.y[(t*nX+i)*nu:(t*nX+i+1)*nu], w[t*d:t*d+nu])
			}
		}
	}
	r.flops += int64(r.steps * (4*nX*d + 2*nX*nX + nu*nu))
}

// feedback replaces υ by −L⁻ᵀ(υ + Yᵀξ) of stage t, which is not blocked.
func (r *riccati) feedback(t int, xi, u []float64) {
	nu, nX := r.nu, r.nX
	for i, v := range xi {
		if v != 0 {
			tensor.Axpy(v, r.y[(t*nX+i)*nu:(t*nX+i+1)*nu], u)
		}
	}
	l := r.l[t*nu*nu : (t+1)*nu*nu]
	for j := nu - 1; j >= 0; j-- {
		v := -u[j]
		for i := j + 1; i < nu; i++ {
			v -= l[i*nu+j] * u[i]
		}
		u[j] = v / l[j*nu+j]
	}
}

// clearFeedback removes the feedback of stage t, which held the terms of a blocked stage.
func (r *riccati) clearFeedback(t, nu, nX int) {
	clear(r.y[t*nX*nu : (t+1)*nX*nu])
	l := r.l[t*nu*nu : (t+1)*nu*nu]
	clear(l)
	for j := range nu {
		l[j*nu+j] = 1
	}
}
