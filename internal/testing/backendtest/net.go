package backendtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

const testLambda = 0.03125

// netResults are the outputs of the four operations of a Net.
type netResults struct{ y, zbar, jac, metric tensor.Matrix }

func (r netResults) joined() []float32 { return all(r.y.Data, r.zbar.Data, r.jac.Data, r.metric.Data) }

func runNet(b backend.Backend, mlp *model.MLP, z, ybar tensor.Matrix) (netResults, error) {
	n, m := mlp.In(), mlp.Out()
	r := netResults{output(z.Rows, m), output(z.Rows, n), output(z.Rows, m*n), output(z.Rows, n*n)}
	net, err := b.NewNet(mlp)
	if err != nil {
		return r, fmt.Errorf("NewNet: %w", err)
	}
	if err := net.Forward(z, r.y); err != nil {
		return r, fmt.Errorf("net.Forward: %w", err)
	}
	if err := net.VJP(z, ybar, r.zbar); err != nil {
		return r, fmt.Errorf("net.VJP: %w", err)
	}
	if err := net.Jacobian(z, r.jac); err != nil {
		return r, fmt.Errorf("net.Jacobian: %w", err)
	}
	if err := net.Metric(z, testLambda, r.metric); err != nil {
		return r, fmt.Errorf("net.Metric: %w", err)
	}
	return r, nil
}

func (r netResults) compare(want netResults, smooth []bool) error {
	if err := tolForward.rows(r.y, want.y, nil); err != nil {
		return err
	}
	if err := tolVJP.rows(r.zbar, want.zbar, smooth); err != nil {
		return err
	}
	if err := tolJacobian.rows(r.jac, want.jac, smooth); err != nil {
		return err
	}
	return tolMetric.rows(r.metric, want.metric, smooth)
}

// referenceNet computes the four operations from one Jacobian a row.
func referenceNet(mlp *model.MLP, z, ybar tensor.Matrix) netResults {
	net, n, m := ref.Widen(mlp), mlp.In(), mlp.Out()
	r := netResults{tensor.New(z.Rows, m), tensor.New(z.Rows, n), tensor.New(z.Rows, m*n), tensor.New(z.Rows, n*n)}
	for b := range z.Rows {
		x := row64(z.Row(b))
		jac := net.Jacobian(x)
		tensor.Narrow(r.y.Row(b), net.Forward(x))
		tensor.Narrow(r.zbar.Row(b), net.VJP(x, row64(ybar.Row(b))))
		tensor.Narrow(r.jac.Row(b), jac)
		tensor.Narrow(r.metric.Row(b), ref.PullbackMetric(jac, n, testLambda))
	}
	return r
}

func checkNets(t testing.TB, open Open) {
	list := shapes()
	if testing.Short() {
		list = everyNth(list, 9) // no multiple of a list's length: every size comes
	}
	compareNets(t, open, list)
}

// compareNets compares the four operations over a list of shapes.
func compareNets(t testing.TB, open Open, list []shape) {
	b := opened(t, open, 0)
	kept, total := 0, 0
	for i, s := range list {
		rng := newRand(uint64(100 + i))
		mlp := testdomain.Network(rng, 0.2, s.widths...)
		for _, batch := range s.batches {
			z, ybar := testdomain.Matrix(rng, batch, mlp.In()), testdomain.Matrix(rng, batch, mlp.Out())
			got, err := runNet(b, mlp, z, ybar)
			if err != nil {
				t.Errorf("%v, batch %d: %v", s, batch, err)
				continue
			}
			smooth := smoothRows(z, mlp)
			kept, total = kept+count(smooth), total+batch
			if err := got.compare(referenceNet(mlp, z, ybar), smooth); err != nil {
				t.Errorf("%v, batch %d: %v", s, batch, err)
			}
		}
	}
	share(t, "net", kept, total)
}

// checkNetStrides gives every matrix gaps between its rows, and then one row
// for a whole batch.
func checkNetStrides(t testing.TB, open Open) {
	b := opened(t, open, 0)
	for i, widths := range [][]int{{3, 7, 7, 2}, {5, 33, 33, 12}, {16, 256, 256, 1}} {
		rng := newRand(uint64(200 + i))
		mlp := testdomain.Network(rng, 0.2, widths...)
		n, m := mlp.In(), mlp.Out()
		net := require.Get(b.NewNet(mlp))(t)
		const batch = 33
		z, ybar := testdomain.Matrix(rng, batch, n), testdomain.Matrix(rng, batch, m)
		one := tensor.Broadcast(z.Row(0), batch)
		oneBar := tensor.Broadcast(ybar.Row(0), batch)
		for _, c := range []struct {
			name    string
			z, ybar tensor.Matrix
		}{{"strided", strided(z), strided(ybar)}, {"broadcast", one, oneBar}, {"broadcast z", one, ybar}, {"broadcast ybar", z, oneBar}} {
			want, smooth := referenceNet(mlp, c.z, c.ybar), smoothRows(c.z, mlp)
			got := netResults{strided(output(batch, m)), strided(output(batch, n)), strided(output(batch, m*n)), strided(output(batch, n*n))}
			for name, err := range map[string]error{
				"Forward": net.Forward(c.z, got.y), "VJP": net.VJP(c.z, c.ybar, got.zbar),
				"Jacobian": net.Jacobian(c.z, got.jac), "Metric": net.Metric(c.z, testLambda, got.metric),
			} {
				if err != nil {
					t.Errorf("%v, %s input: %s: %v", widths, c.name, name, err)
				}
			}
			if err := got.compare(want, smooth); err != nil {
				t.Errorf("%v, %s input: %v", widths, c.name, err)
			}
			for name, out := range map[string]tensor.Matrix{"y": got.y, "zbar": got.zbar, "jac": got.jac, "g": got.metric} {
				if !gapsUntouched(out) {
					t.Errorf("%v, %s input: the gaps between the rows of %s were written", widths, c.name, name)
				}
			}
		}
	}
}

