package gallery

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testcart"
)

// What is kept off is the same by the lanes of vectors and by dual numbers alone: of every state measured, of gains and a wind that are
// estimated beside the state, where no action moves them, and of actions that are under way.
func TestWhatIsKeptOffByLanesIsThatOfDualNumbers(t *testing.T) {
	systems := Systems()
	gains := require.Get(whole(t, Systems()[0], 0.01, 0).UncertainGains(0.1))(t)
	for _, y := range append(systems, gains, testcart.System(), lasting(testcart.System())) {
		t.Run(y.Name, func(t *testing.T) {
			p := require.Get(equations.New(y))(t)
			measured := y.Measurement
			if measured == nil {
				measured = domain.Whole(p.Spec(), 0.01)
			}
			var kept [2][]float64
			for k, problem := range []domain.Problem{unstaged{p}, p} {
				kept[k] = keptOff(t, &y, problem, measured)
			}
			if len(kept[0]) != len(kept[1]) || slices.Max(kept[0]) <= 0 {
				t.Fatalf("%d and %d distances, the largest is %v: nothing is compared", len(kept[0]), len(kept[1]), slices.Max(kept[0]))
			}
			for i, want := range kept[0] {
				if got := kept[1][i]; !(math.Abs(got-want) <= 1e-12*(1+math.Abs(want))) {
					t.Fatalf("distance %d is %v by lanes, %v by dual numbers", i, got, want)
				}
			}
		})
	}
}

// keptOff are the distances of all stages, from the middle of the scenario along actions off the middle of their boxes.
func keptOff(t *testing.T, y *equations.System, problem domain.Problem, measured *domain.Measurement) (all []float64) {
	spec := problem.Spec()
	mean, spread := make([]float64, spec.MeasuredSize()), make([]float64, spec.MeasuredSize())
	for i, v := range spec.Measured {
		spread[i] = v.Scale() / 4
	}
	f := require.Get(estimate.New(problem, measured, mean, spread))(t)
	off := domain.NewBackoff(spec)
	m := require.Get(estimate.NewMargin(problem, off, f, 3))(t)
	at, s, c := make([]float64, len(y.Scenario)), make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	for i, v := range y.Scenario {
		at[i] = (v.Lo + v.Hi) / 2
	}
	y.Initial(at, s, c)
	plan := make([]float64, spec.LookAhead()*spec.ActionSize())
	for i := range plan {
		v := spec.Action[i%spec.ActionSize()]
		plan[i] = (v.Lo+v.Hi)/2 + 0.05*(v.Hi-v.Lo)*math.Sin(float64(i))
	}
	for _, delay := range []domain.Delay{{}, {Periods: 2}} {
		off.Clear()
		m.Nominal(s, c, plan, f, delay)
		stages := 1
		if spec.Clock > 0 {
			stages = spec.Steps
		}
		for k := range stages {
			all = append(all, off.Row(float64(k)/float64(stages))...)
		}
	}
	return all
}
