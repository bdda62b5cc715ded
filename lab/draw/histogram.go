package draw

import (
	"math"
)

// bins of a histogram.
const bins = 40

// Histogram draws how values above 0 are distributed over bins of equal width on a
// logarithmic axis, each series as its own share; nil where there are none.
func Histogram(name, title string, along Axis, labels []string, all [][]float64) *Figure {
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
	f := New(name, title, along, Along("share of calls", "%"))
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
		f.Line(labels[k], Colour(k), false, xs, ys)
	}
	f.Plot.Y.Min = 0
	return f
}
