package opf

import "slices"

// sparseLU is the LU factorisation, without pivoting, of matrices of one
// structurally symmetric pattern. The pattern is analysed once: a minimum-degree
// order, the fill, and the list of every update. A numeric factorisation then
// runs through that list without searching.
type sparseLU struct {
	n        int
	order    []int   // order[i] is the unknown eliminated i-th
	place    []int   // its inverse
	rowStart []int32 // of the factor, L and U together, columns ascending
	column   []int32
	diagonal []int32
	target   []int32 // where each update of the numeric factorisation goes
}

// newSparseLU analyses the pattern of neighbours: entry (i, j) and (j, i) for
// every j of neighbours[i], and the diagonal.
func newSparseLU(neighbours [][]int) *sparseLU {
	n := len(neighbours)
	f := &sparseLU{n: n, order: make([]int, 0, n), place: make([]int, n)}
	graph := make([]map[int]bool, n)
	for i := range graph {
		graph[i] = map[int]bool{}
	}
	for i, list := range neighbours {
		for _, j := range list {
			if i != j {
				graph[i][j], graph[j][i] = true, true
			}
		}
	}
	upper := make([][]int, n) // by unknown: later unknowns it is coupled to
	done := make([]bool, n)
	for range n {
		next := -1
		for i := range n {
			if !done[i] && (next < 0 || len(graph[i]) < len(graph[next])) {
				next = i
			}
		}
		done[next] = true
		f.place[next] = len(f.order)
		f.order = append(f.order, next)
		for j := range graph[next] {
			upper[next] = append(upper[next], j)
			delete(graph[j], next)
		}
		slices.Sort(upper[next])
		for _, i := range upper[next] {
			for _, j := range upper[next] {
				if i != j {
					graph[i][j] = true
				}
			}
		}
	}
	rows := make([][]int32, n)
	for k, unknown := range f.order {
		rows[k] = append(rows[k], int32(k))
		for _, j := range upper[unknown] {
			later := f.place[j]
			rows[k] = append(rows[k], int32(later))
			rows[later] = append(rows[later], int32(k))
		}
	}
	f.rowStart, f.diagonal = make([]int32, n+1), make([]int32, n)
	for k, r := range rows {
		slices.Sort(r)
		f.column = append(f.column, r...)
		f.rowStart[k+1] = int32(len(f.column))
		at, _ := slices.BinarySearch(r, int32(k))
		f.diagonal[k] = f.rowStart[k] + int32(at)
	}
	for i := range n {
		for e := f.rowStart[i]; e < f.diagonal[i]; e++ {
			k := f.column[e]
			for u := f.diagonal[k] + 1; u < f.rowStart[k+1]; u++ {
				f.target = append(f.target, int32(f.at(i, int(f.column[u]))))
			}
		}
	}
	return f
}

// at is the position of entry (i, j) of the ordered matrix.
func (f *sparseLU) at(i, j int) int {
	row := f.column[f.rowStart[i]:f.rowStart[i+1]]
	k, ok := slices.BinarySearch(row, int32(j))
	if !ok {
		panic("opf: an entry outside the analysed pattern")
	}
	return int(f.rowStart[i]) + k
}

// position is that of the entry (row unknown i, column unknown j).
func (f *sparseLU) position(i, j int) int { return f.at(f.place[i], f.place[j]) }

// factor overwrites v, the matrix by position, with its factors, and inverse with
// 1/U_ii. It reports false at a pivot that is zero or not finite.
func (f *sparseLU) factor(v, inverse []float64) bool {
	next := 0
	target := f.target
	for i := range f.n {
		diagonal := f.diagonal[i]
		for e := f.rowStart[i]; e < diagonal; e++ {
			k := f.column[e]
			l := v[e] * inverse[k]
			v[e] = l
			source := v[f.diagonal[k]+1 : f.rowStart[k+1]]
			to := target[next:][:len(source)]
			for q, s := range source {
				v[to[q]] -= l * s
			}
			next += len(source)
		}
		p := v[diagonal]
		if p-p != 0 || p == 0 {
			return false
		}
		inverse[i] = 1 / p
	}
	return true
}

// solve replaces b, in elimination order, by the solution.
func (f *sparseLU) solve(v, inverse, b []float64) {
	for i := range f.n {
		sum := b[i]
		for e := f.rowStart[i]; e < f.diagonal[i]; e++ {
			sum -= v[e] * b[f.column[e]]
		}
		b[i] = sum
	}
	for i := f.n - 1; i >= 0; i-- {
		sum := b[i]
		for e := f.diagonal[i] + 1; e < f.rowStart[i+1]; e++ {
			sum -= v[e] * b[f.column[e]]
		}
		b[i] = sum * inverse[i]
	}
}

// solveTransposed replaces b, in elimination order, by the solution of the
// transposed system.
func (f *sparseLU) solveTransposed(v, inverse, b []float64) {
	for i := range f.n {
		x := b[i] * inverse[i]
		b[i] = x
		if x == 0 {
			continue
		}
		for e := f.diagonal[i] + 1; e < f.rowStart[i+1]; e++ {
			b[f.column[e]] -= v[e] * x
		}
	}
	for i := f.n - 1; i >= 0; i-- {
		x := b[i]
		if x == 0 {
			continue
		}
		for e := f.rowStart[i]; e < f.diagonal[i]; e++ {
			b[f.column[e]] -= v[e] * x
		}
	}
}
