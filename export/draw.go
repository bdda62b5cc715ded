package export

import (
	"math"
	"math/rand/v2"
)

// probeCount observations tell a copy from what only looks like one.
const probeCount = 256

// probeObservations are observations whose entries are of magnitudes 10⁻³ to 10⁶ and either sign;
// always the same ones.
func probeObservations(states, contexts int) [][2][]float32 {
	rng := rand.New(rand.NewPCG(1, 0))
	entries := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(math.Pow(10, -3+9*rng.Float64()))
			if rng.IntN(2) == 1 {
				v[i] = -v[i]
			}
		}
		return v
	}
	all := make([][2][]float32, probeCount)
	for i := range all {
		all[i] = [2][]float32{entries(states), entries(contexts)}
	}
	return all
}
