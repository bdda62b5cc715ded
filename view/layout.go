package view

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/graphlayout"
)

const (
	// apart is the distance of neighbours on the map, in units of the page.
	apart = 60.0
	// aside keeps buses off the edge of the map.
	aside = 40.0
)

func newGrid(chart *domain.Chart) *Grid {
	g := &Grid{Chart: chart, Positions: graphlayout.Of(len(chart.Buses), chart.Branches)}
	lo := [2]float64{math.Inf(1), math.Inf(1)}
	for _, p := range g.Positions {
		lo[0], lo[1] = min(lo[0], p[0]), min(lo[1], p[1])
	}
	for i, p := range g.Positions {
		at := [2]float64{(p[0]-lo[0])*apart + aside, (p[1]-lo[1])*apart + aside}
		g.Positions[i], g.Width, g.Height = at, max(g.Width, at[0]+aside), max(g.Height, at[1]+aside)
	}
	return g
}
