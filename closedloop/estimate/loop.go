package estimate

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// Loop is a controller that decides by measurements. A Filter estimates the state, and the state is predicted to when
// the action will begin to act. With a Margin the constraints are tightened by the errors of the estimate. It is used
// by one goroutine.
type Loop struct {
	inner     domain.Controller
	abilities *domain.ControllerAbilities // inner's
	filter    *Filter                     // nil: the state is measured
	margin    *Margin                     // nil: the limits are kept as they are
	queue     *actionQueue
	s, c      []float64
	last      domain.Decision
	plan      []float64 // that the margin is computed along
	inEpisode bool
	way       bool
	// vain counts the decisions in a row that break a limit; the next wait decisions have no tightening.
	vain, wait int
	// asking: a guard may ask now whether the last plan continues the present decision; followed: it does; fresh: the
	// tightening was found in this decision.
	asking, followed, fresh bool
	// u is executed and not yet predicted from.
	u       []float64
	pending bool
	// lastPeriod: the last decision begins to act in the episode's last period, or after it.
	lastPeriod bool
}

// NewLoop is a controller after a filter, with the abilities of the controller and its own. filter is nil where the
// state is measured. With a margin the controller has to be of the case that the margin tightens.
func NewLoop(inner domain.Controller, problem domain.Problem, filter *Filter, margin *Margin, delay domain.Delay) *Loop {
	spec := problem.Spec()
	l := &Loop{
		inner: inner, abilities: domain.AbilitiesOfController(inner), filter: filter, margin: margin, queue: newActionQueue(problem, delay),
		s: make([]float64, spec.MeasuredSize()), c: make([]float64, spec.ContextSize()),
	}
	if margin != nil && l.abilities.Follows != nil && margin.follow() {
		l.abilities.Follows(l.follower())
	}
	return l
}

// Abilities implements domain.Able.
func (l *Loop) Abilities() *domain.ControllerAbilities {
	abilities := *l.abilities
	abilities.Executed, abilities.Missed = l.overruled, l.missed
	abilities.DecideMeasured, abilities.Faults = l.DecideMeasured, l.faults
	abilities.Way, abilities.Follows = l.keeps, nil
	if abilities.Prepare != nil {
		abilities.Prepare = l.prepare
	}
	return &abilities
}

func (l *Loop) prepare() error {
	if l.lastPeriod {
		return nil
	}
	return l.abilities.Prepare()
}

// Reset implements domain.Controller.
func (l *Loop) Reset(ep domain.Episode) error {
	if l.filter != nil {
		l.filter.Reset()
	}
	l.queue.reset()
	l.pending, l.lastPeriod = false, false
	l.inEpisode, l.plan, l.last = false, l.plan[:0], domain.Decided(true)
	l.vain, l.wait = 0, 0
	if l.margin != nil {
		l.margin.Clear()
	}
	l.leave()
	return l.inner.Reset(ep)
}

// Decide takes the measured values in the place of the state, which they have to be one of each.
func (l *Loop) Decide(y, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	return l.DecideMeasured(y, c, pref, l.s, l.c, u)
}

// DecideMeasured is domain.ControllerAbilities.DecideMeasured. It writes the state and the context in which u will
// begin to act. After the episode's end nothing is decided, and the Decision is the last one.
func (l *Loop) DecideMeasured(y, c []float64, pref domain.Preference, s, context, u []float64) (domain.Decision, error) {
	l.predict()
	if err := l.measure(y, c, s, context); err != nil {
		return domain.Decision{}, err
	}
	periods := l.queue.ahead(s, context)
	if l.lastPeriod = periods < 2; periods < 1 {
		l.queue.problem.Fallback(s, context, u)
		l.last.Fallback &^= domain.FallbackMethod
	} else if err := l.decide(s, context, pref, u); err != nil {
		return domain.Decision{}, err
	}
	l.executed(u)
	return l.last, nil
}

// measure writes the state and the context of when y was measured.
func (l *Loop) measure(y, c, s, context []float64) error {
	if l.filter == nil {
		if len(y) != len(s) || len(c) != len(context) {
			return fmt.Errorf("estimate: %d states and %d context entries, case %q has %d and %d", len(y), len(c), l.queue.problem.Spec().Name, len(s), len(context))
		}
		copy(s, y)
		copy(context, c)
		l.queue.begin(s, context)
		return nil
	}
	if !l.queue.initialized {
		l.queue.begin(l.filter.mean, c)
		l.filter.begin(c, l.queue)
	}
	return l.filter.Update(y, c, s, context)
}

// predict moves the estimate to the present, by what was executed.
func (l *Loop) predict() {
	if !l.pending {
		return
	}
	l.pending = false
	action := l.queue.push(l.u)
	switch {
	case l.filter == nil:
	case l.queue.share > 0:
		l.filter.predictPart(&l.queue.delay, action, l.queue.way[0])
	default:
		l.filter.Predict(action)
	}
}

// executed remembers what the next prediction is made by.
func (l *Loop) executed(u []float64) { l.u, l.pending = append(l.u[:0], u...), true }

func (l *Loop) overruled(u []float64) {
	l.executed(u)
	if l.abilities.Executed != nil {
		l.abilities.Executed(u)
	}
}

// missed uses no observation: the step is predicted. Before anything was measured a queued action is not
// known, and nothing is done.
func (l *Loop) missed(_, _, u []float64) {
	if l.queue.n > 0 && !l.queue.initialized {
		return
	}
	l.predict()
	l.executed(u)
	l.leave()
	if l.abilities.Missed != nil {
		l.abilities.Missed(nil, nil, u)
	}
}

func (l *Loop) faults() []string {
	names := []string{}
	if l.filter == nil {
		return names
	}
	for _, f := range l.filter.Faults() {
		names = append(names, f.String())
	}
	return names
}

