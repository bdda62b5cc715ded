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
	s := report.Section{Rows: [][]string{{"system", "measured", "noise, %", "kept off, σ", "method", "safe", "starts with a way", "safe of these", "95 % interval, %", "cost above `" + report.WarmSolver + "`, % [95 %]", "n"}}}
	var seeds, commits []string
	for _, c := range d.estimated() {
		for i := range c.Comparisons {
			m := &c.Comparisons[i]
			seeds, commits = append(seeds, fmt.Sprint(m.Seed)), append(commits, m.Commit)
			s.Rows = append(s.Rows, realPlantRow(m, i == 0))
		}
	}
	if len(s.Rows) > 1 {
		s.Provenance = fmt.Sprintf("Seed %s, commit %s. Recorded without times.", report.Distinct(seeds), report.Distinct(commits))
	}
	return report.Tables(s)
}

// estimated are the comparisons of loops by an estimate of the first device that has some, by system, noise and distance.
func (d devices) estimated() (out []report.Compared) {
	for _, r := range d {
		for _, c := range report.Of[report.Compared](r) {
			if len(c.Comparisons) > 0 && c.Comparisons[0].MeasuredNoise > 0 {
				out = append(out, c)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	slices.SortStableFunc(out, func(a, b report.Compared) int {
		x, y := &a.Comparisons[0], &b.Comparisons[0]
		return cmp.Or(cmp.Compare(x.Case, y.Case), cmp.Compare(len(x.MeasuredStates), len(y.MeasuredStates)), cmp.Compare(x.MeasuredNoise, y.MeasuredNoise), cmp.Compare(x.KeptOff, y.KeptOff))
	})
	return out
}

// realPlantRow is a method of one of them.
func realPlantRow(m *closedloop.Comparison, first bool) []string {
	interval := closedloop.ClopperPearson(m.SafeOfWay, m.Way)
	dearer, n := "–", "–"
	if !first {
		dearer, n = m.Difference.Mean.Text("%+.2f")+" "+report.Interval("%+.2f", m.Difference.MeanCI95), fmt.Sprint(m.Compared)
	}
	return []string{
		"`" + m.Case + "`", measuredStates(m.MeasuredStates), fmt.Sprintf("%g", 100*m.MeasuredNoise), fmt.Sprintf("%g", m.KeptOff), "`" + m.Method + "`", fmt.Sprintf("%d/%d", m.Safe, m.Episodes), fmt.Sprint(m.Way), fmt.Sprint(m.SafeOfWay),
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
