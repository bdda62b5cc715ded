package kernels

import (
	"errors"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
)

var _ backend.Tracer = (*Backend)(nil)

// trace collects the launches of calls while it is the backend's.
type trace struct {
	sizes    map[driver.Pointer][][2]int // layers, out × in, of networks packed since it began
	next     work                        // of the launch that comes
	launches []backend.Launch            // of one call
	position int                         // launches of the present call so far
	first    bool                        // it is the first call
	from, to driver.Event
}

// Trace implements backend.Tracer.
func (b *Backend) Trace(calls int, prepare, call func() error) (launches []backend.Launch, err error) {
	tr := &trace{sizes: map[driver.Pointer][][2]int{}, first: true}
	shim := b.device.Emulated()
	if shim {
		calls = 0
	}
	err = b.execute(func(t *driver.Thread) (err error) {
		if tr.from, err = t.NewEvent(); err != nil {
			return err
		}
		tr.to, err = t.NewEvent()
		return err
	})
	if err != nil {
		return nil, err
	}
	b.trace = tr
	defer func() {
		b.trace = nil
		err = errors.Join(err, b.execute(func(t *driver.Thread) error { return errors.Join(t.DestroyEvent(tr.from), t.DestroyEvent(tr.to)) }))
	}()
	if err := prepare(); err != nil {
		return nil, err
	}
	tr.launches = nil // those of prepare
	for range calls + 1 {
		tr.position = 0
		if err := call(); err != nil {
			return nil, err
		}
		if !tr.first && tr.position != len(tr.launches) {
			return nil, fmt.Errorf("trace: a call of %d launches, the one before had %d", tr.position, len(tr.launches))
		}
		tr.first = false
	}
	for i := range tr.launches {
		tr.launches[i].Times = tr.launches[i].Times[1:] // the first loads images
		if shim {
			tr.launches[i].Times = nil
		}
	}
	return tr.launches, nil
}

// launch makes a launch and waits for it.
func (tr *trace) launch(q *queue, k *driver.Kernel, l driver.Launch, arguments []driver.Argument) error {
	b, w := q.Backend, tr.next
	tr.next = work{}
	if w == (work{}) {
		w.cycles = shortChain
	}
	if tr.first {
		tr.launches = append(tr.launches, backend.Launch{
			Kernel: k.Name(), Grid: [2]int{max(1, l.Grid.X), max(1, l.Grid.Y)}, Block: l.Block.X, Shared: l.Shared,
			Limits: w.limits(b.device, max(1, l.Grid.X)*max(1, l.Grid.Y)),
		})
	}
	position := tr.position
	tr.position++
	if position >= len(tr.launches) || tr.launches[position].Kernel != k.Name() {
		return fmt.Errorf("trace: launch %d is %s, which it was not in the call before", position, k.Name())
	}
	var ms float32
	err := q.t.Record(tr.from, q.stream)
	for _, step := range []func() error{
		func() error { return q.t.Launch(k, l, arguments...) },
		func() error { return q.t.Record(tr.to, q.stream) },
		func() error { return q.t.WaitEvent(tr.to) },
		func() (err error) { ms, err = q.t.Elapsed(tr.from, tr.to); return err },
	} {
		if err != nil {
			return err
		}
		err = step()
	}
	if err == nil {
		tr.launches[position].Times = append(tr.launches[position].Times, 1e3*float64(ms))
	}
	return err
}

// work is what a launch needs at least. Counts are of all blocks.
type work struct {
	fma      float64 // multiply-adds of products
	tensor   bool    // on tensor cores
	requests float64 // of a warp to shared memory, one a cycle and multiprocessor
	bytes    float64 // that cross between multiprocessors and what lies beyond
	cycles   float64 // of the longest chain of one block
	resident int     // blocks that a multiprocessor holds at once, for cycles; 0: all
}

// What a multiprocessor does in a cycle.
const (
	cacheBytes = 64 // from the second-level cache
	// Requests for each 32 multiply-adds of a warp in float32 (RowsSums, 32 rows, 8 and 1),
	// and for each product of 16×8×8 on tensor cores, as the machine code has them.
	requestsOf32 = 6.0 / 32
	requestsOf8  = 4.0 / 32
	requestsOf1  = 8.0 / 32
	requestsMMA  = 2.0
)

// lanes are the multiply-adds of a multiprocessor in a cycle, in float32 and on tensor
// cores in TF32.
func lanes(d driver.Device) (single, tensor float64) {
	switch {
	case d.Major == 8 && d.Minor == 0:
		return 64, 512
	case d.Major == 8:
		return 128, 128
	}
	return 128, 1024
}

