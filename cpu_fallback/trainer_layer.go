package cpufallback

import (
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// trainLayer is one affine layer as training keeps it. The parameters live in
// the layout the forward product reads, so that Adam updates them in place and
// nothing is packed again: panels of `width` outputs, each with a row per input
// and the bias as one more row. Lanes beyond the last output are zero and stay
// so.
//
//	forward[p][i][lane] = W[p·width+lane][i],  i = in: the bias
//	backward[q][o][lane] = W[o][q·width+lane]
//
// gradient and moments have the layout of forward.
type trainLayer struct {
	in, out, width          int
	forward, gradient, m, v []float32
	backward                []float32
	// power is the persistent left vector of the power iteration (SpectralBound
	// of package ref); left and right are its scratch.
	power       []float32
	left, right []float32
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func newTrainLayer(l model.Layer, width int) *trainLayer {
	in, out := l.W.Cols, l.W.Rows
	size := roundUp(out, width) * (in + 1)
	t := &trainLayer{
		in: in, out: out, width: width,
		forward: make([]float32, size), gradient: make([]float32, size), m: make([]float32, size), v: make([]float32, size),
		backward: make([]float32, roundUp(in, width)*out),
		power:    make([]float32, out), left: make([]float32, roundUp(out, width)), right: make([]float32, roundUp(in, width)),
	}
	for o := range t.power {
		t.power[o] = float32(1 / math.Sqrt(float64(out)))
	}
	t.load(t.forward, l.W.Data, l.B)
	t.repack()
	return t
}

func (t *trainLayer) panels() int { return roundUp(t.out, t.width) / t.width }

// panel is panel p of an array of the forward layout.
func (t *trainLayer) panel(a []float32, p int) []float32 {
	n := (t.in + 1) * t.width
	return a[p*n : (p+1)*n]
}

// load reads row-major weights [out][in] and biases into the forward layout;
// store is its inverse.
func (t *trainLayer) load(dst, weight, bias []float32) {
	for o := range t.out {
		p := t.panel(dst, o/t.width)
		lane := o % t.width
		for i := range t.in {
			p[i*t.width+lane] = weight[o*t.in+i]
		}
		p[t.in*t.width+lane] = bias[o]
	}
}

func (t *trainLayer) store(src, weight, bias []float32) {
	for o := range t.out {
		p := t.panel(src, o/t.width)
		lane := o % t.width
		for i := range t.in {
			weight[o*t.in+i] = p[i*t.width+lane]
		}
		bias[o] = p[t.in*t.width+lane]
	}
}

func (t *trainLayer) layer() model.Layer {
	l := model.Layer{W: tensor.New(t.out, t.in), B: make([]float32, t.out)}
	t.store(t.forward, l.W.Data, l.B)
	return l
}

// repack copies all weights to the backward layout.
func (t *trainLayer) repack() {
	for p := range t.panels() {
		t.repackPanel(p)
	}
}

// repackPanel copies panel p. It writes only the rows of backward that belong to
// the panel's outputs, so panels can be repacked side by side.
func (t *trainLayer) repackPanel(p int) {
	src := t.panel(t.forward, p)
	w := t.width
	lanes := min(w, t.out-p*w)
	for q := 0; q*w < t.in; q++ {
		columns := min(w, t.in-q*w)
		dst := t.backward[q*w*t.out+p*w*w : q*w*t.out+(p*w+lanes)*w]
		for i := range columns {
			row := src[(q*w+i)*w : (q*w+i)*w+lanes]
			for lane, v := range row {
				dst[lane*w+i] = v
			}
		}
	}
}

// adamFactors are the constants of one update, common to all parameters.
type adamFactors struct {
	beta1, beta2, rest1, rest2 float32 // β and 1 − β
	rate                       float32 // lr / (1 − β₁ᵗ)
	second                     float32 // 1 / (1 − β₂ᵗ)
	epsilon                    float32
}

func newAdamFactors(a backend.Adam, step int64, lr float32) adamFactors {
	return adamFactors{
		beta1: a.Beta1, beta2: a.Beta2, rest1: 1 - a.Beta1, rest2: 1 - a.Beta2,
		rate:    float32(float64(lr) / (1 - math.Pow(float64(a.Beta1), float64(step)))),
		second:  float32(1 / (1 - math.Pow(float64(a.Beta2), float64(step)))),
		epsilon: a.Epsilon,
	}
}

// adam makes one update of Kingma and Ba's Adam in place (ref.AdamUpdate is its
// specification).
func adam(w, g, m, v []float32, f adamFactors) {
	g, m, v = g[:len(w)], m[:len(w)], v[:len(w)]
	for i := range w {
		m[i] = f.beta1*m[i] + f.rest1*g[i]
		v[i] = f.beta2*v[i] + f.rest2*g[i]*g[i]
		w[i] -= f.rate * m[i] / (float32(math.Sqrt(float64(v[i]*f.second))) + f.epsilon)
	}
}

// boundSpectrum is one power iteration and, where the estimate exceeds the
// bound, the scaling of both layouts (ref.SpectralBound is its specification).
// Biases are not scaled.
func (t *trainLayer) boundSpectrum(bound float32) {
	w := t.width
	// right = Wᵀ power
	for q := 0; q*w < t.in; q++ {
		combineRows(t.right[q*w:(q+1)*w], t.power, t.backward[q*w*t.out:])
	}
	right := t.right[:t.in]
	if !normalise(right, right) {
		return
	}
	// left = W right
	for p := range t.panels() {
		combineRows(t.left[p*w:(p+1)*w], right, t.panel(t.forward, p))
	}
	sigma := length(t.left[:t.out])
	if !normalise(t.power, t.left[:t.out]) {
		return
	}
	if sigma <= float64(bound) {
		return
	}
	factor := float32(float64(bound) / sigma)
	for p := range t.panels() {
		scale(t.panel(t.forward, p)[:t.in*w], factor)
	}
	scale(t.backward, factor)
}

// combineRows writes Σ_k coefficient[k] · rows[k], rows of len(sum) elements.
func combineRows(sum, coefficient, rows []float32) {
	clear(sum)
	n := len(sum)
	for k, c := range coefficient {
		row := rows[k*n : (k+1)*n]
		for i, v := range row {
			sum[i] += c * v
		}
	}
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

func newTrainNet(m *model.MLP, width int) *trainNet {
	n := &trainNet{}
	for _, l := range m.Layers {
		n.layers = append(n.layers, newTrainLayer(l, width))
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
