package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
)

// realPlant has the methods of every system that was driven by an estimate of its state, at each noise and each distance to its
// limits, beside the first.
func (d devices) realPlant() string {
	estimated := func(m *closedloop.Comparison) bool { return m.MeasuredNoise > 0 }
	return d.pairs(estimated, []string{"measured", "noise, %", "kept off, σ", "method", "safe", "starts with a way", "safe of these", "95 % interval, %"}, func(m *closedloop.Comparison) []string {
		return []string{
			measuredStates(m.MeasuredStates), fmt.Sprintf("%g", 100*m.MeasuredNoise), fmt.Sprintf("%g", m.Tightening), "`" + m.Method + "`",
			fmt.Sprintf("%d/%d", m.Safe, m.Episodes), fmt.Sprint(m.Way), fmt.Sprint(m.SafeOfWay), percents(closedloop.ClopperPearson(m.SafeOfWay, m.Way)),
		}
	})
}

// delayed has those of every system whose actions came late, and whose state was known.
func (d devices) delayed() string {
	late := func(m *closedloop.Comparison) bool { return m.Delay > 0 && m.MeasuredNoise == 0 }
	return d.pairs(late, []string{"delay, periods", "method", "safe", "95 % interval, %"}, func(m *closedloop.Comparison) []string {
		return []string{fmt.Sprintf("%g", m.Delay), "`" + m.Method + "`", fmt.Sprintf("%d/%d", m.Safe, m.Episodes), percents(closedloop.ClopperPearson(m.Safe, m.Episodes))}
	})
}

// percents is an interval of shares.
func percents(of [2]float64) string {
	return fmt.Sprintf("%.1f to %.1f", 100*of[0], 100*of[1])
}

// pairs is a table of the comparisons that are wanted: of each method what columns of these names say, and what it costs above the
// first.
func (d devices) pairs(wanted func(m *closedloop.Comparison) bool, names []string, columns func(m *closedloop.Comparison) []string) string {
	s := report.Section{Rows: [][]string{slices.Concat([]string{"system"}, names, []string{"cost above `" + report.WarmSolver + "`, % [95 %]", "n"})}}
	var seeds, commits []string
	for _, c := range d.comparisons(wanted) {
		for i := range c.Comparisons {
			m := &c.Comparisons[i]
			seeds, commits = append(seeds, fmt.Sprint(m.Seed)), append(commits, m.Commit)
			dearer, n := "–", "–"
			if i > 0 {
				dearer, n = m.Difference.Mean.Text("%+.2f")+" "+report.Interval("%+.2f", m.Difference.MeanCI95), fmt.Sprint(m.Compared)
			}
			s.Rows = append(s.Rows, slices.Concat([]string{"`" + m.Case + "`"}, columns(m), []string{dearer, n}))
		}
	}
	if len(s.Rows) > 1 {
		s.Provenance = fmt.Sprintf("Seed %s, commit %s. Recorded without times.", report.Distinct(seeds), report.Distinct(commits))
	}
	return report.Tables(s)
}

// comparisons are those of the first device that has some, by system and conditions.
func (d devices) comparisons(wanted func(m *closedloop.Comparison) bool) (out []closedloop.Compared) {
	for i := 0; i < len(d) && out == nil; i++ {
		out = report.Where(d[i], func(c *closedloop.Compared) bool { return len(c.Comparisons) > 0 && wanted(&c.Comparisons[0]) })
	}
	slices.SortStableFunc(out, func(a, b closedloop.Compared) int {
		x, y := &a.Comparisons[0], &b.Comparisons[0]
		return cmp.Or(cmp.Compare(x.Case, y.Case), cmp.Compare(len(x.MeasuredStates), len(y.MeasuredStates)), cmp.Compare(x.MeasuredNoise, y.MeasuredNoise), cmp.Compare(x.Tightening, y.Tightening), cmp.Compare(x.Delay, y.Delay))
	})
	return out
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
