// Package serve answers requests for decisions of many control loops at once, over HTTP, over standard input and
// output, or in process.
//
// The central type is Server. A session is one closed loop by its name; it begins with its
// first request and ends with Reset. Requests of different sessions that are at hand together
// are decided as one batch (gpc.Case.Loops), those of one session in their order. Lines is the
// server on a pair of streams, JSON Lines in and out; Handler is the server over HTTP, Client who
// asks it (docs/how-to/serve.md).
//
// What is answered never depends on who else asks. A request that has a deadline is answered by then:
// with the best a search has found so far, or else with the plan before or the problem's fallback, marked late.
// A panic in the decision of one session ends that session alone.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/version"
)

const (
	// DefaultSessions may be open at once unless Options say otherwise.
	DefaultSessions = 256
	// MaxSessions bounds what Options may say.
	MaxSessions = 1 << 14
	// DefaultSessionIdle is how long a session keeps its place unless Options say otherwise.
	DefaultSessionIdle = time.Hour
	// MaxCandidates of a refinement that a line or a request over HTTP asks for: its memory is kept.
	MaxCandidates = 1 << 16
	// DefaultCandidates of a refinement that states no number.
	DefaultCandidates = 4096
	// MaxExact is how many weightings an exact front may have, and MaxExactTime how long it may take.
	MaxExact, MaxExactTime = 1000, 10 * time.Second
	// MaxSessionName is how many bytes a session's name may have.
	MaxSessionName = 128
	// MaxDeadline bounds how far ahead a deadline may be.
	MaxDeadline = 24 * time.Hour
	// Period is the Deadline of decisions that is the time between two of the case.
	Period time.Duration = -1
)

// ErrBusy is returned for a request that would have to wait behind too many others.
var ErrBusy = errors.New("serve: too many requests are waiting")

// ErrFull is wrapped by the error of a request that would begin one session too many.
var ErrFull = errors.New("no session is free")

// ErrClosed is returned by a server that is closing.
var ErrClosed = errors.New("serve: the server is closing")

// FieldError says which field of a request is wrong: it has the field and the error.
type FieldError = jsonin.FieldError

// Options say how a server decides. The zero value of each is a default.
type Options struct {
	Setup    gpc.Setup // method and map
	Sessions int       // open at once at most; 0: DefaultSessions
	// SessionIdle is how long a session keeps its place without a request where another wants it: then the one
	// that was not asked for longest ends. One with a stale observation never does. 0: DefaultSessionIdle;
	// negative: for ever.
	SessionIdle time.Duration
	// Deadline of requests that state none, from when they were read; 0: none; Period: of decisions alone, the time between two.
	Deadline time.Duration
	// Waiting is how many requests of Decide and the like may wait or be decided at once; one
	// more is refused with ErrBusy. 0: as many as Sessions. Measured: as many as keep the time of
	// an answer near that of a server without other work, by how long its batches take.
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
	controlCase *gpc.Case
	engine      *gpc.Engine
	spec        *domain.Spec
	problem     domain.Problem
	opt         Options
	preference  domain.Preference
	health      Health // what does not change
	start       time.Time
	queue       chan []*job
	asideQueue  chan *job     // see Aside
	asideFrom   time.Time     // from when on the next of it may be served; the dispatcher's alone
	asideAt     int64         // batches when the last of it was served; the dispatcher's alone
	decidedAt   time.Time     // when the last batch was; the dispatcher's alone
	asides      atomic.Int64  // slices that have begun
	pending     atomic.Int64  // groups that are in the queue or about to be
	foreground  int           // sessions that were not begun aside; the dispatcher's alone
	finished    chan struct{} // closed when the dispatcher is done
	closing     sync.RWMutex  // held for reading while a group is queued
	closed      atomic.Bool
	refining    sync.WaitGroup
	refine      sync.Mutex // of the refiner and the fronts
	exact       sync.Mutex // of the exact front that is solved
	refiner     *gpc.Refiner
	fronts      *batchnav.Fronts // nil before the first
	exactFronts *batchnav.Fronts // compared with exact fronts, and of switched inputs; exact is locked
	reaches     error            // why the method reaches no goals; nil: it does
	decider     decider
	sessions    map[string]*session // the dispatcher's alone
	open        atomic.Int64        // sessions
	queued      atomic.Int64        // requests that Options.Waiting counts
	answering   atomic.Int64        // requests over HTTP from when they are asked until their answers are written
	pace        pace
	drain       sync.Once
	draining    chan struct{} // closed when nothing more is taken but from Lines
	hurry       chan struct{} // closed when what is not answered is given up
	watchers    watchers
	plans       planTails
	metrics     metrics

	decisions, batches, largest, replaced, late, refused, panics atomic.Int64
}

