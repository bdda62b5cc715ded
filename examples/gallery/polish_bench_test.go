package gallery

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/planscore"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// BenchmarkPolish reports what the plans of direct cost above the optimum from 25 starts, before and after so many iterations of the
// exact solver, % in the mean and at most. A plan that breaks a limit or costs more counts as it was given: so a polish takes it.
func BenchmarkPolish(b *testing.B) {
	const starts = 25
	for _, y := range Systems() {
		b.Run(y.Name, func(b *testing.B) {
			loops, c := guarded(b, &y, new(counts), "direct")
			spec, polish := c.Problem.Spec(), domain.AbilitiesOfProblem(c.Problem).Polish
			mean, most := map[int]float64{}, map[int]float64{}
			s, x := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
			for b.Loop() {
				for i := range starts {
					ep := require.Get(c.Plant.Episode(7002, i, adaptive))(b)
					least, _, err := ep.Oracle()
					if err != nil {
						continue // no way keeps the limits
					}
					ep.Observe(s, x)
					first, ctx, given := slices.Clone(s), slices.Clone(x), []float64{}
					for loops[0].Reset(); !ep.Done(); {
						ep.Observe(s, x)
						u := require.Get(loops[0].Decide(s, x, adaptive.Preference))(b).U
						given = append(given, u...)
						require.Get(ep.Apply(u))(b)
					}
					for _, iterations := range []int{0, 1, 3, 5, 10} {
						plan := slices.Clone(given)
						polish(first, ctx, adaptive.Preference, nil, plan, iterations)
						_, before, _ := planscore.Plan(c.Problem, first, ctx, adaptive.Preference, given, spec.Steps, true)
						_, after, margin := planscore.Plan(c.Problem, first, ctx, adaptive.Preference, plan, spec.Steps, true)
						if !spec.Keeps(margin) || !(after < before) {
							after = before
						}
						above := 100 * (after/least - 1)
						mean[iterations] += above / starts
						most[iterations] = math.Max(most[iterations], above)
					}
				}
			}
			for iterations := range mean {
				b.ReportMetric(mean[iterations], fmt.Sprintf("%%-after-%d", iterations))
				b.ReportMetric(most[iterations], fmt.Sprintf("%%-at-most-after-%d", iterations))
			}
		})
	}
}
