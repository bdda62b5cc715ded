package report

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

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
