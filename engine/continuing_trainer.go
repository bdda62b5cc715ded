package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
)

// savedEvery is how many updates a trainer makes between two copies of its state on
// the host: a fault costs at most so many again on the other backend. A copy takes as long
// as some ten small updates on a GPU, which wait for it.
const savedEvery = 1024

// trainer is a trainer that survives the loss of its backend.
type trainer struct {
	*movable[backend.Trainer]
	saveInterval int                           // updates between two copies of the state
	saved        *backend.TrainerState         // nil: the state it began with
	unsaved      []func(backend.Trainer) error // the updates made after that
	unsavedCount int                           // their number
	chain        *backend.Chain                // what a state does not hold; nil: none
}

func (c *continuing) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	initial := cfg.Initial.All()
	for i, mlp := range initial {
		if mlp != nil {
			initial[i] = mlp.Clone()
		}
	}
	cfg.Initial = backend.Networks{EncoderX: initial[0], EncoderO: initial[1], DecoderU: initial[2], DecoderS: initial[3]}
	t := &trainer{saveInterval: cmp.Or(c.saveInterval, savedEvery)}
	var err error
	t.movable, err = newMovable(c, "training", func(b backend.Backend) (backend.Trainer, error) {
		inner, err := b.NewTrainer(cfg)
		if err != nil {
			return nil, err
		}
		return inner, t.replay(inner)
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// replay brings a new trainer to the present state.
func (t *trainer) replay(inner backend.Trainer) error {
	if t.saved != nil {
		if err := inner.Restore(*t.saved); err != nil {
			return err
		}
		if t.chain != nil && t.saved.RolloutPrepared {
			if err := inner.SetChain(*t.chain); err != nil {
				return err
			}
		}
	}
	for _, update := range t.unsaved {
		if err := update(inner); err != nil {
			return err
		}
	}
	return nil
}

// update makes updates and notes them, but on the second backend, which is the last.
func update[L any](t *trainer, updates int, f func(backend.Trainer) (L, error)) (losses L, err error) {
	if losses, err = ask(t.movable, f); err != nil {
		return losses, err
	}
	if t.onSecond {
		t.saved, t.unsaved, t.chain = nil, nil, nil
		return losses, nil
	}
	t.unsaved = append(t.unsaved, func(b backend.Trainer) error { _, err := f(b); return err })
	if t.unsavedCount += updates; t.unsavedCount >= t.saveInterval {
		_, err = t.State() // which keeps it; a fault in it moves the trainer
	}
	return losses, err
}

func (t *trainer) ManifoldStep(rows, neighbours []int32, kernel []float32, lr float32) (backend.ManifoldLosses, error) {
	rows, neighbours, kernel = slices.Clone(rows), slices.Clone(neighbours), slices.Clone(kernel)
	return update(t, 1, func(b backend.Trainer) (backend.ManifoldLosses, error) {
		return b.ManifoldStep(rows, neighbours, kernel, lr)
	})
}

// ManifoldSteps implements backend.SequenceTrainer.
func (t *trainer) ManifoldSteps(updates []backend.ManifoldUpdate, losses []backend.ManifoldLosses) error {
	updates = slices.Clone(updates)
	for i, u := range updates {
		updates[i] = backend.ManifoldUpdate{Rows: slices.Clone(u.Rows), Neighbours: slices.Clone(u.Neighbours), Kernel: slices.Clone(u.Kernel), Rate: u.Rate}
	}
	results, err := update(t, len(updates), func(b backend.Trainer) ([]backend.ManifoldLosses, error) {
		results := make([]backend.ManifoldLosses, len(updates)) // its own: an update may be made again
		return results, backend.ManifoldSteps(b, updates, results)
	})
	copy(losses, results)
	return err
}

func (t *trainer) ManifoldLoss(rows, neighbours []int32, kernel []float32) (backend.ManifoldLosses, error) {
	return ask(t.movable, func(b backend.Trainer) (backend.ManifoldLosses, error) {
		return b.ManifoldLoss(rows, neighbours, kernel)
	})
}

func (t *trainer) PrepareRollout() error {
	t.chain = nil
	_, err := update(t, 1, func(b backend.Trainer) (struct{}, error) { return struct{}{}, b.PrepareRollout() })
	return err
}

func (t *trainer) SetChain(c backend.Chain) error {
	c = backend.Chain{Z: c.Z.Clone(), Weight: slices.Clone(c.Weight)}
	_, err := update(t, 1, func(b backend.Trainer) (struct{}, error) { return struct{}{}, b.SetChain(c) })
	if err == nil && !t.onSecond {
		t.chain = &c
	}
	return err
}

func (t *trainer) RolloutStep(rows []int32, lr float32) (backend.RolloutLosses, error) {
	rows = slices.Clone(rows)
	return update(t, 1, func(b backend.Trainer) (backend.RolloutLosses, error) { return b.RolloutStep(rows, lr) })
}

func (t *trainer) RolloutLoss(rows []int32) (backend.RolloutLosses, error) {
	return ask(t.movable, func(b backend.Trainer) (backend.RolloutLosses, error) { return b.RolloutLoss(rows) })
}

func (t *trainer) Networks() (backend.Networks, error) {
	return ask(t.movable, backend.Trainer.Networks)
}

// State also keeps a copy, from which a later fault goes on.
func (t *trainer) State() (backend.TrainerState, error) {
	state, err := ask(t.movable, backend.Trainer.State)
	if err == nil {
		t.keep(state)
	}
	return state, err
}

func (t *trainer) Restore(state backend.TrainerState) error {
	err := t.call(func(b backend.Trainer) error { return b.Restore(state) })
	if err == nil {
		t.chain = nil
		t.keep(state)
	}
	return err
}

// keep copies a state that the trainer is in.
func (t *trainer) keep(state backend.TrainerState) {
	t.saved, t.unsaved, t.unsavedCount = nil, nil, 0
	if t.onSecond {
		return
	}
	state.Arrays = maps.Clone(state.Arrays)
	for name, values := range state.Arrays {
		state.Arrays[name] = slices.Clone(values)
	}
	t.saved = &state
}
