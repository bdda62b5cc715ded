package publish

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
)

// BesidePandapower is a run of bench/peers/pandapower.
type BesidePandapower struct {
	Device  string              `json:"device"`
	Commit  string              `json:"commit"`
	Peer    string              `json:"peer"` // with its version
	Numba   bool                `json:"numba"`
	Rounds  int                 `json:"rounds"`
	Average float64             `json:"load_average"` // of a quarter of an hour, at the end
	Rows    []PandapowerNetwork `json:"rows"`
}

// PandapowerNetwork is a network solved by both: largest differences of all elements and tables,
// times of whole calls, and of ours the solve alone.
type PandapowerNetwork struct {
	Network string  `json:"network"`
	Op      string  `json:"op"` // runpp or runopp
	Buses   int     `json:"buses"`
	Voltage float64 `json:"voltage_pu"`
	Angle   float64 `json:"angle_deg"`
	Power   float64 `json:"power_mw"` // and MVAr
	Loading float64 `json:"loading_pct"`
	// Of an optimum.
	Cost         *float64 `json:"cost"`
	CostRelative float64  `json:"cost_relative"`
	OursMs       float64  `json:"ours_ms"`
	PeerMs       float64  `json:"peer_ms"`
	SolveMs      float64  `json:"solve_ms"`
	Ratio        float64  `json:"ratio"` // the peer's time over ours, from Lo to Hi over the rounds
	Lo           float64  `json:"lo"`
	Hi           float64  `json:"hi"`
	// What was raised; "" where there is a solution.
	PeerFailed string `json:"peer_failed"`
	OursFailed string `json:"ours_failed"`
}

// pandapower are the tables of a run: power flows, optima, and what either does not solve.
func (d devices) pandapower() string {
	p := last(d, besidePandapower.of)
	if p == nil {
		return noRecord
	}
	numba := "without numba"
	if p.Numba {
		numba = "with numba"
	}
	flows := report.Section{
		Note: fmt.Sprintf("Power flows, `runpp`: %s %s, least of %d rounds, [least, largest ratio of a round]:", p.Peer, numba, p.Rounds),
		Rows: [][]string{{"network", "buses", "pu", "°", "MW, MVAr", "loading %", "ours / pandapower, ms", "ratio", "solve, ms"}},
	}
	optima := report.Section{
		Note: "Optimal power flows, `runopp`:", Provenance: fmt.Sprintf("Commit %s, %s, load average %.1f.", p.Commit, p.Device, p.Average),
		Rows: [][]string{{"network", "cost, ours", "relative difference", "pu", "MW, MVAr", "ours / pandapower, ms", "ratio", "solve, ms"}},
	}
	var failed strings.Builder
	for i := range p.Rows {
		n := &p.Rows[i]
		switch {
		case n.PeerFailed != "":
			fmt.Fprintf(&failed, "* %s, `%s`: pandapower %s, gpc %s\n", n.Network, n.Op, firstLine(n.PeerFailed), n.ours())
		case n.Op == "runpp":
			flows.Rows = append(flows.Rows, slices.Concat([]string{n.Network, fmt.Sprint(n.Buses), tiny(n.Voltage), tiny(n.Angle), tiny(n.Power), tiny(n.Loading)}, n.times()))
		case n.Cost != nil:
			optima.Rows = append(optima.Rows, slices.Concat([]string{n.Network, fmt.Sprintf("%.4f", *n.Cost), tiny(n.CostRelative), tiny(n.Voltage), tiny(n.Power)}, n.times()))
		}
	}
	text := report.Tables(flows, optima)
	if failed.Len() > 0 {
		text += "\nWhere pandapower has no solution:\n\n" + failed.String()
	}
	return text
}

// times are the cells of a row that are times.
func (n *PandapowerNetwork) times() []string {
	return []string{fmt.Sprintf("%.0f / %.0f", n.OursMs, n.PeerMs), fmt.Sprintf("%s [%s, %s]", report.Ratio(n.Ratio), report.Ratio(n.Lo), report.Ratio(n.Hi)), fmt.Sprintf("%.1f", n.SolveMs)}
}

// ours is what gpc comes to where the peer does not.
func (n *PandapowerNetwork) ours() string {
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

// tiny is a difference as a power of ten with one digit.
func tiny(v float64) string {
	if !(math.Abs(v) > 0) {
		return "0"
	}
	return strings.NewReplacer("e-0", "e-", "e+0", "e+").Replace(fmt.Sprintf("%.0e", v))
}
