package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// overlaid are the methods that a figure over time shows, each where it was recorded: the
// exact one first, which others are set against.
var overlaid = []string{"oracle", "mo-opf", algorithmTwo, "mpc"}

// paperRegime is the word for scenes like the paper's, which its figures stand beside.
const paperRegime = "paper"

// mostRegimes of a case are drawn over time: the paper's, and the first of the others.
const mostRegimes = 2

// seriesFigures show how episodes go: the cost of a decision, by how much it is above the
// exact one's, each objective, and the priorities.
func (r *Records) seriesFigures(name string) (figures []*Figure) {
	all := r.evaluations(name, func(e *closedloop.Result) bool {
		return e.Noise == 0 && e.Series != nil && slices.Contains(overlaid, e.Method)
	})
	var regimes []string
	for _, e := range all {
		if e.Method == algorithmTwo {
			regimes = append(regimes, e.Regime)
		}
	}
	slices.SortStableFunc(regimes, func(a, b string) int { return rankOfRegime(a) - rankOfRegime(b) })
	for _, regime := range regimes[:min(mostRegimes, len(regimes))] {
		var shown []closedloop.Result
		for _, e := range all {
			if e.Regime == regime {
				shown = append(shown, e)
			}
		}
		slices.SortStableFunc(shown, func(a, b closedloop.Result) int {
			return slices.Index(overlaid, a.Method) - slices.Index(overlaid, b.Method)
		})
		figures = append(figures, r.overTime(name, regime, shown)...)
	}
	return figures
}

func rankOfRegime(regime string) int {
	if regime == paperRegime {
		return 0
	}
	return 1
}

// overTime draws the evaluations of one regime.
func (r *Records) overTime(name, regime string, shown []closedloop.Result) (figures []*Figure) {
	c := r.cases[name].Definition
	file, title := name, name
	if regime != "" {
		file, title = name+"-"+regime, name+", "+regime
	}
	var labels []string // of objectives
	var units []string
	weighs := false // the cost is Σ J_i, not Σ σ_i J_i
	if c.Problem != nil {
		for _, o := range c.Problem.Spec().Objectives {
			labels, units = append(labels, o.Name), append(units, o.Unit)
		}
		_, weighs = c.Problem.(domain.Weighing)
	}
	label := func(symbol string, i int) string {
		text := symbol + subscript(i)
		if i < len(labels) {
			text += ", " + labels[i]
		}
		return text
	}
	cost, axis := func(s *closedloop.Series) closedloop.Band { return s.Weighted }, "σᵀJ"
	if weighs {
		cost, axis = func(s *closedloop.Series) closedloop.Band { return s.Total }, "J_total = Σ J_i"
	}
	beside := func(f *Figure, what string) *Figure {
		f.caption += " " + episodesOf(shown)
		if text := c.PaperFigures[what]; text != "" && (regime == paperRegime || regime == "") {
			f.caption += " " + text
		}
		return f
	}
	add := func(what, heading, axis string, of func(s *closedloop.Series) closedloop.Band) {
		f := newFigure(file+"-"+what, title+": "+heading, "decision t", axis)
		for k := range shown {
			s := shown[k].Series
			f.band(shown[k].Method, colour(k), k > 1, steps(s), of(s))
		}
		f.caption = "The mean over episodes, and between the 10 and 90 % quantiles shaded; curves may lie on each other."
		figures = append(figures, beside(f, strings.TrimRight(what, "0123456789-")))
	}
	add("total", "cost of a decision", axis, cost)
	if f := above(file, title, axis, shown, cost); f != nil {
		figures = append(figures, beside(f, "above"))
	}
	for i := range shown[0].Series.J {
		axis := label("J", i)
		if i < len(units) && units[i] != "" {
			axis += ", " + units[i]
		}
		add(fmt.Sprintf("objective-%d", i+1), axis, axis, func(s *closedloop.Series) closedloop.Band { return s.J[min(i, len(s.J)-1)] })
	}
	f := newFigure(file+"-weights", title+": priority σ", "decision t", "σ")
	f.plot.Y.Min, f.plot.Y.Max = 0, 1
	for k, e := range shown {
		for i, b := range e.Series.Sigma {
			if e.Method == algorithmTwo {
				f.band(label("σ", i), colour(i), false, steps(e.Series), b)
				continue
			}
			f.line("", faint(colour(i)), k == 0, steps(e.Series), b.Mean)
		}
	}
	f.caption = fmt.Sprintf("σ as the plant scores decisions: of %s the mean over episodes, and between the 10 and 90 %% quantiles shaded.", algorithmTwo)
	if others := slices.DeleteFunc(methodsOf(shown), func(m string) bool { return m == algorithmTwo }); len(others) > 0 {
		f.caption += fmt.Sprintf(" Thin lines are the means of %s.", strings.Join(others, " and "))
	}
	return append(figures, beside(f, "weights"))
}

