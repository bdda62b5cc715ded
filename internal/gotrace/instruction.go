package gotrace

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"unicode/utf8"

	"golang.org/x/tools/go/ssa"

	"github.com/gpc-engine/gpc/equations/program"
)

// index is a value that counts.
func (x *machine) index(v value) int {
	switch v := v.(type) {
	case int64:
		return int(v)
	case uint64:
		return int(v)
	case unknown:
		x.fail("%s is needed as an index or length", v.why)
	}
	x.fail("an index or length that is %s", kind(v))
	return 0
}

// sequence is what a slice, an array or a pointer to one holds.
func (x *machine) sequence(v value) []value {
	switch v := v.(type) {
	case []value:
		return v
	case array:
		return v
	case *value:
		if v == nil {
			x.fail("a nil pointer")
		}
		if a, ok := (*v).(array); ok {
			return a
		}
		return x.sequence(*v)
	case unknown:
		x.fail("%s is needed here", v.why)
	}
	x.fail("%s is no slice", kind(v))
	return nil
}

// pointer is one that is not nil.
func (x *machine) pointer(v value) *value {
	switch p := v.(type) {
	case *value:
		if p == nil {
			x.fail("a nil pointer")
		}
		return p
	case unknown:
		x.fail("%s is needed here", p.why)
	}
	x.fail("%s is no pointer", kind(v))
	return nil
}