// Settling is how often the first decision of an episode is made: once without tightening, then with the tightening of the
// plan before.
const Settling = 3

// decide makes the last decision anew.
func (l *Loop) decide(s, c []float64, pref domain.Preference, u []float64) (err error) {
	switch {
	case l.margin == nil:
		l.last, err = l.inner.Decide(s, c, pref, u)
		return err
	case l.inEpisode:
		err = l.later(s, c, pref, u)
	default:
		err = l.first(s, c, pref, u)
	}
	if err == nil {
		l.next(u)
	}
	return err
}

// first is the decision that begins an episode. There is a way where a plan keeps its own tightening. For a method
// without plans there is one where its decision does.
func (l *Loop) first(s, c []float64, pref domain.Preference, u []float64) (err error) {
	l.inEpisode, l.way = true, false
	if l.last, err = l.inner.Decide(s, c, pref, u); err != nil || !l.last.Keeps() {
		l.now(u)
		return err
	}
	l.now(u)
	plain := slices.Clone(l.plan)
	for _, r := range l.margin.firstRelaxations() {
		l.plan = append(l.plan[:0], plain...)
		if solved, err := l.settle(r, s, c, pref, u); err != nil || solved {
			l.way = r == unrelaxed && (len(l.last.Ahead) == 0 || l.margin.Keeps(s, c, l.plan))
			return err
		}
	}
	l.margin.Clear()
	return l.redecide(s, c, pref, u)
}

// settle makes the first decision with a relaxation of the tightening of the plan before it.
func (l *Loop) settle(r relaxation, s, c []float64, pref domain.Preference, u []float64) (solved bool, err error) {
	for turn := 1; turn < Settling; turn++ {
		l.margin.Along(s, c, l.plan, l.filter, l.queue)
		l.margin.relax(r, c)
		if err := l.redecide(s, c, pref, u); err != nil || !l.last.Keeps() {
			return false, err
		}
		l.now(u)
	}
	return true, nil
}

// MostVain bounds how long a loop waits where no action of a map keeps the limits: 2^MostVain decisions.
const MostVain = 10

// later is a decision with the tightening of the plan before it. Where no plan, or of a map no action, keeps that, the
// tightening is a half, a quarter, or nothing. With switches it is first reduced of the decisions that no present change binds. If none is found then either, a method that solves gives its last
// resort, and a map its best without tightening. The next 1, 3, 7, … decisions then have no tightening until one keeps
// its limits.
func (l *Loop) later(s, c []float64, pref domain.Preference, u []float64) (err error) {
	if l.wait > 0 {
		l.wait--
		l.margin.Clear()
		if l.last, err = l.inner.Decide(s, c, pref, u); l.last.Keeps() {
			l.wait = 0
		}
		return err
	}
	if l.last, err = l.followPlan(s, c, pref, u); err != nil || l.last.Keeps() {
		l.vain = 0
		return err
	}
	resort, last := slices.Clone(u), l.last
	last.Ahead = slices.Clone(last.Ahead)
	for _, r := range l.margin.laterRelaxations() {
		l.margin.relax(r, c)
		if err := l.redecide(s, c, pref, u); err != nil || l.last.Keeps() {
			l.vain = 0
			return err
		}
	}
	if !last.Solved() {
		copy(u, resort)
		l.last = last
		return nil
	}
	l.wait = 1<<min(l.vain, MostVain) - 1
	l.vain++
	return nil
}

// followPlan is a decision with the tightening of the plan before. While the plant stays near a plan whose feedback
// keeps the limits, the tightening is that of the plan, but for the present errors.
func (l *Loop) followPlan(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	b := l.margin.tube
	if b == nil {
		l.margin.Along(s, c, l.plan, l.filter, l.queue)
		return l.inner.Decide(s, c, pref, u)
	}
	if l.fresh = !(l.trusted() && b.holds(c)); l.fresh {
		l.renew(s, c)
	} else {
		copy(b.margin.backoff.At(c), b.now[b.stage])
	}
	l.asking, l.followed = true, false
	d, err := l.inner.Decide(s, c, pref, u)
	if l.asking = false; l.followed {
		b.stage++
	} else {
		b.leave()
	}
	return d, err
}

// renew finds the tightening in the present state.
func (l *Loop) renew(s, c []float64) {
	l.margin.tube.renew(s, c, l.plan, l.filter, l.queue)
	l.fresh = true
}

// trusted reports whether all that is measured was used.
func (l *Loop) trusted() bool {
	return !slices.ContainsFunc(l.filter.faults, func(f Fault) bool { return f != Fine })
}

// leave forgets the plan that would be followed.
func (l *Loop) leave() {
	if l.margin != nil && l.margin.tube != nil {
		l.margin.tube.leave()
	}
}

// redecide makes the decision as if it were the first, next to the plan.
func (l *Loop) redecide(s, c []float64, pref domain.Preference, u []float64) (err error) {
	if l.abilities.Again != nil {
		l.abilities.Again(l.plan)
	} else if err = l.inner.Reset(nil); err != nil {
		return err
	}
	l.last, err = l.inner.Decide(s, c, pref, u)
	return err
}

// now remembers the plan of this decision, whose first action is u.
func (l *Loop) now(u []float64) {
	l.plan = append(l.plan[:0], u...)
	if len(l.last.Ahead) > len(u) {
		l.plan = append(l.plan, l.last.Ahead[len(u):]...)
	}
}

// next remembers what is left of it for the next decision.
func (l *Loop) next(u []float64) {
	l.now(u)
	if len(l.plan) > len(u) {
		l.plan = slices.Delete(l.plan, 0, len(u))
	}
}

func (l *Loop) keeps() bool { return l.margin == nil || l.way }
