package multiagent

import "math"

// outlook is all that a robot's view is made of: the scene, where the obstacles
// and the other robots will be, and the way home.
type outlook struct {
	scene     *horizonProblem
	obstacles [][]Obstacle // after 1 to lookAhead steps, [step][obstacle]
	// paths are the robots' committed paths, nil for a robot without a plan, whom
	// others then do not see.
	paths [MaxRobots]*[lookAhead][2]float32
	guide *grid // cost-to-go of the robot that looks; nil: straight home
}

// observe writes robot i's view. It allocates nothing.
func (v *View) observe(l *outlook, i int, s, c []float64) {
	var e sight
	h := l.scene
	state := &h.state[i]
	sin, cos := math.Sincos(state[2])
	relative := func(x, y float64) [2]float64 {
		dx, dy := x-state[0], y-state[1]
		return [2]float64{cos*dx + sin*dy, cos*dy - sin*dx}
	}
	e.speed, e.previous, e.radius = state[3], h.previous[i], h.radius[i]
	e.share, e.crowd = math.Sqrt(h.goalWeight(i)), 1/float64(h.robots)
	e.goal = relative(h.goal[i][0], h.goal[i][1])
	v.trace(l, i, func(w int, x, y float64) { e.ways[w] = relative(x, y) })
	for j := range h.obstacles {
		o := &e.bodies[e.count]
		e.count++
		o.radius = h.obstacles[j].R + h.radius[i] + h.params.DSafe
		for n, k := range knotSteps {
			at := &h.obstacles[j]
			if k > 0 {
				at = &l.obstacles[k-1][j]
			}
			o.knots[n] = relative(at.C[0], at.C[1])
		}
	}
	for j := range h.robots {
		if j == i || l.paths[j] == nil {
			continue
		}
		o := &e.bodies[e.count]
		e.count++
		o.radius = h.radius[j] + h.radius[i] + h.params.DSafe
		for n, k := range knotSteps {
			x, y := h.state[j][0], h.state[j][1]
			if k > 0 {
				x, y = float64(l.paths[j][k-1][0]), float64(l.paths[j][k-1][1])
			}
			o.knots[n] = relative(x, y)
		}
	}
	v.encode(&e, s, c)
}

// trace visits the way points: along the cost-to-go where there is one, along the
// straight way where not; those beyond the goal lie on it.
func (v *View) trace(l *outlook, i int, visit func(w int, x, y float64)) {
	goal := &l.scene.goal[i]
	x, y := l.scene.state[i][0], l.scene.state[i][1]
	gone := 0.0
	for w, metres := range wayMetres {
		for gone < metres {
			dx, dy := goal[0]-x, goal[1]-y
			d := math.Hypot(dx, dy)
			step := math.Min(metres-gone, gridCell)
			if l.guide == nil {
				step = metres - gone
			}
			if d <= step {
				x, y, gone = goal[0], goal[1], math.Inf(1)
				break
			}
			dx, dy = dx/d, dy/d
			if l.guide != nil && d > 1 {
				fx, fy := l.guide.direction(float32(x), float32(y), float32(dx), float32(dy))
				dx, dy = float64(fx), float64(fy)
			}
			x, y, gone = x+step*dx, y+step*dy, gone+step
		}
		visit(w, x, y)
	}
}

// outlook is what robot i sees at this decision: the others as far as they have
// plans.
func (p *Planner) outlook(i int) outlook {
	l := outlook{scene: p.h, obstacles: p.obstacle, guide: p.fields[i].grid}
	for j := range p.planned {
		l.paths[j] = &p.robots[j].path
	}
	return l
}
