// Package isa chooses the instruction set of the CPU kernels (those of
// cpu_fallback and of internal/simd/neighbours), once, in one place. The central type
// is Level.
package isa

import (
	"fmt"
	"os"
	"slices"

	"github.com/klauspost/cpuid/v2"
)

// Level is a set of kernels.
type Level int

const (
	Generic Level = iota // Go, any CPU
	AVX2                 // AVX2 and FMA3, 8 float32 lanes
	AVX512               // AVX-512 F, DQ, BW and VL, 16 float32 lanes
)

func (l Level) String() string { return [...]string{"generic", "avx2", "avx512"}[l] }

// Lanes is the number of float32 in one register.
func (l Level) Lanes() int { return [...]int{1, 8, 16}[l] }

// Environment is the variable that overrides the choice.
const Environment = "GPC_CPU"

// Available lists what this CPU and build can run, best last.
func Available() []Level {
	levels := []Level{Generic}
	if !assembly {
		return levels
	}
	if cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3) {
		levels = append(levels, AVX2)
		if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512DQ, cpuid.AVX512BW, cpuid.AVX512VL) {
			levels = append(levels, AVX512)
		}
	}
	return levels
}

// Choose returns the best available level, or the one named by GPC_CPU. A name
// that is unknown or that this CPU cannot run is an error.
func Choose() (Level, error) {
	levels := Available()
	name := os.Getenv(Environment)
	if name == "" {
		return levels[len(levels)-1], nil
	}
	for _, l := range []Level{Generic, AVX2, AVX512} {
		if l.String() == name {
			if !slices.Contains(levels, l) {
				return 0, fmt.Errorf("%s=%s: this CPU or build has only %v", Environment, name, levels)
			}
			return l, nil
		}
	}
	return 0, fmt.Errorf("%s=%q: want generic, avx2 or avx512", Environment, name)
}
