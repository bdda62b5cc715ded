package cartpole

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

// positions are the cart's place on its track and the pole's angle.
func positions[T dual.Scalar](s, _, _, y []T) { y[0], y[1] = s[0], s[2] }

// Positions is Track of which the positions alone are measured, with noise.
func Positions() equations.System {
	y := Track()
	y.Measurement = &domain.Measurement{
		Outputs:   []domain.Variable{{Name: "x", Unit: "m"}, {Name: "theta", Unit: "rad"}},
		Deviation: []float64{0.002, 0.002},
		Real:      positions[float64], Dual: positions[complex128],
		Process: []float64{0, 0.002, 0, 0.002},
	}
	y.Source = equations.From(source, "Positions")
	return y
}
