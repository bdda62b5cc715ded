package bundled_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/bundled"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// With switched inputs the points are plans of the method: the first is its own decision, all keep their limits, they spread over both objectives, and a
// search from neighbours' plans finds better ones than the map's guess alone. The same observation has the same front again.
func TestAFrontOfSwitchedInputs(t *testing.T) {
	catalogue := bundled.Cases()
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	c := require.Get(catalogue.Find("water-tower"))(t)
	obs := require.Get(c.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	opt := batchnav.FrontOptions{Weights: dataset.Proper(2, 12)}
	of := func(method string) *batchnav.Front {
		setup := require.Get(c.Setup(method, ""))(t)
		f := require.Get(c.Fronts(e, setup, 12))(t)
		front := require.Get(f.Front(t.Context(), obs, opt))(t)
		if again := require.Get(f.Front(t.Context(), obs, opt))(t); !reflect.DeepEqual(front, again) {
			t.Errorf("%s: the same observation has another front", method)
		}
		k, u := require.Get(c.Controller(e, setup))(t), make([]float64, c.Spec().ActionSize())
		require.OK(t, k.Reset(nil))
		require.Get(k.Decide(obs.S, obs.C, domain.Preference{W: opt.Weights[0]}, u))(t)
		if first := front.Points[0]; len(front.Points) != 12 || !slices.Equal(first.U, u) {
			t.Errorf("%s: %d points, the first acts %v, a decision %v", method, len(front.Points), first.U, u)
		}
		if _, err := f.Front(t.Context(), obs, batchnav.FrontOptions{Weights: opt.Weights, LookAhead: 5}); err == nil || !strings.Contains(err.Error(), "look-ahead 5") {
			t.Errorf("%s: a look-ahead of its own: %v", method, err)
		}
		return front
	}
	guess, search := of("direct"), of("search-512")
	standing := 0
	for _, p := range search.Points {
		if !p.Feasible {
			t.Errorf("weights %v break a limit: %v", p.W, p.Margin)
		}
		if !p.Dominated {
			standing++
		}
	}
	if ratio := gpc.HypervolumeRatio(guess, search); standing < 8 || search.LookAhead != 48 || !(ratio < 1) {
		t.Errorf("%d of 12 points stand, %d decisions ahead, the guess has %v of their hypervolume", standing, search.LookAhead, ratio)
	}
	one := require.Get(catalogue.Find("fishing"))(t)
	f := require.Get(one.Fronts(e, require.Get(one.Setup("direct", ""))(t), 1))(t)
	obs = require.Get(one.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	if front := require.Get(f.Front(t.Context(), obs, batchnav.FrontOptions{}))(t); len(front.Points) != 1 || front.Knee != 0 {
		t.Errorf("of one objective: %+v", front)
	}
}
