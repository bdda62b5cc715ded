package gotrace

import (
	"fmt"
	"go/types"

	"golang.org/x/tools/go/ssa"

	"github.com/gpc-engine/gpc/equations/program"
)

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
		x.fail("a call of %s", fn.reason)
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
			v = x.spoilArguments(c.fn, args, fmt.Sprintf("the result of %s, which is not followed (%v),", c.fn.Name(), e))
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
			return int64(len(v.entries))
		}
		if list := x.sequence(args[0]); name == "cap" {
			return int64(cap(list))
		} else {
			return int64(len(list))
		}
	case "copy":
		to, from := x.sequence(args[0]), x.sequence(args[1])
		n := min(len(to), len(from))
		copies := make([]value, n) // they may overlap
		for i := range n {
			copies[i] = copied(from[i])
		}
		for i := range n {
			x.assign(&to[i], copies[i])
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
			extended := make([]value, max(2*n, n+len(from)))
			copy(extended, to)
			for i := n; i < len(extended); i++ {
				extended[i] = zero(c.Args[0].Type().Underlying().(*types.Slice).Elem())
			}
			to = extended
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
