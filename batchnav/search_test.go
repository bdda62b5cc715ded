package batchnav

import (
	"math"
	"pgregory.net/rapid"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/paper/models"
)

const cartSteps = 12

var adaptively = domain.Preference{Adaptive: true}

// finite is the cart with the episode's end known.
type finite struct{ *testdomain.Cart }

func (p finite) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Remaining: p.Remaining}
}

func (finite) Remaining(c []float64) int {
	return max(1, cartSteps-int(math.Round(c[0]*cartSteps)))
}

// searcher is a loop of the cart's exact map that searches.
func searcher(t testing.TB, b backend.Backend, p domain.Problem, o SearchOptions) *Navigator {
	t.Helper()
	return require.Get(NewNavigator(b, testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, Options{Search: o}))(t)
}

func simplex(w float64) domain.Preference { return domain.Preference{W: []float64{w, 1 - w}} }

// bent is the roll-out of the cart's exact map with these offsets, in its closed form:
// z = (q, v, w₂) and u = −q − 1.5 v + 0.2 w₂.
func bent(p *testdomain.Cart, s []float64, w2 float64, pref domain.Preference, offsets []float32, steps int) (cost, margin float64) {
	s, c, u := slices.Clone(s), []float64{0}, make([]float64, 1)
	J, m, next, nextC := make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 1)
	margin = math.Inf(1)
	for h := range steps {
		o := func(j int) float64 { return float64(offsets[3*h+j]) }
		u[0] = testdomain.Feedback[0]*(s[0]+o(0)) + testdomain.Feedback[1]*(s[1]+o(1)) + 0.2*(w2+o(2))
		p.Project(s, c, u)
		p.Objectives(s, u, c, J)
		p.Margins(s, c, u, m)
		cost += pref.W[0]*J[0] + pref.W[1]*J[1]
		margin = min(margin, m[0], m[1])
		p.Step(s, c, u, next, nextC)
		copy(s, next)
		copy(c, nextC)
	}
	return cost, margin
}

// What the search says of its best roll-out is so, and under the model it is never
// worse than direct's: with more margin where that one breaks a limit, at no more cost
// where it does not.
func TestSearchIsNeverWorseThanDirect(t *testing.T) {
	require.Seeded(t)
	cart := testdomain.NewCart(cartSteps)
	gained := 0
	rapid.Check(t, func(rt *rapid.T) {
		n := searcher(t, ref.New(), finite{cart}, SearchOptions{Candidates: rapid.IntRange(1, 80).Draw(rt, "candidates"), Seed: rapid.Uint64().Draw(rt, "seed")})
		s := []float64{rapid.Float64Range(-2, 2.2).Draw(rt, "q"), rapid.Float64Range(-1, 1.5).Draw(rt, "v")}
		pref := simplex(rapid.Float64Range(0, 1).Draw(rt, "w"))
		c := []float64{float64(rapid.IntRange(0, cartSteps-1).Draw(rt, "step")) / cartSteps}
		if _, err := n.Decide(s, c, pref); err != nil {
			rt.Fatal(err)
		}
		steps := finite{cart}.Remaining(c)
		best := n.batch.loops[0].memory.Best()
		cost, margin := bent(cart, s, pref.W[1], pref, best.Offsets, steps)
		if math.Abs(cost-best.Cost) > 1e-5*(1+cost) || math.Abs(margin-best.Margin) > 1e-5 {
			rt.Fatalf("cost %g, margin %g; the roll-out has %g, %g", best.Cost, best.Margin, cost, margin)
		}
		direct := crossentropy.Elite{}
		direct.Cost, direct.Margin = bent(cart, s, pref.W[1], pref, make([]float32, 3*steps), steps)
		switch r := n.batch.search.sampler; {
		case r.Feasible(&direct) && (!r.Feasible(best) || best.Cost > direct.Cost+1e-5*(1+direct.Cost)), best.Margin < min(0, direct.Margin)-1e-5:
			rt.Fatalf("cost %g, margin %g; direct has %g, %g", best.Cost, best.Margin, direct.Cost, direct.Margin)
		case best.Cost < 0.99*direct.Cost:
			gained++
		}
	})
	if gained == 0 {
		t.Error("no search gained a hundredth of the cost")
	}
}

