package view

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/paper"
)

// stress of a map: the mean squared error of distances, relative to those along the branches.
func stress(at [][2]float64, branches []domain.ChartBranch) float64 {
	d := distances(len(at), branches)
	sum, pairs := 0.0, 0.0
	for i := range at {
		for j := range i {
			off := math.Hypot(at[i][0]-at[j][0], at[i][1]-at[j][1])/apart/d[i][j] - 1
			sum, pairs = sum+off*off, pairs+1
		}
	}
	return sum / pairs
}

// Buses stand where the branches want them, apart from each other, and always at the same place.
func TestPlaces(t *testing.T) {
	k := paper.Cases()
	for name, most := range map[string]float64{"opf30": 0.06, "opf:case118.m": 0.09} {
		c := must.Get(k.Find(name))(t)
		g := newGrid(c.Definition().Problem.(domain.Charted).Chart())
		if s := stress(g.Places, g.Branches); !(s < most) {
			t.Errorf("%s: the stress is %v, want less than %v", name, s, most)
		}
		if g.Width < g.Height {
			t.Errorf("%s: %v wide and %v high", name, g.Width, g.Height)
		}
		for i, p := range g.Places {
			if !(p[0] >= aside-1e-9 && p[0] <= g.Width-aside+1e-9 && p[1] >= aside-1e-9 && p[1] <= g.Height-aside+1e-9) {
				t.Errorf("%s: bus %d is at %v of %v × %v", name, i, p, g.Width, g.Height)
			}
			for j := range i {
				if math.Hypot(p[0]-g.Places[j][0], p[1]-g.Places[j][1]) < 0.12*apart {
					t.Errorf("%s: buses %d and %d stand on each other", name, j, i)
				}
			}
		}
		if !slices.Equal(g.Places, newGrid(g.Chart).Places) {
			t.Errorf("%s has two maps", name)
		}
	}
	for n, branches := range map[int][]domain.ChartBranch{1: nil, 2: nil, 3: {{From: 0, To: 1}, {From: 1, To: 0}}, 4: {{From: 0, To: 1}, {From: 2, To: 3}}} {
		for i, p := range place(n, branches) {
			if math.IsNaN(p[0]+p[1]) || math.IsInf(p[0]+p[1], 0) {
				t.Errorf("bus %d of %d is at %v", i, n, p)
			}
		}
	}
}
