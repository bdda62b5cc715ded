package kernels

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// searchCase is a search whose answer is known by all distances in float64.
type searchCase struct {
	name           string
	codes, decoded tensor.Matrix
	z, x           tensor.Matrix
	tau            float32
	scanned        bool // no query is answered by the sieve
}

func (c searchCase) nearest(row int, filtered bool) (found []int32) {
	for i := range int32(c.codes.Rows) {
		if !filtered || tensor.SquaredDistance(c.x.Row(row), c.decoded.Row(int(i))) <= float64(c.tau) {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b int32) int {
		return cmp.Compare(tensor.SquaredDistance(c.z.Row(row), c.codes.Row(int(a))), tensor.SquaredDistance(c.z.Row(row), c.codes.Row(int(b))))
	})
	return found
}

func searchCases() []searchCase {
	rng := rand.New(rand.NewPCG(71, 72))
	drawn := func(rows, columns int, scale float64) tensor.Matrix {
		m := tensor.New(rows, columns)
		for i := range m.Data {
			m.Data[i] = float32(scale * rng.NormFloat64())
		}
		return m
	}
	// near is rows of codes, a little beside.
	near := func(codes tensor.Matrix, rows int, scale float64) tensor.Matrix {
		m := drawn(rows, codes.Cols, scale)
		for i := range rows {
			for j, v := range codes.Row(rng.IntN(codes.Rows)) {
				m.Row(i)[j] += v
			}
		}
		return m
	}
	plain := func(name string, count, size, states, rows int) searchCase {
		c := searchCase{name: name, codes: drawn(count, size, 1), decoded: drawn(count, states, 1), tau: float32(states)}
		c.z, c.x = near(c.codes, rows, 0.3), near(c.decoded, rows, 0.3)
		return c
	}
	duplicates := plain("duplicates", 900, 5, 2, 3)
	for i := range 900 {
		copy(duplicates.codes.Row(i), duplicates.codes.Row(i%7))
	}
	equal := plain("all codes equal", 700, 3, 2, 2)
	for i := range 700 {
		copy(equal.codes.Row(i), equal.codes.Row(0))
	}
	equal.scanned = true
	clusters := plain("narrow clusters far from each other", 1500, 6, 3, 4)
	for i := range 1500 {
		for j := range 6 {
			clusters.codes.Row(i)[j] = float32(100*(i/150)) + 1e-3*clusters.codes.Row(i)[j]
		}
	}
	clusters.z = near(clusters.codes, 4, 1e-3)
	far := plain("far from the origin", 600, 4, 2, 3)
	for _, m := range []tensor.Matrix{far.codes, far.z} {
		for i := range m.Data {
			m.Data[i] += 3000
		}
	}
	none := plain("no consistent code", 500, 4, 3, 3)
	none.tau, none.scanned = 0, true
	few := plain("few consistent codes", 2000, 8, 1, 3)
	few.tau = 1e-5
	beside := plain("consistent codes are not the near ones", 1200, 4, 2, 3)
	for i := range 1200 {
		copy(beside.decoded.Row(i), beside.codes.Row(i)[:2])
	}
	for r := range 3 {
		beside.x.Row(r)[0], beside.x.Row(r)[1] = beside.z.Row(r)[0]+2, beside.z.Row(r)[1]
	}
	beside.tau = 0.5
	large := plain("squares beyond float32", 300, 4, 2, 2)
	for _, m := range []tensor.Matrix{large.codes, large.z} {
		for i := range m.Data {
			m.Data[i] *= 1e20
		}
	}
	large.scanned = true
	away := plain("a query beyond float32", 300, 4, 2, 2)
	for i := range away.z.Data {
		away.z.Data[i] *= 1e20
	}
	away.scanned = true
	tiny := plain("squares below float32", 300, 4, 2, 2)
	for _, m := range []tensor.Matrix{tiny.codes, tiny.z} {
		for i := range m.Data {
			m.Data[i] *= 1e-24
		}
	}
	wide := plain("more coordinates than the sieve has", 200, sieveWidth+3, 2, 2)
	wide.scanned = true
	return []searchCase{
		plain("few codes", 7, 3, 2, 3), plain("a tile and one", 33, 4, 2, 33), plain("a run and one", searchRun+1, 16, 4, 65),
		plain("a part looked at", 4100, 17, 4, 35), plain("four slices", 400, 60, 5, 5), duplicates, equal, clusters, far, none, few, beside, large, away, tiny, wide,
	}
}

