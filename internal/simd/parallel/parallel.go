// Package parallel spreads independent chunks of one call over goroutines. The central type
// is Pool, which keeps them; Each and Split start them for one call. A panic of a chunk is the
// caller's, who may catch it: in a goroutine of its own it would end the program.
//
// Results do not depend on the number of threads where chunks do not: where a batch is cut is
// the caller's to say, but for Split, whose rows have to be independent.
package parallel

import (
	"sync"
	"sync/atomic"
)

// Each calls f(worker, chunk) once for every chunk in [0, chunks), on up to threads
// goroutines that take them in order, with worker in [0, threads) naming the workspace that
// call may use, and returns when all are done. One thread is the caller's own. Where f panics
// Each does, with the same value, when the others are done; some chunks are then not done.
func Each(threads, chunks int, f func(worker, chunk int)) {
	threads = min(threads, chunks)
	if threads <= 1 {
		for c := range chunks {
			f(0, c)
		}
		return
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	var first caught
	for w := range threads {
		workers.Go(func() {
			defer first.keep()
			for c := next.Add(1) - 1; c < int64(chunks); c = next.Add(1) - 1 {
				f(w, int(c))
			}
		})
	}
	workers.Wait()
	first.rethrow()
}

// Split calls f for threads contiguous parts of [0, n), at the same time, and panics as Each
// does. There are no more parts than there are rows, and at least one.
func Split(threads, n int, f func(part, from, to int)) {
	parts := max(1, min(threads, n))
	if parts == 1 {
		f(0, 0, n)
		return
	}
	Each(parts, parts, func(_, part int) { f(part, part*n/parts, (part+1)*n/parts) })
}

// caught is the first panic of several goroutines.
type caught struct{ value atomic.Pointer[any] }

// keep ends a panic of the goroutine that defers it.
func (c *caught) keep() {
	if v := recover(); v != nil {
		first := v // its own variable: only a panic allocates
		c.value.CompareAndSwap(nil, &first)
	}
}

// rethrow panics with what was kept, if anything was, and forgets it.
func (c *caught) rethrow() {
	if v := c.value.Swap(nil); v != nil {
		panic(*v)
	}
}
