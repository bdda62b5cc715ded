package batchnav

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

// scripted is a backend that refines and searches by itself as its functions say, and remembers what it told.
type scripted struct {
	backend.Backend
	refine    func(backend.RefineInput) (backend.RefineOutput, error)
	search    func(backend.SearchInput, *backend.SearchOutput) error
	score     func(backend.RolloutsInput, backend.RolloutsOutput) error
	made      error // of NewRefiner and NewRollouts
	executes  bool
	told      []string
	rounds    []int // of each search
	questions []backend.RefineInput
	scores    int
}

func (b *scripted) NewRefiner(backend.MapConfig) (backend.Refiner, error)        { return b, b.made }
func (b *scripted) NewRollouts(backend.RolloutsConfig) (backend.Rollouts, error) { return b, b.made }
func (b *scripted) Tell(_, text string)                                          { b.told = append(b.told, text) }
func (b *scripted) Executes() bool                                               { return b.executes }

func (b *scripted) Refine(in backend.RefineInput) (backend.RefineOutput, error) {
	b.questions = append(b.questions, in)
	return b.refine(in)
}

func (b *scripted) Search(in backend.SearchInput, out *backend.SearchOutput) error {
	b.rounds = append(b.rounds, in.Rounds)
	return b.search(in, out)
}

func (b *scripted) Score(in backend.RolloutsInput, out backend.RolloutsOutput) error {
	b.scores++
	return b.score(in, out)
}

// A device that refines is asked for what the host would do, and what it chose is the refinement. One that cannot, or cannot any
// longer, leaves it to the host, which does the same; its other errors are the refinement's.
func TestADeviceRefinesWhatItCan(t *testing.T) {
	const candidates = 40
	cart := testdomain.NewCart(cartSteps)
	m := testdomain.Map(cart, 5, false)
	obs := Observation{S: []float64{0.4, -0.3}, C: []float64{0}, Preference: simplex(0.3)}
	o := RefineOptions{Candidates: candidates, FlowSteps: 2, LookAhead: 3, Seed: 5, NoRounds: true, Previous: []float32{0.1, 0.2, 0.3}, Mixture: Mixture{Neighbours: 0.25, Preference: 0.25, Previous: 0.125}}
	host := require.Get(NewRefiner(ref.New(), m, cart, Options{}, candidates))(t)
	want := require.Get(host.Refine(t.Context(), obs, o))(t)

	chosen := backend.RefineOutput{
		U: []float64{0.5}, Latent: []float32{1, 2, 3}, Cost: 7, Margin: 0.5, Feasible: true, Index: 9, Source: domain.SourceNoise, FeasibleCount: 11,
		LocalizedCost: 8, LocalizedMargin: -1, Sigma: []float64{0.3, 0.7}, Decoded: []float32{0.7, 0.1}, Consistent: true,
	}
	chosen.Sources[domain.SourceNoise].Candidates = candidates
	b := &scripted{Backend: ref.New(), refine: func(backend.RefineInput) (backend.RefineOutput, error) { return chosen, nil }}
	r := require.Get(NewRefiner(b, m, cart, Options{}, candidates))(t)
	got := require.Get(r.Refine(t.Context(), obs, o))(t)
	if got.U[0] != 0.5 || got.Cost != 7 || got.Margin != 0.5 || !got.Feasible || got.Index != 9 || got.Source != domain.SourceNoise || got.FeasibleCount != 11 || got.LookAhead != 3 || got.Candidates != candidates ||
		got.LocalizedCost != 8 || got.LocalizedFeasible || !got.Consistent || len(got.Sources) != 1 || got.Sources[0].Source != domain.SourceNoise || len(got.Rounds) != 1 {
		t.Errorf("%+v of %+v", got, chosen)
	}
	if math.Abs(got.Residual-(0.3*0.3+0.4*0.4)) > 1e-6 || got.ResidualLimit != want.ResidualLimit || got.OffMap != (got.Residual > got.ResidualLimit) || !(got.Latency.Total > 0) {
		t.Errorf("a residual of %g, limit %g, off the map %t; %g µs", got.Residual, got.ResidualLimit, got.OffMap, got.Latency.Total)
	}
	in := b.questions[0]
	if in.Candidates != candidates || in.FlowSteps != 2 || in.LookAhead != 3 || in.Seed != 5 || in.NoProjection || in.Tau != float32(host.threshold(0)) || !slices.Equal(in.Previous, o.Previous) ||
		in.Neighbours != 9 || in.Sweep != 9 || in.Around != 4 || !slices.Equal(in.S, obs.S) || !slices.Equal(in.C, obs.C) || !in.Preference.Equal(obs.Preference) || in.TerminalCost != nil {
		t.Errorf("asked %+v", in)
	}
	for k, scale := range in.NoiseScales {
		if want := NoiseScales[k] * 2 / math.Sqrt(3); math.Abs(scale-want) > 1e-12 {
			t.Errorf("noise %d: %g, want %g", k, scale, want)
		}
	}
	w := make([]float64, 2)
	if in.Preferences(2, w); w[0] != 0.25 || w[1] != 0.75 {
		t.Errorf("preference 2 of 9: %v", w)
	}
	bare := *m
	bare.Codes, bare.CodesDecoded = tensor.Matrix{}, tensor.Matrix{}
	require.Get(require.Get(NewRefiner(b, &bare, cart, Options{}, candidates))(t).Refine(t.Context(), obs, o))(t)
	if in := b.questions[1]; in.Neighbours != 0 || in.Sweep != 9 {
		t.Errorf("of a map without codes: %d neighbours, %d preferences", in.Neighbours, in.Sweep)
	}

	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := r.Refine(ended, obs, o); !errors.Is(err, context.Canceled) || len(b.questions) != 2 {
		t.Errorf("behind its end: %v, %d questions", err, len(b.questions))
	}
	broken := errors.New("broken")
	b.refine = func(backend.RefineInput) (backend.RefineOutput, error) { return backend.RefineOutput{}, broken }
	if _, err := r.Refine(t.Context(), obs, o); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	b.refine = func(backend.RefineInput) (backend.RefineOutput, error) {
		return backend.RefineOutput{}, backend.ErrNoRefiner
	}
	for range 2 {
		if got := require.Get(r.Refine(t.Context(), obs, o))(t); !slices.Equal(got.U, want.U) || got.Cost != want.Cost || len(b.questions) != 4 {
			t.Errorf("by the host %v at %g, want %v at %g; %d questions", got.U, got.Cost, want.U, want.Cost, len(b.questions))
		}
	}
	for _, c := range []struct {
		made error
		says string // told
		err  bool
	}{{backend.ErrNoRefiner, "", false}, {errors.Join(backend.ErrNoRefiner, errors.New("too wide")), "too wide", false}, {broken, "", true}} {
		b := &scripted{Backend: ref.New(), made: c.made}
		r, err := NewRefiner(b, m, cart, Options{}, candidates)
		if (err != nil) != c.err || c.err && !errors.Is(err, broken) || (len(b.told) == 1) != (c.says != "") || c.says != "" && !strings.Contains(b.told[0], c.says) {
			t.Errorf("%v: error %v, told %q", c.made, err, b.told)
		}
		if err == nil {
			if got := require.Get(r.Refine(t.Context(), obs, o))(t); got.Cost != want.Cost || len(b.questions) > 0 {
				t.Errorf("%v: %g, want %g", c.made, got.Cost, want.Cost)
			}
		}
	}
}

