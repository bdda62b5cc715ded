package cpufallback

import (
	"math"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/ceiling"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

var trainingSizes = []struct {
	name         string
	shape        trainingShape
	batch, kappa int
}{
	{"opf30/batch=4096", trainingShape{rows: 16384, nx: 116, no: 66, ns: 60, nu: 12, nz: 32, hidden: 256}, 4096, 1},
	{"opf30/batch=1024", trainingShape{rows: 16384, nx: 116, no: 66, ns: 60, nu: 12, nz: 32, hidden: 256}, 1024, 1},
	{"integrator/batch=2048", trainingShape{rows: 16384, nx: 12, no: 8, ns: 4, nu: 2, nz: 16, hidden: 256}, 2048, 1},
}

// report gives GFLOP/s and the fraction of the multiply-add ceiling, which is
// measured before and after on the same threads. Both are taken at their best:
// a neighbour on the machine can only slow either down.
func report(b *testing.B, be *Backend, flops float64, run func()) {
	run()
	peak := ceiling.FMA(be.pool, be.level)
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		run()
		best = min(best, time.Since(start))
	}
	peak = max(peak, ceiling.FMA(be.pool, be.level))
	rate := flops / best.Seconds()
	b.ReportMetric(rate/1e9, "GFLOP/s")
	b.ReportMetric(peak/1e9, "peak-GFLOP/s")
	b.ReportMetric(rate/peak, "fraction")
}

func BenchmarkManifoldStep(b *testing.B) {
	for _, s := range trainingSizes {
		b.Run(s.name, func(b *testing.B) {
			cfg := s.shape.config(1)
			cfg.MaxBatch, cfg.MaxNeighbours, cfg.SpectralBound = s.batch, s.kappa, 8
			flops := cfg.Initial.ManifoldFLOPs(s.kappa) * float64(s.batch)
			tr := newTrainer(b, Options{}, cfg).(*Trainer)
			rows, neighbours, kernel := s.shape.draw(1, s.batch, s.kappa)
			report(b, tr.backend, flops, func() {
				if _, err := tr.ManifoldStep(rows, neighbours, kernel, 1e-4); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkRolloutStep(b *testing.B) {
	for _, s := range trainingSizes {
		b.Run(s.name, func(b *testing.B) {
			cfg := s.shape.config(1)
			cfg.MaxBatch, cfg.SpectralBound = s.batch, 8
			flops := cfg.Initial.RolloutFLOPs() * float64(s.batch)
			tr := newTrainer(b, Options{}, cfg).(*Trainer)
			require.OK(b, tr.PrepareRollout())
			rows := pairsOf(cfg.Data)[:s.batch]
			report(b, tr.backend, flops, func() {
				if _, err := tr.RolloutStep(rows, 1e-4); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
