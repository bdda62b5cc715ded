package cpufallback

import "math"

// lieTurn computes Lie residuals in the top-k eigenframe of one latent; it owns
// the scratch. Package ref specifies it (LieResidual, Rotate, Rodrigues).
type lieTurn struct {
	local, angle, turned []float64
}

func newLieTurn(k int) lieTurn {
	return lieTurn{make([]float64, k), make([]float64, k), make([]float64, k)}
}

// residual writes Δz_Lie = B [Rot(Bᵀ step; ω) − Bᵀ step] with ω = scale (Bᵀ slope)
// ⊘ √Λ (eq. iclr-lie-residual): vectors is B, row-major n×k, values its k
// eigenvalues. What is not finite stays so; the caller guards it.
func (l lieTurn) residual(dst, step, slope, vectors, values []float32, scale float32) {
	k := len(values)
	clear(l.local)
	clear(l.angle)
	for i, s := range step {
		for j, b := range vectors[i*k : (i+1)*k] {
			l.local[j] += float64(s) * float64(b)
			l.angle[j] += float64(slope[i]) * float64(b)
		}
	}
	for j, v := range values {
		l.angle[j] *= float64(scale) / math.Sqrt(float64(v))
	}
	l.rotate()
	for j, v := range l.local {
		l.turned[j] -= v
	}
	for i := range dst {
		sum := 0.0
		for j, b := range vectors[i*k : (i+1)*k] {
			sum += float64(b) * l.turned[j]
		}
		dst[i] = float32(sum)
	}
}

// rotate writes local, turned by angle, to turned: blocks of three by Rodrigues'
// formula, a block of two in its plane by its first component, a block of one
// not at all.
func (l lieTurn) rotate() {
	copy(l.turned, l.local)
	i := 0
	for ; i+3 <= len(l.local); i += 3 {
		w, v, out := l.angle[i:i+3], l.local[i:i+3], l.turned[i:i+3]
		square := w[0]*w[0] + w[1]*w[1] + w[2]*w[2]
		theta := math.Sqrt(square)
		// sin θ/θ and (1 − cos θ)/θ²; Taylor where the quotients cancel.
		sinc, cosc := 1-square/6+square*square/120, 0.5-square/24+square*square/720
		if theta >= 1e-3 {
			sinc = math.Sin(theta) / theta
			half := math.Sin(theta/2) / theta
			cosc = 2 * half * half
		}
		c, dot := math.Cos(theta), w[0]*v[0]+w[1]*v[1]+w[2]*v[2]
		out[0] = c*v[0] + sinc*(w[1]*v[2]-w[2]*v[1]) + cosc*dot*w[0]
		out[1] = c*v[1] + sinc*(w[2]*v[0]-w[0]*v[2]) + cosc*dot*w[1]
		out[2] = c*v[2] + sinc*(w[0]*v[1]-w[1]*v[0]) + cosc*dot*w[2]
	}
	if i+2 == len(l.local) {
		sin, cos := math.Sincos(l.angle[i])
		v := l.local[i : i+2]
		l.turned[i], l.turned[i+1] = cos*v[0]-sin*v[1], sin*v[0]+cos*v[1]
	}
}
