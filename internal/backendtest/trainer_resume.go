package backendtest

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/ref"
)

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
