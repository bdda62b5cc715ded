package batchnav

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// A residual is off the map above a multiple of τ_t, at most the domain's bound and that multiple of the noise; without a τ_t above that bound.
func TestTheLimitOfAResidual(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct{ times, bound, tau, cover, variance, want float64 }{
		{10, 100, 2, 1, 0, 30}, {10, 100, 2, 1, 0.5, 35}, {10, 20, 2, 1, 0, 20}, {10, 20, 2, 1, 0.5, 25}, {inf, 20, 2, 1, 0.5, inf}, {10, 20, 0, 0, 0, 20}, {2, 20, 0, 0.5, 0, 1},
	} {
		l := &loaded{times: c.times, bound: c.bound, cover: c.cover, model: &model.Model{}}
		l.model.Calibration.TauGeom = c.tau
		if got := l.limit(c.variance); got != c.want || l.threshold(c.variance) != c.variance+c.tau+c.cover {
			t.Errorf("%+v: %g, threshold %g", c, got, l.threshold(c.variance))
		}
	}
	l := &loaded{envelope: envelope{lo: []float64{-1, 0}, hi: []float64{1, 2}}, model: &model.Model{NormS: testdomain.Scaled(1, 0.5)}}
	for _, c := range []struct {
		s, c, variance float64
		out            bool
	}{
		{1, 2, 0, false}, {-1, 0, 0, false}, {1.01, 0, 0, true}, {-1.01, 0, 0, true}, {0, 2.01, 0, true}, {0, -0.01, 0, true}, {math.NaN(), 0, 0, true}, {0, math.NaN(), 0, true},
		{1.29, 1, 0.04, false}, {1.31, 1, 0.04, true}, {-1.29, 1, 0.04, false}, {-1.31, 1, 0.04, true}, {0, 2.01, 9, true}, {0, -0.01, 9, true}, // the context has no noise
	} {
		if got := l.outsideEnvelope([]float64{c.s}, []float64{c.c}, c.variance); got != c.out {
			t.Errorf("%+v: %t", c, got)
		}
	}
	for v, want := range map[float64]float64{3: 3, inf: 7, -inf: 7} {
		if finiteOr(v, 7) != want || finiteOr(math.NaN(), 7) != 7 {
			t.Errorf("%g: %g", v, finiteOr(v, 7))
		}
	}
}

// A refinement's residual is off the map above its limit, or where it is no number, and never without a limit.
func TestARefinementIsLocated(t *testing.T) {
	for _, c := range []struct {
		residual, limit float64
		off             bool
	}{{1, 2, false}, {2, 2, false}, {2.1, 2, true}, {0.3, 0.5, false}, {0.6, 0.5, true}, {math.NaN(), 0.5, true}, {9, 0, false}} {
		var r Refinement
		if r.Locate(c.residual, c.limit); r.OffMap != c.off || r.ResidualLimit != c.limit {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// τ_cover is the 95 % quantile over at most 64 codes, evenly taken, of the largest squared distance to the nearest, of the number that a refinement uses.
func TestTheSpacingOfTheCodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for _, n := range []int{1, 2, 5, 40, 64, 65, 130} {
		codes, decoded := tensor.New(n, 2), tensor.New(n, 2)
		for i := range codes.Data {
			codes.Data[i] = float32(rng.NormFloat64())
			decoded.Data[i] = float32(rng.NormFloat64())
		}
		for _, neighbours := range []int{0, 1, 3} {
			var spacing []float64
			samples := min(n, 64)
			for i := range samples {
				k := i * n / samples
				order := make([]int, n)
				for j := range order {
					order[j] = j
				}
				away := func(j int) float64 { return tensor.SquaredDistance(codes.Row(k), codes.Row(j)) }
				slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, away(a)-away(b))) })
				largest := 0.0
				for _, j := range order[:min(n, max(1, neighbours)+1)] {
					largest = max(largest, tensor.SquaredDistance(decoded.Row(k), decoded.Row(j)))
				}
				spacing = append(spacing, largest)
			}
			slices.Sort(spacing)
			got := require.Get(coverTolerance(require.Get(ref.New().NewIndex(codes, decoded))(t), codes, decoded, neighbours))(t)
			if want := spacing[(samples-1)*95/100]; math.Abs(got-want) > 1e-6*(1+want) {
				t.Errorf("%d codes, %d neighbours: %g, want %g", n, neighbours, got, want)
			}
		}
	}
}
