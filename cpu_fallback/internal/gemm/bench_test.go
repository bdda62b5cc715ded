package gemm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/ceiling"
	"github.com/gpc-engine/gpc/cpu_fallback/internal/gemm"
	"github.com/gpc-engine/gpc/cpu_fallback/internal/isa"
	"github.com/gpc-engine/gpc/cpu_fallback/internal/parallel"
	"github.com/gpc-engine/gpc/tensor"
)

// BenchmarkMultiply measures Y = ReLU(X·Wᵀ + b), one layer of a network, and the
// fraction of the ceiling measured before and after it.
func BenchmarkMultiply(b *testing.B) {
	for _, level := range isa.Available() {
		for _, threads := range []int{1, 0} {
			for _, s := range [][3]int{{4096, 256, 256}, {4096, 32, 256}, {4096, 256, 60}, {1, 256, 256}} {
				pool := parallel.New(threads)
				b.Run(fmt.Sprintf("%s/threads=%d/%dx%dx%d", level, pool.Threads(), s[0], s[1], s[2]), func(b *testing.B) {
					benchmarkMultiply(b, pool, level, s[0], s[1], s[2])
				})
				pool.Close()
			}
		}
	}
}

func benchmarkMultiply(b *testing.B, pool *parallel.Pool, level isa.Level, rows, inner, cols int) {
	rng := rand.New(rand.NewPCG(1, 1))
	k := gemm.For(level)
	w := tensor.New(cols, inner)
	for i := range w.Data {
		w.Data[i] = float32(rng.NormFloat64())
	}
	packed := k.NewPanels(inner, cols)
	packed.PackTransposed(w, make([]float32, cols))
	x, y := gemm.Buffer(rows*inner), gemm.Buffer(rows*cols)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	const chunk = 96
	f := func(_, c int) {
		from := c * chunk
		k.Multiply(&gemm.Product{
			Rows: min(chunk, rows-from), A: x[from*inner:], ARow: inner, AStep: 1, B: packed,
			C: y[from*cols:], CRow: cols, Init: gemm.FromBias, ReLU: true,
		})
	}
	peak := ceiling.FMA(pool, level)
	b.ResetTimer()
	for b.Loop() {
		pool.Run((rows+chunk-1)/chunk, f)
	}
	rate := 2 * float64(rows) * float64(inner) * float64(cols) * float64(b.N) / b.Elapsed().Seconds()
	peak = max(peak, ceiling.FMA(pool, level))
	b.ReportMetric(rate/1e9, "GFLOP/s")
	b.ReportMetric(100*rate/peak, "%ofFMA")
}
