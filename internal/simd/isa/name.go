package isa

import (
	"runtime"

	"github.com/klauspost/cpuid/v2"
)

// Name is what the bits of a result depend on of this CPU, for records: the chosen level,
// and where that is Go the architecture, which may fuse a multiply and an add, and on amd64
// whether the exponential of package math does. The error is Choose's.
func Name() (string, error) {
	l, err := Choose()
	name := l.String()
	if l == Generic {
		name += " " + runtime.GOARCH
		if runtime.GOARCH == "amd64" && cpuid.CPU.Supports(cpuid.AVX, cpuid.FMA3) {
			name += " fma"
		}
	}
	return name, err
}
