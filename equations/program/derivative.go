package program

import (
	"fmt"
	"slices"
)

// Sparse is a function whose last output holds the entries of a matrix that are not zero whatever the
// inputs are: entry k stands in row Rows[k] and column Cols[k].
type Sparse struct {
	*Function
	Rows, Cols []int
}

// Jacobian computes what f does, then the derivatives of output Rows[k] by input Cols[k] as the output "jacobian", row after
// row. by lists the inputs' entries to differentiate by, ascending; nil: all. Of forward and reverse
// differentiation it takes the one with fewer operations.
func (f *Function) Jacobian(by []int) *Sparse {
	forward, reverse := f.jacobian(by, false), f.jacobian(by, true)
	if reverse.Operations() < forward.Operations() {
		return reverse
	}
	return forward
}

func (f *Function) jacobian(by []int, reverse bool) *Sparse {
	by = f.entries(by)
	b := NewBuilder(f.name+"_jacobian", f.in...)
	at := b.inline(f, b.all())
	results := make([]Value, len(f.results))
	for i, v := range f.results {
		results[i] = at[v]
	}
	rows := make([][]entry, len(results))
	if reverse {
		for i, v := range results {
			for k, slope := range b.adjoints([]Value{v}, []Value{b.Const(1)}, by) {
				if slope != absent {
					rows[i] = append(rows[i], entry{by[k], slope})
				}
			}
		}
	} else {
		rows = b.tangents(results, by)
	}
	s := &Sparse{}
	var values []Value
	for i, row := range rows {
		for _, e := range row {
			if c, ok := b.Constant(e.value); ok && c == 0 {
				continue
			}
			s.Rows, s.Cols, values = append(s.Rows, i), append(s.Cols, e.col), append(values, e.value)
		}
	}
	s.Function = b.Function(append(f.Outputs(), Argument{Name: "jacobian", Size: len(values)}), append(results, values...))
	return s
}

// Gradient computes the derivatives of weightsᵀ·outputs by the inputs' entries by, in their order, as the output
// "gradient", in reverse. The last input, "weights", has an entry for each of the outputs of f.
func (f *Function) Gradient(by []int) *Function {
	by = f.entries(by)
	b, gradient := f.weighed("_gradient", by)
	return b.Function([]Argument{{Name: "gradient", Size: len(by)}}, b.dense(gradient))
}

// Hessian computes what Gradient does, then the second derivatives of weightsᵀ·outputs as the output "hessian": the
// lower triangle, row after row, Rows[k] ≥ Cols[k] being entries of the inputs. With weights of
// objectives, limits and multipliers it is that of a Lagrangian. It is forward over reverse.
func (f *Function) Hessian(by []int) *Sparse {
	by = f.entries(by)
	b, gradient := f.weighed("_hessian", by)
	dense := b.dense(gradient)
	rows := b.tangents(dense, by)
	s := &Sparse{}
	var values []Value
	for i, row := range rows {
		for _, e := range row {
			if c, ok := b.Constant(e.value); e.col > by[i] || ok && c == 0 {
				continue
			}
			s.Rows, s.Cols, values = append(s.Rows, by[i]), append(s.Cols, e.col), append(values, e.value)
		}
	}
	s.Function = b.Function([]Argument{{Name: "gradient", Size: len(by)}, {Name: "hessian", Size: len(values)}}, append(dense, values...))
	return s
}

// weighed begins the gradient of weightsᵀ·outputs.
func (f *Function) weighed(suffix string, by []int) (*Builder, []Value) {
	b := NewBuilder(f.name+suffix, append(f.Inputs(), Argument{Name: "weights", Size: len(f.results)})...)
	inputs := b.all()
	at := b.inline(f, inputs[:f.inputs])
	results := make([]Value, len(f.results))
	for i, v := range f.results {
		results[i] = at[v]
	}
	return b, b.adjoints(results, inputs[f.inputs:], by)
}

