package report

import (
	"cmp"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/lab/draw"
)

// curveFloor is what a regret of less is drawn at, %.
const curveFloor = 1e-5

// curve is one of the things that pairings vary, with what a table has in its first
// columns.
type curve struct {
	title, note string
	figures     func(r *Records, name string) []*draw.Figure
	columns     []string
	holds       func(p *closedloop.Pairing) bool
	cells       func(p *closedloop.Pairing) []string
}

var curves = []curve{
	{": quality against candidates, time and data", "Samples are those that the map was last trained on.", (*Records).qualityFigures, []string{"map", "samples"}, Undisturbed,
		func(p *closedloop.Pairing) []string {
			return []string{cmp.Or(p.Map.File, BundledMap), fmt.Sprint(p.Map.Samples)}
		}},
	{": what a part of Algorithm 2 is worth", "Maps of their own, which hold the decoder with the part and without it.", func(*Records, string) []*draw.Figure { return nil }, []string{"map", "loads"},
		InParts,
		func(p *closedloop.Pairing) []string {
			return []string{cmp.Or(p.Map.File, BundledMap), OrDash(p.Regime)}
		}},
	{" on a plant that its map was not made for", "Parameters of the plant times a factor; methods and oracle know that plant, the map does not.", (*Records).shiftFigures, []string{"plant"},
		func(p *closedloop.Pairing) bool { return len(p.Shift) > 0 },
		func(p *closedloop.Pairing) []string { return []string{ShiftText(p.Shift)} }},
	{" with noise and bias of the measured state", "Noise is drawn anew at every decision; a bias has one sign for each value and episode. Margins and costs are of the true state.", (*Records).noiseFigures, []string{"noise", "bias"},
		func(p *closedloop.Pairing) bool { return len(p.Shift) == 0 && (p.Noise > 0 || p.Bias > 0) },
		func(p *closedloop.Pairing) []string { return []string{fmt.Sprint(p.Noise), fmt.Sprint(p.Bias)} }},
}

// curveSections are the tables of every case of the program whose methods were run in pairs.
func (r *Records) curveSections() (out []Section) {
	for _, name := range r.PairedCases() {
		for _, c := range curves {
			if pairings := r.PairingsWhere(name, c.holds); len(pairings) > 0 {
				s := c.section(name, pairings)
				s.figures = slices.DeleteFunc(c.figures(r, name), func(f *draw.Figure) bool { return f == nil })
				out = append(out, s)
			}
		}
	}
	return out
}

func (c *curve) section(name string, pairings []closedloop.Pairing) Section {
	s := Section{
		title:      name + c.title,
		Note:       "Cost above the oracle, %, mean over the safe episodes with its 95 % interval by Student's t; the difference is to the first method on the n episodes in which both are safe. " + c.note,
		Provenance: RecordedBy(pairings),
		Rows:       [][]string{slices.Concat(c.columns, []string{"method", "safe", "regret %", "median", "p90", "worst", "less the first's", "n", TimesHeading})},
	}
	for _, p := range pairings {
		for i, m := range p.Pairs {
			s.Rows = append(s.Rows, slices.Concat(c.cells(&p), []string{m.Method}, pairedCells(i, &m),
				[]string{Times("%.4f", &m.Latency)}))
		}
	}
	return s
}

// qualityFigures are quality against time and data.
func (r *Records) qualityFigures(name string) []*draw.Figure {
	plain := r.PairingsWhere(name, Undisturbed)
	return []*draw.Figure{r.qualityFigure(name, plain), r.dataFigure(name, plain)}
}

// noiseFigures are regret against noise and against bias, each without the other.
func (r *Records) noiseFigures(name string) (out []*draw.Figure) {
	for _, of := range []struct {
		name  string
		level func(p *closedloop.Pairing) float64
		other func(p *closedloop.Pairing) float64
	}{
		{"noise", func(p *closedloop.Pairing) float64 { return p.Noise }, func(p *closedloop.Pairing) float64 { return p.Bias }},
		{"bias", func(p *closedloop.Pairing) float64 { return p.Bias }, func(p *closedloop.Pairing) float64 { return p.Noise }},
	} {
		levels := r.PairingsWhere(name, func(p *closedloop.Pairing) bool {
			return p.Map.File == "" && len(p.Shift) == 0 && of.other(p) == 0
		})
		f := draw.New(name+"-"+of.name, name+": "+of.name+" of the measured state", draw.Along(of.name+" of every measured value", "share of its scale"), regretAxis)
		out = append(out, r.series(f, name, levels, of.level))
	}
	return out
}

// regretAxis is that of a cost above the oracle's with its 95 % interval.
var regretAxis = draw.Log("cost above the optimum", "%")

