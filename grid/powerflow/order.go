package powerflow

import (
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
)

// minimumDegree orders the vertices of a graph so that their elimination adds few edges: always the vertex with the
// fewest remaining neighbours, ties by number (W. F. Tinney, J. W. Walker, Proc. IEEE 55(11), 1967, scheme 2). It
// returns the order and, for each step, the vertex's remaining neighbours. adjacency has no loops and no doubles; it
// is consumed.
func minimumDegree(adjacency [][]int32) (order []int32, eliminated [][]int32) {
	n := len(adjacency)
	order, eliminated = make([]int32, 0, n), make([][]int32, 0, n)
	// A vertex is in the list of its degree; stale entries are skipped.
	byDegree := make([][]int32, n+1)
	removed := make([]bool, n)
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
		end := len(byDegree[d]) - 1
		v := byDegree[d][end]
		byDegree[d] = byDegree[d][:end]
		if removed[v] || len(adjacency[v]) != d {
			continue
		}
		removed[v] = true
		order = append(order, v)
		neighbours := adjacency[v]
		eliminated = append(eliminated, neighbours)
		for _, w := range neighbours {
			union = elimination.Union(union[:0], adjacency[w], neighbours, v, w)
			adjacency[w] = append(adjacency[w][:0:0], union...)
			byDegree[len(union)] = append(byDegree[len(union)], w)
			d = min(d, len(union))
		}
		adjacency[v] = nil
	}
	return order, eliminated
}
