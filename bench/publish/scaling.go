package publish

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/bench/report"
)

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