// limits are the least times of a launch of so many blocks.
func (w work) limits(d driver.Device, blocks int) (l backend.Limits) {
	cycle := 1e3 / float64(max(d.ClockKHz, 1)) // µs
	units := float64(min(blocks, max(d.Multiprocessors, 1)))
	single, tensor := lanes(d)
	rate := single
	if w.tensor {
		rate = tensor
	}
	l.FMA = w.fma / (units * rate) * cycle
	l.Shared = w.requests / units * cycle
	l.Bytes = w.bytes / (units * cacheBytes) * cycle
	waves := 1.0
	if w.resident > 0 {
		waves = math.Ceil(float64(blocks) / float64(w.resident*max(d.Multiprocessors, 1)))
	}
	l.Latency = w.cycles * waves * cycle
	if d.ClockKHz == 0 {
		return backend.Limits{}
	}
	return l
}

// needs says what the next launch needs, where launches are traced.
func (q *queue) needs(f func(tr *trace) work) {
	if q.trace != nil {
		q.trace.next = f(q.trace)
	}
}

// product is the work of a product of rows with weights that every block streams.
func product(rows, perBlock int, fma, weights float64, tensor bool) work {
	blocks := float64(ceil(rows, perBlock))
	w := work{fma: blocks * float64(perBlock) * fma, tensor: tensor, bytes: blocks * 4 * weights}
	switch {
	case tensor:
		w.requests = w.fma / (16 * 8 * 8) * requestsMMA
	case perBlock == 1:
		w.requests = w.fma / 32 * requestsOf1
	case perBlock < 32:
		w.requests = w.fma / 32 * requestsOf8
	default:
		w.requests = w.fma / 32 * requestsOf32
	}
	return w
}

// and adds a chain to what is needed.
func (w work) and(cycles float64) work {
	w.cycles += cycles
	return w
}

// pass is a forward or backward pass of networks over rows.
func (tr *trace) pass(rows, perBlock int, mode precision, nets ...driver.Pointer) (sum work) {
	products := 1.0
	if mode == split {
		products = 3
	}
	for _, n := range nets {
		weights := 0.0
		for _, l := range tr.sizes[n] {
			weights += float64(l[0] * l[1])
		}
		w := product(rows, perBlock, weights*products, weights, mode != single)
		w.requests /= products
		sum.fma, sum.requests = sum.fma+w.fma, sum.requests+w.requests
		sum.bytes, sum.tensor = sum.bytes+w.bytes, w.tensor
	}
	return sum
}

// jacobian is that of JᵀJ, or of J, of which half of the hidden units are active: two rows
// of T in four meet at a hidden layer, one in two at the last. On tensor cores inactive
// units of the next layer are multiplied too; 16 products of 16×8×8 take 24 requests there,
// and 48 at the last layer.
func (tr *trace) jacobian(rows int, net driver.Pointer, tensor, metric bool) work {
	layers := tr.sizes[net]
	if len(layers) == 0 {
		return work{}
	}
	n, fma := float64(layers[0][1]), 0.0
	weights, reads := 0.0, 0.0
	for i, l := range layers[1:] {
		share, readsPerWeight := 0.5, 3.0
		if i < len(layers)-2 {
			readsPerWeight = 1.5
			if !tensor {
				share = 0.25
			}
		}
		layerWeights := share * float64(l[0]*l[1])
		fma, weights, reads = fma+layerWeights*n, weights+layerWeights, reads+readsPerWeight*layerWeights*n/(16*8*8)
	}
	if out := float64(layers[len(layers)-1][0]); metric {
		fma += out * n * n
	}
	w := product(rows, 1, fma, weights, tensor).of32()
	if tensor {
		w.requests = float64(rows) * reads
	}
	return w
}

// of32 counts requests as for 32 rows, which the columns of a Jacobian are.
func (w work) of32() work {
	w.requests = w.fma / 32 * requestsOf32
	return w
}

// Chains of one block, in cycles: from the sizes, where a loop is the chain, else the
// latency of a few dependent reads and sums.
const (
	shortChain   = 1500
	problemChain = 3000 // of a problem's functions
	rolloutChain = 6000
)

// eigCycles is the chain of one matrix, some 31 000 cycles at n = 32, or what issuing the
// instructions of those that a multiprocessor has together takes, some 14 000 each; they grow
// with the steps of the reduction and of the Sturm counts.
func eigCycles(n, k, matrices int) float64 {
	return math.Max(31000, 14000*float64(matrices)/4) * float64(n) / 32 * (1 + float64(k)) / 4
}
