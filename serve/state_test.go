package serve_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/serve"
)

// Sessions go on in another server from what they were last told: preference, latch and order are
// theirs, and a gap is predicted from what was executed.
func TestSessionsResume(t *testing.T) {
	c, _ := cart(t)
	path := filepath.Join(t.TempDir(), "sessions.json")
	file, sessions, err := serve.OpenStateFile(path, c)
	require.OK(t, err)
	if len(sessions) != 0 {
		t.Fatalf("a file that is not there has %v", sessions)
	}
	if _, _, err := serve.OpenStateFile(path, c); err == nil || !strings.Contains(err.Error(), "being written") {
		t.Errorf("the same file by two: %v", err)
	}
	first := server(t, serve.Options{})
	ctx := t.Context()
	ask := func(s *serve.Server, session string, x, v float64, at int64) *serve.Decision {
		t.Helper()
		return require.Get(s.Decide(ctx, session, serve.Request{S: []float64{x, v}, C: []float64{0.125}, Observed: time.UnixMilli(at)}))(t)
	}
	require.OK(t, first.SetPreference(ctx, "weighed", domain.Preference{W: []float64{1, 0}}))
	require.OK(t, first.SetPreference(ctx, "adaptive", domain.Preference{Adaptive: true}))
	ask(first, "stale", 0.1, 0.1, 2000)
	ask(first, "stale", 0.1, 0.1, 1000)
	told := ask(first, "told", 0.3, 0.2, 1000)
	keeping, end := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() { file.Keep(keeping, first, time.Millisecond); close(kept) }()
	require.Until(t, "the sessions are kept", func() bool { _, err := os.Stat(path); return err == nil })
	end()
	<-kept
	require.OK(t, file.Save(ctx, first))
	before := require.Get(os.Stat(path))(t)
	require.OK(t, file.Save(ctx, first))
	if now := require.Get(os.Stat(path))(t); !os.SameFile(before, now) {
		t.Error("what is the same is written again")
	}
	require.OK(t, file.Close())

	file, sessions, err = serve.OpenStateFile(path, c)
	require.OK(t, err)
	defer file.Close()
	var names []string
	for _, s := range sessions {
		names = append(names, s.Session)
	}
	if !slices.Equal(names, []string{"adaptive", "stale", "told", "weighed"}) || !slices.Equal(sessions[2].U, told.U) || sessions[2].ObservedNs != 1e9 {
		t.Fatalf("the file has %+v", sessions)
	}
	second := server(t, serve.Options{Resume: sessions, Preference: []float64{0, 1}})
	if again := require.Get(second.Sessions(ctx))(t); len(again) != len(sessions) || fmt.Sprint(again[2]) != fmt.Sprint(sessions[2]) {
		t.Errorf("resumed as %+v", again)
	}
	if d := ask(second, "weighed", 0.3, 0.2, 3000); d.Sigma[0] != 1 {
		t.Errorf("the preference of weights: %+v", d)
	}
	if d := ask(second, "adaptive", 0.3, 0.2, 3000); d.Sigma[1] == 1 {
		t.Errorf("the adaptive preference: %+v", d)
	}
	if d := ask(second, "stale", 0.3, 0.2, 3000); d.Stale != "order" {
		t.Errorf("the latch: %+v", d)
	}
	if d := ask(second, "told", 0.3, 0.2, 1000); d.Stale != "order" {
		t.Errorf("the order: %+v", d)
	}
	if h := second.Health(); h.Sessions != 4 {
		t.Errorf("health %+v", h)
	}
	short, end := context.WithCancel(ctx)
	end()
	if _, err := first.Sessions(short); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A state that cannot be is refused, and so is a file that is not whole, with names.
func TestStatesAreRefused(t *testing.T) {
	c, setup := cart(t)
	good := serve.SessionState{Session: "a", S: []float64{0, 0}, C: []float64{0}, U: []float64{0}}
	for says, change := range map[string]func(*serve.SessionState){
		"measured":    func(s *serve.SessionState) { s.S = s.S[:1] },
		"the action":  func(s *serve.SessionState) { s.U = nil },
		"129 bytes":   func(s *serve.SessionState) { s.Session = strings.Repeat("x", 129) },
		"UTF-8":       func(s *serve.SessionState) { s.Session = "\xff" },
		"sum":         func(s *serve.SessionState) { s.Preference = &domain.Preference{W: []float64{0, 0.5}} },
		`"yesterday"`: func(s *serve.SessionState) { s.Stale = "yesterday" },
	} {
		bad := good
		change(&bad)
		var in gpc.InputError
		if _, err := serve.New(c, cpu(t), serve.Options{Setup: setup, Resume: []serve.SessionState{bad}}); !errors.As(err, &in) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "session") {
			t.Errorf("want an error of input that mentions %s: %v", says, err)
		}
	}
	if _, err := serve.New(c, cpu(t), serve.Options{Setup: setup, Resume: []serve.SessionState{good, good}}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one session twice: %v", err)
	}
	two := good
	two.Session = "b"
	if _, err := serve.New(c, cpu(t), serve.Options{Setup: setup, Sessions: 1, Resume: []serve.SessionState{good, two}}); !errors.Is(err, serve.ErrFull) {
		t.Errorf("too many sessions: %v", err)
	}
	path := filepath.Join(t.TempDir(), "sessions.json")
	file, _, err := serve.OpenStateFile(path, c)
	require.OK(t, err)
	require.OK(t, file.Save(t.Context(), server(t, serve.Options{Resume: []serve.SessionState{good}})))
	durable.Fill(0)
	full := file.Save(t.Context(), server(t, serve.Options{}))
	durable.Fill(-1)
	if full == nil {
		t.Error("a full disk is no error")
	}
	require.OK(t, file.Close())
	text := require.Get(os.ReadFile(path))(t)
	for says, bad := range map[string]string{"damaged": strings.Replace(string(text), "0.0", "0.5", 1) + " ", "sessions.json": string(text[:len(text)/2]), "sessions.json ": strings.Replace(string(text), `"cart"`, `"boat"`, 1)} {
		require.OK(t, os.WriteFile(path, []byte(bad), 0o600))
		if _, _, err := serve.OpenStateFile(path, c); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(says)) {
			t.Errorf("%.40q…: %v, want an error that mentions %s", bad, err, says)
		}
	}
	require.OK(t, os.WriteFile(path, text, 0o600))
	boat := testdomain.NewCart(8)
	boat.Spec().Name = "boat"
	if _, _, err := serve.OpenStateFile(path, require.Get(gpc.NewCase(domain.Case{Problem: boat, Guard: domain.Guard{Off: true}}))(t)); err == nil || !strings.Contains(err.Error(), `sessions of case "cart"`) {
		t.Errorf("another case's file: %v", err)
	}
	file, _, err = serve.OpenStateFile(path, c) // what was refused holds no lock
	require.OK(t, err)
	require.OK(t, file.Close())
}
