// Package elimination orders the variables of sparse symmetric matrices.
//
// The central type is Order, which MinimumDegree finds.
package elimination

import "slices"

// Order is an order of the buses in which the block LDLᵀ of a matrix with
// the network's sparsity fills in little, and the pattern of its factor.
type Order struct {
	Order []int // Order[k] is the bus eliminated k-th
	Place []int // Place[Order[k]] = k
	// Below[k] lists the places of the blocks below the diagonal in column k of the
	// factor, ascending.
	Below [][]int
}

// MinimumDegree orders n buses joined by edges by minimum degree: each time one with
// the fewest neighbours left goes, the lowest number first among equals, and its
// neighbours become neighbours of one another. The buses in last go last, in
// that order.
func MinimumDegree(n int, edges [][2]int, last []int) Order {
	adjacent := make([]map[int]bool, n)
	for i := range adjacent {
		adjacent[i] = map[int]bool{}
	}
	for _, e := range edges {
		if e[0] != e[1] {
			adjacent[e[0]][e[1]], adjacent[e[1]][e[0]] = true, true
		}
	}
	held := make([]bool, n)
	for _, i := range last {
		held[i] = true
	}
	e := Order{Place: make([]int, n)}
	gone := make([]bool, n)
	var columns [][]int // by bus numbers
	take := func(i int) {
		e.Place[i] = len(e.Order)
		e.Order = append(e.Order, i)
		gone[i] = true
		column := make([]int, 0, len(adjacent[i]))
		for j := range adjacent[i] {
			column = append(column, j)
		}
		slices.Sort(column)
		for a, j := range column {
			delete(adjacent[j], i)
			for _, k := range column[a+1:] {
				adjacent[j][k], adjacent[k][j] = true, true
			}
		}
		columns = append(columns, column)
	}
	for range n - len(last) {
		best := -1
		for i := range n {
			if !gone[i] && !held[i] && (best < 0 || len(adjacent[i]) < len(adjacent[best])) {
				best = i
			}
		}
		take(best)
	}
	for _, i := range last {
		take(i)
	}
	for _, column := range columns {
		places := make([]int, len(column))
		for a, j := range column {
			places[a] = e.Place[j]
		}
		slices.Sort(places)
		e.Below = append(e.Below, places)
	}
	return e
}
