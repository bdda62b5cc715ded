package bundled_test

import (
	"context"
	"errors"
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
	"github.com/gpc-engine/gpc/serve"
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
		f := require.Get(c.Fronts(e, setup))(t)
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
	f := require.Get(one.Fronts(e, require.Get(one.Setup("direct", ""))(t)))(t)
	obs = require.Get(one.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	if front := require.Get(f.Front(t.Context(), obs, batchnav.FrontOptions{}))(t); len(front.Points) != 1 || front.Knee != 0 {
		t.Errorf("of one objective: %+v", front)
	}
}

// With switched inputs the exact front is of references: it keeps every limit, and the plans of a search have no more of its hypervolume. Who has left
// ends it.
func TestAnExactFrontOfSwitchedInputs(t *testing.T) {
	catalogue := bundled.Cases()
	c := require.Get(catalogue.Find("water-tower"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	obs := require.Get(c.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	opt := batchnav.FrontOptions{Weights: dataset.Proper(2, 3)}
	exact := require.Get(c.ExactFront(t.Context(), obs, opt, nil))(t)
	own := require.Get(require.Get(c.Fronts(e, require.Get(c.Setup("search-64", ""))(t)))(t).Front(t.Context(), obs, opt))(t)
	for i, p := range exact.Points {
		cost := func(j []float64) float64 { return p.W[0]*j[0] + p.W[1]*j[1] }
		if !p.Feasible || !(cost(p.J) <= cost(own.Points[i].J)*(1+1e-9)) {
			t.Errorf("weights %v: %v with a margin of %v, a search %v", p.W, p.J, p.Margin, own.Points[i].J)
		}
	}
	if ratio := gpc.HypervolumeRatio(own, exact); len(exact.Points) != 3 || exact.LookAhead != 48 || exact.Incomplete || !(ratio < 1) {
		t.Errorf("%d points, %d decisions, a search has %v of their hypervolume", len(exact.Points), exact.LookAhead, ratio)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := c.ExactFront(ctx, obs, opt, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left is answered %v", err)
	}
	opt.TimeLimit = 1
	if late := require.Get(c.ExactFront(t.Context(), obs, opt, nil))(t); !late.Incomplete || len(late.Points) > 0 {
		t.Errorf("without time: %+v", late)
	}
}

// A server makes fronts of switched inputs as it makes exact ones: one at a time, in its time, and none in a slice of its dispatcher.
func TestAServerHasFrontsOfSwitchedInputs(t *testing.T) {
	catalogue := bundled.Cases()
	c := require.Get(catalogue.Find("water-tower"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	setup := require.Get(c.Setup("refine-64", ""))(t)
	s := require.Get(serve.New(c, e, serve.Options{Setup: setup}))(t)
	defer s.Close()
	obs := require.Get(c.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	request, opt := serve.Request{S: obs.S, C: obs.C}, batchnav.FrontOptions{Points: 6}
	want := require.Get(require.Get(c.Fronts(e, setup))(t).Front(t.Context(), obs, opt))(t)
	if got := require.Get(s.Front(t.Context(), request, opt))(t); !reflect.DeepEqual(got, want) {
		t.Errorf("served %+v, want %+v", got, want)
	}
	opt.TimeLimit = 1
	if late := require.Get(s.Front(t.Context(), request, opt))(t); !late.Incomplete || len(late.Points) > 0 {
		t.Errorf("without time: %+v", late)
	}
	if a := require.Get(s.ExactFront(t.Context(), request, 2, opt))(t); !a.Exact.Incomplete || a.Same != nil {
		t.Errorf("exact, without time: %+v", a.Exact)
	}
	if _, err := s.Aside().Front(t.Context(), request, batchnav.FrontOptions{}); err == nil || !strings.Contains(err.Error(), "takes seconds") {
		t.Errorf("aside: %v", err)
	}
}
