package gpc_test

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A preference that changes in mid-episode is followed by the very next decision: of what
// a decision under the old preference costs above the optimum of the state, most is gone,
// and without a search it is bitwise the decision of a controller that had the new
// preference from the start. The set-points in force stand in its way by the ramp only,
// which binds the optimum too.
func TestAChangedPreferenceIsFollowedAtOnce(t *testing.T) {
	c, e := open("opf30")
	defer e.Close()
	def := c.Definition()
	problem, spec := def.Problem, c.Spec()
	may, optimum := domain.AbilitiesOfProblem(problem), domain.AbilitiesOfSolver(def.Solver)
	changes := [][]float64{{0, 0, 1}, {0, 0.5, 0.5}, {1, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0.7, 0.2, 0.1}, {0.2, 0.2, 0.6}, {0.5, 0, 0.5}}
	const between = 6 // decisions
	for _, test := range []struct {
		method string
		// left is how much of the excess that a decision under the old preference has
		// over the optimum of the state may be left.
		left float64
		// bitwise: nothing of the decisions before is left.
		bitwise bool
	}{{"direct", 0.25, true}, {"navigator", 0.25, true}, {"refine-64", 0.1, false}} {
		loop, err := c.Loop(e, gpc.Setup{Method: test.method})
		require.OK(t, err)
		fresh, err := c.Loop(e, gpc.Setup{Method: test.method})
		require.OK(t, err)
		ep, err := def.Plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
		require.OK(t, err)
		o := observe(c, 0)
		u, weights := make([]float64, spec.ActionSize()), make([]float64, spec.ObjectiveSize())
		J, margins := make([]float64, spec.ObjectiveSize()), make([]float64, len(spec.Margins))
		cost := func(u []float64) (sum float64) {
			may.Score(o.S, o.C, u, J, margins)
			for i, w := range weights {
				sum += w * J[i]
			}
			return sum
		}
		for k, w := range changes {
			pref := domain.Preference{W: w}
			for step := range between {
				ep.Observe(o.S, o.C)
				d, err := loop.Decide(o.S, o.C, pref)
				require.OK(t, err)
				if step == 0 && k > 0 {
					may.Weights(domain.Preference{W: w}, weights)
					if !optimum.Optimal(o.S, o.C, pref, u) {
						t.Fatalf("%s, change %d: the state has no optimum", test.method, k)
					}
					best := cost(u)
					excess := func(u []float64) float64 { return (cost(u) - best) / best }
					decided := slices.Clone(d.U)
					fresh.Reset()
					begun, err := fresh.Decide(o.S, o.C, pref)
					require.OK(t, err)
					if test.bitwise && !slices.Equal(begun.U, decided) {
						t.Errorf("%s: the first decision under %v is %v, without those before it %v", test.method, w, decided, begun.U)
					}
					fresh.Reset()
					old, err := fresh.Decide(o.S, o.C, domain.Preference{W: changes[k-1]})
					require.OK(t, err)
					own, late := excess(decided), excess(old.U)
					if !(own <= test.left*late) {
						t.Errorf("%s: the first decision under %v costs %.4f %% more than the optimum of its state, one still under %v %.4f %%: want at most %v of it", test.method, w, 100*own, changes[k-1], 100*late, test.left)
					}
				}
				_, err = ep.Apply(d.U)
				require.OK(t, err)
			}
		}
	}
}
