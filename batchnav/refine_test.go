package batchnav_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testdomain"
)

func refiner(t testing.TB, cart domain.Problem, capacity int) *batchnav.Refiner {
	t.Helper()
	r, err := batchnav.NewRefiner(ref.New(), testdomain.Map(testdomain.NewCart(20), 13, false), cart, batchnav.Options{}, capacity)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rollout scores u followed by the base policy independently of the refiner.
func rollout(t testing.TB, cart *testdomain.Cart, s0, u0 []float64, pref domain.Preference, steps int) (cost, margin float64) {
	t.Helper()
	base, err := batchnav.NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(20), 13, false), cart, batchnav.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	s, c := append([]float64(nil), s0...), []float64{0}
	u := append([]float64(nil), u0...)
	J, delta, sigma, m := make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 2)
	margin = math.Inf(1)
	for h := range steps {
		if h > 0 {
			d, err := base.Decide(s, c, pref)
			if err != nil {
				t.Fatal(err)
			}
			copy(u, d.U)
		}
		copy(sigma, pref.W)
		if pref.Adaptive {
			cart.Indicators(s, u, c, delta)
			cart.Spec().Semantic.Priority(delta, sigma)
		}
		cart.Objectives(s, u, c, J)
		cost += sigma[0]*J[0] + sigma[1]*J[1]
		cart.Margins(s, c, u, m)
		margin = math.Min(margin, math.Min(m[0], m[1]))
		next, nextC := make([]float64, 2), make([]float64, 1)
		cart.Step(s, c, u, next, nextC)
		s, c = next, nextC
	}
	return cost, margin
}

// The reported cost and margin are those of an independent roll-out, and the
// winner is no worse than the unrefined candidate.
func TestRefinementIsTheBestTrueRollout(t *testing.T) {
	cart := testdomain.NewCart(20)
	r := refiner(t, cart, 64)
	for _, pref := range []domain.Preference{adaptive, {W: []float64{0.9, 0.1}}} {
		s := []float64{1.3, 0.4}
		got, err := r.Refine(context.Background(), batchnav.Observation{S: s, C: []float64{0}, Preference: pref},
			batchnav.RefineOptions{Candidates: 64, FlowSteps: 2, Seed: 5, Remaining: 12})
		if err != nil {
			t.Fatal(err)
		}
		cost, margin := rollout(t, cart, s, got.U, pref, 12)
		if math.Abs(cost-got.Cost) > 1e-5*(1+cost) || math.Abs(margin-got.Margin) > 1e-5 {
			t.Errorf("%+v: reported cost %g margin %g, roll-out has %g and %g", pref, got.Cost, got.Margin, cost, margin)
		}
		if !got.Feasible || got.LookAhead != 12 || got.Candidates != 64 {
			t.Errorf("feasible %v, look-ahead %d, candidates %d", got.Feasible, got.LookAhead, got.Candidates)
		}
		if got.LocalizedFeasible && got.Cost > got.LocalizedCost {
			t.Errorf("winner costs %g, the unrefined candidate %g", got.Cost, got.LocalizedCost)
		}
		total, feasible := 0, 0
		for _, s := range got.Sources {
			total, feasible = total+s.Candidates, feasible+s.Feasible
			if s.Feasible > 0 && s.BestCost < got.Cost {
				t.Errorf("%v has a feasible candidate of cost %g, the winner costs %g", s.Source, s.BestCost, got.Cost)
			}
		}
		if total != 64 || feasible != got.FeasibleCount {
			t.Errorf("sources hold %d candidates, %d feasible; want 64, %d", total, feasible, got.FeasibleCount)
		}
	}
}

// More candidates cannot cost more when they include the fewer, and the result
// does not depend on threads or on what the refiner did before.
func TestRefineIsDeterministicBySeed(t *testing.T) {
	cart := testdomain.NewCart(20)
	r, other := refiner(t, cart, 8), refiner(t, cart, 100)
	rapid.Check(t, func(rt *rapid.T) {
		obs := batchnav.Observation{
			S: []float64{rapid.Float64Range(-2, 2).Draw(rt, "q"), rapid.Float64Range(-1, 1).Draw(rt, "v")},
			C: []float64{0}, Preference: adaptive,
		}
		opt := batchnav.RefineOptions{
			Candidates: rapid.IntRange(1, 40).Draw(rt, "candidates"), FlowSteps: rapid.IntRange(0, 2).Draw(rt, "flow"),
			Seed: rapid.Uint64().Draw(rt, "seed"), LookAhead: 3,
		}
		a, err := r.Refine(context.Background(), obs, opt)
		if err != nil {
			rt.Fatal(err)
		}
		opt.Threads = 3
		b, err := other.Refine(context.Background(), obs, opt)
		if err != nil {
			rt.Fatal(err)
		}
		if a.U[0] != b.U[0] || a.Cost != b.Cost || a.Index != b.Index || a.Margin != b.Margin {
			rt.Fatalf("one thread: u %v cost %v index %d; three: u %v cost %v index %d", a.U, a.Cost, a.Index, b.U, b.Cost, b.Index)
		}
		if a.Feasible && a.Margin < -cart.Spec().MarginTolerance {
			rt.Fatalf("feasible with margin %g", a.Margin)
		}
	})
}

