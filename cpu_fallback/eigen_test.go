package cpufallback

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

// metrics are JᵀJ + λI of random networks' Jacobians: what the step decomposes.
func metrics(t testing.TB, rng *rand.Rand, n, rows int) tensor.Matrix {
	m := ref.Widen(testdomain.Network(rng, 0.3, n, 24, 2*n))
	g := tensor.New(rows, n*n)
	for i := range rows {
		tensor.Narrow(g.Row(i), m.Metric(widened(randomRows(rng, 1, n, n).Data), 0.05))
	}
	return g
}

func TestEigTopKAgainstReference(t *testing.T) {
	const n, k, rows = 11, 3, 70
	g := metrics(t, rand.New(rand.NewPCG(41, 1)), n, rows)
	for _, level := range isa.Available() {
		values, vectors := tensor.New(rows, k), tensor.New(rows, n*k)
		require.OK(t, open(t, level, 2).EigTopK(g, n, k, values, vectors))
		for i := range rows {
			wantValues, wantVectors := ref.EigTopK(widened(g.Row(i)), n, k)
			near(t, fmt.Sprintf("%s, values %d", level, i), values.Row(i), wantValues, tolerance)
			if frameApart(widened(g.Row(i)), n, k, 0.02) {
				near(t, fmt.Sprintf("%s, vectors %d", level, i), vectors.Row(i), wantVectors, 1e-4)
			}
		}
	}
}

func TestEigTopKIsTheSameHoweverItIsCut(t *testing.T) {
	const n, k, rows = 9, 4, 101
	g := metrics(t, rand.New(rand.NewPCG(42, 1)), n, rows)
	g.Row(40)[5] = float32(math.NaN())
	for _, level := range isa.Available() {
		first, firstVectors := tensor.New(rows, k), tensor.New(rows, n*k)
		for _, threads := range []int{1, 2, 5} {
			b := open(t, level, threads)
			values, vectors := tensor.New(rows, k), tensor.New(rows, n*k)
			if threads == 1 {
				values, vectors = first, firstVectors
			}
			require.OK(t, b.EigTopK(g, n, k, values, vectors))
			identical(t, fmt.Sprint(level, " values on ", threads, " threads"), values, first)
			identical(t, fmt.Sprint(level, " vectors on ", threads, " threads"), vectors, firstVectors)
			for _, i := range []int{0, 33, 40, 100} {
				one, oneVectors := tensor.New(1, k), tensor.New(1, n*k)
				require.OK(t, b.EigTopK(g.Slice(i, i+1), n, k, one, oneVectors))
				identical(t, fmt.Sprint(level, " values of row ", i, " alone"), one, first.Slice(i, i+1))
				identical(t, fmt.Sprint(level, " vectors of row ", i, " alone"), oneVectors, firstVectors.Slice(i, i+1))
			}
		}
		if v := first.Row(40)[0]; !math.IsNaN(float64(v)) || firstVectors.Row(40)[0] != 0 {
			t.Errorf("%s: a matrix with a NaN gives value %v and vector entry %v", level, v, firstVectors.Row(40)[0])
		}
		// One shared matrix is every row's.
		values, vectors := tensor.New(rows, k), tensor.New(rows, n*k)
		require.OK(t, open(t, level, 2).EigTopK(tensor.Broadcast(g.Row(7), rows), n, k, values, vectors))
		for i := range rows {
			identical(t, "broadcast", vectors.Slice(i, i+1), firstVectors.Slice(7, 8))
		}
	}
}

func TestEigTopKShapesAndAllocations(t *testing.T) {
	const n, k, rows = 6, 2, 40
	g := metrics(t, rand.New(rand.NewPCG(43, 1)), n, rows)
	values, vectors := tensor.New(rows, k), tensor.New(rows, n*k)
	b := open(t, isa.Generic, 2)
	for what, err := range map[string]error{
		"k above n":      b.EigTopK(g, n, n+1, values, vectors),
		"k of 0":         b.EigTopK(g, n, 0, values, vectors),
		"n":              b.EigTopK(g, n+1, k, values, vectors),
		"values":         b.EigTopK(g, n, k, tensor.New(rows, k+1), vectors),
		"vectors":        b.EigTopK(g, n, k, values, tensor.New(rows-1, n*k)),
		"shared vectors": b.EigTopK(g, n, k, values, tensor.Broadcast(vectors.Row(0), rows)),
	} {
		if err == nil {
			t.Errorf("wrong %s is accepted", what)
		}
	}
	if err := b.EigTopK(tensor.New(0, n*n), n, k, tensor.New(0, k), tensor.New(0, n*k)); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
	if a := testing.AllocsPerRun(10, func() {
		require.OK(t, b.EigTopK(g, n, k, values, vectors))
	}); a != 0 {
		t.Errorf("EigTopK makes %v allocations", a)
	}
}

func BenchmarkEigTopK(b *testing.B) {
	const n, k, rows = 32, 3, 4096
	g := metrics(b, rand.New(rand.NewPCG(44, 1)), n, 64)
	all := tensor.New(rows, n*n)
	for i := range rows {
		copy(all.Row(i), g.Row(i%64))
	}
	values, vectors := tensor.New(rows, k), tensor.New(rows, n*k)
	for _, level := range isa.Available() {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", level, threads), func(b *testing.B) {
				bk := open(b, level, threads)
				for b.Loop() {
					require.OK(b, bk.EigTopK(all, n, k, values, vectors))
				}
			})
		}
	}
}