// ending4 is the cart whose plans have a cost of their end, which a device gets as a form where there is one.
type ending4 struct {
	*testdomain.Cart
	available bool
	asked     *int
}

func (p ending4) Spec() *domain.Spec {
	spec := *p.Cart.Spec()
	spec.Horizon = 3
	return &spec
}

func (p ending4) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{
		TerminalCost: func(s, c []float64, pref domain.Preference) float64 { return 3*s[0]*s[0] + pref.W[0] },
		PlanTerminalCost: func(s, c []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool) {
			*p.asked++
			return &domain.Quadratic{At: []float64{s[0], s[1], float64(steps)}}, p.available
		},
	}
}

// A terminal cost is asked for once for all rounds of a decision, and again for any other decision. Of a problem without one there is none.
func TestATerminalCostIsOfOneDecision(t *testing.T) {
	p := ending4{testdomain.NewCart(cartSteps), true, new(int)}
	l := &loaded{problem: p, abilities: p.Abilities(), spec: p.Spec()}
	var e ending
	for i, c := range []struct {
		s, c  []float64
		steps int
		pref  domain.Preference
		asked int
	}{
		{[]float64{1, 2}, []float64{0}, 3, simplex(0.3), 1}, {[]float64{1, 2}, []float64{0}, 3, simplex(0.3), 1}, {[]float64{1, 2.5}, []float64{0}, 3, simplex(0.3), 2},
		{[]float64{1, 2.5}, []float64{0.1}, 3, simplex(0.3), 3}, {[]float64{1, 2.5}, []float64{0.1}, 2, simplex(0.3), 4}, {[]float64{1, 2.5}, []float64{0.1}, 2, simplex(0.4), 5},
		{[]float64{1, 2.5}, []float64{0.1}, 2, adaptively, 6}, {[]float64{1, 2.5}, []float64{0.1}, 2, adaptively, 6}, {[]float64{1, 2.5}, []float64{0.1}, 2, domain.Preference{}, 7},
	} {
		q, ok := e.terminalCost(l, c.s, c.c, c.steps, c.pref)
		if !ok || *p.asked != c.asked || q.At[0] != c.s[0] || q.At[1] != c.s[1] || q.At[2] != float64(c.steps) {
			t.Errorf("decision %d: %v, %t, asked %d times, want %d", i, q, ok, *p.asked, c.asked)
		}
	}
	p.available = false
	l.abilities = p.Abilities()
	if _, ok := e.terminalCost(l, []float64{0, 0}, []float64{0}, 1, adaptively); ok {
		t.Error("a cost that is no such form is available")
	}
	plain := testdomain.NewCart(cartSteps)
	if q, ok := e.terminalCost(&loaded{problem: plain, abilities: &domain.ProblemAbilities{}, spec: plain.Spec()}, nil, nil, 1, adaptively); q != nil || !ok {
		t.Errorf("without a terminal cost: %v, %t", q, ok)
	}
}

