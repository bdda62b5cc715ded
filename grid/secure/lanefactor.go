package secure

import (
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/internal/simd/dense"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// laneFactor factors the states after outages in lanes of vectors, one state a lane. It is a block LDLᵀ with 4×4
// pivots in a fixed order. Pivots are not chosen by size. interior compares the inertia with the wanted one and
// refines directions. Where either fails, package multifrontal factors again with pivots chosen by size.
//
// A pivot pairs variables with multipliers so that it is not singular: (θ, λ_P) and (V, λ_Q) at a bus without units;
// (V, drop) and (y, λ_Q), then (θ, λ_P), at a bus with units; (Δ, λ_P of the part's reference) last. In the base state
// these are (θ, λ_P), with (V, λ_Q) or (Q, λ_Q), and a unit's power with λ_P of the reference. The remaining
// set-points form the border. With the right inertia their Schur complement is positive definite; package dense
// factors it.
type laneFactor struct {
	*cells
	compiled *lanes.Compiled
	groups   sync.Pool // of *laneGroup, whose cells are large
}

// cells says in which cells of the lanes everything is.
type cells struct {
	layout          *layout
	entry           []placed    // entries of the matrix outside the border
	between         []between   // entries within the border
	variable        []lanes.Ref // by variable: right-hand side
	solution        []lanes.Ref // by variable
	diagonal        []lanes.Ref // by variable
	fill            lanes.Col   // unused diagonal cells
	negative        lanes.Ref
	one             lanes.Ref
	borderVariables []int
	tiles           []tile    // of the border's Schur complement
	tile            lanes.Ref // first cell of the blocks of a tile
}

// placed is an entry of the matrix and its cell.
type placed struct {
	entry int32
	cell  lanes.Ref
}

// between is an entry of the matrix with both variables in the border, and its place in the packed lower triangle.
type between struct{ entry, place int32 }

// nodesAfter groups the variables of a state after an outage into pivots.
func (s *system) nodesAfter(reference int) (list [][]int, border int) {
	l := s.after
	slack := l.bus[reference] + activeDualOffset
	for b, bus := range l.bus {
		active := except(slack, bus+activeDualOffset)
		if i := s.genBusIndex[b]; i >= 0 {
			list = append(list, []int{bus + magnitudeOffset, l.drop[i], l.reactive[i], bus + reactiveDualOffset}, []int{bus + angleOffset, active})
		} else {
			list = append(list, []int{bus + angleOffset, active, bus + magnitudeOffset, bus + reactiveDualOffset})
		}
	}
	list = append(list, []int{l.delta, slack})
	var set []int
	for v := l.variables - len(l.setPoints); v < l.variables; v++ {
		set = append(set, v)
	}
	return withBorder(list, set)
}

// withBorder appends the border's variables in nodes of four and counts these nodes.
func withBorder(list [][]int, set []int) (all [][]int, border int) {
	for four := range slices.Chunk(set, 4) {
		list = append(list, four)
		border++
	}
	return list, border
}

// nodesBefore groups the variables of the base state into pivots.
func (s *system) nodesBefore() (list [][]int, border int) {
	l, n := s.base, s.net
	paired, terminals := map[int]bool{}, n.Terminals() // units whose power is paired with the balance of a reference
	var pairs []int                                    // that of the first reference last
	isReference := make([]bool, n.Buses())
	for _, r := range s.references {
		balance := -1
		for g, k := range s.setP {
			if k >= 0 && !terminals[g] && !paired[g] && s.islands[n.GenBus[g]] == s.islands[r] && (balance < 0 || n.GenBus[g] == r && n.GenBus[balance] != r) {
				balance = g
			}
		}
		power := -1
		if balance >= 0 {
			power, paired[balance] = l.setPoints[s.setP[balance]], true
		}
		pairs, isReference[r] = append([]int{power, l.bus[r] + activeDualOffset}, pairs...), true
	}
	pivot := slices.Repeat([]int{-1}, len(s.genBuses)) // the group whose Q is paired with the balance
	for k, y := range s.groups {
		if !y.fixed() && pivot[y.place] < 0 {
			pivot[y.place] = k
		} else {
			list = append(list, []int{l.reactive[k]})
		}
	}
	for _, v := range l.level {
		list = append(list, []int{v})
	}
	for b, bus := range l.bus {
		second, i := bus+magnitudeOffset, s.genBusIndex[b]
		if i >= 0 && pivot[i] >= 0 {
			second = l.reactive[pivot[i]]
		}
		active := bus + activeDualOffset
		if isReference[b] {
			active = -1
		}
		list = append(list, []int{bus + angleOffset, active, second, bus + reactiveDualOffset})
	}
	var set []int // variables of a bus are adjacent: a column with one of them has all
	for i, b := range s.genBuses {
		if pivot[i] >= 0 {
			set = append(set, l.bus[b]+magnitudeOffset)
		}
		for _, g := range s.units[i] {
			if k := s.setP[g]; k >= 0 && !paired[g] {
				set = append(set, l.setPoints[k])
			}
		}
	}
	for four := range slices.Chunk(pairs, 4) {
		list = append(list, four)
	}
	return withBorder(list, set)
}

// except returns v, or −1 where another node has it.
func except(elsewhere, v int) int {
	if v == elsewhere {
		return -1
	}
	return v
}

const (
	programFactor = iota
	programForward
	programBackward
	programClean
	programTiles // the first of the tiles' programs
)

// newLaneFactor writes the programs for a layout. list has the variables of each node, four at most, −1 for none.
// The last border nodes are not eliminated; the node before them is eliminated last. width states run at once. The
// result is nil where lanes have too few cells.
func newLaneFactor(l *layout, list [][]int, border int, level isa.Level, width int) *laneFactor {
	nodes := len(list)
	eliminated := nodes - border
	var places lanes.Layout
	f := &cells{layout: l, borderVariables: slices.Concat(list[eliminated:]...), negative: places.New(1)[0], one: places.New(1)[0]}
	zero := places.New(1)
	c := newColumns(l, list, eliminated)
	c.allocate(&places, eliminated)
	f.placeEntries(c)
	rhs, solution := places.New(4*nodes), places.New(4*nodes)
	f.placeVariables(c, rhs, solution)

	factor, clean := lanes.NewBuilder(&places), lanes.NewBuilder(&places)
	forward, backward := lanes.NewBuilder(&places), lanes.NewBuilder(&places)
	f.tile = places.Blocks(tileNodes * tileNodes)[0]
	var programs []*lanes.Program
	f.tiles, programs = c.tiles(c.eliminate(factor, f.negative), &places, f.tile)
	c.substitute(forward, backward, rhs, solution)
	var clears lanes.Col
	for _, first := range slices.Concat(c.diagonal, slices.Concat(c.w...)) {
		for i := range lanes.Ref(lanes.BlockCells) {
			clears = append(clears, first+i)
		}
	}
	clean.Copy(clears, zero)
	clean.Copy(append(slices.Clone(rhs), solution...), zero) // unused cells must not keep a NaN
	clean.Copy(f.fill, lanes.Col{f.one})
	clean.Copy(lanes.Col{f.negative}, zero)
	programs = append([]*lanes.Program{factor.Program(), forward.Program(), backward.Program(), clean.Program()}, programs...)
	compiled, err := lanes.Compile(level, width, programs...)
	if err != nil {
		return nil
	}
	return f.withPrograms(compiled)
}

// placeEntries gives each entry of the matrix its cell, or its place in the border.
func (f *cells) placeEntries(c *columns) {
	number := slices.Repeat([]int{-1}, f.layout.variables)
	for k, v := range f.borderVariables {
		number[v] = k
	}
	for e, i := range f.layout.row {
		j := f.layout.col[e]
		a, b := number[i], number[j]
		if a < 0 || b < 0 {
			f.entry = append(f.entry, placed{int32(e), c.cell(int(i), int(j))})
			continue
		}
		first := min(a, b)
		f.between = append(f.between, between{int32(e), int32(f.column(first) + max(a, b) - first)})
	}
}

// placeVariables gives each variable its cells of the vectors and of the diagonal.
func (f *cells) placeVariables(c *columns, rhs, solution lanes.Col) {
	diagonal := func(k int) lanes.Ref { return c.diagonal[k/4] + lanes.Ref(5*(k%4)) }
	used := make([]bool, len(rhs))
	for v := range f.layout.variables {
		k := 4*c.position[v] + c.place[v]
		used[k] = true
		f.variable, f.solution = append(f.variable, rhs[k]), append(f.solution, solution[k])
		cell := f.one // not read: no variable of the border is omitted
		if k/4 < len(c.diagonal) {
			cell = diagonal(k)
		}
		f.diagonal = append(f.diagonal, cell)
	}
	for k, u := range used[:4*len(c.diagonal)] {
		if !u {
			f.fill = append(f.fill, diagonal(k))
		}
	}
}

// column is the offset of a column in the packed lower triangle of the border.
func (c *cells) column(k int) int { return k*len(c.borderVariables) - k*(k-1)/2 }

// withPrograms returns a factorisation with these programs.
func (c *cells) withPrograms(compiled *lanes.Compiled) *laneFactor {
	f := &laneFactor{cells: c, compiled: compiled}
	f.groups.New = func() any { return &laneGroup{f: f, m: lanes.NewMachine(compiled)} }
	return f
}

// forLanes is the same factorisation for another, smaller width.
func (f *laneFactor) forLanes(level isa.Level, width int) *laneFactor {
	compiled, err := f.compiled.For(level, width)
	if err != nil {
		return nil
	}
	return f.withPrograms(compiled)
}

// laneGroup runs several states in the lanes of one machine.
type laneGroup struct {
	f           *laneFactor
	m           *lanes.Machine
	states      []*state
	vectorLists [][]float64 // reused by vectors
	schur       []float64   // of the border, summed over the states: packed lower triangle
	// The base state's border: its factorisation and right-hand side.
	dense *dense.LDL
	x     []float64
}

// group takes a lane group from the pool. The caller releases it.
func (f *laneFactor) group() *laneGroup { return f.groups.Get().(*laneGroup) }

func (g *laneGroup) release() {
	clear(g.vectorLists[:cap(g.vectorLists)])
	g.states = nil
	g.f.groups.Put(g)
}

// factorInterior factors the matrices with these entries, without their borders.
func (g *laneGroup) factorInterior(values func(t *state) []float64) {
	f := g.f
	g.m.SetAll(f.one, 1)
	g.m.Run(programClean)
	vectors := g.vectors(values)
	for _, p := range f.entry {
		to := g.m.Cell(p.cell)
		for lane, entries := range vectors {
			to[lane] = entries[p.entry]
		}
	}
	for lane, t := range g.states {
		for v, omitted := range t.omit {
			if omitted {
				g.m.Set(f.diagonal[v], lane, 1)
			}
		}
	}
	g.m.Run(programFactor)
	for lane, t := range g.states {
		t.negative, t.zeros = int(g.m.Get(f.negative, lane)), 0
	}
}

// vectors lists a vector of each state.
func (g *laneGroup) vectors(vector func(t *state) []float64) [][]float64 {
	g.vectorLists = g.vectorLists[:0]
	for _, t := range g.states {
		g.vectorLists = append(g.vectorLists, vector(t))
	}
	return g.vectorLists
}

// factorBorder factors the Schur complement of the base state, after factorInterior.
func (g *laneGroup) factorBorder() {
	if g.dense == nil {
		g.dense, g.x = dense.NewLDL(len(g.f.borderVariables)), make([]float64, len(g.f.borderVariables))
	}
	g.complement(func(t *state) []float64 { return t.condensed })
	for k := range g.f.borderVariables {
		copy(g.dense.Row(k), g.schur[g.f.column(k):])
	}
	g.states[0].negative += g.dense.Factor()
}

// solveBorder solves for the border's part of the vector, after forward.
func (g *laneGroup) solveBorder(vector func(t *state) []float64) {
	x := vector(g.states[0])
	for k, v := range g.f.borderVariables {
		g.x[k] = x[v]
	}
	g.dense.Solve(g.x)
	for k, v := range g.f.borderVariables {
		x[v] = g.x[k]
	}
}

// complement computes the border's Schur complement from the same entries, after factorInterior.
func (g *laneGroup) complement(values func(t *state) []float64) {
	f, n := g.f, len(g.f.borderVariables)
	if g.schur == nil {
		g.schur = make([]float64, n*(n+1)/2)
	}
	clear(g.schur)
	for _, entries := range g.vectors(values) {
		for _, e := range f.between {
			g.schur[e.place] += entries[e.entry]
		}
	}
	for k, t := range f.tiles {
		g.m.Run(programTiles + k)
		for _, block := range t.blocks {
			cells := g.m.Cells(blockOfTile(f.tile, block[0], block[1]), lanes.BlockCells)
			g.gather(4*(t.row+block[0]), 4*(t.column+block[1]), cells)
			clear(cells)
		}
	}
}

// gather adds a block of the Schur complement, summed over the lanes.
func (g *laneGroup) gather(row, column int, cells []float64) {
	n, width, states := len(g.f.borderVariables), len(cells)/lanes.BlockCells, len(g.states)
	for c := range min(4, n-column) {
		offset := g.f.column(column+c) - (column + c)
		to := g.schur[offset+row : offset+min(row+4, n)]
		for r := max(0, column+c-row); r < len(to); r++ {
			v := cells[(4*r+c)*width:][:states]
			sum := to[r]
			for len(v) >= 4 {
				sum += v[0] + v[1] + (v[2] + v[3])
				v = v[4:]
			}
			for _, x := range v {
				sum += x
			}
			to[r] = sum
		}
	}
}

// factor factors the matrices of states after outages.
func (g *laneGroup) factor() { g.factorInterior(func(t *state) []float64 { return t.values }) }

// complements computes the sum of their Schur complements.
func (g *laneGroup) complements() { g.complement(func(t *state) []float64 { return t.values }) }

// addSchur adds that sum to the entries of the base state.
func (g *laneGroup) addSchur(to []float64) {
	for k, entry := range g.f.layout.schurEntries {
		to[entry] += g.schur[k]
	}
}

// forward is the forward substitution of multifrontal.Factor for all states of the group.
func (g *laneGroup) forward(vector func(t *state) []float64) {
	vectors := g.vectors(vector)
	for lane, t := range g.states {
		x := vectors[lane]
		for v, omitted := range t.omit {
			if omitted {
				x[v] = 0
			}
		}
	}
	for v, cell := range g.f.variable {
		to := g.m.Cell(cell)
		for lane, x := range vectors {
			to[lane] = x[v]
		}
	}
	g.m.Run(programForward)
	for _, v := range g.f.borderVariables {
		from := g.m.Cell(g.f.variable[v])
		for lane, x := range vectors {
			x[v] = from[lane]
		}
	}
}

// backward is the backward substitution, after forward and with the border solved.
func (g *laneGroup) backward(vector func(t *state) []float64) {
	vectors := g.vectors(vector)
	for _, v := range g.f.borderVariables {
		to := g.m.Cell(g.f.solution[v])
		for lane, x := range vectors {
			to[lane] = x[v]
		}
	}
	g.m.Run(programBackward)
	for v, cell := range g.f.solution {
		from := g.m.Cell(cell)
		for lane, x := range vectors {
			x[v] = from[lane]
		}
	}
}
