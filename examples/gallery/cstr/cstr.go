// Package cstr is a continuous stirred tank reactor: bring the product B to a reference with
// few changes of feed and cooling; the concentration of A and the reactor's temperature are
// limited. Equations, constants, limits and the period are those of do-mpc's example CSTR
// (examples/CSTR, after Klatt and Engell, "Gain-scheduling trajectory control of a
// continuous stirred tank reactor", 1998), whose closed loop has 50 steps.
package cstr

import (
	"embed"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/ocp"
)

//go:embed *.go
var source embed.FS

const (
	steps    = 50
	dt       = 0.005 // h
	hour     = 3600.0
	rateAB   = 1.287e12       // 1/h, of A to B and of B to C
	rateAD   = 9.043e9        // l/(mol h), of 2 A to D
	energyAB = 9758.3         // K
	energyAD = 8560.0         // K
	heatAB   = 4.2            // kJ/mol
	heatBC   = -11.0          // kJ/mol
	heatAD   = -41.85         // kJ/mol
	capacity = 0.9342 * 3.01  // kJ/(l K)
	volume   = 10.01          // l
	wall     = 4032.0 * 0.215 // kJ/(h K)
	jacket   = 5.0 * 2.0      // kJ/K
	feedT    = 130.0          // °C
	feedA    = 5.1            // mol/l
	hottest  = 140.0          // °C
	mostA    = 2.0            // mol/l
)

// ode is the reactor: s = (A, B, reactor's temperature, jacket's), u = (feed, cooling).
func ode[T dual.Scalar](s, _, u, ds []T) {
	a, b, hot, cold := s[0], s[1], s[2], s[3]
	inverse := 1 / (hot + 273.15)
	ab := rateAB * dual.Exp(-energyAB*inverse)
	ad := rateAD * dual.Exp(-energyAD*inverse) * a * a
	ds[0] = u[0]*(feedA-a) - ab*a - ad
	ds[1] = -u[0]*b + ab*(a-b)
	ds[2] = -1/capacity*(ab*(heatAB*a+heatBC*b)+heatAD*ad) + u[0]*(feedT-hot) + wall/(capacity*volume)*(cold-hot)
	ds[3] = 1 / jacket * (u[1] + wall*(hot-cold))
}

// reactor is solved implicitly: the exchange of heat is fast.
var reactor = dual.Stiff{ODE: ode[complex128], Span: dt, Substeps: 1}

// step remembers u in c = (reference, feed and cooling before).
func step[T dual.Scalar](_, _, u, _, cNext []T) {
	cNext[1], cNext[2] = u[0], u[1]
}

func objectives[T dual.Scalar](_, c, u, n, j []T) {
	e, feed, cooling := 10*(n[1]-c[0]), 0.01*(u[0]-c[1]), 5e-4*(u[1]-c[2])
	j[0], j[1] = e*e, feed*feed+cooling*cooling
}

func margins[T dual.Scalar](_, _, _, n, m []T) {
	m[0], m[1] = mostA-n[0], hottest-n[2]
}

func functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Step: step[T], Objectives: objectives[T], Margins: margins[T]}
}

// System is the reactor.
func System() equations.System {
	v := func(name, unit string, lo, hi float64) domain.Variable {
		return domain.Variable{Name: name, Unit: unit, Lo: lo, Hi: hi}
	}
	feed, cooling := v("feed", "1/h", 5, 100), v("cooling", "kJ/h", -8500, 0)
	return equations.System{
		Name: "cstr", Description: "continuous stirred tank reactor with a temperature limit",
		State:      []domain.Variable{v("A", "mol/l", 0.3, 1.5), v("B", "mol/l", 0.3, 0.8), v("reactor", "°C", 120, 140), v("jacket", "°C", 115, 140)},
		Context:    []domain.Variable{v("reference", "mol/l", 0, 0), v("feed before", "1/h", 0, 0), v("cooling before", "kJ/h", 0, 0)},
		Action:     []domain.Variable{feed, cooling},
		Objectives: []domain.Variable{v("product", "1", 0, 0), v("input rate", "1", 0, 0)},
		Margins:    []domain.Variable{v("A", "mol/l", 0, 0), v("temperature", "K", 0, 0)},
		Scenario: []domain.Variable{
			v("A", "mol/l", 0.5, 1.1), v("B", "mol/l", 0.4, 0.7), v("reactor", "°C", 126, 136), v("below", "K", 2, 8),
			v("reference", "mol/l", 0.5, 0.7), v("feed", "1/h", 5, 60), v("cooling", "kJ/h", -6000, 0),
		},
		Initial: func(p, s, c []float64) {
			s[0], s[1], s[2], s[3] = p[0], p[1], p[2], p[2]-p[3]
			c[0], c[1], c[2] = p[4], p[5], p[6]
		},
		Steps: steps, StepSeconds: dt * hour,
		Real: functions[float64](), Dual: functions[complex128](), Stiff: &reactor,
		Source: equations.From(source, "System"),
		Rest:   []float64{20, -2000},
		// The context remembers the last action, which in the later steps of a solution all but tells
		// the next: a map of mostly such samples drifts (docs/contribute/notebook/solver.md).
		Solver: ocp.Options{Follow: 1},
	}
}
