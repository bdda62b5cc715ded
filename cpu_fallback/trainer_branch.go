package cpufallback

import "github.com/gpc-engine/gpc/cpu_fallback/internal/gemm"

// activations is a matrix with one row per sample. Rows are padded so
// that whole panels can be read from any row, and so that the stride is an odd
// multiple of a cache line: a power of two would map a column of the matrix to
// a handful of cache sets.
type activations struct {
	data   []float32
	stride int
}

const cacheLine = 16 // float32 in a cache line

// newActivations allocates rows × cols. With ones, there is a further column that is
// always 1, by which a product over the rows gives the bias gradient with the
// weight gradient.
func newActivations(rows, cols int, ones bool) activations {
	width := cols
	if ones {
		width++
	}
	stride := (width + cacheLine - 1) / cacheLine * cacheLine
	if stride/cacheLine%2 == 0 {
		stride += cacheLine
	}
	// The last row must be readable up to a whole panel.
	b := activations{data: gemm.Buffer(rows*stride + gemm.Padding), stride: stride}
	if ones {
		for r := range rows {
			b.data[r*stride+cols] = 1
		}
	}
	return b
}

func (b activations) row(r, cols int) []float32 { return b.data[r*b.stride : r*b.stride+cols] }

// tail is the data from row r, column c on.
func (b activations) tail(r, c int) []float32 { return b.data[r*b.stride+c:] }

// place is a matrix of activations with the row at which a branch's row 0 lies.
type place struct {
	activations
	first int
}

// branch is one use of a network on the rows of a batch: E_x on the samples,
// E_x on their neighbours, D_s on z^x, and so on. It owns the hidden
// activations and their deltas.
type branch struct {
	net *trainNet
	in  place // inputs, with a column of ones
	out place // outputs; after the loss, their deltas (∂ loss/∂ output)
	// zbar receives the gradient with respect to the inputs, added to what is
	// there if accumulate; a branch without data there is not propagated further.
	zbar       place
	accumulate bool
	// delta is where the deltas of the outputs lie: out itself for decoders, the
	// latent gradient for encoders.
	delta  place
	hidden []activations // inputs of layers 1, 2, …, each with a column of ones
	deltas []activations // deltas of the outputs of layers 0, 1, … but the last
}

func newBranch(net *trainNet, rows int, in, out, delta, zbar place) *branch {
	b := &branch{net: net, in: in, out: out, delta: delta, zbar: zbar}
	for _, l := range net.layers[:len(net.layers)-1] {
		b.hidden = append(b.hidden, newActivations(rows, l.out, true))
		b.deltas = append(b.deltas, newActivations(rows, l.out, false))
	}
	return b
}

func (b *branch) input(l int) place {
	if l == 0 {
		return b.in
	}
	return place{activations: b.hidden[l-1]}
}

func (b *branch) outputDelta(l int) place {
	if l == len(b.net.layers)-1 {
		return b.delta
	}
	return place{activations: b.deltas[l]}
}

// forward computes rows [r, r+n).
func (b *branch) forward(k gemm.Kernel, r, n int) {
	last := len(b.net.layers) - 1
	for i, l := range b.net.layers {
		in, out := b.input(i), b.out
		if i < last {
			out = place{activations: b.hidden[i]}
		}
		p := gemm.Product{
			Rows: n,
			A:    in.tail(in.first+r, 0), ARow: in.stride, AStep: 1,
			B: l.forward, Init: gemm.FromBias,
			C: out.tail(out.first+r, 0), CRow: out.stride,
			ReLU: i < last,
		}
		k.Multiply(&p)
	}
}

// backward propagates the output deltas of rows [r, r+n) to every layer and, if
// wanted, to the inputs.
func (b *branch) backward(k gemm.Kernel, r, n int) {
	for i := len(b.net.layers) - 1; i >= 0; i-- {
		d := b.outputDelta(i)
		p := gemm.Product{
			Rows: n,
			A:    d.tail(d.first+r, 0), ARow: d.stride, AStep: 1,
			B: b.net.layers[i].backward,
		}
		target := b.zbar
		if i > 0 {
			target = place{activations: b.deltas[i-1]}
			p.Where, p.WhereRow = b.hidden[i-1].tail(r, 0), b.hidden[i-1].stride
		} else if target.data == nil {
			return
		} else if b.accumulate {
			p.Init = gemm.Accumulate
		}
		p.C, p.CRow = target.tail(target.first+r, 0), target.stride
		k.Multiply(&p)
	}
}

// depthBlock is how many samples of the weight gradient are summed before the
// accumulators go back to memory: the block of deltas stays in the first-level
// cache while the inputs pass.
const depthBlock = 128

// weightGradient adds (or, if first, writes) the gradient of rows [from, to) of
// layer i's parameters (row l.in is the bias), summed over samples [r, r+n) in
// order.
func (b *branch) weightGradient(k gemm.Kernel, i, from, to, r, n int, first bool) {
	l := b.net.layers[i]
	inputs, d := b.input(i), b.outputDelta(i)
	for s := r; s < r+n; s += depthBlock {
		depth := min(depthBlock, r+n-s)
		for p := range l.panels() {
			gradient, step, lanes := l.panel(l.gradient, p)
			product := gemm.Product{
				Rows: to - from,
				A:    inputs.tail(inputs.first+s, from), ARow: 1, AStep: inputs.stride,
				B: k.RowMajor(d.tail(d.first+s, p*l.forward.Step), depth, lanes, d.stride),
				C: gradient[from*step:], CRow: step,
			}
			if !first || s > r {
				product.Init = gemm.Accumulate
			}
			k.Multiply(&product)
		}
	}
}
