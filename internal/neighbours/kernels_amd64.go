//go:build amd64 && !purego

package neighbours

import "github.com/klauspost/cpuid/v2"

//go:generate go -C _asm run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg neighbours

// availableKernels lists what this CPU and build can run, widest last.
func availableKernels() []kernels {
	have := []kernels{genericKernels}
	if cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3) {
		have = append(have, kernels{lanes: 8, distances: distances256, balls: balls256, quantize: quantize256, filter: filter256})
		if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512DQ, cpuid.AVX512BW, cpuid.AVX512VL) {
			have = append(have, kernels{lanes: 16, distances: distances512, balls: balls512, quantize: quantize512, filter: filter512})
		}
	}
	return have
}
