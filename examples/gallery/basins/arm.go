package basins

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/ocp"
)

const (
	upper, fore, hand = 0.4, 0.35, 0.25 // m, the links
	post              = 0.7             // m, from the arm's base
	thick             = 0.14            // m, radius of the post and of a link together
	bend              = 2.6             // rad, of elbow and wrist
)

// turning moves the joints at the commanded speeds.
func turning[T dual.Scalar](_, _, u, ds []T) { copy(ds, u) }

var joints = dual.Explicit{Real: turning[float64], Dual: turning[complex128], Span: 0.1, Substeps: 1}

// reach writes elbow, wrist and tip of the arm, x and y of each.
func reach[T dual.Scalar](n, p []T) {
	sin1, cos1 := dual.Sincos(n[0])
	sin2, cos2 := dual.Sincos(n[0] + n[1])
	sin3, cos3 := dual.Sincos(n[0] + n[1] + n[2])
	p[0], p[1] = upper*cos1, upper*sin1
	p[2], p[3] = p[0]+fore*cos2, p[1]+fore*sin2
	p[4], p[5] = p[2]+hand*cos3, p[3]+hand*sin3
}

// armObjectives are the tip's way to its goal c, and effort.
func armObjectives[T dual.Scalar](_, c, u, n, j []T) {
	var p [6]T
	reach(n, p[:])
	x, y := p[4]-c[0], p[5]-c[1]
	j[0] = x*x + y*y
	j[1] = 0.02 * (2*u[0]*u[0] + u[1]*u[1] + u[2]*u[2])
}

// armMargins are the distances of five points of the arm from the post, and what is left of the bends.
func armMargins[T dual.Scalar](_, _, _, n, m []T) {
	var p [6]T
	reach(n, p[:])
	m[0] = dual.Hypot(p[0]-post, p[1]) - thick
	m[1] = dual.Hypot(0.5*(p[0]+p[2])-post, 0.5*(p[1]+p[3])) - thick
	m[2] = dual.Hypot(p[2]-post, p[3]) - thick
	m[3] = dual.Hypot(0.5*(p[2]+p[4])-post, 0.5*(p[3]+p[5])) - thick
	m[4] = dual.Hypot(p[4]-post, p[5]) - thick
	m[5], m[6] = bend-n[1], bend+n[1]
	m[7], m[8] = bend-n[2], bend+n[2]
}

func armFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: armObjectives[T], Margins: armMargins[T]}
}

// armPicture is the post, the goal, and the links.
func armPicture(s, c []float64) []domain.Shape {
	var p [6]float64
	reach(s, p[:])
	return []domain.Shape{
		domain.Disc(domain.Obstacle, post, 0, thick-0.04), domain.Disc(domain.Goal, c[0], c[1], 0.04),
		domain.Line(domain.Body, [2]float64{0, 0}, [2]float64{p[0], p[1]}, [2]float64{p[2], p[3]}, [2]float64{p[4], p[5]}), domain.Disc(domain.Body, p[4], p[5], 0.02),
	}
}

// Arm is a planar arm of three links with commanded speeds. It reaches round a post: in front of it, folded behind it, or the other way round its base.
func Arm() equations.System {
	return equations.System{
		Name: "arm", Description: "an arm of three links round a post",
		State:      []domain.Variable{v("shoulder", "rad", -3, 3), v("elbow", "rad", -bend, bend), v("wrist", "rad", -bend, bend)},
		Context:    []domain.Variable{v("goal x", "m", 0, 0), v("goal y", "m", 0, 0)},
		Action:     []domain.Variable{v("shoulder", "rad/s", -1.5, 1.5), v("elbow", "rad/s", -2, 2), v("wrist", "rad/s", -2.5, 2.5)},
		Objectives: []domain.Variable{v("distance", "m²", 0, 0), v("effort", "1", 0, 0)},
		Margins:    append(collisions("elbow", "forearm", "wrist", "hand", "tip"), v("elbow+", "rad", 0, 0), v("elbow-", "rad", 0, 0), v("wrist+", "rad", 0, 0), v("wrist-", "rad", 0, 0)),
		Scenario: []domain.Variable{
			v("shoulder", "rad", 0.7, 2.4), v("elbow", "rad", -0.5, 0.5), v("wrist", "rad", -0.5, 0.5), v("goal's direction", "rad", -2.2, -0.5), v("goal's distance", "m", 0.55, 0.9),
		},
		Initial: func(p, s, c []float64) {
			copy(s, p[:3])
			sin, cos := math.Sincos(p[3])
			c[0], c[1] = p[4]*cos, p[4]*sin
		},
		Steps: 50, StepSeconds: 0.1,
		Picture: armPicture, Real: armFunctions[float64](), Dual: armFunctions[complex128](), ODE: &joints,
		Source: equations.From(source, "Arm"),
		Solver: ocp.Options{Starts: 4, Iterations: 400},
	}
}
