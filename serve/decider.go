package serve

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
)

// decider makes the decisions of sessions. The dispatcher alone calls it.
type decider interface {
	open(sess *session) error
	close(sess *session)
	// restart begins the loop of a session anew; resume makes it one that was told an observation
	// and executed u after it.
	restart(sess *session) error
	resume(sess *session, obs batchnav.Observation, u []float64)
	// decide makes the decision of every job, and gives each to answer, in the dispatcher. prepare lets methods that work between
	// decisions (domain.ControllerAbilities.Prepare) do so, for those of the jobs' sessions that are still open.
	decide(s *Server, jobs []*job, answer func(j *job, m *outcome))
	prepare(s *Server, jobs []*job)
	// executed says that u was executed in place of what was decided last, missed that a
	// request was answered by its deadline and is not decided.
	executed(j *job, u []float64)
	missed(j *job)
}

// outcome is a decision that was made with others, so many together, or why there is none.
type outcome struct {
	decision *Decision
	plan     []float64 // that its action is the first of, valid until the session's next decision; nil: none
	batched  int
	err      error
}

// newDecider is one batch of the navigator's loops, or a controller for each session of a
// method that is not the navigator's. It says why they reach no goals.
func newDecider(c *gpc.Case, e *gpc.Engine, opt Options) (_ decider, reaches, err error) {
	r, err := c.Resolve(opt.Setup)
	if err != nil {
		return nil, nil, err
	}
	if !r.Navigates() || c.Indirect() {
		d := &controllers{controlCase: c, method: r, engine: e, threads: opt.Threads}
		return d, r.Goals(), d.open(&session{}) // what is wrong with it is said now
	}
	b, err := r.Loops(e, opt.Sessions)
	if err != nil {
		return nil, nil, err
	}
	l := &loops{batch: b}
	for i := opt.Sessions - 1; i >= 0; i-- {
		l.free = append(l.free, i)
	}
	return l, r.Goals(), nil
}

// loops are the places of a batch.
type loops struct {
	batch  *batchnav.Batch
	free   []int
	saved  batchnav.Saved
	places []int
	obs    []batchnav.Observation
	out    []batchnav.Decision
}

func (l *loops) open(sess *session) error {
	last := len(l.free) - 1
	sess.place, l.free = l.free[last], l.free[:last]
	l.batch.ResetLoop(sess.place)
	return nil
}

func (l *loops) close(sess *session) { l.free = append(l.free, sess.place) }

func (l *loops) restart(sess *session) error {
	l.batch.ResetLoop(sess.place)
	return nil
}

func (l *loops) resume(sess *session, obs batchnav.Observation, u []float64) {
	l.batch.Missed(sess.place, obs, u)
}

func (l *loops) executed(j *job, u []float64) { l.batch.Executed(j.sess.place, u) }

func (l *loops) missed(j *job) {
	if d := j.answer.Decision; d != nil {
		l.batch.Missed(j.sess.place, l.observation(j), d.U)
	}
}

func (l *loops) observation(j *job) batchnav.Observation {
	return batchnav.Observation{S: j.request.S, C: j.request.C, Preference: j.preference, Deadline: j.searchDeadline}
}

func (l *loops) decide(s *Server, jobs []*job, answer func(j *job, m *outcome)) {
	for i, m := range l.decideTogether(s, jobs) {
		answer(jobs[i], &m)
	}
}

