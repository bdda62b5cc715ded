//go:build !purego

package lanes

import "github.com/gpc-engine/gpc/internal/isa"

func execute(level isa.Level, code []uint32, cells []float64, width int) {
	switch level {
	default:
		interpret(code, cells, width)
	}
}