// TestSearchIsExact holds the search to all distances in float64, ties by the index, where
// the sieve errs most: codes at one distance, in clusters, with an offset, few of them
// consistent, and numbers at either end of float32.
func TestSearchIsExact(t *testing.T) {
	for _, c := range searchCases() {
		_, b := metered(t, Options{})
		x := require.Get(b.NewIndex(c.codes, c.decoded))(t)
		rows := c.z.Rows
		for _, k := range []int{1, 5, 12, 32, 33, mostSieved, mostSieved + 7} {
			k = min(k, c.codes.Rows)
			got, distance := make([]int32, rows*k), make([]float32, rows*k)
			require.OK(t, x.Nearest(c.z, k, got, distance))
			for r := range rows {
				want := c.nearest(r, false)[:k]
				if !slices.Equal(got[r*k:(r+1)*k], want) {
					t.Fatalf("%s, %d neighbours of query %d: %v, want %v", c.name, k, r, got[r*k:(r+1)*k], want)
				}
				for j, i := range want {
					if d := float32(tensor.SquaredDistance(c.z.Row(r), c.codes.Row(int(i)))); distance[r*k+j] != d && !(math.Abs(float64(distance[r*k+j]-d)) <= 1e-6*float64(d)) {
						t.Fatalf("%s: distance %v of code %d, want %v", c.name, distance[r*k+j], i, d)
					}
				}
			}
			found, open := searchedCodes(t, x.(*index), c, k)
			for r := range rows {
				if want := c.nearest(r, true); !slices.Equal(found[r], want[:min(k, len(want))]) {
					t.Fatalf("%s, %d consistent neighbours of query %d: %v, want %v", c.name, k, r, found[r], want[:min(k, len(want))])
				}
			}
			if c.scanned && open != rows {
				t.Errorf("%s, %d neighbours: the sieve answers %d of %d queries, want none", c.name, k, rows-open, rows)
			}
		}
	}
}

// TestQueriesOfASearchAreApart puts a query that is not finite, and one without a consistent code,
// among others: these are answered as if alone.
func TestQueriesOfASearchAreApart(t *testing.T) {
	_, b := metered(t, Options{})
	c := searchCases()[3]
	rows := c.z.Rows
	alone := runSearch(t, b, c, 9)
	c.z.Row(4)[1], c.x.Row(7)[0], c.x.Row(9)[0] = float32(math.NaN()), float32(math.Inf(1)), 1e6
	got := runSearch(t, b, c, 9)
	for r := range rows {
		switch r {
		case 4, 7:
			if got.Nearest[r] != -1 || got.Consistent[r] || !math.IsNaN(float64(got.Z.Row(r)[0])) {
				t.Errorf("query %d: code %d at %v", r, got.Nearest[r], got.Z.Row(r))
			}
		case 9:
			least := 0
			for i := range c.decoded.Rows {
				if tensor.SquaredDistance(c.x.Row(r), c.decoded.Row(i)) < tensor.SquaredDistance(c.x.Row(r), c.decoded.Row(least)) {
					least = i
				}
			}
			if got.Consistent[r] || int(got.Nearest[r]) != least {
				t.Errorf("query %d: code %d, consistent %v, want %d", r, got.Nearest[r], got.Consistent[r], least)
			}
		default:
			if got.Nearest[r] != alone.Nearest[r] || !slices.Equal(got.Z.Row(r), alone.Z.Row(r)) {
				t.Errorf("query %d: code %d, alone %d", r, got.Nearest[r], alone.Nearest[r])
			}
		}
	}
}

func runSearch(t *testing.T, b *Backend, c searchCase, k int) backend.LocalizeOutput {
	rows := c.z.Rows
	out := backend.LocalizeOutput{Z: tensor.New(rows, c.z.Cols), Nearest: make([]int32, rows), Residual: make([]float32, rows), Consistent: make([]bool, rows)}
	require.OK(t, require.Get(b.NewIndex(c.codes, c.decoded))(t).Localize(c.x, c.z, slices.Repeat([]float32{c.tau}, rows), k, out))
	return out
}

