package gotrace

import (
	"go/token"
	"go/types"
	"unicode/utf8"

	"golang.org/x/tools/go/ssa"

	"github.com/gpc-engine/gpc/equations/program"
)

func (x *machine) unary(instruction *ssa.UnOp, a value) value {
	switch instruction.Op {
	case token.MUL:
		return copied(*x.pointer(a))
	case token.SUB:
		switch a := a.(type) {
		case float64, symbol:
			return x.apply(program.Neg, a)
		case int64:
			return wrap(instruction.Type(), -a)
		case uint64:
			return wrap(instruction.Type(), -a)
		}
	case token.NOT:
		return x.negate(a)
	case token.XOR:
		switch a := a.(type) {
		case int64:
			return wrap(instruction.Type(), ^a)
		case uint64:
			return wrap(instruction.Type(), ^a)
		}
	case token.ARROW:
		x.fail("channels and goroutines are not followed")
	}
	x.fail("%s of %s is not followed", instruction.Op, kind(a))
	return nil
}

// wrap keeps an integer in its type.
func wrap[T int64 | uint64](t types.Type, v T) value {
	switch t.Underlying().(*types.Basic).Kind() {
	case types.Int8:
		return T(int8(v))
	case types.Int16:
		return T(int16(v))
	case types.Int32:
		return T(int32(v))
	case types.Uint8:
		return T(uint8(v))
	case types.Uint16:
		return T(uint16(v))
	case types.Uint32:
		return T(uint32(v))
	}
	return v
}

func (x *machine) binary(o token.Token, t types.Type, a, b value) value {
	switch p := a.(type) {
	case int64:
		if r, ok := whole(x, o, t, p, b); ok {
			return r
		}
	case uint64:
		if r, ok := whole(x, o, t, p, b); ok {
			return r
		}
	case string:
		if q, ok := b.(string); ok {
			if o == token.ADD {
				return p + q
			}
			if r, ok := ordered(o, p, q); ok {
				return r
			}
		}
	case float64, symbol:
		return x.numbers(o, a, b)
	case bool, truth:
		if r, ok := x.conditions(o, a, b); ok {
			return r
		}
	default:
		if equal, ok := identical(a, b); ok {
			switch o {
			case token.EQL:
				return equal
			case token.NEQ:
				return !equal
			}
		}
	}
	x.fail("%s %s %s is not followed", kind(a), o, kind(b))
	return nil
}

// whole is an operation whose first operand is an integer, in the type of that where the result is one too.
func whole[T int64 | uint64](x *machine, o token.Token, t types.Type, p T, b value) (value, bool) {
	if o == token.SHL || o == token.SHR {
		return shifted(x, o, t, p, b), true
	}
	q, ok := b.(T)
	if !ok {
		return nil, false
	}
	r, ok := integers(x, o, p, q)
	if v, isWhole := r.(T); isWhole {
		return wrap(t, v), ok
	}
	return r, ok
}

func shifted[T int64 | uint64](x *machine, o token.Token, t types.Type, p T, b value) value {
	n := x.index(b)
	if n < 0 {
		x.fail("a shift by %d", n)
	}
	if o == token.SHR {
		p >>= n
	} else {
		p <<= n
	}
	return wrap(t, p)
}

func integers[T int64 | uint64](x *machine, o token.Token, p, q T) (value, bool) {
	switch o {
	case token.ADD:
		return p + q, true
	case token.SUB:
		return p - q, true
	case token.MUL:
		return p * q, true
	case token.QUO, token.REM:
		if q == 0 {
			x.fail("an integer is divided by zero")
		}
		if o == token.QUO {
			return p / q, true
		}
		return p % q, true
	case token.AND:
		return p & q, true
	case token.OR:
		return p | q, true
	case token.XOR:
		return p ^ q, true
	case token.AND_NOT:
		return p &^ q, true
	}
	return ordered(o, p, q)
}

func ordered[T int64 | uint64 | string](o token.Token, p, q T) (value, bool) {
	switch o {
	case token.EQL:
		return p == q, true
	case token.NEQ:
		return p != q, true
	case token.LSS:
		return p < q, true
	case token.LEQ:
		return p <= q, true
	case token.GTR:
		return p > q, true
	case token.GEQ:
		return p >= q, true
	}
	return nil, false
}

