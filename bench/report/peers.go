package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/peerrecord"
)

const PeersNote = "Both in one run; CPU time of one thread, medians of alternating rounds."

// peersSection is a record of other programs' times beside ours.
func peersSection(p peerrecord.Record) Section {
	var peers []string
	for _, v := range p.Ratios {
		if !slices.Contains(peers, v.Peer) {
			peers = append(peers, v.Peer)
		}
	}
	s := Section{
		title:      "Beside " + strings.Join(peers, ", "),
		Note:       cmp.Or(p.Note, PeersNote) + " The ratio is the peer's time over ours, with its spread over the rounds.",
		Provenance: Origin("", p.Commit, p.Device, p.Load),
		Rows:       [][]string{{"operation", "case", "peer", "batch", "ours, µs", "peer, µs", "ratio", "spread"}},
	}
	for _, m := range p.Missing {
		s.Note += " Not in this run: " + m + "."
	}
	for _, c := range p.Checks {
		lower := ""
		if c.Lower > 0 {
			lower = fmt.Sprintf(", in %d at lower ones", c.Lower)
		}
		s.Note += fmt.Sprintf(" %s: %d of our %d decisions without a solution; %s from our plans ends at our costs to %.1e in %d of them%s, plans as timed are within %.1e.",
			c.Case, c.Unsolved, c.Decisions, c.Peer, c.Worst, c.Compared, lower, c.Above)
	}
	decisions := slices.ContainsFunc(p.Ratios, func(v peerrecord.Ratio) bool { return v.Decisions > 0 })
	if decisions {
		s.Rows[0] = append(s.Rows[0], "decisions", "unsolved by the peer", "at a lower cost", "at a higher cost")
	}
	for _, v := range p.Ratios {
		s.Rows = append(s.Rows, []string{
			v.Op, v.Case, v.Peer, fmt.Sprint(v.Batch), fmt.Sprintf("%.1f", v.OursUS), fmt.Sprintf("%.0f", v.PeerUS),
			Ratio(v.Ratio), "[" + Ratio(v.Lo) + ", " + Ratio(v.Hi) + "]",
		})
		if decisions {
			row := &s.Rows[len(s.Rows)-1]
			*row = append(*row, fmt.Sprint(v.Decisions), fmt.Sprint(v.Unsolved), fmt.Sprint(v.Lower), fmt.Sprint(v.Higher))
		}
	}
	return s
}

// Ratio is a ratio to three digits, or all of them before the point.
func Ratio(ratio float64) string {
	if ratio >= 100 {
		return fmt.Sprintf("%.0f", ratio)
	}
	return fmt.Sprintf("%.3g", ratio)
}
