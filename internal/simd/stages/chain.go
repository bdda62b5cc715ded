package stages

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// functions are those of a system, as the chain rule takes them.
type functions struct {
	sizes Sizes
	ode   *program.Function // (s, c, u) → ds; nil: step writes the state too
	step  *program.Function
	// decision is (s, c, u, sNext) → objectives, margins and, with ode, cNext; escaping is it without objectives.
	decision, escaping *program.Function
	followed           *program.Function // (s, c, u, sNext) → with ode, cNext
	escape             *program.Function // (s, c) → u within the box
}

func functionsOf(y System) (*functions, error) {
	lookup := func(name string) *program.Function { return y.Program.Function(name) }
	f := &functions{ode: lookup("ode"), step: lookup("step")}
	objectives, margins, escape := lookup("objectives"), lookup("margins"), lookup("escape")
	if f.step == nil || objectives == nil {
		return nil, fmt.Errorf("stages: program %q has a function step %t and objectives %t, want both", y.Program.Name, f.step != nil, objectives != nil)
	}
	if f.ode != nil && (y.Substeps < 1 || !(y.Span > 0)) {
		return nil, fmt.Errorf("stages: program %q has an ode over %v in %d substeps, want a span above 0 and at least 1", y.Program.Name, y.Span, y.Substeps)
	}
	size := func(name string) int {
		from, to, _ := objectives.Find(name)
		return to - from
	}
	f.sizes = Sizes{S: size("s"), C: size("c"), U: size("u"), J: objectives.Results()}
	n := f.sizes
	if margins != nil {
		f.sizes.M = margins.Results() * (1 + y.EscapeSteps)
	}
	whole := []program.Argument{{Name: "s", Size: n.S}, {Name: "c", Size: n.C}, {Name: "u", Size: n.U}, {Name: "sNext", Size: n.S}, {Name: program.Rounding, Size: 1}}
	joined := func(name string, parts ...*program.Function) *program.Function {
		b := program.NewBuilder(name, whole...)
		all := slices.Concat(b.In(0), b.In(1), b.In(2), b.In(3), b.In(4))
		var results []program.Value
		for _, p := range parts {
			if p != nil {
				results = append(results, b.Inline(p, all[:p.Entries()])...)
			}
		}
		return b.Function([]program.Argument{{Name: "results", Size: len(results)}}, results)
	}
	remembered := f.step
	if f.ode == nil {
		remembered = nil
	}
	f.decision, f.escaping, f.followed = joined("decided", objectives, margins, remembered), joined("escaping", margins, remembered), joined("followed", remembered)
	if y.EscapeSteps == 0 {
		return f, nil
	}
	if escape == nil || y.EscapeSteps < 0 || len(y.Lo) != n.U || len(y.Hi) != n.U {
		return nil, fmt.Errorf("stages: program %q has %d steps of an escape, a function escape %t and a box of %d and %d, want it and a box of %d",
			y.Program.Name, y.EscapeSteps, escape != nil, len(y.Lo), len(y.Hi), n.U)
	}
	b := program.NewBuilder("escape", whole[:2]...)
	u := b.Inline(escape, slices.Concat(b.In(0), b.In(1)))
	for i := range u {
		if !math.IsInf(y.Hi[i], 0) {
			u[i] = b.Apply(program.Min, b.Const(y.Hi[i]), u[i])
		}
		if !math.IsInf(y.Lo[i], 0) {
			u[i] = b.Apply(program.Max, b.Const(y.Lo[i]), u[i])
		}
	}
	f.escape = b.Function([]program.Argument{{Name: "u", Size: n.U}}, u)
	return f, nil
}

// stepOnly leaves the step: neither objectives nor margins.
func (f *functions) stepOnly() {
	f.sizes.J, f.sizes.M = 0, 0
	f.decision = f.followed
}

// moves says which entries of the context after a step have derivatives, the state after it having some.
func (f *functions) moves(inputs []direction) []bool {
	moves := make([]bool, f.sizes.C)
	j := f.step.Jacobian(f.step.Own())
	for k, r := range j.Rows {
		r -= f.step.Results() - f.sizes.C
		if c := j.Cols[k]; r >= 0 && (c >= len(inputs) || !inputs[c].constant) {
			moves[r] = true
		}
	}
	return moves
}

// shared is a function with its Jacobian or Hessian, in cells of its own, for every block.
type shared struct {
	function
	variables []int
	matrix    []entry
}

