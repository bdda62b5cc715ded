package cpufallback

// buffer is a matrix of activations with one row per sample. Rows are padded so
// that whole panels can be read from any row, and so that the stride is an odd
// multiple of a cache line: a power of two would map a column of the matrix to
// a handful of cache sets.
type buffer struct {
	data   []float32
	stride int
}

const cacheLine = 16 // float32 in a cache line

// newBuffer allocates rows × cols. With ones, there is a further column that is
// always 1, by which a product over the rows gives the bias gradient with the
// weight gradient.
func newBuffer(rows, cols, width int, ones bool) buffer {
	used := cols
	if ones {
		used++
	}
	stride := roundUp(used, cacheLine)
	if stride/cacheLine%2 == 0 {
		stride += cacheLine
	}
	// The last row must be readable up to a whole panel.
	b := buffer{data: make([]float32, rows*stride+width), stride: stride}
	if ones {
		for r := range rows {
			b.data[r*stride+cols] = 1
		}
	}
	return b
}

func (b buffer) row(r, cols int) []float32 { return b.data[r*b.stride : r*b.stride+cols] }

// at is the buffer's data from row r, column c on.
func (b buffer) at(r, c int) []float32 { return b.data[r*b.stride+c:] }

// place is a buffer with the row at which a branch's row 0 lies.
type place struct {
	buffer
	from int
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
	hidden []buffer // inputs of layers 1, 2, …, each with a column of ones
	deltas []buffer // deltas of the outputs of layers 0, 1, … but the last
}

func newBranch(net *trainNet, rows, width int, in, out, delta, zbar place) *branch {
	b := &branch{net: net, in: in, out: out, delta: delta, zbar: zbar}
	for _, l := range net.layers[:len(net.layers)-1] {
		b.hidden = append(b.hidden, newBuffer(rows, l.out, width, true))
		b.deltas = append(b.deltas, newBuffer(rows, l.out, width, false))
	}
	return b
}

func (b *branch) input(l int) place {
	if l == 0 {
		return b.in
	}
	return place{buffer: b.hidden[l-1]}
}

func (b *branch) outputDelta(l int) place {
	if l == len(b.net.layers)-1 {
		return b.delta
	}
	return place{buffer: b.deltas[l]}
}

// forward computes rows [r, r+n).
func (b *branch) forward(k kernel, r, n int) {
	last := len(b.net.layers) - 1
	for i, l := range b.net.layers {
		in, out := b.input(i), b.out
		if i < last {
			out = place{buffer: b.hidden[i]}
		}
		for p := range l.panels() {
			w := l.panel(l.forward, p)
			k.multiply(product{
				a: in.at(in.from+r, 0), aRow: in.stride, aStep: 1,
				b: w, bStep: l.width,
				c: out.at(out.from+r, p*l.width), cRow: out.stride,
				start: w[l.in*l.width:], relu: i < last,
				depth: l.in, rows: n, cols: min(l.width, l.out-p*l.width),
			})
		}
	}
}

// backward propagates the output deltas of rows [r, r+n) to every layer and, if
// wanted, to the inputs.
func (b *branch) backward(k kernel, r, n int) {
	for i := len(b.net.layers) - 1; i >= 0; i-- {
		l := b.net.layers[i]
		d := b.outputDelta(i)
		target := b.zbar
		var mask place
		if i > 0 {
			target = place{buffer: b.deltas[i-1]}
			mask = place{buffer: b.hidden[i-1]}
		} else if target.data == nil {
			return
		}
		for q := 0; q*l.width < l.in; q++ {
			p := product{
				a: d.at(d.from+r, 0), aRow: d.stride, aStep: 1,
				b: l.backward[q*l.width*l.out:], bStep: l.width,
				c: target.at(target.from+r, q*l.width), cRow: target.stride,
				depth: l.out, rows: n, cols: min(l.width, l.in-q*l.width),
			}
			if i > 0 {
				p.where, p.whereRow = mask.at(r, q*l.width), mask.stride
			} else {
				p.accumulate = b.accumulate
			}
			k.multiply(p)
		}
	}
}

// depthBlock is how many samples of the weight gradient are summed before the
// accumulators go back to memory: the block of deltas stays in the first-level
// cache while the inputs pass.
const depthBlock = 128

// weightGradient adds (or, if first, writes) the gradient of rows [from, to) of
// layer i's parameters (the row l.in is the bias), summed over samples [0, n) in
// order.
func (b *branch) weightGradient(k kernel, i, from, to, n int, first bool) {
	l := b.net.layers[i]
	in, d := b.input(i), b.outputDelta(i)
	for s := 0; s < n; s += depthBlock {
		for p := range l.panels() {
			k.multiply(product{
				a: in.at(in.from+s, from), aRow: 1, aStep: in.stride,
				b: d.at(d.from+s, p*l.width), bStep: d.stride,
				c: l.panel(l.gradient, p)[from*l.width:], cRow: l.width,
				accumulate: !first || s > 0,
				depth:      min(depthBlock, n-s), rows: to - from, cols: min(l.width, l.out-p*l.width),
			})
		}
	}
}
