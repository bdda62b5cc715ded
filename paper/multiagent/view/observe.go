package view

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Outlook is all that a robot's view is made of: the scene, where the obstacles
// and the other robots will be, and the way home.
type Outlook struct {
	Scene *world.Prediction
	// Obstacles are after 1 to LookAhead steps, [step][obstacle]; Visible are the places of those that count.
	Obstacles [][]world.Obstacle
	Visible   []int
	// Robots are the other robots that have plans; without a plan a robot is not seen.
	Robots []Other
	Guide  *world.Grid // cost-to-go of the robot that looks; nil: straight home
}

// Path is where a committed plan leads, m, and where the robot then brakes to a stand.
type Path [world.LookAhead + world.Stopping][2]float32

// Clear reports whether two robots on their paths keep a distance, m, from the step first on.
func (p *Path) Clear(q *Path, first int, distance float64) bool {
	for k := first; k < len(p); k++ {
		dx, dy := float64(p[k][0]-q[k][0]), float64(p[k][1]-q[k][1])
		if dx*dx+dy*dy < distance*distance {
			return false
		}
	}
	return true
}

// Other is another robot on its committed path.
type Other struct {
	Robot int
	Path  *Path
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
	e.share, e.crowd = math.Sqrt(h.GoalWeight(i)), 1/float64(h.Company())
	e.goal = relative(h.Goal[i][0], h.Goal[i][1])
	v.trace(l, i, func(w int, x, y float64) { e.ways[w] = relative(x, y) })
	horizon := math.Inf(1)
	if n := len(l.Visible) + len(l.Robots); n > viewSeen {
		horizon = l.nearest(i, n)
	}
	add := func(x, y, radius float64, later func(k int) (x, y float64)) {
		if e.count == viewSeen || math.Hypot(x-state[0], y-state[1])-radius > horizon {
			return
		}
		o := &e.bodies[e.count]
		e.count++
		o.radius = radius + h.Radius[i] + h.Params.DSafe
		for n, k := range knotSteps {
			if k > 0 {
				x, y = later(k - 1)
			}
			o.knots[n] = relative(x, y)
		}
	}
	for _, j := range l.Visible {
		o := &h.Obstacles[j]
		add(o.C[0], o.C[1], o.R, func(k int) (x, y float64) { return l.Obstacles[k][j].C[0], l.Obstacles[k][j].C[1] })
	}
	for _, o := range l.Robots {
		s := &h.State[o.Robot]
		add(s[0], s[1], h.Radius[o.Robot], func(k int) (x, y float64) { return float64(o.Path[k][0]), float64(o.Path[k][1]) })
	}
	v.encode(&e, s, c)
}

// nearest is how far the last of the viewSeen nearest of n bodies is from robot i now, m, but for their
// radii.
func (l *Outlook) nearest(i, n int) float64 {
	h, all := l.Scene, make([]float64, 0, n)
	state := &h.State[i]
	for _, j := range l.Visible {
		o := &h.Obstacles[j]
		all = append(all, math.Hypot(o.C[0]-state[0], o.C[1]-state[1])-o.R)
	}
	for _, o := range l.Robots {
		all = append(all, math.Hypot(h.State[o.Robot][0]-state[0], h.State[o.Robot][1]-state[1])-h.Radius[o.Robot])
	}
	slices.Sort(all)
	return all[viewSeen-1]
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
