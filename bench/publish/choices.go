package publish

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
)

// noRecord is what stands where a table will be once its command has been recorded.
const noRecord = "Not recorded yet.\n"

// regimesOfLoads are the test loads of the dispatch.
var regimesOfLoads = [][2]string{{"paper", "paper"}, {"envelope", "envelope"}, {"swing", "swing"}}

// weights are what weights of the raw objectives cost in J_total, domains/opf's BenchmarkWeights.
func (d devices) weights() string {
	return d.gridOf("BenchmarkWeights", false, grid{
		corner:  "weight of J₁ : J₂ : J₃",
		columns: [][2]string{{"0.7", "level 0.70"}, {"0.9", "0.90"}, {"0.99", "0.99"}},
		rows: [][2]string{
			{"100:1:1", "100 : 1 : 1"}, {"1000:1:1", "1000 : 1 : 1"}, {"10000:1:1", "10⁴ : 1 : 1"},
			{"1:10:1", "1 : 10 : 1"}, {"1:100:1", "1 : 100 : 1"}, {"1:1000:1", "1 : 1000 : 1"},
		},
		cell: func(b *Benchmarked, level, weights string) string {
			v := b.least("BenchmarkWeights/"+level+"/"+weights, "J_total_%")
			if math.IsNaN(v) {
				return "–"
			}
			return report.Number("%.4f", v) + " %"
		},
	})
}

// tightening is what staying away from limits costs, domains/opf's BenchmarkTightening.
func (d devices) tightening() string {
	return d.gridOf("BenchmarkTightening", false, grid{
		corner:  "tightening, pu",
		columns: regimesOfLoads,
		rows: [][2]string{
			{"V0.003,Q0.005,S0.005", "V 0.003, Q 0.005, S 0.005"}, {"V0.0015,Q0.0025,S0.0025", "half of it"}, {"V0.00075,Q0.00125,S0.00125", "a quarter"},
			{"V0.003,Q0,S0", "V 0.003 alone"}, {"V0,Q0,S0.005", "S 0.005 alone"},
		},
		cell: func(b *Benchmarked, regime, tightening string) string {
			name := "BenchmarkTightening/" + regime + "/" + tightening
			if math.IsNaN(b.least(name, "gap_%")) {
				return "–"
			}
			return fmt.Sprintf("%.4f %% (%.0f)", b.least(name, "gap_%"), b.least(name, "unsolved"))
		},
	})
}

// receding is what look-ahead and linearisations are worth to `mpc`, domains/opf's
// BenchmarkReceding.
func (d devices) receding() string {
	return d.gridOf("BenchmarkReceding", false, grid{
		corner:  "`mpc`",
		columns: regimesOfLoads,
		rows: [][2]string{
			{"steps5,iterations20,bare=false", "whole"}, {"steps1,iterations20,bare=false", "of one step"}, {"steps10,iterations20,bare=false", "of ten steps"},
			{"steps5,iterations1,bare=false", "one linearisation"}, {"steps5,iterations1,bare=true", "one linearisation, not projected"},
			{"steps5,iterations2,bare=true", "two, not projected"}, {"steps5,iterations20,bare=true", "whole, not projected"},
		},
		cell: func(b *Benchmarked, regime, of string) string {
			name := "BenchmarkReceding/" + regime + "/" + of
			v := func(metric string) float64 { return b.least(name, metric) }
			if math.IsNaN(v("gap_%")) {
				return "–"
			}
			return fmt.Sprintf("%.7f; %.0f, %.0f; %.1f, %.0f", v("gap_%"), v("broken"), v("unsolved"), v("linearisations"), v("most"))
		},
	})
}

// flows are the times of power flows, grid/powerflow's BenchmarkSolve and BenchmarkLarge,
// the least of the runs.
func (d devices) flows() string {
	return d.gridOf("BenchmarkSolve", true, grid{
		corner:  "network",
		columns: [][2]string{{"flat", "flat start"}, {"warm", "warm start"}},
		rows: [][2]string{
			{"BenchmarkSolve/case30", "case30"}, {"BenchmarkSolve/case39", "case39"}, {"BenchmarkSolve/case118", "case118"},
			{"BenchmarkLarge/buses-1180", "ten copies of case118 tied together, 1180 buses"}, {"BenchmarkLarge/buses-3540", "thirty copies, 3540 buses"},
		},
		cell: func(b *Benchmarked, start, network string) string {
			ns := b.least(network+"/"+start, "ns/op")
			if math.IsNaN(ns) {
				return "–"
			}
			return fmt.Sprintf("%.3g µs, %.1f iterations", ns/1e3, b.least(network+"/"+start, "iterations/op"))
		},
	})
}

// monitoredCases are the cases whose maps are asked about known answers.
var monitoredCases = []string{"integrator-convex", "integrator-nonconvex", "opf30", "opf30-uncertain"}

// monitor is what is seen of maps that are wrong, and how often of those that are not, package
// gpc's BenchmarkMonitor.
func (d devices) monitor() string {
	const name = "BenchmarkMonitor"
	b := d.printed(below(name))
	if b == nil {
		return noRecord
	}
	g := grid{
		corner: "D_u",
		cell: func(b *Benchmarked, on, changed string) string {
			row := name + "/" + on + "/" + changed
			v := func(metric string) float64 { return b.least(row, metric) }
			if math.IsNaN(v("answers_missed")) {
				return "–"
			}
			return fmt.Sprintf("%.2g, %s %%, %.0f, %.0f", v("answers_missed"), report.Number("%+.2f", v("above_%")), v("flagged"), v("drifting"))
		},
	}
	for _, c := range monitoredCases {
		g.columns = append(g.columns, [2]string{c, "`" + c + "`"})
	}
	var alarms []string
	for _, m := range b.Benchmarks {
		of, changed, _ := strings.Cut(strings.TrimPrefix(m.Name, name+"/"), "/")
		switch {
		case changed == "direct":
			alarms = append(alarms, fmt.Sprintf("`%s` %.0f of %.0f decisions", of, m.Metrics["alarms"], m.Metrics["decisions"]))
		case of == monitoredCases[0]:
			g.rows = append(g.rows, [2]string{changed, strings.ReplaceAll(changed, "_", " ")})
		}
	}
	return g.text(b, false) + "\nFalse alarms with `direct`, whole episodes: " + strings.Join(alarms, ", ") + ".\n"
}

// environments are the steps a second of gpc.envs.bench.
func (d devices) environments() string {
	const cpu = "cpu_microseconds_per_step"
	b := d.printed(func(m Benchmark) bool { return m.Metrics[cpu] > 0 })
	if b == nil {
		return noRecord
	}
	s := report.Section{Provenance: b.origin(true), Rows: [][]string{{"", "CPU µs a step", "steps a second"}}}
	for _, m := range b.Benchmarks {
		s.Rows = append(s.Rows, []string{m.Name, report.Number("%.3g", m.Metrics[cpu]), report.Number("%.0f", m.Metrics["steps_per_second"])})
	}
	return report.Tables(s)
}
