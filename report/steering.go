package report

import (
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
)

// SteeringRows lays a steering's front out as a table, the header first.
func SteeringRows(s *closedloop.Steering) [][]string {
	list := func(v []closedloop.Number) string {
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = number("%.4f", float64(x))
		}
		return strings.Join(parts, ", ")
	}
	rows := [][]string{{"w", "Σ J", "exact Σ J", "regret %", "compared", "violations"}}
	for _, p := range s.Front {
		rows = append(rows, []string{preference(p.W), list(p.J), list(p.OracleJ), number("%.4f", float64(p.RegretPct)), fmt.Sprintf("%d/%d", p.Compared, p.Episodes), fmt.Sprint(p.Violations)})
	}
	return rows
}

// SteeringSummaryRows has a row for each sweep, the header first: how far the front that
// the method traces is from the exact one, and how much of its length it covers.
func SteeringSummaryRows(sweeps ...closedloop.Steering) [][]string {
	rows := [][]string{{"case", "method", "preferences", "episodes compared", "mean regret %", "worst", "at w", "hypervolume", "exact", "Σ J from – to (exact)"}}
	for _, s := range sweeps {
		s.Summarize() // a record of an earlier version holds the front alone
		compared, episodes := 0, 0
		for _, p := range s.Front {
			compared, episodes = compared+p.Compared, episodes+p.Episodes
		}
		spans := make([]string, len(s.JRange))
		for j := range spans {
			own, exact := s.JRange[j], s.OracleJRange[j]
			spans[j] = fmt.Sprintf("%.6g – %.6g (%.6g – %.6g)", own[0], own[1], exact[0], exact[1])
		}
		rows = append(rows, []string{
			s.Case, "`" + s.Method + "`", fmt.Sprint(len(s.Front)), fmt.Sprintf("%d/%d", compared, episodes), number("%.4f", float64(s.MeanRegretPct)), number("%.4f", float64(s.WorstRegretPct)), preference(s.WorstW),
			number("%.5f", float64(s.Hypervolume)), number("%.5f", float64(s.ExactHypervolume)), strings.Join(spans, "; "),
		})
	}
	return rows
}

func preference(w []float64) string {
	parts := make([]string, len(w))
	for i, x := range w {
		parts[i] = fmt.Sprintf("%.3g", x)
	}
	return strings.Join(parts, ", ")
}
