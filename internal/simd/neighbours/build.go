package neighbours

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

const (
	// axisSample bounds the points from which a node's axis is chosen.
	axisSample = 512
	// levels of the quantised grid: q̂ ≤ 127 and ĉ − 64 in [−64, 63], so that a
	// sum of four byte products stays within 16 bits.
	levels   = 127
	levelMid = 64
)

// keyed is a point with its projection on a node's direction.
type keyed struct {
	key float32
	id  int32
}

func (a keyed) compare(b keyed) int {
	if a.key != b.key {
		return cmp.Compare(a.key, b.key)
	}
	return cmp.Compare(a.id, b.id)
}

// rowsTogether are projected as one chunk.
const rowsTogether = 1024

func (ix *Index) build(points tensor.Matrix) {
	b := builder{ix: ix, points: points, order: make([]keyed, ix.n), coordinates: make([]float32, ix.n*mostAxes)}
	leaves := (ix.n + LeafSize - 1) / LeafSize
	padded := roundUp(ix.n, blockSize)
	ix.rows = make([]float32, padded*ix.stride)
	ix.ids = make([]int32, padded)
	ix.packed = make([]int8, padded*ix.groups*4)
	ix.norms = make([]int32, padded)
	ix.position = make([]int32, ix.n)
	ix.leaves = make([]leaf, leaves)
	ix.lo = make([]float32, leaves*ix.stride)
	ix.hi = make([]float32, leaves*ix.stride)
	ix.principal = newPrincipal(points, ix.stride)
	ix.low = make([]float32, roundUp(leaves, lanes)*ix.principal.axes)
	ix.high = make([]float32, roundUp(leaves, lanes)*ix.principal.axes)
	ix.nodes = make([]node, leaves-1)
	for p := ix.n; p < padded; p++ {
		ix.ids[p] = -1
		ix.norms[p] = padNorm
	}
	ix.runner.Run((ix.n+rowsTogether-1)/rowsTogether, func(_, chunk int) {
		for i := chunk * rowsTogether; i < min((chunk+1)*rowsTogether, ix.n); i++ {
			b.order[i].id = int32(i)
			ix.kernel.project(&points.Row(i)[0], &ix.principal.mean[0], &ix.principal.directions[0], ix.dim, &b.coordinates[i*mostAxes])
		}
	})
	// All parts of one depth are split at once.
	for parts := []part{{to: ix.n}}; len(parts) > 0; {
		halves := make([][2]part, len(parts))
		ix.runner.Run(len(parts), func(_, i int) { halves[i] = b.split(parts[i]) })
		parts = parts[:0]
		for _, h := range halves {
			for _, p := range h {
				if p.to > p.from {
					parts = append(parts, p)
				}
			}
		}
	}
	ix.batch.init(ix)
}

type builder struct {
	ix          *Index
	points      tensor.Matrix
	order       []keyed
	coordinates []float32 // [points][mostAxes]: coordinates along the principal axes
}

// part is a subtree over order[from:to] with its first node and leaf. One of l leaves has
// l − 1 nodes.
type part struct{ from, to, node, leaf int }

// split makes the node of a part and gives back its two halves, or its leaf and nothing.
// The left half holds a whole number of leaves, so that only the last leaf of the index is
// not full.
func (b *builder) split(p part) (halves [2]part) {
	ix := b.ix
	leaves := (p.to - p.from + LeafSize - 1) / LeafSize
	if leaves <= 1 {
		b.leaf(p)
		return halves
	}
	axis := b.widest(p)
	points := b.order[p.from:p.to]
	for i := range points {
		points[i].key = b.coordinates[int(points[i].id)*mostAxes+axis]
	}
	half := leaves / 2
	selectNth(points, half*LeafSize)
	middle := p.from + half*LeafSize
	halves = [2]part{{p.from, middle, p.node + 1, p.leaf}, {middle, p.to, p.node + half, p.leaf + half}}
	n := node{threshold: points[half*LeafSize].key, axis: int32(axis), left: int32(halves[0].node), right: int32(halves[1].node)}
	if half == 1 {
		n.left = ^int32(p.leaf)
	}
	if leaves-half == 1 {
		n.right = ^int32(p.leaf + half)
	}
	ix.nodes[p.node] = n
	return halves
}

