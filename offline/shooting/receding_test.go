package shooting_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/testdomain"
)

// A horizon's plan is Minimise's, also from a plan, and what does not converge leaves the
// plan alone.
func TestHorizonIsMinimise(t *testing.T) {
	s := solver(t, testdomain.NewCart(horizon))
	h := s.NewHorizon()
	state, ctx := []float64{1.2, 0.3}, []float64{0}
	want := must.Get(s.Minimise(state, ctx, 7, fixed, domain.WeightedSum, 1))(t)
	plan := make([]float64, 7)
	solve := func(warm bool, iterations int) (float64, bool) {
		cost, converged, err := h.Solve(state, ctx, fixed, plan, warm, iterations)
		if err != nil {
			t.Fatal(err)
		}
		return cost, converged
	}
	cost, converged := solve(false, 0)
	if !converged || cost != want.Cost {
		t.Errorf("cost %v (converged %t), want %v", cost, converged, want.Cost)
	}
	for i, u := range want.U {
		if plan[i] != u[0] {
			t.Errorf("action %d is %v, want %v", i, plan[i], u)
		}
	}
	before := slices.Clone(plan)
	if _, converged := solve(false, 2); converged || !slices.Equal(plan, before) {
		t.Errorf("two iterations from nothing: converged %t, plan %v", converged, plan)
	}
	if cost, converged := solve(true, 0); !converged || math.Abs(cost-want.Cost) > 1e-6 {
		t.Errorf("from its plan: cost %v (converged %t)", cost, converged)
	}
	if _, _, err := h.Solve(state[:1], ctx, fixed, plan, false, 0); err == nil {
		t.Error("a state of one component was accepted")
	}
	cost, rows, err := s.Oracle(state, ctx, 7, fixed)
	if err != nil || cost != want.Cost || len(rows) != 7 || rows[0][0] != want.U[0][0] {
		t.Errorf("the oracle's cost is %v with %d rows, %v", cost, len(rows), err)
	}
}
