package batchnav

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// An objective is weighed by its range among the samples, where there is one that is finite, unless the weights are raw.
func TestObjectivesAreWeighedByTheirRange(t *testing.T) {
	cart := testdomain.NewCart(3)
	m := testdomain.Map(cart, 3, false)
	inf := math.Inf(1)
	for _, c := range []struct {
		ideal, nadir []float64
		raw          bool
		want         []float64
	}{
		{[]float64{1, 2}, []float64{5, 4}, false, []float64{0.25, 0.5}}, {[]float64{1, 2}, []float64{5, 4}, true, []float64{1, 1}}, {[]float64{1, 2}, []float64{1, 1}, false, []float64{1, 1}},
		{[]float64{1, 2}, []float64{inf, 4}, false, []float64{1, 0.5}}, {nil, nil, false, []float64{1, 1}},
	} {
		m.Calibration.ObjectiveIdeal, m.Calibration.ObjectiveNadir = c.ideal, c.nadir
		nav := cart.Spec().Navigation
		nav.RawWeights = c.raw
		l, err := load(ref.New(), m, cart, &Options{Navigation: &nav})
		if err != nil { // a range that the model refuses
			continue
		}
		w := make([]float32, 2)
		if l.weights([]float64{1, 3}, w); !slices.Equal(l.inverseRange, c.want) || w[0] != float32(c.want[0]) || w[1] != float32(3*c.want[1]) {
			t.Errorf("%+v: %v, weights %v", c, l.inverseRange, w)
		}
	}
}
