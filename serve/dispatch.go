package serve

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
)

// backlog is how many groups of requests may wait for the dispatcher.
const backlog = 1024

// enqueue gives a group of requests, in their order, to the dispatcher. Without wait it is
// refused where too many wait already.
func (s *Server) enqueue(group []*job, wait bool) error {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return ErrClosed
	}
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
		return ErrBusy
	}
}

// dispatch serves what is queued until the server is closed.
func (s *Server) dispatch() {
	defer close(s.ended)
	turn := time.NewTimer(0)
	defer turn.Stop()
	for {
		group, ok := s.next(turn)
		if !ok {
			return
		}
		if group[0].aside {
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
					group = append(group, next...)
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
			j.of.waits = false
		}
		if len(batch) > 0 {
			s.decide(batch)
			batch = batch[:0]
		}
	}
	for _, j := range jobs {
		if of := s.sessions[j.session]; of != nil && of.waits {
			flush()
		}
		switch j.op {
		case opDecide:
			if err := s.begin(j); err != nil {
				s.fail(j, err)
				continue
			}
			j.of.waits = true
			batch = append(batch, j)
		case opRefine:
			j.preference = s.preferenceOf(j)
			if j.aside {
				s.refineAside(j)
			} else {
				s.refining.Go(func() { s.refineOne(j) })
			}
		case opPreference:
			if err := s.begin(j); err != nil {
				s.fail(j, err)
				continue
			}
			j.of.preference = j.request.Preference
			s.finish(j, Answer{Op: j.op.String(), Session: j.session}, nil)
		case opClear:
			if of := s.sessions[j.session]; of != nil && of.stale != "" {
				of.stale, of.observed = "", time.Time{}
				s.opt.Log.Info("fallback cleared", "session", of.name)
			}
			s.finish(j, Answer{Op: j.op.String(), Session: j.session}, nil)
		case opReset:
			if of := s.sessions[j.session]; of != nil {
				s.end(of)
			}
			s.finish(j, Answer{Op: j.op.String(), Session: j.session}, nil)
		case opHealth:
			flush() // it counts what was asked before it
			h := s.Health()
			s.finish(j, Answer{Op: j.op.String(), Health: &h}, nil)
		case opInside:
			flush()
			j.inside()
			s.finish(j, Answer{}, nil)
		}
	}
	flush()
}

// decide answers decisions of sessions that differ.
func (s *Server) decide(jobs []*job) {
	open := jobs[:0:0]
	for _, j := range jobs {
		j.preference = s.preferenceOf(j)
		switch {
		case s.outdated(j):
			s.answerStale(j)
		case j.finished() || j.overdue() && s.expire(j): // its deadline passed while it waited
			s.decider.missed(j)
			j.of.report(j)
		default:
			open = append(open, j)
		}
	}
	if len(open) == 0 {
		return
	}
	aside := open[0].aside // then it is alone
	if !aside {
		s.batches.Add(1)
		s.largest.Store(max(s.largest.Load(), int64(len(open))))
		s.metrics.batch.observe(float64(len(open)))
		for _, j := range open {
			s.metrics.asidesAhead.Store(max(s.metrics.asidesAhead.Load(), s.asides.Load()-j.asides))
		}
	}
	start := time.Now()
	s.decider.decide(s, open)
	s.decider.prepare(s, open)
	if !aside {
		s.decidedAt = time.Now()
		s.pace.observeBatch(len(open), s.decidedAt.Sub(start), s.opt.Sessions)
	}
	for _, j := range open {
		j.of.report(j)
	}
}

// decided answers one decision of a plan, nil for none. What was answered in its place by its deadline is what the
// session has executed.
func (s *Server) decided(j *job, d *Decision, plan []float64, together int) {
	if j.overdue() {
		s.expire(j) // its clock may ring later than it should
	}
	d.Batch, d.LatencyUs = together, machine.Microseconds(time.Since(j.began))
	counters := []*atomic.Int64{&s.decisions, &s.replaced}
	if !domain.Fallback(d.Fallback).Replaced() {
		counters = counters[:1]
	}
	if !s.finish(j, Answer{Op: opDecide.String(), Session: j.session, Decision: d}, nil, counted(j, counters...)...) && j.answer.Decision != nil {
		s.decider.executed(j, j.answer.Decision.U)
	}
	s.held.keep(j.session, plan)
}
