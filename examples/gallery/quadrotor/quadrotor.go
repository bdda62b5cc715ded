// Package quadrotor flies a planar quadrotor through a gap to a goal. Dynamics and constants
// are those of Quadrotor2D in Tedrake's "Underactuated Robotics" (underactuated/quadrotor2d.py,
// after Bouadi, Bouchoucha and Tadjine, 2007); the gap is our own.
package quadrotor

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
	steps    = 50
	dt       = 0.05    // s
	arm      = 0.25    // m
	mass     = 0.486   // kg
	inertia  = 0.00383 // kg m²
	gravity  = 9.81    // m/s²
	hover    = mass * gravity / 2
	thrust   = 2.5 * hover // N, of a rotor
	body     = arm         // m, half of what has to pass
	gap      = 0.55        // m, half of it
	widening = 0.35        // 1/m: the gap is gap + widening x² high to either side
	braking  = 0.35        // s, in which the escape takes most of a small speed
	tilt     = 1.2         // rad
)

// ode is s = (x, z, angle, and their rates), u the thrusts of the right and left rotor.
func ode[T dual.Scalar](s, _, u, ds []T) {
	sin, cos := dual.Sincos(s[2])
	push := 1 / mass * (u[0] + u[1])
	copy(ds, s[3:])
	ds[3], ds[4] = -push*sin, push*cos-gravity
	ds[5] = arm / inertia * (u[0] - u[1])
}

var flight = dual.Explicit{Real: ode[float64], Dual: ode[complex128], Span: dt, Substeps: 1}

// towards are the objectives of a goal: the distance to it with speed, and effort with attitude.
func towards[T dual.Scalar](goalX, goalZ T, u, n, j []T) {
	x, z, right, left := n[0]-goalX, n[1]-goalZ, u[0]-hover, u[1]-hover
	j[0] = x*x + z*z + 0.05*(n[3]*n[3]+n[4]*n[4])
	j[1] = 0.1*(right*right+left*left) + 0.1*n[2]*n[2] + 0.01*n[5]*n[5]
}

func objectives[T dual.Scalar](_, c, u, n, j []T) { towards(c[0], c[1], u, n, j) }

// approach is a smooth max(0, v), and no less.
func approach[T dual.Scalar](v T) T { return 0.5 * (v + dual.Sqrt(v*v+0.04)) }

// margins are the room above and below, less what an approach still needs once it brakes, and
// the tilt.
func margins[T dual.Scalar](_, _, _, n, m []T) {
	room, closing := gap+widening*n[0]*n[0]-body, 2*widening*n[0]*n[3]
	m[0] = room - n[1] - braking*approach(n[4]-closing)
	m[1] = room + n[1] - braking*approach(-n[4]-closing)
	m[2], m[3] = tilt-n[2], tilt+n[2]
}

// escape brakes: it tilts against the horizontal speed, and thrusts against the vertical
// with enough left to turn by.
func escape[T dual.Scalar](s, _, u []T) {
	against := 0.8 * dual.Tanh(0.75*s[3])
	push := hover * (1.25 - 0.75*dual.Tanh(s[4]+0.3466)) // 0.5 to 2, 1 at rest
	turn := 0.45 * hover * dual.Tanh((100*(against-s[2])-18*s[5])*inertia/(0.9*hover*arm))
	u[0], u[1] = push+turn, push-turn
}

func functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: objectives[T], Margins: margins[T], Escape: escape[T]}
}

// picture is the body with its rotors, the edges of the gap, and the goal.
func picture(s, c []float64) []domain.Shape {
	sin, cos := math.Sincos(s[2])
	shapes := []domain.Shape{domain.Disc(domain.Goal, c[0], c[1], 0.1), domain.Disc(domain.Body, s[0], s[1], 0.04)}
	for _, side := range []float64{1, -1} {
		var edge [][2]float64
		for x := -1.5; x < 1.6; x += 0.1 {
			edge = append(edge, [2]float64{x, side * (gap + widening*x*x)})
		}
		x, z := s[0]+side*arm*cos, s[1]+side*arm*sin
		shapes = append(shapes, domain.Line(domain.Obstacle, edge...),
			domain.Line(domain.Body, [2]float64{s[0], s[1]}, [2]float64{x, z}, [2]float64{x - 0.06*sin, z + 0.06*cos}))
	}
	return shapes
}

// System is the quadrotor.
func System() equations.System {
	v := func(name, unit string, lo, hi float64) domain.Variable {
		return domain.Variable{Name: name, Unit: unit, Lo: lo, Hi: hi}
	}
	return equations.System{
		Name: "quadrotor", Description: "planar quadrotor through a gap",
		State: []domain.Variable{
			v("x", "m", -2, 2), v("z", "m", -1, 1), v("angle", "rad", -1, 1), v("vx", "m/s", -3, 3), v("vz", "m/s", -2, 2), v("rate", "rad/s", -5, 5),
		},
		Context:    []domain.Variable{v("goal x", "m", 0, 0), v("goal z", "m", 0, 0)},
		Action:     []domain.Variable{v("right", "N", 0, thrust), v("left", "N", 0, thrust)},
		Objectives: []domain.Variable{v("distance", "m²", 0, 0), v("effort", "1", 0, 0)},
		Margins:    []domain.Variable{{Name: "above", Unit: "m", Kind: domain.Collision}, {Name: "below", Unit: "m", Kind: domain.Collision}, v("tilt+", "rad", 0, 0), v("tilt-", "rad", 0, 0)},
		Scenario: []domain.Variable{
			v("x", "m", -2, -1.5), v("z", "m", -0.5, 0.5), v("angle", "rad", -0.1, 0.1), v("vx", "m/s", -0.5, 0.5), v("vz", "m/s", -0.5, 0.5),
			v("goal x", "m", 1.3, 2), v("goal z", "m", -0.5, 0.5),
		},
		Initial: func(p, s, c []float64) { copy(s, p[:5]); s[5] = 0; copy(c, p[5:]) },
		Steps:   steps, StepSeconds: dt,
		Picture: picture, Real: functions[float64](), Dual: functions[complex128](), ODE: &flight,
		Source: equations.From(source, "System"),
		Rest:   []float64{hover, hover}, EscapeSteps: 6, Solver: ocp.Options{Iterations: 400},
	}
}
