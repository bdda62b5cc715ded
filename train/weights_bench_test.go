package train

import (
	"testing"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/paper/integrator"
)

// BenchmarkLossWeights is the ablation of docs/contribute/notebook/experiments.md: what consistency and
// locality cost in action accuracy, on a small dataset of Case 1 and a short
// training. The errors are of held-out scenarios, after projection, in m/s².
// Run it with -benchtime 1x.
func BenchmarkLossWeights(b *testing.B) {
	c := integrator.Convex()
	c.Solver = integrator.NewSolver(c.Problem.(*integrator.System), 300)
	dir := b.TempDir()
	if _, err := dataset.Generate(b.Context(), c, dataset.Options{
		Scenarios: 700, Weights: dataset.Weights{Count: 1, Design: dataset.RandomWeights}, Adaptive: true,
		Scalarization: "weighted-sum", OutDir: dir, Seed: 3,
	}, nil); err != nil {
		b.Fatal(err)
	}
	ds, err := dataset.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	data, err := FromDataset(c.Problem, ds)
	if err != nil {
		b.Fatal(err)
	}
	weights := func(action, consistency, locality float32) backend.ManifoldLoss {
		l := defaultManifoldLoss()
		l.Action, l.Consistency, l.Locality = action, consistency, locality
		return l
	}
	for _, v := range []struct {
		name string
		loss backend.ManifoldLoss
	}{
		{"action=1", weights(1, 1, 0.5)},
		{"action=10", weights(10, 1, 0.5)},
		{"action=10,locality=0.05", weights(10, 1, 0.05)},
		{"action=100", weights(100, 1, 0.5)},
		{"only-action", backend.ManifoldLoss{Action: 1}},
	} {
		b.Run(v.name, func(b *testing.B) {
			opt := Options{
				Backend: cpu(b), Problem: c.Problem, Data: data, Seed: 1,
				ManifoldEpochs: 9, RolloutEpochs: 3, Batch: 256, manifold: v.loss,
			}
			if v.loss.Locality == 0 {
				opt.LocalNeighbours = -1
			}
			for b.Loop() {
				res, err := Run(b.Context(), opt, nil)
				if err != nil {
					b.Fatal(err)
				}
				manifold, rollout := res.History[opt.ManifoldEpochs-1], res.History[len(res.History)-1]
				b.ReportMetric(manifold.DeltaDecMean, "manifold-mean")
				b.ReportMetric(rollout.DeltaDecMean, "mean")
				b.ReportMetric(rollout.DeltaDecP99, "p99")
				b.ReportMetric(rollout.TauGeom, "tau_geom")
				b.ReportMetric(res.Model.Calibration.LatentSpread, "spread")
				b.ReportMetric(float64(res.Samples)/res.Seconds, "samples/s")
			}
		})
	}
}
