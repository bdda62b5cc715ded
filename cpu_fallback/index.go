package cpufallback

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/neighbours"
	"github.com/gpc-engine/gpc/tensor"
)

// maxRejected is the number of inconsistent codes near the query after which
// the consistent ones are sought from the measurement's side instead: about the
// cost of that search.
const maxRejected = 256

// index is the exact search over M*: localization restricted to the
// measurement-consistent codes (eq. iclr-measurement-consistent and
// iclr-localization), with the affine refinement over the nearest of them. It
// searches from two sides, over the codes and over their decoded states. One
// call at a time.
type index struct {
	codes, decoded *neighbours.Index
	tiler          neighbours.Tiler
	workers        []indexWorker
	localizeTile   func(worker int, rows []int32)
	undefined      []float32 // Z of a row that holds no measurement: NaN

	// The call in progress.
	x, zobs tensor.Matrix
	tau     []float32
	k       int
	out     backend.LocalizeOutput
}

// NewIndex builds the exact search over M* from codes [N, n_z] and decoded =
// D_s(codes) [N, n_s], both normalised, finite and copied. Its Localize refines
// over at most MaxNeighbours codes and takes 0 neighbours for 1; out.Z may be
// zobs itself. A row of x or zobs with an entry that is not finite gives Nearest
// −1, NaN in Z and Residual, and Consistent false.
func (b *Backend) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	const op = "NewIndex"
	if codes.Rows != decoded.Rows {
		return nil, fmt.Errorf("%s: %d codes with %d decoded states, want as many", op, codes.Rows, decoded.Rows)
	}
	ix := &index{workers: make([]indexWorker, b.pool.Threads())}
	var err error
	if ix.codes, err = neighbours.New(codes, b.pool, b.level.Lanes()); err != nil {
		return nil, fmt.Errorf("%s: codes: %w", op, err)
	}
	if ix.decoded, err = neighbours.New(decoded, b.pool, b.level.Lanes()); err != nil {
		return nil, fmt.Errorf("%s: decoded states: %w", op, err)
	}
	ix.undefined = slices.Repeat([]float32{float32(math.NaN())}, codes.Cols)
	ix.localizeTile = func(w int, rows []int32) { ix.workers[w].localize(ix, rows) }
	return ix, nil
}

// Len is the number of codes.
func (ix *index) Len() int { return ix.codes.Len() }

// Nearest writes the k codes nearest to each row of z [B, n_z] in latent
// distance, ascending, ties by index: idx [B·k] and dist2 [B·k], k at most Len. A
// row with an entry that is not finite gives −1 and NaN.
func (ix *index) Nearest(z tensor.Matrix, k int, idx []int32, dist2 []float32) error {
	if k > ix.Len() {
		return fmt.Errorf("Nearest: k is %d, want 1 to the number of codes, %d", k, ix.Len())
	}
	return ix.codes.Nearest(z, k, idx, dist2)
}

// Localize is backend.Index.Localize: x [B, n_s], zobs [B, n_z], tau [B]. Under
// a NaN tau no code is consistent.
func (ix *index) Localize(x, zobs tensor.Matrix, tau []float32, neighbours int, out backend.LocalizeOutput) error {
	if err := backend.CheckLocalize(ix.codes.Dim(), ix.decoded.Dim(), x, zobs, tau, neighbours, out); err != nil {
		return err
	}
	if neighbours > MaxNeighbours {
		return fmt.Errorf("Localize: %d neighbours, want 0 to %d", neighbours, MaxNeighbours)
	}
	ix.x, ix.zobs, ix.tau = x, zobs, tau
	ix.k, ix.out = min(max(neighbours, 1), ix.Len()), out
	for w := range ix.workers {
		ix.workers[w].sharedFound = false
	}
	ix.codes.Spread(&ix.tiler, zobs, ix.localizeTile)
	ix.x, ix.zobs = tensor.Matrix{}, tensor.Matrix{}
	ix.tau, ix.out = nil, backend.LocalizeOutput{}
	return nil
}

// indexWorker is the workspace of one thread.
type indexWorker struct {
	codes, decoded *neighbours.Searcher
	project        *affineProjection
	tile, seek     []neighbours.Query
	rows           [neighbours.TileSize]struct {
		x      []float32
		tau    float32
		ids    [MaxNeighbours]int32
		dist2  [MaxNeighbours]float32
		accept func(id int32) bool
	}
	seekRow [neighbours.TileSize]int32 // place in the tile of each query of seek
	leastID [neighbours.TileSize]int32
	least   [neighbours.TileSize]float32
	code    func(j int) []float32
	codeIDs []int32

	// The collection of consistent codes found from the measurement's side.
	collect  func(id int32, residual float32)
	zobs     []float32
	foundIDs []int32
	foundD2  []float32
	foundMax int

	// With one measurement for the whole batch, its code of least residual.
	sharedFound bool
	sharedID    int32
	sharedLeast float32
}

