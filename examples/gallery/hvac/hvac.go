// Package hvac heats a building's zone through a winter day: comfort while it is occupied
// against energy at a daily tariff, with room temperature limited at all times. The model is
// TiTeThTs of Bacher and Madsen, "Identifying suitable models for the heat dynamics of
// buildings" (Energy and Buildings 43, 2011), with the values they identified for an
// office at Risø; weather, occupancy and tariff are smooth functions of the hour.
package hvac

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
	steps  = 96
	dt     = 0.25 // h
	hour   = 3600.0
	power  = 5.1    // kW of the heaters
	cRoom  = 0.0928 // kWh/K
	cWalls = 3.32
	cHeat  = 0.889
	cSense = 0.0549
	rWalls = 0.897 // K/kW, room to walls
	rOut   = 4.38  // K/kW, walls to outside
	rHeat  = 0.146 // K/kW, heaters to room
	rSense = 1.89  // K/kW, sensor to room
	window = 5.75  // m²
	facade = 3.87  // m²
	people = 0.4   // kW
	cold   = 16.0  // °C
	hot    = 26.0  // °C
)

// Indices of the context.
const (
	outside = iota // °C, mean of the day
	swing          // K, half the difference of afternoon and night
	sun            // kW/m² at noon
	comfort        // °C
	arrive         // h
	leave          // h
	clock
)

func rise[T dual.Scalar](x T) T { return 0.5 + 0.5*dual.Tanh(x) }

// occupied is 1 between arrival and leaving, and 0 at night.
func occupied[T dual.Scalar](c []T) T        { return between(24*c[clock], c[arrive], c[leave]) }
func between[T dual.Scalar](h, from, to T) T { return rise(2*(h-from)) * rise(2*(to-h)) }

// tariff has a peak in the evening.
func tariff[T dual.Scalar](c []T) T {
	h := 12*c[clock] - 9.5
	return 1 + dual.Exp(-h*h)
}

func ode[T dual.Scalar](s, c, u, ds []T) {
	day := 2 * math.Pi * c[clock]
	air := c[outside] + c[swing]*dual.Cos(day-2*math.Pi*15/24)
	light := c[sun] * dual.Max(0, -dual.Cos(day))
	balance(s, air, light, occupied(c), u[0], ds)
}

// balance is of s = (room, walls, heaters, sensor).
func balance[T dual.Scalar](s []T, air, light, busy, heating T, ds []T) {
	walls, heat, sense := 1/rWalls*(s[1]-s[0]), 1/rHeat*(s[2]-s[0]), 1/rSense*(s[3]-s[0])
	ds[0] = 1 / cRoom * (walls + heat + sense + window*light + people*busy)
	ds[1] = 1 / cWalls * (1/rOut*(air-s[1]) - walls + facade*light)
	ds[2] = 1 / cHeat * (heating - heat)
	ds[3] = -1 / cSense * sense
}

// zone is solved implicitly: the room's air settles within a minute.
var zone = dual.Stiff{ODE: ode[complex128], Span: dt, Substeps: 1}

func objectives[T dual.Scalar](_, c, u, n, j []T) {
	e, share := n[0]-c[comfort], 1/power*u[0]
	j[0] = (0.02 + occupied(c)) * e * e
	j[1] = tariff(c) * share * (1 + 0.1*share)
}

func margins[T dual.Scalar](_, _, _, n, m []T) { m[0], m[1] = n[0]-cold, hot-n[0] }

func functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: objectives[T], Margins: margins[T]}
}

// System is the zone.
func System() equations.System {
	v := func(name, unit string, lo, hi float64) domain.Variable {
		return domain.Variable{Name: name, Unit: unit, Lo: lo, Hi: hi}
	}
	weather := []domain.Variable{
		v("outside", "°C", 0, 10), v("swing", "K", 1, 5), v("sun", "kW/m²", 0, 0.25), v("comfort", "°C", 20, 22), v("arrive", "h", 6, 9), v("leave", "h", 15, 19),
	}
	context := make([]domain.Variable, len(weather))
	for i, w := range weather {
		context[i] = v(w.Name, w.Unit, 0, 0)
	}
	return equations.System{
		Name: "hvac", Description: "heating of a building's zone through a day: comfort against energy",
		State:      []domain.Variable{v("room", "°C", 16, 26), v("walls", "°C", 12, 24), v("heaters", "°C", 16, 28), v("sensor", "°C", 16, 26)},
		Context:    context,
		Action:     []domain.Variable{v("heating", "kW", 0, power)},
		Objectives: []domain.Variable{v("discomfort", "K²", 0, 0), v("energy", "1", 0, 0)},
		Margins:    []domain.Variable{v("cold", "K", 0, 0), v("hot", "K", 0, 0)},
		Scenario:   append([]domain.Variable{v("room", "°C", 17, 23), v("walls below", "K", 1, 4)}, weather...),
		Initial: func(p, s, c []float64) {
			s[0], s[1], s[2], s[3] = p[0], p[0]-p[1], p[0]+0.2, p[0]
			copy(c, p[2:])
		},
		Steps: steps, StepSeconds: dt * hour,
		Real: functions[float64](), Dual: functions[complex128](), Stiff: &zone,
		Source: equations.From(source, "System"),
		Solver: ocp.Options{Starts: 4, Library: 24}, // a priority that varies makes several basins
	}
}
