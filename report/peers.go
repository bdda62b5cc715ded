package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

const peersNote = "Both in one run; CPU time of one thread, medians of alternating rounds."

// peersSection is a record of other programs' times beside ours.
func peersSection(p peerrecord.Record) section {
	var peers []string
	for _, v := range p.Ratios {
		if !slices.Contains(peers, v.Peer) {
			peers = append(peers, v.Peer)
		}
	}
	s := section{
		title: "Beside " + strings.Join(peers, ", "),
		note:  fmt.Sprintf("%s Commit %s, %s. The ratio is the peer's time over ours, with its spread over the rounds. %s", cmp.Or(p.Note, peersNote), p.Commit, p.Device, loads([]*closedloop.Load{p.Load})),
		rows:  [][]string{{"operation", "case", "peer", "batch", "ours, µs", "peer, µs", "ratio", "spread"}},
	}
	for _, m := range p.Missing {
		s.note += " Not in this run: " + m + "."
	}
	for _, v := range p.Ratios {
		s.rows = append(s.rows, []string{
			v.Op, v.Case, v.Peer, fmt.Sprint(v.Batch), fmt.Sprintf("%.1f", v.OursUS), fmt.Sprintf("%.0f", v.PeerUS),
			times(v.Ratio), "[" + times(v.Lo) + ", " + times(v.Hi) + "]",
		})
	}
	return s
}

// times is a ratio to three digits, or all of them before the point.
func times(ratio float64) string {
	if ratio >= 100 {
		return fmt.Sprintf("%.0f", ratio)
	}
	return fmt.Sprintf("%.3g", ratio)
}
