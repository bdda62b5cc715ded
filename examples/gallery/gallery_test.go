package gallery

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/equations"
	"github.com/gpc-engine/gpc/domaintest"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/offline/shooting"
)

func TestContract(t *testing.T) {
	for _, c := range must.Get(Cases())(t) {
		t.Run(c.Problem.Spec().Name, func(t *testing.T) { domaintest.Run(t, c) })
	}
}

// TestProjectedActionsKeepTheLimits: whatever is wanted, the projection of it leads to a state
// with another projection.
func TestProjectedActionsKeepTheLimits(t *testing.T) {
	for _, c := range must.Get(Cases())(t) {
		spec := c.Problem.Spec()
		t.Run(spec.Name, func(t *testing.T) {
			lost, refused, steps, worst := 0, 0, 0, math.Inf(1)
			episodes := 200
			for e := range episodes {
				rng := rand.New(rand.NewPCG(7, uint64(e)))
				ep := must.Get(c.Plant.Episode(991, e, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
				s, ctx, u, wanted := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize()), make([]float64, spec.ActionSize())
				hold := 1 + rng.IntN(8)
				low := math.Inf(1)
				for step := 0; !ep.Done(); step++ {
					if step%hold == 0 {
						for i, a := range spec.Action {
							wanted[i] = a.Lo + (a.Hi-a.Lo)*rng.Float64()
							if rng.IntN(3) == 0 {
								wanted[i] = []float64{a.Lo, a.Hi}[rng.IntN(2)]
							}
						}
					}
					ep.Observe(s, ctx)
					if c.Problem.(*equations.Problem).Failed(s, ctx) {
						break
					}
					copy(u, wanted)
					steps++
					if !c.Problem.Project(s, ctx, u) {
						refused++
					}
					out := must.Get(ep.Apply(u))(t)
					low = math.Min(low, out.Margin)
				}
				if low < -spec.MarginTolerance {
					lost++
				}
				worst = math.Min(worst, low)
			}
			t.Logf("%d of %d episodes lost, %d of %d projections refused, least margin %.2g", lost, episodes, refused, steps, worst)
		})
	}
}

// TestSolved: the horizon problems are ones that the solver solves.
func TestSolved(t *testing.T) {
	for _, c := range must.Get(Cases())(t) {
		spec := c.Problem.Spec()
		t.Run(spec.Name, func(t *testing.T) {
			solver := c.Solver.(*shooting.Solver)
			rng := rand.New(rand.NewPCG(3, 3))
			horizon := min(spec.Steps, 20)
			solved, tried := 0, 10
			var why []string
			start := time.Now()
			iterations := 0
			for k := range tried {
				ep := must.Get(c.Plant.Episode(992, k, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
				s, ctx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
				ep.Observe(s, ctx)
				pref := domain.Preference{Adaptive: k%2 == 0}
				if w := rng.Float64(); !pref.Adaptive {
					pref.W = append([]float64{w, 1 - w}, make([]float64, len(spec.Objectives)-2)...)
				}
				best, err := solver.Minimise(s, ctx, horizon, pref, domain.WeightedSum, 1)
				if err != nil {
					why = append(why, err.Error())
					continue
				}
				iterations += best.Iterations
				solved++
			}
			slices.Sort(why)
			t.Logf("%d of %d solved over %d steps, %d iterations, %v each; %v", solved, tried, horizon, iterations/max(1, solved), time.Since(start)/time.Duration(tried), why)
		})
	}
}
