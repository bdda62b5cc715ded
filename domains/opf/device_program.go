package opf

import "slices"

// devicePattern is the Jacobian of the power flow in scalars, as the device functions
// eliminate them: the unknowns are the angle of every bus but the reference and the
// voltage of every bus without a unit, bus by bus in the order of elimination of
// package powerflow, and the equation of P_i stands in the row of θ_i, that of Q_i in
// the row of V_i. Behind the factors lie the derivatives in the V_G.
type devicePattern struct {
	n                          int
	rowStart, column, diagonal []int32 // L and U together, columns ascending
	angle, size                []int   // row of θ_i and of V_i of each bus, −1: none
	values                     int     // factors and the columns of the V_G
	columns                    [][]columnEntry
	extra                      map[[2]int]int32 // row, unit → place behind the factors
	unit                       []int
}

// columnEntry is a derivative in a V_G: its equation's row and place.
type columnEntry struct{ row, at int32 }

func newDevicePattern(y *System) *devicePattern {
	n, m := y.Network, &y.model
	p := &devicePattern{
		angle: slices.Repeat([]int{-1}, n.Buses()), size: slices.Repeat([]int{-1}, n.Buses()),
		columns: make([][]columnEntry, n.Gens()), extra: map[[2]int]int32{}, unit: m.unit,
	}
	for _, b := range m.solver.Order() {
		p.angle[b] = p.n
		p.n++
		if m.unit[b] < 0 {
			p.size[b] = p.n
			p.n++
		}
	}
	coupled := make([]map[int]bool, p.n) // with later unknowns, the fill included
	for i := range coupled {
		coupled[i] = map[int]bool{}
	}
	join := func(a, b int) {
		for _, i := range [2]int{p.angle[a], p.size[a]} {
			for _, j := range [2]int{p.angle[b], p.size[b]} {
				if i >= 0 && j >= 0 && i != j {
					coupled[min(i, j)][max(i, j)] = true
				}
			}
		}
	}
	for b := range p.angle {
		join(b, b)
	}
	for k, f := range n.From {
		join(f, n.To[k])
	}
	rows := make([][]int32, p.n)
	for i, later := range coupled {
		for a := range later {
			for b := range later {
				if a < b {
					coupled[a][b] = true
				}
			}
			rows[i], rows[a] = append(rows[i], int32(a)), append(rows[a], int32(i))
		}
		rows[i] = append(rows[i], int32(i))
	}
	for i := range rows {
		slices.Sort(rows[i])
	}
	p.rowStart, p.column = lists(rows)
	for i, row := range rows {
		at, _ := slices.BinarySearch(row, int32(i))
		p.diagonal = append(p.diagonal, p.rowStart[i]+int32(at))
	}
	p.values = len(p.column)
	return p
}

// find is the place of entry (i, j), −1 outside the pattern.
func (p *devicePattern) find(i, j int) int32 {
	at, there := slices.BinarySearch(p.column[p.rowStart[i]:p.rowStart[i+1]], int32(j))
	if !there {
		return -1
	}
	return p.rowStart[i] + int32(at)
}

// position is the place of the derivative of P or Q of a bus in θ or V of another, −1
// where nobody reads it: the equation or the unknown is none.
func (p *devicePattern) position(bus int, reactive bool, other int, magnitude bool) int32 {
	row, column := p.angle[bus], p.angle[other]
	if reactive {
		row = p.size[bus]
	}
	if magnitude {
		column = p.size[other]
	}
	switch g := p.unit[other]; {
	case row < 0:
		return -1
	case column >= 0:
		return p.find(row, column)
	case magnitude && g >= 0:
		at, known := p.extra[[2]int{row, g}]
		if !known {
			at = int32(p.values)
			p.values++
			p.extra[[2]int{row, g}] = at
			p.columns[g] = append(p.columns[g], columnEntry{int32(row), at})
		}
		return at
	}
	return -1
}

// block are the places of ∂(P, Q) of a bus by (θ, V) of another.
func (p *devicePattern) block(bus, other int) []int32 {
	return []int32{p.position(bus, false, other, false), p.position(bus, false, other, true), p.position(bus, true, other, false), p.position(bus, true, other, true)}
}

// factorProgram is the LU factorisation of one pattern as lanes side by side run
// it. On a level stand the entries whose products are all of levels before; entry
// e of the list is at place entry[e] of the values and loses the products
// productStart[e] to productStart[e+1], in ascending order of the step, each two places in 16
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

func newFactorProgram(f *devicePattern) *factorProgram {
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
			p.transpose[at] = f.find(j, i)
			e, level := entry{at: at, of: above}, 0
			for l := f.rowStart[i]; int(f.column[l]) < min(i, j); l++ {
				u := f.find(int(f.column[l]), j)
				if u < 0 {
					continue
				}
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
