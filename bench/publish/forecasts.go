package publish

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/bench/report"
)

// forecast is a time that the machine code of the kernels lets expect on an H200, before
// anything was run there, the time that is wanted, and how the row of a benchmark that
// says what it is is known.
type forecast struct {
	what, op, name string // name is of the case, or size:CASE for its sizes alone
	kernel         string // of `kernels`: the launch by its name without the variant
	batch          int
	precision      string
	from, to       float64 // µs; 0: none was made
	wanted         float64 // µs, at most; 0: nothing is
}

// forecasts are held against the first rows that are measured. A figure here is changed
// with the kernels that it is of, never after a measurement.
var forecasts = []forecast{
	{what: "step, OPF size", op: "step", name: "size:opf30", batch: 4096, precision: "fp32", from: 510, to: 650, wanted: 600},
	{what: "step, OPF size", op: "step", name: "size:opf30", batch: 4096, precision: "tf32", from: 270, to: 360, wanted: 300},
	{what: "step of one state, OPF size", op: "step", name: "size:opf30", batch: 1, precision: "fp32", from: 45, to: 65, wanted: 60},
	{what: "eigenpairs within it", op: "kernels", name: "size:opf30", kernel: "gpc_eig", batch: 4096, precision: "fp32", from: 55, to: 75, wanted: 40},
	{what: "eigenpairs of one matrix", op: "kernels", name: "size:opf30", kernel: "gpc_eig", batch: 1, precision: "fp32", from: 15.5, to: 20, wanted: 15},
	{what: "refinement over the whole horizon", op: "refine", name: "integrator-convex", batch: 4096, precision: "fp32", from: 4000, to: 5500, wanted: 900},
	{what: "refinement over the whole horizon", op: "refine", name: "integrator-convex", batch: 4096, precision: "tf32", from: 4000, to: 5500, wanted: 500},
	{what: "training, 500 epochs of 250 000", op: "train-epochs", name: "size:opf30", batch: 4096, precision: "fp32", from: 11e6, to: 14e6, wanted: 12e6},
}

// is tells whether a row is the forecast's, measured on one GPU.
func (f *forecast) is(r *bench.Result) bool {
	name, alone := strings.CutPrefix(f.name, "size:")
	if r.Backend != "cuda" || r.Devices > 1 || r.Calls == 0 || r.Op != f.op || r.Case != name || r.Batch != f.batch || r.Precision != f.precision ||
		alone == strings.Contains(r.Size, "own objectives") {
		return false
	}
	return f.kernel == "" || r.Launch != nil && strings.HasPrefix(r.Launch.Kernel, f.kernel)
}

// microseconds is a time with a unit that suits it.
func microseconds(us float64) string {
	if us >= 1e6 {
		return fmt.Sprintf("%.3g s", us/1e6)
	}
	return fmt.Sprintf("%.4g µs", us)
}

// timeSpan is a span of times; the unit stands once where both have the same.
func timeSpan(from, to float64) string {
	low, high := microseconds(from), microseconds(to)
	if _, unit, _ := strings.Cut(high, " "); strings.HasSuffix(low, " "+unit) {
		low = strings.TrimSuffix(low, " "+unit)
	}
	return low + " to " + high
}

// forecasts is the table of what was expected, what is wanted and what was measured.
func (d devices) forecasts() string {
	s := report.Section{Rows: [][]string{{"", "case", "batch", "precision", "forecast for an H200", "wanted", "measured"}}}
	for _, f := range forecasts {
		expected := "–"
		if f.from > 0 {
			expected = microseconds(f.from)
		}
		if f.to > f.from {
			expected = timeSpan(f.from, f.to)
		}
		var measured []string
		for _, r := range d {
			least := 0.0
			for _, b := range r.Benchmarks {
				for i := range b.Results {
					if row := &b.Results[i]; f.is(row) && (least == 0 || row.P50 < least) {
						least = row.P50
					}
				}
			}
			if least > 0 {
				measured = append(measured, fmt.Sprintf("%s (%s)", microseconds(least), r.Device))
			}
		}
		s.Rows = append(s.Rows, []string{f.what, "`" + f.name + "`", fmt.Sprint(f.batch), f.precision, expected, "≤ " + microseconds(f.wanted), cmp.Or(strings.Join(measured, ", "), "not run")})
	}
	return report.Tables(s)
}
