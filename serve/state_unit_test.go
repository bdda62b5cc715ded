package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Two states of a session are one where every part is, numbers that are none among them.
func TestStatesAreOneByTheirParts(t *testing.T) {
	of := func(change func(*SessionState)) SessionState {
		a := SessionState{
			Session: "a", Preference: &domain.Preference{W: []float64{0.5, 0.5}}, S: []float64{1, math.NaN()}, C: []float64{2}, U: []float64{3}, ObservedNs: 4, Stale: "late",
		}
		change(&a)
		return a
	}
	for name, change := range map[string]func(*SessionState){
		"session": func(a *SessionState) { a.Session = "b" }, "preference": func(a *SessionState) { a.Preference.W[0] = 0.25 }, "no preference": func(a *SessionState) { a.Preference = nil },
		"state": func(a *SessionState) { a.S[0] = 2 }, "a state for none": func(a *SessionState) { a.S[1] = 1 }, "none for a state": func(a *SessionState) { a.S[0] = math.NaN() },
		"size": func(a *SessionState) { a.S = a.S[:1] }, "context": func(a *SessionState) { a.C[0] = 0 }, "action": func(a *SessionState) { a.U = nil },
		"time": func(a *SessionState) { a.ObservedNs++ }, "stale": func(a *SessionState) { a.Stale = "" },
	} {
		same := of(func(*SessionState) {})
		if other := of(change); same.equal(other) || other.equal(same) || !other.equal(of(change)) {
			t.Errorf("%s: equal is wrong", name)
		}
	}
}

// The sessions are those of the dispatcher, or of a server that has ended, in the order of their names without those of who looks on.
func TestSessionsAreAskedFor(t *testing.T) {
	s, _ := bare(t, Options{})
	goal := &domain.Goals{First: []int{1}}
	s.sessions["b"] = &session{name: "b", preference: &domain.Preference{Goal: goal}, s: []float64{1}, c: []float64{2}, u: []float64{3}, observed: time.Unix(0, 7), stale: staleOrder}
	s.sessions["a"], s.sessions["aside"] = &session{name: "a"}, &session{name: "aside", background: true}
	ended, end := contextOf(t)
	end()
	if all, err := s.Sessions(ended); all != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("no dispatcher: %v, %v", all, err)
	}
	s.serve(<-s.queue) // no caller waits for it
	asked := make(chan []SessionState)
	go func() { asked <- require.Get(s.Sessions(context.Background()))(t) }()
	s.serve(<-s.queue)
	open := <-asked
	s.closed.Store(true)
	if _, err := s.Sessions(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a server that has not ended: %v", err)
	}
	close(s.finished)
	for _, all := range [][]SessionState{open, require.Get(s.Sessions(t.Context()))(t)} {
		if len(all) != 2 || all[0].Session != "a" || all[0].ObservedNs != 0 || all[0].Goal != nil || all[0].S != nil {
			t.Fatalf("%+v", all)
		}
		if b := all[1]; b.Session != "b" || b.Goal != goal || fmt.Sprint(b.S, b.C, b.U, b.ObservedNs, b.Stale) != "[1] [2] [3] 7order" {
			t.Errorf("%+v", b)
		}
	}
}

// A session is resumed as it was: its preference, its goal restarted, its order and latch, and what was reported, if anything was.
func TestASessionIsResumed(t *testing.T) {
	goal := &domain.Goals{First: []int{1}}
	reported := SessionState{Session: "a", S: []float64{0.1, 0.2}, C: []float64{0}, U: []float64{0.5}}
	for name, c := range map[string]struct {
		change func(a *SessionState)
		told   string
		says   string
	}{
		"reported":               {func(*SessionState) {}, "open a;resume a[0.1 0.2] [0.5]", ""},
		"not reported":           {func(a *SessionState) { a.S, a.C, a.U = nil, nil, nil }, "open a", ""},
		"a time, and its latch":  {func(a *SessionState) { a.ObservedNs, a.Stale = 7, staleAge }, "open a;resume a[0.1 0.2] [0.5]", ""},
		"another latch":          {func(a *SessionState) { a.Stale = staleOrder }, "open a;resume a[0.1 0.2] [0.5]", ""},
		"weights":                {func(a *SessionState) { a.Preference = &domain.Preference{W: []float64{1, 0}} }, "open a;resume a[0.1 0.2] [0.5]", ""},
		"a goal":                 {func(a *SessionState) { a.Preference, a.Goal = &domain.Preference{Adaptive: true}, goal }, "open a;resume a[0.1 0.2] [0.5]", ""},
		"a goal of no objective": {func(a *SessionState) { a.Preference, a.Goal = &domain.Preference{}, &domain.Goals{First: []int{2}} }, "", ""},
		"a latch that is none":   {func(a *SessionState) { a.Stale = "late" }, "", `field stale is "late", want "age" or "order"`},
		"a state alone":          {func(a *SessionState) { a.C, a.U = nil, nil }, "", "context"},
		"a context alone":        {func(a *SessionState) { a.S, a.U = nil, nil }, "", "measured"},
		"an action alone":        {func(a *SessionState) { a.S, a.C = nil, nil }, "", "measured"},
		"a long action":          {func(a *SessionState) { a.U = []float64{1, 2} }, "", "the action has 2 entries, case cart has 1"},
	} {
		s, d := bare(t, Options{SessionIdle: time.Hour})
		state := reported
		c.change(&state)
		err := s.resume(&state)
		if told := strings.Join(d.calls, ";"); told != c.told || (err == nil) != (c.told != "") {
			t.Errorf("%s: told %q, %v", name, told, err)
		}
		if err != nil {
			if !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), `session "a" to resume: `) || !strings.Contains(err.Error(), c.says) || len(s.sessions) != 0 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		sess := s.sessions["a"]
		if sess.stale != state.Stale || sess.preference != state.Preference || fmt.Sprint(sess.s, sess.c, sess.u) != fmt.Sprint(state.S, state.C, state.U) || sess.observed.IsZero() != (state.ObservedNs == 0) || state.ObservedNs != 0 && sess.observed.UnixNano() != state.ObservedNs || state.Goal != nil && (sess.preference.Goal != goal || sess.preference.Adaptive) {
			t.Errorf("%s: %+v", name, sess)
		}
		if err := s.resume(&state); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%s, twice: %v", name, err)
		}
		full := SessionState{Session: "b"}
		if err := s.resume(&full); !errors.Is(err, ErrFull) {
			t.Errorf("%s, and one too many: %v", name, err)
		}
	}
}

