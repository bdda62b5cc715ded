package batchnav

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

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
