package cpufallback

import (
	"math"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/gemm"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// The Jacobian of a ReLU network is J = W_L·D_{L−1}·W_{L−1}·…·D_1·W_1 with D_l
// the diagonal of the units that are active at z. The chain is multiplied from
// the right (forward mode, one column per input) or from the left (reverse mode,
// one row per output), whichever costs less. Inactive units are not multiplied by
// zero but left out: inner matrices are compressed to the active units before
// their product, and the outer ones' rows and columns are picked by the product
// itself. That leaves a quarter of the work where half of the units are active,
// and changes no bit of the result.

type jacobianMode int

const (
	forwardMode jacobianMode = iota
	reverseMode
)

// jacobianBuffer holds what the Jacobian of one row needs.
type jacobianBuffer struct {
	mask    [][]uint16 // active units per hidden layer
	index   [][]int32
	active  []int
	cut     []float32    // one compressed weight matrix
	product [2][]float32 // the chain so far, and the next
	jac     []float32    // [out][gemm.Pad(in)] of the metric
}

// compressedStride is the row stride of n kept columns: room for the overrun of
// Compress, whole panels, and not a power of two, whose rows would fall on the
// same cache sets.
func compressedStride(n int) int { return gemm.Pad(n) + 16 }

func (n *net) newJacobianBuffer() jacobianBuffer {
	var b jacobianBuffer
	const slack = 2 * gemm.Padding
	cut, product := 0, 0
	for l, p := range n.layers {
		cut = max(cut, p.out*compressedStride(p.in))
		if n.mode == forwardMode {
			product = max(product, p.out*gemm.Pad(n.in))
		} else {
			product = max(product, n.out*compressedStride(p.in))
		}
		if l < len(n.layers)-1 {
			b.mask = append(b.mask, make([]uint16, (p.out+15)/16))
			b.index = append(b.index, make([]int32, gemm.Pad(p.out)+16))
		}
	}
	b.active = make([]int, len(b.mask))
	b.cut = gemm.Buffer(cut + slack)
	for i := range b.product {
		b.product[i] = gemm.Buffer(product + slack)
	}
	b.jac = gemm.Buffer(n.out*gemm.Pad(n.in) + slack)
	return b
}

// metricChunk writes JᵀJ + λI of every row whose activations c holds. J is in
// the cache only.
func (n *net) metricChunk(c *netChunk, lambda float32, g tensor.Matrix) {
	stride := gemm.Pad(n.in)
	jac := c.jacobian.jac
	b := n.kernel.RowMajor(jac, n.out, n.in, stride)
	for i := range c.rows {
		n.jacobianRow(c, i, jac[:n.out*stride], stride)
		row := g.Row(i)
		n.kernel.Multiply(&gemm.Product{Rows: n.in, A: jac, ARow: 1, AStep: stride, B: b, C: row, CRow: n.in})
		for d := range n.in {
			row[d*n.in+d] += lambda
		}
	}
}

// jacobianRow writes the Jacobian of row i of the chunk to dst, out rows of the
// given stride.
func (n *net) jacobianRow(c *netChunk, i int, dst []float32, stride int) {
	b := &c.jacobian
	poisoned := false // by the last hidden layer, see net.poisoned
	for l := range b.mask {
		b.active[l], poisoned = n.kernel.Active(c.row(l, i), b.mask[l], b.index[l])
	}
	if poisoned {
		fillNaN(dst)
		return
	}
	if len(n.layers) == 1 {
		l := n.layers[0]
		for r := range l.out {
			copy(dst[r*stride:r*stride+l.in], l.rows[r*gemm.Pad(l.in):])
		}
		return
	}
	if n.mode == forwardMode {
		n.forwardJacobian(b, dst, stride)
	} else {
		n.reverseJacobian(b, dst, stride)
	}
}

// activeUnits lists the active units of hidden layer l.
func (b *jacobianBuffer) activeUnits(l int) []int32 { return b.index[l][:b.active[l]] }

// first is 0, 1, …, count−1 for a matrix that is already compressed to the
// active units of hidden layer l.
func (n *net) first(b *jacobianBuffer, l int) []int32 { return n.layers[l].identity[:b.active[l]] }

// compress cuts hidden layer l > 0 to its active units, rows and columns, in
// b.cut, and returns the row stride there.
func (n *net) compress(b *jacobianBuffer, l int) (stride int) {
	p := n.layers[l]
	stride = compressedStride(b.active[l-1])
	n.kernel.Compress(b.cut, stride, p.rows, gemm.Pad(p.in), b.activeUnits(l), b.mask[l-1])
	return stride
}

// forwardJacobian multiplies from the right. Only the inner matrices need
// compressing: of W_1 the product picks the active rows, of W_L the columns.
func (n *net) forwardJacobian(b *jacobianBuffer, dst []float32, stride int) {
	last := len(n.layers) - 1
	chain, chainRows := n.layers[0].backward, b.activeUnits(0)
	padded := gemm.Pad(n.in)
	for l := 1; l < last; l++ {
		w := n.compress(b, l)
		out := b.product[l%2]
		n.kernel.Multiply(&gemm.Product{
			Rows: b.active[l], A: b.cut, ARow: w, AStep: 1, AList: n.first(b, l-1),
			B: chain, BList: chainRows, C: out, CRow: padded,
		})
		chain, chainRows = n.kernel.RowMajor(out, b.active[l], n.in, padded), n.first(b, l)
	}
	p := n.layers[last]
	n.kernel.Multiply(&gemm.Product{
		Rows: p.out, A: p.rows, ARow: gemm.Pad(p.in), AStep: 1, AList: b.activeUnits(last - 1),
		B: chain, BList: chainRows, C: dst, CRow: stride,
	})
}

// fewOutputs is up to how many rows the products of reverse mode compute the
// inactive columns too, which the next product then passes over: cutting them
// away costs about four vector operations per sixteen weights, as much as eight
// rows waste where half of the units are active.
const fewOutputs = 8

// reverseJacobian multiplies from the left. At a layer's left the product picks
// the active units, of a wide chain the layer's inputs are compressed too.
func (n *net) reverseJacobian(b *jacobianBuffer, dst []float32, stride int) {
	last := len(n.layers) - 1
	p := gemm.Product{Rows: n.out, AStep: 1}
	p.A, p.ARow, p.AList = n.layers[last].rows, gemm.Pad(n.layers[last].in), b.activeUnits(last-1)
	for l := last - 1; l >= 1; l-- {
		units := b.activeUnits(l)
		p.B, p.BList = n.layers[l].backward, units
		p.C, p.CRow = b.product[l%2], compressedStride(n.layers[l].in)
		next := b.activeUnits(l - 1)
		if n.out > fewOutputs {
			w := n.compress(b, l)
			p.B, p.BList = n.kernel.RowMajor(b.cut, len(units), b.active[l-1], w), n.first(b, l)
			next = n.first(b, l-1)
		}
		n.kernel.Multiply(&p)
		p.A, p.ARow, p.AList = p.C, p.CRow, next
	}
	p.B, p.BList = n.layers[0].backward, b.activeUnits(0)
	p.C, p.CRow = dst, stride
	n.kernel.Multiply(&p)
}

func fillNaN(v []float32) {
	nan := float32(math.NaN())
	tensor.Fill(v, nan)
}

// chooseJacobianMode compares the multiply-adds of both directions. Forward mode
// fills half registers at least, so its columns are counted in sixteens.
func chooseJacobianMode(m *model.MLP) jacobianMode {
	columns := (m.In() + 15) / 16 * 16
	forward, reverse := modeMulAdds(m, columns, nil)
	if forward <= reverse {
		return forwardMode
	}
	return reverseMode
}

// modeMulAdds are the multiply-adds of J by either direction, with the input
// counted as so many columns and the share of active units of every hidden layer
// (nil: all).
func modeMulAdds(m *model.MLP, columns int, share []float64) (forward, reverse float64) {
	units := func(l int) float64 { // of hidden layer l
		u := float64(m.Layers[l].W.Rows)
		if share != nil && l < len(share) {
			u *= share[l]
		}
		return u
	}
	last := len(m.Layers) - 1
	for l := 1; l <= last; l++ {
		forward += float64(columns) * units(l) * units(l-1)
	}
	for l := last - 1; l >= 0; l-- {
		inputs := float64(columns)
		if l > 0 {
			inputs = units(l - 1)
		}
		reverse += float64(m.Out()) * units(l) * inputs
	}
	return forward, reverse
}