func (x *maker) jacobian(f *program.Function, variables []int) *shared {
	if x.plain {
		return &shared{function: x.function(f, f.Results())}
	}
	return x.slopes(f, variables)
}

func (x *maker) slopes(f *program.Function, variables []int) *shared {
	j := f.Jacobian(variables)
	g := x.function(j.Function, f.Results())
	return &shared{g, variables, entries(j, g.out, f.Results())}
}

// second is of a function's Hessian; its last inputs are the weights.
func (x *maker) second(f *program.Function, variables []int) *shared {
	if x.forwardOnly() {
		return nil
	}
	h := f.Hessian(variables)
	g := x.function(h.Function, 0)
	return &shared{g, variables, entries(h, g.out, len(variables))}
}

// addGradient adds the gradient by entries of the inputs from first on to cells.
func (g *shared) addGradient(b *lanes.Builder, dst lanes.Col, first int) {
	for i, a := range g.variables {
		if r := a - first; r >= 0 && r < len(dst) {
			b.SetAdd(dst[r:r+1], dst[r:r+1], g.out[i:i+1])
		}
	}
}

func copyCells(b *lanes.Builder, to, from lanes.Col) {
	if len(to) > 0 {
		b.Copy(to, from)
	}
}

// run adds programs to the way forward.
func (x *maker) run(programs ...int) { x.linear = append(x.linear, parts(programs...)...) }

func parts(programs ...int) (list []part) {
	for _, p := range programs {
		list = append(list, part{program: p})
	}
	return list
}

// write writes all programs: forward through the blocks with their directions, and back.
func (x *maker) write(y System, f *functions) {
	n := x.sizes
	// Inputs that move anywhere: the integrator's stages move every state.
	var variables, later []int
	for a := range n.S + n.C + n.U {
		moves := a < n.S
		for _, b := range x.blocks {
			moves = moves || !b.inputs[a].constant
		}
		if moves {
			variables = append(variables, a)
		}
	}
	later = append(later, variables...)
	for i := range n.S {
		later = append(later, n.S+n.C+n.U+i)
	}
	type pair struct{ first, second *shared }
	derivatives := func(g *program.Function, variables []int) pair {
		return pair{x.jacobian(g, variables), x.second(g, variables)}
	}
	dynamics := f.ode
	if dynamics == nil {
		dynamics = f.step
	}
	motion, decision := derivatives(dynamics, variables), derivatives(f.decision, later)
	if x.plain && y.Implicit {
		motion.first = x.slopes(dynamics, variables)
	}
	var escaping, escape pair
	if x.marginsOnly || len(x.blocks) > 1 {
		escaping = derivatives(f.escaping, later)
	}
	if len(x.blocks) > 1 {
		observed := slices.DeleteFunc(slices.Clone(variables), func(a int) bool { return a >= n.S+n.C })
		escape = derivatives(f.escape, observed)
	}
	for t, block := range x.blocks {
		if t > 0 {
			x.run(x.glue(func(b *lanes.Builder) {
				copyCells(b, escape.first.in, slices.Concat(block.s, block.c))
			}), escape.first.program, x.glue(func(b *lanes.Builder) {
				copyCells(b, block.u, escape.first.out[:n.U])
				var rows []lanes.Ref
				for _, d := range block.inputs[n.S+n.C:] {
					rows = append(rows, d.row)
				}
				x.productInto(b, rows, escape.first.matrix, block.inputs)
			}))
		}
		var back []part
		switch {
		case x.marginsOnly && t == 0:
		case f.ode == nil:
			back = parts(x.step(block, motion.first, motion.second)...)
		case y.Implicit:
			back = x.collocate(y, block, motion.first, motion.second)
		default:
			back = parts(x.integrate(y, block, motion.first, motion.second)...)
		}
		outcome := decision
		if t > 0 || x.marginsOnly {
			outcome = escaping
		}
		back = slices.Concat(parts(x.follow(f, t, outcome.first, outcome.second)...), back)
		if x.forwardOnly() {
			continue
		}
		cut := 0
		if t > 0 {
			cut = x.glue(func(b *lanes.Builder) { b.Copy(block.toIn, lanes.Col{x.constants.Of(0)}) })
			back = append(back, parts(x.glue(func(b *lanes.Builder) {
				copyCells(b, escape.second.in[:n.S+n.C], slices.Concat(block.s, block.c))
				copyCells(b, escape.second.in[n.S+n.C:], block.toIn[n.S+n.C:])
			}), escape.second.program, x.glue(func(b *lanes.Builder) {
				x.curve(b, escape.second.matrix, block.inputs)
				escape.second.addGradient(b, block.toIn[:n.S+n.C], 0)
			}))...)
		}
		x.backward, x.cut = append(x.backward, back), append(x.cut, cut)
	}
	x.begin = x.glue(func(b *lanes.Builder) { x.zero(b, x.hessian...) })
}

