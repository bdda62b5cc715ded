//go:build !purego

package adam

import "github.com/gpc-engine/gpc/internal/simd/isa"

// The kernels compute generic's loop, d being the gradients, for n parameters, a multiple of 16 (AVX-512) or 8 (AVX2).
// f is the Factors in their order, least are leastFirst and leastSecond.

//go:noescape
func updateAVX512(w, d, m, v *float32, n int, f, least *float32)

//go:noescape
func updateAVX2(w, d, m, v *float32, n int, f, least *float32)

var least = [2]float32{leastFirst, leastSecond}

// vectors updates the leading parameters, and returns how many.
func vectors(level isa.Level, w, g, m, v []float32, f *Factors) int {
	n := len(w) &^ (level.Lanes() - 1)
	switch {
	case n == 0:
	case level == isa.AVX512:
		updateAVX512(&w[0], &g[0], &m[0], &v[0], n, &f.Beta1, &least[0])
	case level == isa.AVX2:
		updateAVX2(&w[0], &g[0], &m[0], &v[0], n, &f.Beta1, &least[0])
	default:
		return 0
	}
	return n
}
