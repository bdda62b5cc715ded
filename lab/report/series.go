package report

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/lab/draw"
	"github.com/gpc-engine/gpc/lab/published"
)

// overlaid are the methods that a figure over time shows, each where it was recorded: the
// exact one first, which others are set against.
var overlaid = []string{"oracle", "mo-opf", AlgorithmTwo, "mpc"}

// PaperRegime is the word for scenes like the paper's, which its figures stand beside.
const PaperRegime = "paper"

// mostRegimes of a case are drawn over time: the paper's, and the first of the others.
const mostRegimes = 2

// checkSeries reports a series without points, or of lists that are not of one length.
func checkSeries(s *closedloop.Series) error {
	points := len(s.Total.Mean)
	if s.Interval < 1 || points == 0 || len(s.J) != len(s.Sigma) {
		return fmt.Errorf("series of %d points of %d decisions, %d objectives and %d priorities: want at least one of each, and as many priorities as objectives", points, s.Interval, len(s.J), len(s.Sigma))
	}
	for _, b := range slices.Concat([]closedloop.Band{s.Total, s.Weighted}, s.J, s.Sigma) {
		if len(b.Mean) != points || len(b.P10) != points || len(b.P90) != points {
			return fmt.Errorf("series with %d means, %d and %d quantiles of a quantity, want %d of each", len(b.Mean), len(b.P10), len(b.P90), points)
		}
	}
	return nil
}

// seriesFigures show how episodes go: the cost of a decision, by how much it is above the
// exact one's, each objective, and the priorities.
func (r *Records) seriesFigures(name string) (figures []*draw.Figure) {
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
func (r *Records) overTime(name, regime string, shown []closedloop.Result) (figures []*draw.Figure) {
	c := r.Cases[name].Definition
	file, title := name, name
	if regime != "" {
		file, title = name+"-"+regime, name+", "+regime
	}
	cost, up := func(s *closedloop.Series) closedloop.Band { return s.Weighted }, draw.Along("σᵀJ", r.unitOfCost(name))
	if domain.AbilitiesOfProblem(c.Problem).Weigh != nil { // the cost is Σ J_i, not Σ σ_i J_i
		cost, up = func(s *closedloop.Series) closedloop.Band { return s.Total }, draw.Along("J_total = Σ J_i", up.Unit)
	}
	at, along := r.clock(name, len(shown[0].Series.Total.Mean)*shown[0].Series.Interval+1)
	time := func(s *closedloop.Series) []float64 { return steps(s, at[1]) }
	beside := func(f *draw.Figure, what string) *draw.Figure {
		f.Caption += " " + episodesOf(shown)
		if text := published.Figures[c.Problem.Spec().Name][what]; text != "" && (regime == PaperRegime || regime == "") {
			f.Caption += " " + text
		}
		return f
	}
	add := func(what, heading string, up draw.Axis, of func(s *closedloop.Series) closedloop.Band) {
		f := draw.New(file+"-"+what, title+": "+heading, along, up)
		for k := range shown {
			s, b := shown[k].Series, of(shown[k].Series)
			if k > 0 { // shades would hide each other
				b.P10, b.P90 = nil, nil
			}
			f.Band(shown[k].Method, r.methodColour(name, shown[k].Method), k > 1, time(s), b.Mean, b.P10, b.P90)
		}
		f.Caption = fmt.Sprintf("The mean over episodes, and of %s between the 10 and 90 %% quantiles shaded; curves may lie on each other.", shown[0].Method)
		figures = append(figures, beside(f, strings.TrimRight(what, "0123456789-")))
	}
	add("total", "cost of a decision", up, cost)
	if f := r.above(name, file, title, along, up, shown, time, cost); f != nil {
		figures = append(figures, beside(f, "above"))
	}
	for i := range shown[0].Series.J {
		label := r.objective(name, "J", i)
		add(fmt.Sprintf("objective-%d", i+1), label, draw.Along(label, r.unitOfObjective(name, i)), func(s *closedloop.Series) closedloop.Band { return s.J[min(i, len(s.J)-1)] })
	}
	f := draw.New(file+"-weights", title+": priority σ", along, draw.Along("priority σ", "share"))
	f.Plot.Y.Min, f.Plot.Y.Max = 0, 1
	for k, e := range shown {
		for i, b := range e.Series.Sigma {
			if e.Method == AlgorithmTwo {
				f.Band(r.objective(name, "σ", i), draw.Colour(i), false, time(e.Series), b.Mean, b.P10, b.P90)
				continue
			}
			f.Line("", draw.Faint(draw.Colour(i)), k == 0, time(e.Series), b.Mean)
		}
	}
	f.Caption = fmt.Sprintf("σ as the plant scores decisions: of %s the mean over episodes, and between the 10 and 90 %% quantiles shaded.", AlgorithmTwo)
	if others := slices.DeleteFunc(methodsOf(shown), func(m string) bool { return m == AlgorithmTwo }); len(others) > 0 {
		f.Caption += fmt.Sprintf(" Thin lines are the means of %s.", strings.Join(others, " and "))
	}
	return append(figures, beside(f, "weights"))
}

// above is by how much the cost of a decision is above that of the first method, of the means of
// the same episodes; nil where there is no exact method among them, or none beside it.
func (r *Records) above(name, file, title string, along, up draw.Axis, shown []closedloop.Result, time func(s *closedloop.Series) []float64, cost func(s *closedloop.Series) closedloop.Band) *draw.Figure {
	exact := &shown[0]
	if exact.Method == AlgorithmTwo || len(shown) < 2 {
		return nil
	}
	f := draw.New(file+"-above", title+": cost above "+exact.Method, along, draw.Along(up.Name+" above "+exact.Method+"'s", up.Unit))
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
		f.Line(e.Method, r.methodColour(name, e.Method), false, time(e.Series), difference)
		drawn = true
	}
	if !drawn {
		return nil
	}
	f.Caption = fmt.Sprintf("Difference of the means over the same episodes. A method whose state is another may cost less for a while than %s.", exact.Method)
	return f
}

