//go:build !purego

package lanes

import "github.com/gpc-engine/gpc/internal/simd/isa"

func execute(level isa.Level, code []uint32, cells []float64, width int) {
	switch {
	case level == isa.AVX512:
		runAVX512(&code[0], &cells[0])
	case level == isa.AVX2 && width == 4:
		runAVX2(&code[0], &cells[0])
	case level == isa.AVX2:
		runAVX2One(&code[0], &cells[0])
	default:
		interpret(code, cells, width)
	}
}

// runAVX512 is interpret with eight lanes, runAVX2 with four, runAVX2One with
// one.
//
//go:noescape
func runAVX512(code *uint32, cells *float64)

//go:noescape
func runAVX2(code *uint32, cells *float64)

//go:noescape
func runAVX2One(code *uint32, cells *float64)
