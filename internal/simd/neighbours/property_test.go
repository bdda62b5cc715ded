package neighbours

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/tensor"
)

func drawCloud(t *rapid.T) (*rand.Rand, tensor.Matrix) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	n := rapid.IntRange(1, 700).Draw(t, "points")
	dim := rapid.IntRange(1, 70).Draw(t, "dim")
	return rng, cloud(rng, kind, n, dim)
}

func drawLanes(t *rapid.T) int {
	have := availableKernels()
	return have[rapid.IntRange(0, len(have)-1).Draw(t, "kernel")].lanes
}

func TestAnyCloudAnyQueryIsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng, points := drawCloud(t)
		ix, err := New(points, Threads(rapid.IntRange(1, 3).Draw(t, "threads")), drawLanes(t))
		if err != nil {
			t.Fatal(err)
		}
		queries := queriesFor(rng, points, rapid.IntRange(1, 40).Draw(t, "queries"))
		checkNearest(t, ix, points, queries, rapid.IntRange(1, 40).Draw(t, "k"))
	})
}

func TestRestrictedSearchIsBruteForceOverTheAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng, points := drawCloud(t)
		ix, err := New(points, nil, drawLanes(t))
		if err != nil {
			t.Fatal(err)
		}
		modulus := int32(rapid.SampledFrom([]int{1, 2, 10, 300}).Draw(t, "modulus"))
		accept := func(id int32) bool { return id%modulus == modulus-1 }
		k := rapid.IntRange(1, 12).Draw(t, "k")
		queries := queriesFor(rng, points, 20)
		tile := make([]Query, queries.Rows)
		for i := range tile {
			tile[i] = Query{Point: queries.Row(i), Accept: accept, IDs: make([]int32, k), Dist2: make([]float32, k)}
		}
		ix.NewSearcher().Search(tile)
		for i, q := range tile {
			ids, dist2 := expected(points, queries.Row(i), k, accept)
			if !q.Complete || !slices.Equal(q.IDs[:q.Count], ids) || !sameBits(q.Dist2[:q.Count], dist2) {
				t.Fatalf("query %d: got %v %v, brute force %v %v", i, q.IDs[:q.Count], q.Dist2[:q.Count], ids, dist2)
			}
		}
	})
}

func TestWithinVisitsExactlyThePointsOfTheBall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng, points := drawCloud(t)
		ix, err := New(points, nil, drawLanes(t))
		if err != nil {
			t.Fatal(err)
		}
		s := ix.NewSearcher()
		queries := queriesFor(rng, points, 8)
		for i := range queries.Rows {
			q := queries.Row(i)
			// A radius that is exactly some point's distance, or a special one.
			radius2 := SquaredDistance(q, points.Row(rng.IntN(points.Rows)))
			switch rng.IntN(6) {
			case 0:
				radius2 = float32(math.Inf(1))
			case 1:
				radius2 = 0
			case 2:
				radius2 = float32(math.NaN())
			}
			var got, want []int32
			s.Within(q, radius2, func(id int32, d float32) {
				if d != SquaredDistance(q, points.Row(int(id))) {
					t.Fatalf("point %d is reported at %v", id, d)
				}
				got = append(got, id)
			})
			for id := range points.Rows {
				if SquaredDistance(q, points.Row(id)) <= radius2 {
					want = append(want, int32(id))
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("radius² %v: got %v, want %v", radius2, got, want)
			}
		}
	})
}

func TestKernelsAgreeWithTheirGoTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		k, err := chooseKernels(drawLanes(t))
		if err != nil {
			t.Fatal(err)
		}
		chunks := rapid.IntRange(1, 5).Draw(t, "chunks")
		width := chunks * lanes
		blocks := rapid.IntRange(1, 5).Draw(t, "blocks")
		floats := func(n int) []float32 {
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(rng.NormFloat64() * math.Exp(rng.NormFloat64()*4))
			}
			return v
		}
		q, rows := floats(width), floats(width*9)

		list := make([]int32, rng.IntN(12))
		for i := range list {
			list[i] = int32(rng.IntN(9))
		}
		got, want := make([]float32, 13), make([]float32, 13)
		list = append(list, 0)
		k.distances(&q[0], &rows[0], chunks, &list[0], len(list), &got[0])
		distancesGeneric(&q[0], &rows[0], chunks, &list[0], len(list), &want[0])
		if !sameBits(got, want) {
			t.Fatalf("distances: got %v, want %v", got, want)
		}

		dim := rapid.IntRange(1, width).Draw(t, "dim")
		along := floats(width * mostAxes)
		gotA, wantA := make([]float32, mostAxes), make([]float32, mostAxes)
		k.project(&q[0], &rows[0], &along[0], width, &gotA[0])
		projectGeneric(&q[0], &rows[0], &along[0], width, &wantA[0])
		for a, w := range wantA {
			size := 0.0
			for j := range width {
				size += math.Abs(float64(q[j]-rows[j]) * float64(along[j*mostAxes+a]))
			}
			if !(math.Abs(float64(gotA[a]-w)) <= size*float64(width+2)*0x1p-23) {
				t.Fatalf("project: axis %d is %v, want %v", a, gotA[a], w)
			}
		}
		low, high := floats(blocks*lanes*dim), floats(blocks*lanes*dim)
		for i := range low {
			low[i], high[i] = min(low[i], high[i]), max(low[i], high[i])
		}
		gotB, wantB := make([]float32, blocks*lanes), make([]float32, blocks*lanes)
		k.boxes(&q[0], dim, &low[0], &high[0], blocks, 0.99, &gotB[0])
		boxesGeneric(&q[0], dim, &low[0], &high[0], blocks, 0.99, &wantB[0])
		for i, w := range wantB {
			if !(math.Abs(float64(gotB[i]-w)) <= float64(w)*float64(dim+8)*0x1p-23) {
				t.Fatalf("boxes: lane %d is %v, want %v", i, gotB[i], w)
			}
		}

		lo, hi := floats(width), floats(width)
		inverse := float32(math.Inf(1))
		for j := range lo {
			lo[j], hi[j] = min(lo[j], hi[j]), max(lo[j], hi[j])
			inverse = min(inverse, levels/(hi[j]-lo[j]))
		}
		gotBytes, wantBytes := make([]uint8, width), make([]uint8, width)
		var gotE, wantE [2]float32
		var gotS, wantS [2]int32
		k.quantize(&q[0], &lo[0], &hi[0], chunks, inverse, &gotBytes[0], &gotE[0], &gotS[0])
		quantizeGeneric(&q[0], &lo[0], &hi[0], chunks, inverse, &wantBytes[0], &wantE[0], &wantS[0])
		if !slices.Equal(gotBytes, wantBytes) || gotS != wantS {
			t.Fatalf("quantize: got %v %v, want %v %v", gotBytes, gotS, wantBytes, wantS)
		}
		for i, w := range wantE {
			if !(math.Abs(float64(gotE[i]-w)) <= 1e-5*float64(w)+1e-6) {
				t.Fatalf("quantize: errors %v, want %v", gotE, wantE)
			}
		}

		groups := 2 * rapid.IntRange(1, width/8).Draw(t, "groups")
		packed := make([]int8, blocks*blockSize*groups*4)
		norms := make([]int32, blocks*blockSize)
		extreme := rapid.Bool().Draw(t, "extreme")
		for i := range packed {
			packed[i] = int8(rng.IntN(128) - levelMid)
			if extreme {
				packed[i] = []int8{-levelMid, levelMid - 1}[i/2%2]
			}
		}
		for i := range gotBytes {
			gotBytes[i] = uint8(rng.IntN(128))
			if extreme {
				gotBytes[i] = levels
			}
		}
		for i := range norms {
			norms[i] = rng.Int32N(20000) - 10000
		}
		limit := rng.Int32N(20000) - 10000
		gotM, wantM := make([]uint32, blocks), make([]uint32, blocks)
		k.filter(&gotBytes[0], &packed[0], &norms[0], groups, blocks, limit, &gotM[0])
		filterGeneric(&gotBytes[0], &packed[0], &norms[0], groups, blocks, limit, &wantM[0])
		if !slices.Equal(gotM, wantM) {
			t.Fatalf("filter: got %x, want %x", gotM, wantM)
		}
	})
}
