package gpc_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Loops in rows have an estimator each, which is that of a controller to the bit, and say what they estimate; one that was told of
// another action goes on from that.
func TestLoopsInRowsEstimate(t *testing.T) {
	c, _ := sledCase(t, 0)
	for _, window := range []int{0, 4} {
		noisy := require.Get(require.Get(c.Measured(domain.Whole(c.Spec(), 0.01)))(t).Windowed(window))(t)
		of := noisy.Spec()
		ns, nc, nu := of.MeasuredSize(), of.ContextSize(), of.ActionSize()
		alone := require.Get(noisy.Controller(nil, gpc.Setup{Method: "nmpc"}))(t)
		require.OK(t, alone.Reset(nil))
		d := require.Get(noisy.Drive(nil, gpc.Setup{Method: "nmpc"}, 2))(t)
		out := gpc.Driven{U: make([]float64, 2*nu), S: make([]float64, 2*ns), C: make([]float64, 2*nc), Faults: make([]string, 2*ns)}
		first := require.Get(noisy.Observe(3, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		s, known, u := make([]float64, ns), make([]float64, nc), make([]float64, nu)
		for k := range 5 {
			y := slices.Clone(first.S)
			y[0] += 0.01 * float64(k%3)
			if k == 2 {
				y[1] = math.NaN()
			}
			require.Get(domain.AbilitiesOfController(alone).DecideMeasured(y, first.C, first.Preference, s, known, u))(t)
			require.OK(t, d.Decide(batchnav.Rows{S: slices.Concat(y, y), C: slices.Concat(first.C, first.C)}, out))
			for i := range 2 {
				same := slices.Equal(out.U[i*nu:(i+1)*nu], u) && slices.Equal(out.S[i*ns:(i+1)*ns], s) && slices.Equal(out.C[i*nc:(i+1)*nc], known)
				if same != (i == 0 || k == 0) {
					t.Fatalf("window %d, decision %d of loop %d: %v by %v, a controller's %v by %v", window, k, i, out.U[i*nu:(i+1)*nu], out.S[i*ns:(i+1)*ns], u, s)
				}
			}
			if got := out.Faults[1]; (got == estimate.Missing.String()) != (k == 2) {
				t.Errorf("decision %d says that its second output is %v", k, got)
			}
			require.OK(t, d.Executed(1, make([]float64, nu))) // which is not what it decided
		}
		if err := d.Executed(2, u); err == nil {
			t.Error("a loop that is not there executes")
		}
	}
}
