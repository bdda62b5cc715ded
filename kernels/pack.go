package kernels

import (
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/model"
)

// The structures of include/net.cuh and of the kernels, field for field. Pointers
// come before integers, so that Go and C lay them out alike.

const maxLayers = 16

type deviceLayer struct {
	weight, transposed, rounded, roundedTransposed, bias driver.Pointer
	in, out, ldw, ldt, mask, maskSize                    int32
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
	knots                  driver.Pointer
	ld, from, to, physical int32
	share                  float32
	_                      int32
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

// eights is n rounded up to what tensor cores take of a product's depth at a time.
func eights(n int) int { return (n + 7) / 8 * 8 }

// packedNet is a network on the device.
type packedNet struct {
	at        driver.Pointer // of the deviceNet
	in, out   int
	width     int // widest input or hidden layer, rounded up to a multiple of 8
	maskWords int
	layers    int
}

// packNet checks a network's sizes and copies it to the device; of several networks
// in a chain each reads what the one before gives, for forward passes alone.
func packNet(q *queue, m *memory, what string, chain ...*model.MLP) (n packedNet) {
	q.then(func() (err error) {
		if n, err = pack(q, m, chain...); err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
		return err
	})
	return n
}

func pack(q *queue, m *memory, chain ...*model.MLP) (packedNet, error) {
	n := packedNet{in: chain[0].In(), out: chain[len(chain)-1].Out(), maskWords: 1}
	var layers []model.Layer
	joint := map[int]bool{}
	for _, mlp := range chain {
		layers = append(layers, mlp.Layers...)
		joint[len(layers)-1] = true
	}
	n.layers = len(layers)
	if n.layers > maxLayers {
		return n, fmt.Errorf("a network of %d layers, the CUDA backend takes at most %d", n.layers, maxLayers)
	}
	d := deviceNet{layers: int32(n.layers), in: int32(n.in), out: int32(n.out)}
	var values []float32
	take := func(count int) (at driver.Pointer, part []float32) {
		at = driver.Pointer(4 * len(values))
		values = append(values, make([]float32, (count+63)/64*64)...)
		return at, values[at/4:]
	}
	for i, l := range layers {
		in, out := l.W.Cols, l.W.Rows
		if in > MaxWidth || out > MaxWidth {
			return n, fmt.Errorf("layer %d is %d × %d, the CUDA backend takes widths up to %d", i, out, in, MaxWidth)
		}
		n.width = max(n.width, eights(in))
		ldw, ldt := quads(in), quads(out)
		p := deviceLayer{in: int32(in), out: int32(out), ldw: int32(ldw), ldt: int32(ldt), mask: int32(n.maskWords), maskSize: int32(ceil(out, 32))}
		if i < n.layers-1 {
			n.maskWords += ceil(out, 32)
			if joint[i] {
				p.mask = -1
			}
		}
		place := func(of func(float32) float32) (weight, transposed driver.Pointer) {
			var rows, columns []float32
			weight, rows = take(out * ldw)
			for o := range out {
				for k, v := range l.W.Row(o) {
					rows[o*ldw+k] = of(v)
				}
			}
			transposed, columns = take(in * ldt)
			for o := range out {
				for k, v := range l.W.Row(o) {
					columns[k*ldt+o] = of(v)
				}
			}
			return weight, transposed
		}
		p.weight, p.transposed = place(func(v float32) float32 { return v })
		if q.options.TF32 {
			p.rounded, p.roundedTransposed = place(roundTF32)
		}
		var part []float32
		p.bias, part = take(out)
		copy(part, l.B)
		d.layer[i] = p
	}
	d.width, d.maskWords = int32(n.width), int32(n.maskWords)
	size := int(unsafe.Sizeof(d))
	at := q.alloc(m, 4*len(values)+size)
	for i := range d.layer[:n.layers] {
		l := &d.layer[i]
		l.weight, l.transposed, l.bias = l.weight+at, l.transposed+at, l.bias+at
		if q.options.TF32 {
			l.rounded, l.roundedTransposed = l.rounded+at, l.roundedTransposed+at
		}
	}
	fill(q, at, values)
	n.at = at.Offset(4 * len(values))
	if q.trace != nil {
		for _, l := range layers {
			q.trace.sizes[n.at] = append(q.trace.sizes[n.at], [2]int{l.W.Rows, l.W.Cols})
		}
	}
	fill(q, n.at, unsafe.Slice((*byte)(unsafe.Pointer(&d)), size))
	return n, q.err
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
const stageBytes = 4 * 2 * 16 * (256 + 8)

// rowStep is rows_ld of include/net.cuh.
func rowStep(rows int) int {
	if rows < 16 {
		return rows
	}
	return rows + 4
}

// oneStageBytes is oneStage of include/pass.cuh.
const oneStageBytes = 4 * 4 * 256

// forwardShape is the number of rows a block of mlp_forward or mlp_vjp takes, and
// its shared memory; width is the widest activation held, a multiple of 8. Of one row
// each warp has a word more.
func (b *Backend) forwardShape(rows, width int) (perBlock, shared int) {
	if rows == 1 {
		return 1, oneStageBytes + 4*2*width + 4*8
	}
	need := func(r int) int { return stageBytes + 4*2*width*rowStep(r) }
	if rows > 8*b.device.Multiprocessors/2 && need(32) <= b.device.SharedPerBlock {
		return 32, need(32)
	}
	return 8, need(8)
}

// jacobianShape is the number of columns of J that a block holds at once, and its
// shared memory.
func (b *Backend) jacobianShape(n packedNet) (columns, shared int) {
	width := max(n.width, 64)
	need := func(c int) int { return stageBytes + 4*2*width*rowStep(c) + 6*width }
	for _, c := range []int{8, 16, 32, 64} {
		if n.in <= c && need(c) <= b.device.SharedPerBlock {
			return c, need(c)
		}
	}
	if need(32) <= b.device.SharedPerBlock {
		return 32, need(32)
	}
	return 8, need(8)
}

// forward launches mlp_forward on one or two jobs. A pass that leaves masks is in
// float32 under every option: rounding to 11 bits would put units on the other side
// of their kinks, and so change the Jacobian by much more than its own rounding.
func (q *queue) forward(rows, width int, jobs ...*forwardJob) {
	name := "gpc_mlp_forward"
	perBlock, shared := q.forwardShape(rows, width)
	entry := q.variant(name, perBlock)
	for _, j := range jobs {
		if j.mask != 0 {
			entry = fmt.Sprintf("%s_%d", name, perBlock)
		}
	}
	q.needs(func(tr *trace) work {
		return tr.pass(rows, perBlock, strings.HasSuffix(entry, "_tf32"), netsOf(jobs)...)
	})
	q.launch(entry, driver.Dim{X: ceil(rows, perBlock), Y: len(jobs)}, 256, shared,
		driver.Int32(rows), driver.Struct(jobs[0]), driver.Struct(jobs[len(jobs)-1]))
}

// netsOf are the networks of jobs.
func netsOf(jobs []*forwardJob) (nets []driver.Pointer) {
	for _, j := range jobs {
		nets = append(nets, j.net)
	}
	return nets
}

// bent launches mlp_forward on one job with offsets; one row is taken as few are.
func (q *queue) bent(rows, width int, job *forwardJob, bend *bendJob) {
	perBlock, shared := q.forwardShape(max(rows, 2), width)
	entry := q.variant("gpc_mlp_bent", perBlock)
	q.needs(func(tr *trace) work { return tr.pass(rows, perBlock, strings.HasSuffix(entry, "_tf32"), job.net) })
	q.launch(entry, driver.Dim{X: ceil(rows, perBlock)}, 256, shared, driver.Int32(rows), driver.Struct(job), driver.Struct(bend))
}

// backward launches mlp_vjp on one or two jobs.
func (q *queue) backward(rows, width int, jobs ...*vjpJob) {
	perBlock, shared := q.forwardShape(rows, width)
	entry := q.variant("gpc_mlp_vjp", perBlock)
	q.needs(func(tr *trace) work {
		var nets []driver.Pointer
		for _, j := range jobs {
			nets = append(nets, j.net)
		}
		return tr.pass(rows, perBlock, strings.HasSuffix(entry, "_tf32"), nets...)
	})
	q.launch(entry, driver.Dim{X: ceil(rows, perBlock), Y: len(jobs)}, 256, shared,
		driver.Int32(rows), driver.Struct(jobs[0]), driver.Struct(jobs[len(jobs)-1]))
}

// variant names the entry point for so many rows or columns a block; tensor cores
// take them from 16 on.
func (b *Backend) variant(name string, width int) string {
	if b.options.TF32 && width >= 16 {
		return fmt.Sprintf("%s_%d_tf32", name, width)
	}
	return fmt.Sprintf("%s_%d", name, width)
}
