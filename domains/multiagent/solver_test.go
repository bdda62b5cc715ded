package multiagent

import (
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

func BenchmarkSolve(b *testing.B) {
	prefs := []domain.Preference{{Adaptive: true}, {W: thirds}, {W: []float64{0.5, 0.5, 0}}, {W: []float64{0.2, 0.1, 0.7}}}
	for _, moving := range []bool{false, true} {
		y := system(b, moving)
		r := newSolver(newView(y))
		b.Run(y.spec.Name, func(b *testing.B) {
			n, solved := 0, 0
			for b.Loop() {
				n++
				samples, errs := r.SolveAll(0, []float64{float64(n%64) / 64, float64(n%7) / 7, 0.1, 0.1, 0.1}, prefs, domain.WeightedSum, []uint64{1, 2, 3, 4})
				for k := range samples {
					if errs[k] == nil {
						solved += 2
					}
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(8*n), "ms/joint")
			b.ReportMetric(float64(solved)/float64(8*n), "kept")
		})
	}
}
