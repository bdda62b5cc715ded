package gotrace

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/gpc-engine/gpc/equations/program"
)

// value is what an SSA value holds here: bool, int64, uint64, float64 (also of a complex number, whose imaginary part is
// that of a derivative) and string for what is known; symbol for a number that depends on inputs, truth for a condition that
// does; *value for a pointer, []value for a slice; and the types below.
type (
	value  = any
	symbol program.Value
	truth  program.Value
	fields []value // of a struct
	array  []value
	tuple  []value
	boxed  struct { // an interface; typ nil: nil
		typ types.Type
		v   value
	}
	closure struct {
		fn   *ssa.Function
		free []value
	}
	table struct { // a map, in the order of insertion
		entries map[any]value
		keys    []any
	}
	walk struct { // a range over a map or string
		keys, values []value
		next         int
	}
	// unknown is what cannot be known here. It is an error where a number or a branch needs it, and not before.
	unknown struct {
		reason   string
		position token.Position
	}
)

// Error is what cannot be followed, and where.
type Error struct {
	Pos token.Position
	Msg string
	// In are the functions that it is in, the innermost first.
	In []string
}

func (e *Error) Error() string {
	callers := ""
	if len(e.In) > 0 {
		callers = " (in " + strings.Join(e.In, ", called by ") + ")"
	}
	if !e.Pos.IsValid() {
		return e.Msg + callers
	}
	return fmt.Sprintf("%s: %s%s", e.Pos, e.Msg, callers)
}

// copied is a copy of what Go copies on assignment.
func copied(v value) value {
	switch v := v.(type) {
	case fields:
		w := make(fields, len(v))
		for i := range v {
			w[i] = copied(v[i])
		}
		return w
	case array:
		w := make(array, len(v))
		for i := range v {
			w[i] = copied(v[i])
		}
		return w
	}
	return v
}

func zero(t types.Type) value {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		switch info := t.Info(); {
		case info&types.IsBoolean != 0:
			return false
		case info&types.IsString != 0:
			return ""
		case info&types.IsUnsigned != 0:
			return uint64(0)
		case info&types.IsInteger != 0:
			return int64(0)
		case info&(types.IsFloat|types.IsComplex) != 0:
			return 0.0
		}
	case *types.Struct:
		s := make(fields, t.NumFields())
		for i := range s {
			s[i] = zero(t.Field(i).Type())
		}
		return s
	case *types.Array:
		a := make(array, t.Len())
		for i := range a {
			a[i] = zero(t.Elem())
		}
		return a
	case *types.Slice:
		return []value(nil)
	case *types.Pointer:
		return (*value)(nil)
	case *types.Signature:
		return (*closure)(nil)
	case *types.Map:
		return (*table)(nil)
	case *types.Interface:
		return boxed{}
	case *types.Tuple:
		all := make(tuple, t.Len())
		for i := range all {
			all[i] = zero(t.At(i).Type())
		}
		return all
	}
	return unknown{reason: "a value of type " + t.String()}
}

func literal(c *ssa.Const) value {
	if c.Value == nil {
		return zero(c.Type())
	}
	b, ok := c.Type().Underlying().(*types.Basic)
	if !ok {
		return unknown{reason: "the constant " + c.String()}
	}
	switch info := b.Info(); {
	case info&types.IsBoolean != 0:
		return constant.BoolVal(c.Value)
	case info&types.IsString != 0:
		return constant.StringVal(c.Value)
	case info&types.IsUnsigned != 0:
		return c.Uint64()
	case info&types.IsInteger != 0:
		return c.Int64()
	case info&types.IsFloat != 0:
		return c.Float64()
	case info&types.IsComplex != 0:
		if v := c.Complex128(); imag(v) == 0 {
			return real(v)
		}
	}
	return unknown{reason: "the constant " + c.String()}
}

// number is the value of the program for a number or condition.
func (x *machine) number(v value) program.Value {
	switch v := v.(type) {
	case symbol:
		return program.Value(v)
	case truth:
		return program.Value(v)
	case float64:
		return x.builder.Const(v)
	case bool:
		return x.builder.Const(float64(map[bool]int{true: 1}[v]))
	case unknown:
		x.failAt(v.position, "%s is needed here", v.reason)
	}
	x.fail("%s is no number", kind(v))
	return 0
}

