package publish

import (
	"fmt"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/lab/report"
)

const switchedPage = "docs/results/switched.md"

// switchedMethods are the columns of the table in brief.
var switchedMethods = []string{"direct", "refine-512", "refine-4096", "search-512", "search-4096", "sum-up", "relaxed-512"}

// switchedPlans is the record of each system with switched inputs; nil: there is none.
func (d devices) switchedPlans(visit func(p *closedloop.Pairing)) {
	for _, y := range gallery.Switched() {
		if p := d.undisturbed(y.Name, func(*closedloop.Pairing) bool { return true }); p != nil {
			visit(p)
		}
	}
}

// switchedInBrief is a row for each system: the cost of each method above the best plan that is known.
func (d devices) switchedInBrief() string {
	s := report.Section{Rows: [][]string{{"system", "episodes"}}}
	for _, name := range switchedMethods {
		s.Rows[0] = append(s.Rows[0], "`"+name+"`")
	}
	unsafe := 0
	d.switchedPlans(func(p *closedloop.Pairing) {
		row := []string{"`" + p.Case + "`", fmt.Sprint(p.Pairs[0].Episodes)}
		for _, name := range switchedMethods {
			cell := "–"
			if m := pairedMethod(p, name); m != nil {
				cell = meanAndWorst(m)
				unsafe += m.Episodes - m.Safe
			}
			if m := pairedMethod(p, name+"-polish"); m != nil {
				cell = meanAndWorst(m) + "\\*"
				unsafe += m.Episodes - m.Safe
			}
			row = append(row, cell)
		}
		s.Rows = append(s.Rows, row)
	})
	if len(s.Rows) < 2 {
		return noRecord
	}
	s.Note = fmt.Sprintf("Episodes of all rows that broke a limit or a least time: %d. \\*: `-polish`, with the actions without a switch solved.", unsafe)
	return report.Tables(s)
}

// switchedInFull has a row for each method.
func (d devices) switchedInFull() string {
	var all []closedloop.Pairing
	d.switchedPlans(func(p *closedloop.Pairing) { all = append(all, *p) })
	if len(all) == 0 {
		return noRecord
	}
	return report.Tables(report.BesideMaps(all, nil))
}

// switchedNoisy is what estimates and limits that are kept off are worth beside switches.
func (d devices) switchedNoisy() string {
	var shown []closedloop.Pairing
	s := report.Section{Rows: [][]string{{"system", "noise, %", "kept off, σ", "method", "safe", "cost above the best, % (worst)"}}}
	for _, y := range gallery.Switched() {
		for _, p := range d.foreign(func(p *closedloop.Pairing) bool { return p.Case == y.Name && p.MeasuredNoise > 0 }) {
			shown = append(shown, p)
			for i := range p.Pairs {
				m := &p.Pairs[i]
				s.Rows = append(s.Rows, []string{"`" + p.Case + "`", fmt.Sprintf("%g", 100*p.MeasuredNoise), fmt.Sprintf("%g", p.Tightening), "`" + m.Method + "`", safeShare(m), meanAndWorst(m)})
			}
		}
	}
	if len(shown) == 0 {
		return noRecord
	}
	s.Provenance = report.RecordedBy(shown)
	return report.Tables(s)
}
