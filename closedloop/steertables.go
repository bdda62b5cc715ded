package closedloop

import (
	"fmt"
	"math"
	"strings"
)

// SteeringRows lays a steering's front out as a table, the header first.
func SteeringRows(s *Steering) [][]string {
	list := func(v []Number) string {
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = x.Text("%.4f")
		}
		return strings.Join(parts, ", ")
	}
	rows := [][]string{{"w", "Σ J", "exact Σ J", "regret %", "compared", "violations"}}
	for _, p := range s.Front {
		rows = append(rows, []string{Weights(p.W), list(p.J), list(p.OracleJ), RegretText(p.RegretPct), fmt.Sprintf("%d/%d", p.Compared, p.Episodes), fmt.Sprint(p.Violations)})
	}
	return rows
}

// SteeringSummaryRows has a row for each sweep, the header first. It shows how far the method's front is from the exact
// one, and how much of its length it covers.
func SteeringSummaryRows(sweeps ...Steering) [][]string {
	rows := [][]string{{"case", "method", "preferences", "episodes compared", "mean regret %", "worst", "at w", "hypervolume", "exact", "Σ J from – to (exact)"}}
	for _, s := range sweeps {
		s.Summarize() // a record of an earlier version holds the front alone
		compared, episodes := 0, 0
		for _, p := range s.Front {
			compared, episodes = compared+p.Compared, episodes+p.Episodes
		}
		spans := make([]string, len(s.JRange))
		for j := range spans {
			method, exact := s.JRange[j], s.OracleJRange[j]
			spans[j] = fmt.Sprintf("%.6g – %.6g (%.6g – %.6g)", method[0], method[1], exact[0], exact[1])
		}
		rows = append(rows, []string{
			s.Case, "`" + s.Method + "`", fmt.Sprint(len(s.Front)), fmt.Sprintf("%d/%d", compared, episodes), RegretText(s.MeanRegretPct), RegretText(s.WorstRegretPct), Weights(s.WorstW),
			s.Hypervolume.Text("%.5f"), s.ExactHypervolume.Text("%.5f"), strings.Join(spans, "; "),
		})
	}
	return rows
}

// longRegret is a regret, %, that is written in powers of ten.
const longRegret = 1e5

// RegretText has four decimals, or powers of ten where these would be a long row of digits.
func RegretText(v Number) string {
	if math.Abs(float64(v)) >= longRegret {
		return v.Text("%.3g")
	}
	return v.Text("%.4f")
}

// Weights are those of the objectives, in a table.
func Weights(w []float64) string {
	parts := make([]string, len(w))
	for i, x := range w {
		parts[i] = fmt.Sprintf("%.3g", x)
	}
	return strings.Join(parts, ", ")
}
