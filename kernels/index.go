package kernels

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// Limits of the search.
const (
	searchRun  = 128 // codes of a quad of marks
	mostSieved = 64  // neighbours that the sieve finds, half of the groups of search_bound.cu; all codes are scanned for more
	sieveWidth = 64  // coordinates of codes that are sieved
	// mostMarks is the memory of marks, a bit each for query and code: more queries take turns.
	mostMarks = 128 << 20
	// MaxCodeSize is the largest code, MaxNeighbours the most neighbours that Localize
	// refines with.
	MaxCodeSize   = 256
	MaxNeighbours = 128
)

// codes are M* on the device: codes and decoded states.
type codes struct {
	values, decoded               driver.Pointer
	fragments, mean, upper, lower driver.Pointer // of the sieve (include/search.cuh); 0: none
	gamma                         float32
	count, n, states              int
	ld, lddecoded                 int
}

type index struct {
	backend *Backend
	memory  *memory
	codes   codes
}

// NewIndex implements backend.Backend: codes of up to MaxCodeSize coordinates.
func (b *Backend) NewIndex(set, decoded tensor.Matrix) (backend.Index, error) {
	const op = "NewIndex"
	if err := backend.CheckIndex(set, decoded); err != nil {
		return nil, err
	}
	if set.Cols > MaxCodeSize {
		return nil, tooWide(op, "the size of a code", set.Cols, MaxCodeSize)
	}
	if decoded.Cols > MaxWidth {
		return nil, tooWide(op, "the size of a decoded state", decoded.Cols, MaxWidth)
	}
	x := &index{backend: b, memory: &memory{}}
	err := b.execute(func(t *driver.Thread) error {
		q := b.queue(t)
		if x.codes = packCodes(q, x.memory, set, decoded); q.err != nil {
			x.memory.rewind(t, 0, 0)
		}
		return q.err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	runtime.AddCleanup(x, func(m *memory) { b.discard(m.free) }, x.memory)
	return x, nil
}

func packCodes(q *queue, m *memory, set, decoded tensor.Matrix) codes {
	c := codes{count: set.Rows, n: set.Cols, states: decoded.Cols, ld: quads(set.Cols), lddecoded: quads(max(decoded.Cols, 1))}
	place := func(rows tensor.Matrix, ld int) driver.Pointer {
		values := make([]float32, rows.Rows*ld)
		for i := range rows.Rows {
			copy(values[i*ld:], rows.Row(i))
		}
		return uploaded(q, m, values)
	}
	c.values, c.decoded = place(set, c.ld), place(decoded, c.lddecoded)
	if c.n <= sieveWidth {
		c.packSieve(q, m, set)
	}
	return c
}

// packSieve adds what products sieve by: codes less their mean, rounded, and their squared
// norms. Without it, since a norm is too large for float32, all codes are scanned.
func (c *codes) packSieve(q *queue, m *memory, set tensor.Matrix) {
	const largest = 1e30 // of a norm: sums of such stay finite
	mean := make([]float32, c.n)
	for j := range mean {
		sum := 0.0
		for i := range set.Rows {
			sum += float64(set.Row(i)[j])
		}
		mean[j] = float32(sum / float64(set.Rows))
	}
	// A product's rounding: of its sums, twice over, and of both factors to 11 bits, a quarter over.
	c.gamma = float32(c.n+8)/(1<<22) + 1.25/1024
	centred := tensor.New(set.Rows, sieved(c.n))
	upper := slices.Repeat([]float32{float32(math.Inf(-1))}, 2*ceil(set.Rows, searchRun)*searchRun)
	lower := slices.Clone(upper)
	for i := range set.Rows {
		norm := 0.0
		for j, v := range set.Row(i) {
			d := float64(v) - float64(mean[j])
			centred.Row(i)[j] = float32(d)
			norm += d * d
		}
		if !(norm <= largest) {
			return
		}
		for _, slot := range []int{i/2*4 + i%2, i/2*4 + i%2 + 2} {
			upper[slot], lower[slot] = float32(-(1+float64(c.gamma))/2*norm), float32(-(1-float64(c.gamma))/2*norm)
		}
	}
	c.fragments, c.mean = uploaded(q, m, fragments(centred, searchRun, roundTF32)), uploaded(q, m, mean)
	c.upper, c.lower = uploaded(q, m, upper), uploaded(q, m, lower)
}

// fragments are rows, which are a product's columns, as tensor cores read them from memory:
// in tiles of 32 rows, slices of 16 columns and 4 tiles of 8 rows, of which each lane has 4
// columns of a row; zeros to a multiple of so many rows.
func fragments(rows tensor.Matrix, multiple int, value func(float32) float32) []float32 {
	slices := ceil(rows.Cols, 16)
	packed := make([]float32, ceil(rows.Rows, multiple)*multiple*16*slices)
	for i := range rows.Rows {
		// Four rows side by side are of one lane's sums: FragmentSide::column of include/tile.cuh.
		tile, group := i/16%2*2+i%4/2, i%16/4*2+i%2
		for k, v := range rows.Row(i) {
			packed[((i/32*slices+k/16)*4+tile)*128+(4*group+k%16/4)*4+k%4] = value(v)
		}
	}
	return packed
}

func (x *index) Len() int { return x.codes.count }

type searchJob struct {
	codes, decoded, fragments, mean, upper, lower, z, x, tau, bounds, marks, distance, index, found, state, fallback driver.Pointer
	count, rows, k, n, states, ldcode, lddecoded, ldz, ldx, every                                                    int32
	gamma                                                                                                            float32
	_                                                                                                                int32
}

type localizeJob struct {
	codes, decoded, q, x, candidates, found, state, fallback, z, nearest, residual, consistent driver.Pointer
	n, states, ldcode, lddecoded, ldq, ldx, total, rows                                        int32
}

// query is a batch of queries on the device.
type query struct {
	rows      int
	z, x, tau driver.Pointer // x 0: no residual filter
	ldz, ldx  int
}

// searchSpace is the workspace of one search.
type searchSpace struct {
	distance, index         piece // [rows, total]
	counts, state, fallback piece
	bounds, marks           piece // of so many rows at a time:
	rows                    int
}

// take reserves the workspace of a search for total neighbours.
func (s *searchSpace) take(l *layoutOf, rows, total, count int, crosses bool) []*piece {
	quads := 16 * ceil(count, searchRun)
	s.rows = min(rows, max(mostMarks/quads/64*64, 64))
	s.distance, s.index = l.take(8*rows*total, crosses), l.take(4*rows*total, crosses)
	s.counts, s.state, s.fallback = l.take(4*rows, false), l.take(4*rows, false), l.take(4*rows, false)
	s.bounds, s.marks = l.take(8*s.rows, false), l.take(quads*s.rows, false)
	return []*piece{&s.distance, &s.index, &s.counts, &s.state, &s.fallback, &s.bounds, &s.marks}
}

// search queues the total nearest codes of each query, nearest first, among those whose
// residual is within tau where the queries have an x.
func (q *queue) search(c codes, queries query, total int, s *searchSpace) {
	for start := 0; start < queries.rows; start += s.rows {
		job := s.job(c, queries, total, start)
		if job.bounds != 0 {
			q.sieve(&job)
		}
		q.needs(func(*trace) work { return work{cycles: shortChain} }) // of queries that the sieve has answered
		q.launch("gpc_search_scan", driver.Dim{X: int(job.rows)}, 256, 0, driver.Struct(&job))
	}
}

// job is the search of the queries from one on, as many as marks have room for. Without
// bounds all codes are scanned.
func (s *searchSpace) job(c codes, queries query, total, start int) searchJob {
	job := searchJob{
		codes: c.values, decoded: c.decoded, fragments: c.fragments, mean: c.mean, upper: c.upper, lower: c.lower,
		z: queries.z.Offset(4 * queries.ldz * start), marks: s.marks.device, distance: s.distance.device.Offset(8 * total * start), index: s.index.device.Offset(4 * total * start),
		found: s.counts.device.Offset(4 * start), state: s.state.device.Offset(4 * start),
		count: int32(c.count), rows: int32(min(s.rows, queries.rows-start)), k: int32(total), n: int32(c.n), states: int32(c.states), ldcode: int32(c.ld),
		lddecoded: int32(c.lddecoded), ldz: int32(queries.ldz), ldx: int32(queries.ldx), every: int32(sampleEvery(c.count, total)), gamma: c.gamma,
	}
	if c.fragments != 0 && total <= mostSieved {
		job.bounds = s.bounds.device
	}
	if queries.x != 0 {
		job.x, job.tau, job.fallback = queries.x.Offset(4*queries.ldx*start), queries.tau.Offset(4*start), s.fallback.device.Offset(4*start)
	}
	return job
}

// sampleEvery is of how many codes one is looked at for the bounds of a search. A half takes half of
// that time and leaves twice as many codes to compute exactly.
func sampleEvery(count, total int) int {
	if count < 4096 || total > 32 {
		return 1
	}
	return 2
}

// sieved is the width of the sieve for codes of n coordinates.
func sieved(n int) int {
	switch {
	case n <= 16:
		return 16
	case n <= 32:
		return 32
	}
	return sieveWidth
}

// sieve queues bounds, marks, and the exact distances of marked codes.
func (q *queue) sieve(job *searchJob) {
	rows, count, width := int(job.rows), int(job.count), sieved(int(job.n))
	needs := func(blocks, queries int, codes float64) {
		fma := float64(blocks*queries*width) * codes
		q.needs(func(*trace) work {
			return work{fma: fma, tensor: true, bytes: 4 * float64(blocks*(width+2)) * codes, requests: fma / (16 * 8 * 8)}
		})
	}
	blocks := ceil(rows, 32)
	needs(blocks, 32, float64(count)/float64(job.every))
	threads := 512
	if width == sieveWidth {
		threads = 256
	}
	q.launch(fmt.Sprintf("gpc_search_bound_%d", width), driver.Dim{X: blocks}, threads, 0, driver.Struct(job))
	// Two blocks a multiprocessor, of which each warp has a run at least.
	blocks = ceil(rows, 64)
	runs := ceil(count, searchRun)
	parts := min(max(2*q.device.Multiprocessors/blocks, 1), ceil(runs, 4))
	needs(blocks, 64, float64(count))
	q.launch(fmt.Sprintf("gpc_search_sieve_%d", width), driver.Dim{X: blocks, Y: parts}, 256, 0, driver.Struct(job))
	q.needs(func(*trace) work {
		return work{cycles: shortChain, bytes: float64(rows*16*runs) + 8*float64(rows*int(job.k)*int(job.n))}
	})
	q.launch("gpc_search_exact", driver.Dim{X: ceil(rows, 4)}, 128, 0, driver.Struct(job))
}

// searchKernels are what a localization launches.
var searchKernels = []string{
	"gpc_search_bound_16", "gpc_search_bound_32", "gpc_search_bound_64", "gpc_search_sieve_16", "gpc_search_sieve_32", "gpc_search_sieve_64",
	"gpc_search_exact", "gpc_search_scan", "gpc_localize_point",
}

// located is where the results of localization go.
type located struct{ z, nearest, residual, consistent driver.Pointer }

// localize queues the whole of localization.
func (q *queue) localize(c codes, queries query, neighbours int, s *searchSpace, out located) {
	k := max(1, min(neighbours, c.count))
	q.search(c, queries, k, s)
	job := localizeJob{
		codes: c.values, decoded: c.decoded, q: queries.z, x: queries.x, candidates: s.index.device, found: s.counts.device, state: s.state.device, fallback: s.fallback.device,
		z: out.z, nearest: out.nearest, residual: out.residual, consistent: out.consistent,
		n: int32(c.n), states: int32(c.states), ldcode: int32(c.ld), lddecoded: int32(c.lddecoded), ldq: int32(queries.ldz), ldx: int32(queries.ldx), total: int32(k), rows: int32(queries.rows),
	}
	q.needs(func(*trace) work { return work{cycles: shortChain + float64(k*(500+6*k)), resident: rolloutBlocks} })
	q.launch("gpc_localize_point", driver.Dim{X: queries.rows}, 32, 8*((k+1)*(k|1)+9*k), driver.Struct(&job))
}

// Localize implements backend.Index for up to MaxNeighbours neighbours.
func (x *index) Localize(obs, zobs tensor.Matrix, tau []float32, neighbours int, out backend.LocalizeOutput) error {
	const op = "Localize"
	defer runtime.KeepAlive(x) // whose codes are read when nobody else may hold it
	rows, c, b := zobs.Rows, x.codes, x.backend
	if err := backend.CheckLocalize(c.n, c.states, obs, zobs, tau, neighbours, out); err != nil {
		return err
	}
	if min(neighbours, c.count) > MaxNeighbours {
		return tooWide(op, "neighbours", neighbours, MaxNeighbours)
	}
	return b.execute(func(t *driver.Thread) error {
		return rowsOf(rows, mostRows, func(from, to int) error {
			rows := to - from
			var l layoutOf
			var space searchSpace
			z, s, limits := l.floats(rows*c.n, true), l.floats(max(rows*c.states, 1), true), l.floats(rows, true)
			outZ, nearest := l.floats(rows*c.n, true), l.floats(rows, true)
			residual, consistent := l.floats(rows, true), l.take(rows, true)
			pieces := append(space.take(&l, rows, max(1, min(neighbours, c.count)), c.count, false), &z, &s, &limits, &outZ, &nearest, &residual, &consistent)
			w := &b.shared
			if err := w.fit(t, &l, pieces...); err != nil {
				return err
			}
			q := b.queue(t)
			queries := query{rows: rows, z: z.device, x: s.device, tau: limits.device, ldz: w.upload(q, zobs, from, to, z), ldx: w.upload(q, obs, from, to, s)}
			copy(driver.HostSlice[float32](w.host, limits.host, rows), tau[from:to])
			q.upload(limits.device, w.host, limits.host, 4*rows)
			q.localize(c, queries, neighbours, &space, located{outZ.device, nearest.device, residual.device, consistent.device})
			w.get(q, outZ, rows*c.n)
			w.get(q, nearest, rows)
			w.get(q, residual, rows)
			q.download(w.host, consistent.host, consistent.device, rows)
			if err := q.wait(); err != nil {
				return err
			}
			w.give(out.Z, from, to, outZ)
			giveNumbers(w, out.Nearest, from, to, nearest)
			giveNumbers(w, out.Residual, from, to, residual)
			if out.Consistent != nil {
				for i, v := range driver.HostSlice[uint8](w.host, consistent.host, rows) {
					out.Consistent[from+i] = v != 0
				}
			}
			return nil
		})
	})
}

// Nearest implements backend.Index for any number of neighbours.
func (x *index) Nearest(z tensor.Matrix, k int, idx []int32, dist2 []float32) error {
	defer runtime.KeepAlive(x)
	c, b := x.codes, x.backend
	if err := backend.CheckNearest(c.count, c.n, z, k, idx, dist2); err != nil {
		return err
	}
	return b.execute(func(t *driver.Thread) error {
		return rowsOf(z.Rows, max(1, min(mostRows, maxElements/k)), func(from, to int) error {
			rows := to - from
			var l layoutOf
			var space searchSpace
			latents := l.floats(rows*c.n, true)
			w := &b.shared
			if err := w.fit(t, &l, append(space.take(&l, rows, k, c.count, true), &latents)...); err != nil {
				return err
			}
			q := b.queue(t)
			queries := query{rows: rows, z: latents.device, ldz: w.upload(q, z, from, to, latents)}
			q.search(c, queries, k, &space)
			w.get(q, space.index, rows*k)
			q.download(w.host, space.distance.host, space.distance.device, 8*rows*k)
			if err := q.wait(); err != nil {
				return err
			}
			copy(idx[from*k:to*k], driver.HostSlice[int32](w.host, space.index.host, rows*k))
			for i, d := range driver.HostSlice[float64](w.host, space.distance.host, rows*k) {
				dist2[from*k+i] = float32(d)
			}
			return nil
		})
	})
}