// decideTogether makes the decisions together. Where one panics, all loops go back to where they
// were, and each decides alone: the one that does it again ends.
func (l *loops) decideTogether(s *Server, jobs []*job) []outcome {
	l.places, l.obs, l.out = l.places[:0], l.obs[:0], slices.Grow(l.out[:0], len(jobs))[:len(jobs)]
	for _, j := range jobs {
		l.places = append(l.places, j.sess.place)
		l.obs = append(l.obs, l.observation(j))
	}
	err := l.batch.Save(l.places, &l.saved)
	if err == nil {
		err = s.guarded(func() error { return l.batch.DecideSome(l.places, l.obs, l.out) })
	}
	all := make([]outcome, 0, len(jobs))
	if panicked(err) && len(jobs) > 1 {
		if err = l.batch.Restore(&l.saved); err == nil {
			for i := range jobs {
				all = append(all, l.decideTogether(s, jobs[i:i+1])...)
			}
			return all
		}
	}
	for i := range jobs {
		if err != nil {
			all = append(all, outcome{err: err})
			continue
		}
		d := &l.out[i]
		answer := decisionOf(slices.Clone(d.U), d.Margin, &d.Decision, s.spec)
		answer.OffMap = d.OffMap
		all = append(all, outcome{answer, d.Ahead, len(jobs), nil})
	}
	return all
}

// prepare looks for the next decision of one session after the other. A loop in which that
// fails begins anew.
func (l *loops) prepare(s *Server, jobs []*job) {
	if !l.batch.Prepares() {
		return
	}
	for _, j := range jobs {
		if s.sessions[j.session] != j.sess {
			continue
		}
		l.places = append(l.places[:0], j.sess.place)
		if err := s.guarded(func() error { return l.batch.PrepareSome(l.places) }); err != nil {
			s.opt.Log.Warn("the next decision could not be prepared in advance", "session", j.session, "error", err.Error())
			l.batch.ResetLoop(j.sess.place)
		}
	}
}

// decisionOf is what is answered of a decision of u, whose smallest margin is known.
func decisionOf(u []float64, margin float64, d *domain.Decision, spec *domain.Spec) *Decision {
	return &Decision{
		U: u, Margin: margin, Feasible: spec.Keeps(margin), Sigma: slices.Clone(d.Sigma),
		Residual: d.Residual, ResidualLimit: d.Limit, Displacement: d.Displacement, Fallback: uint32(d.Fallback),
	}
}

// controllers are those of the sessions of a method that decides for one at a time.
type controllers struct {
	controlCase *gpc.Case
	method      *gpc.Resolved
	engine      *gpc.Engine
	threads     int
}

func (c *controllers) open(sess *session) error {
	ctrl, err := c.method.Controller(c.engine)
	if err != nil {
		return err
	}
	if err := ctrl.Reset(nil); err != nil {
		return gpc.BadInput(fmt.Errorf("serve: method %s of case %s: %w", c.method.Method.Name, c.controlCase.Name(), err))
	}
	sess.controller, sess.abilities = ctrl, domain.AbilitiesOfController(ctrl)
	return nil
}

func (c *controllers) restart(sess *session) error { return sess.controller.Reset(nil) }

func (c *controllers) close(*session)                                   {}
func (c *controllers) resume(*session, batchnav.Observation, []float64) {}

// executed tells a controller that u was executed in place of what was decided.
func (c *controllers) executed(j *job, u []float64) {
	if j.sess.abilities.Executed != nil {
		j.sess.abilities.Executed(u)
	}
}

// missed tells a controller that a step was made that it was not asked about in time.
func (c *controllers) missed(j *job) {
	switch missed := j.sess.abilities.Missed; {
	case missed == nil || j.answer.Decision == nil:
	case c.controlCase.Indirect():
		missed(nil, nil, j.answer.Decision.U)
	default:
		missed(j.request.S, j.request.C, j.answer.Decision.U)
	}
}

// decide lets each session's controller decide, side by side. One that is not done by its deadline goes on by itself, and
// no other waits for it.
func (c *controllers) decide(s *Server, jobs []*job, answer func(j *job, m *outcome)) {
	all := make([]outcome, len(jobs))
	c.sideBySide(s, jobs, func(j *job) time.Time {
		if j.timer.Load() == nil {
			return time.Time{}
		}
		return j.request.Deadline
	}, func(i int) {
		m := &all[i]
		m.batched = len(jobs)
		m.err = s.guarded(func() (err error) {
			j := jobs[i]
			m.decision, m.plan, err = decideBy(j.sess.controller, j.sess.abilities, s.problem, &j.request, j.preference)
			return err
		})
	}, func(i int) { answer(jobs[i], &all[i]) })
}