// instruction runs one that is no jump.
func (x *machine) instruction(f *frame, s *step) {
	arg := func(i int) value { return x.arg(f, &s.args[i]) }
	if s.into >= 0 {
		switch s.in.(type) {
		case *ssa.Call, *ssa.Alloc, *ssa.MakeClosure, *ssa.MakeInterface:
		default: // what is unknown stays so
			for i := range s.args {
				if u, ok := arg(i).(unknown); ok {
					f.slots[s.into] = u
					return
				}
			}
		}
	}
	var r value
	switch in := s.in.(type) {
	case *ssa.DebugRef:
		return
	case *ssa.Alloc:
		at := new(value)
		*at = zero(in.Type().Underlying().(*types.Pointer).Elem())
		r = at
	case *ssa.BinOp:
		r = x.binary(in.Op, in.X.Type(), arg(0), arg(1))
	case *ssa.UnOp:
		r = x.unary(in, arg(0))
	case *ssa.Call:
		fn, args := x.callee(f, s, &in.Call)
		r = x.invoke(f, &in.Call, fn, args)
		if r == nil {
			return
		}
	case *ssa.Defer:
		fn, args := x.callee(f, s, &in.Call)
		f.defers = append(f.defers, func() { x.invoke(f, &in.Call, fn, args) })
		return
	case *ssa.RunDefers:
		for _, d := range slices.Backward(f.defers) {
			d()
		}
		f.defers = nil
		return
	case *ssa.Store:
		x.assign(x.pointer(arg(0)), arg(1))
		return
	case *ssa.FieldAddr:
		at := x.pointer(arg(0))
		if u, ok := (*at).(unknown); ok {
			one := value(u) // of an unknown struct: what is written there is lost
			r = &one
			break
		}
		r = &(*at).(fields)[in.Field]
	case *ssa.Field:
		r = copied(arg(0).(fields)[in.Field])
	case *ssa.IndexAddr:
		if at, ok := arg(0).(*value); ok && at != nil {
			if u, ok := (*at).(unknown); ok {
				f.slots[s.into] = u
				return
			}
		}
		list, i := x.sequence(arg(0)), x.index(arg(1))
		if i < 0 || i >= len(list) {
			x.fail("index %d of %d", i, len(list))
		}
		r = &list[i]
	case *ssa.Index:
		i := x.index(arg(1))
		if text, ok := arg(0).(string); ok {
			if i < 0 || i >= len(text) {
				x.fail("index %d of %d", i, len(text))
			}
			r = uint64(text[i])
			break
		}
		list := x.sequence(arg(0))
		if i < 0 || i >= len(list) {
			x.fail("index %d of %d", i, len(list))
		}
		r = copied(list[i])
	case *ssa.Slice:
		r = x.slice(in, s, arg)
	case *ssa.SliceToArrayPointer:
		x.fail("a slice that becomes an array is not followed")
	case *ssa.MakeSlice:
		n, c := x.index(arg(0)), x.index(arg(1))
		if n < 0 || c < n || c > maxSteps {
			x.fail("make of %d entries with room for %d", n, c)
		}
		list := make([]value, c)
		for i := range list {
			list[i] = zero(in.Type().Underlying().(*types.Slice).Elem())
		}
		r = list[:n]
	case *ssa.MakeMap:
		r = &table{at: map[any]value{}}
	case *ssa.MapUpdate:
		if x.forks > 0 {
			x.fail("a map that is written in an arm of a branch on a number")
		}
		m, ok := arg(0).(*table)
		if !ok || m == nil {
			x.fail("a write to a map that is nil or unknown")
		}
		k := x.key(arg(1))
		if _, ok := m.at[k]; !ok {
			m.keys = append(m.keys, k)
		}
		m.at[k] = copied(arg(2))
		return
	case *ssa.Lookup:
		m, ok := arg(0).(*table)
		if !ok {
			x.fail("%s is no map", kind(arg(0)))
		}
		var v value
		found := false
		if k := x.key(arg(1)); m != nil {
			v, found = m.at[k]
		}
		if !found {
			v = zero(in.X.Type().Underlying().(*types.Map).Elem())
		}
		if r = copied(v); in.CommaOk {
			r = tuple{r, found}
		}
	case *ssa.Range:
		w := &walk{}
		switch a := arg(0).(type) {
		case string:
			for i, c := range a {
				w.keys, w.values = append(w.keys, int64(i)), append(w.values, int64(c))
			}
		case *table:
			if a != nil {
				for _, k := range a.keys {
					w.keys, w.values = append(w.keys, k), append(w.values, a.at[k])
				}
			}
		}
		r = w
	case *ssa.Next:
		w := arg(0).(*walk)
		if x.forks > 0 {
			x.fail("a range over a map or string in an arm of a branch on a number")
		}
		if r = (tuple{false, unknown{why: "nothing"}, unknown{why: "nothing"}}); w.at < len(w.keys) {
			r = tuple{true, w.keys[w.at], w.values[w.at]}
			w.at++
		}
	case *ssa.MakeClosure:
		c := &closure{fn: in.Fn.(*ssa.Function)}
		for i := range in.Bindings {
			c.free = append(c.free, arg(1+i))
		}
		r = c
	case *ssa.MakeInterface:
		r = boxed{in.X.Type(), arg(0)}
	case *ssa.ChangeInterface, *ssa.ChangeType:
		r = arg(0)
	case *ssa.Convert:
		r = x.convert(in.X.Type(), in.Type(), arg(0))
	case *ssa.TypeAssert:
		r = x.assert(in, arg(0))
	case *ssa.Extract:
		all, ok := arg(0).(tuple)
		if !ok {
			x.fail("%s where several values are wanted", kind(arg(0)))
		}
		r = all[in.Index]
	case *ssa.Go, *ssa.Send, *ssa.Select, *ssa.MakeChan:
		x.fail("channels and goroutines are not followed")
	default:
		x.fail("%T is not followed", in)
	}
	f.slots[s.into] = r
}

func (x *machine) key(v value) any {
	switch v := v.(type) {
	case bool, int64, uint64, float64, string:
		return v
	case boxed:
		return x.key(v.v)
	case symbol, truth:
		x.fail("a map's key depends on inputs")
	}
	x.fail("%s as a map's key is not followed", kind(v))
	return nil
}

func (x *machine) slice(in *ssa.Slice, s *step, arg func(int) value) value {
	// The bounds that there are stand behind X in their order.
	bounds := [3]int{0, -1, -1}
	for k, v := range [3]ssa.Value{in.Low, in.High, in.Max} {
		if v != nil {
			bounds[k] = x.index(arg(1 + k))
		}
	}
	if text, ok := arg(0).(string); ok {
		if bounds[1] < 0 {
			bounds[1] = len(text)
		}
		if bounds[0] < 0 || bounds[0] > bounds[1] || bounds[1] > len(text) {
			x.fail("[%d:%d] of a string of %d bytes", bounds[0], bounds[1], len(text))
		}
		return text[bounds[0]:bounds[1]]
	}
	list := x.sequence(arg(0))
	if bounds[1] < 0 {
		bounds[1] = len(list)
	}
	if bounds[2] < 0 {
		bounds[2] = cap(list)
	}
	if bounds[0] < 0 || bounds[0] > bounds[1] || bounds[1] > bounds[2] || bounds[2] > cap(list) {
		x.fail("[%d:%d] of %d entries", bounds[0], bounds[1], cap(list))
	}
	return list[bounds[0]:bounds[1]:bounds[2]]
}