// checkNetEdges puts NaN, infinities, denormal numbers and zeros into single
// rows.
func checkNetEdges(t testing.TB, open Open) {
	b := opened(t, open, 0)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for i, widths := range [][]int{{3, 7, 7, 2}, {16, 33, 33, 12}, {32, 256, 256, 12}} {
		rng := newRand(uint64(300 + i))
		mlp := testdomain.Network(rng, 0.2, widths...)
		const batch, at = 35, 17
		z, ybar := testdomain.Matrix(rng, batch, mlp.In()), testdomain.Matrix(rng, batch, mlp.Out())
		clean, err := runNet(b, mlp, z, ybar)
		if err != nil {
			t.Fatalf("%v: %v", widths, err)
		}
		for _, edge := range []struct {
			name   string
			value  float32
			inYbar bool
			whole  bool
		}{
			{"NaN latent", nan, false, false}, {"+Inf latent", inf, false, false}, {"−Inf latent", -inf, false, true},
			{"NaN cotangent", nan, true, false}, {"denormal latent", 1e-40, false, true}, {"zero latent", 0, false, true},
			{"denormal cotangent", -3e-42, true, true},
		} {
			ze, ye := z.Clone(), ybar.Clone()
			row := ze.Row(at)
			if edge.inYbar {
				row = ye.Row(at)
			}
			row[len(row)-1] = edge.value
			if edge.whole {
				for j := range row {
					row[j] = edge.value
				}
			}
			got, err := runNet(b, mlp, ze, ye)
			if err != nil {
				t.Errorf("%v, %s: %v", widths, edge.name, err)
				continue
			}
			latentFinite := edge.inYbar || isFinite(float64(edge.value))
			only := func(m tensor.Matrix) tensor.Matrix { return m.Slice(at, at+1) }
			compare := []bool{latentFinite && smoothRows(only(ze), mlp)[0]}
			edged := netResults{only(got.y), only(got.zbar), only(got.jac), only(got.metric)}
			if err := edged.compare(referenceNet(mlp, only(ze), only(ye)), compare); err != nil {
				t.Errorf("%v, %s: %v", widths, edge.name, err)
			}
			if edge.value != edge.value && !edge.inYbar {
				for j, v := range got.y.Row(at) {
					if isFinite(float64(v)) {
						t.Errorf("%v, %s: output %d is %v, a NaN was dropped", widths, edge.name, j, v)
					}
				}
			}
			for name, pair := range map[string][2]tensor.Matrix{
				"y": {got.y, clean.y}, "zbar": {got.zbar, clean.zbar}, "jac": {got.jac, clean.jac}, "g": {got.metric, clean.metric},
			} {
				for r := range batch {
					if err := identical(pair[0].Row(r), pair[1].Row(r)); r != at && err != nil {
						t.Errorf("%v, %s in row %d changed row %d of %s: %v", widths, edge.name, at, r, name, err)
						break
					}
				}
			}
		}
	}
	// A row exactly on the kink: pre-activation 0, derivative 0.
	kink := &model.MLP{Layers: []model.Layer{
		{W: tensor.Matrix{Rows: 2, Cols: 1, Stride: 1, Data: []float32{1, -1}}, B: []float32{-1, 1}},
		{W: tensor.Matrix{Rows: 1, Cols: 2, Stride: 2, Data: []float32{3, 5}}, B: []float32{0}},
	}}
	one := tensor.Matrix{Rows: 1, Cols: 1, Stride: 1, Data: []float32{1}}
	got := require.Get(runNet(b, kink, one, one))(t)
	if got.y.Data[0] != 0 || got.jac.Data[0] != 0 || got.zbar.Data[0] != 0 || got.metric.Data[0] != testLambda {
		t.Errorf("on the kink: y %v, J %v, VJP %v, G %v, want 0, 0, 0, λ", got.y.Data[0], got.jac.Data[0], got.zbar.Data[0], got.metric.Data[0])
	}
	// A dead network: the Jacobian is zero and the metric λI.
	dead := testdomain.Network(newRand(399), 0.2, 5, 33, 12)
	for i := range dead.Layers[0].B {
		dead.Layers[0].B[i] = -100
	}
	z, ybar := testdomain.Matrix(newRand(398), 9, 5), testdomain.Matrix(newRand(397), 9, 12)
	got = require.Get(runNet(b, dead, z, ybar))(t)
	if err := identical(got.metric.Data, referenceNet(dead, z, ybar).metric.Data); err != nil {
		t.Errorf("zero Jacobian: metric: %v", err)
	}
}

