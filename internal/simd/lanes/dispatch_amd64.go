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

// transposes reports whether scatterRows and gatherRows do for a machine.
func transposes(level isa.Level) bool { return level == isa.AVX512 }

// scatterRows copies eight rows, stride bytes apart, into eight lanes of one cell for each column.
//
//go:noescape
func scatterRows(cells, rows *float64, stride uintptr, columns int)

// gatherRows copies the first n lanes of cells into rows.
//
//go:noescape
func gatherRows(rows *float64, stride uintptr, n int, cells *float64, columns int)
