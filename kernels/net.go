package kernels

import (
	"fmt"
	"runtime"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// mostRows is how many rows of a batch are on the device at once, unless memory
// asks for fewer.
const mostRows = 1 << 16

// net is one network on the device.
type net struct {
	backend *Backend
	memory  *memory
	packed  packedNet
}

// NewNet implements backend.Backend: layers up to MaxWidth wide.
func (b *Backend) NewNet(mlp *model.MLP) (backend.Net, error) {
	if err := mlp.Validate(); err != nil {
		return nil, err
	}
	n := &net{backend: b, memory: &memory{}}
	err := b.execute(func(t *driver.Thread) error {
		q := b.queue(t)
		if n.packed = packNet(q, n.memory, "net", mlp); q.err != nil {
			n.memory.rewind(t, 0, 0)
		}
		return q.err
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(n, func(m *memory) { b.discard(m.free) }, n.memory)
	return n, nil
}

// netCall is one chunk of one operation: what is on the device.
type netCall struct {
	*queue
	rows         int
	in, bar, out driver.Pointer // input, cotangent (VJP) and result
	mask, jac    driver.Pointer // of the forward pass; room for Jacobians
	ldin, ldbar  int
}

// run takes the batch z through work in chunks. bar is a second input or has no
// columns; jac floats a row are reserved for Jacobians; hidden asks for the masks,
// which a forward pass then has left.
func (n *net) run(z, bar, out tensor.Matrix, hidden bool, jac int, work func(c netCall)) error {
	b := n.backend
	most := max(1, min(mostRows, maxElements/max(out.Cols, jac, 1)))
	return b.execute(func(t *driver.Thread) error {
		return rowsOf(z.Rows, most, func(from, to int) error {
			rows := to - from
			var l layoutOf
			in, cotangent, result := l.floats(rows*z.Cols, true), l.floats(rows*bar.Cols, true), l.floats(rows*out.Cols, true)
			mask, jacobian := l.floats(rows*n.packed.maskWords, false), l.floats(rows*jac, false)
			w := &b.shared
			if err := w.fit(t, &l, &in, &cotangent, &result, &mask, &jacobian); err != nil {
				return err
			}
			q := b.queue(t)
			q.tile = b.tileOf(z.Rows)
			c := netCall{queue: q, rows: rows, in: in.device, bar: cotangent.device, out: result.device, mask: mask.device, jac: jacobian.device, ldin: w.upload(q, z, from, to, in)}
			if bar.Cols > 0 {
				c.ldbar = w.upload(q, bar, from, to, cotangent)
			}
			if hidden {
				job := forwardJob{net: n.packed.device, z: c.in, mask: c.mask, ldz: int32(c.ldin)}
				q.forward(rows, n.packed.width, &job)
			}
			work(c)
			w.get(q, result, rows*out.Cols)
			if err := q.wait(); err != nil {
				return err
			}
			w.give(out, from, to, result)
			return nil
		})
	})
}

// maxElements bounds one matrix of a chunk: 256 MiB, and indices within int32.
const maxElements = 1 << 26

// Forward implements backend.Net.
func (n *net) Forward(z, y tensor.Matrix) error {
	if err := backend.CheckNet("Forward", z, n.packed.in, "y", y, n.packed.out); err != nil {
		return err
	}
	return n.run(z, tensor.Matrix{}, y, false, 0, func(c netCall) {
		job := forwardJob{net: n.packed.device, z: c.in, y: c.out, ldz: int32(c.ldin), ldy: int32(n.packed.out)}
		c.forward(c.rows, n.packed.width, &job)
	})
}

// VJP implements backend.Net.
func (n *net) VJP(z, ybar, zbar tensor.Matrix) error {
	const op = "VJP"
	if err := backend.CheckNet(op, z, n.packed.in, "zbar", zbar, n.packed.in); err != nil {
		return err
	}
	if err := tensor.Check(op, "ybar", ybar, z.Rows, n.packed.out); err != nil {
		return err
	}
	return n.run(z, ybar, zbar, true, 0, func(c netCall) {
		job := vjpJob{net: n.packed.device, mask: c.mask, zbar: c.out, ybar: c.bar, ldzbar: int32(n.packed.in), ldybar: int32(c.ldbar)}
		c.backward(c.rows, max(n.packed.width, sixteens(n.packed.out)), &job)
	})
}

// Jacobian implements backend.Net.
func (n *net) Jacobian(z, jac tensor.Matrix) error {
	if err := backend.CheckNet("Jacobian", z, n.packed.in, "jac", jac, n.packed.out*n.packed.in); err != nil {
		return err
	}
	return n.run(z, tensor.Matrix{}, jac, true, 0, func(c netCall) {
		c.jacobian(n.packed, c.rows, c.mask, c.out)
	})
}

// Metric implements backend.Net.
func (n *net) Metric(z tensor.Matrix, lambda float32, g tensor.Matrix) error {
	const op = "Metric"
	if err := backend.CheckNet(op, z, n.packed.in, "g", g, n.packed.in*n.packed.in); err != nil {
		return err
	}
	if n.packed.in > MaxLatent {
		return tooWide(op, "the latent size", n.packed.in, MaxLatent)
	}
	if columns := n.backend.oneColumns(n.packed); columns > 0 && z.Rows == 1 {
		return n.run(z, tensor.Matrix{}, g, true, n.packed.out*columns, func(c netCall) {
			c.oneMetric(n.packed, c.mask, lambda, c.jac, c.out)
		})
	}
	jac := 0
	if !n.backend.fused(n.packed) {
		jac = n.packed.out * n.packed.in
	}
	return n.run(z, tensor.Matrix{}, g, true, jac, func(c netCall) {
		c.metric(n.packed, c.rows, c.mask, lambda, c.jac, c.out)
	})
}

// fused reports whether the metric is made without the Jacobian in memory.
func (b *Backend) fused(n packedNet) bool { return n.in <= b.jacobianShape(n).columns }

// jacobian queues the Jacobians of rows whose masks are known.
func (q *queue) jacobian(n packedNet, rows int, mask, jac driver.Pointer) {
	q.jacobianJob(n, rows, jacobianJob{net: n.device, mask: mask, jac: jac, ldjac: int32(n.in * n.out)})
}

// metric queues JᵀJ + λI of rows whose masks are known; jac is room for Jacobians
// where they do not stay on the chip.
func (q *queue) metric(n packedNet, rows int, mask driver.Pointer, lambda float32, jac, g driver.Pointer) {
	if q.fused(n) {
		q.jacobianJob(n, rows, jacobianJob{net: n.device, mask: mask, metric: g, lambda: lambda, ldmetric: int32(n.in * n.in)})
		return
	}
	q.jacobian(n, rows, mask, jac)
	q.needs(func(*trace) work {
		return product(rows, 1, float64(n.out)*float64(n.in*n.in), float64(n.out*n.in), false).of32()
	})
	q.launch("gpc_metric", driver.Dim{X: rows}, 256, 0,
		driver.Address(jac), driver.Int64(n.in*n.out), driver.Int32(n.out), driver.Int32(n.in), driver.Float32(lambda), driver.Address(g), driver.Int64(n.in*n.in))
}

// oneColumns is the number of columns by whose kernels the metric of one row is shared out
// among multiprocessors, 0 where one makes it.
func (b *Backend) oneColumns(n packedNet) int {
	if s := b.jacobianShape(n); (s.columns == 16 || s.columns == 32) && n.in <= s.columns && n.layers > 1 && !b.options.TF32 {
		return s.columns
	}
	return 0
}

// oneMetric queues JᵀJ + λI of one row whose masks are known; jac is room for
// out × oneColumns floats.
func (q *queue) oneMetric(n packedNet, mask driver.Pointer, lambda float32, jac, g driver.Pointer) {
	columns, width, blocks := q.oneColumns(n), max(n.width, 64), ceil(n.in, 4)
	q.needs(func(tr *trace) work {
		w := tr.jacobian(1, n.device, false, false)
		w.requests, w.bytes = w.fma/32*requestsOf1, float64(blocks)*w.bytes
		return w
	})
	q.launch(fmt.Sprintf("gpc_one_jacobian_%d", columns), driver.Dim{X: blocks}, 256, 4*8*width+16*8*64+6*width,
		driver.Address(n.device), driver.Address(mask), driver.Address(jac))
	q.launch(fmt.Sprintf("gpc_one_metric_%d", columns), driver.Dim{X: 1}, 256, 0,
		driver.Address(jac), driver.Address(mask), driver.Int32(n.out), driver.Int32(n.in), driver.Float32(lambda), driver.Address(g))
}

func (q *queue) jacobianJob(n packedNet, rows int, job jacobianJob) {
	s := q.jacobianShape(n)
	q.needs(func(tr *trace) work { return tr.jacobian(rows, n.device, s.tensor, job.metric != 0) })
	q.launch(variant("gpc_jacobian", s.columns, s.tensor), driver.Dim{X: rows, Y: ceil(n.in, s.columns)}, s.threads, s.shared, driver.Struct(&job))
}
