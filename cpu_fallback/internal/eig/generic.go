package eig

import "math"

// The Go kernels: one lane. They specify the assembly, which runs the same
// statements on every lane at once (with fused multiply-adds, and selects
// instead of branches).

const (
	// negligible is the square of 2⁻³⁰: what is left of a row, relative to a
	// largest entry in [1, 2), below which the row counts as reduced. The
	// perturbation is far below one rounding.
	negligible = 0x1p-60
	// floorE2 keeps 0/0 out of the Sturm recurrence.
	floorE2 = 0x1p-100
	// epsilon is the distance from 1 to the next float32.
	epsilon = 0x1p-23
	// blur is δ of inverse iteration over ‖T‖: a few times the rounding of a
	// tridiagonal factorisation.
	blur = 0x1p-22
	// smallestBlur is δ of a zero matrix.
	smallestBlur = 0x1p-40
	// smallestPivot bounds the square of a pivot from below: far below δ², which
	// keeps the matrix away from singular.
	smallestPivot = 0x1p-100
)

var generic = kernels{
	lanes: 1, pack: func(dst, src []float32, _, count int) { copy(dst[:count], src) }, largest: largestGeneric, scale: scaleGeneric, tridiagonalise: tridiagonaliseGeneric, bound: boundGeneric,
	bisect: bisectGeneric, factor: factorGeneric, solve: solveGeneric, normalise: normaliseGeneric, reflect: reflectGeneric,
}

// largestGeneric finds the bits of the largest magnitude; as integers, Inf and
// then NaN are above every finite number.
func largestGeneric(a []float32, count int, largest []uint32) {
	top := uint32(0)
	for _, v := range a[:count] {
		top = max(top, math.Float32bits(v)&^(1<<31))
	}
	largest[0] = top
}

func scaleGeneric(a []float32, count int, factor []float32) {
	f := factor[0]
	for i := range a[:count] {
		a[i] *= f
	}
}

// tridiagonaliseGeneric reduces the lower triangle of a, last row first. Row i
// is replaced by the reflector u_i (entries 0 to i−1) with c_i = 1/h_i, so that
// T = P_1…P_{n−1} A P_{n−1}…P_1 with P_i = I − c_i·u_i·u_iᵀ. The rank-two update
// of one step is applied while the next step multiplies by the matrix, so the
// triangle crosses the cache once per step.
func tridiagonaliseGeneric(a []float32, n int, d, e, c, work []float32) {
	q, p := work[:n], work[n:2*n]
	clear(q)
	c[0], e[0] = 0, 0
	for i := n - 1; i >= 1; i-- {
		row := a[i*n : i*n+n]
		last := row // the reflector of the step before; none yet: q is 0
		if i < n-1 {
			last = a[(i+1)*n : (i+1)*n+n]
		}
		sigma := float32(0)
		for j := 0; j <= i; j++ {
			row[j] -= last[i]*q[j] + q[i]*last[j]
			if j < i-1 {
				sigma += row[j] * row[j]
			}
		}
		d[i] = row[i]
		x := row[i-1]
		e[i], c[i] = x, 0
		if sigma > negligible {
			beta := -float32(math.Copysign(math.Sqrt(float64(x*x+sigma)), float64(x)))
			row[i-1] = x - beta
			e[i], c[i] = beta, -1/(beta*row[i-1])
		}
		u := row[:i]
		for r := range i {
			ar := a[r*n : r*n+r+1]
			lr, qr, ur := last[r], q[r], u[r]
			sum := float32(0)
			for j := range r {
				v := ar[j] - (lr*q[j] + qr*last[j])
				ar[j] = v
				sum += v * u[j]
				p[j] += v * ur
			}
			v := ar[r] - 2*(lr*qr)
			ar[r] = v
			p[r] = sum + v*ur
		}
		dot := float32(0)
		for j := range i {
			p[j] *= c[i]
			dot += u[j] * p[j]
		}
		dot *= 0.5 * c[i]
		for j := range i {
			p[j] -= dot * u[j]
		}
		q, p = p, q
	}
	d[0] = a[0]
}

// boundGeneric squares the subdiagonal and writes Gershgorin's bounds of the
// spectrum, widened by rounding, and the δ of inverse iteration.
func boundGeneric(d, e []float32, n int, e2, bounds []float32) {
	lo, hi, left := float32(math.Inf(1)), float32(math.Inf(-1)), float32(0)
	for i := range n {
		right := float32(0)
		if i+1 < n {
			right = float32(math.Abs(float64(e[i+1])))
		}
		radius := left + right
		lo, hi = min(lo, d[i]-radius), max(hi, d[i]+radius)
		left = right
		e2[i] = max(e[i]*e[i], floorE2)
	}
	norm := max(-lo, hi)
	bounds[0], bounds[1] = lo-2*epsilon*norm, hi+2*epsilon*norm
	bounds[2] = max(blur*norm, smallestBlur)
}

