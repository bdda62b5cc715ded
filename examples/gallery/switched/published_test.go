package switched

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// cost is that of a plan whose decisions are the actions of these letters.
func cost(t *testing.T, y equations.System, start []float64, plan string, actions map[rune][]float64) float64 {
	t.Helper()
	if len(plan) != y.Steps {
		t.Fatalf("the plan has %d decisions, want %d", len(plan), y.Steps)
	}
	e := begin(y, require.Get(equations.New(y))(t), start)
	for _, letter := range plan {
		e.act(actions[letter])
	}
	return e.cost[0]
}

// TestFishingOptimum: the optimum of the grid that exact solvers find is that of the system.
func TestFishingOptimum(t *testing.T) {
	plan := "000000" + "11111" + "000" + "1" + strings.Repeat("0", 15)
	if j := cost(t, Fishing(), []float64{0.5, 0.7}, plan, map[rune][]float64{'0': {0}, '1': {1}}); math.Abs(j-1.360138) > 1e-6 {
		t.Errorf("the optimal plan costs %.7f, want 1.360138", j)
	}
}

// TestThreeTanksComeToThePublishedCost: with one valve open, a plan is as good as the published one, which is above
// the published bound.
func TestThreeTanksComeToThePublishedCost(t *testing.T) {
	plan := "2222222222222222222222222222222222222322222222232222222222222322222222222221121221221222122212212221"
	j := cost(t, ThreeTank(), []float64{2, 2, 2}, plan, map[rune][]float64{'1': {1, 0, 0}, '2': {0, 1, 0}, '3': {0, 0, 1}})
	if j < 8.775979 || j > 8.789487 {
		t.Errorf("the plan costs %.6f, want 8.775979 to 8.789487", j)
	}
}

// TestSubwayArrives: the times of changes that bring the train of the original model, whose characteristics jump, to
// rest at the station do so here.
func TestSubwayArrives(t *testing.T) {
	s, next := []float64{0, 0, 0}, make([]float64, 3)
	begin := 0.0
	for _, phase := range []struct{ mode, end float64 }{{1, 3.64338}, {2, 12.60705}, {1, 45.78275}, {3, 57.16005}, {4, subwaySpan}} {
		dual.RK4(subwayODE[float64], s, nil, []float64{phase.mode}, next, phase.end-begin, 2000)
		s, next, begin = next, s, phase.end
	}
	if math.Abs(s[0]-2112) > 5 || math.Abs(s[1]) > 0.5 {
		t.Errorf("the train is at %.1f ft with %.2f ft/s, want 2112 ft at rest", s[0], s[1])
	}
}

// TestReferenceOfTheTowerIsAsGoodAsBonmins: in a minute of CPU bonmin finds a plan of 24.2037 from this start.
func TestReferenceOfTheTowerIsAsGoodAsBonmins(t *testing.T) {
	c := require.Get(WaterTower().Case())(t)
	pref := domain.Preference{W: []float64{0.5, 0.5}}
	ep := require.Get(c.Plant.Episode(7, 2, domain.EpisodeOptions{Preference: pref}))(t)
	if cost, _, err := ep.Oracle(); err != nil || cost > 24.20370+1e-4 {
		t.Errorf("the reference costs %v (%v), want at most 24.2037", cost, err)
	}
}
