// Package stages evaluates one decision of a system with its derivatives at several points at once, in the lanes of vectors: the step, what
// it costs and the margins that it keeps, the first derivatives of all of them, and the second ones of a weighted sum.
//
// The central type is Code, made of a system's program. Only its functions are programs; the chain rule through the integrator is
// written in operations on rows, a row being the derivatives of one number along all directions: the program of a whole
// step would be several times as long.
package stages

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
	"github.com/gpc-engine/gpc/internal/simd/lanes/programs"
)

// System is what a decision is made of: the functions ode, step, objectives, margins and escape of a program, as equations names
// them. Where there is ode, the step is Substeps classical Runge–Kutta steps of order 4 over Span together or, if it is Implicit, so many of
// Radau IIA of two stages and order 3.
type System struct {
	Program  *program.Program
	Span     float64
	Substeps int
	Implicit bool
	// The margins are those of the decision, then of so many steps of the escape after it, whose action is clipped to the box;
	// entries of Lo and Hi that are infinite do not bound.
	EscapeSteps int
	Lo, Hi      []float64
}

// Code is a system ready to run.
type Code struct {
	sizes     Sizes
	layout    lanes.Layout
	constants *programs.Constants
	rounding  lanes.Ref // the input program.Rounding of all functions

	seeds     []lanes.Ref // of NewSteps: how each entry of (s, c, u) moves along a lane's directions
	blocks    []*block    // the decision's step, then the escape's
	j         lanes.Col
	jBy       []lanes.Ref
	w, lambda lanes.Col
	hessian   []lanes.Ref // rows of the lower triangle

	programs []*lanes.Program
	// Indices of programs in the order in which they run: forward, and back through each block after begin. cut[t] is
	// of a way back that does not come from block t.
	linear   []part
	begin    int
	backward [][]part
	cut      []int
}

// part of what runs: a program, or parts that are repeated, so often at most, while the cell while is not 0 in some lane.
type part struct {
	program int
	repeat  []part
	while   lanes.Ref
	most    int
}

// block is a step with the margins that it has to keep.
type block struct {
	s, c, u       lanes.Col
	inputs        []direction // of s, c and u
	next, context lanes.Col
	nextBy        []lanes.Ref
	contextBy     []lanes.Ref
	m, z          lanes.Col
	mBy           []lanes.Ref
	toNext        lanes.Col // adjoint of next
	toContext     lanes.Col // adjoint of context
	toIn          lanes.Col // adjoint of s, c and u, of the escape's steps alone
	values        []lanes.Col
	directions    [][]direction // of the integrator's stages: s, c and u
	contextMoves  []bool        // by context
}

// Sizes are the numbers of states, of the context, of actions, objectives and margins, those of the escape's steps among them, and of
// directions.
type Sizes struct{ S, C, U, J, M, N int }

// Sizes are those of the system.
func (k *Code) Sizes() Sizes { return k.sizes }

// direction is how an input moves along the directions: as one of them, or as a row of derivatives.
type direction struct {
	unit     bool
	k        int       // the direction it is
	row      lanes.Ref // else
	constant bool      // it does not move
}

// maker is what a Code is made with.
type maker struct {
	*Code
	builders []*lanes.Builder // of the programs, which get their cells once all that outlives one has its own
	zeros    lanes.Ref        // a row that nothing writes: zeros
	half     []lanes.Ref      // rows for curve
	mode
}

// mode is what a Code does.
type mode struct {
	plain       bool // values alone
	marginsOnly bool // margins alone, the decision's step being given
	seeded      int  // first derivatives of the step alone, by so many directions in each lane
	slopes      bool // first derivatives alone
}

// forwardOnly says that there is no way back.
func (m mode) forwardOnly() bool { return m.plain || m.slopes || m.seeded > 0 }

// New makes the code for directions by, entries of (s, c, u).
func New(y System, variables []int) (*Code, error) { return newCode(y, variables, mode{}) }

// NewValues makes the code of the same values without derivatives: it has neither Slopes nor Curvature.
func NewValues(y System) (*Code, error) { return newCode(y, nil, mode{plain: true}) }

// NewSlopes makes the code of values and first derivatives: it has no Curvature.
func NewSlopes(y System, variables []int) (*Code, error) {
	return newCode(y, variables, mode{slopes: true})
}

