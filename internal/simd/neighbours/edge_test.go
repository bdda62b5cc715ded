package neighbours

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

func TestQueriesThatAreNotFiniteOrHugeHaveADefinedAnswer(t *testing.T) {
	eachKernel(t, func(t *testing.T, lanes int) {
		rng := rand.New(rand.NewPCG(4, 4))
		points := cloud(rng, "uniform", 300, 5)
		ix := require.Get(New(points, nil, lanes))(t)
		inf := float32(math.Inf(1))
		values := []float32{float32(math.NaN()), inf, -inf, 1e38, -3e38, 2e17, 9e16, -9e18}
		queries := tensor.New(2*len(values), 5)
		for i, v := range values {
			queries.Row(2 * i)[3] = v
			for j := range 5 {
				queries.Row(2*i + 1)[j] = v
			}
		}
		checkNearest(t, ix, points, queries, 6)
	})
}

func TestResultsDoNotDependOnThreadsOrBatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	points := manifold(rng, 3000, 16, 6)
	queries := queriesFor(rng, points, 333)
	const k = 7
	var want []int32
	for _, threads := range []int{1, 2, 5} {
		ix := require.Get(New(points, Threads(threads), 0))(t)
		ids, dist2 := make([]int32, 333*k), make([]float32, 333*k)
		require.OK(t, ix.Nearest(queries, k, ids, dist2))
		if want == nil {
			want = slices.Clone(ids)
		} else if !slices.Equal(ids, want) {
			t.Fatalf("%d threads give other neighbours", threads)
		}
		single, singleD := make([]int32, k), make([]float32, k)
		for b := range queries.Rows {
			require.OK(t, ix.Nearest(queries.Slice(b, b+1), k, single, singleD))
			if !slices.Equal(single, ids[b*k:(b+1)*k]) || !sameBits(singleD, dist2[b*k:(b+1)*k]) {
				t.Fatalf("query %d alone gives %v, in its batch %v", b, single, ids[b*k:(b+1)*k])
			}
		}
	}
}

func TestSearchStopsAfterMaxRejected(t *testing.T) {
	points := cloud(rand.New(rand.NewPCG(6, 6)), "uniform", 2000, 4)
	ix := require.Get(New(points, nil, 0))(t)
	calls := 0
	q := Query{Point: points.Row(0), Accept: func(int32) bool { calls++; return false }, MaxRejected: 10, IDs: make([]int32, 2), Dist2: make([]float32, 2)}
	ix.NewSearcher().Search([]Query{q})
	if calls != 11 {
		t.Fatalf("asked about %d points, want 11", calls)
	}
	tile := []Query{q, {Point: points.Row(1), IDs: make([]int32, 1), Dist2: make([]float32, 1)}}
	ix.NewSearcher().Search(tile)
	if tile[0].Complete || !tile[1].Complete || tile[1].IDs[0] != 1 {
		t.Fatalf("stopped query complete: %v; its neighbour complete: %v, found %d", tile[0].Complete, tile[1].Complete, tile[1].IDs[0])
	}
}

func TestNearestAllocatesNothingOnceWarm(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	points := manifold(rng, 2000, 12, 5)
	ix := require.Get(New(points, nil, 0))(t)
	queries := queriesFor(rng, points, 100)
	ids, dist2 := make([]int32, 400), make([]float32, 400)
	for _, batch := range []int{1, 100} {
		q := queries.Slice(0, batch)
		run := func() {
			require.OK(t, ix.Nearest(q, 4, ids[:4*batch], dist2[:4*batch]))
		}
		if n := testing.AllocsPerRun(20, run); n != 0 {
			t.Errorf("batch %d: %v allocations a call", batch, n)
		}
	}
}

func TestNewAndNearestNameWhatIsWrong(t *testing.T) {
	good := tensor.New(3, 2)
	nan := tensor.New(3, 2)
	nan.Row(2)[1] = float32(math.NaN())
	huge := tensor.New(3, 2)
	huge.Row(1)[0] = 1e16
	for _, c := range []struct {
		points tensor.Matrix
		width  int
		want   string
	}{
		{tensor.New(0, 2), 0, "0×2"},
		{tensor.New(2, 0), 0, "2×0"},
		{nan, 0, "point 2 has coordinate 1 = NaN"},
		{huge, 0, "point 1 has coordinate 0"},
		{good, 5, "5 lanes"},
		{tensor.Matrix{Rows: 3, Cols: 2, Stride: 2, Data: make([]float32, 5)}, 0, "holds 5 elements"},
	} {
		if _, err := New(c.points, nil, c.width); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New: %v, want %q", err, c.want)
		}
	}
	ix := require.Get(New(good, nil, 0))(t)
	ids, dist2 := make([]int32, 4), make([]float32, 4)
	if err := ix.Nearest(tensor.New(2, 3), 2, ids, dist2); err == nil || !strings.Contains(err.Error(), "2×3") {
		t.Errorf("Nearest with wide queries: %v", err)
	}
	if err := ix.Nearest(tensor.New(2, 2), 3, ids, dist2); err == nil || !strings.Contains(err.Error(), "k = 3") {
		t.Errorf("Nearest with short outputs: %v", err)
	}
	if err := ix.Nearest(tensor.New(2, 2), 0, nil, nil); err == nil {
		t.Error("Nearest accepts k = 0")
	}
}

// Many leaves: the tree, the order of visits and the tiles at the size of a
// bundled map, against the scan, and the scan against the definition.
func TestAMapOfTwentyThousandCodesGivesTheScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	const k = 8
	for _, points := range []tensor.Matrix{manifold(rng, 20_000, 32, 10), cloud(rng, "uniform", 20_000, 12), cloud(rng, "offset", 20_000, 16)} {
		queries := queriesFor(rng, points, 150)
		for _, set := range availableKernels() {
			ix := require.Get(New(points, nil, set.lanes))(t)
			ids, dist2 := make([]int32, queries.Rows*k), make([]float32, queries.Rows*k)
			require.OK(t, ix.Nearest(queries, k, ids, dist2))
			s := ix.NewSearcher()
			scan := Query{IDs: make([]int32, k), Dist2: make([]float32, k)}
			for b := range queries.Rows {
				scan.Point = queries.Row(b)
				s.brute(&scan)
				if scan.Count != k || !slices.Equal(scan.IDs, ids[b*k:(b+1)*k]) || !sameBits(scan.Dist2, dist2[b*k:(b+1)*k]) {
					t.Fatalf("query %d: got %v, the scan %v", b, ids[b*k:(b+1)*k], scan.IDs)
				}
				if b%50 == 0 {
					if want, _ := expected(points, scan.Point, k, nil); !slices.Equal(scan.IDs, want) {
						t.Fatalf("query %d: the scan gives %v, want %v", b, scan.IDs, want)
					}
				}
			}
		}
	}
}

// Lanes = 0 obeys the variable that chooses the instruction set everywhere.
func TestTheEnvironmentChoosesTheKernels(t *testing.T) {
	points := tensor.New(3, 2)
	for _, level := range isa.Available() {
		t.Setenv(isa.Environment, level.String())
		ix := require.Get(New(points, nil, 0))(t)
		if ix.kernel.lanes != level.Lanes() {
			t.Errorf("%s=%s: kernels of %d lanes, want %d", isa.Environment, level, ix.kernel.lanes, level.Lanes())
		}
	}
	t.Setenv(isa.Environment, "sse9")
	if _, err := New(points, nil, 0); err == nil || !strings.Contains(err.Error(), "sse9") {
		t.Errorf("%s=sse9: error %v, want one that names it", isa.Environment, err)
	}
}
