package cpufallback

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/neighbours"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// scanned is the specification without refinement: residuals and latent
// distances of all codes, in the order of the definition.
func scanned(codes, decoded tensor.Matrix, x, zobs []float32, tau float32, k int) (ids []int32, residual float32, consistent bool) {
	if !tensor.Finite(x) || !tensor.Finite(zobs) {
		return []int32{-1}, float32(math.NaN()), false
	}
	r, d := make([]float32, codes.Rows), make([]float32, codes.Rows)
	least := 0
	for i := range r {
		r[i] = neighbours.SquaredDistance(x, decoded.Row(i))
		d[i] = neighbours.SquaredDistance(zobs, codes.Row(i))
		if r[i] < r[least] {
			least = i
		}
		if r[i] <= tau {
			ids = append(ids, int32(i))
		}
	}
	if len(ids) == 0 {
		return []int32{int32(least)}, r[least], false
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		switch {
		case d[a] < d[b]:
			return -1
		case d[a] > d[b]:
			return 1
		}
		return 0
	})
	ids = ids[:min(max(k, 1), len(ids))]
	return ids, r[ids[0]], true
}

// codeMap is a map of codes with decoded states.
type codeMap struct{ codes, decoded tensor.Matrix }

// newCodeMap draws codes on a smooth image of a cube. Decoded states follow the
// codes, or, where scrambled, have nothing to do with them, so that no code near
// a query is consistent.
func newCodeMap(rng *rand.Rand, n, nz, ns int, scrambled, lattice bool) codeMap {
	w := codeMap{tensor.New(n, nz), tensor.New(n, ns)}
	a := make([]float64, 3*(nz+ns))
	for i := range a {
		a[i] = rng.NormFloat64()
	}
	for i := range n {
		t := [3]float64{rng.Float64(), rng.Float64(), rng.Float64()}
		at := func(o int) float32 {
			v := math.Sin(2*(a[o]*t[0]+a[o+1]*t[1]+a[o+2]*t[2])) + 0.3*t[0]
			if lattice {
				v = math.Round(2*v) / 2
			}
			return float32(v)
		}
		for j := range nz {
			w.codes.Row(i)[j] = at(3 * j)
		}
		if scrambled {
			t = [3]float64{rng.Float64(), rng.Float64(), rng.Float64()}
		}
		for j := range ns {
			w.decoded.Row(i)[j] = at(3 * (nz + j))
		}
	}
	return w
}

// observe draws measurements and their encodings, both perturbed.
func (w codeMap) observe(rng *rand.Rand, n int, noise float64) (x, zobs tensor.Matrix) {
	x, zobs = tensor.New(n, w.decoded.Cols), tensor.New(n, w.codes.Cols)
	for b := range n {
		i := rng.IntN(w.codes.Rows)
		for j, v := range w.decoded.Row(i) {
			x.Row(b)[j] = v + float32(noise*rng.NormFloat64())
		}
		for j, v := range w.codes.Row(i) {
			zobs.Row(b)[j] = v + float32(noise*rng.NormFloat64())
		}
	}
	return x, zobs
}

type localized struct {
	z          tensor.Matrix
	nearest    []int32
	residual   []float32
	consistent []bool
}

func localize(t require.T, ix *index, x, zobs tensor.Matrix, tau []float32, k int) localized {
	o := localized{tensor.New(zobs.Rows, zobs.Cols), make([]int32, zobs.Rows), make([]float32, zobs.Rows), make([]bool, zobs.Rows)}
	require.OK(t, ix.Localize(x, zobs, tau, k, backend.LocalizeOutput{Z: o.z, Nearest: o.nearest, Residual: o.residual, Consistent: o.consistent}))
	return o
}

