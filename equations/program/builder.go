package program

import (
	"fmt"
	"math"
	"slices"
)

// Builder writes a function. It merges equal operations, computes operations on constants, and simplifies without
// changing a bit of a result: 1·x, −(−x), x + (−y). A NaN may become another NaN.
type Builder struct {
	name   string
	in     []Argument
	inputs int
	nodes  []node
	index  map[node]Value
}

// NewBuilder starts a function of the inputs.
func NewBuilder(name string, inputs ...Argument) *Builder {
	b := &Builder{name: name, in: slices.Clone(inputs), index: map[node]Value{}}
	for _, a := range inputs {
		b.inputs += a.Size
	}
	return b
}

// In are the values of input k, counted from 0.
func (b *Builder) In(k int) []Value {
	from := 0
	for _, a := range b.in[:k] {
		from += a.Size
	}
	v := make([]Value, b.in[k].Size)
	for i := range v {
		v[i] = Value(from + i)
	}
	return v
}

// Const is a constant.
func (b *Builder) Const(v float64) Value {
	if math.IsNaN(v) {
		v = math.NaN() // one NaN, so that equal programs have equal bytes
	}
	return b.add(node{op: Const, value: v})
}

// add appends a node, or finds an equal one. Constants are compared by their bits.
func (b *Builder) add(n node) Value {
	key := n
	if n.op == Const {
		bits := math.Float64bits(n.value)
		key = node{op: Const, arg: [3]Value{Value(bits >> 32), Value(bits & math.MaxUint32)}}
	}
	if v, ok := b.index[key]; ok {
		return v
	}
	v := Value(b.inputs + len(b.nodes))
	b.nodes = append(b.nodes, n)
	b.index[key] = v
	return v
}

// Constant is the number of a constant value.
func (b *Builder) Constant(v Value) (float64, bool) {
	if n := b.node(v); n != nil && n.op == Const {
		return n.value, true
	}
	return 0, false
}

// node is the node of a value, nil for an input.
func (b *Builder) node(v Value) *node {
	if int(v) < b.inputs {
		return nil
	}
	return &b.nodes[int(v)-b.inputs]
}

// negated is x where v is −x.
func (b *Builder) negated(v Value) (Value, bool) {
	if n := b.node(v); n != nil && n.op == Neg {
		return n.arg[0], true
	}
	return 0, false
}

// Apply applies an operation to as many operands as its Arity.
func (b *Builder) Apply(o Op, operands ...Value) Value {
	if o <= Const || o >= opCount || len(operands) != o.Arity() {
		panic(fmt.Sprintf("program: %s of %d operands", o, len(operands)))
	}
	var x [3]Value
	var c [3]float64
	var isConst [3]bool
	constant := true
	for i, v := range operands {
		if v < 0 || int(v) >= b.inputs+len(b.nodes) {
			panic(fmt.Sprintf("program: operand %d of %s is no value of this function", i+1, o))
		}
		x[i] = v
		c[i], isConst[i] = b.Constant(v)
		constant = constant && isConst[i]
	}
	if constant {
		return b.Const(compute(o, c[0], c[1], c[2]))
	}
	if v, ok := b.simplify(o, x, c, isConst); ok {
		return v
	}
	switch o {
	case Add, Mul, Min, Max, Equal: // commutative
		if x[0] > x[1] {
			x[0], x[1] = x[1], x[0]
		}
	}
	return b.add(node{op: o, arg: x})
}