func (w *indexWorker) init(ix *index) {
	w.codes, w.decoded = ix.codes.NewSearcher(), ix.decoded.NewSearcher()
	w.project = newAffineProjection(ix.codes.Dim())
	w.tile = make([]neighbours.Query, 0, neighbours.TileSize)
	w.seek = make([]neighbours.Query, 0, neighbours.TileSize)
	for i := range w.rows {
		r := &w.rows[i]
		r.accept = func(id int32) bool { return w.decoded.Distance(r.x, id) <= r.tau }
	}
	w.code = func(j int) []float32 { return ix.codes.Point(int(w.codeIDs[j])) }
	w.collect = func(id int32, _ float32) { w.insert(id, w.codes.Distance(w.zobs, id)) }
}

// localize answers rows of the call in progress.
func (w *indexWorker) localize(ix *index, rows []int32) {
	if w.codes == nil {
		w.init(ix)
	}
	// The nearest consistent codes, by increasing latent distance.
	w.tile = w.tile[:0]
	var rowOf [neighbours.TileSize]int32 // row of each query of the tile
	for _, row := range rows {
		i := len(w.tile)
		r := &w.rows[i]
		z := ix.zobs.Row(int(row))
		r.x, r.tau = ix.x.Row(int(row)), ix.tau[row]
		if !tensor.Finite(r.x) || !tensor.Finite(z) {
			ix.write(row, ix.undefined, -1, float32(math.NaN()), false)
			continue
		}
		rowOf[i] = row
		w.tile = append(w.tile, neighbours.Query{
			Point: z, Accept: r.accept, MaxRejected: maxRejected,
			IDs: r.ids[:ix.k], Dist2: r.dist2[:ix.k],
		})
	}
	w.codes.Search(w.tile)

	// Where too many near ones are inconsistent: is any code consistent at all?
	w.seek = w.seek[:0]
	for i := range w.tile {
		if q := &w.tile[i]; q.Complete && q.Count > 0 {
			id := q.IDs[0]
			w.refine(ix, rowOf[i], q.Point, q.IDs[:q.Count], w.decoded.Distance(w.rows[i].x, id))
			continue
		}
		n := len(w.seek)
		w.seekRow[n] = int32(i)
		w.seek = append(w.seek, neighbours.Query{Point: w.rows[i].x, IDs: w.leastID[n : n+1], Dist2: w.least[n : n+1]})
	}
	w.seekLeast(ix.x.Stride == 0)
	for n := range w.seek {
		i := w.seekRow[n]
		r := &w.rows[i]
		id, least := w.leastID[n], w.least[n]
		if !(least <= r.tau) {
			ix.write(rowOf[i], ix.codes.Point(int(id)), id, least, false)
			continue
		}
		// Some are: all of them lie within the measurement's ball.
		w.zobs, w.foundIDs = w.tile[i].Point, r.ids[:0]
		w.foundD2, w.foundMax = r.dist2[:0], ix.k
		w.decoded.Within(r.x, r.tau, w.collect)
		w.refine(ix, rowOf[i], w.zobs, w.foundIDs, w.decoded.Distance(r.x, w.foundIDs[0]))
	}
	w.zobs, w.foundIDs, w.foundD2 = nil, nil, nil
}

// seekLeast answers the queries of w.seek; with a shared measurement they are
// all the same one.
func (w *indexWorker) seekLeast(shared bool) {
	if len(w.seek) == 0 {
		return
	}
	if !shared {
		w.decoded.Search(w.seek)
		return
	}
	if !w.sharedFound {
		w.decoded.Search(w.seek[:1])
		w.sharedID, w.sharedLeast, w.sharedFound = w.leastID[0], w.least[0], true
	}
	for n := range w.seek {
		w.leastID[n], w.least[n] = w.sharedID, w.sharedLeast
	}
}

// insert keeps the foundMax nearest codes in (distance, index) order.
func (w *indexWorker) insert(id int32, d2 float32) {
	n := len(w.foundIDs)
	if n == w.foundMax {
		if d2 > w.foundD2[n-1] || d2 == w.foundD2[n-1] && id > w.foundIDs[n-1] {
			return
		}
		n--
	}
	w.foundIDs, w.foundD2 = w.foundIDs[:n+1], w.foundD2[:n+1]
	for ; n > 0 && (d2 < w.foundD2[n-1] || d2 == w.foundD2[n-1] && id < w.foundIDs[n-1]); n-- {
		w.foundIDs[n], w.foundD2[n] = w.foundIDs[n-1], w.foundD2[n-1]
	}
	w.foundIDs[n], w.foundD2[n] = id, d2
}

// refine writes the result of a row with consistent codes, nearest first.
func (w *indexWorker) refine(ix *index, row int32, zobs []float32, ids []int32, residual float32) {
	z := ix.codes.Point(int(ids[0]))
	if ix.out.Z.Rows > 0 && len(ids) > 1 {
		w.codeIDs = ids
		z = ix.out.Z.Row(int(row))
		w.project.affine(zobs, len(ids), w.code, z)
		w.codeIDs = nil
	}
	ix.write(row, z, ids[0], residual, true)
}

func (ix *index) write(row int32, z []float32, nearest int32, residual float32, consistent bool) {
	out := &ix.out
	if out.Z.Rows > 0 {
		copy(out.Z.Row(int(row)), z)
	}
	if out.Nearest != nil {
		out.Nearest[row] = nearest
	}
	if out.Residual != nil {
		out.Residual[row] = residual
	}
	if out.Consistent != nil {
		out.Consistent[row] = consistent
	}
}
