package batchnav_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/planscore"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

func refiner(t testing.TB, cart domain.Problem, capacity int) *batchnav.Refiner {
	t.Helper()
	r := require.Get(batchnav.NewRefiner(ref.New(), testdomain.Map(testdomain.NewCart(20), 13, false), cart, batchnav.Options{}, capacity))(t)
	return r
}

// rollout scores u followed by the base policy independently of the refiner.
func rollout(t testing.TB, cart *testdomain.Cart, s0, u0 []float64, pref domain.Preference, steps int) (cost, margin float64) {
	t.Helper()
	base := require.Get(batchnav.NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(20), 13, false), cart, batchnav.Options{Direct: true}))(t)
	s, c := append([]float64(nil), s0...), []float64{0}
	u := append([]float64(nil), u0...)
	J, delta, sigma, m := make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 2)
	margin = math.Inf(1)
	for h := range steps {
		if h > 0 {
			d := require.Get(base.Decide(s, c, pref))(t)
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
			batchnav.RefineOptions{Candidates: 64, FlowSteps: 2, Seed: 5, Remaining: 12, NoRounds: true})
		require.OK(t, err)
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
		if a.Feasible && !cart.Spec().Keeps(a.Margin) {
			rt.Fatalf("feasible with margin %g", a.Margin)
		}
	})
}

func TestRefineWithoutFeasibleCandidate(t *testing.T) {
	cart := testdomain.NewCart(20)
	got, err := refiner(t, cart, 32).Refine(context.Background(),
		batchnav.Observation{S: []float64{2.5, 0}, C: []float64{0}, Preference: adaptive},
		batchnav.RefineOptions{Candidates: 32, FlowSteps: 1, Seed: 1, LookAhead: 1})
	require.OK(t, err)
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

func (p scored) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Score: p.Score}
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
	want := require.Get(refiner(t, testdomain.NewCart(20), 24).Refine(context.Background(), obs, request))(t)
	p := scored{testdomain.NewCart(20), new(atomic.Int64)}
	got := require.Get(refiner(t, p, 24).Refine(context.Background(), obs, request))(t)
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
	require.OK(t, err)
	if got.Index != 0 || got.Source != domain.SourceLocalized {
		t.Errorf("winner of a tie is candidate %d (%v), want 0", got.Index, got.Source)
	}
}

// A problem with longer plans executes the decoded plan, each action projected in
// the state it is taken in, and returns all of it.
func TestRefineOfLongerPlans(t *testing.T) {
	const length = 5
	cart := testdomain.NewPlanCart(20, length)
	m := testdomain.Map(cart, 13, false)
	r := require.Get(batchnav.NewRefiner(ref.New(), m, cart, batchnav.Options{}, 32))(t)
	pref := domain.Preference{W: []float64{0.9, 0.1}}
	got, err := r.Refine(context.Background(), batchnav.Observation{S: []float64{1.2, 0.5}, C: []float64{0}, Preference: pref},
		batchnav.RefineOptions{Candidates: 32, FlowSteps: 1, Seed: 2})
	require.OK(t, err)
	if len(got.U) != length || got.LookAhead != length {
		t.Fatalf("plan of %d actions over %d decisions, want %d", len(got.U), got.LookAhead, length)
	}
	// Executed as it is, the projected plan needs no projection.
	executed, cost, margin := planscore.Plan(cart, []float64{1.2, 0.5}, []float64{0}, pref, got.U, length, true)
	if !slices.Equal(executed, got.U) {
		t.Errorf("the plan %v is not projected, the projection gives %v", got.U, executed)
	}
	if math.Abs(cost-got.Cost) > 1e-9 || math.Abs(margin-got.Margin) > 1e-9 {
		t.Errorf("reported cost %g margin %g, executing the plan gives %g and %g", got.Cost, got.Margin, cost, margin)
	}
	// In closed loop the first action of the plan is executed.
	nav := require.Get(batchnav.NewNavigator(ref.New(), m, cart, batchnav.Options{Direct: true}))(t)
	d := decide(t, nav, []float64{0.2, 0.1}, pref)
	if len(d.U) != 1 || len(d.Decoded) != length || math.Abs(float64(d.Decoded[1])-testdomain.Decay*d.U[0]) > 1e-6 {
		t.Errorf("u %v of the plan %v", d.U, d.Decoded)
	}
}

