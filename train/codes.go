package train

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/neighbours"
	"github.com/gpc-engine/gpc/tensor"
)

// chooseCodes picks at most count rows of points as M*, ascending. Half come from farthest-first traversal, so that
// no part of the manifold is far from a code. Half are random, so that dense samples get dense codes, where the local
// affine refinement is most accurate. It picks all rows when there are no more than count, or count is 0.
func chooseCodes(points tensor.Matrix, count int, seed uint64) ([]int32, error) {
	rows := ascending(points.Rows)
	if count == 0 || points.Rows <= count {
		return rows, nil
	}
	ix, err := neighbours.New(points, neighbours.Threads(runtime.GOMAXPROCS(0)), 0)
	if err != nil {
		return nil, fmt.Errorf("train: codes of M*: %w", err)
	}
	codes := ix.Farthest((count + 1) / 2)
	isCode := make([]bool, points.Rows)
	for _, c := range codes {
		isCode[c] = true
	}
	rest := rows[:0]
	for i := range points.Rows {
		if !isCode[i] {
			rest = append(rest, int32(i))
		}
	}
	rng := rand.New(rand.NewPCG(seed, streamCodes))
	for missing := count - len(codes); missing > 0; missing-- {
		k := rng.IntN(len(rest))
		codes = append(codes, rest[k])
		rest[k] = rest[len(rest)-1]
		rest = rest[:len(rest)-1]
	}
	slices.Sort(codes)
	return codes, nil
}

func squaredDistance32(a, b []float32) float32 {
	sum := float32(0)
	for i, v := range a {
		d := v - b[i]
		sum += d * d
	}
	return sum
}
