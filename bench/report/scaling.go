package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"gonum.org/v1/plot/vg/draw"
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
			f.line([]string{"size^", "the largest: size^"}[k]+Number("%.2f", p.Exponent), colour(k+1), true, []float64{float64(p.From), float64(p.To)},
				[]float64{p.Constant * math.Pow(float64(p.From), p.Exponent), p.Constant * math.Pow(float64(p.To), p.Exponent)})
		}
		figures = append(figures, f)
	}
	return figures
}

// scalingSection is a record of costs along sizes.
func scalingSection(s bench.Scaling) Section {
	return Section{
		title: "Cost against size", Note: ScalingNote(&s), Provenance: ScalingOrigin(&s), Rows: s.Rows(), figures: ScalingFigures(&s),
	}
}

// busyShare is the share of the processors that others may have before times are not the
// machine's own.
const busyShare = 0.1

// Busy reports whether a record is of a machine that had other work, or may have had.
func Busy(s *bench.Scaling) bool {
	return s.Load == nil || s.Load.Others+s.Load.Stolen > busyShare*float64(s.Load.CPUs)
}

func ScalingNote(s *bench.Scaling) string {
	return "Cost ∝ size^b: least squares of the logarithms of the medians, with the 95 % interval of b by Student's t; the last columns are of the larger half of the sizes, at least four, and of the work as it is counted." + OtherWork(s)
}

func ScalingOrigin(s *bench.Scaling) string {
	return Origin(s.Command, s.Commit, fmt.Sprintf("%s, %s %s, %d threads", s.Device, s.Backend, s.ISA, s.Threads), s.Load)
}

// OtherWork says of a busy machine's record what its times are worth.
func OtherWork(s *bench.Scaling) string {
	if !Busy(s) {
		return ""
	}
	return " **The machine had other work: these times and exponents are not its own.**"
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
