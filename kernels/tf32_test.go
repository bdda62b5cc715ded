package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Rounding of the tensor cores' products. Operands are rounded to 11 significant bits,
// to nearest and ties away from zero (cvt.rna.tf32.f32), so that each product is exact
// in float32. How the sum of a product is rounded is left open by the instruction's
// description: at most sumRounding, twice the last bit of float32, of what has been
// added so far is allowed for each term, which truncation keeps too.
const (
	operandRounding = 1.0 / 2048
	sumRounding     = 1.0 / (1 << 22)
)

// toTF32 is cvt.rna.tf32.f32.
func toTF32(v float32) float64 {
	return float64(math.Float32frombits((math.Float32bits(v) + 0x1000) &^ 0x1fff))
}

// linear is a network of one layer, whose forward pass is one product on tensor cores
// and whose backward pass is another.
func linear(in, out int, draw func() float32) *model.MLP {
	l := model.Layer{W: tensor.New(out, in), B: make([]float32, out)}
	for i := range l.W.Data {
		l.W.Data[i] = draw()
	}
	for i := range l.B {
		l.B[i] = draw()
	}
	return &model.MLP{Layers: []model.Layer{l}}
}

// productRows is a batch that tensor cores take on this device, with a remainder.
func productRows(b *Backend) int { return 4*b.device.Multiprocessors + 37 }

// products gives y = W x + b and zbar = Wᵀ ybar of one layer on a backend.
func products(t *testing.T, b *Backend, layer *model.MLP, x, ybar tensor.Matrix) (y, zbar tensor.Matrix) {
	t.Helper()
	n := require.Get(b.NewNet(layer))(t)
	y, zbar = tensor.New(x.Rows, layer.Out()), tensor.New(x.Rows, layer.In())
	require.OK(t, n.Forward(x, y))
	require.OK(t, n.VJP(x, ybar, zbar))
	return y, zbar
}

