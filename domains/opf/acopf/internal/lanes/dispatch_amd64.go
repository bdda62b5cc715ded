//go:build !purego

package lanes

import "github.com/gpc-engine/gpc/internal/isa"

func execute(level isa.Level, code []uint32, cells []float64, width int) {
	switch level {
	case isa.AVX512:
		runAVX512(&code[0], &cells[0])
	case isa.AVX2:
		runAVX2(&code[0], &cells[0])
	default:
		interpret(code, cells, width)
	}
}

// runAVX512 is interpret with eight lanes, runAVX2 with four.
//
//go:noescape
func runAVX512(code *uint32, cells *float64)

//go:noescape
func runAVX2(code *uint32, cells *float64)
