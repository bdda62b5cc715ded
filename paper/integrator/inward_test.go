package integrator

import (
	"context"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Inward optima keep every margin of the case by the slack and are their own targets; the solver
// that they were asked of lifts its own as before.
func TestInwardTargetsKeepEveryMargin(t *testing.T) {
	const slack = 0.01
	y := system(t, "integrator-convex", Default(false))
	own := NewSolver(y, 20)
	tight := require.Get(own.Inward(slack))(t)
	middle := make([]float64, scenarioSize)
	for i, axis := range trainingRange() {
		middle[i] = (axis.Lo + axis.Hi) / 2
	}
	least, lifted := math.Inf(1), 0
	for _, v := range []struct {
		solver domain.Solver
		inward bool
	}{{tight, true}, {own, false}} {
		require.OK(t, v.solver.Prepare(context.Background(), 3, nil))
		rows := require.Get(v.solver.Solve(0, middle, domain.Preference{Adaptive: true}, domain.WeightedSum, 1))(t)
		for _, row := range rows {
			beyond := math.Hypot(row.Target[0]+row.C[contextPrevious]-row.U[0], row.Target[1]+row.C[contextPrevious+1]-row.U[1])
			if !v.inward {
				if beyond > 1e-6 {
					lifted++
				}
				continue
			}
			if beyond > 1e-12 {
				t.Errorf("step %d: the target lies %g from the optimum", row.Step, beyond)
			}
			var margins [3]float64
			y.Margins(row.S, row.C, row.U, margins[:])
			for i, m := range margins {
				if m != row.Margins[i] {
					t.Errorf("step %d: margin %d is %v in the sample and %v of the case", row.Step, i, row.Margins[i], m)
				}
				least = math.Min(least, m)
			}
		}
	}
	if least < slack-1e-6 || least > slack+1e-4 {
		t.Errorf("the smallest margin is %v, want the slack %v, which binds", least, slack)
	}
	if lifted == 0 {
		t.Error("no target of the case's own solver is lifted")
	}
	for _, slack := range []float64{0, -0.1, 0.4, math.NaN()} {
		if _, err := own.Inward(slack); err == nil {
			t.Errorf("a slack of %v is taken", slack)
		}
	}
}
