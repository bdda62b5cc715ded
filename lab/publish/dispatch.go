package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
)

// networkCase begins the name of a case that is a network in a file.
const networkCase = "opf:"

// networks are those that exact solver, projection, `direct` and search are compared on, as
// lab/scripts/networks.sh records them: the case, buses and where the file is from.
var networks = []struct{ name, title string }{
	{networkCase + "case30.m", "30, MATPOWER"},
	{networkCase + "case118.m", "118, MATPOWER (no line rated)"},
	{networkCase + "pglib_opf_case118_ieee.m", "118, PGLib"},
	{networkCase + "case300.m", "300, MATPOWER (no line rated)"},
	{networkCase + "pglib_opf_case300_ieee.m", "300, PGLib"},
	{networkCase + "case1354pegase.m", "1354, PEGASE"},
}

// networkWays are the rows of `gpc bench dispatch` in the order of the table, and methods that
// of its closed loops.
var (
	networkWays    = []string{"exact, cold", "exact, warm", "projection of hold", "projection of map", "projection of merit"}
	networkMethods = []string{"mo-opf", "direct", "refine-64"}
)

// onNetwork are a network's records on the first device that has any.
type onNetwork struct {
	times []*bench.Record
	evals []closedloop.Result
}

func (d devices) onNetwork(name string) (found onNetwork) {
	for _, r := range d {
		benchmarks := report.Of[bench.Record](r)
		for i := range benchmarks {
			b := &benchmarks[i]
			if slices.ContainsFunc(b.Results, func(row bench.Result) bool { return row.Case == name && strings.HasPrefix(row.Op, "dispatch, ") }) {
				found.times = append(found.times, b)
			}
		}
		found.evals = slices.DeleteFunc(r.InRegimes(name), func(e closedloop.Result) bool { return e.Noise > 0 || !slices.Contains(networkMethods, e.Method) })
		if len(found.times)+len(found.evals) > 0 {
			return found
		}
	}
	return found
}

// way is a row of the network's times; nil: it is not recorded.
func (n *onNetwork) way(name, way string) *bench.Result {
	for _, b := range n.times {
		for i := range b.Results {
			if row := &b.Results[i]; row.Case == name && row.Op == "dispatch, "+way {
				return row
			}
		}
	}
	return nil
}

// method is a closed loop of the network; nil: it is not recorded.
func (n *onNetwork) method(method string) *closedloop.Result {
	for i := range n.evals {
		if n.evals[i].Method == method {
			return &n.evals[i]
		}
	}
	return nil
}

// networks are the tables of what a dispatch takes on larger networks and what it reaches. A
// network without a record is said to be so.
func (d devices) networks() string {
	times := report.Section{Rows: [][]string{slices.Concat([]string{"buses"}, networkWays)}}
	reached := report.Section{Rows: [][]string{{"buses", "loads"}}}
	for _, m := range networkMethods {
		times.Rows[0] = append(times.Rows[0], "`"+m+"`")
		reached.Rows[0] = append(reached.Rows[0], "`"+m+"`: kept, gap % ± 95 %, n, fallbacks")
	}
	reached.Rows[0] = slices.Concat(reached.Rows[0], networkWays)
	var seeds, commits, on []string
	var all []*closedloop.Load
	for _, network := range networks {
		n := d.onNetwork(network.name)
		first := []string{network.title}
		if len(n.times)+len(n.evals) == 0 {
			reached.Absent = append(reached.Absent, first[0])
			continue
		}
		row, found, regime := first, []string{}, ""
		for _, way := range networkWays {
			cell, outcome := "–", "–"
			if r := n.way(network.name, way); r != nil {
				cell, outcome = fmt.Sprintf("%.3g / %.3g", r.P50/1e3, r.P99/1e3), r.Outcome
				_, regime, _ = strings.Cut(r.Size, ", ")
			}
			row, found = append(row, cell), append(found, outcome)
		}
		var kept []string
		for _, m := range networkMethods {
			cell, outcome := "–", "–"
			if e := n.method(m); e != nil {
				cell = report.Times("%.3g", &e.Latency)
				outcome = fmt.Sprintf("%s, %s, %d, %d", report.Dispatches(e), report.Within("%.4f", e.GapPct, e.GapSEM, e.RegretN), e.RegretN, e.Fallback)
				regime = cmp.Or(regime, e.Regime)
				seeds, commits, on, all = append(seeds, fmt.Sprint(e.Seed)), append(commits, e.Commit), append(on, e.Device), append(all, e.Load)
			}
			row, kept = append(row, cell), append(kept, outcome)
		}
		for _, b := range n.times {
			commits, on, all = append(commits, b.Commit), append(on, b.Device), append(all, b.Load)
		}
		times.Rows = append(times.Rows, row)
		reached.Rows = append(reached.Rows, slices.Concat(first, []string{regime}, kept, found))
	}
	if len(all) == 0 {
		return fmt.Sprintf("None of the %d networks is recorded yet.\n", len(networks))
	}
	times.Note = "Times of a dispatch, ms, median / 99th percentile, on one thread."
	times.Provenance = fmt.Sprintf("Closed loops of seed %s. %s", cmp.Or(report.Distinct(seeds), "–"), report.Origin("", report.Distinct(commits), report.Distinct(on), all...))
	reached.Note = "What they reach: dispatches that keep every limit, the gap to the oracle with the number of episodes, dispatches that the exact solver made instead, and of the projections alone the cost above the optimum of their decisions."
	return report.Tables(times, reached)
}

// steered are the sweeps over preferences of some cases.
func (d devices) steered(cases ...string) string {
	var all []closedloop.Steering
	swept := func(r *report.Records) (names []string) {
		for _, s := range report.Of[closedloop.Steering](r) {
			if slices.Contains(cases, s.Case) {
				names = append(names, s.Case)
			}
		}
		return names
	}
	for _, r := range report.RunsOf(d, swept) {
		all = append(all, report.Where(r.Records, func(s *closedloop.Steering) bool { return s.Case == r.Name })...)
	}
	if all == nil {
		return noRecord
	}
	return report.Tables(report.Section{Rows: closedloop.SteeringSummaryRows(all...)})
}
