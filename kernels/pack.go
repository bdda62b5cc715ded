package kernels

import (
	"cmp"
	"fmt"
	"math"
	"unsafe"

	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// The structures of include/net.cuh and of the kernels, field for field. Pointers
// come before integers, so that Go and C lay them out alike.

const maxLayers = 16

type deviceLayer struct {
	weight, transposed, chosen, fragments, roundedFragments, backward, bias driver.Pointer
	in, out, ldw, ldt, mask, maskSize                                       int32
}

type deviceNet struct {
	layer                                [maxLayers]deviceLayer
	layers, in, out, maskWords, width, _ int32
}

type forwardJob struct {
	net, z, y, mask, physical, mean, scale, base, lo, hi driver.Pointer
	ldz, ldy, ldp, ldbase                                int32
}

type bendJob struct {
	offsets driver.Pointer
	ld, _   int32
}

type vjpJob struct {
	net, mask, zbar, ybar, x, mean, scale, g driver.Pointer
	ldzbar, ldybar, ldx, ldg, gCount         int32
	factor                                   float32
}

type jacobianJob struct {
	net, mask, jac, metric driver.Pointer
	lambda                 float32
	ldjac, ldmetric, _     int32
}

// quads is n rounded up to whole quads of floats, 16 bytes.
func quads(n int) int { return (n + 3) / 4 * 4 }

// sixteens is n rounded up to what tensor cores take of a product's depth at a time.
func sixteens(n int) int { return (n + 15) / 16 * 16 }

// packedNet is a network on the device.
type packedNet struct {
	device    driver.Pointer // of the deviceNet
	in, out   int
	width     int // widest input or hidden layer, rounded up to a multiple of 16
	maskWords int
	layers    int
}

// packNet checks a network's sizes and copies it to the device; of several networks
// in a chain each reads what the one before gives, for forward passes alone.
func packNet(q *queue, m *memory, name string, chain ...*model.MLP) (n packedNet) {
	q.enqueue(func() (err error) {
		if n, err = pack(q, m, chain...); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return err
	})
	return n
}

func pack(q *queue, m *memory, chain ...*model.MLP) (packedNet, error) {
	n := packedNet{in: chain[0].In(), out: chain[len(chain)-1].Out(), maskWords: 1}
	var layers []model.Layer
	joint := map[int]bool{} // last layers of a network that another follows
	for _, mlp := range chain {
		layers = append(layers, mlp.Layers...)
		joint[len(layers)-1] = true
	}
	n.layers = len(layers)
	if n.layers > maxLayers {
		return n, fmt.Errorf("a network of %d layers, the CUDA backend takes at most %d", n.layers, maxLayers)
	}
	d := deviceNet{layers: int32(n.layers), in: int32(n.in), out: int32(n.out)}
	var values packing
	for i, l := range layers {
		in, out := l.W.Cols, l.W.Rows
		if in > MaxWidth || out > MaxWidth {
			return n, fmt.Errorf("layer %d is %d × %d, the CUDA backend takes widths up to %d", i, out, in, MaxWidth)
		}
		n.width = max(n.width, sixteens(in))
		d.layer[i] = values.layer(&l, q.options.TF32, i == 0)
		d.layer[i].mask, d.layer[i].maskSize = int32(n.maskWords), int32(ceil(out, 32))
		if i < n.layers-1 {
			n.maskWords += ceil(out, 32)
			if joint[i] {
				d.layer[i].mask = -1
			}
		}
	}
	d.width, d.maskWords = int32(n.width), int32(n.maskWords)
	size := int(unsafe.Sizeof(d))
	base := q.alloc(m, 4*len(values)+size)
	for i := range d.layer[:n.layers] {
		l := &d.layer[i]
		l.weight, l.transposed, l.bias = l.weight+base, l.transposed+base, l.bias+base
		if q.options.TF32 {
			for _, p := range []*driver.Pointer{&l.chosen, &l.fragments, &l.roundedFragments, &l.backward} {
				*p += base
			}
		}
	}
	fill(q, base, values)
	n.device = base.Offset(4 * len(values))
	if q.trace != nil {
		for _, l := range layers {
			q.trace.sizes[n.device] = append(q.trace.sizes[n.device], [2]int{l.W.Rows, l.W.Cols})
		}
	}
	fill(q, n.device, unsafe.Slice((*byte)(unsafe.Pointer(&d)), size))
	return n, q.err
}

// packing are the numbers of a network, one after another; a pointer is an offset into them.
type packing []float32

// layer lays a layer out, the first of a network or not: its weights by rows and by columns,
// for tensor cores as they read them besides, and its bias.
func (p *packing) layer(l *model.Layer, tensorCores, first bool) deviceLayer {
	in, out := l.W.Cols, l.W.Rows
	transposed := tensor.New(in, out)
	for i := range out {
		for j, v := range l.W.Row(i) {
			transposed.Row(j)[i] = v
		}
	}
	identity := func(v float32) float32 { return v }
	d := deviceLayer{in: int32(in), out: int32(out), ldw: int32(quads(in)), ldt: int32(quads(out))}
	d.weight, d.transposed = p.rows(l.W, identity), p.rows(transposed, identity)
	if tensorCores {
		choose := transposed
		if first {
			choose = l.W
		}
		d.chosen = p.copy(columns32(choose))
		d.fragments, d.roundedFragments = p.copy(fragments(l.W, 32, identity)), p.copy(fragments(l.W, 32, roundTF32))
		d.backward = p.copy(fragments(transposed, 32, roundTF32))
	}
	d.bias = p.copy(l.B)
	return d
}

// columns32 rounds a matrix and lays its rows out, 32 columns at a time, each in the order of
// column32 of jacobian_tf32.cu.
func columns32(m tensor.Matrix) []float32 {
	step := ceil(m.Cols, 32) * 32
	packed := make([]float32, m.Rows*step)
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			part, group := j%32/8, j%4*2+j%8/4
			packed[i*step+j/32*32+4*group+part] = roundTF32(v)
		}
	}
	return packed
}