func (x *machine) assert(in *ssa.TypeAssert, v value) value {
	i, _ := v.(boxed)
	abstract, isInterface := in.AssertedType.Underlying().(*types.Interface)
	holds := false
	if i.typ != nil {
		if holds = types.Identical(i.typ, in.AssertedType); isInterface {
			holds = types.Implements(i.typ, abstract)
		}
	}
	var r value
	switch {
	case holds && isInterface:
		r = i
	case holds:
		r = copied(i.v)
	default:
		r = zero(in.AssertedType)
	}
	if in.CommaOk {
		return tuple{r, holds}
	}
	if !holds {
		x.fail("an assertion of the type %s that does not hold", in.AssertedType)
	}
	return r
}

// callee is what a call calls, with its arguments.
func (x *machine) callee(f *frame, s *step, c *ssa.CallCommon) (value, []value) {
	var args []value
	fn := x.arg(f, &s.args[0])
	if c.IsInvoke() {
		i, ok := fn.(boxed)
		if !ok || i.typ == nil {
			if u, ok := fn.(unknown); ok {
				return u, nil
			}
			x.fail("the method %s of nil", c.Method.Name())
		}
		fn = &closure{fn: x.p.prog.LookupMethod(i.typ, c.Method.Pkg(), c.Method.Name())}
		args = append(args, i.v)
	}
	for k := range c.Args {
		args = append(args, copied(x.arg(f, &s.args[1+k])))
	}
	return fn, args
}

func (x *machine) invoke(f *frame, c *ssa.CallCommon, fn value, args []value) value {
	switch fn := fn.(type) {
	case *closure:
		if fn != nil && fn.fn != nil && x.initialising > 0 && f.fn.Name() == "init" {
			return x.attempt(fn, args)
		}
		return x.call(fn, args)
	case unknown:
		x.fail("a call of %s", fn.why)
	case *ssa.Builtin:
		for _, v := range args {
			if u, ok := v.(unknown); ok && fn.Name() != "append" {
				return u
			}
		}
		return x.builtin(fn.Name(), c, args)
	}
	x.fail("a call of %s", kind(fn))
	return nil
}

// attempt is a call that initialises a package: one that cannot be run matters only where its result does.
func (x *machine) attempt(c *closure, args []value) (v value) {
	depth := len(x.frames)
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(*Error)
			if !ok {
				panic(p)
			}
			x.frames = x.frames[:depth]
			v = x.lost(c.fn, args, fmt.Sprintf("the result of %s, which is not followed (%v),", c.fn.Name(), e))
		}
	}()
	return x.call(c, args)
}

func (x *machine) builtin(name string, c *ssa.CallCommon, args []value) value {
	switch name {
	case "len", "cap":
		switch v := args[0].(type) {
		case string:
			return int64(len(v))
		case *table:
			if v == nil {
				return int64(0)
			}
			return int64(len(v.at))
		}
		if list := x.sequence(args[0]); name == "cap" {
			return int64(cap(list))
		} else {
			return int64(len(list))
		}
	case "copy":
		to, from := x.sequence(args[0]), x.sequence(args[1])
		n := min(len(to), len(from))
		kept := make([]value, n) // they may overlap
		for i := range n {
			kept[i] = copied(from[i])
		}
		for i := range n {
			x.assign(&to[i], kept[i])
		}
		return int64(n)
	case "append":
		for _, v := range args {
			if u, ok := v.(unknown); ok {
				return u
			}
		}
		to, n := x.sequence(args[0]), len(x.sequence(args[0]))
		from := x.sequence(args[1])
		if n+len(from) > cap(to) {
			grown := make([]value, max(2*n, n+len(from)))
			copy(grown, to)
			for i := n; i < len(grown); i++ {
				grown[i] = zero(c.Args[0].Type().Underlying().(*types.Slice).Elem())
			}
			to = grown
		}
		to = to[:n+len(from)]
		for i, v := range from {
			x.store(&to[n+i], copied(v))
		}
		return to
	case "min", "max":
		r := args[0]
		for _, v := range args[1:] {
			switch p := r.(type) {
			case int64:
				if q := v.(int64); (name == "min") == (q < p) {
					r = q
				}
			case uint64:
				if q := v.(uint64); (name == "min") == (q < p) {
					r = q
				}
			default:
				r = x.apply(map[string]program.Op{"min": program.Min, "max": program.Max}[name], r, v)
			}
		}
		return r
	case "clear":
		if list, ok := args[0].([]value); ok {
			for i := range list {
				x.assign(&list[i], zero(c.Args[0].Type().Underlying().(*types.Slice).Elem()))
			}
			return nil
		}
	case "real":
		if _, ok := args[0].(symbol); ok {
			return x.apply(program.Detach, args[0])
		}
		return args[0]
	case "complex":
		if args[1] == 0.0 {
			return args[0]
		}
	case "ssa:wrapnilchk":
		return args[0]
	case "print", "println":
		return nil
	}
	x.fail("%s of %s is not followed", name, kind(args[0]))
	return nil
}

