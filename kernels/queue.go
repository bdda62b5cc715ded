package kernels

import (
	"unsafe"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// queue puts work on a stream of the backend, from the context's thread. Its first
// error is kept, and what follows does nothing.
type queue struct {
	*Backend
	t      *driver.Thread
	stream driver.Stream
	tile   int // rows a block of the passes that follow takes (Backend.tileOf); 0: by their own rows
	err    error
}

// queue is a queue on the backend's stream.
func (b *Backend) queue(t *driver.Thread) *queue { return &queue{Backend: b, t: t, stream: b.stream} }

// capture makes a graph of what fill puts on a queue.
func (b *Backend) capture(t *driver.Thread, fill func(*queue)) (*driver.Graph, error) {
	return t.Capture(b.stream, func() error {
		q := b.queue(t)
		fill(q)
		return q.err
	})
}

// enqueue does one thing more.
func (q *queue) enqueue(f func() error) {
	if q.err == nil {
		q.err = f()
	}
}

// launch queues one kernel of the images.
func (q *queue) launch(name string, grid driver.Dim, block, shared int, arguments ...driver.Argument) {
	q.enqueue(func() error {
		k, err := q.kernel(q.t, name)
		if err != nil {
			return err
		}
		l := driver.Launch{Grid: grid, Block: driver.Dim{X: block}, Shared: shared, Stream: q.stream}
		if q.trace != nil {
			return q.trace.launch(q, k, l, arguments)
		}
		return q.t.Launch(k, l, arguments...)
	})
}

// upload queues a copy of pinned memory from offset on.
func (q *queue) upload(to driver.Pointer, from *driver.HostMemory, offset, bytes int) {
	q.enqueue(func() error { return q.t.UploadAsync(to, from, offset, bytes, q.stream) })
}

// download queues a copy into pinned memory at offset.
func (q *queue) download(to *driver.HostMemory, offset int, from driver.Pointer, bytes int) {
	q.enqueue(func() error { return q.t.DownloadAsync(to, offset, from, bytes, q.stream) })
}

// copy queues a copy within device memory.
func (q *queue) copy(to, from driver.Pointer, bytes int) {
	q.enqueue(func() error { return q.t.CopyAsync(to, from, bytes, q.stream) })
}

// fork queues what f does as a branch of its own, behind the work now on the stream
// and beside what follows; join brings it back. In a captured graph the two branches
// run at the same time.
func (q *queue) fork(f func()) {
	if q.trace != nil { // one after the other
		f()
		return
	}
	q.enqueue(func() error { return q.t.Record(q.forked, q.stream) })
	q.enqueue(func() error { return q.t.WaitFor(q.side, q.forked) })
	main := q.stream
	q.stream = q.side
	f()
	q.stream = main
	q.enqueue(func() error { return q.t.Record(q.finished, q.side) })
}

// mark is the place in a branch that await waits for.
func (q *queue) mark() {
	if q.trace == nil {
		q.enqueue(func() error { return q.t.Record(q.halfway, q.stream) })
	}
}

// await makes what follows on the stream wait for the mark of the branch.
func (q *queue) await() {
	if q.trace == nil {
		q.enqueue(func() error { return q.t.WaitFor(q.stream, q.halfway) })
	}
}

// join makes what follows on the stream wait for the branch.
func (q *queue) join() {
	if q.trace == nil {
		q.enqueue(func() error { return q.t.WaitFor(q.stream, q.finished) })
	}
}

// wait waits for the stream and returns the first error of all.
func (q *queue) wait() error {
	q.enqueue(func() error { return q.t.Wait(q.stream) })
	return q.err
}

// alloc takes device memory.
func (q *queue) alloc(m *memory, bytes int) (device driver.Pointer) {
	q.enqueue(func() (err error) { device, err = m.alloc(q.t, bytes); return err })
	return device
}

// allocHost takes pinned memory.
func (q *queue) allocHost(m *memory, bytes int) (h *driver.HostMemory) {
	q.enqueue(func() (err error) { h, err = m.allocHost(q.t, bytes); return err })
	return h
}

// fill copies values to device memory and waits for it.
func fill[T driver.Element](q *queue, dst driver.Pointer, values []T) {
	q.enqueue(func() error { return driver.Upload(q.t, dst, values) })
}

// uploaded copies values to memory of their own.
func uploaded[T driver.Element](q *queue, m *memory, values []T) driver.Pointer {
	dst := q.alloc(m, max(int(unsafe.Sizeof(*new(T)))*len(values), 8))
	fill(q, dst, values)
	return dst
}
