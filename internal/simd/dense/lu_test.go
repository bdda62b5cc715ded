package dense

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A factorisation solves the matrix, with the same bits on all instruction sets, in memory that it had for another one.
func TestLU(t *testing.T) {
	first := map[int][]float64{}
	with(t, func(t *testing.T) {
		rng, f := rand.New(rand.NewPCG(5, 6)), LU{}
		for _, n := range []int{150, 0, 1, 3, 4, 5, 33, 70} {
			f.Resize(n)
			a, x := normal(rng, n*n), normal(rng, n)
			for i := range n {
				a[i*n+i] += 3 * math.Sqrt(float64(n))
				copy(f.Row(i), a[i*n:(i+1)*n])
			}
			f.Factor(0)
			grown := LU{}
			for _, size := range []int{n / 3, min(n, n/3+1), n} { // the same bits
				before := grown.n
				grown.Resize(size)
				for i := range size {
					copy(grown.Row(i)[before*bit(i < before):], a[i*n+before*bit(i < before):i*n+size])
				}
				grown.Factor(before)
			}
			for i := range n {
				if !slices.Equal(grown.Row(i), f.Row(i)) {
					t.Fatalf("%d rows: row %d of factors that grew is another one", n, i)
				}
			}
			b, c := slices.Clone(x), normal(rng, n)
			y, z := slices.Clone(x), slices.Clone(c)
			for _, written := range []int{n / 2, n} { // in two parts
				half := LU{}
				half.Resize(written)
				for i := range written {
					copy(half.Row(i), f.Row(i))
				}
				copy(half.inverse, f.inverse)
				half.Lower(y[:written], n/2*bit(written == n))
				half.UpperTransposed(z[:written], n/2*bit(written == n))
			}
			f.Solve(x)
			for i := range n {
				sum := 0.0
				for j, v := range x {
					sum += a[i*n+j] * v
				}
				if off := math.Abs(sum - b[i]); !(off < 1e-11*float64(n)) {
					t.Errorf("%d rows: row %d of the solution is off by %g", n, i, off)
				}
			}
			if off := dot(c, x) - dot(z, y); !(math.Abs(off) < 1e-11*float64(n+1)) {
				t.Errorf("%d rows: a product with the solution is off by %g in halves", n, off)
			}
			if other, ok := first[n]; ok && !slices.Equal(other, x) {
				t.Errorf("%d rows: another solution than with other instructions", n)
			}
			first[n] = x
		}
	})
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
