package backendtest

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

// The measure itself: the reference is off by the rounding of its results and
// nothing else, a backend with perturbed networks by more.
func TestTheReferenceDeviatesByRoundingAlone(t *testing.T) {
	const rows = 24
	exact := require.Get(Deviations(training.New(), rows))(t)
	perturbed := require.Get(Deviations(single{training.New()}, rows))(t)
	for i, d := range exact {
		if d.Rows == 0 {
			t.Errorf("%s, %s: no row is compared", d.Operation, d.Size)
		}
		if !(d.Relative <= epsilon*1.001) {
			t.Errorf("%s, %s: the reference is off by %.3g, more than the unit roundoff %.3g", d.Operation, d.Size, d.Relative, epsilon)
		}
		switch d.Operation {
		case "Forward", "VJP", "Jacobian", "Metric", "Field", "Step, action":
			if p := perturbed[i]; !(p.Relative > d.Relative) {
				t.Errorf("%s, %s: a float32 implementation is off by %.3g, the rounded reference by %.3g", d.Operation, d.Size, p.Relative, d.Relative)
			}
		}
	}
}
