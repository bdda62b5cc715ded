package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Pool owns threads − 1 goroutines; the caller's own is the remaining one.
type Pool struct {
	threads  int
	mu       sync.Mutex // one Run at a time
	f        func(worker, chunk int)
	chunks   int64
	next     atomic.Int64
	panic    caught
	wake     []chan struct{}
	finished sync.WaitGroup
	close    sync.Once
}

// New starts a pool; threads < 1 means GOMAXPROCS.
func New(threads int) *Pool {
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &Pool{threads: threads, wake: make([]chan struct{}, threads)}
	for w := 1; w < threads; w++ {
		p.wake[w] = make(chan struct{}, 1)
		go func() {
			for range p.wake[w] {
				p.drain(w)
				p.finished.Done()
			}
		}()
	}
	return p
}

// Threads is the number of workers, and so of per-worker workspaces needed.
func (p *Pool) Threads() int { return p.threads }

// Run calls f(worker, chunk) once for every chunk in [0, chunks), with worker
// in [0, Threads()) naming the workspace that call may use, and returns when
// all are done. Where f panics Run does, with the same value, when the others are; some
// chunks are then not done. f must not call Run. Run allocates nothing; to allocate nothing
// overall, pass a func value made once.
func (p *Pool) Run(chunks int, f func(worker, chunk int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.threads == 1 || chunks <= 1 {
		for c := range chunks {
			f(0, c)
		}
		return
	}
	p.f, p.chunks = f, int64(chunks)
	p.next.Store(0)
	helpers := min(p.threads, chunks) - 1
	p.finished.Add(helpers)
	for w := 1; w <= helpers; w++ {
		p.wake[w] <- struct{}{}
	}
	p.drain(0)
	p.finished.Wait()
	p.f = nil
	p.panic.rethrow()
}

func (p *Pool) drain(worker int) {
	defer p.panic.keep()
	for {
		c := p.next.Add(1) - 1
		if c >= p.chunks {
			return
		}
		p.f(worker, int(c))
	}
}

// Close ends the goroutines. The pool must not be used afterwards.
func (p *Pool) Close() {
	p.close.Do(func() {
		for _, c := range p.wake[1:] {
			close(c)
		}
	})
}
