package batchnav

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// A constant of the navigation may be at either end of its range, and not beyond.
func TestConstantsOfTheNavigationHaveARange(t *testing.T) {
	spec, tiny, huge := testdomain.NewCart(3).Spec(), math.SmallestNonzeroFloat32, math.MaxFloat32
	for name, c := range map[string]struct {
		field  func(*domain.Navigation) *float64
		lo, hi float64
	}{
		"LatentStep":     {func(n *domain.Navigation) *float64 { return &n.LatentStep }, 0, huge},
		"VMax":           {func(n *domain.Navigation) *float64 { return &n.VMax }, 0, huge},
		"Epsilon":        {func(n *domain.Navigation) *float64 { return &n.Epsilon }, tiny, huge},
		"MetricLambda":   {func(n *domain.Navigation) *float64 { return &n.MetricLambda }, 0, huge},
		"LieGain":        {func(n *domain.Navigation) *float64 { return &n.LieGain }, 0, huge},
		"LieScale":       {func(n *domain.Navigation) *float64 { return &n.LieScale }, -huge, huge},
		"RetractionMix":  {func(n *domain.Navigation) *float64 { return &n.RetractionMix }, 0, 1},
		"Smoothing":      {func(n *domain.Navigation) *float64 { return &n.Smoothing }, tiny, 1},
		"PriorityFilter": {func(n *domain.Navigation) *float64 { return &n.PriorityFilter }, tiny, 1},
	} {
		beyond := func(v, towards float64) float64 { return v + (towards-v)*1e-9 }
		for v, ok := range map[float64]bool{c.lo: true, c.hi: true, min(-tiny/2, 2*c.lo, c.lo-tiny/2): false, 2 * c.hi: false, beyond(c.hi, 4*huge): false, math.Inf(1): false, math.Inf(-1): false} {
			nav := spec.Navigation
			*c.field(&nav) = v
			if _, err := (&Options{Navigation: &nav}).resolve(spec); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %v: %v", name, v, err)
			}
		}
		nav := spec.Navigation
		*c.field(&nav) = math.NaN()
		if _, err := (&Options{Navigation: &nav}).resolve(spec); err == nil {
			t.Errorf("%s is no number", name)
		}
	}
	for name, field := range map[string]func(*domain.Navigation) *int{
		"TopK":           func(n *domain.Navigation) *int { return &n.TopK },
		"Neighbours":     func(n *domain.Navigation) *int { return &n.Neighbours },
		"RotationBlocks": func(n *domain.Navigation) *int { return &n.RotationBlocks },
	} {
		for v, ok := range map[int]bool{0: true, math.MaxInt32: true, -1: false, math.MaxInt32 + 1: false} {
			nav := spec.Navigation
			*field(&nav) = v
			if _, err := (&Options{Navigation: &nav}).resolve(spec); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %v: %v", name, v, err)
			}
		}
	}
	nav := spec.Navigation
	nav.Smoothing, nav.PriorityFilter = 0, 0
	if got := require.Get((&Options{Navigation: &nav, NoLie: true, NoRetraction: true}).resolve(spec))(t); got.Smoothing != 1 || got.PriorityFilter != 1 || got.LieGain != 0 || got.RetractionMix != 0 || got.VMax != nav.VMax {
		t.Errorf("%+v of %+v", got, nav)
	}
	for v, ok := range map[float64]bool{0: true, 1: true, math.Inf(1): true, -1e-9: false, math.NaN(): false} {
		if _, err := (&Options{ResidualLimit: v}).resolve(spec); (err == nil) != ok {
			t.Errorf("a residual limit of %v: %v", v, err)
		}
	}
	p := stepParams(domain.Navigation{TopK: 5, LatentStep: 0.5}, 3)
	if q := stepParams(domain.Navigation{TopK: 2}, 3); p.TopK != 3 || q.TopK != 2 || p.Dt != 0.5 {
		t.Errorf("%+v, %+v", p, q)
	}
}

// A method's name says its candidates, whether it polishes, searches ahead, or leaves a part out.
func TestAMethodIsWhatItsNameSays(t *testing.T) {
	p := testdomain.NewCart(3)
	for _, m := range Named() {
		o := require.Get(OptionsFor(m.Name))(t)
		var n int
		if _, err := fmt.Sscanf(m.Name, "refine-%d", &n); err != nil && strings.HasPrefix(m.Name, "polish") {
			n = 1
		}
		has := func(part string) bool { return strings.Contains(m.Name, part) }
		polish := 0
		if has("polish") {
			polish = polishIterations
		}
		if o.Search.Candidates != n || n > 1 && m.Candidates != n || o.Search.Polish != polish || o.Search.Ahead != has("-ahead") || m.Ahead != has("-ahead") || o.Direct != strings.HasPrefix(m.Name, "direct") || o.Observer != has("observer") || m.Needs != domain.NeedsMap {
			t.Errorf("%s: %+v, %+v", m.Name, m, o)
		}
		for part, set := range map[string]bool{
			"semantic": o.NoSemantic, "rollout": o.NoRollout, "lie": o.NoLie, "retraction": o.NoRetraction, "projection": o.NoProjection, "fallback": o.NoFallback, "guard": o.NoGuard, "rescue": o.NoRescue,
		} {
			if set != has("-no-"+part) {
				t.Errorf("%s: without %s is %t", m.Name, part, set)
			}
		}
		if n > 1 && !strings.Contains(m.About, fmt.Sprintf("best of %d roll-outs", n)) || n > 1 && strings.Contains(m.About, "improved") != has("polish") || n > 1 && strings.Contains(m.About, "between decisions") != has("ahead") {
			t.Errorf("%s is about %q", m.Name, m.About)
		}
		offered := slices.ContainsFunc(Methods(p, false), func(o domain.Method) bool { return o.Name == m.Name })
		if offered != (polish == 0 && !o.NoGuard && !o.NoRescue) {
			t.Errorf("%s is a method of a cart without a guard: %t", m.Name, offered)
		}
		longer := slices.ContainsFunc(Methods(testdomain.NewPlanCart(3, 2), true), func(o domain.Method) bool { return o.Name == m.Name })
		if longer != (n == 0) {
			t.Errorf("%s is a method of longer plans: %t", m.Name, longer)
		}
	}
}