// bisectGeneric finds the chunk of eigenvalues number rank, rank−1, … in
// ascending order counted from 0, by halving [bounds[0], bounds[1]]: the Sturm
// sequence of T − x has as many negative terms as there are eigenvalues < x.
func bisectGeneric(d, e2 []float32, n, rank, iterations int, bounds, lambda []float32) {
	for j := range chunk {
		lo, hi := bounds[0], bounds[1]
		for range iterations {
			x := 0.5 * (lo + hi)
			count := 0
			q := float32(math.Inf(1))
			for i := range n {
				q = d[i] - x - e2[i]/q
				if math.Signbit(float64(q)) {
					count++
				}
			}
			if count > rank-j {
				hi = x
			} else {
				lo = x
			}
		}
		lambda[j] = 0.5 * (lo + hi)
	}
}

// factorGeneric factors T − λ − iδ with partial pivoting. The eight entries of
// row i of work are the inverse pivot (real, imaginary), the first superdiagonal
// of U (real, imaginary) and the second (it is real), the multiplier (real,
// imaginary) and whether rows i and i+1 were exchanged (0 or all bits).
func factorGeneric(d, e []float32, n int, lambda, bounds, work []float32) {
	x, delta := lambda[0], bounds[2]
	diagR, diagI := d[0]-x, -delta
	superR, superI := float32(0), float32(0)
	if n > 1 {
		superR = e[1]
	}
	for i := range n {
		sub, nextR := float32(0), float32(0)
		nextI, superNext := -delta, float32(0)
		if i+1 < n {
			sub, nextR = e[i+1], d[i+1]-x
		}
		if i+2 < n {
			superNext = e[i+2]
		}
		pR, pI := diagR, diagI
		oR, oI := sub, float32(0)
		uR, uI := superR, superI
		vR, vI := nextR, nextI
		u2, v2, swap := float32(0), superNext, uint32(0)
		if sub*sub > diagR*diagR+diagI*diagI {
			pR, pI = sub, 0
			oR, oI = diagR, diagI
			uR, uI = nextR, nextI
			vR, vI = superR, superI
			u2, v2, swap = superNext, 0, math.MaxUint32
		}
		scale := 1 / max(pR*pR+pI*pI, smallestPivot)
		inR, inI := pR*scale, -(pI * scale)
		mR, mI := oR*inR-oI*inI, oR*inI+oI*inR
		f := work[8*i : 8*i+8]
		f[0], f[1], f[2] = inR, inI, uR
		f[3], f[4], f[5] = uI, u2, mR
		f[6], f[7] = mI, math.Float32frombits(swap)
		diagR, diagI = vR-mR*uR+mI*uI, vI-mR*uI-mI*uR
		superR, superI = v2-mR*u2, -(mI * u2)
	}
}

// solveGeneric replaces y by the imaginary part of (T − λ − iδ)⁻¹y, which is
// δ·((T − λ)² + δ²)⁻¹y. x holds 2n numbers.
func solveGeneric(work []float32, n int, y, x []float32) {
	vR, vI := y[0], float32(0)
	for i := range n - 1 {
		f := work[8*i : 8*i+8]
		nextR, nextI := y[i+1], float32(0)
		if math.Float32bits(f[7]) != 0 {
			vR, nextR = nextR, vR
			vI, nextI = nextI, vI
		}
		x[2*i], x[2*i+1] = vR, vI
		vR, vI = nextR-f[5]*vR+f[6]*vI, nextI-f[5]*vI-f[6]*vR
	}
	x[2*n-2], x[2*n-1] = vR, vI
	r1, i1 := float32(0), float32(0)
	r2, i2 := float32(0), float32(0)
	for i := n - 1; i >= 0; i-- {
		f := work[8*i : 8*i+8]
		wR := x[2*i] - f[4]*r2 - f[2]*r1 + f[3]*i1
		wI := x[2*i+1] - f[4]*i2 - f[2]*i1 - f[3]*r1
		r2, i2 = r1, i1
		r1, i1 = wR*f[0]-wI*f[1], wR*f[1]+wI*f[0]
		y[i] = i1
	}
}

// normaliseGeneric scales y to unit length.
func normaliseGeneric(y []float32, n int) {
	sum := float32(0)
	for _, v := range y[:n] {
		sum += v * v
	}
	f := 1 / float32(math.Sqrt(float64(sum)))
	for i := range y[:n] {
		y[i] *= f
	}
}

// reflectGeneric subtracts c·(uᵀy)·u from y over the first m entries.
func reflectGeneric(u []float32, m int, c, y []float32) {
	dot := float32(0)
	for i := range m {
		dot += u[i] * y[i]
	}
	dot *= c[0]
	for i := range m {
		y[i] -= dot * u[i]
	}
}
