package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
)

// A pairing by candidates sets the planner with a map beside what decides without one: with as many
// candidates, and with as many as take its time.

// withoutMap is how the methods without a map begin whose latents' share went elsewhere.
const withoutMap = Planner + "-no-latent-"

// byCandidates tells whether a pairing is one of numbers of candidates: a method of it is without
// the map's latents.
func byCandidates(p *closedloop.Pairing) bool {
	return slices.ContainsFunc(p.Pairs, func(m closedloop.Paired) bool {
		return len(m.Method) > len(withoutMap) && m.Method[:len(withoutMap)] == withoutMap
	})
}

// ComparedCases are the cases with such a pairing.
func (r *Records) ComparedCases() (names []string) {
	for _, p := range r.Pairings {
		if byCandidates(&p) {
			names = append(names, p.Case)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CandidatesOf is how many candidates a decision of a row has.
func (r *Records) CandidatesOf(name string, m *closedloop.Paired) int {
	return cmp.Or(m.Candidates, r.Method(name, m.Method).Candidates)
}

// CandidatePairings are those of a case, most candidates first.
func (r *Records) CandidatePairings(name string) (out []closedloop.Pairing) {
	for _, p := range r.Pairings {
		if p.Case == name && byCandidates(&p) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b closedloop.Pairing) int {
		return r.CandidatesOf(name, &b.Pairs[0]) - r.CandidatesOf(name, &a.Pairs[0])
	})
	return out
}

// EqualIn says in what a row is like the first: its candidates, or the time that they take.
func (r *Records) EqualIn(name string, first, m *closedloop.Paired) string {
	switch {
	case m == first:
		return "–"
	case r.CandidatesOf(name, first) == r.CandidatesOf(name, m):
		return "candidates"
	}
	return "time"
}

// Compared is the record of `gpc eval compare`: methods on the same episodes.
type Compared struct {
	Comparisons []closedloop.Comparison `json:"comparisons"`
}

// comparisonSection is the table of one.
func comparisonSection(c Compared) Section {
	if len(c.Comparisons) == 0 {
		return Section{}
	}
	first := c.Comparisons[0]
	s := Section{
		title:      first.Case + ": on the same episodes",
		Note:       fmt.Sprintf("Cost: mean over the %d episodes in which every run is safe of the difference to %s, ± its standard error.", first.Compared, first.Method),
		Provenance: fmt.Sprintf("Seed %d, commit %s.", first.Seed, first.Commit),
		Rows:       [][]string{{"method", "safe", "cost %", "margin", "p50 / p99 ms"}},
	}
	for _, m := range c.Comparisons {
		s.Rows = append(s.Rows, []string{m.Method, fmt.Sprintf("%d/%d", m.Safe, m.Episodes), Estimate("%.2f", m.DifferencePct, m.DifferenceSEM), m.MarginMean.Text("%.3f"), Milliseconds("%.2f", &m.Latency)})
	}
	return s
}
