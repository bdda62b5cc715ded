package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// SessionState is a session as it was last reported: what it was told, what was executed, and
// what it was set to. A session that is resumed of it predicts from there what it is not told, and
// begins latent, filtered priority, noise and the memory of a search anew.
type SessionState struct {
	Session    string             `json:"session"`
	Preference *domain.Preference `json:"preference,omitempty"` // absent: the server's
	Goal       *domain.Goals      `json:"goal,omitempty"`       // of the preference, begun anew when the session is resumed; absent: it has none
	S          closedloop.Vector  `json:"s,omitempty"`          // of the last decision, physical units; absent: there was none
	C          closedloop.Vector  `json:"c,omitempty"`
	U          closedloop.Vector  `json:"u,omitempty"`           // executed then
	ObservedNs int64              `json:"observed_ns,omitempty"` // Unix time of the last observation that said when; absent: none did
	Stale      string             `json:"stale,omitempty"`       // Decision.Stale
}

// Sessions are those that are open, by name, without those of Aside. An error is the context's.
func (s *Server) Sessions(ctx context.Context) ([]SessionState, error) {
	var all []SessionState
	collect := func() {
		for _, sess := range s.sessions {
			if sess.background {
				continue
			}
			state := SessionState{Session: sess.name, Preference: sess.preference, S: slices.Clone(sess.s), C: slices.Clone(sess.c), U: slices.Clone(sess.u), Stale: sess.stale}
			if p := sess.preference; p != nil {
				state.Goal = p.Goal
			}
			if !sess.observed.IsZero() {
				state.ObservedNs = sess.observed.UnixNano()
			}
			all = append(all, state)
		}
	}
	j := &job{op: opInside, task: collect, ready: make(chan struct{})}
	if err := s.enqueue([]*job{j}, true); err != nil { // closed: the sessions are nobody's once it has ended
		select {
		case <-s.finished:
			collect()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	} else {
		select {
		case <-j.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	slices.SortFunc(all, func(a, b SessionState) int { return strings.Compare(a.Session, b.Session) })
	return all, nil
}

// resume opens a session as it was. There is no dispatcher yet.
func (s *Server) resume(state *SessionState) error {
	wrong := func(err error) error {
		return gpc.BadInput(fmt.Errorf("serve: session %q to resume: %w", state.Session, err))
	}
	if p := state.Preference; p != nil && state.Goal != nil {
		state.Preference = &domain.Preference{Goal: state.Goal}
	}
	j := &job{op: opPreference, session: state.Session, request: Request{Preference: state.Preference}}
	if err := s.prepare(j, s.start); err != nil {
		return wrong(err)
	}
	if s.sessions[state.Session] != nil {
		return wrong(errors.New("the file holds it twice"))
	}
	reported := state.S != nil || state.C != nil || state.U != nil
	if reported {
		if err := s.spec.CheckSizes(state.S, state.C); err != nil {
			return wrong(err)
		}
		if len(state.U) != s.spec.ActionSize() {
			return wrong(fmt.Errorf("the action has %d entries, case %s has %d", len(state.U), s.spec.Name, s.spec.ActionSize()))
		}
	}
	if state.Stale != "" && state.Stale != staleAge && state.Stale != staleOrder {
		return wrong(fmt.Errorf("field stale is %.64q, want %q or %q", state.Stale, staleAge, staleOrder))
	}
	if err := s.begin(j); err != nil {
		return wrong(err)
	}
	sess := j.sess
	sess.preference, sess.stale = state.Preference, state.Stale
	if state.ObservedNs != 0 {
		sess.observed = time.Unix(0, state.ObservedNs)
	}
	if reported {
		sess.s, sess.c, sess.u = slices.Clone(state.S), slices.Clone(state.C), slices.Clone(state.U)
		s.decider.resume(sess, batchnav.Observation{S: sess.s, C: sess.c}, sess.u)
	}
	return nil
}

const (
	// stateVersion is of the file of StateFile.
	stateVersion = 1
	// maxStateFile is enough for MaxSessions of a network of a hundred buses.
	maxStateFile = 256 << 20
)

// stateContent is what a state file holds.
type stateContent struct {
	Version  int            `json:"version"`
	Case     string         `json:"case"`
	SavedAt  time.Time      `json:"saved_at"`
	Sessions []SessionState `json:"sessions"`
	durable.Seal
}

// StateFile keeps a server's sessions in a file, for the next to resume after this one has ended
// in whatever way. One process writes it at a time.
type StateFile struct {
	path     string
	caseName string // case
	lock     *durable.Lock
	saved    []SessionState
}

// OpenStateFile locks a file of a case's sessions and reads those in it; none where there is no
// such file yet.
func OpenStateFile(path string, c *gpc.Case) (f *StateFile, sessions []SessionState, err error) {
	if err := durable.Probe(path); err != nil {
		return nil, nil, gpc.BadInput(fmt.Errorf("serve: %w", err))
	}
	lock, err := durable.Acquire(path)
	if err != nil {
		return nil, nil, gpc.BadInput(fmt.Errorf("serve: %w", err))
	}
	var content stateContent
	switch err := durable.ReadSealed(path, &content, maxStateFile); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, errors.Join(gpc.BadInput(fmt.Errorf("serve: %w", err)), lock.Release())
	case content.Version != stateVersion:
		return nil, nil, errors.Join(gpc.BadInput(fmt.Errorf("serve: %s has version %d, want %d", path, content.Version, stateVersion)), lock.Release())
	case content.Case != c.Name():
		return nil, nil, errors.Join(gpc.BadInput(fmt.Errorf("serve: %s holds sessions of case %q, not of %q", path, content.Case, c.Name())), lock.Release())
	}
	return &StateFile{path: path, caseName: c.Name(), lock: lock, saved: content.Sessions}, content.Sessions, nil
}

// Save writes the server's sessions where they differ from those in the file. When it returns
// without an error they are on the disk.
func (f *StateFile) Save(ctx context.Context, s *Server) error {
	now, err := s.Sessions(ctx)
	if err != nil {
		return err
	}
	if slices.EqualFunc(now, f.saved, SessionState.equal) {
		return nil
	}
	if err := durable.WriteSealed(f.path, &stateContent{Version: stateVersion, Case: f.caseName, SavedAt: time.Now().UTC(), Sessions: now}); err != nil {
		return err
	}
	f.saved = now
	return nil
}

// equal reports whether two states are one.
func (a SessionState) equal(b SessionState) bool {
	preference := a.Preference == nil && b.Preference == nil || a.Preference != nil && b.Preference != nil &&
		a.Preference.Equal(*b.Preference)
	equal := func(v, w closedloop.Vector) bool {
		return slices.EqualFunc(v, w, func(x, y float64) bool { return x == y || x != x && y != y })
	}
	return preference && a.Goal.Equal(b.Goal) && a.Session == b.Session && equal(a.S, b.S) && equal(a.C, b.C) && equal(a.U, b.U) && a.ObservedNs == b.ObservedNs && a.Stale == b.Stale
}

// Keep saves the sessions every so often until the context ends. What goes wrong is logged, and
// tried again the next time.
func (f *StateFile) Keep(ctx context.Context, s *Server, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := f.Save(ctx, s); err != nil && ctx.Err() == nil {
				s.opt.Log.Error("the sessions are not saved", "file", f.path, "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// Close lets another process write the file.
func (f *StateFile) Close() error { return f.lock.Release() }
