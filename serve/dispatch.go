package serve

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/option"
)

// backlog is how many groups of requests may wait for the dispatcher.
const backlog = 1024

// reply is the answer to a request, without a result.
func (j *job) reply() Answer { return Answer{Op: j.op.String(), Session: j.session} }

// ask queues one request that began at a time and waits for its answer.
func (s *Server) ask(ctx context.Context, j *job, start time.Time) (Answer, error) {
	err := s.admit(j)
	if err != nil {
		s.count(err)
		return j.reply(), err
	}
	if err = s.prepare(j, start); err == nil {
		err = s.enqueue([]*job{j}, false)
	}
	if err != nil {
		s.fail(j, err)
	}
	select {
	case <-j.ready:
	case <-s.hurry:
		s.giveUp(j)
		<-j.ready
	case <-ctx.Done():
		if j.end != nil { // its search ends
			s.finish(j, Answer{}, ctx.Err())
		}
		return Answer{}, ctx.Err()
	}
	return j.answer, j.err
}

// admit counts a request that waits, or refuses it.
func (s *Server) admit(j *job) error {
	if s.Draining() {
		return ErrClosed
	}
	now, most := s.room(j.op)
	if now.Add(1) > int64(most) {
		now.Add(-1)
		return ErrBusy
	}
	j.admitted = true
	return nil
}

// prepare checks a request and starts its clock.
func (s *Server) prepare(j *job, start time.Time) error {
	j.start = start
	if j.ready == nil {
		j.ready = make(chan struct{})
	}
	if len(j.session) > MaxSessionName {
		return jsonin.Errorf("session", "the name of a session has %d bytes, at most %d are allowed", len(j.session), MaxSessionName)
	}
	if strings.ContainsRune(j.session, utf8.RuneError) { // JSON's half of a surrogate is one too
		return jsonin.Errorf("session", "the name of a session is not UTF-8")
	}
	r := &j.request
	if p := r.Preference; p != nil {
		err := p.Validate(s.spec.ObjectiveSize())
		if p.Goal != nil && j.op != opRefine {
			err = cmp.Or(p.Goal.Validate(s.spec.ObjectiveSize()), s.reaches)
		}
		if err != nil {
			return &FieldError{Field: "preference", Err: err}
		}
	}
	if j.op != opDecide && j.op != opRefine && j.op != opFront {
		return nil
	}
	if m := s.controlCase.Definition().Measurement; m != nil && j.op == opDecide {
		if len(r.Y) != len(m.Outputs) {
			return jsonin.Errorf("y", "field \"y\" has %d entries, case %q has %d measured outputs", len(r.Y), s.spec.Name, len(m.Outputs))
		}
		r.S = slices.Repeat([]float64{math.NaN()}, s.spec.MeasuredSize()) // nobody measured it
	}
	if err := s.spec.CheckSizes(r.S, r.C); err != nil {
		field := "s"
		if len(r.S) == s.spec.MeasuredSize() {
			field = "c"
		}
		return jsonin.Errorf(field, "the observation %w", err)
	}
	if j.op == opDecide && s.opt.MaxAge > 0 && r.Observed.IsZero() {
		return jsonin.Errorf("observed_ms", "field \"observed_ms\" is missing: this server takes observations of at most %v of age; want the time of the measurement, in milliseconds since 1970", s.opt.MaxAge)
	}
	if j.op == opRefine {
		if s.refiner == nil {
			return jsonin.Errorf("op", "method %s of case %s has no map, which a search needs: start the server with a method that has one", s.health.Method, s.spec.Name)
		}
		j.refine.Candidates = cmp.Or(j.refine.Candidates, DefaultCandidates)
		j.refine.Seed, j.refine.Threads = cmp.Or(j.refine.Seed, s.opt.Seed), s.opt.Threads
	}
	if j.op != opDecide {
		j.run, j.end = context.WithCancel(context.Background())
	}
	if j.op == opFront {
		return s.frontable(j)
	}
	if limit := s.deadlineOf(j.op); r.Deadline.IsZero() && limit > 0 {
		r.Deadline = start.Add(limit)
	}
	if r.Deadline.IsZero() {
		return nil
	}
	way := min(reserve, max(0, time.Until(r.Deadline)/10))
	r.Deadline = r.Deadline.Add(-way)
	j.searchDeadline = r.Deadline.Add(-way)
	j.timer.Store(time.AfterFunc(time.Until(r.Deadline), func() { s.expire(j) }))
	return nil
}

