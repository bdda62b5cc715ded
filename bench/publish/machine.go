package publish

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

// deadlines is a loop at a rate.
func deadlines(loop *bench.Deadlines) string {
	lines := loop.Lines()
	text := report.Tables(report.Section{
		Provenance: report.Origin(loop.Command, loop.Commit, fmt.Sprintf("%s, %s %s, threads %d", loop.Device, loop.Backend, loop.ISA, loop.Threads), loop.Load),
		Rows:       loop.Rows(),
	})
	return text + "\n* " + strings.Join(lines[:len(lines)-1], "\n* ") + "\n" // the last is the load
}

// served is a run of a server beyond what it can do.
func served(s *peerrecord.Served) string {
	return report.Tables(report.Section{
		Provenance: report.Origin("make bench-serve", s.Commit, s.Device, s.Machine) + " The server is a process of its own, and so among the others.",
		Rows:       s.Rows(),
	})
}

// torture is the last run on the first device that has one, whatever was not survived in words.
func (d devices) torture() string {
	t := last[peerrecord.Torture](d)
	if t == nil {
		return ""
	}
	form := ""
	if t.Short {
		form = " --short"
	}
	s := report.Section{Provenance: report.Origin("bench/torture"+form, t.Commit, fmt.Sprintf("%s, seed %d, %.0f minutes", t.Device, t.Seed, max(1, t.Seconds/60)), t.Load), Rows: t.Rows()}
	var lost strings.Builder
	for _, a := range t.Attacks {
		for _, why := range a.Lost {
			fmt.Fprintf(&lost, "\nNot survived: %s, %s: %s\n", a.By, a.On, strings.TrimSpace(why))
		}
	}
	return report.Tables(s) + lost.String()
}

// scalings are the records of all devices, the first of each.
func (d devices) scalings() (all []*bench.Scaling) {
	for _, r := range d {
		if s := report.Of[bench.Scaling](r); len(s) > 0 {
			all = append(all, &s[0])
		}
	}
	return all
}

// scaling is the cost along every axis as it was measured, with all points.
func (d devices) scaling() string {
	var all []report.Section
	for _, s := range d.scalings() {
		all = append(all, report.Section{Note: report.ScalingNote(s), Provenance: report.ScalingOrigin(s), Rows: s.Rows()})
		for i := range s.Curves {
			c := &s.Curves[i]
			points := report.Section{Note: fmt.Sprintf("%s: %s.", c.Axis, c.What), Rows: [][]string{{c.Axis}, {"median, µs"}, {"95 %"}}}
			for _, p := range c.Points {
				points.Rows[0] = append(points.Rows[0], fmt.Sprint(p.X))
				points.Rows[1] = append(points.Rows[1], bench.Micros(p.Median))
				points.Rows[2] = append(points.Rows[2], bench.Micros(p.Interval[0])+" to "+bench.Micros(p.Interval[1]))
			}
			all = append(all, points)
		}
	}
	return report.Tables(all...)
}

// What one GPU is taken to do: the limit is an H200's, the fixed time that of one state's step as
// docs/contribute/notebook/cuda-kernels.md estimates it from counts; the shares and the exchange are assumptions.
const (
	gpuPeak        = 67e3 // GFLOP/s of float32 multiply-adds
	gpuFixed       = 49.0 // µs, launches and latencies of a step of any size
	gpuLeastShare  = 0.3
	gpuMostShare   = 0.6
	exchangeMicros = 20.0 // µs, of the best candidate among eight devices
	gpus           = 8
	clusterNodes   = 100
)

// extrapolated says what nothing was run of: larger sizes by the fits, and other machines by
// the counted work.
func (d devices) extrapolated() string {
	var all []report.Section
	for _, s := range d.scalings() {
		larger := report.Section{
			Note: "Extrapolated, not measured: the largest size of each axis doubled, by the exponent of the larger half and its interval." + report.OtherWork(s),
			Rows: [][]string{{"axis", "largest measured", "µs", "twice that: µs, extrapolated", "95 % by the fit alone"}},
		}
		for i := range s.Curves {
			c := &s.Curves[i]
			p, err := c.Cost(c.Upper())
			if err != nil {
				continue
			}
			last := c.Points[len(c.Points)-1]
			times := func(exponent float64) float64 { return last.Median * math.Pow(2, exponent) }
			larger.Rows = append(larger.Rows, []string{
				c.Axis, fmt.Sprint(last.X), bench.Micros(last.Median), bench.Micros(times(p.Exponent)),
				"[" + bench.Micros(times(p.Lo)) + ", " + bench.Micros(times(p.Hi)) + "]",
			})
		}
		all = append(all, larger)
		if machines := otherMachines(s); machines != nil {
			all = append(all, *machines)
		}
	}
	return report.Tables(all...)
}

