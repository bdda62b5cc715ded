package matpower

import "slices"

// matrix is a rectangular table of numbers with the line of each row.
type matrix struct {
	line    int // where it begins
	columns int
	data    []float64
	rowLine []int
}

func (m *matrix) rows() int           { return len(m.rowLine) }
func (m *matrix) row(i int) []float64 { return m.data[i*m.columns : (i+1)*m.columns] }

// remove takes rows out.
func (m *matrix) remove(rows []int) {
	slices.Sort(rows)
	for _, i := range slices.Backward(slices.Compact(rows)) {
		m.data, m.rowLine = slices.Delete(m.data, i*m.columns, (i+1)*m.columns), slices.Delete(m.rowLine, i, i+1)
	}
}

// matrix parses "[ … ]" of numbers.
func (p *parser) matrix(name string) *matrix {
	if p.tok.kind != '[' {
		p.failf(p.tok.line, "%s is %s, a matrix in brackets should be here", name, p.tok.describe())
	}
	m := &matrix{line: p.tok.line}
	p.advance()
	var row []float64
	rowLine := 0
	comma := false // the last thing was a comma: a number must follow
	endRow := func() {
		if len(row) == 0 {
			return
		}
		if m.rows() == 0 {
			m.columns = len(row)
		}
		if len(row) != m.columns {
			p.failf(rowLine, "%s: this row has %d numbers, the first has %d", name, len(row), m.columns)
		}
		m.data, m.rowLine = append(m.data, row...), append(m.rowLine, rowLine)
		row = row[:0]
	}
	for {
		switch p.tok.kind {
		case tokenEnd:
			p.failf(m.line, "%s: the bracket opened here is not closed", name)
		case ']':
			endRow()
			p.advance()
			if p.tok.kind == '\'' {
				p.failf(p.tok.line, "%s: a transposed matrix cannot be read", name)
			}
			return m
		case ';', tokenLine:
			endRow()
			comma = false
			p.advance()
		case ',':
			if comma || len(row) == 0 {
				p.failf(p.tok.line, "%s: a comma with no number before it", name)
			}
			comma = true
			p.advance()
		default:
			if len(row) == 0 {
				rowLine = p.tok.line
			}
			if len(row) == maxColumns {
				p.failf(p.tok.line, "%s: more than %d numbers in a row", name, maxColumns)
			}
			row = append(row, p.number(true))
			comma = false
		}
	}
}

// each calls f with the line and the numbers of every row, which have zeros where it has fewer columns.
func (m *matrix) each(columns int, f func(line int, r []float64)) {
	wide := make([]float64, columns)
	for i := range m.rows() {
		clear(wide)
		copy(wide, m.row(i))
		f(m.rowLine[i], wide)
	}
}
