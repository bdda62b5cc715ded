package environment_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/closedloop/environment"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// tank is filled by a pump of two speeds, which stays for two periods once it is on, and emptied by a valve.
func tank() equations.System {
	return equations.System{
		Name: "tank", State: []domain.Variable{{Name: "level", Unit: "m", Lo: 0, Hi: 2}},
		Action:     []domain.Variable{{Name: "valve", Unit: "1", Hi: 1}, {Name: "pump", Unit: "1"}},
		Objectives: []domain.Variable{{Name: "level", Unit: "m²"}},
		Scenario:   []domain.Variable{{Name: "level", Unit: "m", Lo: 0.5, Hi: 1.5}},
		Initial:    func(p, s, _ []float64) { s[0] = p[0] },
		Steps:      10, StepSeconds: 60,
		Switches: []equations.Switch{{Action: "pump", Values: []float64{0, 1, 4}, Least: []int{1, 2, 2}, Initial: 0}},
		Real:     fill[float64](), Dual: fill[complex128](),
	}
}

func fill[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Step: func(s, _, u, sNext, _ []T) { sNext[0] = s[0] + dual.Const[T](0.02)*(u[1]-u[0]) },
		Objectives: func(_, _, _, sNext, j []T) {
			e := sNext[0] - dual.Const[T](1)
			j[0] = e * e
		},
	}
}

func TestSwitchedActionsAreValues(t *testing.T) {
	c := require.Get(tank().Case())(t)
	for _, guarded := range []bool{false, true} {
		const n = 8
		f := require.Get(environment.New[float64](&c, environment.Options{Environments: n, Seed: 9056, Preference: domain.Preference{Adaptive: true}, Safeguard: guarded, Autoreset: environment.Disabled}))(t)
		r, u := rows(f), make([]float64, 2)
		require.OK(t, f.Reset(t.Context(), nil, nil, r))
		rng, early := rand.New(rand.NewPCG(9056, 2)), 0
		for range 10 {
			for i := range r.Action {
				r.Action[i] = 2*rng.Float64() - 1
			}
			for i := range n {
				a := r.Action[2*i+1]
				if f.Physical(i, r.Action[2*i:2*i+2], u); !slices.Contains([]float64{0, 1, 4}, u[1]) {
					t.Fatalf("an action of %v makes the pump run at %v", a, u[1])
				}
				place := 1
				if a < -0.5 {
					place = 0
				} else if a > 0.5 {
					place = 2
				}
				if want := []float64{0, 1, 4}[place]; !guarded && u[1] != want {
					t.Errorf("an action of %v makes the pump run at %v, want %v", a, u[1], want)
				}
			}
			require.OK(t, f.Step(t.Context(), r))
			for _, v := range r.Violated {
				if v {
					early++
				}
			}
		}
		if guarded != (early == 0) {
			t.Errorf("guarded %t: %d steps change the pump too early", guarded, early)
		}
	}
}
