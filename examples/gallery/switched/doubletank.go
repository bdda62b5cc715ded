package switched

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	doubleTankSteps = 100
	doubleTankSpan  = 10.0
)

func doubleTankODE[T dual.Scalar](s, _, u, ds []T) {
	upper, lower := root(s[0]), root(s[1])
	ds[0] = u[0] - upper
	ds[1] = upper - lower
	ds[2] = 2 * (s[1] - 3) * (s[1] - 3)
}

func doubleTankFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: func(s, _, _, n, j []T) { j[0] = n[2] - s[2] }}
}

// DoubleTank is mintOC's Double Tank. The valve into the upper of two tanks lets in 1 or 2, and the level of the lower
// follows 3. mintOC starts at (2, 2).
func DoubleTank() equations.System {
	return equations.System{
		Name: "double-tank", Description: "two tanks in a row, fed by a valve of two positions",
		State:      []domain.Variable{v("upper level", "1", 1, 4), v("lower level", "1", 1, 4), v("deviation", "1", 0, 20)},
		Action:     []domain.Variable{v("inflow", "1", 0, 0)},
		Objectives: []domain.Variable{v("deviation", "1", 0, 0)},
		Scenario:   []domain.Variable{v("upper level", "1", 1.5, 3.5), v("lower level", "1", 1.5, 3.5)},
		Initial:    func(p, s, _ []float64) { s[0], s[1], s[2] = p[0], p[1], 0 },
		Steps:      doubleTankSteps, StepSeconds: doubleTankSpan / doubleTankSteps,
		Switches: []equations.Switch{equations.OneOf("inflow", 1, 2)},
		ODE:      &dual.Explicit{Real: doubleTankODE[float64], Dual: doubleTankODE[complex128], Span: doubleTankSpan / doubleTankSteps, Substeps: 1},
		Real:     doubleTankFunctions[float64](), Dual: doubleTankFunctions[complex128](),
		Source: equations.From(source, "DoubleTank"),
	}
}
