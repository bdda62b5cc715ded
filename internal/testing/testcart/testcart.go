// Package testcart is a cart that a wind pushes, for tests of what is measured and of delays: neither speed nor wind is measured, the
// position by its distance from a beacon beside the way alone.
package testcart

import (
	"embed"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

//go:embed *.go
var source embed.FS

const (
	period = 0.1 // s
	drag   = 0.3 // 1/m
	beacon = 2.0 // m, along the way, and as far beside it
	wall   = 0.5 // m
)

func ode[T dual.Scalar](s, c, u, ds []T) {
	ds[0], ds[1] = s[1], u[0]+c[0]-drag*s[1]*dual.Abs(s[1])
}

func objectives[T dual.Scalar](_, _, u, n, j []T) {
	j[0], j[1] = (n[0]-wall)*(n[0]-wall)+0.1*n[1]*n[1], 0.01*u[0]*u[0]
}

func margins[T dual.Scalar](_, _, _, n, m []T) { m[0] = wall - n[0] - 0.6*n[1] }

// outputs are the distance from the beacon, and what an accelerometer shows.
func outputs[T dual.Scalar](s, c, u, y []T) {
	y[0] = dual.Hypot(s[0]-beacon, dual.Const[T](beacon))
	y[1] = u[0] + c[0] - drag*s[1]*dual.Abs(s[1])
}

func functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: objectives[T], Margins: margins[T]}
}

// System is the cart with its Measurement.
func System() equations.System {
	return equations.System{
		Name: "test-cart", State: []domain.Variable{{Name: "x", Unit: "m", Lo: -1, Hi: 1}, {Name: "v", Unit: "m/s", Lo: -1, Hi: 1}},
		Context: []domain.Variable{{Name: "wind", Unit: "m/s²"}}, Action: []domain.Variable{{Name: "push", Unit: "m/s²", Lo: -2, Hi: 2}},
		Objectives: []domain.Variable{{Name: "away"}, {Name: "effort"}}, Margins: []domain.Variable{{Name: "wall", Unit: "m"}},
		Scenario: []domain.Variable{{Name: "x", Lo: -0.8, Hi: -0.3}, {Name: "wind", Lo: -0.2, Hi: 0.2}},
		Initial:  func(p, s, c []float64) { s[0], s[1], c[0] = p[0], 0, p[1] },
		Steps:    30, StepSeconds: period, Real: functions[float64](), Dual: functions[complex128](),
		ODE:    &dual.Explicit{Real: ode[float64], Dual: ode[complex128], Span: period, Substeps: 2},
		Source: equations.From(source, "System"),
		Measurement: &domain.Measurement{
			Outputs:   []domain.Variable{{Name: "distance", Unit: "m"}, {Name: "acceleration", Unit: "m/s²"}},
			Deviation: []float64{0.01, 0.1}, Real: outputs[float64], Dual: outputs[complex128],
			Process: []float64{0, 0.003}, Unknown: []domain.Unknown{{Context: 0, Deviation: 0.12, Drift: 0.01, Lo: -0.25, Hi: 0.25}},
		},
	}
}
