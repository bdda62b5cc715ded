package neighbours

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// farthestPlainly measures every point against every centre.
func farthestPlainly(points tensor.Matrix, count int) []int32 {
	nearest := slices.Repeat([]float32{float32(math.Inf(1))}, points.Rows)
	var chosen []int32
	for next := 0; len(chosen) < count; {
		chosen = append(chosen, int32(next))
		centre := points.Row(next)
		for i := range nearest {
			nearest[i] = min(nearest[i], SquaredDistance(centre, points.Row(i)))
		}
		next = 0
		for i, d := range nearest {
			if d > nearest[next] {
				next = i
			}
		}
		if nearest[next] == 0 {
			break
		}
	}
	return chosen
}

// The traversal that leaves out leaves chooses what the one that measures everything
// does, with equal distances and equal points too, on every instruction set and number
// of threads.
func TestFarthestIsThatOfAllDistances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, dim := rapid.IntRange(1, 600).Draw(t, "n"), rapid.IntRange(1, 20).Draw(t, "dim")
		few := rapid.Bool().Draw(t, "few values")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		points := tensor.New(n, dim)
		for i := range points.Data {
			points.Data[i] = rng.Float32()
			if few {
				points.Data[i] = float32(rng.IntN(3))
			}
		}
		count := rapid.IntRange(1, n).Draw(t, "count")
		want := farthestPlainly(points, count)
		for _, k := range availableKernels() {
			ix, err := New(points, Threads(rapid.IntRange(1, 3).Draw(t, "threads")), k.lanes)
			if err != nil {
				t.Fatal(err)
			}
			if got := ix.Farthest(count); !slices.Equal(got, want) {
				t.Fatalf("%d lanes: %v, want %v", k.lanes, got, want)
			}
		}
	})
}

// Many leaves at a time are spread over goroutines.
func TestFarthestOfManyLeaves(t *testing.T) {
	points := manifold(rand.New(rand.NewPCG(3, 4)), 4*spreadLeaves*LeafSize, 8, 3)
	want := farthestPlainly(points, 40)
	if got := require.Get(New(points, Threads(4), 0))(t).Farthest(40); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func BenchmarkFarthest(b *testing.B) {
	points := manifold(rand.New(rand.NewPCG(11, 12)), 250_000, 32, 10)
	for _, threads := range []int{1, 2} {
		ix := require.Get(New(points, Threads(threads), 0))(b)
		b.Run(fmt.Sprintf("5000of250000x32/threads=%d", threads), func(b *testing.B) {
			for range b.N {
				ix.Farthest(5000)
			}
		})
	}
}
