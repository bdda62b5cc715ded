package cpufallback

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// tolerance of a float32 result of a three-layer network of these widths,
// relative to the largest magnitude of its row: some hundred roundings that
// mostly cancel. A wrong element is off by about one.
const tolerance = 2e-5

// open makes a backend that ends with the test.
func open(t testing.TB, level isa.Level, threads int) *Backend {
	t.Helper()
	b := require.Get(New(Options{Threads: threads, ISA: level.String()}))(t)
	t.Cleanup(func() { b.Close() })
	return b
}

func randomRows(rng *rand.Rand, rows, cols, stride int) tensor.Matrix {
	m := tensor.Matrix{Rows: rows, Cols: cols, Stride: stride, Data: make([]float32, max(0, (rows-1)*stride+cols))}
	for i := range m.Data {
		m.Data[i] = float32(rng.NormFloat64())
	}
	return m
}

// plainNet is the float64 twin: value, and Jacobian by the chain rule from the
// left. kink is the smallest magnitude of a pre-activation: below some 1e-5,
// float32 may see the other side.
func plainNet(m *model.MLP, z []float32) (y []float64, jac [][]float64, kink float64) {
	kink = math.Inf(1)
	a := make([]float64, len(z))
	tensor.Widen(a, z)
	jac = make([][]float64, len(z))
	for i := range jac {
		jac[i] = make([]float64, len(z))
		jac[i][i] = 1
	}
	for l, layer := range m.Layers {
		next := make([]float64, layer.W.Rows)
		nextJac := make([][]float64, layer.W.Rows)
		for o := range next {
			s := float64(layer.B[o])
			row := make([]float64, len(z))
			for i, w := range layer.W.Row(o) {
				s += float64(w) * a[i]
				for d := range row {
					row[d] += float64(w) * jac[i][d]
				}
			}
			if l < len(m.Layers)-1 {
				kink = min(kink, math.Abs(s))
				if !(s > 0) {
					s = 0
					clear(row)
				}
			}
			next[o], nextJac[o] = s, row
		}
		a, jac = next, nextJac
	}
	return a, jac, kink
}

// awayFromKinks draws rows again whose float32 and float64 masks could differ.
func awayFromKinks(rng *rand.Rand, m *model.MLP, z tensor.Matrix) {
	for i := range z.Rows {
		for {
			if _, _, kink := plainNet(m, z.Row(i)); kink > 1e-4 {
				break
			}
			for d := range z.Row(i) {
				z.Row(i)[d] = float32(rng.NormFloat64())
			}
		}
	}
}

func closeTo(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	scale := 1e-30
	for _, w := range want {
		scale = max(scale, math.Abs(w))
	}
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= tolerance*scale) {
			t.Fatalf("%s: element %d is %v, want %v (row scale %.3g)", what, i, got[i], w, scale)
		}
	}
}

var netShapes = []struct {
	widths []int
	batch  int
}{
	{[]int{3, 5}, 2},                 // affine: no mask at all
	{[]int{1, 1, 1}, 3},              //
	{[]int{7, 33, 5}, 33},            //
	{[]int{2, 64, 64, 4}, 31},        // reverse mode, few outputs
	{[]int{32, 256, 256, 60}, 5},     // the OPF decoder: forward mode
	{[]int{33, 70, 31, 45, 3}, 32},   // four layers
	{[]int{5, 17, 40, 33, 90}, 100},  // forward mode, widths of no register
	{[]int{70, 20, 100, 16, 69}, 13}, //
	{[]int{40, 300, 12}, 1},          //
	{[]int{48, 96, 40, 12}, 14},      // reverse mode, outputs too many to keep inactive columns
	{[]int{64, 30, 70, 33, 20}, 6},   //
}

func TestNetAgainstFloat64(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, level := range isa.Available() {
		t.Run(level.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			b := open(t, level, 2)
			defer b.Close()
			for _, s := range netShapes {
				checkNet(t, rng, b, testdomain.Network(rng, 0.3, s.widths...), s.batch)
			}
		})
	}
}