// apply is an operation on numbers: computed where they are known.
func (x *machine) apply(o program.Op, a ...value) value {
	var constants [3]float64
	all := true
	for i, v := range a {
		f, ok := v.(float64)
		constants[i], all = f, all && ok
	}
	if all {
		return o.Compute(constants[0], constants[1], constants[2])
	}
	if x.builder == nil {
		x.fail("a number depends on inputs before there are any")
	}
	operands := make([]program.Value, len(a))
	for i, v := range a {
		operands[i] = x.number(v)
	}
	v := x.builder.Apply(o, operands...)
	if v > maxTrace {
		x.fail("more than %d operations of a function", maxTrace)
	}
	if c, ok := x.builder.Constant(v); ok {
		return c
	}
	return symbol(v)
}

// compare is an operation that gives a condition.
func (x *machine) compare(o program.Op, a, b value) value {
	switch v := x.apply(o, a, b).(type) {
	case float64:
		return v != 0
	case symbol:
		return truth(v)
	}
	return nil
}

func (x *machine) negate(v value) value {
	switch v := v.(type) {
	case bool:
		return !v
	case truth:
		return x.compare(program.Equal, symbol(v), 0.0)
	}
	x.fail("! of %T", v)
	return nil
}

// merge is a where the condition holds, else b.
func (x *machine) merge(c truth, a, b value) value {
	parts := func(p, q []value) []value {
		r := make([]value, len(p))
		for i := range p {
			r[i] = x.merge(c, p[i], q[i])
		}
		return r
	}
	choose := func() program.Value {
		return x.builder.Apply(program.Select, program.Value(c), x.number(a), x.number(b))
	}
	switch p := a.(type) {
	case float64, symbol:
		if f, ok := p.(float64); ok {
			if g, ok := b.(float64); ok && math.Float64bits(f) == math.Float64bits(g) {
				return f
			}
		}
		switch b.(type) {
		case float64, symbol:
			return symbol(choose())
		}
	case bool, truth:
		if a == b {
			return a
		}
		switch b.(type) {
		case bool, truth:
			return truth(choose())
		}
	case fields:
		if q, ok := b.(fields); ok {
			return fields(parts(p, q))
		}
	case array:
		if q, ok := b.(array); ok && len(p) == len(q) {
			return array(parts(p, q))
		}
	case tuple:
		if q, ok := b.(tuple); ok && len(p) == len(q) {
			return tuple(parts(p, q))
		}
	case []value:
		if q, ok := b.([]value); ok && len(p) == len(q) && cap(p) == cap(q) && (cap(p) == 0 || &p[:1][0] == &q[:1][0]) {
			return p
		}
	case nil:
		if b == nil {
			return nil
		}
	case boxed:
		if q, ok := b.(boxed); ok && (p.typ == q.typ || p.typ != nil && q.typ != nil && types.Identical(p.typ, q.typ)) {
			return boxed{p.typ, x.merge(c, p.v, q.v)}
		}
	case int64, uint64, string, *value, *table, *walk, *ssa.Builtin:
		if a == b {
			return a
		}
	case *closure:
		if q, ok := b.(*closure); ok && (p == q || p != nil && q != nil && p.fn == q.fn && len(p.free) == 0) {
			return p
		}
	case unknown:
		return p
	}
	if q, ok := b.(unknown); ok {
		return q
	}
	return unknown{kind(a) + " that depends on a branch on a number", x.place()}
}

// kind says what a value is, for people.
func kind(v value) string {
	switch v.(type) {
	case int64, uint64:
		return "an integer"
	case float64, symbol:
		return "a number"
	case bool, truth:
		return "a condition"
	case string:
		return "a string"
	case []value:
		return "a slice"
	case *closure:
		return "a function"
	case *value:
		return "a pointer"
	case *table:
		return "a map"
	case boxed:
		return "an interface"
	}
	return fmt.Sprintf("a value (%T)", v)
}
