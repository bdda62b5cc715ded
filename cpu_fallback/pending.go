package cpufallback

import (
	"errors"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

var errPending = errors.New("cpufallback: operation is not part of this build")

// EigTopK is not part of this build.
func (b *Backend) EigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	return errPending
}

// NewStepper is not part of this build.
func (b *Backend) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	return nil, errPending
}

// NewTrainer is not part of this build.
func (b *Backend) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	return nil, errPending
}
