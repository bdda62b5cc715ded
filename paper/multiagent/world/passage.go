package world

import "math"

// passageReach is how far before and behind the narrowest place of a passage the
// points of a grid stand for its middle, m.
const passageReach = 0.6

// Passages visits, for every pair of discs that leaves from clear to as much as
// room and a cell on either side of the middle of the gap between them, the grid's points next to the
// line through that middle, with the points of the line that they stand for. A
// gap that is narrower than a cell has otherwise only points that are too close to
// one side, or none.
func (g *Grid) Passages(discs []Disc, clear, room float64, visit func(point int, x, y float64)) {
	halfDiagonal := Cell / math.Sqrt2
	for j, b := range discs {
		for _, a := range discs[:j] {
			dx, dy := b.X-a.X, b.Y-a.Y
			d := math.Hypot(dx, dy)
			half := (d - a.R - b.R) / 2
			if d == 0 || half < clear || half > room+halfDiagonal {
				continue
			}
			dx, dy = dx/d, dy/d
			mx, my := a.X+dx*(a.R+half), a.Y+dy*(a.R+half)
			g.Near(Disc{mx, my, 0}, passageReach, func(point int, _ float64) {
				px, py := g.X0+float64(point%g.NX)*Cell-mx, g.Y0+float64(point/g.NX)*Cell-my
				if offset := py*dx - px*dy; math.Abs(px*dx+py*dy) <= halfDiagonal && math.Abs(offset) <= passageReach {
					visit(point, mx-offset*dy, my+offset*dx)
				}
			})
		}
	}
}
