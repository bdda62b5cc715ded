package publish

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
)

// rounded is what maps of float16 decide in closed loop beside those of float32, package export's
// BenchmarkRounded.
func (d devices) rounded() string {
	const name = "BenchmarkRounded"
	return d.listed(below(name), false, []string{"map", "episodes", "safe, both", "difference of cost, % ± 95 %", "largest change of a plan, of D_u's scale"},
		func(of string, v func(string) float64) []string {
			return []string{
				strings.TrimPrefix(of, name+"/"), report.Number("%.0f", v("episodes")), report.Number("%.0f", math.Min(v("safe"), v("safe_rounded"))),
				fmt.Sprintf("%+.5f ± %.5f", v("difference_%"), v("interval_%")), report.Number("%.2g", v("largest_change")),
			}
		})
}

// cortexM is what maps take on a microcontroller, scripts/export-cortex-m.sh.
func (d devices) cortexM() string {
	const name = "BenchmarkCortexM"
	whole := []string{"code_bytes", "constants_bytes", "static_bytes", "stack_bytes", "instructions", "instructions_most", "instructions_dense"}
	head := []string{"map", "weights", "processor", "code", "constants", "static", "stack", "instructions, mean", "most", "all units active", "equal entries"}
	return d.listed(below(name), false, head, func(of string, v func(string) float64) []string {
		row := three(strings.TrimPrefix(of, name+"/"), "/")
		for _, metric := range whole {
			row = append(row, report.Number("%.0f", v(metric)))
		}
		return append(row, fmt.Sprintf("%.0f of %.0f", v("equal"), v("entries")))
	})
}

// exportedLoops are closed loops of whole controllers in C beside Go, package gallery's BenchmarkExportedLoops.
func (d devices) exportedLoops() string {
	const name = "BenchmarkExportedLoops"
	head := []string{"system", "unsafe in C", "in Go", "safe in one alone", "end state off, of its typical size", "cost off", "decisions", "projected", "off the map", "guarded", "by the plan before", "escape", "rest", "not known to be safe"}
	return d.listed(below(name), false, head, func(of string, v func(string) float64) []string {
		row := []string{
			"`" + strings.TrimPrefix(of, name+"/") + "`", fmt.Sprintf("%.0f/%.0f", v("unsafe"), v("episodes")), fmt.Sprintf("%.0f/%.0f", v("unsafe_gpc"), v("episodes")),
			report.Number("%.0f", v("differ")), report.Number("%.1e", 1e-12*v("state_off_1e-12")), report.Number("%.1e", 1e-12*v("cost_off_1e-12")),
		}
		for _, metric := range []string{"decisions", "projected", "off_map", "guarded", "incumbent", "escaped", "rested", "unsafe_decisions"} {
			row = append(row, report.Number("%.0f", v(metric)))
		}
		return row
	})
}

// exactLoops are closed loops of exact controllers in C beside Go, package gallery's BenchmarkExactLoops.
func (d devices) exactLoops() string {
	const name = "BenchmarkExactLoops"
	head := []string{"system", "unsafe in C", "in Go", "safe in one alone", "mean cost in C above Go's, %", "largest difference of an episode's cost, %", "decisions", "solved anew", "unsolved", "memory of a loop, bytes"}
	return d.listed(below(name), false, head, func(of string, v func(string) float64) []string {
		row := []string{
			"`" + strings.TrimPrefix(of, name+"/") + "`", fmt.Sprintf("%.0f/%.0f", v("unsafe"), v("episodes")), fmt.Sprintf("%.0f/%.0f", v("unsafe_gpc"), v("episodes")),
			report.Number("%.0f", v("differ")), report.Number("%+.2g", v("above_%")), report.Number("%.2g", v("cost_off_%")),
		}
		for _, metric := range []string{"decisions", "cold", "unsolved", "loop_bytes"} {
			row = append(row, report.Number("%.0f", v(metric)))
		}
		return row
	})
}

