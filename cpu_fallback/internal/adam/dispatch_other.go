//go:build !amd64 || purego

package adam

import "github.com/gpc-engine/gpc/internal/simd/isa"

func vectors(isa.Level, []float32, []float32, []float32, []float32, *Factors) int { return 0 }
