package neighbours

import "github.com/gpc-engine/gpc/internal/simd/parallel"

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

func (g goroutines) Threads() int                              { return int(g) }
func (g goroutines) Run(chunks int, f func(worker, chunk int)) { parallel.Each(int(g), chunks, f) }