// How far a roll-out looks ahead: as requested, else to the known end of the episode, else a whole one; never beyond a clock, and at least a step.
func TestLookAheads(t *testing.T) {
	for _, c := range []struct {
		plan, steps, horizon      int
		clock                     float64
		known, request, remaining int // known: by the problem, 0: not
		want                      int
	}{
		{1, 20, 0, 0, 0, 0, 0, 20}, {1, 20, 0, 0, 0, 7, 0, 7}, {1, 20, 0, 0, 0, 7, 5, 7}, {1, 20, 0, 0, 0, 0, 5, 5}, {1, 20, 0, 0, 0, 30, 0, 30},
		{1, 20, 0, 0, 6, 0, 0, 6}, {1, 20, 0, 0, 30, 0, 0, 20}, {1, 20, 0, 0, 6, 9, 0, 9}, {1, 20, 0, 0, -3, 0, 0, 1},
		{4, 20, 0, 0, 0, 0, 0, 4}, {4, 20, 0, 0, 0, 3, 0, 3}, {4, 20, 0, 0, 0, 9, 2, 4},
		{1, 20, 0, 1, 6, 9, 0, 6}, {1, 20, 0, 1, 6, 4, 0, 4}, {1, 20, 0, 1, 0, 30, 0, 20},
	} {
		spec := &domain.Spec{Plan: c.plan, Steps: c.steps}
		spec.Clock = domain.Spec{}.Clock
		if c.clock > 0 {
			spec.Clock++
		}
		may := &domain.ProblemAbilities{}
		if c.known != 0 {
			may.Remaining = func([]float64) int { return c.known }
		}
		if got := lookAhead(spec, may, nil, c.request, c.remaining); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Rounds and their sizes: eight on a host; where places take candidates at once, enough to fill them, from four, or three of one step, to eight.
func TestRoundsFillThePlaces(t *testing.T) {
	for _, c := range []struct{ n, steps, places, rounds, size int }{
		{512, 20, 0, 8, 64}, {512, 1, 0, 8, 64}, {513, 20, 0, 8, 65}, {64, 20, 0, 8, 16}, {10, 20, 0, 8, 10}, {16, 5, 0, 8, 16}, {1, 5, 0, 8, 1},
		{512, 20, 512, 4, 128}, {512, 1, 512, 3, 171}, {512, 2, 512, 4, 128}, {512, 20, 100, 6, 86}, {500, 20, 100, 5, 100}, {501, 20, 100, 6, 84}, {512, 20, 10, 8, 64}, {400, 1, 100, 4, 100}, {200, 1, 100, 3, 67},
	} {
		if got := roundsOf(c.n, c.steps, c.places); got != c.rounds || roundSize(c.n, got) != c.size {
			t.Errorf("%+v: %d rounds of %d", c, got, roundSize(c.n, got))
		}
		spec := &domain.Spec{Plan: 1}
		rounds := c.rounds
		if c.places == 0 {
			rounds++ // the proposals
		}
		proposed, rest := Split(spec, RefineOptions{Candidates: c.n}, c.steps, c.places)
		if proposed != roundSize(c.n, rounds) || proposed+rest != c.n {
			t.Errorf("%+v: %d proposals and %d", c, proposed, rest)
		}
	}
	for _, c := range []struct {
		plan int
		none bool
	}{{2, false}, {1, true}} {
		if proposed, rest := Split(&domain.Spec{Plan: c.plan}, RefineOptions{Candidates: 100, NoRounds: c.none}, 3, 0); proposed != 100 || rest != 0 {
			t.Errorf("%+v: %d and %d", c, proposed, rest)
		}
	}
	hour := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		limit  time.Duration
		rounds int
		want   bool
	}{{0, 1, false}, {time.Minute, 0, false}, {time.Minute, 1, true}, {90 * time.Minute, 1, true}, {3 * time.Hour, 1, false}, {70 * time.Minute, 4, true}, {80 * time.Minute, 4, false}} {
		if late(c.limit, hour, c.rounds) != c.want {
			t.Errorf("behind an hour of %d rounds, %v at most: late is %t", c.rounds, c.limit, !c.want)
		}
	}
}

// The plans of a question are its fixed ones and the shares of the rest, rounded down, of which none goes beyond what is left.
func TestSharesAreOfTheRest(t *testing.T) {
	for _, c := range []struct {
		count                              int
		previous                           bool
		mix                                Mixture
		neighbours, preferences, previous_ int
	}{
		{102, false, Mixture{Neighbours: 0.25, Preference: 0.5, Previous: 0.25}, 25, 50, 0}, {103, true, Mixture{Neighbours: 0.25, Preference: 0.5, Previous: 0.25}, 25, 50, 25}, {102, false, Mixture{Neighbours: 0.29, Preference: 0.7, Previous: 0}, 29, 70, 0},
		{2, false, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 0, 0, 0}, {1, false, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 0, 0, 0}, {0, true, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 0, 0, 0}, {3, false, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 1, 0, 0}, {3, true, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 0, 0, 0},
		{12, false, Mixture{Neighbours: 0.99, Preference: 0, Previous: 0}, 9, 0, 0}, {12, false, Mixture{Neighbours: 0.7, Preference: 0.7, Previous: 0}, 7, 3, 0}, {13, true, Mixture{Neighbours: 0.5, Preference: 0.4, Previous: 0.5}, 5, 4, 1},
	} {
		q := domain.Question{Count: c.count}
		if c.previous {
			q.Previous = []float32{0}
		}
		if a, b, d := shares(&q, c.mix); a != c.neighbours || b != c.preferences || d != c.previous_ {
			t.Errorf("%+v: %d, %d and %d", c, a, b, d)
		}
	}
	z, normals := make([]float32, 2), make([]float64, 2)
	perturb([]float32{1, 2}, 0.5, 3, 4, normals, z)
	for j := range z {
		if normals[j] == 0 || z[j] != float32(j+1)+float32(0.5*normals[j]) {
			t.Errorf("%v of %v", z, normals)
		}
	}
}

// Requests at the ends of their ranges are taken, and none beyond.
func TestRequestsHaveARange(t *testing.T) {
	cart := testdomain.NewCart(20)
	m := testdomain.Map(cart, 3, false)
	r := require.Get(NewRefiner(ref.New(), m, cart, Options{}, 1))(t)
	question := domain.Question{S: []float64{0, 0}, C: []float64{0}, Preference: adaptively}
	for _, c := range []struct {
		o  RefineOptions
		ok bool
	}{
		{RefineOptions{Candidates: 1}, true}, {RefineOptions{}, false}, {RefineOptions{Candidates: MaxCandidates, LookAhead: 1}, true}, {RefineOptions{Candidates: MaxCandidates + 1, LookAhead: 1}, false},
		{RefineOptions{Candidates: 1, LookAhead: MaxLookAhead}, true}, {RefineOptions{Candidates: 1, LookAhead: MaxLookAhead + 1}, false}, {RefineOptions{Candidates: 1, LookAhead: -1}, false},
		{RefineOptions{Candidates: 1, Remaining: MaxLookAhead}, true}, {RefineOptions{Candidates: 1, Remaining: MaxLookAhead + 1}, false}, {RefineOptions{Candidates: 1, Remaining: -1}, false},
		{RefineOptions{Candidates: 1, TimeLimit: 1}, true}, {RefineOptions{Candidates: 1, TimeLimit: -1}, false}, {RefineOptions{Candidates: 1, FlowSteps: MaxFlowSteps}, true}, {RefineOptions{Candidates: 1, FlowSteps: MaxFlowSteps + 1}, false},
		{RefineOptions{Candidates: 1 << 18, LookAhead: 1 << 10}, true}, {RefineOptions{Candidates: 1<<18 + 1, LookAhead: 1 << 10}, false},
		{RefineOptions{Candidates: 1, Mixture: Mixture{Neighbours: 0.5, Preference: 0.25, Previous: 0.25}}, true}, {RefineOptions{Candidates: 1, Mixture: Mixture{Neighbours: 0.5, Preference: 0.25, Previous: 0.26}}, false},
		{RefineOptions{Candidates: 1, Mixture: Mixture{Neighbours: -0.1}}, false}, {RefineOptions{Candidates: 1, Mixture: Mixture{Preference: -0.1}}, false}, {RefineOptions{Candidates: 1, Mixture: Mixture{Previous: -0.1}}, false}, {RefineOptions{Candidates: 1, Mixture: Mixture{Previous: math.NaN()}}, false},
	} {
		if err := r.checkRefine(&c.o, &question); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	p := require.Get(NewProposer(ref.New(), m, cart, Options{}, 1))(t)
	all := slices.Repeat([]domain.Question{question}, MaxQuestions+1)
	answers := make([]domain.Answer, len(all))
	for n, ok := range map[int]bool{MaxQuestions: true, MaxQuestions + 1: false, 0: true} {
		if _, err := p.checkAll(domain.ProposeOptions{}, all[:n], answers[:n]); (err == nil) != ok {
			t.Errorf("%d questions: %v", n, err)
		}
	}
	all[0].Count, all[1].Count = MaxCandidates-3, 3
	if total, err := p.checkAll(domain.ProposeOptions{}, all[:2], answers[:2]); err != nil || total != MaxCandidates {
		t.Errorf("%d plans: %v", total, err)
	}
	all[1].Count++
	if _, err := p.checkAll(domain.ProposeOptions{}, all[:2], answers[:2]); err == nil {
		t.Error("a plan more than there may be")
	}
	all[0].Previous = []float32{1, 2, float32(math.NaN())}
	if _, err := p.checkAll(domain.ProposeOptions{}, all[:1], answers[:1]); err == nil {
		t.Error("a latent that is no number")
	}
	if p.LatentSize() != 3 {
		t.Errorf("latents of %d", p.LatentSize())
	}
	for n, ok := range map[int]bool{0: false, -1: false, 1: true, MaxCandidates + 1: false} {
		_, refiner := NewRefiner(ref.New(), m, cart, Options{}, n)
		_, proposer := NewProposer(ref.New(), m, cart, Options{}, n)
		if (refiner == nil) != ok || (proposer == nil) != ok {
			t.Errorf("room for %d: %v, %v", n, refiner, proposer)
		}
	}
	for n, ok := range map[int]bool{0: false, 1: true} {
		if _, err := NewBatch(ref.New(), m, cart, Options{}, n); (err == nil) != ok {
			t.Errorf("%d loops: %v", n, err)
		}
	}
	b := require.Get(NewBatch(ref.New(), m, cart, Options{}, 2))(t)
	if b.Decide(make([]Observation, 1), make([]Decision, 2)) == nil || b.Decide(make([]Observation, 2), make([]Decision, 1)) == nil || b.DecideSome([]int{0}, make([]Observation, 1), make([]Decision, 2)) == nil || b.PrepareSome([]int{-1}) != nil {
		t.Error("another number of observations or decisions")
	}
	o := Options{Search: SearchOptions{Candidates: 1, Ahead: true}}
	b = require.Get(NewBatch(ref.New(), m, cart, o, 2))(t)
	if b.PrepareSome([]int{-1}) == nil || b.PrepareSome([]int{1, 0}) != nil || !strings.Contains(fmt.Sprint(b.PrepareSome([]int{2})), "want 0 to 1") {
		t.Error("the loops that are prepared are 0 and 1")
	}
	for c, ok := range map[SearchOptions]bool{
		{Candidates: 1, LookAhead: MaxLookAhead + 1}: false, {Candidates: 1, TimeLimit: -1}: false, {Candidates: 1, LookAhead: 1, TimeLimit: 1}: true, {Candidates: -1}: false,
	} {
		if _, err := NewBatch(ref.New(), m, cart, Options{Search: c}, 1); (err == nil) != ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A residual is off the map above a multiple of τ_t, at most the domain's bound and that multiple of the noise; without a τ_t above that bound.
func TestTheLimitOfAResidual(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct{ times, bound, tau, cover, variance, want float64 }{
		{10, 100, 2, 1, 0, 30}, {10, 100, 2, 1, 0.5, 35}, {10, 20, 2, 1, 0, 20}, {10, 20, 2, 1, 0.5, 25}, {inf, 20, 2, 1, 0.5, inf}, {10, 20, 0, 0, 0, 20}, {2, 20, 0, 0.5, 0, 1},
	} {
		l := &loaded{times: c.times, bound: c.bound, cover: c.cover, model: &model.Model{}}
		l.model.Calibration.TauGeom = c.tau
		if got := l.limit(c.variance); got != c.want || l.threshold(c.variance) != c.variance+c.tau+c.cover {
			t.Errorf("%+v: %g, threshold %g", c, got, l.threshold(c.variance))
		}
	}
	l := &loaded{envelope: envelope{lo: []float64{-1, 0}, hi: []float64{1, 2}}, model: &model.Model{NormS: testdomain.Scaled(1, 0.5)}}
	for _, c := range []struct {
		s, c, variance float64
		out            bool
	}{
		{1, 2, 0, false}, {-1, 0, 0, false}, {1.01, 0, 0, true}, {-1.01, 0, 0, true}, {0, 2.01, 0, true}, {0, -0.01, 0, true}, {math.NaN(), 0, 0, true}, {0, math.NaN(), 0, true},
		{1.29, 1, 0.04, false}, {1.31, 1, 0.04, true}, {-1.29, 1, 0.04, false}, {-1.31, 1, 0.04, true}, {0, 2.01, 9, true}, {0, -0.01, 9, true}, // the context has no noise
	} {
		if got := l.outsideEnvelope([]float64{c.s}, []float64{c.c}, c.variance); got != c.out {
			t.Errorf("%+v: %t", c, got)
		}
	}
	for v, want := range map[float64]float64{3: 3, inf: 7, -inf: 7} {
		if finiteOr(v, 7) != want || finiteOr(math.NaN(), 7) != 7 {
			t.Errorf("%g: %g", v, finiteOr(v, 7))
		}
	}
}

// The better plan is the safe one, then one that keeps the limits, then of two that keep them the cheaper, of two that do not the one that fails later,
// then the one of the larger margin. None is better than itself.
func TestTheBetterPlan(t *testing.T) {
	safe, dear := plan{steps: 3, fails: 3, cost: 1, margin: 0.1}, plan{steps: 3, fails: 3, cost: 2, margin: 0.9}
	narrow, dearNarrow := plan{steps: 3, fails: 3, narrow: true}, plan{steps: 3, fails: 3, narrow: true, cost: 1}
	late, early, wide := plan{steps: 3, fails: 2, margin: -9, cost: 5}, plan{steps: 3, fails: 1, margin: -2}, plan{steps: 3, fails: 1, margin: -1, cost: 9}
	order := []*plan{&safe, &dear, &narrow, &dearNarrow, &late, &wide, &early}
	for i, a := range order {
		for j, b := range order {
			if a.better(b) != (i < j) {
				t.Errorf("plan %d is better than %d: %t", i, j, a.better(b))
			}
		}
		if a.safe() != (i < 2) || a.keepsLimits() != (i < 4) {
			t.Errorf("plan %d is safe: %t, keeps its limits: %t", i, a.safe(), a.keepsLimits())
		}
	}
	var none plan
	if none.keepsLimits() || none.safe() {
		t.Error("no plan is safe")
	}
	p := plan{s: []float64{1, 2}, narrow: true, solved: true, fails: 1, steps: 9}
	p.take([]float64{1, 2, 3, 4}, 2)
	if p.steps != 2 || !p.safe() || p.solved || len(p.s) != 0 || !slices.Equal(p.actions, []float64{1, 2, 3, 4}) {
		t.Errorf("%+v", p)
	}
	p.prepend([]float64{8, 9}, []float64{5}, []float64{6})
	if p.steps != 3 || p.fails != 3 || !slices.Equal(p.actions, []float64{8, 9, 1, 2, 3, 4}) || !slices.Equal(p.s, []float64{5}) || !slices.Equal(p.c, []float64{6}) {
		t.Errorf("%+v", p)
	}
	p.continueWith([]float64{1, 2}, 2)
	if p.steps != 2 || !p.safe() || !slices.Equal(p.actions, []float64{0, 0, 1, 2}) || len(p.s) != 1 || !math.IsNaN(p.s[0]) {
		t.Errorf("%+v", p)
	}
	for _, c := range []struct {
		a, b, tolerance float64
		want            bool
	}{{1, 1, 0, true}, {1, 1.5, 0.5, true}, {1.5, 1, 0.5, true}, {1, 1.6, 0.5, false}, {1.6, 1, 0.5, false}, {math.NaN(), 1, 9, false}} {
		if equalWithin([]float64{3, c.a}, []float64{3, c.b}, []float64{0, c.tolerance}) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// The error at known answers is the share of their variation that the decoded plans miss, each component in units of its box.
func TestVariationMissed(t *testing.T) {
	l := &loaded{model: &model.Model{NormU: model.Normalizer{Mean: []float32{1, 0}, Scale: []float32{2, 4}}}, spec: &domain.Spec{Action: []domain.Variable{{Lo: -4, Hi: 4}, {}}}}
	samples := func(targets ...[]float64) (all []*domain.Sample) {
		for _, target := range targets {
			all = append(all, &domain.Sample{Target: target})
		}
		return all
	}
	for _, c := range []struct {
		targets [][]float64
		decoded []float32 // normalised
		want    float64
	}{
		{[][]float64{{1, 0}, {5, 4}}, []float32{0, 0, 2, 1}, 0},
		{[][]float64{{1, 0}, {5, 4}}, []float32{1, 0.5, 2, 1}, ((2./8)*(2./8) + 2*2) / (2*(2./8)*(2./8) + 2*2*2)},
		{[][]float64{{1, 0}, {5, 4}}, []float32{1, 0.5, 1, 0.5}, 1}, // the mean
		{[][]float64{{1, 0}}, []float32{5, 5}, 0},                   // nothing varies
	} {
		plans := tensor.New(len(c.targets), 2)
		copy(plans.Data, c.decoded)
		if got := l.variationMissed(samples(c.targets...), plans); math.Abs(got-c.want) > 1e-7 {
			t.Errorf("%+v: %g", c, got)
		}
	}
	l.spec.Action[0] = domain.Variable{Lo: 3, Hi: 3} // a box of one value has no unit
	plans := tensor.New(2, 2)
	if got, want := l.variationMissed(samples([]float64{1, 0}, []float64{5, 4}), plans), (4.*4+4*4)/(2*2*2+2*2*2); math.Abs(got-want) > 1e-7 {
		t.Errorf("of a fixed entry %g, want %g", got, want)
	}
	empty := &loaded{abilities: &domain.ProblemAbilities{}}
	if v, err := empty.answerError(); v != 0 || err != nil {
		t.Errorf("without answers %g, %v", v, err)
	}
}

// manyMargins is speeding whose margins are evaluated together, at most some at once.
type manyMargins struct {
	speeding
	most  int
	calls *int
}

func (p manyMargins) Most() int { return p.most }

func (p manyMargins) Evaluate(n int, x, u, next, margins []float64) {
	*p.calls++
	for i := range n {
		p.Margins(x[3*i:3*i+2], x[3*i+2:3*i+3], u[i:i+1], margins[2*i:2*i+2])
	}
}

func (p manyMargins) Abilities() *domain.ProblemAbilities {
	may := p.speeding.Abilities()
	may.ManyMargins = func() (domain.ManyMargins, error) { return p, nil }
	return may
}

// A guard that evaluates margins of several steps together accepts what one does that takes step after step, to the bit: plans, where they lead,
// margins and failures, of any number at once, far from the limits, at them, and beyond.
func TestGuardEvaluatesMarginsTogetherAsAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	m := testdomain.Map(testdomain.NewCart(cartSteps), 5, false)
	saved := 0
	for trial := range 30 {
		limit := 0.3 + 1.5*rng.Float64()
		s, pref := []float64{-2.5 + 4.6*rng.Float64(), -1 + 2.2*rng.Float64()}, simplex(rng.Float64())
		steps := rng.IntN(8)
		o := Options{Direct: true, NoRescue: trial%2 == 0, Guard: &domain.Guard{Steps: steps}}
		for _, most := range []int{1, 2, 3, 100} {
			alone, together := newSpeeding(limit), manyMargins{newSpeeding(limit), most, new(int)}
			a, b := require.Get(NewNavigator(ref.New(), m, alone, o))(t), require.Get(NewNavigator(ref.New(), m, together, o))(t)
			at, c := slices.Clone(s), []float64{0}
			for h := range 3 {
				d, e := require.Get(a.Decide(at, c, pref))(t), require.Get(b.Decide(at, c, pref))(t)
				p, q := &a.batch.loops[0].guard.accepted, &b.batch.loops[0].guard.accepted
				if d.Fallback != e.Fallback || !slices.Equal(d.U, e.U) || !slices.Equal(p.actions, q.actions) || !slices.Equal(p.s, q.s) || !slices.Equal(p.c, q.c) || p.fails != q.fails || p.steps != q.steps ||
					p.margin != q.margin || p.keepsLimits() && (!slices.Equal(p.endS, q.endS) || !slices.Equal(p.endC, q.endC)) {
					t.Fatalf("from %v below %g over %d, decision %d, %d at once: %v and %+v, want %v and %+v", s, limit, steps, h, most, e.Fallback, q, d.Fallback, p)
				}
				testdomain.NewCart(cartSteps).Step(slices.Clone(at), slices.Clone(c), d.U, at, c)
			}
			if most > 3 && *together.calls > 0 && *together.calls < 3*12 {
				saved++
			}
		}
	}
	if saved == 0 {
		t.Error("every step was evaluated alone")
	}
}

// The leading steps whose margins are sure are those above rounding, relative to the largest of each margin.
func TestSureMargins(t *testing.T) {
	for _, c := range []struct {
		margins []float64 // of two a step
		steps   int
		least   float64
	}{
		{[]float64{1, 5, 2, 0.5, 3, 7}, 3, 0.5}, {[]float64{1, 5, 2, -0.5, 0.1, 7}, 1, 1}, {[]float64{-1, 5, 2, 3, 3, 7}, 0, math.Inf(1)}, {[]float64{1, 5, math.NaN(), 3, 3, 7}, 0, math.Inf(1)},
		{[]float64{1, 1e6, 1, 0.9, 1, 1}, 1, 1}, {[]float64{1, 1e6, 1, 1.1, 1, 1.2}, 3, 1}, {[]float64{1, -1e6, 1, 0.9, 1, 1}, 0, math.Inf(1)}, {[]float64{1.9e-6, 1, 1, 1, 1, 1}, 0, math.Inf(1)}, {[]float64{2.1e-6, 1, 1, 1, 1, 1}, 3, 2.1e-6},
	} {
		m := &marginBatch{margins: c.margins, size: make([]float64, 2)}
		if steps, least := m.sure(3); steps != c.steps || least != c.least {
			t.Errorf("%v: %d steps, the least %g", c.margins, steps, least)
		}
	}
	for _, c := range []struct {
		margins []float64
		want    bool
	}{{[]float64{1, 1e-3}, true}, {[]float64{1, 0.9e-6}, false}, {[]float64{1.1e-6}, true}, {[]float64{-1}, false}, {[]float64{math.NaN(), 1}, false}, {[]float64{math.Inf(1)}, true}} {
		if surelyKept(c.margins) != c.want {
			t.Errorf("%v", c.margins)
		}
	}
}

// A refinement's residual is off the map above its limit, or where it is no number, and never without a limit.
func TestARefinementIsLocated(t *testing.T) {
	for _, c := range []struct {
		residual, limit float64
		off             bool
	}{{1, 2, false}, {2, 2, false}, {2.1, 2, true}, {0.3, 0.5, false}, {0.6, 0.5, true}, {math.NaN(), 0.5, true}, {9, 0, false}} {
		var r Refinement
		if r.Locate(c.residual, c.limit); r.OffMap != c.off || r.ResidualLimit != c.limit {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// An objective is weighed by its range among the samples, where there is one that is finite, unless the weights are raw.
func TestObjectivesAreWeighedByTheirRange(t *testing.T) {
	cart := testdomain.NewCart(3)
	m := testdomain.Map(cart, 3, false)
	inf := math.Inf(1)
	for _, c := range []struct {
		ideal, nadir []float64
		raw          bool
		want         []float64
	}{
		{[]float64{1, 2}, []float64{5, 4}, false, []float64{0.25, 0.5}}, {[]float64{1, 2}, []float64{5, 4}, true, []float64{1, 1}}, {[]float64{1, 2}, []float64{1, 1}, false, []float64{1, 1}},
		{[]float64{1, 2}, []float64{inf, 4}, false, []float64{1, 0.5}}, {nil, nil, false, []float64{1, 1}},
	} {
		m.Calibration.ObjectiveIdeal, m.Calibration.ObjectiveNadir = c.ideal, c.nadir
		nav := cart.Spec().Navigation
		nav.RawWeights = c.raw
		l, err := load(ref.New(), m, cart, &Options{Navigation: &nav})
		if err != nil { // a range that the model refuses
			continue
		}
		w := make([]float32, 2)
		if l.weights([]float64{1, 3}, w); !slices.Equal(l.inverseRange, c.want) || w[0] != float32(c.want[0]) || w[1] != float32(3*c.want[1]) {
			t.Errorf("%+v: %v, weights %v", c, l.inverseRange, w)
		}
	}
}

// τ_cover is the 95 % quantile over at most 64 codes, evenly taken, of the largest squared distance to the nearest, of the number that a refinement uses.
func TestTheSpacingOfTheCodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for _, n := range []int{1, 2, 5, 40, 64, 65, 130} {
		codes, decoded := tensor.New(n, 2), tensor.New(n, 2)
		for i := range codes.Data {
			codes.Data[i] = float32(rng.NormFloat64())
			decoded.Data[i] = float32(rng.NormFloat64())
		}
		for _, neighbours := range []int{0, 1, 3} {
			var spacing []float64
			samples := min(n, 64)
			for i := range samples {
				k := i * n / samples
				order := make([]int, n)
				for j := range order {
					order[j] = j
				}
				away := func(j int) float64 { return tensor.SquaredDistance(codes.Row(k), codes.Row(j)) }
				slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, away(a)-away(b))) })
				largest := 0.0
				for _, j := range order[:min(n, max(1, neighbours)+1)] {
					largest = max(largest, tensor.SquaredDistance(decoded.Row(k), decoded.Row(j)))
				}
				spacing = append(spacing, largest)
			}
			slices.Sort(spacing)
			got := require.Get(coverTolerance(require.Get(ref.New().NewIndex(codes, decoded))(t), codes, decoded, neighbours))(t)
			if want := spacing[(samples-1)*95/100]; math.Abs(got-want) > 1e-6*(1+want) {
				t.Errorf("%d codes, %d neighbours: %g, want %g", n, neighbours, got, want)
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

// A deadline is shared by the loops that still search; the shorter of it and a time limit counts. One that has passed leaves one round.
func TestADeadlineIsShared(t *testing.T) {
	p := finite{testdomain.NewCart(cartSteps)}
	for _, c := range []struct {
		limit, left time.Duration
		want        []int
	}{
		{0, time.Hour, []int{2, 5}}, {15 * time.Minute, time.Hour, []int{1, 1}}, {2 * time.Hour, time.Hour, []int{2, 5}}, {0, -time.Hour, []int{1, 1}}, {0, 0, []int{0, 0}}, {50 * time.Minute, 0, []int{4, 4}},
	} {
		b := &scripted{Backend: ref.New(), search: func(backend.SearchInput, *backend.SearchOutput) error { return nil }}
		a := require.Get(NewBatch(b, testdomain.Map(p.Cart, 3, false), p, Options{Search: SearchOptions{Candidates: 20, TimeLimit: c.limit}}, 2))(t)
		a.search.device.round = time.Hour/5 - time.Minute/2
		obs := slices.Repeat([]Observation{{S: []float64{0.1, 0}, C: []float64{0}, Preference: adaptively}}, 2)
		if c.left != 0 {
			obs[0].Deadline = time.Now().Add(c.left)
			obs[1].Deadline = obs[0].Deadline
		}
		require.OK(t, a.Decide(obs, make([]Decision, 2)))
		if !slices.Equal(b.rounds, c.want) {
			t.Errorf("%v of %v: rounds %v, want %v", c.limit, c.left, b.rounds, c.want)
		}
	}
}

// Where a lost observation leaves a fallback that breaks a limit, a solver's action of a larger margin is executed, and no other.
func TestALostObservationsFallback(t *testing.T) {
	cart := testdomain.NewCart(50)
	const solved = domain.FallbackObservation | domain.FallbackSolver
	const braked = domain.FallbackObservation | domain.FallbackConservative
	nan := math.NaN()
	for _, c := range []struct {
		s    []float64
		u    float64
		want domain.Fallback
	}{{[]float64{2.2, 0.5}, -1.2, solved}, {[]float64{2.2, 0.5}, -0.5, braked}, {[]float64{2.2, 0.5}, -1, braked}, {[]float64{0, 0}, -0.5, braked}, {[]float64{nan, 0.5}, -1.2, braked}} {
		solver := func(_, _ []float64, _ domain.Preference, u []float64) bool {
			u[0] = c.u
			return true
		}
		n := require.Get(NewNavigator(ref.New(), testdomain.Map(cart, 3, false), cart, Options{Solver: solver}))(t)
		d := require.Get(n.Decide(c.s, []float64{nan}, adaptively))(t)
		u := -1.0
		if c.want == solved {
			u = c.u
		}
		if d.Fallback != c.want || d.U[0] != u || !math.IsNaN(d.Margin) || !math.IsNaN(d.Residual) || d.Displacement != 0 || d.Consistent || d.Decoded != nil || !d.OffMap {
			t.Errorf("%+v: %+v", c, d)
		}
	}
}

// What cannot be searched ahead is not prepared: a state that the dynamics lead out of the numbers, an episode at its end, roll-outs without a margin.
func TestWhatIsNotPrepared(t *testing.T) {
	o := SearchOptions{Candidates: 8, Ahead: true}
	ok := finite{testdomain.NewCart(cartSteps)}
	for name, c := range map[string]struct {
		p     domain.Problem
		ready bool
	}{"a plant": {ok, true}, "no number": {broken{Cart: ok.Cart, from: -9, step: true}, false}, "no margin": {broken{Cart: ok.Cart, from: -9, margin: true}, false}, "the end": {ends(ok), false}} {
		n := searcher(t, ref.New(), c.p, o)
		require.Get(n.Decide([]float64{0.2, 0}, []float64{0}, adaptively))(t)
		require.OK(t, n.Prepare())
		if l := &n.batch.loops[0]; l.prepared.ready != c.ready || !c.ready && l.memory.Steps() != 0 {
			t.Errorf("%s: prepared %t, %d steps", name, l.prepared.ready, l.memory.Steps())
		}
	}
}

// ends is the cart whose episode has one decision.
type ends struct{ *testdomain.Cart }

func (p ends) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Remaining: func(c []float64) int { return 1 - int(math.Ceil(c[0])) }}
}

// A refinement does not depend on those before it, of other sizes and look-aheads; of one candidate it is direct's decision.
func TestRefinementsDoNotDependOnThoseBefore(t *testing.T) {
	cart := testdomain.NewCart(cartSteps)
	m := testdomain.Map(cart, 5, false)
	r := require.Get(NewRefiner(ref.New(), m, cart, Options{}, 1))(t)
	obs := Observation{S: []float64{0.4, -0.3}, C: []float64{0}, Preference: simplex(0.3)}
	rng := rand.New(rand.NewPCG(1, 9))
	for range 12 {
		o := RefineOptions{Candidates: 1 + rng.IntN(150), LookAhead: 1 + rng.IntN(20), Seed: 3}
		got, want := require.Get(r.Refine(t.Context(), obs, o))(t), require.Get(require.Get(NewRefiner(ref.New(), m, cart, Options{}, o.Candidates))(t).Refine(t.Context(), obs, o))(t)
		if !slices.Equal(got.U, want.U) || got.Cost != want.Cost || got.Index != want.Index || !slices.Equal(got.Rounds, want.Rounds) || !slices.Equal(got.Latent, want.Latent) {
			t.Errorf("%+v: %+v, by itself %+v", o, got, want)
		}
	}
	one := require.Get(r.Refine(t.Context(), obs, RefineOptions{Candidates: 1}))(t)
	d := require.Get(require.Get(NewNavigator(ref.New(), m, cart, Options{Direct: true}))(t).Decide(obs.S, obs.C, obs.Preference))(t)
	if !slices.Equal(one.U, d.U) || one.Candidates != 1 || one.Index != 0 {
		t.Errorf("of one candidate %+v, direct's is %v", one, d.U)
	}
}

// The best proposal enters the rounds twice, for its first action alone and held to the end.
func TestTheBestProposalEntersTheRounds(t *testing.T) {
	cart := testdomain.NewCart(cartSteps)
	r := require.Get(NewRefiner(ref.New(), testdomain.Map(cart, 5, false), cart, Options{}, 1))(t)
	obs := Observation{S: []float64{0.4, -0.3}, C: []float64{0}, Preference: simplex(0.3)}
	o := RefineOptions{Candidates: 20, LookAhead: 3, Seed: 3}
	alone := o
	alone.Candidates, alone.NoRounds = 16, true
	proposed := require.Get(r.Refine(t.Context(), obs, alone))(t)
	require.Get(r.Refine(t.Context(), obs, o))(t)
	a := r.rounds
	if a == nil || a.round != 4 {
		t.Fatalf("%+v", a)
	}
	z := a.z.Row(0)
	for k := 1; k <= 2; k++ {
		for j, v := range a.offsets.Row(k)[:9] {
			want := proposed.Latent[j%3] - z[j%3]
			if k == 1 && j >= 3 {
				want = 0
			}
			if v != want {
				t.Errorf("candidate %d: offsets %v, the proposal is %v from %v", k, a.offsets.Row(k), proposed.Latent, z)
				break
			}
		}
	}
	all := domain.SourceStatistics{BestCost: 5, MeanCost: 1, Candidates: 2, Feasible: 3}
	copy(a.cost, []float64{7, 4, 6, 1})
	copy(a.margin, []float64{0, 1, 0, -1})
	if a.count(&all, 4); all.Candidates != 6 || all.Feasible != 6 || all.BestCost != 4 || all.MeanCost != 18 {
		t.Errorf("%+v", all)
	}
}
