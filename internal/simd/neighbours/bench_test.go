package neighbours

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

type benchCase struct {
	kind      string
	n, dim, k int
}

var benchCases = []benchCase{
	{"manifold8", 20_000, 16, 1},
	{"manifold10", 20_000, 32, 1},
	{"manifold10", 20_000, 32, 8},
	{"manifold8", 250_000, 32, 1},
	{"manifold10", 250_000, 32, 1},
	{"manifold10", 250_000, 32, 8},
	{"uniform", 20_000, 32, 1},
	{"uniform", 250_000, 32, 1},
}

func (c benchCase) data() (points, queries tensor.Matrix) {
	rng := rand.New(rand.NewPCG(11, 12))
	const queriesN = 1024
	var all tensor.Matrix
	switch c.kind {
	case "manifold8":
		all = manifold(rng, c.n+queriesN, c.dim, 8)
	case "manifold10":
		all = manifold(rng, c.n+queriesN, c.dim, 10)
	default:
		all = cloud(rng, c.kind, c.n+queriesN, c.dim)
	}
	queries = all.Slice(c.n, c.n+queriesN).Clone()
	for i := range queries.Data {
		queries.Data[i] += float32(rng.NormFloat64() * 0.02)
	}
	return all.Slice(0, c.n), queries
}

// BenchmarkNearest: one query at a time, a batch, and the brute-force scan, all
// on one core; ns/query is the figure.
func BenchmarkNearest(b *testing.B) {
	for _, c := range benchCases {
		points, queries := c.data()
		for _, k := range availableKernels() {
			ix := require.Get(New(points, nil, k.lanes))(b)
			name := fmt.Sprintf("%s/%dx%d/k=%d/lanes=%d", c.kind, c.n, c.dim, c.k, k.lanes)
			ids, dist2 := make([]int32, queries.Rows*c.k), make([]float32, queries.Rows*c.k)
			s := ix.NewSearcher()
			q := make([]Query, 1)
			b.Run(name+"/single", func(b *testing.B) {
				for i := range b.N {
					q[0] = Query{Point: queries.Row(i % queries.Rows), IDs: ids[:c.k], Dist2: dist2[:c.k]}
					s.Search(q)
				}
			})
			b.Run(name+"/batch", func(b *testing.B) {
				for i := 0; i < b.N; i += queries.Rows {
					n := min(queries.Rows, b.N-i)
					require.OK(b, ix.Nearest(queries.Slice(0, n), c.k, ids[:n*c.k], dist2[:n*c.k]))
				}
			})
			b.Run(name+"/brute", func(b *testing.B) {
				for i := range b.N {
					q[0] = Query{Point: queries.Row(i % queries.Rows), IDs: ids[:c.k], Dist2: dist2[:c.k]}
					s.brute(&q[0])
				}
			})
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, c := range []benchCase{{"manifold10", 20_000, 32, 1}, {"manifold10", 250_000, 32, 1}} {
		points, _ := c.data()
		b.Run(fmt.Sprintf("%dx%d", c.n, c.dim), func(b *testing.B) {
			for range b.N {
				if _, err := New(points, nil, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
