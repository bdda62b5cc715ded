package backendtest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

func checkRollout(t testing.TB, open Open) {
	for i, c := range trainerCases {
		cfg := c.config(uint64(1200 + i))
		c.compareRollout(t, open, cfg, func(trainer backend.Trainer) error { return trainer.PrepareRollout() })
	}
}

// horizon divides the plan of the case.
func (c trainerCase) horizon() int {
	if c.u%3 == 0 {
		return 3
	}
	return c.u
}

// chained makes the rollout phase of a configuration one along chains, without
// successors.
func (c trainerCase) chained(cfg backend.TrainerConfig, seed uint64) (backend.TrainerConfig, backend.Chain) {
	rng := newRand(seed)
	cfg.Rollout.Horizon = c.horizon()
	cfg.Data.Next, cfg.Data.RiskWeight = nil, nil
	chain := backend.Chain{Z: strided(testdomain.Matrix(rng, trainingRows*c.horizon(), c.latent))}
	for range chain.Z.Rows {
		chain.Weight = append(chain.Weight, 2*rng.Float32())
	}
	return cfg, chain
}

func checkChain(t testing.TB, open Open) {
	for i, c := range trainerCases {
		cfg, chain := c.chained(c.config(uint64(1250+i)), uint64(1260+i))
		c.compareRollout(t, open, cfg, func(trainer backend.Trainer) error {
			return errors.Join(trainer.PrepareRollout(), trainer.SetChain(chain))
		})
	}
	c := trainerCases[4]
	cfg, chain := c.chained(c.config(1270), 1271)
	b := opened(t, open, 0)
	trainer := newTrainer(t, b, cfg)
	wantError(t, "SetChain before PrepareRollout", func() error { return trainer.SetChain(chain) })
	require.OK(t, trainer.PrepareRollout())
	wantError(t, "RolloutStep before SetChain", func() error { _, err := trainer.RolloutStep([]int32{0}, trainerRate); return err })
	for what, bad := range map[string]func(*backend.Chain){
		"a weight too few":  func(c *backend.Chain) { c.Weight = c.Weight[1:] },
		"a negative weight": func(c *backend.Chain) { c.Weight[5] = -1 },
		"a row too few":     func(c *backend.Chain) { c.Z = c.Z.Slice(1, c.Z.Rows) },
		"a NaN":             func(c *backend.Chain) { c.Z.Row(7)[0] = float32(math.NaN()) },
	} {
		wrong := backend.Chain{Z: chain.Z.Clone(), Weight: slices.Clone(chain.Weight)}
		bad(&wrong)
		wantError(t, "SetChain with "+what, func() error { return trainer.SetChain(wrong) })
	}
	require.OK(t, trainer.SetChain(chain))
	require.Get(trainer.RolloutStep([]int32{9}, trainerRate))(t)
	plain := newTrainer(t, b, c.config(1272))
	require.OK(t, plain.PrepareRollout())
	wantError(t, "SetChain without a Horizon", func() error { return plain.SetChain(chain) })
	cfg.Rollout.Horizon = 5
	wantError(t, "a Horizon that divides no plan", func() error { _, err := b.NewTrainer(cfg); return err })
}

// compareRollout makes the same rollout steps on a backend and on the reference.
func (c trainerCase) compareRollout(t testing.TB, open Open, cfg backend.TrainerConfig, prepare func(backend.Trainer) error) {
	got, want := newTrainer(t, opened(t, open, 0), cfg), newTrainer(t, training.New(), cfg)
	for _, trainer := range []backend.Trainer{got, want} {
		if err := prepare(trainer); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	for step := range trainerSteps {
		rows := c.rolloutRows(step)
		before, err := got.RolloutLoss(rows)
		if err != nil {
			t.Fatalf("%s: RolloutLoss: %v", c.name, err)
		}
		gotLoss, err := got.RolloutStep(rows, trainerRate)
		if err != nil {
			t.Fatalf("%s: RolloutStep: %v", c.name, err)
		}
		wantLoss, err := want.RolloutStep(rows, trainerRate)
		if err != nil {
			t.Fatalf("%s: reference: %v", c.name, err)
		}
		if err := compareLosses(gotLoss, wantLoss); err != nil {
			t.Errorf("%s, step %d: %v", c.name, step, err)
		}
		if err := compareLosses(before, wantLoss); err != nil {
			t.Errorf("%s, step %d: RolloutLoss before the step: %v", c.name, step, err)
		}
	}
	after := networkParameters(t, got)
	if err := c.compareParameters(after, networkParameters(t, want)); err != nil {
		t.Errorf("%s: %v", c.name, err)
	}
	// Only D_u has moved.
	nets := require.Get(got.Networks())(t)
	if slices.Equal(after, parameters(cfg.Initial)) {
		t.Errorf("%s: rollout steps moved nothing", c.name)
	}
	nets.DecoderU = cfg.Initial.DecoderU
	if err := identical(parameters(nets), parameters(cfg.Initial)); err != nil {
		t.Errorf("%s: a frozen network moved: %v", c.name, err)
	}
}
