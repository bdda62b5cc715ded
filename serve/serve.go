// Package serve decides for many closed loops at once: the core of a running controller,
// whatever it is reached by.
//
// The central type is Server. A session is one closed loop by its name; it begins with its
// first request and ends with Reset. Requests of different sessions that are at hand together
// are decided as one batch (gpc.Case.Loops), those of one session in their order. Lines is the
// server on a pair of streams, JSON Lines in and out; Handler is the server over HTTP, Client who
// asks it (docs/serve.md).
//
// What is answered never depends on who else asks. A request that has a deadline is answered by then:
// with the best a search has found so far, or else with the problem's fallback, marked late.
// A panic in the decision of one session ends that session alone.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/version"
)

const (
	// DefaultSessions may be open at once unless Options say otherwise.
	DefaultSessions = 256
	// MaxSessions bounds what Options may say.
	MaxSessions = 1 << 14
	// DefaultCandidates of a refinement that states no number.
	DefaultCandidates = 4096
	// MaxSessionName is how many bytes a session's name may have.
	MaxSessionName = 128
	// MaxDeadline bounds how far ahead a deadline may be.
	MaxDeadline = 24 * time.Hour
	// backlog is how many groups of requests may wait for the dispatcher.
	backlog = 1024
	// refinements may be asked for at once before the next is refused: one refines at a time.
	refinements = 8
)

// reserve of a deadline is kept for the answer's way out: a tenth, but no more than that.
const reserve = 500 * time.Microsecond

// ErrBusy is returned for a request that would have to wait behind too many others.
var ErrBusy = errors.New("serve: too many requests are waiting")

// ErrFull is wrapped by the error of a request that would begin one session too many.
var ErrFull = errors.New("as many sessions are open as may be")

// ErrClosed is returned by a server that is closing.
var ErrClosed = errors.New("serve: the server is closing")

// FieldError says which field of a request is wrong.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

func fieldErrorf(field, format string, args ...any) error {
	return &FieldError{field, fmt.Errorf(format, args...)}
}

// Options say how a server decides. The zero value of each is a default.
type Options struct {
	Setup    gpc.Setup // method and map
	Sessions int       // open at once at most; 0: DefaultSessions
	// Deadline of requests that state none, from when they were read; 0: none.
	Deadline time.Duration
	// Waiting is how many requests of Decide, Refine and the like may wait or be decided at
	// once; one more is refused with ErrBusy. 0: as many as Sessions.
	Waiting int
	// MaxAge of what is decided about: an observation that is older by the clock of this machine,
	// or as much ahead of it, is stale, and every decision has to say when it was observed. 0: any.
	MaxAge time.Duration
	// Resume are sessions that are open from the start, as they were last reported.
	Resume []SessionState
	// Preference of sessions that have stated none; nil: the adaptive priority.
	Preference []float64
	// Seed of refinements that state none.
	Seed uint64
	// Threads that refinements are evaluated on, and controllers of several sessions decide
	// on; 0: every core.
	Threads int
	// Log, if set, is told what went wrong inside, panics with their stacks, and of stale
	// observations.
	Log *slog.Logger
}

// Server decides for many sessions. Its methods may be called by any goroutine.
type Server struct {
	of         *gpc.Case
	spec       *domain.Spec
	problem    domain.Problem
	opt        Options
	preference domain.Preference
	health     Health // what does not change
	began      time.Time
	queue      chan []*job
	ended      chan struct{} // closed when the dispatcher is done
	closing    sync.RWMutex  // held for reading while a group is queued
	closed     bool
	refining   sync.WaitGroup
	refine     sync.Mutex // of the refiner
	refiner    *gpc.Refiner
	decider    decider
	sessions   map[string]*session // the dispatcher's alone
	open       atomic.Int64        // sessions
	waiting    atomic.Int64        // requests that Options.Waiting counts
	drain      sync.Once
	draining   chan struct{} // closed when nothing more is taken but from Lines
	hurry      chan struct{} // closed when what is not answered is given up
	watchers   watchers
	metrics    metrics

	decisions, batches, largest, replaced, late, refused, panics atomic.Int64
}