// searchedCodes are the consistent codes that a search finds for each query, and how many queries the
// sieve left to the scan.
func searchedCodes(t *testing.T, x *index, c searchCase, k int) (found [][]int32, open int) {
	b, rows := x.backend, c.z.Rows
	require.OK(t, b.execute(func(th *driver.Thread) error {
		var l layoutOf
		var s searchSpace
		z, states, tau := l.floats(rows*c.z.Cols, true), l.floats(rows*c.x.Cols, true), l.floats(rows, true)
		w := &b.shared
		if err := w.fit(th, &l, append(s.take(&l, rows, k, c.codes.Rows, false), &z, &states, &tau)...); err != nil {
			return err
		}
		q := b.queue(th)
		of := query{rows: rows, z: z.device, x: states.device, tau: tau.device, ldz: w.upload(q, c.z, 0, rows, z), ldx: w.upload(q, c.x, 0, rows, states)}
		copy(driver.HostSlice[float32](w.host, tau.host, rows), slices.Repeat([]float32{c.tau}, rows))
		q.upload(tau.device, w.host, tau.host, 4*rows)
		open = rows
		if job := s.job(x.codes, of, k, 0); job.bounds != 0 {
			state := make([]int32, rows)
			q.sieve(&job)
			q.enqueue(func() error { return errors.Join(th.Wait(q.stream), driver.Download(th, state, s.state.device)) })
			open = rows - len(slices.DeleteFunc(state, func(v int32) bool { return v == 3 }))
		}
		q.search(x.codes, of, k, &s)
		indices, counts := make([]int32, rows*k), make([]int32, rows)
		q.enqueue(func() error {
			return errors.Join(th.Wait(q.stream), driver.Download(th, indices, s.index.device), driver.Download(th, counts, s.counts.device))
		})
		for r := range rows {
			n := int(counts[r])
			found = append(found, indices[r*k:][:n])
			for _, i := range indices[r*k+n : (r+1)*k] {
				if i != -1 {
					t.Errorf("query %d: code %d behind the %d found", r, i, n)
				}
			}
		}
		return q.err
	}))
	return found, open
}

// TestSieveAnswersAMap searches a quarter of a bundled map's codes around themselves, as decisions do:
// the codes near a latent are consistent with its state, and of 20 queries one at most is left to the scan.
func TestSieveAnswersAMap(t *testing.T) {
	m := integratorModel(t, 5000)
	rng := rand.New(rand.NewPCG(73, 74))
	const rows = 70
	_, b := metered(t, Options{})
	c := searchCase{
		codes: m.Codes, decoded: tensor.New(m.Codes.Rows, m.DecoderS.Out()), z: tensor.New(rows, m.Latent()), x: tensor.New(rows, m.DecoderS.Out()),
		tau: 2.7, // what batchnav takes for all codes of this map, τ_geom + τ_cover
	}
	net := require.Get(b.NewNet(m.DecoderS))(t)
	require.OK(t, net.Forward(c.codes, c.decoded))
	for r := range rows {
		i := rng.IntN(m.Codes.Rows)
		copy(c.x.Row(r), c.decoded.Row(i))
		for j, v := range m.Codes.Row(i) {
			c.z.Row(r)[j] = v + 0.02*float32(rng.NormFloat64())
		}
	}
	if _, open := searchedCodes(t, require.Get(b.NewIndex(c.codes, c.decoded))(t).(*index), c, 12); open > rows/20 {
		t.Errorf("%d of %d queries are left to the scan, with τ = %g", open, rows, c.tau)
	}
}

// An index that nobody holds but the search that runs keeps its codes until the search is
// done, however often memory is collected.
func TestSearchKeepsItsCodes(t *testing.T) {
	b := onAny(t)
	rng := rand.New(rand.NewPCG(51, 52))
	const rows = 8
	codes, z := tensor.New(200, 8), tensor.New(rows, 8)
	for i := range codes.Data {
		codes.Data[i] = float32(rng.NormFloat64())
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	done := make(chan struct{})
	defer close(done)
	wait.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	})
	for range 60 {
		near := backend.LocalizeOutput{Z: tensor.New(rows, 8)}
		require.OK(t, require.Get(b.NewIndex(codes, tensor.New(200, 4)))(t).Localize(tensor.New(rows, 4), z, slices.Repeat([]float32{1}, rows), 3, near))
		if !tensor.Finite(near.Z.Data) {
			t.Fatal("codes are gone while they are searched")
		}
	}
}