// entries checks by, or is all.
func (f *Function) entries(by []int) []int {
	if by == nil {
		by = make([]int, f.inputs)
		for i := range by {
			by[i] = i
		}
	}
	for i, a := range by {
		if a < 0 || a >= f.inputs || i > 0 && by[i-1] >= a {
			panic(fmt.Sprintf("program: function %q of %d inputs has no derivatives by %v, want entries in ascending order", f.name, f.inputs, by))
		}
	}
	return by
}

// all are the values of the inputs' entries.
func (b *Builder) all() []Value {
	v := make([]Value, b.inputs)
	for i := range v {
		v[i] = Value(i)
	}
	return v
}

// absent is a derivative that is zero whatever the inputs are.
const absent Value = -1

// dense writes zeros for what is absent.
func (b *Builder) dense(v []Value) []Value {
	v = slices.Clone(v)
	for i := range v {
		if v[i] == absent {
			v[i] = b.Const(0)
		}
	}
	return v
}

// times is a product of derivatives: zero where one of them is zero whatever the inputs are.
func (b *Builder) times(x, y Value) Value {
	if x == absent || y == absent {
		return absent
	}
	for _, v := range [2]Value{x, y} {
		if c, ok := b.Constant(v); ok && c == 0 {
			return absent
		}
	}
	return b.Apply(Mul, x, y)
}

func (b *Builder) plus(x, y Value) Value {
	switch {
	case x == absent:
		return y
	case y == absent:
		return x
	}
	return b.Apply(Add, x, y)
}

// pick is Select of derivatives, which may be absent.
func (b *Builder) pick(condition, x, y Value) Value {
	if x == absent && y == absent {
		return absent
	}
	d := b.dense([]Value{x, y})
	return b.Apply(Select, condition, d[0], d[1])
}

// branch says that a node is one of two values, as a condition says.
func (b *Builder) branch(n *node) (condition, x, y Value, ok bool) {
	switch n.op {
	case Select:
		return n.arg[0], n.arg[1], n.arg[2], true
	case Max: // the first where both are equal
		return b.Apply(AtMost, n.arg[1], n.arg[0]), n.arg[0], n.arg[1], true
	case Min:
		return b.Apply(AtMost, n.arg[0], n.arg[1]), n.arg[0], n.arg[1], true
	}
	return 0, 0, 0, false
}

// partials are the derivatives of node v by its operands. Those by constants need not be known.
func (b *Builder) partials(v Value, n node) (by [2]Value) {
	by = [2]Value{absent, absent}
	one := func() Value { return b.Const(1) }
	square := func(x Value) Value { return b.Apply(Mul, x, x) }
	unlessZero := func(x, slope Value) Value { return b.Apply(Select, b.Apply(Equal, x, b.Const(0)), b.Const(0), slope) }
	inverse := func(x Value) Value { return b.Apply(Div, one(), x) }
	x, y := n.arg[0], n.arg[1]
	varies := func(operand Value) bool { _, fixed := b.Constant(operand); return !fixed }
	switch n.op {
	case Add:
		by = [2]Value{one(), one()}
	case Sub:
		by = [2]Value{one(), b.Const(-1)}
	case Mul:
		by = [2]Value{y, x}
	case Div:
		by[0] = inverse(y)
		if varies(y) {
			by[1] = b.Apply(Neg, b.Apply(Mul, v, by[0]))
		}
	case Neg:
		by[0] = b.Const(-1)
	case Abs:
		zero := b.Const(0)
		by[0] = b.Apply(Select, b.Apply(Less, zero, x), one(), b.Apply(Select, b.Apply(Less, x, zero), b.Const(-1), zero))
	case Sqrt:
		by[0] = unlessZero(v, b.Apply(Div, b.Const(0.5), v))
	case Sin:
		by[0] = b.Apply(Cos, x)
	case Cos:
		by[0] = b.Apply(Neg, b.Apply(Sin, x))
	case Tan:
		by[0] = b.Apply(Add, one(), square(v))
	case Asin, Acos:
		by[0] = inverse(b.Apply(Sqrt, b.Apply(Mul, b.Apply(Sub, one(), x), b.Apply(Add, one(), x))))
		if n.op == Acos {
			by[0] = b.Apply(Neg, by[0])
		}
	case Atan:
		by[0] = inverse(b.Apply(Add, one(), square(x)))
	case Sinh:
		by[0] = b.Apply(Cosh, x)
	case Cosh:
		by[0] = b.Apply(Sinh, x)
	case Tanh:
		by[0] = b.Apply(Mul, b.Apply(Sub, one(), v), b.Apply(Add, one(), v))
	case Exp:
		by[0] = v
	case Log:
		by[0] = inverse(x)
	case Pow:
		by[0] = b.Apply(Mul, y, b.Apply(Pow, x, b.Apply(Sub, y, one())))
		if varies(y) {
			by[1] = unlessZero(x, b.Apply(Mul, v, b.Apply(Log, x)))
		}
	case Atan2: // of (y, x), as its operands stand
		r := b.Apply(Add, square(x), square(y))
		by[0] = unlessZero(r, b.Apply(Div, y, r))
		by[1] = unlessZero(r, b.Apply(Neg, b.Apply(Div, x, r)))
	case Hypot:
		by[0] = unlessZero(v, b.Apply(Div, x, v))
		by[1] = unlessZero(v, b.Apply(Div, y, v))
	}
	return by // Floor, Detach and truths: none
}

