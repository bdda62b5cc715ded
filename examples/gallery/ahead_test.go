package gallery

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/examples/gallery/hvac"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// dayCost is what an episode of the zone with a forecast costs by `nmpc`, which is told weather and price as they are now where it is blind,
// and whether it is safe.
func dayCost(t *testing.T, c *gpc.Case, pref domain.Preference, index int, blind bool) (cost float64, safe bool) {
	t.Helper()
	k := require.Get(c.Controller(nil, gpc.Setup{Method: "nmpc"}))(t)
	e := require.Get(c.Definition().Plant.Episode(11, index, domain.EpisodeOptions{Preference: pref}))(t)
	require.OK(t, k.Reset(e))
	s, told, u := make([]float64, c.Spec().MeasuredSize()), make([]float64, c.Spec().ContextSize()), make([]float64, 1)
	for safe = true; !e.Done(); {
		e.Observe(s, told)
		for _, signal := range [][]float64{told[:7], told[7:14]} {
			if now := dual.Along(signal, told[len(told)-1]); blind {
				for i := range signal {
					signal[i] = now
				}
			}
		}
		require.Get(k.Decide(s, told, pref, u))(t)
		out := require.Get(e.Apply(u))(t)
		cost, safe = cost+out.Cost, safe && c.Spec().Keeps(out.Margin)
	}
	return cost, safe
}

// Who knows weather and price of the day heats for less than who takes them to stay as they are, on the same days.
func TestTheDayAheadIsWorthSomething(t *testing.T) {
	y := hvac.Ahead()
	c := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
	days := 6
	if testing.Short() {
		days = 2
	}
	saving := domain.Preference{W: []float64{0.1, 0.9}} // what energy costs counts
	knowing, blind := 0.0, 0.0
	for index := range days {
		cost, safe := dayCost(t, c, saving, index, false)
		dearer, _ := dayCost(t, c, saving, index, true)
		if !safe {
			t.Errorf("day %d: a limit is broken by who knows it ahead", index)
		}
		knowing, blind = knowing+cost, blind+dearer
	}
	t.Logf("%d days cost %.4g, and %.2f %% more where nothing is known ahead", days, knowing, 100*(blind/knowing-1))
	if !(blind > 1.002*knowing) {
		t.Errorf("%d days cost %.4g knowing them, %.4g blind", days, knowing, blind)
	}
}

// The knots are drawn for samples and stand in the context of the map; the system keeps its program, and the file of it is the same system.
func TestKnotsAreOfTheContext(t *testing.T) {
	y := hvac.Ahead()
	c := require.Get(y.Case())(t)
	if n := c.Problem.Spec().ContextSize(); n != 19 {
		t.Errorf("%d context entries, want 7 knots of weather and 7 of price, 4 more and the clock", n)
	}
	samples := require.Get(c.Solver.Solve(0, scenarioOf(y.Scenario, 0.3), domain.Preference{Adaptive: true}, domain.WeightedSum, 1))(t)
	for _, v := range samples {
		if v.C[7] != samples[0].C[7] || v.C[0] != samples[0].C[0] {
			t.Fatalf("a sample has the knots %v, the first has %v", v.C[:14], samples[0].C[:14])
		}
	}
	if other := require.Get(c.Solver.Solve(0, scenarioOf(y.Scenario, 0.6), domain.Preference{Adaptive: true}, domain.WeightedSum, 1))(t); other[0].C[7] == samples[0].C[7] {
		t.Error("another scenario has the same price")
	}
}

func scenarioOf(axes []domain.Variable, share float64) (p []float64) {
	for _, v := range axes {
		p = append(p, v.Lo+share*(v.Hi-v.Lo))
	}
	return p
}

// A signal is the line through its knots.
func TestAlongIsTheLineThroughTheKnots(t *testing.T) {
	knots := []float64{1, 3, 2, 2, -1}
	for share, want := range map[float64]float64{-0.5: 1, 0: 1, 0.125: 2, 0.25: 3, 0.375: 2.5, 0.75: 2, 0.875: 0.5, 1: -1, 2: -1} {
		if got := dual.Along(knots, share); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v it is %v, want %v", share, got, want)
		}
	}
	varying := make([]complex128, len(knots))
	for i, v := range knots {
		varying[i] = dual.Seed(v, 0)
	}
	if got := dual.Derivative(dual.Along(varying, dual.Seed(0.1, 1))); math.Abs(got-8) > 1e-12 {
		t.Errorf("its slope in the first part is %v, want 8", got)
	}
	varying[1] = dual.Seed(3, 1)
	if got := dual.Derivative(dual.Along(varying, dual.Seed(0.3125, 0))); math.Abs(got-0.75) > 1e-12 {
		t.Errorf("its derivative in the second knot is %v, want 0.75", got)
	}
}