// New prepares a server of a case on an engine, which has to stay open until it is closed.
func New(c *gpc.Case, e *gpc.Engine, opt Options) (*Server, error) {
	opt.Sessions = cmp.Or(opt.Sessions, DefaultSessions)
	opt.SessionIdle = cmp.Or(opt.SessionIdle, DefaultSessionIdle)
	opt.Threads = cmp.Or(opt.Threads, runtime.GOMAXPROCS(0))
	opt.Waiting = cmp.Or(opt.Waiting, opt.Sessions)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	spec := c.Spec()
	s := &Server{
		controlCase: c, engine: e, spec: spec, problem: c.Definition().Problem, opt: opt, preference: domain.Preference{Adaptive: true}, start: time.Now(),
		queue: make(chan []*job, backlog), asideQueue: make(chan *job), finished: make(chan struct{}), sessions: map[string]*session{},
		draining: make(chan struct{}), hurry: make(chan struct{}), metrics: newMetrics(),
	}
	s.plans = planTails{plans: map[string][]float64{}, width: spec.ActionSize()}
	if opt.Preference != nil {
		s.preference = domain.Preference{W: opt.Preference}
	}
	switch {
	case opt.Sessions < 1 || opt.Sessions > MaxSessions:
		return nil, gpc.BadInput(fmt.Errorf("serve: %d sessions, want 1 to %d", opt.Sessions, MaxSessions))
	case opt.Deadline < 0 && opt.Deadline != Period || opt.Deadline > MaxDeadline:
		return nil, gpc.BadInput(fmt.Errorf("serve: a deadline of %v, want 0 to %v", opt.Deadline, MaxDeadline))
	case opt.MaxAge < 0 || opt.MaxAge > MaxDeadline:
		return nil, gpc.BadInput(fmt.Errorf("serve: a largest age of observations of %v, want 0 to %v", opt.MaxAge, MaxDeadline))
	case opt.Waiting < Measured: // 0 is Sessions
		return nil, gpc.BadInput(fmt.Errorf("serve: room for %d waiting requests, want at least 1", opt.Waiting))
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
	s.opt = opt
	if s.decider, s.reaches, err = newDecider(c, e, opt); err != nil {
		return nil, err
	}
	description := e.About()
	s.health = Health{
		Status: "ok", Case: spec.Name, Method: c.MethodName(opt.Setup.Method), Commit: version.Build(),
		Backend: description.Backend, ISA: description.ISA, Threads: description.Threads, SessionsMax: opt.Sessions,
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

// Request is one observation that something is asked about.
type Request struct {
	// S and C are measured state and context, physical units; an entry of S or C that is NaN
	// was not measured, which a decision is made without and a refinement refuses.
	S, C []float64
	// Y is what is measured in place of S, of a case with a Measurement, whose state is estimated: S is not
	// read then. An entry that is NaN was not measured.
	Y []float64
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
// preference it takes. A deadline ends its rounds, besides opt.TimeLimit.
func (s *Server) Refine(ctx context.Context, session string, r Request, opt batchnav.RefineOptions) (*Refined, error) {
	a, err := s.ask(ctx, &job{op: opRefine, session: session, request: r, refine: opt}, time.Now())
	return a.Refinement, err
}

// Front decides all trade-offs of one observation, whose preference is not read, at once. It changes nothing of any session, and has
// no deadline.
func (s *Server) Front(ctx context.Context, r Request, opt batchnav.FrontOptions) (*batchnav.Front, error) {
	a, err := s.ask(ctx, &job{op: opFront, request: r, front: opt}, time.Now())
	return a.Front, err
}

// ExactFront is the front of the exact solver under so many weightings, and the map's with its ratio where the method has one. What is not solved
// by opt.TimeLimit, or MaxExactTime, is left out. It ends with the context.
func (s *Server) ExactFront(ctx context.Context, r Request, exact int, opt batchnav.FrontOptions) (Answer, error) {
	return s.ask(ctx, &job{op: opFront, request: r, front: opt, exact: exact}, time.Now())
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
	if s.closed.Load() || s.Draining() {
		h.Status = "closing"
	}
	h.Sessions, h.Decisions, h.Asides = s.open.Load(), s.decisions.Load(), s.asides.Load()
	h.Batches, h.LargestBatch = s.batches.Load(), s.largest.Load()
	h.Replaced, h.Late = s.replaced.Load(), s.late.Load()
	h.Refused, h.Panics = s.refused.Load(), s.panics.Load()
	h.UptimeS = time.Since(s.start).Seconds()
	return h
}
