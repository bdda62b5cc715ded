package gotrace

import (
	"fmt"
	"go/types"
	"strings"

	"github.com/gpc-engine/gpc/equations/program"
	"golang.org/x/tools/go/ssa"
)

// Object is a value that a function returned, such as a struct with functions in it.
type Object struct {
	x   *machine
	v   value
	typ types.Type
}

// Run calls a function of the package with arguments, each an int or a float64, and returns its one result.
func (p *Package) Run(name string, args ...any) (*Object, error) {
	fn := p.main.Func(name)
	if fn == nil {
		return nil, fmt.Errorf("the source has no function %s", name)
	}
	if n := fn.Signature.Params().Len(); n != len(args) || fn.Signature.Results().Len() != 1 || fn.Signature.TypeParams().Len() > 0 {
		return nil, fmt.Errorf("the function %s has %d parameters and %d results, want %d and one result", name, n, fn.Signature.Results().Len(), len(args))
	}
	x := &machine{p: p, globals: map[*ssa.Global]*value{}, initialized: map[*ssa.Package]bool{}, codes: map[*ssa.Function]*code{}}
	o := &Object{x: x, typ: fn.Signature.Results().At(0).Type()}
	values := make([]value, len(args))
	for i, a := range args {
		kind := types.Invalid
		switch a := a.(type) {
		case int:
			kind, values[i] = types.Int, int64(a)
		case float64:
			kind, values[i] = types.Float64, a
		}
		if b, ok := fn.Signature.Params().At(i).Type().Underlying().(*types.Basic); !ok || b.Kind() != kind {
			return nil, fmt.Errorf("parameter %d of the function %s is %s and given %v of type %T, want int or float64 for both", i+1, name, fn.Signature.Params().At(i).Type(), a, a)
		}
	}
	err := x.run(func() { o.v = x.call(&closure{fn: fn}, values) })
	return o, err
}

// Field is a field, or one of a field by names between dots; pointers are followed. nil: it is nil, or in what is nil.
func (o *Object) Field(path string) (*Object, error) {
	v, t := o.v, o.typ
	for name := range strings.SplitSeq(path, ".") {
		if p, ok := t.Underlying().(*types.Pointer); ok {
			cell, ok := v.(*value)
			if !ok {
				return nil, fmt.Errorf("%s: %s", path, reason(v))
			}
			if cell == nil {
				return nil, nil
			}
			v, t = *cell, p.Elem()
		}
		structure, ok := t.Underlying().(*types.Struct)
		if !ok {
			return nil, fmt.Errorf("%s: %s is no struct", path, t)
		}
		list, ok := v.(fields)
		if !ok {
			return nil, fmt.Errorf("%s: %s", path, reason(v))
		}
		exists := false
		for i := range structure.NumFields() {
			if structure.Field(i).Name() == name {
				v, t, exists = list[i], structure.Field(i).Type(), true
				break
			}
		}
		if !exists {
			return nil, fmt.Errorf("%s: %s has no field %s", path, t, name)
		}
	}
	switch p := v.(type) {
	case *closure:
		if p == nil {
			return nil, nil
		}
	case *value:
		if p == nil {
			return nil, nil
		}
	case unknown:
		return nil, fmt.Errorf("%s: %s", path, reason(v))
	}
	return &Object{o.x, v, t}, nil
}

// reason says why a value cannot be used.
func reason(v value) string {
	if u, ok := v.(unknown); ok {
		return "it is " + strings.TrimSuffix(u.reason, ",")
	}
	return "it is " + kind(v)
}

// Entry is an entry of a slice that is passed: a value, a constant, or nothing yet.
type Entry struct {
	value    program.Value
	assigned bool
}

// Values are entries that hold these.
func Values(v []program.Value) []Entry {
	out := make([]Entry, len(v))
	for i := range v {
		out[i] = Entry{v[i], true}
	}
	return out
}

// Trace calls the function that o is with slices of numbers, and writes its operations with b. It returns what the entries
// hold afterwards, and the number that the function returned, where it returns one or a condition.
func (o *Object) Trace(b *program.Builder, names []string, args ...[]Entry) (results [][]Entry, returned program.Value, err error) {
	c, ok := o.v.(*closure)
	if !ok {
		return nil, 0, fmt.Errorf("%s is no function", reason(o.v))
	}
	if n := c.fn.Signature.Params().Len(); n != len(args) {
		return nil, 0, fmt.Errorf("it has %d parameters, want %d", n, len(args))
	}
	x := o.x
	slices, values := make([][]value, len(args)), make([]value, len(args))
	for k, entries := range args {
		slices[k] = make([]value, len(entries))
		for i, e := range entries {
			if e.assigned {
				slices[k][i] = symbol(e.value)
			} else {
				slices[k][i] = unknown{reason: fmt.Sprintf("%s[%d], which was not written,", names[k], i)}
			}
		}
		values[k] = slices[k]
	}
	x.builder, x.steps = b, 0
	defer func() { x.builder = nil }()
	err = x.run(func() {
		result := x.call(c, values)
		if c.fn.Signature.Results().Len() > 0 {
			returned = x.number(result)
		}
		for k, list := range slices {
			out := make([]Entry, len(list))
			for i, v := range list {
				if u, ok := v.(unknown); ok && strings.HasSuffix(u.reason, "which was not written,") && !args[k][i].assigned {
					continue
				}
				out[i] = Entry{x.number(v), true}
			}
			results = append(results, out)
		}
	})
	return results, returned, err
}

// Written is the value of an entry, if it has one.
func (e Entry) Written() (program.Value, bool) { return e.value, e.assigned }
