package neighbours

import (
	"sync"
	"sync/atomic"
)

// Runner calls f(worker, chunk) once for every chunk in [0, chunks), with
// worker in [0, Threads()) naming the workspace that call may use, and returns
// when all are done.
type Runner interface {
	Threads() int
	Run(chunks int, f func(worker, chunk int))
}

// Threads returns a Runner that starts up to threads goroutines for each Run.
// It is for long batches; a caller with a pool passes the pool.
func Threads(threads int) Runner { return goroutines(max(threads, 1)) }

type goroutines int

func (g goroutines) Threads() int { return int(g) }

func (g goroutines) Run(chunks int, f func(worker, chunk int)) {
	var next atomic.Int64
	var done sync.WaitGroup
	for w := range min(int(g), chunks) {
		done.Go(func() {
			for c := next.Add(1) - 1; c < int64(chunks); c = next.Add(1) - 1 {
				f(w, int(c))
			}
		})
	}
	done.Wait()
}

// caller runs every chunk where it is called.
type caller struct{}

func (caller) Threads() int { return 1 }

func (caller) Run(chunks int, f func(worker, chunk int)) {
	for c := range chunks {
		f(0, c)
	}
}