func checkNet(t *testing.T, rng *rand.Rand, b *Backend, m *model.MLP, batch int) {
	t.Helper()
	in, out := m.In(), m.Out()
	net := require.Get(b.NewNet(m))(t)
	z := randomRows(rng, batch, in, in+3)
	awayFromKinks(rng, m, z)
	ybar := randomRows(rng, batch, out, out+1)
	y, zbar := randomRows(rng, batch, out, out+2), randomRows(rng, batch, in, in+1)
	jac, g := randomRows(rng, batch, out*in, out*in+1), randomRows(rng, batch, in*in, in*in+5)
	const lambda = 0.125
	for _, err := range []error{net.Forward(z, y), net.VJP(z, ybar, zbar), net.Jacobian(z, jac), net.Metric(z, lambda, g)} {
		require.OK(t, err)
	}
	for i := range batch {
		wantY, wantJ, _ := plainNet(m, z.Row(i))
		name := fmt.Sprintf("%s %v row %d", b.level, shape(m), i)
		closeTo(t, name+" value", y.Row(i), wantY)
		flat, vjp, metric := make([]float64, 0, out*in), make([]float64, in), make([]float64, in*in)
		for o, row := range wantJ {
			flat = append(flat, row...)
			for d, v := range row {
				vjp[d] += v * float64(ybar.Row(i)[o])
				for e, w := range row {
					metric[d*in+e] += v * w
				}
			}
		}
		for d := range in {
			metric[d*in+d] += lambda
		}
		closeTo(t, name+" VJP", zbar.Row(i), vjp)
		closeTo(t, name+" Jacobian", jac.Row(i), flat)
		closeTo(t, name+" metric", g.Row(i), metric)
		for d := range in {
			for e := range d {
				if g.Row(i)[d*in+e] != g.Row(i)[e*in+d] {
					t.Fatalf("%s: metric is not symmetric at %d, %d", name, d, e)
				}
			}
		}
	}
}

func shape(m *model.MLP) []int {
	w := []int{m.In()}
	for _, l := range m.Layers {
		w = append(w, l.W.Rows)
	}
	return w
}

// All operations, on 1, 2 and 5 threads, from a batch and row by row, give the
// same bits.
func TestResultsDependNeitherOnThreadsNorOnBatchPosition(t *testing.T) {
	for _, level := range isa.Available() {
		for _, widths := range [][]int{{32, 256, 256, 60}, {6, 96, 40, 5}, {48, 96, 40, 12}} {
			rng := rand.New(rand.NewPCG(3, 4))
			m := testdomain.Network(rng, 0.3, widths...)
			const batch = 101
			z, ybar := randomRows(rng, batch, m.In(), m.In()), randomRows(rng, batch, m.Out(), m.Out())
			var first []tensor.Matrix
			for _, threads := range []int{1, 2, 5} {
				net := require.Get(open(t, level, threads).NewNet(m))(t)
				got := allOperations(t, net, m, z, ybar)
				if first == nil {
					first = got
					for _, i := range []int{0, 1, 57, 100} {
						for op, r := range allOperations(t, net, m, z.Slice(i, i+1), ybar.Slice(i, i+1)) {
							identical(t, fmt.Sprintf("%s operation %d, row %d alone", level, op, i), r, got[op].Slice(i, i+1))
						}
					}
				}
				for op := range got {
					identical(t, fmt.Sprintf("%s operation %d, %d threads", level, op, threads), got[op], first[op])
				}
			}
		}
	}
}

// allOperations returns value, VJP, Jacobian and metric.
func allOperations(t *testing.T, net backend.Net, m *model.MLP, z, ybar tensor.Matrix) []tensor.Matrix {
	t.Helper()
	in, out := m.In(), m.Out()
	r := []tensor.Matrix{tensor.New(z.Rows, out), tensor.New(z.Rows, in), tensor.New(z.Rows, out*in), tensor.New(z.Rows, in*in)}
	for _, err := range []error{net.Forward(z, r[0]), net.VJP(z, ybar, r[1]), net.Jacobian(z, r[2]), net.Metric(z, 1e-3, r[3])} {
		require.OK(t, err)
	}
	return r
}

func identical(t *testing.T, what string, a, b tensor.Matrix) {
	t.Helper()
	for i := range a.Rows {
		for j, v := range a.Row(i) {
			if w := b.Row(i)[j]; math.Float32bits(v) != math.Float32bits(w) {
				t.Fatalf("%s: [%d,%d] is %v and %v", what, i, j, v, w)
			}
		}
	}
}

func TestBroadcastInputIsEveryRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, level := range isa.Available() {
		m := testdomain.Network(rng, 0.3, 9, 50, 20)
		net := require.Get(open(t, level, 2).NewNet(m))(t)
		row, bar := randomRows(rng, 1, 9, 9), randomRows(rng, 1, 20, 20)
		one := allOperations(t, net, m, row, bar)
		many := allOperations(t, net, m, tensor.Broadcast(row.Data, 37), tensor.Broadcast(bar.Data, 37))
		for op := range many {
			for i := range 37 {
				identical(t, fmt.Sprintf("%s operation %d row %d", level, op, i), many[op].Slice(i, i+1), one[op])
			}
		}
	}
}

// A NaN in one latent makes that row's every result NaN and no other row's.
func TestNaNStaysInItsRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, level := range isa.Available() {
		for _, widths := range [][]int{{4, 30, 6}, {32, 64, 64, 40}, {12, 64, 64, 3}} {
			m := testdomain.Network(rng, 0.3, widths...)
			net := require.Get(open(t, level, 2).NewNet(m))(t)
			z, ybar := randomRows(rng, 20, m.In(), m.In()), randomRows(rng, 20, m.Out(), m.Out())
			z.Row(13)[2] = float32(math.NaN())
			for op, r := range allOperations(t, net, m, z, ybar) {
				for i := range r.Rows {
					for j, v := range r.Row(i) {
						if isNaN := v != v; isNaN != (i == 13) {
							t.Fatalf("%s %v operation %d: [%d,%d] = %v", level, widths, op, i, j, v)
						}
					}
				}
			}
		}
	}
}

