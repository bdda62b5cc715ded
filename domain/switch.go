package domain

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

// Switch is an entry of the action that takes one of a few values, and how soon and how often it may change. What it
// was before is part of the context, so that a decision, a plan and a trace say the same of it. From Ages on the context
// has Changes() entries, each counted up to Saturation().
type Switch struct {
	Action int       `json:"action"` // its place in the action
	Values []float64 `json:"values"` // in ascending order, at least two
	Least  []int     `json:"least"`  // for how many periods each value stays at least, 1 or more
	Most   int       `json:"most"`   // changes in any window; 0: any number
	Window int       `json:"window"` // periods of a window
	Last   int       `json:"last"`   // place in the context of the value before
	Ages   int       `json:"ages"`   // place in the context of the periods since the last change; those of earlier changes follow, most in all
}

// Changes is the number of changes whose age the context holds.
func (w *Switch) Changes() int { return max(1, w.Most) }

// Saturation is the age from which on a change does not matter any more.
func (w *Switch) Saturation() int { return max(w.Window, slices.Max(w.Least)) }

// Nearest is the place of the value that is nearest to v; of two, the smaller one. A NaN is the first.
func (w *Switch) Nearest(v float64) int {
	best, distance := 0, math.Inf(1)
	for i, x := range w.Values {
		if d := math.Abs(v - x); d < distance {
			best, distance = i, d
		}
	}
	return best
}

// MayChange reports whether the value may change now, by the context.
func (w *Switch) MayChange(c []float64) bool {
	const half = 0.5 // ages are counts, in whatever arithmetic
	last := w.Nearest(c[w.Last])
	return c[w.Ages] > float64(w.Least[last])-half && (w.Most == 0 || c[w.Ages+w.Most-1] > float64(w.Window)-half)
}

// SwitchOf is the place among the switches of the one of an action, −1 where there is none.
func (s *Spec) SwitchOf(action int) int {
	return slices.IndexFunc(s.Switches, func(w Switch) bool { return w.Action == action })
}

// HoldSwitches gives switches that may not change now, by context c, the values that they have.
func (s *Spec) HoldSwitches(c, u []float64) {
	if !tensor.Finite(c) {
		return
	}
	for i := range s.Switches {
		if w := &s.Switches[i]; !w.MayChange(c) {
			u[w.Action] = w.Values[w.Nearest(c[w.Last])]
		}
	}
}

// LimitMargins are margins without the last, those of the rules of switches, where the rules are kept: that a value is of the list is 0
// at every decision.
func (s *Spec) LimitMargins(margins []float64) []float64 {
	limits := len(margins)
	for _, w := range s.Switches {
		limits -= 1 + min(1, slices.Max(w.Least)-1) + min(1, w.Most)
	}
	if limits < 0 || !s.Keeps(Smallest(margins[limits:])) {
		return margins
	}
	return margins[:limits]
}

// wrong says what is no value and no age in what context c says was before, "" where nothing is.
func (w *Switch) wrong(s *Spec, c []float64) string {
	const rounding = 1e-3 // of the distance of two values: c may have been kept in other arithmetic
	v, value := c[w.Last], w.Values[w.Nearest(c[w.Last])]
	if math.Abs(v-value) > rounding*(w.Values[1]-w.Values[0]) {
		return fmt.Sprintf("has %s %v in c[%d], want one of %v", s.Context[w.Last].Name, v, w.Last, w.Values)
	}
	least, bound := 0.0, "0"
	for i := w.Ages; i < w.Ages+w.Changes(); i++ {
		if age := c[i]; age < least {
			return fmt.Sprintf("has %s %v in c[%d], want the number of periods since that change, %s or more", s.Context[i].Name, age, i, bound)
		}
		least, bound = c[i], fmt.Sprintf("%v as the change after it", c[i])
	}
	return ""
}
