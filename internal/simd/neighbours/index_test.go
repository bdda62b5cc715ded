package neighbours

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// expected is the specification: every distance by the package comment's
// formula, ordered by (distance, id).
func expected(points tensor.Matrix, query []float32, k int, accept func(int32) bool) (ids []int32, dist2 []float32) {
	for _, v := range query {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, nil
		}
	}
	d := make([]float32, points.Rows)
	for i := range d {
		d[i] = SquaredDistance(query, points.Row(i))
		if accept == nil || accept(int32(i)) {
			ids = append(ids, int32(i))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		if closer(d[a], a, d[b], b) {
			return -1
		}
		return 1
	})
	ids = ids[:min(k, len(ids))]
	for _, i := range ids {
		dist2 = append(dist2, d[i])
	}
	return ids, dist2
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y })
}

// cloud draws points of one of several kinds that stress different bounds.
func cloud(rng *rand.Rand, kind string, n, dim int) tensor.Matrix {
	m := tensor.New(n, dim)
	switch kind {
	case "uniform":
		for i := range m.Data {
			m.Data[i] = rng.Float32()*2 - 1
		}
	case "clustered":
		centres := tensor.New(7, dim)
		for i := range centres.Data {
			centres.Data[i] = float32(rng.NormFloat64() * 3)
		}
		for i := range n {
			c := centres.Row(rng.IntN(7))
			for j := range dim {
				m.Row(i)[j] = c[j] + float32(rng.NormFloat64()*0.05)
			}
		}
	case "duplicates":
		for i := range n {
			v := rng.IntN(5)
			for j := range dim {
				m.Row(i)[j] = float32((v * (j + 3)) % 4)
			}
		}
	case "identical":
		for i := range m.Data {
			m.Data[i] = 0.7
		}
	case "lattice": // many exact ties
		for i := range m.Data {
			m.Data[i] = float32(rng.IntN(3))
		}
	case "offset": // spread far below the magnitude
		for i := range m.Data {
			m.Data[i] = 1000 + float32(rng.NormFloat64()*1e-3)
		}
	case "tiny": // squares underflow
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64() * 1e-22)
		}
	case "scales":
		for i := range n {
			s := math.Pow(10, rng.Float64()*30-15)
			for j := range dim {
				m.Row(i)[j] = float32(max(-1, min(1, rng.NormFloat64())) * s)
			}
		}
	case "line":
		for i := range n {
			t := rng.Float64()
			for j := range dim {
				m.Row(i)[j] = float32(t * float64(j%3))
			}
		}
	case "manifold":
		return manifold(rng, n, dim, min(dim, 5))
	default:
		panic(kind)
	}
	return m
}

var kinds = []string{"uniform", "clustered", "duplicates", "identical", "lattice", "offset", "tiny", "scales", "line", "manifold"}

// manifold maps uniform points of a cube through a random two-layer network:
// a smooth image of low dimension, as M* is.
func manifold(rng *rand.Rand, n, dim, intrinsic int) tensor.Matrix {
	const hidden = 64
	w1 := make([]float64, hidden*intrinsic)
	w2 := make([]float64, dim*hidden)
	bias := make([]float64, hidden)
	for i := range w1 {
		w1[i] = rng.NormFloat64() / math.Sqrt(float64(intrinsic)) * 1.5
	}
	for i := range w2 {
		w2[i] = rng.NormFloat64() / math.Sqrt(hidden) * 1.5
	}
	for i := range bias {
		bias[i] = rng.NormFloat64() * 0.5
	}
	m := tensor.New(n, dim)
	t := make([]float64, intrinsic)
	h := make([]float64, hidden)
	for i := range n {
		for j := range t {
			t[j] = rng.Float64()*2 - 1
		}
		for a := range h {
			s := bias[a]
			for j, v := range t {
				s += w1[a*intrinsic+j] * v
			}
			h[a] = math.Tanh(s)
		}
		for j := range dim {
			s := 0.0
			for a, v := range h {
				s += w2[j*hidden+a] * v
			}
			m.Row(i)[j] = float32(s)
		}
	}
	return m
}

// queriesFor mixes points, perturbed points and far ones.
func queriesFor(rng *rand.Rand, points tensor.Matrix, n int) tensor.Matrix {
	q := tensor.New(n, points.Cols)
	for i := range n {
		src := points.Row(rng.IntN(points.Rows))
		scale := []float64{0, 1e-3, 0.1, 1, 100}[rng.IntN(5)]
		for j, v := range src {
			q.Row(i)[j] = v + float32(rng.NormFloat64()*scale)
		}
	}
	return q
}

func eachKernel(t *testing.T, f func(t *testing.T, lanes int)) {
	for _, k := range availableKernels() {
		t.Run(fmt.Sprintf("%d lanes", k.lanes), func(t *testing.T) { f(t, k.lanes) })
	}
}

func checkNearest(t interface {
	Helper()
	Fatalf(string, ...any)
}, ix *Index, points, queries tensor.Matrix, k int) {
	t.Helper()
	ids := make([]int32, queries.Rows*k)
	dist2 := make([]float32, queries.Rows*k)
	if err := ix.Nearest(queries, k, ids, dist2); err != nil {
		t.Fatalf("%v", err)
	}
	for b := range queries.Rows {
		wantID, wantD := expected(points, queries.Row(b), k, nil)
		missing := float32(math.Inf(1))
		if len(wantID) == 0 {
			missing = float32(math.NaN())
		}
		for len(wantID) < k {
			wantID, wantD = append(wantID, -1), append(wantD, missing)
		}
		if !slices.Equal(ids[b*k:(b+1)*k], wantID) || !sameBits(dist2[b*k:(b+1)*k], wantD) {
			t.Fatalf("%d×%d, query %d, k = %d: got %v %v, brute force %v %v", points.Rows, points.Cols, b, k, ids[b*k:(b+1)*k], dist2[b*k:(b+1)*k], wantID, wantD)
		}
	}
}

func TestNearestIsBruteForceBitForBit(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			for _, dim := range []int{1, 4, 7, 16, 17, 32, 64} {
				rng := rand.New(rand.NewPCG(1, uint64(dim)))
				for _, n := range []int{1, 2, 31, 128, 129, 1000} {
					points := cloud(rng, kind, n, dim)
					queries := queriesFor(rng, points, 8)
					for _, k := range availableKernels() {
						ix := require.Get(New(points, nil, k.lanes))(t)
						for _, k := range []int{1, 130} {
							checkNearest(t, ix, points, queries, k)
						}
					}
				}
			}
		})
	}
}

// brute answers one query by measuring every point: what Search must return, and
// the time it must beat.
func (s *Searcher) brute(query *Query) {
	p := &s.probes[0]
	p.query, p.report = query, nil
	p.rejected, p.stopped = 0, false
	copy(p.point, query.Point)
	query.Count = 0
	if len(query.IDs) > 0 && !math.IsInf(float64(magnitude(query.Point)), 1) {
		s.scan(p)
	}
	query.Complete = !p.stopped
	p.query = nil
}
