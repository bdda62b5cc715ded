package gallery

import (
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The monitor of a system of equations works without a Tolerance: a cart far beyond every state of the
// data is off the map, though the map may decode it well, and no state of its closed loops is.
func TestAStateBeyondTheDataIsOffTheMap(t *testing.T) {
	all := gpc.Catalogue{Cases: []domain.Case{require.Get(cartpole.System().Case())(t)}, Models: models.Bundled}
	c := require.Get(require.Get(all.Find("cartpole"))(t).Guarded(domain.Guard{Off: true}))(t)
	loop := require.Get(c.Loop(require.Get(gpc.OpenEngine(engine.Options{Threads: 1}))(t), gpc.Setup{Method: "direct"}))(t)
	s, x := make([]float64, c.Spec().MeasuredSize()), make([]float64, c.Spec().ContextSize())
	for i := range 5 {
		loop.Reset()
		for ep := require.Get(c.Definition().Plant.Episode(11, i, adaptive))(t); !ep.Done(); {
			ep.Observe(s, x)
			d := require.Get(loop.Decide(s, x, adaptive.Preference))(t)
			if d.OffMap {
				t.Fatalf("episode %d: the state %v of a closed loop is off the map", i, s)
			}
			require.Get(ep.Apply(d.U))(t)
		}
	}
	require.Get(c.Definition().Plant.Episode(11, 0, adaptive))(t).Observe(s, x)
	for j, v := range c.Spec().Measured {
		far := append([]float64(nil), s...)
		far[j] += 40 * v.Scale()
		loop.Reset()
		if d := require.Get(loop.Decide(far, x, adaptive.Preference))(t); !d.OffMap || d.Fallback&domain.FallbackResidual == 0 {
			t.Errorf("%s at %.3g is on the map, with a residual of %.3g and a limit of %.3g", v.Name, far[j], d.Residual, d.Limit)
		}
	}
	decide := func(setup gpc.Setup, ref float64) *batchnav.Decision {
		setup.Method = "direct"
		loop := require.Get(c.Loop(require.Get(gpc.OpenEngine(engine.Options{Threads: 1}))(t), setup))(t)
		return require.Get(loop.Decide(s, append([]float64{ref}, x[1:]...), adaptive.Preference))(t)
	}
	for _, ref := range []float64{-40, 40, 1e6} {
		if d := decide(gpc.Setup{}, ref); !d.OffMap || d.Fallback&domain.FallbackResidual == 0 {
			t.Errorf("a reference of %g m is on the map, which was trained on -1 to 1 m", ref)
		}
	}
	m := *require.Get(c.Model(""))(t)
	m.Calibration.ContextRange = [][2]float64{{-0.6, 0.6}, {-1, 2}}
	for ref, off := range map[float64]bool{-0.61: true, -0.59: false, 0.59: false, 0.61: true} {
		if d := decide(gpc.Setup{Model: &m}, ref); d.OffMap != off {
			t.Errorf("a reference of %g m is off a map of -0.6 to 0.6 m: %v", ref, d.OffMap)
		}
	}
}