// A search of one candidate at the first decision is direct, bit for bit.
func TestSearchOfOneCandidateIsItsPolicy(t *testing.T) {
	b, m, c := caseOneMap(t, 1)
	for _, v := range []struct{ of, o Options }{
		{Options{Direct: true}, Options{Search: SearchOptions{Candidates: 1}}},
		{Options{Direct: true}, Options{Search: SearchOptions{Candidates: 1, LookAhead: 2}}},
	} {
		policy, one := require.Get(NewNavigator(b, m, c.Problem, v.of))(t), require.Get(NewNavigator(b, m, c.Problem, v.o))(t)
		episode(t, c, 3, func(s, cx []float64) []float64 {
			d := require.Get(policy.Decide(s, cx, adaptively))(t)
			got, err := one.Decide(s, cx, adaptively)
			if err != nil || !slices.Equal(got.U, d.U) || !slices.Equal(got.Decoded, d.Decoded) {
				t.Fatalf("%+v: u %v, the policy's is %v; error %v", v.o, got.U, d.U, err)
			}
			return d.U
		})
	}
}

// caseOneMap is Case 1 with its bundled map on the CPU backend.
func caseOneMap(t testing.TB, threads int) (backend.Backend, *model.Model, domain.Case) {
	t.Helper()
	b := require.Get(cpufallback.New(cpufallback.Options{Threads: threads}))(t)
	t.Cleanup(func() { b.Close() })
	f := require.Get(models.Bundled.Open("integrator-convex.safetensors"))(t)
	defer f.Close()
	return b, require.Get(model.Read(f))(t), integrator.Convex()
}

// episode runs one of the case's episodes and returns its cost.
func episode(t testing.TB, c domain.Case, index int, decide func(s, c []float64) []float64) (cost float64) {
	t.Helper()
	ep := require.Get(c.Plant.Episode(991, index, domain.EpisodeOptions{Preference: adaptively}))(t)
	spec := c.Problem.Spec()
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	for !ep.Done() {
		ep.Observe(s, cx)
		out := require.Get(ep.Apply(decide(s, cx)))(t)
		if !spec.Keeps(out.Margin) {
			t.Errorf("episode %d: margin %g", index, out.Margin)
		}
		cost += out.Cost
	}
	return cost
}

// episodesOfTest are driven with an exact solution, which takes seconds.
func episodesOfTest() int {
	if testing.Short() {
		return 1
	}
	return 3
}

// In closed loop with the bundled map 64 roll-outs have less regret than direct in every
// one of these episodes, and less than a third of it in all.
func TestSearchHasLessRegretThanDirect(t *testing.T) {
	b, m, c := caseOneMap(t, 1)
	direct, search := require.Get(NewNavigator(b, m, c.Problem, Options{Direct: true}))(t), require.Get(NewNavigator(b, m, c.Problem, Options{Search: SearchOptions{Candidates: 64}}))(t)
	total := [2]float64{}
	for index := range episodesOfTest() {
		ep := require.Get(c.Plant.Episode(991, index, domain.EpisodeOptions{Preference: adaptively}))(t)
		oracle, _, err := ep.Oracle()
		if err != nil {
			t.Fatal(err)
		}
		regret := [2]float64{}
		for i, n := range []*Navigator{direct, search} {
			n.Reset()
			cost := episode(t, c, index, func(s, cx []float64) []float64 {
				return require.Get(n.Decide(s, cx, adaptively))(t).U
			})
			regret[i] = (cost - oracle) / oracle
			total[i] += regret[i]
		}
		if !(regret[1] < regret[0]) {
			t.Errorf("episode %d: regret %g, direct's is %g", index, regret[1], regret[0])
		}
	}
	if !(total[1] < total[0]/3) {
		t.Errorf("regret of all episodes %g, direct's is %g", total[1], total[0])
	}
}

// What a decision has found is not lost to the next: an episode whose end is known costs,
// under the model, no more than the first decision's best roll-out, and a decision's no
// more than the rest of that of the decision before.
func TestWhatIsFoundIsKept(t *testing.T) {
	b, m, c := caseOneMap(t, 1)
	n := require.Get(NewNavigator(b, m, c.Problem, Options{Search: SearchOptions{Candidates: 48}}))(t)
	for index := range 2 {
		n.Reset()
		ep := require.Get(c.Plant.Episode(991, index, domain.EpisodeOptions{Preference: adaptively}))(t)
		spec, left := c.Problem.Spec(), math.Inf(1)
		s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		for step := 0; !ep.Done(); step++ {
			ep.Observe(s, cx)
			u := require.Get(n.Decide(s, cx, adaptively))(t).U
			best := n.batch.loops[0].memory.Best().Cost
			if !(best <= left+1e-5*best) {
				t.Errorf("episode %d, step %d: %g of what was %g", index, step, best, left)
			}
			left = best - require.Get(ep.Apply(u))(t).Cost
		}
		if math.Abs(left) > 1e-6 {
			t.Errorf("episode %d: %g is left at its end", index, left)
		}
	}
}

