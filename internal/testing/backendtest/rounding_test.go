package backendtest

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/training"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// single is a plain float32 backend: networks by naive float32 loops, steps by
// the reference on networks whose every weight is off by about one unit of
// roundoff, the backward error of a float32 evaluation. It must pass the suite,
// or the tolerances are out of reach.
type single struct{ training.Backend }

type singleNet struct {
	backend.Net
	mlp *model.MLP
}

func (b single) NewNet(mlp *model.MLP) (backend.Net, error) {
	n, err := b.Backend.NewNet(mlp)
	if err != nil {
		return nil, err
	}
	return singleNet{n, mlp.Clone()}, nil
}

// run is a float32 forward pass that keeps the activations and masks.
func (n singleNet) run(z []float32) (y []float32, masks [][]bool) {
	x := z
	for l, layer := range n.mlp.Layers {
		y = make([]float32, layer.W.Rows)
		mask := make([]bool, len(y))
		for o := range y {
			sum := layer.B[o]
			for i, w := range layer.W.Row(o) {
				sum += w * x[i]
			}
			y[o], mask[o] = sum, sum > 0
			if l < len(n.mlp.Layers)-1 && sum <= 0 {
				y[o] = 0
			}
		}
		masks = append(masks, mask)
		x = y
	}
	return y, masks
}

func (n singleNet) back(masks [][]bool, ybar []float32) []float32 {
	bar := ybar
	for l := len(n.mlp.Layers) - 1; l >= 0; l-- {
		w := n.mlp.Layers[l].W
		next := make([]float32, w.Cols)
		for o, g := range bar {
			for i, v := range w.Row(o) {
				next[i] += g * v
			}
		}
		if l > 0 {
			for i := range next {
				if !masks[l-1][i] {
					next[i] = 0
				}
			}
		}
		bar = next
	}
	return bar
}

func (n singleNet) Forward(z, y tensor.Matrix) error {
	if err := n.Net.Forward(z, y); err != nil {
		return err
	}
	for b := range z.Rows {
		out, _ := n.run(z.Row(b))
		copy(y.Row(b), out)
	}
	return nil
}

func (n singleNet) VJP(z, ybar, zbar tensor.Matrix) error {
	if err := n.Net.VJP(z, ybar, zbar); err != nil {
		return err
	}
	for b := range z.Rows {
		_, masks := n.run(z.Row(b))
		copy(zbar.Row(b), n.back(masks, ybar.Row(b)))
	}
	return nil
}

func (n singleNet) jacobian(z []float32) []float32 {
	_, masks := n.run(z)
	var jac []float32
	for i := range n.mlp.Out() {
		unit := make([]float32, n.mlp.Out())
		unit[i] = 1
		jac = append(jac, n.back(masks, unit)...)
	}
	return jac
}

func (n singleNet) Jacobian(z, jac tensor.Matrix) error {
	if err := tensor.Check("Jacobian", "jac", jac, z.Rows, n.mlp.Out()*n.mlp.In()); err != nil {
		return err
	}
	for b := range z.Rows {
		copy(jac.Row(b), n.jacobian(z.Row(b)))
	}
	return nil
}

func (n singleNet) Metric(z tensor.Matrix, lambda float32, g tensor.Matrix) error {
	width := n.mlp.In()
	if err := tensor.Check("Metric", "g", g, z.Rows, width*width); err != nil {
		return err
	}
	for b := range z.Rows {
		jac, row := n.jacobian(z.Row(b)), g.Row(b)
		clear(row)
		for r := 0; r < len(jac); r += width {
			for i := range width {
				for j := range width {
					row[i*width+j] += jac[r+i] * jac[r+j]
				}
			}
		}
		for i := range width {
			row[i*width+i] += lambda
		}
	}
	return nil
}

// jitter moves every weight by up to two units of roundoff.
func jitter(mlp *model.MLP) *model.MLP {
	rng := newRand(7)
	m := mlp.Clone()
	for _, l := range m.Layers {
		for _, v := range [][]float32{l.W.Data, l.B} {
			for i := range v {
				v[i] *= 1 + float32((2*rng.Float64()-1)*4*epsilon)
			}
		}
	}
	return m
}

func (b single) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.DecoderS, cfg.DecoderU = jitter(cfg.DecoderS), jitter(cfg.DecoderU)
	return b.Backend.NewStepper(cfg)
}

func TestTolerancesAdmitSinglePrecision(t *testing.T) {
	open := func(testing.TB, int) backend.Backend { return single{training.New()} }
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "net" { // a sample of its many shapes is enough here
				compareNets(t, open, everyNth(shapes(), 7))
			} else {
				c.run(t, open)
			}
		})
	}
}
