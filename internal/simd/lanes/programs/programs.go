// Package programs compiles programs of equations for SIMD: every lane of a vector evaluates the same equations at
// another point.
//
// The central type is Code: Function adds a function's operations, elementary functions being made of arithmetic (elementary.go), and
// Emit writes all of them by a lanes.Builder, equal operations behind one another where their operands allow. Arithmetic, comparisons and
// roots have the bits of program.Function.Evaluate; elementary functions keep the bounds that the test holds them to.
package programs

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// Value names a number of a Code.
type Value int32

// kind is an operation of the lanes, or where a number comes from.
type kind uint8

const (
	cell kind = iota // a cell of the layout
	constant
	add
	sub
	mul
	fma  // a·b + c
	fnma // c − a·b
	div
	sqrt
	floor
	neg
	abs
	less
	atMost
	equal
	choose // b where a is not 0, else c
	maximum
	minimum
	and
	or
	shiftUp
	shiftDown
	kinds
)

type operation struct {
	kind    kind
	a, b, c Value
}

// Constants are the cells of a layout that hold constants. They are shared by the programs of one layout.
type Constants struct {
	layout *lanes.Layout
	cells  map[uint64]lanes.Ref
}

// NewConstants has none.
func NewConstants(layout *lanes.Layout) *Constants {
	return &Constants{layout: layout, cells: map[uint64]lanes.Ref{}}
}

// Of is the cell of a constant.
func (c *Constants) Of(v float64) lanes.Ref {
	bits := math.Float64bits(v)
	ref, ok := c.cells[bits]
	if !ok {
		ref = c.layout.New(1)[0]
		c.cells[bits] = ref
	}
	return ref
}

// Fill writes the constants into a machine, once.
func (c *Constants) Fill(m *lanes.Machine) {
	for bits, ref := range c.cells {
		m.SetAll(ref, math.Float64frombits(bits))
	}
}

// Code is operations that are not in an order yet.
type Code struct {
	constants *Constants
	ops       []operation
	numbers   map[operation]Value
}

// New has no operations.
func New(constants *Constants) *Code {
	return &Code{constants: constants, numbers: map[operation]Value{}}
}

func (c *Code) intern(o operation) Value {
	if v, ok := c.numbers[o]; ok {
		return v
	}
	c.ops = append(c.ops, o)
	v := Value(len(c.ops) - 1)
	c.numbers[o] = v
	return v
}

// Cell is the number in a cell of the layout, which nothing of the code writes.
func (c *Code) Cell(ref lanes.Ref) Value { return c.intern(operation{kind: cell, a: Value(ref)}) }

// Const is a constant.
func (c *Code) Const(v float64) Value {
	return c.intern(operation{kind: constant, a: Value(c.constants.Of(v))})
}

func (c *Code) apply(k kind, operands ...Value) Value {
	o := operation{kind: k}
	for i, v := range operands {
		*[3]*Value{&o.a, &o.b, &o.c}[i] = v
	}
	return c.intern(o)
}

// Function adds the operations of f and returns its outputs. inputs has a value for each entry of its inputs.
func (c *Code) Function(f *program.Function, inputs []Value) []Value {
	if len(inputs) != f.Entries() {
		panic(fmt.Sprintf("programs: function %q of %d numbers, want %d", f.Name(), len(inputs), f.Entries()))
	}
	values := append([]Value{}, inputs...)
	for v := program.Value(f.Entries()); int(v) < f.Values(); v++ {
		o, operands, number := f.Operation(v)
		if o == program.Const {
			values = append(values, c.Const(number))
			continue
		}
		var x [3]Value
		for k, w := range operands {
			x[k] = values[w]
		}
		exponent, fixed := 0.0, false
		if o == program.Pow {
			_, _, exponent = f.Operation(operands[1])
			kind, _, _ := f.Operation(operands[1])
			fixed = kind == program.Const
		}
		if fixed {
			values = append(values, c.powerOf(x[0], x[1], exponent))
			continue
		}
		values = append(values, c.operation(o, x))
	}
	out := make([]Value, f.Results())
	for i := range out {
		out[i] = values[f.Result(i)]
	}
	return out
}

