package report

import (
	"cmp"
	"fmt"
)

// Peers is a record of other programs' times beside ours in the same run.
type Peers struct {
	Device  string      `json:"device"`
	Commit  string      `json:"commit"`
	Missing []string    `json:"missing"` // peers that were not at hand, and why
	Note    string      `json:"note"`    // how times were taken, where not as in peersNote
	Ratios  []PeerRatio `json:"ratios"`
}

const peersNote = "Both in one run; CPU time of one thread, medians of alternating rounds."

// PeerRatio is one comparison: Ratio is the peer's time over ours, [Lo, Hi] its
// spread over the rounds of the run.
type PeerRatio struct {
	Op     string  `json:"op"`
	Case   string  `json:"case"`
	Peer   string  `json:"peer"`
	Batch  int     `json:"batch"`
	Ratio  float64 `json:"ratio"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
	OursUS float64 `json:"ours_us"`
	PeerUS float64 `json:"peer_us"`
}

func peersSection(p Peers) section {
	s := section{
		title: "Beside other programs",
		note:  fmt.Sprintf("%s Commit %s, %s. The ratio is the peer's time over ours, with its spread over the rounds.", cmp.Or(p.Note, peersNote), p.Commit, p.Device),
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
