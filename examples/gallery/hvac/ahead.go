package hvac

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

// The context of the zone that knows its day ahead: temperature outside and price of energy at knots, four hours apart.
const (
	knots       = 7
	price       = knots
	sunAhead    = 2 * knots
	comfortAt   = sunAhead + 1
	arriveAt    = sunAhead + 2
	leaveAt     = sunAhead + 3
	clockAhead  = sunAhead + 4
	fronts      = 4 // the scenario's first step of the weather, behind room, walls, outside and swing
	pricesDrawn = fronts + knots - 1
)

func busyAhead[T dual.Scalar](c []T) T { return between(24*c[clockAhead], c[arriveAt], c[leaveAt]) }

func odeAhead[T dual.Scalar](s, c, u, ds []T) {
	light := c[sunAhead] * dual.Max(0, -dual.Cos(2*math.Pi*c[clockAhead]))
	balance(s, dual.Along(c[:knots], c[clockAhead]), light, busyAhead(c), u[0], ds)
}

var zoneAhead = dual.Stiff{ODE: odeAhead[complex128], Span: dt, Substeps: 1}

func objectivesAhead[T dual.Scalar](_, c, u, n, j []T) {
	e, share := n[0]-c[comfortAt], 1/power*u[0]
	j[0] = (0.02 + busyAhead(c)) * e * e
	j[1] = dual.Along(c[price:price+knots], c[clockAhead]) * share * (1 + 0.1*share)
}

func functionsAhead[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: objectivesAhead[T], Margins: margins[T]}
}

// Ahead is the zone with a forecast: fronts pass, and prices vary from day to day. Both are known for the whole day.
func Ahead() equations.System {
	y := System()
	v := func(name, unit string, lo, hi float64) domain.Variable {
		return domain.Variable{Name: name, Unit: unit, Lo: lo, Hi: hi}
	}
	y.Name, y.Description = "hvac-ahead", y.Description+", with weather and price known ahead"
	y.Scenario = []domain.Variable{v("room", "°C", 17, 23), v("walls below", "K", 1, 4), v("outside", "°C", 0, 10), v("swing", "K", 1, 5)}
	y.Context = nil
	for k := range knots {
		y.Context = append(y.Context, v(fmt.Sprintf("outside at %d h", 4*k), "°C", 0, 0))
	}
	for k := range knots {
		y.Context = append(y.Context, v(fmt.Sprintf("price at %d h", 4*k), "1", 0, 0))
	}
	for k := range knots - 1 {
		y.Scenario = append(y.Scenario, v(fmt.Sprintf("front %d", k+1), "K", -2, 2))
	}
	for k := range knots {
		y.Scenario = append(y.Scenario, v(fmt.Sprintf("price %d", k), "1", 0.5, 2))
	}
	for _, w := range []domain.Variable{v("sun", "kW/m²", 0, 0.25), v("comfort", "°C", 20, 22), v("arrive", "h", 6, 9), v("leave", "h", 15, 19)} {
		y.Scenario, y.Context = append(y.Scenario, w), append(y.Context, v(w.Name, w.Unit, 0, 0))
	}
	y.Initial = day
	y.Real, y.Dual, y.Stiff = functionsAhead[float64](), functionsAhead[complex128](), &zoneAhead
	y.Source = equations.From(source, "Ahead")
	return y
}

// day draws the weather: a daily swing, and fronts that add up.
func day(p, s, c []float64) {
	s[0], s[1], s[2], s[3] = p[0], p[0]-p[1], p[0]+0.2, p[0]
	passed := 0.0
	for k := range knots {
		if k > 0 {
			passed += p[fronts+k-1]
		}
		c[k] = p[2] + passed + p[3]*math.Cos(2*math.Pi*(4*float64(k)-15)/24)
	}
	copy(c[price:], p[pricesDrawn:])
}
