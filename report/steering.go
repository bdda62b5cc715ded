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
		w := make([]string, len(p.W))
		for i, x := range p.W {
			w[i] = fmt.Sprintf("%.3g", x)
		}
		rows = append(rows, []string{strings.Join(w, ", "), list(p.J), list(p.OracleJ), number("%.4f", float64(p.RegretPct)), fmt.Sprintf("%d/%d", p.Compared, p.Episodes), fmt.Sprint(p.Violations)})
	}
	return rows
}
