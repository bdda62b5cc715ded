package engine

import (
	"maps"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
)

// savedEvery is how many updates a trainer makes between two copies of its state on
// the host: a fault costs at most so many again on the other backend, and a copy is
// a few megabytes against so many updates of a whole batch each.
const savedEvery = 64

// trainer is a trainer that survives the loss of its backend.
type trainer struct {
	*object[backend.Trainer]
	saved *backend.TrainerState // nil: the state it began with
	since []update              // made after that
}

// update is one call that changes a trainer's state.
type update struct {
	rollout, prepare bool
	rows, neighbours []int32
	kernel           []float32
	lr               float32
}

func (c *continuing) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	initial := cfg.Initial.All()
	for i, mlp := range initial {
		if mlp != nil {
			initial[i] = mlp.Clone()
		}
	}
	cfg.Initial = backend.Networks{EncoderX: initial[0], EncoderO: initial[1], DecoderU: initial[2], DecoderS: initial[3]}
	t := &trainer{}
	var err error
	t.object, err = newObject(c, "training", func(b backend.Backend) (backend.Trainer, error) {
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
	}
	for _, u := range t.since {
		if err := u.apply(inner); err != nil {
			return err
		}
	}
	return nil
}

func (u update) apply(inner backend.Trainer) (err error) {
	switch {
	case u.prepare:
		err = inner.PrepareRollout()
	case u.rollout:
		_, err = inner.RolloutStep(u.rows, u.lr)
	default:
		_, err = inner.ManifoldStep(u.rows, u.neighbours, u.kernel, u.lr)
	}
	return err
}

// made notes an update that was made. Nothing is noted on the second backend, which
// is the last.
func (t *trainer) made(u update) error {
	if t.moved {
		t.saved, t.since = nil, nil
		return nil
	}
	u.rows, u.neighbours, u.kernel = slices.Clone(u.rows), slices.Clone(u.neighbours), slices.Clone(u.kernel)
	t.since = append(t.since, u)
	if len(t.since) < savedEvery {
		return nil
	}
	_, err := t.State() // which keeps it; a fault in it moves the trainer
	return err
}

func (t *trainer) ManifoldStep(rows, neighbours []int32, kernel []float32, lr float32) (losses backend.ManifoldLosses, err error) {
	err = t.do(func(b backend.Trainer) (err error) {
		losses, err = b.ManifoldStep(rows, neighbours, kernel, lr)
		return err
	})
	if err == nil {
		err = t.made(update{rows: rows, neighbours: neighbours, kernel: kernel, lr: lr})
	}
	return losses, err
}

func (t *trainer) ManifoldLoss(rows, neighbours []int32, kernel []float32) (losses backend.ManifoldLosses, err error) {
	err = t.do(func(b backend.Trainer) (err error) {
		losses, err = b.ManifoldLoss(rows, neighbours, kernel)
		return err
	})
	return losses, err
}

func (t *trainer) PrepareRollout() error {
	err := t.do(backend.Trainer.PrepareRollout)
	if err == nil {
		err = t.made(update{prepare: true})
	}
	return err
}

func (t *trainer) RolloutStep(rows []int32, lr float32) (losses backend.RolloutLosses, err error) {
	err = t.do(func(b backend.Trainer) (err error) {
		losses, err = b.RolloutStep(rows, lr)
		return err
	})
	if err == nil {
		err = t.made(update{rollout: true, rows: rows, lr: lr})
	}
	return losses, err
}

func (t *trainer) RolloutLoss(rows []int32) (losses backend.RolloutLosses, err error) {
	err = t.do(func(b backend.Trainer) (err error) {
		losses, err = b.RolloutLoss(rows)
		return err
	})
	return losses, err
}

func (t *trainer) Networks() (networks backend.Networks, err error) {
	err = t.do(func(b backend.Trainer) (err error) {
		networks, err = b.Networks()
		return err
	})
	return networks, err
}

// State also keeps a copy, from which a later fault goes on.
func (t *trainer) State() (state backend.TrainerState, err error) {
	err = t.do(func(b backend.Trainer) (err error) {
		state, err = b.State()
		return err
	})
	if err == nil {
		t.keep(state)
	}
	return state, err
}

func (t *trainer) Restore(state backend.TrainerState) error {
	err := t.do(func(b backend.Trainer) error { return b.Restore(state) })
	if err == nil {
		t.keep(state)
	}
	return err
}

// keep copies a state that the trainer is in.
func (t *trainer) keep(state backend.TrainerState) {
	t.saved, t.since = nil, nil
	if t.moved {
		return
	}
	state.Arrays = maps.Clone(state.Arrays)
	for name, values := range state.Arrays {
		state.Arrays[name] = slices.Clone(values)
	}
	t.saved = &state
}
