package mixedinteger_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp/mixedinteger"
)

// drive takes a controller through an episode and returns what it costs and its smallest margin. disturb moves the state
// after each step.
func drive(t *testing.T, c *domain.Case, k domain.Controller, s, context []float64, disturb func(s []float64)) (cost, margin float64, switched []float64) {
	p, spec := c.Problem, c.Problem.Spec()
	require.OK(t, k.Reset(nil))
	prepare := domain.AbilitiesOfController(k).Prepare
	s, context = append([]float64(nil), s...), append([]float64(nil), context...)
	next, nextContext := make([]float64, len(s)), make([]float64, len(context))
	u, j, m := make([]float64, spec.ActionSize()), make([]float64, spec.ObjectiveSize()), make([]float64, len(spec.Margins))
	margin = math.Inf(1)
	for range spec.Steps {
		require.Get(k.Decide(s, context, domain.Preference{W: []float64{1}}, u))(t)
		p.Objectives(s, u, context, j)
		p.Margins(s, context, u, m)
		cost, margin = cost+j[0], math.Min(margin, domain.Smallest(m))
		switched = append(switched, u[spec.Switches[0].Action])
		if prepare != nil {
			require.OK(t, prepare())
		}
		p.Step(s, context, u, next, nextContext)
		disturb(next)
		copy(s, next)
		copy(context, nextContext)
	}
	return cost, margin, switched
}

func still([]float64) {}

// TestClosedLoopsKeepLimitsAndLeastTimes drives from starts that nobody solved, with and without disturbances.
func TestClosedLoopsKeepLimitsAndLeastTimes(t *testing.T) {
	c := require.Get(house().Case())(t)
	rng := rand.New(rand.NewPCG(9003, 1))
	methods := map[string]domain.Method{}
	for _, m := range mixedinteger.Methods(c.Solver.(*mixedinteger.Solver)) {
		methods[m.Name] = m
	}
	for _, name := range []string{"search-64", "search-64-ahead", "search-512", "search-64-polish", "sum-up"} {
		k := require.Get(methods[name].New(domain.Means{}))(t)
		for episode := range 6 {
			start := []float64{18 + 4*rng.Float64(), 1 + 2*rng.Float64()}
			disturb := still
			if episode%2 == 1 {
				disturb = func(s []float64) { s[0] += 0.3 * rng.NormFloat64() }
			}
			context := make([]float64, c.Problem.Spec().ContextSize())
			copy(context, startContext(&c))
			cost, margin, pump := drive(t, &c, k, start, context, disturb)
			if !c.Problem.Spec().Keeps(margin) || math.IsNaN(cost) {
				t.Errorf("%s, episode %d: the smallest margin is %v", name, episode, margin)
			}
			for at, length := 0, 0; at < len(pump); at += length {
				for length = 1; at+length < len(pump) && pump[at+length] == pump[at]; length++ {
				}
				if least := []int{2, 3}[int(pump[at])]; at > 0 && at+length < len(pump) && length < least {
					t.Errorf("%s, episode %d: the pump is at %v for %d periods, want at least %d: %v", name, episode, pump[at], length, least, pump)
				}
			}
		}
	}
}

func startContext(c *domain.Case) []float64 {
	s, context := make([]float64, c.Problem.Spec().MeasuredSize()), make([]float64, c.Problem.Spec().ContextSize())
	domain.AbilitiesOfSolver(c.Solver).Start([]float64{20, 2}, s, context)
	return context
}

// TestMoreCandidatesComeNearerToTheReference compares means over the same episodes.
func TestMoreCandidatesComeNearerToTheReference(t *testing.T) {
	c := require.Get(fishing(20).Case())(t)
	s := c.Solver.(*mixedinteger.Solver)
	regret := func(candidates int) (sum float64) {
		k := require.Get(mixedinteger.NewController(s, nil, mixedinteger.ControllerOptions{Candidates: candidates}))(t)
		rng := rand.New(rand.NewPCG(9004, 1))
		for range 8 {
			start := []float64{0.3 + 1.4*rng.Float64(), 0.3 + 1.4*rng.Float64(), 0}
			context := startContext(&c)
			best := require.Get(s.Reference(start, context, 20, domain.Preference{W: []float64{1}}))(t)
			cost, _, _ := drive(t, &c, k, start, context, still)
			if cost < best.Cost*(1-1e-6) {
				t.Errorf("%d candidates from %v cost %v, the reference %v", candidates, start, cost, best.Cost)
			}
			sum += cost/best.Cost - 1
		}
		return sum
	}
	few, many := regret(16), regret(2048)
	if !(many <= few) || many > 8*1e-3 {
		t.Errorf("regrets of %v with 16 candidates and %v with 2048, want the latter less, and at most 0.001 in the mean", few/8, many/8)
	}
}

// Without a number for a state the plan before is followed, and without one a switch that may not change keeps its value.
func TestWithoutAStateTheRulesHold(t *testing.T) {
	c := require.Get(house().Case())(t)
	spec := c.Problem.Spec()
	w := &spec.Switches[0]
	k := require.Get(mixedinteger.NewController(c.Solver.(*mixedinteger.Solver), nil, mixedinteger.ControllerOptions{Candidates: 64}))(t)
	pref, lost := domain.Preference{W: []float64{1}}, []float64{math.NaN(), 2}
	context, u := make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	context[w.Last], context[w.Ages] = 1, 1
	require.OK(t, k.Reset(nil))
	if d := require.Get(k.Decide(lost, context, pref, u))(t); u[w.Action] != 1 || d.Fallback&domain.FallbackMethod == 0 {
		t.Errorf("a pump that has run for a period of three is set to %v (%+v)", u[w.Action], d)
	}
	state := []float64{19, 2}
	d := require.Get(k.Decide(state, context, pref, u))(t)
	plan := append([]float64(nil), d.Ahead...)
	next, nextContext := make([]float64, 2), make([]float64, len(context))
	c.Problem.Step(state, context, u, next, nextContext)
	require.Get(k.Decide(lost, nextContext, pref, u))(t)
	for i, v := range u {
		if v != plan[len(u)+i] {
			t.Errorf("action %d is %v, of the plan before %v", i, v, plan[len(u)+i])
		}
	}
}