// checkNetPosition computes each row of a batch alone, and the batch in reverse.
func checkNetPosition(t testing.TB, open Open) {
	b := opened(t, open, 0)
	for i, widths := range [][]int{{2, 7, 7, 1}, {5, 33, 33, 12}, {33, 256, 256, 12}} {
		rng := newRand(uint64(400 + i))
		mlp := testdomain.Network(rng, 0.2, widths...)
		const batch = 33
		z, ybar := testdomain.Matrix(rng, batch, mlp.In()), testdomain.Matrix(rng, batch, mlp.Out())
		smooth := smoothRows(z, mlp)
		whole, err := runNet(b, mlp, z, ybar)
		if err != nil {
			t.Fatalf("%v: %v", widths, err)
		}
		for r := range batch {
			alone, err := runNet(b, mlp, z.Slice(r, r+1), ybar.Slice(r, r+1))
			if err != nil {
				t.Fatalf("%v: %v", widths, err)
			}
			for name, pair := range map[string][2]tensor.Matrix{
				"y": {alone.y, whole.y}, "zbar": {alone.zbar, whole.zbar}, "jac": {alone.jac, whole.jac}, "g": {alone.metric, whole.metric},
			} {
				if name != "y" && !smooth[r] {
					continue
				}
				if err := tolPosition.row(pair[0].Row(0), pair[1].Row(r)); err != nil {
					t.Errorf("%v: %s of row %d alone: %v", widths, name, r, err)
				}
			}
		}
		again, err := runNet(b, mlp, z, ybar)
		if err != nil {
			t.Fatalf("%v: %v", widths, err)
		}
		if err := identical(again.joined(), whole.joined()); err != nil {
			t.Errorf("%v: the same call twice: %v", widths, err)
		}
	}
}

func checkNetShapes(t testing.TB, open Open) {
	b := opened(t, open, 0)
	mlp := testdomain.Network(newRand(500), 0.2, 3, 7, 2)
	net := require.Get(b.NewNet(mlp))(t)
	z, y := tensor.New(4, 3), tensor.New(4, 2)
	short := tensor.Matrix{Rows: 4, Cols: 3, Stride: 3, Data: make([]float32, 11)}
	narrow := tensor.Matrix{Rows: 4, Cols: 3, Stride: 2, Data: make([]float32, 12)}
	for what, call := range map[string]func() error{
		"Forward, wide z":             func() error { return net.Forward(tensor.New(4, 4), y) },
		"Forward, narrow y":           func() error { return net.Forward(z, tensor.New(4, 1)) },
		"Forward, rows of y":          func() error { return net.Forward(z, tensor.New(3, 2)) },
		"Forward, short data":         func() error { return net.Forward(short, y) },
		"Forward, stride below cols":  func() error { return net.Forward(narrow, y) },
		"Forward, output of stride 0": func() error { return net.Forward(z, tensor.Broadcast(make([]float32, 2), 4)) },
		"VJP, ybar":                   func() error { return net.VJP(z, tensor.New(4, 3), tensor.New(4, 3)) },
		"VJP, zbar":                   func() error { return net.VJP(z, y, tensor.New(4, 2)) },
		"VJP, rows of ybar":           func() error { return net.VJP(z, tensor.New(5, 2), tensor.New(4, 3)) },
		"Jacobian, jac":               func() error { return net.Jacobian(z, tensor.New(4, 5)) },
		"Metric, g":                   func() error { return net.Metric(z, 0, tensor.New(4, 6)) },
		"NewNet, no layers":           func() error { _, err := b.NewNet(&model.MLP{}); return err },
		"NewNet, NaN weight": func() error {
			bad := mlp.Clone()
			bad.Layers[0].W.Data[0] = float32(math.NaN())
			_, err := b.NewNet(bad)
			return err
		},
		"NewNet, broken chain": func() error {
			bad := mlp.Clone()
			bad.Layers[1].W = tensor.New(2, 8)
			_, err := b.NewNet(bad)
			return err
		},
	} {
		wantError(t, what, call)
	}
	if err := net.Forward(tensor.New(0, 3), tensor.New(0, 2)); err != nil {
		t.Errorf("an empty batch is an error: %v", err)
	}
	// The network is copied: changing it afterwards changes nothing.
	input := testdomain.Matrix(newRand(501), 4, 3)
	before := output(4, 2)
	require.OK(t, net.Forward(input, before))
	mlp.Layers[0].W.Data[0] += 10
	after := output(4, 2)
	require.OK(t, net.Forward(input, after))
	if err := identical(after.Data, before.Data); err != nil {
		t.Errorf("NewNet kept the caller's weights: %v", err)
	}
}
