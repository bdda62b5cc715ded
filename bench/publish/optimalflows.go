package publish

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/internal/opfrecord"
)

// sameValue is how far above a published optimum of five digits one may lie to be the same.
const sameValue = 1e-4

// optimalFlows are the tables of docs/results/networks.md on many networks: how many of each set are solved,
// and those that are not or took the most iterations.
func (d devices) optimalFlows() string {
	r := last(d, func(r *report.Records) []opfrecord.Record { return r.OptimalFlows })
	if r == nil {
		return noRecord
	}
	sets := report.Section{Note: report.OptimalFlowsNote(r), Provenance: report.OptimalFlowsOrigin(r), Rows: [][]string{{"networks", "files", "largest, buses", "optimal", "at the published value or below", "iterations: median, largest", "largest violation, pu", "published time / ours, median"}}}
	for _, c := range report.ConditionsOf {
		var of []*opfrecord.Network
		for i := range r.Networks {
			if report.EndOf(r.Networks[i].Name) == c.End {
				of = append(of, &r.Networks[i])
			}
		}
		if len(of) > 0 {
			sets.Rows = append(sets.Rows, append([]string{c.Title}, setOf(of)...))
		}
	}
	hard := report.Section{Note: "Without an optimum, above the published value, or with the most iterations:", Rows: [][]string{{"network", "buses", "status", "gap to the published value", "iterations", "CPU time, s"}}}
	order := slices.Clone(r.Networks)
	slices.SortStableFunc(order, func(a, b opfrecord.Network) int {
		return cmp.Or(cmp.Compare(failing(&b), failing(&a)), b.Iterations-a.Iterations)
	})
	for i := range order {
		n := &order[i]
		if i >= 10 && failing(n) == 0 {
			break
		}
		hard.Rows = append(hard.Rows, []string{n.Name, fmt.Sprint(n.Buses), cmp.Or(n.Reason, n.Status), report.GapOf(n), fmt.Sprint(n.Iterations), fmt.Sprintf("%.3g", n.CPUMS/1e3)})
	}
	return report.Tables(sets, hard)
}

// largestBuses is from how many buses on a network stands in README.
const largestBuses = 9000

// largestFlows is README's table of optimal power flows: the typical networks of PGLib with the most buses, and below
// it how many networks were solved in all.
func (d devices) largestFlows() string {
	r := last(d, func(r *report.Records) []opfrecord.Record { return r.OptimalFlows })
	if r == nil {
		return ""
	}
	s := report.Section{Rows: [][]string{{"network", "buses", "gap to the published optimum", "iterations", "`gpc`, CPU time, s", "published IPOPT time, s"}}}
	optimal := 0
	order := slices.Clone(r.Networks)
	slices.SortFunc(order, func(a, b opfrecord.Network) int { return cmp.Or(a.Buses-b.Buses, cmp.Compare(a.Name, b.Name)) })
	for i := range order {
		n := &order[i]
		if n.Optimal() {
			optimal++
		}
		if n.Buses < largestBuses || report.EndOf(n.Name) != "" {
			continue
		}
		published := "–"
		if n.PeerMS != nil {
			published = fmt.Sprintf("%.0f", *n.PeerMS/1e3)
		}
		s.Rows = append(s.Rows, []string{"`" + n.Name + "`", fmt.Sprint(n.Buses), report.GapOf(n), fmt.Sprint(n.Iterations), fmt.Sprintf("%.1f", n.CPUMS/1e3), published})
	}
	return fmt.Sprintf("%s\nOf all %d networks that were tried, %d were solved to an optimum.\n", report.Tables(s), len(r.Networks), optimal)
}

// failing is 2 of a network without an optimum, 1 of one above the published value.
func failing(n *opfrecord.Network) int {
	switch {
	case !n.Optimal():
		return 2
	case n.Gap != nil && !(*n.Gap <= sameValue):
		return 1
	}
	return 0
}

// setOf are the cells of a set after its name.
func setOf(of []*opfrecord.Network) []string {
	buses, optimal, compared, within, violation := 0, 0, 0, 0, 0.0
	var iterations, ratios []float64
	for _, n := range of {
		buses = max(buses, n.Buses)
		if n.Published != nil {
			compared++
		}
		if !n.Optimal() {
			continue
		}
		optimal++
		iterations = append(iterations, float64(n.Iterations))
		if n.Gap != nil && *n.Gap <= sameValue {
			within++
		}
		if n.Violation == nil {
			violation = math.NaN()
		} else {
			violation = max(violation, *n.Violation)
		}
		if n.PeerMS != nil && n.CPUMS > 0 {
			ratios = append(ratios, *n.PeerMS/n.CPUMS)
		}
	}
	median := func(v []float64, format string) string {
		if len(v) == 0 {
			return "–"
		}
		slices.Sort(v)
		return fmt.Sprintf(format, v[len(v)/2])
	}
	most := "–"
	if len(iterations) > 0 {
		most = fmt.Sprintf("%s, %.0f", median(iterations, "%.0f"), slices.Max(iterations))
	}
	ratio := "–"
	if len(ratios) > 0 {
		ratio = fmt.Sprintf("%s of %d", median(ratios, "%.2g"), len(ratios))
	}
	return []string{fmt.Sprint(len(of)), fmt.Sprint(buses), fmt.Sprint(optimal), fmt.Sprintf("%d of %d", within, compared), most, fmt.Sprintf("%.1e", violation), ratio}
}