// widest is the axis along which an evenly spaced sample of a part has the largest variance.
func (b *builder) widest(p part) int {
	step := max(1, (p.to-p.from)/axisSample)
	var sum, square [mostAxes]float64
	count := 0.0
	for i := p.from; i < p.to; i += step {
		for a, v := range b.coordinates[int(b.order[i].id)*mostAxes:][:mostAxes] {
			sum[a] += float64(v)
			square[a] += float64(v) * float64(v)
		}
		count++
	}
	best, most := 0, math.Inf(-1)
	for a := range b.ix.principal.axes {
		if v := square[a] - sum[a]*sum[a]/count; v > most {
			best, most = a, v
		}
	}
	return best
}

// leaf stores the points of a part as its leaf.
func (b *builder) leaf(span part) {
	ix, start, number := b.ix, span.from, span.leaf
	part := b.order[start:span.to]
	slices.SortFunc(part, func(a, c keyed) int { return cmp.Compare(a.id, c.id) })
	lo := ix.lo[number*ix.stride:][:ix.dim]
	hi := ix.hi[number*ix.stride:][:ix.dim]
	for i, p := range part {
		row := b.points.Row(int(p.id))
		ix.ids[start+i] = p.id
		ix.position[p.id] = int32(start + i)
		copy(ix.rows[(start+i)*ix.stride:], row)
		for j, v := range row {
			if i == 0 {
				lo[j], hi[j] = v, v
			}
			lo[j], hi[j] = min(lo[j], v), max(hi[j], v)
		}
	}
	for a := range ix.principal.axes {
		slot := (number/lanes*ix.principal.axes+a)*lanes + number%lanes
		low, high := float32(math.Inf(1)), float32(math.Inf(-1))
		for _, p := range part {
			v := b.coordinates[int(p.id)*mostAxes+a]
			low, high = min(low, v), max(high, v)
		}
		ix.low[slot], ix.high[slot] = low, high
	}

	widest := 0.0
	for j := range lo {
		widest = max(widest, float64(hi[j])-float64(lo[j]))
	}
	l := leaf{start: int32(start), count: int32(len(part)), step: 1, inverse: 1}
	if widest > 1e-30 { // below, the box alone says all
		l.step = widest / levels
		l.inverse = float32(1 / l.step)
	}
	worst := 0.0
	for i, p := range part {
		position := start + i
		block := ix.packed[position/16*16*ix.groups*4:]
		var norm int32
		e := 0.0
		for j, v := range b.points.Row(int(p.id)) {
			t := (float64(v) - float64(lo[j])) / l.step
			c := min(math.RoundToEven(t), levels)
			e += (t - c) * (t - c)
			norm += int32(c) * int32(c)
			block[j/4*64+position%16*4+j%4] = int8(int(c) - levelMid)
		}
		for j := ix.dim; j < ix.groups*4; j++ {
			block[j/4*64+position%16*4+j%4] = -levelMid // ĉ = 0, as q̂ is
		}
		ix.norms[position] = norm
		worst = max(worst, e)
	}
	l.err = l.step * math.Sqrt(worst) * (1 + 1e-9)
	ix.leaves[number] = l
}

// selectNth orders part so that element n is the one a sort would put there,
// with nothing greater before it and nothing less after it.
func selectNth(part []keyed, n int) {
	for rounds := 0; len(part) > 16; rounds++ {
		if rounds > 64 {
			break // pivots keep failing: sort what is left
		}
		pivot := medianOfThree(part[0], part[len(part)/2], part[len(part)-1])
		i, j := 0, len(part)-1
		for i <= j {
			for part[i].compare(pivot) < 0 {
				i++
			}
			for part[j].compare(pivot) > 0 {
				j--
			}
			if i <= j {
				part[i], part[j] = part[j], part[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			part = part[:j+1]
		case n >= i:
			part, n = part[i:], n-i
		default:
			return
		}
	}
	slices.SortFunc(part, keyed.compare)
}

func medianOfThree(a, b, c keyed) keyed {
	if a.compare(b) > 0 {
		a, b = b, a
	}
	if b.compare(c) > 0 {
		b = c
	}
	if a.compare(b) > 0 {
		return a
	}
	return b
}
