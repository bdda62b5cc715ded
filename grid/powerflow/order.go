package powerflow

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
)

// minimumDegree orders the vertices of a graph so that eliminating them one by
// one, each time joining the neighbours of the eliminated one, adds few edges:
// always the vertex with the fewest neighbours left, ties by number (W. F.
// Tinney, J. W. Walker, Proc. IEEE 55(11), 1967, scheme 2). It returns the order
// and, for each step, the neighbours the vertex had left when it was eliminated.
// adjacency has no loops and no doubles; it is consumed.
func minimumDegree(adjacency [][]int32) (order []int32, left [][]int32) {
	n := len(adjacency)
	order, left = make([]int32, 0, n), make([][]int32, 0, n)
	// A vertex stands in the list of its degree; stale entries are skipped.
	byDegree := make([][]int32, n+1)
	done := make([]bool, n)
	for v := n - 1; v >= 0; v-- {
		slices.Sort(adjacency[v])
		d := len(adjacency[v])
		byDegree[d] = append(byDegree[d], int32(v))
	}
	var union []int32
	for d := 0; len(order) < n; {
		if len(byDegree[d]) == 0 {
			d++
			continue
		}
		last := len(byDegree[d]) - 1
		v := byDegree[d][last]
		byDegree[d] = byDegree[d][:last]
		if done[v] || len(adjacency[v]) != d {
			continue
		}
		done[v] = true
		order = append(order, v)
		near := adjacency[v]
		left = append(left, near)
		for _, w := range near {
			union = elimination.Union(union[:0], adjacency[w], near, v, w)
			adjacency[w] = append(adjacency[w][:0:0], union...)
			byDegree[len(union)] = append(byDegree[len(union)], w)
			d = min(d, len(union))
		}
		adjacency[v] = nil
	}
	return order, left
}
