package gallery

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/examples/gallery/hvac"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// foreseeing is a system whose context begins with two signals of so many knots, and what is to be gained by knowing them.
type foreseeing struct {
	system   equations.System
	knots    int
	pref     domain.Preference
	episodes int
	worth    float64 // at least so many % of what an episode costs
}

// cost is what an episode costs by `nmpc`, which is told its signals as they are now where it is blind, and whether it is safe.
func (f *foreseeing) cost(t *testing.T, c *gpc.Case, index int, blind bool) (cost float64, safe bool) {
	t.Helper()
	k := require.Get(c.Controller(nil, gpc.Setup{Method: "nmpc"}))(t)
	e := require.Get(c.Definition().Plant.Episode(11, index, domain.EpisodeOptions{Preference: f.pref}))(t)
	require.OK(t, k.Reset(e))
	spec := c.Spec()
	s, told, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for safe = true; !e.Done(); {
		e.Observe(s, told)
		for _, signal := range [][]float64{told[:f.knots], told[f.knots : 2*f.knots]} {
			if now := dual.Along(signal, told[len(told)-1]); blind {
				for i := range signal {
					signal[i] = now
				}
			}
		}
		require.Get(k.Decide(s, told, f.pref, u))(t)
		out := require.Get(e.Apply(u))(t)
		cost, safe = cost+out.Cost, safe && spec.Keeps(out.Margin)
	}
	return cost, safe
}

// Who knows weather and price of the day heats for less than who takes them to stay as they are, on the same days; who knows where the
// goal will be flies for less than who sees where it is.
func TestWhatComesIsWorthSomething(t *testing.T) {
	for _, f := range []foreseeing{
		{hvac.Ahead(), 7, domain.Preference{W: []float64{0.1, 0.9}}, 6, 0.2}, // what energy costs counts
		{quadrotor.Ahead(), 5, domain.Preference{W: []float64{0.5, 0.5}}, 20, 0.5},
	} {
		t.Run(f.system.Name, func(t *testing.T) {
			c := require.Get(gpc.NewCase(require.Get(f.system.Case())(t)))(t)
			if testing.Short() {
				f.episodes = 2
			}
			knowing, blind := 0.0, 0.0
			for index := range f.episodes {
				cost, safe := f.cost(t, c, index, false)
				dearer, _ := f.cost(t, c, index, true)
				if !safe {
					t.Errorf("episode %d: a limit is broken by who knows what comes", index)
				}
				knowing, blind = knowing+cost, blind+dearer
			}
			t.Logf("%d episodes cost %.4g, and %.2f %% more where nothing is known ahead", f.episodes, knowing, 100*(blind/knowing-1))
			if !(100*(blind/knowing-1) > f.worth) {
				t.Errorf("%d episodes cost %.4g knowing what comes, %.4g blind", f.episodes, knowing, blind)
			}
		})
	}
}

// The knots are drawn for samples and stand in the context of the map, others beside a trajectory; the system keeps its program, and the file of it is the same system.
func TestKnotsAreOfTheContext(t *testing.T) {
	y := hvac.Ahead()
	c := require.Get(y.Case())(t)
	if n := c.Problem.Spec().ContextSize(); n != 19 {
		t.Errorf("%d context entries, want 7 knots of weather and 7 of price, 4 more and the clock", n)
	}
	samples := require.Get(c.Solver.Solve(0, scenarioOf(y.Scenario, 0.3), domain.Preference{Adaptive: true}, domain.WeightedSum, 1))(t)
	knots := func(k int) []float64 { return samples[k].C[:14] }
	if !slices.Equal(knots(1), knots(0)) {
		t.Errorf("the second sample of a trajectory has the knots %v, the first has %v", knots(1), knots(0))
	}
	if last := len(samples) - 1; knots(last)[0] == knots(0)[0] || knots(last)[7] == knots(0)[7] {
		t.Errorf("a sample beside the trajectory has the knots %v, which has %v: want those of a scenario near by", knots(last), knots(0))
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
