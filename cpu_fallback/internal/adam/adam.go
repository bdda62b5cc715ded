// Package adam is the update of Kingma and Ba, "Adam: A Method for Stochastic Optimization"
// (2015), of many parameters at once. internal/testing/training.AdamUpdate is its specification.
package adam

import (
	"math"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// Factors are the constants of one update, common to all parameters.
type Factors struct {
	Beta1, Beta2, Rest1, Rest2 float32 // β and 1 − β
	Rate                       float32 // lr / (1 − β₁ᵗ)
	Second                     float32 // 1 / (1 − β₂ᵗ)
	Epsilon                    float32
}

// Moments below these are zero. Those of a unit that has become inactive decay for ever, and
// numbers below 2⁻¹²⁶ cost an Intel core some 150 cycles an operation; a step of one
// is below 1e-22 of the rate.
const (
	leastFirst  = 1e-30
	leastSecond = 1e-37
)

// Update makes one update of the parameters w by the gradients g, with the moments m and v, all
// of one length. The bits are the same at every level but where the compiler contracts
// multiply-adds.
func Update(level isa.Level, w, g, m, v []float32, f *Factors) {
	g, m, v = g[:len(w)], m[:len(w)], v[:len(w)]
	vectorized := vectors(level, w, g, m, v, f)
	generic(w[vectorized:], g[vectorized:], m[vectorized:], v[vectorized:], f)
}

func generic(w, g, m, v []float32, f *Factors) {
	for i := range w {
		first := f.Beta1*m[i] + f.Rest1*g[i]
		if math.Abs(float64(first)) < leastFirst {
			first = 0
		}
		second := f.Beta2*v[i] + f.Rest2*g[i]*g[i]
		if second < leastSecond {
			second = 0
		}
		m[i], v[i] = first, second
		w[i] -= f.Rate * first / (float32(math.Sqrt(float64(second*f.Second))) + f.Epsilon)
	}
}
