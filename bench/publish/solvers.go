package publish

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

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
	s := report.Section{Note: peersOn(r), Provenance: report.Origin("", r.Commit, r.Device, r.Load), Rows: [][]string{{"system", "decisions", "ours warm p50 / p99 / cold, ms"}}}
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

// peersOn says how the record was taken, and what is not in it.
func peersOn(r *peerrecord.Record) string {
	text := r.Note
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
	s := report.Section{Note: peersOn(r), Provenance: report.Origin("", r.Commit, r.Device, r.Load), Rows: [][]string{{"system", "method", "its p50 / p99, µs"}}}
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