// session is one closed loop. It is the dispatcher's alone.
type session struct {
	name       string
	place      int                // its loop, of a method that has loops
	controller domain.Controller  // or its controller
	preference *domain.Preference // nil: the server's
	waits      bool               // one of its requests is in the batch
	observed   time.Time          // the last observation that said when; zero: none
	stale      string             // why every decision is the fallback; "": none is
	s, c, u    []float64          // what was reported last and executed then; nil: nothing yet
}

// New prepares a server of a case on an engine, which has to stay open until it is closed.
func New(c *gpc.Case, e *gpc.Engine, opt Options) (*Server, error) {
	opt.Sessions = cmp.Or(opt.Sessions, DefaultSessions)
	opt.Threads = cmp.Or(opt.Threads, runtime.GOMAXPROCS(0))
	opt.Waiting = cmp.Or(opt.Waiting, opt.Sessions)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	spec := c.Spec()
	s := &Server{
		of: c, spec: spec, problem: c.Definition().Problem, opt: opt, preference: domain.Preference{Adaptive: true}, began: time.Now(),
		queue: make(chan []*job, backlog), ended: make(chan struct{}), sessions: map[string]*session{},
		draining: make(chan struct{}), hurry: make(chan struct{}), metrics: newMetrics(),
	}
	if opt.Preference != nil {
		s.preference = domain.Preference{W: opt.Preference}
	}
	switch {
	case opt.Sessions < 1 || opt.Sessions > MaxSessions:
		return nil, gpc.BadInput(fmt.Errorf("serve: %d sessions, want 1 to %d", opt.Sessions, MaxSessions))
	case opt.Deadline < 0 || opt.Deadline > MaxDeadline:
		return nil, gpc.BadInput(fmt.Errorf("serve: a deadline of %v, want 0 to %v", opt.Deadline, MaxDeadline))
	case opt.MaxAge < 0 || opt.MaxAge > MaxDeadline:
		return nil, gpc.BadInput(fmt.Errorf("serve: observations of %v at most, want 0 to %v", opt.MaxAge, MaxDeadline))
	case opt.Waiting < 1:
		return nil, gpc.BadInput(fmt.Errorf("serve: %d requests may wait, want at least 1", opt.Waiting))
	}
	if err := s.preference.Validate(spec.ObjectiveSize()); err != nil {
		return nil, gpc.BadInput(err)
	}
	var err error
	if opt.Setup.Model == nil && opt.Setup.Weights == nil {
		n := opt.Setup.Candidates
		if opt.Setup, err = c.Setup(opt.Setup.Method, ""); err != nil {
			return nil, err
		}
		opt.Setup.Candidates = n
	}
	if s.decider, err = newDecider(c, e, opt); err != nil {
		return nil, err
	}
	about := e.About()
	s.health = Health{
		Status: "ok", Case: spec.Name, Method: cmp.Or(opt.Setup.Method, gpc.DefaultMethod), Commit: version.Build(),
		Backend: about.Backend, ISA: about.ISA, Threads: about.Threads, SessionsMax: opt.Sessions,
	}
	if m := opt.Setup.Model; m != nil {
		if s.health.ModelSHA256, err = m.SHA256(); err != nil {
			return nil, err
		}
		if s.refiner, err = c.Refiner(e, opt.Setup, DefaultCandidates); err != nil {
			return nil, err
		}
	}
	for i := range opt.Resume {
		if err := s.resume(&opt.Resume[i]); err != nil {
			return nil, err
		}
	}
	go s.dispatch()
	return s, nil
}

// Drain begins the end: what is asked from now on is refused with ErrClosed, but for the lines
// that Lines has read, and what has no answer after within gets the fallback, or ErrClosed.
func (s *Server) Drain(within time.Duration) {
	s.drain.Do(func() {
		close(s.draining)
		time.AfterFunc(within, func() { close(s.hurry) })
	})
}

// Draining reports whether Drain was called.
func (s *Server) Draining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// Close answers what was asked and gives up the sessions.
func (s *Server) Close() {
	s.closing.Lock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
	s.closing.Unlock()
	<-s.ended
	s.refining.Wait()
}

// Request is one observation that something is asked about.
type Request struct {
	// S and C are measured state and context, physical units; an entry of S or C that is NaN
	// was not measured, which a decision is made without and a refinement refuses.
	S, C []float64
	// Preference of this request alone; nil: the session's.
	Preference *domain.Preference
	// Deadline by which there is an answer; zero: Options.Deadline from now, if any.
	Deadline time.Time
	// Observed is when S and C were, by the clock of who observed; of a session's decisions each
	// has to be after the one before. Zero: not said.
	Observed time.Time
}

