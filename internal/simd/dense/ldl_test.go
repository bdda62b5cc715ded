package dense

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// A factorisation solves the matrix, and its pivots have the signs of the eigenvalues: of a positive definite matrix, and of one
// with a few large negative pivots. All instruction sets come to the same bits.
func TestLDL(t *testing.T) {
	first := map[string][]float64{}
	with(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for _, n := range []int{0, 1, 3, 4, 5, 8, 33, 70, 150} {
			for k, negative := range []int{0, n / 5} {
				f, whole := NewLDL(n), mat.NewSymDense(max(n, 1), nil)
				factor := normal(rng, n*n)
				for i := range n {
					row := f.Row(i)
					for j := i; j < n; j++ {
						v := 0.0
						for l := range n {
							v += factor[i*n+l] * factor[j*n+l] / float64(n)
						}
						if i == j {
							v++
							if i < negative {
								v -= 1e3
							}
						}
						row[j-i] = v
						whole.SetSym(i, j, v)
					}
				}
				if got := f.Factor(); got != negative {
					t.Errorf("%d rows: %d pivots are not positive, want %d", n, got, negative)
				}
				x := normal(rng, n)
				b := slices.Clone(x)
				f.Solve(x)
				for i := range n {
					sum := 0.0
					for j := range n {
						sum += whole.At(i, j) * x[j]
					}
					if off := math.Abs(sum - b[i]); !(off < 1e-11*float64(n)) {
						t.Errorf("%d rows, %d negative: row %d of the solution is off by %g", n, negative, i, off)
					}
				}
				name := fmt.Sprint(n, k)
				if other, ok := first[name]; ok && !slices.Equal(other, x) {
					t.Errorf("%d rows, %d negative: another solution than with other instructions", n, negative)
				}
				first[name] = x
			}
		}
	})
}

// A pivot of 0 is not counted as positive, nor is what follows from it.
func TestLDLWithoutAPivot(t *testing.T) {
	f := NewLDL(2)
	copy(f.Row(0), []float64{0, 1})
	copy(f.Row(1), []float64{1})
	if got := f.Factor(); got != 2 {
		t.Errorf("%d pivots are not positive, want both", got)
	}
}