// direct are operations that the lanes have.
var direct = map[program.Op]kind{
	program.Add: add, program.Sub: sub, program.Mul: mul, program.Div: div, program.Neg: neg, program.Abs: abs, program.Sqrt: sqrt,
	program.Floor: floor, program.Min: minimum, program.Max: maximum, program.Less: less, program.AtMost: atMost, program.Equal: equal,
	program.Select: choose,
}

// composed are functions of one number that are made of them.
var composed = map[program.Op]func(*Code, Value) Value{
	program.Asin: (*Code).asin, program.Acos: (*Code).acos, program.Atan: (*Code).atan, program.Exp: (*Code).exp, program.Log: (*Code).log,
	program.Sinh: (*Code).sinh, program.Cosh: (*Code).cosh, program.Tanh: (*Code).tanh,
}

func (c *Code) operation(o program.Op, x [3]Value) Value {
	if k, ok := direct[o]; ok {
		return c.apply(k, x[:o.Arity()]...)
	}
	switch o {
	case program.Detach:
		return x[0]
	case program.Sin:
		sin, _ := c.sincos(x[0])
		return sin
	case program.Cos:
		_, cos := c.sincos(x[0])
		return cos
	case program.Tan:
		sin, cos := c.sincos(x[0])
		return c.apply(div, sin, cos)
	case program.Atan2:
		return c.atan2(x[0], x[1])
	case program.Pow:
		return c.pow(x[0], x[1])
	case program.Hypot:
		return c.hypot(x[0], x[1])
	}
	if f := composed[o]; f != nil {
		return f(c, x[0])
	}
	panic(fmt.Sprintf("programs: %s has no code", o))
}

// arity of a kind.
func (k kind) arity() int {
	switch k {
	case cell, constant:
		return 0
	case fma, fnma, choose:
		return 3
	case sqrt, floor, neg, abs, shiftUp, shiftDown:
		return 1
	}
	return 2
}

func (o *operation) operands() []Value { return []Value{o.a, o.b, o.c}[:o.kind.arity()] }

// lookAhead is how many operations beyond the first that waits one may be taken from: equal ones make runs, and far ones would
// keep more cells in use than a cache has.
const lookAhead = 256

// order lists what the results need, equal operations behind one another.
func (c *Code) order(results []Value) []Value {
	live := make([]bool, len(c.ops))
	for _, v := range results {
		live[v] = true
	}
	missing := make([]int, len(c.ops)) // operands that are not computed yet
	users := make([][]Value, len(c.ops))
	var rest []Value
	for v := len(c.ops) - 1; v >= 0; v-- {
		if live[v] {
			for _, w := range c.ops[v].operands() {
				live[w] = true
			}
		}
	}
	for v := range c.ops {
		if !live[v] || c.ops[v].kind <= constant {
			continue
		}
		rest = append(rest, Value(v))
		for _, w := range c.ops[v].operands() {
			if c.ops[w].kind > constant {
				missing[v]++
				users[w] = append(users[w], Value(v))
			}
		}
	}
	var order []Value
	emitted := make([]bool, len(c.ops))
	for first := 0; first < len(rest); {
		if emitted[rest[first]] {
			first++
			continue
		}
		window := rest[first:min(len(rest), first+lookAhead)]
		var count [kinds]int
		for _, v := range window {
			if !emitted[v] && missing[v] == 0 {
				count[c.ops[v].kind]++
			}
		}
		best := kind(0)
		for k := range kinds {
			if count[k] > count[best] {
				best = k
			}
		}
		for _, v := range window {
			if emitted[v] || missing[v] > 0 || c.ops[v].kind != best {
				continue
			}
			emitted[v] = true
			order = append(order, v)
			for _, u := range users[v] {
				missing[u]--
			}
		}
	}
	return order
}

