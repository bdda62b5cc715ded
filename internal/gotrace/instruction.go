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
	arg := func(i int) value { return x.arg(f, &s.args[i]) }
	if s.slot >= 0 {
		switch s.instruction.(type) {
		case *ssa.Call, *ssa.Alloc, *ssa.MakeClosure, *ssa.MakeInterface:
		default: // what is unknown stays so
			for i := range s.args {
				if u, ok := arg(i).(unknown); ok {
					f.slots[s.slot] = u
					return
				}
			}
		}
	}
	var r value
	switch instruction := s.instruction.(type) {
	case *ssa.DebugRef:
		return
	case *ssa.Alloc:
		cell := new(value)
		*cell = zero(instruction.Type().Underlying().(*types.Pointer).Elem())
		r = cell
	case *ssa.BinOp:
		r = x.binary(instruction.Op, instruction.X.Type(), arg(0), arg(1))
	case *ssa.UnOp:
		r = x.unary(instruction, arg(0))
	case *ssa.Call:
		fn, args := x.callee(f, s, &instruction.Call)
		r = x.invoke(f, &instruction.Call, fn, args)
		if r == nil {
			return
		}
	case *ssa.Defer:
		fn, args := x.callee(f, s, &instruction.Call)
		f.defers = append(f.defers, func() { x.invoke(f, &instruction.Call, fn, args) })
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
		cell := x.pointer(arg(0))
		if u, ok := (*cell).(unknown); ok {
			one := value(u) // of an unknown struct: what is written there is lost
			r = &one
			break
		}
		r = &(*cell).(fields)[instruction.Field]
	case *ssa.Field:
		r = copied(arg(0).(fields)[instruction.Field])
	case *ssa.IndexAddr:
		if cell, ok := arg(0).(*value); ok && cell != nil {
			if u, ok := (*cell).(unknown); ok {
				f.slots[s.slot] = u
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
		r = x.slice(instruction, arg)
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
		r = list[:n]
	case *ssa.MakeMap:
		r = &table{entries: map[any]value{}}
	case *ssa.MapUpdate:
		if x.forks > 0 {
			x.fail("a map that is written in an arm of a branch on a number")
		}
		m, ok := arg(0).(*table)
		if !ok || m == nil {
			x.fail("a write to a map that is nil or unknown")
		}
		k := x.key(arg(1))
		if _, ok := m.entries[k]; !ok {
			m.keys = append(m.keys, k)
		}
		m.entries[k] = copied(arg(2))
		return
	case *ssa.Lookup:
		m, ok := arg(0).(*table)
		if !ok {
			x.fail("%s is no map", kind(arg(0)))
		}
		var v value
		exists := false
		if k := x.key(arg(1)); m != nil {
			v, exists = m.entries[k]
		}
		if !exists {
			v = zero(instruction.X.Type().Underlying().(*types.Map).Elem())
		}
		if r = copied(v); instruction.CommaOk {
			r = tuple{r, exists}
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
					w.keys, w.values = append(w.keys, k), append(w.values, a.entries[k])
				}
			}
		}
		r = w
	case *ssa.Next:
		w := arg(0).(*walk)
		if x.forks > 0 {
			x.fail("a range over a map or string in an arm of a branch on a number")
		}
		if r = (tuple{false, unknown{reason: "nothing"}, unknown{reason: "nothing"}}); w.next < len(w.keys) {
			r = tuple{true, w.keys[w.next], w.values[w.next]}
			w.next++
		}
	case *ssa.MakeClosure:
		c := &closure{fn: instruction.Fn.(*ssa.Function)}
		for i := range instruction.Bindings {
			c.free = append(c.free, arg(1+i))
		}
		r = c
	case *ssa.MakeInterface:
		r = boxed{instruction.X.Type(), arg(0)}
	case *ssa.ChangeInterface, *ssa.ChangeType:
		r = arg(0)
	case *ssa.Convert:
		r = x.convert(instruction.X.Type(), instruction.Type(), arg(0))
	case *ssa.TypeAssert:
		r = x.assert(instruction, arg(0))
	case *ssa.Extract:
		all, ok := arg(0).(tuple)
		if !ok {
			x.fail("%s where several values are wanted", kind(arg(0)))
		}
		r = all[instruction.Index]
	case *ssa.Go, *ssa.Send, *ssa.Select, *ssa.MakeChan:
		x.fail("channels and goroutines are not followed")
	default:
		x.fail("%T is not followed", instruction)
	}
	f.slots[s.slot] = r
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
