package estimate

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// actionQueue holds the actions of a loop that are decided and do not act yet, and the prediction along them.
type actionQueue struct {
	problem     domain.Problem
	delay       domain.Delay
	n           int     // how many they are
	share       float64 // how far into a period a measurement is made
	way         [][]float64
	initialized bool
	path        []stage // what each of them was predicted to begin in
	s, c        []float64
}

func newActionQueue(problem domain.Problem, delay domain.Delay) *actionQueue {
	spec := problem.Spec()
	w := &actionQueue{
		problem: problem, delay: delay, n: delay.Ahead(), share: delay.Share(),
		s: make([]float64, spec.MeasuredSize()), c: make([]float64, spec.ContextSize()),
	}
	for range w.n {
		w.path = append(w.path, stage{s: make([]float64, len(w.s)), c: make([]float64, len(w.c)), u: make([]float64, spec.ActionSize())})
	}
	return w
}

// reset begins an episode.
func (w *actionQueue) reset() { w.initialized, w.way = false, w.way[:0] }

// begin fills the queue before the first decision: the plant has the problem's fallback until an action acts.
func (w *actionQueue) begin(s, c []float64) {
	if w.initialized {
		return
	}
	w.initialized = true
	for range w.n {
		u := make([]float64, w.problem.Spec().ActionSize())
		w.problem.Fallback(s, c, u)
		w.way = append(w.way, u)
	}
}

// push takes an executed action and returns the one that acted in that period.
func (w *actionQueue) push(u []float64) []float64 {
	if w.n == 0 {
		return u
	}
	action := w.way[0]
	w.way = append(w.way[1:], slices.Clone(u))
	return action
}

// ahead moves state and context from the measurement to when the next action begins to act. It returns how many periods
// of the episode are left there, +Inf for an episode without an end.
func (w *actionQueue) ahead(s, c []float64) float64 {
	for i, u := range w.way {
		st := &w.path[i]
		copy(st.s, s)
		copy(st.c, c)
		copy(st.u, u)
		w.problem.Step(st.s, st.c, u, w.s, w.c)
		if i == 0 && w.share > 0 { // the rest of the period
			w.delay.Part(1-w.share, st.s, st.c, u, w.s)
		}
		copy(s, w.s)
		copy(c, w.c)
	}
	spec := w.problem.Spec()
	if w.n == 0 || spec.Clock == 0 {
		return math.Inf(1)
	}
	return math.Round((1 - c[spec.Clock-1]) * float64(spec.Steps))
}