// cortexMExact is what exact controllers take on a microcontroller, scripts/export-loops-cortex-m.sh.
func (d devices) cortexMExact() string {
	const name = "BenchmarkCortexMExact"
	head := []string{"system", "code", "constants", "static", "memory of a loop", "largest frame", "instructions of a decision, mean", "most", "unsafe there", "in Go"}
	return d.listed(below(name), false, head, func(of string, v func(string) float64) []string {
		row := []string{"`" + strings.TrimSuffix(strings.TrimPrefix(of, name+"/"), "/M7") + "`"}
		for _, metric := range []string{"code_bytes", "constants_bytes", "static_bytes", "loop_bytes", "frame_bytes", "instructions", "instructions_most"} {
			row = append(row, report.Number("%.0f", v(metric)))
		}
		return append(row, fmt.Sprintf("%.0f/%.0f", v("unsafe"), v("episodes")), fmt.Sprintf("%.0f/%.0f", v("unsafe_gpc"), v("episodes")))
	})
}

// cortexMLoops is what whole controllers take on a microcontroller, scripts/export-loops-cortex-m.sh.
func (d devices) cortexMLoops() string {
	const name = "BenchmarkCortexMLoops"
	head := []string{"system", "code", "constants", "static", "largest frame", "instructions of the map", "of a decision, mean", "most", "every roll-out to its end", "unsafe there", "in Go"}
	return d.listed(below(name), false, head, func(of string, v func(string) float64) []string {
		row := []string{"`" + strings.TrimSuffix(strings.TrimPrefix(of, name+"/"), "/M7") + "`"}
		for _, metric := range []string{"code_bytes", "constants_bytes", "static_bytes", "frame_bytes", "map_instructions", "instructions", "instructions_most", "instructions_full"} {
			row = append(row, report.Number("%.0f", v(metric)))
		}
		return append(row, fmt.Sprintf("%.0f/%.0f", v("unsafe"), v("episodes")), fmt.Sprintf("%.0f/%.0f", v("unsafe_gpc"), v("episodes")))
	})
}

// exported are times of a decision by Go and by what it exports, package export's BenchmarkDirect.
func (d devices) exported() string {
	const name, decision = "BenchmarkDirect", "ns/decision"
	b := d.printed(below(name))
	if b == nil {
		return noRecord
	}
	g := grid{
		corner:  "map",
		columns: [][2]string{{"go", "Go, µs"}, {"c/half=false", "C, float32, µs"}, {"c/half=true", "C, float16, µs"}, {"", "C / Go"}},
		cell: func(b *Benchmarked, by, of string) string {
			us := func(by string) float64 { return b.least(name+"/"+of+"/"+by, decision) / 1e3 }
			if by == "" {
				return report.Number("%.1f", us("c/half=false")/us("go"))
			}
			return report.Number("%.1f", us(by))
		},
	}
	for _, m := range b.Benchmarks {
		of, _, _ := strings.Cut(strings.TrimPrefix(m.Name, name+"/"), "/")
		if row := [2]string{of, of}; !slices.Contains(g.rows, row) {
			g.rows = append(g.rows, row)
		}
	}
	return g.text(b, true)
}

// calls are what decisions cost from Python, python/bench/latency.py.
func (d devices) calls() string {
	const from = "python_us"
	return d.listed(func(m Benchmark) bool { return m.Metrics[from] > 0 }, true, []string{"case", "method", "loops in a call", "in Go, µs", "from Python, µs", "ratio"},
		func(of string, v func(string) float64) []string {
			row := three(of, " ")
			row[1] = "`" + row[1] + "`"
			return append(row, report.Number("%.1f", v("go_us")), report.Number("%.1f", v(from)), report.Number("%.3f", v("ratio")))
		})
}

// three are the parts of a name of three, which in a record that nothing here wrote may be fewer.
func three(name, separator string) []string {
	parts := strings.SplitN(name, separator, 3)
	return append(parts, make([]string, 3-len(parts))...)
}

// listed has a row for every benchmark that is wanted of the last run that has one.
func (d devices) listed(wanted func(Benchmark) bool, times bool, head []string, row func(name string, v func(metric string) float64) []string) string {
	b := d.printed(wanted)
	if b == nil {
		return noRecord
	}
	s := report.Section{Provenance: b.origin(times), Rows: [][]string{head}}
	for _, m := range b.Benchmarks {
		if wanted(m) {
			s.Rows = append(s.Rows, row(m.Name, func(metric string) float64 {
				if v, ok := m.Metrics[metric]; ok {
					return v
				}
				return math.NaN()
			}))
		}
	}
	return report.Tables(s)
}
