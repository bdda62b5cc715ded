package publish

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

// paired is the table of the pairs of some pairings of each case on its first device, behind its headings: a row gives
// the cells of the i-th method of a pairing, nil where it has no row. note may be empty.
func (d devices) paired(
	note string, headings []string, names func(r *report.Records) []string, of func(r report.Run) []closedloop.Pairing,
	row func(r report.Run, p *closedloop.Pairing, i int) []string,
) string {
	s := report.Section{Note: note, Rows: [][]string{headings}}
	var shown []closedloop.Pairing
	for _, r := range report.RunsOf(d, names) {
		for _, p := range of(r) {
			shown = append(shown, p)
			for i := range p.Pairs {
				if cells := row(r, &p, i); cells != nil {
					s.Rows = append(s.Rows, cells)
				}
			}
		}
	}
	s.Provenance = report.RecordedBy(shown)
	return report.Tables(s)
}

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
	of := func(r *report.Records) []string {
		return slices.DeleteFunc(r.ComparedCases(), func(of string) bool { return of != name })
	}
	headings := []string{"method", "candidates", "equal", "safe", "cost above the first's, % [95 %]", "median", "n", "smallest margin, m ± 95 %", "fallbacks", "decision mean (p50 / p99), ms"}
	note := "Each method is beside the last one above it with the map (`" + report.Planner + "`), on the same episodes."
	return d.paired(note, headings, of, report.Run.CandidatePairings, func(r report.Run, p *closedloop.Pairing, i int) []string {
		m := &p.Pairs[i]
		return slices.Concat([]string{"`" + m.Method + "`", fmt.Sprint(r.CandidatesOf(name, m)), r.EqualIn(name, &p.Pairs[0], m), safeShare(m)},
			dearer(i == 0, m), []string{report.Estimate("%.3f", m.MarginMean, m.MarginCI95), fmt.Sprint(m.Fallback), meanTime(m)})
	})
}

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
	return d.paired("", pairedHeadings("map, samples"), (*report.Records).PairedCases, plainest, func(_ report.Run, p *closedloop.Pairing, i int) []string {
		return report.PairedRow([]string{p.Case, cmp.Or(p.Map.File, report.BundledMap) + ", " + fmt.Sprint(p.Map.Samples)}, i, &p.Pairs[i])
	})
}

