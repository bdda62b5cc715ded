package training

import (
	"math"

	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

func dot(a, b []float64) float64 { return tensor.DotInOrder(a, b) }

// axpy is y += a x.
func axpy(y []float64, a float64, x []float64) { tensor.Axpy(a, x, y) }

func sub(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

func scaled(a float64, x []float64) []float64 {
	y := make([]float64, len(x))
	axpy(y, a, x)
	return y
}

func squaredNorm(a []float64) float64 { return dot(a, a) }

func norm(a []float64) float64 { return math.Sqrt(dot(a, a)) }

// wide copies one float32 row into float64.
func wide(row []float32) []float64 {
	v := make([]float64, len(row))
	tensor.Widen(v, row)
	return v
}

// narrow rounds a network to float32.
func narrow(m *ref.MLP) *model.MLP {
	net := &model.MLP{}
	for _, l := range m.Layers {
		layer := model.Layer{W: tensor.New(l.Out, l.In), B: make([]float32, l.Out)}
		tensor.Narrow(layer.W.Data, l.W)
		tensor.Narrow(layer.B, l.B)
		net.Layers = append(net.Layers, layer)
	}
	return net
}

// ZeroLike returns a network of the same shape with all parameters zero: the
// accumulator of a gradient.
func ZeroLike(m *ref.MLP) *ref.MLP {
	g := &ref.MLP{}
	for _, l := range m.Layers {
		g.Layers = append(g.Layers, ref.Layer{In: l.In, Out: l.Out, W: make([]float64, len(l.W)), B: make([]float64, len(l.B))})
	}
	return g
}