// actions are those of two episodes of Case 1, one after another, in loop 0 of size.
func actions(t testing.TB, threads, size int, o SearchOptions) (all []float64) {
	t.Helper()
	b, m, c := caseOneMap(t, threads)
	batch := require.Get(NewBatch(b, m, c.Problem, Options{Search: o}, size))(t)
	for range 2 {
		batch.Reset()
		obs, out := make([]Observation, size), make([]Decision, size)
		episode(t, c, 1, func(s, cx []float64) []float64 {
			for i := range obs {
				other := slices.Clone(s)
				other[0] += 0.1 * float64(i)
				obs[i] = Observation{S: other, C: cx, Preference: adaptively}
			}
			if err := batch.Decide(obs, out); err != nil {
				t.Fatal(err)
			}
			all = append(all, out[0].U...)
			return out[0].U
		})
	}
	return all
}

// Threads, the company of other loops and what an earlier episode left change nothing;
// the seed does.
func TestSearchIsDeterministic(t *testing.T) {
	o := SearchOptions{Candidates: 40, LookAhead: 6, Seed: 5}
	want := actions(t, 1, 1, o)
	if half := len(want) / 2; !slices.Equal(want[:half], want[half:]) {
		t.Error("an episode is not the same after another")
	}
	for _, other := range [][2]int{{3, 1}, {1, 3}, {2, 2}} {
		if got := actions(t, other[0], other[1], o); !slices.Equal(got, want) {
			t.Errorf("%d threads, %d loops: %v, want %v", other[0], other[1], got, want)
		}
	}
	o.Seed++
	if got := actions(t, 1, 1, o); slices.Equal(got, want) {
		t.Error("another seed gives the same actions")
	}
}

// broken is the cart with parts that are NaN to the right of a place.
type broken struct {
	*testdomain.Cart
	from               float64
	cost, margin, step bool
}

func (p broken) spoil(s, of []float64, yes bool) {
	if yes && s[0] > p.from {
		of[0] = math.NaN()
	}
}

func (p broken) Objectives(s, u, c, J []float64) {
	p.Cart.Objectives(s, u, c, J)
	p.spoil(s, J, p.cost)
}

func (p broken) Margins(s, c, u, m []float64) {
	p.Cart.Margins(s, c, u, m)
	p.spoil(s, m, p.margin)
}

func (p broken) Step(s, c, u, sNext, cNext []float64) {
	p.Cart.Step(s, c, u, sNext, cNext)
	p.spoil(s, sNext, p.step)
}

// A roll-out that meets what is not a number is not chosen where another does not, and
// where all do direct's action is executed.
func TestSearchAvoidsNaN(t *testing.T) {
	s, c, pref := []float64{0.5, 0.3}, []float64{0}, simplex(0.1)
	// What direct reaches is not a number, a little less is.
	farthest := 0.0
	for q, v, h := s[0], s[1], 0; h < cartSteps; h++ {
		farthest = max(farthest, q)
		u := testdomain.Feedback[0]*q + testdomain.Feedback[1]*v + 0.2*pref.W[1]
		q, v = q+testdomain.Dt*v+0.5*testdomain.Dt*testdomain.Dt*u, v+testdomain.Dt*u
	}
	for name, p := range map[string]broken{"cost": {cost: true}, "margin": {margin: true}, "step": {step: true}} {
		p.Cart, p.from = testdomain.NewCart(cartSteps), farthest-1e-3
		n := searcher(t, ref.New(), p, SearchOptions{Candidates: 512})
		d := require.Get(n.Decide(s, c, pref))(t)
		best := n.batch.loops[0].memory.Best()
		if !n.batch.search.sampler.Feasible(best) || !(math.Abs(d.U[0]) <= 1) {
			t.Errorf("%s: u %v of a roll-out of cost %v, margin %v", name, d.U, best.Cost, best.Margin)
		}
		p.from = -10
		direct := require.Get(NewNavigator(ref.New(), testdomain.Map(p.Cart, 5, false), p.Cart, Options{Direct: true}))(t)
		want := require.Get(direct.Decide(s, c, pref))(t)
		n = searcher(t, ref.New(), p, SearchOptions{Candidates: 40})
		d = require.Get(n.Decide(s, c, pref))(t)
		if best := n.batch.loops[0].memory.Best(); (best == nil) != (name != "cost") {
			t.Errorf("%s everywhere: best %+v", name, best)
		}
		if name == "step" && d.U[0] != want.U[0] || !(math.Abs(d.U[0]) <= 1) {
			t.Errorf("%s everywhere: u %v, direct's is %v", name, d.U, want.U)
		}
	}
}

