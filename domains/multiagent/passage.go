package multiagent

import "math"

// passageReach is how far before and behind the narrowest place of a passage the
// points of a grid stand for its middle, m.
const passageReach = 0.6

// passages visits, for every pair of discs that leaves from clear to as much as
// room and a cell on either side of the middle of the gap between them, the grid's points next to the
// line through that middle, with the points of the line that they stand for. A
// gap that is narrower than a cell has otherwise only points that are too close to
// one side, or none.
func (g *grid) passages(discs []disc, clear, room float64, visit func(at int, x, y float64)) {
	aside := gridCell / math.Sqrt2
	for j, b := range discs {
		for _, a := range discs[:j] {
			dx, dy := b.x-a.x, b.y-a.y
			d := math.Hypot(dx, dy)
			half := (d - a.r - b.r) / 2
			if d == 0 || half < clear || half > room+aside {
				continue
			}
			dx, dy = dx/d, dy/d
			mx, my := a.x+dx*(a.r+half), a.y+dy*(a.r+half)
			g.near(disc{mx, my, 0}, passageReach, func(at int, _ float64) {
				px, py := g.x0+float64(at%g.nx)*gridCell-mx, g.y0+float64(at/g.nx)*gridCell-my
				if along := py*dx - px*dy; math.Abs(px*dx+py*dy) <= aside && math.Abs(along) <= passageReach {
					visit(at, mx-along*dy, my+along*dx)
				}
			})
		}
	}
}
