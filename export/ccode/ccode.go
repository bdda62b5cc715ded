// Package ccode writes functions of package program as C99: straight-line functions of double that round as
// Function.Evaluate does, wherever C's libm rounds as Go's package math.
//
// The central function is Function. What it writes needs <math.h>, the text of Helpers before it, and a compiler that
// fuses no products and sums (-ffp-contract=off).
package ccode

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/equations/program"
)

// Helpers are what written functions call besides libm. Not all of them are used by every function.
const Helpers = `/* NaN where one is, and -0 below 0. */
static inline double gpc_min(double x, double y)
{
    return x != x ? x : y != y ? y : x < y || (x == y && signbit(x)) ? x : y;
}

static inline double gpc_max(double x, double y)
{
    return x != x ? x : y != y ? y : x > y || (x == y && !signbit(x)) ? x : y;
}
`

// formats are the operations in C; $1 to $3 are the operands.
var formats = map[program.Op]string{
	program.Add: "$1 + $2", program.Sub: "$1 - $2", program.Mul: "$1 * $2", program.Div: "$1 / $2",
	program.Neg: "-$1", program.Abs: "fabs($1)", program.Sqrt: "sqrt($1)",
	program.Sin: "sin($1)", program.Cos: "cos($1)", program.Tan: "tan($1)",
	program.Asin: "asin($1)", program.Acos: "acos($1)", program.Atan: "atan($1)",
	program.Sinh: "sinh($1)", program.Cosh: "cosh($1)", program.Tanh: "tanh($1)",
	program.Exp: "exp($1)", program.Log: "log($1)", program.Floor: "floor($1)", program.Detach: "$1",
	program.Pow: "pow($1, $2)", program.Atan2: "atan2($1, $2)", program.Hypot: "hypot($1, $2)",
	program.Min: "gpc_min($1, $2)", program.Max: "gpc_max($1, $2)",
	program.Less: "$1 < $2 ? 1.0 : 0.0", program.AtMost: "$1 <= $2 ? 1.0 : 0.0", program.Equal: "$1 == $2 ? 1.0 : 0.0",
	program.Select: "$1 != 0.0 ? $2 : $3",
}

// libm are the operations that call a function of C's mathematical library, by its name. Those that IEEE 754 rounds
// exactly are instructions on most processors.
var libm = map[program.Op]string{
	program.Abs: "fabs", program.Sqrt: "sqrt", program.Floor: "floor", program.Sin: "sin", program.Cos: "cos", program.Tan: "tan",
	program.Asin: "asin", program.Acos: "acos", program.Atan: "atan", program.Sinh: "sinh", program.Cosh: "cosh", program.Tanh: "tanh",
	program.Exp: "exp", program.Log: "log", program.Pow: "pow", program.Atan2: "atan2", program.Hypot: "hypot",
}

// Libm are the functions of C's mathematical library that the functions call, in alphabetical order.
func Libm(functions ...*program.Function) []string {
	var names []string
	for _, f := range functions {
		for v := f.Entries(); v < f.Values(); v++ {
			op, _, _ := f.Operation(program.Value(v))
			if name, ok := libm[op]; ok && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Constant is a number as C reads it, exact.
func Constant(v float64) string {
	switch {
	case math.IsNaN(v):
		return "(double)NAN"
	case math.IsInf(v, 1):
		return "(double)INFINITY"
	case math.IsInf(v, -1):
		return "-(double)INFINITY"
	case v == math.Trunc(v) && math.Abs(v) < 1e15 && v != 0:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v == 0 && !math.Signbit(v):
		return "0.0"
	}
	return strconv.FormatFloat(v, 'x', -1, 64)
}

// Function writes f as the function `static void name(const double *INPUT…, double *OUTPUT…)`, its arguments in their
// order under the names x0, x1, … and y0, y1, …. No output may overlap an input or another output. The input
// program.Rounding is the variable rounding.
func Function(f *program.Function, name string) string {
	var b strings.Builder
	var parameters []string
	var inputs []string
	used := operands(f)
	for k, a := range f.Inputs() {
		if a.Name == program.Rounding {
			inputs, used[k] = append(inputs, program.Rounding), true
			continue
		}
		parameters = append(parameters, fmt.Sprintf("const double *x%d", k))
		for i := range a.Size {
			inputs = append(inputs, fmt.Sprintf("x%d[%d]", k, i))
		}
	}
	for k := range f.Outputs() {
		parameters = append(parameters, fmt.Sprintf("double *y%d", k))
	}
	fmt.Fprintf(&b, "static void %s(%s)\n{\n", name, strings.Join(parameters, ", "))
	text := func(v program.Value) string {
		if int(v) < len(inputs) {
			return inputs[v]
		}
		if op, _, constant := f.Operation(v); op == program.Const {
			return "(" + Constant(constant) + ")"
		}
		return fmt.Sprintf("v%d", int(v)-len(inputs))
	}
	for v := len(inputs); v < f.Values(); v++ {
		op, args, _ := f.Operation(program.Value(v))
		if op == program.Const {
			continue
		}
		expression := formats[op]
		for k, operand := range args {
			expression = strings.ReplaceAll(expression, fmt.Sprintf("$%d", k+1), text(operand))
		}
		fmt.Fprintf(&b, "    const double v%d = %s;\n", v-len(inputs), expression)
	}
	b.WriteString("\n")
	for k, a := range f.Inputs() {
		if !used[k] || a.Size == 0 {
			fmt.Fprintf(&b, "    (void)x%d;\n", k)
		}
	}
	at := 0
	for k, a := range f.Outputs() {
		if a.Size == 0 {
			fmt.Fprintf(&b, "    (void)y%d;\n", k)
		}
		for i := range a.Size {
			fmt.Fprintf(&b, "    y%d[%d] = %s;\n", k, i, text(f.Result(at)))
			at++
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// operands reports which inputs are read.
func operands(f *program.Function) []bool {
	var of []int // the input of each entry
	for k, a := range f.Inputs() {
		of = append(of, slices.Repeat([]int{k}, a.Size)...)
	}
	used := make([]bool, len(f.Inputs()))
	read := func(v program.Value) {
		if int(v) < len(of) {
			used[of[v]] = true
		}
	}
	for v := f.Entries(); v < f.Values(); v++ {
		_, args, _ := f.Operation(program.Value(v))
		for _, a := range args {
			read(a)
		}
	}
	for i := range f.Results() {
		read(f.Result(i))
	}
	return used
}

// SparsityPattern writes where the entries of a sparse matrix stand, as the arrays name_row and name_col.
func SparsityPattern(s *program.Sparse, name string) string {
	var b strings.Builder
	for _, list := range []struct {
		suffix string
		values []int
	}{{"row", s.Rows}, {"col", s.Cols}} {
		fmt.Fprintf(&b, "static const unsigned short %s_%s[%d] = {", name, list.suffix, max(1, len(list.values)))
		if len(list.values) == 0 {
			b.WriteString("0")
		}
		for i, v := range list.values {
			if i%24 == 0 {
				b.WriteString("\n   ")
			}
			fmt.Fprintf(&b, " %d,", v)
		}
		b.WriteString("\n};\n")
	}
	return b.String()
}
