package stages

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
	"github.com/gpc-engine/gpc/internal/simd/lanes/programs"
)

// Matrices whose order of rows needs no pivoting, and such as have a pivot of 0 or next to 0 in it, are solved in lanes beside one another.
func TestSolveChoosesPivotsWhereTheOrderOfRowsHasNone(t *testing.T) {
	const n, columns, rounds = 5, 3, 40
	x := &maker{Code: &Code{}}
	x.constants = programs.NewConstants(&x.layout)
	var matrix, right []lanes.Col
	for range n {
		matrix, right = append(matrix, x.layout.New(n)), append(right, x.layout.New(columns))
	}
	x.linear = x.solve(matrix, right)
	for _, b := range x.builders {
		x.programs = append(x.programs, b.Program())
	}
	for _, level := range isa.Available() {
		width := lanes.Widths(level)[0]
		compiled, err := x.Compile(level, width)
		if err != nil {
			t.Fatal(err)
		}
		m := x.NewMachine(compiled)
		rng := rand.New(rand.NewPCG(3, 4))
		for range rounds {
			var a, b [8][n][]float64
			for lane := range width {
				for i := range n {
					a[lane][i], b[lane][i] = make([]float64, n), make([]float64, columns)
					for k := range a[lane][i] {
						a[lane][i][k] = rng.NormFloat64()
					}
					for k := range b[lane][i] {
						b[lane][i][k] = rng.NormFloat64()
					}
				}
				switch lane % 3 {
				case 1:
					a[lane][0][0] = 0
				case 2:
					a[lane][1][1] = a[lane][1][0]*a[lane][0][1]/a[lane][0][0] + 1e-14 // the second pivot
				}
				for i := range n {
					m.machine.Scatter(matrix[i][0], lane, a[lane][i])
					m.machine.Scatter(right[i][0], lane, b[lane][i])
				}
			}
			m.Linearise()
			for lane := range width {
				for i := range n {
					for k := range columns {
						sum, size := -b[lane][i][k], 1.0
						for j := range n {
							v := a[lane][i][j] * m.machine.Get(right[j][k], lane)
							sum += v
							size += math.Abs(v)
						}
						if !(math.Abs(sum) <= 1e-11*size) {
							t.Fatalf("%v, lane %d: row %d of column %d is off by %v of %v", level, lane, i, k, sum, size)
						}
					}
				}
			}
		}
	}
}