// The sessions are written every so often where they have changed. What goes wrong is logged each time until the end.
func TestSessionsAreKept(t *testing.T) {
	var noticed []string
	s, _ := bare(t, Options{})
	s.opt.Log = logTo(&noticed)
	s.sessions["a"] = &session{name: "a"}
	s.closed.Store(true)
	close(s.finished)
	dir := t.TempDir()
	path := filepath.Join(dir, "sessions.json")
	f, sessions, err := OpenStateFile(path, s.controlCase)
	if require.OK(t, err); len(sessions) != 0 {
		t.Fatalf("%+v", sessions)
	}
	synctest.Test(t, func(t *testing.T) {
		keep := func() (end func()) {
			ctx, leave := contextOf(t)
			kept := make(chan struct{})
			go func() { f.Keep(ctx, s, time.Second); close(kept) }()
			return func() { leave(); <-kept }
		}
		written := func(after time.Duration) bool {
			time.Sleep(after)
			synctest.Wait()
			_, err := os.Stat(path)
			return err == nil
		}
		end := keep()
		if written(time.Second - 1) {
			t.Error("they are written before their time")
		}
		if !written(2*time.Nanosecond) || len(noticed) != 0 {
			t.Errorf("they are not written: %q", noticed)
		}
		require.OK(t, os.Remove(path))
		if written(2*time.Second) || len(noticed) != 0 {
			t.Errorf("what has not changed is written, or logged: %q", noticed)
		}
		end()
		s.sessions["b"] = &session{name: "b"}
		durable.Fill(0)
		defer durable.Fill(-1)
		end = keep()
		if written(3500*time.Millisecond) || len(noticed) != 3 || noticed[0] != "the sessions are not saved" {
			t.Errorf("logged in three seconds on a full disk: %q", noticed)
		}
		durable.Fill(-1)
		if !written(2*time.Second) || len(noticed) != 3 {
			t.Errorf("where there is room again: %q", noticed)
		}
		end()
	})
	s.finished = make(chan struct{})
	ended, end := contextOf(t)
	end()
	if err := f.Save(ended, s); !errors.Is(err, context.Canceled) {
		t.Errorf("sessions that nobody gives are saved: %v", err)
	}
	require.OK(t, f.Close())
	// What a file holds is of its version and case, and a file can be there.
	f, sessions, err = OpenStateFile(path, s.controlCase)
	if require.OK(t, err); len(sessions) != 2 || sessions[1].Session != "b" {
		t.Errorf("%+v", sessions)
	}
	require.OK(t, f.Close())
	require.OK(t, durable.WriteSealed(path, &stateContent{Version: stateVersion + 1, Case: "cart"}))
	for where, says := range map[string]string{path: "has version 2, want 1", filepath.Join(dir, "none", "sessions.json"): "none"} {
		if _, _, err := OpenStateFile(where, s.controlCase); err == nil || !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", where, err, says)
		}
	}
	require.OK(t, durable.WriteSealed(path, &stateContent{Version: 1, Case: "cart"}))
	f, _, err = OpenStateFile(path, s.controlCase) // what was refused holds no lock
	require.OK(t, err)
	require.OK(t, f.Close())
}

// A session is saved again whatever of it has changed.
func TestAnyChangeOfASessionIsOne(t *testing.T) {
	state := func() SessionState {
		return SessionState{Session: "a", Preference: &domain.Preference{W: []float64{1, 0}}, S: closedloop.Vector{1, 2}, C: closedloop.Vector{3}, U: closedloop.Vector{4}, ObservedNs: 5, Stale: staleAge}
	}
	if !state().equal(state()) {
		t.Fatal("a session that has not changed is another")
	}
	changes := map[string]func(s *SessionState){
		"Session":    func(s *SessionState) { s.Session = "b" },
		"Preference": func(s *SessionState) { s.Preference.W[1] = 0.5 },
		"Goal":       func(s *SessionState) { s.Goal = &domain.Goals{First: []int{1}} },
		"S":          func(s *SessionState) { s.S[1] = 0 },
		"C":          func(s *SessionState) { s.C = nil },
		"U":          func(s *SessionState) { s.U[0] = -4 },
		"ObservedNs": func(s *SessionState) { s.ObservedNs++ },
		"Stale":      func(s *SessionState) { s.Stale = "" },
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[SessionState]()) {
		changed := state()
		if change := changes[field.Name]; change == nil {
			t.Errorf("no change of %s is tried", field.Name)
		} else if change(&changed); changed.equal(state()) || state().equal(changed) {
			t.Errorf("a change of %s is none", field.Name)
		}
	}
}
