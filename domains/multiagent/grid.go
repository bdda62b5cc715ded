package multiagent

import (
	"container/heap"
	"math"
)

// gridCell is the spacing of the occupancy grid, m: a quarter of the smallest
// obstacle's diameter.
const gridCell = 0.2

// grid holds, on points gridCell apart over the workspace, the length of the
// shortest path to a goal around standing discs: the cost-to-go of a point
// robot. A cell is the square around its point.
type grid struct {
	x0, y0 float64
	nx, ny int
	length []float32    // m, +Inf where blocked or cut off
	ahead  [][2]float32 // unit vector along the shortest path, see head
}

// disc is a standing body a path must keep clear of, its radius inflated.
type disc struct{ x, y, r float64 }

// newGrid fills the grid with path lengths to the goal (8 neighbours, Dijkstra)
// that keep every grid point out of the discs. Points within a cell of the goal
// are always free.
func newGrid(workspace [4]float64, goal [2]float64, discs []disc) *grid {
	g := &grid{
		x0: workspace[0], y0: workspace[2],
		nx: int(math.Round((workspace[1]-workspace[0])/gridCell)) + 1,
		ny: int(math.Round((workspace[3]-workspace[2])/gridCell)) + 1,
	}
	g.length = make([]float32, g.nx*g.ny)
	blocked := make([]bool, len(g.length))
	for _, d := range discs {
		// Only the rows and columns that the disc touches.
		for iy := max(0, int(math.Ceil((d.y-d.r-g.y0)/gridCell))); iy < g.ny && g.y0+float64(iy)*gridCell <= d.y+d.r; iy++ {
			for ix := max(0, int(math.Ceil((d.x-d.r-g.x0)/gridCell))); ix < g.nx && g.x0+float64(ix)*gridCell <= d.x+d.r; ix++ {
				dx, dy := g.x0+float64(ix)*gridCell-d.x, g.y0+float64(iy)*gridCell-d.y
				if dx*dx+dy*dy < d.r*d.r {
					blocked[iy*g.nx+ix] = true
				}
			}
		}
	}
	for i := range g.length {
		g.length[i] = float32(math.Inf(1))
	}
	var queue frontier
	gx, gy := (goal[0]-g.x0)/gridCell, (goal[1]-g.y0)/gridCell
	for iy := int(math.Floor(gy)); iy <= int(math.Floor(gy))+1; iy++ {
		for ix := int(math.Floor(gx)); ix <= int(math.Floor(gx))+1; ix++ {
			if ix < 0 || iy < 0 || ix >= g.nx || iy >= g.ny {
				continue
			}
			i := iy*g.nx + ix
			blocked[i] = false
			g.length[i] = float32(gridCell * math.Hypot(float64(ix)-gx, float64(iy)-gy))
			queue = append(queue, visit{g.length[i], int32(i)})
		}
	}
	heap.Init(&queue)
	const diagonal = math.Sqrt2 * gridCell
	for len(queue) > 0 {
		v := heap.Pop(&queue).(visit)
		if v.length > g.length[v.cell] {
			continue
		}
		ix, iy := int(v.cell)%g.nx, int(v.cell)/g.nx
		for dy := -1; dy <= 1; dy++ {
			for dx := -1; dx <= 1; dx++ {
				jx, jy := ix+dx, iy+dy
				if (dx == 0 && dy == 0) || jx < 0 || jy < 0 || jx >= g.nx || jy >= g.ny {
					continue
				}
				j := jy*g.nx + jx
				if blocked[j] {
					continue
				}
				step := float32(gridCell)
				if dx != 0 && dy != 0 {
					step = float32(diagonal)
				}
				if l := v.length + step; l < g.length[j] {
					g.length[j] = l
					heap.Push(&queue, visit{l, int32(j)})
				}
			}
		}
	}
	return g
}

// at is the cost-to-go of a point: the least over the corners of its cell of
// path length plus distance to the corner. (Interpolating would put walls into
// gaps.) It is +Inf where every corner is blocked or cut off, and outside the
// workspace counts from the nearest point inside.
func (g *grid) at(x, y float64) float64 {
	cx := min(max(x, g.x0), g.x0+float64(g.nx-1)*gridCell)
	cy := min(max(y, g.y0), g.y0+float64(g.ny-1)*gridCell)
	outside := math.Hypot(x-cx, y-cy)
	fx, fy := (cx-g.x0)/gridCell, (cy-g.y0)/gridCell
	ix, iy := min(int(fx), g.nx-2), min(int(fy), g.ny-2)
	best := math.Inf(1)
	for dy := range 2 {
		for dx := range 2 {
			l := float64(g.length[(iy+dy)*g.nx+ix+dx]) + gridCell*math.Hypot(fx-float64(ix+dx), fy-float64(iy+dy))
			best = math.Min(best, l)
		}
	}
	return best + outside
}

// headReach is how many cells ahead on the path a direction points: far enough
// that eight directions become smooth, near enough not to cut corners.
const headReach = 4

// head fills ahead: from every point, the direction of the cell that lies
// headReach cells further along the shortest path. Points without a path, and
// those next to the goal, have the zero vector.
func (g *grid) head() {
	g.ahead = make([][2]float32, len(g.length))
	down := make([]int32, len(g.length))
	for i := range g.length {
		down[i] = int32(i)
		if math.IsInf(float64(g.length[i]), 1) {
			continue
		}
		ix, iy := i%g.nx, i/g.nx
		best := float32(0)
		for dy := max(-1, -iy); dy <= min(1, g.ny-1-iy); dy++ {
			for dx := max(-1, -ix); dx <= min(1, g.nx-1-ix); dx++ {
				j := i + dy*g.nx + dx
				// Descent per metre; +Inf lengths give −Inf.
				drop := g.length[i] - g.length[j]
				if dx != 0 && dy != 0 {
					drop /= math.Sqrt2
				}
				if drop > best {
					best, down[i] = drop, int32(j)
				}
			}
		}
	}
	for i := range g.length {
		at := int32(i)
		for range headReach {
			at = down[at]
		}
		dx, dy := float64(int(at)%g.nx-i%g.nx), float64(int(at)/g.nx-i/g.nx)
		if d := math.Hypot(dx, dy); d > 0 {
			g.ahead[i] = [2]float32{float32(dx / d), float32(dy / d)}
		}
	}
}

// direction is the unit vector to follow from a point, (dx, dy) where the grid
// knows none.
func (g *grid) direction(x, y, dx, dy float32) (float32, float32) {
	ix := min(max(int((x-float32(g.x0))/gridCell+0.5), 0), g.nx-1)
	iy := min(max(int((y-float32(g.y0))/gridCell+0.5), 0), g.ny-1)
	if a := g.ahead[iy*g.nx+ix]; a != [2]float32{} {
		return a[0], a[1]
	}
	return dx, dy
}

type visit struct {
	length float32
	cell   int32
}

// frontier is the heap of Dijkstra's algorithm.
type frontier []visit

func (f frontier) Len() int           { return len(f) }
func (f frontier) Less(i, j int) bool { return f[i].length < f[j].length }
func (f frontier) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *frontier) Push(v any)        { *f = append(*f, v.(visit)) }
func (f *frontier) Pop() any {
	old := *f
	v := old[len(old)-1]
	*f = old[:len(old)-1]
	return v
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
		if math.IsInf(newGrid(y.Params.Workspace, a.Goal, discs).at(a.P[0], a.P[1]), 1) {
			return false
		}
	}
	return true
}
