// Package elimination orders the variables of sparse symmetric matrices.
//
// The central type is Order, which MinimumDegree finds.
package elimination

import "slices"

// Order is an order of buses with little fill in the block LDLᵀ of a matrix with the network's sparsity, and the
// pattern of its factor.
type Order struct {
	Order    []int // Order[k] is the bus eliminated k-th
	Position []int // Position[Order[k]] = k
	// Below[k] lists the positions of the blocks below the diagonal in column k of the
	// factor, ascending.
	Below [][]int
}

// MinimumDegree orders n buses connected by edges so that their elimination adds few. Next is always the bus with the fewest
// remaining neighbours, of equals the one that came to that number last, first the lowest one (W. F. Tinney, J. W. Walker,
// Proc. IEEE 55(11), 1967, scheme 2). It connects its neighbours to one another. The buses in final go last, in that order.
func MinimumDegree(n int, edges [][2]int, final []int) Order {
	adjacent := make([][]int32, n)
	for _, e := range edges {
		if i, j := int32(e[0]), int32(e[1]); i != j {
			adjacent[i], adjacent[j] = append(adjacent[i], j), append(adjacent[j], i)
		}
	}
	isFinal, eliminated := make([]bool, n), make([]bool, n)
	for _, i := range final {
		isFinal[i] = true
	}
	// A bus is in the list of each of its degrees; the last one is valid.
	byDegree, lowest := make([][]int32, n), 0
	add := func(i int32) {
		if d := len(adjacent[i]); !isFinal[i] {
			byDegree[d] = append(byDegree[d], i)
			lowest = min(lowest, d)
		}
	}
	for i := n - 1; i >= 0; i-- {
		slices.Sort(adjacent[i])
		adjacent[i] = slices.Compact(adjacent[i])
		add(int32(i))
	}
	e := Order{Position: make([]int, n)}
	columns := make([][]int32, 0, n) // by bus numbers
	var merged []int32
	eliminate := func(i int32) {
		e.Position[i] = len(e.Order)
		e.Order = append(e.Order, int(i))
		eliminated[i] = true
		column := adjacent[i]
		for _, j := range column {
			merged = union(merged[:0], adjacent[j], column, i, j)
			adjacent[j] = append(adjacent[j][:0], merged...)
			add(j)
		}
		columns = append(columns, column)
		adjacent[i] = nil
	}
	for lowest < n {
		list := byDegree[lowest]
		if len(list) == 0 {
			lowest++
			continue
		}
		i := list[len(list)-1]
		byDegree[lowest] = list[:len(list)-1]
		if !eliminated[i] && len(adjacent[i]) == lowest {
			eliminate(i)
		}
	}
	for _, i := range final {
		eliminate(int32(i))
	}
	e.Below = make([][]int, n)
	for k, column := range columns {
		ordered := make([]int, len(column))
		for a, j := range column {
			ordered[a] = e.Position[j]
		}
		slices.Sort(ordered)
		e.Below[k] = ordered
	}
	return e
}

// union appends the union of the ascending lists a and b, without i and j, to list.
func union(list, a, b []int32, i, j int32) []int32 {
	for len(a) > 0 || len(b) > 0 {
		var x int32
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			x, a = a[0], a[1:]
		case len(a) == 0 || b[0] < a[0]:
			x, b = b[0], b[1:]
		default:
			x, a, b = a[0], a[1:], b[1:]
		}
		if x != i && x != j {
			list = append(list, x)
		}
	}
	return list
}