// entry is a derivative by one input.
type entry struct {
	col   int
	value Value
}

// tangents differentiates forward: for each of the values its derivatives by the entries of the inputs in by that it has.
func (b *Builder) tangents(values []Value, by []int) [][]entry {
	last := Value(-1)
	for _, v := range values {
		last = max(last, v)
	}
	of := make([][]entry, last+1)
	for _, a := range by {
		if Value(a) <= last {
			of[a] = []entry{{a, b.Const(1)}}
		}
	}
	for v := Value(b.inputs); v <= last; v++ {
		n := *b.at(v)
		if condition, x, y, ok := b.branch(&n); ok {
			of[v] = joined(of[x], of[y], func(dx, dy Value) Value { return b.pick(condition, dx, dy) })
			continue
		}
		if n.op.Arity() == 0 || n.op.Arity() == 1 && len(of[n.arg[0]]) == 0 || n.op.Arity() == 2 && len(of[n.arg[0]])+len(of[n.arg[1]]) == 0 {
			continue
		}
		slopes := b.partials(v, n)
		var second []entry
		if n.op.Arity() > 1 {
			second = of[n.arg[1]]
		}
		of[v] = joined(of[n.arg[0]], second, func(dx, dy Value) Value {
			return b.plus(b.times(slopes[0], dx), b.times(slopes[1], dy))
		})
	}
	rows := make([][]entry, len(values))
	for i, v := range values {
		rows[i] = of[v]
	}
	return rows
}

// joined merges two rows by column; f has absent for what one of them lacks, and may return it.
func joined(x, y []entry, f func(dx, dy Value) Value) (row []entry) {
	for len(x)+len(y) > 0 {
		e, dx, dy := entry{}, absent, absent
		if len(y) == 0 || len(x) > 0 && x[0].col <= y[0].col {
			e.col, dx = x[0].col, x[0].value
		} else {
			e.col = y[0].col
		}
		if len(y) > 0 && y[0].col == e.col {
			dy, y = y[0].value, y[1:]
		}
		if dx != absent {
			x = x[1:]
		}
		if e.value = f(dx, dy); e.value != absent {
			row = append(row, e)
		}
	}
	return row
}

// guard is the arm of a branch that an adjoint belongs to, within another. An adjoint is held apart from what the other arm
// needs, and selected once it meets that: multiplied by zero it would leak a NaN of the arm that was not taken.
type guard struct {
	within    *guard
	condition Value
	taken     bool
}

// inside reports whether g is h or stands somewhere in it.
func (g *guard) inside(h *guard) bool {
	for ; g != h; g = g.within {
		if g == nil {
			return false
		}
	}
	return true
}

// decided is which arm of a condition g stands in.
func (g *guard) decided(condition Value) (taken, known bool) {
	for ; g != nil; g = g.within {
		if g.condition == condition {
			return g.taken, true
		}
	}
	return false, false
}

