package secure

import (
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
	"github.com/gpc-engine/gpc/internal/simd/dense"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// laneFactor factors the states after outages side by side, each in its lane of a vector: a block LDLᵀ with
// 4×4 pivots in an order fixed beforehand. It does not choose pivots by size; interior compares the inertia with
// the one wanted, corrects directions by their residual, and where either fails factors again with pivots chosen
// (package multifrontal).
//
// A pivot holds pairs of a variable and a multiplier that do not vanish together: (θ, λ_P) and (V, λ_Q) at a bus
// without units; (V, drop) and (y, λ_Q), then (θ, λ_P), at one with units; and (Δ, λ_P of the reference) before
// the border. Before any outage they are (θ, λ_P), with (V, λ_Q) or (Q, λ_Q), and a unit's power with λ_P of the
// reference; set-points that are left are the border, whose Schur complement is positive definite if the inertia is right:
// dense, it is factored by package dense.
type laneFactor struct {
	*cells
	compiled *lanes.Compiled
	groups   sync.Pool // of *laneGroup, whose cells are large
}

// cells say where the lanes have what.
type cells struct {
	layout   *layout
	entry    []placed    // entries of the matrix, but those between variables of the border
	between  []between   // these
	variable []lanes.Ref // by variable: right-hand side, then what Forward makes of the border
	solution []lanes.Ref // by variable
	diagonal []lanes.Ref // by variable
	fill     lanes.Col   // places in blocks without a variable
	negative lanes.Ref
	one      lanes.Ref
	set      []int     // variables of the border
	tiles    []tile    // of their Schur complement
	tile     lanes.Ref // where these have their blocks, one after the other
}

// placed is an entry of the matrix and its cell.
type placed struct {
	entry int32
	cell  lanes.Ref
}

// between is an entry of the matrix between variables of the border, and its place in the lower part by columns of these.
type between struct{ entry, place int32 }

// nodesAfter pairs the variables of a state after an outage.
func (s *system) nodesAfter() (list [][]int, border int) {
	l := s.after
	slack := l.bus[s.net.Slack] + ofActive
	for b, at := range l.bus {
		active := except(slack, at+ofActive)
		if i := s.at[b]; i >= 0 {
			list = append(list, []int{at + ofMagnitude, l.drop[i], l.reactive[i], at + ofReactive}, []int{at + ofAngle, active})
		} else {
			list = append(list, []int{at + ofAngle, active, at + ofMagnitude, at + ofReactive})
		}
	}
	list = append(list, []int{l.delta, slack})
	var set []int
	for v := l.variables - len(l.set); v < l.variables; v++ {
		set = append(set, v)
	}
	return withBorder(list, set)
}

// withBorder appends nodes of a border's variables, and says how many.
func withBorder(list [][]int, set []int) (all [][]int, border int) {
	for four := range slices.Chunk(set, 4) {
		list = append(list, four)
		border++
	}
	return list, border
}

// nodesBefore pairs those of the state before any outage.
func (s *system) nodesBefore() (list [][]int, border int) {
	l, n := s.base, s.net
	slack := l.bus[n.Slack] + ofActive
	balance := -1 // the unit whose power goes with the balance of the reference
	for g, k := range s.setP {
		if k >= 0 && (balance < 0 || n.GenBus[g] == n.Slack && n.GenBus[balance] != n.Slack) {
			balance = g
		}
	}
	for b, at := range l.bus {
		active, i := except(slack, at+ofActive), s.at[b]
		switch {
		case i < 0:
			list = append(list, []int{at + ofAngle, active, at + ofMagnitude, at + ofReactive})
		case s.qhi[i]-s.qlo[i] <= narrow: // Q is not there
			list = append(list, []int{at + ofAngle, active, at + ofMagnitude, at + ofReactive}, []int{l.reactive[i]})
		default:
			list = append(list, []int{at + ofAngle, active, l.reactive[i], at + ofReactive})
		}
	}
	pair := []int{-1, slack}
	var set []int // what a bus has stands together: a column that meets one of it meets all
	for i, b := range s.hold {
		if s.qhi[i]-s.qlo[i] > narrow {
			set = append(set, l.bus[b]+ofMagnitude)
		}
		for _, g := range s.units[i] {
			switch k := s.setP[g]; {
			case k < 0:
			case g == balance:
				pair[0] = l.set[k]
			default:
				set = append(set, l.set[k])
			}
		}
	}
	return withBorder(append(list, pair), set)
}

// except is a variable, or −1 where it is the one that stands elsewhere.
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
	programTiles // and those behind it
)