// follow writes what follows the step of a block: objectives, margins and the context. What it returns begins the way back.
func (x *maker) follow(f *functions, t int, first, second *shared) []int {
	n, block := x.sizes, x.blocks[t]
	whole := slices.Concat(block.s, block.c, block.u, block.next)
	directions := slices.Clone(block.inputs)
	for _, r := range block.nextBy {
		directions = append(directions, direction{row: r})
	}
	j, jBy, w := x.j, x.jBy, x.w
	if t > 0 || x.marginsOnly {
		j, jBy, w = nil, nil, nil
	}
	m := len(block.m)
	x.run(x.glue(func(b *lanes.Builder) { copyCells(b, first.in, whole) }), first.program, x.glue(func(b *lanes.Builder) {
		copyCells(b, j, first.out[:len(j)])
		copyCells(b, block.m, first.out[len(j):len(j)+m])
		rows := slices.Concat(jBy, block.mBy)
		if f.ode != nil {
			copyCells(b, block.context, first.out[len(j)+m:len(j)+m+n.C])
			rows = append(rows, block.contextBy...)
		}
		x.productInto(b, rows, first.matrix, directions)
	}))
	if x.forwardOnly() {
		return nil
	}
	return []int{x.glue(func(b *lanes.Builder) {
		// The adjoint of what the step leads to: of the decision's what is asked for, and what the escape after it gives.
		adjoint := slices.Concat(block.toNext, block.toContext)
		switch {
		case t+1 < len(x.blocks) && t > 0:
			copyCells(b, adjoint, x.blocks[t+1].toIn[:n.S+n.C])
		case t+1 < len(x.blocks):
			b.SetAdd(adjoint, x.lambda, x.blocks[t+1].toIn[:n.S+n.C])
		case t > 0:
			b.Copy(adjoint, lanes.Col{x.constants.Of(0)})
		default:
			b.Copy(adjoint, x.lambda)
		}
		copyCells(b, second.in[:len(whole)], whole)
		weights := second.in[len(whole):]
		copyCells(b, weights[:len(w)], w)
		for i := range m {
			b.SetSub(weights[len(w)+i:len(w)+i+1], lanes.Col{x.constants.Of(0)}, block.z[i:i+1])
		}
		if f.ode != nil {
			copyCells(b, weights[len(w)+m:], block.toContext)
		}
	}), second.program, x.glue(func(b *lanes.Builder) {
		x.curve(b, second.matrix, directions)
		second.addGradient(b, block.toNext, len(block.inputs))
		b.Copy(block.toIn, lanes.Col{x.constants.Of(0)})
		second.addGradient(b, block.toIn, 0)
	})}
}

// step writes a step that a function takes.
func (x *maker) step(block *block, first, second *shared) []int {
	n := x.sizes
	whole := slices.Concat(block.s, block.c, block.u)
	x.run(x.glue(func(b *lanes.Builder) { copyCells(b, first.in, whole) }), first.program, x.glue(func(b *lanes.Builder) {
		copyCells(b, block.next, first.out[:n.S])
		copyCells(b, block.context, first.out[n.S:n.S+n.C])
		x.productInto(b, slices.Concat(block.nextBy, block.contextBy), first.matrix, block.inputs)
	}))
	if x.forwardOnly() {
		return nil
	}
	return []int{x.glue(func(b *lanes.Builder) {
		copyCells(b, second.in, slices.Concat(whole, block.toNext, block.toContext))
	}), second.program, x.glue(func(b *lanes.Builder) {
		x.curve(b, second.matrix, block.inputs)
		second.addGradient(b, block.toIn, 0)
	})}
}

// order of the Runge–Kutta method, and its number of stages.
const order = 4