// arithmetic, comparisons and mirrors are operators on numbers. Those of mirrors have their operands in the other order.
var (
	arithmetic  = map[token.Token]program.Op{token.ADD: program.Add, token.SUB: program.Sub, token.MUL: program.Mul, token.QUO: program.Div}
	comparisons = map[token.Token]program.Op{token.LSS: program.Less, token.LEQ: program.AtMost, token.EQL: program.Equal}
	mirrors     = map[token.Token]program.Op{token.GTR: program.Less, token.GEQ: program.AtMost}
)

func (x *machine) numbers(o token.Token, a, b value) value {
	if op, ok := arithmetic[o]; ok {
		return x.apply(op, a, b)
	} else if op, ok := comparisons[o]; ok {
		return x.compare(op, a, b)
	} else if op, ok := mirrors[o]; ok {
		return x.compare(op, b, a)
	} else if o == token.NEQ {
		return x.negate(x.compare(program.Equal, a, b))
	}
	x.fail("%s of numbers is not followed", o)
	return nil
}

func (x *machine) conditions(o token.Token, a, b value) (value, bool) {
	p, fixed := a.(bool)
	if q, ok := b.(bool); ok && fixed {
		return (p == q) == (o == token.EQL), o == token.EQL || o == token.NEQ
	}
	equal := x.compare(program.Equal, symbol(x.number(a)), symbol(x.number(b)))
	switch o {
	case token.EQL:
		return equal, true
	case token.NEQ:
		return x.negate(equal), true
	}
	return nil, false
}

// identical compares what is neither a number nor text.
func identical(a, b value) (equal, ok bool) {
	switch p := a.(type) {
	case *value:
		q, ok := b.(*value)
		return p == q, ok
	case *closure: // with nil
		q, ok := b.(*closure)
		return p == q, ok
	case *table:
		q, ok := b.(*table)
		return p == q, ok
	case []value:
		q, ok := b.([]value)
		return p == nil && q == nil, ok
	case boxed:
		q, ok := b.(boxed)
		if !ok || p.typ == nil || q.typ == nil {
			return p.typ == nil && q.typ == nil, ok
		}
		if !types.Identical(p.typ, q.typ) {
			return false, true
		}
		switch p.v.(type) {
		case bool, int64, uint64, float64, string, *value:
			return p.v == q.v, true
		}
	}
	return false, false
}

func (x *machine) convert(from, to types.Type, a value) value {
	basic, ok := to.Underlying().(*types.Basic)
	if !ok {
		if text, ok := a.(string); ok {
			if list, ok := to.Underlying().(*types.Slice); ok {
				return letters(text, list.Elem().Underlying().(*types.Basic).Kind() == types.Uint8)
			}
		}
		x.fail("a conversion from %s to %s is not followed", from, to)
	}
	switch info := basic.Info(); {
	case info&(types.IsFloat|types.IsComplex) != 0:
		switch a := a.(type) {
		case int64:
			return rounded(basic, float64(a))
		case uint64:
			return rounded(basic, float64(a))
		case float64:
			return rounded(basic, a)
		case symbol:
			if basic.Kind() == types.Float32 || basic.Kind() == types.Complex64 {
				x.fail("a number that depends on inputs is rounded to %s", to)
			}
			return a
		}
	case info&types.IsUnsigned != 0:
		switch a := a.(type) {
		case int64:
			return wrap(to, uint64(a))
		case uint64:
			return wrap(to, a)
		case float64:
			return wrap(to, uint64(a))
		}
	case info&types.IsInteger != 0:
		switch a := a.(type) {
		case int64:
			return wrap(to, a)
		case uint64:
			return wrap(to, int64(a))
		case float64:
			return wrap(to, int64(a))
		}
	case info&types.IsString != 0:
		switch a := a.(type) {
		case string:
			return a
		case int64:
			return string(utf8.AppendRune(nil, rune(a)))
		case []value:
			var text []byte
			for _, v := range a {
				switch c := v.(type) {
				case int64:
					text = utf8.AppendRune(text, rune(c))
				case uint64:
					text = append(text, byte(c))
				}
			}
			return string(text)
		}
	}
	if _, ok := a.(symbol); ok {
		x.fail("an integer depends on inputs: a conversion from %s to %s", from, to)
	}
	x.fail("a conversion from %s to %s is not followed", from, to)
	return nil
}

func rounded(t *types.Basic, v float64) float64 {
	if t.Kind() == types.Float32 {
		return float64(float32(v))
	}
	return v
}

func letters(text string, bytes bool) value {
	list := []value{}
	if bytes {
		for i := range len(text) {
			list = append(list, uint64(text[i]))
		}
		return list
	}
	for _, c := range text {
		list = append(list, int64(c))
	}
	return list
}