// Deadline is that of a decision which states none; 0: none.
func (s *Server) Deadline() time.Duration { return s.deadlineOf(opDecide) }

// deadlineOf is that of requests which state none; 0: none.
func (s *Server) deadlineOf(kind op) time.Duration {
	switch {
	case s.opt.Deadline != Period:
		return s.opt.Deadline
	case kind != opDecide:
		return 0
	}
	return time.Duration(min(s.spec.StepSeconds*float64(time.Second), float64(MaxDeadline)))
}

// enqueue gives a group of requests, in their order, to the dispatcher. Without wait it is
// refused where too many wait already.
func (s *Server) enqueue(group []*job, wait bool) error {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed.Load() {
		return ErrClosed
	}
	s.pending.Add(1)
	for _, j := range group {
		j.asides = s.asides.Load()
	}
	if wait {
		s.queue <- group
		return nil
	}
	select {
	case s.queue <- group:
		return nil
	default:
		s.pending.Add(-1)
		return ErrBusy
	}
}

// dequeue is a group that has left the queue.
func (s *Server) dequeue(group []*job) []*job {
	if group != nil {
		s.pending.Add(-1)
	}
	return group
}

// dispatch serves what is queued until the server is closed.
func (s *Server) dispatch() {
	defer close(s.finished)
	turn := time.NewTimer(0)
	defer turn.Stop()
	for {
		group, ok := s.next(turn)
		if !ok {
			return
		}
		if group[0].background {
			s.slice(group[0])
			continue
		}
		// Those whose requests have been read as well join them or are refused first. What came while
		// a batch was decided would else be let in one by one behind each other, unseen by admission.
		runtime.Gosched()
		for more := true; more; {
			select {
			case next, ok := <-s.queue:
				if more = ok; ok {
					group = append(group, s.dequeue(next)...)
				}
			default:
				more = false
			}
		}
		s.serve(group)
	}
}

// serve answers requests in their order: decisions of sessions that differ together, up to
// the first that has to wait for one of them.
func (s *Server) serve(jobs []*job) {
	var batch []*job
	flush := func() {
		for _, j := range batch {
			j.sess.waits = false
		}
		if len(batch) > 0 {
			s.decide(batch)
			batch = batch[:0]
		}
	}
	for _, j := range jobs {
		if sess := s.sessions[j.session]; sess != nil && sess.waits {
			flush()
		}
		switch j.op {
		case opDecide:
			if err := s.begin(j); err != nil {
				s.fail(j, err)
				continue
			}
			j.sess.waits = true
			batch = append(batch, j)
		case opRefine, opFront:
			answer := s.answerFront
			if j.op == opRefine {
				j.preference, answer = s.preferenceOf(j), s.answerRefinement
			}
			if j.background {
				answer(j)
			} else {
				s.refining.Go(func() { answer(j) })
			}
		case opPreference:
			if err := s.begin(j); err != nil {
				s.fail(j, err)
				continue
			}
			j.sess.preference = j.request.Preference
			s.finish(j, j.reply(), nil)
		case opClear:
			if sess := s.sessions[j.session]; sess != nil && sess.stale != "" {
				sess.stale, sess.observed = "", time.Time{}
				s.opt.Log.Info("fallback cleared", "session", sess.name)
			}
			s.finish(j, j.reply(), nil)
		case opReset:
			if sess := s.sessions[j.session]; sess != nil {
				s.end(sess)
			}
			s.finish(j, j.reply(), nil)
		case opHealth:
			flush() // it counts what was asked before it
			s.finish(j, Answer{Op: j.op.String(), Health: new(s.Health())}, nil)
		case opInside:
			flush()
			j.task()
			s.finish(j, Answer{}, nil)
		}
	}
	flush()
}

