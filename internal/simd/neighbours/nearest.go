package neighbours

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// Nearest writes the k nearest points of each query [B, Dim], ascending by
// (distance, id): ids [B·k] and dist2 [B·k]. A result beyond the number of points
// is filled with id −1 and distance +Inf; one whose query has a coordinate that
// is not finite, with id −1 and distance NaN. Queries are only read; one call at
// a time.
func (ix *Index) Nearest(queries tensor.Matrix, k int, ids []int32, dist2 []float32) error {
	const op = "neighbours.Nearest"
	if err := tensor.Check(op, "queries", queries, queries.Rows, ix.dim); err != nil {
		return err
	}
	if k < 1 || len(ids) != queries.Rows*k || len(dist2) != queries.Rows*k {
		return fmt.Errorf("%s: k = %d with %d ids and %d distances for %d queries, want k ≥ 1 and k of both for each query", op, k, len(ids), len(dist2), queries.Rows)
	}
	b := &ix.batch
	b.k, b.ids, b.dist2 = k, ids, dist2
	ix.Spread(&b.tiler, queries, b.search)
	b.ids, b.dist2 = nil, nil
	return nil
}

// batch is the workspace of Nearest.
type batch struct {
	tiler   Tiler
	search  func(worker int, rows []int32)
	workers []batchWorker

	k     int
	ids   []int32
	dist2 []float32
}

type batchWorker struct {
	searcher *Searcher
	queries  [TileSize]Query
}

func (b *batch) init(ix *Index) {
	b.workers = make([]batchWorker, ix.runner.Threads())
	b.search = func(worker int, rows []int32) {
		w := &b.workers[worker]
		if w.searcher == nil {
			w.searcher = ix.NewSearcher()
		}
		k := min(b.k, ix.n)
		for i, r := range rows {
			o := int(r) * b.k
			w.queries[i] = Query{Point: b.tiler.queries.Row(int(r)), IDs: b.ids[o : o+k], Dist2: b.dist2[o : o+k]}
		}
		w.searcher.Search(w.queries[:len(rows)])
		for i, r := range rows {
			missing := float32(math.Inf(1))
			if w.queries[i].Count == 0 {
				missing = float32(math.NaN())
			}
			for j := int(r)*b.k + w.queries[i].Count; j < (int(r)+1)*b.k; j++ {
				b.ids[j], b.dist2[j] = -1, missing
			}
			w.queries[i] = Query{}
		}
	}
}

// Tiler is the workspace that cuts a batch into tiles of queries near each
// other. The zero value is ready; it grows to the largest batch it has seen.
type Tiler struct {
	queries   tensor.Matrix
	search    func(worker int, rows []int32)
	ix        *Index
	keys      []int32 // by query: the leaf it falls into
	order     []int32 // queries by leaf
	starts    []int32 // by leaf
	tile      int
	projected [][mostAxes]float32 // of each worker
	key       func(worker, chunk int)
	run       func(worker, chunk int)
}

// keyChunk is the number of queries whose leaves one chunk looks up.
const keyChunk = 256

// Spread calls search(worker, rows) on the index's Runner with tiles of at most
// TileSize row numbers of queries [B, Dim], each row exactly once, such that queries
// of a tile tend to visit the same leaves. search must write nothing that
// depends on the tile. To allocate nothing, pass a func value made once.
func (ix *Index) Spread(t *Tiler, queries tensor.Matrix, search func(worker int, rows []int32)) {
	batch := queries.Rows
	if batch == 0 {
		return
	}
	t.ix, t.queries, t.search = ix, queries, search
	if t.run == nil {
		t.starts = make([]int32, 0, len(ix.leaves)+1)
		t.projected = make([][mostAxes]float32, ix.runner.Threads())
		t.key = t.lookUp
		t.run = t.runTile
	}
	if cap(t.order) < batch {
		t.order = make([]int32, batch)
		t.keys = make([]int32, batch)
	}
	t.order, t.keys = t.order[:batch], t.keys[:batch]
	threads := ix.runner.Threads()
	t.tile = max(1, min(TileSize, batch/(2*threads)))
	if batch <= t.tile*threads || queries.Stride == 0 {
		for i := range t.order {
			t.order[i] = int32(i)
		}
	} else {
		ix.runner.Run((batch+keyChunk-1)/keyChunk, t.key)
		t.sort(len(ix.leaves))
	}
	ix.runner.Run((batch+t.tile-1)/t.tile, t.run)
	t.queries, t.search = tensor.Matrix{}, nil
}

func (t *Tiler) lookUp(worker, chunk int) {
	for i := chunk * keyChunk; i < min((chunk+1)*keyChunk, len(t.keys)); i++ {
		t.keys[i] = t.ix.descend(t.queries.Row(i), &t.projected[worker])
	}
}

// sort orders the queries by (leaf, row) by counting.
func (t *Tiler) sort(leaves int) {
	if cap(t.starts) < leaves+1 {
		t.starts = make([]int32, leaves+1)
	}
	t.starts = t.starts[:leaves+1]
	clear(t.starts)
	for _, l := range t.keys {
		t.starts[l+1]++
	}
	for l := range leaves {
		t.starts[l+1] += t.starts[l]
	}
	for i, l := range t.keys {
		t.order[t.starts[l]] = int32(i)
		t.starts[l]++
	}
}

func (t *Tiler) runTile(worker, chunk int) {
	t.search(worker, t.order[chunk*t.tile:min((chunk+1)*t.tile, len(t.order))])
}

// descend is the leaf on whose side of every split the query lies.
func (ix *Index) descend(query []float32, projected *[mostAxes]float32) int32 {
	ix.kernel.project(&query[0], &ix.principal.mean[0], &ix.principal.directions[0], ix.dim, &projected[0])
	child := int32(-1)
	if len(ix.nodes) > 0 {
		child = 0
	}
	for child >= 0 {
		n := &ix.nodes[child]
		if projected[n.axis] < n.threshold {
			child = n.left
		} else {
			child = n.right
		}
	}
	return ^child
}
