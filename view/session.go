package view

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/serve"
)

// errNotYet is of a session that has not decided again.
var errNotYet = errors.New("nothing new")

// errClients is returned for an episode of a session, which its client begins.
var errClients = errors.New("only the client of a session begins its episodes")

// Session is a Source: a session of a server that its clients ask. A frame is what it was asked about and what it
// decided; objectives and margins are what the known dynamics say of that.
type Session struct {
	loop
	name   string
	closed chan struct{}
	root   serve.Request // about the last frame

	mutex   sync.Mutex
	pending []serve.Event // that are no frames yet
}

// isLoopSession reports whether a session is the page's.
func isLoopSession(name string) bool {
	return name == loopSession || strings.HasPrefix(name, loopSession+"/")
}

// Sessions are the names of the sessions of others that have decided, which can be shown beside the plant.
func (l *Live) Sessions(ctx context.Context) ([]string, error) {
	all, err := l.server.Sessions(ctx)
	names := []string{}
	for _, state := range all {
		if state.S != nil && !isLoopSession(state.Session) {
			names = append(names, state.Session)
		}
	}
	return names, err
}

// Follow shows one of them from now on. It is closed by Session.Close.
func (l *Live) Follow(ctx context.Context, name string) (*Session, error) {
	all, err := l.server.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	index := slices.IndexFunc(all, func(state serve.SessionState) bool {
		return state.Session == name && state.S != nil && !isLoopSession(name)
	})
	if index < 0 {
		return nil, jsonin.Errorf("session", "no session %.64q has decided", name)
	}
	s := &Session{loop: l.home, name: name, closed: make(chan struct{})}
	d := *l.home.description
	d.Kind, d.Changes, d.Source = "session", []string{}, fmt.Sprintf("session %q of the server", name)
	s.description, s.room = &d, l.room
	s.preference = domain.Preference{Adaptive: l.opt.Preference == nil, W: l.opt.Preference}
	if p := all[index].Preference; p != nil {
		s.preference = *p
	}
	watch, err := l.server.Watch(name)
	if err != nil {
		return nil, err
	}
	f := s.frame()
	f.Residual, f.Moved, f.LatencyUs = math.NaN(), math.NaN(), math.NaN()
	f.Fallback, f.U = domain.Fallback(0).String(), all[index].U
	s.show(f, all[index].S, all[index].C)
	f.Margin = domain.Smallest(f.Margins)
	go s.listen(watch)
	return s, nil
}

// Close ends it.
func (s *Session) Close() error {
	close(s.closed)
	return nil
}

// retryAfter is how long a session that may not listen, where as many watch as may, waits before it asks anew.
const retryAfter = time.Second

// listen keeps what the session decides until it is closed. One that is too slow begins to listen anew.
func (s *Session) listen(watch *serve.Watch) {
	for {
		select {
		case <-s.closed:
			watch.Close()
			return
		case e, ok := <-watch.Events:
			if !ok {
				if next, err := s.server.Watch(s.name); err == nil {
					watch = next
					continue
				}
				select {
				case <-s.closed:
				case <-time.After(retryAfter):
				}
				continue
			}
			s.mutex.Lock()
			if s.pending = append(s.pending, e); len(s.pending) > s.room {
				s.pending = s.pending[1:]
			}
			s.mutex.Unlock()
		}
	}
}

// Advance implements Source: the decisions since the last frame.
func (s *Session) Advance(context.Context) error {
	s.mutex.Lock()
	events := s.pending
	s.pending = nil
	s.mutex.Unlock()
	if len(events) == 0 {
		return errNotYet
	}
	for _, e := range events {
		f := s.decisionFrame(e.Decision, s.frames[len(s.frames)-1].T+1)
		s.show(f, e.S, e.C)
	}
	return nil
}

// show appends a frame about an observation, with what is known of it where all of it was measured.
func (s *Session) show(f *Frame, state, c []float64) {
	copy(f.S, state)
	s.root = serve.Request{}
	if !slices.ContainsFunc(slices.Concat(state, c), math.IsNaN) {
		s.root = s.requestAbout(state, c, s.preference)
		f.J, f.Margins = make([]float64, s.spec.ObjectiveSize()), make([]float64, len(s.spec.Margins))
		s.score(state, c, f.U, f.J, f.Margins)
		f.Shapes, f.Grid = picture(s.problem, state, c), operate(s.problem, state, c, f.U)
	}
	s.append(f)
}

// Steer implements Source: it sets the preference of the session's requests that state none.
func (s *Session) Steer(p domain.Preference) error {
	if err := p.Validate(s.spec.ObjectiveSize()); err != nil {
		return &serve.FieldError{Field: "w", Err: err}
	}
	private := domain.Preference{Adaptive: p.Adaptive, W: slices.Clone(p.W)}
	if err := s.server.SetPreference(context.Background(), s.name, private); err != nil {
		return err
	}
	s.preference = private
	return nil
}

// request is the last observation under the present preference; without a state where not all of it was measured.
func (s *Session) request() serve.Request {
	if s.root.S == nil {
		return s.root
	}
	return s.requestAbout(s.root.S, s.root.C, s.preference)
}

// Preview implements Source.
func (s *Session) Preview(ctx context.Context) (*Frame, error) {
	r := s.request()
	if r.S == nil {
		return nil, nil
	}
	return s.preview(ctx, r)
}

// Fan implements Source.
func (s *Session) Fan(hurry bool) func(ctx context.Context) (*Fan, error) {
	return s.fan(s.request(), hurry)
}

// Exact is Live.Exact.
func (s *Session) Exact() func(ctx context.Context) (*Exact, error) { return s.exact(s.request()) }

// Reset implements Source.
func (s *Session) Reset(context.Context, int) error { return errClients }
