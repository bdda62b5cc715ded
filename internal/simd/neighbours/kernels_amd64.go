//go:build amd64 && !purego

package neighbours

import "github.com/gpc-engine/gpc/internal/simd/isa"

//go:generate go -C _asm run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg neighbours

// kernelsOf returns the set of a level that package isa lists as available.
func kernelsOf(level isa.Level) kernels {
	switch level {
	case isa.AVX512:
		return kernels{lanes: 16, distances: distances512, project: project512, boxes: boxes512, quantize: quantize512, filter: filter512}
	case isa.AVX2:
		return kernels{lanes: 8, distances: distances256, project: project256, boxes: boxes256, quantize: quantize256, filter: filter256}
	}
	return genericKernels
}