// fused joins a product with the sum that alone uses it, where no exact result needs either.
func (c *Code) fused(exact, rest []Value) []operation {
	uses, stored := make([]int, len(c.ops)), make([]bool, len(c.ops))
	for i, list := range [2][]Value{exact, rest} {
		for _, v := range list {
			uses[v]++
			stored[v] = stored[v] || i == 0
		}
	}
	for v := len(c.ops) - 1; v >= 0; v-- {
		if uses[v] == 0 {
			continue
		}
		for _, w := range c.ops[v].operands() {
			uses[w]++
			stored[w] = stored[w] || stored[v]
		}
	}
	ops := append([]operation{}, c.ops...)
	for v, o := range c.ops {
		if stored[v] || o.kind != add && o.kind != sub {
			continue
		}
		product := func(w Value) bool { return c.ops[w].kind == mul && uses[w] == 1 && !stored[w] }
		switch {
		case product(o.b):
			p := c.ops[o.b]
			ops[v] = operation{kind: map[kind]kind{add: fma, sub: fnma}[o.kind], a: p.a, b: p.b, c: o.a}
		case o.kind == add && product(o.a):
			p := c.ops[o.a]
			ops[v] = operation{kind: fma, a: p.a, b: p.b, c: o.b}
		}
	}
	return ops
}

// Emit writes the operations that the results need, and returns the results' cells, exact ones first. Those that are not of the
// layout are lost with the program. Exact results have the bits of their operations; on the way to the rest products may be fused with
// sums, on every instruction set alike.
func (c *Code) Emit(b *lanes.Builder, exact, rest []Value) lanes.Col {
	fused := &Code{constants: c.constants, ops: c.fused(exact, rest)}
	return fused.emit(b, append(append([]Value{}, exact...), rest...))
}

func (c *Code) emit(b *lanes.Builder, results []Value) lanes.Col {
	refs := make([]lanes.Ref, len(c.ops))
	for v, o := range c.ops {
		if o.kind <= constant {
			refs[v] = lanes.Ref(o.a)
		}
	}
	for _, v := range c.order(results) {
		o := &c.ops[v]
		x := [3]lanes.Col{{refs[o.a]}, {refs[o.b]}, {refs[o.c]}}
		refs[v] = emit(b, o.kind, x)[0]
	}
	out := make(lanes.Col, len(results))
	for i, v := range results {
		out[i] = refs[v]
	}
	return out
}

// builds are the lanes' operations by the number of their operands.
var (
	buildsOne = map[kind]func(*lanes.Builder, lanes.Col) lanes.Col{
		sqrt: (*lanes.Builder).Sqrt, floor: (*lanes.Builder).Floor, neg: (*lanes.Builder).Neg, abs: (*lanes.Builder).Abs,
		shiftUp: (*lanes.Builder).ShiftUp, shiftDown: (*lanes.Builder).ShiftDown,
	}
	buildsTwo = map[kind]func(b *lanes.Builder, x, y lanes.Col) lanes.Col{
		add: (*lanes.Builder).Add, sub: (*lanes.Builder).Sub, mul: (*lanes.Builder).Mul, div: (*lanes.Builder).Div, less: (*lanes.Builder).Less,
		atMost: (*lanes.Builder).AtMost, equal: (*lanes.Builder).Equal, maximum: (*lanes.Builder).Maximum, minimum: (*lanes.Builder).Minimum,
		and: (*lanes.Builder).And, or: (*lanes.Builder).Or,
	}
	buildsThree = map[kind]func(b *lanes.Builder, x, y, z lanes.Col) lanes.Col{
		fma: (*lanes.Builder).FMA, fnma: (*lanes.Builder).FNMA, choose: (*lanes.Builder).Choose,
	}
)

func emit(b *lanes.Builder, k kind, x [3]lanes.Col) lanes.Col {
	switch k.arity() {
	case 1:
		return buildsOne[k](b, x[0])
	case 3:
		return buildsThree[k](b, x[0], x[1], x[2])
	}
	return buildsTwo[k](b, x[0], x[1])
}