// check compares with the scan: exactly, but for the refined point, which must
// be the affine projection of the scan's own neighbours.
func (w codeMap) check(t interface{ Fatalf(string, ...any) }, o localized, x, zobs tensor.Matrix, tau []float32, k int) {
	p := newAffineProjection(w.codes.Cols)
	z := make([]float32, w.codes.Cols)
	for b := range zobs.Rows {
		ids, residual, consistent := scanned(w.codes, w.decoded, x.Row(b), zobs.Row(b), tau[b], k)
		switch {
		case ids[0] < 0:
			for j := range z {
				z[j] = float32(math.NaN())
			}
		case consistent:
			p.affine(zobs.Row(b), len(ids), func(j int) []float32 { return w.codes.Row(int(ids[j])) }, z)
		default:
			copy(z, w.codes.Row(int(ids[0])))
		}
		if o.nearest[b] != ids[0] || !sameFloat(o.residual[b], residual) || o.consistent[b] != consistent || !slices.EqualFunc(o.z.Row(b), z, sameFloat) {
			t.Fatalf("row %d, tau %v, k %d: got code %d, residual %v, consistent %v, z %v; the scan gives %v, %v, %v, %v",
				b, tau[b], k, o.nearest[b], o.residual[b], o.consistent[b], o.z.Row(b), ids, residual, consistent, z)
		}
	}
}

func sameFloat(a, b float32) bool { return a == b || a != a && b != b }

func indexOf(t require.T, w codeMap, threads int, level isa.Level) (*index, func()) {
	b := require.Get(New(Options{Threads: threads, ISA: level.String()}))(t)
	ix := require.Get(b.NewIndex(w.codes, w.decoded))(t)
	return ix.(*index), func() {
		require.OK(t, b.Close())
	}
}

func TestLocalizeIsTheScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n := rapid.SampledFrom([]int{1, 2, 7, 128, 400, 1500}).Draw(t, "codes")
		nz := rapid.IntRange(1, 40).Draw(t, "n_z")
		ns := rapid.IntRange(1, 40).Draw(t, "n_s")
		w := newCodeMap(rng, n, nz, ns, rapid.Bool().Draw(t, "scrambled"), rapid.Bool().Draw(t, "lattice"))
		levels := isa.Available()
		level := levels[rapid.IntRange(0, len(levels)-1).Draw(t, "level")]
		ix, closePool := indexOf(t, w, rapid.IntRange(1, 3).Draw(t, "threads"), level)
		defer closePool()
		batch := rapid.IntRange(1, 50).Draw(t, "batch")
		x, zobs := w.observe(rng, batch, rapid.SampledFrom([]float64{0, 0.01, 0.5}).Draw(t, "noise"))
		k := rapid.SampledFrom([]int{0, 1, 2, 8, 32}).Draw(t, "k")
		tau := make([]float32, batch)
		for b := range tau {
			some := neighbours.SquaredDistance(x.Row(b), w.decoded.Row(rng.IntN(n)))
			tau[b] = []float32{0, some, some / 50, -1, float32(math.Inf(1)), float32(math.NaN())}[rng.IntN(6)]
		}
		if rapid.Bool().Draw(t, "one measurement for all") {
			x = tensor.Broadcast(x.Row(0), batch)
		}
		w.check(t, localize(t, ix, x, zobs, tau, k), x, zobs, tau, k)
	})
}

func TestConsistentCodesFarFromTheQueryAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	w := newCodeMap(rng, 5000, 8, 4, true, false)
	ix, closePool := indexOf(t, w, 1, isa.Available()[0])
	defer closePool()
	x, _ := w.observe(rng, 40, 0.05)
	_, zobs := w.observe(rng, 40, 0.05) // of other codes
	far := 0
	for _, tau := range []float32{0.003, 0.01, 0.03} {
		taus := slices.Repeat([]float32{tau}, 40)
		o := localize(t, ix, x, zobs, taus, 8)
		w.check(t, o, x, zobs, taus, 8)
		for b := range 40 {
			nearer := 0
			if o.consistent[b] {
				d := neighbours.SquaredDistance(zobs.Row(b), w.codes.Row(int(o.nearest[b])))
				for i := range w.codes.Rows {
					if neighbours.SquaredDistance(zobs.Row(b), w.codes.Row(i)) < d {
						nearer++
					}
				}
			}
			if nearer > maxRejected {
				far++
			}
		}
	}
	if far < 10 {
		t.Fatalf("only %d rows had their consistent codes beyond %d others: the test misses its case", far, maxRejected)
	}
}

