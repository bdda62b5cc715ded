package world

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The corners of a point's cell are the two points of the grid on either side of it along each axis, or what of them is inside the grid.
func TestCornersOfACell(t *testing.T) {
	g := NewGrid([4]float64{-1, 1, 0, 3}, [2]float64{0, 1}, nil)
	if g.NX != 11 || g.NY != 16 || len(g.Rate) != 11*16 {
		t.Fatalf("%d times %d points, %d rates", g.NX, g.NY, len(g.Rate))
	}
	for _, p := range [][2]float64{{0.07, 1.13}, {-1, 0}, {1, 3}, {-0.97, 2.99}, {0.999, 0.001}, {-1.1, 1.5}, {1.1, 1.5}, {0.5, -0.1}, {0.5, 3.1}, {-1.3, 1}, {0, 3.3}} {
		want, got := map[int]float64{}, map[int]float64{}
		fx, fy := (p[0]-g.X0)/Cell, (p[1]-g.Y0)/Cell
		for i := range g.Rate {
			dx, dy := float64(i%11)-fx, float64(i/11)-fy
			if dx > -1 && dx <= 1 && dy > -1 && dy <= 1 {
				want[i] = 0.2 * math.Hypot(dx, dy)
			}
		}
		g.corners(p, func(i int, distance float64) { got[i] = distance })
		if len(got) != len(want) {
			t.Errorf("%v has corners %v, want %v", p, got, want)
		}
		for i, d := range want {
			if v, ok := got[i]; !ok || math.Abs(v-d) > 1e-12 {
				t.Errorf("%v has corners %v, want %v", p, got, want)
			}
		}
	}
}

// Points inside a disc are blocked and points on its edge are not, nor are those next to the goal. The points near it include those on
// the edge of the square.
func TestPointsOnADiscsEdgeAreFree(t *testing.T) {
	d := Disc{0, 0, 1}
	g := NewGrid([4]float64{-10, 10, -10, 10}, [2]float64{0.1, 0.1}, []Disc{d})
	points := 0
	g.Near(d, 1, func(i int, distance float64) {
		points++
		x, y := float64(i%g.NX)*Cell-10, float64(i/g.NX)*Cell-10
		goal := x > -0.1 && x < 0.3 && y > -0.1 && y < 0.3
		if want := distance < 1 && !goal; math.IsInf(float64(g.Rate[i]), 1) != want || !want && g.Rate[i] != 1 {
			t.Errorf("point %.1f, %.1f has the rate %v", x, y, g.Rate[i])
		}
	})
	if points != 11*11 || g.Rate[50*g.NX+55] != 1 || g.Rate[45*g.NX+50] != 1 {
		t.Errorf("%d points are near the disc", points)
	}
}

// The cost-to-go solves the discretised eikonal equation at each free point but those next to the goal: the squares of its rises from the
// cheaper neighbour along either axis sum to that of rate times cell. What is blocked or cut off has none. It starts from any upper bound.
func TestCostToGoIsASolution(t *testing.T) {
	rng := rand.New(rand.NewPCG(9001, 13))
	workspaces := [][4]float64{{0, 100, 0, 1}, {0, 1, 0, 100}, {-10, 10, -10, 10}, {0, 4, 0, 3}, {0, 2, -3, 3}}
	for trial := range 40 {
		w := workspaces[trial%len(workspaces)]
		inset := 0.3 * float64(trial%2)
		goal := [2]float64{w[trial/2%2] + inset, w[2+trial/4%2] - inset} // in turn near each corner
		if trial%5 > 2 {
			goal = [2]float64{w[0] + (w[1]-w[0])*rng.Float64(), w[2] + (w[3]-w[2])*rng.Float64()}
		}
		var discs []Disc
		for range trial % 4 * 4 {
			discs = append(discs, Disc{w[0] + (w[1]-w[0])*rng.Float64(), w[2] + (w[3]-w[2])*rng.Float64(), 0.3 + 0.4*rng.Float64()})
		}
		g := NewGrid(w, goal, discs)
		for i := range g.Rate {
			if trial%3 == 0 {
				g.Rate[i] *= 1 + 2*rng.Float32()
			}
		}
		start := map[int]bool{}
		g.corners(goal, func(i int, _ float64) { start[i] = true })
		check := func() {
			value := func(ix, iy int) float64 {
				if ix < 0 || iy < 0 || ix >= g.NX || iy >= g.NY {
					return math.Inf(1)
				}
				return float64(g.Value[iy*g.NX+ix])
			}
			for i, v := range g.Value {
				ix, iy := i%g.NX, i/g.NX
				a, b := min(value(ix-1, iy), value(ix+1, iy)), min(value(ix, iy-1), value(ix, iy+1))
				if blocked := math.IsInf(float64(g.Rate[i]), 1); blocked || math.IsInf(min(a, b), 1) {
					if !math.IsInf(float64(v), 1) && !start[i] {
						t.Fatalf("trial %d: point %d, %d has the cost %v", trial, ix, iy, v)
					}
					continue
				}
				if start[i] {
					continue
				}
				rise := math.Hypot(max(0, float64(v)-a), max(0, float64(v)-b))
				if f := float64(g.Rate[i]) * Cell; math.Abs(rise-f) > 2e-4*float64(v)+1e-3*f {
					t.Fatalf("trial %d, goal %v: point %d, %d of cost %v rises by %v, want %v", trial, goal, ix, iy, v, rise, f)
				}
			}
		}
		g.Solve(goal, nil)
		check()
		upper := *g
		upper.Value = slices.Clone(g.Value)
		for i := range g.Rate {
			if g.Rate[i] > 1 && trial%2 == 0 {
				g.Rate[i] = 1 + (g.Rate[i]-1)*rng.Float32()
			}
		}
		g.Solve(goal, &upper)
		check()
		if &upper.Value[0] == &g.Value[0] {
			t.Fatal("the bound is overwritten")
		}
	}
}