// steps are the times that the points of a series stand for, each at the middle of its decisions, which take so long
// each.
func steps(s *closedloop.Series, each float64) []float64 {
	at := make([]float64, len(s.Total.Mean))
	for k := range at {
		at[k] = each * (float64(k*s.Interval) + float64(s.Interval-1)/2)
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
		return p.Spec().Objectives[i].Unit
	}
	return ""
}

// unitOfCost is the unit of a sum of objectives: that of those that have one.
func (r *Records) unitOfCost(name string) string {
	p := r.Cases[name].Definition.Problem
	if p == nil {
		return ""
	}
	unit := ""
	for _, o := range p.Spec().Objectives {
		if unit != "" && o.Unit != "" && o.Unit != unit {
			return "mixed units"
		}
		unit = cmp.Or(unit, o.Unit)
	}
	return unit
}

// seconds between two decisions of a case; 0: not known.
func (r *Records) seconds(name string) float64 {
	if p := r.Cases[name].Definition.Problem; p != nil {
		return p.Spec().StepSeconds
	}
	return 0
}

// clock gives the times of n points, one decision of a case apart, and their axis.
func (r *Records) clock(name string, n int) ([]float64, draw.Axis) {
	return draw.Clock(r.seconds(name), n)
}

// numbered is a variable that each of several robots has: its letters and the number of the robot.
var numbered = regexp.MustCompile(`^(\pL+)([0-9]+)$`)

// nameRobots gives a panel the names of robots where every line is of one, so many in the scene.
func nameRobots(p *draw.Panel, among int) {
	names, letters := make([]string, len(p.Names)), ""
	for i, name := range p.Names {
		m := numbered.FindStringSubmatch(name)
		if m == nil || among < 2 || letters != "" && m[1] != letters {
			return
		}
		letters, names[i] = m[1], "robot "+m[2]
	}
	p.Axis, p.Names = p.Axis+" "+letters, names
}

// panels are the time lines of a trace's first episode: states and actions by their units, and the
// smallest margin.
func (r *Records) panels(t *Trace) (out []draw.Panel) {
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
			p := slices.IndexFunc(out[first:], func(p draw.Panel) bool { return p.Unit == v.Unit })
			if p < 0 {
				p = len(out) - first
				out = append(out, draw.Panel{Name: fmt.Sprintf("%s-%d", name, p+1), Title: title, Axis: title, Unit: v.Unit, Time: at, Clock: clock})
			}
			in := &out[first+p]
			in.Names, in.Values = append(in.Names, v.Name), append(in.Values, along)
		}
	}
	add("states", "states", states, "s", func(l *closedloop.Line) []float64 { return l.S })
	add("actions", "actions", actions, "u", func(l *closedloop.Line) []float64 { return l.U })
	margin := make([]float64, len(lines))
	for k := range lines {
		margin[k] = float64(lines[k].Margin)
	}
	return append(out, draw.Panel{
		Name: "margins", Title: "smallest margin of each decision", Axis: "margin", Names: []string{"smallest margin"}, Values: [][]float64{margin}, Time: at, Clock: clock, Limit: true,
	})
}
