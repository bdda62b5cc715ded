package publish

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// dearer is by how much a row's episodes cost more than the first's: mean with its interval, median
// and number; dashes for the first.
func dearer(first bool, m *closedloop.Paired) []string {
	if first {
		return []string{"–", "–", "–"}
	}
	return []string{m.Cost.Mean.Text("%+.2f") + " " + report.Interval("%+.2f", m.Cost.MeanCI95), m.Cost.Median.Text("%+.2f"), fmt.Sprint(m.Cost.N)}
}

// meanTime is a mean decision's time with its median and 99 % quantile, ms; dashes of a record
// without times.
func meanTime(m *closedloop.Paired) string {
	return report.Number("%.2f", float64(m.LatencyMean)/1e3) + " (" + report.Milliseconds("%.2f", &m.Latency) + ")"
}

// candidates is the table of a case's pairings by candidates.
func (d devices) candidates(name string) string {
	s := report.Section{Rows: [][]string{{"method", "candidates", "equal", "safe", "cost above the first's, % [95 %]", "median", "n", "smallest margin, m ± 95 %", "fallbacks", "decision mean (p50 / p99), ms"}}}
	var shown []closedloop.Pairing
	for _, r := range report.RunsOf(d, (*report.Records).ComparedCases) {
		if r.Name != name {
			continue
		}
		for _, p := range r.CandidatePairings(name) {
			shown = append(shown, p)
			for i := range p.Pairs {
				m := &p.Pairs[i]
				s.Rows = append(s.Rows, slices.Concat(
					[]string{"`" + m.Method + "`", fmt.Sprint(r.CandidatesOf(name, m)), r.EqualIn(name, &p.Pairs[0], m), fmt.Sprintf("%d/%d", m.Safe, m.Episodes)},
					dearer(i == 0, m), []string{report.Estimate("%.3f", m.MarginMean, m.MarginCI95), fmt.Sprint(m.Fallback), meanTime(m)}))
			}
		}
	}
	s.Note, s.Provenance = "Each method is beside the last one above it with the map (`"+report.Planner+"`), on the same episodes.", report.RecordedBy(shown)
	return report.Tables(s)
}

// mapWorth has, for each case of such pairings, what decides without a map beside the planner with
// it: with as many candidates, and in its time.
func (d devices) mapWorth() string {
	s := report.Section{Rows: [][]string{{"case", "candidates with the map", "without it", "equal", "candidates", "cost above the map's, % [95 %]", "median", "n", "smallest margin less the map's, m", "decision mean over the map's"}}}
	var shown []closedloop.Pairing
	for _, r := range report.RunsOf(d, (*report.Records).ComparedCases) {
		for _, p := range r.CandidatePairings(r.Name) {
			shown = append(shown, p)
			first := &p.Pairs[0]
			for i := 1; i < len(p.Pairs); i++ {
				m := &p.Pairs[i]
				if r.Method(r.Name, m.Method).Needs&domain.NeedsMap != 0 {
					continue
				}
				s.Rows = append(s.Rows, slices.Concat(
					[]string{"`" + r.Name + "`", fmt.Sprint(r.CandidatesOf(r.Name, first)), "`" + m.Method + "`", r.EqualIn(r.Name, first, m), fmt.Sprint(r.CandidatesOf(r.Name, m))},
					dearer(false, m), []string{report.Number("%+.3f", float64(m.MarginMean-first.MarginMean)), report.Number("%.2f", float64(m.LatencyMean/first.LatencyMean))}))
			}
		}
	}
	s.Provenance = report.RecordedBy(shown)
	return report.Tables(s)
}
