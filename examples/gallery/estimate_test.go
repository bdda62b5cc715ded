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

// An estimate and its covariance are the same by the lanes of vectors and by dual numbers alone, of many states and of parameters beside them.
func TestEstimatesByLanesAreThoseOfDualNumbers(t *testing.T) {
	shared := 0
	for _, y := range append(Systems(), require.Get(whole(t, Systems()[4], 0.01, 0).UncertainGains(0.1))(t)) {
		p := require.Get(equations.New(y))(t)
		spec, measured := p.Spec(), y.Measurement
		if measured == nil {
			measured = domain.Whole(spec, 0.01)
		}
		if steps := require.Get(p.NewSteps([]int{0}))(t); steps != nil && len(spec.Measured) > 8 {
			shared++
		}
		at, s, c := make([]float64, len(y.Scenario)), make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		for i, v := range y.Scenario {
			at[i] = (v.Lo + v.Hi) / 2
		}
		y.Initial(at, s, c)
		spread := make([]float64, len(s))
		for i, v := range spec.Measured {
			spread[i] = v.Scale() / 4
		}
		var roots, states [2][]float64
		for k, problem := range []domain.Problem{unstaged{p}, p} {
			f := require.Get(estimate.New(problem, measured, s, spread))(t)
			x, known, u := make([]float64, len(s)), make([]float64, len(c)), make([]float64, spec.ActionSize())
			for turn := range 8 {
				require.OK(t, f.Update(s, c, x, known))
				p.Fallback(x, known, u)
				for i, v := range spec.Action {
					u[i] += 0.05 * (v.Hi - v.Lo) * math.Sin(float64(turn+i))
				}
				f.Predict(u)
			}
			roots[k], states[k] = slices.Clone(f.Root()), x
		}
		for k, of := range [2][2][]float64{roots, states} {
			for i, want := range of[0] {
				if got := of[1][i]; !(math.Abs(got-want) <= 1e-11*(1+math.Abs(want))) {
					t.Errorf("%s: entry %d of %s is %v by lanes, %v by dual numbers", y.Name, i, []string{"the root", "the state"}[k], got, want)
				}
			}
		}
	}
	if shared < 3 {
		t.Errorf("%d systems have so many states and derivatives in lanes: little is compared", shared)
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
