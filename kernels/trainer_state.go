package kernels

import (
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// download copies the arenas to the host, after all updates made so far.
func (t *Trainer) download() (trainArrays, error) {
	a := t.layout.arrays()
	err := t.backend.execute(func(th *driver.Thread) error {
		return errors.Join(driver.Download(th, a.parameters, t.parameters), driver.Download(th, a.first, t.first),
			driver.Download(th, a.second, t.second), driver.Download(th, a.power, t.power))
	})
	return a, err
}

// Networks implements backend.Trainer.
func (t *Trainer) Networks() (backend.Networks, error) {
	parameters := make([]float32, t.layout.size)
	err := t.backend.execute(func(th *driver.Thread) error { return driver.Download(th, parameters, t.parameters) })
	if err != nil {
		return backend.Networks{}, fmt.Errorf("Networks: %w", err)
	}
	return t.layout.networks(parameters), nil
}

// State implements backend.Trainer.
func (t *Trainer) State() (backend.TrainerState, error) {
	a, err := t.download()
	if err != nil {
		return backend.TrainerState{}, fmt.Errorf("State: %w", err)
	}
	s := backend.TrainerState{
		Arrays: map[string][]float32{}, ManifoldSteps: t.manifoldSteps, RolloutSteps: t.rolloutSteps, RolloutPrepared: t.rolloutPrepared,
	}
	for _, part := range t.layout.stored() {
		s.Arrays[part.name] = make([]float32, part.size)
		part.move(a, s.Arrays[part.name], false)
	}
	return s, nil
}

// Restore implements backend.Trainer. A state that does not fit changes nothing.
// Rollout latents are computed again from the frozen networks, to the same bits.
func (t *Trainer) Restore(s backend.TrainerState) error {
	list := t.layout.stored()
	sizes := map[string]int{}
	for _, part := range list {
		sizes[part.name] = part.size
	}
	if err := t.cfg.CheckState("Restore", s, sizes); err != nil {
		return err
	}
	a := t.layout.arrays()
	for _, part := range list {
		part.move(a, s.Arrays[part.name], true)
	}
	err := t.backend.execute(func(th *driver.Thread) error {
		return errors.Join(driver.Upload(th, t.parameters, a.parameters), driver.Upload(th, t.first, a.first),
			driver.Upload(th, t.second, a.second), driver.Upload(th, t.power, a.power))
	})
	if err != nil {
		return fmt.Errorf("Restore: %w", err)
	}
	t.manifoldSteps, t.rolloutSteps, t.rolloutPrepared = s.ManifoldSteps, s.RolloutSteps, false
	if !s.RolloutPrepared {
		return nil
	}
	if err := t.prepareLatents(); err != nil {
		return fmt.Errorf("Restore: %w", err)
	}
	t.rolloutPrepared = true
	return nil
}
