package gotrace

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// index is a value that counts.
func (x *machine) index(v value) int {
	switch v := v.(type) {
	case int64:
		return int(v)
	case uint64:
		return int(v)
	case unknown:
		x.fail("%s is needed as an index or length", v.reason)
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
		x.fail("%s is needed here", v.reason)
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
		x.fail("%s is needed here", p.reason)
	}
	x.fail("%s is no pointer", kind(v))
	return nil
}

// instruction runs one that is no jump.
func (x *machine) instruction(f *frame, s *step) {
	if u := x.unknownArgument(f, s); u != nil {
		f.slots[s.slot] = u
		return
	}
	if x.effect(f, s) {
		return
	}
	r := x.result(f, s)
	if _, call := s.instruction.(*ssa.Call); r != nil || !call {
		f.slots[s.slot] = r
	}
}

// unknownArgument is the first argument that is unknown, of an instruction whose value is then unknown too; else nil.
func (x *machine) unknownArgument(f *frame, s *step) value {
	switch s.instruction.(type) {
	case *ssa.Call, *ssa.Alloc, *ssa.MakeClosure, *ssa.MakeInterface:
		return nil
	}
	if s.slot >= 0 {
		for i := range s.args {
			if u, ok := x.arg(f, &s.args[i]).(unknown); ok {
				return u
			}
		}
	}
	return nil
}

// effect executes an instruction that has no value; false: it has one.
func (x *machine) effect(f *frame, s *step) bool {
	arg := func(i int) value { return x.arg(f, &s.args[i]) }
	switch instruction := s.instruction.(type) {
	case *ssa.DebugRef:
	case *ssa.Defer:
		fn, args := x.callee(f, s, &instruction.Call)
		f.defers = append(f.defers, func() { x.invoke(f, &instruction.Call, fn, args) })
	case *ssa.RunDefers:
		for _, d := range slices.Backward(f.defers) {
			d()
		}
		f.defers = nil
	case *ssa.Store:
		x.assign(x.pointer(arg(0)), arg(1))
	case *ssa.MapUpdate:
		x.update(arg(0), arg(1), arg(2))
	default:
		return false
	}
	return true
}

// result is the value of an instruction; nil: a call without one.
func (x *machine) result(f *frame, s *step) value {
	arg := func(i int) value { return x.arg(f, &s.args[i]) }
	switch instruction := s.instruction.(type) {
	case *ssa.Alloc:
		cell := new(value)
		*cell = zero(instruction.Type().Underlying().(*types.Pointer).Elem())
		return cell
	case *ssa.BinOp:
		return x.binary(instruction.Op, instruction.X.Type(), arg(0), arg(1))
	case *ssa.UnOp:
		return x.unary(instruction, arg(0))
	case *ssa.Call:
		fn, args := x.callee(f, s, &instruction.Call)
		return x.invoke(f, &instruction.Call, fn, args)
	case *ssa.FieldAddr:
		cell := x.pointer(arg(0))
		if u, ok := (*cell).(unknown); ok {
			one := value(u) // of an unknown struct: what is written there is lost
			return &one
		}
		return &(*cell).(fields)[instruction.Field]
	case *ssa.Field:
		return copied(arg(0).(fields)[instruction.Field])
	case *ssa.IndexAddr:
		if cell, ok := arg(0).(*value); ok && cell != nil {
			if u, ok := (*cell).(unknown); ok {
				return u
			}
		}
		list := x.sequence(arg(0))
		return &list[x.checked(x.index(arg(1)), len(list))]
	case *ssa.Index:
		i := x.index(arg(1))
		if text, ok := arg(0).(string); ok {
			return uint64(text[x.checked(i, len(text))])
		}
		list := x.sequence(arg(0))
		return copied(list[x.checked(i, len(list))])
	case *ssa.Slice:
		return x.slice(instruction, arg)
	case *ssa.SliceToArrayPointer:
		x.fail("a slice that becomes an array is not followed")
	case *ssa.MakeSlice:
		n, c := x.index(arg(0)), x.index(arg(1))
		if n < 0 || c < n || c > maxSteps {
			x.fail("make of %d entries with room for %d", n, c)
		}
		list := make([]value, c)
		for i := range list {
			list[i] = zero(instruction.Type().Underlying().(*types.Slice).Elem())
		}
		return list[:n]
	case *ssa.MakeMap:
		return &table{entries: map[any]value{}}
	case *ssa.Lookup:
		return x.lookup(instruction, arg(0), arg(1))
	case *ssa.Range:
		return newWalk(arg(0))
	case *ssa.Next:
		return x.next(arg(0).(*walk))
	case *ssa.MakeClosure:
		c := &closure{fn: instruction.Fn.(*ssa.Function)}
		for i := range instruction.Bindings {
			c.free = append(c.free, arg(1+i))
		}
		return c
	case *ssa.MakeInterface:
		return boxed{instruction.X.Type(), arg(0)}
	case *ssa.ChangeInterface, *ssa.ChangeType:
		return arg(0)
	case *ssa.Convert:
		return x.convert(instruction.X.Type(), instruction.Type(), arg(0))
	case *ssa.TypeAssert:
		return x.assert(instruction, arg(0))
	case *ssa.Extract:
		all, ok := arg(0).(tuple)
		if !ok {
			x.fail("%s where several values are wanted", kind(arg(0)))
		}
		return all[instruction.Index]
	case *ssa.Go, *ssa.Send, *ssa.Select, *ssa.MakeChan:
		x.fail("channels and goroutines are not followed")
	}
	x.fail("%T is not followed", s.instruction)
	return nil
}

