package cpufallback

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/gemm"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// net is one network packed for inference. A batch is cut in chunks of rows; a
// worker takes a chunk through all layers, so that activations stay in its
// second-level cache. Each row's result is independent of the cut.
type net struct {
	backend *Backend
	kernel  gemm.Kernel
	layers  []layer
	in, out int
	mode    jacobianMode
	flops   struct{ forward, vjp, jacobian float64 } // of one row
	chunks  []*netChunk                              // one per worker

	// The call in progress, read by the tasks. Tasks are made once, because a
	// closure made per call would be garbage per call.
	call struct {
		z, y, ybar, zbar, jac, g tensor.Matrix
		lambda                   float32
		rows                     int // per chunk
	}
	forwardTask, vjpTask, jacobianTask, metricTask func(worker, chunk int)
}

// layer is one affine map in the three layouts its uses need.
type layer struct {
	in, out  int
	forward  gemm.Panels // Wᵀ and bias: Y = X·Wᵀ + b
	backward gemm.Panels // W: dX = dY·W
	rows     []float32   // W row-major, row stride gemm.Pad(in), for compression
	identity []int32     // 0, 1, …, out−1
}

const (
	// forwardChunkRows bounds the rows a worker takes through all layers at once:
	// 96 × 256 activations of two layers are 200 KiB, beside 350 KiB of weights.
	forwardChunkRows = 96
	// jacobianChunkRows is smaller because a Jacobian costs some hundred times a
	// forward row, and a fine cut balances the threads.
	jacobianChunkRows = 24
)

// leastChunkFLOPs is the work below which a chunk is not worth another thread:
// some 10 µs, against a few for waking one.
const leastChunkFLOPs = 1e6

var _ backend.Net = (*net)(nil)

// NewNet packs a copy of mlp. It returns an error when mlp does not validate.
func (b *Backend) NewNet(mlp *model.MLP) (backend.Net, error) { return b.newNet(mlp) }

func (b *Backend) newNet(mlp *model.MLP) (*net, error) {
	if mlp == nil {
		return nil, fmt.Errorf("cpufallback: NewNet of a nil network")
	}
	if err := mlp.Validate(); err != nil {
		return nil, fmt.Errorf("cpufallback: NewNet: %w", err)
	}
	n := &net{backend: b, kernel: gemm.For(b.level), in: mlp.In(), out: mlp.Out(), mode: chooseJacobianMode(mlp)}
	n.flops.forward, n.flops.vjp, n.flops.jacobian = ForwardFLOPs(mlp), VJPFLOPs(mlp), JacobianFLOPs(mlp)
	for _, l := range mlp.Layers {
		n.layers = append(n.layers, packLayer(n.kernel, l))
	}
	for range b.pool.Threads() {
		n.chunks = append(n.chunks, n.newChunk(forwardChunkRows))
	}
	n.forwardTask = func(worker, chunk int) {
		from, to := n.bounds(chunk)
		n.forwardChunk(n.chunks[worker], n.call.z.Slice(from, to), n.call.y.Slice(from, to))
	}
	n.vjpTask = func(worker, chunk int) {
		from, to := n.bounds(chunk)
		c := n.chunks[worker]
		n.hiddenChunk(c, n.call.z.Slice(from, to))
		n.vjpChunk(c, n.call.ybar.Slice(from, to), n.call.zbar.Slice(from, to))
	}
	n.jacobianTask = func(worker, chunk int) {
		from, to := n.bounds(chunk)
		c := n.chunks[worker]
		n.hiddenChunk(c, n.call.z.Slice(from, to))
		jac := n.call.jac.Slice(from, to)
		for i := range c.rows {
			n.jacobianRow(c, i, jac.Row(i), n.in)
		}
	}
	n.metricTask = func(worker, chunk int) {
		from, to := n.bounds(chunk)
		c := n.chunks[worker]
		n.hiddenChunk(c, n.call.z.Slice(from, to))
		n.metricChunk(c, n.call.lambda, n.call.g.Slice(from, to))
	}
	return n, nil
}

