package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"gonum.org/v1/plot/vg/draw"
)

// HardwareFigures are those of a comparison of benchmarks and its records: roofline, latency
// against batch of every operation, and histograms of the latencies of its largest batch.
func HardwareFigures(c *bench.Comparison, records []bench.NamedRecord) []*Figure {
	labels := c.Labels()
	figures := append([]*Figure{rooflineFigure(labels, c, records)}, batchFigures(labels, records)...)
	return slices.DeleteFunc(append(figures, histogramFigures(labels, c, records)...), func(f *Figure) bool { return f == nil })
}

// rooflineFigure is the rate of every row against its operations a byte, under the ceilings of
// multiply-adds and of memory; nil where no record counts bytes.
func rooflineFigure(labels []string, c *bench.Comparison, records []bench.NamedRecord) *Figure {
	f := newFigure("roofline", "Rates under the ceilings of multiply-adds and memory", axis{"operations for each byte that has to move", "FLOP/B"}, axis{"rate", "GFLOP/s"})
	f.logX()
	f.logY()
	least, most := math.Inf(1), 0.0
	for k, r := range records {
		var xs, ys []float64
		largest := map[string]int{} // batch by operation and case
		for _, res := range r.Results {
			if res.Bytes > 0 && res.GFlops > 0 {
				largest[res.Op+res.Case] = max(largest[res.Op+res.Case], res.Batch)
			}
		}
		for _, res := range r.Results {
			if !(res.Bytes > 0 && res.GFlops > 0) {
				continue
			}
			x := 1e9 * res.GFlop / res.Bytes
			least, most = min(least, x), max(most, x)
			if k == 0 && res.Batch == largest[res.Op+res.Case] {
				f.point(strings.TrimSuffix(res.Op+" "+res.Case, " -"), colour(k), draw.CircleGlyph{}, x, res.GFlops)
				continue
			}
			xs, ys = append(xs, x), append(ys, res.GFlops)
		}
		f.points(labels[k], colour(k), draw.CircleGlyph{}, xs, ys)
	}
	if !(most > 0) {
		return nil
	}
	for k := range records {
		peak, bandwidth := c.Records[k].Peak, c.Records[k].Bandwidth
		if !(peak > 0) {
			continue
		}
		left := least / 2
		ridge := left
		if bandwidth > 0 {
			ridge = max(left, peak/bandwidth)
		}
		f.line("", colour(k), true, []float64{left, ridge, max(2*most, 2*ridge)}, []float64{min(peak, bandwidthOr(bandwidth, peak/left)*left), peak, peak})
	}
	f.caption = "Dashed: what memory and multiply-adds allow. A call counts operands, results and weights once; small batches come from the caches, so that they may stand above the slope. " +
		"Jacobian, metric and step leave inactive units out and may pass the ceiling. Named: the first record's largest batches."
	return f
}

// bandwidthOr is a bandwidth, or what stands for one that was not recorded.
func bandwidthOr(bandwidth, other float64) float64 {
	if bandwidth > 0 {
		return bandwidth
	}
	return other
}

// batchFigures are the medians of each operation and case against the batch, where a record
// has two batches or more.
func batchFigures(labels []string, records []bench.NamedRecord) (figures []*Figure) {
	for _, of := range operations(records) {
		f := newFigure("latency-"+file(of.op, of.name), of.title()+": latency against batch", axis{"batch", "rows"}, axis{"median of a call", "µs"})
		f.logX()
		f.logY()
		drawn := false
		for k, r := range records {
			for _, size := range of.sizes(r) {
				var xs, ys []float64
				for _, batch := range of.batches(r, size) {
					fastest := math.Inf(1) // of several numbers of threads
					for _, res := range r.Results {
						if of.is(&res) && res.Batch == batch && sizeWithoutBatch(&res) == size {
							fastest = min(fastest, res.P50)
						}
					}
					xs, ys = append(xs, float64(batch)), append(ys, fastest)
				}
				if len(xs) < 2 {
					continue
				}
				drawn = true
				label := ""
				if len(f.legend) < maxEntries {
					label = labels[k]
					if len(of.sizes(r)) > 1 {
						label += ", " + size
					}
				}
				f.line(label, colour(k), len(of.sizes(r)) > 1 && size != of.sizes(r)[0], xs, ys)
				f.points("", colour(k), draw.CircleGlyph{}, xs, ys)
			}
		}
		if drawn {
			f.caption = "The fastest number of threads of each batch."
			figures = append(figures, f)
		}
	}
	return figures
}

