//go:build !amd64 || purego

package neighbours

import "github.com/gpc-engine/gpc/internal/simd/isa"

// kernelsOf returns the set of a level that package isa lists as available.
func kernelsOf(isa.Level) kernels { return genericKernels }
