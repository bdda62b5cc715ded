package publish

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/bench/report"
)

// outages are the power flows without a branch each beside another program's, by bench/peers/outages.
func (d devices) outages() string {
	for _, r := range d {
		for _, p := range slices.Backward(r.Peers) {
			if len(p.Ratios) == 0 || p.Ratios[0].Op != "outages of branches" {
				continue
			}
			s := report.Section{
				Note: cmp.Or(p.Note, report.PeersNote) + ".", Provenance: report.Origin("", p.Commit, p.Device, p.Load),
				Rows: [][]string{{"network", "outages", "ours, µs each", p.Ratios[0].Peer + ", µs", "ratio", "solved by it alone", "other solutions"}},
			}
			for _, v := range p.Ratios {
				s.Rows = append(s.Rows, []string{v.Case, fmt.Sprint(v.Decisions), fmt.Sprintf("%.1f", v.OursUS), fmt.Sprintf("%.1f", v.PeerUS),
					fmt.Sprintf("%s [%s, %s]", report.Ratio(v.Ratio), report.Ratio(v.Lo), report.Ratio(v.Hi)), fmt.Sprint(v.Unsolved), fmt.Sprint(v.Different)})
			}
			return report.Tables(s)
		}
	}
	return noRecord
}

// LearnedFlows is a run of bench/peers/learned: exact optima of scenarios that learned optimal power flows
// are measured at.
type LearnedFlows struct {
	Device  string          `json:"device"`
	Commit  string          `json:"commit"`
	Seed    int             `json:"seed"`
	Average float64         `json:"load_average"`
	Note    string          `json:"note"`
	Rows    []LearnedRecipe `json:"rows"`
}

// LearnedRecipe is a network at the loads and topologies of one data set.
type LearnedRecipe struct {
	Network    string  `json:"network"`
	Recipe     string  `json:"recipe"`
	Scenarios  int     `json:"scenarios"`
	Optimal    int     `json:"optimal"`
	Infeasible int     `json:"infeasible"`
	Median     int     `json:"median_iterations"`
	Largest    int     `json:"largest_iterations"`
	BatchMs    float64 `json:"batch_ms"`
	AloneMs    float64 `json:"alone_ms"`
	ASecond    float64 `json:"solves_per_cpu_second"`
	Mismatch   float64 `json:"max_mismatch_pu"`
	Violation  float64 `json:"max_violation_pu"`
}

// learnedFlows is the table of the last such run.
func (d devices) learnedFlows() string {
	p := last(d, learnedRuns.of)
	if p == nil {
		return noRecord
	}
	s := report.Section{
		Note: p.Note, Provenance: fmt.Sprintf("Seed %d, commit %s, %s, load average %.1f.", p.Seed, p.Commit, p.Device, p.Average),
		Rows: [][]string{{"network", "recipe", "optimal", "infeasible", "iterations: median, largest", "in lanes, ms", "alone, ms", "a second of CPU", "imbalance, pu", "violation, pu"}},
	}
	for _, v := range p.Rows {
		s.Rows = append(s.Rows, []string{v.Network, v.Recipe, fmt.Sprintf("%d of %d", v.Optimal, v.Scenarios), fmt.Sprint(v.Infeasible), fmt.Sprintf("%d, %d", v.Median, v.Largest),
			fmt.Sprintf("%.3g", v.BatchMs), fmt.Sprintf("%.3g", v.AloneMs), fmt.Sprintf("%.0f", v.ASecond), tiny(v.Mismatch), tiny(v.Violation)})
	}
	return report.Tables(s)
}
