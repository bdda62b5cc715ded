package testcart

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

func warm[T dual.Scalar](s, _, u, n, _ []T) {
	n[0] = 0.9 * s[0]
	for i := range u {
		n[0] = n[0] + 0.05*u[i]
	}
}

func heat[T dual.Scalar](_, _, u, n, j []T) { j[0] = (n[0]-1)*(n[0]-1) + 0.1*u[0]*u[0] }

// shared are the limits of the actions: all together within a sphere, two within a curve.
func shared[T dual.Scalar](s, _, u, _, m []T) {
	m[0], m[1] = 1+0.1*s[0], 0.5-u[0]*u[1]
	for i := range u {
		m[0] = m[0] - u[i]*u[i]
	}
}

func wide[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Step: warm[T], Objectives: heat[T], Margins: shared[T]}
}

// Wide is a tank that many valves warm.
func Wide(valves int) equations.System {
	y := equations.System{
		Name: fmt.Sprint("warming-", valves), State: []domain.Variable{{Name: "heat", Lo: -1, Hi: 1}}, Objectives: []domain.Variable{{Name: "distance"}},
		Margins: []domain.Variable{{Name: "energy"}, {Name: "neighbours"}}, Scenario: []domain.Variable{{Name: "heat", Lo: -1, Hi: 1}},
		Initial: func(p, s, _ []float64) { s[0] = p[0] }, Steps: 8, StepSeconds: 1, Real: wide[float64](), Dual: wide[complex128](),
		Source: equations.From(source, "Wide", valves),
	}
	for i := range valves {
		y.Action = append(y.Action, domain.Variable{Name: fmt.Sprint("valve ", i), Lo: -1, Hi: 1})
	}
	return y
}
