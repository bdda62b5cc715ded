package gallery

import (
	"context"
	"math"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// temperatures are all that is measured of the reactor, whose concentrations are not below zero.
func temperatures() *domain.Measurement {
	none := math.Inf(1)
	return &domain.Measurement{
		Outputs: []domain.Variable{{Name: "reactor", Unit: "K"}, {Name: "jacket", Unit: "K"}}, Deviation: []float64{0.1, 0.1},
		Real: func(s, _, _, y []float64) { y[0], y[1] = s[2], s[3] }, Dual: func(s, _, _, y []complex128) { y[0], y[1] = s[2], s[3] },
		Lo: []float64{0, 0, -none, -none}, Hi: []float64{none, none, none, none},
	}
}

// offEstimates is the root mean square error of the concentrations that the exact solver decides by, mol/l, and the regret, %.
func offEstimates(t *testing.T, window, episodes int) (off float64, r *closedloop.Result) {
	t.Helper()
	y := cstr.System()
	y.Measurement = temperatures()
	y.Measurement.Window = window
	c := require.Get(gpc.NewCase(require.Get(require.Get(y.UncertainGains(0.1))(t).Case())(t)))(t)
	n := 0.0
	opt := closedloop.Options{Episodes: episodes, Seed: 5, Preference: domain.Preference{Adaptive: true}, Visit: func(e *closedloop.EpisodeRecord) {
		for i := range e.Lines[1:] {
			before, now := &e.Lines[i], &e.Lines[i+1]
			for k := range 2 { // what an action leads to is the state of the next decision
				off += (before.S[k] - now.X[k]) * (before.S[k] - now.X[k])
				n++
			}
		}
	}}
	r = require.Get(c.Evaluate(context.Background(), gpc.Setup{Method: "nmpc"}, engine.Options{}, opt))(t)
	return math.Sqrt(off / n), r
}

// With temperatures alone measured and gains of feed and cooling that nobody knows, the concentrations that a window finds are no farther
// off than the filter's, in the same plants under the same noise.
func TestAWindowOfTheReactor(t *testing.T) {
	if testing.Short() {
		t.Skip("drives a reactor by thousands of windows; a reaction and a pendulum are tests of closedloop/estimate")
	}
	const episodes = 8
	filter, a := offEstimates(t, 0, episodes)
	window, b := offEstimates(t, 10, episodes)
	t.Logf("root mean square error %.4g mol/l by the filter, %.4g by a window of 10; regret %v %% and %v %%, safe %v and %v", filter, window, a.RegretPct, b.RegretPct, a.Safe, b.Safe)
	if !(window < 1.02*filter) {
		t.Errorf("the concentrations of a window are off by %.4g mol/l, of the filter by %.4g", window, filter)
	}
}
