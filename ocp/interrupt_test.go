package ocp_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

// A solve ends between iterations when its context does, with the context's error and not
// as one that did not converge; the solver that it was made of solves on.
func TestASolveEndsWithItsContext(t *testing.T) {
	s := solver(t, testdomain.NewCart(horizon))
	want := require.Get(s.Minimise(cartState, cartContext, 7, fixed, domain.WeightedSum, 1))(t)
	for after := range want.Iterations {
		ends := s.Until(require.EndAfter(after)).(*ocp.Solver)
		if _, err := ends.Minimise(cartState, cartContext, 7, fixed, domain.WeightedSum, 1); !errors.Is(err, context.Canceled) || errors.Is(err, domain.ErrNotConverged) {
			t.Errorf("ended after %d questions: %v", after, err)
		}
	}
	again := require.Get(s.Minimise(cartState, cartContext, 7, fixed, domain.WeightedSum, 1))(t)
	if again.Cost != want.Cost {
		t.Errorf("the cost is %v, after interruptions %v", want.Cost, again.Cost)
	}
}

// A loop's solve from a given plan ends likewise, and so it has not converged.
func TestALoopsSolveEndsWithItsContext(t *testing.T) {
	s := solver(t, testdomain.NewCart(horizon))
	for after, want := range map[int]bool{0: false, 1: false, 1000: true} {
		h := s.Until(require.EndAfter(after)).(*ocp.Solver).NewHorizon(0)
		h.Begin(make([]float64, 7))
		if _, converged, err := h.Solve(cartState, cartContext, fixed, make([]float64, 7)); err != nil || converged != want {
			t.Errorf("ended after %d questions: converged %v, %v", after, converged, err)
		}
	}
}

// The last start, where no other converged, has more iterations.
func TestTheLastStartHasMoreIterations(t *testing.T) {
	axes := []domain.Variable{{Name: "q0", Lo: -1.5, Hi: 1.5}, {Name: "v0", Lo: -0.5, Hi: 0.5}}
	want := require.Get(solver(t, testdomain.NewCart(horizon)).Minimise(cartState, cartContext, 7, fixed, domain.WeightedSum, 1))(t)
	few := require.Get(ocp.New(testdomain.NewCart(horizon), axes, start, ocp.Options{Tolerance: 1e-8, Iterations: want.Iterations / 2}))(t)
	got := require.Get(few.Minimise(cartState, cartContext, 7, fixed, domain.WeightedSum, 1))(t)
	if got.Iterations <= want.Iterations/2 || got.Cost > want.Cost+1e-6 {
		t.Errorf("a cost of %v by %d iterations, want %v", got.Cost, got.Iterations, want.Cost)
	}
}