// simplify returns a simpler value that equals an operation.
func (b *Builder) simplify(o Op, x [3]Value, c [3]float64, isConst [3]bool) (Value, bool) {
	isConstant := func(i int, v float64) bool {
		return isConst[i] && math.Float64bits(c[i]) == math.Float64bits(v)
	}
	p, negX := b.negated(x[0])
	q, negY := Value(0), false
	if o.Arity() > 1 {
		q, negY = b.negated(x[1])
	}
	switch o {
	case Add:
		switch {
		case isConstant(0, math.Copysign(0, -1)):
			return x[1], true
		case isConstant(1, math.Copysign(0, -1)):
			return x[0], true
		case negY:
			return b.Apply(Sub, x[0], q), true
		case negX:
			return b.Apply(Sub, x[1], p), true
		}
	case Sub:
		switch {
		case isConstant(1, 0):
			return x[0], true
		case negY:
			return b.Apply(Add, x[0], q), true
		}
	case Mul, Div:
		for i, otherOperand := range [2]int{1, 0} {
			if o == Mul && isConstant(i, 1) {
				return x[otherOperand], true
			}
			if o == Mul && isConstant(i, -1) {
				return b.Apply(Neg, x[otherOperand]), true
			}
		}
		switch {
		case o == Div && isConstant(1, 1):
			return x[0], true
		case o == Div && isConst[1] && exactInverse(c[1]):
			return b.Apply(Mul, x[0], b.Const(1/c[1])), true
		case negX && isConst[1]:
			return b.Apply(o, p, b.Const(-c[1])), true
		case negY && isConst[0]:
			return b.Apply(o, b.Const(-c[0]), q), true
		case negX:
			return b.Apply(Neg, b.Apply(o, p, x[1])), true
		case negY:
			return b.Apply(Neg, b.Apply(o, x[0], q)), true
		}
	case Neg:
		if negX {
			return p, true
		}
		if n := b.node(x[0]); n != nil && (n.op == Mul || n.op == Div) {
			for i := range 2 {
				if v, ok := b.Constant(n.arg[i]); ok {
					arg := n.arg
					arg[i] = b.Const(-v)
					return b.Apply(n.op, arg[0], arg[1]), true
				}
			}
		}
	case Abs:
		if negX {
			return b.Apply(Abs, p), true
		}
		if n := b.node(x[0]); n != nil && n.op == Abs {
			return x[0], true
		}
	case Detach:
		if n := b.node(x[0]); n != nil && n.op == Detach {
			return x[0], true
		}
	case Pow:
		switch {
		case isConstant(1, 0), isConstant(1, math.Copysign(0, -1)):
			return b.Const(1), true
		case isConstant(1, 1):
			return x[0], true
		}
	case Min, Max:
		return x[0], x[0] == x[1]
	case Select:
		switch {
		case isConst[0] && c[0] != 0, x[1] == x[2]:
			return x[1], true
		case isConst[0]:
			return x[2], true
		}
	}
	return 0, false
}

// exactInverse reports a power of two whose inverse is one.
func exactInverse(v float64) bool {
	fraction, exponent := math.Frexp(math.Abs(v))
	return fraction == 0.5 && exponent > -1000 && exponent < 1000
}

// Inline are the outputs of f at the inputs, one value per entry.
func (b *Builder) Inline(f *Function, inputs []Value) []Value {
	return pick(b.inline(f, inputs), f.results)
}

// pick are the values at the given places.
func pick(values, places []Value) []Value {
	out := make([]Value, len(places))
	for i, v := range places {
		out[i] = values[v]
	}
	return out
}

// inline are all values of f.
func (b *Builder) inline(f *Function, inputs []Value) []Value {
	return b.inlineBy(f, inputs, func(_ Value, n node, args []Value) Value { return b.Apply(n.op, args...) })
}

// inlineBy are all values of f, whose operation n at v is what apply writes.
func (b *Builder) inlineBy(f *Function, inputs []Value, apply func(v Value, n node, args []Value) Value) []Value {
	if len(inputs) != f.inputs {
		panic(fmt.Sprintf("program: function %q of %d numbers, want %d", f.name, len(inputs), f.inputs))
	}
	values := make([]Value, f.inputs+len(f.nodes))
	copy(values, inputs)
	for i, n := range f.nodes {
		if n.op == Const {
			values[f.inputs+i] = b.Const(n.value)
			continue
		}
		var args [3]Value
		for k := range n.op.Arity() {
			args[k] = values[n.arg[k]]
		}
		values[f.inputs+i] = apply(Value(f.inputs+i), n, args[:n.op.Arity()])
	}
	return values
}

// Function makes the function; results are the entries of the outputs, concatenated. It leaves out unused operations.
// The builder may go on.
func (b *Builder) Function(outputs []Argument, results []Value) *Function {
	size := 0
	for _, a := range outputs {
		size += a.Size
	}
	if len(results) != size {
		panic(fmt.Sprintf("program: function %q has %d results, its outputs %d entries", b.name, len(results), size))
	}
	used := make([]bool, b.inputs+len(b.nodes))
	for _, v := range results {
		used[v] = true
	}
	for i := len(b.nodes) - 1; i >= 0; i-- {
		if n := b.nodes[i]; used[b.inputs+i] {
			for k := range n.op.Arity() {
				used[n.arg[k]] = true
			}
		}
	}
	f := &Function{name: b.name, in: b.in, out: slices.Clone(outputs), inputs: b.inputs}
	place := make([]Value, len(used))
	for i := range b.inputs {
		place[i] = Value(i)
	}
	for i, n := range b.nodes {
		if !used[b.inputs+i] {
			continue
		}
		place[b.inputs+i] = Value(b.inputs + len(f.nodes))
		for k := range n.op.Arity() {
			n.arg[k] = place[n.arg[k]]
		}
		f.nodes = append(f.nodes, n)
	}
	for _, v := range results {
		f.results = append(f.results, place[v])
	}
	return f
}
