package serve

import (
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/machine"
)

// session is one closed loop. It is the dispatcher's alone.
type session struct {
	name        string
	place       int               // its loop, of a method that has loops
	controller  domain.Controller // or its controller
	may         *domain.ControllerAbilities
	preference  *domain.Preference // nil: the server's
	waits       bool               // one of its requests is in the batch
	aside       bool               // nobody's plant: see Aside
	lastRequest time.Time          // when it was last asked for
	observed    time.Time          // the last observation that said when; zero: none
	stale       string             // why every decision is the fallback; "": none is
	s, c, u     []float64          // what was reported last and executed then; nil: nothing yet
}

// begin finds the session of a request, a new one where it has none.
func (s *Server) begin(j *job) (err error) {
	if j.of = s.sessions[j.session]; j.of != nil {
		j.of.lastRequest = time.Now()
		return nil
	}
	if len(s.sessions) >= s.opt.Sessions && !s.expireIdle() {
		return jsonin.Errorf("session", "%w: the server holds %d; reset one, or start it with a larger --sessions", ErrFull, len(s.sessions))
	}
	of := &session{name: j.session, aside: j.aside, lastRequest: time.Now()}
	if err := s.guarded(func() error { return s.decider.open(of) }); err != nil {
		return err
	}
	j.of, s.sessions[j.session] = of, of
	if !of.aside {
		s.others++
	}
	s.open.Store(int64(len(s.sessions)))
	return nil
}

// expireIdle ends the session that was not asked for longest, if that is longer than Options.SessionIdle.
// One in the batch is not ended, and one that has the fallback until it is cleared keeps it.
func (s *Server) expireIdle() bool {
	var oldest *session
	for _, of := range s.sessions {
		if !of.waits && of.stale == "" && (oldest == nil || of.lastRequest.Before(oldest.lastRequest)) {
			oldest = of
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
func (s *Server) end(of *session) {
	s.decider.close(of)
	s.held.keep(of.name, nil)
	delete(s.sessions, of.name)
	if !of.aside {
		s.others--
	}
	s.open.Store(int64(len(s.sessions)))
}

func (s *Server) preferenceOf(j *job) domain.Preference {
	if j.request.Preference != nil {
		return *j.request.Preference
	}
	if of := s.sessions[j.session]; of != nil && of.preference != nil {
		return *of.preference
	}
	return s.preference
}

// report keeps what a session was told and did.
func (of *session) report(j *job) {
	if d := j.answer.Decision; d != nil && d.Estimate != nil {
		of.s, of.c, of.u = append(of.s[:0], d.Estimate.S...), append(of.c[:0], d.Estimate.C...), append(of.u[:0], d.U...)
	} else if d != nil && j.request.Y == nil { // of what is measured nothing is known without its filter
		of.s, of.c, of.u = append(of.s[:0], j.request.S...), append(of.c[:0], j.request.C...), append(of.u[:0], d.U...)
	}
}

// Why a session's decisions are the fallback (Decision.Stale).
const (
	staleAge   = "age"   // an observation was older than Options.MaxAge, or as much ahead
	staleOrder = "order" // one was not after the one before
)

// outdated reports whether a session's decisions are the fallback, of this observation on.
func (s *Server) outdated(j *job) bool {
	of, at := j.of, j.request.Observed
	if of.stale != "" || at.IsZero() {
		return of.stale != ""
	}
	age := time.Since(at)
	switch {
	case s.opt.MaxAge > 0 && age.Abs() > s.opt.MaxAge:
		of.stale = staleAge
	case !at.After(of.observed):
		of.stale = staleOrder
	default:
		of.observed = at
		return false
	}
	s.opt.Log.Warn("stale observation: the session answers the fallback until it is cleared or reset", "session", of.name, "why", of.stale, "age", age)
	s.held.keep(of.name, nil)
	if err := s.guarded(func() error { return s.decider.restart(of) }); err != nil {
		s.opt.Log.Error("a control loop cannot be restarted", "session", of.name, "error", err)
	}
	return true
}

// answerStale answers a decision of an observation that is stale.
func (s *Server) answerStale(j *job) {
	d, err := s.conservative(&j.request)
	if err != nil {
		s.fail(j, err)
		return
	}
	d.Stale, d.LatencyUs = j.of.stale, machine.Microseconds(time.Since(j.began))
	s.finish(j, Answer{Op: j.op.String(), Session: j.session, Decision: d}, nil, counted(j, &s.decisions, &s.replaced)...)
	j.of.report(j)
}
