package opf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestStepper: what a stepper does to an episode is what the episode does alone: outcomes and
// states to 1e-8, the same words where the action is refused, also where a power flow has no
// solution, which does not move the episode.
func TestStepper(t *testing.T) {
	const seed, n, steps = 991, 11, 15 // more than one vector has lanes, and not a multiple
	for _, c := range []domain.Case{Thirty(), ThirtyUncertain()} {
		t.Run(c.Problem.Spec().Name, func(t *testing.T) {
			y, plant := c.Problem.(*System), c.Plant.(*Plant)
			stepper := plant.NewStepper()
			if stepper == nil {
				t.Skip("no lanes on this machine")
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var together []domain.Episode
			var alone []*episode
			for i := range n {
				opt := domain.EpisodeOptions{}
				if i%3 == 1 {
					opt.Preference.W = []float64{0.2, 0.3, 0.5}
				}
				together = append(together, require.Get(plant.Episode(seed, i%4, opt))(t))
				alone = append(alone, require.Get(plant.Episode(seed, i%4, opt))(t).(*episode))
			}
			outcomes, errs := make([]domain.Outcome, n), make([]error, n)
			unsolved, refused := 0, 0
			for step := range steps {
				var u [][]float64
				for i := range n {
					a := make([]float64, y.spec.ActionSize())
					for k, v := range y.spec.Action {
						a[k] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
					}
					switch {
					case i == 3 && step%4 == 1:
						for g := range y.layout.gens {
							a[y.layout.gens+g] = 0.1 // carries no load
						}
					case i == 4 && step == 2:
						a[0] = math.NaN()
					case i == 5 && step == 3:
						a = a[1:]
					case i == 9 && step == 6:
						together[i].(*episode).t, alone[i].t = Steps, Steps
					}
					u = append(u, a)
				}
				stepper.Apply(together, u, outcomes, errs)
				for i, e := range alone {
					want, err := e.Apply(u[i])
					if fmt.Sprint(err) != fmt.Sprint(errs[i]) {
						t.Fatalf("episode %d, step %d: %v together, %v alone", i, step, errs[i], err)
					}
					switch {
					case err != nil && strings.Contains(err.Error(), "no solution"):
						unsolved++
					case err != nil:
						refused++
					}
					got, other := &outcomes[i], together[i].(*episode)
					near(t, "S", got.S, want.S)
					near(t, "J", got.J, want.J)
					near(t, "sigma", got.Sigma, want.Sigma)
					near(t, "margins", got.Named, want.Named)
					near(t, "cost and margin", []float64{got.Cost, got.Margin}, []float64{want.Cost, want.Margin})
					near(t, "state", other.s, e.s)
					near(t, "context", other.c, e.c)
				}
			}
			if unsolved == 0 || refused == 0 {
				t.Errorf("%d actions had no power flow and %d were wrong: the test is of neither", unsolved, refused)
			}
		})
	}
}

func near(t *testing.T, name string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d entries, want %d", name, len(got), len(want))
	}
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= 1e-8*(1+math.Abs(w))) {
			t.Fatalf("%s[%d] is %v together, %v alone", name, i, got[i], w)
		}
	}
}

// TestStepperAllocatesNothing of its own, once its vectors are there.
func TestStepperAllocatesNothing(t *testing.T) {
	c := Thirty()
	plant := c.Plant.(*Plant)
	stepper := plant.NewStepper()
	if stepper == nil {
		t.Skip("no lanes on this machine")
	}
	episodes := []domain.Episode{require.Get(plant.Episode(991, 0, domain.EpisodeOptions{}))(t)}
	u := [][]float64{append(append([]float64(nil), episodes[0].(*episode).scene.Pg0...), episodes[0].(*episode).scene.Vg0...)}
	outcomes, errs := make([]domain.Outcome, 1), make([]error, 1)
	stepper.Apply(episodes, u, outcomes, errs)
	if allocs := testing.AllocsPerRun(20, func() { stepper.Apply(episodes, u, outcomes, errs) }); allocs != 0 || errs[0] != nil {
		t.Errorf("%v allocations a step, error %v", allocs, errs[0])
	}
}
