package batchnav

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// Where the plant goes as the dynamics say, an episode whose decisions are prepared is, bit for
// bit, the one whose decisions search; and one that is never prepared too.
func TestAheadIsTheSearchWhereItIsExpected(t *testing.T) {
	b, m, c := caseOneMap(t, 1)
	for _, o := range []SearchOptions{{Candidates: 40, Seed: 3}, {Candidates: 1, Polish: 4}, {Candidates: 20, Polish: 4, Seed: 5}} {
		search := require.Get(NewNavigator(b, m, c.Problem, Options{Search: o}))(t)
		o.Ahead = true
		prepared, not := require.Get(NewNavigator(b, m, c.Problem, Options{Search: o}))(t), require.Get(NewNavigator(b, m, c.Problem, Options{Search: o}))(t)
		for range 2 {
			for _, n := range []*Navigator{search, prepared, not} {
				n.Reset()
			}
			episode(t, c, 2, func(s, cx []float64) []float64 {
				want := require.Get(search.Decide(s, cx, adaptively))(t)
				for name, n := range map[string]*Navigator{"prepared": prepared, "not prepared": not} {
					d := require.Get(n.Decide(s, cx, adaptively))(t)
					if !slices.Equal(d.U, want.U) || !slices.Equal(d.Decoded, want.Decoded) || d.Displacement != want.Displacement {
						t.Fatalf("%+v, %s: u %v, moved %v; the search has %v, %v", o, name, d.U, d.Displacement, want.U, want.Displacement)
					}
				}
				require.OK(t, prepared.Prepare())
				return want.U
			})
		}
	}
}

// A prepared decision answers what is measured: it is direct's there, its latent moved by the
// offset that was found for the state that was expected.
func TestAheadAnswersWhatIsMeasured(t *testing.T) {
	cart := finite{testdomain.NewCart(cartSteps)}
	pref, s, c := simplex(0.3), []float64{1.2, 0.4}, []float64{0}
	n := searcher(t, ref.New(), cart, SearchOptions{Candidates: 64, Ahead: true})
	u := slices.Clone(require.Get(n.Decide(s, c, pref))(t).U)
	require.OK(t, n.Prepare())
	next, nextC := make([]float64, 2), make([]float64, 1)
	cart.Step(s, c, u, next, nextC)
	next[0] += 0.07
	next[1] -= 0.05
	o := slices.Clone(n.batch.loops[0].memory.Best().Offsets[:3])
	d := require.Get(n.Decide(next, nextC, pref))(t)
	want := testdomain.Feedback[0]*(next[0]+float64(o[0])) + testdomain.Feedback[1]*(next[1]+float64(o[1])) + 0.2*(pref.W[1]+float64(o[2]))
	if o[0] == 0 && o[1] == 0 || math.Abs(float64(d.Decoded[0])-want) > 1e-5 {
		t.Errorf("decoded %v with offsets %v, want %v", d.Decoded[0], o, want)
	}
}

// What a polish changed of the action in the state that was expected is added to the map's in the one that is measured, and to no
// decision that was not prepared.
func TestAheadChangesTheMapsActionAsThePolishDid(t *testing.T) {
	p := polishing{finite{testdomain.NewCart(cartSteps)}, func(plan []float64) bool {
		plan[0] -= 0.07
		return true
	}}
	n := searcher(t, ref.New(), p, SearchOptions{Candidates: 1, Polish: 1, Ahead: true})
	pref, s, c := simplex(0), []float64{-0.6, 0}, []float64{0} // effort alone counts: less of it costs less
	direct := func(s []float64) float64 {
		return testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1] + 0.2*pref.W[1]
	}
	u := slices.Clone(require.Get(n.Decide(s, c, pref))(t).U)
	require.OK(t, n.Prepare())
	next, nextC := make([]float64, 2), make([]float64, 1)
	p.Step(s, c, u, next, nextC)
	m := n.batch.loops[0].memory
	change := m.plan[0] - direct(next)
	next[0] += 0.05
	next[1] -= 0.03
	if got := float64(require.Get(n.Decide(next, nextC, pref))(t).Decoded[0]); !(change < -0.05) || math.Abs(got-(direct(next)+change)) > 1e-5 {
		t.Errorf("decoded %v, the map's is %v, want it changed by %v", got, direct(next), change)
	}
	n.batch.Missed(0, Observation{S: s, C: c, Preference: pref}, u)
	if len(m.change) > 0 || len(m.plan) > 0 {
		t.Errorf("after a missed observation the plan %v and the change %v are left", m.plan, m.change)
	}
}

