// Package quadrotor3d flies a quadrotor in space past a sphere to a goal. Dynamics and constants are those of QuadrotorPlant in
// Drake (examples/quadrotor), with the body's own rates in place of those of its angles; the sphere is our own.
package quadrotor3d

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
	steps   = 50
	dt      = 0.05   // s
	mass    = 0.5    // kg
	arm     = 0.175  // m
	inertia = 0.0023 // kg m², about the horizontal axes of the body
	upright = 0.0040 // kg m², about its vertical one
	drag    = 0.0245 // m, torque of a rotor about its axis per thrust
	gravity = 9.81   // m/s²
	hover   = mass * gravity / 4
	thrust  = 2.5 * hover // N, of a rotor
	radius  = 0.5         // m, of the sphere about the origin
	body    = 0.25        // m, half of what has to pass
	braking = 0.35        // s, in which the escape takes most of a small speed
	leastUp = 0.36        // cosine of the largest tilt, 1.2 rad
)

// ode is s = (position, roll, pitch, yaw, velocity, rates of the body), u the thrusts of the rotors in front, left, behind and right.
func ode[T dual.Scalar](s, _, u, ds []T) {
	sinR, cosR := dual.Sincos(s[3])
	sinP, cosP := dual.Sincos(s[4])
	sinY, cosY := dual.Sincos(s[5])
	push := 1 / mass * (u[0] + u[1] + u[2] + u[3])
	yawing := dual.Div(sinR*s[10]+cosR*s[11], cosP)
	copy(ds, s[6:9])
	ds[3], ds[4], ds[5] = s[9]+sinP*yawing, cosR*s[10]-sinR*s[11], yawing
	ds[6] = push * (cosY*sinP*cosR + sinY*sinR)
	ds[7] = push * (sinY*sinP*cosR - cosY*sinR)
	ds[8] = push*cosP*cosR - gravity
	ds[9] = arm/inertia*(u[1]-u[3]) + (inertia-upright)/inertia*s[10]*s[11]
	ds[10] = arm/inertia*(u[2]-u[0]) + (upright-inertia)/inertia*s[9]*s[11]
	ds[11] = drag / upright * (u[0] - u[1] + u[2] - u[3])
}

var flight = dual.Explicit{Real: ode[float64], Dual: ode[complex128], Span: dt, Substeps: 1}

// objectives are the distance to the goal c with speed, and effort with attitude.
func objectives[T dual.Scalar](_, c, u, n, j []T) {
	x, y, z := n[0]-c[0], n[1]-c[1], n[2]-c[2]
	a, b, d, e := u[0]-hover, u[1]-hover, u[2]-hover, u[3]-hover
	j[0] = x*x + y*y + z*z + 0.05*(n[6]*n[6]+n[7]*n[7]+n[8]*n[8])
	j[1] = 0.1*(a*a+b*b+d*d+e*e) + 0.1*(n[3]*n[3]+n[4]*n[4]+n[5]*n[5]) + 0.01*(n[9]*n[9]+n[10]*n[10]+n[11]*n[11])
}

// margins are the room to the sphere, less what an approach still needs once it brakes, and the tilt.
func margins[T dual.Scalar](_, _, _, n, m []T) {
	away := dual.Sqrt(n[0]*n[0] + n[1]*n[1] + n[2]*n[2])
	closing := dual.Div(-(n[0]*n[6] + n[1]*n[7] + n[2]*n[8]), away)
	m[0] = away - (radius + body) - 0.5*braking*(closing+dual.Sqrt(closing*closing+0.04))
	m[1] = dual.Cos(n[3])*dual.Cos(n[4]) - leastUp
}

// turn is half of the difference of two thrusts that brings an angle back and stops.
func turn[T dual.Scalar](angle, rate T) T {
	return 0.45 * hover * dual.Tanh((100*angle-18*rate)*inertia/(0.9*hover*arm))
}

// escape brakes: it tilts against the horizontal velocity, and thrusts against the vertical one with enough left to turn by.
func escape[T dual.Scalar](s, _, u []T) {
	sin, cos := dual.Sincos(s[5])
	ahead, aside := cos*s[6]+sin*s[7], cos*s[7]-sin*s[6]
	push := hover * (1.25 - 0.75*dual.Tanh(s[8]+0.3466)) // 0.5 to 2, 1 at rest
	roll := turn(0.6*dual.Tanh(0.75*aside)-s[3], s[9])
	pitch := turn(-0.6*dual.Tanh(0.75*ahead)-s[4], s[10])
	yaw := -0.05 * hover * dual.Tanh(s[11])
	u[0], u[1], u[2], u[3] = push-pitch+yaw, push+roll-yaw, push+pitch+yaw, push-roll-yaw
}

func functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: objectives[T], Margins: margins[T], Escape: escape[T]}
}

// picture is the view from the side, and below it that from above: the body with its arms, the sphere, and the goal.
func picture(s, c []float64) []domain.Shape {
	sinR, cosR := math.Sincos(s[3])
	sinP, cosP := math.Sincos(s[4])
	sinY, cosY := math.Sincos(s[5])
	front := [3]float64{cosY * cosP, sinY * cosP, -sinP}
	left := [3]float64{cosY*sinP*sinR - sinY*cosR, sinY*sinP*sinR + cosY*cosR, cosP * sinR}
	var shapes []domain.Shape
	for _, view := range []struct {
		name  string
		axis  int
		below float64
	}{{"from the side", 2, 0}, {"from above", 1, 2.4}} {
		x, z := s[0], s[view.axis]-view.below
		shapes = append(shapes, domain.Disc(domain.Obstacle, 0, -view.below, radius),
			domain.Disc(domain.Goal, c[0], c[view.axis]-view.below, 0.1), domain.Disc(domain.Body, x, z, 0.04))
		for _, to := range [2][3]float64{front, left} {
			dx, dz := arm*to[0], arm*to[view.axis]
			shapes = append(shapes, domain.Line(domain.Body, [2]float64{x - dx, z - dz}, [2]float64{x + dx, z + dz}))
		}
		for i := len(shapes) - 5; i < len(shapes); i++ {
			shapes[i].View = view.name
		}
	}
	return shapes
}

// System is the quadrotor in space.
func System() equations.System {
	v := func(name, unit string, lo, hi float64) domain.Variable {
		return domain.Variable{Name: name, Unit: unit, Lo: lo, Hi: hi}
	}
	return equations.System{
		Name: "quadrotor-3d", Description: "quadrotor in space past a sphere",
		State: []domain.Variable{
			v("x", "m", -2, 2), v("y", "m", -1, 1), v("z", "m", -1, 1), v("roll", "rad", -1, 1), v("pitch", "rad", -1, 1), v("yaw", "rad", -1, 1),
			v("vx", "m/s", -3, 3), v("vy", "m/s", -2, 2), v("vz", "m/s", -2, 2), v("p", "rad/s", -5, 5), v("q", "rad/s", -5, 5), v("r", "rad/s", -2, 2),
		},
		Context:    []domain.Variable{v("goal x", "m", 0, 0), v("goal y", "m", 0, 0), v("goal z", "m", 0, 0)},
		Action:     []domain.Variable{v("front", "N", 0, thrust), v("left", "N", 0, thrust), v("behind", "N", 0, thrust), v("right", "N", 0, thrust)},
		Objectives: []domain.Variable{v("distance", "m²", 0, 0), v("effort", "1", 0, 0)},
		Margins:    []domain.Variable{{Name: "sphere", Unit: "m", Kind: domain.Collision}, v("upright", "1", 0, 0)},
		Scenario: []domain.Variable{
			v("x", "m", -2, -1.5), v("y", "m", -0.5, 0.5), v("z", "m", 0.15, 0.7), v("roll", "rad", -0.1, 0.1), v("pitch", "rad", -0.1, 0.1), v("yaw", "rad", -0.1, 0.1),
			v("vx", "m/s", -0.5, 0.5), v("vy", "m/s", -0.5, 0.5), v("vz", "m/s", -0.5, 0.5),
			v("goal x", "m", 1.3, 2), v("goal y", "m", -0.5, 0.5), v("goal z", "m", 0.15, 0.7),
		},
		Initial: func(p, s, c []float64) { clear(s[copy(s, p[:9]):]); copy(c, p[9:]) },
		Steps:   steps, StepSeconds: dt,
		Picture: picture, Real: functions[float64](), Dual: functions[complex128](), ODE: &flight,
		Source: equations.From(source, "System"),
		Rest:   []float64{hover, hover, hover, hover}, EscapeSteps: 6, Solver: ocp.Options{Iterations: 400},
	}
}
