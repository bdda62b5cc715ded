package ref

import (
	"math"

	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Layer is y = W x + b with W row-major [Out][In].
type Layer struct {
	In, Out int
	W, B    []float64
}

// MLP is a multilayer perceptron in float64: affine layers with ReLU between
// them and none after the last. A gradient with respect to the parameters has
// the same type.
type MLP struct {
	Layers []Layer
}

// Widen copies a float32 network into float64.
func Widen(net *model.MLP) *MLP {
	m := &MLP{}
	for _, l := range net.Layers {
		layer := Layer{In: l.W.Cols, Out: l.W.Rows, W: make([]float64, l.W.Rows*l.W.Cols), B: make([]float64, l.W.Rows)}
		for o := range layer.Out {
			tensor.Widen(layer.W[o*layer.In:(o+1)*layer.In], l.W.Row(o))
		}
		tensor.Widen(layer.B, l.B)
		m.Layers = append(m.Layers, layer)
	}
	return m
}

// In and Out are the input and output widths.
func (m *MLP) In() int  { return m.Layers[0].In }
func (m *MLP) Out() int { return m.Layers[len(m.Layers)-1].Out }

// Pass is one row's forward pass: Input[l] is what layer l was given and Pre[l]
// its affine output, before ReLU. Pre of the last layer is the network's output.
type Pass struct {
	Input, Pre [][]float64
}

// Output is the network's output of the pass.
func (p Pass) Output() []float64 { return p.Pre[len(p.Pre)-1] }

// relu is max(a, 0), and NaN of NaN.
func relu(a float64) float64 {
	if a <= 0 {
		return 0
	}
	return a
}

// reluSlope is the derivative of relu: 0 at the kink, and NaN of NaN.
func reluSlope(a float64) float64 {
	switch {
	case a > 0:
		return 1
	case a <= 0:
		return 0
	}
	return math.NaN()
}

// Run makes the forward pass of one row and keeps what the backward pass needs.
func (m *MLP) Run(x []float64) Pass {
	var p Pass
	for l, layer := range m.Layers {
		p.Input = append(p.Input, x)
		pre := make([]float64, layer.Out)
		for o := range pre {
			pre[o] = layer.B[o] + dot(layer.W[o*layer.In:(o+1)*layer.In], x)
		}
		p.Pre = append(p.Pre, pre)
		if l < len(m.Layers)-1 {
			x = make([]float64, layer.Out)
			for o, a := range pre {
				x[o] = relu(a)
			}
		}
	}
	return p
}

// Forward returns net(x).
func (m *MLP) Forward(x []float64) []float64 { return m.Run(x).Output() }

// Backward returns the gradient of ⟨ybar, net(x)⟩ with respect to the input x
// of the pass, and adds the gradient with respect to the parameters to grad
// unless grad is nil.
func (m *MLP) Backward(p Pass, ybar []float64, grad *MLP) []float64 {
	bar := ybar
	for l := len(m.Layers) - 1; l >= 0; l-- {
		layer := m.Layers[l]
		if grad != nil {
			for o, g := range bar {
				grad.Layers[l].B[o] += g
				axpy(grad.Layers[l].W[o*layer.In:(o+1)*layer.In], g, p.Input[l])
			}
		}
		next := make([]float64, layer.In)
		for o, g := range bar {
			if g != 0 { // weights are finite, so that a zero adds nothing
				axpy(next, g, layer.W[o*layer.In:(o+1)*layer.In])
			}
		}
		if l > 0 {
			for i, a := range p.Pre[l-1] {
				next[i] *= reluSlope(a)
			}
		}
		bar = next
	}
	return bar
}

// VJP returns the gradient of ⟨ybar, net(x)⟩ with respect to x.
func (m *MLP) VJP(x, ybar []float64) []float64 { return m.Backward(m.Run(x), ybar, nil) }

// Jacobian returns ∂net/∂x, row-major [Out][In]: row i is the VJP of output i.
func (m *MLP) Jacobian(x []float64) []float64 {
	p := m.Run(x)
	jac := make([]float64, 0, m.Out()*m.In())
	unit := make([]float64, m.Out())
	for i := range unit {
		unit[i] = 1
		jac = append(jac, m.Backward(p, unit, nil)...)
		unit[i] = 0
	}
	return jac
}

// Metric returns the decoder-pullback metric G = JᵀJ + λI, row-major n×n (eq.
// iclr-lie-residual, "A decoder-pullback metric").
func (m *MLP) Metric(x []float64, lambda float64) []float64 {
	return PullbackMetric(m.Jacobian(x), m.In(), lambda)
}

// PullbackMetric returns JᵀJ + λI of a row-major m×n Jacobian.
func PullbackMetric(jac []float64, n int, lambda float64) []float64 {
	g := make([]float64, n*n)
	for r := 0; r < len(jac); r += n {
		row := jac[r : r+n]
		for i, v := range row {
			axpy(g[i*n:(i+1)*n], v, row)
		}
	}
	for i := range n {
		g[i*n+i] += lambda
	}
	return g
}

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
func norm(a []float64) float64        { return math.Sqrt(dot(a, a)) }

// wide copies one float32 row into float64.
func wide(row []float32) []float64 {
	v := make([]float64, len(row))
	tensor.Widen(v, row)
	return v
}
