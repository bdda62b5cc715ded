package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// TestProductsOfEveryShape holds forward and backward pass, Jacobian and metric to the
// reference at the widths where one way to share a product among warps ends and the
// next begins: 8, 16, 32, 64, 128 and 256 columns, depths that fill no stage, units of
// two tiles, networks without a hidden layer.
func TestProductsOfEveryShape(t *testing.T) {
	for _, tf32 := range []bool{false, true} {
		b := onAny(t)
		b.options.TF32 = tf32
		tolerance := 1e-5
		if tf32 {
			tolerance = 1e-2 // 11-bit significands
		}
		for _, widths := range [][]int{
			{3, 5, 2}, {8, 13, 16}, {9, 70, 17}, {16, 64, 65, 4}, {17, 300, 12}, {32, 256, 256, 60}, {33, 100, 129}, {64, 257, 40, 16}, {70, 20, 7}, {16, 12}, {40, 130}, {12, 1000, 520, 5},
		} {
			for _, rows := range []int{3, 37} {
				if rows > 3 && (widths[1] > 300 || brief() && widths[1] > 100) {
					continue // long on the host shim
				}
				t.Run(fmt.Sprint(tf32, widths, rows), func(t *testing.T) { compareProducts(t, b, widths, rows, tolerance) })
			}
		}
	}
}

func compareProducts(t *testing.T, b *Backend, widths []int, rows int, tolerance float64) {
	rng := rand.New(rand.NewPCG(uint64(len(widths)), uint64(rows)))
	mlp := require.Get(model.NewMLP(rng, widths...))(t)
	random := func(cols int) tensor.Matrix {
		m := tensor.New(rows, cols)
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
		return m
	}
	n, out := mlp.In(), mlp.Out()
	z, ybar := random(n), random(out)
	var results [2][4]tensor.Matrix
	for i, of := range []backend.Backend{b, ref.New()} {
		net := require.Get(of.NewNet(mlp))(t)
		r := &results[i]
		r[0], r[1], r[2] = tensor.New(rows, out), tensor.New(rows, n), tensor.New(rows, n*out)
		require.OK(t, net.Forward(z, r[0]))
		require.OK(t, net.VJP(z, ybar, r[1]))
		require.OK(t, net.Jacobian(z, r[2]))
		if n <= MaxLatent {
			r[3] = tensor.New(rows, n*n)
			require.OK(t, net.Metric(z, 0.1, r[3]))
		}
	}
	for k, what := range []string{"forward", "backward", "Jacobian", "metric"} {
		got, want := results[0][k], results[1][k]
		off := 0
		for i := range got.Rows {
			worst, scale := 0.0, 0.0
			for j, w := range want.Row(i) {
				d := math.Abs(float64(got.Row(i)[j]) - float64(w))
				if !(d <= worst) {
					worst = d
				}
				scale = math.Max(scale, math.Abs(float64(w)))
			}
			if !(worst <= tolerance*scale) {
				off++
				t.Logf("%s, row %d: off by %g of %g", what, i, worst, scale)
			}
		}
		// A unit may lie on its kink.
		if most := rows / 30; off > most || k == 0 && off > 0 {
			t.Errorf("%s: %d of %d rows are off by more than %g", what, off, rows, tolerance)
		}
	}
}
