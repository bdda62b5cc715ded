package gallery

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// What is kept off the limits is kept off wherever margins are evaluated: one by one, with derivatives, and by
// the lanes that the solver has; nothing of it is in the plant.
func TestWhatIsKeptOffIsKeptOffEverywhere(t *testing.T) {
	c := require.Get(quadrotor.System().Case())(t)
	spec := c.Problem.Spec()
	off := domain.NewBackoff(spec)
	tight := require.Get(c.Tightened(off))(t)
	nm, ns, nc := len(spec.Margins), spec.MeasuredSize(), spec.ContextSize()
	for i := range off.Row(0.2) {
		off.Row(0.2)[i] = 0.01 * float64(i+1)
	}
	x := []float64{-1, 0.1, 0.05, 0.3, -0.2, 0.1, 1.5, 0.2, 0.2}
	u := []float64{2.5, 2.4}
	plain, m, next, j := make([]float64, nm), make([]float64, nm), make([]float64, ns+nc), make([]float64, 2)
	c.Problem.Margins(x[:ns], x[ns:], u, plain)
	check := func(how string, m []float64) {
		t.Helper()
		for i, v := range m {
			if math.Abs(plain[i]-0.01*float64(i+1)-v) > 1e-9 {
				t.Errorf("%s: margin %s is %v, want %v less %v", how, spec.Margins[i].Name, v, plain[i], 0.01*float64(i+1))
			}
		}
	}
	tight.Problem.Margins(x[:ns], x[ns:], u, m)
	check("one by one", m)
	require.Get(domain.AbilitiesOfProblem(tight.Problem).Derivatives.Stages())(t).Evaluate(1, x, u, next, j, m)
	check("on lanes", m)
	x[ns+nc-1] = 0.22 // another stage
	c.Problem.Margins(x[:ns], x[ns:], u, plain)
	tight.Problem.Margins(x[:ns], x[ns:], u, m)
	for i := range m {
		if m[i] != plain[i] {
			t.Errorf("at another stage margin %s is %v, want %v", spec.Margins[i].Name, m[i], plain[i])
		}
	}
	if tight.Plant != c.Plant {
		t.Error("the plant is another one")
	}
}

// From these starts, near an end of the track, no first plan was found that keeps off all that is asked for, and the pole fell: what is
// kept off then is less. A plan in which the pole falls keeps no limit, however well the cart keeps to its track.
func TestThePoleStandsWhereThereIsLittleRoom(t *testing.T) {
	y := cartpole.Track()
	y.Measurement = domain.Whole(&domain.Spec{Measured: y.State}, 0.01)
	def := require.Get(y.Case())(t)
	c := require.Get(require.Get(gpc.NewCase(def))(t).Robust(3))(t)
	opt := closedloop.Options{Episodes: 200, ShardIndex: 43, ShardCount: 141, Seed: 501, Preference: domain.Preference{Adaptive: true}}
	got := require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "nmpc"}, engine.Options{}, opt))(t)
	if got.Episodes != 2 || got.Safe != 1 {
		t.Errorf("of %d episodes a share of %v is safe: %v", got.Episodes, got.Safe, got.Unsafe)
	}
	f := require.Get(c.Estimator())(t)
	off := domain.NewBackoff(c.Spec())
	margin := require.Get(estimate.NewMargin(def.Problem, off, f, 3))(t)
	held := make([]float64, 1)
	for _, at := range []struct {
		angle float64
		keeps bool
	}{{0, true}, {0.3, false}} {
		if got := margin.Keeps([]float64{0, 0, at.angle, 0}, []float64{0, 0}, held); got != at.keeps {
			t.Errorf("without a force, from %v rad: limits are kept %v", at.angle, got)
		}
	}
}
