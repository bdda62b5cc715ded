package dots

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/tensor"
)

// Every product is that of tensor.Dot, and every sum that of tensor.Axpy, to the last bit,
// with the kernels and without.
func TestRowsAreDots(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		for count := range 11 {
			stride := n + rng.IntN(4)
			a, rows := make([]float64, n), make([]float64, stride*count+4)
			for i := range a {
				a[i] = rng.NormFloat64()
			}
			for i := range rows {
				rows[i] = rng.NormFloat64()
			}
			out := make([]float64, count)
			Rows(a, rows, stride, out)
			for k, got := range out {
				if want := tensor.Dot(a, rows[k*stride:]); got != want {
					t.Fatalf("%d numbers, row %d of %d: %v, Dot has %v", n, k, count, got, want)
				}
			}
			y, v := make([]float64, n), make([]float64, count)
			for k := range v {
				v[k] = rng.NormFloat64()
			}
			copy(y, a)
			Add(y, v, rows, stride)
			for k, by := range v {
				tensor.Axpy(by, rows[k*stride:k*stride+n], a)
			}
			if !slices.Equal(y, a) {
				t.Fatalf("%d numbers, %d rows: added %v, one after another %v", n, count, y, a)
			}
			if count < 4 || n%4 > 0 {
				continue
			}
			var s Sums
			s.Four(a, rows, stride)
			for k := range s {
				if want := sums(a, rows[k*stride:]); s[k] != want {
					t.Fatalf("%d numbers, row %d: the kernel has %v, its loop %v", n, k, s[k], want)
				}
			}
		}
	}
}
