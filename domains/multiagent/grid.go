package multiagent

import (
	"math"

	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
)

// gridCell is the spacing of a grid's points, m: a quarter of the smallest
// obstacle's diameter.
const gridCell = 0.2

// grid holds, on points gridCell apart over the workspace, the cost of the
// cheapest path of a point robot to a goal around standing discs: the solution of
// the eikonal equation |∇V| = rate.
type grid struct {
	x0, y0 float64
	nx, ny int
	rate   []float32    // cost per metre at a point; +Inf where blocked
	value  []float32    // cost-to-go; +Inf where blocked or cut off
	known  rollout.Grid // both, as plans are scored by them
}

// disc is a standing body a path must keep clear of, its radius inflated.
type disc struct{ x, y, r float64 }

// newGrid lays out the points, blocks those inside a disc, and sets the cost of a
// metre everywhere else to one. Points within a cell of the goal are always free.
func newGrid(workspace [4]float64, goal [2]float64, discs []disc) *grid {
	g := &grid{
		x0: workspace[0], y0: workspace[2],
		nx: int(math.Round((workspace[1]-workspace[0])/gridCell)) + 1,
		ny: int(math.Round((workspace[3]-workspace[2])/gridCell)) + 1,
	}
	g.rate = make([]float32, g.nx*g.ny)
	for i := range g.rate {
		g.rate[i] = 1
	}
	for _, d := range discs {
		g.near(d, d.r, func(i int, distance float64) {
			if distance < d.r {
				g.rate[i] = float32(math.Inf(1))
			}
		})
	}
	g.around(goal, func(i int, _ float64) {
		if math.IsInf(float64(g.rate[i]), 1) {
			g.rate[i] = 1
		}
	})
	return g
}

// near visits the points in the square around a disc's centre, with distances.
func (g *grid) near(d disc, reach float64, visit func(i int, distance float64)) {
	for iy := max(0, int(math.Ceil((d.y-reach-g.y0)/gridCell))); iy < g.ny && g.y0+float64(iy)*gridCell <= d.y+reach; iy++ {
		for ix := max(0, int(math.Ceil((d.x-reach-g.x0)/gridCell))); ix < g.nx && g.x0+float64(ix)*gridCell <= d.x+reach; ix++ {
			visit(iy*g.nx+ix, math.Hypot(g.x0+float64(ix)*gridCell-d.x, g.y0+float64(iy)*gridCell-d.y))
		}
	}
}

// around visits the corners of a point's cell, with their distances.
func (g *grid) around(p [2]float64, visit func(i int, distance float64)) {
	fx, fy := (p[0]-g.x0)/gridCell, (p[1]-g.y0)/gridCell
	for iy := int(math.Floor(fy)); iy <= int(math.Floor(fy))+1; iy++ {
		for ix := int(math.Floor(fx)); ix <= int(math.Floor(fx))+1; ix++ {
			if ix >= 0 && iy >= 0 && ix < g.nx && iy < g.ny {
				visit(iy*g.nx+ix, gridCell*math.Hypot(float64(ix)-fx, float64(iy)-fy))
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

// solve fills value from the rates by fast sweeping (Zhao, Mathematics of
// Computation 74, 2005): Gauss–Seidel with the upwind difference, in alternating
// orders. It starts from the values of above, of whose rates none is smaller, or
// from nothing.
func (g *grid) solve(goal [2]float64, above *grid) {
	inf := float32(math.Inf(1))
	g.value = make([]float32, len(g.rate))
	g.known = rollout.Grid{X0: g.x0, Y0: g.y0, Cell: gridCell, NX: g.nx, NY: g.ny, Rate: g.rate, Value: g.value}
	for i := range g.value {
		g.value[i] = inf
	}
	if above != nil {
		copy(g.value, above.value)
	}
	g.around(goal, func(i int, distance float64) { g.value[i] = float32(distance) * g.rate[i] })
	for range maxSweeps {
		changed := false
		for order := range 4 {
			dx, dy := 1-order%2*2, 1-order/2*2
			for n := range g.ny {
				iy := n
				if dy < 0 {
					iy = g.ny - 1 - n
				}
				changed = g.sweep(iy, dx) || changed
			}
		}
		if !changed {
			return
		}
	}
}

// sweep updates one row from left to right (dx > 0) or back and reports whether a
// value changed.
func (g *grid) sweep(iy, dx int) bool {
	inf := float32(math.Inf(1))
	row := g.value[iy*g.nx : (iy+1)*g.nx]
	rate := g.rate[iy*g.nx : (iy+1)*g.nx]
	up, down := row, row
	if iy > 0 {
		up = g.value[(iy-1)*g.nx : iy*g.nx]
	}
	if iy+1 < g.ny {
		down = g.value[(iy+1)*g.nx : (iy+2)*g.nx]
	}
	changed := false
	for n := range row {
		ix := n
		if dx < 0 {
			ix = g.nx - 1 - n
		}
		if rate[ix] == inf {
			continue
		}
		a := inf
		if ix > 0 {
			a = row[ix-1]
		}
		if ix+1 < g.nx && row[ix+1] < a {
			a = row[ix+1]
		}
		b := up[ix]
		if down[ix] < b {
			b = down[ix]
		}
		f := rate[ix] * gridCell
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
			row[ix], changed = v, true
		}
	}
	return changed
}

// flood reports whether a point is connected with the goal over free points, in
// eight directions.
func (g *grid) flood(from, goal [2]float64) bool {
	seen := make([]bool, len(g.rate))
	var open []int
	g.around(goal, func(i int, _ float64) {
		seen[i] = true
		open = append(open, i)
	})
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		for iy := max(0, i/g.nx-1); iy <= min(g.ny-1, i/g.nx+1); iy++ {
			for ix := max(0, i%g.nx-1); ix <= min(g.nx-1, i%g.nx+1); ix++ {
				j := iy*g.nx + ix
				if !seen[j] && !math.IsInf(float64(g.rate[j]), 1) {
					seen[j] = true
					open = append(open, j)
				}
			}
		}
	}
	connected := false
	g.around(from, func(i int, _ float64) { connected = connected || seen[i] })
	return connected
}

// direction is the unit vector down the cost-to-go at a point, (dx, dy) where the
// grid knows none.
func (g *grid) direction(x, y, dx, dy float32) (float32, float32) {
	return g.known.Direction(x, y, dx, dy)
}

// connected reports whether every robot, alone, has a grid path from start to
// goal around the obstacles inflated by its radius, d_safe and the
// distribution's clearance.
func (y *System) connected(scene *Scene) bool {
	discs := make([]disc, len(scene.Obstacles))
	for i := range scene.Robots {
		a := &scene.Robots[i]
		for j, o := range scene.Obstacles {
			discs[j] = disc{o.C[0], o.C[1], o.R + a.R + y.Params.DSafe + y.scenes.Connectivity}
		}
		if !newGrid(y.Params.Workspace, a.Goal, discs).flood(a.P, a.Goal) {
			return false
		}
	}
	return true
}
