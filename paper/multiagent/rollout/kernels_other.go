//go:build !amd64 || purego

package rollout

import "github.com/gpc-engine/gpc/internal/simd/isa"

// kernelsOf returns the twins: package isa lists no other level in this build.
func kernelsOf(isa.Level) kernels { return generic }