// NewMargins makes the code of the margins alone, of decisions whose step is known (SetNext).
func NewMargins(y System) (*Code, error) {
	return newCode(y, nil, mode{plain: true, marginsOnly: true})
}

// NewSteps makes the code of the step with its first derivatives by entries of (s, c, u), so many in each lane: lanes that have the same point
// share the directions of its derivatives (Seed). It has neither Curvature nor objectives and margins.
func NewSteps(y System, variables []int, slots int) (*Code, error) {
	if slots < 1 {
		return nil, fmt.Errorf("stages: %d directions in a lane, want at least 1", slots)
	}
	y.EscapeSteps = 0
	return newCode(y, variables, mode{seeded: slots})
}

func newCode(y System, variables []int, m mode) (*Code, error) {
	f, err := functionsOf(y)
	if err != nil {
		return nil, err
	}
	if m.seeded > 0 {
		f.stepOnly()
	}
	k := &Code{sizes: f.sizes}
	if k.sizes.N = len(variables); m.seeded > 0 {
		k.sizes.N = m.seeded
	}
	k.constants, k.rounding = programs.NewConstants(&k.layout), k.layout.New(1)[0]
	n := k.sizes
	for a, b := range variables {
		if b < 0 || b >= n.S+n.C+n.U || slices.Contains(variables[:a], b) {
			return nil, fmt.Errorf("stages: directions %v, want entries of %d, none twice", variables, n.S+n.C+n.U)
		}
	}
	x := &maker{Code: k, zeros: k.rows(1)[0], mode: m}
	x.half = x.rows(n.S + n.C + n.U + n.S)
	k.j, k.jBy = k.layout.New(n.J), k.rows(n.J)
	k.w, k.lambda = k.layout.New(n.J), k.layout.New(n.S+n.C)
	k.hessian = k.rows(n.N)
	margins := n.M / (1 + y.EscapeSteps)
	for t := range 1 + y.EscapeSteps {
		b := &block{u: k.layout.New(n.U), m: k.layout.New(margins), z: k.layout.New(margins), mBy: k.rows(margins)}
		b.next, b.nextBy = k.layout.New(n.S), k.rows(n.S)
		b.context, b.contextBy = k.layout.New(n.C), k.rows(n.C)
		b.toNext, b.toContext, b.toIn = k.layout.New(n.S), k.layout.New(n.C), k.layout.New(n.S+n.C+n.U)
		if t == 0 {
			b.s, b.c = k.layout.New(n.S), k.layout.New(n.C)
			for a := range n.S + n.C + n.U {
				q := slices.Index(variables, a)
				d := direction{unit: q >= 0, k: q, constant: q < 0}
				if m.seeded > 0 {
					k.seeds = append(k.seeds, k.rows(1)[0])
					d = direction{row: k.seeds[a], constant: q < 0}
				}
				b.inputs = append(b.inputs, d)
			}
		} else {
			previous := k.blocks[t-1]
			b.s, b.c = previous.next, previous.context
			for _, r := range previous.nextBy {
				b.inputs = append(b.inputs, direction{row: r})
			}
			for i, r := range previous.contextBy {
				b.inputs = append(b.inputs, direction{row: r, constant: !previous.contextMoves[i]})
			}
			for _, r := range k.rows(n.U) {
				b.inputs = append(b.inputs, direction{row: r})
			}
		}
		if !m.plain {
			b.contextMoves = f.moves(b.inputs)
		} else {
			b.contextMoves = make([]bool, n.C)
		}
		k.blocks = append(k.blocks, b)
	}
	x.write(y, f)
	for _, b := range x.builders {
		k.programs = append(k.programs, b.Program())
	}
	k.linear = k.joined(k.linear)
	for t, way := range k.backward {
		k.backward[t] = k.joined(way)
	}
	k.keepUsed()
	return k, nil
}

// keepUsed leaves out the programs that run only as parts of joined ones.
func (k *Code) keepUsed() {
	var programs []*lanes.Program
	numbers := map[int]int{}
	use := func(program *int) {
		number, ok := numbers[*program]
		if !ok {
			number = len(programs)
			numbers[*program] = number
			programs = append(programs, k.programs[*program])
		}
		*program = number
	}
	var useAll func(list []part)
	useAll = func(list []part) {
		for i := range list {
			if useAll(list[i].repeat); list[i].repeat == nil {
				use(&list[i].program)
			}
		}
	}
	useAll(k.linear)
	for _, way := range k.backward {
		useAll(way)
	}
	use(&k.begin)
	for i := range k.cut {
		use(&k.cut[i])
	}
	k.programs = programs
}

