package cpufallback

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

func TestEveryCodeLocalizesToItself(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	codes, decoded := tensor.New(500, 16), tensor.New(500, 4)
	for _, m := range []tensor.Matrix{codes, decoded} {
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
	}
	for _, isa := range []string{"generic", ""} {
		b := require.Get(New(Options{Threads: 2, ISA: isa}))(t)
		ix := require.Get(b.NewIndex(codes, decoded))(t)
		z, nearest, residual := tensor.New(500, 16), make([]int32, 500), make([]float32, 500)
		require.OK(t, ix.Localize(decoded, codes, make([]float32, 500), 1, backend.LocalizeOutput{Z: z, Nearest: nearest, Residual: residual}))
		if !slices.Equal(z.Data, codes.Data) {
			t.Errorf("%q: some code is not returned as itself", isa)
		}
		for i := range 500 {
			if nearest[i] != int32(i) || residual[i] != 0 {
				t.Errorf("%q: code %d localizes to %d with residual %v", isa, i, nearest[i], residual[i])
			}
		}
		require.OK(t, b.Close())
	}
}