// operation is one of a record's, on a case.
type operation struct{ op, name string }

func (o operation) is(r *bench.Result) bool { return r.Op == o.op && r.Case == o.name }

func (o operation) title() string { return strings.TrimSuffix(o.op+" "+o.name, " -") }

// file is a name of several parts for a file.
func file(parts ...string) string {
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}
	return strings.Trim(strings.Map(clean, strings.ToLower(strings.Join(parts, "-"))), "-")
}

// operations are those of all records, in their order.
func operations(records []bench.NamedRecord) (all []operation) {
	for _, r := range records {
		for _, res := range r.Results {
			if o := (operation{res.Op, res.Case}); !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	return all
}

// sizeWithoutBatch is a row's size without its batch, which products begin with.
func sizeWithoutBatch(r *bench.Result) string {
	return strings.TrimPrefix(r.Size, fmt.Sprintf("%d×", r.Batch))
}

func (o operation) sizes(r bench.NamedRecord) (sizes []string) {
	for _, res := range r.Results {
		if s := sizeWithoutBatch(&res); o.is(&res) && !slices.Contains(sizes, s) {
			sizes = append(sizes, s)
		}
	}
	return sizes
}

func (o operation) batches(r bench.NamedRecord, size string) (batches []int) {
	for _, res := range r.Results {
		if o.is(&res) && sizeWithoutBatch(&res) == size {
			batches = append(batches, res.Batch)
		}
	}
	slices.Sort(batches)
	return slices.Compact(batches)
}

// histogramFigures are of the recorded latencies of each operation's largest batch on a case.
func histogramFigures(labels []string, c *bench.Comparison, records []bench.NamedRecord) (figures []*Figure) {
	last := map[operation]int{}
	for i, row := range c.Rows {
		o := operation{row.Op, row.Case}
		if at, ok := last[o]; !ok || row.Batch >= c.Rows[at].Batch {
			last[o] = i
		}
	}
	for _, o := range operations(records) {
		row := &c.Rows[last[o]]
		var all [][]float64
		var of []string
		for k, t := range row.Times {
			if t != nil && t.N > 1 {
				all, of = append(all, t.Latencies()), append(of, labels[k])
			}
		}
		if f := histogramFigure("histogram-"+file(o.op, o.name), o.title()+": latencies", axis{"latency of a call", "µs"}, of, all); f != nil {
			f.caption = row.Name() + ": the calls that the records hold, spread over each measurement."
			figures = append(figures, f)
		}
	}
	return figures
}

// bins of a histogram.
const bins = 40

// histogramFigure draws how values above 0 are distributed over bins of equal width on a
// logarithmic axis, each series as its own share; nil where there are none.
func histogramFigure(name, title string, along axis, labels []string, all [][]float64) *Figure {
	least, most := math.Inf(1), 0.0
	for _, values := range all {
		for _, v := range values {
			if v > 0 && !math.IsInf(v, 0) {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	if !(most > 0) {
		return nil
	}
	if most < narrowest*least {
		least, most = least/math.Sqrt(narrowest), most*math.Sqrt(narrowest)
	}
	f := newFigure(name, title, along, axis{"share of calls", "%"})
	f.logX()
	width := math.Log(most/least) / bins
	for k, values := range all {
		counts := make([]float64, bins)
		for _, v := range values {
			if v > 0 && !math.IsInf(v, 0) {
				counts[min(bins-1, int(math.Log(v/least)/width))] += 100 / float64(len(values))
			}
		}
		var xs, ys []float64
		for i, n := range counts {
			xs, ys = append(xs, least*math.Exp(width*float64(i)), least*math.Exp(width*float64(i+1))), append(ys, n, n)
		}
		f.line(labels[k], colour(k), false, xs, ys)
	}
	f.plot.Y.Min = 0
	return f
}

func benchmarkSection(b bench.Record) Section {
	title := "Latency and throughput"
	if _, what, _ := strings.Cut(b.Command, " bench "); !strings.HasPrefix(what, "-") {
		what, _, _ = strings.Cut(what, " --max-load")
		title = strings.TrimSpace(title + " " + strings.TrimSuffix(what, " --json"))
	}
	return Section{
		title:      title,
		Note:       "The ceiling is the best sustained multiply-add loop of the same instruction set in the same run. Rates count every unit of a network; jacobian, metric and step leave the inactive ReLU units out, so that their fraction by this count can pass 1.",
		Provenance: Origin(b.Command, b.Commit, b.Device, b.Load),
		Rows:       bench.Rows(b.Results),
	}
}
