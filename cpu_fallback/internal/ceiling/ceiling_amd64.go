//go:build !purego

package ceiling

import "github.com/gpc-engine/gpc/internal/simd/isa"

// peakAVX512 runs, on the 30 registers that are not operands and four times per
// round:
//
//	acc[i] = fma(x, y, acc[i])
//
//go:noescape
func peakAVX512(rounds int)

// peakAVX2 runs the loop of peakAVX512 on 14 registers.
//
//go:noescape
func peakAVX2(rounds int)

// triadAVX512 computes a[i] = fma(c[i], *s, b[i]) for n elements, a multiple of
// 64, with non-temporal stores; a is aligned to 64 bytes.
//
//go:noescape
func triadAVX512(a, b, c *float32, s *float32, n int)

// triadAVX2 computes a[i] = fma(c[i], *s, b[i]) for n elements, a multiple of
// 32, with non-temporal stores; a is aligned to 32 bytes.
//
//go:noescape
func triadAVX2(a, b, c *float32, s *float32, n int)

// flopsPerRound counts a multiply-add as two.
func flopsPerRound(level isa.Level) int {
	switch level {
	case isa.AVX512:
		return 2 * 16 * 30 * 4
	case isa.AVX2:
		return 2 * 8 * 14 * 4
	default:
		return 2 * genericChains
	}
}

func peak(level isa.Level, rounds int) {
	switch level {
	case isa.AVX512:
		peakAVX512(rounds)
	case isa.AVX2:
		peakAVX2(rounds)
	default:
		sink(peakGeneric(rounds))
	}
}

func triad(level isa.Level, a, b, c []float32, s float32) {
	switch level {
	case isa.AVX512:
		triadAVX512(&a[0], &b[0], &c[0], &s, len(a))
	case isa.AVX2:
		triadAVX2(&a[0], &b[0], &c[0], &s, len(a))
	default:
		triadGeneric(a, b, c, s)
	}
}
