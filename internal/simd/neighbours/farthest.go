package neighbours

import "math"

// spreadLeaves is how many leaves one goroutine measures faster than several.
const spreadLeaves = 64

// Farthest is farthest-first traversal (Gonzalez 1985; its radius is at most twice
// the best possible): each next centre is the point farthest from those before, of
// equally far ones that of the lowest number. It starts from point 0 and ends early
// when every point coincides with a centre. A leaf none of whose points can be nearer
// to a new centre than to an earlier one is not measured.
func (ix *Index) Farthest(count int) []int32 {
	type worst struct {
		distance2 float32
		position  int32
	}
	positions, distance2 := make([]int32, ix.n), make([]float32, ix.n)
	for p := range positions {
		positions[p], distance2[p] = int32(p), float32(math.Inf(1))
	}
	leaves := make([]worst, len(ix.leaves))
	for l := range leaves {
		leaves[l].distance2 = float32(math.Inf(1))
	}
	bounds := make([]float32, roundUp(len(ix.leaves), lanes))
	order := make([]int32, 0, len(ix.leaves))
	var centre []float32
	var projected [mostAxes]float32
	measure := func(_, chunk int) {
		var distances [LeafSize]float32
		for _, number := range order[chunk*spreadLeaves : min((chunk+1)*spreadLeaves, len(order))] {
			l := &ix.leaves[number]
			ix.kernel.distances(&centre[0], &ix.rows[0], ix.stride/lanes, &positions[l.start], int(l.count), &distances[0])
			w := worst{-1, 0}
			for i, least := range distance2[l.start : l.start+l.count] {
				least = min(least, distances[i])
				distance2[int(l.start)+i] = least
				// Points of a leaf ascend in number.
				if least > w.distance2 {
					w = worst{least, l.start + int32(i)}
				}
			}
			leaves[number] = w
		}
	}
	selected := make([]int32, 0, count)
	for next := ix.position[0]; len(selected) < count; {
		selected = append(selected, ix.ids[next])
		centre = ix.rows[int(next)*ix.stride:][:ix.dim]
		slack := ix.bound(centre, &projected, bounds)
		order = order[:0]
		for l, b := range bounds[:len(leaves)] {
			if b <= ix.reach(leaves[l].distance2, slack) {
				order = append(order, int32(l))
			}
		}
		if chunks := (len(order) + spreadLeaves - 1) / spreadLeaves; chunks > 1 {
			ix.runner.Run(chunks, measure)
		} else {
			measure(0, 0)
		}
		w := leaves[0]
		for _, o := range leaves[1:] {
			if o.distance2 > w.distance2 || o.distance2 == w.distance2 && ix.ids[o.position] < ix.ids[w.position] {
				w = o
			}
		}
		if w.distance2 == 0 {
			break
		}
		next = w.position
	}
	return selected
}
