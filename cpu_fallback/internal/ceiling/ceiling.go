// Package ceiling measures what this machine could do at best, so that every
// benchmark can be given as a fraction of the possible (DESIGN §6).
//
// The central functions are FMA and Triad. FMA is a loop of multiply-adds between
// registers, with no memory access at all: no float32 program of that
// instruction set outruns it, so a fraction of it is never flattered. Triad is
// the STREAM kernel a = b + s·c (McCalpin) on arrays far larger than any cache,
// with stores that bypass the cache where the instruction set has them.
//
// A virtual machine's clock and neighbours vary from one moment to the next:
// measure in the same process as what is compared, and interleaved with it.
package ceiling

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Windows of a measurement: the best is taken, because whatever disturbs a
// register-only loop can only slow it down. They are short, so that on a shared
// machine some find all threads undisturbed.
const (
	windows      = 40
	windowLength = time.Millisecond
)

// FMA returns the best rate of float32 multiply-adds, in FLOP/s (a multiply-add
// is two), of one instruction set on all threads of the pool. It takes about
// 50 ms.
func FMA(pool *parallel.Pool, level isa.Level) float64 {
	rounds := 1000
	for window(pool, level, rounds) < windowLength {
		rounds *= 2
	}
	best := window(pool, level, rounds)
	for range windows - 1 {
		best = min(best, window(pool, level, rounds))
	}
	return float64(pool.Threads()) * float64(rounds) * float64(flopsPerRound(level)) / best.Seconds()
}

// window runs the loop once on every thread. The clock starts when the last
// thread has arrived, so that waking them is not counted, and stops when the last
// is done.
func window(pool *parallel.Pool, level isa.Level, rounds int) time.Duration {
	threads := pool.Threads()
	begin := time.Now()
	var arrived, first, last atomic.Int64
	pool.Run(threads, func(_, _ int) {
		if arrived.Add(1) == int64(threads) {
			first.Store(int64(time.Since(begin)))
			arrived.Add(1)
		}
		for arrived.Load() <= int64(threads) {
			runtime.Gosched()
		}
		peak(level, rounds)
		end := int64(time.Since(begin))
		for old := last.Load(); old < end && !last.CompareAndSwap(old, end); old = last.Load() {
		}
	})
	return time.Duration(last.Load() - first.Load())
}

// triadRepetitions are fewer than windows, because one moves 200 MB.
const triadRepetitions = 5

// Triad returns the best rate of a[i] = b[i] + s·c[i] in bytes/s, three arrays
// counted, on all threads of the pool. Each array holds elements float32, rounded
// up to whole pieces; 1<<24 is larger than any cache in use.
func Triad(pool *parallel.Pool, level isa.Level, elements int) float64 {
	const piece = 1 << 16
	pieces := (elements + piece - 1) / piece
	a, b, c := make([]float32, pieces*piece), make([]float32, pieces*piece), make([]float32, pieces*piece)
	for i := range b {
		b[i], c[i] = float32(i), 1
	}
	f := func(_, p int) {
		from, to := p*piece, (p+1)*piece
		triad(level, a[from:to], b[from:to], c[from:to], 3)
	}
	best := time.Duration(1<<63 - 1)
	for range triadRepetitions {
		start := time.Now()
		pool.Run(pieces, f)
		best = min(best, time.Since(start))
	}
	return 3 * 4 * float64(len(a)) / best.Seconds()
}

// genericChains is how many independent chains the Go loop has.
const genericChains = 12

// start holds the operands of the Go loop, in a variable so that the compiler
// cannot know them; last receives its result so that it cannot drop it.
var start, last = [2]float32{1, 0.5}, float32(0)

// peakGeneric is the Go twin: independent chains of a multiply and an add, which
// is what the compiler makes of Go.
func peakGeneric(rounds int) float32 {
	x, y := start[1], start[0]
	a, b, c := y, x, y
	d, e, f := x, y, x
	g, h, i := x, y, x
	j, k, l := y, x, y
	for range rounds {
		a += x * a
		b += x * b
		c += x * c
		d += x * d
		e += x * e
		f += x * f
		g += x * g
		h += x * h
		i += x * i
		j += x * j
		k += x * k
		l += x * l
	}
	return a + b + c + d + e + f + g + h + i + j + k + l
}

func triadGeneric(a, b, c []float32, s float32) {
	b, c = b[:len(a)], c[:len(a)]
	for i := range a {
		a[i] = b[i] + s*c[i]
	}
}

// sink keeps a result that nobody reads, so that the loop is not dropped.
func sink(v float32) {
	mu.Lock()
	last = min(last, v)
	mu.Unlock()
}

var mu sync.Mutex
