package ocp

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// First decisions and references begin from screened plans too and leave the worse well. They never cost more than from
// the solver's own starts, and are bitwise those where no screened plan is better.
func TestFirstDecisionsLeaveTheWorseBasin(t *testing.T) {
	single := newWells(0)
	screened := *single
	screened.single = false
	adaptive := domain.Preference{Adaptive: true}
	left, kept := 0, 0
	for _, x := range []float64{-1.1, -0.4, 0.05, 0.3, 0.6, 0.9, 1.15} {
		from := func(s *Solver) (costs [2]float64, plan []float64) {
			plan = make([]float64, 20)
			cost, solved, err := s.NewHorizon(0).Solve([]float64{x}, nil, adaptive, plan)
			if err != nil || !solved {
				t.Fatalf("from %v: solved %v, %v", x, solved, err)
			}
			before := s.Counts().Starts
			reference, _, err := s.Oracle(t.Context(), []float64{x}, nil, 20, adaptive)
			require.OK(t, err)
			if n := s.Counts().Starts - before; n > 1+screenedStarts {
				t.Errorf("from %v a reference took %d solves, want at most %d", x, n, 1+screenedStarts)
			}
			return [2]float64{cost, reference}, plan
		}
		least, plan := from(&screened)
		own, ownPlan := from(single)
		switch {
		case least[0] < own[0]*0.9 && least[1] < own[1]*0.9:
			left++
		case least == own && slices.Equal(plan, ownPlan):
			kept++
		default:
			t.Errorf("from %v a decision and a reference cost %v, from the solver's own start %v", x, least, own)
		}
	}
	if left < 3 || kept < 1 {
		t.Errorf("%d starts leave the worse basin, %d keep their plan, want 3 and 1", left, kept)
	}
}
