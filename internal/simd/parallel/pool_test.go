package parallel

import (
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestRunVisitsEveryChunkOnceWithAValidWorker(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, threads := range []int{1, 2, 5} {
		p := New(threads)
		for _, chunks := range []int{0, 1, 2, 7, 1000} {
			seen := make([]atomic.Int32, chunks)
			p.Run(chunks, func(w, c int) {
				if w < 0 || w >= threads {
					t.Errorf("worker %d of %d", w, threads)
				}
				seen[c].Add(1)
			})
			for c := range seen {
				if n := seen[c].Load(); n != 1 {
					t.Fatalf("threads %d: chunk %d of %d ran %d times", threads, c, chunks, n)
				}
			}
		}
		p.Close()
	}
}

// A chunk that panics is a panic of Run, whoever ran it, and the pool works on.
func TestAPanicIsTheCallers(t *testing.T) {
	for _, threads := range []int{1, 3} {
		p := New(threads)
		for bad := range 6 {
			got := func() (v any) {
				defer func() { v = recover() }()
				p.Run(6, func(_, c int) {
					if c == bad {
						panic(c)
					}
				})
				return nil
			}()
			if got != bad {
				t.Errorf("%d threads: chunk %d panics, Run with %v", threads, bad, got)
			}
			var done atomic.Int32
			if p.Run(6, func(_, _ int) { done.Add(1) }); done.Load() != 6 {
				t.Errorf("%d threads: %d of 6 chunks after a panic", threads, done.Load())
			}
		}
		p.Close()
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	p := New(2)
	defer p.Close()
	var sum atomic.Int64
	f := func(_, c int) { sum.Add(int64(c)) }
	if n := testing.AllocsPerRun(100, func() { p.Run(16, f) }); n != 0 {
		t.Fatalf("%v allocations per Run", n)
	}
}
