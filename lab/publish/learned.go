package publish

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/lab/report"
)

//go:embed learned.csv
var learnedTable string

const learnedNote = "What is published of learned optimal power flows, by whom, and `gpc` on PGLib's typical networks of as many buses: seconds of a first solve with its analysis, on one core, to 1e-8 and balances of 1e-9 pu. None but ours was measured here: hardware, loads and what a time holds are their own; the third party's is a request to a loaded model. Violations are the mean imbalance of active power at a bus and the share of branches above their ratings; ours are below 1e-8 pu, and the cost is the optimum's."

// learnedElsewhere are figures of learned optimal power flows that others publish, next to our first solves of networks of like sizes.
func learnedElsewhere(r *optima.OptimalFlows) string {
	lines := csv.NewReader(strings.NewReader(learnedTable))
	lines.Comment = '#'
	rows, err := lines.ReadAll()
	if err != nil {
		return fmt.Sprintf("The published figures cannot be read: %v.\n", err)
	}
	s := report.Section{Note: learnedNote, Provenance: report.OptimalFlowsOrigin(r)}
	s.Rows = [][]string{{"method", "figures of", "source", "hardware", "buses", "a solution", "cost error", "violations", "`gpc`, s"}}
	for _, row := range rows[1:] {
		var least, most int
		if _, err := fmt.Sscan(row[4]+" "+row[5], &least, &most); err != nil {
			return fmt.Sprintf("The published figures cannot be read: %s: %v.\n", row[0], err)
		}
		var ours []float64
		for i := range r.Networks {
			n := &r.Networks[i]
			if t, solved := firstSeconds(n); solved && report.EndOf(n.Name) == "" && least <= n.Buses && n.Buses <= most {
				ours = append(ours, t)
			}
		}
		if len(ours) == 0 {
			return noRecord
		}
		times := [2]string{fmt.Sprintf("%.3g", slices.Min(ours)), fmt.Sprintf("%.3g", slices.Max(ours))}
		s.Rows = append(s.Rows, slices.Concat(row[:4], []string{span([2]int{least, most})}, row[6:], []string{span(times)}))
	}
	return report.Tables(s)
}
