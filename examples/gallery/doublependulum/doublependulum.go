// Package doublependulum swings a double pendulum on a cart up, past an obstacle, and brings the
// cart to a set point. Equations, constants, objectives, limits and horizon are those of
// do-mpc's example DIP (examples/double_inverted_pendulum). There are several ways up, and
// an obstacle that one step ahead is too late for at speed: a projection alone does not
// keep it, a look-ahead has to.
package doublependulum

import (
	"embed"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/ocp"
)

//go:embed *.go
var source embed.FS

const (
	steps   = 100
	dt      = 0.04 // s
	cart    = 0.6  // kg
	m1, m2  = 0.2, 0.2
	length1 = 0.5 // m
	length2 = 0.5
	l1, l2  = length1 / 2, length2 / 2
	i1, i2  = m1 * l1 * l1 / 3, m2 * l2 * l2 / 3
	gravity = 9.80665 // m/s²
	force   = 4.0     // N
	centre  = 0.6     // m, height of the obstacle above the track's middle
	radius  = 0.3 * 1.05

	h1 = cart + m1 + m2
	h2 = m1*l1 + m2*length1
	h3 = m2 * l2
	h4 = m1*l1*l1 + m2*length1*length1 + i1
	h5 = m2 * l2 * length1
	h6 = m2*l2*l2 + i2
)

// ode is s = (position, angle 1, angle 2, and their rates); both angles are 0 upright. The
// accelerations solve the Euler–Lagrange equations, a symmetric system of three.
func ode[T dual.Scalar](s, _, u, ds []T) {
	sin1, cos1 := dual.Sincos(s[1])
	sin2, cos2 := dual.Sincos(s[2])
	sin12, cos12 := sin1*cos2-cos1*sin2, cos1*cos2+sin1*sin2
	w1, w2 := s[4]*s[4], s[5]*s[5]
	a := [3][4]T{
		{h1, h2 * cos1, h3 * cos2, h2*w1*sin1 + h3*w2*sin2 + u[0]},
		{h2 * cos1, h4, h5 * cos12, h2*gravity*sin1 - h5*w2*sin12},
		{h3 * cos2, h5 * cos12, h6, h5*w1*sin12 + h3*gravity*sin2},
	}
	for k := range 2 {
		for i := k + 1; i < 3; i++ {
			q := dual.Div(a[i][k], a[k][k])
			for j := k + 1; j < 4; j++ {
				a[i][j] -= q * a[k][j]
			}
		}
	}
	copy(ds, s[3:])
	ds[5] = dual.Div(a[2][3], a[2][2])
	ds[4] = dual.Div(a[1][3]-a[1][2]*ds[5], a[1][1])
	ds[3] = dual.Div(a[0][3]-a[0][1]*ds[4]-a[0][2]*ds[5], a[0][0])
}

var pendulum = dual.Explicit{Real: ode[float64], Dual: ode[complex128], Span: dt, Substeps: 2}

// objectives are kinetic energy and what is missing of potential energy, and the way to
// the set point c[0].
func objectives[T dual.Scalar](_, c, u, n, j []T) {
	sin1, cos1 := dual.Sincos(n[1])
	sin2, cos2 := dual.Sincos(n[2])
	x1, y1 := n[3]+l1*n[4]*cos1, l1*n[4]*sin1
	x2, y2 := n[3]+length1*n[4]*cos1+l2*n[5]*cos2, length1*n[4]*sin1+l2*n[5]*sin2
	kinetic := 0.5 * (cart*n[3]*n[3] + m1*(x1*x1+y1*y1) + i1*n[4]*n[4] + m2*(x2*x2+y2*y2) + i2*n[4]*n[4])
	missing := gravity * (h2*(1-cos1) + h3*(1-cos2))
	e := n[0] - c[0]
	j[0] = kinetic + missing
	j[1] = 10*e*e + 0.01*u[0]*u[0]
}

// margins are the distances of the joints from the obstacle.
func margins[T dual.Scalar](_, _, _, n, m []T) {
	sin1, cos1 := dual.Sincos(n[1])
	sin2, cos2 := dual.Sincos(n[2])
	x, y := n[0], dual.Const[T](-centre)
	m[0] = dual.Hypot(x, y) - radius
	x, y = x+length1*sin1, y+length1*cos1
	m[1] = dual.Hypot(x, y) - radius
	x, y = x+length2*sin2, y+length2*cos2
	m[2] = dual.Hypot(x, y) - radius
}

func functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: objectives[T], Margins: margins[T]}
}

// picture is cart and links, the obstacle, and the cart's set point.
func picture(s, c []float64) []domain.Shape {
	sin1, cos1 := math.Sincos(s[1])
	sin2, cos2 := math.Sincos(s[2])
	elbow := [2]float64{s[0] + length1*sin1, length1 * cos1}
	tip := [2]float64{elbow[0] + length2*sin2, elbow[1] + length2*cos2}
	return []domain.Shape{
		domain.Line(domain.Ground, [2]float64{-1.5, 0}, [2]float64{1.5, 0}), domain.Disc(domain.Obstacle, 0, centre, radius),
		domain.Line(domain.Goal, [2]float64{c[0], -0.15}, [2]float64{c[0], 0.15}),
		domain.Box(domain.Body, s[0], 0, 0.3, 0.15), domain.Line(domain.Body, [2]float64{s[0], 0}, elbow, tip), domain.Disc(domain.Body, tip[0], tip[1], 0.04),
	}
}

// System is the double pendulum.
func System() equations.System {
	v := func(name, unit string, lo, hi float64) domain.Variable {
		return domain.Variable{Name: name, Unit: unit, Lo: lo, Hi: hi}
	}
	limit := func(name string) domain.Variable {
		return domain.Variable{Name: name, Unit: "m", Kind: domain.Collision}
	}
	return equations.System{
		Name: "double-pendulum", Description: "swing-up of a double pendulum on a cart past an obstacle",
		State: []domain.Variable{
			v("position", "m", -1, 1), v("angle 1", "rad", -3, 3), v("angle 2", "rad", -3, 3),
			v("speed", "m/s", -2, 2), v("rate 1", "rad/s", -8, 8), v("rate 2", "rad/s", -8, 8),
		},
		Context:    []domain.Variable{v("set point", "m", 0, 0)},
		Action:     []domain.Variable{v("force", "N", -force, force)},
		Objectives: []domain.Variable{v("swing-up", "J", 0, 0), v("position", "1", 0, 0)},
		Margins:    []domain.Variable{limit("cart"), limit("elbow"), limit("tip")},
		Scenario: []domain.Variable{
			v("position", "m", -0.2, 0.2), v("angle 1", "of π", 0.85, 1.15), v("angle 2", "of π", 0.85, 1.15), v("set point", "m", 0.6, 1),
		},
		Initial: func(p, s, c []float64) {
			s[0], s[1], s[2], s[3], s[4], s[5] = p[0], math.Pi*p[1], math.Pi*p[2], 0, 0, 0
			c[0] = p[3]
		},
		Steps: steps, StepSeconds: dt,
		Picture: picture, Real: functions[float64](), Dual: functions[complex128](), ODE: &pendulum,
		Source: equations.From(source, "System"),
		Solver: ocp.Options{Starts: 4, Iterations: 400, Library: 24},
	}
}
