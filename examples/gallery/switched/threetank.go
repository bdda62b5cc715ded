package switched

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	threeTankSteps = 100
	threeTankSpan  = 12.0
	threeTankLow   = 0.3 // level of the first tank
	threeTankHigh  = 5.0
)

func threeTankODE[T dual.Scalar](s, _, u, ds []T) {
	first, second, third := root(s[0]), root(s[1]), root(s[2])
	bypass := u[2] * root(0.8*s[0])
	ds[0] = -first + u[0] + 2*u[1] - bypass
	ds[1] = first - second
	ds[2] = second - third + bypass
	ds[3] = 2*(s[1]-3)*(s[1]-3) + (s[2]-3)*(s[2]-3)
}

func threeTankFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Objectives: func(s, _, _, n, j []T) { j[0] = n[3] - s[3] },
		Margins:    func(_, _, _, n, m []T) { m[0], m[1] = n[0]-threeTankLow, threeTankHigh-n[0] },
	}
}

// ThreeTank is mintOC's Three Tank multimode problem with free valves. Two inflows, of 1 and 2, and a bypass from the
// first tank into the third are open or closed each by itself. mintOC has exactly one of them open and starts at
// (2, 2, 2). It comes to 8.775979 relaxed and 8.789487 by combinatorial integral approximation on a grid of 100
// periods. The latter is an upper bound of the optimum here. The limits of the first tank's level are an addition.
func ThreeTank() equations.System {
	return equations.System{
		Name: "three-tank", Description: "three tanks in a row with three valves",
		State:      []domain.Variable{v("level 1", "1", 0, 5), v("level 2", "1", 0, 5), v("level 3", "1", 0, 5), v("deviation", "1", 0, 30)},
		Action:     []domain.Variable{v("inflow", "1", 0, 0), v("double inflow", "1", 0, 0), v("bypass", "1", 0, 0)},
		Objectives: []domain.Variable{v("deviation", "1", 0, 0)},
		Margins:    []domain.Variable{v("low", "1", 0, 0), v("high", "1", 0, 0)},
		Scenario:   []domain.Variable{v("level 1", "1", 1, 3.5), v("level 2", "1", 1, 3.5), v("level 3", "1", 1, 3.5)},
		Initial:    func(p, s, _ []float64) { copy(s, p); s[3] = 0 },
		Steps:      threeTankSteps, StepSeconds: threeTankSpan / threeTankSteps,
		Switches: []equations.Switch{equations.OnOff("inflow"), equations.OnOff("double inflow"), equations.OnOff("bypass")},
		ODE:      &dual.Explicit{Real: threeTankODE[float64], Dual: threeTankODE[complex128], Span: threeTankSpan / threeTankSteps, Substeps: 1},
		Real:     threeTankFunctions[float64](), Dual: threeTankFunctions[complex128](),
		Source: equations.From(source, "ThreeTank"),
	}
}
