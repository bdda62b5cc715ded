package backendtest

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/training"
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
	r := resumption{TB: t, of: trainerCases[3], backend: opened(t, open, 0)}
	r.config, r.chain = config(r.of, 1300)

	straight := newTrainer(t, r.backend, r.config)
	r.manifold(straight, 0, 3)
	inManifold := r.snapshot(straight)
	r.manifold(straight, 3, 6)
	again := r.resumed(inManifold)
	r.manifold(again, 3, 6)
	r.same("resumed manifold training", again, straight)

	require.OK(t, straight.PrepareRollout())
	require.OK(t, r.chain(straight))
	r.rollout(straight, 0, 2)
	inRollout := r.snapshot(straight)
	r.rollout(straight, 2, 5)
	again = r.resumed(inRollout)
	r.rollout(again, 2, 5)
	r.same("resumed rollout training", again, straight)
	if inRollout.ManifoldSteps != 6 || inRollout.RolloutSteps != 2 || !inRollout.RolloutPrepared || inManifold.RolloutPrepared {
		t.Errorf("counts in the state: %d, %d, %v, want 6, 2, true", inRollout.ManifoldSteps, inRollout.RolloutSteps, inRollout.RolloutPrepared)
	}
	r.movesToTheReference(inRollout, straight)
	r.refusesDamage(straight, again)
}

// resumption is a training that is interrupted and resumed.
type resumption struct {
	testing.TB
	of      trainerCase
	backend backend.Backend
	config  backend.TrainerConfig
	chain   func(backend.Trainer) error // what follows PrepareRollout
}

// manifold makes the updates [from, to) of the manifold phase.
func (r *resumption) manifold(trainer backend.Trainer, from, to int) {
	r.Helper()
	for step := from; step < to; step++ {
		rows, neighbours, kernel := r.of.manifoldArguments(step)
		require.Get(trainer.ManifoldStep(rows, neighbours, kernel, trainerRate))(r)
	}
}

// rollout makes the updates [from, to) of the rollout phase.
func (r *resumption) rollout(trainer backend.Trainer, from, to int) {
	r.Helper()
	for step := from; step < to; step++ {
		require.Get(trainer.RolloutStep(r.of.rolloutRows(step), trainerRate))(r)
	}
}

// snapshot is a copy of a trainer's state.
func (r *resumption) snapshot(trainer backend.Trainer) backend.TrainerState {
	r.Helper()
	s := require.Get(trainer.State())(r)
	arrays := map[string][]float32{}
	for name, values := range s.Arrays {
		arrays[name] = slices.Clone(values)
	}
	s.Arrays = arrays
	return s
}

// resumed is a trainer of other networks that has been restored to a state.
func (r *resumption) resumed(s backend.TrainerState) backend.Trainer {
	r.Helper()
	other := r.config
	other.Initial = r.of.config(1301).Initial // what Restore must replace
	trainer := newTrainer(r, r.backend, other)
	require.OK(r, trainer.Restore(s))
	if s.RolloutPrepared {
		require.OK(r, r.chain(trainer))
	}
	return trainer
}

// same holds two trainers to the same state and networks, bit by bit.
func (r *resumption) same(what string, got, want backend.Trainer) {
	r.Helper()
	a, b := r.snapshot(got), r.snapshot(want)
	if a.ManifoldSteps != b.ManifoldSteps || a.RolloutSteps != b.RolloutSteps || a.RolloutPrepared != b.RolloutPrepared {
		r.Errorf("%s: counts %d, %d, %v, want %d, %d, %v", what, a.ManifoldSteps, a.RolloutSteps, a.RolloutPrepared, b.ManifoldSteps, b.RolloutSteps, b.RolloutPrepared)
	}
	for name := range b.Arrays {
		if err := identical(a.Arrays[name], b.Arrays[name]); err != nil {
			r.Errorf("%s: %s: %v", what, name, err)
		}
	}
	if err := identical(networkParameters(r, got), networkParameters(r, want)); err != nil {
		r.Errorf("%s: networks: %v", what, err)
	}
}

// movesToTheReference holds the arrays of a state to those of the reference, so that a
// checkpoint can change backends, and the training that goes on there to straight.
func (r *resumption) movesToTheReference(s backend.TrainerState, straight backend.Trainer) {
	r.Helper()
	reference := newTrainer(r, training.New(), r.config)
	if got, want := slices.Sorted(maps.Keys(s.Arrays)), slices.Sorted(maps.Keys(r.snapshot(reference).Arrays)); !slices.Equal(got, want) {
		r.Errorf("arrays of a state are %v, want %v", got, want)
		return
	}
	if err := reference.Restore(s); err != nil {
		r.Errorf("the reference does not take the state: %v", err)
		return
	}
	require.OK(r, r.chain(reference))
	r.rollout(reference, 2, 5)
	if err := r.of.compareParameters(networkParameters(r, straight), networkParameters(r, reference)); err != nil {
		r.Errorf("the reference resumed from the backend's state: %v", err)
	}
}

// refusesDamage holds Restore to refuse a damaged state of from, and to change nothing then.
func (r *resumption) refusesDamage(from, trainer backend.Trainer) {
	r.Helper()
	before := r.snapshot(trainer)
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
		s := r.snapshot(from)
		damage(&s)
		wantError(r, "Restore of a state with "+what, func() error { return trainer.Restore(s) })
	}
	for name, values := range r.snapshot(trainer).Arrays {
		if err := identical(values, before.Arrays[name]); err != nil {
			r.Errorf("a refused Restore changed %s: %v", name, err)
		}
	}
}