// A refinement's candidates are a proposer's answer to one question: the plans of E_x,
// of the localized code and of the previous latent stand alone, and the winner's
// latent decodes to its plan.
func TestRefineChoosesAmongProposals(t *testing.T) {
	const count = 40
	p := planCart()
	r := require.Get(batchnav.NewRefiner(ref.New(), testdomain.Map(p, 13, false), p, batchnav.Options{}, count))(t)
	for i, q := range questions(6, count) {
		opt := batchnav.RefineOptions{Candidates: count, FlowSteps: 1, Seed: q.Seed, Mixture: thirdsOf, Previous: q.Previous}
		got := require.Get(r.Refine(context.Background(), batchnav.Observation{S: q.S, C: q.C, Preference: q.Preference}, opt))(t)
		answer := make([]domain.Answer, 1)
		require.OK(t, proposer(t, ref.New(), p, batchnav.Options{}).Propose(domain.ProposeOptions{FlowSteps: 1, Mixture: thirdsOf}, []domain.Question{q}, answer))
		a := answer[0]
		best, localized := math.Inf(1), 0.0
		for row, source := range a.Sources {
			plan := make([]float64, p.Spec().PlanSize())
			tensor.Widen(plan, a.Plans.Row(row))
			executed, cost, margin := planscore.Plan(p, q.S, q.C, q.Preference, plan, len(plan), true)
			if p.Spec().Keeps(margin) {
				best = math.Min(best, cost)
			}
			if row == 1 {
				localized = cost
			}
			if row == got.Index && (!slices.Equal(got.U, executed) || !slices.Equal(got.Latent, a.Latents.Row(row)) || got.Source != source) {
				t.Errorf("question %d: winner %d is %v of %v from %v, proposed were %v, %v, %v", i, row, got.U, got.Latent, got.Source, executed, a.Latents.Row(row), source)
			}
		}
		if math.Abs(got.Cost-best) > 1e-9 || math.Abs(got.LocalizedCost-localized) > 1e-9 {
			t.Errorf("question %d: cost %v, of the localized code %v, want %v and %v", i, got.Cost, got.LocalizedCost, best, localized)
		}
		previous := 0
		for _, s := range got.Sources {
			if s.Source == domain.SourcePrevious {
				previous = s.Candidates
			}
		}
		if want := i % 2 * (1 + (count-3)/4); previous != want {
			t.Errorf("question %d: %d candidates of the previous latent, want %d", i, previous, want)
		}
	}
}

// scoring scores its own plans, by the reference, and remembers what it was given.
type scoring struct {
	*testdomain.Cart
	device  *domain.Accelerator
	batches *[]domain.PlanBatch
}

func (p scoring) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{NewPlanScorer: p.NewPlanScorer}
}

func (p scoring) NewPlanScorer(device domain.Accelerator) (domain.PlanScorer, error) {
	*p.device = device
	return p, nil
}

func (p scoring) ScorePlans(ctx context.Context, b domain.PlanBatch) error {
	*p.batches = append(*p.batches, b)
	np := p.Spec().PlanSize()
	for i := range b.Cost {
		plan := make([]float64, np)
		tensor.Widen(plan, b.Plans.Row(i))
		plan, b.Cost[i], b.Margin[i] = planscore.Plan(p.Cart, b.S, b.C, b.Preference, plan, b.Steps, !b.NoProjection)
		copy(b.Projected[i*np:], plan)
	}
	return ctx.Err()
}

// accelerated is a backend that is an accelerator.
type accelerated struct{ *ref.Backend }

func (accelerated) Program(fs.FS, ...string) (domain.Program, error) {
	return nil, errors.ErrUnsupported
}

