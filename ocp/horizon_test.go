package ocp_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

var cartState, cartContext = []float64{1.2, 0.3}, []float64{0}

// plan is the horizon's next, of n decisions from there.
func plan(t *testing.T, h domain.Horizon, n int) (u []float64, cost float64, converged bool) {
	t.Helper()
	u = slices.Repeat([]float64{math.NaN()}, n)
	cost, converged, err := h.Solve(cartState, cartContext, fixed, u)
	if err != nil {
		t.Fatal(err)
	}
	return u, cost, converged
}

// The decision after a cold one goes on from its iterate: what a correction needs is known, and from where the plan leads
// it takes a few iterations, without another cold solve.
func TestTheDecisionAfterAColdOneIsWarm(t *testing.T) {
	s := solver(t, testdomain.NewCart(horizon))
	h := s.NewHorizon(0)
	u, _, _ := plan(t, h, 7)
	if !h.Linearise() {
		t.Fatal("a cold decision has no feedback")
	}
	corrected := make([]float64, 1)
	if h.Correct(cartState, cartContext, corrected); math.Abs(corrected[0]-u[0]) > 1e-6 {
		t.Errorf("where it was solved, its action is corrected from %v to %v", u[0], corrected[0])
	}
	before := s.Counts()
	if plan(t, h, 6); s.Counts() != before {
		t.Errorf("the next decision began cold: %+v after %+v", s.Counts(), before)
	}
}

// A horizon's plan is Minimise's; from other plans, given or of the decision before, it
// ends at the same.
func TestHorizonIsMinimise(t *testing.T) {
	s := solver(t, testdomain.NewCart(horizon))
	want := require.Get(s.Minimise(cartState, cartContext, 7, fixed, domain.WeightedSum, 1))(t)
	h := s.NewHorizon(0)
	u, cost, converged := plan(t, h, 7)
	if !converged || cost != want.Cost {
		t.Errorf("cost %v (converged %t), want %v", cost, converged, want.Cost)
	}
	for i, w := range want.U {
		if u[i] != w[0] {
			t.Errorf("action %d is %v, want %v", i, u[i], w)
		}
	}
	for name, begin := range map[string]func(){
		"the decision before": func() {},
		"a shorter one":       func() { plan(t, h, 3) },
		"a longer one":        func() { plan(t, h, 9) },
		"a given plan":        func() { h.Begin([]float64{0.5, 0.5, 0.5, 0, 0, 0, 0}) },
		"nothing":             func() { h.Begin(nil) },
	} {
		begin()
		if again, cost, converged := plan(t, h, 7); !converged || math.Abs(cost-want.Cost) > 1e-6 || math.Abs(again[0]-u[0]) > 1e-4 {
			t.Errorf("from %s: cost %v (converged %t), want %v", name, cost, converged, want.Cost)
		}
	}
	if _, _, err := h.Solve(cartState[:1], cartContext, fixed, u); err == nil {
		t.Error("a state of one component was accepted")
	}
	cost, rows, err := s.Oracle(t.Context(), cartState, cartContext, 7, fixed)
	if err != nil || cost != want.Cost || len(rows) != 7 || rows[0][0] != want.U[0][0] {
		t.Errorf("the oracle's cost is %v with %d rows, %v", cost, len(rows), err)
	}
}

// A solve that time ends leaves the plan that it was given, and the next, without a limit, is
// the optimum.
func TestHorizonWithin(t *testing.T) {
	s := solver(t, testdomain.NewCart(horizon))
	want := require.Get(s.Minimise(cartState, cartContext, 7, fixed, domain.WeightedSum, 1))(t)
	h := s.NewHorizon(0)
	given := []float64{0.5, 0.4, 0.3, 0.2, 0.1, 0, 0}
	for _, limit := range []time.Duration{time.Nanosecond, 0} {
		h.Within(limit)
		h.Begin(given)
		u, cost, converged := plan(t, h, 7)
		if limit > 0 && (converged || !slices.Equal(u, given)) || limit == 0 && (!converged || math.Abs(cost-want.Cost) > 1e-6) {
			t.Errorf("within %v: plan %v of cost %v (converged %t), want %v or the optimum's %v", limit, u, cost, converged, given, want.Cost)
		}
	}
}

// Without convergence a plan is the decision before, one on, or what was given, or the
// problem's fallback.
func TestHorizonsLastResort(t *testing.T) {
	h := solver(t, testdomain.NewCart(horizon)).NewHorizon(1)
	given := []float64{0.5, 0.4, 0.3, 0.2}
	for _, step := range []struct {
		begin func()
		n     int
		want  []float64
	}{
		{func() {}, 4, []float64{-1, -1, -1, -1}},
		{func() { h.Begin(given) }, 4, given},
		{func() {}, 4, []float64{0.4, 0.3, 0.2, 0.2}},
		{func() {}, 2, []float64{0.3, 0.2}},
		{func() {}, 1, []float64{0.2}},
		{func() {}, 1, []float64{0.2}},
		{func() { h.Begin(nil) }, 2, []float64{-1, -1}},
	} {
		step.begin()
		if u, cost, converged := plan(t, h, step.n); converged || !math.IsNaN(cost) || !slices.Equal(u, step.want) {
			t.Errorf("plan %v of cost %v (converged %t), want %v", u, cost, converged, step.want)
		}
	}
}
