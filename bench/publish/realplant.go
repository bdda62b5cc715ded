package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
)

// realPlant has the methods of every system that was driven by an estimate of its state, at each noise and each distance to its
// limits, beside the first.
func (d devices) realPlant() string {
	return d.pairsTable([]string{"measured", "noise, %", "kept off, σ"}, func(m *closedloop.Comparison) []string {
		if m.MeasuredNoise == 0 {
			return nil
		}
		return []string{measuredStates(m.MeasuredStates), fmt.Sprintf("%g", 100*m.MeasuredNoise), fmt.Sprintf("%g", m.KeptOff)}
	})
}

// delayed has those of every system whose actions came late, and whose state was known.
func (d devices) delayed() string {
	return d.pairsTable([]string{"delay, periods"}, func(m *closedloop.Comparison) []string {
		if m.MeasuredNoise != 0 || m.Delay == 0 {
			return nil
		}
		return []string{fmt.Sprintf("%g", m.Delay)}
	})
}

// pairsTable has the methods of comparisons beside the first, those of which conditions, in columns of these names, are not nil.
func (d devices) pairsTable(names []string, conditions func(m *closedloop.Comparison) []string) string {
	s := report.Section{Rows: [][]string{slices.Concat([]string{"system"}, names, []string{"method", "safe", "starts with a way", "safe of these", "95 % interval, %", "cost above `" + report.WarmSolver + "`, % [95 %]", "n"})}}
	var seeds, commits []string
	for _, c := range d.comparisons(func(m *closedloop.Comparison) bool { return conditions(m) != nil }) {
		for i := range c.Comparisons {
			m := &c.Comparisons[i]
			seeds, commits = append(seeds, fmt.Sprint(m.Seed)), append(commits, m.Commit)
			s.Rows = append(s.Rows, slices.Concat([]string{"`" + m.Case + "`"}, conditions(m), pairRow(m, i == 0)))
		}
	}
	if len(s.Rows) > 1 {
		s.Provenance = fmt.Sprintf("Seed %s, commit %s. Recorded without times.", report.Distinct(seeds), report.Distinct(commits))
	}
	return report.Tables(s)
}

// comparisons are those of the first device that has some, by system and conditions.
func (d devices) comparisons(wanted func(m *closedloop.Comparison) bool) (out []report.Compared) {
	for _, r := range d {
		for _, c := range report.Of[report.Compared](r) {
			if len(c.Comparisons) > 0 && wanted(&c.Comparisons[0]) {
				out = append(out, c)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	slices.SortStableFunc(out, func(a, b report.Compared) int {
		x, y := &a.Comparisons[0], &b.Comparisons[0]
		return cmp.Or(cmp.Compare(x.Case, y.Case), cmp.Compare(len(x.MeasuredStates), len(y.MeasuredStates)), cmp.Compare(x.MeasuredNoise, y.MeasuredNoise), cmp.Compare(x.KeptOff, y.KeptOff), cmp.Compare(x.Delay, y.Delay))
	})
	return out
}

// pairRow is a method of one of them.
func pairRow(m *closedloop.Comparison, first bool) []string {
	interval := closedloop.ClopperPearson(m.SafeOfWay, m.Way)
	dearer, n := "–", "–"
	if !first {
		dearer, n = m.Difference.Mean.Text("%+.2f")+" "+report.Interval("%+.2f", m.Difference.MeanCI95), fmt.Sprint(m.Compared)
	}
	return []string{
		"`" + m.Method + "`", fmt.Sprintf("%d/%d", m.Safe, m.Episodes), fmt.Sprint(m.Way), fmt.Sprint(m.SafeOfWay),
		fmt.Sprintf("%.1f to %.1f", 100*interval[0], 100*interval[1]), dearer, n,
	}
}

// measuredStates are a few by their names, more by their number.
func measuredStates(names []string) string {
	switch {
	case len(names) == 0:
		return "all"
	case len(names) > 4:
		return fmt.Sprintf("%d states", len(names))
	}
	return strings.Join(names, ", ")
}