// prepare lets the controllers that do so look for their next decision, side by side, for the time of a decision at most.
func (c *controllers) prepare(s *Server, jobs []*job) {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool {
		return s.sessions[j.session] != j.sess || j.sess.outlasting != nil || j.sess.abilities.Prepare == nil
	})
	var deadline time.Time
	if limit := s.Deadline(); limit > 0 {
		deadline = time.Now().Add(limit)
	}
	c.sideBySide(s, jobs, func(*job) time.Time { return deadline }, func(i int) {
		if err := s.guarded(jobs[i].sess.abilities.Prepare); err != nil {
			s.opt.Log.Warn("the next decision could not be prepared in advance", "session", jobs[i].session, "error", err.Error())
		}
	}, func(int) {})
}

// sideBySide does the work of jobs side by side and settles each as it is done. What is not done by a deadline is left to
// itself: its session settles it (Server.settled).
func (c *controllers) sideBySide(s *Server, jobs []*job, deadline func(j *job) time.Time, work, settle func(i int)) {
	if len(jobs) == 1 && deadline(jobs[0]).IsZero() {
		work(0)
		settle(0)
		return
	}
	ends, finished := make([]chan struct{}, len(jobs)), make(chan int, len(jobs))
	slots := make(chan struct{}, cmp.Or(c.threads, runtime.GOMAXPROCS(0)))
	for i := range jobs {
		ends[i] = make(chan struct{})
		go func() {
			slots <- struct{}{}
			work(i)
			select {
			case <-slots: // unless another has it, since this one outlasted its deadline
			default:
			}
			close(ends[i])
			finished <- i
		}()
	}
	settled := make([]bool, len(jobs))
	next := func() <-chan time.Time { // the first deadline
		var first time.Time
		for i, j := range jobs {
			if d := deadline(j); !settled[i] && !d.IsZero() && (first.IsZero() || d.Before(first)) {
				first = d
			}
		}
		if first.IsZero() {
			return nil
		}
		return time.After(time.Until(first))
	}
	clock := next()
	for remaining := len(jobs); remaining > 0; {
		select {
		case i := <-finished:
			if !settled[i] {
				settled[i] = true
				remaining--
				settle(i)
			}
		case <-clock:
			for i, j := range jobs {
				if d := deadline(j); settled[i] || d.IsZero() || time.Now().Before(d) {
					continue
				}
				settled[i] = true
				remaining--
				s.leave(j, &outlasting{end: ends[i], settle: func() { settle(i) }})
				select {
				case <-slots:
				default:
				}
			}
			clock = next()
		}
	}
}

// decideBy is a controller's answer; plan is the one that the action is the first of, as the controller views it.
func decideBy(k domain.Controller, abilities *domain.ControllerAbilities, p domain.Problem, r *Request, pref domain.Preference) (d *Decision, plan []float64, err error) {
	spec := p.Spec()
	u, estimate, decision := make([]float64, spec.ActionSize()), Estimate{S: r.S, C: r.C}, domain.Decision{}
	if abilities.DecideMeasured == nil {
		decision, err = k.Decide(r.S, r.C, pref, u)
	} else {
		y := r.Y
		if y == nil { // the state is measured
			y = r.S
		}
		estimate = Estimate{S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize())}
		decision, err = abilities.DecideMeasured(y, r.C, pref, estimate.S, estimate.C, u)
	}
	if err != nil {
		return nil, nil, err
	}
	margins := make([]float64, len(spec.Margins))
	p.Margins(estimate.S, estimate.C, u, margins)
	d = decisionOf(u, domain.Smallest(spec.LimitMargins(margins)), &decision, spec)
	d.OffMap = decision.Limit > 0 && !(decision.Residual <= decision.Limit) || decision.Fallback&domain.FallbackResidual != 0
	if abilities.DecideMeasured != nil {
		d.Estimate = &estimate
	}
	if abilities.Faults != nil {
		estimate.Faults = abilities.Faults()
	}
	return d, decision.Ahead, nil
}