// rows lays the values of a matrix out by rows, each a whole number of quads.
func (p *packing) rows(m tensor.Matrix, value func(float32) float32) driver.Pointer {
	ld := quads(m.Cols)
	offset, rows := p.take(m.Rows * ld)
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			rows[i*ld+j] = value(v)
		}
	}
	return offset
}

func (p *packing) copy(values []float32) driver.Pointer {
	offset, room := p.take(len(values))
	copy(room, values)
	return offset
}

// take is room for count values, which begins on 256 bytes, until the next is taken.
func (p *packing) take(count int) (offset driver.Pointer, room []float32) {
	offset = driver.Pointer(4 * len(*p))
	*p = append(*p, make([]float32, (count+63)/64*64)...)
	return offset, (*p)[offset/4:]
}

// roundTF32 is to_tf32 of include/mma.cuh, without the bits that tensor cores do not look at.
func roundTF32(v float32) float32 {
	bits := math.Float32bits(v)
	if bits&0x7f800000 == 0x7f800000 {
		return v
	}
	return math.Float32frombits((bits + 0x1000) &^ 0x1fff)
}

// stageBytes is rowsStage of include/net.cuh.
const stageBytes = 4 * 2 * 16 * 256

// rowStep is rows_ld of include/net.cuh.
func rowStep(rows int) int {
	if rows < 16 {
		return rows
	}
	return rows + 4
}

// oneStageBytes is oneStage of include/pass.cuh.
const oneStageBytes = 4 * 4 * 256

// tileOf is how many rows of so many a block of mlp_forward or mlp_vjp takes, where they
// fit: one that is alone, or 8 of those that would leave three of four multiprocessors without any
// at 32. Tiles add up in different orders, so they are chosen by a whole batch, and its parts
// take the same.
func (b *Backend) tileOf(rows int) int {
	switch {
	case rows == 1:
		return 1
	case rows > 8*b.device.Multiprocessors:
		return 32
	}
	return 8
}

// forwardShape is the number of rows a block of mlp_forward or mlp_vjp takes where the
// tile is chosen, and its shared memory; width is the widest activation held, a multiple
// of 8. Of one row each warp has a word more.
func (b *Backend) forwardShape(tile, width int) (perBlock, shared int) {
	if tile == 1 {
		return 1, oneStageBytes + 4*2*width + 4*8
	}
	need := func(r int) int { return stageBytes + 4*2*width*rowStep(r) }
	if tile == 32 && need(32) <= b.device.SharedPerBlock {
		return 32, need(32)
	}
	return 8, need(8)
}