// A problem that scores whole batches of plans is given all of them, with the device,
// and what it says is what counts. A look-ahead beyond the plan is the roll-out's.
func TestRefineAsksAProblemThatScoresPlans(t *testing.T) {
	for _, length := range []int{1, 4} {
		cart := testdomain.NewPlanCart(20, length)
		own := scoring{cart, new(domain.Accelerator), new([]domain.PlanBatch)}
		m := testdomain.Map(cart, 13, false)
		var refiners [2]*batchnav.Refiner
		for i, p := range []domain.Problem{cart, own} {
			r := require.Get(batchnav.NewRefiner(accelerated{ref.New()}, m, p, batchnav.Options{}, 24))(t)
			refiners[i] = r
		}
		if *own.device == nil {
			t.Error("the scorer was not offered the accelerator")
		}
		for _, opt := range []batchnav.RefineOptions{
			{Candidates: 24, FlowSteps: 1, Seed: 5, LookAhead: length, NoRounds: true}, {Candidates: 24, Seed: 6, LookAhead: 1, NoProjection: true, NoRounds: true},
			{Candidates: 24, LookAhead: 6, NoRounds: true},
		} {
			*own.batches = nil
			var results [2]*batchnav.Refinement
			for i, r := range refiners {
				results[i] = require.Get(r.Refine(context.Background(), batchnav.Observation{S: []float64{1.3, 0.4}, C: []float64{0}, Preference: adaptive}, opt))(t)
			}
			got, want := results[1], results[0]
			if got.Index != want.Index || !slices.Equal(got.U, want.U) || math.Abs(got.Cost-want.Cost) > 1e-12 || math.Abs(got.Margin-want.Margin) > 1e-12 || got.FeasibleCount != want.FeasibleCount {
				t.Errorf("plans of %d, %+v: %+v, by the roll-out %+v", length, opt, got, want)
			}
			wanted := 1
			if length == 1 && opt.LookAhead > 1 {
				wanted = 0
			}
			if len(*own.batches) != wanted {
				t.Fatalf("plans of %d, look-ahead %d: ScorePlans was asked %d times, want %d", length, opt.LookAhead, len(*own.batches), wanted)
			}
			for _, b := range *own.batches {
				if b.Plans.Rows != 24 || b.Steps != min(opt.LookAhead, length) || b.NoProjection != opt.NoProjection {
					t.Errorf("%d plans over %d steps, want 24 over %d", b.Plans.Rows, b.Steps, min(opt.LookAhead, length))
				}
			}
		}
	}
}

// The end of the episode bounds the look-ahead where the problem knows it.
type finite struct{ *testdomain.Cart }

func (p finite) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Remaining: p.Remaining}
}

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
		got := require.Get(refiner(t, c.problem, 1).Refine(context.Background(), batchnav.Observation{S: []float64{0, 0}, C: []float64{0}, Preference: adaptive}, c.opt))(t)
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
		"previous latent":     {good, batchnav.RefineOptions{Candidates: 1, Previous: []float32{1, 2}}},
		"short state":         {batchnav.Observation{S: []float64{0}, C: []float64{0}, Preference: adaptive}, batchnav.RefineOptions{Candidates: 1}},
		"negative time":       {good, batchnav.RefineOptions{Candidates: 1, TimeLimit: -1}},
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

