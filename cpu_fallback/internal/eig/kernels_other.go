//go:build !amd64 || purego

package eig

import "github.com/gpc-engine/gpc/internal/simd/isa"

func kernelsFor(isa.Level) kernels { return generic }
