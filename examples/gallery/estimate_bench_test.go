package gallery

import (
	"runtime"
	"testing"

	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// BenchmarkEstimate is the CPU time that an estimate takes in a decision, of every state measured with 1 % of noise, without the lanes of
// vectors and with them: measured and predicted, and three deviations kept off the limits along a plan. Both sides take it in turn, on one thread.
func BenchmarkEstimate(b *testing.B) {
	for _, y := range Systems() {
		b.Run(y.Name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			p := require.Get(equations.New(y))(b)
			require.Get(p.NewStages())(b) // reads the program
			var sides [2]*estimating
			for k, problem := range []domain.Problem{unstaged{p}, p} {
				sides[k] = newEstimating(b, problem)
			}
			at, s, c := make([]float64, len(y.Scenario)), make([]float64, len(p.Spec().Measured)), make([]float64, len(p.Spec().Context))
			for i, v := range y.Scenario {
				at[i] = (v.Lo + v.Hi) / 2
			}
			y.Initial(at, s, c)
			var filtered, kept [2]float64
			turns := 0.0
			for b.Loop() {
				turns++
				for k, side := range sides {
					began := cpu(b)
					side.filter.Reset()
					for range 10 {
						require.OK(b, side.filter.Update(s, c, side.s, side.c))
						side.filter.Predict(side.u)
					}
					along := cpu(b)
					side.margin.Along(s, c, nil, side.filter, nil)
					filtered[k] += (along - began) / 10
					kept[k] += cpu(b) - along
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(filtered[0]/filtered[1], "filter-ratio")
			b.ReportMetric(filtered[1]/turns*1e6, "filter-µs")
			b.ReportMetric(kept[0]/kept[1], "keep-off-ratio")
			b.ReportMetric(kept[1]/turns*1e6, "keep-off-µs")
		})
	}
}

// estimating is the estimator of one loop with what it keeps off the limits.
type estimating struct {
	filter  *estimate.Filter
	margin  *estimate.Margin
	s, c, u []float64
}

func newEstimating(b *testing.B, problem domain.Problem) *estimating {
	spec := problem.Spec()
	measured := domain.Whole(spec, 0.01)
	mean, spread := make([]float64, spec.MeasuredSize()), make([]float64, spec.MeasuredSize())
	for i, v := range spec.Measured {
		spread[i] = v.Scale() / 4
	}
	f := require.Get(estimate.New(problem, measured, mean, spread))(b)
	return &estimating{
		filter: f, margin: require.Get(estimate.NewMargin(problem, domain.NewBackoff(spec), f, 3))(b),
		s: make([]float64, spec.MeasuredSize()), c: make([]float64, spec.ContextSize()), u: make([]float64, spec.ActionSize()),
	}
}
