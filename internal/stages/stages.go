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

	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/lanes"
	"github.com/gpc-engine/gpc/internal/lanes/programs"
	"github.com/gpc-engine/gpc/program"
)

// System is what a decision is made of: the functions ode, step, objectives and margins of a program, as domain/equations names
// them. Where there is ode, the step is Substeps classical Runge–Kutta steps of order 4 over Span together.
type System struct {
	Program  *program.Program
	Span     float64
	Substeps int
}

// Code is a system ready to run.
type Code struct {
	sizes     Sizes
	layout    lanes.Layout
	constants *programs.Constants

	s, c, u      lanes.Col
	next, after  lanes.Col // the state and, where step writes it, the context after
	nextBy       []lanes.Ref
	afterBy      []lanes.Ref
	j, m         lanes.Col
	jBy, mBy     []lanes.Ref
	w, z, lambda lanes.Col
	hessian      []lanes.Ref // rows of the lower triangle

	programs          []*lanes.Program
	linear, curvature []int // indices of programs in the order in which they run
}

// Sizes are the numbers of states, of the context, of actions, objectives and margins, and of directions.
type Sizes struct{ S, C, U, J, M, N int }

// Sizes are those of the system.
func (k *Code) Sizes() Sizes { return k.sizes }

// direction is how an input moves along the directions: as one of them, or as a row of derivatives.
type direction struct {
	unit bool
	k    int       // the direction it is
	row  lanes.Ref // else
	none bool      // it does not move
}

// maker is what a Code is made with.
type maker struct {
	*Code
	builders      []*lanes.Builder // of the programs, which get their cells once all that outlives one has its own
	nothing       lanes.Ref        // a row that nothing writes: zeros
	state, action []direction      // of s, then of u
	context       []direction
}

