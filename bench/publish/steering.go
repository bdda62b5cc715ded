package publish

import (
	"slices"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
)

// steered are the sweeps over preferences of some cases.
func (d devices) steered(cases ...string) string {
	var all []closedloop.Steering
	swept := func(r *report.Records) (names []string) {
		for _, s := range r.Steerings {
			if slices.Contains(cases, s.Case) {
				names = append(names, s.Case)
			}
		}
		return names
	}
	for _, r := range report.RunsOf(d, swept) {
		for _, s := range r.Steerings {
			if s.Case == r.Name {
				all = append(all, s)
			}
		}
	}
	if all == nil {
		return noRecord
	}
	return report.Tables(report.Section{Rows: report.SteeringSummaryRows(all...)})
}
