package world

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
)

// Cell is the spacing of a grid's points, m: a quarter of the smallest
// obstacle's diameter.
const Cell = 0.2

// Grid holds, on points Cell apart over the workspace, the cost of the cheapest path
// of a point robot to a goal around standing discs, as plans are scored by it: the
// solution of the eikonal equation |∇V| = rate.
type Grid struct{ rollout.Grid }

// Disc is a standing body a path must keep clear of, its radius inflated.
type Disc struct{ X, Y, R float64 }

// NewGrid lays out the points, blocks those inside a disc, and sets the cost of a
// metre everywhere else to one. Points within a cell of the goal are always free.
func NewGrid(workspace [4]float64, goal [2]float64, discs []Disc) *Grid {
	g := &Grid{rollout.Grid{
		X0: workspace[0], Y0: workspace[2], Cell: Cell,
		NX: int(math.Round((workspace[1]-workspace[0])/Cell)) + 1,
		NY: int(math.Round((workspace[3]-workspace[2])/Cell)) + 1,
	}}
	g.Rate = make([]float32, g.NX*g.NY)
	for i := range g.Rate {
		g.Rate[i] = 1
	}
	for _, d := range discs {
		g.Near(d, d.R, func(i int, distance float64) {
			if distance < d.R {
				g.Rate[i] = float32(math.Inf(1))
			}
		})
	}
	g.corners(goal, func(i int, _ float64) { g.Rate[i] = 1 })
	return g
}

// Near visits the points in the square around a disc's centre, with distances.
func (g *Grid) Near(d Disc, reach float64, visit func(i int, distance float64)) {
	for iy := max(0, int(math.Ceil((d.Y-reach-g.Y0)/Cell))); iy < g.NY && g.Y0+float64(iy)*Cell <= d.Y+reach; iy++ {
		for ix := max(0, int(math.Ceil((d.X-reach-g.X0)/Cell))); ix < g.NX && g.X0+float64(ix)*Cell <= d.X+reach; ix++ {
			visit(iy*g.NX+ix, math.Hypot(g.X0+float64(ix)*Cell-d.X, g.Y0+float64(iy)*Cell-d.Y))
		}
	}
}

// corners visits the corners of a point's cell, with their distances.
func (g *Grid) corners(p [2]float64, visit func(i int, distance float64)) {
	fx, fy := (p[0]-g.X0)/Cell, (p[1]-g.Y0)/Cell
	for iy := int(math.Floor(fy)); iy <= int(math.Floor(fy))+1; iy++ {
		for ix := int(math.Floor(fx)); ix <= int(math.Floor(fx))+1; ix++ {
			if ix >= 0 && iy >= 0 && ix < g.NX && iy < g.NY {
				visit(iy*g.NX+ix, Cell*math.Hypot(float64(ix)-fx, float64(iy)-fy))
			}
		}
	}
}

// Bounds of the sweeps: in practice four to eight passes in each of the four
// directions settle, one for every turn of the paths.
const (
	maxSweeps    = 40
	sweepSettled = 1e-4 // relative change of a value that counts as none
)

// Solve fills Value from the rates by fast sweeping (Zhao, Mathematics of
// Computation 74, 2005): Gauss–Seidel with the upwind difference, in alternating
// orders. It starts from the values of upper, of whose rates none is smaller, or
// from nothing.
func (g *Grid) Solve(goal [2]float64, upper *Grid) {
	inf := float32(math.Inf(1))
	g.Value = make([]float32, len(g.Rate))
	for i := range g.Value {
		g.Value[i] = inf
	}
	if upper != nil {
		copy(g.Value, upper.Value)
	}
	g.corners(goal, func(i int, distance float64) { g.Value[i] = float32(distance) * g.Rate[i] })
	for range maxSweeps {
		improved := false
		for order := range 4 {
			dx, dy := 1-order%2*2, 1-order/2*2
			for n := range g.NY {
				iy := n
				if dy < 0 {
					iy = g.NY - 1 - n
				}
				improved = g.sweep(iy, dx) || improved
			}
		}
		if !improved {
			return
		}
	}
}

