package gpc_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/bundled"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/tensor"
)

// A dispatch whose measured state is lost keeps every limit: the loads are known, and the
// fallback is projected as a decision is.
func TestBlindDispatchKeepsTheLimits(t *testing.T) {
	cases := paper.Cases()
	c := require.Get(cases.Find("opf30"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Threads: 1}))(t)
	defer e.Close()
	spec := c.Spec()
	s, cx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for _, regime := range []string{"envelope", "swing"} {
		ep := require.Get(c.Definition().Plant.Episode(991, 0, domain.EpisodeOptions{Regime: regime}))(t)
		ctrl := require.Get(c.Controller(e, gpc.Setup{Method: "direct"}))(t)
		require.OK(t, ctrl.Reset(ep))
		for step := 0; !ep.Done(); step++ {
			ep.Observe(s, cx)
			for i := range s {
				s[i] = math.NaN()
			}
			if _, err := ctrl.Decide(s, cx, domain.Preference{Adaptive: true}, u); err != nil {
				t.Fatal(err)
			}
			out := require.Get(ep.Apply(u))(t)
			if !spec.Keeps(out.Margin) {
				t.Errorf("%s, step %d: margin %.2e", regime, step, out.Margin)
			}
		}
	}
}

// Whatever is observed, every method without a map answers with numbers, and flags it unless it knows the plant.
func TestMethodsAnswerWhatIsNoObservation(t *testing.T) {
	cases := bundled.Cases()
	for _, c := range []*gpc.Case{require.Get(cases.Find("integrator-convex"))(t), require.Get(cases.Find("multiagent-static"))(t), require.Get(cases.Find("double-tank"))(t)} {
		spec, pref := c.Spec(), domain.Preference{Adaptive: true}
		if spec.ObjectiveSize() == 1 {
			pref = domain.Preference{W: []float64{1}}
		}
		ep := require.Get(c.Definition().Plant.Episode(991, 0, domain.EpisodeOptions{Preference: pref}))(t)
		s, cx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
		for _, m := range c.Methods() {
			if m.Needs != 0 || m.New == nil || m.Group == domain.GroupExact {
				continue
			}
			k := require.Get(c.Controller(nil, gpc.Setup{Method: m.Name}))(t)
			require.OK(t, k.Reset(ep))
			ep.Observe(s, cx)
			s[0] = math.NaN()
			if d, err := k.Decide(s, cx, pref, u); err != nil || d.Solved() || !tensor.Finite(u) {
				t.Errorf("%s, %s: %v is executed, %+v, error %v", c.Name(), m.Name, u, d, err)
			}
		}
	}
}