func packLayer(k gemm.Kernel, l model.Layer) layer {
	out, in := l.W.Rows, l.W.Cols
	p := layer{in: in, out: out, forward: k.NewPanels(in, out), backward: k.NewPanels(out, in)}
	p.forward.PackTransposed(l.W, l.B)
	p.backward.Pack(l.W)
	p.rows = gemm.Buffer(out * gemm.Pad(in))
	p.identity = make([]int32, out)
	for i := range out {
		copy(p.rows[i*gemm.Pad(in):], l.W.Row(i))
		p.identity[i] = int32(i)
	}
	return p
}

// netChunk is the workspace in which one worker takes some rows through the
// network: the hidden activations, which are also the ReLU masks, stay in it, so
// that value, VJP and Jacobian of the same rows share one forward pass.
type netChunk struct {
	rows     int            // of the last forward pass
	hidden   [][]float32    // per hidden layer, [rows][stride]
	stride   []int          // of hidden
	gradient [2][]float32   // of VJP, [rows][gemm.Pad(widest)]
	jacobian jacobianBuffer // of one row at a time
}

// newChunk makes a workspace for up to rows rows. The stepper makes its own.
func (n *net) newChunk(rows int) *netChunk {
	c := &netChunk{}
	widest := 0
	for _, l := range n.layers[:len(n.layers)-1] {
		s := gemm.Pad(l.out)
		widest = max(widest, s)
		c.stride = append(c.stride, s)
		c.hidden = append(c.hidden, gemm.Buffer(rows*s))
	}
	for i := range c.gradient {
		c.gradient[i] = gemm.Buffer(rows * widest)
	}
	c.jacobian = n.newJacobianBuffer()
	return c
}

// hiddenChunk runs all layers but the last on the rows of z and keeps the
// activations in c.
func (n *net) hiddenChunk(c *netChunk, z tensor.Matrix) {
	c.rows = z.Rows
	if z.Rows == 0 {
		return
	}
	a, row := z.Data, z.Stride
	for l := range n.layers[:len(n.layers)-1] {
		n.kernel.Multiply(&gemm.Product{
			Rows: z.Rows, A: a, ARow: row, AStep: 1, B: n.layers[l].forward,
			C: c.hidden[l], CRow: c.stride[l], Init: gemm.FromBias, ReLU: true,
		})
		a, row = c.hidden[l], c.stride[l]
	}
}

// forwardChunk writes y = net(z) for the rows of one chunk and keeps the hidden
// activations in c for vjpChunk, jacobianChunk and metricChunk.
func (n *net) forwardChunk(c *netChunk, z, y tensor.Matrix) {
	n.hiddenChunk(c, z)
	if z.Rows == 0 {
		return
	}
	a, row := z.Data, z.Stride
	if l := len(c.hidden); l > 0 {
		a, row = c.hidden[l-1], c.stride[l-1]
	}
	n.kernel.Multiply(&gemm.Product{
		Rows: z.Rows, A: a, ARow: row, AStep: 1, B: n.layers[len(n.layers)-1].forward,
		C: y.Data, CRow: y.Stride, Init: gemm.FromBias,
	})
}

// vjpChunk writes the gradient of ⟨ybar, net(z)⟩ for the rows whose activations
// c holds. A row with a NaN activation gives NaN.
func (n *net) vjpChunk(c *netChunk, ybar, zbar tensor.Matrix) {
	if c.rows == 0 {
		return
	}
	a, row := ybar.Data, ybar.Stride
	for l := len(n.layers) - 1; l > 0; l-- {
		g := c.gradient[l%2]
		n.kernel.Multiply(&gemm.Product{
			Rows: c.rows, A: a, ARow: row, AStep: 1, B: n.layers[l].backward,
			C: g, CRow: c.stride[l-1], Where: c.hidden[l-1], WhereRow: c.stride[l-1],
		})
		a, row = g, c.stride[l-1]
	}
	n.kernel.Multiply(&gemm.Product{
		Rows: c.rows, A: a, ARow: row, AStep: 1, B: n.layers[0].backward, C: zbar.Data, CRow: zbar.Stride,
	})
	for i := range c.rows {
		if n.poisoned(c, i) {
			fillNaN(zbar.Row(i))
		}
	}
}

