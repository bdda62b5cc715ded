package draw

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Panel is what is drawn of an episode against time in one figure: values of one unit.
type Panel struct {
	Name, Title string
	Axis, Unit  string // what is drawn up
	Names       []string
	Values      [][]float64 // [len(Names)][decisions]
	Time        []float64
	Clock       Axis // of time
	Limit       bool // 0 is one
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

// Figure is the panel. Of more lines than a legend holds, those that move most are named.
func (p *Panel) Figure(name, title string) *Figure {
	f := New(name, title, p.Clock, Along(p.Axis, p.Unit))
	order := make([]int, len(p.Names))
	for i := range order {
		order[i] = i
	}
	named := len(order)
	if p.Limit && named == MaxEntries || named > MaxEntries {
		named = MaxEntries - 2 // the others and the limit are two more
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(span(p.Values[b]), span(p.Values[a])) })
		slices.Sort(order[:named])
		for k, i := range order[named:] {
			word := ""
			if k == 0 {
				word = fmt.Sprintf("%d others", len(order)-named)
			}
			f.Line(word, Faint(Colour(Grey)), false, p.Time, p.Values[i])
		}
	}
	for k, i := range order[:named] {
		word := p.Names[i]
		if p.Limit && len(p.Names) == 1 {
			word = ""
		}
		c := Body(k)
		if named == len(order) {
			c = Body(i)
		}
		f.Line(word, c, false, p.Time, p.Values[i])
	}
	if p.Limit {
		f.Line("limit", bound.light, true, []float64{p.Time[0], p.Time[len(p.Time)-1]}, []float64{0, 0})
	}
	return f
}

// stackedPanels are the most of an animation, one above the other.
const stackedPanels = 4

// stacked are the panels that an animation shows: of the states, of the actions, and the
// margin, which is the last.
func stacked(panels []Panel) []Panel {
	if len(panels) <= stackedPanels {
		return panels
	}
	actions := slices.IndexFunc(panels, func(p Panel) bool { return p.Title == "actions" })
	states := panels[:min(actions, stackedPanels-2)]
	return slices.Concat(states, panels[actions:actions+1], panels[len(panels)-1:])
}

// Settled is the decision from which on every state stays near where it ends.
func Settled(states [][]float64) int {
	last := len(states) - 1
	end := states[last]
	room := make([]float64, len(end))
	for i := range end {
		along := make([]float64, 0, len(states))
		for _, s := range states {
			if i < len(s) {
				along = append(along, s[i])
			}
		}
		room[i] = near * span(along)
	}
	for k := last; k > 0; k-- {
		for i, x := range states[k-1] {
			if i < len(end) && !(math.Abs(x-end[i]) <= room[i]) {
				return k
			}
		}
	}
	return 0
}

// Clock gives the times of n points that are so many seconds apart, and their axis; 0: not known.
func Clock(seconds float64, n int) ([]float64, Axis) {
	each, along := 1.0, Along("decisions", "count")
	if seconds > 0 {
		per, unit := timeUnit(seconds * float64(n))
		each, along = seconds/per, Along("time", unit)
	}
	at := make([]float64, n)
	for k := range at {
		at[k] = each * float64(k)
	}
	return at, along
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