// adjoint is a derivative of the result by a value, within a guard.
type adjoint struct {
	guard *guard
	value Value
}

// adjoints differentiates seedᵀ·values in reverse, by the entries of the inputs in by.
func (b *Builder) adjoints(values, seeds []Value, by []int) []Value {
	last := Value(b.inputs - 1)
	for _, v := range values {
		last = max(last, v)
	}
	active := make([]bool, last+1)
	for _, a := range by {
		active[a] = true
	}
	for v := Value(b.inputs); v <= last; v++ {
		n := b.at(v)
		for k := range n.op.Arity() {
			active[v] = active[v] || active[n.arg[k]]
		}
	}
	of := make([][]adjoint, last+1)
	guards := map[guard]*guard{}
	enter := func(g *guard, condition Value, taken bool) *guard {
		key := guard{g, condition, taken}
		if guards[key] == nil {
			guards[key] = &key
		}
		return guards[key]
	}
	add := func(v Value, g *guard, slope Value) {
		if slope == absent || !active[v] {
			return
		}
		for i := range of[v] {
			if a := &of[v][i]; a.guard == g {
				a.value = b.Apply(Add, a.value, slope)
				return
			}
		}
		of[v] = append(of[v], adjoint{g, slope})
	}
	for i, v := range values {
		add(v, nil, seeds[i])
	}
	for v := last; v >= Value(b.inputs); v-- {
		if len(of[v]) == 0 {
			continue
		}
		n := *b.at(v)
		list := b.settle(of[v], false)
		if condition, x, y, ok := b.branch(&n); ok {
			for _, a := range list {
				taken, known := a.guard.decided(condition)
				switch {
				case known && taken:
					add(x, a.guard, a.value)
				case known:
					add(y, a.guard, a.value)
				default:
					add(x, enter(a.guard, condition, true), a.value)
					add(y, enter(a.guard, condition, false), a.value)
				}
			}
			continue
		}
		slopes := b.partials(v, n)
		for k := range min(2, n.op.Arity()) {
			for _, a := range list {
				add(n.arg[k], a.guard, b.times(a.value, slopes[k]))
			}
		}
	}
	out := make([]Value, len(by))
	for i, a := range by {
		out[i] = absent
		for _, a := range b.settle(of[a], true) {
			out[i] = a.value
		}
	}
	return out
}

// settle joins adjoints of one value where both arms of a branch need it, or what stands around the branch does:
// its derivatives are computed then whatever the branch is. whole joins all, into one without a guard.
func (b *Builder) settle(list []adjoint, whole bool) []adjoint {
	list = slices.Clone(list)
	find := func(g *guard) int {
		return slices.IndexFunc(list, func(a adjoint) bool { return a.guard == g })
	}
	for again := true; again; {
		again = false
		for i, a := range list {
			if a.guard == nil {
				continue
			}
			g := a.guard
			other := -1
			for k := range list {
				if h := list[k].guard; h != nil && h.within == g.within && h.condition == g.condition && h.taken != g.taken {
					other = k
				}
			}
			around := slices.ContainsFunc(list, func(c adjoint) bool { return c.guard != g && g.inside(c.guard) })
			if other < 0 && !around && !whole {
				continue
			}
			pair := [2]Value{absent, absent} // taken, not
			set := func(a adjoint) {
				if a.guard.taken {
					pair[0] = a.value
				} else {
					pair[1] = a.value
				}
			}
			set(a)
			gone := []int{i}
			if other >= 0 {
				set(list[other])
				gone = append(gone, other)
			}
			v := b.pick(g.condition, pair[0], pair[1])
			slices.Sort(gone)
			for _, k := range slices.Backward(gone) {
				list = slices.Delete(list, k, k+1)
			}
			if k := find(g.within); k >= 0 {
				list[k].value = b.Apply(Add, list[k].value, v)
			} else {
				list = append(list, adjoint{g.within, v})
			}
			again = true
			break
		}
	}
	return list
}
