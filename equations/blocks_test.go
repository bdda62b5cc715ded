package equations

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// slowPuck plans forces that stay for two periods each.
func slowPuck() System {
	y := puck()
	y.Blocks = []int{2}
	return y
}

// pairs is slowPuck as one writes it without the declaration: five steps of two periods, with the limits and costs of both.
func pairs() System {
	y := puck()
	y.Steps, y.StepSeconds = 5, 0.2
	for _, v := range y.Margins[:5] {
		v.Name += " later"
		y.Margins = append(y.Margins, v)
	}
	y.Real, y.Dual = paired[float64](), paired[complex128]()
	return y
}

func paired[T dual.Scalar]() Functions[T] {
	after := func(s, c, u []T) (half, between []T) {
		half, between = make([]T, 4), slices.Clone(c)
		step(s, c, u, half, between)
		return half, between
	}
	return Functions[T]{
		Step: func(s, c, u, sNext, cNext []T) {
			half, between := after(s, c, u)
			step(half, between, u, sNext, cNext)
		},
		Objectives: func(s, c, u, sNext, j []T) {
			half, between := after(s, c, u)
			var first [2]T
			objectives(s, c, u, half, first[:])
			objectives(half, between, u, sNext, j)
			j[0], j[1] = j[0]+first[0], j[1]+first[1]
		},
		Margins: func(s, c, u, sNext, m []T) {
			half, _ := after(s, c, u)
			margins(s, c, u, half, m[:5])
			margins(s, c, u, sNext, m[5:])
		},
	}
}

func TestBlocksPlanWhatOneWritesByHand(t *testing.T) {
	declared, hand, free := require.Get(slowPuck().Case())(t), require.Get(pairs().Case())(t), require.Get(puck().Case())(t)
	pref := domain.Preference{W: []float64{0.9, 0.1}}
	planned := func(c *domain.Case, of, steps int) (cost float64, plan []float64) {
		p := make([]float64, 0, 4)
		for k, v := range puck().Scenario {
			p = append(p, v.Lo+(v.Hi-v.Lo)*float64((7*of+3*k)%10)/9)
		}
		s, ctx := make([]float64, 4), make([]float64, 3)
		domain.AbilitiesOfSolver(c.Solver).Start(p, s, ctx)
		plan = make([]float64, 2*steps)
		cost, solved, err := c.Solver.(domain.Receding).NewHorizon(0).Solve(s, ctx, pref, plan)
		if err != nil || !solved {
			t.Fatalf("start %d is not solved: %v", of, err)
		}
		return cost, plan
	}
	dearer := 0
	for of := range 10 {
		cost, plan := planned(&declared, of, 10)
		want, by := planned(&hand, of, 5)
		least, _ := planned(&free, of, 10)
		if math.Abs(cost-want) > 1e-5*want {
			t.Errorf("start %d: plans of blocks cost %v, those by hand %v", of, cost, want)
		}
		if cost > least*(1+1e-4) {
			dearer++
		}
		for k := range 10 {
			if !close8(plan[2*k:2*k+2], plan[4*(k/2):4*(k/2)+2]) {
				t.Errorf("start %d: action %d is %v in a block that begins with %v", of, k, plan[2*k:2*k+2], plan[4*(k/2):4*(k/2)+2])
			}
			for j, v := range plan[2*k : 2*k+2] {
				if w := by[2*(k/2)+j]; math.Abs(v-w) > 1e-2 {
					t.Errorf("start %d: action %d is %v, by hand %v", of, k, v, w)
				}
			}
		}
	}
	if dearer < 5 {
		t.Errorf("held actions cost more than free ones from %d of 10 starts: the test is too easy", dearer)
	}
}

// A loop decides in each period, and the reference that it is measured by holds no action.
func TestBlocksBeginAnewInEachPeriod(t *testing.T) {
	slow, free := require.Get(slowPuck().Case())(t), require.Get(puck().Case())(t)
	opt := domain.EpisodeOptions{Preference: domain.Preference{W: []float64{0.9, 0.1}}}
	changes := 0
	for i := range 5 {
		ep := require.Get(slow.Plant.Episode(3, i, opt))(t)
		reference, _, err := ep.Oracle()
		require.OK(t, err)
		if want, _, err := require.Get(free.Plant.Episode(3, i, opt))(t).Oracle(); err != nil || math.Abs(reference-want) > 1e-6*want {
			t.Errorf("episode %d: the reference costs %v, without blocks %v, %v", i, reference, want, err)
		}
		h := slow.Solver.(domain.Receding).NewHorizon(0)
		s, c := make([]float64, 4), make([]float64, 3)
		var before []float64
		for left := 10; left > 0; left-- {
			ep.Observe(s, c)
			plan := make([]float64, 2*left)
			if _, solved, err := h.Solve(s, c, opt.Preference, plan); err != nil || !solved {
				t.Fatalf("episode %d: with %d decisions left none is solved: %v", i, left, err)
			}
			if before != nil && math.Abs(plan[0]-before[0]) > 1e-3 {
				changes++
			}
			before = plan[:2]
			if out := require.Get(ep.Apply(before))(t); out.Margin < -1e-6 {
				t.Errorf("episode %d: a margin is %v", i, out.Margin)
			}
		}
	}
	if changes < 5*6 {
		t.Errorf("%d of 45 actions differ from the one before: the loop does not decide in each period", changes)
	}
}

func TestBlockedSystemsKeepTheContract(t *testing.T) {
	domaintest.Run(t, require.Get(slowPuck().Case())(t))
}