// mostJoined is the most operations of a program that others are joined to: native code of more would leave the fastest cache.
const mostJoined = 1 << 12

// joined makes one program of parts that follow each other: what one leaves to the next then stays in registers.
func (k *Code) joined(parts []part) (out []part) {
	var group []*lanes.Program
	size := 0
	end := func() {
		if len(group) > 1 {
			out = append(out[:len(out)-len(group)], part{program: len(k.programs)})
			k.programs = append(k.programs, lanes.Join(group...))
		}
		group, size = group[:0], 0
	}
	for _, p := range parts {
		if p.repeat != nil {
			end()
			out = append(out, part{repeat: k.joined(p.repeat), while: p.while, most: p.most})
			continue
		}
		program := k.programs[p.program]
		if size += program.Operations(); size > mostJoined {
			end()
			size = program.Operations()
		}
		group, out = append(group, program), append(out, p)
	}
	end()
	return out
}

func (k *Code) rows(n int) []lanes.Ref {
	rows := make([]lanes.Ref, n)
	for i := range rows {
		if k.sizes.N > 0 {
			rows[i] = k.layout.New(k.sizes.N)[0]
		}
	}
	return rows
}

// glue writes a program of its own, and returns its index.
func (x *maker) glue(write func(b *lanes.Builder)) int {
	b := lanes.NewBuilder(&x.layout)
	write(b)
	x.builders = append(x.builders, b)
	return len(x.builders) - 1
}

// function is a program's function whose inputs and outputs have cells.
type function struct {
	in, out lanes.Col
	program int
}

// function gives cells to the outputs of f and to its inputs but program.Rounding. The first values are exact, the others
// derivatives.
func (x *maker) function(f *program.Function, values int) function {
	first, last, _ := f.Find(program.Rounding)
	g := function{in: x.layout.New(f.Entries() - (last - first)), out: x.layout.New(f.Results())}
	code := programs.New(x.constants)
	var inputs []programs.Value
	for _, cell := range slices.Insert(slices.Clone(g.in), first, slices.Repeat(lanes.Col{x.rounding}, last-first)...) {
		inputs = append(inputs, code.Cell(cell))
	}
	results := code.Function(f, inputs)
	g.program = x.glue(func(b *lanes.Builder) {
		for i, cell := range code.Emit(b, results[:values], results[values:]) {
			b.Copy(g.out[i:i+1], lanes.Col{cell})
		}
	})
	return g
}

// entry is a derivative by an input: a matrix's entry that is not zero.
type entry struct {
	row, col int
	cell     lanes.Ref
	one      bool // it is the constant 1
}

// entries are those of a derivative whose matrix begins at the output's cell from.
func entries(s *program.Sparse, out lanes.Col, start int) []entry {
	list := make([]entry, len(s.Rows))
	for i := range list {
		op, _, c := s.Operation(s.Result(start + i))
		list[i] = entry{s.Rows[i], s.Cols[i], out[start+i], op == program.Const && c == 1}
	}
	return list
}

// zero makes rows of zeros.
func (x *maker) zero(b *lanes.Builder, rows ...lanes.Ref) {
	for _, r := range rows {
		b.RowSet(r, x.constants.Of(1), x.zeros, x.sizes.N)
	}
}

// product writes matrix · directions of its inputs into rows, the matrix row after row, and returns the rows: where one is
// that of an input, it is that.
func (x *maker) product(b *lanes.Builder, rows []lanes.Ref, matrix []entry, inputs []direction) []lanes.Ref {
	out := slices.Clone(rows)
	for i, row := range rows {
		var moving []entry
		units := 0
		for _, e := range matrix {
			d := inputs[e.col]
			if e.row != i || d.constant {
				continue
			}
			if d.unit {
				units++
			}
			moving = append(moving, e)
		}
		if len(moving) == 1 && units == 0 && moving[0].one {
			out[i] = inputs[moving[0].col].row
			continue
		}
		var terms []term
		for _, e := range moving {
			terms = append(terms, term{e.cell, inputs[e.col]})
		}
		x.combine(b, row, terms)
	}
	return out
}

// term is a direction times a cell.
type term struct {
	factor lanes.Ref
	direction
}

