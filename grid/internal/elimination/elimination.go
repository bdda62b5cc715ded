// Package elimination orders the variables of sparse symmetric matrices.
//
// The central type is Order, which MinimumDegree finds.
package elimination

import (
	"math"
	"slices"
)

// Order is an order of buses with little fill in the block LDLᵀ of a matrix with the network's sparsity, and the
// pattern of its factor.
type Order struct {
	Order    []int // Order[k] is the bus eliminated k-th
	Position []int // Position[Order[k]] = k
	// Below[k] lists the positions of the blocks below the diagonal in column k of the
	// factor, ascending.
	Below [][]int
}

// MinimumDegree orders n buses connected by edges by minimum degree. It eliminates the bus with the fewest remaining
// neighbours, the lowest number first among equals, and connects its neighbours to one another. The buses in final
// go last, in that order.
func MinimumDegree(n int, edges [][2]int, final []int) Order {
	adjacent := make([][]int32, n)
	for _, e := range edges {
		if i, j := int32(e[0]), int32(e[1]); i != j {
			adjacent[i], adjacent[j] = append(adjacent[i], j), append(adjacent[j], i)
		}
	}
	isFinal := make([]bool, n)
	for _, i := range final {
		isFinal[i] = true
	}
	// The queue has a bus once for each of its degrees; the last entry is valid.
	var next queue
	for i, list := range adjacent {
		slices.Sort(list)
		adjacent[i] = slices.Compact(list)
		if !isFinal[i] {
			next.push(entry(len(adjacent[i]), i))
		}
	}
	e := Order{Position: make([]int, n)}
	eliminated := make([]bool, n)
	columns := make([][]int32, 0, n) // by bus numbers
	var union []int32
	eliminate := func(i int32) {
		e.Position[i] = len(e.Order)
		e.Order = append(e.Order, int(i))
		eliminated[i] = true
		column := adjacent[i]
		for _, j := range column {
			union = Union(union[:0], adjacent[j], column, i, j)
			adjacent[j] = append(adjacent[j][:0], union...)
			if !isFinal[j] {
				next.push(entry(len(union), int(j)))
			}
		}
		columns = append(columns, column)
		adjacent[i] = nil
	}
	for len(next) > 0 {
		degree, i := next.pop()
		if !eliminated[i] && len(adjacent[i]) == degree {
			eliminate(int32(i))
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

// Union appends the union of the ascending lists a and b, without i and j, to list.
func Union(list, a, b []int32, i, j int32) []int32 {
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

// queue is a heap of buses by degree, then by number.
type queue []uint64

func entry(degree, bus int) uint64 { return uint64(degree)<<32 | uint64(bus) }

func (q *queue) push(x uint64) {
	h := append(*q, x)
	i := len(h) - 1
	for i > 0 && h[(i-1)/2] > x {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = x
	*q = h
}

func (q *queue) pop() (degree, bus int) {
	h := *q
	top, x := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if child >= len(h) || h[child] >= x {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = x
	}
	return int(top >> 32), int(top & math.MaxUint32)
}