// poisoned reports whether row i of the last hidden layer has a NaN. Masks are
// comparisons, which a NaN just fails: without this a NaN latent would give a
// finite gradient. A NaN of an earlier layer reaches every unit of the last.
func (n *net) poisoned(c *netChunk, i int) bool {
	last := len(c.hidden) - 1
	if last < 0 {
		return false
	}
	b := &c.jacobian
	_, nan := n.kernel.Active(c.row(last, i), b.mask[last], b.index[last])
	return nan
}

// row is row i of hidden layer l, padded with zeros.
func (c *netChunk) row(l, i int) []float32 {
	return c.hidden[l][i*c.stride[l] : (i+1)*c.stride[l]]
}

// bounds are the rows of a chunk of the call in progress.
func (n *net) bounds(chunk int) (from, to int) {
	from = chunk * n.call.rows
	return from, min(from+n.call.rows, n.call.z.Rows)
}

// spread runs task over the rows of the call, in chunks of at most limit rows;
// flops is the work of one row.
func (n *net) spread(limit int, flops float64, task func(worker, chunk int)) {
	batch := n.call.z.Rows
	if batch == 0 {
		return
	}
	n.call.rows = max(
		chunkRows(batch, n.backend.pool.Threads(), limit, n.kernel.TileRows()),
		min(limit, int(math.Ceil(leastChunkFLOPs/flops))),
	)
	n.backend.pool.Run((batch+n.call.rows-1)/n.call.rows, task)
}

// chunkRows cuts a batch so that every thread gets several chunks where the
// batch allows it, in whole register tiles where that leaves no thread idle.
func chunkRows(batch, threads, limit, tile int) int {
	const perThread = 4
	rows := (batch + threads*perThread - 1) / (threads * perThread)
	rows = (rows + tile - 1) / tile * tile
	return max(1, min(rows, limit, (batch+threads-1)/threads))
}

// Forward writes y = net(z), [B, in] → [B, out]. z may be a broadcast (stride 0);
// y must not overlap it. It allocates nothing.
func (n *net) Forward(z, y tensor.Matrix) error {
	const op = "cpufallback: Forward"
	if err := backend.CheckNet(op, z, n.in, "y", y, n.out); err != nil {
		return err
	}
	n.call.z, n.call.y = z, y
	n.spread(forwardChunkRows, n.flops.forward, n.forwardTask)
	return nil
}

// VJP writes zbar = Jᵀ·ybar, [B, in]. Inputs may be broadcasts; zbar must not
// overlap them. It allocates nothing.
func (n *net) VJP(z, ybar, zbar tensor.Matrix) error {
	const op = "cpufallback: VJP"
	if err := backend.CheckNet(op, z, n.in, "zbar", zbar, n.in); err != nil {
		return err
	}
	if err := tensor.Check(op, "ybar", ybar, z.Rows, n.out); err != nil {
		return err
	}
	n.call.z, n.call.ybar, n.call.zbar = z, ybar, zbar
	n.spread(forwardChunkRows, n.flops.vjp, n.vjpTask)
	return nil
}

// Jacobian writes J, [B, out·in], each row row-major out×in. A row with a NaN
// activation gives NaN. It allocates nothing.
func (n *net) Jacobian(z, jac tensor.Matrix) error {
	const op = "cpufallback: Jacobian"
	if err := backend.CheckNet(op, z, n.in, "jac", jac, n.out*n.in); err != nil {
		return err
	}
	n.call.z, n.call.jac = z, jac
	n.spread(jacobianChunkRows, n.flops.jacobian, n.jacobianTask)
	return nil
}

// Metric writes JᵀJ + λI, [B, in·in], bitwise symmetric. A row with a NaN
// activation gives NaN. It allocates nothing.
func (n *net) Metric(z tensor.Matrix, lambda float32, g tensor.Matrix) error {
	const op = "cpufallback: Metric"
	if err := backend.CheckNet(op, z, n.in, "g", g, n.in*n.in); err != nil {
		return err
	}
	n.call.z, n.call.lambda, n.call.g = z, lambda, g
	n.spread(jacobianChunkRows, n.flops.jacobian, n.metricTask)
	return nil
}
