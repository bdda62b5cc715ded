package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// eachLoads visits every case under each of its loads with the evaluations there that are without
// noise; where something is withheld from the methods is no load of its own.
func (d devices) eachLoads(visit func(r run, regime string, evals []closedloop.Result)) {
	for _, r := range runs(d, (*Records).named) {
		regimes := []string{""}
		for _, e := range r.inRegimes(r.name) {
			if e.Noise == 0 && !slices.Contains(regimes, e.Regime) && !strings.Contains(e.Regime, "-") {
				regimes = append(regimes, e.Regime)
			}
		}
		for _, regime := range regimes {
			if evals := r.evaluations(r.name, func(e *closedloop.Result) bool { return e.Noise == 0 && e.Regime == regime }); len(evals) > 0 {
				visit(r, regime, evals)
			}
		}
	}
}

// ablated are the parts of Algorithm 2 that the paper names, by what their ablations end in.
var ablated = []string{"-no-semantic", "-no-rollout", "-no-lie", "-no-retraction"}

// unprojected is what an ablation without the projection ends in.
const unprojected = "-no-projection"

// ablations are the methods without one of those parts, on the episodes of the whole one.
func (d devices) ablations() string {
	s := section{rows: [][]string{{"case", "loads", "without", "safe", "cost less the whole's, % [95 %]", "median", "n"}}}
	d.eachLoads(func(r run, regime string, evals []closedloop.Result) {
		for _, m := range r.cases[r.name].Methods {
			whole, is := wholeOf(m.Name)
			if !is { // of a search
				continue
			}
			row := []string{r.name, dash(regime), "`" + m.Name + "`"}
			if e := find(m.Name, evals); e != nil {
				s.rows = append(s.rows, slices.Concat(row, []string{safeOf(e)}, r.lessThan(e, whole)))
			} else if cells := pairedWith(r.Records, r.name, regime, whole, m.Name); cells != nil {
				s.rows = append(s.rows, append(row, cells...))
			} else {
				s.absent = append(s.absent, fmt.Sprintf("%s of `%s`, loads %s", row[2], r.name, dash(regime)))
			}
		}
	})
	return tables(s)
}

// searched are the searches whose parts were left out one by one.
var searched = []string{"refine-64", "refine-512"}

// searchParts are the searches without one of their parts, and the map without the first of them,
// on the episodes of the whole search.
func (d devices) searchParts() string {
	s := section{rows: [][]string{{"case", "loads", "method", "safe", "regret, % ± 95 %", "cost less the whole search's, % [95 %]", "median", "n"}}}
	d.eachLoads(func(r run, regime string, evals []closedloop.Result) {
		for i, whole := range searched {
			parts := slices.DeleteFunc(slices.Clone(evals), func(e closedloop.Result) bool {
				return !strings.HasPrefix(e.Method, whole+"-") || r.method(r.name, e.Method).Group != domain.GroupAblation
			})
			first := find(whole, evals)
			if first == nil || len(parts) == 0 {
				continue
			}
			parts = append([]closedloop.Result{*first}, parts...)
			if direct := find("direct", evals); direct != nil && i == 0 {
				parts = append(parts, *direct)
			}
			for _, e := range parts {
				s.rows = append(s.rows, slices.Concat([]string{r.name, dash(regime), "`" + e.Method + "`", safeOf(&e), within("%.5f", e.RegretPct, e.RegretSEM, e.RegretN)}, r.lessThan(&e, whole)))
			}
		}
	})
	return tables(s)
}

// wholeOf is the method that an ablation of the paper's is one of.
func wholeOf(ablation string) (whole string, is bool) {
	for _, part := range ablated {
		if whole, is = strings.CutSuffix(ablation, part); is {
			return whole, whole == algorithmTwo || whole == planner
		}
	}
	return "", false
}

// pairedWith is a row of a pairing with a map of its own, that has a method first and another
// behind it; nil: there is none.
func pairedWith(r *Records, name, regime, first, method string) []string {
	for _, p := range r.Pairings {
		if p.Case != name || p.Regime != regime || len(p.Pairs) == 0 || p.Pairs[0].Method != first || !undisturbedPlant(&p) {
			continue
		}
		for _, m := range p.Pairs[1:] {
			if m.Method == method {
				return []string{
					fmt.Sprintf("%d/%d, map `%s`", m.Safe, m.Episodes, p.Map.File),
					m.Difference.Mean.Text("%+.4f") + " " + between("%+.4f", m.Difference.MeanCI95), m.Difference.Median.Text("%+.4f"), fmt.Sprint(m.Compared),
				}
			}
		}
	}
	return nil
}
