package view

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/graphlayout"
)

const (
	// spacing is the distance of neighbours on the map, in units of the page.
	spacing = 60.0
	// border keeps buses off the edge of the map.
	border = 40.0
)

func newGrid(chart *domain.Chart) *Grid {
	g := &Grid{Chart: chart, Positions: graphlayout.Of(len(chart.Buses), chart.Branches)}
	lo := [2]float64{math.Inf(1), math.Inf(1)}
	for _, p := range g.Positions {
		lo[0], lo[1] = min(lo[0], p[0]), min(lo[1], p[1])
	}
	for i, p := range g.Positions {
		point := [2]float64{(p[0]-lo[0])*spacing + border, (p[1]-lo[1])*spacing + border}
		g.Positions[i], g.Width, g.Height = point, max(g.Width, point[0]+border), max(g.Height, point[1]+border)
	}
	return g
}
