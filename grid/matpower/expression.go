package matpower

import (
	"math"
	"slices"
)

// value is the value of an expression: a number, or a part of a table.
type value struct {
	number  float64
	block   *block // nil for a number
	logical bool   // of a comparison: in an index it selects
}

// block is a part of a table, row by row; never 1×1, which is a number.
type block struct {
	rows, columns int
	data          []float64
}

var constants = map[string]float64{
	"Inf": math.Inf(1), "inf": math.Inf(1), "INF": math.Inf(1),
	"NaN": math.NaN(), "nan": math.NaN(), "NAN": math.NaN(), "NA": math.NaN(),
	"pi": math.Pi, "eps": 0x1p-52, "true": 1, "false": 0,
}

// functions of a number, applied to each of a block.
var functions = map[string]func(float64) float64{
	"sqrt": math.Sqrt, "abs": math.Abs, "exp": math.Exp, "log": math.Log,
	"sin": math.Sin, "cos": math.Cos, "tan": math.Tan,
	"asin": math.Asin, "acos": math.Acos, "atan": math.Atan,
	"isinf": func(x float64) float64 { return status(math.IsInf(x, 0)) }, "isnan": func(x float64) float64 { return status(math.IsNaN(x)) },
	"deg2rad": func(x float64) float64 { return x * math.Pi / 180 },
	"rad2deg": func(x float64) float64 { return x * 180 / math.Pi },
}

// Binding strengths of the operators, weakest first.
const (
	bindOr = iota + 1
	bindAnd
	bindComparison
	bindSum
	bindProduct
	bindSign
	bindPower
)

// number parses an expression whose value is one number.
func (p *parser) number(inMatrix bool) float64 {
	line := p.tok.line
	v := p.expression(inMatrix, 0)
	if v.block != nil {
		p.failf(line, "%d × %d numbers where one should be", v.block.rows, v.block.columns)
	}
	return v.number
}

// expression parses one. In a matrix a blank separates elements, so that
// "1 -2" are two and "1 - 2" and "1-2" are one.
func (p *parser) expression(inMatrix bool, above int) value {
	v := p.operand(inMatrix)
	for {
		op := p.tok
		var bind int
		switch op.kind {
		case '+', '-':
			bind = bindSum
			if inMatrix && op.spaceBefore && !op.spaceAfter {
				return v
			}
		case '|':
			bind = bindOr
		case '&':
			bind = bindAnd
		case '<', '>', tokenEqual, tokenUnequal, tokenAtMost, tokenAtLeast:
			bind = bindComparison
		case '*', '/', tokenTimes, tokenOver:
			bind = bindProduct
		case '^', tokenPower:
			bind = bindPower
		default:
			return v
		}
		if bind <= above {
			return v
		}
		p.advance()
		v = p.apply(op, v, p.expression(inMatrix, bind))
		v.logical = bind <= bindComparison
	}
}

// apply computes v op w, element by element where one is a block. The products
// of linear algebra are refused.
func (p *parser) apply(op token, v, w value) value {
	linear := op.kind == '*' && v.block != nil && w.block != nil || (op.kind == '/' || op.kind == '^') && w.block != nil ||
		op.kind == '^' && v.block != nil
	if linear {
		p.failf(op.line, "%q between matrices: only numbers and element-by-element operations (.* ./ .^) can be read", op.text)
	}
	f := func(a, b float64) float64 { return a + b }
	switch op.kind {
	case '-':
		f = func(a, b float64) float64 { return a - b }
	case '*', tokenTimes:
		f = func(a, b float64) float64 { return a * b }
	case '/', tokenOver:
		f = func(a, b float64) float64 { return a / b }
	case '^', tokenPower:
		f = math.Pow
	case '|':
		f = func(a, b float64) float64 { return status(a != 0 || b != 0) }
	case '&':
		f = func(a, b float64) float64 { return status(a != 0 && b != 0) }
	case '<':
		f = func(a, b float64) float64 { return status(a < b) }
	case '>':
		f = func(a, b float64) float64 { return status(a > b) }
	case tokenEqual:
		f = func(a, b float64) float64 { return status(a == b) }
	case tokenUnequal:
		f = func(a, b float64) float64 { return status(a != b) }
	case tokenAtMost:
		f = func(a, b float64) float64 { return status(a <= b) }
	case tokenAtLeast:
		f = func(a, b float64) float64 { return status(a >= b) }
	}
	switch {
	case v.block == nil && w.block == nil:
		return value{number: f(v.number, w.number)}
	case w.block == nil:
		return v.each(func(a float64) float64 { return f(a, w.number) })
	case v.block == nil:
		return w.each(func(b float64) float64 { return f(v.number, b) })
	}
	a, b := v.block, w.block
	if a.rows != b.rows || a.columns != b.columns {
		p.failf(op.line, "%q between %d × %d and %d × %d numbers", op.text, a.rows, a.columns, b.rows, b.columns)
	}
	out := &block{a.rows, a.columns, make([]float64, len(a.data))}
	for k := range out.data {
		out.data[k] = f(a.data[k], b.data[k])
	}
	return value{block: out}
}

