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
			reference, _, err := s.Oracle([]float64{x}, nil, 20, adaptive)
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

// turned are wells in which any random plan of an episode leads far away, so that none was a start.
type turned struct{ wells }

func (turned) Spec() *domain.Spec {
	spec := wells{}.Spec()
	spec.Action = []domain.Variable{{Name: "u", Lo: -6, Hi: 6}}
	spec.Steps = 60
	return spec
}

// Where every random plan leads too far, rates of smooth signals are starts.
func TestARateIsScreenedAboutItsBase(t *testing.T) {
	s := require.Get(New(turned{}, []domain.Variable{{Name: "x", Lo: -1.2, Hi: 1.2}}, func(p, s, c []float64) { copy(s, p) }, Options{}))(t)
	single := s.SingleStart().(*Solver)
	left, pref := 0, domain.Preference{W: []float64{0.5, 0.5}}
	for _, x := range []float64{0.3, 0.6, 0.9, 1.15} {
		own, _, err := single.Oracle([]float64{x}, nil, 60, pref)
		require.OK(t, err)
		cost, _, err := s.Oracle([]float64{x}, nil, 60, pref)
		require.OK(t, err)
		if cost < 0.9*own {
			left++
		}
	}
	if left == 0 {
		t.Error("no reference leaves the worse well")
	}
}
