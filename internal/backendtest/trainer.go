package backendtest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testdomain"
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
	trainer, err := b.NewTrainer(cfg)
	if err != nil {
		t.Fatalf("NewTrainer: %v", err)
	}
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
	nets, err := trainer.Networks()
	if err != nil {
		t.Fatalf("Networks: %v", err)
	}
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
		got, want := newTrainer(t, b, cfg), newTrainer(t, ref.New(), cfg)
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
	must.OK(t, trainer.PrepareRollout())
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
	must.OK(t, trainer.SetChain(chain))
	must.Get(trainer.RolloutStep([]int32{9}, trainerRate))(t)
	plain := newTrainer(t, b, c.config(1272))
	must.OK(t, plain.PrepareRollout())
	wantError(t, "SetChain without a Horizon", func() error { return plain.SetChain(chain) })
	cfg.Rollout.Horizon = 5
	wantError(t, "a Horizon that divides no plan", func() error { _, err := b.NewTrainer(cfg); return err })
}

// compareRollout makes the same rollout steps on a backend and on the reference.
func (c trainerCase) compareRollout(t testing.TB, open Open, cfg backend.TrainerConfig, prepare func(backend.Trainer) error) {
	got, want := newTrainer(t, opened(t, open, 0), cfg), newTrainer(t, ref.New(), cfg)
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
	nets := must.Get(got.Networks())(t)
	if slices.Equal(after, parameters(cfg.Initial)) {
		t.Errorf("%s: rollout steps moved nothing", c.name)
	}
	nets.DecoderU = cfg.Initial.DecoderU
	if err := identical(parameters(nets), parameters(cfg.Initial)); err != nil {
		t.Errorf("%s: a frozen network moved: %v", c.name, err)
	}
}

// checkResume interrupts both kinds of training and compares with the run that
// was not.
func checkResume(t testing.TB, open Open) {
	checkResumeOf(t, open, func(c trainerCase, seed uint64) (backend.TrainerConfig, func(backend.Trainer) error) {
		return c.config(seed), func(backend.Trainer) error { return nil }
	})
	checkResumeOf(t, open, func(c trainerCase, seed uint64) (backend.TrainerConfig, func(backend.Trainer) error) {
		cfg, chain := c.chained(c.config(seed), 1310)
		return cfg, func(trainer backend.Trainer) error { return trainer.SetChain(chain) }
	})
}

