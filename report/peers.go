package report

import "fmt"

// Peers is a record of other programs' times beside ours in the same run.
type Peers struct {
	Device  string      `json:"device"`
	Commit  string      `json:"commit"`
	How     string      `json:"how,omitempty"` // times were taken; empty: CPU time of one thread, medians of alternating rounds
	Missing []string    `json:"missing"`       // peers that were not at hand, and why
	Ratios  []PeerRatio `json:"ratios"`
}

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
	how := p.How
	if how == "" {
		how = "CPU time of one thread, medians of alternating rounds"
	}
	s := section{
		title: "Beside other programs",
		note:  fmt.Sprintf("Both in one run, commit %s, %s; %s. The ratio is the peer's time over ours, with its spread over the rounds.", p.Commit, p.Device, how),
		rows:  [][]string{{"operation", "case", "peer", "batch", "ours, µs", "peer, µs", "ratio", "spread"}},
	}
	for _, m := range p.Missing {
		s.note += " Not in this run: " + m + "."
	}
	for _, v := range p.Ratios {
		s.rows = append(s.rows, []string{
			v.Op, v.Case, v.Peer, fmt.Sprint(v.Batch), fmt.Sprintf("%.1f", v.OursUS), fmt.Sprintf("%.0f", v.PeerUS),
			short(v.Ratio), fmt.Sprintf("[%s, %s]", short(v.Lo), short(v.Hi)),
		})
	}
	return s
}

// short is a ratio to two figures or whole.
func short(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