// combine writes a sum of terms into a row that none of them has.
func (x *maker) combine(b *lanes.Builder, row lanes.Ref, terms []term) {
	var factors, rows lanes.Col
	for _, t := range terms {
		if !t.unit && !t.constant {
			factors, rows = append(factors, t.factor), append(rows, t.row)
		}
	}
	if len(rows) > 0 {
		b.RowSum(row, factors, rows, x.sizes.N)
	} else {
		x.zero(b, row)
	}
	for _, t := range terms {
		if t.unit {
			cell := lanes.Col{row + lanes.Ref(t.k)}
			b.SetAdd(cell, cell, lanes.Col{t.factor})
		}
	}
}

// productInto is product without exceptions.
func (x *maker) productInto(b *lanes.Builder, rows []lanes.Ref, matrix []entry, inputs []direction) {
	for i, r := range x.product(b, rows, matrix, inputs) {
		if r != rows[i] {
			b.RowSet(rows[i], x.constants.Of(1), r, x.sizes.N)
		}
	}
}

// curve adds the lower triangle of directionsᵀ · matrix · directions to the Hessian, the matrix being a lower triangle.
func (x *maker) curve(b *lanes.Builder, matrix []entry, inputs []direction) {
	var order []int
	byRow := map[int][]entry{} // of each row of the whole matrix
	insert := func(row, col int, cell lanes.Ref) {
		if byRow[row] == nil {
			order = append(order, row)
		}
		byRow[row] = append(byRow[row], entry{row: len(order) - 1, col: col, cell: cell})
	}
	for _, e := range matrix {
		if inputs[e.row].constant || inputs[e.col].constant {
			continue
		}
		insert(e.row, e.col, e.cell)
		if e.row != e.col {
			insert(e.col, e.row, e.cell)
		}
	}
	var whole []entry
	for k, row := range order {
		for _, e := range byRow[row] {
			whole = append(whole, entry{row: k, col: e.col, cell: e.cell})
		}
	}
	half := x.product(b, x.half[:len(order)], whole, inputs)
	one := x.constants.Of(1)
	for q := range x.sizes.N { // a row of the Hessian stays in registers
		for k, row := range order {
			switch d := inputs[row]; {
			case !d.unit:
				b.Row(x.hessian[q], d.row+lanes.Ref(q), half[k], q+1)
			case d.k == q:
				b.Row(x.hessian[q], one, half[k], q+1)
			}
		}
	}
}

// Machine evaluates as many points as it has lanes. It is for one goroutine at a time.
type Machine struct {
	code    *Code
	machine *lanes.Machine
}

// Compile readies the code for an instruction set and number of lanes (see lanes.Widths).
func (k *Code) Compile(level isa.Level, width int) (*lanes.Compiled, error) {
	return lanes.Native(level, width, k.programs...)
}

// NewMachine is one of that code.
func (k *Code) NewMachine(compiled *lanes.Compiled) *Machine {
	m := lanes.NewMachine(compiled)
	k.constants.Fill(m)
	return &Machine{k, m}
}

// Lanes is how many points it evaluates at once.
func (m *Machine) Lanes() int { return m.machine.Lanes() }

// Round sets the input program.Rounding of all functions.
func (m *Machine) Round(factor float64) { m.machine.SetAll(m.code.rounding, factor) }

// Set writes n points, rows of (s, c) and of u, into a lane each. The last fills the other lanes.
func (m *Machine) Set(n int, x, u []float64) {
	first := m.code.blocks[0]
	m.setPair(n, x, first.s, first.c)
	m.setPair(n, u, first.u, nil)
}

// setPair writes rows of the entries of two columns.
func (m *Machine) setPair(n int, rows []float64, a, b lanes.Col) {
	if len(a) > 0 {
		m.machine.ScatterRows(a[0], rows, len(a)+len(b), len(a), n)
	}
	if len(b) > 0 {
		m.machine.ScatterRows(b[0], rows[len(a):], len(a)+len(b), len(b), n)
	}
}

// Seed makes an entry of (s, c, u) that the code differentiates by one of a lane's directions, for a code of NewSteps.
func (m *Machine) Seed(lane, slot, entry int) {
	m.machine.Set(m.code.seeds[entry]+lanes.Ref(slot), lane, 1)
}