func (x *machine) unary(in *ssa.UnOp, a value) value {
	switch in.Op {
	case token.MUL:
		return copied(*x.pointer(a))
	case token.SUB:
		switch a := a.(type) {
		case float64, symbol:
			return x.apply(program.Neg, a)
		case int64:
			return wrap(in.Type(), -a)
		case uint64:
			return wrapUnsigned(in.Type(), -a)
		}
	case token.NOT:
		return x.not(a)
	case token.XOR:
		switch a := a.(type) {
		case int64:
			return wrap(in.Type(), ^a)
		case uint64:
			return wrapUnsigned(in.Type(), ^a)
		}
	case token.ARROW:
		x.fail("channels and goroutines are not followed")
	}
	x.fail("%s of %s is not followed", in.Op, kind(a))
	return nil
}

// wrap keeps an integer in its type.
func wrap(t types.Type, v int64) value {
	switch t.Underlying().(*types.Basic).Kind() {
	case types.Int8:
		return int64(int8(v))
	case types.Int16:
		return int64(int16(v))
	case types.Int32:
		return int64(int32(v))
	}
	return v
}

func wrapUnsigned(t types.Type, v uint64) value {
	switch t.Underlying().(*types.Basic).Kind() {
	case types.Uint8:
		return uint64(uint8(v))
	case types.Uint16:
		return uint64(uint16(v))
	case types.Uint32:
		return uint64(uint32(v))
	}
	return v
}

func (x *machine) binary(o token.Token, t types.Type, a, b value) value {
	switch p := a.(type) {
	case int64:
		if o == token.SHL || o == token.SHR {
			return shifted(x, o, t, p, b)
		}
		if q, ok := b.(int64); ok {
			if r, ok := integers(x, o, p, q); ok {
				if v, ok := r.(int64); ok {
					return wrap(t, v)
				}
				return r
			}
		}
	case uint64:
		if o == token.SHL || o == token.SHR {
			return shifted(x, o, t, p, b)
		}
		if q, ok := b.(uint64); ok {
			if r, ok := integers(x, o, p, q); ok {
				if v, ok := r.(uint64); ok {
					return wrapUnsigned(t, v)
				}
				return r
			}
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
	if v, ok := any(p).(int64); ok {
		return wrap(t, v)
	}
	return wrapUnsigned(t, uint64(p))
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

func (x *machine) numbers(o token.Token, a, b value) value {
	switch o {
	case token.ADD:
		return x.apply(program.Add, a, b)
	case token.SUB:
		return x.apply(program.Sub, a, b)
	case token.MUL:
		return x.apply(program.Mul, a, b)
	case token.QUO:
		return x.apply(program.Div, a, b)
	case token.LSS:
		return x.compare(program.Less, a, b)
	case token.GTR:
		return x.compare(program.Less, b, a)
	case token.LEQ:
		return x.compare(program.AtMost, a, b)
	case token.GEQ:
		return x.compare(program.AtMost, b, a)
	case token.EQL:
		return x.compare(program.Equal, a, b)
	case token.NEQ:
		return x.not(x.compare(program.Equal, a, b))
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
		return x.not(equal), true
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
			return wrapUnsigned(to, uint64(a))
		case uint64:
			return wrapUnsigned(to, a)
		case float64:
			return wrapUnsigned(to, uint64(a))
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