// each applies a function to the number or to each of the block.
func (v value) each(f func(float64) float64) value {
	if v.block == nil {
		return value{number: f(v.number)}
	}
	out := &block{v.block.rows, v.block.columns, make([]float64, len(v.block.data))}
	for k, x := range v.block.data {
		out.data[k] = f(x)
	}
	return value{block: out}
}

// find is the positions of what is not 0, from 1, of a number or a column.
func (v value) find() value {
	data := []float64{v.number}
	if v.block != nil {
		data = v.block.data
	}
	out := &block{columns: 1}
	for k, x := range data {
		if x != 0 {
			out.data = append(out.data, float64(k+1))
		}
	}
	out.rows = len(out.data)
	return value{block: out}
}

// holds says whether a condition is true: not empty, and nowhere 0.
func (v value) holds() bool {
	if v.block == nil {
		return v.number != 0
	}
	return len(v.block.data) > 0 && !slices.Contains(v.block.data, 0)
}

func (p *parser) operand(inMatrix bool) value {
	t := p.tok
	switch t.kind {
	case tokenNumber:
		p.advance()
		return value{number: t.number}
	case '-', '+':
		negative := false
		for ; p.tok.kind == '-' || p.tok.kind == '+'; p.advance() {
			negative = negative != (p.tok.kind == '-')
		}
		v := p.expression(inMatrix, bindSign)
		if negative {
			return v.each(func(x float64) float64 { return -x })
		}
		return v
	case '~', '!':
		p.advance()
		v := p.expression(inMatrix, bindSign).each(func(x float64) float64 { return status(x == 0) })
		v.logical = true
		return v
	case '(':
		p.advance()
		v := p.expression(false, 0)
		p.expect(')', "\")\"")
		return v
	case tokenName:
		p.advance()
		return p.named(t, inMatrix)
	}
	p.failf(t.line, "found %s where a number should be", t.describe())
	return value{}
}

// named is the value of a name just passed.
func (p *parser) named(t token, inMatrix bool) value {
	if p.tok.kind == '(' && !(inMatrix && p.tok.spaceBefore) {
		f, ok := functions[t.text]
		if !ok && t.text != "find" {
			p.failf(t.line, "%s(…) cannot be evaluated: a case file gives its data as numbers", t.text)
		}
		p.advance()
		v := p.expression(false, 0)
		p.expect(')', "\")\"")
		if t.text == "find" {
			return v.find()
		}
		out := v.each(f)
		out.logical = t.text == "isinf" || t.text == "isnan"
		return out
	}
	if t.text == "end" && p.last > 0 {
		return value{number: float64(p.last)}
	}
	if v, ok := p.vars[t.text]; ok {
		return v
	}
	if v, ok := constants[t.text]; ok {
		return value{number: v}
	}
	if p.tok.kind == '.' && t.text == p.out.structName {
		p.advance()
		return p.part(t.line)
	}
	p.failf(t.line, "%q has no value: it is neither a number nor a variable that the file has set before", t.text)
	return value{}
}

// part is the value of "mpc.baseMVA" or "mpc.bus(rows, columns)" after its dot.
func (p *parser) part(line int) value {
	field := p.expect(tokenName, "the name of a field").text
	if field == "baseMVA" && p.out.baseLine != 0 {
		return value{number: p.out.baseMVA}
	}
	m := p.out.tables[field]
	if m == nil {
		p.failf(line, "%s.%s has no value that can be used here", p.out.structName, field)
	}
	if p.tok.kind != '(' {
		p.failf(line, "the whole of %s.%s in an expression", p.out.structName, field)
	}
	rows, columns := p.index(m)
	out := &block{len(rows), len(columns), make([]float64, 0, len(rows)*len(columns))}
	for _, i := range rows {
		for _, j := range columns {
			out.data = append(out.data, m.row(i)[j])
		}
	}
	if len(out.data) == 1 {
		return value{number: out.data[0]}
	}
	return value{block: out}
}