// tileFor is the tile of a launch of so many rows, one whether these are a batch of one.
func (q *queue) tileFor(rows int) int { return cmp.Or(q.tile, q.tileOf(rows)) }
func (q *queue) one(rows int) bool    { return q.tileFor(rows) == 1 }

// jacobianShape is how a Jacobian is made: the columns of J that a block has, its threads,
// whether on tensor cores, and its shared memory.
type jacobianShape struct {
	columns, threads int
	tensor           bool
	shared           int
}

// jacobianShape chooses by a network's sizes. Tensor cores take metrics of more than 8
// columns and, since J stays with 32 of them on the chip, of at most 32.
func (b *Backend) jacobianShape(n packedNet) jacobianShape {
	if b.options.TF32 && n.in > 8 && n.layers > 1 {
		s := jacobianShape{columns: 32, threads: 32 * ceil(n.width, 64), tensor: true}
		if n.in <= 16 {
			s.columns = 16
		}
		s.shared = 4 * (max(n.width, 32)*(s.columns+8) + n.width)
		if s.shared <= b.device.SharedPerBlock {
			return s
		}
	}
	width := max(n.width, 64)
	shape := func(c int) jacobianShape {
		return jacobianShape{columns: c, threads: 256, shared: stageBytes + 4*2*width*rowStep(c) + 6*width}
	}
	for _, c := range []int{8, 16, 32, 64} {
		if s := shape(c); n.in <= c && s.shared <= b.device.SharedPerBlock {
			return s
		}
	}
	if s := shape(32); s.shared <= b.device.SharedPerBlock {
		return s
	}
	return shape(8)
}

// precision is how a pass multiplies where tensor cores are asked for.
type precision int

const (
	single  precision = iota // in float32
	rounded                  // once, of rounded operands
	split                    // three times, of what rounding leaves too
)

// forward launches mlp_forward on one or two jobs. A pass that leaves masks makes three
// products of each: one, rounded to 11 bits, would put units on the other side of their
// kinks, and so change the Jacobian by much more than its own rounding.
func (q *queue) forward(rows, width int, jobs ...*forwardJob) {
	mode := rounded
	for _, j := range jobs {
		if j.mask != 0 {
			mode = split
		}
	}
	first, last := jobs[0], jobs[len(jobs)-1]
	q.pass("gpc_mlp_forward", rows, q.tileFor(rows), width, mode, []driver.Pointer{first.net, last.net}[:len(jobs)], driver.Struct(first), driver.Struct(last))
}

// bent launches mlp_forward on one job with offsets; one row is taken as few are.
func (q *queue) bent(rows, width int, job *forwardJob, bend *bendJob) {
	q.pass("gpc_mlp_bent", rows, max(8, q.tileFor(rows)), width, rounded, []driver.Pointer{job.net}, driver.Struct(job), driver.Struct(bend))
}

// backward launches mlp_vjp on one or two jobs.
func (q *queue) backward(rows, width int, jobs ...*vjpJob) {
	first, last := jobs[0], jobs[len(jobs)-1]
	q.pass("gpc_mlp_vjp", rows, q.tileFor(rows), width, rounded, []driver.Pointer{first.net, last.net}[:len(jobs)], driver.Struct(first), driver.Struct(last))
}

// pass launches a kernel that takes rows through the layers of each net; on tensor cores
// where they are asked for.
func (q *queue) pass(kernel string, rows, tile, width int, mode precision, nets []driver.Pointer, first, second driver.Argument) {
	perBlock, shared := q.forwardShape(tile, width)
	if !q.onTensorCores(perBlock) {
		mode = single
	}
	q.needs(func(tr *trace) work { return tr.pass(rows, perBlock, mode, nets...) })
	name := variant(kernel, perBlock, mode != single)
	if mode == split {
		name += "x3"
	}
	q.launch(name, driver.Dim{X: ceil(rows, perBlock), Y: len(nets)}, 256, shared, driver.Int32(rows), first, second)
}

// onTensorCores reports whether products of so many rows or columns a block are in TF32;
// tensor cores take them from 16 on.
func (b *Backend) onTensorCores(width int) bool { return b.options.TF32 && width >= 16 }

// variant names the entry point of a kernel for so many rows or columns a block.
func variant(kernel string, width int, tensor bool) string {
	name := fmt.Sprintf("%s_%d", kernel, width)
	if tensor {
		name += "_tf32"
	}
	return name
}