// At a pre-activation of exactly zero the derivative is zero, whatever the
// direction the Jacobian is multiplied in.
func TestDerivativeAtTheKinkIsZero(t *testing.T) {
	for _, level := range isa.Available() {
		for _, widths := range [][]int{{3, 20, 4}, {3, 40, 30, 50}, {40, 40, 30, 4}, {40, 40, 30, 12}} {
			m := testdomain.Network(rand.New(rand.NewPCG(9, 9)), 0.3, widths...)
			for _, l := range m.Layers {
				clear(l.B)
			}
			net := require.Get(open(t, level, 1).NewNet(m))(t)
			z, ybar := tensor.New(2, m.In()), tensor.Broadcast(randomRows(rand.New(rand.NewPCG(1, 9)), 1, m.Out(), m.Out()).Data, 2)
			r := allOperations(t, net, m, z, ybar)
			for _, v := range append(r[1].Data, r[2].Data...) {
				if v != 0 {
					t.Fatalf("%s %v: derivative %v at the kink", level, widths, v)
				}
			}
		}
	}
}

func TestNetOperationsAllocateNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for _, level := range isa.Available() {
		for _, threads := range []int{1, 2} {
			m := testdomain.Network(rng, 0.3, 16, 64, 64, 20)
			net := require.Get(open(t, level, threads).NewNet(m))(t)
			z, ybar := randomRows(rng, 50, 16, 16), randomRows(rng, 50, 20, 20)
			y, zbar, jac, g := tensor.New(50, 20), tensor.New(50, 16), tensor.New(50, 320), tensor.New(50, 256)
			for name, f := range map[string]func() error{
				"Forward":  func() error { return net.Forward(z, y) },
				"VJP":      func() error { return net.VJP(z, ybar, zbar) },
				"Jacobian": func() error { return net.Jacobian(z, jac) },
				"Metric":   func() error { return net.Metric(z, 0.1, g) },
			} {
				if n := testing.AllocsPerRun(20, func() {
					require.OK(t, f())
				}); n != 0 {
					t.Errorf("%s on %s, %d threads: %v allocations", name, level, threads, n)
				}
			}
		}
	}
}

func TestShapesAreChecked(t *testing.T) {
	m := testdomain.Network(rand.New(rand.NewPCG(1, 1)), 0.3, 4, 8, 3)
	b := open(t, isa.Generic, 1)
	net := require.Get(b.NewNet(m))(t)
	z := tensor.New(5, 4)
	var shapeErr *tensor.ShapeError
	for name, err := range map[string]error{
		"latent width":   net.Forward(tensor.New(5, 3), tensor.New(5, 3)),
		"output rows":    net.Forward(z, tensor.New(4, 3)),
		"cotangent":      net.VJP(z, tensor.New(5, 4), tensor.New(5, 4)),
		"gradient":       net.VJP(z, tensor.New(5, 3), tensor.New(5, 3)),
		"Jacobian width": net.Jacobian(z, tensor.New(5, 11)),
		"metric width":   net.Metric(z, 0, tensor.New(5, 12)),
	} {
		if !errors.As(err, &shapeErr) {
			t.Errorf("%s: error %v, want a ShapeError", name, err)
		}
	}
	if err := net.Forward(z, tensor.Broadcast(make([]float32, 3), 5)); err == nil {
		t.Error("a broadcast output was accepted")
	}
	if err := net.Forward(tensor.New(0, 4), tensor.New(0, 3)); err != nil {
		t.Errorf("empty batch: %v", err)
	}
	bad := m.Clone()
	bad.Layers[0].W.Data[3] = float32(math.NaN())
	if _, err := b.NewNet(bad); err == nil {
		t.Error("a network with a NaN weight was accepted")
	}
	if _, err := b.NewNet(nil); err == nil {
		t.Error("a nil network was accepted")
	}
}

// NewNet copies: a later change of the network changes nothing.
func TestNetIsACopy(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	m := testdomain.Network(rng, 0.3, 4, 40, 3)
	net := require.Get(open(t, isa.Available()[len(isa.Available())-1], 1).NewNet(m))(t)
	z, ybar := randomRows(rng, 3, 4, 4), randomRows(rng, 3, 3, 3)
	before := allOperations(t, net, m, z, ybar)
	for _, l := range m.Layers {
		clear(l.W.Data)
		clear(l.B)
	}
	for op, r := range allOperations(t, net, m, z, ybar) {
		identical(t, "after the change", r, before[op])
	}
}
