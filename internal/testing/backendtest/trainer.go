package backendtest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/internal/testing/training"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// trainerCase is one training run of the suite.
type trainerCase struct {
	name                                     string
	latent, hidden, x, o, s, u, batch, kappa int
	isometry                                 bool
	spectral                                 float32
	epsilon                                  float32
}

const trainingRows = 80

var trainerCases = []trainerCase{
	{"no neighbours", 1, 7, 3, 2, 2, 1, 1, 0, false, 0, 1e-3},
	{"gaussian locality", 3, 33, 9, 7, 4, 2, 33, 3, false, 0, 1e-3},
	{"isometry", 5, 7, 5, 3, 12, 12, 31, 2, true, 0, 1e-3},
	{"spectral bound", 16, 33, 12, 8, 4, 2, 32, 4, false, 1.5, 1e-3},
	{"hidden width of the paper", 32, 256, 20, 16, 12, 12, 8, 2, false, 10, 1e-3},
	{"Adam's usual epsilon", 3, 33, 9, 7, 4, 2, 33, 3, false, 0, 1e-8},
}

func (c trainerCase) config(seed uint64) backend.TrainerConfig {
	rng := newRand(seed)
	cfg := testdomain.TrainingRun(rng, trainingRows, 0.2, []int{c.x, c.hidden, c.hidden, c.latent}, []int{c.o, c.hidden, c.latent},
		[]int{c.latent, c.hidden, c.hidden, c.u}, []int{c.latent, c.hidden, c.hidden, c.s})
	cfg.Data.O, cfg.Data.U = strided(cfg.Data.O), strided(cfg.Data.U)
	cfg.Manifold.Isometry, cfg.Adam.Epsilon, cfg.SpectralBound = c.isometry, c.epsilon, c.spectral
	cfg.MaxBatch, cfg.MaxNeighbours = c.batch, c.kappa
	return cfg
}

// manifoldArguments are the rows, neighbours and kernel of step number step.
func (c trainerCase) manifoldArguments(step int) (rows, neighbours []int32, kernel []float32) {
	rows, neighbours, kernel = testdomain.ManifoldBatch(newRand(uint64(2000+step)), trainingRows, c.batch, c.kappa)
	if c.isometry {
		kernel = nil
	}
	return rows, neighbours, kernel
}

// rolloutRows are rows with a successor.
func (c trainerCase) rolloutRows(step int) []int32 {
	return testdomain.RolloutBatch(newRand(uint64(3000+step)), trainingRows, c.batch)
}

func newTrainer(t testing.TB, b backend.Backend, cfg backend.TrainerConfig) backend.Trainer {
	t.Helper()
	trainer := require.Get(b.NewTrainer(cfg))(t)
	return trainer
}

// losses names the values of a loss struct in a fixed order.
func losses(l any) (names []string, values []float64) {
	switch l := l.(type) {
	case backend.ManifoldLosses:
		return []string{"ReconX", "Action", "ReconO", "Consistency", "Locality", "Total"},
			[]float64{l.ReconX, l.Action, l.ReconO, l.Consistency, l.Locality, l.Total}
	case backend.RolloutLosses:
		return []string{"Act", "ActNext", "Delta", "Roll", "Flow", "LieAct", "LieDelta", "LieAnchor", "LieReg", "Total"},
			[]float64{l.Act, l.ActNext, l.Delta, l.Roll, l.Flow, l.LieAct, l.LieDelta, l.LieAnchor, l.LieReg, l.Total}
	}
	panic(fmt.Sprintf("losses of %T", l))
}

func compareLosses(got, want any) error {
	names, w := losses(want)
	_, g := losses(got)
	for i := range w {
		if err := tolLoss.number(g[i], w[i], math.Max(1, math.Abs(w[i]))); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
	}
	return nil
}

func parameters(n backend.Networks) []float32 {
	var all []float32
	for _, net := range []*model.MLP{n.EncoderX, n.EncoderO, n.DecoderU, n.DecoderS} {
		for _, l := range net.Layers {
			for o := range l.W.Rows {
				all = append(all, l.W.Row(o)...)
			}
			all = append(all, l.B...)
		}
	}
	return all
}

func networkParameters(t testing.TB, trainer backend.Trainer) []float32 {
	t.Helper()
	nets := require.Get(trainer.Networks())(t)
	return parameters(nets)
}

func (c trainerCase) compareParameters(got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d parameters, want %d", len(got), len(want))
	}
	if c.epsilon < 1e-4 {
		sum := 0.0
		for i := range want {
			d := float64(got[i]) - float64(want[i])
			sum += d * d
		}
		return tolWeightsPaper.number(math.Sqrt(sum/float64(len(want))), 0, 1)
	}
	return tolWeights.rowAt(got, want, 1)
}

const (
	trainerSteps = 4
	trainerRate  = 2e-3
)

