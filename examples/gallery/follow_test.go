package gallery

import (
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// counted is a map's loop that counts the decisions that whoever knows a plan keeps.
type counted struct {
	domain.Controller
	kept int
}

func (c *counted) Abilities() *domain.ControllerAbilities {
	may := *domain.AbilitiesOfController(c.Controller)
	follows := may.Follows
	may.Follows = func(f *domain.Follower) {
		follows(&domain.Follower{Renew: f.Renew, Keeps: func(s, known, u []float64) ([]float64, bool) {
			plan, keeps := f.Keeps(s, known, u)
			if keeps {
				c.kept++
			}
			return plan, keeps
		}})
	}
	return &may
}

// Behind most decisions by estimates the plan before goes on. Episodes are safe with and without the roll-outs that are so saved, and cost the
// same but for the few decisions that a roll-out would have replaced.
func TestMostDecisionsFollowThePlanBefore(t *testing.T) {
	for _, test := range []struct {
		y     equations.System
		share float64 // of the decisions that are followed, at least
	}{{cartpole.Track(), 0.8}, {cstr.System(), 0.9}, {quadrotor.System(), 0.5}} {
		t.Run(test.y.Name, func(t *testing.T) {
			const episodes = 2
			def := require.Get(whole(t, test.y, 0.01, 0).Case())(t)
			known := require.Get(gpc.NewCase(def))(t)
			var cost [2]float64
			for way := range cost {
				off := domain.NewBackoff(def.Problem.Spec())
				decided := require.Get(def.Tightened(off))(t)
				decided.Measurement = nil
				all := gpc.Catalogue{Cases: []domain.Case{decided}, Models: models.Bundled}
				c := require.Get(all.Find(test.y.Name))(t)
				inner := require.Get(c.Controller(require.Get(gpc.OpenEngine(engine.Options{Threads: 1}))(t), gpc.Setup{Method: "direct"}))(t)
				count := &counted{Controller: inner}
				filter := require.Get(known.Estimator())(t)
				margin := require.Get(estimate.NewMargin(def.Problem, off, filter, 3))(t)
				loop := estimate.NewLoop(struct{ domain.Controller }{inner}, def.Problem, filter, margin, domain.Delay{})
				if way == 1 {
					loop = estimate.NewLoop(count, def.Problem, filter, margin, domain.Delay{})
				}
				decisions := 0
				for index := range episodes {
					n, spent := driveMeasured(t, def, loop, index)
					decisions += n
					cost[way] += spent
				}
				if way == 1 && float64(count.kept) < test.share*float64(decisions) {
					t.Errorf("%d of %d decisions are followed by the plan before, want a share of %v", count.kept, decisions, test.share)
				}
			}
			if off := cost[1]/cost[0] - 1; !(off < 1e-3 && off > -1e-3) {
				t.Errorf("episodes cost %v, and %v where every decision is rolled out", cost[1], cost[0])
			}
		})
	}
}

// driveMeasured drives an episode, which has to be safe, and returns how many decisions it has and what it costs.
func driveMeasured(t *testing.T, def domain.Case, loop *estimate.Loop, index int) (decisions int, cost float64) {
	t.Helper()
	spec := def.Problem.Spec()
	y, c, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	rng := rand.New(rand.NewPCG(9, uint64(index)))
	require.OK(t, loop.Reset(nil))
	for ep := require.Get(def.Plant.Episode(9, index, adaptive))(t); !ep.Done(); decisions++ {
		ep.Observe(y, c)
		for k, v := range spec.Measured {
			y[k] += 0.01 * v.Scale() * rng.NormFloat64()
		}
		require.Get(loop.Decide(y, c, adaptive.Preference, u))(t)
		out := require.Get(ep.Apply(u))(t)
		if cost += out.Cost; out.Failed || !spec.Keeps(out.Margin) {
			t.Fatalf("decision %d of episode %d has a margin of %v", decisions, index, out.Margin)
		}
	}
	return decisions, cost
}
