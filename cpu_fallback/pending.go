package cpufallback

import (
	"errors"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

var errPending = errors.New("cpufallback: operation is not part of this build")

// NewIndex is not part of this build.
func (b *Backend) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	return nil, errPending
}
