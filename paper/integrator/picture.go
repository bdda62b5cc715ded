package integrator

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// pointRadius is the radius of what has no size, m.
const pointRadius = 0.08

// Picture is domain.ProblemAbilities.Picture: the integrator, the ellipse where it is, and the goal.
func (y *System) Picture(s, c []float64) []domain.Shape {
	e, p := &y.Params.Ellipse, c[2]
	const edges = 72
	ellipse := make([][2]float64, edges+1)
	for k := range ellipse {
		sin, cos := math.Sincos(2 * math.Pi * float64(k%edges) / edges)
		ellipse[k] = [2]float64{e.C0[0] + e.Rho[0]*p + e.A*cos, e.C0[1] + e.Rho[1]*p + e.B*sin}
	}
	goal := y.Params.QGoal
	return []domain.Shape{
		domain.Line(domain.Obstacle, ellipse...),
		domain.Disc(domain.Goal, goal[0], goal[1], 2*pointRadius),
		domain.Disc(domain.Body, s[0], s[1], pointRadius),
	}
}
