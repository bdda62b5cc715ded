// Package chain is a chain of masses between springs, fixed at one end and moved at the
// other. It has to reach a steady state without touching a wall. The benchmark is from Wirsching,
// Bock and Diehl ("Fast NMPC of a chain of masses connected by springs", 2006). Constants, weights,
// wall, period and horizon are those of acados (examples/acados_python/chain_mass), as Zanelli and
// others and Kouzoupis have them too. The wall of acados is soft.
package chain

import (
	"embed"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

//go:embed *.go
var source embed.FS

const (
	steps   = 40
	dt      = 0.2   // s
	mass    = 0.033 // kg
	spring  = 1.0   // N/m
	relaxed = 0.033 // m, length of a spring without load
	gravity = 9.81  // m/s²
	wall    = -0.05 // m, the least y
	speed   = 1.0   // m/s of the moved end, each component
	room    = 0.01  // m, kept from the wall in samples: the end moves far masses periods later
	drive   = 5     // steps that the end is driven away by before an episode
)

// accelerate writes the accelerations of the free masses, whose positions p are followed
// by that of the moved end.
func accelerate[T dual.Scalar](p, a []T) {
	for i := range a {
		a[i] = [3]T{2: -gravity}[i%3]
	}
	for i := 0; i < len(p); i += 3 {
		d := [3]T{p[i], p[i+1], p[i+2]}
		if i > 0 {
			d[0], d[1], d[2] = p[i]-p[i-3], p[i+1]-p[i-2], p[i+2]-p[i-1]
		}
		pull := spring / mass * (1 - dual.Div(relaxed, dual.Sqrt(d[0]*d[0]+d[1]*d[1]+d[2]*d[2])))
		for k, v := range d {
			if i < len(a) {
				a[i+k] -= pull * v
			}
			if i > 0 {
				a[i-3+k] += pull * v
			}
		}
	}
}

// ode is s = (positions of free masses and moved end, speeds of free masses), u the speed
// of the moved end.
func ode[T dual.Scalar](s, _, u, ds []T) {
	positions := (len(s) + 3) / 2
	copy(ds, s[positions:])
	copy(ds[positions-3:], u)
	accelerate(s[:positions], ds[positions:])
}

var masses = dual.Explicit{Real: ode[float64], Dual: ode[complex128], Span: dt, Substeps: 4}

// rest is the state in which the chain hangs still, its moved end where it is to come to.
func rest(free int) []float64 {
	s, a := make([]float64, 6*free+3), make([]float64, 3*free)
	for i := range free + 1 {
		s[3*i] = 6 * relaxed * float64(i+1)
	}
	for range 5000 { // downhill in energy
		accelerate(s[:3*free+3], a)
		for i, v := range a {
			s[i] += 0.01 * v
		}
	}
	return s
}

func functions[T dual.Scalar](free int) equations.Functions[T] {
	goal := rest(free)
	return equations.Functions[T]{
		Objectives: func(_, _, u, n, j []T) {
			j[0], j[1] = 0, u[0]*u[0]+u[1]*u[1]+u[2]*u[2]
			for i, v := range n {
				e, weight := v-dual.Const[T](goal[i]), dual.Const[T](1)
				if i/3 == free {
					weight = dual.Const[T](float64(free + 1))
				}
				j[0] += weight * e * e
			}
		},
		Margins: func(_, _, _, n, m []T) {
			for i := range m {
				m[i] = n[3*i+1] - wall
			}
		},
		// Away from the wall: a mass follows the end half a period later.
		Escape: func(_, _, u []T) { u[0], u[1], u[2] = 0, speed, 0 },
	}
}

// side is the chain from the side.
func side(role domain.Role, s []float64, masses int) []domain.Shape {
	line, shapes := domain.Line(role, [2]float64{}), []domain.Shape{}
	for i := range masses {
		p := domain.Disc(role, s[3*i], s[3*i+1], 0.02)
		p.Of, line.Path = i, append(line.Path, p.Path[0])
		shapes = append(shapes, p)
	}
	return append(shapes, line)
}

// System is the chain of so many free masses: 6 free + 3 states.
func System(free int) equations.System {
	y := equations.System{
		Name: fmt.Sprintf("chain%d", 6*free+3), Description: "a chain of masses brought to rest beside a wall",
		Objectives: []domain.Variable{{Name: "unrest", Unit: "1"}, {Name: "effort", Unit: "m²/s²"}},
		Steps:      steps, StepSeconds: dt, EscapeSteps: 2 + free, Real: functions[float64](free), Dual: functions[complex128](free), ODE: &masses, Source: equations.From(source, "System", free),
	}
	for _, prefix := range []string{"", "v"} {
		for i := range free + 1 - len(prefix) {
			for _, axis := range "xyz" {
				y.State = append(y.State, domain.Variable{Name: fmt.Sprintf("%s%c%d", prefix, axis, i+1), Unit: map[string]string{"": "m", "v": "m/s"}[prefix]})
			}
		}
	}
	for i := range free + 1 {
		y.Margins = append(y.Margins, domain.Variable{Name: fmt.Sprintf("wall%d", i+1), Unit: "m", Kind: domain.Collision})
		y.Solver.Room = append(y.Solver.Room, room*float64(min(1, free-1))) // one mass needs none
	}
	for _, axis := range "xyz" {
		y.Action = append(y.Action, domain.Variable{Name: fmt.Sprintf("v%c", axis), Unit: "m/s", Lo: -speed, Hi: speed})
	}
	// The end has been driven away at a constant speed, as acados does it at (−1, 1, 1).
	y.Scenario = []domain.Variable{{Name: "vx", Unit: "m/s", Lo: -1, Hi: 0.5}, {Name: "vy", Unit: "m/s", Lo: 0.1, Hi: 1}, {Name: "vz", Unit: "m/s", Lo: -1, Hi: 1}}
	start := rest(free)
	still := append(side(domain.Goal, start, free+1), domain.Line(domain.Obstacle, [2]float64{-0.2, wall}, [2]float64{1.5, wall}))
	y.Picture = func(s, _ []float64) []domain.Shape { return append(side(domain.Body, s, free+1), still...) }
	y.Initial = func(p, s, _ []float64) {
		copy(s, start)
		for range drive {
			dual.Integrate(&masses, slices.Clone(s), nil, p, s)
		}
	}
	return y
}
