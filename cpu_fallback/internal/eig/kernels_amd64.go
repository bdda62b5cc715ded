//go:build amd64 && !purego

package eig

import "github.com/gpc-engine/gpc/internal/simd/isa"

//go:generate go -C ../../_asm run ./eig -pkg eig -out ../internal/eig/eig_amd64.s -stubs ../internal/eig/stubs_amd64.go

var avx512 = kernels{
	lanes: 16, pack: func(dst, src []float32, stride, count int) { pack(dst, src, stride, 16, count) }, largest: largestAVX512, scale: scaleAVX512, tridiagonalise: tridiagonaliseAVX512, bound: boundAVX512,
	bisect: bisectAVX512, factor: factorAVX512, solve: solveAVX512, normalise: normaliseAVX512, reflect: reflectAVX512,
}

var avx2 = kernels{
	lanes: 8, pack: func(dst, src []float32, stride, count int) { pack(dst, src, stride, 8, count) }, largest: largestAVX2, scale: scaleAVX2, tridiagonalise: tridiagonaliseAVX2, bound: boundAVX2,
	bisect: bisectAVX2, factor: factorAVX2, solve: solveAVX2, normalise: normaliseAVX2, reflect: reflectAVX2,
}

func kernelsFor(level isa.Level) kernels {
	switch level {
	case isa.AVX512:
		return avx512
	case isa.AVX2:
		return avx2
	default:
		return generic
	}
}

func pack(dst, src []float32, stride, lanes, count int) {
	whole := count &^ 7
	for r := 0; r < lanes; r += 8 {
		packHalf(dst[r:], src[r*stride:], stride, lanes, whole)
	}
	for i := whole; i < count; i++ {
		for r := range lanes {
			dst[i*lanes+r] = src[r*stride+i]
		}
	}
}
