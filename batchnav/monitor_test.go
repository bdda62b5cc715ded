package batchnav_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// A map cannot say of itself that every observation is on it: neither by its τ_geom nor by
// the scale that residuals are measured in.
func TestThresholdsAreBoundedByTheDomain(t *testing.T) {
	b := cpu(t)
	c, m, _ := caseOne(t, b, 200)
	spec := c.Problem.Spec()
	bound := batchnav.ResidualBound(spec, m.NormS)
	if !(bound > 0 && bound <= 100*float64(spec.MeasuredSize())) {
		t.Fatalf("the bound is %g", bound)
	}
	for _, tau := range []float64{1e300, math.Inf(1), math.NaN(), -1, 1.01 * bound} {
		m.Calibration.TauGeom = tau
		_, err := batchnav.NewNavigator(b, m, c.Problem, batchnav.Options{})
		if err == nil || !strings.Contains(err.Error(), "tau_geom") {
			t.Errorf("tau_geom %g: %v", tau, err)
		}
	}
	m.Calibration.TauGeom = 0.99 * bound
	d := require.Get(require.Get(batchnav.NewNavigator(b, m, c.Problem, batchnav.Options{}))(t).Decide([]float64{-30, 0, 0, 0}, make([]float64, 5), adaptive))(t)
	if d.Limit > bound || !d.OffMap || d.Fallback&domain.FallbackResidual == 0 {
		t.Errorf("with the largest τ_geom a residual of %g has limit %g, the bound is %g; off the map %v, fallback %v", d.Residual, d.Limit, bound, d.OffMap, d.Fallback)
	}
	for i := range m.NormS.Scale {
		m.NormS.Scale[i] *= 1e4
	}
	if _, err := batchnav.NewNavigator(b, m, c.Problem, batchnav.Options{}); err == nil {
		t.Errorf("a scale of %v lifts the bound to %g", m.NormS.Scale, batchnav.ResidualBound(spec, m.NormS))
	}
	scale := m.NormS
	scale.Scale = []float32{1e-9, 1e9, 1e9, 1e9}
	if got := batchnav.ResidualBound(spec, scale); got > 101 {
		t.Errorf("one scale near zero lifts the bound of all to %g", got)
	}
}

// An impossible measurement is said to be off the map, and is no noise of the ones after it.
func TestImpossibleMeasurementIsOffTheMap(t *testing.T) {
	cart := testdomain.NewCart(50)
	m := testdomain.Map(cart, 13, false)
	nav := require.Get(batchnav.NewNavigator(ref.New(), m, cart, batchnav.Options{}))(t)
	s := []float64{0.3, -0.2}
	for step := range 8 {
		seen := append([]float64(nil), s...)
		impossible := step%2 == 1
		if impossible {
			seen[1] = 1e9
		}
		d := decide(t, nav, seen, adaptive)
		if d.OffMap != impossible || d.OffMap != (d.Residual > d.Limit) {
			t.Errorf("step %d, measured %v: off the map %v, residual %g, limit %g", step, seen, d.OffMap, d.Residual, d.Limit)
		}
		if d.NoiseVariance != 0 {
			t.Errorf("step %d: noise variance %g", step, d.NoiseVariance)
		}
		next := make([]float64, 2)
		cart.Step(s, []float64{0}, d.U, next, []float64{0})
		copy(s, next)
	}
	r := require.Get(batchnav.NewRefiner(ref.New(), m, cart, batchnav.Options{}, 16))(t)
	for v, off := range map[float64]bool{-0.2: false, 1e9: true} {
		got := require.Get(r.Refine(context.Background(), batchnav.Observation{S: []float64{0.3, v}, C: []float64{0}, Preference: adaptive}, batchnav.RefineOptions{Candidates: 16, LookAhead: 2}))(t)
		if got.OffMap != off || got.OffMap != (got.Residual > got.ResidualLimit) {
			t.Errorf("refinement at velocity %g: off the map %v, residual %g, limit %g", v, got.OffMap, got.Residual, got.ResidualLimit)
		}
	}
}

// What a map says of itself has no part in how wrong it is about known answers: its scales
// cancel, every backend finds the same, and a map that is wrong is not trusted.
func TestAnswerErrorIsThatOfTheDecodedPlans(t *testing.T) {
	b := cpu(t)
	c, m, observations := caseOne(t, b, 200)
	nav := require.Get(batchnav.NewNavigator(b, m, c.Problem, batchnav.Options{Direct: true}))(t)
	wrong := nav.AnswerError()
	if !(wrong > 0.25) {
		t.Fatalf("an untrained map misses %g of the answers", wrong)
	}
	o := observations[0]
	d := require.Get(nav.Decide(o.S, o.C, o.Preference))(t)
	if d.Fallback&domain.FallbackMap == 0 || !d.Fallback.Replaced() {
		t.Errorf("an untrained map decides with fallback %v", d.Fallback)
	}
	if d = require.Get(require.Get(batchnav.NewNavigator(b, m, c.Problem, batchnav.Options{Direct: true, NoFallback: true}))(t).Decide(o.S, o.C, o.Preference))(t); d.Fallback&domain.FallbackMap == 0 || d.Fallback.Replaced() {
		t.Errorf("without the fallback: %v, want the trigger alone", d.Fallback)
	}
	twin := require.Get(batchnav.NewNavigator(ref.New(), m, c.Problem, batchnav.Options{Direct: true}))(t).AnswerError()
	if math.Abs(wrong-twin) > 1e-5*twin {
		t.Errorf("misses %g, in float64 %g", wrong, twin)
	}
	// D_u's last layer and its scale by inverse factors: the same plans.
	same, decoder := *m, *m.DecoderU
	decoder.Layers = append(decoder.Layers[:0:0], decoder.Layers...)
	last := &decoder.Layers[len(decoder.Layers)-1]
	last.W, last.B = last.W.Clone(), append([]float32(nil), last.B...)
	for i := range last.W.Data {
		last.W.Data[i] /= 64
	}
	for i := range last.B {
		last.B[i] /= 64
	}
	same.DecoderU, same.NormU.Scale = &decoder, append([]float32(nil), m.NormU.Scale...)
	for i := range same.NormU.Scale {
		same.NormU.Scale[i] *= 64
	}
	if got := require.Get(batchnav.NewNavigator(b, &same, c.Problem, batchnav.Options{Direct: true}))(t).AnswerError(); math.Abs(got-wrong) > 1e-5*wrong {
		t.Errorf("the same plans by other scales miss %g instead of %g", got, wrong)
	}
	// The target itself misses nothing: no map at all misses what answers differ by from u₋₁.
	var none float64
	for i := range m.NormU.Scale {
		m.NormU.Scale[i], m.NormU.Mean[i] = 1e-30, 0
	}
	none = require.Get(batchnav.NewNavigator(b, m, c.Problem, batchnav.Options{Direct: true}))(t).AnswerError()
	if !(none >= 1 && none < 2) {
		t.Errorf("a map that always holds u₋₁ misses %g", none)
	}
}
