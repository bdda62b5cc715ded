package integrator

import "math"

// guide is a rule that drives the plant to a resting place, by way of a point
// above the ellipse. Both are given relative to the ellipse (in semi-axes) or,
// for goal and recovery location, absolutely.
type guide struct {
	height float64 // height of the way point above the centre, in semi-axes b; NaN: none
	target place
	gain   float64 // 1/s², stiffness; damping is critical
}

// place names where a guide comes to rest.
type place int

const (
	atGoal     place = iota
	atRecovery       // q_safe(p)
	atFarSide        // just off the ellipse, past its top
	atTop            // just off the ellipse, on top
	atNearSide       // before the ellipse
)

// guides are the cold starts. The horizon problem has a local optimum for each
// place where the priority lets a trajectory rest, and for each side of the
// ellipse, so each gets a start of its own.
var guides = []guide{
	{1.2, atGoal, 0.6}, {1.2, atGoal, 2}, {1.6, atGoal, 1}, {-1.3, atGoal, 1},
	{math.NaN(), atGoal, 1},
	{1.2, atRecovery, 0.8}, {math.NaN(), atRecovery, 2},
	{1.2, atFarSide, 0.8}, {1.2, atFarSide, 2},
	{math.NaN(), atTop, 1}, {math.NaN(), atNearSide, 1},
}

// coldStart writes the plan that guide g takes from the state of h, within
// input and slew bounds.
func (y *System) coldStart(h *horizonProblem, g guide, plan *[2 * Horizon]float64) {
	e := &y.Params.Ellipse
	m := motionOf(h.s[:])
	d := actionSet{input: y.Params.UMax, slew: y.Params.RMax, previous: h.previous}
	clear(plan[:])
	last := h.p[h.steps-1]
	cx, cy := e.C0[0]+e.Rho[0]*last, e.C0[1]+e.Rho[1]*last
	var x, z float64
	switch g.target {
	case atGoal:
		x, z = y.Params.QGoal[0], y.Params.QGoal[1]
	case atRecovery:
		x, z = y.Params.QSafe0[0]+e.Rho[0]*last, y.Params.QSafe0[1]+e.Rho[1]*last
	case atFarSide:
		x, z = cx+0.55*e.A, cy+0.95*e.B
	case atTop:
		x, z = cx-0.3*e.A, cy+1.1*e.B
	case atNearSide:
		x, z = cx-1.3*e.A, cy+0.5*e.B
	}
	damping := 2 * math.Sqrt(g.gain)
	for t := range h.steps {
		toX, toZ := x, z
		if m.q1 < cx-0.2*e.A && !math.IsNaN(g.height) {
			// Short of the ellipse's top: the way point, as far ahead as the target.
			toZ = cy + g.height*e.B
		}
		u := []float64{g.gain*(toX-m.q1) - damping*m.v1, g.gain*(toZ-m.q2) - damping*m.v2}
		d.project(u)
		plan[2*t], plan[2*t+1] = u[0], u[1]
		d.previous = [2]float64{u[0], u[1]}
		m = y.k64.next(m, u[0], u[1])
	}
}
