package publish

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// eachLoads visits every case under each of its loads with the evaluations there that are without
// noise; where something is withheld from the methods is no load of its own.
func (d devices) eachLoads(visit func(r report.Run, regime string, evals []closedloop.Result)) {
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		regimes := []string{""}
		for _, e := range r.InRegimes(r.Name) {
			if e.Noise == 0 && !slices.Contains(regimes, e.Regime) && !strings.Contains(e.Regime, "-") {
				regimes = append(regimes, e.Regime)
			}
		}
		for _, regime := range regimes {
			if evals := r.EvaluationsWhere(r.Name, func(e *closedloop.Result) bool { return e.Noise == 0 && e.Regime == regime }); len(evals) > 0 {
				visit(r, regime, evals)
			}
		}
	}
}

// ablations are the methods without one of those parts, on the episodes of the whole one.
func (d devices) ablations() string {
	s := report.Section{Rows: [][]string{{"case", "loads", "without", "safe", "cost less the whole's, % [95 %]", "median", "n"}}}
	d.eachLoads(func(r report.Run, regime string, evals []closedloop.Result) {
		for _, m := range r.Cases[r.Name].Methods {
			whole, is := report.WholeOf(m.Name)
			if !is { // of a search
				continue
			}
			row := []string{r.Name, report.OrDash(regime), "`" + m.Name + "`"}
			if e := report.FindMethod(m.Name, evals); e != nil {
				s.Rows = append(s.Rows, slices.Concat(row, []string{report.SafeOf(e)}, r.LessThan(e, whole)))
			} else if cells := pairedWith(r.Records, r.Name, regime, whole, m.Name); cells != nil {
				s.Rows = append(s.Rows, append(row, cells...))
			} else {
				s.Absent = append(s.Absent, fmt.Sprintf("%s of `%s`, loads %s", row[2], r.Name, report.OrDash(regime)))
			}
		}
	})
	return report.Tables(s)
}

// searched are the searches whose parts were left out one by one.
var searched = []string{"refine-64", "refine-512"}

// searchParts are the searches without one of their parts, and the map without the first of them,
// on the episodes of the whole search.
func (d devices) searchParts() string {
	s := report.Section{Rows: [][]string{{"case", "loads", "method", "safe", "regret, % ± 95 %", "cost less the whole search's, % [95 %]", "median", "n"}}}
	d.eachLoads(func(r report.Run, regime string, evals []closedloop.Result) {
		for i, whole := range searched {
			parts := slices.DeleteFunc(slices.Clone(evals), func(e closedloop.Result) bool {
				return !strings.HasPrefix(e.Method, whole+"-") || r.Method(r.Name, e.Method).Group != domain.GroupAblation
			})
			first := report.FindMethod(whole, evals)
			if first == nil || len(parts) == 0 {
				continue
			}
			parts = append([]closedloop.Result{*first}, parts...)
			if direct := report.FindMethod("direct", evals); direct != nil && i == 0 {
				parts = append(parts, *direct)
			}
			for _, e := range parts {
				s.Rows = append(s.Rows, slices.Concat([]string{r.Name, report.OrDash(regime), "`" + e.Method + "`", report.SafeOf(&e), report.Within("%.5f", e.RegretPct, e.RegretSEM, e.RegretN)}, r.LessThan(&e, whole)))
			}
		}
	})
	return report.Tables(s)
}

// pairedWith is a row of a pairing with a map of its own, that has a method first and another
// behind it; nil: there is none.
func pairedWith(r *report.Records, name, regime, first, method string) []string {
	for _, p := range r.Pairings {
		if p.Case != name || p.Regime != regime || len(p.Pairs) == 0 || p.Pairs[0].Method != first || !report.UndisturbedPlant(&p) {
			continue
		}
		for _, m := range p.Pairs[1:] {
			if m.Method == method {
				return []string{
					fmt.Sprintf("%d/%d, map `%s`", m.Safe, m.Episodes, p.Map.File),
					m.Difference.Mean.Text("%+.4f") + " " + report.Interval("%+.4f", m.Difference.MeanCI95), m.Difference.Median.Text("%+.4f"), fmt.Sprint(m.Compared),
				}
			}
		}
	}
	return nil
}
