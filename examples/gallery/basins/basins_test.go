package basins

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp"
)

func systems() []equations.System { return []equations.System{Parking(), Arm()} }

// TestContract: the plants are real ones, without the solver's samples, which take minutes.
func TestContract(t *testing.T) {
	for _, y := range systems() {
		c := require.Get(y.Case())(t)
		c.Solver = nil
		domaintest.Run(t, c)
	}
}

// TestStandingKeepsTheLimits: where the limits are kept, standing still keeps them, so that looking one step ahead is enough.
func TestStandingKeepsTheLimits(t *testing.T) {
	for _, y := range systems() {
		c := require.Get(y.Case())(t)
		spec, rng, met := c.Problem.Spec(), rand.New(rand.NewPCG(9005, 1)), false
		s, ctx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
		for e := range 40 {
			ep := require.Get(c.Plant.Episode(9005, e, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
			for step := 0; !ep.Done(); step++ {
				ep.Observe(s, ctx)
				if step%6 == 0 {
					for i, a := range spec.Action {
						u[i] = a.Lo + (a.Hi-a.Lo)*rng.Float64()
					}
				}
				wanted := append([]float64(nil), u...)
				if !c.Problem.Project(s, ctx, u) {
					t.Fatalf("%s, episode %d: no action keeps the limits in %v", spec.Name, e, s)
				}
				met = met || math.Abs(u[0]-wanted[0]) > 1e-9
				if out := require.Get(ep.Apply(u))(t); !spec.Keeps(out.Margin) {
					t.Errorf("%s, episode %d: a margin of %v", spec.Name, e, out.Margin)
				}
			}
		}
		if !met {
			t.Errorf("%s: the limits are never met", spec.Name)
		}
	}
}

// TestSeveralWaysRound: every start is solved, and from one of them plans at random lead to optima that lie apart.
func TestSeveralWaysRound(t *testing.T) {
	if testing.Short() {
		t.Skip("solves tens of horizon problems")
	}
	pref := domain.Preference{Adaptive: true}
	for _, y := range systems() {
		c := require.Get(y.Case())(t)
		spec, solver := c.Problem.Spec(), c.Solver.(*ocp.Solver)
		s, ctx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		plan, rng, apart := make([]float64, spec.Steps*spec.ActionSize()), rand.New(rand.NewPCG(9006, 1)), 0.0
		for e := range 4 {
			ep := require.Get(c.Plant.Episode(9006, e, domain.EpisodeOptions{Preference: pref}))(t)
			ep.Observe(s, ctx)
			least := require.Get(solver.Minimise(s, ctx, spec.Steps, pref, domain.WeightedSum, 1))(t).Cost
			most := least
			for range 6 {
				for i := range plan { // three stretches, each of one action
					if a := spec.Action[i%len(spec.Action)]; i%(len(plan)/3) < len(spec.Action) {
						plan[i] = 0.7 * (a.Lo + (a.Hi-a.Lo)*rng.Float64())
					} else {
						plan[i] = plan[i-len(spec.Action)]
					}
				}
				horizon := solver.NewHorizon(0)
				horizon.Begin(plan)
				cost, ok, err := horizon.Solve(s, ctx, pref, plan)
				if require.OK(t, err); ok {
					least, most = math.Min(least, cost), math.Max(most, cost)
				}
			}
			apart = math.Max(apart, most/least-1)
		}
		if !(apart > 0.1) {
			t.Errorf("%s: solves converge to costs at most %.2g apart", y.Name, apart)
		}
	}
}