// begin finds the session of a request, a new one where it has none.
func (s *Server) begin(j *job) (err error) {
	if j.sess = s.sessions[j.session]; j.sess != nil {
		j.sess.lastRequest = time.Now()
		return nil
	}
	if len(s.sessions) >= s.opt.Sessions && !s.expireIdle() {
		return jsonin.Errorf("session", "%w", option.Errorf("%w: the server holds %d; reset one, or start it with a larger {Sessions}", ErrFull, len(s.sessions)))
	}
	sess := &session{name: j.session, background: j.background, lastRequest: time.Now()}
	if err := s.guarded(func() error { return s.decider.open(sess) }); err != nil {
		return err
	}
	j.sess, s.sessions[j.session] = sess, sess
	if !sess.background {
		s.foreground++
	}
	s.open.Store(int64(len(s.sessions)))
	return nil
}

// decide answers decisions of sessions that differ.
func (s *Server) decide(jobs []*job) {
	open := jobs[:0:0]
	for _, j := range jobs {
		j.preference = s.preferenceOf(j)
		if p := j.sess.preference; p != nil && j.preference.Goal == nil {
			j.preference.Goal = p.Goal // which goes on next to weights of this request alone
		}
		if !s.settled(j.sess) {
			s.expire(j)
			j.sess.outlasting.missed = append(j.sess.outlasting.missed, j)
			j.sess.report(j)
			continue
		}
		if s.sessions[j.session] != j.sess { // it ended in a panic meanwhile
			if err := s.begin(j); err != nil {
				s.fail(j, err)
				continue
			}
		}
		switch {
		case s.outdated(j):
			s.answerStale(j)
		case j.finished() || j.overdue() && s.expire(j): // its deadline passed while it waited
			s.decider.missed(j)
			j.sess.report(j)
		default:
			open = append(open, j)
		}
	}
	if len(open) == 0 {
		return
	}
	background := open[0].background // then it is alone
	if !background {
		s.batches.Add(1)
		s.largest.Store(max(s.largest.Load(), int64(len(open))))
		s.metrics.batch.observe(float64(len(open)))
		for _, j := range open {
			s.metrics.asidesAhead.Store(max(s.metrics.asidesAhead.Load(), s.asides.Load()-j.asides))
		}
	}
	start := time.Now()
	s.decider.decide(s, open, s.answerDecision)
	s.decider.prepare(s, open)
	if !background {
		s.decidedAt = time.Now()
		s.pace.observeBatch(len(open), s.decidedAt.Sub(start), s.opt.Sessions)
	}
	for _, j := range open {
		j.sess.report(j)
	}
}

func (s *Server) preferenceOf(j *job) domain.Preference {
	if j.request.Preference != nil {
		return *j.request.Preference
	}
	if sess := s.sessions[j.session]; sess != nil && sess.preference != nil {
		return *sess.preference
	}
	return s.preference
}

// Why a session's decisions are the fallback (Decision.Stale).
const (
	staleAge   = "age"   // an observation was older than Options.MaxAge, or as much ahead
	staleOrder = "order" // one was not after the one before
)

// outdated reports whether a session's decisions are the fallback, of this observation on.
func (s *Server) outdated(j *job) bool {
	sess, observed := j.sess, j.request.Observed
	if sess.stale != "" || observed.IsZero() {
		return sess.stale != ""
	}
	age := time.Since(observed)
	switch {
	case s.opt.MaxAge > 0 && age.Abs() > s.opt.MaxAge:
		sess.stale = staleAge
	case !observed.After(sess.observed):
		sess.stale = staleOrder
	default:
		sess.observed = observed
		return false
	}
	s.opt.Log.Warn("stale observation: the session answers the fallback until it is cleared or reset", "session", sess.name, "why", sess.stale, "age", age)
	s.restart(sess)
	return true
}

