package kernels

import (
	"errors"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

func (b *Backend) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	return nil, errors.ErrUnsupported
}
