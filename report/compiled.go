package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

// checkCompilation refuses a record that the tables cannot index.
func checkCompilation(c *compile.Report) error {
	if c.Case == "" || c.Best < 0 || c.Best >= len(c.Rounds) {
		return fmt.Errorf("a compilation of case %q whose map is of round %d of %d", c.Case, c.Best, len(c.Rounds))
	}
	return nil
}

// compilationSections are a table of every map that was compiled, and one of methods on the
// same episodes for the cases that the program does not have, as those of the gallery.
func (r *Records) compilationSections() (out []section) {
	if names := r.compiledCases(); len(names) > 0 {
		s := compilations(r.Compilations, names)
		s.title = "Maps compiled from equations"
		out = append(out, s)
	}
	if s := besideMaps(r.foreignPairings(), nil); len(s.rows) > 1 {
		s.title = "Methods beside compiled maps"
		out = append(out, s)
	}
	return out
}

// compiledCases are those of the compilations, by name.
func (r *Records) compiledCases() (names []string) {
	for _, c := range r.Compilations {
		names = append(names, c.Case)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// loud is how many CPUs others may have while one loop is timed; beyond it the times are not
// the loop's own.
const loud = 0.25

// spoilt tells whether a load that is known was too much to time beside.
func spoilt(l *closedloop.Load) bool { return l != nil && l.Others+l.Stolen > loud }

// compilations is what maps reach from the starts that no decision has looked at: the first of
// every name, and which of them there is none of.
func compilations(all []compile.Report, names []string) section {
	s := section{rows: [][]string{{"case", "test by", "unsafe", "of these no way", "mean %", "p90 %", "max %", "no optimum", "rescued %", "p50 / p99, µs", "target %", "met", "scenarios, samples", "minutes", "held-out mean %, by method"}}}
	var on []*closedloop.Load
	var commits, devices, busy, missed []string
	for _, name := range names {
		i := slices.IndexFunc(all, func(c compile.Report) bool { return c.Case == name })
		if i < 0 {
			s.lack([]string{"`" + name + "`", notRecorded}, nil)
			continue
		}
		c, scenarios := &all[i], 0
		for _, round := range c.Rounds[:c.Best+1] {
			scenarios += round.Scenarios
		}
		t := &c.Test
		times, minutes, met := number("%.3g", float64(t.P50))+" / "+number("%.3g", float64(t.P99)), fmt.Sprintf("%.0f", c.Seconds/60), "yes"
		timed := cmp.Or(c.TimesLoad, c.Load)
		if spoilt(timed) {
			times = "–"
			busy = append(busy, fmt.Sprintf("`%s` (others had %.2f CPUs)", name, timed.Others+timed.Stolen))
		} else {
			on = append(on, timed)
		}
		if spoilt(c.Load) {
			minutes = "–"
		}
		if !c.Met {
			met = "no"
			missed = append(missed, fmt.Sprintf(" What would help `%s`: %s.", name, c.Advice))
		}
		var choice []string
		for _, m := range c.Choice {
			choice = append(choice, fmt.Sprintf("`%s` %s", m.Method, number("%.3g", float64(m.Mean))))
		}
		s.rows = append(s.rows, []string{
			"`" + name + "`", "`" + t.Method + "`", fmt.Sprintf("%d of %d", t.Unsafe, t.Episodes), fmt.Sprint(t.NoWay),
			number("%.3g", float64(t.Mean)), number("%.3g", float64(t.P90)), number("%.3g", float64(t.Max)), fmt.Sprint(t.Unsolved), number("%.2g", float64(t.Rescued)),
			times, fmt.Sprintf("%g", c.Target.Mean), met, fmt.Sprintf("%d, %d", scenarios, c.Rounds[c.Best].Samples), minutes, strings.Join(choice, ", "),
		})
		commits, devices = append(commits, c.Commit), append(devices, c.Device)
	}
	if len(commits) > 0 {
		s.note = fmt.Sprintf("Commit %s, %s.", distinct(commits), distinct(devices))
	}
	if len(on) > 0 {
		s.note += " " + loads(on)
	}
	if len(busy) > 0 {
		s.note += " Times taken beside other work are left out: " + strings.Join(busy, ", ") + "."
	}
	s.note += strings.Join(missed, "")
	return s
}

// distinct are the different ones of some words, in order.
func distinct(words []string) string {
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// compiled are the maps of all devices, each case's on its first, the systems that other
// solvers are timed on before others.
func (d devices) compiled() string {
	names := d.systems()
	var all []compile.Report
	for _, r := range d {
		for _, name := range r.compiledCases() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		all = append(all, r.Compilations...)
	}
	return tables(compilations(all, names))
}

// rounds are those of a case's compilation, with the reason of each.
func (d devices) rounds(name string) string {
	s := section{rows: [][]string{{"round", "why", "scenarios (near the worst)", "samples", "epochs", "own starts, mean %", "held-out, mean %", "p90 %", "max %", "confirmed: mean, p90, max %", "s"}}}
	for _, r := range d {
		i := slices.IndexFunc(r.Compilations, func(c compile.Report) bool { return c.Case == name })
		if i < 0 {
			continue
		}
		c := &r.Compilations[i]
		for _, round := range c.Rounds {
			confirmed, seconds := "–", "–"
			if m := round.Confirmed; m != nil {
				confirmed = number("%.3g", float64(m.Mean)) + ", " + number("%.3g", float64(m.P90)) + ", " + number("%.3g", float64(m.Max))
			}
			if !spoilt(c.Load) {
				seconds = fmt.Sprintf("%.0f", round.Seconds.Solve+round.Seconds.Train+round.Seconds.Evaluate)
			}
			s.rows = append(s.rows, []string{
				string(round.Kind), round.Why, fmt.Sprintf("%d (%d)", round.Scenarios, round.Focused), fmt.Sprint(round.Samples), fmt.Sprint(round.Epochs), number("%.3g", float64(round.Training.Mean)),
				number("%.3g", float64(round.HeldOut.Mean)), number("%.3g", float64(round.HeldOut.P90)), number("%.3g", float64(round.HeldOut.Max)), confirmed, seconds,
			})
		}
		s.note = fmt.Sprintf("Rounds ended: %s. Commit %s, %s. %s", c.Ended, c.Commit, c.Device, loads([]*closedloop.Load{c.Load}))
		return tables(s)
	}
	s.lack([]string{notRecorded}, nil)
	return tables(s)
}

// foreignPairings are those of cases that the program does not have, on drawn scenes of the
// plant as it is.
func (r *Records) foreignPairings() (out []closedloop.Pairing) {
	known := r.knownPaired()
	for _, name := range r.pairedCases() {
		if !slices.Contains(known, name) {
			out = append(out, r.paired(name, undisturbedPlant)...)
		}
	}
	return out
}

// besideMaps is methods on the same episodes, case by case; names are those of which there
// has to be a row, in the order of the table.
func besideMaps(all []closedloop.Pairing, names []string) section {
	s := section{rows: [][]string{{"case", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "p50 / p99, ms"}}}
	var shown []closedloop.Pairing
	show := func(p closedloop.Pairing) {
		shown = append(shown, p)
		for i, m := range p.Pairs {
			row := pairedRow([]string{"`" + p.Case + "`"}, i, &m)
			if spoilt(p.Load) {
				row[len(row)-1] = "–"
			}
			s.rows = append(s.rows, row)
		}
	}
	for _, name := range names {
		if i := slices.IndexFunc(all, func(p closedloop.Pairing) bool { return p.Case == name }); i >= 0 {
			show(all[i])
		} else {
			s.lack([]string{"`" + name + "`", notRecorded}, nil)
		}
	}
	for _, p := range all {
		if !slices.Contains(names, p.Case) {
			show(p)
		}
	}
	if len(shown) > 0 {
		s.note = recordedBy(shown)
	}
	return s
}

// besideCompiled is the same for the systems that other solvers are timed on.
func (d devices) besideCompiled() string {
	var all []closedloop.Pairing
	for _, r := range d {
		all = append(all, r.foreignPairings()...)
	}
	return tables(besideMaps(all, d.systems()))
}

// horizonPeers is the record of the solvers of a receding horizon: the first whose checks
// compare optima.
func (d devices) horizonPeers() *peerrecord.Record {
	for _, r := range d {
		for i := range r.Peers {
			if len(r.Peers[i].Checks) > 0 {
				return &r.Peers[i]
			}
		}
	}
	return nil
}

// systems are those of that record.
func (d devices) systems() (names []string) {
	if r := d.horizonPeers(); r != nil {
		for _, c := range r.Checks {
			names = append(names, c.Case)
		}
	}
	return names
}

// system is what a record says of one system.
type system struct {
	check  peerrecord.Check
	peers  []string // in the order of the record
	ratios []peerrecord.Ratio
}

func systemsOf(r *peerrecord.Record) (all []system) {
	for _, c := range r.Checks {
		s := system{check: c}
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
	s := section{note: peersOn(r), rows: [][]string{{"system", "decisions", "ours warm p50 / p99 / cold, ms"}}}
	systems := systemsOf(r)
	peers := warmPeers(systems)
	for _, p := range peers {
		s.rows[0] = append(s.rows[0], peerName(p))
	}
	s.rows[0] = append(s.rows[0], "unsolved, ours", "theirs", "equal", "above")
	ops := []string{warm, warmTail, "cold p50"}
	for _, y := range systems {
		row, theirs := []string{"`" + y.check.Case + "`", fmt.Sprint(y.check.Decisions), "–"}, []string{}
		for _, p := range peers {
			var cell, ours []string
			for _, op := range ops {
				if v := y.ratio(p, op); v != nil {
					cell, ours = append(cell, times(v.Ratio)), append(ours, fmt.Sprintf("%.3g", v.OursUS/1e3))
				}
			}
			if len(cell) < len(ops) {
				row, theirs = append(row, "–"), append(theirs, "–")
				continue
			}
			row[2] = strings.Join(ours, " / ")
			row, theirs = append(row, strings.Join(cell, " / ")), append(theirs, fmt.Sprint(y.ratio(p, warm).Unsolved))
		}
		s.rows = append(s.rows, append(row, fmt.Sprint(y.check.Unsolved), strings.Join(theirs, " / "), fmt.Sprintf("%.0e", y.check.Worst), fmt.Sprintf("%.0e", y.check.Above)))
	}
	return tables(s)
}

// peersOn says how the record was taken, and what is not in it.
func peersOn(r *peerrecord.Record) string {
	text := fmt.Sprintf("%s Commit %s, %s. %s", r.Note, r.Commit, r.Device, loads([]*closedloop.Load{r.Load}))
	for _, m := range r.Missing {
		text += " Not in this run: " + m + "."
	}
	return text
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
	s := section{note: peersOn(r), rows: [][]string{{"system", "method", "its p50 / p99, µs"}}}
	for _, p := range peers {
		s.rows[0] = append(s.rows[0], peerName(p)+"'s, µs")
	}
	s.rows[0] = append(s.rows[0], "fastest that solves all", "over the method's p50 / p99", "warm `nmpc`'s over its p50")
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
		name, solves := "`"+y.check.Case+"`", cmp.Or(peerName(fastest), "none")
		for _, m := range methods {
			own, tail := y.ratio(ownSolver, m+" p50"), y.ratio(ownSolver, m+" p99")
			if tail == nil {
				continue
			}
			over := "–"
			if v, tail := y.ratio(fastest, m+" p50"), y.ratio(fastest, m+" p99"); v != nil && tail != nil {
				over = times(v.Ratio) + " / " + times(tail.Ratio)
			}
			row := []string{name, "`" + m + "`", fmt.Sprintf("%.3g / %.3g", own.OursUS, tail.OursUS)}
			s.rows = append(s.rows, slices.Concat(row, beside, []string{solves, over, times(own.Ratio)}))
		}
		if len(methods) == 0 {
			s.rows = append(s.rows, slices.Concat([]string{name, notRecorded, "–"}, beside, []string{solves, "–", "–"}))
		}
	}
	return tables(s)
}
