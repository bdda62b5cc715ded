package closedloop_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// The spread of the starts does not depend on how far from zero they lie.
func TestThePriorIsTheSameFarFromZero(t *testing.T) {
	prior := func(centre float64) (mean, deviation float64) {
		plant := closedloop.Simulated(testdomain.NewCart(steps), []domain.Variable{{Name: "q0", Lo: -1, Hi: 1}}, func(p, s, c []float64) {
			clear(s)
			s[0] = centre + p[0]
		})
		m, d := plant.Prior()
		return m[0], d[0]
	}
	zero, spread := prior(0)
	if math.Abs(spread-1/math.Sqrt(3)) > 0.05 { // of a uniform distribution on [-1, 1]
		t.Errorf("deviation %v, want about %v", spread, 1/math.Sqrt(3))
	}
	for _, centre := range []float64{1e6, 4.2e7, 1e9, -1e12} {
		unit := math.Abs(centre) * 0x1p-52
		if m, d := prior(centre); math.Abs(m-centre-zero) > 2*unit || math.Abs(d-spread) > unit {
			t.Errorf("at %g: %v ± %v, want %v ± %v", centre, m-centre, d, zero, spread)
		}
	}
}
