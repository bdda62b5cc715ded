// Package basins has control problems with several ways round: from one start, descent ends in different local optima.
// Both are our own.
package basins

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
	wheelbase = 2.6 // m
	clearance = 1.0 // m, radius of the discs about the car's axles and its middle, which cover it
	steering  = 0.6 // rad, largest angle of the front wheels
	parked    = 2.4 // m, from the bay's middle to that of a parked car
	wide      = 0.9 // m, half a parked car's width
	long      = 2.1 // m, half its length
	kerb      = 8.1 // m, the far side of the street
)

// rolling is the kinematic bicycle s = (position of the rear axle, heading, steering angle) of u = (speed, steering rate).
func rolling[T dual.Scalar](s, _, u, ds []T) {
	sin, cos := dual.Sincos(s[2])
	sinD, cosD := dual.Sincos(s[3])
	ds[0], ds[1] = u[0]*cos, u[0]*sin
	ds[2] = dual.Div(u[0]*sinD, wheelbase*cosD)
	ds[3] = u[1]
}

var car = dual.Explicit{Real: rolling[float64], Dual: rolling[complex128], Span: 0.2, Substeps: 1}

// parkingObjectives are what is missing of a car in the middle of its bay, with its nose out or, at a price, in; and effort.
func parkingObjectives[T dual.Scalar](_, _, u, n, j []T) {
	sin, cos := dual.Sincos(n[2])
	x, y := n[0]+wheelbase/2*cos, n[1]+wheelbase/2*sin
	j[0] = 0.1*(x*x+y*y) + cos*cos + 0.2*(1-sin)
	j[1] = 0.1*u[0]*u[0] + 0.2*u[1]*u[1]
}

// gap is the distance of a disc about (x, y) from a parked car about (middle, 0), a superellipse, in about metres.
func gap[T dual.Scalar](x, y T, middle float64) T {
	dx, dy := 1/(wide+clearance)*(x-dual.Const[T](middle)), 1/(long+clearance)*y
	return (wide + clearance) * (dual.Sqrt(dual.Sqrt(dx*dx*dx*dx+dy*dy*dy*dy+1e-6)) - 1)
}

// parkingMargins are the distances of rear, middle and front from both parked cars and the far kerb, and the steering angle's.
func parkingMargins[T dual.Scalar](_, _, _, n, m []T) {
	sin, cos := dual.Sincos(n[2])
	x, y := n[0]+wheelbase/2*cos, n[1]+wheelbase/2*sin
	frontX, frontY := n[0]+wheelbase*cos, n[1]+wheelbase*sin
	m[0], m[1] = gap(n[0], n[1], -parked), gap(n[0], n[1], parked)
	m[2], m[3] = gap(x, y, -parked), gap(x, y, parked)
	m[4], m[5] = gap(frontX, frontY, -parked), gap(frontX, frontY, parked)
	m[6], m[7] = kerb-clearance-n[1], kerb-clearance-frontY
	m[8], m[9] = steering-n[3], steering+n[3]
}

func parkingFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: parkingObjectives[T], Margins: parkingMargins[T]}
}

// parkingPicture is the parked cars, the kerb, and the car with its front wheels.
func parkingPicture(s, _ []float64) []domain.Shape {
	sin, cos := math.Sincos(s[2])
	corner := func(length, width float64) [2]float64 {
		return [2]float64{s[0] + length*cos - width*sin, s[1] + length*sin + width*cos}
	}
	sinW, cosW := math.Sincos(s[2] + s[3])
	front := corner(wheelbase, 0)
	return []domain.Shape{
		domain.Line(domain.Obstacle, [2]float64{-9, kerb}, [2]float64{9, kerb}), domain.Box(domain.Obstacle, -parked, 0, 2*wide, 2*long), domain.Box(domain.Obstacle, parked, 0, 2*wide, 2*long),
		domain.Disc(domain.Goal, 0, 0, 0.3),
		domain.Line(domain.Body, corner(-0.8, wide), corner(3.4, wide), corner(3.4, -wide), corner(-0.8, -wide), corner(-0.8, wide)),
		domain.Line(domain.Body, front, [2]float64{front[0] + 0.6*cosW, front[1] + 0.6*sinW}),
	}
}

func v(name, unit string, lo, hi float64) domain.Variable {
	return domain.Variable{Name: name, Unit: unit, Lo: lo, Hi: hi}
}

func collisions(names ...string) (all []domain.Variable) {
	for _, name := range names {
		all = append(all, domain.Variable{Name: name, Unit: "m", Kind: domain.Collision})
	}
	return all
}

// Parking is a car that parks between two others, across the street. It may pass and reverse, turn in, or go back first.
func Parking() equations.System {
	return equations.System{
		Name: "parking", Description: "a car into a bay between two others, forwards or in reverse",
		State:      []domain.Variable{v("x", "m", -8, 8), v("y", "m", -3, 7), v("heading", "rad", -3, 3), v("steering", "rad", -steering, steering)},
		Action:     []domain.Variable{v("speed", "m/s", -1.5, 1.5), v("steering rate", "rad/s", -1, 1)},
		Objectives: []domain.Variable{v("pose", "1", 0, 0), v("effort", "1", 0, 0)},
		Margins:    append(collisions("rear-", "rear+", "middle-", "middle+", "front-", "front+", "rear to kerb", "front to kerb"), v("left", "rad", 0, 0), v("right", "rad", 0, 0)),
		Scenario:   []domain.Variable{v("x", "m", -7, 5), v("y", "m", 4.3, 5.5), v("heading", "rad", -0.4, 0.4)},
		Initial:    func(p, s, _ []float64) { copy(s, p); s[3] = 0 },
		Steps:      60, StepSeconds: 0.2,
		Picture: parkingPicture, Real: parkingFunctions[float64](), Dual: parkingFunctions[complex128](), ODE: &car,
		Source: equations.From(source, "Parking"),
		Solver: ocp.Options{Starts: 4, Iterations: 400},
	}
}
