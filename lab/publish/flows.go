package publish

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// sameValue is how far above a published optimum of five digits one may lie to be the same.
const sameValue = 1e-4

// optimalFlows are the tables of docs/results/networks.md on many networks: how many of each set are solved,
// and those that are not or took the most iterations.
func optimalFlows(r *optima.OptimalFlows) string {
	sets := report.Section{Note: report.OptimalFlowsNote(r), Provenance: report.OptimalFlowsOrigin(r), Rows: [][]string{{"networks", "files", "largest, buses", "optimal", "at the published value or below", "iterations: median, largest", "largest violation, pu", "published time / ours with the analysis, median"}}}
	for _, c := range report.ConditionsOf {
		var of []*optima.Network
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
	slices.SortStableFunc(order, func(a, b optima.Network) int {
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

// largerBy is how many times the buses of the one above it each network in README has at least.
const largerBy = 3.5

// largestFlows is README's table of optimal power flows: the typical network of PGLib with the most buses and, of growing size, those
// that were solved beside IPOPT; below it how many networks were solved in all.
func (d devices) largestFlows() string {
	r, peers := last[optima.OptimalFlows](d), d.timed(peerrecord.OpFirst)
	if r == nil {
		return noRecord
	}
	peer, beside, names := "IPOPT", map[besideKey]*peerrecord.Ratio{}, []string(nil)
	if peers != nil {
		peer = peers.Ratios[0].Peer
		beside, names = besideRows(peers)
	}
	order := slices.Clone(r.Networks)
	slices.SortFunc(order, func(a, b optima.Network) int { return cmp.Or(b.Buses-a.Buses, cmp.Compare(a.Name, b.Name)) })
	s := report.Section{Rows: [][]string{{"network", "buses", "gap to the published optimum", "iterations", "`gpc`, first solve, s", peer + ", first solve, the same machine, s", "IPOPT, published, s"}}}
	optimal, most := 0, math.Inf(1)
	for i := range order {
		n := &order[i]
		if n.Optimal() {
			optimal++
		}
		v := beside[besideKey{peerrecord.OpFirst, n.Name, true}]
		if float64(n.Buses) > most || report.EndOf(n.Name) != "" || v == nil && peers != nil && !math.IsInf(most, 1) || peers == nil && n.Buses < 100 {
			continue
		}
		most = float64(n.Buses) / largerBy
		s.Rows = slices.Insert(s.Rows, 1, largestRow(n, v))
	}
	s.Rows = report.Filled(s.Rows)
	solved := fmt.Sprintf("%s\nOf all %d networks that were tried, %d were solved to an optimum.", report.Tables(s), len(r.Networks), optimal)
	if peers == nil {
		return solved + "\n"
	}
	first, n := peerrecord.Mean(peers.Ratios, peerrecord.OpFirst, true)
	return fmt.Sprintf("%s On the [%d of %d networks](docs/results/networks.md#beside-ipopt-on-pglib) that both solve, %s takes %s times the CPU time of `gpc` for a first solve, in the geometric mean.\n",
		solved, n, len(names), peer, report.Ratio(first))
}

// largestRow is the row of a network; v is its first solve beside IPOPT, nil where there was none.
func largestRow(n *optima.Network, v *peerrecord.Ratio) []string {
	ours, measured, published := (n.SetupMS+n.CPUMS)/1e3, "–", "–"
	if v != nil {
		ours, measured = v.OursUS/1e6, fmt.Sprintf("%.3g", v.PeerUS/1e6)
		if v.Unsolved > 0 {
			measured = "no optimum"
		}
	}
	if n.PeerMS != nil {
		published = fmt.Sprintf("%.0f", *n.PeerMS/1e3)
	}
	return []string{"`" + n.Name + "`", fmt.Sprint(n.Buses), report.GapOf(n), fmt.Sprint(n.Iterations), fmt.Sprintf("%.2g", ours), measured, published}
}

// failing is 2 of a network without an optimum, 1 of one above the published value.
func failing(n *optima.Network) int {
	switch {
	case !n.Optimal():
		return 2
	case n.Gap != nil && !(*n.Gap <= sameValue):
		return 1
	}
	return 0
}

// setOf are the cells of a set after its name.
func setOf(of []*optima.Network) []string {
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
			ratios = append(ratios, *n.PeerMS/(n.SetupMS+n.CPUMS))
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

// optima is what other solvers of optimal power flows take beside ours, by lab/peers/opf.
func foundOptima(p *peerrecord.Record) string { return report.Tables(optimaSection(p)) }

// timed is the last record of other programs' times of an operation on the first device that has one; nil: none is recorded.
func (d devices) timed(op string) *peerrecord.Record {
	return latest(d, func(p *peerrecord.Record) bool { return len(p.Ratios) > 0 && p.Ratios[0].Op == op })
}

// timedOf is devices.timed of an operation.
func timedOf(op string) func(d devices) *peerrecord.Record {
	return func(d devices) *peerrecord.Record { return d.timed(op) }
}

// besideKey is which comparison of a network a row is, alone or side by side.
type besideKey struct {
	op, network string
	alone       bool
}

// besideRows are the rows of a record by what they are, and its networks in its order.
func besideRows(p *peerrecord.Record) (rows map[besideKey]*peerrecord.Ratio, networks []string) {
	rows = map[besideKey]*peerrecord.Ratio{}
	for i := range p.Ratios {
		v := &p.Ratios[i]
		rows[besideKey{v.Op, v.Case, v.Batch == 1}] = v
		if !slices.Contains(networks, v.Case) {
			networks = append(networks, v.Case)
		}
	}
	return rows, networks
}

// besideIPOPT are what IPOPT takes on networks of PGLib beside ours, first and again, and MUMPS for one factorisation. Networks
// that one of the two has no optimum of stand apart.
func besideIPOPT(p *peerrecord.Record) string {
	rows, networks := besideRows(p)
	peer := p.Ratios[0].Peer
	solves := report.Section{Rows: [][]string{{"network", "first: ours, ms", peer + ", ms", "its time / ours", "again: ours, ms", peer + ", ms", "its time / ours", "side by side: ours, each, ms", "its time again / ours", "share of its first solve in derivatives, which are ours"}}}
	failed := report.Section{Note: "Without an optimum, and in no mean:", Rows: [][]string{{"network", "first: ours, ms", peer + ", ms"}}}
	factors := report.Section{Provenance: report.Origin("", p.Commit, p.Device, p.Load), Rows: [][]string{{"network", "alone, ms", "side by side, each", "MUMPS, ms", "MUMPS, analysis, ms", "MUMPS / ours alone", "side by side", "share of the multiply-add ceiling: alone, side by side, MUMPS"}}}
	ms := func(us float64) string { return fmt.Sprintf("%.3g", us/1e3) }
	for _, name := range networks {
		of := func(op string, alone bool) *peerrecord.Ratio { return rows[besideKey{op, name, alone}] }
		first, again, together := of(peerrecord.OpFirst, true), of(peerrecord.OpAgain, true), of(peerrecord.OpAgain, false)
		if first == nil || again == nil || together == nil || !first.Solved() {
			if first != nil {
				failed.Rows = append(failed.Rows, []string{name, ms(first.OursUS) + withoutOptimum(first.OursUnsolved), ms(first.PeerUS) + withoutOptimum(first.Unsolved)})
			}
			continue
		}
		solves.Rows = append(solves.Rows, []string{name, ms(first.OursUS), ms(first.PeerUS) + endedAt(first), report.Ratio(first.Ratio), ms(again.OursUS), ms(again.PeerUS), report.Ratio(again.Ratio),
			ms(together.OursUS), report.Ratio(together.Ratio), fmt.Sprintf("%.2f", first.PeerDerivatives)})
		if v, many := of(peerrecord.OpFactor, true), of(peerrecord.OpFactor, false); v != nil && many != nil {
			factors.Rows = append(factors.Rows, []string{name, ms(v.OursUS), ms(many.OursUS), ms(v.PeerUS), ms(v.PeerAnalysisUS), report.Ratio(v.Ratio), report.Ratio(many.Ratio), fmt.Sprintf("%.2f, %.2f, %.2f", v.OursShare, many.OursShare, v.PeerShare)})
		}
	}
	mean := func(op string, alone bool) string {
		mean, n := peerrecord.Mean(p.Ratios, op, alone)
		return fmt.Sprintf("%s (n = %d)", report.Ratio(mean), n)
	}
	solves.Note = fmt.Sprintf("%s %s / ours in the geometric mean of the networks that both solve: first %s, again %s, side by side %s.", p.Note, peer, mean(peerrecord.OpFirst, true), mean(peerrecord.OpAgain, true), mean(peerrecord.OpAgain, false))
	factors.Note = fmt.Sprintf("One numeric factorisation, MUMPS / ours in the geometric mean: %s alone, %s side by side.", mean(peerrecord.OpFactor, true), mean(peerrecord.OpFactor, false))
	if len(failed.Rows) == 1 {
		solves.Note += " Both have an optimum of every network."
	}
	return report.Tables(solves, failed, factors)
}

func withoutOptimum(count int) string {
	if count > 0 {
		return ", no optimum"
	}
	return ""
}

// endedAt says where a peer ended otherwise than at our optimum.
func endedAt(v *peerrecord.Ratio) string {
	switch {
	case v.Lower > 0:
		return ", at a lower cost"
	case v.Higher > 0:
		return ", at a higher cost"
	case v.Acceptable > 0:
		return ", to an acceptable tolerance"
	}
	return ""
}

// optimaSection has a row for each network: our times alone and in a batch, and by how much those
// of every peer are longer.
func optimaSection(p *peerrecord.Record) report.Section {
	type of struct {
		network, peer string
		alone         bool
	}
	found := map[of]peerrecord.Ratio{}
	var networks, peers []string
	batch := 1
	for _, v := range p.Ratios {
		found[of{v.Case, v.Peer, v.Batch == 1}] = v
		batch = max(batch, v.Batch)
		if !slices.Contains(networks, v.Case) {
			networks = append(networks, v.Case)
		}
		if !slices.Contains(peers, v.Peer) {
			peers = append(peers, v.Peer)
		}
	}
	s := report.Section{
		Note: report.PeersNote(p), Provenance: report.Origin("", p.Commit, p.Device, p.Load),
		Rows: [][]string{{"case", "alone, µs", fmt.Sprintf("%d side by side, each", batch)}},
	}
	for _, peer := range peers {
		s.Rows[0] = append(s.Rows[0], peer+": time / ours alone", "side by side")
	}
	for _, network := range networks {
		row := []string{network, "–", "–"}
		for _, peer := range peers {
			for i, alone := range []bool{true, false} {
				v, ok := found[of{network, peer, alone}]
				if !ok {
					row = append(row, "–")
					continue
				}
				row[1+i] = fmt.Sprintf("%.0f", v.OursUS)
				row = append(row, report.Ratio(v.Ratio))
			}
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// listing is the table of many networks of a kind.
func listing(kind string) func(d devices) string {
	ofKind := func(d devices) *peerrecord.Listing {
		return first(d, func(l *peerrecord.Listing) bool { return l.Kind == kind })
	}
	return shown(ofKind, func(l *peerrecord.Listing) string {
		return report.Tables(report.Section{Rows: append([][]string{l.Columns}, l.Rows...), Provenance: fmt.Sprintf("Commit %s, beside version %s, %s.", l.Commit, l.Note, l.Device)})
	})
}

// pandapower are the tables of a run: power flows, optima, and what either does not solve.
func pandapower(p *peerrecord.BesidePandapower) string {
	numba := "without numba"
	if p.Numba {
		numba = "with numba"
	}
	times := report.Columns{{"ours / pandapower, ms", "{OursMs %.0f} / {PeerMs %.0f}"}, {"ratio", "{Ratio times} [{Lo times}, {Hi times}]"}, {"solve, ms", "{SolveMs %.1f}"}}
	flowColumns := append(report.Columns{
		{"network", "{Network}"}, {"buses", "{Buses}"}, {"pu", "{Voltage tiny}"}, {"°", "{Angle tiny}"}, {"MW, MVAr", "{Power tiny}"}, {"loading %", "{Loading tiny}"},
	}, times...)
	optimumColumns := append(report.Columns{
		{"network", "{Network}"}, {"cost, ours", "{Cost %.4f}"}, {"relative difference", "{CostRelative tiny}"}, {"pu", "{Voltage tiny}"}, {"MW, MVAr", "{Power tiny}"},
	}, times...)
	var solved, optimal []*peerrecord.PandapowerNetwork
	var failed strings.Builder
	for i := range p.Rows {
		n := &p.Rows[i]
		switch {
		case n.PeerFailed != "":
			fmt.Fprintf(&failed, "* %s, `%s`: pandapower %s, gpc %s\n", n.Network, n.Op, firstLine(n.PeerFailed), ours(n))
		case n.Op == "runpp":
			solved = append(solved, n)
		case n.Cost != nil:
			optimal = append(optimal, n)
		}
	}
	text := report.Tables(report.Section{
		Note: fmt.Sprintf("Power flows, `runpp`: %s %s, least of %d rounds, [least, largest ratio of a round]:", p.Peer, numba, p.Rounds),
		Rows: report.Table(flowColumns, solved),
	}, report.Section{
		Note: "Optimal power flows, `runopp`:", Provenance: fmt.Sprintf("Commit %s, %s, load average %.1f.", p.Commit, p.Device, p.Average),
		Rows: report.Table(optimumColumns, optimal),
	})
	if failed.Len() > 0 {
		text += "\nWhere pandapower has no solution:\n\n" + failed.String()
	}
	return text
}

// ours is what gpc comes to where the peer does not.
func ours(n *peerrecord.PandapowerNetwork) string {
	switch {
	case n.OursFailed != "":
		return firstLine(n.OursFailed)
	case n.Cost != nil:
		return fmt.Sprintf("has an optimum of %.4f", *n.Cost)
	}
	return "has a solution"
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return first
}

// outages are the power flows without a branch each beside another program's, by lab/peers/outages.
func outages(p *peerrecord.Record) string {
	return report.Tables(report.Section{
		Note: report.PeersNote(p) + ".", Provenance: report.Origin("", p.Commit, p.Device, p.Load),
		Rows: report.Table(report.Columns{
			{"network", "{Case}"}, {"outages", "{Decisions}"}, {"ours, µs each", "{OursUS %.1f}"}, {p.Ratios[0].Peer + ", µs", "{PeerUS %.1f}"},
			{"ratio", "{Ratio times} [{Lo times}, {Hi times}]"}, {"solved by it alone", "{Unsolved}"}, {"other solutions", "{Different}"},
		}, p.Ratios),
	})
}

// learnedFlows are the tables of such a run.
func learnedFlows(p *peerrecord.LearnedFlows) string {
	flows := report.Section{
		Note: p.Note, Provenance: fmt.Sprintf("Seed %d, commit %s, %s, load average %.1f.", p.Seed, p.Commit, p.Device, p.Average),
		Rows: report.Table(report.Columns{
			{"network", "{Network}"}, {"recipe", "{Recipe}"}, {"optimal", "{Optimal} of {Scenarios}"}, {"infeasible", "{Infeasible}"},
			{"iterations: median, largest", "{Median}, {Largest}"}, {"in lanes, ms", "{BatchMs %.3g}"}, {"alone, ms", "{AloneMs %.3g}"},
			{"a second of CPU", "{ASecond %.0f}"}, {"imbalance, pu", "{Mismatch tiny}"}, {"violation, pu", "{Violation tiny}"},
			{"of the duals: stationarity, complementarity", "{Stationarity tiny}, {Complementarity tiny}"},
		}, p.Rows),
	}
	return report.Tables(flows, report.Section{
		Note: "A part of OPFData's sets of 300 000, written by `griddata.generate` as its authors pack them, on all cores; the whole is by that part.",
		Rows: report.Table(report.Columns{
			{"network", "{Network}"}, {"recipe", "{Recipe}"}, {"instances", "{Instances}"}, {"solve, CPU ms", "{SolverMs %.3g}"}, {"all, CPU ms", "{CPUMs %.3g}"},
			{"a second of CPU", "{ASecond %.0f}"}, {"bytes each", "{Bytes %.0f}"}, {"the whole, CPU minutes", "{Minutes %.3g}"}, {"GB", "{Gigabytes %.3g}"},
		}, p.Sets),
	})
}
