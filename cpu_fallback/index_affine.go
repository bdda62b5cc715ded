package cpufallback

import "math"

// MaxNeighbours is the largest number of codes of an affine projection.
const MaxNeighbours = 32

// affineRidge weighs ‖w‖² relative to the mean squared distance of the codes, so
// that the weights are unique when codes are affinely dependent.
const affineRidge = 1e-6

// affineProjection is the workspace of affine projections of one goroutine.
type affineProjection struct {
	offsets []float64 // [k][n] z_j − q
	gram    [MaxNeighbours * MaxNeighbours]float64
	weights [MaxNeighbours]float64
	sum     []float64 // [n]
}

func newAffineProjection(n int) *affineProjection {
	return &affineProjection{offsets: make([]float64, MaxNeighbours*n), sum: make([]float64, n)}
}

// affine writes to out the projection of q onto the affine hull of the k codes
// z_0 … z_{k−1}, code(j) being z_j: Σ_j w_j z_j with the weights that minimise
//
//	‖q − Σ_j w_j z_j‖² + r·‖w‖²   subject to   Σ_j w_j = 1.
//
// On that constraint q − Σ w_j z_j = −Σ w_j (z_j − q), so with the Gram matrix
// G_ij = ⟨z_i − q, z_j − q⟩ the solution is
//
//	w = y / Σ_j y_j,   (G + r·I) y = 1,   r = 1e-6·trace(G)/k,
//
// the weights of locally linear embedding (Saul and Roweis 2003), solved by
// Cholesky in float64. One code, a factorisation that fails (every code equal to
// q) or a result that is not finite in float32 gives z_0 itself. It reports whether out is a
// projection. q and out may be the same.
func (p *affineProjection) affine(q []float32, k int, code func(j int) []float32, out []float32) bool {
	n := len(q)
	if k > 1 && p.solve(q, k, code) {
		sum := p.sum[:n]
		clear(sum)
		for j, w := range p.weights[:k] {
			for c, v := range code(j) {
				sum[c] += w * float64(v)
			}
		}
		finite := true
		for _, v := range sum {
			finite = finite && math.Abs(v) <= math.MaxFloat32
		}
		if finite {
			for c, v := range sum {
				out[c] = float32(v)
			}
			return true
		}
	}
	copy(out, code(0))
	return false
}

// solve finds the weights.
func (p *affineProjection) solve(q []float32, k int, code func(j int) []float32) bool {
	n := len(q)
	for j := range k {
		o := p.offsets[j*n:][:n]
		for c, v := range code(j) {
			o[c] = float64(v) - float64(q[c])
		}
	}
	trace := 0.0
	for i := range k {
		a := p.offsets[i*n:][:n]
		for j := range i + 1 {
			b := p.offsets[j*n:][:n]
			var evenSum, oddSum float64 // two sums hide the latency of one
			c := 0
			for ; c+1 < n; c += 2 {
				evenSum += a[c] * b[c]
				oddSum += a[c+1] * b[c+1]
			}
			if c < n {
				evenSum += a[c] * b[c]
			}
			p.gram[i*k+j] = evenSum + oddSum
		}
		trace += p.gram[i*k+i]
	}
	ridge := affineRidge * trace / float64(k)
	g := p.gram[:k*k]
	w := p.weights[:k]
	// Cholesky factor in place, with the forward substitution of L·t = 1.
	for i := range k {
		g[i*k+i] += ridge
		t := 1.0
		for j := range i {
			s := g[i*k+j]
			for c := range j {
				s -= g[i*k+c] * g[j*k+c]
			}
			s /= g[j*k+j]
			g[i*k+j] = s
			g[i*k+i] -= s * s
			t -= s * w[j]
		}
		if !(g[i*k+i] > 0) {
			return false
		}
		g[i*k+i] = math.Sqrt(g[i*k+i])
		w[i] = t / g[i*k+i]
	}
	total := 0.0
	for i := k - 1; i >= 0; i-- {
		for j := i + 1; j < k; j++ {
			w[i] -= g[j*k+i] * w[j]
		}
		w[i] /= g[i*k+i]
		total += w[i]
	}
	for i := range w {
		w[i] /= total
	}
	return true
}
