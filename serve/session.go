package serve

import (
	"time"

	"github.com/gpc-engine/gpc/domain"
)

// session is one closed loop. It is the dispatcher's alone.
type session struct {
	name        string
	place       int               // its loop, of a method that has loops
	controller  domain.Controller // or its controller
	abilities   *domain.ControllerAbilities
	preference  *domain.Preference // nil: the server's
	waits       bool               // one of its requests is in the batch
	background  bool               // nobody's plant: see Aside
	lastRequest time.Time          // when it was last asked for
	observed    time.Time          // the last observation that said when; zero: none
	stale       string             // why every decision is the fallback; "": none is
	s, c, u     []float64          // what was reported last and executed then; nil: nothing yet
	outlasting  *outlasting        // what its controller still computes beyond a deadline; nil: nothing
}

// outlasting is work of a controller that was not done by its deadline: it goes on by itself.
type outlasting struct {
	end    chan struct{} // closed when it is done
	settle func()        // takes its result
	missed []*job        // decisions of the session that were answered meanwhile
}

// mostMissed decisions are told to a controller that outlasted its deadline; after more its loop begins anew.
const mostMissed = 64

// leave lets the controller of a session go on by itself.
func (s *Server) leave(j *job, o *outlasting) {
	s.expire(j)
	j.sess.outlasting = o
	s.metrics.outlasted.Add(1)
	s.opt.Log.Warn("a controller outlasts its deadline: its session is answered without it until it is done", "session", j.session)
}

// settled reports whether the controller of a session is free. What it decided beyond a deadline is settled then, and it learns
// what was answered meanwhile.
func (s *Server) settled(sess *session) bool {
	o := sess.outlasting
	if o == nil {
		return true
	}
	select {
	case <-o.end:
	default:
		o.missed = o.missed[:min(len(o.missed), mostMissed)]
		return false
	}
	sess.outlasting = nil
	if o.settle(); s.sessions[sess.name] != sess {
		return true
	}
	if len(o.missed) > mostMissed {
		s.restart(sess)
		return true
	}
	for _, j := range o.missed {
		s.plans.take(sess.name, make([]float64, s.spec.ActionSize())) // the plan moves on
		s.decider.missed(j)
	}
	return true
}

// expireIdle ends the session that was not asked for longest, if that is longer than Options.SessionIdle.
// One in the batch is not ended, and one that has the fallback until it is cleared keeps it.
func (s *Server) expireIdle() bool {
	var oldest *session
	for _, sess := range s.sessions {
		if !sess.waits && sess.stale == "" && (oldest == nil || sess.lastRequest.Before(oldest.lastRequest)) {
			oldest = sess
		}
	}
	if s.opt.SessionIdle < 0 || oldest == nil || time.Since(oldest.lastRequest) < s.opt.SessionIdle {
		return false
	}
	s.opt.Log.Info("an idle session has ended", "session", oldest.name, "idle", time.Since(oldest.lastRequest).Round(time.Second))
	s.end(oldest)
	s.metrics.expired.Add(1)
	return true
}

// end ends a session.
func (s *Server) end(sess *session) {
	s.decider.close(sess)
	s.plans.keep(sess.name, nil)
	delete(s.sessions, sess.name)
	if !sess.background {
		s.foreground--
	}
	s.open.Store(int64(len(s.sessions)))
}
