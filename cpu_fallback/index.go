package cpufallback

import (
	"github.com/gpc-engine/gpc/cpu_fallback/internal/search"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// NewIndex builds the exact search over M* from codes [N, n_z] and decoded =
// D_s(codes) [N, n_s], both normalised, finite and copied. Localize refines over
// at most 32 neighbours.
func (b *Backend) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	ix, err := search.New(codes, decoded, b.pool, b.level)
	if err != nil {
		return nil, err
	}
	return ix, nil
}
