package batchnav

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

// A chain begins with the latent of a decision, whatever stands beside it, and each
// further step is the latent step from where the last ended.
func TestChainTakesTheNavigatorsSteps(t *testing.T) {
	const rows, horizon = chainRows + 3, 3
	cart := testdomain.NewCart(50)
	m := testdomain.Map(cart, 13, false)
	opt := Options{Latents: true, NoRetraction: true}
	s, c, slot := tensor.New(rows, 2), tensor.New(rows, 1), tensor.New(rows, 3)
	prefs := []domain.Preference{{Adaptive: true}, {W: []float64{0.75, 0.25}}}
	wide := make([]float64, 3)
	for i := range rows {
		s.Row(i)[0], s.Row(i)[1] = float32(i%17)/20-0.4, float32(i%5)/10-0.2
		prefs[i%2].Slot(wide, 0)
		tensor.Narrow(slot.Row(i), wide)
	}
	chain := tensor.New(rows*horizon, m.Latent())
	var order []int
	require.OK(t, Chain(ref.New(), m, cart, opt, horizon, s, c, slot, func(row, step int, z, plan []float32, finite bool) {
		if !finite || len(plan) != 1 {
			t.Fatalf("row %d, step %d: finite %v, plan %v", row, step, finite, plan)
		}
		if row == rows-1 {
			order = append(order, step)
		}
		copy(chain.Row(row*horizon+step), z)
	}))
	if !slices.Equal(order, []int{0, 1, 2}) {
		t.Errorf("the last row was visited at steps %v", order)
	}
	nav := require.Get(NewNavigator(ref.New(), m, cart, opt))(t)
	l := require.Get(load(ref.New(), m, cart, &opt))(t)
	cfg := l.stepperConfig(1)
	energy := ref.NewEnergy(cfg)
	moved := false
	for i := rows - 6; i < rows; i++ {
		state, ctx := make([]float64, 2), make([]float64, 1)
		tensor.Widen(state, s.Row(i))
		nav.Reset()
		d := require.Get(nav.Decide(state, ctx, prefs[i%2]))(t)
		if !slices.Equal(d.Latent, chain.Row(i*horizon)) {
			t.Errorf("row %d begins at %v, a decision at %v", i, chain.Row(i*horizon), d.Latent)
		}
		if prefs[i%2].Adaptive {
			continue
		}
		weights, narrow := make([]float64, 2), make([]float32, 2)
		l.weights(prefs[i%2].W, narrow)
		tensor.Widen(weights, narrow)
		for h := 1; h < horizon; h++ {
			z, want := make([]float64, m.Latent()), make([]float32, m.Latent())
			tensor.Widen(z, chain.Row(i*horizon+h-1))
			next, _ := energy.Step(z, state, ctx, weights, cfg.Params)
			tensor.Narrow(want, next)
			if got := chain.Row(i*horizon + h); !slices.Equal(got, want) {
				t.Errorf("row %d, step %d ends at %v, want %v", i, h, got, want)
			}
			moved = moved || !slices.Equal(want, chain.Row(i*horizon+h-1))
		}
	}
	if !moved {
		t.Error("no step moved a latent")
	}
}
