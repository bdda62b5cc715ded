package report

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot/vg/draw"

	"github.com/gpc-engine/gpc/bench"
)

// ScalingFigures are one for each axis: the cost with its intervals, and the fit.
func ScalingFigures(s *bench.Scaling) (figures []*Figure) {
	for i := range s.Curves {
		c := &s.Curves[i]
		f := newFigure("scaling-"+file(c.Axis), "cost against "+c.Axis, axis{c.Axis, "count"}, axis{"median of a call", "µs"})
		f.logX()
		f.logY()
		var xs, ys []float64
		for _, p := range c.Points {
			x := float64(p.X)
			xs, ys = append(xs, x), append(ys, p.Median)
			f.errorBar(colour(0), x, p.Interval[0], p.Interval[1])
		}
		f.points("measured", colour(0), draw.CircleGlyph{}, xs, ys)
		f.caption = strings.ToUpper(c.What[:min(1, len(c.What))]) + c.What[min(1, len(c.What)):] + "."
		for k, n := range []int{0, c.Upper()} {
			p, err := c.Cost(n)
			if err != nil || k > 0 && n == len(c.Points) {
				continue
			}
			f.line([]string{"size^", "the largest: size^"}[k]+number("%.2f", p.Exponent), colour(k+1), true, []float64{float64(p.From), float64(p.To)},
				[]float64{p.Constant * math.Pow(float64(p.From), p.Exponent), p.Constant * math.Pow(float64(p.To), p.Exponent)})
		}
		figures = append(figures, f)
	}
	return figures
}

// scalingSection is a record of costs along sizes.
func scalingSection(s bench.Scaling) section {
	return section{
		title: "Cost against size", note: scalingNote(&s), provenance: scalingOrigin(&s), rows: s.Rows(), figures: ScalingFigures(&s),
	}
}

// busyShare is the share of the processors that others may have before times are not the
// machine's own.
const busyShare = 0.1

// busy reports whether a record is of a machine that had other work, or may have had.
func busy(s *bench.Scaling) bool {
	return s.Load == nil || s.Load.Others+s.Load.Stolen > busyShare*float64(s.Load.CPUs)
}

func scalingNote(s *bench.Scaling) string {
	return "Cost ∝ size^b: least squares of the logarithms of the medians, with the 95 % interval of b by Student's t; the last columns are of the larger half of the sizes, at least four, and of the work as it is counted." + otherWork(s)
}

func scalingOrigin(s *bench.Scaling) string {
	return origin(s.Command, s.Commit, fmt.Sprintf("%s, %s %s, %d threads", s.Device, s.Backend, s.ISA, s.Threads), s.Load)
}

// otherWork says of a busy machine's record what its times are worth.
func otherWork(s *bench.Scaling) string {
	if !busy(s) {
		return ""
	}
	return " **The machine had other work: these times and exponents are not its own.**"
}

// scalings are the records of all devices, the first of each.
func (d devices) scalings() (all []*bench.Scaling) {
	for _, r := range d {
		if len(r.Scalings) > 0 {
			all = append(all, &r.Scalings[0])
		}
	}
	return all
}

// scaling is the cost along every axis as it was measured, with all points.
func (d devices) scaling() string {
	var all []section
	for _, s := range d.scalings() {
		all = append(all, section{note: scalingNote(s), provenance: scalingOrigin(s), rows: s.Rows()})
		for i := range s.Curves {
			c := &s.Curves[i]
			points := section{note: fmt.Sprintf("%s: %s.", c.Axis, c.What), rows: [][]string{{c.Axis}, {"median, µs"}, {"95 %"}}}
			for _, p := range c.Points {
				points.rows[0] = append(points.rows[0], fmt.Sprint(p.X))
				points.rows[1] = append(points.rows[1], bench.Micros(p.Median))
				points.rows[2] = append(points.rows[2], bench.Micros(p.Interval[0])+" to "+bench.Micros(p.Interval[1]))
			}
			all = append(all, points)
		}
	}
	return tables(all...)
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
	var all []section
	for _, s := range d.scalings() {
		larger := section{
			note: "Extrapolated, not measured: the largest size of each axis doubled, by the exponent of the larger half and its interval." + otherWork(s),
			rows: [][]string{{"axis", "largest measured", "µs", "twice that: µs, extrapolated", "95 % by the fit alone"}},
		}
		for i := range s.Curves {
			c := &s.Curves[i]
			p, err := c.Cost(c.Upper())
			if err != nil {
				continue
			}
			last := c.Points[len(c.Points)-1]
			times := func(exponent float64) float64 { return last.Median * math.Pow(2, exponent) }
			larger.rows = append(larger.rows, []string{
				c.Axis, fmt.Sprint(last.X), bench.Micros(last.Median), bench.Micros(times(p.Exponent)),
				"[" + bench.Micros(times(p.Lo)) + ", " + bench.Micros(times(p.Hi)) + "]",
			})
		}
		all = append(all, larger)
		if machines := otherMachines(s); machines != nil {
			all = append(all, *machines)
		}
	}
	return tables(all...)
}

// otherMachines is the step of the largest batch on machines that it was not run on; nil where
// the record has no batches or does not count their work.
func otherMachines(s *bench.Scaling) *section {
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
			if busy(s) {
				times = "–"
			}
			return []string{machine, "extrapolated", fmt.Sprintf("%.3g to %.3g", fast/1e3, slow/1e3), rate(slow) + " to " + rate(fast), times, assumes}
		}
		one, oneSlow := on(1, 0)
		eight, eightSlow := on(gpus, exchangeMicros)
		return &section{
			note: fmt.Sprintf("A step of %d latents, %.3g GFLOP by the dense count. Nothing was run on a GPU or on a cluster: those rows are extrapolated.", last.X, last.GFlop),
			rows: [][]string{
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

// DeadlineFigure is the histogram of a loop's response times and release jitter, with the
// deadline.
func DeadlineFigure(d *bench.Deadlines) *Figure {
	response, jitter := d.Times()
	title := fmt.Sprintf("%s by %s, %g times a second", d.Case, d.Method, d.Rate)
	f := histogramFigure("deadline-"+file(d.Case, d.Method), title, axis{"time behind the release", "µs"}, []string{"response", "jitter"}, [][]float64{response, jitter})
	f.line("deadline", bound.light, true, []float64{d.Deadline, d.Deadline}, []float64{0, f.plot.Y.Max})
	f.caption = fmt.Sprintf("%d of %d deadlines missed. %s.", d.Missed, d.Releases, d.Load)
	return f
}
