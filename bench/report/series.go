package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// overlaid are the methods that a figure over time shows, each where it was recorded: the
// exact one first, which others are set against.
var overlaid = []string{"oracle", "mo-opf", AlgorithmTwo, "mpc"}

// PaperRegime is the word for scenes like the paper's, which its figures stand beside.
const PaperRegime = "paper"

// mostRegimes of a case are drawn over time: the paper's, and the first of the others.
const mostRegimes = 2

// seriesFigures show how episodes go: the cost of a decision, by how much it is above the
// exact one's, each objective, and the priorities.
func (r *Records) seriesFigures(name string) (figures []*Figure) {
	all := r.EvaluationsWhere(name, func(e *closedloop.Result) bool {
		return e.Noise == 0 && e.Series != nil && slices.Contains(overlaid, e.Method)
	})
	var regimes []string
	for _, e := range all {
		if e.Method == AlgorithmTwo {
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
	if regime == PaperRegime {
		return 0
	}
	return 1
}

// overTime draws the evaluations of one regime.
func (r *Records) overTime(name, regime string, shown []closedloop.Result) (figures []*Figure) {
	c := r.Cases[name].Definition
	file, title := name, name
	if regime != "" {
		file, title = name+"-"+regime, name+", "+regime
	}
	cost, up := func(s *closedloop.Series) closedloop.Band { return s.Weighted }, axis{"σᵀJ", r.unitOfCost(name)}
	if _, weighs := c.Problem.(domain.Weighing); weighs { // the cost is Σ J_i, not Σ σ_i J_i
		cost, up = func(s *closedloop.Series) closedloop.Band { return s.Total }, axis{"J_total = Σ J_i", up.unit}
	}
	at, along := r.clock(name, len(shown[0].Series.Total.Mean)*shown[0].Series.Every+1)
	time := func(s *closedloop.Series) []float64 { return steps(s, at[1]) }
	beside := func(f *Figure, what string) *Figure {
		f.caption += " " + episodesOf(shown)
		if text := c.PaperFigures[what]; text != "" && (regime == PaperRegime || regime == "") {
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
			if e.Method == AlgorithmTwo {
				f.band(r.objective(name, "σ", i), colour(i), false, time(e.Series), b)
				continue
			}
			f.line("", faint(colour(i)), k == 0, time(e.Series), b.Mean)
		}
	}
	f.caption = fmt.Sprintf("σ as the plant scores decisions: of %s the mean over episodes, and between the 10 and 90 %% quantiles shaded.", AlgorithmTwo)
	if others := slices.DeleteFunc(methodsOf(shown), func(m string) bool { return m == AlgorithmTwo }); len(others) > 0 {
		f.caption += fmt.Sprintf(" Thin lines are the means of %s.", strings.Join(others, " and "))
	}
	return append(figures, beside(f, "weights"))
}

// above is by how much the cost of a decision is above that of the first method, of the means of
// the same episodes; nil where there is no exact method among them, or none beside it.
func (r *Records) above(name, file, title string, along, up axis, shown []closedloop.Result, time func(s *closedloop.Series) []float64, cost func(s *closedloop.Series) closedloop.Band) *Figure {
	exact := &shown[0]
	if exact.Method == AlgorithmTwo || len(shown) < 2 {
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
	if p := r.Cases[name].Definition.Problem; p != nil && i < len(p.Spec().Objectives) {
		text += " " + p.Spec().Objectives[i].Name
	}
	return text
}

// unitOfObjective is the unit of an axis of the i-th objective.
func (r *Records) unitOfObjective(name string, i int) string {
	if p := r.Cases[name].Definition.Problem; p != nil && i < len(p.Spec().Objectives) {
		return unitOf(p.Spec().Objectives[i].Unit)
	}
	return unitOf("")
}

// unitOfCost is the unit of a sum of objectives: that of those that have one.
func (r *Records) unitOfCost(name string) string {
	p := r.Cases[name].Definition.Problem
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

// panel is what is drawn of an episode against time in one figure: values of one unit.
type panel struct {
	name, title string
	axis, unit  string // what is drawn up
	names       []string
	values      [][]float64 // [len(names)][decisions]
	time        []float64
	clock       axis // of time
	limit       bool // 0 is one
}

// seconds between two decisions of a trace; 0: not known.
func (r *Records) seconds(t *Trace) float64 {
	if p := r.Cases[t.Header.Case].Definition.Problem; p != nil {
		return p.Spec().StepSeconds
	}
	return 0
}

// clock gives the times of n points, one decision of a case apart, and their axis.
func (r *Records) clock(name string, n int) ([]float64, axis) {
	seconds := 0.0
	if p := r.Cases[name].Definition.Problem; p != nil {
		seconds = p.Spec().StepSeconds
	}
	return clockOf(seconds, n)
}

// clockOf is the same of points that are so many seconds apart; 0: not known.
func clockOf(seconds float64, n int) ([]float64, axis) {
	each, along := 1.0, axis{"decisions", "count"}
	if seconds > 0 {
		per, unit := timeUnit(seconds * float64(n))
		each, along = seconds/per, axis{"time", unit}
	}
	at := make([]float64, n)
	for k := range at {
		at[k] = each * float64(k)
	}
	return at, along
}

// numbered is a variable that each of several robots has: its letters and the number of the robot.
var numbered = regexp.MustCompile(`^(\pL+)([0-9]+)$`)

// robots gives the panel the names of robots where every line is of one, so many in the scene.
func (p *panel) robots(among int) {
	names, letters := make([]string, len(p.names)), ""
	for i, name := range p.names {
		m := numbered.FindStringSubmatch(name)
		if m == nil || among < 2 || letters != "" && m[1] != letters {
			return
		}
		letters, names[i] = m[1], "robot "+m[2]
	}
	p.axis, p.names = p.axis+" "+letters, names
}

// panels are the time lines of a trace's first episode: states and actions by their units, and the
// smallest margin.
func (r *Records) panels(t *Trace) (out []panel) {
	var states, actions []domain.Variable
	if p := r.Cases[t.Header.Case].Definition.Problem; p != nil {
		states, actions = p.Spec().Measured, p.Spec().Action
	}
	lines := t.Episodes[0].Lines
	at, clock := r.clock(t.Header.Case, len(lines)+1)
	at = at[1:] // behind each decision
	add := func(name, title string, variables []domain.Variable, letter string, of func(l *closedloop.Line) []float64) {
		first := len(out)
		for i := range of(&lines[0]) {
			v := domain.Variable{Name: fmt.Sprintf("%s%d", letter, i+1)}
			if i < len(variables) {
				v = variables[i]
			}
			along := make([]float64, len(lines))
			for k := range lines {
				along[k] = math.NaN()
				if x := of(&lines[k]); i < len(x) {
					along[k] = x[i]
				}
			}
			p := slices.IndexFunc(out[first:], func(p panel) bool { return p.unit == v.Unit })
			if p < 0 {
				p = len(out) - first
				out = append(out, panel{name: fmt.Sprintf("%s-%d", name, p+1), title: title, axis: title, unit: v.Unit, time: at, clock: clock})
			}
			out[first+p].names, out[first+p].values = append(out[first+p].names, v.Name), append(out[first+p].values, along)
		}
	}
	add("states", "states", states, "s", func(l *closedloop.Line) []float64 { return l.S })
	add("actions", "actions", actions, "u", func(l *closedloop.Line) []float64 { return l.U })
	margin := panel{name: "margins", title: "smallest margin of each decision", axis: "margin", names: []string{"smallest margin"}, values: [][]float64{make([]float64, len(lines))}, time: at, clock: clock, limit: true}
	for k := range lines {
		margin.values[0][k] = float64(lines[k].Margin)
	}
	return append(out, margin)
}

// timeUnit is the unit that a time of so many seconds reads best in, and the seconds in it.
func timeUnit(whole float64) (seconds float64, name string) {
	switch {
	case whole >= 2*3600:
		return 3600, "h"
	case whole >= 300:
		return 60, "min"
	}
	return 1, "s"
}

// span is how far a line moves; 0 where it has no number.
func span(v []float64) float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range v {
		if !math.IsNaN(x) {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	return max(0, hi-lo)
}

// figure is the panel. Of more lines than a legend holds, those that move most are named.
func (p *panel) figure(name, title string) *Figure {
	f := newFigure(name, title, p.clock, axis{p.axis, unitOf(p.unit)})
	order := make([]int, len(p.names))
	for i := range order {
		order[i] = i
	}
	named := len(order)
	if p.limit && named == maxEntries || named > maxEntries {
		named = maxEntries - 2 // the others and the limit are two more
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(span(p.values[b]), span(p.values[a])) })
		slices.Sort(order[:named])
		for k, i := range order[named:] {
			word := ""
			if k == 0 {
				word = fmt.Sprintf("%d others", len(order)-named)
			}
			f.line(word, faint(colour(grey)), false, p.time, p.values[i])
		}
	}
	for k, i := range order[:named] {
		word := p.names[i]
		if p.limit && len(p.names) == 1 {
			word = ""
		}
		c := body(k)
		if named == len(order) {
			c = body(i)
		}
		f.line(word, c, false, p.time, p.values[i])
	}
	if p.limit {
		f.line("limit", bound.light, true, []float64{p.time[0], p.time[len(p.time)-1]}, []float64{0, 0})
	}
	return f
}

// stackedPanels are the most of an animation, one above the other.
const stackedPanels = 4

// stacked are the panels that an animation shows: of the states, of the actions, and the
// margin, which is the last.
func stacked(panels []panel) []panel {
	if len(panels) <= stackedPanels {
		return panels
	}
	actions := slices.IndexFunc(panels, func(p panel) bool { return p.title == "actions" })
	states := panels[:min(actions, stackedPanels-2)]
	return slices.Concat(states, panels[actions:actions+1], panels[len(panels)-1:])
}

// settled is the decision from which on every state stays near where it ends.
func settled(lines []closedloop.Line) int {
	last := len(lines) - 1
	end := lines[last].S
	room := make([]float64, len(end))
	for i := range end {
		along := make([]float64, 0, len(lines))
		for k := range lines {
			if i < len(lines[k].S) {
				along = append(along, lines[k].S[i])
			}
		}
		room[i] = near * span(along)
	}
	for k := last; k > 0; k-- {
		for i, x := range lines[k-1].S {
			if i < len(end) && !(math.Abs(x-end[i]) <= room[i]) {
				return k
			}
		}
	}
	return 0
}