// Decide makes one decision of a session. The decision goes on when the context ends
// first, as far as the session is concerned. An error is a *FieldError where the request is
// wrong.
func (s *Server) Decide(ctx context.Context, session string, r Request) (*Decision, error) {
	a, err := s.ask(ctx, &job{op: opDecide, session: session, request: r}, time.Now())
	return a.Decision, err
}

// Refine refines candidates of one observation; it changes nothing of the session, whose
// preference it takes. A deadline ends its rounds, besides opt.Within.
func (s *Server) Refine(ctx context.Context, session string, r Request, opt batchnav.RefineOptions) (*Refined, error) {
	a, err := s.ask(ctx, &job{op: opRefine, session: session, request: r, refine: opt}, time.Now())
	return a.Refinement, err
}

// SetPreference sets the preference of a session's requests that state none.
func (s *Server) SetPreference(ctx context.Context, session string, p domain.Preference) error {
	_, err := s.ask(ctx, &job{op: opPreference, session: session, request: Request{Preference: &p}}, time.Now())
	return err
}

// Clear ends the fallback that a stale observation has led a session to. Its loop begins anew, its
// preference stays.
func (s *Server) Clear(ctx context.Context, session string) error {
	_, err := s.ask(ctx, &job{op: opClear, session: session}, time.Now())
	return err
}

// Reset ends a session: all that it knew is forgotten, and its place is free. The next request
// of its name begins it anew.
func (s *Server) Reset(ctx context.Context, session string) error {
	_, err := s.ask(ctx, &job{op: opReset, session: session}, time.Now())
	return err
}

// Health says what the server is and what it has done.
func (s *Server) Health() Health {
	h := s.health
	s.closing.RLock()
	if s.closed || s.Draining() {
		h.Status = "closing"
	}
	s.closing.RUnlock()
	h.Sessions, h.Decisions, h.Batches, h.LargestBatch = s.open.Load(), s.decisions.Load(), s.batches.Load(), s.largest.Load()
	h.Replaced, h.Late, h.Refused, h.Panics = s.replaced.Load(), s.late.Load(), s.refused.Load(), s.panics.Load()
	h.UptimeS = time.Since(s.began).Seconds()
	return h
}