// Roll-outs add the cost of their end, a search's and the guard's, under their preference.
func TestRollOutsCostTheirEnd(t *testing.T) {
	p := ending4{testdomain.NewCart(cartSteps), true, new(int)}
	s, pref := []float64{-0.5, 0.1}, simplex(0.3)
	for name, o := range map[string]Options{"a search": {Search: SearchOptions{Candidates: 1, LookAhead: 3}}, "a guard": {Direct: true, Guard: &domain.Guard{Steps: 3}}} {
		n := require.Get(NewNavigator(ref.New(), testdomain.Map(p.Cart, 5, false), p, o))(t)
		require.Get(n.Decide(s, []float64{0}, pref))(t)
		var got float64
		if n.batch.guard != nil {
			w := &n.batch.loops[0].guard
			require.OK(t, n.batch.guard.rollOne(rollout{s: s, c: []float64{0}, pref: pref, steps: 3, priced: true, result: &w.other}))
			got = w.other.cost
		} else {
			got = n.batch.loops[0].memory.Best().Cost
		}
		want, at, c := 0.0, slices.Clone(s), []float64{0}
		J, next := make([]float64, 2), make([]float64, 2)
		for range 3 {
			u := []float64{testdomain.Feedback[0]*at[0] + testdomain.Feedback[1]*at[1] + 0.2*pref.W[1]}
			p.Objectives(at, u, c, J)
			want += pref.W[0]*J[0] + pref.W[1]*J[1]
			p.Step(at, c, u, next, c)
			copy(at, next)
		}
		if want += 3*at[0]*at[0] + pref.W[0]; math.Abs(got-want) > 1e-5 {
			t.Errorf("%s: a cost of %g, want %g", name, got, want)
		}
	}
}

