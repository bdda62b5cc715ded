package publish

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
)

// galleryGlance has a row for every system that other solvers are timed on: its map, by the
// method that it was compiled for, beside the warm exact solver in closed loop. Both decide
// on the same episodes of one run, without noise.
func (d devices) galleryGlance() string {
	s := report.Section{Rows: [][]string{{"system", "map by", "safe", "cost above the optimum, % (worst), n", "decision p50 / p99, ms", "`" + report.WarmSolver + "` safe", "its cost less the map's, points (n)", "its decision p50 / p99, ms"}}}
	var shown []closedloop.Pairing
	for _, name := range d.systems() {
		c, p := d.compilation(name), d.pairing(name)
		if c == nil || p == nil {
			continue
		}
		own, solver := contender(p, c.Test.Method), contender(p, report.WarmSolver)
		if own == nil || solver == nil {
			continue
		}
		shown = append(shown, *p)
		times := func(m *closedloop.Paired) string {
			if report.Spoilt(p.Load) {
				return "–"
			}
			return report.Milliseconds("%.3f", &m.Latency)
		}
		s.Rows = append(s.Rows, []string{
			"`" + name + "`", "`" + own.Method + "`", safeShare(own),
			fmt.Sprintf("%s (%s), %d", report.Estimate("%.3f", own.RegretPct, own.RegretCI95), own.RegretWorst.Text("%.2g"), own.RegretN), times(own),
			safeShare(solver), lessThan(p, own, solver), times(solver),
		})
	}
	if len(shown) > 0 {
		s.Provenance = report.RecordedBy(shown)
	}
	return report.Tables(s)
}

// mapsOnSameEpisodes is README's table of the gallery: the map and the warm exact solver of each system on which both
// decided in the same episodes of one run. Systems in which the solver ran fewer episodes are named below the table.
func (d devices) mapsOnSameEpisodes() string {
	s := report.Section{Rows: [][]string{{"system", "episodes", "unsafe: map, solver", "map: extra cost mean (worst), %", "solver: extra cost mean (worst), %", "map: p50 / p99, ms", "solver: p50 / p99, ms"}}}
	var fewer []string
	for _, name := range d.systems() {
		c, p := d.compilation(name), d.pairing(name)
		if c == nil || p == nil {
			continue
		}
		own, solver := contender(p, c.Test.Method), contender(p, report.WarmSolver)
		switch {
		case own == nil || solver == nil:
			continue
		case own.Episodes != solver.Episodes || own.RegretN != solver.RegretN || report.Spoilt(p.Load):
			fewer = append(fewer, fmt.Sprintf("`%s` (%d of %d)", name, solver.Episodes, own.Episodes))
			continue
		}
		extra := func(m *closedloop.Paired) string {
			return fmt.Sprintf("%s (%s)", report.PlainPercent(m.RegretPct, m.RegretCI95, m.RegretN), report.PlainPercent(m.RegretWorst, 0, m.RegretN))
		}
		s.Rows = append(s.Rows, []string{
			fmt.Sprintf("`%s`, `%s`", name, own.Method), fmt.Sprint(own.Episodes),
			fmt.Sprintf("%d, %d", own.Episodes-own.Safe, solver.Episodes-solver.Safe),
			extra(own), extra(solver), report.PlainMilliseconds(&own.Latency), report.PlainMilliseconds(&solver.Latency),
		})
	}
	if len(s.Rows) < 2 {
		return ""
	}
	text := report.Tables(s)
	if len(fewer) > 0 {
		text += fmt.Sprintf("\nLeft out, as the solver ran fewer episodes than the map: %s.\n", strings.Join(fewer, ", "))
	}
	return text
}

func safeShare(m *closedloop.Paired) string { return fmt.Sprintf("%d/%d", m.Safe, m.Episodes) }

// lessThan is by how much a method costs more than another on the episodes that both have, in
// points of the optimum's cost. The interval is known where the other is the pairing's first
// method; a dash where they were not compared on as many episodes.
func lessThan(p *closedloop.Pairing, other, m *closedloop.Paired) string {
	switch {
	case other == &p.Pairs[0]:
		return fmt.Sprintf("%s (%d)", report.Estimate("%.3f", m.DifferencePct, m.DifferenceCI95), m.Compared)
	case other.Compared != m.Compared:
		return "–"
	}
	return fmt.Sprintf("%s (%d)", (m.DifferencePct - other.DifferencePct).Text("%.3f"), m.Compared)
}

// contender is a method of a pairing; nil: it is not among them.
func contender(p *closedloop.Pairing, method string) *closedloop.Paired {
	if i := slices.IndexFunc(p.Pairs, func(m closedloop.Paired) bool { return m.Method == method }); i >= 0 {
		return &p.Pairs[i]
	}
	return nil
}

// compilation is a case's on the first device that has one.
func (d devices) compilation(name string) *compile.Report {
	for _, r := range d {
		if i := slices.IndexFunc(r.Compilations, func(c compile.Report) bool { return c.Case == name }); i >= 0 {
			return &r.Compilations[i]
		}
	}
	return nil
}

// pairing is the undisturbed one of whole methods of a case of the gallery.
func (d devices) pairing(name string) *closedloop.Pairing {
	for _, r := range d {
		all := r.ForeignPairings(report.Undisturbed)
		if i := slices.IndexFunc(all, func(p closedloop.Pairing) bool { return p.Case == name }); i >= 0 {
			return &all[i]
		}
	}
	return nil
}
