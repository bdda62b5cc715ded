package cpufallback

import (
	"math"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/ceiling"
	"github.com/gpc-engine/gpc/internal/backend"
)

// manifoldFLOPs is the work of one sample of a manifold step: every product the
// step cannot do without, two operations a multiply-add. Each use of a network
// is a forward pass (1×), the gradient of its weights (1×) and of its inputs
// (1×, the first layer of an encoder excepted). E_x is used for the sample and
// its κ neighbours, D_s for z^x and z^o.
func manifoldFLOPs(n backend.Networks, kappa int) float64 {
	encoder := func(i int) int {
		m := n.All()[i]
		return 3*m.MulAdds() - m.Layers[0].W.Rows*m.Layers[0].W.Cols
	}
	return 2 * float64((1+kappa)*encoder(0)+encoder(1)+3*n.DecoderU.MulAdds()+2*3*n.DecoderS.MulAdds())
}

// rolloutFLOPs is the work of one transition of a rollout step: D_u at five
// latents, without the gradient of its inputs.
func rolloutFLOPs(n backend.Networks) float64 {
	m := n.DecoderU
	return 2 * rolloutLatents * float64(3*m.MulAdds()-m.Layers[0].W.Rows*m.Layers[0].W.Cols)
}

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
			flops := manifoldFLOPs(cfg.Initial, s.kappa) * float64(s.batch)
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
			flops := rolloutFLOPs(cfg.Initial) * float64(s.batch)
			tr := newTrainer(b, Options{}, cfg).(*Trainer)
			if err := tr.PrepareRollout(); err != nil {
				b.Fatal(err)
			}
			rows := pairsOf(cfg.Data)[:s.batch]
			report(b, tr.backend, flops, func() {
				if _, err := tr.RolloutStep(rows, 1e-4); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