// productSizes are layers that tensor cores take on this device: wider ones than have room
// in its shared memory are multiplied in float32.
func productSizes(b *Backend) (sizes [][2]int) {
	for _, size := range [][2]int{{1, 1}, {7, 5}, {8, 8}, {9, 33}, {17, 128}, {33, 60}, {64, 200}, {130, 12}, {256, 257}, {400, 40}} {
		if perBlock, _ := b.forwardShape(b.tileOf(productRows(b)), max(size[0], size[1])); perBlock == 32 {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// TestTensorCoreProducts holds the tensor cores' products to float64, element by element:
// of the rounded operands to what summing alone may err by, of the operands as given to
// what rounding them adds; and they err by more than float32 would.
func TestTensorCoreProducts(t *testing.T) {
	_, b := metered(t, Options{TF32: true})
	if n := len(productSizes(b)); n < 8 {
		t.Errorf("%d sizes of layers are multiplied on tensor cores", n)
	}
	rng := rand.New(rand.NewPCG(17, 18))
	for _, size := range productSizes(b) {
		in, out := size[0], size[1]
		layer, rows := linear(in, out, func() float32 { return float32(rng.NormFloat64()) }), productRows(b)
		x, ybar := tensor.New(rows, in), tensor.New(rows, out)
		for _, m := range []tensor.Matrix{x, ybar} {
			for i := range m.Data {
				m.Data[i] = float32(rng.NormFloat64() * math.Exp(3*rng.NormFloat64()))
			}
		}
		y, zbar := products(t, b, layer, x, ybar)
		w := layer.Layers[0].W
		largest := 0.0
		check := func(what string, got float32, terms int, factor func(k int) (a, b float32), bias float32) {
			t.Helper()
			rounded, exact, size := float64(bias), float64(bias), math.Abs(float64(bias))
			for k := range terms {
				a, c := factor(k)
				rounded += toTF32(a) * toTF32(c)
				exact += float64(a) * float64(c)
				size += math.Abs(float64(a) * float64(c))
			}
			summing := float64(terms+2) * sumRounding * size * (1 + operandRounding) * (1 + operandRounding)
			if off := math.Abs(float64(got) - rounded); !(off <= summing) {
				t.Fatalf("%s: %g, of the rounded operands %g in float64: off by %g, summing may err by %g", what, got, rounded, off, summing)
			}
			off, most := math.Abs(float64(got)-exact), summing+operandRounding*(2+operandRounding)*size
			if !(off <= most) {
				t.Fatalf("%s: %g, in float64 %g: off by %g, TF32 may err by %g", what, got, exact, off, most)
			}
			largest = math.Max(largest, off/size)
		}
		for i := range rows {
			for o := range out {
				check(fmt.Sprintf("%d → %d, row %d, output %d", in, out, i, o), y.Row(i)[o], in,
					func(k int) (float32, float32) { return w.Row(o)[k], x.Row(i)[k] }, layer.Layers[0].B[o])
			}
			for k := range in {
				check(fmt.Sprintf("%d → %d, row %d, backward %d", in, out, i, k), zbar.Row(i)[k], out,
					func(o int) (float32, float32) { return w.Row(o)[k], ybar.Row(i)[o] }, 0)
			}
		}
		t.Logf("%d → %d: off by at most %.2g of the sum of magnitudes", in, out, largest)
		if !(largest > 1e-5) {
			t.Errorf("%d → %d: off by at most %g: these are not the tensor cores' products", in, out, largest)
		}
	}
}

// TestTensorCoresAddIntegersExactly multiplies small integers, whose products and sums
// float32 holds: every entry is the exact one, so that each operand has met its partner.
func TestTensorCoresAddIntegersExactly(t *testing.T) {
	_, b := metered(t, Options{TF32: true})
	rng := rand.New(rand.NewPCG(19, 20))
	small := func() float32 { return float32(rng.IntN(17) - 8) }
	for _, size := range productSizes(b) {
		in, out := size[0], size[1]
		layer, rows := linear(in, out, small), productRows(b)
		x, ybar := tensor.New(rows, in), tensor.New(rows, out)
		for _, m := range []tensor.Matrix{x, ybar} {
			for i := range m.Data {
				m.Data[i] = small()
			}
		}
		y, zbar := products(t, b, layer, x, ybar)
		w, bias := layer.Layers[0].W, layer.Layers[0].B
		for i := range rows {
			for o := range out {
				want := bias[o]
				for k := range in {
					want += w.Row(o)[k] * x.Row(i)[k]
				}
				if got := y.Row(i)[o]; got != want {
					t.Fatalf("%d → %d, row %d, output %d: %v, want %v", in, out, i, o, got, want)
				}
			}
			for k := range in {
				want := float32(0)
				for o := range out {
					want += w.Row(o)[k] * ybar.Row(i)[o]
				}
				if got := zbar.Row(i)[k]; got != want {
					t.Fatalf("%d → %d, row %d, backward %d: %v, want %v", in, out, i, k, got, want)
				}
			}
		}
	}
}

// TestOperandsOfTensorCoresRoundTiesAway takes operands half way between two of 11
// significant bits, and next to half way, times one.
func TestOperandsOfTensorCoresRoundTiesAway(t *testing.T) {
	_, b := metered(t, Options{TF32: true})
	const n = 8
	layer := linear(n, n, func() float32 { return 0 })
	for i := range n {
		layer.Layers[0].W.Row(i)[i] = 1
	}
	const unit = 1.0 / 1024 // of the last bit beside 1
	given := [n]float32{1 + unit/2, -1 - unit/2, 1 + 1.5*unit, math.Nextafter32(1+unit/2, 0), math.Nextafter32(1+unit/2, 2), 1 + unit, 0, 3 + unit}
	want := [n]float32{1 + unit, -1 - unit, 1 + 2*unit, 1, 1 + unit, 1 + unit, 0, 3 + 2*unit}
	x := tensor.New(productRows(b), n)
	for i := range x.Rows {
		copy(x.Row(i), given[:])
	}
	y, zbar := products(t, b, layer, x, x)
	for i := range x.Rows {
		for k := range n {
			if y.Row(i)[k] != want[k] || zbar.Row(i)[k] != want[k] {
				t.Fatalf("row %d: %v times 1 is %v forward and %v backward, want %v", i, given[k], y.Row(i)[k], zbar.Row(i)[k], want[k])
			}
		}
	}
}

// TestThreeProductsKeepTheMasks has hidden units that miss their kinks by 2⁻¹⁷ of what is
// added up in them: on tensor cores as in float64, where operands rounded once would put
// some on the other side.
func TestThreeProductsKeepTheMasks(t *testing.T) {
	_, b := metered(t, Options{TF32: true})
	rng := rand.New(rand.NewPCG(21, 22))
	draw := func() float32 { return float32(rng.NormFloat64()) }
	for _, shape := range [][3]int{{5, 40, 3}, {16, 64, 16}, {33, 100, 20}, {130, 256, 60}} {
		in, hidden, out := shape[0], shape[1], shape[2]
		net := &model.MLP{Layers: []model.Layer{linear(in, hidden, draw).Layers[0], linear(hidden, out, draw).Layers[0]}}
		first, second := &net.Layers[0], &net.Layers[1]
		given, ybar := make([]float32, in), make([]float32, out)
		for _, v := range [][]float32{given, ybar} {
			for i := range v {
				v[i] = draw()
			}
		}
		on, flipped := make([]bool, hidden), 0
		for u := range hidden {
			sum, once, size := 0.0, 0.0, 0.0
			for k, w := range first.W.Row(u) {
				sum += float64(w) * float64(given[k])
				once += toTF32(w) * toTF32(given[k])
				size += math.Abs(float64(w) * float64(given[k]))
			}
			if on[u] = rng.IntN(2) == 0; on[u] {
				size = -size
			}
			first.B[u] = float32(-sum - size/(1<<17))
			if once+float64(first.B[u]) > 0 != on[u] {
				flipped++
			}
		}
		if flipped < hidden/10 {
			t.Errorf("%v: rounding once moves %d of %d units to the other side: these are no near kinks", shape, flipped, hidden)
		}
		rows := productRows(b)
		x, bar, zbar := tensor.New(rows, in), tensor.New(rows, out), tensor.New(rows, in)
		for i := range rows {
			copy(x.Row(i), given)
			copy(bar.Row(i), ybar)
		}
		require.OK(t, require.Get(b.NewNet(net))(t).VJP(x, bar, zbar))
		for k := range in {
			want, size := 0.0, 0.0
			for u := range hidden {
				below, sizeBelow := 0.0, 0.0
				for o := range out {
					below += float64(second.W.Row(o)[u]) * float64(ybar[o])
					sizeBelow += math.Abs(float64(second.W.Row(o)[u]) * float64(ybar[o]))
				}
				w := float64(first.W.Row(u)[k])
				if on[u] {
					want += w * below
				}
				size += math.Abs(w) * sizeBelow
			}
			for _, i := range []int{0, rows - 1} {
				if off := math.Abs(float64(zbar.Row(i)[k]) - want); !(off <= 4*operandRounding*size/math.Sqrt(float64(hidden))) {
					t.Fatalf("%v, row %d, backward %d: %g, want %g: off by %g", shape, i, k, zbar.Row(i)[k], want, off)
				}
			}
		}
	}
}
