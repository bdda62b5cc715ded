package view

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
)

// Buses stand on the map, apart from each other, and always at the same place.
func TestPositions(t *testing.T) {
	k := paper.Cases()
	for _, name := range []string{"opf30", "opf:case118.m"} {
		c := require.Get(k.Find(name))(t)
		g := newGrid(domain.AbilitiesOfProblem(c.Definition().Problem).Chart())
		if g.Width < g.Height {
			t.Errorf("%s: %v wide and %v high", name, g.Width, g.Height)
		}
		for i, p := range g.Positions {
			if !(p[0] >= border-1e-9 && p[0] <= g.Width-border+1e-9 && p[1] >= border-1e-9 && p[1] <= g.Height-border+1e-9) {
				t.Errorf("%s: bus %d is at %v of %v × %v", name, i, p, g.Width, g.Height)
			}
			for j := range i {
				if math.Hypot(p[0]-g.Positions[j][0], p[1]-g.Positions[j][1]) < 0.12*spacing {
					t.Errorf("%s: buses %d and %d stand on each other", name, j, i)
				}
			}
		}
		if !slices.Equal(g.Positions, newGrid(g.Chart).Positions) {
			t.Errorf("%s has two maps", name)
		}
	}
}
