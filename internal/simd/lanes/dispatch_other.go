//go:build !amd64 || purego

package lanes

import "github.com/gpc-engine/gpc/internal/simd/isa"

func execute(_ isa.Level, code []uint32, cells []float64, width int) { interpret(code, cells, width) }
