package export_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testcart"
)

// The bound on a decision's operations grows with its solves, and ends at a number that is still one.
func TestOperationsCountEverySolve(t *testing.T) {
	for _, horizon := range []int{0, 30} {
		y := testcart.System()
		y.Measurement, y.Horizon = nil, horizon
		def := require.Get(y.Case())(t)
		operations := func(starts, iterations int) int {
			o := export.OptimalOptions{Tolerance: 1e-8, Iterations: iterations, Starts: starts, Waves: make([][][4]float64, starts), Start: []float64{0, 0}, State: []float64{0, 0}}
			for k := range o.Waves {
				o.Waves[k] = make([][4]float64, 1)
			}
			o.Episodes = []export.Episode{{S: []float64{0, 0}, C: []float64{0}, End: []float64{0, 0}, Safe: true}}
			return require.Get(export.Optimal(t.Context(), filepath.Join(t.TempDir(), "c"), def.Problem, o))(t).Operations
		}
		// Of n starts there are n solves, two more, and those from the plan before and of the best.
		two, eight := operations(2, 3000)-operations(2, 2000), operations(8, 3000)-operations(8, 2000)
		if float64(eight)/float64(two) < 12.0/6-1e-9 || two <= 0 {
			t.Errorf("horizon %d: a thousand iterations take %d operations in 6 solves, %d in 12", horizon, two, eight)
		}
		if n := operations(8, math.MaxInt); n < 1<<60 {
			t.Errorf("horizon %d: %d operations in %d iterations", horizon, n, math.MaxInt)
		}
	}
}

// A plant of one's own begins where its solver's scenarios do.
func TestTheControllerOfAPlantOfOnesOwnIsExported(t *testing.T) {
	y := testcart.System()
	y.Measurement = nil
	def := require.Get(y.Case())(t)
	def.Plant = struct{ domain.Plant }{def.Plant}
	c := require.Get(gpc.NewCase(def))(t)
	require.Get(c.Export(t.Context(), nil, gpc.ExportOptions{Dir: filepath.Join(t.TempDir(), "c"), Method: export.Solver, Episodes: 1}))(t)
}
