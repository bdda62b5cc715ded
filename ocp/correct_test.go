package ocp

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// The first action corrected for another first state is that of the optimum from there, but for
// what is quadratic in the distance.
func TestCorrectIsTheOptimumNearby(t *testing.T) {
	fixed, adaptive := domain.Preference{W: []float64{0.4, 0.6}}, domain.Preference{Adaptive: true}
	pole := func(p domain.Problem) *Solver { return newPole(p, Options{Tolerance: 1e-9}) }
	poleState, poleContext := []float64{0.3, 0, 0.1, 0}, []float64{-0.5, 0}
	for name, c := range map[string]struct {
		solver     *Solver
		state, ctx []float64
		pref       domain.Preference
		steps      int
	}{
		"dual numbers":        {pole(testdomain.Pole{}), poleState, poleContext, fixed, 20},
		"adaptive":            {pole(testdomain.Pole{}), poleState, poleContext, adaptive, 20},
		"differences":         {pole(poleByDifferences{testdomain.Pole{}}), poleState, poleContext, fixed, 20},
		"adaptive by values":  {pole(poleByDifferences{testdomain.Pole{}}), poleState, poleContext, adaptive, 20},
		"a margin that binds": {newCart(cart{force: 1, speed: 0.3, steps: 10}, Options{Tolerance: 1e-9}), []float64{1, -0.2}, nil, fixed, 10},
	} {
		t.Run(name, func(t *testing.T) {
			controller, err := c.solver.Receding(0, 0)
			if err != nil {
				t.Fatal(err)
			}
			solve := func(s []float64) []float64 {
				t.Helper()
				controller.Reset()
				if status, err := controller.Solve(s, c.ctx, c.steps, c.pref); err != nil || !status.Converged {
					t.Fatal(status, err)
				}
				return slices.Clone(controller.Action(0))
			}
			for i := range c.state {
				wrong := [2]float64{}
				for k, by := range []float64{0.02, 0.01} {
					s := slices.Clone(c.state)
					s[i] += by
					want, from := solve(s), solve(c.state)
					got := slices.Clone(from)
					if !controller.Linearise() {
						t.Fatal("there is no linearisation")
					}
					if controller.Correct(c.state, c.ctx, got); !slices.Equal(got, from) {
						t.Errorf("in its own state the plan's action %v is corrected to %v", from, got)
					}
					controller.Correct(s, c.ctx, got)
					if wrong[k] = math.Abs(got[0] - want[0]); !(wrong[k] <= 0.05*math.Abs(want[0]-from[0])+1e-5) {
						t.Errorf("component %d moved by %v: action %v, corrected from %v to %v", i, by, want, from, got)
					}
				}
				if !(wrong[1] <= 0.35*wrong[0]+1e-5) {
					t.Errorf("component %d: errors %v of a distance and its half are not quadratic", i, wrong)
				}
			}
		})
	}
}

// A correction stays within the action's box, and leaves the solver as it was.
func TestCorrectStaysInItsBox(t *testing.T) {
	controllers := [2]*Receding{}
	for i := range controllers {
		controller, err := newPole(testdomain.Pole{}, Options{}).Receding(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		controllers[i] = controller
	}
	box := testdomain.Pole{}.Spec().Action[0]
	pref := domain.Preference{W: []float64{0.4, 0.6}}
	s, c, u := []float64{0.3, 0, 0.1, 0}, []float64{-0.5, 0}, make([]float64, 1)
	if controllers[0].Linearise() {
		t.Error("there is a linearisation before a solve")
	}
	reached := 0
	for decision := range 12 {
		for _, controller := range controllers {
			if status, err := controller.Solve(s, c, 20, pref); err != nil || !status.Converged {
				t.Fatal(decision, status, err)
			}
		}
		a, b := controllers[0].Action(0)[0], controllers[1].Action(0)[0]
		if a != b {
			t.Fatalf("decision %d is %v, with linearisations before it %v", decision, b, a)
		}
		if !controllers[0].Linearise() {
			t.Fatalf("decision %d has no linearisation", decision)
		}
		for _, by := range []float64{300, -300} {
			if controllers[0].Correct([]float64{s[0], s[1], s[2] + by, s[3]}, c, u); !(u[0] >= box.Lo && u[0] <= box.Hi) {
				t.Errorf("decision %d, the pole %v away: action %v outside %+v", decision, by, u, box)
			} else if free := math.Abs(a) < 9; free && u[0] != box.Lo && u[0] != box.Hi {
				t.Errorf("decision %d, the pole %v away: action %v from %v, want a bound", decision, by, u, a)
			} else if free {
				reached++
			}
		}
		var sn [4]float64
		var cn [2]float64
		testdomain.Pole{}.Step(s, c, controllers[1].Action(0), sn[:], cn[:])
		copy(s, sn[:])
		copy(c, cn[:])
	}
	if reached < 4 {
		t.Errorf("%d corrections of an action within its box: the test is too easy", reached)
	}
}
