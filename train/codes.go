package train

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/neighbours"
	"github.com/gpc-engine/gpc/tensor"
)

// chooseCodes picks at most count rows of points as M*, ascending: half by
// farthest-first traversal, so that no part of the manifold is far from a code,
// and half at random, so that where samples are dense codes are too (the local
// affine refinement is most accurate there). All rows when there are no more
// than count, or count is 0.
func chooseCodes(points tensor.Matrix, count int, seed uint64) ([]int32, error) {
	all := ascending(points.Rows)
	if count == 0 || points.Rows <= count {
		return all, nil
	}
	ix, err := neighbours.New(points, neighbours.Threads(runtime.GOMAXPROCS(0)), 0)
	if err != nil {
		return nil, fmt.Errorf("train: codes of M*: %w", err)
	}
	chosen := ix.Farthest((count + 1) / 2)
	taken := make([]bool, points.Rows)
	for _, c := range chosen {
		taken[c] = true
	}
	rest := all[:0]
	for i := range points.Rows {
		if !taken[i] {
			rest = append(rest, int32(i))
		}
	}
	rng := rand.New(rand.NewPCG(seed, streamCodes))
	for need := count - len(chosen); need > 0; need-- {
		k := rng.IntN(len(rest))
		chosen = append(chosen, rest[k])
		rest[k] = rest[len(rest)-1]
		rest = rest[:len(rest)-1]
	}
	slices.Sort(chosen)
	return chosen, nil
}

func squaredDistance(a, b []float32) float32 {
	sum := float32(0)
	for i, v := range a {
		d := v - b[i]
		sum += d * d
	}
	return sum
}
