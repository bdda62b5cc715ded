package ocp

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// The gains of a plan are what another solve, from a state nearby, makes of its first free action. An action that is given has none.
func TestGainsAreThoseOfAnotherSolve(t *testing.T) {
	const steps = 12
	solver := newPole(testdomain.Pole{}, Options{Tolerance: 1e-9})
	pref := domain.Preference{W: []float64{0.5, 0.5}}
	state, c := []float64{-0.2, 0, 0.05, 0}, []float64{0, 0}
	pinned := slices.Repeat([]float64{math.NaN()}, steps)
	pinned[3] = 0.1
	from := func(state []float64) *Trajectory {
		start := make([][]float64, steps)
		for h := range start {
			start[h] = []float64{0}
			if h == 3 {
				start[h][0] = 0.1
			}
		}
		return require.Get(solver.MinimisePinned(state, c, steps, pref, pinned, 1, start))(t)
	}
	plan := from(state)
	for i := range state {
		const shift = 1e-4
		moved := slices.Clone(state)
		moved[i] += shift
		slope := (from(moved).U[0][0] - plan.U[0][0]) / shift
		if gain := plan.Gains[i]; math.Abs(gain-slope) > 1e-2*(1+math.Abs(slope)) {
			t.Errorf("the gain of state %d is %v, another solve moves the action by %v a unit", i, gain, slope)
		}
		if gain := plan.Gains[3*len(state)+i]; gain != 0 {
			t.Errorf("the action that is given answers to state %d by %v", i, gain)
		}
	}
}
