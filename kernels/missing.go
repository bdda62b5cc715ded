package kernels

import (
	"errors"

	"github.com/gpc-engine/gpc/internal/backend"
)

func (b *Backend) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	return nil, errors.ErrUnsupported
}
