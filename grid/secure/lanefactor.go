package secure

import (
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/lanes"
)

// laneFactor factors the states after outages side by side, each in its lane of a vector: a block LDLᵀ with
// 4×4 pivots in an order fixed beforehand. It does not choose pivots by size; interior compares the inertia with
// the one wanted, corrects directions by their residual, and where either fails factors again with pivots chosen
// (package multifrontal).
//
// A pivot holds pairs of a variable and a multiplier that do not vanish together: (θ, λ_P) and (V, λ_Q) at a bus
// without units; (V, drop) and (y, λ_Q), then (θ, λ_P), at one with units; and (Δ, λ_P of the reference) before
// the border. Before any outage they are (θ, λ_P), with (V, λ_Q) or (Q, λ_Q), and a unit's power with λ_P of the
// reference; set-points that are left come last, where the matrix is positive definite if the inertia is right.
type laneFactor struct {
	layout   *layout
	compiled *lanes.Compiled
	entry    []lanes.Ref // by entry of the matrix
	variable []lanes.Ref // by variable: right-hand side, then what Forward makes of the border
	solution []lanes.Ref // by variable
	diagonal []lanes.Ref // by variable
	fill     lanes.Col   // places in blocks without a variable
	negative lanes.Ref
	one      lanes.Ref
	border   []lanes.Ref // lower part of the Schur complement by columns, of variables in their order
	groups   sync.Pool   // of *laneGroup, whose cells are large
}

// nodesAfter pairs the variables of a state after an outage.
func (s *system) nodesAfter() (list [][]int, last, border int) {
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
	first := l.variables - len(l.set)
	var set []int
	for v := first; v < l.variables; v++ {
		set = append(set, v)
	}
	for four := range slices.Chunk(set, 4) {
		list = append(list, four)
		border++
	}
	return list, border + 1, border
}

// nodesBefore pairs those of the state before any outage.
func (s *system) nodesBefore() (list [][]int, last int) {
	l, n := s.base, s.net
	slack := l.bus[n.Slack] + ofActive
	balance := -1 // the unit whose power goes with the balance of the reference
	for g, k := range s.setP {
		if k >= 0 && (balance < 0 || n.GenBus[g] == n.Slack && n.GenBus[balance] != n.Slack) {
			balance = g
		}
	}
	var set []int
	for b, at := range l.bus {
		active, i := except(slack, at+ofActive), s.at[b]
		switch {
		case i < 0:
			list = append(list, []int{at + ofAngle, active, at + ofMagnitude, at + ofReactive})
		case s.qhi[i]-s.qlo[i] <= narrow: // Q is not there
			list = append(list, []int{at + ofAngle, active, at + ofMagnitude, at + ofReactive}, []int{l.reactive[i]})
		default:
			list = append(list, []int{at + ofAngle, active, l.reactive[i], at + ofReactive})
			set = append(set, at+ofMagnitude)
		}
	}
	pair := []int{-1, slack}
	for g, k := range s.setP {
		switch {
		case k < 0:
		case g == balance:
			pair[0] = l.set[k]
		default:
			set = append(set, l.set[k])
		}
	}
	list = append(list, pair)
	last = 1
	for four := range slices.Chunk(set, 4) {
		list = append(list, four)
		last++
	}
	return list, last
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
)