// Behind the proposals come rounds, none of which is worse than the one before. They gain
// on the proposals alone, the projected action chosen is one of a feasible roll-out, the
// statistics add up, and time that is over ends them.
func TestRefinementGoesOnInRounds(t *testing.T) {
	cart := testdomain.NewCart(20)
	r, gained := refiner(t, cart, 256), 0
	for i, pref := range []domain.Preference{adaptive, {W: []float64{0.9, 0.1}}, {W: []float64{0.1, 0.9}}} {
		obs := batchnav.Observation{S: []float64{1.3, 0.4}, C: []float64{0}, Preference: pref}
		opt := batchnav.RefineOptions{Candidates: 256, FlowSteps: 1, Seed: uint64(i), Remaining: 12}
		got := require.Get(r.Refine(context.Background(), obs, opt))(t)
		again := require.Get(refiner(t, cart, 16).Refine(context.Background(), obs, opt))(t)
		if !slices.Equal(got.U, again.U) || got.Cost != again.Cost {
			t.Errorf("%v at %g, another time %v at %g", got.U, got.Cost, again.U, again.Cost)
		}
		opt.Candidates, opt.NoRounds = got.Rounds[0].Candidates, true
		proposed := require.Get(r.Refine(context.Background(), obs, opt))(t)
		if got.Rounds[0] != proposed.Rounds[0] || len(proposed.Rounds) != 1 {
			t.Errorf("the proposals are %+v, alone %+v", got.Rounds[0], proposed.Rounds)
		}
		for k := 1; k < len(got.Rounds); k++ {
			now, before := got.Rounds[k], got.Rounds[k-1]
			if now.Candidates <= before.Candidates || before.Feasible && (!now.Feasible || now.Cost > before.Cost) || !before.Feasible && now.Margin < before.Margin {
				t.Errorf("round %+v after %+v", now, before)
			}
		}
		last, total, feasible := got.Rounds[len(got.Rounds)-1], 0, 0
		for _, s := range got.Sources {
			total, feasible = total+s.Candidates, feasible+s.Feasible
		}
		if len(got.Rounds) < 3 || last.Candidates != got.Candidates || got.Candidates > 256 || total != got.Candidates || feasible != got.FeasibleCount ||
			last.Cost != got.Cost || last.Margin != got.Margin || last.Feasible != got.Feasible || got.Index >= got.Candidates {
			t.Errorf("%+v", got)
		}
		if got.Cost < proposed.Cost {
			gained++
			if got.Source != domain.SourceSearched || got.Index < got.Rounds[0].Candidates {
				t.Errorf("the winner is %d, from %s", got.Index, got.Source)
			}
		}
		opt.Candidates, opt.NoRounds, opt.TimeLimit = 256, false, 1
		if hasty := require.Get(r.Refine(context.Background(), obs, opt))(t); len(hasty.Rounds) != 1 || hasty.Cost != proposed.Cost {
			t.Errorf("within a nanosecond there are rounds %+v", hasty.Rounds)
		}
	}
	if gained == 0 {
		t.Error("no round gained on the proposals")
	}
}

func TestRefinementKeys(t *testing.T) {
	got, err := refiner(t, testdomain.NewCart(20), 8).Refine(context.Background(),
		batchnav.Observation{S: []float64{0.5, 0}, C: []float64{0}, Preference: adaptive},
		batchnav.RefineOptions{Candidates: 8, Seed: 1, LookAhead: 2})
	require.OK(t, err)
	text := require.Get(json.Marshal(got))(t)
	for _, key := range []string{"u", "cost", "margin", "feasible", "candidates", "latency_us"} {
		if !strings.Contains(string(text), `"`+key+`":`) {
			t.Errorf("JSON of a refinement lacks %q: %s", key, text)
		}
	}
}

// endless is a problem whose context can claim that any number of decisions is left.
type endless struct{ *testdomain.Cart }

func (p endless) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Remaining: p.Remaining}
}

func (endless) Remaining(c []float64) int { return int(c[0]) }

func TestNoObservationMakesARollOutLongerThanAnEpisode(t *testing.T) {
	cart := testdomain.NewCart(8)
	r := require.Get(batchnav.NewRefiner(ref.New(), testdomain.Map(cart, 9, true), endless{cart}, batchnav.Options{}, 16))(t)
	obs := batchnav.Observation{S: []float64{0.2, 0.1}, C: []float64{2e11}, Preference: domain.Preference{Adaptive: true}}
	if _, err := r.Refine(t.Context(), obs, batchnav.RefineOptions{Candidates: 16}); err == nil || !strings.Contains(err.Error(), "200000000000 decisions") {
		t.Errorf("%v, want an error that names the decisions", err)
	}
	if steps := batchnav.LookAhead(cart.Spec(), endless{cart}.Abilities(), obs.C, 0, 0); steps != 8 {
		t.Errorf("a closed loop looks %d decisions ahead, an episode has 8", steps)
	}
	for says, opt := range map[string]batchnav.RefineOptions{
		"look-ahead 10001": {Candidates: 16, LookAhead: batchnav.MaxLookAhead + 1}, "1001 flow steps": {Candidates: 16, FlowSteps: batchnav.MaxFlowSteps + 1},
		"product of at most": {Candidates: batchnav.MaxCandidates, LookAhead: 1000},
	} {
		obs.C[0] = 1
		if _, err := r.Refine(t.Context(), obs, opt); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
