package kernels

import (
	"fmt"
	"runtime"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// Limits of the search.
const (
	searchPass    = 32  // neighbours that one pass over the codes finds
	searchQueries = 64  // of a block
	searchTile    = 128 // codes of a block's step
	mostParts     = 256 // of the codes, searched by blocks of their own
	// MaxCodeSize is the largest code, MaxNeighbours the most neighbours that Localize
	// refines with.
	MaxCodeSize   = 256
	MaxNeighbours = 128
)

// codes are M* on the device: codes and decoded states, and their squared norms.
type codes struct {
	at, norms, decoded, decodedNorms driver.Pointer
	rounded, decodedRounded          driver.Pointer // as tensor cores read them, where they are used
	count, n, states                 int
	ld, lddecoded                    int
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
	err := b.do(func(t *driver.Thread) error {
		q := b.queue(t)
		if x.codes = packCodes(q, x.memory, set, decoded); q.err != nil {
			x.memory.since(t, 0, 0)
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
	place := func(rows tensor.Matrix, ld int) (at, rounded, norms driver.Pointer) {
		values, squares := make([]float32, rows.Rows*ld), make([]float32, ceil(rows.Rows, searchTile)*searchTile)
		for i := range rows.Rows {
			copy(values[i*ld:], rows.Row(i))
			sum := 0.0
			for _, v := range rows.Row(i) {
				sum += float64(v) * float64(v)
			}
			squares[i] = float32(sum)
		}
		if q.options.TF32 {
			rounded = uploaded(q, m, fragments(rows, searchTile, roundTF32))
		}
		return uploaded(q, m, values), rounded, uploaded(q, m, squares)
	}
	c.at, c.rounded, c.norms = place(set, c.ld)
	c.decoded, c.decodedRounded, c.decodedNorms = place(decoded, c.lddecoded)
	return c
}

// fragments are rows, which are a product's columns, as tensor cores read them from memory:
// in tiles of 32 rows, slices of 16 columns and 4 tiles of 8 rows, of which each lane has 4
// columns of a row; zeros to a multiple of so many rows.
func fragments(rows tensor.Matrix, multiple int, value func(float32) float32) []float32 {
	slices := ceil(rows.Cols, 16)
	to := make([]float32, ceil(rows.Rows, multiple)*multiple*16*slices)
	for i := range rows.Rows {
		// Four rows side by side are of one lane's sums: FragmentSide::column of include/tile.cuh.
		tile, group := i/16%2*2+i%4/2, i%16/4*2+i%2
		for k, v := range rows.Row(i) {
			to[((i/32*slices+k/16)*4+tile)*128+(4*group+k%16/4)*4+k%4] = value(v)
		}
	}
	return to
}

func (x *index) Len() int { return x.codes.count }

type searchJob struct {
	codes, norms, decoded, decodedNorms, z, x, tau, distance, index, afterDistance, afterIndex, state, rounded, decodedRounded driver.Pointer
	count, rows, k                                                                                                             int32
	ldcode, n, states, lddecoded, ldz, ldx                                                                                     int16
}

type mergeJob struct {
	distance, index, z, x, outDistance, outIndex, afterDistance, afterIndex, found, state driver.Pointer
	parts, rows, k, total, offset, n, states, ldz, ldx, _                                 int32
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
	distance, index           piece // of the parts
	outDistance, outIndex     piece // [rows, total]
	afterDistance, afterIndex piece
	found, state              piece
	restDistance, restIndex   piece // of the search by residual alone
	restFound, restState      piece
	restAfter, restAfterIndex piece
}

// take reserves the workspace of a search for total neighbours.
func (s *searchSpace) take(l *layoutOf, rows, total, parts int, crosses bool) []*piece {
	k := min(total, searchPass)
	s.distance, s.index = l.take(8*parts*rows*k, false), l.take(4*parts*rows*k, false)
	s.outDistance, s.outIndex = l.take(8*rows*total, crosses), l.take(4*rows*total, crosses)
	s.afterDistance, s.afterIndex = l.take(8*rows, false), l.take(4*rows, false)
	s.found, s.state = l.take(4*rows, false), l.take(4*rows, false)
	s.restDistance, s.restIndex = l.take(8*rows, false), l.take(4*rows, false)
	s.restFound, s.restState = l.take(4*rows, false), l.take(4*rows, false)
	s.restAfter, s.restAfterIndex = l.take(8*rows, false), l.take(4*rows, false)
	return []*piece{
		&s.distance, &s.index, &s.outDistance, &s.outIndex, &s.afterDistance, &s.afterIndex, &s.found, &s.state,
		&s.restDistance, &s.restIndex, &s.restFound, &s.restState, &s.restAfter, &s.restAfterIndex,
	}
}

// parts is how many blocks share the codes of each 64 queries: enough to fill the
// device, each with at least some steps of its own.
func (b *Backend) parts(rows, count int) int {
	blocks := ceil(rows, searchQueries)
	return max(1, min(mostParts, ceil(4*b.device.Multiprocessors, blocks), ceil(count, 4*searchTile)))
}

// searchShared is the shared memory of search.cu.
func searchShared(k int, tensorCores bool) int {
	lists := 12*searchQueries*k + searchQueries*searchTile/4
	if tensorCores {
		return lists
	}
	return lists + 4*2*16*(searchQueries+4+searchTile+4)
}

// sieve is the work of the product of a search: a tile of 64 queries × 128 codes reads 4 + 8
// floats of shared memory a thread in 3 pieces for 32 multiply-adds.
func (q *queue) sieve(rows, parts, count, n int) work {
	blocks := float64(ceil(rows, searchQueries))
	fma := blocks * searchQueries * float64(count) * float64(n)
	w := work{fma: fma, tensor: q.options.TF32, bytes: 4 * blocks * (float64(count)*float64(n+1) + float64(parts*searchQueries*n)), requests: fma / 32 * requestsOf32}
	if q.options.TF32 {
		w.requests = fma / (16 * 8 * 8) // codes' fragments, through the first-level cache
	}
	return w
}

// search queues the total nearest codes of each query, nearest first, in passes.
func (q *queue) search(c codes, of query, total, parts int, s *searchSpace) {
	job := searchJob{
		codes: c.at, norms: c.norms, decoded: c.decoded, decodedNorms: c.decodedNorms, rounded: c.rounded, decodedRounded: c.decodedRounded, z: of.z, x: of.x, tau: of.tau, distance: s.distance.at, index: s.index.at,
		count: int32(c.count), rows: int32(of.rows), ldcode: int16(c.ld), n: int16(c.n), states: int16(c.states), lddecoded: int16(c.lddecoded),
		ldz: int16(of.ldz), ldx: int16(of.ldx),
	}
	merge := mergeJob{
		distance: s.distance.at, index: s.index.at, z: of.z, x: of.x, outDistance: s.outDistance.at, outIndex: s.outIndex.at,
		afterDistance: s.afterDistance.at, afterIndex: s.afterIndex.at, found: s.found.at, state: s.state.at,
		parts: int32(parts), rows: int32(of.rows), total: int32(total), n: int32(c.n), states: int32(c.states), ldz: int32(of.ldz), ldx: int32(of.ldx),
	}
	for offset := 0; offset < total; offset += searchPass {
		k := min(searchPass, total-offset)
		job.k, merge.k, merge.offset = int32(k), int32(k), int32(offset)
		if offset > 0 {
			job.afterDistance, job.afterIndex = s.afterDistance.at, s.afterIndex.at
		}
		q.needs(func(*trace) work { return q.sieve(of.rows, parts, c.count, c.n) })
		q.scan(&job, parts)
		q.needs(func(*trace) work { return work{cycles: shortChain, bytes: 12 * float64(parts*k*of.rows)} })
		q.launch("gpc_search_merge", driver.Dim{X: ceil(of.rows, 4)}, 128, 0, driver.Struct(&merge))
	}
}

// smallestResidual queues the search by residual alone, for the queries that no
// code was consistent with.
func (q *queue) smallestResidual(c codes, of query, parts int, s *searchSpace) {
	job := searchJob{
		codes: c.decoded, norms: c.decodedNorms, rounded: c.decodedRounded, z: of.x, distance: s.distance.at, index: s.index.at, state: s.state.at,
		count: int32(c.count), rows: int32(of.rows), k: 1, ldcode: int16(c.lddecoded), n: int16(c.states), ldz: int16(of.ldx),
	}
	merge := mergeJob{
		distance: s.distance.at, index: s.index.at, z: of.x, outDistance: s.restDistance.at, outIndex: s.restIndex.at,
		afterDistance: s.restAfter.at, afterIndex: s.restAfterIndex.at, found: s.restFound.at, state: s.restState.at,
		parts: int32(parts), rows: int32(of.rows), k: 1, total: 1, n: int32(c.states), ldz: int32(of.ldx),
	}
	q.needs(func(*trace) work { return work{cycles: shortChain} }) // only for queries that found nothing
	q.scan(&job, parts)
	q.needs(func(*trace) work { return work{cycles: shortChain, bytes: 12 * float64(parts*of.rows)} })
	q.launch("gpc_search_merge", driver.Dim{X: ceil(of.rows, 4)}, 128, 0, driver.Struct(&merge))
}

// scan launches the search of one pass, the codes in so many parts.
func (q *queue) scan(job *searchJob, parts int) {
	kernel := "gpc_search_fp32"
	if q.options.TF32 {
		kernel = "gpc_search_tf32"
	}
	q.launch(kernel, driver.Dim{X: ceil(int(job.rows), searchQueries), Y: parts}, 256, searchShared(int(job.k), q.options.TF32), driver.Struct(job))
}

// located is where the results of localization go.
type located struct{ z, nearest, residual, consistent driver.Pointer }

// localize queues the whole of localization.
func (q *queue) localize(c codes, of query, neighbours, parts int, s *searchSpace, out located) {
	k := max(1, min(neighbours, c.count))
	q.search(c, of, k, parts, s)
	q.smallestResidual(c, of, parts, s)
	job := localizeJob{
		codes: c.at, decoded: c.decoded, q: of.z, x: of.x, candidates: s.outIndex.at, found: s.found.at, state: s.state.at, fallback: s.restIndex.at,
		z: out.z, nearest: out.nearest, residual: out.residual, consistent: out.consistent,
		n: int32(c.n), states: int32(c.states), ldcode: int32(c.ld), lddecoded: int32(c.lddecoded), ldq: int32(of.ldz), ldx: int32(of.ldx), total: int32(k), rows: int32(of.rows),
	}
	q.needs(func(*trace) work { return work{cycles: shortChain + 30*float64(k*k), resident: rolloutBlocks} })
	q.launch("gpc_localize_point", driver.Dim{X: of.rows}, 32, 8*(k*k+2*k), driver.Struct(&job))
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
	return b.do(func(t *driver.Thread) error {
		return rowsOf(rows, mostRows, func(from, to int) error {
			rows := to - from
			var l layoutOf
			var space searchSpace
			parts := b.parts(rows, c.count)
			z, s, limits := l.floats(rows*c.n, true), l.floats(max(rows*c.states, 1), true), l.floats(rows, true)
			outZ, nearest, residual, consistent := l.floats(rows*c.n, true), l.floats(rows, true), l.floats(rows, true), l.take(rows, true)
			pieces := append(space.take(&l, rows, max(1, min(neighbours, c.count)), parts, false), &z, &s, &limits, &outZ, &nearest, &residual, &consistent)
			w := &b.shared
			if err := w.fit(t, &l, pieces...); err != nil {
				return err
			}
			q := b.queue(t)
			of := query{rows: rows, z: z.at, x: s.at, tau: limits.at, ldz: w.put(q, zobs, from, to, z), ldx: w.put(q, obs, from, to, s)}
			copy(driver.HostSlice[float32](w.host, limits.host, rows), tau[from:to])
			q.upload(limits.at, w.host, limits.host, 4*rows)
			q.localize(c, of, neighbours, parts, &space, located{outZ.at, nearest.at, residual.at, consistent.at})
			w.get(q, outZ, rows*c.n)
			w.get(q, nearest, rows)
			w.get(q, residual, rows)
			q.download(w.host, consistent.host, consistent.at, rows)
			if err := q.wait(); err != nil {
				return err
			}
			if out.Z.Rows > 0 {
				w.give(out.Z, from, to, outZ)
			}
			if out.Nearest != nil {
				copy(out.Nearest[from:to], driver.HostSlice[int32](w.host, nearest.host, rows))
			}
			if out.Residual != nil {
				copy(out.Residual[from:to], driver.HostSlice[float32](w.host, residual.host, rows))
			}
			if out.Consistent != nil {
				for i, v := range driver.HostSlice[uint8](w.host, consistent.host, rows) {
					out.Consistent[from+i] = v != 0
				}
			}
			return nil
		})
	})
}

// Nearest implements backend.Index, searchPass neighbours in a pass over the codes.
func (x *index) Nearest(z tensor.Matrix, k int, idx []int32, dist2 []float32) error {
	defer runtime.KeepAlive(x)
	c, b := x.codes, x.backend
	if err := backend.CheckNearest(c.count, c.n, z, k, idx, dist2); err != nil {
		return err
	}
	return b.do(func(t *driver.Thread) error {
		return rowsOf(z.Rows, max(1, min(mostRows, maxElements/k)), func(from, to int) error {
			rows := to - from
			var l layoutOf
			var space searchSpace
			parts := b.parts(rows, c.count)
			in := l.floats(rows*c.n, true)
			w := &b.shared
			if err := w.fit(t, &l, append(space.take(&l, rows, k, parts, true), &in)...); err != nil {
				return err
			}
			q := b.queue(t)
			of := query{rows: rows, z: in.at, ldz: w.put(q, z, from, to, in)}
			q.search(c, of, k, parts, &space)
			w.get(q, space.outIndex, rows*k)
			q.download(w.host, space.outDistance.host, space.outDistance.at, 8*rows*k)
			if err := q.wait(); err != nil {
				return err
			}
			copy(idx[from*k:to*k], driver.HostSlice[int32](w.host, space.outIndex.host, rows*k))
			for i, d := range driver.HostSlice[float64](w.host, space.outDistance.host, rows*k) {
				dist2[from*k+i] = float32(d)
			}
			return nil
		})
	})
}
