package publish

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/domain"
)

// baselines is a table of the exact and baseline methods of each case of the integrator.
func (d devices) baselines() string {
	s := report.Section{Rows: [][]string{{"case", "method", "safe episodes", "95 % interval", "safe % (paper)", "regret % ± 95 %", "n", "median", "p90", "regret % (paper)", "p50 / p99, ms", "ms (paper)"}}}
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		for _, e := range r.Plain(r.Name) {
			if group := r.Method(r.Name, e.Method).Group; !strings.HasPrefix(r.Name, "integrator-") || group != domain.GroupExact && group != domain.GroupBaseline && e.Method != r.Leading(r.Name) && e.Method != "direct" {
				continue
			}
			p := r.Paper(r.Name, e.Method)
			s.Rows = append(s.Rows, slices.Concat(
				[]string{r.Name, r.Titled(&e), report.SafeOf(&e), report.SafeInterval(&e), report.Given(p.SafeEpisodes()), report.Within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN), fmt.Sprint(e.RegretN)},
				report.Spread("%.4f", &e.Regret), []string{report.RegretGiven(p), report.Milliseconds("%.3f", &e.Latency), report.Given(p.Milliseconds)}))
		}
		if evals := r.Plain(r.Name); len(evals) > 0 && strings.HasPrefix(r.Name, "integrator-") {
			if absent := r.Absent(r.Name, r.Unrecorded(r.Name, evals)); len(absent) > 0 {
				s.Absent = append(s.Absent, r.Name+": "+strings.Join(absent, ", "))
			}
		}
	}
	return report.Tables(s)
}

// goals is the table of a case whose episodes have goals.
func (d devices) goals(name string) string {
	s := report.Section{Rows: [][]string{slices.Concat([]string{"method", "safe", "95 % interval", "safe % (paper)", "collision-free", "(paper)", "gap % ± 95 %", "gap % (paper)", "n"}, report.BesideMain(report.Planner), []string{"mean smallest margin, m", "margin (paper)", "fallbacks", "p50 / p99, ms"})}}
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		if r.Name != name {
			continue
		}
		same, scenes := report.SameScenes(r.Plain(name))
		if scenes > 0 {
			s.Note = fmt.Sprintf("Gaps are over the n of the %d episodes that all methods ran in which the method and the reference are safe; all else is over all of a method's episodes.", scenes)
		}
		for _, e := range same {
			p := r.Paper(r.Name, e.Method)
			s.Rows = append(s.Rows, slices.Concat(
				[]string{r.Titled(&e), report.SafeOf(&e), report.SafeInterval(&e), report.Given(p.Safe), report.Number("%.1f %%", 100*float64(e.CollisionFree)), report.Given(p.Collision), report.Within("%.2f", e.GapPct, e.GapSEM, e.RegretN), report.Given(p.Gap), fmt.Sprint(e.RegretN)},
				r.Less(&e), []string{report.Estimate("%.3f", e.MarginMean, e.MarginSEM), report.Given(p.Margin), fmt.Sprint(e.Fallback), report.Milliseconds("%.1f", &e.Latency)}))
		}
		s.Absent = r.Absent(name, r.Unrecorded(name, r.Plain(name)))
	}
	return report.Tables(s)
}
