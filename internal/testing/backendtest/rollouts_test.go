package backendtest_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// Where E_x says zero and D_u is the first coordinate, the offsets themselves are the
// actions, and Σ ½u² of them is by hand.
func TestOffsetsAreAddedToLatents(t *testing.T) {
	p := testdomain.NewCart(20)
	m := testdomain.Map(p, 3, true)
	still, first := testdomain.Linear([][]float64{make([]float64, m.EncoderX.In()), make([]float64, m.EncoderX.In())}), testdomain.Linear([][]float64{{1, 0}})
	cfg := backend.RolloutsConfig{
		MapConfig: backend.MapConfig{EncoderX: still, NormX: m.NormX, Step: backend.StepperConfig{DecoderS: m.DecoderS, DecoderU: first, NormS: m.NormS, NormU: testdomain.Scaled(1, 1), Problem: p, MaxBatch: 1}},
	}
	effort := domain.Preference{W: []float64{0, 1}}
	for _, actions := range [][]float64{{0, 0.2, 0.4, 0.1, -0.2}, {0.8, 0.6, 0.4}, {0.3}} {
		want := 0.0
		var offsets []float64
		for _, u := range actions {
			want += 0.5 * u * u
			offsets = append(offsets, u, 0)
		}
		first, cost, margin, _ := backendtest.NewRollouts(cfg).Score([]float64{0, 0}, []float64{0}, effort, offsets, len(actions), true)
		if math.Abs(cost-want) > 1e-12 || first[0] != actions[0] || !(margin > 0) {
			t.Errorf("offsets %v cost %v from the action %v, want %v", actions, cost, first[0], want)
		}
	}
}