func TestObservationsThatAreNotFiniteAreFlagged(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	w := newCodeMap(rng, 300, 6, 3, false, false)
	ix, closePool := indexOf(t, w, 1, isa.Available()[0])
	defer closePool()
	x, zobs := w.observe(rng, 6, 0)
	x.Row(1)[2] = float32(math.NaN())
	x.Row(2)[0] = float32(math.Inf(1))
	zobs.Row(3)[5] = float32(math.NaN())
	zobs.Row(4)[0] = float32(math.Inf(-1))
	zobs.Row(5)[0] = 1e30
	tau := slices.Repeat([]float32{0.5}, 6)
	w.check(t, localize(t, ix, x, zobs, tau, 4), x, zobs, tau, 4)

	idx, dist2 := make([]int32, 12), make([]float32, 12)
	require.OK(t, ix.Nearest(zobs, 2, idx, dist2))
	for b := range 6 {
		if undefined := b == 3 || b == 4; (idx[2*b] == -1) != undefined || math.IsNaN(float64(dist2[2*b+1])) != undefined {
			t.Errorf("row %d: nearest %v at %v", b, idx[2*b:2*b+2], dist2[2*b:2*b+2])
		}
	}
}

func TestLocalizeDoesNotDependOnThreadsOrBatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	w := newCodeMap(rng, 3000, 12, 6, false, false)
	x, zobs := w.observe(rng, 100, 0.05)
	tau := make([]float32, 100)
	for b := range tau {
		tau[b] = float32(b) * 0.004
	}
	var want localized
	for _, threads := range []int{1, 2, 4} {
		ix, closePool := indexOf(t, w, threads, isa.Available()[0])
		got := localize(t, ix, x, zobs, tau, 8)
		if want.nearest == nil {
			want = got
		}
		if !slices.Equal(got.nearest, want.nearest) || !slices.Equal(got.z.Data, want.z.Data) || !slices.Equal(got.residual, want.residual) {
			t.Errorf("%d threads give another result", threads)
		}
		for b := range 100 {
			one := localize(t, ix, x.Slice(b, b+1), zobs.Slice(b, b+1), tau[b:b+1], 8)
			if one.nearest[0] != want.nearest[b] || !slices.Equal(one.z.Data, want.z.Row(b)) {
				t.Errorf("row %d alone gives another result", b)
			}
		}
		inPlace := zobs.Clone()
		require.OK(t, ix.Localize(x, inPlace, tau, 8, backend.LocalizeOutput{Z: inPlace}))
		if !slices.Equal(inPlace.Data, want.z.Data) {
			t.Errorf("in place gives another result")
		}
		closePool()
	}
}

func TestLocalizeAllocatesNothingOnceWarm(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, scrambled := range []bool{false, true} {
		w := newCodeMap(rng, 2000, 12, 6, scrambled, false)
		ix, closePool := indexOf(t, w, 2, isa.Available()[0])
		x, zobs := w.observe(rng, 64, 0.05)
		tau := slices.Repeat([]float32{0.1}, 64)
		out := backend.LocalizeOutput{Z: tensor.New(64, 12), Nearest: make([]int32, 64), Residual: make([]float32, 64), Consistent: make([]bool, 64)}
		run := func() {
			require.OK(t, ix.Localize(x, zobs, tau, 8, out))
		}
		for range 20 { // let either thread build its workspace
			run()
		}
		if n := testing.AllocsPerRun(20, run); n != 0 {
			t.Errorf("scrambled %v: %v allocations a call", scrambled, n)
		}
		closePool()
	}
}