func TestSearchRefusesWhatItCannot(t *testing.T) {
	cart, plans := testdomain.NewCart(3), testdomain.NewPlanCart(3, 2)
	for _, c := range []struct {
		p    *testdomain.Cart
		o    SearchOptions
		says string
	}{
		{cart, SearchOptions{Candidates: -1}, "-1 candidates"}, {cart, SearchOptions{Candidates: MaxCandidates + 1}, "candidates"},
		{cart, SearchOptions{LookAhead: 3}, "0 candidates"}, {cart, SearchOptions{Candidates: 3, LookAhead: -1}, "look-ahead -1"},
		{plans, SearchOptions{Candidates: 3}, `"cart" have 2`},
	} {
		if _, err := NewNavigator(ref.New(), testdomain.Map(c.p, 5, false), c.p, Options{Search: c.o}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want an error with %q", c.o, err, c.says)
		}
	}
}

// A search whose time is over has made one round: what it found is no dearer than the policy's plan.
func TestASearchMakesOneRoundWhateverItsTime(t *testing.T) {
	p := finite{testdomain.NewCart(cartSteps)}
	o := SearchOptions{Candidates: 256, TimeLimit: 1}
	n := searcher(t, ref.New(), p, o)
	for _, s := range [][]float64{{-1, 0.4}, {0.5, -0.3}} {
		n.Reset()
		require.Get(n.Decide(s, []float64{0}, simplex(0.4)))(t)
		best, round := n.batch.loops[0].memory.Best(), n.batch.search.round
		if best == nil || best.Number >= round || round >= o.Candidates {
			t.Errorf("at %v the best of a round of %d is %+v", s, round, best)
		}
	}
}

// What a device says of its rounds is added up: candidates, feasible ones and their cost, and the least of all. The best so far is the
// proposals' until a round is better, and never gets worse.
func TestADevicesRoundsAddUp(t *testing.T) {
	n := searcher(t, ref.New(), finite{testdomain.NewCart(cartSteps)}, SearchOptions{Candidates: 64})
	for _, found := range []bool{false, true} {
		a := require.Get(newRolloutSearch(n.batch.loaded, 64, 16, cartSteps))(t)
		a.device = &deviceSearch{}
		a.device.out.Rounds = []backend.SearchRound{
			{Candidates: 16, Feasible: 3, Total: 33, Least: 10, Cost: 10, Margin: 0.1}, {Candidates: 16, Feasible: 5, Total: 45, Least: 8, Cost: 8, Margin: 0.2},
			{Candidates: 8, Feasible: 0, Total: 0, Least: math.Inf(1), Cost: 8, Margin: 0.2},
		}
		if found {
			a.device.out.Outcome.Number = []int{3}
		}
		stats := domain.SourceStatistics{Candidates: 1, BestCost: math.Inf(1)}
		result := Refinement{}
		result.Candidates, result.Cost, result.Margin, result.Feasible = 20, 9, 0.3, true
		a.report(Observation{}, &stats, &result)
		if stats.Candidates != 41 || stats.Feasible != 8 || stats.MeanCost != 78 || stats.BestCost != 8 || result.Candidates != 60 {
			t.Errorf("%+v, %d candidates", stats, result.Candidates)
		}
		for k, want := range []RefineRound{{36, 9, 0.3, true}, {52, 8, 0.2, true}, {60, 8, 0.2, true}} {
			if !found {
				want.Cost, want.Margin = 9, 0.3
			}
			if result.Rounds[k] != want {
				t.Errorf("found %v, round %d: %+v, want %+v", found, k, result.Rounds[k], want)
			}
		}
	}
}

// stepping is the cart with a score of its own that counts its steps.
type stepping struct{ speeding }

func (p stepping) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Score: func(s, c, u, J, m []float64) {
		p.Objectives(s, u, c, J)
		p.Margins(s, c, u, m)
	}}
}

// Nobody steps to where a last action leads, if its score says all; nobody searches what is not measured.
func TestStepsThatNobodyNeeds(t *testing.T) {
	p := newSpeeding(2)
	require.Get(searcher(t, ref.New(), stepping{p}, SearchOptions{Candidates: 4, LookAhead: 3}).Decide([]float64{0.1, 0}, []float64{0}, adaptively))(t)
	if n := p.steps.Load(); n != 4*2 {
		t.Errorf("%d steps of 4 roll-outs of 3 actions", n)
	}
	p.steps.Store(0)
	require.Get(searcher(t, ref.New(), p, SearchOptions{Candidates: 4, LookAhead: 3}).Decide([]float64{math.NaN(), 0}, []float64{0}, adaptively))(t)
	if n := p.steps.Load(); n != 0 {
		t.Errorf("%d steps from a state that is no number", n)
	}
}
