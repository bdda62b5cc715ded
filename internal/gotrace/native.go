package gotrace

import (
	"fmt"
	"math"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/gpc-engine/gpc/equations/program"
)

// native are functions of the standard library that are run here, since their source is not: those that name and arrange what is known.
// The results of others are unknown.
func (x *machine) native(fn *ssa.Function, args []value) (value, bool) {
	if origin := fn.Origin(); origin != nil {
		fn = origin
	}
	list := func(i int) []value { return x.sequence(args[i]) }
	for _, v := range args {
		if _, ok := v.(unknown); ok {
			return nil, false
		}
	}
	switch fn.String() {
	case "fmt.Sprintf", "fmt.Errorf":
		return x.printed(fn, fmt.Sprintf(args[0].(string), plain(list(1))...)), true
	case "fmt.Sprint":
		return fmt.Sprint(plain(list(0))...), true
	case "fmt.Sprintln":
		return fmt.Sprintln(plain(list(0))...), true
	case "strings.ToUpper":
		return strings.ToUpper(args[0].(string)), true
	case "strings.ToLower":
		return strings.ToLower(args[0].(string)), true
	case "strings.Repeat":
		return strings.Repeat(args[0].(string), x.index(args[1])), true
	case "(*sync.Pool).Get":
		if pool, ok := (*x.pointer(args[0])).(fields); ok {
			for _, f := range pool {
				if c, ok := f.(*closure); ok && c != nil {
					return x.call(c, nil), true
				}
			}
		}
		return boxed{}, true
	case "(*sync.Pool).Put":
		return nil, true
	case "slices.Clone":
		if list(0) == nil {
			return []value(nil), true
		}
		return appended(nil, list(0)), true
	case "slices.Concat":
		all := []value{}
		for _, part := range list(0) {
			all = appended(all, x.sequence(part))
		}
		return all, true
	case "slices.Repeat":
		all := []value{}
		for range x.index(args[1]) {
			all = appended(all, list(0))
		}
		return all, true
	case "slices.Reverse":
		all := appended(nil, list(0))
		for i, v := range all {
			x.assign(&list(0)[len(all)-1-i], v)
		}
		return nil, true
	}
	return nil, false
}

func appended(to, from []value) []value {
	for _, v := range from {
		to = append(to, copied(v))
	}
	return to
}

// printed is a text, or an error that has it.
func (x *machine) printed(fn *ssa.Function, text string) value {
	if fn.Name() == "Errorf" {
		return unknown{"an error (" + text + ")", x.place()}
	}
	return text
}

// plain are arguments as package fmt takes them; what is not known prints as such.
func plain(list []value) []any {
	out := make([]any, len(list))
	for i, v := range list {
		if b, ok := v.(boxed); ok {
			v = b.v
		}
		switch v := v.(type) {
		case bool, int64, uint64, float64, string:
			out[i] = v
		default:
			out[i] = fmt.Sprintf("<%s>", kind(v))
		}
	}
	return out
}

const dualPath = "github.com/gpc-engine/gpc/equations/dual"

// operations are functions of package math, and of package dual.
var operations = map[string]program.Op{
	"Sin": program.Sin, "Cos": program.Cos, "Tan": program.Tan, "Asin": program.Asin, "Acos": program.Acos, "Atan": program.Atan,
	"Sinh": program.Sinh, "Cosh": program.Cosh, "Tanh": program.Tanh, "Exp": program.Exp, "Log": program.Log, "Sqrt": program.Sqrt,
	"Abs": program.Abs, "Floor": program.Floor, "Pow": program.Pow, "Atan2": program.Atan2, "Hypot": program.Hypot, "Max": program.Max, "Min": program.Min,
}

// operation is the call of a function that is an operation.
func (x *machine) operation(fn *ssa.Function, a []value) (value, bool) {
	if origin := fn.Origin(); origin != nil {
		fn = origin
	}
	if fn.Object() == nil || fn.Object().Pkg() == nil || fn.Signature.Recv() != nil || fn.Parent() != nil {
		return nil, false
	}
	path := fn.Object().Pkg().Path()
	if path != "math" && path != dualPath {
		return nil, false
	}
	for _, v := range a {
		if u, ok := v.(unknown); ok {
			return u, true
		}
	}
	if o, ok := operations[fn.Name()]; ok {
		return x.apply(o, a...), true
	}
	switch fn.Name() {
	case "Sincos":
		return tuple{x.apply(program.Sin, a[0]), x.apply(program.Cos, a[0])}, true
	case "Inf":
		return math.Inf(int(a[0].(int64))), true
	case "NaN":
		return math.NaN(), true
	case "Ceil":
		return x.apply(program.Neg, x.apply(program.Floor, x.apply(program.Neg, a[0]))), true
	case "IsNaN":
		return x.negate(x.compare(program.Equal, a[0], a[0])), true
	}
	if path == "math" {
		return nil, false
	}
	switch fn.Name() {
	case "Div":
		return x.apply(program.Div, a...), true
	case "Const", "Value":
		if _, ok := a[0].(symbol); ok {
			return x.apply(program.Detach, a[0]), true
		}
		return a[0], true
	case "Less":
		return x.compare(program.Less, a[0], a[1]), true
	}
	return nil, false
}
