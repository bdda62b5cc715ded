package estimate

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// Loop is a controller that decides by what is measured: a Filter before it, the prediction to when its action will begin to
// act, and, where it has a Margin, the limits kept off by what the errors of the estimate may take. It is used by one goroutine.
type Loop struct {
	inner  domain.Controller
	filter *Filter // nil: the state is measured
	margin *Margin // nil: the limits are kept as they are
	under  *underWay
	s, c   []float64
	plan   []float64 // that the margin is computed along
	began  bool
	way    bool
	// u is executed and not yet predicted from.
	u       []float64
	pending bool
	// ended: what was decided last begins to act in the episode's last period, or behind it.
	ended bool
}

var (
	_ domain.Estimating   = (*Loop)(nil)
	_ domain.Monitored    = (*Loop)(nil)
	_ domain.Overruled    = (*Loop)(nil)
	_ domain.Anticipating = aheadLoop{}
)

// NewLoop is a controller behind a filter, which is an Anticipating where the controller is one. filter is nil where the state is
// measured. With a margin the controller has to be of the case that it tightens.
func NewLoop(inner domain.Controller, problem domain.Problem, filter *Filter, margin *Margin, delay domain.Delay) domain.Estimating {
	spec := problem.Spec()
	l := &Loop{
		inner: inner, filter: filter, margin: margin, under: newUnderWay(problem, delay),
		s: make([]float64, spec.MeasuredSize()), c: make([]float64, spec.ContextSize()),
	}
	if _, ahead := inner.(domain.Anticipating); ahead {
		return aheadLoop{l}
	}
	return l
}

// Judged is what a loop that keeps off the limits says of its episode's start.
type Judged interface{ Way() bool }

// aheadLoop is a Loop whose controller works between decisions.
type aheadLoop struct{ *Loop }

// Prepare implements domain.Anticipating.
func (l aheadLoop) Prepare() error {
	if l.ended {
		return nil
	}
	return domain.Prepare(l.inner)
}

// Filter is the estimator of the loop, nil where the state is measured.
func (l *Loop) Filter() *Filter { return l.filter }

// Reset implements domain.Controller.
func (l *Loop) Reset(ep domain.Episode) error {
	if l.filter != nil {
		l.filter.Reset()
	}
	l.under.reset()
	l.pending, l.ended = false, false
	l.began, l.plan = false, l.plan[:0]
	if l.margin != nil {
		l.margin.Clear()
	}
	return l.inner.Reset(ep)
}

// Decide takes the measured values in the place of the state, which they have to be one of each.
func (l *Loop) Decide(y, c []float64, pref domain.Preference, u []float64) (bool, error) {
	return l.DecideMeasured(y, c, pref, l.s, l.c, u)
}

// DecideMeasured implements domain.Estimating. What it writes into s and known is of when u will begin to act.
func (l *Loop) DecideMeasured(y, c []float64, pref domain.Preference, s, known, u []float64) (ok bool, err error) {
	l.predict()
	if err := l.measure(y, c, s, known); err != nil {
		return false, err
	}
	left := l.under.ahead(s, known)
	if l.ended = left < 2; left < 1 { // it will not act: the episode is over by then
		l.under.problem.Fallback(s, known, u)
		ok = true
	} else if ok, err = l.decide(s, known, pref, u); err != nil {
		return false, err
	}
	l.executed(u)
	return ok, nil
}

// measure writes the state and the context of when y was measured.
func (l *Loop) measure(y, c, s, known []float64) error {
	if l.filter == nil {
		if len(y) != len(s) || len(c) != len(known) {
			return fmt.Errorf("estimate: %d states and %d context entries, case %q has %d and %d", len(y), len(c), l.under.problem.Spec().Name, len(s), len(known))
		}
		copy(s, y)
		copy(known, c)
		l.under.begin(s, known)
		return nil
	}
	if !l.under.begun {
		l.under.begin(l.filter.mean, c)
		l.filter.begin(c, l.under)
	}
	return l.filter.Update(y, c, s, known)
}

// predict moves the estimate to the present, by what was executed.
func (l *Loop) predict() {
	if !l.pending {
		return
	}
	l.pending = false
	acted := l.under.push(l.u)
	switch {
	case l.filter == nil:
	case l.under.share > 0:
		l.filter.predictPart(&l.under.delay, acted, l.under.way[0])
	default:
		l.filter.Predict(acted)
	}
}

// executed remembers what the next prediction is made by.
func (l *Loop) executed(u []float64) { l.u, l.pending = append(l.u[:0], u...), true }

// Executed implements domain.Overruled.
func (l *Loop) Executed(u []float64) {
	l.executed(u)
	if inner, remembers := l.inner.(domain.Overruled); remembers {
		inner.Executed(u)
	}
}

// Missed implements domain.Overruled. It uses no observation: the step is predicted. Before anything was measured an action that is
// under way is not known, and nothing is done.
func (l *Loop) Missed(_, _, u []float64) {
	if l.under.n > 0 && !l.under.begun {
		return
	}
	l.predict()
	l.executed(u)
	if inner, remembers := l.inner.(domain.Overruled); remembers {
		inner.Missed(nil, nil, u)
	}
}

// Faults says of each output what was wrong with it at the last decision.
func (l *Loop) Faults() []string {
	names := []string{}
	if l.filter == nil {
		return names
	}
	for _, f := range l.filter.Faults() {
		names = append(names, f.String())
	}
	return names
}

// settling is how often the first decision of an episode is made, each time with what the plan before it
// asks to be kept off: there is no decision before it to take a plan from.
const settling = 3

func (l *Loop) decide(s, c []float64, pref domain.Preference, u []float64) (ok bool, err error) {
	if l.margin == nil {
		return l.inner.Decide(s, c, pref, u)
	}
	if l.began {
		l.margin.Along(s, c, l.plan, l.filter, l.under)
		if ok, err = l.inner.Decide(s, c, pref, u); err == nil {
			l.next(u)
		}
		return ok, err
	}
	for k := range settling {
		if k > 0 {
			if err := l.inner.Reset(nil); err != nil {
				return false, err
			}
		}
		l.margin.Along(s, c, l.plan, l.filter, l.under)
		if ok, err = l.inner.Decide(s, c, pref, u); err != nil {
			return false, err
		}
		l.now(u)
	}
	l.way = l.margin.Keeps(s, c, l.plan)
	l.next(u)
	l.began = true
	return ok, nil
}

// now remembers the plan of this decision, whose first action is u.
func (l *Loop) now(u []float64) {
	l.plan = append(l.plan[:0], u...)
	if p, plans := l.inner.(domain.Planning); plans && len(p.Plan()) > len(u) {
		l.plan = append(l.plan, p.Plan()[len(u):]...)
	}
}

// next remembers what is left of it for the next decision.
func (l *Loop) next(u []float64) {
	l.now(u)
	if len(l.plan) > len(u) {
		l.plan = slices.Delete(l.plan, 0, len(u))
	}
}

// Way reports whether the first decision's plan keeps the limits with all that is to be kept off them.
// Where it does not, the start has no way that holds at the stated level.
func (l *Loop) Way() bool { return l.margin == nil || l.way }

// Plan implements domain.Planning where the controller does.
func (l *Loop) Plan() []float64 {
	if p, plans := l.inner.(domain.Planning); plans {
		return p.Plan()
	}
	return nil
}

// Monitor implements domain.Monitored.
func (l *Loop) Monitor() domain.Monitor {
	if m, monitored := l.inner.(domain.Monitored); monitored {
		return m.Monitor()
	}
	return domain.NoMonitor()
}
