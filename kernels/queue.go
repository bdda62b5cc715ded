package kernels

import (
	"unsafe"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// queue puts work on a stream of the backend, from the context's thread. Its first
// error is kept, and what follows does nothing.
type queue struct {
	*Backend
	t    *driver.Thread
	on   driver.Stream
	tile int // rows a block of the passes that follow takes (Backend.tileOf); 0: by their own rows
	err  error
}

// queue is a queue on the backend's stream.
func (b *Backend) queue(t *driver.Thread) *queue { return &queue{Backend: b, t: t, on: b.stream} }

// capture makes a graph of what fill puts on a queue.
func (b *Backend) capture(t *driver.Thread, fill func(*queue)) (*driver.Graph, error) {
	return t.Capture(b.stream, func() error {
		q := b.queue(t)
		fill(q)
		return q.err
	})
}

// then does one thing more.
func (q *queue) then(f func() error) {
	if q.err == nil {
		q.err = f()
	}
}

// launch queues one kernel of the images.
func (q *queue) launch(name string, grid driver.Dim, block, shared int, arguments ...driver.Argument) {
	q.then(func() error {
		k, err := q.kernel(q.t, name)
		if err != nil {
			return err
		}
		l := driver.Launch{Grid: grid, Block: driver.Dim{X: block}, Shared: shared, Stream: q.on}
		if q.trace != nil {
			return q.trace.launch(q, k, l, arguments)
		}
		return q.t.Launch(k, l, arguments...)
	})
}

// upload queues a copy of pinned memory from offset on.
func (q *queue) upload(to driver.Pointer, from *driver.HostMemory, offset, bytes int) {
	q.then(func() error { return q.t.UploadAsync(to, from, offset, bytes, q.on) })
}

// download queues a copy into pinned memory at offset.
func (q *queue) download(to *driver.HostMemory, offset int, from driver.Pointer, bytes int) {
	q.then(func() error { return q.t.DownloadAsync(to, offset, from, bytes, q.on) })
}

// copy queues a copy within device memory.
func (q *queue) copy(to, from driver.Pointer, bytes int) {
	q.then(func() error { return q.t.CopyAsync(to, from, bytes, q.on) })
}

// fork queues what f does as a branch of its own, behind the work now on the stream
// and beside what follows; join brings it back. In a captured graph the two branches
// run at the same time.
func (q *queue) fork(f func()) {
	if q.trace != nil { // one after the other
		f()
		return
	}
	q.then(func() error { return q.t.Record(q.forked, q.on) })
	q.then(func() error { return q.t.WaitFor(q.side, q.forked) })
	main := q.on
	q.on = q.side
	f()
	q.on = main
	q.then(func() error { return q.t.Record(q.done, q.side) })
}

// mark is the place in a branch that await waits for.
func (q *queue) mark() {
	if q.trace == nil {
		q.then(func() error { return q.t.Record(q.halfway, q.on) })
	}
}

// await makes what follows on the stream wait for the mark of the branch.
func (q *queue) await() {
	if q.trace == nil {
		q.then(func() error { return q.t.WaitFor(q.on, q.halfway) })
	}
}

// join makes what follows on the stream wait for the branch.
func (q *queue) join() {
	if q.trace == nil {
		q.then(func() error { return q.t.WaitFor(q.on, q.done) })
	}
}

// wait waits for the stream and returns the first error of all.
func (q *queue) wait() error {
	q.then(func() error { return q.t.Wait(q.on) })
	return q.err
}

// alloc takes device memory.
func (q *queue) alloc(m *memory, bytes int) (at driver.Pointer) {
	q.then(func() (err error) { at, err = m.alloc(q.t, bytes); return err })
	return at
}

// allocHost takes pinned memory.
func (q *queue) allocHost(m *memory, bytes int) (h *driver.HostMemory) {
	q.then(func() (err error) { h, err = m.allocHost(q.t, bytes); return err })
	return h
}

// fill copies values to device memory and waits for it.
func fill[T driver.Element](q *queue, at driver.Pointer, values []T) {
	q.then(func() error { return driver.Upload(q.t, at, values) })
}

// uploaded copies values to memory of their own.
func uploaded[T driver.Element](q *queue, m *memory, values []T) driver.Pointer {
	at := q.alloc(m, max(int(unsafe.Sizeof(*new(T)))*len(values), 8))
	fill(q, at, values)
	return at
}
