package matpower

import "math"

// Case files of distribution networks give ohms and kilowatts and convert them
// in the last lines: "mpc.branch(:, [BR_R BR_X]) = mpc.branch(:, [BR_R BR_X]) /
// (Vbase^2 / Sbase)". Such assignments, of numbers and element-by-element
// expressions to rows and columns of a table, are what this file reads.

// maxPart bounds the part of a table an expression may take: the tables of
// 70 000 buses have fewer numbers.
const maxPart = 1 << 24

// columnNames are what MATPOWER's idx functions return, in their order, with
// the column each name stands for.
var columnNames = map[string][]namedColumn{
	"idx_bus": numbered([]string{"PQ", "PV", "REF", "NONE"},
		[]string{"BUS_I", "BUS_TYPE", "PD", "QD", "GS", "BS", "BUS_AREA", "VM", "VA", "BASE_KV", "ZONE", "VMAX", "VMIN",
			"LAM_P", "LAM_Q", "MU_VMAX", "MU_VMIN"}),
	"idx_gen": append(numbered([]string{"GEN_BUS", "PG", "QG", "QMAX", "QMIN", "VG", "MBASE", "GEN_STATUS", "PMAX", "PMIN"}),
		namedColumn{"MU_PMAX", 22}, namedColumn{"MU_PMIN", 23}, namedColumn{"MU_QMAX", 24}, namedColumn{"MU_QMIN", 25},
		namedColumn{"PC1", 11}, namedColumn{"PC2", 12}, namedColumn{"QC1MIN", 13}, namedColumn{"QC1MAX", 14},
		namedColumn{"QC2MIN", 15}, namedColumn{"QC2MAX", 16}, namedColumn{"RAMP_AGC", 17}, namedColumn{"RAMP_10", 18},
		namedColumn{"RAMP_30", 19}, namedColumn{"RAMP_Q", 20}, namedColumn{"APF", 21}),
	"idx_brch": append(numbered([]string{"F_BUS", "T_BUS", "BR_R", "BR_X", "BR_B", "RATE_A", "RATE_B", "RATE_C", "TAP", "SHIFT", "BR_STATUS"}),
		namedColumn{"PF", 14}, namedColumn{"QF", 15}, namedColumn{"PT", 16}, namedColumn{"QT", 17}, namedColumn{"MU_SF", 18}, namedColumn{"MU_ST", 19},
		namedColumn{"ANGMIN", 12}, namedColumn{"ANGMAX", 13}, namedColumn{"MU_ANGMIN", 20}, namedColumn{"MU_ANGMAX", 21}),
	"idx_cost": numbered([]string{"PW_LINEAR", "POLYNOMIAL"}, []string{"MODEL", "STARTUP", "SHUTDOWN", "NCOST", "COST"}),
}

type namedColumn struct {
	name   string
	column int
}

// numbered gives each list of names the numbers 1, 2, ….
func numbered(lists ...[]string) []namedColumn {
	var out []namedColumn
	for _, l := range lists {
		for k, name := range l {
			out = append(out, namedColumn{name, k + 1})
		}
	}
	return out
}

// nameColumns gives the values to the names of an assignment, or to their own
// names when given is nil.
func (p *parser) nameColumns(values []namedColumn, names []string) {
	for k, v := range values {
		name := v.name
		if names != nil {
			if k >= len(names) {
				return
			}
			name = names[k]
		}
		p.vars[name] = value{number: float64(v.column)}
	}
}

// columnNames parses "[PQ, PV, …] = idx_bus".
func (p *parser) columnNames() {
	line := p.tok.line
	var names []string
	for p.advance(); p.tok.kind != ']'; p.advance() {
		switch p.tok.kind {
		case tokenName, '~':
			names = append(names, p.tok.text)
		case ',':
		case tokenEnd, tokenLine:
			p.failf(line, "the bracket opened here is not closed on its line")
		default:
			p.failf(p.tok.line, "found %s in a list of names", p.tok.describe())
		}
	}
	p.advance()
	p.expect('=', "\"=\"")
	values, ok := columnNames[p.tok.text]
	if p.tok.kind != tokenName || !ok {
		p.failf(line, "a call with several results cannot be run: a case file gives its data as numbers")
	}
	if len(names) > len(values) {
		p.failf(line, "%s has %d results, %d names are given", p.tok.text, len(values), len(names))
	}
	p.nameColumns(values, names)
	p.advance()
}

// change parses "(rows, columns) = value" after the name of a table.
func (p *parser) change(name, table string) {
	line := p.tok.line
	m := p.out.tables[table]
	if m == nil {
		p.failf(line, "a part of %s is assigned before %s itself", name, name)
	}
	rows, columns := p.index(m)
	p.expect('=', "\"=\"")
	var v value
	if p.tok.kind == '[' {
		values := p.matrix(name)
		if values.rows() == 0 && len(columns) == m.columns {
			m.remove(rows)
			return
		}
		v.block = &block{values.rows(), values.columns, values.data}
	} else {
		v = p.expression(false, 0)
	}
	if b := v.block; b != nil && (b.rows != len(rows) || b.columns != len(columns)) {
		p.failf(line, "%d × %d numbers are assigned to %d × %d of %s", b.rows, b.columns, len(rows), len(columns), name)
	}
	for a, i := range rows {
		for c, j := range columns {
			x := v.number
			if v.block != nil {
				x = v.block.data[a*len(columns)+c]
			}
			m.row(i)[j] = x
		}
	}
}

// index parses "(rows, columns)".
func (p *parser) index(m *matrix) (rows, columns []int) {
	p.expect('(', "\"(\"")
	rows = p.positions(m.rows(), "row")
	p.expect(',', "\",\"")
	columns = p.positions(m.columns, "column")
	p.expect(')', "\")\"")
	if len(rows)*len(columns) > maxPart {
		p.failf(p.tok.line, "%d × %d numbers of a table in one expression: %d at most", len(rows), len(columns), maxPart)
	}
	return rows, columns
}

// positions parses ":", a number, a range, a comparison or a list of them in brackets, and returns what they select
// counted from 0.
func (p *parser) positions(count int, kind string) []int {
	line, outer := p.tok.line, p.last
	p.last = count
	defer func() { p.last = outer }()
	var out []int
	add := func(v float64) {
		if v != math.Trunc(v) || v < 1 || v > float64(count) {
			p.failf(line, "there is no %s %g: there are %d", kind, v, count)
		}
		if len(out) == maxPart {
			p.failf(line, "more than %d %ss in a list", maxPart, kind)
		}
		out = append(out, int(v)-1)
	}
	if p.tok.kind == ':' {
		p.advance()
		for k := range count {
			add(float64(k + 1))
		}
		return out
	}
	list := p.tok.kind == '['
	if list {
		p.advance()
	}
	for !list || p.tok.kind != ']' {
		switch p.tok.kind {
		case ',':
			p.advance()
			continue
		case tokenEnd, tokenLine, ';':
			p.failf(line, "the list of %ss is not closed on its line", kind)
		}
		v := p.expression(list, 0)
		if p.tok.kind == ':' {
			p.advance()
			for x, end := v.number, p.number(list); x <= end; x++ {
				add(x)
			}
		} else {
			if v.logical {
				v = v.find()
			}
			if v.block == nil {
				add(v.number)
			} else {
				for _, x := range v.block.data {
					add(x)
				}
			}
		}
		if !list {
			return out
		}
	}
	p.advance()
	return out
}
