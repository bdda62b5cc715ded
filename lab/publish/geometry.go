package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
)

// plainMap ends the names of plain networks that decide in a map's place.
const plainMap = "-plain"

// plainKinds are the maps of such a pairing, in its order.
var plainKinds = []string{"the paper's losses", "plain: the action loss alone", report.BundledMap}

// plainPairings are a case's of a map of the paper's losses, a plain network of the same data, and the bundled map.
func plainPairings(r report.Run) (out []closedloop.Pairing) {
	out = report.Where(r.Records, func(p *closedloop.Pairing) bool {
		return p.Case == r.Name && strings.HasSuffix(p.Map.File, plainMap) && len(p.Pairs) == len(plainKinds)
	})
	slices.SortStableFunc(out, func(a, b closedloop.Pairing) int { return cmp.Compare(b.Regime, a.Regime) }) // the paper's loads first
	return out
}

// geometry is what the paper's losses beside that of actions are worth to `direct`.
func (d devices) geometry() string {
	headings := []string{"case", "loads", "trained by", "samples", "sha256", "safe", "decisions that break a limit", "cost above the optimum, % ± 95 %", "less the first's, % [95 %]", "median", "n"}
	return d.paired("", headings, (*report.Records).PairedCases, plainPairings, func(r report.Run, p *closedloop.Pairing, i int) []string {
		m, samples, less := &p.Pairs[i], p.Map.Samples, []string{"–", "–"}
		if i == len(plainKinds)-1 {
			samples = r.Cases[r.Name].Samples
		}
		if i > 0 {
			less = []string{m.Difference.Mean.Text("%+.4f") + " " + report.Interval("%+.4f", m.Difference.MeanCI95), m.Difference.Median.Text("%+.4f")}
		}
		return slices.Concat([]string{
			"`" + r.Name + "`", report.OrDash(p.Regime), plainKinds[i], grouped(samples), sumHead(m.ModelSHA256), safeShare(m),
			fmt.Sprintf("%d of %d", m.Violations, m.Decisions), report.Estimate("%.4f", m.RegretPct, m.RegretCI95),
		}, less, []string{fmt.Sprint(m.Compared)})
	})
}

// tradeOffMethods are those that tradeOff sets side by side.
var tradeOffMethods = []string{"mo-opf", "direct", report.AlgorithmTwo, "runopf", "merit", "hold"}

// tradeOff is what methods of opf30 cost where its priority is in force, and at fixed weightings of its objectives, with
// how far these move along the exact front from the dispatch of least cost.
func (d devices) tradeOff() string {
	const name, loads = "opf30", "envelope"
	s := report.Section{Rows: [][]string{{"weighting", "J₁, %", "J₂, %", "J₃, %"}}}
	for _, method := range tradeOffMethods {
		s.Rows[0] = append(s.Rows[0], "`"+method+"`")
	}
	s.Rows[0] = append(s.Rows[0], "trajectories")
	var shown []closedloop.Pairing
	for _, r := range report.RunsOf(d, (*report.Records).PairedCases) {
		if r.Name != name {
			continue
		}
		own, episodes := []string{"its priority", "–", "–", "–"}, "–"
		evals := r.EvaluationsWhere(name, func(e *closedloop.Result) bool { return e.Regime == loads && e.Noise == 0 })
		for _, method := range tradeOffMethods {
			cell := "–"
			if e := report.FindMethod(method, evals); e != nil {
				mean, sem := report.Excess(e)
				cell, episodes = report.Within("%.4f", mean, sem, e.RegretN)+unsafeOf(e.RegretN, e.Episodes), fmt.Sprint(e.Episodes)
			}
			own = append(own, cell)
		}
		s.Rows = append(s.Rows, append(own, episodes))
		for _, p := range report.Of[closedloop.Pairing](r.Records) {
			if p.Case != name || p.Regime != loads || len(p.Preference) == 0 {
				continue
			}
			shown = append(shown, p)
			row := append([]string{"w = " + weighting(p.Preference)}, d.alongFront(name, p.Preference)...)
			for _, method := range tradeOffMethods {
				cell := "–"
				if m := pairedMethod(&p, method); m != nil {
					cell = report.Estimate("%.4f", m.RegretPct, m.RegretCI95) + unsafeOf(m.RegretN, m.Episodes)
				}
				row = append(row, cell)
			}
			s.Rows = append(s.Rows, append(row, fmt.Sprint(p.Pairs[0].Episodes)))
		}
	}
	if len(shown) > 0 {
		s.Provenance = "Of the weightings: " + report.RecordedBy(shown)
	}
	return report.Tables(s)
}

// unsafeOf says of how many episodes a cost is, where it is not of all.
func unsafeOf(n, episodes int) string {
	if n == episodes {
		return ""
	}
	return fmt.Sprintf(" (n %d)", n)
}

// alongFront is by how much each objective of the exact front of a case differs at w from that where the last objective
// alone counts, in %; dashes where no sweep has them.
func (d devices) alongFront(name string, w []float64) []string {
	cells := slices.Repeat([]string{"–"}, len(w))
	front := d.steering(name)
	if front == nil {
		return cells
	}
	last := make([]float64, len(w))
	last[len(w)-1] = 1
	at, from := pointAt(front, w), pointAt(front, last)
	if at == nil || from == nil {
		return cells
	}
	for i, j := range at.OracleJ {
		cells[i] = fmt.Sprintf("%+.1f", 100*(float64(j/from.OracleJ[i])-1))
	}
	return cells
}

// pointAt is that of a sweep at some weights; nil: there is none.
func pointAt(front *closedloop.Steering, w []float64) *closedloop.FrontPoint {
	for i := range front.Front {
		if slices.Equal(front.Front[i].W, w) {
			return &front.Front[i]
		}
	}
	return nil
}
