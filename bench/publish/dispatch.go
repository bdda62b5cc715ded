package publish

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
)

// dispatch is a table of every method of the cases with regimes, without noise; networks in
// files have tables of their own.
func (d devices) dispatch() string {
	s := report.Section{Rows: [][]string{slices.Concat([]string{"case", "loads", "method", "kept", "dispatches", "feasible % (paper)", "gap % ± 95 %", "gap % (paper)", "n"}, report.BesideMain(report.AlgorithmTwo), []string{"fallbacks", "p50 / p99, ms", "(paper)"})}}
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		if strings.HasPrefix(r.Name, networkCase) {
			continue
		}
		for _, e := range r.InRegimes(r.Name) {
			if e.Noise > 0 {
				continue
			}
			p := r.PaperRowOf(&e)
			s.Rows = append(s.Rows, slices.Concat(
				[]string{r.Name, e.Regime, r.Titled(&e), report.SafeOf(&e), report.Dispatches(&e), report.Given(p.Feasible), report.Within("%.4f", e.GapPct, e.GapSEM, e.RegretN), report.Given(p.Gap), fmt.Sprint(e.RegretN)},
				r.Less(&e), []string{fmt.Sprint(e.Fallback), report.Milliseconds("%.3f", &e.Latency), report.Given(p.Milliseconds)}))
		}
		if absent := r.Absent(r.Name, r.LackedLikePaper(r.Name)); len(absent) > 0 {
			s.Absent = append(s.Absent, r.Name+": "+strings.Join(absent, ", "))
		}
	}
	return report.Tables(s)
}
