package kernels

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/multiagent"
	"github.com/gpc-engine/gpc/domains/multiagent/world"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/backendtest"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testdomain"
	"github.com/gpc-engine/gpc/model"
)

// multiagentMap is a map of random weights for the joint state of Case 2: the sizes of
// a trained one without its worth.
func multiagentMap(spec *domain.Spec, latent, hidden, codes int) *model.Model {
	m := testdomain.Untrained(rand.New(rand.NewPCG(17, 18)), spec, latent, codes, hidden, hidden)
	m.NormX, m.NormO = testdomain.Scaled(len(m.NormX.Scale), 5), testdomain.Scaled(len(m.NormO.Scale), 5)
	m.NormS, m.NormU = testdomain.Scaled(spec.MeasuredSize(), 5), testdomain.Scaled(spec.PlanSize(), 0.5)
	m.Calibration.TauGeom, m.Calibration.ObjectiveNadir = 1, []float64{100, 20, 5}
	return m
}

// multiagentNavigation are the constants of the online step of Case 1, with the Lie
// residual.
var multiagentNavigation = domain.Navigation{
	LatentStep: 0.005, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 4, LieGain: 0.1, LieScale: 0.1, RetractionMix: 0.5, Smoothing: 0.3, PriorityFilter: 1, Neighbours: 12,
}

// multiagentScene is what a refinement of Case 2 observes in a test scene.
func multiagentScene(t testing.TB, index int) (made domain.Case, o batchnav.Observation) {
	t.Helper()
	made = multiagent.Moving()
	o.Preference = domain.Preference{W: []float64{0.4, 0.4, 0.2}}
	episode, err := made.Plant.Episode(5, index, domain.EpisodeOptions{Preference: o.Preference})
	if err != nil {
		t.Fatal(err)
	}
	spec := made.Problem.Spec()
	o.S, o.C = make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	episode.Observe(o.S, o.C)
	return made, o
}

// TestWholeRefinementOfCase2 holds the refinement of one robot set that is captured as
// one graph (localization, candidates, flow, decoding, projection, roll-out over H,
// choice) to the one in single operations on the reference.
func TestWholeRefinementOfCase2(t *testing.T) {
	library, b := onShim(t, Options{})
	const candidates = 24
	var refiners [2]*batchnav.Refiner
	made, _ := multiagentScene(t, 0)
	m := multiagentMap(made.Problem.Spec(), 16, 32, 100)
	for i, on := range []backend.Backend{b, ref.New()} {
		r, err := batchnav.NewRefiner(on, m, made.Problem, batchnav.Options{Navigation: &multiagentNavigation}, candidates)
		if err != nil {
			t.Fatal(err)
		}
		refiners[i] = r
	}
	for i, opt := range []batchnav.RefineOptions{
		{Candidates: candidates, FlowSteps: 1, Seed: 3, LookAhead: world.Horizon},
		{Candidates: candidates, FlowSteps: 2, Seed: 4, LookAhead: 3, NoProjection: true},
		{Candidates: candidates, FlowSteps: 1, Seed: 5, LookAhead: world.Horizon},
	} {
		_, o := multiagentScene(t, i)
		if i == 2 {
			o.Preference = domain.Preference{Adaptive: true}
		}
		graphs := library.Calls("cuGraphLaunch")
		got, err := refiners[0].Refine(context.Background(), o, opt)
		if err != nil {
			t.Fatal(err)
		}
		if n := library.Calls("cuGraphLaunch") - graphs; n != 1 {
			t.Errorf("case %d: a refinement launches %d graphs, want one", i, n)
		}
		want, err := refiners[1].Refine(context.Background(), o, opt)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Cost-want.Cost) > 1e-3*(1+want.Cost) || math.Abs(got.Margin-want.Margin) > 1e-3 || got.Feasible != want.Feasible {
			t.Errorf("case %d: cost %v, margin %v, feasible %v, want %v, %v, %v", i, got.Cost, got.Margin, got.Feasible, want.Cost, want.Margin, want.Feasible)
		}
		if got.Index == want.Index {
			if err := backendtest.Near(got.U, want.U, 1e-3); err != nil {
				t.Errorf("case %d: plan: %v", i, err)
			}
		}
		if err := backendtest.Near(got.Sigma, want.Sigma, 1e-5); err != nil {
			t.Errorf("case %d: priority: %v", i, err)
		}
		for k, s := range got.Sources {
			w := want.Sources[k]
			if s.Source != w.Source || s.Candidates != w.Candidates || s.Feasible != w.Feasible || math.Abs(s.MeanCost-w.MeanCost) > 1e-3*(1+w.MeanCost) {
				t.Errorf("case %d: source %+v, want %+v", i, s, w)
			}
		}
	}
}

// BenchmarkRefineCase2 is a whole refinement of one robot set on a GPU, 4096
// candidates that all flow as latents, copies included, on a map of random weights:
// n_z 32, hidden 256, 20 000 codes, look-ahead H. Its target on an H200 is 1 ms.
func BenchmarkRefineCase2(b *testing.B) {
	made, o := multiagentScene(b, 1)
	m := multiagentMap(made.Problem.Spec(), 32, 256, 20_000)
	for _, c := range []struct {
		name    string
		options Options
		project bool
	}{{"float32", Options{}, false}, {"tf32", Options{TF32: true}, false}, {"float32-projected", Options{}, true}} {
		for _, flow := range []int{0, 1, 3} {
			b.Run(fmt.Sprintf("%s-flow-%d", c.name, flow), func(b *testing.B) {
				const candidates = 4096
				r, err := batchnav.NewRefiner(onDevice(b, c.options), m, made.Problem, batchnav.Options{Navigation: &multiagentNavigation}, candidates)
				if err != nil {
					b.Fatal(err)
				}
				opt := batchnav.RefineOptions{Candidates: candidates, FlowSteps: flow, Seed: 1, LookAhead: world.Horizon, NoProjection: !c.project}
				for b.Loop() {
					if _, err := r.Refine(context.Background(), o, opt); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
