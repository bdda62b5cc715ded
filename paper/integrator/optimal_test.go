package integrator

import (
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

func TestOptimalAgreesWithTheSolvedTrajectoryAtItsOwnStates(t *testing.T) {
	v := NewSolver(system(t, "integrator-convex", Default(false)), 40)
	if err := v.Prepare(t.Context(), 3, nil); err != nil {
		t.Fatal(err)
	}
	samples, err := v.Solve(0, []float64{-3.5, 0.3, 0.2, 0, 0.1, 0.1}, domain.Preference{Adaptive: true}, domain.WeightedSum, 3)
	if err != nil {
		t.Fatal(err)
	}
	u := make([]float64, 2)
	for _, s := range samples[:Horizon] {
		if !v.Optimal(s.S, s.C, s.Preference, u) {
			t.Fatalf("step %d: no certified optimum", s.Step)
		}
		// The samples keep ψ ≥ 1.003, this solve ψ ≥ 1: a little closer to the
		// obstacle, and so up to 0.03 m/s² apart while sliding along it.
		for i := range u {
			if d := u[i] - s.U[i]; d > 0.05 || d < -0.05 {
				t.Errorf("step %d: action %v, trajectory %v", s.Step, u, s.U)
				break
			}
		}
	}
}
