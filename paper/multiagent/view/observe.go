package view

import (
	"math"

	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Outlook is all that a robot's view is made of: the scene, where the obstacles
// and the other robots will be, and the way home.
type Outlook struct {
	Scene     *world.Prediction
	Obstacles [][]world.Obstacle // after 1 to LookAhead steps, [step][obstacle]
	// Paths are the robots' committed paths, nil for a robot without a plan, whom
	// others then do not see.
	Paths [world.MostRobots]*[world.LookAhead][2]float32
	Guide *world.Grid // cost-to-go of the robot that looks; nil: straight home
}

// Observe writes robot i's view. It allocates nothing.
func (v *View) Observe(l *Outlook, i int, s, c []float64) {
	var e sight
	h := l.Scene
	state := &h.State[i]
	sin, cos := math.Sincos(state[2])
	relative := func(x, y float64) [2]float64 {
		dx, dy := x-state[0], y-state[1]
		return [2]float64{cos*dx + sin*dy, cos*dy - sin*dx}
	}
	e.speed, e.previous, e.radius = state[3], h.Previous[i], h.Radius[i]
	e.share, e.crowd = math.Sqrt(h.GoalWeight(i)), 1/float64(h.Robots)
	e.goal = relative(h.Goal[i][0], h.Goal[i][1])
	v.trace(l, i, func(w int, x, y float64) { e.ways[w] = relative(x, y) })
	for j := range h.Obstacles {
		o := &e.bodies[e.count]
		e.count++
		o.radius = h.Obstacles[j].R + h.Radius[i] + h.Params.DSafe
		for n, k := range knotSteps {
			disc := &h.Obstacles[j]
			if k > 0 {
				disc = &l.Obstacles[k-1][j]
			}
			o.knots[n] = relative(disc.C[0], disc.C[1])
		}
	}
	for j := range h.Robots {
		if j == i || l.Paths[j] == nil {
			continue
		}
		o := &e.bodies[e.count]
		e.count++
		o.radius = h.Radius[j] + h.Radius[i] + h.Params.DSafe
		for n, k := range knotSteps {
			x, y := h.State[j][0], h.State[j][1]
			if k > 0 {
				x, y = float64(l.Paths[j][k-1][0]), float64(l.Paths[j][k-1][1])
			}
			o.knots[n] = relative(x, y)
		}
	}
	v.encode(&e, s, c)
}

// trace visits the way points: along the cost-to-go where there is one, along the
// straight way where not; those beyond the goal lie on it.
func (v *View) trace(l *Outlook, i int, visit func(w int, x, y float64)) {
	goal := &l.Scene.Goal[i]
	x, y := l.Scene.State[i][0], l.Scene.State[i][1]
	travelled := 0.0
	for w, metres := range wayMetres {
		for travelled < metres {
			dx, dy := goal[0]-x, goal[1]-y
			d := math.Hypot(dx, dy)
			step := math.Min(metres-travelled, world.Cell)
			if l.Guide == nil {
				step = metres - travelled
			}
			if d <= step {
				x, y, travelled = goal[0], goal[1], math.Inf(1)
				break
			}
			dx, dy = dx/d, dy/d
			if l.Guide != nil && d > 1 {
				fx, fy := l.Guide.Direction(float32(x), float32(y), float32(dx), float32(dy))
				dx, dy = float64(fx), float64(fy)
			}
			x, y, travelled = x+step*dx, y+step*dy, travelled+step
		}
		visit(w, x, y)
	}
}
