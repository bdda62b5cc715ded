package gotrace

import (
	"golang.org/x/tools/go/ssa"
)

// unfollowed calls a function whose source is not here: one that is known by name, or its results, and what it may write, are
// unknown.
func (x *machine) unfollowed(fn *ssa.Function, args []value) value {
	if v, ok := x.native(fn, args); ok {
		return v
	}
	if fn.Name() == "init" {
		return nil
	}
	text := "the result of " + fn.String() + ", whose source is not here,"
	name := fn.Name()
	if origin := fn.Origin(); origin != nil {
		name = origin.Name()
	}
	if reason, ok := x.p.missing[name]; ok {
		text = "the result of " + name + ", which is not followed (" + reason + "),"
	}
	return x.spoilArguments(fn, args, text)
}

// spoilArguments is what is left of a call that cannot be run.
func (x *machine) spoilArguments(fn *ssa.Function, args []value, reason string) value {
	for _, v := range args {
		x.spoil(v, reason)
	}
	switch n := fn.Signature.Results().Len(); n {
	case 0:
		return nil
	case 1:
		return unknown{reason, x.place()}
	default:
		all := make(tuple, n)
		for i := range all {
			all[i] = unknown{reason, x.place()}
		}
		return all
	}
}

// spoil makes unknown what a function could write through a value.
func (x *machine) spoil(v value, reason string) {
	switch v := v.(type) {
	case *value:
		if v == nil {
			return
		}
		if _, ok := (*v).(unknown); !ok {
			old := *v
			x.store(v, unknown{reason, x.place()})
			x.spoil(old, reason)
		}
	case []value:
		for i := range v {
			x.spoil(&v[i], reason)
		}
	case fields:
		for i := range v {
			x.spoil(v[i], reason)
		}
	case array:
		for i := range v {
			x.spoil(v[i], reason)
		}
	case boxed:
		x.spoil(v.v, reason)
	case *closure:
		if v != nil {
			for _, f := range v.free {
				x.spoil(f, reason)
			}
		}
	}
}
