package publish

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
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
	return report.Number("%.2f", float64(m.LatencyMean)/1e3) + ", " + report.Times("%.2f", &m.Latency)
}

// candidates is the table of a case's pairings by candidates.
func (d devices) candidates(name string) string {
	of := func(r *report.Records) []string {
		return slices.DeleteFunc(r.ComparedCases(), func(of string) bool { return of != name })
	}
	headings := []string{"method", "candidates", "equal", "safe", "cost above the first's, % [95 %]", "median", "n", "smallest margin, m ± 95 %", "fallbacks", "decision mean, p50 / p99 (first), ms"}
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
	return []string{"case", second, "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", report.TimesHeading}
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

// trainings are the maps of several seeds of all devices, each beside a plain network.
func (d devices) trainings() string {
	var all []report.Trained
	for _, r := range d {
		all = append(all, report.Of[report.Trained](r)...)
	}
	if len(all) == 0 {
		return noRecord
	}
	return report.Tables(report.Trainings(all, d.systems()))
}

// rounds are those of a case's compilation, with the reason of each.
func (d devices) rounds(name string) string {
	s := report.Section{Rows: [][]string{{"round", "why", "scenarios (near the worst)", "samples", "epochs", "own starts, mean %", "held-out, mean %", "p90 %", "max %", "confirmed: mean, p90, max %", "s"}}}
	c := d.compilation(name)
	if c == nil {
		return noRecord
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

// foreign are the pairings wanted of all devices, of cases that the program does not have.
func (d devices) foreign(wanted func(p *closedloop.Pairing) bool) (all []closedloop.Pairing) {
	for _, r := range d {
		all = append(all, r.ForeignPairings(wanted)...)
	}
	return all
}

// besideCompiled is the same for the systems that other solvers are timed on.
func (d devices) besideCompiled() string {
	return report.Tables(report.BesideMaps(d.foreign(func(p *closedloop.Pairing) bool {
		return report.Undisturbed(p) && withTimes(p) && !slices.ContainsFunc(gallery.Switched(), func(y gallery.Named) bool { return y.Name == p.Case })
	}), d.systems()))
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

// rivals are the methods that a compiled map is set beside: the map alone, and the exact solver that decides when it is
// asked, and the one that also solves between decisions.
var rivals = []string{"direct", report.WarmSolver, report.AheadSolver}

// besideRivals visits the systems that other solvers are timed on: the methods that stand beside its map, that among them
// for which the map was compiled, each with the costs of as many episodes as the map was tested on, all the same, and with
// its times; nil where no quiet run has them.
func (d devices) besideRivals(visit func(name, method string, cost, timed *closedloop.Paired)) {
	for _, name := range d.systems() {
		c, times := d.compilation(name), d.pairing(name)
		costs := cmp.Or(d.manyEpisodes(name), times)
		if c == nil || costs == nil {
			continue
		}
		methods := slices.Clone(rivals)
		if !slices.Contains(methods, c.Test.Method) {
			methods = slices.Insert(methods, 1, c.Test.Method)
		}
		for _, method := range methods {
			cost := pairedMethod(costs, method)
			if cost == nil || cost.Episodes != costs.Pairs[0].Episodes {
				continue
			}
			var timed *closedloop.Paired
			if times != nil {
				timed = pairedMethod(times, method)
			}
			visit(name, method, cost, timed)
		}
	}
}

// mapsInBrief is README's table of the gallery: the plain map and the exact solver, of each what it costs and what its decisions take.
func (d devices) mapsInBrief() string {
	s := report.Section{Rows: [][]string{{"system", "map: extra cost, %", "p50, µs", "first, ms", "solver: extra cost, %", "p50, µs", "first, ms"}}}
	d.besideRivals(func(name, method string, cost, timed *closedloop.Paired) {
		if method != "direct" && method != report.WarmSolver {
			return
		}
		if method == "direct" {
			s.Rows = append(s.Rows, []string{"`" + name + "`"})
		}
		cells := []string{report.PlainPercent(cost.RegretPct, 0, cost.RegretN), "–", "–"}
		if timed != nil && timed.Latency.Running != nil && timed.Latency.Cold != nil {
			cells[1], cells[2] = timed.Latency.Running.P50.Text("%.3g"), (timed.Latency.Cold.P50 / 1e3).Text("%.3g")
		}
		row := &s.Rows[len(s.Rows)-1]
		*row = append(*row, cells...)
	})
	if len(s.Rows) < 2 {
		return ""
	}
	return report.Tables(s)
}

// mapsBesideSolvers is the same in full: a row for each method, with intervals, tails and what it takes between decisions.
func (d devices) mapsBesideSolvers() string {
	s := report.Section{Rows: [][]string{{"system", "method", "unsafe", "extra cost mean (worst), %", report.TimesHeading, "between decisions p50 / p99, ms"}}}
	of := ""
	d.besideRivals(func(name, method string, cost, timed *closedloop.Paired) {
		first := ""
		if name != of {
			first, of = "`"+name+"`", name
		}
		times, between := "–", "–"
		if timed != nil {
			times = report.PlainTimes(&timed.Latency)
			if timed.Prepare != nil {
				between = report.PlainTimes(&closedloop.Latency{Running: timed.Prepare})
			}
		}
		s.Rows = append(s.Rows, []string{
			first, "`" + method + "`", fmt.Sprintf("%d of %d", cost.Episodes-cost.Safe, cost.Episodes),
			meanAndWorst(cost),
			times, between,
		})
	})
	return report.Tables(s)
}

// weightings is what each system's map costs above the optimum at fixed weightings of its objectives, each on the same episodes.
func (d devices) weightings() string {
	s := report.Section{}
	var seeds, commits []string
	for _, name := range d.systems() {
		v := d.steering(name)
		if v == nil || len(v.Front) == 0 {
			s.Absent = append(s.Absent, "`"+name+"`")
			continue
		}
		head, row := []string{"system", "method", "episodes"}, []string{"`" + name + "`", "`" + v.Method + "`", fmt.Sprint(v.Front[0].Episodes)}
		for i := range v.Front {
			p := &v.Front[i]
			cell := "–"
			if p.Compared > 0 && !math.IsNaN(float64(p.RegretPct)) {
				cell = report.PlainPercent(p.RegretPct, 0, p.Compared)
			}
			if p.Compared < p.Episodes {
				cell += fmt.Sprintf(" (%d)", p.Compared)
			}
			head, row = append(head, "w = "+weighting(p.W)+", %"), append(row, cell)
		}
		if s.Rows == nil {
			s.Rows = [][]string{head}
		}
		s.Rows, seeds, commits = append(s.Rows, row), append(seeds, fmt.Sprint(v.Seed)), append(commits, v.Commit)
	}
	if s.Rows == nil {
		return noRecord
	}
	s.Provenance = fmt.Sprintf("Seed %s, commit %s.", report.Distinct(seeds), report.Distinct(commits))
	return report.Tables(s)
}

// steering is a case's sweep over weightings on the first device that has one.
func (d devices) steering(name string) *closedloop.Steering {
	return first(d, func(v *closedloop.Steering) bool { return v.Case == name })
}

func weighting(w []float64) string {
	parts := make([]string, len(w))
	for i, v := range w {
		parts[i] = fmt.Sprintf("%g", v)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// meanAndWorst is the mean regret of a method, and in brackets that of its worst episode.
func meanAndWorst(m *closedloop.Paired) string {
	return fmt.Sprintf("%s (%s)", report.PlainPercent(m.RegretPct, m.RegretCI95, m.RegretN), report.PlainPercent(m.RegretWorst, 0, m.RegretN))
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
	return first(d, func(c *compile.Report) bool { return c.Case == name })
}

// pairing is the undisturbed one of whole methods of a case of the gallery that was recorded with times.
func (d devices) pairing(name string) *closedloop.Pairing { return d.undisturbed(name, withTimes) }

// manyEpisodes is that of the map and its rivals alone, in as many episodes as maps are tested on: without times, so that
// the machine may be busy.
func (d devices) manyEpisodes(name string) *closedloop.Pairing {
	return d.undisturbed(name, func(p *closedloop.Pairing) bool { return !withTimes(p) })
}

func withTimes(p *closedloop.Pairing) bool { return p.Load != nil }

func (d devices) undisturbed(name string, wanted func(p *closedloop.Pairing) bool) *closedloop.Pairing {
	all := d.foreign(func(p *closedloop.Pairing) bool { return p.Case == name && report.Undisturbed(p) && wanted(p) })
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// horizonPeers is the record of the solvers of a receding horizon: the first whose checks
// compare optima.
func (d devices) horizonPeers() *peerrecord.Record {
	return first(d, func(p *peerrecord.Record) bool { return len(p.Checks) > 0 })
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