// qualityFigure is regret against decision time on one core: the searches by their number
// of candidates along a line, with the bundled map and with the smallest; what polishes
// apart; and exact solvers as the times at which they have none.
func (r *Records) qualityFigure(name string, plain []closedloop.Pairing) *draw.Figure {
	if len(plain) == 0 {
		return nil
	}
	f := draw.New(name+"-quality", name+": quality against candidates and time", draw.Log("median decision time on one core", "ms"), regretAxis)
	shown := plain[:1]
	if last := plain[len(plain)-1]; last.Map != plain[0].Map {
		shown = append(slices.Clone(shown), last)
	}
	lowest, highest := math.Inf(1), curveFloor
	for k, p := range shown {
		var xs, ys []float64
		label := fmt.Sprintf("map of %d samples", p.Map.Samples)
		for _, m := range p.Pairs {
			x, y := float64(m.Latency.P50)/1e3, float64(m.RegretPct)
			if r.Method(name, m.Method).Needs&domain.NeedsMap == 0 || math.IsNaN(y) {
				continue
			}
			y = math.Max(curveFloor, y)
			lowest, highest = min(lowest, y), max(highest, y)
			c := r.methodColour(name, m.Method)
			interval(f, c, x, float64(m.RegretPct), float64(m.RegretCI95))
			word := "" // the times of the maps are alike: named once
			if k == len(shown)-1 {
				word = m.Method
			}
			if strings.HasSuffix(m.Method, "polish") {
				f.Point(word, c, draw.Pyramid, x, y)
				continue
			}
			f.Point(word, c, draw.Disc, x, y)
			xs, ys = append(xs, x), append(ys, y)
		}
		f.Line(label, []color.RGBA{draw.Ink, draw.Faint(draw.Ink)}[k], false, xs, ys)
	}
	for _, m := range plain[0].Pairs {
		if x := float64(m.Latency.P50) / 1e3; r.Method(name, m.Method).Needs&domain.NeedsMap == 0 && x > 0 {
			f.Line(m.Method+", warm, exact", draw.Colour(draw.Grey), true, []float64{x, x}, []float64{min(lowest, highest) / 2, highest * 2})
		}
	}
	f.Caption = curveCaption + " Names are of the searches by their candidates; triangles polish what they found. Dashed: when an exact solver has the optimum."
	return f
}

// interval draws the 95 % interval of a regret on a logarithmic axis.
func interval(f *draw.Figure, c color.RGBA, x, regret, half float64) {
	f.ErrorBar(c, x, math.Max(curveFloor, regret-half), math.Max(curveFloor, regret+half))
}

// dataFigure is regret against the samples that a map was trained on.
func (r *Records) dataFigure(name string, plain []closedloop.Pairing) *draw.Figure {
	f := draw.New(name+"-data", name+": maps from little data", draw.Log("dataset of the map", "samples"), regretAxis)
	return r.series(f, name, plain, func(p *closedloop.Pairing) float64 { return float64(p.Map.Samples) })
}

// shiftFigures are regret against the factor on each parameter that was shifted alone,
// the case's own plant among them.
func (r *Records) shiftFigures(name string) (out []*draw.Figure) {
	plain := r.PairingsWhere(name, Undisturbed)
	var parameters []string
	shifted := r.PairingsWhere(name, func(p *closedloop.Pairing) bool { return len(p.Shift) == 1 && p.Map.File == "" })
	for _, p := range shifted {
		parameters = slices.AppendSeq(parameters, maps.Keys(p.Shift))
	}
	slices.Sort(parameters)
	for _, of := range slices.Compact(parameters) {
		along := slices.Clone(plain[:min(1, len(plain))])
		for _, p := range shifted {
			if p.Shift[of] != 0 {
				along = append(along, p)
			}
		}
		f := draw.New(name+"-shift-"+of, name+": "+of+" of the plant, times a factor", draw.Along(of, "times its own value"), regretAxis)
		out = append(out, r.series(f, name, along, func(p *closedloop.Pairing) float64 {
			if f := p.Shift[of]; f != 0 {
				return f
			}
			return 1
		}))
	}
	return out
}

// series draws a line for every method that has a regret at two places or more; nil where
// there is none.
func (r *Records) series(f *draw.Figure, name string, pairings []closedloop.Pairing, at func(p *closedloop.Pairing) float64) *draw.Figure {
	type point struct{ x, regret, half float64 }
	var methods []string
	points := map[string][]point{}
	for _, p := range pairings {
		for _, m := range p.Pairs {
			if math.IsNaN(float64(m.RegretPct)) {
				continue
			}
			if !slices.Contains(methods, m.Method) {
				methods = append(methods, m.Method)
			}
			points[m.Method] = append(points[m.Method], point{at(&p), float64(m.RegretPct), float64(m.RegretCI95)})
		}
	}
	drawn := 0
	for _, m := range methods {
		along := points[m]
		slices.SortFunc(along, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		if along[0].x == along[len(along)-1].x {
			continue
		}
		var xs, ys []float64
		c := r.methodColour(name, m)
		for _, p := range along {
			xs, ys = append(xs, p.x), append(ys, math.Max(curveFloor, p.regret))
			interval(f, c, p.x, p.regret, p.half)
			f.Point("", c, draw.Disc, p.x, math.Max(curveFloor, p.regret))
		}
		f.Line(m, c, false, xs, ys)
		drawn++
	}
	if drawn == 0 {
		return nil
	}
	f.Caption = curveCaption
	return f
}

// curveCaption is that of every regret on a logarithmic axis with intervals.
var curveCaption = fmt.Sprintf("Mean cost above the oracle with its 95 %% interval; below %g %% drawn there.", curveFloor)