// otherMachines is the step of the largest batch on machines that it was not run on; nil where
// the record has no batches or does not count their work.
func otherMachines(s *bench.Scaling) *report.Section {
	for i := range s.Curves {
		c := &s.Curves[i]
		last := c.Points[len(c.Points)-1]
		if c.Axis != "batch" || !(last.GFlop > 0) {
			continue
		}
		latents := float64(last.X)
		rate := func(us float64) string { return fmt.Sprintf("%.3g", latents/us) }
		// The fastest and the slowest of so many devices on one batch.
		on := func(n, exchange float64) (fast, slow float64) {
			work := 1e6 * last.GFlop / n / gpuPeak // µs at the ceiling
			return gpuFixed + exchange + work/gpuMostShare, gpuFixed + exchange + work/gpuLeastShare
		}
		row := func(machine string, fast, slow float64, assumes string) []string {
			times := fmt.Sprintf("%.3g to %.3g", last.Median/slow, last.Median/fast)
			if report.Busy(s) {
				times = "–"
			}
			return []string{machine, "extrapolated", fmt.Sprintf("%.3g to %.3g", fast/1e3, slow/1e3), rate(slow) + " to " + rate(fast), times, assumes}
		}
		one, oneSlow := on(1, 0)
		eight, eightSlow := on(gpus, exchangeMicros)
		return &report.Section{
			Note: fmt.Sprintf("A step of %d latents, %.3g GFLOP by the dense count. Nothing was run on a GPU or on a cluster: those rows are extrapolated.", last.X, last.GFlop),
			Rows: [][]string{
				{"machine", "", "a batch, ms", "latents a µs", "times this machine", "assumes"},
				{fmt.Sprintf("%s, %d threads", s.ISA, s.Threads), "measured", fmt.Sprintf("%.3g", last.Median/1e3), rate(last.Median), "1", "–"},
				row("one H200", one, oneSlow, fmt.Sprintf("%.0f to %.0f %% of %.0f TFLOP/s, %.0f µs fixed", 100*gpuLeastShare, 100*gpuMostShare, gpuPeak/1e3, gpuFixed)),
				row(fmt.Sprintf("%d H200, the batch split", gpus), eight, eightSlow, fmt.Sprintf("the same, and %.0f µs to agree on the best", exchangeMicros)),
				{
					fmt.Sprintf("%d machines like this one", clusterNodes), "extrapolated", fmt.Sprintf("%.3g, each its own batch", last.Median/1e3),
					fmt.Sprintf("%.3g", clusterNodes*latents/last.Median), fmt.Sprint(clusterNodes), "that they share nothing: shards of datasets and evaluations; one decision is not faster",
				},
			},
		}
	}
	return nil
}

// ofCeiling are the operations whose rate is a fraction of the ceiling of multiply-adds.
var ofCeiling = []string{"gemm", "jacobian", "metric", "step", "train"}

// ceilingFractions has the fractions of the ceiling that whole benchmarks of several devices reach at their
// largest batch, a column a device.
func (d devices) ceilingFractions() string {
	head, note := []string{"operation", "batch"}, ""
	var records []bench.Record
	var all []*closedloop.Load
	for _, r := range d {
		// A whole run has every operation; others are of one.
		benchmarks := report.Of[bench.Record](r)
		i := slices.IndexFunc(benchmarks, func(b bench.Record) bool {
			return !slices.ContainsFunc(ofCeiling, func(op string) bool {
				return !slices.ContainsFunc(b.Results, func(m bench.Result) bool { return m.Op == op })
			})
		})
		if i < 0 {
			continue
		}
		b := benchmarks[i]
		records, head, all = append(records, b), append(head, b.Device), append(all, b.Load)
		note += fmt.Sprintf("%s: commit %s, ceiling %.0f GFLOP/s. ", b.Device, b.Commit, b.Peak())
	}
	if len(records) == 0 {
		return noRecord
	}
	rows := [][]string{head}
	for _, op := range ofCeiling {
		for _, m := range records[0].Results {
			if m.Op != op || m.Batch != largest(&records[0], op) {
				continue
			}
			name := op
			if m.Case != "" && m.Case != "-" {
				name += ", " + m.Case
			}
			row := []string{name, fmt.Sprint(m.Batch)}
			for i := range records {
				row = append(row, fractionOf(&records[i], &m))
			}
			rows = append(rows, row)
		}
	}
	return report.Tables(report.Section{Provenance: note + report.Loads(all), Rows: rows})
}

// largest is the largest batch of an operation.
func largest(b *bench.Record, op string) (most int) {
	for _, m := range b.Results {
		if m.Op == op {
			most = max(most, m.Batch)
		}
	}
	return most
}

// fractionOf is what a record has for a measurement of another, "–" for nothing.
func fractionOf(b *bench.Record, like *bench.Result) string {
	for _, m := range b.Results {
		if m.Op == like.Op && m.Case == like.Case && m.Size == like.Size && m.Batch == like.Batch && m.Precision == like.Precision {
			return report.Number("%.2f", m.Fraction)
		}
	}
	return "–"
}

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
			for _, b := range report.Of[bench.Record](r) {
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
