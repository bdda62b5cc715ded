package report

import (
	"cmp"
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
	cost, up := func(s *closedloop.Series) closedloop.Band { return s.Weighted }, axis{"σᵀJ", r.unitOfCost(name)}
	if domain.AbilitiesOfProblem(c.Problem).Weigh != nil { // the cost is Σ J_i, not Σ σ_i J_i
		cost, up = func(s *closedloop.Series) closedloop.Band { return s.Total }, axis{"J_total = Σ J_i", up.unit}
	}
	at, along := r.clock(name, len(shown[0].Series.Total.Mean)*shown[0].Series.Every+1)
	time := func(s *closedloop.Series) []float64 { return steps(s, at[1]) }
	beside := func(f *Figure, what string) *Figure {
		f.caption += " " + episodesOf(shown)
		if text := c.PaperFigures[what]; text != "" && (regime == paperRegime || regime == "") {
			f.caption += " " + text
		}
		return f
	}
	add := func(what, heading string, up axis, of func(s *closedloop.Series) closedloop.Band) {
		f := newFigure(file+"-"+what, title+": "+heading, along, up)
		for k := range shown {
			s, b := shown[k].Series, of(shown[k].Series)
			if k > 0 { // shades would hide each other
				b.P10, b.P90 = nil, nil
			}
			f.band(shown[k].Method, r.methodColour(name, shown[k].Method), k > 1, time(s), b)
		}
		f.caption = fmt.Sprintf("The mean over episodes, and of %s between the 10 and 90 %% quantiles shaded; curves may lie on each other.", shown[0].Method)
		figures = append(figures, beside(f, strings.TrimRight(what, "0123456789-")))
	}
	add("total", "cost of a decision", up, cost)
	if f := r.above(name, file, title, along, up, shown, time, cost); f != nil {
		figures = append(figures, beside(f, "above"))
	}
	for i := range shown[0].Series.J {
		label := r.objective(name, "J", i)
		add(fmt.Sprintf("objective-%d", i+1), label, axis{label, r.unitOfObjective(name, i)}, func(s *closedloop.Series) closedloop.Band { return s.J[min(i, len(s.J)-1)] })
	}
	f := newFigure(file+"-weights", title+": priority σ", along, axis{"priority σ", "share"})
	f.plot.Y.Min, f.plot.Y.Max = 0, 1
	for k, e := range shown {
		for i, b := range e.Series.Sigma {
			if e.Method == algorithmTwo {
				f.band(r.objective(name, "σ", i), colour(i), false, time(e.Series), b)
				continue
			}
			f.line("", faint(colour(i)), k == 0, time(e.Series), b.Mean)
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
func (r *Records) above(name, file, title string, along, up axis, shown []closedloop.Result, time func(s *closedloop.Series) []float64, cost func(s *closedloop.Series) closedloop.Band) *Figure {
	exact := &shown[0]
	if exact.Method == algorithmTwo || len(shown) < 2 {
		return nil
	}
	f := newFigure(file+"-above", title+": cost above "+exact.Method, along, axis{up.name + " above " + exact.Method + "'s", up.unit})
	base := cost(exact.Series).Mean
	drawn := false
	for _, e := range shown[1:] {
		own := cost(e.Series).Mean
		if e.Series.Episodes != exact.Series.Episodes || e.Seed != exact.Seed || len(own) != len(base) {
			continue // not the same episodes
		}
		difference := make([]float64, len(own))
		for t := range own {
			difference[t] = own[t] - base[t]
		}
		f.line(e.Method, r.methodColour(name, e.Method), false, time(e.Series), difference)
		drawn = true
	}
	if !drawn {
		return nil
	}
	f.caption = fmt.Sprintf("Difference of the means over the same episodes. A method whose state is another may cost less for a while than %s.", exact.Method)
	return f
}

// steps are the times that the points of a series stand for, each at the middle of its decisions, which take so long
// each.
func steps(s *closedloop.Series, each float64) []float64 {
	at := make([]float64, len(s.Total.Mean))
	for k := range at {
		at[k] = each * (float64(k*s.Every) + float64(s.Every-1)/2)
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

// objective is a symbol of the i-th objective with its name.
func (r *Records) objective(name, symbol string, i int) string {
	text := symbol + subscript(i)
	if p := r.cases[name].Definition.Problem; p != nil && i < len(p.Spec().Objectives) {
		text += " " + p.Spec().Objectives[i].Name
	}
	return text
}

// unitOfObjective is the unit of an axis of the i-th objective.
func (r *Records) unitOfObjective(name string, i int) string {
	if p := r.cases[name].Definition.Problem; p != nil && i < len(p.Spec().Objectives) {
		return unitOf(p.Spec().Objectives[i].Unit)
	}
	return unitOf("")
}

// unitOfCost is the unit of a sum of objectives: that of those that have one.
func (r *Records) unitOfCost(name string) string {
	p := r.cases[name].Definition.Problem
	if p == nil {
		return unitOf("")
	}
	unit := ""
	for _, o := range p.Spec().Objectives {
		if unit != "" && o.Unit != "" && o.Unit != unit {
			return "mixed units"
		}
		unit = cmp.Or(unit, o.Unit)
	}
	return unitOf(unit)
}