// newLaneFactor writes the programs for a layout whose variables stand in nodes of four at most, −1 for none.
// The last nodes go last, and the border's, the last of these, are not eliminated. They run width states at once. It
// is nil where the programs need more cells than lanes have.
func newLaneFactor(l *layout, list [][]int, last, border int, level isa.Level, width int) *laneFactor {
	node, place := make([]int, l.variables), make([]int, l.variables)
	for k, variables := range list {
		for i, v := range variables {
			if v >= 0 {
				node[v], place[v] = k, i
			}
		}
	}
	nodes := len(list)
	inside, set := nodes-border, l.variables-len(l.set)
	if border == 0 {
		set = l.variables
	}
	var edges [][2]int
	for e, i := range l.row {
		edges = append(edges, [2]int{node[i], node[l.col[e]]})
	}
	var end []int
	for k := nodes - last; k < nodes; k++ {
		end = append(end, k)
	}
	order := elimination.MinimumDegree(nodes, edges, end)

	var cells lanes.Layout
	f := &laneFactor{layout: l, negative: cells.New(1)[0], one: cells.New(1)[0]}
	zero := cells.New(1)
	fd, fp := cells.Blocks(nodes), cells.Blocks(inside)
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
	off := func(j, k int) lanes.Ref {
		key := [2]int{j, k}
		if _, ok := fw[key]; !ok {
			fw[key] = cells.Blocks(1)[0]
			block(fw[key])
			if k < inside {
				fl[key] = cells.Blocks(1)[0]
			}
		}
		return fw[key]
	}
	for k, below := range order.Below[:inside] {
		for _, j := range below {
			off(j, k)
		}
	}
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
	for e, i := range l.row {
		f.entry = append(f.entry, at(int(i), int(l.col[e])))
	}
	for j := set; j < l.variables; j++ {
		for i := j; i < l.variables; i++ {
			f.border = append(f.border, at(i, j))
		}
	}
	right, left := cells.New(4*nodes), cells.New(4*nodes)
	used := make([]bool, 4*nodes)
	for v := range l.variables {
		k := 4*order.Position[node[v]] + place[v]
		used[k] = true
		f.variable, f.solution = append(f.variable, right[k]), append(f.solution, left[k])
		f.diagonal = append(f.diagonal, fd[k/4]+lanes.Ref(5*(k%4)))
	}
	for k, u := range used {
		if !u {
			f.fill = append(f.fill, fd[k/4]+lanes.Ref(5*(k%4)))
		}
	}

	factor, forward, backward := lanes.NewBuilder(&cells), lanes.NewBuilder(&cells), lanes.NewBuilder(&cells)
	e := &columns{order: order, factor: factor, diagonal: fd, pivot: fp, negative: f.negative, off: off}
	for k, below := range order.Below[:inside] {
		var w, l lanes.Col
		for _, j := range below {
			w, l = append(w, fw[[2]int{j, k}]), append(l, fl[[2]int{j, k}])
		}
		e.w, e.l = append(e.w, w), append(e.l, l)
	}
	first := nodes - last
	if border > 0 {
		first = inside
	}
	e.write(first)
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
	clean := lanes.NewBuilder(&cells)
	clean.Copy(clears, zero)
	clean.Copy(append(slices.Clone(right), left...), zero) // places without a variable keep nothing, no NaN above all
	clean.Copy(f.fill, lanes.Col{f.one})
	clean.Copy(lanes.Col{f.negative}, zero)
	compiled, err := lanes.Compile(level, width, factor.Program(), forward.Program(), backward.Program(), clean.Program())
	if err != nil {
		return nil
	}
	f.compiled = compiled
	f.groups.New = func() any { return &laneGroup{f: f, m: lanes.NewMachine(compiled)} }
	return f
}

// laneGroup are states that share the lanes of one machine.
type laneGroup struct {
	f      *laneFactor
	m      *lanes.Machine
	states []*state
	of     [][]float64 // memory of vectors
}

// group is one that no other solve has, until it is released.
func (f *laneFactor) group() *laneGroup { return f.groups.Get().(*laneGroup) }

func (g *laneGroup) release() {
	clear(g.of[:cap(g.of)])
	g.states = nil
	g.f.groups.Put(g)
}

// run factors the matrices with these values of the entries.
func (g *laneGroup) run(of func(t *state) []float64) {
	f := g.f
	g.m.SetAll(f.one, 1)
	g.m.Run(programClean)
	vectors := g.vectors(of)
	for e, cell := range f.entry {
		to := g.m.Cell(cell)
		for lane, values := range vectors {
			to[lane] = values[e]
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

// factor factors the matrices of states after outages.
func (g *laneGroup) factor() { g.run(func(t *state) []float64 { return t.values }) }

// addSchur adds the states' Schur complements to the entries of the state before any outage.
func (g *laneGroup) addSchur(to []float64) {
	at := g.f.layout.meets
	for k, cell := range g.f.border {
		sum := to[at[k]]
		for _, v := range g.m.Cell(cell)[:len(g.states)] {
			sum += v
		}
		to[at[k]] = sum
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
	if !g.states[0].after {
		return
	}
	for _, v := range g.states[0].set {
		from := g.m.Cell(g.f.variable[v])
		for lane, x := range vectors {
			x[v] = from[lane]
		}
	}
}

// backward is multifrontal's Backward of the states' vectors, whose border is its solution, after forward.
func (g *laneGroup) backward(of func(t *state) []float64) {
	vectors := g.vectors(of)
	if t := g.states[0]; t.after {
		for _, v := range t.set {
			to := g.m.Cell(g.f.solution[v])
			for lane, x := range vectors {
				to[lane] = x[v]
			}
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
