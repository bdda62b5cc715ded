//go:build linux && (amd64 || arm64)

package kernels

import (
	"fmt"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// onDevice is the backend on the machine's GPU; without one the benchmark is left
// out, since the time of the host shim says nothing.
func onDevice(b *testing.B, o Options) *Backend {
	b.Helper()
	library, err := driver.Load("")
	if err != nil {
		b.Skip(err)
	}
	context, err := driver.Open(library, 0)
	if err != nil {
		b.Skip(err)
	}
	be := require.Get(New(context, o))(b)
	b.Cleanup(func() { be.Close() })
	return be
}

// opfProblem has the sizes of the OPF case's networks.
var opfProblem = trainingProblem{rows: 250_000, nx: 150, no: 66, ns: 60, nu: 12, nz: 32, hidden: 256, kappa: 1}

func (p trainingProblem) opfConfig() backend.TrainerConfig {
	cfg := p.config(1)
	cfg.Initial.EncoderO, cfg.Initial.DecoderS = p.deep(p.no, p.nz), p.deep(p.nz, p.ns)
	cfg.Rollout.TopK, cfg.Adam.Epsilon, cfg.SpectralBound = 3, 1e-8, 8
	return cfg
}

// A step of either phase at the sizes of the OPF case: GFLOP/s by the counts above,
// and what 500 epochs of 250 000 samples take.
func BenchmarkTrainingStep(b *testing.B) {
	for _, precision := range []struct {
		name string
		tf32 bool
	}{{"fp32", false}, {"tf32", true}} {
		for _, batch := range []int{1024, 4096, 16384} {
			p := opfProblem
			p.batch = batch
			measure := func(name string, flops func(backend.Networks) float64, prepare, step func(backend.Trainer) error) {
				b.Run(fmt.Sprintf("%s/%s/batch=%d", name, precision.name, batch), func(b *testing.B) {
					be := onDevice(b, Options{TF32: precision.tf32})
					cfg := p.opfConfig()
					trainer := trainerOf(b, be, cfg)
					require.OK(b, prepare(trainer))
					for range 3 { // launches, capture, first use of the graphs
						require.OK(b, step(trainer))
					}
					for b.Loop() {
						require.OK(b, step(trainer))
					}
					// The last update is not awaited by its step.
					if _, err := trainer.Networks(); err != nil {
						b.Fatal(err)
					}
					seconds := b.Elapsed().Seconds() / float64(b.N)
					b.ReportMetric(flops(cfg.Initial)*float64(batch)/seconds/1e9, "GFLOP/s")
					b.ReportMetric(500*250_000/float64(batch)*seconds, "s/training")
				})
			}
			rows, neighbours, kernel := p.manifoldRows(0)
			pairs := p.rolloutRows(0)
			measure("manifold", func(n backend.Networks) float64 { return n.ManifoldFLOPs(p.kappa) },
				func(backend.Trainer) error { return nil },
				func(t backend.Trainer) error { _, err := t.ManifoldStep(rows, neighbours, kernel, 1e-4); return err })
			measure("rollout", backend.Networks.RolloutFLOPs, backend.Trainer.PrepareRollout,
				func(t backend.Trainer) error { _, err := t.RolloutStep(pairs, 1e-4); return err })
		}
	}
}
