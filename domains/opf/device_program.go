package opf

import "slices"

// factorProgram is the LU factorisation of one pattern as lanes side by side run
// it. On a level stand the entries whose products are all of levels before; entry
// e of the list is at place entry[e] of the values and loses the products
// productStart[e] to productStart[e+1], in the order of lu.go, each two places in 16
// bits. Below the diagonal it is then multiplied by the inverse of its column, on it
// it is inverted.
type factorProgram struct {
	level, entry, of      []int32
	productStart, product []int32
	// transpose is the place of (j, i) for every place (i, j).
	transpose []int32
	// Rows in levels of the triangular solves.
	solveStart, solveRow, backStart, backRow []int32
}

// above marks an entry above the diagonal in factorProgram.of, which else is the
// column of one below it, or −1 less the row of one on it; as in
// device_network.cuh.
const above = 1 << 30

func newFactorProgram(f *sparseLU) *factorProgram {
	p := &factorProgram{transpose: make([]int32, len(f.column))}
	type entry struct {
		at, of   int32
		products []int32
	}
	levelOf := make([]int, len(f.column))
	var levels [][]entry
	for i := range f.n {
		for at := f.rowStart[i]; at < f.rowStart[i+1]; at++ {
			j := int(f.column[at])
			p.transpose[at] = int32(f.at(j, i))
			e, level := entry{at: at, of: above}, 0
			for l := f.rowStart[i]; int(f.column[l]) < min(i, j); l++ {
				row := f.column[f.rowStart[f.column[l]]:f.rowStart[f.column[l]+1]]
				k, there := slices.BinarySearch(row, int32(j))
				if !there {
					continue
				}
				u := f.rowStart[f.column[l]] + int32(k)
				e.products = append(e.products, int32(uint32(l)|uint32(u)<<16))
				level = max(level, levelOf[l]+1, levelOf[u]+1)
			}
			switch {
			case j < i:
				e.of, level = int32(j), max(level, levelOf[f.diagonal[j]]+1)
			case j == i:
				e.of = int32(-1 - i)
			}
			levelOf[at] = level
			for len(levels) <= level {
				levels = append(levels, nil)
			}
			levels[level] = append(levels[level], e)
		}
	}
	for _, list := range levels {
		p.level = append(p.level, int32(len(p.entry)))
		// The longest first, so that the lanes of a round have about as much to do.
		slices.SortStableFunc(list, func(a, b entry) int { return len(b.products) - len(a.products) })
		for _, e := range list {
			p.entry, p.of = append(p.entry, e.at), append(p.of, e.of)
			p.productStart = append(p.productStart, int32(len(p.product)))
			p.product = append(p.product, e.products...)
		}
	}
	p.level, p.productStart = append(p.level, int32(len(p.entry))), append(p.productStart, int32(len(p.product)))

	forward, back := make([]int, f.n), make([]int, f.n)
	for i := range f.n {
		for e := f.rowStart[i]; e < f.diagonal[i]; e++ {
			forward[i] = max(forward[i], forward[f.column[e]]+1)
		}
	}
	for i := f.n - 1; i >= 0; i-- {
		for e := f.diagonal[i] + 1; e < f.rowStart[i+1]; e++ {
			back[i] = max(back[i], back[f.column[e]]+1)
		}
	}
	p.solveStart, p.solveRow = lists(byLevel(forward))
	p.backStart, p.backRow = lists(byLevel(back))
	return p
}

// byLevel lists the rows of every level.
func byLevel(level []int) [][]int32 {
	var rows [][]int32
	for i, l := range level {
		for len(rows) <= l {
			rows = append(rows, nil)
		}
		rows[l] = append(rows[l], int32(i))
	}
	return rows
}
