package mixedinteger_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp/mixedinteger"
)

// A candidate that follows a solved plan is that plan from its own state. From another state it costs hardly more than a new solve, which
// the plan as it was does not.
func TestCandidatesFollowASolvedPlan(t *testing.T) {
	c := require.Get(house().Case())(t)
	s, pref := c.Solver.(*mixedinteger.Solver), domain.Preference{W: []float64{1}}
	start, context := []float64{19, 2}, startContext(&c)
	best := require.Get(s.Reference(start, context, 12, pref))(t)
	solved := s.Others(best, start, context, 12, pref)
	search := require.Get(mixedinteger.NewSearch(c.Problem, mixedinteger.Options{}))(t)
	followed := func(start []float64) *mixedinteger.Plan {
		search.Begin(start, context, pref, 12)
		search.Follow(solved)
		search.Run(1)
		return search.Best()
	}
	if p := followed(start); math.Abs(p.Cost-best.Cost) > 1e-6*best.Cost || !slices.Equal(p.Places, best.Places) {
		t.Errorf("followed from its own state the plan costs %v, want %v", p.Cost, best.Cost)
	}
	moved := []float64{20.5, 1.2}
	again := s.Others(best, moved, context, 12, pref)
	search.Begin(moved, context, pref, 12)
	search.Offer(again.Actions())
	search.Run(1)
	optimum := search.Best().Cost
	search.Begin(moved, context, pref, 12)
	search.Offer(best.Actions)
	search.Run(1)
	if kept, p := search.Best().Cost, followed(moved); !p.Safe() || !(p.Cost-optimum < 0.1*(kept-optimum)) {
		t.Errorf("from a state nearby the plan costs %v, followed %v, solved again %v", kept, p.Cost, optimum)
	}
}

// Searches that follow what they solve are at the reference of a mixed problem, and those that draw the other actions are not.
func TestPolishedSearchesAreAtTheReference(t *testing.T) {
	c := require.Get(house().Case())(t)
	s := c.Solver.(*mixedinteger.Solver)
	regret := func(opt mixedinteger.ControllerOptions) (sum float64) {
		k := require.Get(mixedinteger.NewController(s, nil, opt))(t)
		rng := rand.New(rand.NewPCG(9007, 1))
		for range 3 {
			start, context := []float64{18 + 4*rng.Float64(), 1 + 2*rng.Float64()}, startContext(&c)
			best := require.Get(s.Reference(start, context, 12, domain.Preference{W: []float64{1}}))(t)
			cost, margin, _ := drive(t, &c, k, start, context, still)
			if cost < best.Cost*(1-1e-4) || !c.Problem.Spec().Keeps(margin) {
				t.Errorf("%+v from %v costs %v with the smallest margin %v, the reference %v", opt, start, cost, margin, best.Cost)
			}
			sum += cost/best.Cost - 1
		}
		return sum / 3
	}
	drawn, swept := regret(mixedinteger.ControllerOptions{Candidates: 512}), regret(mixedinteger.ControllerOptions{Candidates: 512, Polish: true})
	ahead := regret(mixedinteger.ControllerOptions{Candidates: 64, Polish: true, Ahead: true})
	if !(swept < drawn) || swept > 1e-3 || ahead > 1e-3 {
		t.Errorf("regrets: of drawn actions %v, followed %v, 64 candidates ahead %v", drawn, swept, ahead)
	}
}
