package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
)

// LatinHypercube returns n points of the box spanned by the axes' Lo and Hi:
// cut into n equal strata, each axis has exactly one point in each (McKay,
// Beckman and Conover 1979). Points lie at random inside their strata. Every
// axis draws from a stream of its own, so adding an axis at the end leaves the
// others' coordinates as they were. An axis with Lo = Hi ≠ 0 is constant.
func LatinHypercube(axes []domain.Variable, n int, seed uint64) ([][]float64, error) {
	if n < 1 {
		return nil, fmt.Errorf("dataset: %d scenarios, want at least 1", n)
	}
	for i, a := range axes {
		if !a.Bounded() || !(a.Lo <= a.Hi) || math.IsInf(a.Hi-a.Lo, 0) {
			return nil, fmt.Errorf("dataset: scenario axis %d (%s) has the range [%v, %v], want a finite range with Lo ≤ Hi", i, a.Name, a.Lo, a.Hi)
		}
	}
	flat := make([]float64, n*len(axes))
	points := make([][]float64, n)
	for i := range points {
		points[i] = flat[i*len(axes) : (i+1)*len(axes) : (i+1)*len(axes)]
	}
	for j, a := range axes {
		rng := stream(seed, streamAxis, uint64(j))
		for i, stratum := range rng.Perm(n) {
			points[i][j] = a.Lo + (float64(stratum)+rng.Float64())/float64(n)*(a.Hi-a.Lo)
		}
	}
	return points, nil
}

// Purposes of random streams derived from one seed.
const (
	streamAxis = iota + 1
	streamWeights
	streamSolve
	streamEpisode
)

// stream is the generator of one purpose and index under a seed.
func stream(seed uint64, purpose, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, derive(seed, purpose, index)))
}

// derive mixes a seed with a purpose and an index into a new seed (the
// finalizer of splitmix64 over each in turn).
func derive(seed, purpose, index uint64) uint64 {
	x := seed
	for _, v := range [2]uint64{purpose, index} {
		x += 0x9e3779b97f4a7c15 * (v + 1)
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
