package estimate_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// pushed is the differential equation of the cart.
func pushed[T dual.Scalar](s, c, u, ds []T) { ds[0], ds[1] = s[1], u[0]+c[0] }

// late is the cart of a differential equation with a delay.
func late(periods float64) equations.System {
	y := cart()
	y.ODE = &dual.Explicit{Real: pushed[float64], Dual: pushed[complex128], Span: 0.1, Substeps: 1}
	y.Real.Step, y.Dual.Step, y.Delay = nil, nil, periods
	return y
}

// driven is how many episodes of a method are safe, and the largest regret of those, %.
func driven(t *testing.T, c *gpc.Case, method string, episodes int) (safe int, worst float64) {
	t.Helper()
	o := closedloop.Options{Episodes: episodes, Seed: 5, Preference: adaptive, Visit: func(e *closedloop.EpisodeRecord) {
		if pct, ok := e.Regret(); ok {
			safe++
			worst = math.Max(worst, math.Abs(pct))
		}
	}}
	require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: method}, engine.Options{}, o))(t)
	return safe, worst
}

// With a delay the exact solver is as safe as without, and costs what the optimum of what it can still change does; one that
// does not know of the delay is neither.
func TestADelayIsPredictedAway(t *testing.T) {
	for _, periods := range []float64{1, 2.4} {
		def := require.Get(late(periods).Case())(t)
		c := require.Get(gpc.NewCase(def))(t)
		for method, episodes := range map[string]int{"nmpc": 6, "oracle": 1} {
			if safe, worst := driven(t, c, method, episodes); safe < episodes || worst > 0.01 {
				t.Errorf("delay %v, %s: %d of %d are safe, the largest regret is %.3g %%", periods, method, safe, episodes, worst)
			}
		}
		def.Delay.Periods = 0 // of the controllers, not of the plant
		if safe, worst := driven(t, require.Get(gpc.NewCase(def))(t), "nmpc", 6); safe == 6 && worst < 0.1 {
			t.Errorf("delay %v: a controller that does not know of it pays %.3g %%: the test shows nothing", periods, worst)
		}
	}
}

// What a decision is made for is the state in which its action begins to act: by what is measured whole, and by the estimate of
// a filter that measures the position alone.
func TestADecisionIsMadeForWhenItActs(t *testing.T) {
	for _, periods := range []float64{0, 0.3, 1, 1.6} {
		for _, filtered := range []bool{false, true} {
			y := late(periods)
			if filtered {
				m := seen()
				m.Deviation, m.Process, m.Unknown = []float64{1e-7}, nil, []domain.Unknown{{Context: 0, Deviation: 0.12}}
				y.Measurement = m
			}
			c := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
			if periods == 0 && !filtered {
				continue // nothing stands between
			}
			k := require.Get(c.Controller(nil, gpc.Setup{Method: "nmpc"}))(t)
			ep := require.Get(c.Definition().Plant.Episode(3, 1, domain.EpisodeOptions{Preference: adaptive}))(t)
			require.OK(t, k.Reset(ep))
			ahead := int(math.Ceil(periods))
			seen, cx, u, known := make([]float64, 2), make([]float64, 2), make([]float64, 1), make([]float64, 2)
			var predicted, truth [][]float64
			for !ep.Done() {
				s, now := make([]float64, 2), make([]float64, 2)
				ep.State(now)
				truth = append(truth, now)
				if filtered {
					domain.AbilitiesOfEpisode(ep).Measure(seen[:1], cx)
					require.Get(domain.AbilitiesOfController(k).DecideMeasured(seen[:1], cx, adaptive, s, known, u))(t)
				} else {
					ep.Observe(seen, cx)
					require.Get(domain.AbilitiesOfController(k).DecideMeasured(seen, cx, adaptive, s, known, u))(t)
				}
				predicted = append(predicted, s)
				require.Get(ep.Apply(u))(t)
			}
			for i := 6; i+ahead < len(truth); i++ { // by then a filter has found speed and wind
				for j, want := range truth[i+ahead] {
					if d := math.Abs(predicted[i][j] - want); d > 1e-4 {
						t.Errorf("delay %v, filtered %t, decision %d: state %d is off by %v", periods, filtered, i, j, d)
					}
				}
			}
		}
	}
}

// What is kept off the limits counts what cannot be measured in time: with a delay they hold as well, and more is kept off.
func TestLimitsHoldBehindADelay(t *testing.T) {
	y := cart()
	y.Measurement, y.Delay = seen(), 2
	c := require.Get(require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t).Robust(4))(t)
	if safe, _ := driven(t, c, "nmpc", 10); safe < 10 {
		t.Errorf("%d of 10 are safe", safe)
	}
	c = require.Get(c.Robust(0))(t)
	if safe, _ := driven(t, c, "nmpc", 10); safe == 10 {
		t.Error("all are safe without anything kept off: the test shows nothing")
	}
}
