package batchnav

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// The error at known answers is the share of their variation that the decoded plans miss, each component in units of its box.
func TestVariationMissed(t *testing.T) {
	l := &loaded{model: &model.Model{NormU: model.Normalizer{Mean: []float32{1, 0}, Scale: []float32{2, 4}}}, spec: &domain.Spec{Action: []domain.Variable{{Lo: -4, Hi: 4}, {}}}}
	samples := func(targets ...[]float64) (all []*domain.Sample) {
		for _, target := range targets {
			all = append(all, &domain.Sample{Target: target})
		}
		return all
	}
	for _, c := range []struct {
		targets [][]float64
		decoded []float32 // normalised
		want    float64
	}{
		{[][]float64{{1, 0}, {5, 4}}, []float32{0, 0, 2, 1}, 0},
		{[][]float64{{1, 0}, {5, 4}}, []float32{1, 0.5, 2, 1}, ((2./8)*(2./8) + 2*2) / (2*(2./8)*(2./8) + 2*2*2)},
		{[][]float64{{1, 0}, {5, 4}}, []float32{1, 0.5, 1, 0.5}, 1}, // the mean
		{[][]float64{{1, 0}}, []float32{5, 5}, 0},                   // nothing varies
	} {
		plans := tensor.New(len(c.targets), 2)
		copy(plans.Data, c.decoded)
		if got := l.variationMissed(samples(c.targets...), plans); math.Abs(got-c.want) > 1e-7 {
			t.Errorf("%+v: %g", c, got)
		}
	}
	l.spec.Action[0] = domain.Variable{Lo: 3, Hi: 3} // a box of one value has no unit
	plans := tensor.New(2, 2)
	if got, want := l.variationMissed(samples([]float64{1, 0}, []float64{5, 4}), plans), (4.*4+4*4)/(2*2*2+2*2*2); math.Abs(got-want) > 1e-7 {
		t.Errorf("of a fixed entry %g, want %g", got, want)
	}
	empty := &loaded{abilities: &domain.ProblemAbilities{}}
	if v, err := empty.answerError(); v != 0 || err != nil {
		t.Errorf("without answers %g, %v", v, err)
	}
}