// checkResumeOf resumes runs of a configuration; chain is called where a rollout phase
// begins or goes on.
func checkResumeOf(t testing.TB, open Open, config func(trainerCase, uint64) (backend.TrainerConfig, func(backend.Trainer) error)) {
	b := opened(t, open, 0)
	c := trainerCases[3]
	cfg, chain := config(c, 1300)
	manifold := func(trainer backend.Trainer, from, to int) {
		for step := from; step < to; step++ {
			rows, neighbours, kernel := c.manifoldArguments(step)
			if _, err := trainer.ManifoldStep(rows, neighbours, kernel, trainerRate); err != nil {
				t.Fatalf("ManifoldStep: %v", err)
			}
		}
	}
	rollout := func(trainer backend.Trainer, from, to int) {
		for step := from; step < to; step++ {
			if _, err := trainer.RolloutStep(c.rolloutRows(step), trainerRate); err != nil {
				t.Fatalf("RolloutStep: %v", err)
			}
		}
	}
	snapshot := func(trainer backend.Trainer) backend.TrainerState {
		s, err := trainer.State()
		if err != nil {
			t.Fatalf("State: %v", err)
		}
		copied := s
		copied.Arrays = map[string][]float32{}
		for name, values := range s.Arrays {
			copied.Arrays[name] = slices.Clone(values)
		}
		return copied
	}
	resumed := func(s backend.TrainerState) backend.Trainer {
		other := cfg
		other.Initial = c.config(1301).Initial // what Restore must replace
		trainer := newTrainer(t, b, other)
		if err := trainer.Restore(s); err != nil {
			t.Fatalf("Restore: %v", err)
		}
		if s.RolloutPrepared {
			must.OK(t, chain(trainer))
		}
		return trainer
	}
	same := func(what string, got, want backend.Trainer) {
		a, b := snapshot(got), snapshot(want)
		if a.ManifoldSteps != b.ManifoldSteps || a.RolloutSteps != b.RolloutSteps || a.RolloutPrepared != b.RolloutPrepared {
			t.Errorf("%s: counts %d, %d, %v, want %d, %d, %v", what, a.ManifoldSteps, a.RolloutSteps, a.RolloutPrepared, b.ManifoldSteps, b.RolloutSteps, b.RolloutPrepared)
		}
		for name := range b.Arrays {
			if err := identical(a.Arrays[name], b.Arrays[name]); err != nil {
				t.Errorf("%s: %s: %v", what, name, err)
			}
		}
		if err := identical(networkParameters(t, got), networkParameters(t, want)); err != nil {
			t.Errorf("%s: networks: %v", what, err)
		}
	}

	straight := newTrainer(t, b, cfg)
	manifold(straight, 0, 3)
	inManifold := snapshot(straight)
	manifold(straight, 3, 6)
	again := resumed(inManifold)
	manifold(again, 3, 6)
	same("resumed manifold training", again, straight)

	if err := straight.PrepareRollout(); err != nil {
		t.Fatalf("PrepareRollout: %v", err)
	}
	must.OK(t, chain(straight))
	rollout(straight, 0, 2)
	inRollout := snapshot(straight)
	rollout(straight, 2, 5)
	again = resumed(inRollout)
	rollout(again, 2, 5)
	same("resumed rollout training", again, straight)
	if inRollout.ManifoldSteps != 6 || inRollout.RolloutSteps != 2 || !inRollout.RolloutPrepared || inManifold.RolloutPrepared {
		t.Errorf("counts in the state: %d, %d, %v, want 6, 2, true", inRollout.ManifoldSteps, inRollout.RolloutSteps, inRollout.RolloutPrepared)
	}

	// The arrays are the reference's, so that a checkpoint can change backends.
	reference := newTrainer(t, ref.New(), cfg)
	if got, want := slices.Sorted(maps.Keys(inRollout.Arrays)), slices.Sorted(maps.Keys(snapshot(reference).Arrays)); !slices.Equal(got, want) {
		t.Errorf("arrays of a state are %v, want %v", got, want)
	} else if err := reference.Restore(inRollout); err != nil {
		t.Errorf("the reference does not take the state: %v", err)
	} else {
		must.OK(t, chain(reference))
		rollout(reference, 2, 5)
		if err := c.compareParameters(networkParameters(t, straight), networkParameters(t, reference)); err != nil {
			t.Errorf("the reference resumed from the backend's state: %v", err)
		}
	}

	// A damaged state is refused and changes nothing.
	before := snapshot(again)
	for what, damage := range map[string]func(s *backend.TrainerState){
		"a missing array": func(s *backend.TrainerState) {
			for name := range s.Arrays {
				delete(s.Arrays, name)
				return
			}
		},
		"a short array": func(s *backend.TrainerState) {
			for name, v := range s.Arrays {
				s.Arrays[name] = v[1:]
				return
			}
		},
		"an array too many": func(s *backend.TrainerState) { s.Arrays["surplus"] = []float32{1} },
		"a NaN": func(s *backend.TrainerState) {
			for _, v := range s.Arrays {
				v[0] = float32(math.NaN())
			}
		},
		"a negative count": func(s *backend.TrainerState) { s.RolloutSteps = -1 },
	} {
		s := snapshot(straight)
		damage(&s)
		wantError(t, "Restore of a state with "+what, func() error { return again.Restore(s) })
	}
	for name, values := range snapshot(again).Arrays {
		if err := identical(values, before.Arrays[name]); err != nil {
			t.Errorf("a refused Restore changed %s: %v", name, err)
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
	must.OK(t, trainer.PrepareRollout())
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
