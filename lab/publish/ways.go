package publish

import (
	"fmt"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
)

const waysPage = "docs/results/ways.md"

// waysRound has a row for each method of a system with several ways round: what it costs above the best plan that is
// known, and what its decisions take.
func (d devices) waysRound() string {
	s := report.Section{Rows: [][]string{{"system", "method", "safe", "% above the best known ± 95 %", "worst", "a decision in the mean, ms", report.TimesHeading}}}
	var shown []closedloop.Pairing
	for _, p := range d.foreign(report.WaysRound) {
		shown = append(shown, p)
		for i, m := range p.Pairs {
			row := []string{"", "`" + m.Method + "`", safeShare(&m), "–", "–", "–", "–"}
			if i == 0 {
				row[0] = "`" + p.Case + "`"
			}
			if a := m.AboveBest; a != nil && a.N > 0 {
				half := (a.MeanCI95[1] - a.MeanCI95[0]) / 2
				row[3], row[4] = report.PlainPercent(a.Mean, half, a.N), report.PlainPercent(a.Max, 0, a.N)
			}
			if withTimes(&p) && !report.Disturbed(p.Load) {
				row[5] = fmt.Sprintf("%.2g", float64(m.LatencyMean)/1e3)
				row[6] = report.PlainTimes(&m.Latency)
			}
			s.Rows = append(s.Rows, row)
		}
	}
	if len(shown) == 0 {
		return noRecord
	}
	s.Provenance = report.RecordedBy(shown)
	return report.Tables(s)
}
