package publish

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/compare"
	"github.com/gpc-engine/gpc/lab/deadline"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/lab/scaling"
)

// deadlines is a loop at a rate.
func deadlines(loop *deadline.Deadlines) string {
	lines := loop.Lines()
	text := report.Tables(report.Section{
		Provenance: report.Origin(loop.Command, loop.Commit, fmt.Sprintf("%s, %s %s, threads %d", loop.Device, loop.Backend, loop.ISA, loop.Threads), loop.Load),
		Rows:       loop.Rows(),
	})
	return text + "\n* " + strings.Join(lines[:len(lines)-1], "\n* ") + "\n" // the last is the load
}

// served is a run of a server beyond what it can do.
func served(s *peerrecord.Served) string {
	return report.Tables(report.Section{
		Provenance: report.Origin("lab/run bench-serve", s.Commit, s.Device, s.Machine) + " The server is a process of its own, and so among the others.",
		Rows:       s.Rows(),
	})
}

// torture is the last run on the first device that has one, whatever was not survived in words.
func (d devices) torture() string {
	t := last[peerrecord.Torture](d)
	if t == nil {
		return ""
	}
	form := ""
	if t.Short {
		form = " --short"
	}
	s := report.Section{Provenance: report.Origin("lab/torture"+form, t.Commit, fmt.Sprintf("%s, seed %d, %.0f minutes", t.Device, t.Seed, max(1, t.Seconds/60)), t.Load), Rows: t.Rows()}
	var lost strings.Builder
	for _, a := range t.Attacks {
		for _, why := range a.Lost {
			fmt.Fprintf(&lost, "\nNot survived: %s, %s: %s\n", a.By, a.On, strings.TrimSpace(why))
		}
	}
	return report.Tables(s) + lost.String()
}

// scalings are the records of all devices, the first of each.
func (d devices) scalings() (all []*scaling.Scaling) {
	for _, r := range d {
		if s := report.Of[scaling.Scaling](r); len(s) > 0 {
			all = append(all, &s[0])
		}
	}
	return all
}

// scaling is the cost along every axis as it was measured, with all points.
func (d devices) scaling() string {
	var all []report.Section
	for _, s := range d.scalings() {
		all = append(all, report.Section{Note: report.ScalingNote(s), Provenance: report.ScalingOrigin(s), Rows: s.Rows()})
		for i := range s.Curves {
			c := &s.Curves[i]
			points := report.Section{Note: fmt.Sprintf("%s: %s.", c.Axis, c.What), Rows: [][]string{{c.Axis}, {"median, µs"}, {"95 %"}}}
			for _, p := range c.Points {
				points.Rows[0] = append(points.Rows[0], fmt.Sprint(p.X))
				points.Rows[1] = append(points.Rows[1], deadline.Micros(p.Median))
				points.Rows[2] = append(points.Rows[2], deadline.Micros(p.Interval[0])+" to "+deadline.Micros(p.Interval[1]))
			}
			all = append(all, points)
		}
	}
	return report.Tables(all...)
}

// ofCeiling are the operations whose rate is a fraction of the ceiling of multiply-adds.
var ofCeiling = []string{"gemm", "jacobian", "metric", "step", "train"}

// ceilingFractions has the fractions of the ceiling that whole benchmarks of several devices reach at their
// largest batch, a column a device.
func (d devices) ceilingFractions() string {
	head, note := []string{"operation", "batch"}, ""
	var records []bench.Record
	var all []*closedloop.Load
	for _, r := range d {
		// A whole run has every operation; others are of one.
		benchmarks := report.Of[bench.Record](r)
		i := slices.IndexFunc(benchmarks, func(b bench.Record) bool {
			return !slices.ContainsFunc(ofCeiling, func(op string) bool {
				return !slices.ContainsFunc(b.Results, func(m bench.Result) bool { return m.Op == op })
			})
		})
		if i < 0 {
			continue
		}
		b := benchmarks[i]
		records, head, all = append(records, b), append(head, b.Device), append(all, b.Load)
		note += fmt.Sprintf("%s: commit %s, ceiling %.0f GFLOP/s. ", b.Device, b.Commit, compare.Peak(&b))
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
