package matpower

import (
	"errors"
	"fmt"
	"slices"
)

// Table is a matrix of numbers, row by row.
type Table struct {
	Columns int
	Data    []float64 // a multiple of Columns
}

// New makes a case of its matrices, whose columns are the format's as Read takes them. Bus has 13 or more, gen 10, branch
// 11; gencost may be empty, and so may dcline and dclinecost. The case is checked (Case.Check). Errors have no line; what
// they are about is named by its number.
func New(name string, baseMVA float64, bus, gen, branch, gencost, dcline, dclinecost Table) (*Case, error) {
	p := &parsed{function: name, structName: "mpc", version: "2", versionLine: 1, baseMVA: baseMVA, baseLine: 1, tables: map[string]*matrix{}}
	for field, t := range map[string]Table{"bus": bus, "gen": gen, "branch": branch, "gencost": gencost, "dcline": dcline, "dclinecost": dclinecost} {
		if !slices.Contains(used[:3], field) && len(t.Data) == 0 {
			continue
		}
		if t.Columns < 1 || t.Columns > maxColumns || len(t.Data)%t.Columns != 0 {
			return nil, &Error{Name: name, Reason: fmt.Sprintf("%s has %d numbers in %d columns: want whole rows of 1 to %d", field, len(t.Data), t.Columns, maxColumns)}
		}
		p.tables[field] = &matrix{columns: t.Columns, data: t.Data, rowLine: make([]int, len(t.Data)/t.Columns)}
	}
	c, err := p.build(name)
	if err == nil {
		err = c.check(name)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		e.Line = 0
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