func TestRefineWithoutFeasibleCandidate(t *testing.T) {
	cart := testdomain.NewCart(20)
	got, err := refiner(t, cart, 32).Refine(context.Background(),
		batchnav.Observation{S: []float64{2.5, 0}, C: []float64{0}, Preference: adaptive},
		batchnav.RefineOptions{Candidates: 32, FlowSteps: 1, Seed: 1, LookAhead: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got.Feasible || got.FeasibleCount != 0 {
		t.Error("a plan through the wall is called feasible")
	}
	// Least bad is braking in full.
	if got.U[0] != -1 {
		t.Errorf("least infeasible action %g, want −1", got.U[0])
	}
}

// scored counts its own evaluations of what the plant would say.
type scored struct {
	*testdomain.Cart
	calls *atomic.Int64
}

func (p scored) Score(s, c, u, J, m []float64) {
	p.calls.Add(1)
	p.Objectives(s, u, c, J)
	p.Margins(s, c, u, m)
}

// A problem that scores its actions itself is asked once for each action of each
// candidate, and what it says is what counts.
func TestRefineAsksAProblemThatScores(t *testing.T) {
	request := batchnav.RefineOptions{Candidates: 24, FlowSteps: 1, Seed: 5, LookAhead: 3}
	obs := batchnav.Observation{S: []float64{1.3, 0.4}, C: []float64{0}, Preference: adaptive}
	want, err := refiner(t, testdomain.NewCart(20), 24).Refine(context.Background(), obs, request)
	if err != nil {
		t.Fatal(err)
	}
	p := scored{testdomain.NewCart(20), new(atomic.Int64)}
	got, err := refiner(t, p, 24).Refine(context.Background(), obs, request)
	if err != nil {
		t.Fatal(err)
	}
	if got.Cost != want.Cost || got.Margin != want.Margin || got.Index != want.Index {
		t.Errorf("cost %v, margin %v, candidate %d; without Score %v, %v, %d", got.Cost, got.Margin, got.Index, want.Cost, want.Margin, want.Index)
	}
	if n := p.calls.Load(); n != 24*3 {
		t.Errorf("Score was called %d times for 24 candidates of 3 actions", n)
	}
}

// flat makes every candidate cost the same, so that the tie rule decides.
type flat struct{ *testdomain.Cart }

func (flat) Objectives(s, u, c, J []float64) { J[0], J[1] = 1, 1 }
func (flat) Gradient(s, u, c, sigma, gs, gu []float64) {
	clear(gs)
	clear(gu)
}

func TestTiesGoToTheLowestIndex(t *testing.T) {
	got, err := refiner(t, flat{testdomain.NewCart(20)}, 16).Refine(context.Background(),
		batchnav.Observation{S: []float64{0.5, 0}, C: []float64{0}, Preference: domain.Preference{W: []float64{0.5, 0.5}}},
		batchnav.RefineOptions{Candidates: 16, Seed: 1, LookAhead: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got.Index != 0 || got.Source != batchnav.SourceLocalized {
		t.Errorf("winner of a tie is candidate %d (%v), want 0", got.Index, got.Source)
	}
}

// A problem with longer plans executes the decoded plan, each action projected in
// the state it is taken in, and returns all of it.
func TestRefineOfLongerPlans(t *testing.T) {
	const length = 5
	cart := testdomain.NewPlanCart(20, length)
	m := testdomain.Map(cart, 13, false)
	r, err := batchnav.NewRefiner(ref.New(), m, cart, batchnav.Options{}, 32)
	if err != nil {
		t.Fatal(err)
	}
	pref := domain.Preference{W: []float64{0.9, 0.1}}
	got, err := r.Refine(context.Background(), batchnav.Observation{S: []float64{1.2, 0.5}, C: []float64{0}, Preference: pref},
		batchnav.RefineOptions{Candidates: 32, FlowSteps: 1, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.U) != length || got.LookAhead != length {
		t.Fatalf("plan of %d actions over %d decisions, want %d", len(got.U), got.LookAhead, length)
	}
	s, c, cost, margin := []float64{1.2, 0.5}, []float64{0}, 0.0, math.Inf(1)
	J, named := make([]float64, 2), make([]float64, 2)
	for _, a := range got.U {
		u := []float64{a}
		cart.Project(s, c, u)
		if u[0] != a {
			t.Errorf("action %g is not projected, the projection gives %g", a, u[0])
		}
		cart.Objectives(s, u, c, J)
		cost += 0.9*J[0] + 0.1*J[1]
		cart.Margins(s, c, u, named)
		margin = math.Min(margin, math.Min(named[0], named[1]))
		next := make([]float64, 2)
		cart.Step(s, c, u, next, []float64{0})
		s = next
	}
	if math.Abs(cost-got.Cost) > 1e-9 || math.Abs(margin-got.Margin) > 1e-9 {
		t.Errorf("reported cost %g margin %g, executing the plan gives %g and %g", got.Cost, got.Margin, cost, margin)
	}
	// In closed loop the first action of the plan is executed.
	nav, err := batchnav.NewNavigator(ref.New(), m, cart, batchnav.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	d := decide(t, nav, []float64{0.2, 0.1}, pref)
	if len(d.U) != 1 || len(d.Plan) != length || math.Abs(float64(d.Plan[1])-testdomain.Decay*d.U[0]) > 1e-6 {
		t.Errorf("u %v of the plan %v", d.U, d.Plan)
	}
}

// The end of the episode bounds the look-ahead where the problem knows it.
type finite struct{ *testdomain.Cart }

func (finite) Remaining(c []float64) int { return 7 }

func TestLookAheadEndsWithTheEpisode(t *testing.T) {
	for _, c := range []struct {
		problem domain.Problem
		opt     batchnav.RefineOptions
		want    int
	}{
		{testdomain.NewCart(20), batchnav.RefineOptions{Candidates: 1}, 20},
		{finite{testdomain.NewCart(20)}, batchnav.RefineOptions{Candidates: 1}, 7},
		{finite{testdomain.NewCart(20)}, batchnav.RefineOptions{Candidates: 1, Remaining: 4}, 4},
		{finite{testdomain.NewCart(20)}, batchnav.RefineOptions{Candidates: 1, Remaining: 4, LookAhead: 2}, 2},
	} {
		got, err := refiner(t, c.problem, 1).Refine(context.Background(), batchnav.Observation{S: []float64{0, 0}, C: []float64{0}, Preference: adaptive}, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		if got.LookAhead != c.want {
			t.Errorf("look-ahead %d, want %d", got.LookAhead, c.want)
		}
	}
}

func TestRefineRefusesBadRequests(t *testing.T) {
	cart := testdomain.NewCart(20)
	r := refiner(t, cart, 4)
	good := batchnav.Observation{S: []float64{0, 0}, C: []float64{0}, Preference: adaptive}
	for name, c := range map[string]struct {
		obs batchnav.Observation
		opt batchnav.RefineOptions
	}{
		"0 candidates":        {good, batchnav.RefineOptions{}},
		"too many candidates": {good, batchnav.RefineOptions{Candidates: batchnav.MaxCandidates + 1}},
		"negative flow":       {good, batchnav.RefineOptions{Candidates: 1, FlowSteps: -1}},
		"shares above 1":      {good, batchnav.RefineOptions{Candidates: 1, Mixture: batchnav.Mixture{Neighbours: 0.7, Preference: 0.7}}},
		"short state":         {batchnav.Observation{S: []float64{0}, C: []float64{0}, Preference: adaptive}, batchnav.RefineOptions{Candidates: 1}},
		"NaN":                 {batchnav.Observation{S: []float64{math.NaN(), 0}, C: []float64{0}, Preference: adaptive}, batchnav.RefineOptions{Candidates: 1}},
	} {
		if _, err := r.Refine(context.Background(), c.obs, c.opt); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Refine(ctx, good, batchnav.RefineOptions{Candidates: 1}); err == nil {
		t.Error("a cancelled refinement returned a result")
	}
}

func TestRefinementKeys(t *testing.T) {
	got, err := refiner(t, testdomain.NewCart(20), 8).Refine(context.Background(),
		batchnav.Observation{S: []float64{0.5, 0}, C: []float64{0}, Preference: adaptive},
		batchnav.RefineOptions{Candidates: 8, Seed: 1, LookAhead: 2})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"u", "cost", "margin", "feasible", "candidates", "latency_us"} {
		if !strings.Contains(string(text), `"`+key+`":`) {
			t.Errorf("JSON of a refinement lacks %q: %s", key, text)
		}
	}
}