func checkManifold(t testing.TB, open Open) {
	b := opened(t, open, 0)
	for i, c := range trainerCases {
		cfg := c.config(uint64(1100 + i))
		got, want := newTrainer(t, b, cfg), newTrainer(t, training.New(), cfg)
		if err := identical(networkParameters(t, got), parameters(cfg.Initial)); err != nil {
			t.Errorf("%s: networks before the first step: %v", c.name, err)
		}
		for step := range trainerSteps {
			rows, neighbours, kernel := c.manifoldArguments(step)
			before, err := got.ManifoldLoss(rows, neighbours, kernel)
			if err != nil {
				t.Fatalf("%s: ManifoldLoss: %v", c.name, err)
			}
			gotLoss, err := got.ManifoldStep(rows, neighbours, kernel, trainerRate)
			if err != nil {
				t.Fatalf("%s: ManifoldStep: %v", c.name, err)
			}
			wantLoss, err := want.ManifoldStep(rows, neighbours, kernel, trainerRate)
			if err != nil {
				t.Fatalf("%s: reference: %v", c.name, err)
			}
			if err := compareLosses(gotLoss, wantLoss); err != nil {
				t.Errorf("%s, step %d: %v", c.name, step, err)
			}
			if err := compareLosses(before, wantLoss); err != nil {
				t.Errorf("%s, step %d: ManifoldLoss before the step: %v", c.name, step, err)
			}
			if err := c.compareParameters(networkParameters(t, got), networkParameters(t, want)); err != nil {
				t.Errorf("%s, after step %d: %v", c.name, step, err)
				break
			}
		}
	}
}

func checkTrainerShapes(t testing.TB, open Open) {
	b := opened(t, open, 0)
	c := trainerCases[1]
	cfg := c.config(1400)
	trainer := newTrainer(t, b, cfg)
	rows, neighbours, kernel := c.manifoldArguments(0)
	step := func(rows, neighbours []int32, kernel []float32, lr float32) func() error {
		return func() error { _, err := trainer.ManifoldStep(rows, neighbours, kernel, lr); return err }
	}
	tooMany := append(slices.Clone(rows), 0)
	for what, call := range map[string]func() error{
		"no rows":                    step(nil, nil, nil, trainerRate),
		"more rows than MaxBatch":    step(tooMany, nil, nil, trainerRate),
		"a row out of range":         step([]int32{trainingRows}, nil, nil, trainerRate),
		"a negative row":             step([]int32{-1}, nil, nil, trainerRate),
		"neighbours not a multiple":  step(rows, neighbours[1:], kernel[1:], trainerRate),
		"a kernel of another length": step(rows, neighbours, kernel[1:], trainerRate),
		"too many neighbours":        step(rows[:1], neighbours[:4], kernel[:4], trainerRate),
		"a neighbour out of range":   step(rows[:1], []int32{0, 1, trainingRows}, kernel[:3], trainerRate),
		"a NaN learning rate":        step(rows, neighbours, kernel, float32(math.NaN())),
		"a negative learning rate":   step(rows, neighbours, kernel, -1),
		"RolloutStep before Prepare": func() error { _, err := trainer.RolloutStep(c.rolloutRows(0), trainerRate); return err },
		"RolloutLoss before Prepare": func() error { _, err := trainer.RolloutLoss(c.rolloutRows(0)); return err },
		"ManifoldLoss out of range":  func() error { _, err := trainer.ManifoldLoss([]int32{trainingRows}, nil, nil); return err },
	} {
		wantError(t, "trainer, "+what, call)
	}
	if err := identical(networkParameters(t, trainer), parameters(cfg.Initial)); err != nil {
		t.Errorf("a refused step changed the networks: %v", err)
	}
	require.OK(t, trainer.PrepareRollout())
	wantError(t, "trainer, a rollout row without successor", func() error { _, err := trainer.RolloutStep([]int32{9}, trainerRate); return err })
	wantError(t, "trainer, ManifoldStep after PrepareRollout", step(rows, neighbours, kernel, trainerRate))
	for what, change := range map[string]func(*backend.TrainerConfig){
		"rows of S":       func(c *backend.TrainerConfig) { c.Data.S = tensor.New(trainingRows-1, 4) },
		"width of X":      func(c *backend.TrainerConfig) { c.Data.X = tensor.New(trainingRows, 8) },
		"NaN in the data": func(c *backend.TrainerConfig) { c.Data.X = c.Data.X.Clone(); c.Data.X.Data[5] = float32(math.NaN()) },
		"successor":       func(c *backend.TrainerConfig) { c.Data.Next = slices.Clone(c.Data.Next); c.Data.Next[3] = trainingRows },
		"negative risk": func(c *backend.TrainerConfig) {
			c.Data.RiskWeight = slices.Clone(c.Data.RiskWeight)
			c.Data.RiskWeight[3] = -1
		},
		"latent sizes":    func(c *backend.TrainerConfig) { c.Initial.DecoderU = testdomain.Network(newRand(1401), 0.2, 4, 7, 2) },
		"missing network": func(c *backend.TrainerConfig) { c.Initial.EncoderO = nil },
		"MaxBatch":        func(c *backend.TrainerConfig) { c.MaxBatch = 0 },
		"β₁":              func(c *backend.TrainerConfig) { c.Adam.Beta1 = 1 },
		"spectral bound":  func(c *backend.TrainerConfig) { c.SpectralBound = -1 },
		"TopK":            func(c *backend.TrainerConfig) { c.Rollout.TopK = 4 },
	} {
		bad := cfg
		change(&bad)
		wantError(t, "NewTrainer, "+what, func() error { _, err := b.NewTrainer(bad); return err })
	}
	// Without successors there is manifold training, and no rollout.
	alone := cfg
	alone.Data.Next, alone.Data.RiskWeight = nil, nil
	single := newTrainer(t, b, alone)
	if _, err := single.ManifoldStep(rows, neighbours, kernel, trainerRate); err != nil {
		t.Errorf("manifold training without successors: %v", err)
	}
	wantError(t, "PrepareRollout without successors", single.PrepareRollout)
}
