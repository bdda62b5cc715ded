package publish

import (
	"cmp"
	"fmt"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
)

// plainest are the undisturbed pairings of a case of the bundled map, and of the one of the
// fewest samples where there is another.
func plainest(r report.Run) []closedloop.Pairing {
	all := r.PairingsWhere(r.Name, report.Undisturbed)
	if len(all) > 1 {
		return []closedloop.Pairing{all[0], all[len(all)-1]}
	}
	return all
}

// quality is what candidates, polish and data are worth, in pairs, method by method.
func (d devices) quality() string {
	s := report.Section{Rows: [][]string{{"case", "map, samples", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "p50 / p99, ms"}}}
	var shown []closedloop.Pairing
	for _, r := range report.RunsOf(d, (*report.Records).PairedCases) {
		for _, p := range plainest(r) {
			shown = append(shown, p)
			for i, m := range p.Pairs {
				s.Rows = append(s.Rows, report.PairedRow([]string{p.Case, cmp.Or(p.Map.File, report.BundledMap) + ", " + fmt.Sprint(p.Map.Samples)}, i, &m))
			}
		}
	}
	s.Provenance = report.RecordedBy(shown)
	return report.Tables(s)
}

// shifted is the same on plants that the maps were not made for.
func (d devices) shifted() string {
	s := report.Section{Rows: [][]string{{"case", "plant", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "p50 / p99, ms"}}}
	var shown []closedloop.Pairing
	for _, r := range report.RunsOf(d, (*report.Records).PairedCases) {
		for _, p := range r.PairingsWhere(r.Name, func(p *closedloop.Pairing) bool { return p.Shift["ellipse"] == 1.1 || p.Shift["obstacle-speed"] == 1.5 }) {
			shown = append(shown, p)
			for i, m := range p.Pairs {
				s.Rows = append(s.Rows, report.PairedRow([]string{p.Case, report.ShiftText(p.Shift)}, i, &m))
			}
		}
	}
	s.Provenance = report.RecordedBy(shown)
	return report.Tables(s)
}
