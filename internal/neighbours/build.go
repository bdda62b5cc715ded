package neighbours

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

const (
	// directionSample bounds the points from which a node's direction is
	// estimated, and directionRounds the power iterations: any direction is
	// correct, a good one prunes better.
	directionSample = 512
	directionRounds = 6
	// ballRounds are the Bădoiu–Clarkson steps from the mean towards the centre
	// of the smallest enclosing ball.
	ballRounds = 32
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

func (ix *Index) build(points tensor.Matrix) {
	b := builder{ix: ix, points: points, order: make([]keyed, ix.n)}
	for i := range b.order {
		b.order[i].id = int32(i)
	}
	leaves := (ix.n + LeafSize - 1) / LeafSize
	padded := roundUp(ix.n, blockSize)
	ix.rows = make([]float32, padded*ix.stride)
	ix.ids = make([]int32, padded)
	ix.packed = make([]int8, padded*ix.groups*4)
	ix.norms = make([]int32, padded)
	ix.position = make([]int32, ix.n)
	ix.leaves = make([]leaf, 0, leaves)
	ix.lo = make([]float32, leaves*ix.stride)
	ix.hi = make([]float32, leaves*ix.stride)
	ix.centres = make([]float32, roundUp(leaves, lanes)*ix.dim)
	ix.radii = make([]float32, roundUp(leaves, lanes))
	ix.nodes = make([]node, 0, leaves-1)
	ix.directions = make([]float32, 0, (leaves-1)*ix.stride)
	for p := ix.n; p < padded; p++ {
		ix.ids[p] = -1
		ix.norms[p] = padNorm
	}
	b.mean = make([]float64, ix.dim)
	b.axis = make([]float64, ix.dim)
	b.next = make([]float64, ix.dim)
	b.split(0, ix.n)
	ix.batch.init(ix)
}

type builder struct {
	ix               *Index
	points           tensor.Matrix
	order            []keyed
	mean, axis, next []float64
}

// split makes the subtree over order[from:to] and returns it as a node's child.
// The left part holds a whole number of leaves, so that only the last leaf of
// the index is not full.
func (b *builder) split(from, to int) int32 {
	ix := b.ix
	leaves := (to - from + LeafSize - 1) / LeafSize
	if leaves <= 1 {
		b.leaf(from, to)
		return ^int32(len(ix.leaves) - 1)
	}
	b.direction(from, to)
	me := len(ix.nodes)
	ix.nodes = append(ix.nodes, node{})
	d := len(ix.directions)
	ix.directions = append(ix.directions, make([]float32, ix.stride)...)
	tensor.Narrow(ix.directions[d:], b.axis)
	direction := ix.directions[d : d+ix.dim]
	part := b.order[from:to]
	for i := range part {
		part[i].key = dot(direction, b.points.Row(int(part[i].id)))
	}
	half := leaves / 2 * LeafSize
	selectNth(part, half)
	threshold := part[half].key
	left := b.split(from, from+half)
	right := b.split(from+half, to)
	ix.nodes[me] = node{threshold: threshold, left: left, right: right}
	return int32(me)
}

// direction estimates the axis of largest variance of order[from:to] into
// b.axis by power iteration on an evenly spaced sample, from the coordinate of
// largest variance.
func (b *builder) direction(from, to int) {
	step := max(1, (to-from)/directionSample)
	count := 0.0
	clear(b.mean)
	for i := from; i < to; i += step {
		for j, v := range b.points.Row(int(b.order[i].id)) {
			b.mean[j] += float64(v)
		}
		count++
	}
	for j := range b.mean {
		b.mean[j] /= count
	}
	clear(b.next)
	for i := from; i < to; i += step {
		for j, v := range b.points.Row(int(b.order[i].id)) {
			d := float64(v) - b.mean[j]
			b.next[j] += d * d
		}
	}
	widest := 0
	for j, v := range b.next {
		if v > b.next[widest] {
			widest = j
		}
	}
	clear(b.axis)
	b.axis[widest] = 1
	for range directionRounds {
		clear(b.next)
		for i := from; i < to; i += step {
			row := b.points.Row(int(b.order[i].id))
			s := 0.0
			for j, v := range row {
				s += (float64(v) - b.mean[j]) * b.axis[j]
			}
			for j, v := range row {
				b.next[j] += s * (float64(v) - b.mean[j])
			}
		}
		norm := 0.0
		for _, v := range b.next {
			norm += v * v
		}
		norm = math.Sqrt(norm)
		if !(norm > 0) || math.IsInf(norm, 0) {
			return // no spread left: the axis of before serves
		}
		for j, v := range b.next {
			b.axis[j] = v / norm
		}
	}
}

// leaf stores order[from:to] as the next leaf.
func (b *builder) leaf(from, to int) {
	ix := b.ix
	number := len(ix.leaves)
	part := b.order[from:to]
	slices.SortFunc(part, func(a, c keyed) int { return cmp.Compare(a.id, c.id) })
	lo := ix.lo[number*ix.stride:][:ix.dim]
	hi := ix.hi[number*ix.stride:][:ix.dim]
	for i, p := range part {
		row := b.points.Row(int(p.id))
		ix.ids[from+i] = p.id
		ix.position[p.id] = int32(from + i)
		copy(ix.rows[(from+i)*ix.stride:], row)
		for j, v := range row {
			if i == 0 {
				lo[j], hi[j] = v, v
			}
			lo[j], hi[j] = min(lo[j], v), max(hi[j], v)
		}
	}
	b.ball(number, part)

	widest := 0.0
	for j := range lo {
		widest = max(widest, float64(hi[j])-float64(lo[j]))
	}
	l := leaf{start: int32(from), count: int32(to - from), step: 1, inverse: 1}
	if widest > 1e-30 { // below, the box alone says all
		l.step = widest / levels
		l.inverse = float32(1 / l.step)
	}
	worst := 0.0
	for i, p := range part {
		position := from + i
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
	ix.leaves = append(ix.leaves, l)
}

// ball stores an enclosing ball of the leaf's points: the mean moved towards
// the farthest point in shrinking steps, which tends to the smallest ball.
func (b *builder) ball(number int, part []keyed) {
	ix := b.ix
	clear(b.mean)
	for _, p := range part {
		for j, v := range b.points.Row(int(p.id)) {
			b.mean[j] += float64(v) / float64(len(part))
		}
	}
	centre := make([]float32, ix.dim)
	best := math.Inf(1)
	for round := range ballRounds {
		tensor.Narrow(centre, b.mean)
		far, radius2 := 0, -1.0
		for i, p := range part {
			s := 0.0
			for j, v := range b.points.Row(int(p.id)) {
				d := float64(v) - float64(centre[j])
				s += d * d
			}
			if s > radius2 {
				far, radius2 = i, s
			}
		}
		if radius := math.Sqrt(radius2) * (1 + 1e-9); radius < best {
			best = radius
			at := ix.centres[number/lanes*lanes*ix.dim+number%lanes:]
			for j, v := range centre {
				at[j*lanes] = v
			}
			ix.radii[number] = math.Nextafter32(float32(radius), math.MaxFloat32)
		}
		for j, v := range b.points.Row(int(part[far].id)) {
			b.mean[j] += (float64(v) - b.mean[j]) / float64(round+2)
		}
	}
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

func dot(a, b []float32) float32 {
	var s float32
	for j, v := range a {
		s += v * b[j]
	}
	return s
}