// pairedHeadings are those of report.PairedRow behind a case and something else.
func pairedHeadings(second string) []string {
	return []string{"case", second, "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "p50 / p99, ms"}
}

// shifted is the same on plants that the maps were not made for.
func (d devices) shifted() string {
	of := func(r report.Run) []closedloop.Pairing {
		return r.PairingsWhere(r.Name, func(p *closedloop.Pairing) bool { return p.Shift["ellipse"] == 1.1 || p.Shift["obstacle-speed"] == 1.5 })
	}
	return d.paired("", pairedHeadings("plant"), (*report.Records).PairedCases, of, func(_ report.Run, p *closedloop.Pairing, i int) []string {
		return report.PairedRow([]string{p.Case, report.ShiftText(p.Shift)}, i, &p.Pairs[i])
	})
}

// compiled are the maps of all devices, each case's on its first device, the systems that other
// solvers are timed on before others.
func (d devices) compiled() string {
	names := d.systems()
	var all []compile.Report
	var known []string
	for _, r := range d {
		for _, c := range report.Of[compile.Report](r) {
			if !slices.Contains(known, c.Case) {
				all = append(all, c)
			}
		}
		known = append(known, r.CompiledCases()...)
	}
	for _, name := range known {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return report.Tables(report.Compilations(all, names))
}

// rounds are those of a case's compilation, with the reason of each.
func (d devices) rounds(name string) string {
	s := report.Section{Rows: [][]string{{"round", "why", "scenarios (near the worst)", "samples", "epochs", "own starts, mean %", "held-out, mean %", "p90 %", "max %", "confirmed: mean, p90, max %", "s"}}}
	for _, r := range d {
		c := r.Compilation(name)
		if c == nil {
			continue
		}
		for _, round := range c.Rounds {
			confirmed, seconds := "–", "–"
			if m := round.Confirmed; m != nil {
				confirmed = m.Mean.Text("%.3g") + ", " + m.P90.Text("%.3g") + ", " + m.Max.Text("%.3g")
			}
			if !report.Disturbed(c.Load) {
				seconds = fmt.Sprintf("%.0f", round.Seconds.Solve+round.Seconds.Train+round.Seconds.Evaluate)
			}
			s.Rows = append(s.Rows, []string{
				string(round.Kind), round.Why, fmt.Sprintf("%d (%d)", round.Scenarios, round.Focused), fmt.Sprint(round.Samples), fmt.Sprint(round.Epochs), round.Training.Mean.Text("%.3g"),
				round.HeldOut.Mean.Text("%.3g"), round.HeldOut.P90.Text("%.3g"), round.HeldOut.Max.Text("%.3g"), confirmed, seconds,
			})
		}
		s.Note, s.Provenance = fmt.Sprintf("Rounds ended: %s.", c.Ended), report.Origin("", c.Commit, c.Device, c.Load)
		return report.Tables(s)
	}
	return noRecord
}

// foreign are the pairings wanted of all devices, of cases that the program does not have.
func (d devices) foreign(wanted func(p *closedloop.Pairing) bool) (all []closedloop.Pairing) {
	for _, r := range d {
		all = append(all, r.ForeignPairings(wanted)...)
	}
	return all
}

// besideCompiled is the same for the systems that other solvers are timed on.
func (d devices) besideCompiled() string {
	return report.Tables(report.BesideMaps(d.foreign(report.Undisturbed), d.systems()))
}

// latentSteps is what localization, flow and retraction do in those systems.
func (d devices) latentSteps() string {
	return report.Tables(report.BesideMaps(d.foreign(report.InParts), d.systems()))
}

// underNoise is the same where the measured state is noisy.
func (d devices) underNoise() string {
	all := d.foreign(func(p *closedloop.Pairing) bool { return len(p.Shift) == 0 && p.Bias == 0 && p.Noise > 0 })
	s := report.BesideMaps(all, nil)
	if len(all) == 0 {
		return noRecord
	}
	s.Note = strings.TrimSpace(fmt.Sprintf("Noise of %g, in units of each state's scale. ", all[0].Noise) + s.Note)
	return report.Tables(s)
}

// besideWarm visits the systems that other solvers are timed on: the map, by the method that it was compiled for, and the
// warm exact solver. Both decide on the same episodes of one run, without noise.
func (d devices) besideWarm(visit func(name string, p *closedloop.Pairing, own, solver *closedloop.Paired)) {
	for _, name := range d.systems() {
		c, p := d.compilation(name), d.pairing(name)
		if c == nil || p == nil {
			continue
		}
		if own, solver := pairedMethod(p, c.Test.Method), pairedMethod(p, report.WarmSolver); own != nil && solver != nil {
			visit(name, p, own, solver)
		}
	}
}

// mapsOnSameEpisodes is README's table of the gallery: the map and the warm exact solver of each system on which both
// decided in the same episodes of one run. Systems in which they ran different numbers of episodes are named below the table.
func (d devices) mapsOnSameEpisodes() string {
	s := report.Section{Rows: [][]string{{"system", "episodes", "unsafe: map, solver", "map: extra cost mean (worst), %", "solver: extra cost mean (worst), %", "map: p50 / p99, ms", "solver: p50 / p99, ms"}}}
	var fewer []string
	d.besideWarm(func(name string, p *closedloop.Pairing, own, solver *closedloop.Paired) {
		if own.Episodes != solver.Episodes || own.RegretN != solver.RegretN || report.Disturbed(p.Load) {
			fewer = append(fewer, fmt.Sprintf("`%s` (%d and %d)", name, own.Episodes, solver.Episodes))
			return
		}
		extra := func(m *closedloop.Paired) string {
			return fmt.Sprintf("%s (%s)", report.PlainPercent(m.RegretPct, m.RegretCI95, m.RegretN), report.PlainPercent(m.RegretWorst, 0, m.RegretN))
		}
		s.Rows = append(s.Rows, []string{
			fmt.Sprintf("`%s`, `%s`", name, own.Method), fmt.Sprint(own.Episodes),
			fmt.Sprintf("%d, %d", own.Episodes-own.Safe, solver.Episodes-solver.Safe),
			extra(own), extra(solver), report.PlainMilliseconds(&own.Latency), report.PlainMilliseconds(&solver.Latency),
		})
	})
	if len(s.Rows) < 2 {
		return ""
	}
	text := report.Tables(s)
	if len(fewer) > 0 {
		text += fmt.Sprintf("\nLeft out, as map and solver ran different numbers of episodes: %s.\n", strings.Join(fewer, ", "))
	}
	return text
}

func safeShare(m *closedloop.Paired) string { return fmt.Sprintf("%d/%d", m.Safe, m.Episodes) }

// pairedMethod is a method of a pairing; nil: it is not among them.
func pairedMethod(p *closedloop.Pairing, method string) *closedloop.Paired {
	if i := slices.IndexFunc(p.Pairs, func(m closedloop.Paired) bool { return m.Method == method }); i >= 0 {
		return &p.Pairs[i]
	}
	return nil
}

// compilation is a case's on the first device that has one.
func (d devices) compilation(name string) *compile.Report {
	for _, r := range d {
		if c := r.Compilation(name); c != nil {
			return c
		}
	}
	return nil
}

// pairing is the undisturbed one of whole methods of a case of the gallery.
func (d devices) pairing(name string) *closedloop.Pairing {
	all := d.foreign(report.Undisturbed)
	if i := slices.IndexFunc(all, func(p closedloop.Pairing) bool { return p.Case == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// horizonPeers is the record of the solvers of a receding horizon: the first whose checks
// compare optima.
func (d devices) horizonPeers() *peerrecord.Record {
	for _, r := range d {
		for _, p := range report.Of[peerrecord.Record](r) {
			if len(p.Checks) > 0 {
				return &p
			}
		}
	}
	return nil
}

// systems are those of that record.
func (d devices) systems() (names []string) {
	if r := d.horizonPeers(); r != nil {
		for _, y := range systemsOf(r) {
			names = append(names, y.name)
		}
	}
	return names
}

// system is what a record says of one system.
type system struct {
	name   string
	checks []peerrecord.Check // one for each peer that optima were compared with
	peers  []string           // in the order of the record
	ratios []peerrecord.Ratio
}

func systemsOf(r *peerrecord.Record) (all []system) {
	for _, c := range r.Checks {
		if i := slices.IndexFunc(all, func(s system) bool { return s.name == c.Case }); i >= 0 {
			all[i].checks = append(all[i].checks, c)
			continue
		}
		s := system{name: c.Case, checks: []peerrecord.Check{c}}
		for _, v := range r.Ratios {
			if name, _, _ := strings.Cut(v.Case, ","); name == c.Case {
				s.ratios = append(s.ratios, v)
				if !slices.Contains(s.peers, v.Peer) {
					s.peers = append(s.peers, v.Peer)
				}
			}
		}
		all = append(all, s)
	}
	return all
}

func (s *system) ratio(peer, op string) *peerrecord.Ratio {
	i := slices.IndexFunc(s.ratios, func(v peerrecord.Ratio) bool { return v.Peer == peer && v.Op == op })
	if i < 0 {
		return nil
	}
	return &s.ratios[i]
}

// warm is the operation that a loop repeats, and its tail.
const warm, warmTail = "warm p50", "warm p99"

// warmPeers are the other solvers of a loop, in the order of the record.
func warmPeers(systems []system) (peers []string) {
	for _, y := range systems {
		for _, p := range y.peers {
			if y.ratio(p, warm) != nil && !slices.Contains(peers, p) {
				peers = append(peers, p)
			}
		}
	}
	return peers
}

// peerName is a peer's without what all of them run in.
func peerName(peer string) string { return strings.TrimPrefix(peer, "CasADi + ") }

// solvers compares our solver of a receding horizon with others', system by system.
func (d devices) solvers() string {
	r := d.horizonPeers()
	if r == nil {
		return ""
	}
	s := report.Section{Note: report.PeersNote(r), Provenance: report.Origin("", r.Commit, r.Device, r.Load), Rows: [][]string{{"system", "decisions", "ours warm p50 / p99 / cold, ms"}}}
	systems := systemsOf(r)
	peers := warmPeers(systems)
	for _, p := range peers {
		s.Rows[0] = append(s.Rows[0], peerName(p))
	}
	s.Rows[0] = append(s.Rows[0], "unsolved, ours", "theirs", "equal", "above")
	ops := []string{warm, warmTail, "cold p50"}
	for _, y := range systems {
		first := &y.checks[0]
		equal := fmt.Sprintf("%.0e", first.Worst)
		for _, c := range y.checks[1:] {
			equal += fmt.Sprintf(", %s %.0e", peerName(c.Peer), c.Worst)
		}
		row, theirs := []string{"`" + y.name + "`", fmt.Sprint(first.Decisions), "–"}, []string{}
		for _, p := range peers {
			var cell, ours []string
			for _, op := range ops {
				if v := y.ratio(p, op); v != nil {
					cell, ours = append(cell, report.Ratio(v.Ratio)), append(ours, fmt.Sprintf("%.3g", v.OursUS/1e3))
				}
			}
			if len(cell) < len(ops) {
				row, theirs = append(row, "–"), append(theirs, "–")
				continue
			}
			row[2] = strings.Join(ours, " / ")
			row, theirs = append(row, strings.Join(cell, " / ")), append(theirs, fmt.Sprint(y.ratio(p, warm).Unsolved))
		}
		s.Rows = append(s.Rows, append(row, fmt.Sprint(first.Unsolved), strings.Join(theirs, " / "), equal, fmt.Sprintf("%.0e", first.Above)))
	}
	return report.Tables(s)
}

// ownSolver is our own warm solver in a peer's place.
const ownSolver = "package shooting"

// mapsBeside sets the times of maps beside those of other solvers, warm, in the same states of
// one run. What a map is compared with is the fastest of these that solves every decision.
func (d devices) mapsBeside() string {
	r := d.horizonPeers()
	if r == nil {
		return ""
	}
	systems := systemsOf(r)
	peers := warmPeers(systems)
	s := report.Section{Note: report.PeersNote(r), Provenance: report.Origin("", r.Commit, r.Device, r.Load), Rows: [][]string{{"system", "method", "its p50 / p99, µs"}}}
	for _, p := range peers {
		s.Rows[0] = append(s.Rows[0], peerName(p)+"'s, µs")
	}
	s.Rows[0] = append(s.Rows[0], "fastest that solves all", "over the method's p50 / p99", "warm `nmpc`'s over its p50")
	for _, y := range systems {
		var methods, beside []string
		for _, v := range y.ratios {
			if m, ok := strings.CutSuffix(v.Op, " p50"); ok && v.Peer == ownSolver {
				methods = append(methods, m)
			}
		}
		fastest, least := "", math.Inf(1)
		for _, p := range peers {
			v, tail := y.ratio(p, warm), y.ratio(p, warmTail)
			if v == nil || tail == nil {
				beside = append(beside, "–")
				continue
			}
			cell := fmt.Sprintf("%.0f / %.0f", v.PeerUS, tail.PeerUS)
			if v.Unsolved > 0 {
				cell += fmt.Sprintf(", %d of %d unsolved", v.Unsolved, v.Decisions)
			} else if v.PeerUS < least {
				fastest, least = p, v.PeerUS
			}
			beside = append(beside, cell)
		}
		name, solves := "`"+y.name+"`", cmp.Or(peerName(fastest), "none")
		for _, m := range methods {
			own, tail := y.ratio(ownSolver, m+" p50"), y.ratio(ownSolver, m+" p99")
			if tail == nil {
				continue
			}
			over := "–"
			if v, tail := y.ratio(fastest, m+" p50"), y.ratio(fastest, m+" p99"); v != nil && tail != nil {
				over = report.Ratio(v.Ratio) + " / " + report.Ratio(tail.Ratio)
			}
			row := []string{name, "`" + m + "`", fmt.Sprintf("%.3g / %.3g", own.OursUS, tail.OursUS)}
			s.Rows = append(s.Rows, slices.Concat(row, beside, []string{solves, over, report.Ratio(own.Ratio)}))
		}
		if len(methods) == 0 {
			s.Rows = append(s.Rows, slices.Concat([]string{name, "–", "–"}, beside, []string{solves, "–", "–"}))
		}
	}
	return report.Tables(s)
}
