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