// A point is connected with a goal where steps to any of eight neighbours lead over free points from one's cell to the other's.
func TestReachableIsAPathOfFreePoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(9001, 14))
	answers := map[bool]int{}
	for range 400 {
		g := NewGrid([4]float64{0, 1.4, 0, 1}, [2]float64{0, 0}, nil)
		inside := func() [2]float64 { return [2]float64{1.4 * rng.Float64(), rng.Float64()} }
		start, goal := inside(), inside()
		for i := range g.Rate {
			if rng.IntN(5) < 3 {
				g.Rate[i] = float32(math.Inf(1))
			}
		}
		// The slow way: what is next to something connected is connected, until nothing changes.
		connected := make([]bool, len(g.Rate))
		g.corners(goal, func(i int, _ float64) { connected[i] = true })
		for changed := true; changed; {
			changed = false
			for i := range connected {
				for j := range connected {
					near := max(i%g.NX-j%g.NX, j%g.NX-i%g.NX, i/g.NX-j/g.NX, j/g.NX-i/g.NX) == 1
					if near && connected[i] && !connected[j] && g.Rate[j] == 1 {
						connected[j], changed = true, true
					}
				}
			}
		}
		want := false
		g.corners(start, func(i int, _ float64) { want = want || connected[i] })
		if got := g.reachable(start, goal); got != want {
			t.Fatalf("from %v to %v over %v: %v, want %v", start, goal, g.Rate, got, want)
		}
		answers[want]++
	}
	if answers[true] < 50 || answers[false] < 50 {
		t.Errorf("answers %v", answers)
	}
}

// The grid of one of a few robots spans the workspace, that of one in a crowd 8 m around its way, within the workspace.
func TestWhatAGridSpans(t *testing.T) {
	p := Params{Workspace: [4]float64{-30, 29, -28, 31}, Robots: 13}
	for _, c := range []struct {
		robots      int
		start, goal [2]float64
		want        [4]float64
	}{
		{12, [2]float64{-3.2, 4.1}, [2]float64{5.5, -2.7}, p.Workspace},
		{13, [2]float64{-3.2, 4.1}, [2]float64{5.5, -2.7}, [4]float64{-12, 14, -11, 13}},
		{13, [2]float64{5.5, -2.7}, [2]float64{-3.2, 4.1}, [4]float64{-12, 14, -11, 13}},
		{13, [2]float64{-25, -25}, [2]float64{-20, -18}, [4]float64{-30, -12, -28, -10}},
		{13, [2]float64{25, 26}, [2]float64{20, 18}, [4]float64{12, 29, 10, 31}},
	} {
		if p.Robots = c.robots; p.Around(c.start, c.goal) != c.want {
			t.Errorf("%+v: %v", c, p.Around(c.start, c.goal))
		}
	}
}

// The points of a passage are all of the grid next to the line through the middle of the gap.
func TestPassagesMissNoPoint(t *testing.T) {
	g := NewGrid([4]float64{-5, 5, -5, 5}, [2]float64{0, 0}, nil)
	for _, heading := range []float64{0, 0.4, 0.8, 1.3, 2.2, -1.9, -0.5} {
		dx, dy := math.Cos(heading), math.Sin(heading)
		a := Disc{-0.3, 0.4, 0.8}
		b := Disc{a.X + 2.05*dx, a.Y + 2.05*dy, 0.45}
		mx, my := a.X+1.2*dx, a.Y+1.2*dy
		seen := map[int]bool{}
		g.Passages([]Disc{a, b}, 0.3, 0.5, func(point int, _, _ float64) { seen[point] = true })
		for i := range g.Rate {
			px, py := g.X0+float64(i%g.NX)*Cell-mx, g.Y0+float64(i/g.NX)*Cell-my
			across, along := math.Abs(py*dx-px*dy), math.Abs(px*dx+py*dy)
			within := min(Cell/math.Sqrt2-along, 0.6-across, 0.6-math.Abs(px), 0.6-math.Abs(py))
			if math.Abs(within) > 1e-9 && seen[i] != (within > 0) {
				t.Errorf("heading %v: point %v, %v from the middle is visited: %v", heading, px, py, seen[i])
			}
		}
	}
	// Discs that leave exactly what is clear have a passage.
	met := 0
	g.Passages([]Disc{{0, 0, 0.5}, {1.5, 0, 0.5}}, 0.25, 1, func(int, float64, float64) { met++ })
	if met == 0 {
		t.Error("a gap of what is clear is no passage")
	}
}
