package program

import (
	"fmt"
	"slices"
)

// Sparse is a function whose last output holds the structurally non-zero entries of a matrix: entry k stands in row
// Rows[k] and column Cols[k].
type Sparse struct {
	*Function
	Rows, Cols []int
}

// Jacobian computes f, then the derivatives of output Rows[k] by input Cols[k] as the output "jacobian", row by row.
// columns lists the entries of the inputs, ascending; nil: all. It takes the cheaper of forward and reverse
// differentiation.
func (f *Function) Jacobian(columns []int) *Sparse {
	forward, reverse := f.jacobian(columns, false), f.jacobian(columns, true)
	if reverse.Operations() < forward.Operations() {
		return reverse
	}
	return forward
}

func (f *Function) jacobian(columns []int, reverse bool) *Sparse {
	columns = f.entries(columns)
	b := NewBuilder(f.name+"_jacobian", f.in...)
	results := b.Inline(f, b.inputValues())
	rows := make([][]entry, len(results))
	if reverse {
		for i, v := range results {
			for k, slope := range b.adjoints([]Value{v}, []Value{b.Const(1)}, columns) {
				if slope != absent {
					rows[i] = append(rows[i], entry{columns[k], slope})
				}
			}
		}
	} else {
		rows = b.tangents(results, columns)
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

// Gradient computes the derivatives of weightsᵀ·outputs by the given entries of the inputs, in their order, as the
// output "gradient", in reverse. The last input, "weights", has an entry for each output of f.
func (f *Function) Gradient(columns []int) *Function {
	columns = f.entries(columns)
	b, gradient := f.weightedGradient("_gradient", columns)
	return b.Function([]Argument{{Name: "gradient", Size: len(columns)}}, b.dense(gradient))
}

// Hessian computes Gradient, then the second derivatives of weightsᵀ·outputs as the output "hessian": the lower
// triangle, row by row; Rows[k] ≥ Cols[k] are entries of the inputs. With weights of objectives, limits and
// multipliers it is that of a Lagrangian. It is forward over reverse.
func (f *Function) Hessian(columns []int) *Sparse {
	columns = f.entries(columns)
	b, gradient := f.weightedGradient("_hessian", columns)
	dense := b.dense(gradient)
	rows := b.tangents(dense, columns)
	s := &Sparse{}
	var values []Value
	for i, row := range rows {
		for _, e := range row {
			if c, ok := b.Constant(e.value); e.col > columns[i] || ok && c == 0 {
				continue
			}
			s.Rows, s.Cols, values = append(s.Rows, columns[i]), append(s.Cols, e.col), append(values, e.value)
		}
	}
	s.Function = b.Function([]Argument{{Name: "gradient", Size: len(columns)}, {Name: "hessian", Size: len(values)}}, append(dense, values...))
	return s
}

// weightedGradient starts the gradient of weightsᵀ·outputs.
func (f *Function) weightedGradient(suffix string, columns []int) (*Builder, []Value) {
	b := NewBuilder(f.name+suffix, append(f.Inputs(), Argument{Name: "weights", Size: len(f.results)})...)
	inputs := b.inputValues()
	return b, b.adjoints(b.Inline(f, inputs[:f.inputs]), inputs[f.inputs:], columns)
}

// entries checks columns; nil means all.
func (f *Function) entries(columns []int) []int {
	if columns == nil {
		columns = make([]int, f.inputs)
		for i := range columns {
			columns[i] = i
		}
	}
	for i, a := range columns {
		if a < 0 || a >= f.inputs || i > 0 && columns[i-1] >= a {
			panic(fmt.Sprintf("program: function %q of %d inputs has no derivatives by %v, want entries in ascending order", f.name, f.inputs, columns))
		}
	}
	return columns
}

// inputValues are the values of the inputs' entries.
func (b *Builder) inputValues() []Value {
	v := make([]Value, b.inputs)
	for i := range v {
		v[i] = Value(i)
	}
	return v
}

// absent is a structurally zero derivative.
const absent Value = -1

// dense replaces absent derivatives by zeros.
func (b *Builder) dense(v []Value) []Value {
	v = slices.Clone(v)
	for i := range v {
		if v[i] == absent {
			v[i] = b.Const(0)
		}
	}
	return v
}

// multiply is a product of derivatives, absent where one of them is zero.
func (b *Builder) multiply(x, y Value) Value {
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

func (b *Builder) sum(x, y Value) Value {
	switch {
	case x == absent:
		return y
	case y == absent:
		return x
	}
	return b.Apply(Add, x, y)
}

// selectSlope is Select of derivatives, which may be absent.
func (b *Builder) selectSlope(condition, x, y Value) Value {
	if x == absent && y == absent {
		return absent
	}
	d := b.dense([]Value{x, y})
	return b.Apply(Select, condition, d[0], d[1])
}

// branch is the condition and the two arms of a node that takes one of two values.
func (b *Builder) branch(n *node) (arms [3]Value, ok bool) {
	switch n.op {
	case Select:
		return n.arg, true
	case Max: // the first where both are equal
		return [3]Value{b.Apply(AtMost, n.arg[1], n.arg[0]), n.arg[0], n.arg[1]}, true
	case Min:
		return [3]Value{b.Apply(AtMost, n.arg[0], n.arg[1]), n.arg[0], n.arg[1]}, true
	}
	return arms, false
}

// partials are the derivatives of node v by its operands. Those by constants may be absent.
func (b *Builder) partials(v Value, n node) (slopes [2]Value) {
	slopes = [2]Value{absent, absent}
	one := func() Value { return b.Const(1) }
	square := func(x Value) Value { return b.Apply(Mul, x, x) }
	unlessZero := func(x, slope Value) Value { return b.Apply(Select, b.Apply(Equal, x, b.Const(0)), b.Const(0), slope) }
	inverse := func(x Value) Value { return b.Apply(Div, one(), x) }
	x, y := n.arg[0], n.arg[1]
	varies := func(operand Value) bool { _, fixed := b.Constant(operand); return !fixed }
	switch n.op {
	case Add:
		slopes = [2]Value{one(), one()}
	case Sub:
		slopes = [2]Value{one(), b.Const(-1)}
	case Mul:
		slopes = [2]Value{y, x}
	case Div:
		slopes[0] = inverse(y)
		if varies(y) {
			slopes[1] = b.Apply(Neg, b.Apply(Mul, v, slopes[0]))
		}
	case Neg:
		slopes[0] = b.Const(-1)
	case Abs:
		zero := b.Const(0)
		slopes[0] = b.Apply(Select, b.Apply(Less, zero, x), one(), b.Apply(Select, b.Apply(Less, x, zero), b.Const(-1), zero))
	case Sqrt:
		slopes[0] = unlessZero(v, b.Apply(Div, b.Const(0.5), v))
	case Sin:
		slopes[0] = b.Apply(Cos, x)
	case Cos:
		slopes[0] = b.Apply(Neg, b.Apply(Sin, x))
	case Tan:
		slopes[0] = b.Apply(Add, one(), square(v))
	case Asin, Acos:
		slopes[0] = inverse(b.Apply(Sqrt, b.Apply(Mul, b.Apply(Sub, one(), x), b.Apply(Add, one(), x))))
		if n.op == Acos {
			slopes[0] = b.Apply(Neg, slopes[0])
		}
	case Atan:
		slopes[0] = inverse(b.Apply(Add, one(), square(x)))
	case Sinh:
		slopes[0] = b.Apply(Cosh, x)
	case Cosh:
		slopes[0] = b.Apply(Sinh, x)
	case Tanh:
		slopes[0] = b.Apply(Mul, b.Apply(Sub, one(), v), b.Apply(Add, one(), v))
	case Exp:
		slopes[0] = v
	case Log:
		slopes[0] = inverse(x)
	case Pow:
		slopes[0] = b.Apply(Mul, y, b.Apply(Pow, x, b.Apply(Sub, y, one())))
		if varies(y) {
			slopes[1] = unlessZero(x, b.Apply(Mul, v, b.Apply(Log, x)))
		}
	case Atan2: // of (y, x), as its operands stand
		r := b.Apply(Add, square(x), square(y))
		slopes[0] = unlessZero(r, b.Apply(Div, y, r))
		slopes[1] = unlessZero(r, b.Apply(Neg, b.Apply(Div, x, r)))
	case Hypot:
		slopes[0] = unlessZero(v, b.Apply(Div, x, v))
		slopes[1] = unlessZero(v, b.Apply(Div, y, v))
	}
	return slopes // Floor, Detach and comparisons have none
}

// entry is a derivative by one input.
type entry struct {
	col   int
	value Value
}

// tangents differentiates forward: for each value, its non-zero derivatives by the given entries of the inputs.
func (b *Builder) tangents(values []Value, columns []int) [][]entry {
	last := Value(-1)
	for _, v := range values {
		last = max(last, v)
	}
	slopes := make([][]entry, last+1)
	for _, a := range columns {
		if Value(a) <= last {
			slopes[a] = []entry{{a, b.Const(1)}}
		}
	}
	for v := Value(b.inputs); v <= last; v++ {
		n := *b.node(v)
		if arms, ok := b.branch(&n); ok {
			slopes[v] = merge(slopes[arms[1]], slopes[arms[2]], func(dx, dy Value) Value { return b.selectSlope(arms[0], dx, dy) })
			continue
		}
		if n.op.Arity() == 0 || n.op.Arity() == 1 && len(slopes[n.arg[0]]) == 0 || n.op.Arity() == 2 && len(slopes[n.arg[0]])+len(slopes[n.arg[1]]) == 0 {
			continue
		}
		local := b.partials(v, n)
		var second []entry
		if n.op.Arity() > 1 {
			second = slopes[n.arg[1]]
		}
		slopes[v] = merge(slopes[n.arg[0]], second, func(dx, dy Value) Value {
			return b.sum(b.multiply(local[0], dx), b.multiply(local[1], dy))
		})
	}
	rows := make([][]entry, len(values))
	for i, v := range values {
		rows[i] = slopes[v]
	}
	return rows
}

// merge merges two rows by column. f gets absent for a missing derivative, and may return it.
func merge(x, y []entry, f func(dx, dy Value) Value) (row []entry) {
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

// guard is the arm of a branch that an adjoint belongs to, nested in a parent. Adjoints of the two arms stay apart
// until a value needs both. Multiplying by zero would leak a NaN of the arm that was not taken.
type guard struct {
	parent    *guard
	condition Value
	then      bool
}

// within reports whether g is h or nested in it.
func (g *guard) within(h *guard) bool {
	for ; g != h; g = g.parent {
		if g == nil {
			return false
		}
	}
	return true
}

// arm is the arm of a condition that g is in.
func (g *guard) arm(condition Value) (then, found bool) {
	for ; g != nil; g = g.parent {
		if g.condition == condition {
			return g.then, true
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
func (b *Builder) adjoints(values, seeds []Value, columns []int) []Value {
	last := Value(b.inputs - 1)
	for _, v := range values {
		last = max(last, v)
	}
	active := make([]bool, last+1)
	for _, a := range columns {
		active[a] = true
	}
	for v := Value(b.inputs); v <= last; v++ {
		n := b.node(v)
		for k := range n.op.Arity() {
			active[v] = active[v] || active[n.arg[k]]
		}
	}
	slots := make([][]adjoint, last+1)
	guards := map[guard]*guard{}
	enter := func(g *guard, condition Value, then bool) *guard {
		key := guard{g, condition, then}
		if guards[key] == nil {
			guards[key] = &key
		}
		return guards[key]
	}
	add := func(v Value, g *guard, slope Value) {
		if slope == absent || !active[v] {
			return
		}
		for i := range slots[v] {
			if a := &slots[v][i]; a.guard == g {
				a.value = b.Apply(Add, a.value, slope)
				return
			}
		}
		slots[v] = append(slots[v], adjoint{g, slope})
	}
	for i, v := range values {
		add(v, nil, seeds[i])
	}
	for v := last; v >= Value(b.inputs); v-- {
		if len(slots[v]) == 0 {
			continue
		}
		n := *b.node(v)
		list := b.combine(slots[v], false)
		if arms, ok := b.branch(&n); ok {
			condition, x, y := arms[0], arms[1], arms[2]
			for _, a := range list {
				then, found := a.guard.arm(condition)
				switch {
				case found && then:
					add(x, a.guard, a.value)
				case found:
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
				add(n.arg[k], a.guard, b.multiply(a.value, slopes[k]))
			}
		}
	}
	out := make([]Value, len(columns))
	for i, a := range columns {
		out[i] = absent
		for _, a := range b.combine(slots[a], true) {
			out[i] = a.value
		}
	}
	return out
}

// combine joins adjoints of one value that both arms of a branch need, or that code outside the branch needs too.
// Their derivatives are then computed in both arms. joinAll joins all, into one without a guard.
func (b *Builder) combine(list []adjoint, joinAll bool) []adjoint {
	list = slices.Clone(list)
	find := func(g *guard) int {
		return slices.IndexFunc(list, func(a adjoint) bool { return a.guard == g })
	}
	for changed := true; changed; {
		changed = false
		for i, a := range list {
			if a.guard == nil {
				continue
			}
			g := a.guard
			opposite := -1
			for k := range list {
				if h := list[k].guard; h != nil && h.parent == g.parent && h.condition == g.condition && h.then != g.then {
					opposite = k
				}
			}
			nested := slices.ContainsFunc(list, func(c adjoint) bool { return c.guard != g && g.within(c.guard) })
			if opposite < 0 && !nested && !joinAll {
				continue
			}
			pair := [2]Value{absent, absent} // taken, not
			set := func(a adjoint) {
				if a.guard.then {
					pair[0] = a.value
				} else {
					pair[1] = a.value
				}
			}
			set(a)
			removed := []int{i}
			if opposite >= 0 {
				set(list[opposite])
				removed = append(removed, opposite)
			}
			v := b.selectSlope(g.condition, pair[0], pair[1])
			slices.Sort(removed)
			for _, k := range slices.Backward(removed) {
				list = slices.Delete(list, k, k+1)
			}
			if k := find(g.parent); k >= 0 {
				list[k].value = b.Apply(Add, list[k].value, v)
			} else {
				list = append(list, adjoint{g.parent, v})
			}
			changed = true
			break
		}
	}
	return list
}
