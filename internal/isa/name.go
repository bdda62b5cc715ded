package isa

import (
	"runtime"

	"github.com/klauspost/cpuid/v2"
)

// Name is what the bits of a result depend on of this CPU, for records: the architecture,
// where Go may fuse a multiply and an add, the chosen level, and on amd64 whether the
// exponential of package math does. The error is Choose's.
func Name() (string, error) {
	l, err := Choose()
	name := runtime.GOARCH + " " + l.String()
	if l == Generic && runtime.GOARCH == "amd64" && cpuid.CPU.Supports(cpuid.AVX, cpuid.FMA3) {
		name += " fma"
	}
	return name, err
}
