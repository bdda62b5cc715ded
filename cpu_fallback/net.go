package cpufallback

import (
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
)

// NewNet is not part of this build.
func (b *Backend) NewNet(mlp *model.MLP) (backend.Net, error) { return nil, errPending }
