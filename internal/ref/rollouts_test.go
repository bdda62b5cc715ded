package ref_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testdomain"
)

// Offsets are linear between knots that are spread evenly over the roll-out, the last on its
// last step. A decoder that says zero leaves the offsets themselves as actions, and Σ ½u² of
// them is by hand; a single knot is held.
func TestOffsetsAreLinearBetweenKnots(t *testing.T) {
	p := testdomain.NewCart(20)
	m := testdomain.Map(p, 3, true)
	still := testdomain.Linear([][]float64{{0, 0}})
	cfg := backend.RolloutsConfig{
		MapConfig: backend.MapConfig{EncoderX: m.EncoderX, NormX: m.NormX, Step: backend.StepperConfig{DecoderS: m.DecoderS, DecoderU: still, NormS: m.NormS, NormU: m.NormU, Problem: p, MaxBatch: 1}},
		Actions:   true,
	}
	effort := domain.Preference{W: []float64{0, 1}}
	for _, c := range []struct {
		offsets []float64
		steps   int
		actions []float64
	}{
		{[]float64{0, 0.4, -0.2}, 5, []float64{0, 0.2, 0.4, 0.1, -0.2}},
		{[]float64{0.8, 0.2}, 4, []float64{0.8, 0.6, 0.4, 0.2}},
		{[]float64{0.3}, 3, []float64{0.3, 0.3, 0.3}},
	} {
		want := 0.0
		for _, u := range c.actions {
			want += 0.5 * u * u
		}
		first, cost, margin := ref.NewRollouts(cfg).Score([]float64{0, 0}, []float64{0}, effort, c.offsets, c.steps, true)
		if math.Abs(cost-want) > 1e-12 || first[0] != c.actions[0] || !(margin > 0) {
			t.Errorf("knots %v over %d steps cost %v from the action %v, want %v of %v", c.offsets, c.steps, cost, first[0], want, c.actions)
		}
	}
}
