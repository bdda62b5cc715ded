package quadrotor

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

// The context of the quadrotor that knows where its goal will be: its x at knots, five eighths of a second apart, then its z.
const (
	knots = 5
	start = 5 // the scenario's first position of the goal, behind the state
	clock = 2 * knots
)

func objectivesAhead[T dual.Scalar](_, c, u, n, j []T) {
	towards(dual.Along(c[:knots], c[clock]), dual.Along(c[knots:2*knots], c[clock]), u, n, j)
}

func functionsAhead[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: objectivesAhead[T], Margins: margins[T], Escape: escape[T]}
}

// Ahead is the quadrotor whose goal moves. Where the goal will be is known for the whole flight.
func Ahead() equations.System {
	y := System()
	y.Name, y.Description = "quadrotor-ahead", y.Description+" that moves, known ahead"
	y.Context = nil
	for _, axis := range []string{"x", "z"} {
		for k := range knots {
			y.Context = append(y.Context, domain.Variable{Name: fmt.Sprintf("goal %s at knot %d", axis, k), Unit: "m"})
		}
		for k := range knots - 1 {
			y.Scenario = append(y.Scenario, domain.Variable{Name: fmt.Sprintf("move %s %d", axis, k+1), Unit: "m", Lo: -0.4, Hi: 0.4})
		}
	}
	y.Initial = chase
	y.Picture = func(s, c []float64) []domain.Shape {
		return picture(s, []float64{dual.Along(c[:knots], c[clock]), dual.Along(c[knots:2*knots], c[clock])})
	}
	y.Real, y.Dual = functionsAhead[float64](), functionsAhead[complex128]()
	y.Source = equations.From(source, "Ahead")
	return y
}

// chase draws the goal's way from knot to knot.
func chase(p, s, c []float64) {
	copy(s, p[:start])
	s[start] = 0
	for axis := range 2 {
		at := p[start+axis]
		for k := range knots {
			if k > 0 {
				at += p[start+2+axis*(knots-1)+k-1]
			}
			c[axis*knots+k] = at
		}
	}
}
