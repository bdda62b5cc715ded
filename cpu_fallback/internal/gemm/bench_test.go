package gemm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/ceiling"
	"github.com/gpc-engine/gpc/cpu_fallback/internal/gemm"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
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
	best := time.Hour // the ceiling is a best, so is what is compared
	b.ResetTimer()
	for b.Loop() {
		start := time.Now()
		pool.Run((rows+chunk-1)/chunk, f)
		best = min(best, time.Since(start))
	}
	rate := 2 * float64(rows) * float64(inner) * float64(cols) / best.Seconds()
	peak = max(peak, ceiling.FMA(pool, level))
	b.ReportMetric(rate/1e9, "GFLOP/s")
	b.ReportMetric(100*rate/peak, "%ofFMA")
}

// BenchmarkTraining measures what a layer of a trainer adds to the forward
// product: packing the changed weights and dX = dY·W.
func BenchmarkTraining(b *testing.B) {
	const batch, width = 512, 256
	for _, level := range isa.Available()[min(1, len(isa.Available())-1):] {
		rng := rand.New(rand.NewPCG(1, 1))
		k := gemm.For(level)
		pool := parallel.New(1)
		defer pool.Close()
		fill := func(rows, cols int) tensor.Matrix {
			m := tensor.Matrix{Rows: rows, Cols: cols, Stride: cols, Data: gemm.Buffer(rows * cols)}
			for i := range m.Data {
				m.Data[i] = float32(rng.NormFloat64())
			}
			return m
		}
		w, x, dy := fill(width, width), fill(batch, width), fill(batch, width)
		bias := make([]float32, width)
		forward, backward := k.NewPanels(width, width), k.NewPanels(width, width)
		const flops = 2 * batch * width * width
		for _, op := range []struct {
			name  string
			flops float64
			run   func()
		}{
			{"pack-transposed", 0, func() { forward.PackTransposed(w, bias) }},
			{"pack", 0, func() { backward.Pack(w) }},
			{"dx", flops, func() {
				k.Multiply(&gemm.Product{Rows: batch, A: dy.Data, ARow: width, AStep: 1, B: backward, C: x.Data, CRow: width})
			}},
		} {
			b.Run(fmt.Sprintf("%s/%s", level, op.name), func(b *testing.B) {
				peak := ceiling.FMA(pool, level)
				best := time.Hour
				b.ResetTimer()
				for b.Loop() {
					start := time.Now()
					op.run()
					best = min(best, time.Since(start))
				}
				peak = max(peak, ceiling.FMA(pool, level))
				b.ReportMetric(float64(best.Nanoseconds()), "best-ns")
				if op.flops > 0 {
					b.ReportMetric(100*op.flops/best.Seconds()/peak, "%ofFMA")
				}
			})
		}
	}
}