// above is by how much the cost of a decision is above that of the first method, of the means of
// the same episodes; nil where there is no exact method among them, or none beside it.
func above(file, title, axis string, shown []closedloop.Result, cost func(s *closedloop.Series) closedloop.Band) *Figure {
	exact := &shown[0]
	if exact.Method == algorithmTwo || len(shown) < 2 {
		return nil
	}
	f := newFigure(file+"-above", title+": cost above "+exact.Method, "decision t", axis+", above "+exact.Method)
	base := cost(exact.Series).Mean
	drawn := false
	for k, e := range shown[1:] {
		own := cost(e.Series).Mean
		if e.Series.Episodes != exact.Series.Episodes || e.Seed != exact.Seed || len(own) != len(base) {
			continue // not the same episodes
		}
		difference := make([]float64, len(own))
		for t := range own {
			difference[t] = own[t] - base[t]
		}
		f.line(e.Method, colour(k+1), false, steps(e.Series), difference)
		drawn = true
	}
	if !drawn {
		return nil
	}
	f.caption = fmt.Sprintf("Difference of the means over the same episodes. A method whose state is another may cost less for a while than %s.", exact.Method)
	return f
}

// steps are the decisions that the points of a series stand for, each at the middle of its own.
func steps(s *closedloop.Series) []float64 {
	at := make([]float64, len(s.Total.Mean))
	for k := range at {
		at[k] = float64(k*s.Every) + float64(s.Every-1)/2
	}
	return at
}

func methodsOf(shown []closedloop.Result) (names []string) {
	for _, e := range shown {
		names = append(names, e.Method)
	}
	return names
}

// episodesOf says how many episodes each method's curve is of.
func episodesOf(shown []closedloop.Result) string {
	var parts []string
	for _, e := range shown {
		parts = append(parts, fmt.Sprintf("%s %d", e.Method, e.Series.Episodes))
	}
	return fmt.Sprintf("Episodes of seed %d: %s.", shown[0].Seed, strings.Join(parts, ", "))
}

// subscript is a number below the line.
func subscript(i int) string {
	var b strings.Builder
	for _, d := range fmt.Sprint(i + 1) {
		b.WriteRune('₀' + d - '0')
	}
	return b.String()
}

// band adds a mean as a line, and the range between its quantiles as a shade.
func (f *Figure) band(label string, c color.RGBA, dashed bool, xs []float64, b closedloop.Band) {
	var x, y []float64
	for k, v := range b.P10 {
		if !math.IsNaN(v) {
			x, y = append(x, xs[k]), append(y, v)
		}
	}
	for k, v := range slices.Backward(b.P90) {
		if !math.IsNaN(v) {
			x, y = append(x, xs[k]), append(y, v)
		}
	}
	if shade := translucent(c); len(x) > 3 {
		f.fill(shade, shade, x, y)
	}
	f.line(label, c, dashed, xs, b.Mean)
}

// translucent is a colour through which others are seen.
func translucent(c color.RGBA) color.RGBA {
	const share = 5 // premultiplied
	return color.RGBA{c.R / share, c.G / share, c.B / share, 255 / share}
}
