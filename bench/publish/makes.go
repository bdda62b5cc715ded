package publish

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
)

// ofCeiling are the operations whose rate is a fraction of the ceiling of multiply-adds.
var ofCeiling = []string{"gemm", "jacobian", "metric", "step", "train"}

// makes has the fractions of the ceiling that whole benchmarks of several devices reach at their
// largest batch, a column a device.
func (d devices) makes() string {
	head, note := []string{"operation", "batch"}, ""
	var records []bench.Record
	var all []*closedloop.Load
	for _, r := range d {
		// A whole run has every operation; others are of one.
		i := slices.IndexFunc(r.Benchmarks, func(b bench.Record) bool {
			return !slices.ContainsFunc(ofCeiling, func(op string) bool {
				return !slices.ContainsFunc(b.Results, func(m bench.Result) bool { return m.Op == op })
			})
		})
		if i < 0 {
			continue
		}
		b := r.Benchmarks[i]
		records, head, all = append(records, b), append(head, b.Device), append(all, b.Load)
		note += fmt.Sprintf("%s: commit %s, ceiling %.0f GFLOP/s. ", b.Device, b.Commit, b.Peak())
	}
	if len(records) == 0 {
		return noRecord
	}
	rows := [][]string{head}
	for _, op := range ofCeiling {
		for _, m := range records[0].Results {
			if m.Op != op || m.Batch != largest(&records[0], op) {
				continue
			}
			name := op
			if m.Case != "" && m.Case != "-" {
				name += ", " + m.Case
			}
			row := []string{name, fmt.Sprint(m.Batch)}
			for i := range records {
				row = append(row, fractionOf(&records[i], &m))
			}
			rows = append(rows, row)
		}
	}
	return report.Tables(report.Section{Provenance: note + report.Loads(all), Rows: rows})
}

// largest is the largest batch of an operation.
func largest(b *bench.Record, op string) (most int) {
	for _, m := range b.Results {
		if m.Op == op {
			most = max(most, m.Batch)
		}
	}
	return most
}

// fractionOf is what a record has for a measurement of another, "–" for nothing.
func fractionOf(b *bench.Record, like *bench.Result) string {
	for _, m := range b.Results {
		if m.Op == like.Op && m.Case == like.Case && m.Size == like.Size && m.Batch == like.Batch && m.Precision == like.Precision {
			return report.Number("%.2f", m.Fraction)
		}
	}
	return "–"
}