// Slope is the derivative of an entry of (sNext, cNext) by one of a lane's directions, after Linearise of a code of NewSteps.
func (m *Machine) Slope(lane, slot, entry int) float64 {
	first := m.code.blocks[0]
	row := first.nextBy
	if entry >= len(row) {
		row, entry = first.contextBy, entry-len(row)
	}
	return m.machine.Get(row[entry]+lanes.Ref(slot), lane)
}

// SetNext writes where the decisions of Set lead to, rows of (sNext, cNext), for a code of NewMargins.
func (m *Machine) SetNext(n int, next []float64) {
	first := m.code.blocks[0]
	m.setPair(n, next, first.next, first.context)
}

// Linearise evaluates the points of all lanes, with their first derivatives where the code is not one of NewValues.
func (m *Machine) Linearise() { m.run(m.code.linear) }

func (m *Machine) run(parts []part) {
	for _, p := range parts {
		if p.repeat == nil {
			m.machine.Run(p.program)
			continue
		}
		for round := 0; round < p.most && m.any(p.while); round++ {
			m.run(p.repeat)
		}
	}
}

// any reports whether a cell is not 0 in some lane.
func (m *Machine) any(cell lanes.Ref) bool {
	for lane := range m.Lanes() {
		if m.machine.Get(cell, lane) != 0 {
			return true
		}
	}
	return false
}

// Values are those of the first n lanes after Linearise: rows of (sNext, cNext), of objectives and of margins. What is nil is passed over.
func (m *Machine) Values(n int, next, j, margins []float64) {
	first := m.code.blocks[0]
	ns, nc := len(first.next), len(first.context)
	m.rows(n, next, 0, ns+nc, first.next)
	m.rows(n, next, ns, ns+nc, first.context)
	m.rows(n, j, 0, len(m.code.j), m.code.j)
	for t, b := range m.code.blocks {
		m.rows(n, margins, t*len(b.m), len(m.code.blocks)*len(b.m), b.m)
	}
}

// rows reads a column's entries into rows of a width, from entry first on.
func (m *Machine) rows(n int, out []float64, first, width int, col lanes.Col) {
	if len(col) > 0 && out != nil {
		m.machine.GatherRows(out[first:], width, len(col), n, col[0])
	}
}

// Slopes are the first derivatives of a lane after Linearise: of sNext and cNext, of the objectives and of the margins, each
// [entries][directions]. Slices that are nil are passed over.
func (m *Machine) Slopes(lane int, next, j, margins []float64) {
	n, first := m.code.sizes.N, m.code.blocks[0]
	gather := func(out []float64, rows []lanes.Ref) []float64 {
		if out == nil {
			return nil
		}
		for _, row := range rows {
			m.machine.Gather(out[:n], row, lane)
			out = out[n:]
		}
		return out
	}
	gather(gather(next, first.nextBy), first.contextBy)
	gather(j, m.code.jBy)
	for _, b := range m.code.blocks {
		margins = gather(margins, b.mBy)
	}
}

// Weigh sets the weights of a lane for Curvature: of objectives, of (sNext, cNext), and of margins, which are subtracted.
func (m *Machine) Weigh(lane int, w, lambda, z []float64) {
	m.machine.Scatter(m.code.w[0], lane, w)
	m.machine.Scatter(m.code.lambda[0], lane, lambda)
	for t, b := range m.code.blocks {
		if len(b.z) > 0 {
			m.machine.Scatter(b.z[0], lane, z[t*len(b.z):(t+1)*len(b.z)])
		}
	}
}

// Steps is how many steps of the escape there are.
func (k *Code) Steps() int { return len(k.blocks) - 1 }

// Curvature evaluates the second derivatives of wᵀj + λᵀ(sNext, cNext) − zᵀm, at the points of Linearise. Margins of the
// escape's steps beyond the given number are left out.
func (m *Machine) Curvature(steps int) {
	k := m.code
	m.machine.Run(k.begin)
	if steps < k.Steps() {
		m.machine.Run(k.cut[steps+1])
	}
	for t := steps; t >= 0; t-- {
		m.run(k.backward[t])
	}
}

// Hessian writes the lower triangle of a lane's second derivatives into h, [directions][directions].
func (m *Machine) Hessian(lane int, h []float64) {
	n := m.code.sizes.N
	for r, row := range m.code.hessian {
		m.machine.Gather(h[r*n:r*n+r+1], row, lane)
	}
}