// ahead is how far the stage after stage q goes along q's slope, share the weight of that slope in the step.
func ahead(q int, length float64) float64 { return length * [order]float64{0.5, 0.5, 1, 0}[q] }
func share(q int, length float64) float64 { return length / [order]float64{6, 3, 3, 6}[q] }

// integrate writes the Runge–Kutta steps: forward the stages with their directions, which are kept; what it returns takes the adjoints of
// the stages, each with the second derivatives of the ode there.
func (x *maker) integrate(y System, block *block, first, second *shared) []int {
	n := x.sizes
	length := y.Span / float64(y.Substeps)
	number := func(v float64) lanes.Ref { return x.constants.Of(v) }
	constant := slices.Concat(block.c, block.u) // through the step
	stages := order * y.Substeps
	for st := range stages {
		directions := slices.Clone(block.inputs)
		values := block.s
		if st > 0 {
			values = x.layout.New(n.S)
			for i, r := range x.rows(n.S) {
				directions[i] = direction{row: r}
			}
		}
		block.values, block.directions = append(block.values, values), append(block.directions, directions)
	}
	sum := x.layout.New(n.S)
	scaled := x.layout.New(len(first.matrix))
	x.run(x.glue(func(b *lanes.Builder) { copyCells(b, first.in, slices.Concat(block.s, constant)) }))
	for st := range stages {
		q, begin := st%order, st-st%order
		x.run(first.program, x.glue(func(b *lanes.Builder) {
			slope := first.out[:n.S]
			distance := ahead(q, length)
			if q == order-1 {
				distance = share(q, length)
			}
			matrix := slices.Clone(first.matrix)
			for k, e := range matrix {
				b.SetMul(scaled[k:k+1], lanes.Col{e.cell}, lanes.Col{number(distance)})
				matrix[k].cell = scaled[k]
			}
			// The sum begins as the state at the substep's beginning, and ends as the one after it.
			if q == 0 {
				b.Copy(sum, block.values[begin])
			}
			b.SetFMA(sum, slope, lanes.Col{number(share(q, length))}, sum)
			to := block.next
			if st+1 < stages {
				to = block.values[st+1]
			}
			if q == order-1 {
				b.Copy(to, sum)
			} else {
				b.SetFMA(to, slope, lanes.Col{number(distance)}, block.values[begin])
			}
			for i := range n.S {
				toBy := block.nextBy[i]
				if st+1 < stages {
					toBy = block.directions[st+1][i].row
				}
				from := []term{{number(1), block.directions[begin][i]}}
				if q == order-1 {
					// The slopes of the stages before are differences of the states there.
					from = []term{
						{number(-1. / 3), block.directions[begin][i]}, {number(1. / 3), block.directions[begin+1][i]},
						{number(2. / 3), block.directions[begin+2][i]}, {number(1. / 3), block.directions[begin+3][i]},
					}
				}
				for _, e := range matrix {
					if e.row == i {
						from = append(from, term{e.cell, block.directions[st][e.col]})
					}
				}
				x.combine(b, toBy, from)
			}
			if st+1 < stages {
				b.Copy(first.in[:n.S], block.values[st+1])
			}
		}))
	}
	if x.forwardOnly() {
		return nil
	}

	end, back := x.layout.New(n.S), x.layout.New(n.S)
	weights := second.in[n.S+n.C+n.U:]
	var backward []int
	for st := stages - 1; st >= 0; st-- {
		q := st % order
		backward = append(backward, x.glue(func(b *lanes.Builder) {
			if st == stages-1 {
				copyCells(b, second.in[n.S:n.S+n.C+n.U], constant)
			}
			b.Copy(second.in[:n.S], block.values[st])
			if q == order-1 {
				b.Copy(end, block.toNext)
			}
			b.SetMul(weights, end, lanes.Col{number(share(q, length))})
			if q < order-1 {
				b.SetFMA(weights, back, lanes.Col{number(ahead(q, length))}, weights)
			}
		}), second.program, x.glue(func(b *lanes.Builder) {
			x.curve(b, second.matrix, block.directions[st])
			b.Copy(back, lanes.Col{number(0)})
			second.addGradient(b, back, 0)
			b.SetAdd(block.toNext, block.toNext, back)
			second.addGradient(b, block.toIn[n.S:], n.S)
			if st == 0 { // the adjoint of the state at the beginning
				b.SetAdd(block.toIn[:n.S], block.toIn[:n.S], block.toNext)
			}
		}))
	}
	return backward
}