// newLaneFactor writes the programs for a layout whose variables stand in nodes of four at most, −1 for none.
// The border's nodes, the last ones, are not eliminated, and the one before them is the last that is. They run width states at
// once. It is nil where the programs need more cells than lanes have.
func newLaneFactor(l *layout, list [][]int, border int, level isa.Level, width int) *laneFactor {
	node, place := make([]int, l.variables), make([]int, l.variables)
	for k, variables := range list {
		for i, v := range variables {
			if v >= 0 {
				node[v], place[v] = k, i
			}
		}
	}
	nodes := len(list)
	inside := nodes - border
	var edges [][2]int
	for e, i := range l.row {
		edges = append(edges, [2]int{node[i], node[l.col[e]]})
	}
	var end []int
	for k := inside - 1; k < nodes; k++ {
		end = append(end, k)
	}
	order := elimination.MinimumDegree(nodes, edges, end)

	var places lanes.Layout
	f := &cells{layout: l, set: slices.Concat(list[inside:]...), negative: places.New(1)[0], one: places.New(1)[0]}
	zero := places.New(1)
	fd, fp := places.Blocks(inside), places.Blocks(inside)
	fw, fl := map[[2]int]lanes.Ref{}, map[[2]int]lanes.Ref{}
	var clears lanes.Col
	block := func(first lanes.Ref) {
		for i := range lanes.Ref(lanes.BlockCells) {
			clears = append(clears, first+i)
		}
	}
	for _, first := range fd {
		block(first)
	}
	for k, below := range order.Below[:inside] { // those of a column follow one another
		w, l := places.Blocks(len(below)), places.Blocks(len(below))
		for i, j := range below {
			key := [2]int{j, k}
			fw[key], fl[key] = w[i], l[i]
			block(w[i])
		}
	}
	off := func(j, k int) lanes.Ref { return fw[[2]int{j, k}] }
	at := func(i, j int) lanes.Ref {
		x, y := order.Position[node[i]], order.Position[node[j]]
		switch {
		case x == y:
			return fd[x] + lanes.Ref(4*max(place[i], place[j])+min(place[i], place[j]))
		case x < y:
			i, j, x, y = j, i, y, x
		}
		return off(x, y) + lanes.Ref(4*place[i]+place[j])
	}
	number := slices.Repeat([]int{-1}, l.variables)
	for k, v := range f.set {
		number[v] = k
	}
	for e, i := range l.row {
		a, b := number[i], number[l.col[e]]
		if a < 0 || b < 0 {
			f.entry = append(f.entry, placed{int32(e), at(int(i), int(l.col[e]))})
			continue
		}
		first := min(a, b)
		f.between = append(f.between, between{int32(e), int32(f.column(first) + max(a, b) - first)})
	}
	right, left := places.New(4*nodes), places.New(4*nodes)
	used := make([]bool, 4*nodes)
	for v := range l.variables {
		k := 4*order.Position[node[v]] + place[v]
		used[k] = true
		f.variable, f.solution = append(f.variable, right[k]), append(f.solution, left[k])
		diagonal := f.one // not read: a variable of the border is never left out
		if k/4 < inside {
			diagonal = fd[k/4] + lanes.Ref(5*(k%4))
		}
		f.diagonal = append(f.diagonal, diagonal)
	}
	for k, u := range used[:4*inside] {
		if !u {
			f.fill = append(f.fill, fd[k/4]+lanes.Ref(5*(k%4)))
		}
	}

	factor, forward, backward := lanes.NewBuilder(&places), lanes.NewBuilder(&places), lanes.NewBuilder(&places)
	e := &columns{order: order, diagonal: fd, pivot: fp, negative: f.negative, off: off}
	for k, below := range order.Below[:inside] {
		var w, l lanes.Col
		for _, j := range below {
			w, l = append(w, fw[[2]int{j, k}]), append(l, fl[[2]int{j, k}])
		}
		e.w, e.l = append(e.w, w), append(e.l, l)
	}
	f.tile = places.Blocks(tileNodes * tileNodes)[0]
	var programs []*lanes.Program
	f.tiles, programs = e.tiles(e.eliminate(factor), &places, f.tile)
	starts := func(of lanes.Col, indices ...int) (out lanes.Col) {
		for _, k := range indices {
			out = append(out, of[4*k])
		}
		return out
	}
	for k, below := range order.Below[:inside] {
		forward.Lower(right[4*k], fp[k], left[4*k])
		if len(below) > 0 {
			forward.Forward(starts(right, below...), e.l[k], starts(right, k))
		}
	}
	for k := inside - 1; k >= 0; k-- {
		if below := order.Below[k]; len(below) > 0 {
			backward.Backward(starts(left, k), e.l[k], starts(left, below...))
		}
		backward.Upper(left[4*k], fp[k])
	}
	clean := lanes.NewBuilder(&places)
	clean.Copy(clears, zero)
	clean.Copy(append(slices.Clone(right), left...), zero) // places without a variable keep nothing, no NaN above all
	clean.Copy(f.fill, lanes.Col{f.one})
	clean.Copy(lanes.Col{f.negative}, zero)
	programs = append([]*lanes.Program{factor.Program(), forward.Program(), backward.Program(), clean.Program()}, programs...)
	compiled, err := lanes.Compile(level, width, programs...)
	if err != nil {
		return nil
	}
	return f.in(compiled)
}

