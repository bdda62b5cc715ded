package publish

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// latentStep is the constant of the online step that lab/scripts/steps.sh varies.
const latentStep = "latent-step"

// stepSizes are what one latent step does, by its Δt: the root package's BenchmarkLatentStep.
var stepSizes = benchmarkTable{of: "BenchmarkLatentStep", columns: report.Columns{
	{"case", "{0}"}, {"noise", "{1}"}, {"Δt", "{2}"}, {"steps at the cap", "{capped %.4g}"}, {"‖Δz‖", "{moved %.3g}"},
	{"‖γ_L Δz_Lie‖, 10⁻⁹", "{residual_nano %.3g}"}, {"most", "{residual_most_nano %.3g}"}, {"unit of float32 at z, 10⁻⁹", "{float32_unit_nano %.3g}"},
	{"the action moves by, 10⁻⁹ of its range", "{action_share_nano %.3g}"}, {"γ_L for 0.1 % of the range", "{gain_0.1_% %.3g}"}, {"for 1 %", "{gain_1_% %.3g}"},
}}

// stepSizes is the table of them without the names of their parts.
func (d devices) stepSizes() string {
	return strings.NewReplacer("| noise_", "| ", "| step_", "| ").Replace(stepSizes.text(d))
}

// stepped tells whether a pairing is one of lab/scripts/steps.sh: every method on one Δt.
func stepped(p *closedloop.Pairing) bool {
	return len(p.Pairs) > 0 && p.Pairs[0].Constants[latentStep] > 0
}

// stepPairings are a case's by noise and Δt.
func stepPairings(r report.Run) (out []closedloop.Pairing) {
	out = report.Where(r.Records, func(p *closedloop.Pairing) bool { return p.Case == r.Name && stepped(p) })
	slices.SortStableFunc(out, func(a, b closedloop.Pairing) int {
		return cmp.Or(cmp.Compare(a.Noise, b.Noise), cmp.Compare(a.Pairs[0].Constants[latentStep], b.Pairs[0].Constants[latentStep]))
	})
	return out
}

// replacedIn is the row of a pairing whose constants differ from the first's by one alone, of that name and value; nil: none.
func replacedIn(p *closedloop.Pairing, name string, value float64) *closedloop.Paired {
	for i := range p.Pairs[1:] {
		m := &p.Pairs[i+1]
		own := maps.Clone(m.Constants)
		v, has := own[name]
		if delete(own, name); has && v == value && maps.Equal(own, p.Pairs[0].Constants) {
			return m
		}
	}
	return nil
}

// gainsIn are the γ_L above 0 of a pairing, ascending.
func gainsIn(p *closedloop.Pairing) (all []float64) {
	for _, m := range p.Pairs {
		if v := m.Constants["lie-gain"]; v > 0 {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	return all
}

// steps is Algorithm 2 with steps of several sizes, and beside it, in pairs, without its parts.
func (d devices) steps() string {
	s := report.Section{Rows: [][]string{{
		"case", "noise", "Δt, or method", "safe, [95 %]", "cost above the optimum, % ± 95 %, n", "no Lie residual", "residual moves the action by 0.1 %", "by 1 %", "no retraction", "weights of the flow σ alone", "no smoothing",
	}}}
	var shown []closedloop.Pairing
	for _, r := range report.RunsOf(d, (*report.Records).PairedCases) {
		last := -1.0
		for _, p := range stepPairings(r) {
			shown = append(shown, p)
			if p.Noise != last {
				for i := range p.Pairs {
					if m := &p.Pairs[i]; len(m.Constants) == 0 { // no size is theirs
						s.Rows = append(s.Rows, append(stepCells(r.Name, p.Noise, "`"+m.Method+"`", m), "–", "–", "–", "–", "–", "–"))
					}
				}
				last = p.Noise
			}
			row := stepCells(r.Name, p.Noise, p.Pairs[0].Constants[latentStep], &p.Pairs[0])
			gains := append(gainsIn(&p), 0, 0)
			for _, of := range []struct {
				name  string
				value float64
			}{{"lie-gain", 0}, {"lie-gain", gains[0]}, {"lie-gain", gains[1]}, {"retraction", 0}, {"raw-weights", 1}, {"smoothing", 1}} {
				row = append(row, besideWhole(replacedIn(&p, of.name, of.value)))
			}
			s.Rows = append(s.Rows, row)
		}
	}
	s.Provenance = report.RecordedBy(shown)
	return report.Tables(s)
}

func stepCells(name string, noise float64, of any, m *closedloop.Paired) []string {
	return []string{
		name, fmt.Sprint(noise), fmt.Sprint(of), fmt.Sprintf("%s, [%.1f, %.1f] %%", safeShare(m), 100*m.SafeCI95[0], 100*m.SafeCI95[1]),
		fmt.Sprintf("%s, %d", report.Estimate("%.3f", m.RegretPct, m.RegretCI95), m.RegretN),
	}
}

// besideWhole is how often a row is safe and by how much it costs more than the first, where both are safe.
func besideWhole(m *closedloop.Paired) string {
	if m == nil {
		return "–"
	}
	if m.Cost.N == 0 {
		return safeShare(m)
	}
	return fmt.Sprintf("%s; %s %s, n %d", safeShare(m), m.Cost.Mean.Text("%+.4f"), report.Interval("%+.4f", m.Cost.MeanCI95), m.Cost.N)
}

// obstacleAge is the plant's parameter by which the limit of Case 1 is the ellipse of another time.
const obstacleAge = "obstacle-age"

// laterLimits are the safe episodes of Case 1 with the paper's limit, how many of them are inside the ellipse where it is as the
// robot gets there, and episodes with that as the limit.
func (d devices) laterLimits() string {
	s := report.Section{Rows: [][]string{{
		"case", "method", "limit at t: safe", "of these inside the ellipse of t + 1", "least ψ at t + 1", "limit at t + 1: safe", "cost above its optimum, % ± 95 %", "median", "p90", "n",
	}}}
	counted := d.printed(below("BenchmarkObstacleAge"))
	if counted == nil {
		return noRecord
	}
	var shown []closedloop.Pairing
	for _, r := range report.RunsOf(d, (*report.Records).PairedCases) {
		for _, p := range report.Of[closedloop.Pairing](r.Records) {
			if age, has := p.Shift[obstacleAge]; p.Case != r.Name || !has || age != 0 {
				continue
			}
			shown = append(shown, p)
			for i := range p.Pairs {
				m := &p.Pairs[i]
				counts := counting(counted, r.Name, m.Method)
				s.Rows = append(s.Rows, []string{
					r.Name, "`" + m.Method + "`", fmt.Sprintf("%.0f/%.0f", counts["safe"], counts["episodes"]), fmt.Sprintf("%.0f", counts["inside"]), fmt.Sprintf("%.3f", counts["least_psi"]),
					fmt.Sprintf("%.0f/%.0f", counts["safe_later"], counts["episodes"]), report.Estimate("%.4f", m.RegretPct, m.RegretCI95), m.Regret.Median.Text("%.4f"), m.Regret.P90.Text("%.4f"), fmt.Sprint(m.RegretN),
				})
			}
		}
	}
	s.Provenance = report.RecordedBy(shown) + " " + originOf(counted, false)
	return report.Tables(s)
}

// counting are the metrics of one method of BenchmarkObstacleAge.
func counting(b *peerrecord.Benchmarked, name, method string) map[string]float64 {
	for _, m := range b.Benchmarks {
		if m.Name == "BenchmarkObstacleAge/"+name+"/"+method {
			return m.Metrics
		}
	}
	return nil
}