// ask queues one request that began at a time and waits for its answer.
func (s *Server) ask(ctx context.Context, j *job, began time.Time) (Answer, error) {
	err := s.admit(j)
	if err != nil {
		s.count(err)
		return Answer{Op: j.op.String(), Session: j.session}, err
	}
	if err = s.prepare(j, began); err == nil {
		err = s.enqueue([]*job{j}, false)
	}
	if err != nil {
		s.fail(j, err)
	}
	select {
	case <-j.done:
	case <-s.hurry:
		s.giveUp(j)
		<-j.done
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	return j.answer, j.err
}

// room are the requests of one kind that may be asked at once, and those that are.
func (s *Server) room(o op) (now *atomic.Int64, most int) {
	if o == opRefine {
		return &s.metrics.refining, refinements
	}
	return &s.waiting, s.opt.Waiting
}

// busy reports whether a request would be refused now.
func (s *Server) busy(o op) bool {
	now, most := s.room(o)
	return now.Load() >= int64(most)
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

// release takes a request from those that wait.
func (s *Server) release(j *job) {
	if j.admitted {
		now, _ := s.room(j.op)
		now.Add(-1)
	}
}

// prepare checks a request and starts its clock.
func (s *Server) prepare(j *job, began time.Time) error {
	j.began, j.done = began, make(chan struct{})
	if len(j.session) > MaxSessionName {
		return fieldErrorf("session", "the name of a session has %d bytes, at most %d are allowed", len(j.session), MaxSessionName)
	}
	if !utf8.ValidString(j.session) {
		return fieldErrorf("session", "the name of a session is not UTF-8")
	}
	r := &j.request
	if p := r.Preference; p != nil {
		if err := p.Validate(s.spec.ObjectiveSize()); err != nil {
			return &FieldError{"preference", err}
		}
	}
	if j.op != opDecide && j.op != opRefine {
		return nil
	}
	if err := s.spec.CheckSizes(r.S, r.C); err != nil {
		return fieldErrorf("s", "the observation %w", err)
	}
	if j.op == opDecide && s.opt.MaxAge > 0 && r.Observed.IsZero() {
		return fieldErrorf("observed_ms", "field \"observed_ms\" is missing: an observation is to be of %v at most, want when it was made, in milliseconds since 1970", s.opt.MaxAge)
	}
	if j.op == opRefine {
		if s.refiner == nil {
			return fieldErrorf("op", "method %s of case %s has no map to refine with", s.health.Method, s.spec.Name)
		}
		j.refine.Candidates = cmp.Or(j.refine.Candidates, DefaultCandidates)
		j.refine.Seed, j.refine.Threads = cmp.Or(j.refine.Seed, s.opt.Seed), s.opt.Threads
	}
	if r.Deadline.IsZero() && s.opt.Deadline > 0 {
		r.Deadline = began.Add(s.opt.Deadline)
	}
	if r.Deadline.IsZero() {
		return nil
	}
	way := min(reserve, max(0, time.Until(r.Deadline)/10))
	r.Deadline = r.Deadline.Add(-way)
	j.until = r.Deadline.Add(-way)
	j.timer.Store(time.AfterFunc(time.Until(r.Deadline), func() { s.expire(j) }))
	return nil
}

// enqueue gives a group of requests, in their order, to the dispatcher. Without wait it is
// refused where too many wait already.
func (s *Server) enqueue(group []*job, wait bool) error {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return ErrClosed
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
	for group := range s.queue {
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
			s.refining.Go(func() { s.refineOne(j) })
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

// begin finds the session of a request, a new one where it has none.
func (s *Server) begin(j *job) (err error) {
	if j.of = s.sessions[j.session]; j.of != nil {
		return nil
	}
	if len(s.sessions) >= s.opt.Sessions {
		return fieldErrorf("session", "%w, %d: reset one", ErrFull, len(s.sessions))
	}
	of := &session{name: j.session}
	if err := s.guarded(func() error { return s.decider.open(of) }); err != nil {
		return err
	}
	j.of, s.sessions[j.session] = of, of
	s.open.Store(int64(len(s.sessions)))
	return nil
}

// end ends a session.
func (s *Server) end(of *session) {
	s.decider.close(of)
	delete(s.sessions, of.name)
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

// decide answers decisions of sessions that differ.
func (s *Server) decide(jobs []*job) {
	open := jobs[:0:0]
	for _, j := range jobs {
		j.preference = s.preferenceOf(j)
		switch {
		case s.outdated(j):
			s.holdBack(j)
		case j.finished(): // its deadline passed while it waited
			s.decider.missed(j)
			j.of.report(j)
		default:
			open = append(open, j)
		}
	}
	if len(open) == 0 {
		return
	}
	s.batches.Add(1)
	s.largest.Store(max(s.largest.Load(), int64(len(open))))
	s.metrics.batch.observe(float64(len(open)))
	s.decider.decide(s, open)
	for _, j := range open {
		j.of.report(j)
	}
}

// report keeps what a session was told and did.
func (of *session) report(j *job) {
	if d := j.answer.Decision; d != nil {
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
	s.opt.Log.Warn("stale observation: the session has the fallback until it is cleared or reset", "session", of.name, "why", of.stale, "age", age)
	if err := s.guarded(func() error { return s.decider.restart(of) }); err != nil {
		s.opt.Log.Error("a loop does not begin anew", "session", of.name, "error", err)
	}
	return true
}

// holdBack answers a decision of an observation that is stale.
func (s *Server) holdBack(j *job) {
	d, err := s.conservative(&j.request)
	if err != nil {
		s.fail(j, err)
		return
	}
	d.Stale, d.LatencyUs = j.of.stale, microseconds(time.Since(j.began))
	s.finish(j, Answer{Op: j.op.String(), Session: j.session, Decision: d}, nil, &s.decisions, &s.replaced)
	j.of.report(j)
}

// decided answers one decision. What was answered in its place by its deadline is what the
// session has executed.
func (s *Server) decided(j *job, d *Decision, together int) {
	d.Batch, d.LatencyUs = together, microseconds(time.Since(j.began))
	counters := []*atomic.Int64{&s.decisions, &s.replaced}
	if !domain.Fallback(d.Fallback).Replaced() {
		counters = counters[:1]
	}
	if !s.finish(j, Answer{Op: opDecide.String(), Session: j.session, Decision: d}, nil, counters...) && j.answer.Decision != nil {
		s.decider.executed(j, j.answer.Decision.U)
	}
}

// broke ends the session of a decision that panicked.
func (s *Server) broke(j *job, err error) {
	s.panics.Add(1)
	s.end(j.of)
	s.fail(j, &FieldError{"session", fmt.Errorf("the session has ended: %w", err)})
}

// fail answers a request with an error.
func (s *Server) fail(j *job, err error) {
	if s.finish(j, Answer{Op: j.op.String(), Session: j.session}, err) {
		s.count(err)
	}
}

// conservative is the problem's fallback as a decision.
func (s *Server) conservative(r *Request) (*Decision, error) {
	d := &Decision{U: make([]float64, s.spec.ActionSize()), Residual: math.NaN(), Displacement: math.NaN(), Fallback: uint16(domain.FallbackConservative)}
	err := s.guarded(func() error {
		s.problem.Fallback(r.S, r.C, d.U)
		margins := make([]float64, len(s.spec.Margins))
		s.problem.Margins(r.S, r.C, d.U, margins)
		d.Margin = smallest(margins)
		d.Feasible = d.Margin >= -s.spec.MarginTolerance
		return nil
	})
	return d, err
}

// expire answers a request whose deadline has come with the problem's fallback.
func (s *Server) expire(j *job) {
	d, err := s.conservative(&j.request)
	if err != nil {
		s.fail(j, err)
		return
	}
	a := Answer{Op: j.op.String(), Session: j.session}
	switch j.op {
	case opDecide:
		d.Late, d.LatencyUs = true, microseconds(time.Since(j.began))
		a.Decision = d
	case opRefine:
		plan := make([]float64, 0, s.spec.PlanSize())
		for range s.spec.Plan {
			plan = append(plan, d.U...)
		}
		a.Refinement = &Refined{Late: true, Refinement: batchnav.Refinement{U: plan, Cost: math.NaN(), Margin: d.Margin, Feasible: d.Feasible, Residual: math.NaN(), LocalizedCost: math.NaN()}}
	}
	s.finish(j, a, nil, &s.late)
}

// finish answers a request, which the counters count, and reports whether it was not
// answered yet. When it returns the answer is there.
func (s *Server) finish(j *job, a Answer, err error, counters ...*atomic.Int64) bool {
	if !j.answered.CompareAndSwap(false, true) {
		<-j.done
		return false
	}
	j.answer, j.err = a, err
	for _, c := range counters {
		c.Add(1)
	}
	s.metrics.answered(j)
	s.watchers.tell(j)
	s.release(j)
	j.stop()
	close(j.done)
	return true
}

// count counts an error that was answered.
func (s *Server) count(err error) {
	s.refused.Add(1)
	s.metrics.refuse(err)
}

// refineOne answers a refinement.
func (s *Server) refineOne(j *job) {
	s.refine.Lock()
	defer s.refine.Unlock()
	if j.finished() {
		return
	}
	opt := j.refine
	if !j.until.IsZero() && s.of.Definition().Learned == nil { // a method's own search is not stopped: its late answer is dropped
		left := max(1, time.Until(j.until))
		if opt.Within == 0 || left < opt.Within {
			opt.Within = left
		}
	}
	var result *batchnav.Refinement
	err := s.guarded(func() (err error) {
		result, err = s.refiner.Refine(context.Background(), batchnav.Observation{S: j.request.S, C: j.request.C, Preference: j.preference}, opt)
		return err
	})
	if err != nil {
		s.fail(j, err)
		return
	}
	s.finish(j, Answer{Op: j.op.String(), Session: j.session, Refinement: &Refined{Refinement: *result}}, nil, &s.decisions)
}

// panicError is a panic as an error.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// panicked reports whether an error was a panic.
func panicked(err error) bool {
	var p *panicError
	return errors.As(err, &p)
}

// guarded makes a panic of f an error.
func (s *Server) guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opt.Log.Error("panic", "value", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &panicError{p}
		}
	}()
	return f()
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// smallest is the least entry, NaN if any is NaN, +Inf if there is none.
func smallest(v []float64) float64 {
	low := math.Inf(1)
	for _, x := range v {
		low = math.Min(low, x)
	}
	return low
}
