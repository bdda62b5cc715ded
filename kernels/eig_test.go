package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// Four matrices of a batch are one block, and their vectors are iterated by one warp: each
// comes out bit for bit as it does alone, whatever stands beside it, in a block that is not
// full too.
func TestEigenpairsAreThoseOfAMatrixAlone(t *testing.T) {
	b := onAny(t)
	rng := rand.New(rand.NewPCG(31, 32))
	for _, size := range [][2]int{{1, 1}, {2, 2}, {3, 1}, {5, 4}, {16, 3}, {17, 8}, {31, 3}, {32, 3}, {32, 9}, {32, 32}, {40, 3}} {
		n, k := size[0], size[1]
		rows := 4*b.device.Multiprocessors + 3
		g := tensor.New(rows, n*n)
		for r := range rows {
			m := g.Row(r)
			for i := range n {
				for j := range i + 1 {
					v := float32(rng.NormFloat64())
					switch r % 5 {
					case 1: // repeated
						v = 0
						if i == j {
							v = float32(1 + i/3)
						}
					case 2: // of rank 1, and nothing else
						v = float32(i+1) * float32(j+1)
					}
					m[i*n+j], m[j*n+i] = v, v
				}
			}
			if r%5 == 3 {
				m[n*n-1] = float32(math.NaN())
			}
		}
		values, vectors := tensor.New(rows, k), tensor.New(rows, n*k)
		require.OK(t, b.EigTopK(g, n, k, values, vectors))
		alone, vectorsAlone := tensor.New(1, k), tensor.New(1, n*k)
		for r := range rows {
			require.OK(t, b.EigTopK(g.Slice(r, r+1), n, k, alone, vectorsAlone))
			if !slices.Equal(bits(alone.Row(0)), bits(values.Row(r))) || !slices.Equal(bits(vectorsAlone.Row(0)), bits(vectors.Row(r))) {
				t.Fatalf("n %d, k %d, matrix %d of %d: %v in the batch, %v alone", n, k, r, rows, values.Row(r), alone.Row(0))
			}
			if broken := r%5 == 3; math.IsNaN(float64(values.Row(r)[0])) != broken {
				t.Fatalf("n %d, k %d, matrix %d: eigenvalues %v, want numbers: %v", n, k, r, values.Row(r), !broken)
			}
		}
	}
}

// bits compare results to the last one, NaN with NaN.
func bits[T float32 | float64](values []T) (all []uint64) {
	for _, v := range values {
		all = append(all, math.Float64bits(float64(v)))
	}
	return all
}
