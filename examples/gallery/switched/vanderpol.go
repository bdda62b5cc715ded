package switched

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	vanDerPolSteps = 100
	vanDerPolSpan  = 20.0
	vanDerPolFar   = 2.0 // largest radius of the state
)

func vanDerPolODE[T dual.Scalar](s, _, u, ds []T) {
	x, y := s[0], s[1]
	ds[0] = y
	// Beyond the limit the damping grows no more, which keeps far states finite.
	inner, slow := dual.Max(-vanDerPolFar, dual.Min(vanDerPolFar, x)), dual.Max(-vanDerPolFar, dual.Min(vanDerPolFar, y))
	ds[1] = -x + u[0]*(1-inner*inner)*slow
	ds[2] = x*x + y*y
}

func vanDerPolFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Objectives: func(s, _, _, n, j []T) { j[0] = n[2] - s[2] },
		Margins:    func(_, _, _, n, m []T) { m[0] = vanDerPolFar*vanDerPolFar - n[0]*n[0] - n[1]*n[1] },
	}
}

// VanDerPol is mintOC's Van der Pol oscillator whose damping is one of three, -1, 0.75 and -2: bring it to rest.
// mintOC starts at (1, 0). The limit is an addition: two of the modes lose far states. One mode always leads
// inwards: damping is positive inside x = 1 by the negative values, and outside by the other.
func VanDerPol() equations.System {
	return equations.System{
		Name: "van-der-pol", Description: "Van der Pol oscillator of three modes, to rest",
		State:      []domain.Variable{v("x", "1", -1.5, 1.5), v("dx/dt", "1/s", -1.5, 1.5), v("deviation", "1", 0, 10)},
		Action:     []domain.Variable{v("damping", "1/s", 0, 0)},
		Objectives: []domain.Variable{v("deviation", "1", 0, 0)},
		Margins:    []domain.Variable{v("squared radius", "1", 0, 0)},
		Scenario:   []domain.Variable{v("x", "1", -1.2, 1.2), v("dx/dt", "1/s", -1, 1)},
		Initial:    func(p, s, _ []float64) { s[0], s[1], s[2] = p[0], p[1], 0 },
		Steps:      vanDerPolSteps, StepSeconds: vanDerPolSpan / vanDerPolSteps,
		Switches: []equations.Switch{equations.OneOf("damping", -2, -1, 0.75)},
		ODE:      &dual.Explicit{Real: vanDerPolODE[float64], Dual: vanDerPolODE[complex128], Span: vanDerPolSpan / vanDerPolSteps, Substeps: 2},
		Real:     vanDerPolFunctions[float64](), Dual: vanDerPolFunctions[complex128](),
		Source: equations.From(source, "VanDerPol"),
		Rest:   []float64{-1},
	}
}
