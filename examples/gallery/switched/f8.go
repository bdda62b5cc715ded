package switched

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	f8Steps  = 60
	f8Span   = 3.78086 // s
	f8Deflex = 0.05236 // rad, 3 degrees
	f8Far    = 0.7     // rad
)

// f8ODE is of s = (angle of attack, pitch, pitch rate) and the deflection of the tail.
func f8ODE[T dual.Scalar](s, _, u, ds []T) {
	pitch, rate, w := s[1], s[2], u[0]
	// Far states, where the polynomials mean nothing, stay finite.
	a := dual.Max(-f8Far, dual.Min(f8Far, s[0]))
	ds[0] = -0.877*s[0] + rate - 0.088*a*rate + 0.47*a*a - 0.019*pitch*pitch - a*a*rate + 3.846*a*a*a -
		0.215*w + 0.28*a*a*w + 0.47*a*w*w + 0.63*w*w*w
	ds[1] = rate
	ds[2] = -4.208*a - 0.396*rate - 0.47*a*a - 3.564*a*a*a - 20.967*w + 6.265*a*a*w + 46*a*w*w + 61.4*w*w*w
}

func f8Functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Objectives: func(_, c, _, n, j []T) {
			j[0] = last(c[0], f8Steps) * (n[0]*n[0] + n[1]*n[1] + n[2]*n[2])
		},
	}
}

// F8 is mintOC's F-8 aircraft, of Garrard and Jordan, "Design of nonlinear automatic flight control systems"
// (Automatica 13, 1977). The tail, deflected fully up or down, brings the aircraft from a stall to level flight. As in
// mintOC's version for solvers of mixed-integer programs, the time is given. It is 3.78086 s, about the least time from
// 0.4655 rad at rest. The cost is the squared distance from level flight at its end.
func F8() equations.System {
	return equations.System{
		Name: "f8", Description: "F-8 aircraft from a stall to level flight by full deflections of the tail",
		State:          []domain.Variable{v("attack", "rad", -0.5, 0.5), v("pitch", "rad", -0.6, 0.6), v("pitch rate", "rad/s", -1, 1)},
		Action:         []domain.Variable{v("tail", "rad", 0, 0)},
		Objectives:     []domain.Variable{v("distance at the end", "1", 0, 0)},
		ObjectiveScale: []float64{0.01},
		Scenario:       []domain.Variable{v("attack", "rad", 0.3, 0.48), v("pitch", "rad", -0.05, 0.05), v("pitch rate", "rad/s", -0.05, 0.05)},
		Initial:        func(p, s, _ []float64) { copy(s, p) },
		Steps:          f8Steps, StepSeconds: f8Span / f8Steps,
		Switches: []equations.Switch{equations.OneOf("tail", -f8Deflex, f8Deflex)},
		ODE:      &dual.Explicit{Real: f8ODE[float64], Dual: f8ODE[complex128], Span: f8Span / f8Steps, Substeps: 2},
		Real:     f8Functions[float64](), Dual: f8Functions[complex128](),
		Source: equations.From(source, "F8"),
	}
}