// What was prepared is for the next decision alone, of the same preference and of the loop
// as it was: else a decision searches.
func TestPreparedForAnother(t *testing.T) {
	cart := finite{testdomain.NewCart(cartSteps)}
	pref, s, c := simplex(0.3), []float64{1.2, 0.4}, []float64{0}
	next, nextC := make([]float64, 2), make([]float64, 1)
	cost := func(n *Navigator, pref domain.Preference) float64 {
		require.Get(n.Decide(next, nextC, pref))(t)
		return n.batch.loops[0].memory.Best().Cost
	}
	for name, change := range map[string]struct {
		by   func(n *Navigator)
		pref domain.Preference
	}{
		"reset":            {func(n *Navigator) { n.Reset() }, pref},
		"missed":           {func(n *Navigator) { n.batch.Missed(0, Observation{S: s, C: c, Preference: pref}, []float64{0}) }, pref},
		"a new preference": {func(*Navigator) {}, simplex(0.25)},
		"an unknown sensor": {func(n *Navigator) {
			require.Get(n.Decide([]float64{math.NaN(), 0}, c, pref))(t)
			require.OK(t, n.Prepare())
		}, pref},
	} {
		n := searcher(t, ref.New(), cart, SearchOptions{Candidates: 64, Ahead: true})
		u := require.Get(n.Decide(s, c, pref))(t).U
		cart.Step(s, c, u, next, nextC)
		require.OK(t, n.Prepare())
		if !n.batch.loops[0].prepared.ready {
			t.Fatal("nothing is prepared")
		}
		prepared := n.batch.loops[0].memory.Best().Offsets[0]
		change.by(n)
		// A search that is made there costs less than direct; what was prepared is not its.
		direct := cost(searcher(t, ref.New(), cart, SearchOptions{Candidates: 1}), change.pref)
		got := cost(n, change.pref)
		if best := n.batch.loops[0].memory; !(got < 0.95*direct) || best.Best().Offsets[0] == prepared || best.Steps() != cartSteps-1 {
			t.Errorf("%s: cost %v, direct's is %v, of %d steps", name, got, direct, best.Steps())
		}
	}
}

// A guarded decision in the state that was expected rolls nothing out, in another the whole plan;
// and what is prepared is what the guard then follows.
func TestTheGuardKnowsWhatIsPrepared(t *testing.T) {
	p := newSpeeding(2)
	n := require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, Options{Guard: &domain.Guard{}, Search: SearchOptions{Candidates: 32, Ahead: true}}))(t)
	pref, s, c := simplex(0.3), []float64{1.2, 0.4}, []float64{0}
	steps := func(f func()) int64 {
		before := p.steps.Load()
		f()
		return p.steps.Load() - before
	}
	for h := range cartSteps {
		if h == 6 {
			s[0] += 0.05 // a gust
		}
		var u float64
		took := steps(func() {
			d := require.Get(n.Decide(s, c, pref))(t)
			if u = d.U[0]; d.Fallback != 0 {
				t.Errorf("decision %d: %v", h, d.Fallback)
			}
		})
		left := int64(cartSteps - h)
		switch expected := h != 0 && h != 6; {
		case expected && took > 2:
			t.Errorf("decision %d takes %d steps in the state that was expected", h, took)
		case !expected && took < left:
			t.Errorf("decision %d takes %d steps of the %d that are left", h, took, left)
		}
		if a := n.batch.loops[0].guard.accepted; !a.safe() || a.steps != int(left) || a.actions[0] != u {
			t.Errorf("decision %d: %d of %d steps accepted from %v on, executed is %v", h, a.steps, left, a.actions[0], u)
		}
		p.Cart.Step(slices.Clone(s), slices.Clone(c), []float64{u}, s, c)
		if h < cartSteps-1 {
			require.OK(t, n.Prepare())
		}
	}
}