// restart begins the control loop of a session anew.
func (s *Server) restart(sess *session) {
	s.plans.keep(sess.name, nil)
	if err := s.guarded(func() error { return s.decider.restart(sess) }); err != nil {
		s.opt.Log.Error("a control loop cannot be restarted", "session", sess.name, "error", err)
	}
}

// answerStale answers a decision of an observation that is stale.
func (s *Server) answerStale(j *job) {
	d, err := s.conservative(&j.request)
	if err != nil {
		s.fail(j, err)
		return
	}
	d.Stale, d.LatencyUs = j.sess.stale, machine.Microseconds(time.Since(j.start))
	s.finish(j, Answer{Op: j.op.String(), Session: j.session, Decision: d}, nil, counted(j, &s.decisions, &s.replaced)...)
	j.sess.report(j)
}

// answerDecision answers one decision. What was answered in its place by its deadline is what the session has executed. A
// panic ends the session.
func (s *Server) answerDecision(j *job, m *outcome) {
	if panicked(m.err) {
		s.panics.Add(1)
		s.end(j.sess)
		m.err = &FieldError{Field: "session", Err: fmt.Errorf("the session has ended: %w", m.err)}
	}
	if m.err != nil {
		s.fail(j, m.err)
		return
	}
	if j.overdue() {
		s.expire(j) // its clock may ring later than it should
	}
	d := m.decision
	d.Batch, d.LatencyUs = m.batched, machine.Microseconds(time.Since(j.start))
	if len(s.spec.Switches) > 0 {
		d.Ahead = slices.Clone(m.plan)
	}
	counters := []*atomic.Int64{&s.decisions, &s.replaced}
	if !domain.Fallback(d.Fallback).Replaced() {
		counters = counters[:1]
	}
	if !s.finish(j, Answer{Op: opDecide.String(), Session: j.session, Decision: d}, nil, counted(j, counters...)...) && j.answer.Decision != nil {
		s.decider.executed(j, j.answer.Decision.U)
	}
	s.plans.keep(j.session, m.plan)
}

// finish answers a request, which the counters count, and reports whether it was not
// answered yet. When it returns the answer is there.
func (s *Server) finish(j *job, a Answer, err error, counters ...*atomic.Int64) bool {
	if !j.hasAnswer.CompareAndSwap(false, true) {
		<-j.ready
		return false
	}
	j.answer, j.err = a, err
	for _, c := range counters {
		c.Add(1)
	}
	if !j.background {
		s.metrics.countAnswer(j)
	}
	s.watchers.tell(j)
	s.release(j)
	j.stop()
	close(j.ready)
	return true
}

// release takes a request from those that wait.
func (s *Server) release(j *job) {
	if j.admitted {
		now, _ := s.room(j.op)
		now.Add(-1)
	}
}

// fail answers a request with an error.
func (s *Server) fail(j *job, err error) {
	if s.finish(j, j.reply(), err) && !j.background {
		s.count(err)
	}
}

// count counts an error that was answered.
func (s *Server) count(err error) {
	s.refused.Add(1)
	s.metrics.refused[refusalOf(err)].Add(1)
}

// counted are the counters of a request's answer: none of one that was asked aside.
func counted(j *job, counters ...*atomic.Int64) []*atomic.Int64 {
	if j.background {
		return nil
	}
	return counters
}

// report keeps what a session was told and did.
func (sess *session) report(j *job) {
	if d := j.answer.Decision; d != nil && d.Estimate != nil {
		sess.s, sess.c, sess.u = append(sess.s[:0], d.Estimate.S...), append(sess.c[:0], d.Estimate.C...), append(sess.u[:0], d.U...)
	} else if d != nil && j.request.Y == nil { // of what is measured nothing is known without its filter
		sess.s, sess.c, sess.u = append(sess.s[:0], j.request.S...), append(sess.c[:0], j.request.C...), append(sess.u[:0], d.U...)
	}
}