// sweep updates one row from left to right (dx > 0) or back and reports whether a
// value changed.
func (g *Grid) sweep(iy, dx int) bool {
	inf := float32(math.Inf(1))
	row := g.Value[iy*g.NX : (iy+1)*g.NX]
	rate := g.Rate[iy*g.NX : (iy+1)*g.NX]
	up, down := row, row
	if iy > 0 {
		up = g.Value[(iy-1)*g.NX : iy*g.NX]
	}
	if iy+1 < g.NY {
		down = g.Value[(iy+1)*g.NX : (iy+2)*g.NX]
	}
	improved := false
	for n := range row {
		ix := n
		if dx < 0 {
			ix = g.NX - 1 - n
		}
		if rate[ix] == inf {
			continue
		}
		a := inf
		if ix > 0 {
			a = row[ix-1]
		}
		if ix+1 < g.NX && row[ix+1] < a {
			a = row[ix+1]
		}
		b := up[ix]
		if down[ix] < b {
			b = down[ix]
		}
		f := rate[ix] * Cell
		low, gap := a, b-a
		if b < a {
			low, gap = b, a-b
		}
		if low >= row[ix] {
			continue
		}
		v := low + f
		if gap < f {
			v = low + (gap+float32(math.Sqrt(float64(2*f*f-gap*gap))))/2
		}
		if v < row[ix]*(1-sweepSettled) {
			row[ix], improved = v, true
		}
	}
	return improved
}

// reachable reports whether a point is connected with the goal over free points, in
// eight directions.
func (g *Grid) reachable(start, goal [2]float64) bool {
	visited := make([]bool, len(g.Rate))
	var open []int
	g.corners(goal, func(i int, _ float64) {
		visited[i] = true
		open = append(open, i)
	})
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		for iy := max(0, i/g.NX-1); iy <= min(g.NY-1, i/g.NX+1); iy++ {
			for ix := max(0, i%g.NX-1); ix <= min(g.NX-1, i%g.NX+1); ix++ {
				j := iy*g.NX + ix
				if !visited[j] && !math.IsInf(float64(g.Rate[j]), 1) {
					visited[j] = true
					open = append(open, j)
				}
			}
		}
	}
	connected := false
	g.corners(start, func(i int, _ float64) { connected = connected || visited[i] })
	return connected
}

// Around is what a grid from a robot to its goal spans: the workspace, of a crowd's what lies around both.
func (p *Params) Around(start, goal [2]float64) [4]float64 {
	w := p.Workspace
	if p.Room() <= Few {
		return w
	}
	const border = 8 // m
	for k := range 2 {
		w[2*k] = max(w[2*k], math.Floor(min(start[k], goal[k]))-border)
		w[2*k+1] = min(w[2*k+1], math.Ceil(max(start[k], goal[k]))+border)
	}
	return w
}

// connected reports whether every robot, alone, has a grid path from start to
// goal around the obstacles inflated by its radius, d_safe and the
// distribution's clearance.
func (y *System) connected(scene *Scene) bool {
	return !slices.ContainsFunc(scene.Robots, func(a Robot) bool { return !y.reaches(&a, scene.Obstacles) })
}

// reaches is connected of one robot.
func (y *System) reaches(a *Robot, obstacles []Obstacle) bool {
	discs := make([]Disc, len(obstacles))
	for j, o := range obstacles {
		discs[j] = Disc{o.C[0], o.C[1], o.R + a.R + y.Params.DSafe + y.scenes.Connectivity}
	}
	return NewGrid(y.Params.Around(a.P, a.Goal), a.Goal, discs).reachable(a.P, a.Goal)
}

// connect is connected. In a crowd somebody is always cut off: there the obstacles near such a robot's goal are taken
// away until it is not.
func (y *System) connect(scene *Scene) bool {
	if y.Params.Room() <= Few {
		return y.connected(scene)
	}
	for i := range scene.Robots {
		a := &scene.Robots[i]
		for reach := 2.0; !y.reaches(a, scene.Obstacles); reach *= 1.5 {
			scene.Obstacles = slices.DeleteFunc(scene.Obstacles, func(o Obstacle) bool { return math.Hypot(o.C[0]-a.Goal[0], o.C[1]-a.Goal[1]) < reach })
			scene.Rejected.Disconnected++
		}
	}
	return true
}
