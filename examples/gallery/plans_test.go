package gallery

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp"
)

// writer is a domain.Planner that only writes the text of plans.
type writer struct{ text *export.DevicePlans }

func (w *writer) NewPlans(p domain.Problem, steps int, tolerance float64, iterations int) (*domain.Plans, error) {
	var err error
	w.text, err = export.PlansOf(p, steps, tolerance, iterations)
	return nil, cmp.Or(err, errors.ErrUnsupported)
}

// planText is what is written of a case's solver.
func planText(t *testing.T, c domain.Case) *export.Device {
	t.Helper()
	var w writer
	if _, err := c.Solver.(*ocp.Solver).Accelerate(w.NewPlans); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	return &w.text.Device
}

// TestSamplesThatADeviceSolves holds the samples whose plans a device solves to those of the CPU: as many, of the same cost where the CPU
// finds one optimum, and hardly an iteration is left to the CPU. One plant ends, one runs on, and one foresees its prices.
func TestSamplesThatADeviceSolves(t *testing.T) {
	systems := []equations.System{cartpole.System(), RunningOn()[0]}
	if !testing.Short() {
		systems = slices.Concat(Systems()[2:3], Systems()[6:7], systems, Foreseeing()[:1])
	}
	var cases []domain.Case
	var texts []*export.Device
	for _, y := range systems {
		c := require.Get(y.Case())(t)
		cases, texts = append(cases, c), append(texts, planText(t, c))
	}
	b := backendWith(t, texts...)
	for _, c := range cases {
		plain := c.Solver.(*ocp.Solver)
		device := require.Get(plain.Accelerate(b.NewPlans))(t).(*ocp.Solver)
		axes := plain.Parameters()
		for scenario, pref := range []domain.Preference{{Adaptive: true}, {W: equal(c.Problem.Spec().ObjectiveSize())}} {
			p := make([]float64, len(axes))
			for i, a := range axes {
				p[i] = a.Lo + (a.Hi-a.Lo)*(0.3+0.3*float64(scenario))
			}
			before := plain.Counts().Iterations
			want := require.Get(plain.Solve(scenario, p, pref, domain.WeightedSum, 5))(t)
			own := plain.Counts().Iterations - before
			got := require.Get(device.Solve(scenario, p, pref, domain.WeightedSum, 5))(t)
			left := plain.Counts().Iterations - before - own // the counters are shared
			worst := 0.0
			for i := range min(len(got), len(want)) {
				for k, u := range got[i].U {
					worst = math.Max(worst, math.Abs(u-want[i].U[k])/(c.Problem.Spec().Action[k].Hi-c.Problem.Spec().Action[k].Lo))
				}
			}
			t.Logf("%s: %d samples, CPU %d; actions within %.1e; %d iterations of the CPU, without a device %d", c.Problem.Spec().Name, len(got), len(want), worst, left, own)
			if len(got) != len(want) || left > own/10 {
				t.Errorf("%s: %d samples by %d iterations of the CPU, without a device %d by %d", c.Problem.Spec().Name, len(got), left, len(want), own)
			}
		}
	}
}

func equal(n int) []float64 { return slices.Repeat([]float64{1 / float64(n)}, n) }
