package mixedinteger_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp/mixedinteger"
)

// A sweep alone, one candidate, is at the optimum where its cells hold every state, and near to it where they do not.
func TestASweepFindsTheOptimum(t *testing.T) {
	for _, of := range []struct {
		steps, width    int
		optimum, within float64
	}{{10, 1 << 11, 1.601606, 1e-5}, {20, 1 << 11, 1.404714, 0.01}, {30, 1 << 11, 1.360138, 0.01}} {
		y := fishing(of.steps)
		p := require.Get(equations.New(y))(t)
		counters := mixedinteger.Counters(p, y.Scenario, y.Initial)
		if !slices.Equal(counters, []bool{false, false, true}) {
			t.Fatalf("states that only count: %v", counters)
		}
		s := require.Get(mixedinteger.NewSearch(p, mixedinteger.Options{Counters: counters}))(t)
		s.Begin([]float64{0.5, 0.7, 0}, startOf(p), domain.Preference{W: []float64{1}}, of.steps)
		s.Sweep(of.width)
		best := s.Run(1)
		if best == nil || !best.Safe() || math.Abs(best.Cost-of.optimum) > of.within {
			t.Errorf("%d periods: %+v, want the cost %v", of.steps, best, of.optimum)
		}
	}
}

// The plans of a sweep keep least times.
func TestASweepKeepsLeastTimes(t *testing.T) {
	y := fishing(30)
	y.Switches = []equations.Switch{equations.OnOff("fishing")}
	y.Switches[0].Least = []int{3, 3}
	p := require.Get(equations.New(y))(t)
	s := require.Get(mixedinteger.NewSearch(p, mixedinteger.Options{}))(t)
	s.Begin([]float64{0.5, 0.7, 0}, startOf(p), domain.Preference{W: []float64{1}}, 30)
	s.Sweep(1 << 10)
	best := s.Run(1)
	if best == nil || !best.Safe() || best.Cost > 1.6 {
		t.Fatalf("%+v", best)
	}
	last := -3
	for h := 1; h < 30; h++ {
		if best.Places[h] == best.Places[h-1] {
			continue
		}
		if last > 0 && h-last < 3 {
			t.Errorf("changes in periods %d and %d of %v", last, h, best.Places)
		}
		last = h
	}
}