// What is polished ahead is the guard's plan to its end in the state that was expected. In another the map goes on behind the
// action: a plan of actions alone is of the state that it was made for.
func TestTheGuardFollowsWhatIsPolishedAhead(t *testing.T) {
	p := polishing{finite{testdomain.NewCart(cartSteps)}, func(plan []float64) bool {
		for h := range plan {
			plan[h] -= 0.02
		}
		return true
	}}
	n := require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, Options{Guard: &domain.Guard{}, Search: SearchOptions{Candidates: 1, Polish: 1, Ahead: true}}))(t)
	pref, s, c := simplex(0), []float64{-0.6, 0}, []float64{0}
	for h, gust := range []float64{0, 0, 0.05, 0} {
		s[0] += gust
		u := slices.Clone(require.Get(n.Decide(s, c, pref))(t).U)
		l := &n.batch.loops[0]
		now := slices.Clone(l.guard.accepted.actions)
		p.Step(slices.Clone(s), slices.Clone(c), u, s, c)
		want := l.memory.plan[1]
		if gust != 0 {
			want = testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1] + 0.2*pref.W[1]
		}
		if len(now) != cartSteps-h || now[0] != u[0] || math.Abs(now[1]-want) > 1e-5 {
			t.Errorf("decision %d: the guard's plan begins with %v, want %v and %v", h, now[:2], u[0], want)
		}
		require.OK(t, n.Prepare())
		if ahead, plan := l.guard.accepted.actions[1:], l.memory.plan; len(plan) != cartSteps-h-1 || slices.ContainsFunc(ahead, math.IsNaN) || math.Abs(ahead[len(ahead)-1]-plan[len(plan)-1]) > 1e-12 || math.Abs(ahead[0]-plan[0]) > 1e-6 {
			t.Errorf("decision %d: the guard goes on with %v, polished are %v", h, ahead, plan)
		}
	}
}

// Loops are prepared as each alone, and a loop that is put back is prepared as it was.
func TestPreparedTogetherAndRestored(t *testing.T) {
	b, m, c := caseOneMap(t, 2)
	o := Options{Search: SearchOptions{Candidates: 24, Ahead: true}}
	all := require.Get(NewBatch(b, m, c.Problem, o, 3))(t)
	alone := require.Get(NewNavigator(b, m, c.Problem, o))(t)
	obs, out, saved := make([]Observation, 3), make([]Decision, 3), Saved{}
	episode(t, c, 1, func(s, cx []float64) []float64 {
		for i := range obs {
			other := slices.Clone(s)
			other[0] += 0.05 * float64(i)
			obs[i] = Observation{S: other, C: cx, Preference: adaptively}
		}
		require.OK(t, all.Save([]int{0}, &saved))
		require.OK(t, all.Decide(obs, out))
		u := slices.Clone(out[0].U)
		require.OK(t, all.Restore(&saved))
		require.OK(t, all.DecideSome([]int{0}, obs[:1], out[:1]))
		if want := require.Get(alone.Decide(s, cx, adaptively))(t).U; !slices.Equal(u, want) || !slices.Equal(out[0].U, want) {
			t.Fatalf("u %v, again %v, alone %v", u, out[0].U, want)
		}
		require.OK(t, all.Prepare())
		require.OK(t, alone.Prepare())
		return u
	})
	if err := all.PrepareSome([]int{3}); err == nil {
		t.Error("loop 3 of 3 was prepared")
	}
}

// Only what is prepared says so, and without a search there is nothing to prepare.
func TestWhoIsAnticipating(t *testing.T) {
	cart := testdomain.NewCart(3)
	for _, c := range []struct {
		o    SearchOptions
		want bool
	}{{SearchOptions{}, false}, {SearchOptions{Candidates: 3}, false}, {SearchOptions{Candidates: 3, Ahead: true}, true}} {
		n := searcher(t, ref.New(), cart, c.o)
		if is := domain.AbilitiesOfController(n.Controller()).Prepare != nil; is != c.want || n.batch.Prepares() != c.want {
			t.Errorf("%+v: anticipating %v", c.o, is)
		}
		require.OK(t, n.Prepare())
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
