package parallel

import (
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestEachVisitsEveryChunkOnceWithAWorkspaceOfItsOwn(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, threads := range []int{0, 1, 2, 5} {
		for _, chunks := range []int{0, 1, 2, 7, 1000} {
			seen, busy := make([]atomic.Int32, chunks), make([]atomic.Bool, max(threads, 1))
			Each(threads, chunks, func(w, c int) {
				if !busy[w].CompareAndSwap(false, true) {
					t.Errorf("worker %d of %d has two chunks at once", w, threads)
				}
				seen[c].Add(1)
				busy[w].Store(false)
			})
			for c := range seen {
				if n := seen[c].Load(); n != 1 {
					t.Fatalf("%d threads: chunk %d of %d ran %d times", threads, c, chunks, n)
				}
			}
		}
	}
}

func TestSplitCoversEveryRowOnce(t *testing.T) {
	for _, threads := range []int{0, 1, 2, 5} {
		for _, n := range []int{0, 1, 3, 5, 64} {
			seen := make([]atomic.Int32, n)
			var parts atomic.Int32
			Split(threads, n, func(part, from, to int) {
				if parts.Add(1); part < 0 || part >= max(1, min(threads, n)) {
					t.Errorf("%d threads, %d rows: part %d", threads, n, part)
				}
				for i := from; i < to; i++ {
					seen[i].Add(1)
				}
			})
			for i := range seen {
				if seen[i].Load() != 1 {
					t.Errorf("%d threads: row %d of %d is in %d parts", threads, i, n, seen[i].Load())
				}
			}
			if want := int32(max(1, min(threads, n))); parts.Load() != want {
				t.Errorf("%d threads, %d rows: %d parts, want %d", threads, n, parts.Load(), want)
			}
		}
	}
}

// A chunk that panics is a panic of the call, whoever ran it.
func TestAPanicOfAGoroutineIsTheCallers(t *testing.T) {
	for _, threads := range []int{1, 3} {
		for bad := range 6 {
			got := func() (v any) {
				defer func() { v = recover() }()
				Each(threads, 6, func(_, c int) {
					if c == bad {
						panic(c)
					}
				})
				return nil
			}()
			if got != bad {
				t.Errorf("%d threads: chunk %d panics, Each with %v", threads, bad, got)
			}
		}
	}
}

func TestSplitOnOneThreadAllocatesNothing(t *testing.T) {
	sum := 0
	f := func(_, from, to int) { sum += to - from }
	if n := testing.AllocsPerRun(100, func() { Split(1, 16, f) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
