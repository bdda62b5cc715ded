package training

import (
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
)

// AdamUpdate makes update number t (from 1) of Kingma and Ba's Adam, in place:
//
//	m ← β₁ m + (1−β₁) g
//	v ← β₂ v + (1−β₂) g²
//	w ← w − lr · (m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + ε)
//
// with ε outside the root.
func AdamUpdate(w, g, m, v []float64, t int64, lr float64, a backend.Adam) {
	b1, b2, eps := float64(a.Beta1), float64(a.Beta2), float64(a.Epsilon)
	c1, c2 := 1-math.Pow(b1, float64(t)), 1-math.Pow(b2, float64(t))
	for i := range w {
		m[i] = b1*m[i] + (1-b1)*g[i]
		v[i] = b2*v[i] + (1-b2)*g[i]*g[i]
		w[i] -= lr * (m[i] / c1) / (math.Sqrt(v[i]/c2) + eps)
	}
}

// PowerStart is the start of a layer's power iteration: the unit vector with
// equal entries, one per output.
func PowerStart(out int) []float64 {
	u := make([]float64, out)
	for i := range u {
		u[i] = 1 / math.Sqrt(float64(out))
	}
	return u
}

// SpectralBound makes one power iteration on W with its persistent left vector
// u, in place, and scales W so that the estimate of its spectral norm is at most
// bound. The estimate is returned:
//
//	v = Wᵀu/‖Wᵀu‖,  u ← Wv/‖Wv‖,  σ = ‖Wv‖,  W ← W · bound/σ if σ > bound
//
// If Wᵀu = 0 or Wv = 0 the estimate is 0 and u is left. Biases are not scaled.
// It runs after the Adam update of the same step.
func SpectralBound(layer ref.Layer, u []float64, bound float64) float64 {
	v := make([]float64, layer.In)
	for o, c := range u {
		axpy(v, c, layer.W[o*layer.In:(o+1)*layer.In])
	}
	length := norm(v)
	if length == 0 {
		return 0
	}
	for i := range v {
		v[i] /= length
	}
	wv := make([]float64, layer.Out)
	for o := range wv {
		wv[o] = dot(layer.W[o*layer.In:(o+1)*layer.In], v)
	}
	sigma := norm(wv)
	if sigma == 0 {
		return 0
	}
	for o := range u {
		u[o] = wv[o] / sigma
	}
	if sigma > bound {
		for i := range layer.W {
			layer.W[i] *= bound / sigma
		}
	}
	return sigma
}
