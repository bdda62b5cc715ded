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
