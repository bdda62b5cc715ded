package systemfile_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/systemfile"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp"
)

// The exact solver reaches optima that lie in corners. In twelve steps of at most 0.1 m towards a goal, Σ|x − goal| is
// least by the fastest way, and the last step is shorter, whatever the price of flow: 0.3 for each unit to the right,
// −0.1 for each to the left.
func TestOptimaInCorners(t *testing.T) {
	c := require.Get(require.Get(systemfile.ReadFile("testdata/l1.json"))(t).Case())(t)
	for _, of := range []struct{ x, goal, price float64 }{{0.55, 0, -0.1}, {-0.55, 0, 0.3}, {0.1, 0.33, 0.3}, {0.2, 0.2, 0}} {
		distance := math.Abs(of.x - of.goal)
		want := 0.2*12 + of.price*distance/0.1
		for left := distance - 0.1; left > 0; left -= 0.1 {
			want += left
		}
		solver := c.Solver.(*ocp.Solver)
		best := require.Get(solver.Minimise([]float64{of.x}, []float64{of.goal, 0}, 12, domain.Preference{Adaptive: true}, domain.WeightedSum, 1))(t)
		if best.Cost < want*(1-1e-9) || best.Cost > want*(1+2e-4) {
			t.Errorf("from %g to %g: the optimum costs %.8f, want %.8f", of.x, of.goal, best.Cost, want)
		}
		h := solver.NewHorizon(0)
		plan := make([]float64, 12)
		if _, solved, err := h.Solve([]float64{of.x}, []float64{of.goal, 0}, domain.Preference{Adaptive: true}, plan); err != nil || !solved {
			t.Errorf("from %g to %g: a receding horizon: solved %v, error %v", of.x, of.goal, solved, err)
		}
		if first := math.Min(1, distance/0.1) * math.Copysign(1, of.goal-of.x); distance > 0 && math.Abs(plan[0]-first) > 2e-3 {
			t.Errorf("from %g to %g: the first action is %g, want %g", of.x, of.goal, plan[0], first)
		}
	}
}

// A corner that lies far from where episodes begin is found too: x of no range goes from 4.55 to 0 in sixty steps.
func TestOptimaInDistantCorners(t *testing.T) {
	text := strings.NewReplacer(`"lo":-2,"hi":2`, `"tolerance":0`, `"lo":-1,"hi":1},{`, `"lo":4,"hi":5},{`).Replace(string(require.Get(os.ReadFile("testdata/l1.json"))(t)))
	file := filepath.Join(t.TempDir(), "far.json")
	require.OK(t, os.WriteFile(file, []byte(text), 0o600))
	c := require.Get(require.Get(systemfile.ReadFile(file))(t).Case())(t)
	want := 0.2*60 - 0.1*45.5 + 45*(0.05+4.45)/2
	best := require.Get(c.Solver.(*ocp.Solver).Minimise([]float64{4.55}, []float64{0, 0}, 60, domain.Preference{Adaptive: true}, domain.WeightedSum, 1))(t)
	if best.Cost < want*(1-1e-9) || best.Cost > want*(1+2e-4) {
		t.Errorf("the optimum costs %.8f, want %.8f", best.Cost, want)
	}
}

// One workspace rounds corners by every level, one after the other: at the corner, whose own cost is 0.2, by a width that grows 2.5 times a level, with the slopes of
// what it evaluates there, and at last bitwise as at first.
func TestLevelsOfRounding(t *testing.T) {
	c := require.Get(require.Get(systemfile.ReadFile("testdata/l1.json"))(t).Case())(t)
	derivatives := domain.AbilitiesOfProblem(c.Problem).Derivatives
	stages, levels, n := require.Get(derivatives.Stages())(t), derivatives.Rounded(), 20
	var x, u []float64 // the first is in both corners
	for i := range n {
		x, u = append(x, 0.3+0.01*float64(i), 0.3, 0), append(u, 0)
	}
	var first []float64
	least := math.NaN()
	for _, level := range []int{0, 3, levels - 1, 0} {
		stages.Round(level)
		k := len(c.Problem.Spec().Action) + len(stages.Moving())
		next, j, m := make([]float64, 3*n), make([]float64, n), make([]float64, n*len(c.Problem.Spec().Margins))
		slopes := make([]float64, n*k)
		stages.Linearise(n, x, u, next, j, m, make([]float64, 3*n*k), slopes, make([]float64, len(m)*k))
		const h = 1e-7
		for i := range n {
			at := func(u float64) float64 {
				j := make([]float64, 1)
				stages.Evaluate(1, x[3*i:3*i+3], []float64{u}, next[:3], j, m[:len(m)/n])
				return j[0]
			}
			if want := (at(h) - at(-h)) / (2 * h); math.Abs(slopes[k*i]-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("level %d, decision %d: a slope is %g, by differences %g", level, i, slopes[k*i], want)
			}
		}
		if first == nil {
			first, least = append(slices.Clone(j), slopes...), j[0]-0.2
		} else if want := least * math.Pow(2.5, float64(level)); math.Abs(j[0]-0.2-want) > 1e-9*want {
			t.Errorf("level %d: the corner is %g wide, want %g", level, j[0]-0.2, want)
		}
		if level == 0 && !slices.Equal(first, append(j, slopes...)) {
			t.Error("the least level is another after the widest")
		}
	}
}