func TestIndexErrorsNameWhatIsWrong(t *testing.T) {
	w := newCodeMap(rand.New(rand.NewPCG(6, 6)), 10, 3, 2, false, false)
	b := require.Get(New(Options{Threads: 1}))(t)
	defer b.Close()
	if ix, err := b.NewIndex(w.codes, w.decoded.Slice(0, 9)); ix != nil || err == nil || !strings.Contains(err.Error(), "10 codes with 9 decoded") {
		t.Errorf("NewIndex: %v, %v", ix, err)
	}
	bad := w.decoded.Clone()
	bad.Row(4)[1] = float32(math.NaN())
	if _, err := b.NewIndex(w.codes, bad); err == nil || !strings.Contains(err.Error(), "decoded states: neighbours.New: point 4") {
		t.Errorf("NewIndex: %v", err)
	}
	ix := require.Get(b.NewIndex(w.codes, w.decoded))(t)
	x, z, tau := tensor.New(2, 2), tensor.New(2, 3), make([]float32, 2)
	for _, c := range []struct {
		want string
		err  error
	}{
		{"zobs is 2×2", ix.Localize(x, x, tau, 1, backend.LocalizeOutput{})},
		{"x is 2×3", ix.Localize(z, z, tau, 1, backend.LocalizeOutput{})},
		{"tau has 1", ix.Localize(x, z, tau[:1], 1, backend.LocalizeOutput{})},
		{"33 neighbours", ix.Localize(x, z, tau, 33, backend.LocalizeOutput{})},
		{"-1 neighbours", ix.Localize(x, z, tau, -1, backend.LocalizeOutput{})},
		{"out.Z is 1×3", ix.Localize(x, z, tau, 1, backend.LocalizeOutput{Z: tensor.New(1, 3)})},
		{"broadcast", ix.Localize(x, z, tau, 1, backend.LocalizeOutput{Z: tensor.Broadcast(make([]float32, 3), 2)})},
		{"out.Nearest has 3", ix.Localize(x, z, tau, 1, backend.LocalizeOutput{Nearest: make([]int32, 3)})},
		{"k is 11", ix.Nearest(z, 11, make([]int32, 22), make([]float32, 22))},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %q", c.err, c.want)
		}
	}
}

// BenchmarkLocalize: eight-neighbour localization among 20 000 codes, one core.
// near: the nearest codes are consistent; none: no code is; far: consistent ones
// exist, but not near the query.
func BenchmarkLocalize(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, c := range []struct {
		name      string
		scrambled bool
		tau       float32
	}{{"near", false, 1}, {"none", false, 0}, {"far", true, 0.05}} {
		w := newCodeMap(rng, 20_000, 32, 12, c.scrambled, false)
		level := require.Get(isa.Choose())(b)
		ix, closePool := indexOf(b, w, 1, level)
		x, zobs := w.observe(rng, 512, 0.02)
		tau := slices.Repeat([]float32{c.tau}, 512)
		out := backend.LocalizeOutput{Z: tensor.New(512, 32), Nearest: make([]int32, 512), Residual: make([]float32, 512), Consistent: make([]bool, 512)}
		for _, batch := range []int{1, 512} {
			b.Run(fmt.Sprintf("%s/batch=%d", c.name, batch), func(b *testing.B) {
				done := out
				done.Z, done.Nearest, done.Residual, done.Consistent = out.Z.Slice(0, batch), out.Nearest[:batch], out.Residual[:batch], out.Consistent[:batch]
				for i := 0; i < b.N; i += batch {
					o := i % 512
					require.OK(b, ix.Localize(x.Slice(o, o+batch), zobs.Slice(o, o+batch), tau[:batch], 8, done))
				}
			})
		}
		closePool()
	}
}
