package rollout

import "math"

// Ending is what one robot is expected to pay after the last step of a plan, as a
// function of where the plan ends: the cost-to-go of a grid, or, without one, of the
// straight way to its goal at full speed, Σ stage·d² = stage·d³/(3·stride).
type Ending struct {
	Goal   [2]float64
	Stage  float64 // weight of the squared goal distance in a step
	Stride float64 // way of a step at full speed, m
	Detour float64 // added to the straight way where the grid knows none, m
	Scale  float64 // of the cost
	Grid   *Grid   // nil: the straight way
}

// At is the cost from a point on, and its slope. At a point that is not a number
// neither is the cost.
func (e *Ending) At(x, y float64) (cost, gx, gy float64) {
	cost, gx, gy = e.unscaled(x, y)
	return e.Scale * cost, e.Scale * gx, e.Scale * gy
}

func (e *Ending) unscaled(x, y float64) (cost, gx, gy float64) {
	dx, dy := x-e.Goal[0], y-e.Goal[1]
	d := math.Hypot(dx, dy)
	rate := e.Stage * d * d / e.Stride
	switch g := e.Grid; {
	case !(d < math.Inf(1)):
		return math.NaN(), 0, 0
	case g == nil:
		cost = rate * d / 3
	default:
		cost = g.At(x, y)
		if math.IsInf(cost, 1) {
			d += e.Detour
			return e.Stage * d * d * d / (3 * e.Stride), 0, 0
		}
		if d > g.Cell {
			ax, ay := g.Direction(float32(x), float32(y), float32(-dx/d), float32(-dy/d))
			if r := float64(g.Rate[g.nearest(float32(x), float32(y))]); !math.IsInf(r, 1) {
				rate = r
			}
			return cost, -rate * float64(ax), -rate * float64(ay)
		}
	}
	if d == 0 {
		return cost, 0, 0
	}
	return cost, rate * dx / d, rate * dy / d
}

// Grid is a cost-to-go on points Cell apart, row by row from (X0, Y0), at least two
// of them along each axis.
type Grid struct {
	X0, Y0, Cell float64
	NX, NY       int
	Rate         []float32 // cost per metre at a point; +Inf where blocked
	Value        []float32 // cost-to-go; +Inf where blocked or cut off
}

// At is the cost-to-go from a point: the least over the corners of its cell of
// their cost-to-go plus the way there. (Interpolating would put walls into gaps.)
// It is +Inf where every corner is blocked or cut off, and outside the grid counts
// from the nearest point inside.
func (g *Grid) At(x, y float64) float64 {
	cx := min(max(x, g.X0), g.X0+float64(g.NX-1)*g.Cell)
	cy := min(max(y, g.Y0), g.Y0+float64(g.NY-1)*g.Cell)
	excess := 0.0
	if cx != x || cy != y {
		excess = math.Hypot(x-cx, y-cy)
	}
	fx, fy := (cx-g.X0)/g.Cell, (cy-g.Y0)/g.Cell
	ix, iy := min(int(fx), g.NX-2), min(int(fy), g.NY-2)
	best := math.Inf(1)
	for dy := range 2 {
		for dx := range 2 {
			i := (iy+dy)*g.NX + ix + dx
			ax, ay := fx-float64(ix+dx), fy-float64(iy+dy)
			way := excess + g.Cell*math.Sqrt(ax*ax+ay*ay)
			if v := float64(g.Value[i]) + way*float64(g.Rate[i]); v < best {
				best = v
			}
		}
	}
	return best
}

// Direction is the unit vector down the cost-to-go at a point, (dx, dy) where the
// grid knows none.
func (g *Grid) Direction(x, y, dx, dy float32) (float32, float32) {
	i := g.nearest(x, y)
	ix, iy := i%g.NX, i/g.NX
	value := g.Value[i]
	if value > largest {
		return dx, dy
	}
	gx := g.slope(i, 1, ix > 0, ix+1 < g.NX)
	gy := g.slope(i, g.NX, iy > 0, iy+1 < g.NY)
	size := float32(math.Sqrt(float64(gx*gx + gy*gy)))
	if size == 0 {
		return dx, dy
	}
	return -gx / size, -gy / size
}

// slope is the central difference of the cost-to-go along one axis, one-sided at
// the edge and next to what is blocked, per two cells.
func (g *Grid) slope(i, step int, before, after bool) float32 {
	before = before && g.Value[i-step] < largest
	after = after && g.Value[i+step] < largest
	switch {
	case before && after:
		return g.Value[i+step] - g.Value[i-step]
	case before:
		return 2 * (g.Value[i] - g.Value[i-step])
	case after:
		return 2 * (g.Value[i+step] - g.Value[i])
	}
	return 0
}

// largest is above every finite cost-to-go.
const largest = 1e30

// nearest is the index of the point closest to (x, y).
func (g *Grid) nearest(x, y float32) int {
	cell := float32(g.Cell)
	ix := min(max(int((x-float32(g.X0))/cell+0.5), 0), g.NX-1)
	iy := min(max(int((y-float32(g.Y0))/cell+0.5), 0), g.NY-1)
	return iy*g.NX + ix
}
