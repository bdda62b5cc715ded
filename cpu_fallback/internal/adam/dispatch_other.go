//go:build !amd64 || purego

package adam

import "github.com/gpc-engine/gpc/internal/isa"

func vectors(isa.Level, []float32, []float32, []float32, []float32, *Factors) int { return 0 }
