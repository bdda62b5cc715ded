package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// A pairing by candidates sets the planner with a map beside what decides without one: with as many
// candidates, and with as many as take its time.

// withoutMap is how the methods without a map begin whose latents' share went elsewhere.
const withoutMap = planner + "-no-latent-"

// byCandidates tells whether a pairing is one of numbers of candidates: a method of it is without
// the map's latents.
func byCandidates(p *closedloop.Pairing) bool {
	return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool {
		return len(m.Method) > len(withoutMap) && m.Method[:len(withoutMap)] == withoutMap
	})
}

// comparedCases are the cases with such a pairing.
func (r *Records) comparedCases() (names []string) {
	for _, p := range r.Pairings {
		if byCandidates(&p) {
			names = append(names, p.Case)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// number is how many candidates a decision of a row has.
func (r *Records) number(name string, m *closedloop.Paired) int {
	return cmp.Or(m.Candidates, r.method(name, m.Method).Candidates)
}

// candidatePairings are those of a case, most candidates first.
func (r *Records) candidatePairings(name string) (out []closedloop.Pairing) {
	for _, p := range r.Pairings {
		if p.Case == name && byCandidates(&p) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b closedloop.Pairing) int { return r.number(name, &b.Pairs[0]) - r.number(name, &a.Pairs[0]) })
	return out
}

// equal says in what a row is like the first: its candidates, or the time that they take.
func (r *Records) equal(name string, first, m *closedloop.Paired) string {
	switch {
	case m == first:
		return "–"
	case r.number(name, first) == r.number(name, m):
		return "candidates"
	}
	return "time"
}

// dearer is by how much a row's episodes cost more than the first's: mean with its interval, median
// and number; dashes for the first.
func dearer(first bool, m *closedloop.Paired) []string {
	if first {
		return []string{"–", "–", "–"}
	}
	return []string{m.Cost.Mean.Text("%+.2f") + " " + between("%+.2f", m.Cost.MeanCI95), m.Cost.Median.Text("%+.2f"), fmt.Sprint(m.Cost.N)}
}

// meanTime is a mean decision's time with its median and 99 % quantile, ms; dashes of a record
// without times.
func meanTime(m *closedloop.Paired) string {
	return number("%.2f", float64(m.LatencyMean)/1e3) + " (" + milliseconds("%.2f", &m.Latency) + ")"
}

// candidates is the table of a case's pairings by candidates.
func (d devices) candidates(name string) string {
	s := section{rows: [][]string{{"method", "candidates", "equal", "safe", "cost above the first's, % [95 %]", "median", "n", "smallest margin, m ± 95 %", "fallbacks", "decision mean (p50 / p99), ms"}}}
	var shown []closedloop.Pairing
	for _, r := range runs(d, (*Records).comparedCases) {
		if r.name != name {
			continue
		}
		for _, p := range r.candidatePairings(name) {
			shown = append(shown, p)
			for i := range p.Pairs {
				m := &p.Pairs[i]
				s.rows = append(s.rows, slices.Concat(
					[]string{"`" + m.Method + "`", fmt.Sprint(r.number(name, m)), r.equal(name, &p.Pairs[0], m), fmt.Sprintf("%d/%d", m.Safe, m.Episodes)},
					dearer(i == 0, m), []string{estimate("%.3f", m.MarginMean, m.MarginCI95), fmt.Sprint(m.Fallback), meanTime(m)}))
			}
		}
	}
	s.note, s.provenance = "Each method is beside the last one above it with the map (`"+planner+"`), on the same episodes.", recordedBy(shown)
	return tables(s)
}

// mapWorth has, for each case of such pairings, what decides without a map beside the planner with
// it: with as many candidates, and in its time.
func (d devices) mapWorth() string {
	s := section{rows: [][]string{{"case", "candidates with the map", "without it", "equal", "candidates", "cost above the map's, % [95 %]", "median", "n", "smallest margin less the map's, m", "decision mean over the map's"}}}
	var shown []closedloop.Pairing
	for _, r := range runs(d, (*Records).comparedCases) {
		for _, p := range r.candidatePairings(r.name) {
			shown = append(shown, p)
			first := &p.Pairs[0]
			for i := 1; i < len(p.Pairs); i++ {
				m := &p.Pairs[i]
				if r.method(r.name, m.Method).Needs&domain.NeedsMap != 0 {
					continue
				}
				s.rows = append(s.rows, slices.Concat(
					[]string{"`" + r.name + "`", fmt.Sprint(r.number(r.name, first)), "`" + m.Method + "`", r.equal(r.name, first, m), fmt.Sprint(r.number(r.name, m))},
					dearer(false, m), []string{number("%+.3f", float64(m.MarginMean-first.MarginMean)), number("%.2f", float64(m.LatencyMean/first.LatencyMean))}))
			}
		}
	}
	s.provenance = recordedBy(shown)
	return tables(s)
}

// Compared is the record of `gpc eval compare`: methods on the same episodes.
type Compared struct {
	Comparisons []closedloop.Comparison `json:"comparisons"`
}

// comparisonSection is the table of one.
func comparisonSection(c Compared) section {
	if len(c.Comparisons) == 0 {
		return section{}
	}
	first := c.Comparisons[0]
	s := section{
		title:      first.Case + ": on the same episodes",
		note:       fmt.Sprintf("Cost: mean over the %d episodes in which every run is safe of the difference to %s, ± its standard error.", first.Compared, first.Method),
		provenance: fmt.Sprintf("Seed %d, commit %s.", first.Seed, first.Commit),
		rows:       [][]string{{"method", "safe", "cost %", "margin", "p50 / p99 ms"}},
	}
	for _, m := range c.Comparisons {
		s.rows = append(s.rows, []string{m.Method, fmt.Sprintf("%d/%d", m.Safe, m.Episodes), estimate("%.2f", m.DifferencePct, m.DifferenceSEM), m.MarginMean.Text("%.3f"), milliseconds("%.2f", &m.Latency)})
	}
	return s
}