// column is where the lower part of the border has a column.
func (c *cells) column(k int) int { return k*len(c.set) - k*(k-1)/2 }

// in is a factorisation with these programs.
func (c *cells) in(compiled *lanes.Compiled) *laneFactor {
	f := &laneFactor{cells: c, compiled: compiled}
	f.groups.New = func() any { return &laneGroup{f: f, m: lanes.NewMachine(compiled)} }
	return f
}

// of is the factorisation in other lanes, fewer ones.
func (f *laneFactor) of(level isa.Level, width int) *laneFactor {
	compiled, err := f.compiled.For(level, width)
	if err != nil {
		return nil
	}
	return f.in(compiled)
}

// laneGroup are states that share the lanes of one machine.
type laneGroup struct {
	f      *laneFactor
	m      *lanes.Machine
	states []*state
	of     [][]float64 // memory of vectors
	schur  []float64   // of the border, added up over the states: the lower part by columns
	// Of the state before any outage: its factorisation, and the right-hand side.
	dense *dense.LDL
	x     []float64
}

// group is one that no other solve has, until it is released.
func (f *laneFactor) group() *laneGroup { return f.groups.Get().(*laneGroup) }

func (g *laneGroup) release() {
	clear(g.of[:cap(g.of)])
	g.states = nil
	g.f.groups.Put(g)
}

// run factors the matrices with these values of the entries, but their borders.
func (g *laneGroup) run(of func(t *state) []float64) {
	f := g.f
	g.m.SetAll(f.one, 1)
	g.m.Run(programClean)
	vectors := g.vectors(of)
	for _, p := range f.entry {
		to := g.m.Cell(p.cell)
		for lane, values := range vectors {
			to[lane] = values[p.entry]
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

// vectors are the states'.
func (g *laneGroup) vectors(of func(t *state) []float64) [][]float64 {
	g.of = g.of[:0]
	for _, t := range g.states {
		g.of = append(g.of, of(t))
	}
	return g.of
}

// factorBorder factors the Schur complement of the state before any outage, after run.
func (g *laneGroup) factorBorder() {
	if g.dense == nil {
		g.dense, g.x = dense.NewLDL(len(g.f.set)), make([]float64, len(g.f.set))
	}
	g.complement(func(t *state) []float64 { return t.whole })
	for k := range g.f.set {
		copy(g.dense.Row(k), g.schur[g.f.column(k):])
	}
	g.states[0].negative += g.dense.Factor()
}

// solveBorder writes the solution of the border over its part of the vector that forward leaves.
func (g *laneGroup) solveBorder(of func(t *state) []float64) {
	x := of(g.states[0])
	for k, v := range g.f.set {
		g.x[k] = x[v]
	}
	g.dense.Solve(g.x)
	for k, v := range g.f.set {
		x[v] = g.x[k]
	}
}

// complement finds the Schur complement of the border after run, for the same values of the entries.
func (g *laneGroup) complement(of func(t *state) []float64) {
	f, n := g.f, len(g.f.set)
	if g.schur == nil {
		g.schur = make([]float64, n*(n+1)/2)
	}
	clear(g.schur)
	for _, values := range g.vectors(of) {
		for _, e := range f.between {
			g.schur[e.place] += values[e.entry]
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

// gather adds a block of the Schur complement up over the states.
func (g *laneGroup) gather(row, column int, cells []float64) {
	n, width, states := len(g.f.set), len(cells)/lanes.BlockCells, len(g.states)
	for c := range min(4, n-column) {
		at := g.f.column(column+c) - (column + c)
		to := g.schur[at+row : at+min(row+4, n)]
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
func (g *laneGroup) factor() { g.run(func(t *state) []float64 { return t.values }) }

// complements finds their Schur complement.
func (g *laneGroup) complements() { g.complement(func(t *state) []float64 { return t.values }) }

// addSchur adds it to the entries of the state before any outage.
func (g *laneGroup) addSchur(to []float64) {
	for k, at := range g.f.layout.meets {
		to[at] += g.schur[k]
	}
}

// forward is multifrontal's Forward of the states' vectors.
func (g *laneGroup) forward(of func(t *state) []float64) {
	vectors := g.vectors(of)
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
	for _, v := range g.f.set {
		from := g.m.Cell(g.f.variable[v])
		for lane, x := range vectors {
			x[v] = from[lane]
		}
	}
}

// backward is multifrontal's Backward of the states' vectors, whose border is its solution, after forward.
func (g *laneGroup) backward(of func(t *state) []float64) {
	vectors := g.vectors(of)
	for _, v := range g.f.set {
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
