package cartpole

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	track = 1.3 // m to either side
	brake = 6.0 // m/s², a deceleration that the force gives whatever the pole does
)

// trackMargins are the speed limits and the room to the ends of the track that remains
// after stopping. The position alone would be no limit for one step: at full speed the
// cart is half a metre from rest. Braking by semi-implicit steps needs less than v²/2a, so
// the room that a kept margin leaves is kept by braking.
func trackMargins[T dual.Scalar](s, c, u, n, m []T) {
	margins(s, c, u, n, m)
	left, right := dual.Min(n[1], 0), dual.Max(n[1], 0)
	m[2] = track + n[0] - left*left/(2*brake)
	m[3] = track - n[0] - right*right/(2*brake)
}

func trackFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Step: step[T], Objectives: objectives[T], Margins: trackMargins[T]}
}

// Track is the cart-pole on a track with ends.
func Track() equations.System {
	y := System()
	y.Name, y.Description = "cartpole-track", "the cart-pole on a track with ends"
	y.Margins = append(y.Margins, domain.Variable{Name: "track-", Unit: "m"}, domain.Variable{Name: "track+", Unit: "m"})
	y.Training = domain.Training{} // the defaults
	y.Picture = func(s, c []float64) []domain.Shape {
		shapes := picture(s, c)
		for _, end := range []float64{-track - 0.2, track + 0.2} { // the cart's half beyond
			shapes = append(shapes, domain.Box(domain.Obstacle, end, 0, 0.1, 0.3))
		}
		return shapes
	}
	y.Real, y.Dual, y.Source = trackFunctions[float64](), trackFunctions[complex128](), equations.From(source, "Track")
	return y
}
