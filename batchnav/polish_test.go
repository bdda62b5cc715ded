package batchnav

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/planscore"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// polishing is the cart with a polish of its own.
type polishing struct {
	finite
	polish func(plan []float64) bool
}

func (p polishing) Abilities() *domain.ProblemAbilities {
	may := p.finite.Abilities()
	may.Polish = p.Polish
	return may
}

func (p polishing) Polish(_, _ []float64, _ domain.Preference, _ []domain.Bound, plan []float64, _ int) bool {
	return p.polish(plan)
}

// polisher is a loop of the cart's exact map that polishes the best of n roll-outs.
func polisher(t testing.TB, n int, polish func(plan []float64) bool) *Navigator {
	t.Helper()
	return searcher(t, ref.New(), polishing{finite{testdomain.NewCart(cartSteps)}, polish}, SearchOptions{Candidates: n, Polish: 3})
}

// Whatever a polish says, what is executed is feasible where the search's best roll-out
// is, and costs no more under the model; and it is the plan that is remembered.
func TestPolishIsNeverWorseThanTheSearch(t *testing.T) {
	require.Seeded(t)
	cart, changed := testdomain.NewCart(cartSteps), 0
	rapid.Check(t, func(rt *rapid.T) {
		s := []float64{rapid.Float64Range(-2, 1.2).Draw(rt, "q"), rapid.Float64Range(-1, 1).Draw(rt, "v")}
		pref, c := simplex(rapid.Float64Range(0, 1).Draw(rt, "w")), []float64{float64(rapid.IntRange(0, cartSteps-1).Draw(rt, "step")) / cartSteps}
		candidates, scale, seed := rapid.SampledFrom([]int{1, 2, 40}).Draw(rt, "candidates"), rapid.SampledFrom([]float64{0, 0.002, 0.02, 0.3, 30}).Draw(rt, "scale"), rapid.Uint64().Draw(rt, "seed")
		n := polisher(t, candidates, func(plan []float64) bool {
			for h := range plan {
				plan[h] += scale * math.Sin(float64(seed%97)+float64(h))
			}
			return scale > 0
		})
		d := require.Get(n.Decide(s, c, pref))(t)
		search := require.Get(searcher(t, ref.New(), finite{cart}, SearchOptions{Candidates: candidates}).Decide(s, c, pref))(t)
		m, steps := n.batch.loops[0].memory, finite{cart}.Remaining(c)
		_, cost, margin := planscore.Plan(cart, s, c, pref, m.plan, steps, true)
		best := m.Best()
		if best.Margin >= 0 && (margin < 0 || cost > best.Cost+1e-9*(1+best.Cost)) {
			rt.Fatalf("cost %g, margin %g; the best roll-out has %g, %g", cost, margin, best.Cost, best.Margin)
		}
		if math.Abs(d.U[0]-m.plan[0]) > 1e-6 {
			rt.Fatalf("u is %v, the plan begins with %g", d.U, m.plan[0])
		}
		if d.U[0] != search.U[0] {
			changed++
		} else if scale == 0 && len(m.plan) != steps {
			rt.Fatalf("%d actions are kept of %d", len(m.plan), steps)
		}
	})
	if changed == 0 {
		t.Error("no polish changed an action")
	}
}

// What a decision chose is, one step on, the first plan of the next.
func TestPolishRemembersOneStepOn(t *testing.T) {
	var given []float64
	n := polisher(t, 1, func(plan []float64) bool {
		given = slices.Clone(plan)
		for h := range plan {
			plan[h] = -0.2 + 0.01*float64(h)
		}
		return true
	})
	// Effort alone counts: rest where the cart rests costs least, so that a plan of small
	// actions is better than the map's.
	s, c, pref := []float64{-1, 0}, []float64{0}, simplex(0)
	require.Get(n.Decide(s, c, pref))(t)
	m := n.batch.loops[0].memory
	kept := slices.Clone(m.plan)
	if len(kept) != cartSteps || math.Abs(kept[3]+0.17) > 1e-9 {
		t.Fatalf("kept %v", kept)
	}
	c[0] = 1. / cartSteps
	require.Get(n.Decide(s, c, pref))(t)
	if !slices.Equal(given, kept[1:]) {
		t.Errorf("polished %v, want %v", given, kept[1:])
	}
	n.Reset()
	require.Get(n.Decide(s, []float64{0}, pref))(t)
	if slices.Equal(given[:cartSteps-1], kept[1:]) {
		t.Error("a reset forgets nothing")
	}
}

// Ten iterations of Case 1's interior point on direct's roll-outs leave less than a tenth
// of direct's regret, without a search.
func TestPolishHasLessRegretThanDirect(t *testing.T) {
	b, m, c := caseOneMap(t, 1)
	regret := [2]float64{}
	for i, o := range []Options{{Direct: true}, require.Get(OptionsFor("polish"))(t)} {
		n := require.Get(NewNavigator(b, m, c.Problem, o))(t)
		for index := range episodesOfTest() {
			n.Reset()
			ep := require.Get(c.Plant.Episode(991, index, domain.EpisodeOptions{Preference: adaptively}))(t)
			oracle, _, err := ep.Oracle()
			require.OK(t, err)
			regret[i] += episode(t, c, index, func(s, cx []float64) []float64 { return require.Get(n.Decide(s, cx, adaptively))(t).U })/oracle - 1
		}
	}
	if !(regret[1] < regret[0]/10) {
		t.Errorf("regret %g, direct's is %g", regret[1], regret[0])
	}
}

func TestPolishRefusesWhatItCannot(t *testing.T) {
	cart := testdomain.NewCart(cartSteps)
	for _, c := range []struct {
		p    domain.Problem
		n    int
		says string
	}{
		{cart, 3, `"cart"`}, {polishing{finite: finite{cart}}, -1, "-1 iterations"},
	} {
		_, err := NewNavigator(ref.New(), testdomain.Map(cart, 5, false), c.p, Options{Search: SearchOptions{Candidates: 1, Polish: c.n}})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("polish of %d: %v, want an error with %q", c.n, err, c.says)
		}
	}
	if names := Methods(cart, true); slices.ContainsFunc(names, func(m domain.Method) bool { return strings.HasSuffix(m.Name, "polish") }) {
		t.Error("a problem that does not polish has a method that does")
	}
}

// Neither threads nor the company of other loops change what is polished.
func TestPolishIsDeterministic(t *testing.T) {
	o := SearchOptions{Candidates: 20, Polish: 5}
	want := actions(t, 1, 1, o)
	if half := len(want) / 2; !slices.Equal(want[:half], want[half:]) {
		t.Error("an episode is not the same after another")
	}
	if got := actions(t, 3, 2, o); !slices.Equal(got, want) {
		t.Errorf("with 3 threads and 2 loops: %v, want %v", got, want)
	}
}
