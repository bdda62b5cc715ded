package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg/draw"

	"github.com/gpc-engine/gpc/internal/opfrecord"
)

// sameValue is how far above a published optimum of five digits one may lie to be the same.
const sameValue = 1e-4

// conditionsOf are the sets of networks of PGLib, by what their names end with.
var conditionsOf = []struct{ end, title string }{
	{"", "typical"}, {"__api", "heavily loaded (api)"}, {"__sad", "small angle differences (sad)"},
}

// endOf is what the name of a network ends with.
func endOf(name string) string {
	for _, c := range conditionsOf[1:] {
		if strings.HasSuffix(name, c.end) {
			return c.end
		}
	}
	return ""
}

// optimalFlows are the tables of docs/results/networks.md on many networks: how many of each set are solved,
// and those that are not or took the most iterations.
func (d devices) optimalFlows() string {
	r := last(d, func(r *Records) []opfrecord.Record { return r.OptimalFlows })
	if r == nil {
		return noRecord
	}
	sets := section{note: optimalFlowsNote(r), provenance: optimalFlowsOrigin(r), rows: [][]string{{"networks", "files", "largest, buses", "optimal", "at the published value or below", "iterations: median, largest", "largest violation, pu", "published time / ours, median"}}}
	for _, c := range conditionsOf {
		var of []*opfrecord.Network
		for i := range r.Networks {
			if endOf(r.Networks[i].Name) == c.end {
				of = append(of, &r.Networks[i])
			}
		}
		if len(of) > 0 {
			sets.rows = append(sets.rows, append([]string{c.title}, setOf(of)...))
		}
	}
	hard := section{note: "Without an optimum, above the published value, or with the most iterations:", rows: [][]string{{"network", "buses", "status", "gap to the published value", "iterations", "CPU time, s"}}}
	order := slices.Clone(r.Networks)
	slices.SortStableFunc(order, func(a, b opfrecord.Network) int {
		return cmp.Or(cmp.Compare(failing(&b), failing(&a)), b.Iterations-a.Iterations)
	})
	for i := range order {
		n := &order[i]
		if i >= 10 && failing(n) == 0 {
			break
		}
		hard.rows = append(hard.rows, []string{n.Name, fmt.Sprint(n.Buses), cmp.Or(n.Reason, n.Status), gapOf(n), fmt.Sprint(n.Iterations), fmt.Sprintf("%.3g", n.CPUMS/1e3)})
	}
	return tables(sets, hard)
}

// largestBuses is from how many buses on a network stands in README.
const largestBuses = 9000

// largestFlows is README's table of optimal power flows: the typical networks of PGLib with the most buses, and below
// it how many networks were solved in all.
func (d devices) largestFlows() string {
	r := last(d, func(r *Records) []opfrecord.Record { return r.OptimalFlows })
	if r == nil {
		return ""
	}
	s := section{rows: [][]string{{"network", "buses", "gap to the published optimum", "iterations", "`gpc`, CPU time, s", "published IPOPT time, s"}}}
	optimal := 0
	order := slices.Clone(r.Networks)
	slices.SortFunc(order, func(a, b opfrecord.Network) int { return cmp.Or(a.Buses-b.Buses, cmp.Compare(a.Name, b.Name)) })
	for i := range order {
		n := &order[i]
		if n.Optimal() {
			optimal++
		}
		if n.Buses < largestBuses || endOf(n.Name) != "" {
			continue
		}
		published := "–"
		if n.PeerMS != nil {
			published = fmt.Sprintf("%.0f", *n.PeerMS/1e3)
		}
		s.rows = append(s.rows, []string{"`" + n.Name + "`", fmt.Sprint(n.Buses), gapOf(n), fmt.Sprint(n.Iterations), fmt.Sprintf("%.1f", n.CPUMS/1e3), published})
	}
	return fmt.Sprintf("%s\nOf all %d networks that were tried, %d were solved to an optimum.\n", tables(s), len(r.Networks), optimal)
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

func gapOf(n *opfrecord.Network) string {
	if n.Gap == nil {
		return "–"
	}
	return fmt.Sprintf("%+.1e", *n.Gap)
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

func optimalFlowsNote(r *opfrecord.Record) string {
	return fmt.Sprintf("CPU time of the first solve from the flat start, without the analysis of the network. The violation is of the limits by a power flow of the dispatch. Published values and times: %s, where a time is 1 s or more, on other hardware.", cmp.Or(r.Published, "none"))
}

func optimalFlowsOrigin(r *opfrecord.Record) string {
	return origin(r.Command, r.Commit, fmt.Sprintf("%s, %d threads", r.Device, r.Threads), r.Load)
}

// optimalFlowsSection is the record whole, and its figure.
func optimalFlowsSection(r opfrecord.Record) section {
	s := section{title: "Optimal power flows of many networks", note: optimalFlowsNote(&r), provenance: optimalFlowsOrigin(&r), figures: []*Figure{optimalFlowsFigure(&r)},
		rows: [][]string{{"network", "buses", "status", "objective, $/h", "gap", "iterations", "CPU time, s", "analysis, s", "violation, pu", "memory, MB"}}}
	for i := range r.Networks {
		n := &r.Networks[i]
		objective, violation := "–", "–"
		if n.Optimal() {
			objective = fmt.Sprintf("%.7g", *n.Objective)
		}
		if n.Violation != nil {
			violation = fmt.Sprintf("%.1e", *n.Violation)
		}
		s.rows = append(s.rows, []string{n.Name, fmt.Sprint(n.Buses), n.Status, objective, gapOf(n), fmt.Sprint(n.Iterations),
			fmt.Sprintf("%.3g", n.CPUMS/1e3), fmt.Sprintf("%.3g", n.SetupMS/1e3), violation, fmt.Sprintf("%.0f", n.PeakMB)})
	}
	return s
}

// optimalFlowsFigure is time against buses, ours and as published.
func optimalFlowsFigure(r *opfrecord.Record) *Figure {
	f := newFigure("optimal-flows", "optimal power flows: time against buses", axis{"size of the network", "buses"}, axis{"CPU time", "s"})
	f.logX()
	f.logY()
	for k, c := range conditionsOf {
		var xs, ys []float64
		for _, n := range r.Networks {
			if n.Optimal() && endOf(n.Name) == c.end {
				xs, ys = append(xs, float64(n.Buses)), append(ys, n.CPUMS/1e3)
			}
		}
		f.points(c.title, colour(k), draw.CircleGlyph{}, xs, ys)
	}
	var xs, ys []float64
	for _, n := range r.Networks {
		if n.PeerMS != nil {
			xs, ys = append(xs, float64(n.Buses)), append(ys, *n.PeerMS/1e3)
		}
	}
	f.points("published, other hardware", colour(grey), draw.CrossGlyph{}, xs, ys)
	f.caption = "CPU time of one solve from the flat start, each network once; published times of 1 s or more are IPOPT's with HSL through PowerModels on other hardware."
	return f
}
