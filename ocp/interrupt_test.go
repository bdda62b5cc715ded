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
