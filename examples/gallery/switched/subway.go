package switched

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	subwaySteps   = 65
	subwaySpan    = 65.0          // s
	subwayMPH     = 3600.0 / 5280 // mile/h in a ft/s
	subwayWeight  = 78000.0       // lb
	subwayInertia = 85200.0       // lb, wheels and motors turn
	subwayGravity = 32.2          // ft/s²
	subwayBrake   = 4.4           // ft/s²
	subwayCoast   = 0.367         // ft/s², of coasting, without the resistance
	subwayV1      = 0.979474      // mile/h: below, the motors in series pull by their resistors
	subwayV2      = 6.73211       // mile/h: so they do up to here, and in parallel they pull from here
	subwayV3      = 14.2658       // mile/h: up to here by their resistors
	subwayRoom    = 15.0          // ft beyond the station
	subwayLateFt  = 5.0           // ft and
	subwayLateFtS = 1.0           // ft/s at the end that cost 1
)

// inverse is the polynomial of these coefficients in 1/x.
func inverse[T dual.Scalar](x T, b0, b1, b2, b3, b4, b5 float64) T {
	y := 1 / x
	k := func(b float64) T { return dual.Const[T](b) }
	return k(b0) + y*(k(b1)+y*(k(b2)+y*(k(b3)+y*(k(b4)+y*k(b5)))))
}

// sigmoid goes from 0 to 1 about a speed, both in mile/h, within a few tenths.
func sigmoid[T dual.Scalar](speed T, threshold float64) T {
	return rise(5 * (speed - dual.Const[T](threshold)))
}

// motors are the acceleration, in ft/s², and the power, in kW, of the motors in series and in parallel.
type motors[T dual.Scalar] struct{ series, seriesPower, parallel, parallelPower T }

func motorsAt[T dual.Scalar](mph, resistance T) (m motors[T]) {
	const g = subwayGravity / subwayInertia
	v1, v2, v3 := sigmoid(mph, subwayV1), sigmoid(mph, subwayV2), sigmoid(mph, subwayV3)
	x := 0.1 * dual.Max(subwayV2, mph)
	direct := inverse(x-0.3, -0.1983670410e2, 0.1952738055e3, 0.2061789974e4, -0.7684409308e3, 0.2677869201e3, -0.3159629687e2) - resistance
	directPower := inverse(x, 0.3629738340e2, -0.2115281047e3, 0.7488955419e3, -0.9511076467e3, 0.5710015123e3, -0.1221306465e3)
	m.series = g * (6017.611205 + v1*(12348.34865-6017.611205) + v2*(direct-12348.34865))
	m.seriesPower = 106.1951102 + v1*(180.9758408-106.1951102) + v2*(directPower-180.9758408)
	x = 0.1*dual.Max(subwayV3, mph) - 1
	direct = inverse(x, -0.1577169936e3, 0.3389010339e4, 0.6202054610e4, -0.4608734450e4, 0.2207757061e4, -0.3673344160e3) - resistance
	directPower = inverse(x, 0.4120568887e2, 0.3408049202e3, -0.1436283271e3, 0.8108316584e2, -0.5689703073e1, -0.2191905731e1)
	m.parallel = g * (v2*11124.63729 + v3*(direct-11124.63729))
	m.parallelPower = 354.136479 + v3*(directPower-354.136479)
	return m
}

// subwayODE is of s = (position, speed, energy).
func subwayODE[T dual.Scalar](s, _, u, ds []T) {
	mph := subwayMPH * s[1]
	const c = 0.1 * (0.24 + 0.034*9) // of a car of ten with a front of 100 ft²
	resistance := 116 + 1.3/2000*subwayWeight + 0.045/2000*subwayWeight*mph + c*mph*mph
	moving := dual.Tanh(2 * s[1]) // a train at rest stays so
	m := motorsAt(mph, resistance)
	coast := -(subwayGravity/subwayInertia*resistance + subwayCoast) * moving
	ds[0] = s[1]
	ds[1] = indicator(u[0], 1, 4)*m.series + indicator(u[0], 2, 4)*m.parallel + indicator(u[0], 3, 4)*coast - indicator(u[0], 4, 4)*subwayBrake*moving
	ds[2] = 1 / 3600.0 * (indicator(u[0], 1, 4)*m.seriesPower + indicator(u[0], 2, 4)*m.parallelPower)
}

func subwayFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Objectives: func(s, c, _, n, j []T) {
			distance, speed := 1/subwayLateFt*(c[0]-n[0]), 1/subwayLateFtS*n[1]
			j[0] = n[2] - s[2]
			j[1] = last(c[1], subwaySteps) * (distance*distance + speed*speed)
		},
		Margins: func(_, c, _, n, m []T) { m[0] = c[0] + subwayRoom - n[0] - 1/(1.9*subwayBrake)*n[1]*n[1] },
	}
}

// Subway is mintOC's Subway ride, of Bock and Longman, "Computation of optimal controls on disjoint control sets for
// minimum energy subway operation" (1982). A train of New York has 65 s to the next station, 2112 ft away. Its motors
// are in series (1) or in parallel (2), or it coasts (3) or brakes (4). Here the station's distance varies. Arrival is a
// cost, not a condition, and the train keeps the room to stop. Changes of characteristic at the speeds V1 to V3 are
// smooth, within a few tenths of a mile/h. Motors in parallel below V2 take power without pulling, where mintOC excludes
// them.
func Subway() equations.System {
	return equations.System{
		Name: "subway", Description: "subway ride of four modes: energy against punctuality",
		State:          []domain.Variable{v("position", "ft", 0, 2200), v("speed", "ft/s", 0, 45), v("energy", "kWh", 0, 2)},
		Context:        []domain.Variable{v("station", "ft", 0, 0)},
		Action:         []domain.Variable{v("mode", "1", 0, 0)},
		Objectives:     []domain.Variable{v("energy", "kWh", 0, 0), v("miss", "1", 0, 0)},
		ObjectiveScale: []float64{0.05, 1},
		Margins:        []domain.Variable{v("room to stop", "ft", 0, 0)},
		Scenario:       []domain.Variable{v("station", "ft", 1900, 2150), v("speed", "ft/s", 0, 3)},
		Initial: func(p, s, c []float64) {
			s[0], s[1], s[2] = 0, p[1], 0
			c[0] = p[0]
		},
		Steps: subwaySteps, StepSeconds: subwaySpan / subwaySteps,
		Switches: []equations.Switch{equations.Integer("mode", 1, 4)},
		ODE:      &dual.Explicit{Real: subwayODE[float64], Dual: subwayODE[complex128], Span: subwaySpan / subwaySteps, Substeps: 4},
		Real:     subwayFunctions[float64](), Dual: subwayFunctions[complex128](),
		Source: equations.From(source, "Subway"),
		Rest:   []float64{3},
	}
}
