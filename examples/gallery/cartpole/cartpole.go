// Package cartpole is an inverted pendulum on a cart: keep it upright, and bring the cart to
// a reference with little force; a speed limit is hard. Its equations of motion are those of
// Florian, "Correct equations for the dynamics of the cart-pole system" (2007), without
// friction.
package cartpole

import (
	"embed"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

//go:embed *.go
var source embed.FS

const (
	steps   = 40
	dt      = 0.05 // s
	cart    = 1.0  // kg
	pole    = 0.1  // kg
	length  = 0.5  // m, half the pole
	gravity = 9.81 // m/s²
	force   = 10.0 // N
	speed   = 2.0  // m/s, the cart's limit
)

// step is a semi-implicit Euler step of s = (position, speed, angle, rate).
func step[T dual.Scalar](s, _, u, sNext, _ []T) {
	sin, cos := dual.Sincos(s[2])
	push := (u[0] + pole*length*s[3]*s[3]*sin) / (cart + pole)
	turn := dual.Div(gravity*sin-cos*push, length*(4.0/3-pole*cos*cos/(cart+pole)))
	sNext[1] = s[1] + dt*(push-pole*length*turn*cos/(cart+pole))
	sNext[3] = s[3] + dt*turn
	sNext[0] = s[0] + dt*sNext[1]
	sNext[2] = s[2] + dt*sNext[3]
}

// objectives are of the state after the action, c[0] being the reference.
func objectives[T dual.Scalar](_, c, u, n, j []T) {
	e := n[0] - c[0]
	j[0] = n[2]*n[2] + 0.1*n[3]*n[3] + 1e-3*u[0]*u[0]
	j[1] = e*e + 0.1*n[1]*n[1]
}

func margins[T dual.Scalar](_, _, _, n, m []T) {
	m[0], m[1] = n[1]+speed, speed-n[1]
}

func functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Step: step[T], Objectives: objectives[T], Margins: margins[T]}
}

// picture is the cart on its rail with the whole pole, and where the cart is to come to.
func picture(s, c []float64) []domain.Shape {
	sin, cos := math.Sincos(s[2])
	tip := [2]float64{s[0] + 2*length*sin, 2 * length * cos}
	return []domain.Shape{
		domain.Line(domain.Ground, [2]float64{-1.5, -0.1}, [2]float64{1.5, -0.1}),
		domain.Line(domain.Goal, [2]float64{c[0], -0.2}, [2]float64{c[0], 0.2}),
		domain.Box(domain.Body, s[0], 0, 0.3, 0.2), domain.Line(domain.Body, [2]float64{s[0], 0}, tip), domain.Disc(domain.Body, tip[0], tip[1], 0.04),
	}
}

// System is the cart-pole.
func System() equations.System {
	return equations.System{
		Name: "cartpole", Description: "inverted pendulum on a cart with a speed limit",
		State:      []domain.Variable{{Name: "x", Unit: "m"}, {Name: "v", Unit: "m/s"}, {Name: "theta", Unit: "rad"}, {Name: "omega", Unit: "rad/s"}},
		Context:    []domain.Variable{{Name: "ref", Unit: "m"}},
		Action:     []domain.Variable{{Name: "force", Unit: "N", Lo: -force, Hi: force}},
		Objectives: []domain.Variable{{Name: "balance", Unit: "1"}, {Name: "position", Unit: "m²"}},
		Margins:    []domain.Variable{{Name: "speed-", Unit: "m/s"}, {Name: "speed+", Unit: "m/s"}},
		Scenario: []domain.Variable{
			{Name: "x", Unit: "m", Lo: -1, Hi: 1}, {Name: "v", Unit: "m/s", Lo: -0.5, Hi: 0.5},
			{Name: "theta", Unit: "rad", Lo: -0.3, Hi: 0.3}, {Name: "omega", Unit: "rad/s", Lo: -0.5, Hi: 0.5},
			{Name: "ref", Unit: "m", Lo: -1, Hi: 1},
		},
		Initial: func(p, s, c []float64) { copy(s, p[:4]); c[0] = p[4] },
		Steps:   steps, StepSeconds: dt,
		Real: functions[float64](), Dual: functions[complex128](),
		Source:  equations.From(source, "System"),
		Failed:  func(s, _ []float64) bool { return math.Abs(s[2]) > math.Pi/2 },
		Picture: picture,
		Urgency: func(s, _, delta []float64) {
			a := s[2]*s[2] + 0.1*s[3]*s[3]
			delta[0], delta[1] = a/(a+0.05), 0.2
		},
		Semantic:   domain.Semantic{K: []float64{4, 2}},
		StateScale: []float64{1, 1, 0.3, 1},
		Training: domain.Training{
			Latent: 8, Hidden: 64, Scenarios: 150, Weights: 2, ManifoldEpochs: 60, RolloutEpochs: 5,
			Batch: 256, LearningRate: 2e-3, SpectralBound: 20, Codes: 4000, LocalNeighbours: 8,
		},
		Navigation: domain.Navigation{TopK: 1},
	}
}
