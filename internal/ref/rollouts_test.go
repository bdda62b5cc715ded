package ref_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// Offsets are linear between knots that are spread evenly over the roll-out, the last on its
// last step. Where E_x says zero and D_u is the first coordinate, the offsets themselves are the
// actions, and Σ ½u² of them is by hand; a single knot is held.
func TestOffsetsAreLinearBetweenKnots(t *testing.T) {
	p := testdomain.NewCart(20)
	m := testdomain.Map(p, 3, true)
	still, first := testdomain.Linear([][]float64{make([]float64, m.EncoderX.In()), make([]float64, m.EncoderX.In())}), testdomain.Linear([][]float64{{1, 0}})
	cfg := backend.RolloutsConfig{
		MapConfig: backend.MapConfig{EncoderX: still, NormX: m.NormX, Step: backend.StepperConfig{DecoderS: m.DecoderS, DecoderU: first, NormS: m.NormS, NormU: testdomain.Scaled(1, 1), Problem: p, MaxBatch: 1}},
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
		var offsets []float64
		for _, o := range c.offsets {
			offsets = append(offsets, o, 0)
		}
		first, cost, margin, _ := ref.NewRollouts(cfg).Score([]float64{0, 0}, []float64{0}, effort, offsets, c.steps, true)
		if math.Abs(cost-want) > 1e-12 || first[0] != c.actions[0] || !(margin > 0) {
			t.Errorf("knots %v over %d steps cost %v from the action %v, want %v of %v", c.offsets, c.steps, cost, first[0], want, c.actions)
		}
	}
}