// checked is an index of n entries.
func (x *machine) checked(i, n int) int {
	if i < 0 || i >= n {
		x.fail("index %d of %d", i, n)
	}
	return i
}

// update writes an entry of a map.
func (x *machine) update(container, key, v value) {
	if x.forks > 0 {
		x.fail("a map that is written in an arm of a branch on a number")
	}
	m, ok := container.(*table)
	if !ok || m == nil {
		x.fail("a write to a map that is nil or unknown")
	}
	k := x.key(key)
	if _, ok := m.entries[k]; !ok {
		m.keys = append(m.keys, k)
	}
	m.entries[k] = copied(v)
}

// lookup reads an entry of a map.
func (x *machine) lookup(instruction *ssa.Lookup, container, key value) value {
	m, ok := container.(*table)
	if !ok {
		x.fail("%s is no map", kind(container))
	}
	var v value
	exists := false
	if k := x.key(key); m != nil {
		v, exists = m.entries[k]
	}
	if !exists {
		v = zero(instruction.X.Type().Underlying().(*types.Map).Elem())
	}
	if instruction.CommaOk {
		return tuple{copied(v), exists}
	}
	return copied(v)
}

// newWalk begins a range over a string or a map.
func newWalk(container value) *walk {
	w := &walk{}
	switch a := container.(type) {
	case string:
		for i, c := range a {
			w.keys, w.values = append(w.keys, int64(i)), append(w.values, int64(c))
		}
	case *table:
		if a != nil {
			for _, k := range a.keys {
				w.keys, w.values = append(w.keys, k), append(w.values, a.entries[k])
			}
		}
	}
	return w
}

// next is the next entry of a range.
func (x *machine) next(w *walk) value {
	if x.forks > 0 {
		x.fail("a range over a map or string in an arm of a branch on a number")
	}
	if w.next >= len(w.keys) {
		return tuple{false, unknown{reason: "nothing"}, unknown{reason: "nothing"}}
	}
	w.next++
	return tuple{true, w.keys[w.next-1], w.values[w.next-1]}
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

func (x *machine) slice(instruction *ssa.Slice, arg func(int) value) value {
	// The bounds that there are stand behind X in their order.
	bounds := [3]int{0, -1, -1}
	for k, v := range [3]ssa.Value{instruction.Low, instruction.High, instruction.Max} {
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

func (x *machine) assert(instruction *ssa.TypeAssert, v value) value {
	i, _ := v.(boxed)
	abstract, isInterface := instruction.AssertedType.Underlying().(*types.Interface)
	holds := false
	if i.typ != nil {
		if holds = types.Identical(i.typ, instruction.AssertedType); isInterface {
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
		r = zero(instruction.AssertedType)
	}
	if instruction.CommaOk {
		return tuple{r, holds}
	}
	if !holds {
		x.fail("an assertion of the type %s that does not hold", instruction.AssertedType)
	}
	return r
}