// New makes the code for directions by, entries of (s, c, u) in ascending order.
func New(y System, by []int) (*Code, error) {
	k := &Code{}
	k.constants = programs.NewConstants(&k.layout)
	objectives := y.Program.Function("objectives")
	if objectives == nil {
		return nil, fmt.Errorf("stages: program %q has no function objectives", y.Program.Name)
	}
	size := func(name string) int {
		from, to, _ := objectives.Find(name)
		return to - from
	}
	k.sizes = Sizes{S: size("s"), C: size("c"), U: size("u"), J: objectives.Results(), N: len(by)}
	margins := y.Program.Function("margins")
	if margins != nil {
		k.sizes.M = margins.Results()
	}
	ode, step := y.Program.Function("ode"), y.Program.Function("step")
	if step == nil {
		return nil, fmt.Errorf("stages: program %q has no function step", y.Program.Name)
	}
	if ode != nil && (y.Substeps < 1 || !(y.Span > 0)) {
		return nil, fmt.Errorf("stages: program %q has an ode over %v in %d substeps, want a span above 0 and at least 1", y.Program.Name, y.Span, y.Substeps)
	}
	n := k.sizes
	k.s, k.c, k.u = k.layout.New(n.S), k.layout.New(n.C), k.layout.New(n.U)
	k.next, k.after = k.layout.New(n.S), k.layout.New(n.C)
	k.nextBy, k.afterBy = k.rows(n.S), k.rows(n.C)
	k.j, k.m, k.jBy, k.mBy = k.layout.New(n.J), k.layout.New(n.M), k.rows(n.J), k.rows(n.M)
	k.w, k.z, k.lambda = k.layout.New(n.J), k.layout.New(n.M), k.layout.New(n.S+n.C)
	k.hessian = k.rows(n.N)
	x := &maker{Code: k, nothing: k.rows(1)[0]}
	for a := range n.S + n.C + n.U {
		d := direction{none: true}
		if q, ok := slices.BinarySearch(by, a); ok {
			d = direction{unit: true, k: q}
		}
		switch {
		case a < n.S:
			x.state = append(x.state, d)
		case a < n.S+n.C:
			x.context = append(x.context, d)
		default:
			x.action = append(x.action, d)
		}
	}
	x.write(y, ode, step, objectives, margins)
	for _, b := range x.builders {
		k.programs = append(k.programs, b.Program())
	}
	return k, nil
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

// function gives the outputs of f cells. The first values of them are exact, the others derivatives.
func (x *maker) function(f *program.Function, in lanes.Col, values int) function {
	g := function{in: in, out: x.layout.New(f.Results())}
	code := programs.New(x.constants)
	inputs := make([]programs.Value, len(in))
	for i, at := range in {
		inputs[i] = code.Cell(at)
	}
	results := code.Function(f, inputs)
	g.program = x.glue(func(b *lanes.Builder) {
		for i, at := range code.Emit(b, results[:values], results[values:]) {
			b.Copy(g.out[i:i+1], lanes.Col{at})
		}
	})
	return g
}

// entry is a derivative by an input: a matrix's entry that is not zero.
type entry struct {
	row, col int
	at       lanes.Ref
	one      bool // it is the constant 1
}

// entries are those of a derivative whose matrix begins at the output's cell from.
func entries(s *program.Sparse, out lanes.Col, from int) []entry {
	list := make([]entry, len(s.Rows))
	for i := range list {
		op, _, c := s.Operation(s.Result(from + i))
		list[i] = entry{s.Rows[i], s.Cols[i], out[from+i], op == program.Const && c == 1}
	}
	return list
}

// zero makes rows of zeros.
func (x *maker) zero(b *lanes.Builder, rows ...lanes.Ref) {
	for _, r := range rows {
		b.RowSet(r, x.constants.Of(1), x.nothing, x.sizes.N)
	}
}

// product writes matrix · directions of its inputs into rows, the matrix row after row, and returns the rows: where one is
// that of an input, it is that.
func (x *maker) product(b *lanes.Builder, rows []lanes.Ref, matrix []entry, inputs []direction) []lanes.Ref {
	out := slices.Clone(rows)
	for i, row := range rows {
		var moved []entry
		units := 0
		for _, e := range matrix {
			d := inputs[e.col]
			if e.row != i || d.none {
				continue
			}
			if d.unit {
				units++
			}
			moved = append(moved, e)
		}
		if len(moved) == 1 && units == 0 && moved[0].one {
			out[i] = inputs[moved[0].col].row
			continue
		}
		if units == len(moved) {
			x.zero(b, row)
		}
		begun := false
		for _, e := range moved {
			if d := inputs[e.col]; !d.unit && !begun {
				b.RowSet(row, e.at, d.row, x.sizes.N)
				begun = true
			} else if !d.unit {
				b.Row(row, e.at, d.row, x.sizes.N)
			}
		}
		for _, e := range moved {
			if d := inputs[e.col]; d.unit {
				at := lanes.Col{row + lanes.Ref(d.k)}
				b.SetAdd(at, at, lanes.Col{e.at})
			}
		}
	}
	return out
}

// productInto is product without exceptions.
func (x *maker) productInto(b *lanes.Builder, rows []lanes.Ref, matrix []entry, inputs []direction) {
	for i, r := range x.product(b, rows, matrix, inputs) {
		if r != rows[i] {
			b.RowSet(rows[i], x.constants.Of(1), r, x.sizes.N)
		}
	}
}

// curve adds the lower triangle of directionsᵀ · matrix · directions to the Hessian, the matrix being a lower triangle. rows are for
// products of the matrix with directions.
func (x *maker) curve(b *lanes.Builder, matrix []entry, inputs []direction, rows []lanes.Ref) {
	var order []int
	of := map[int][]entry{} // of each row of the whole matrix
	put := func(row, col int, at lanes.Ref) {
		if of[row] == nil {
			order = append(order, row)
		}
		of[row] = append(of[row], entry{row: len(order) - 1, col: col, at: at})
	}
	for _, e := range matrix {
		if inputs[e.row].none || inputs[e.col].none {
			continue
		}
		put(e.row, e.col, e.at)
		if e.row != e.col {
			put(e.col, e.row, e.at)
		}
	}
	var whole []entry
	for k, row := range order {
		for _, e := range of[row] {
			whole = append(whole, entry{row: k, col: e.col, at: e.at})
		}
	}
	half := x.product(b, rows[:len(order)], whole, inputs)
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

// write writes all programs.
func (x *maker) write(y System, ode, step, objectives, margins *program.Function) {
	n := x.sizes
	lambda := lanes.Col(x.lambda[:n.S:n.S])
	adjoint := x.layout.New(n.S) // of the state after
	tangents := x.rows(n.S + n.C + n.U + n.S)
	var backward []int
	if ode != nil {
		backward = x.integrate(y, ode, adjoint, tangents)
	} else {
		backward = x.step(step, adjoint, tangents)
	}

	// What follows the step is one function of it and of the inputs.
	later := x.later(step, objectives, margins, ode == nil)
	in := slices.Concat(x.s, x.c, x.u, x.next)
	inputs := slices.Concat(x.state, x.context, x.action)
	for _, r := range x.nextBy {
		inputs = append(inputs, direction{row: r})
	}
	by := moving(inputs)
	jacobian := later.Jacobian(by)
	first := x.function(jacobian.Function, in, later.Results())
	remembers := ode != nil // step is of what changes of the context alone
	x.linear = append(x.linear, first.program, x.glue(func(b *lanes.Builder) {
		copyCells(b, x.j, first.out[:n.J])
		copyCells(b, x.m, first.out[n.J:n.J+n.M])
		rows := slices.Concat(x.jBy, x.mBy)
		if remembers {
			copyCells(b, x.after, first.out[n.J+n.M:n.J+n.M+n.C])
			rows = append(rows, x.afterBy...)
		}
		x.productInto(b, rows, entries(jacobian, first.out, later.Results()), inputs)
	}))

	weights := x.layout.New(later.Results())
	hessian := later.Hessian(by)
	second := x.function(hessian.Function, append(slices.Clone(in), weights...), 0)
	x.curvature = append(x.curvature, x.glue(func(b *lanes.Builder) {
		copyCells(b, weights[:n.J], x.w)
		for i := range n.M {
			b.SetSub(weights[n.J+i:n.J+i+1], lanes.Col{x.constants.Of(0)}, x.z[i:i+1])
		}
		if remembers {
			copyCells(b, weights[n.J+n.M:], x.lambda[n.S:])
		}
		x.zero(b, x.hessian...)
	}), second.program, x.glue(func(b *lanes.Builder) {
		x.curve(b, entries(hessian, second.out, len(by)), inputs, tangents)
		copyCells(b, adjoint, lambda)
		for i, a := range by {
			if r := a - (len(inputs) - n.S); r >= 0 {
				b.SetAdd(adjoint[r:r+1], adjoint[r:r+1], second.out[i:i+1])
			}
		}
	}))
	x.curvature = append(x.curvature, backward...)
}

func copyCells(b *lanes.Builder, to, from lanes.Col) {
	if len(to) > 0 {
		b.Copy(to, from)
	}
}

// moving lists the inputs that have directions.
func moving(inputs []direction) []int {
	by := []int{}
	for i, d := range inputs {
		if !d.none {
			by = append(by, i)
		}
	}
	return by
}

// later is the objectives, the margins and, where a step of its own writes it after an integrator, the context.
func (x *maker) later(step, objectives, margins *program.Function, discrete bool) *program.Function {
	n := x.sizes
	b := program.NewBuilder("later", program.Argument{Name: "s", Size: n.S}, program.Argument{Name: "c", Size: n.C}, program.Argument{Name: "u", Size: n.U}, program.Argument{Name: "sNext", Size: n.S})
	all := slices.Concat(b.In(0), b.In(1), b.In(2), b.In(3))
	results := b.Inline(objectives, all)
	if margins != nil {
		results = append(results, b.Inline(margins, all)...)
	}
	if !discrete {
		results = append(results, b.Inline(step, all)...)
	}
	return b.Function([]program.Argument{{Name: "results", Size: len(results)}}, results)
}

// step writes a step that a function takes; what it returns goes backward.
func (x *maker) step(step *program.Function, adjoint lanes.Col, tangents []lanes.Ref) (backward []int) {
	n := x.sizes
	in := slices.Concat(x.s, x.c, x.u)
	inputs := slices.Concat(x.state, x.context, x.action)
	by := moving(inputs)
	jacobian := step.Jacobian(by)
	first := x.function(jacobian.Function, in, step.Results())
	x.linear = append(x.linear, first.program, x.glue(func(b *lanes.Builder) {
		copyCells(b, x.next, first.out[:n.S])
		copyCells(b, x.after, first.out[n.S:n.S+n.C])
		x.productInto(b, slices.Concat(x.nextBy, x.afterBy), entries(jacobian, first.out, step.Results()), inputs)
	}))
	weights := x.layout.New(n.S + n.C)
	hessian := step.Hessian(by)
	second := x.function(hessian.Function, append(slices.Clone(in), weights...), 0)
	return []int{x.glue(func(b *lanes.Builder) {
		copyCells(b, weights[:n.S], adjoint)
		copyCells(b, weights[n.S:], x.lambda[n.S:])
	}), second.program, x.glue(func(b *lanes.Builder) {
		x.curve(b, entries(hessian, second.out, len(by)), inputs, tangents)
	})}
}

// integrate writes the Runge–Kutta steps: forward the stages with their directions, which are kept; backward the adjoints of the
// stages, each with the second derivatives of the ode there.
func (x *maker) integrate(y System, ode *program.Function, adjoint lanes.Col, tangents []lanes.Ref) (backward []int) {
	n := x.sizes
	const order = 4
	length := y.Span / float64(y.Substeps)
	number := func(v float64) lanes.Ref { return x.constants.Of(v) }
	one := number(1)
	in := slices.Concat(x.layout.New(n.S), x.c, x.u)
	// Directions of all inputs, those of the stage's state to be filled in.
	base := slices.Concat(x.state, x.context, x.action)
	by := moving(base)
	for i := range n.S { // after the first stage every state has a row
		if base[i].none {
			by = append(by, i)
		}
	}
	slices.Sort(by)
	by = slices.Compact(by)
	jacobian := ode.Jacobian(by)
	first := x.function(jacobian.Function, in, n.S)
	matrix := entries(jacobian, first.out, n.S)
	weights := x.layout.New(n.S)
	hessian := ode.Hessian(by)
	second := x.function(hessian.Function, append(slices.Clone(in), weights...), 0)
	curved := entries(hessian, second.out, len(by))

	stages := order * y.Substeps
	values, along := make([]lanes.Col, stages), make([][]direction, stages)
	for st := range stages {
		values[st] = x.layout.New(n.S)
		along[st] = slices.Clone(base)
		if st > 0 {
			for i, r := range x.rows(n.S) {
				along[st][i] = direction{row: r}
			}
		}
	}
	sum, sumBy, slopeBy := x.layout.New(n.S), x.rows(n.S), x.rows(n.S)
	x.linear = append(x.linear, x.glue(func(b *lanes.Builder) {
		b.Copy(values[0], x.s)
		b.Copy(in[:n.S], x.s)
	}))
	for st := range stages {
		ahead, share := ahead(st%order, length), length/6
		if q := st % order; q == 1 || q == 2 {
			share = length / 3
		}
		x.linear = append(x.linear, first.program, x.glue(func(b *lanes.Builder) {
			slope := first.out[:n.S]
			begin := st - st%order // the stage at the substep's beginning
			slopeBy := x.product(b, slopeBy, matrix, along[st])
			for i := range n.S {
				d := along[begin][i]
				// The sum of the slopes begins as the state at the beginning, and ends as the one after the substep.
				if st%order == 0 {
					b.Copy(sum[i:i+1], values[begin][i:i+1])
					x.directed(b, sumBy[i], d)
				}
				b.SetFMA(sum[i:i+1], slope[i:i+1], lanes.Col{number(share)}, sum[i:i+1])
				b.Row(sumBy[i], number(share), slopeBy[i], n.N)
				to, toBy := x.next[i:i+1], x.nextBy[i]
				if st+1 < stages {
					to, toBy = values[st+1][i:i+1], along[st+1][i].row
				}
				switch {
				case st%order < order-1:
					b.SetFMA(to, slope[i:i+1], lanes.Col{number(ahead)}, values[begin][i:i+1])
					if d.unit || d.none {
						b.RowSet(toBy, number(ahead), slopeBy[i], n.N)
						if d.unit {
							at := lanes.Col{toBy + lanes.Ref(d.k)}
							b.SetAdd(at, at, lanes.Col{one})
						}
					} else {
						b.RowSet(toBy, one, d.row, n.N)
						b.Row(toBy, number(ahead), slopeBy[i], n.N)
					}
				default:
					b.Copy(to, sum[i:i+1])
					b.RowSet(toBy, one, sumBy[i], n.N)
				}
			}
			if st+1 < stages {
				b.Copy(in[:n.S], values[st+1])
			}
		}))
	}

	end, back := x.layout.New(n.S), x.layout.New(n.S)
	for st := stages - 1; st >= 0; st-- {
		q := st % order
		share := length / 6
		if q == 1 || q == 2 {
			share = length / 3
		}
		backward = append(backward, x.glue(func(b *lanes.Builder) {
			b.Copy(in[:n.S], values[st])
			if q == order-1 {
				b.Copy(end, adjoint)
			}
			b.SetMul(weights, end, lanes.Col{number(share)})
			if q < order-1 {
				b.SetFMA(weights, back, lanes.Col{number(ahead(q, length))}, weights)
			}
		}), second.program, x.glue(func(b *lanes.Builder) {
			x.curve(b, curved, along[st], tangents)
			for i, a := range by {
				if a < n.S {
					b.Copy(back[a:a+1], second.out[i:i+1])
					b.SetAdd(adjoint[a:a+1], adjoint[a:a+1], second.out[i:i+1])
				}
			}
		}))
	}
	return backward
}

// ahead is how far the stage after stage q of the classical method goes along q's slope.
func ahead(q int, length float64) float64 {
	if q == 2 {
		return length
	}
	return length / 2
}

// directed writes a direction as a row.
func (x *maker) directed(b *lanes.Builder, row lanes.Ref, d direction) {
	switch {
	case d.none:
		x.zero(b, row)
	case d.unit:
		x.zero(b, row)
		b.Copy(lanes.Col{row + lanes.Ref(d.k)}, lanes.Col{x.constants.Of(1)})
	default:
		b.RowSet(row, x.constants.Of(1), d.row, x.sizes.N)
	}
}

// Machine evaluates as many points as it has lanes. It is for one goroutine at a time.
type Machine struct {
	code    *Code
	machine *lanes.Machine
}

// Compile readies the code for an instruction set and number of lanes (see lanes.Widths).
func (k *Code) Compile(level isa.Level, width int) (*lanes.Compiled, error) {
	return lanes.Compile(level, width, k.programs...)
}

// NewMachine is one of that code.
func (k *Code) NewMachine(compiled *lanes.Compiled) *Machine {
	m := lanes.NewMachine(compiled)
	k.constants.Fill(m)
	return &Machine{k, m}
}

// Set writes a point into a lane.
func (m *Machine) Set(lane int, s, c, u []float64) {
	for i, part := range [3][]float64{s, c, u} {
		if col := [3]lanes.Col{m.code.s, m.code.c, m.code.u}[i]; len(col) > 0 {
			m.machine.Scatter(col[0], lane, part)
		}
	}
}

// Linearise evaluates the points of all lanes with their first derivatives.
func (m *Machine) Linearise() {
	for _, p := range m.code.linear {
		m.machine.Run(p)
	}
}

// Values are those of a lane after Linearise: sNext, cNext, objectives and margins. Slices that are nil are passed over.
func (m *Machine) Values(lane int, sNext, cNext, j, margins []float64) {
	k := m.code
	for i, out := range [4][]float64{sNext, cNext, j, margins} {
		if col := [4]lanes.Col{k.next, k.after, k.j, k.m}[i]; len(out) > 0 {
			m.machine.Gather(out, col[0], lane)
		}
	}
}

// Slopes are the first derivatives of a lane after Linearise: of sNext and cNext, of the objectives and of the margins, each
// [entries][directions].
func (m *Machine) Slopes(lane int, next, j, margins []float64) {
	k, n := m.code, m.code.sizes.N
	for i, out := range [3][]float64{next, j, margins} {
		for r, row := range [3][]lanes.Ref{append(slices.Clip(k.nextBy), k.afterBy...), k.jBy, k.mBy}[i] {
			m.machine.Gather(out[r*n:(r+1)*n], row, lane)
		}
	}
}

// Weigh sets the weights of a lane for Curvature: of objectives, of (sNext, cNext), and of margins, which are subtracted.
func (m *Machine) Weigh(lane int, w, lambda, z []float64) {
	k := m.code
	for i, part := range [3][]float64{w, lambda, z} {
		if col := [3]lanes.Col{k.w, k.lambda, k.z}[i]; len(col) > 0 {
			m.machine.Scatter(col[0], lane, part)
		}
	}
}

// Curvature evaluates the second derivatives of wᵀj + λᵀ(sNext, cNext) − zᵀm, at the points of Linearise.
func (m *Machine) Curvature() {
	for _, p := range m.code.curvature {
		m.machine.Run(p)
	}
}

// Hessian writes the lower triangle of a lane's second derivatives into h, [directions][directions].
func (m *Machine) Hessian(lane int, h []float64) {
	n := m.code.sizes.N
	for r, row := range m.code.hessian {
		m.machine.Gather(h[r*n:r*n+r+1], row, lane)
	}
}