// A device that searches is asked for whole decisions first, then round by round, and where it can do neither the host rolls out. Its
// outcome is the decision's; its other errors are too. With a limit of time it makes one round, and then those that fit.
func TestADeviceSearchesWhatItCan(t *testing.T) {
	const candidates = 20
	p := finite{testdomain.NewCart(cartSteps)}
	s, c, pref := []float64{0.4, -0.3}, []float64{0}, simplex(0.3)
	o := SearchOptions{Candidates: candidates, LookAhead: 2}
	want := slices.Clone(require.Get(searcher(t, ref.New(), p, o).Decide(s, c, pref))(t).U)
	outcome := crossentropy.Outcome{Number: []int{3}, Cost: []float64{5}, Margin: []float64{0.2}, Offsets: tensor.New(1, 6), Payload: tensor.New(1, 1)}
	outcome.Payload.Row(0)[0], outcome.Offsets.Row(0)[0] = 0.25, 0.5
	answers := func(_ backend.SearchInput, out *backend.SearchOutput) error {
		out.Outcome, out.Executed = outcome, []float64{0.25, 0.125}
		out.Rounds = append(out.Rounds, backend.SearchRound{Candidates: 16}, backend.SearchRound{Candidates: 4})
		return nil
	}
	fails := func(err error) func(backend.SearchInput, *backend.SearchOutput) error {
		return func(backend.SearchInput, *backend.SearchOutput) error { return err }
	}
	broken := errors.New("broken")
	scores := func(err error) func(backend.RolloutsInput, backend.RolloutsOutput) error {
		return func(in backend.RolloutsInput, out backend.RolloutsOutput) error {
			for i := range out.Cost { // the last of a round is the best
				out.Cost[i], out.Margin[i], out.First.Row(i)[0] = float64(-i), 0.1, float32(i)/32
			}
			return err
		}
	}
	for _, x := range []struct {
		name             string
		search           func(backend.SearchInput, *backend.SearchOutput) error
		score            error
		made             error
		searches, scores int // of two decisions
		u                float64
		err              error
		told             bool
	}{
		{"whole", answers, nil, nil, 2, 0, 0.25, nil, false},
		{"round by round", fails(backend.ErrNoSearch), nil, nil, 2, 4, 15. / 32, nil, false},
		{"neither", fails(backend.ErrNoSearch), backend.ErrNoRollouts, nil, 1, 1, want[0], nil, false},
		{"no longer", fails(backend.ErrNoRollouts), nil, nil, 1, 0, want[0], nil, false},
		{"never", nil, nil, errors.Join(backend.ErrNoRollouts, errors.New("too wide")), 0, 0, want[0], nil, true},
		{"broken", fails(broken), nil, nil, 1, 0, 0, broken, false},
		{"broken round", fails(backend.ErrNoSearch), broken, nil, 1, 1, 0, broken, false},
	} {
		b := &scripted{Backend: ref.New(), search: x.search, score: scores(x.score), made: x.made, executes: true}
		n := searcher(t, b, p, o)
		var err error
		var d *Decision
		for range 2 {
			n.Reset()
			if d, err = n.Decide(s, c, pref); err != nil {
				break
			}
			if math.Abs(d.U[0]-x.u) > 1e-6 {
				t.Errorf("%s: u %g, want %g", x.name, d.U[0], x.u)
			}
		}
		if !errors.Is(err, x.err) || len(b.rounds) != x.searches || b.scores != x.scores || (len(b.told) == 1) != x.told {
			t.Errorf("%s: error %v, %d searches and %d rounds asked for, want %d and %d; told %q", x.name, err, len(b.rounds), b.scores, x.searches, x.scores, b.told)
		}
		if m := n.batch.loops[0].memory; x.name == "whole" && (!slices.Equal(m.plan, []float64{0.25, 0.125}) || m.Best().Cost != 5 || math.Abs(d.Displacement-0.5) > 1e-7) {
			t.Errorf("%s: the plan is %v at %g, moved by %g", x.name, m.plan, m.Best().Cost, d.Displacement)
		}
	}
	b := &scripted{Backend: ref.New(), search: answers, score: scores(nil)}
	limited := o
	limited.TimeLimit = time.Hour
	n := searcher(t, b, p, limited)
	require.Get(n.Decide(s, c, pref))(t)
	n.batch.search.device.round = time.Hour / 5
	require.Get(n.Decide(s, c, pref))(t)
	n.batch.search.device.round = 2 * time.Hour
	require.Get(n.Decide(s, c, pref))(t)
	if len(b.rounds) != 3 || b.rounds[0] != 1 || b.rounds[1] != 4 || b.rounds[2] != 1 {
		t.Errorf("rounds %v of an hour, want 1, the 4 that end within it, and 1", b.rounds)
	}
	b.search = func(_ backend.SearchInput, out *backend.SearchOutput) error { return nil }
	if d := require.Get(n.Decide(s, c, pref))(t); math.Abs(d.U[0]-(testdomain.Feedback[0]*s[0]+testdomain.Feedback[1]*s[1]+0.2*pref.W[1])) > 1e-6 {
		t.Errorf("of no round %v", d.U)
	}
	// A device whose making is an error is one; one that does not say what it executes has no polish.
	if _, err := NewNavigator(&scripted{Backend: ref.New(), made: broken}, testdomain.Map(p.Cart, 5, false), p, Options{Search: o}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	polishes := polishing{p, func([]float64) bool { return false }}
	for _, executes := range []bool{false, true} {
		b := &scripted{Backend: ref.New(), search: answers, score: scores(nil), executes: executes}
		n := searcher(t, b, polishes, SearchOptions{Candidates: candidates, LookAhead: 2, Polish: 1})
		require.Get(n.Decide(s, c, pref))(t)
		if (len(b.rounds) == 1) != executes || (len(b.told) == 1) == executes || b.scores > 0 {
			t.Errorf("executes %t: %d searches, %d rounds, told %q", executes, len(b.rounds), b.scores, b.told)
		}
		if plan := n.batch.loops[0].memory.plan; executes && !slices.Equal(plan, []float64{0.25, 0.125}) {
			t.Errorf("the plan of a device is %v", plan)
		}
	}
	// What is looked ahead beyond the device's roll-outs, or ends at a cost that it has no form of, is the host's.
	b = &scripted{Backend: ref.New(), search: answers, score: scores(nil)}
	n = searcher(t, b, ending4{p.Cart, false, new(int)}, o)
	require.Get(n.Decide(s, c, pref))(t)
	m := searcher(t, b, p, o)
	m.batch.search.steps = 1
	require.Get(m.Decide(s, c, pref))(t)
	if len(b.rounds)+b.scores > 0 {
		t.Errorf("%d searches and %d rounds of what the device cannot", len(b.rounds), b.scores)
	}
}
