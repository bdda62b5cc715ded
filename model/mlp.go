package model

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/tensor"
)

// Layer is one affine map y = W x + b, with W row-major [out][in].
type Layer struct {
	W tensor.Matrix
	B []float32
}

// MLP is a multilayer perceptron: affine layers with ReLU between them and none
// after the last (paper, "Experimental Setup": three layers, hidden width 256).
type MLP struct {
	Layers []Layer
}

// MaxWidth and MaxLayers bound what Validate accepts, and so what a model file
// can make a reader allocate.
const (
	MaxWidth  = 4096
	MaxLayers = 16
)

// NewMLP returns a network of the given widths (input first) with He-normal
// weights and zero biases, drawn from rng.
func NewMLP(rng *rand.Rand, widths ...int) (*MLP, error) {
	if len(widths) < 2 {
		return nil, fmt.Errorf("model: an MLP needs an input and an output width, got %v", widths)
	}
	m := &MLP{}
	for l := 1; l < len(widths); l++ {
		in, out := widths[l-1], widths[l]
		if in < 1 || out < 1 || in > MaxWidth || out > MaxWidth {
			return nil, fmt.Errorf("model: layer %d is %d×%d, widths must be in [1, %d]", l, out, in, MaxWidth)
		}
		layer := Layer{W: tensor.New(out, in), B: make([]float32, out)}
		gain := math.Sqrt(2 / float64(in))
		if l == len(widths)-1 {
			gain = math.Sqrt(1 / float64(in))
		}
		for i := range layer.W.Data {
			layer.W.Data[i] = float32(gain * rng.NormFloat64())
		}
		m.Layers = append(m.Layers, layer)
	}
	return m, nil
}

// In and Out are the input and output widths.
func (m *MLP) In() int  { return m.Layers[0].W.Cols }
func (m *MLP) Out() int { return m.Layers[len(m.Layers)-1].W.Rows }

// MaxHidden is the widest layer output, which sizes a backend's workspace.
func (m *MLP) MaxHidden() int {
	w := 0
	for _, l := range m.Layers {
		w = max(w, l.W.Rows)
	}
	return w
}

// MulAdds is the number of multiply-adds of one forward pass of one row.
func (m *MLP) MulAdds() int {
	n := 0
	for _, l := range m.Layers {
		n += l.W.Rows * l.W.Cols
	}
	return n
}

// Clone returns a deep copy.
func (m *MLP) Clone() *MLP {
	c := &MLP{Layers: make([]Layer, len(m.Layers))}
	for i, l := range m.Layers {
		c.Layers[i] = Layer{W: l.W.Clone(), B: append([]float32(nil), l.B...)}
	}
	return c
}

// Validate checks that widths chain, biases fit, and every parameter is finite.
func (m *MLP) Validate() error {
	if len(m.Layers) == 0 || len(m.Layers) > MaxLayers {
		return fmt.Errorf("model: %d layers, want 1 to %d", len(m.Layers), MaxLayers)
	}
	for i, l := range m.Layers {
		rows, cols := l.W.Rows, l.W.Cols
		if rows < 1 || cols < 1 || rows > MaxWidth || cols > MaxWidth {
			return fmt.Errorf("model: layer %d is %d×%d, widths must be in [1, %d]", i, rows, cols, MaxWidth)
		}
		if err := tensor.Check("model", fmt.Sprintf("layer %d weights", i), l.W, rows, cols); err != nil {
			return err
		}
		if !l.W.Dense() {
			return fmt.Errorf("model: layer %d weights are not dense", i)
		}
		if len(l.B) != rows {
			return fmt.Errorf("model: layer %d has %d biases for %d outputs", i, len(l.B), rows)
		}
		if i > 0 && cols != m.Layers[i-1].W.Rows {
			return fmt.Errorf("model: layer %d takes %d inputs, layer %d before it gives %d: want equal numbers", i, cols, i-1, m.Layers[i-1].W.Rows)
		}
		for _, vs := range [2][]float32{l.W.Data[:rows*cols], l.B} {
			for j, v := range vs {
				if v-v != 0 { // NaN or infinite
					return fmt.Errorf("model: layer %d has the parameter %v at index %d, want a finite number", i, v, j)
				}
			}
		}
	}
	return nil
}
