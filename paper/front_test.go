package paper_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/tensor"
)

// The exact fronts of Cases 1 and 3, of two and three objectives, are of the optima that their solvers find alone: they keep every limit, cost no more
// than the map's decisions under the same weights, and have about as much hypervolume. So few points of three objectives may have less than the map's.
func TestExactFrontsOfThePaper(t *testing.T) {
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	k := paper.Cases()
	for name, points := range map[string]int{"integrator-convex": 6, "opf30": 15} {
		c := require.Get(k.Find(name))(t)
		obs := require.Get(c.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		opt := batchnav.FrontOptions{Weights: dataset.Proper(c.Spec().ObjectiveSize(), points)}
		exact := require.Get(c.ExactFront(t.Context(), obs, opt, nil))(t)
		own := require.Get(require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t)))(t).Front(t.Context(), obs, opt))(t)
		if len(exact.Points) != points || exact.LookAhead != own.LookAhead {
			t.Fatalf("%s: %d of %d points, %d decisions", name, len(exact.Points), points, exact.LookAhead)
		}
		if score := domain.AbilitiesOfProblem(c.Definition().Problem).Score; score != nil { // both fronts count as the plant will
			J, m := make([]float64, c.Spec().ObjectiveSize()), make([]float64, len(c.Spec().Margins))
			for _, f := range []*batchnav.Front{exact, own} {
				if score(obs.S, obs.C, f.Points[0].U, J, m); !slices.Equal(J, f.Points[0].J) {
					t.Errorf("%s: %v at the first point, counted as %v", name, f.Points[0].J, J)
				}
			}
		}
		for i, p := range exact.Points {
			w := make([]float64, len(p.W)) // of the cost that the plant counts
			domain.AbilitiesOfProblem(c.Definition().Problem).Weights(domain.Preference{W: p.W}, w)
			if !p.Feasible || !(tensor.DotInOrder(w, p.J) <= tensor.DotInOrder(w, own.Points[i].J)*(1+1e-6)) {
				t.Errorf("%s, weights %v: %v with margin %v, the map %v", name, p.W, p.J, p.Margin, own.Points[i].J)
			}
		}
		if ratio := gpc.HypervolumeRatio(own, exact); !(ratio > 0.97 && ratio < 1.05) {
			t.Errorf("%s: the map has %v of the exact front's hypervolume", name, ratio)
		}
		opt.Polish = 10
		polished := require.Get(require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t)))(t).Front(t.Context(), obs, opt))(t)
		if ratio := gpc.HypervolumeRatio(polished, exact); !(ratio > 0.99 && ratio < 1.05) || polished.Polished < points/2 {
			t.Errorf("%s: %d polished points have %v of the exact front's hypervolume", name, polished.Polished, ratio)
		}
	}
}

// The paper's cases polish within no bounds: where there are some a plan stays as it is.
func TestThePapersPolishKnowsNoBounds(t *testing.T) {
	k := paper.Cases()
	for _, name := range []string{"integrator-convex", "opf30"} {
		c := require.Get(k.Find(name))(t)
		obs := require.Get(c.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		polish, given := domain.AbilitiesOfProblem(c.Definition().Problem).Polish, make([]float64, c.Spec().ActionSize())
		c.Definition().Problem.Fallback(obs.S, obs.C, given)
		for _, bounds := range [][]domain.Bound{nil, {{Objective: 0, Most: 1, Unit: 1}}} {
			plan := slices.Clone(given)
			if changed := polish(obs.S, obs.C, obs.Preference, bounds, plan, 5); changed != (bounds == nil) || changed == slices.Equal(plan, given) {
				t.Errorf("%s: with bounds %v changed %v, from %v to %v", name, bounds, changed, given, plan)
			}
		}
	}
}

// A goal counts to the end of the episode. In a dispatch nobody knows the loads beyond the next one, and a method says so.
func TestADispatchHasNoGoal(t *testing.T) {
	k := paper.Cases()
	for name, reached := range map[string]bool{"integrator-convex": true, "opf30": false, "opf-secure": false} {
		c := require.Get(k.Find(name))(t)
		err := require.Get(c.Resolve(require.Get(c.Setup("direct", ""))(t)))(t).Goals()
		if (err == nil) != reached || err != nil && !strings.Contains(err.Error(), "looks 1 of 300 decisions ahead") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A polish makes no point dearer, as the plant counts it under the point's weights.
func TestAPolishedFrontIsCountedAsThePlantCounts(t *testing.T) {
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	k := paper.Cases()
	c := require.Get(k.Find("opf30"))(t)
	obs := require.Get(c.Observe(9001, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	opt := batchnav.FrontOptions{Weights: dataset.Proper(3, 15)}
	f := require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t)))(t)
	alone := require.Get(f.Front(t.Context(), obs, opt))(t)
	opt.Polish = 5
	polished := require.Get(f.Front(t.Context(), obs, opt))(t)
	w := make([]float64, 3)
	for i, p := range polished.Points {
		domain.AbilitiesOfProblem(c.Definition().Problem).Weights(domain.Preference{W: p.W}, w)
		if before, after := tensor.DotInOrder(w, alone.Points[i].J), tensor.DotInOrder(w, p.J); !(after <= before) {
			t.Errorf("weights %v: %v, polished %v", p.W, before, after)
		}
	}
	if polished.Polished == 0 {
		t.Error("nothing is polished")
	}
}
