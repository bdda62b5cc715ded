package cpufallback

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/adam"
	"github.com/gpc-engine/gpc/cpu_fallback/internal/gemm"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// trainLayer is one affine layer as training keeps it. The parameters live in
// the layout the forward product reads, so that Adam updates them in place:
// panels of the kernel's width over the outputs, each with a row per input and
// the bias as one more row. Lanes beyond the last output are zero and stay so.
//
//	forward  = [Wᵀ; bᵀ], (in+1) × out
//	backward = W,         out × in
//
// gradient and moments have the layout of forward.Data.
type trainLayer struct {
	in, out           int
	forward, backward gemm.Panels
	gradient, m, v    []float32
	// power is the persistent left vector of the power iteration (SpectralBound
	// of package ref); left and right are its scratch.
	power, left, right []float32
}

func newTrainLayer(k gemm.Kernel, l model.Layer) *trainLayer {
	in, out := l.W.Cols, l.W.Rows
	t := &trainLayer{in: in, out: out, forward: k.NewPanels(in+1, out), backward: k.NewPanels(out, in)}
	// The product takes the weights; the last row is its bias.
	t.forward.K = in
	size := len(t.forward.Data)
	t.gradient, t.m, t.v = gemm.Buffer(size), gemm.Buffer(size), gemm.Buffer(size)
	t.power, t.left, t.right = slices.Repeat([]float32{float32(1 / math.Sqrt(float64(out)))}, out), make([]float32, out), make([]float32, in)
	t.load(t.forward.Data, l.W.Data, l.B)
	t.repack()
	return t
}

func (t *trainLayer) panels() int { return (t.out + t.forward.Step - 1) / t.forward.Step }

// panel is where the p-th panel lies in an array of the layout of forward: its
// elements, the step between rows, and how many lanes are outputs.
func (t *trainLayer) panel(a []float32, p int) (data []float32, step, lanes int) {
	step, lanes = t.forward.Step, t.out-p*t.forward.Step
	if lanes < step {
		step = t.forward.TailStep
	} else {
		lanes = step
	}
	start := p * t.forward.PanelStride
	return a[start : start+(t.in+1)*step], step, lanes
}

// load reads row-major weights [out][in] and biases into the forward layout;
// store is its inverse.
func (t *trainLayer) load(dst, weight, bias []float32) {
	for p := range t.panels() {
		d, step, lanes := t.panel(dst, p)
		for lane := range lanes {
			o := p*t.forward.Step + lane
			for i, v := range weight[o*t.in : (o+1)*t.in] {
				d[i*step+lane] = v
			}
			d[t.in*step+lane] = bias[o]
		}
	}
}

func (t *trainLayer) store(src, weight, bias []float32) {
	for p := range t.panels() {
		s, step, lanes := t.panel(src, p)
		for lane := range lanes {
			o := p*t.forward.Step + lane
			for i := range t.in {
				weight[o*t.in+i] = s[i*step+lane]
			}
			bias[o] = s[t.in*step+lane]
		}
	}
}

func (t *trainLayer) layer() model.Layer {
	l := model.Layer{W: tensor.New(t.out, t.in), B: make([]float32, t.out)}
	t.store(t.forward.Data, l.W.Data, l.B)
	return l
}

// repack brings the backward operand and the bias up to date with forward.Data.
func (t *trainLayer) repack() {
	for p := range t.panels() {
		t.repackPanel(p)
	}
}

// repackPanel does so for panel p. It writes only what belongs to the panel's
// outputs, so panels can be repacked side by side.
func (t *trainLayer) repackPanel(p int) {
	src, step, lanes := t.panel(t.forward.Data, p)
	first := p * t.forward.Step
	copy(t.forward.Bias[first:first+lanes], src[t.in*step:])
	for i := 0; i < t.in; i += t.backward.Step {
		position, columns := t.backward.Step, t.in-i
		if columns < position {
			position = t.backward.TailStep
		} else {
			columns = position
		}
		dst := t.backward.Data[i/t.backward.Step*t.backward.PanelStride+first*position:]
		for c := range columns {
			row := src[(i+c)*step : (i+c)*step+lanes]
			for lane, v := range row {
				dst[lane*position+c] = v
			}
		}
	}
}

// adamFactors are the constants of one update.
func adamFactors(a backend.Adam, step int64, lr float32) adam.Factors {
	return adam.Factors{
		Beta1: a.Beta1, Beta2: a.Beta2, Rest1: 1 - a.Beta1, Rest2: 1 - a.Beta2,
		Rate:    float32(float64(lr) / (1 - math.Pow(float64(a.Beta1), float64(step)))),
		Second:  float32(1 / (1 - math.Pow(float64(a.Beta2), float64(step)))),
		Epsilon: a.Epsilon,
	}
}

// boundSpectrum is one power iteration and, where the estimate exceeds the
// bound, the scaling of both operands (training.SpectralBound is its specification).
// Biases are not scaled.
func (t *trainLayer) boundSpectrum(k gemm.Kernel, bound float32) {
	// right = Wᵀ power, left = W right: products of a single row.
	k.Multiply(&gemm.Product{Rows: 1, A: t.power, AStep: 1, B: t.backward, C: t.right})
	if !normalise(t.right, t.right) {
		return
	}
	k.Multiply(&gemm.Product{Rows: 1, A: t.right, AStep: 1, B: t.forward, C: t.left})
	sigma := length(t.left)
	if !normalise(t.power, t.left) || sigma <= float64(bound) {
		return
	}
	factor := float32(float64(bound) / sigma)
	for p := range t.panels() {
		data, step, _ := t.panel(t.forward.Data, p)
		scale(data[:t.in*step], factor)
	}
	scale(t.backward.Data, factor)
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// normalise writes v/‖v‖ to dst; a zero vector leaves dst and returns false.
func normalise(dst, v []float32) bool {
	n := length(v)
	if n == 0 {
		return false
	}
	f := float32(1 / n)
	for i, x := range v {
		dst[i] = f * x
	}
	return true
}

func scale(v []float32, f float32) {
	for i := range v {
		v[i] *= f
	}
}

// trainNet is one network in training.
type trainNet struct {
	layers []*trainLayer
}

func newTrainNet(k gemm.Kernel, m *model.MLP) *trainNet {
	n := &trainNet{}
	for _, l := range m.Layers {
		n.layers = append(n.layers, newTrainLayer(k, l))
	}
	return n
}

func (n *trainNet) mlp() *model.MLP {
	m := &model.MLP{}
	for _, l := range n.layers {
		m.Layers = append(m.Layers, l.layer())
	}
	return m
}

func (n *trainNet) out() int { return n.layers[len(n.layers)-1].out }
