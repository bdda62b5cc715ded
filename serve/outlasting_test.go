package serve_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// held is a controller that a gate holds in one state, and in its preparations where it is told so.
type held struct {
	domain.Controller
	gate             *gate
	executed, missed *atomic.Int64
	blind            *atomic.Int64 // of missed: without a state
	prepares         bool
}

func (h held) Decide(s, c []float64, p domain.Preference, u []float64) (domain.Decision, error) {
	if s[0] == slow {
		h.gate.pass()
	}
	return h.Controller.Decide(s, c, p, u)
}

func (h held) Abilities() *domain.ControllerAbilities {
	abilities := &domain.ControllerAbilities{
		Executed: func([]float64) { h.executed.Add(1) },
		Missed: func(s, c, u []float64) {
			if h.missed.Add(1); s == nil && c == nil && len(u) == 1 {
				h.blind.Add(1)
			}
		},
	}
	if h.prepares {
		abilities.Prepare = func() error {
			h.gate.pass()
			return nil
		}
	}
	return abilities
}

func holding(t *testing.T, h held, deadline time.Duration, more ...func(*domain.Case, *serve.Options)) *serve.Server {
	t.Helper()
	own, setup := cart(t)
	def := *own.Definition()
	def.Methods = append(def.Methods[:0:0], domain.Method{Name: "held", Ahead: true, New: func(domain.Means) (domain.Controller, error) {
		h.Controller = require.Get(own.Controller(nil, gpc.Setup{Method: "hold"}))(t)
		return h, nil
	}})
	setup.Method = "held"
	opt := serve.Options{Setup: setup, Deadline: deadline, Threads: 1, Sessions: 4}
	for _, change := range more {
		change(&def, &opt)
	}
	return require.Get(serve.New(require.Get(gpc.NewCase(def))(t), cpu(t), opt))(t)
}

// A controller that outlasts its deadline holds up its own session alone, which is answered without it until it is done. It is
// counted, and told what was executed meanwhile.
func TestAControllerThatOutlastsItsDeadlineHoldsUpNoOther(t *testing.T) {
	h := held{gate: newGate(), executed: new(atomic.Int64), missed: new(atomic.Int64), blind: new(atomic.Int64)}
	s := holding(t, h, 20*time.Millisecond)
	t.Cleanup(s.Close)
	ask := func(session string, x float64, deadline time.Duration) *serve.Decision {
		t.Helper()
		r := serve.Request{S: []float64{x, 0.1}, C: []float64{0}}
		if deadline > 0 {
			r.Deadline = time.Now().Add(deadline)
		}
		return require.Get(s.Decide(t.Context(), session, r))(t)
	}
	for len(h.gate.arrived) == 0 { // on a busy machine a deadline may pass before its controller is asked
		if d := ask("a", slow, 0); !d.Late {
			t.Fatalf("what is held is answered in time: %+v", d)
		}
	}
	if d := ask("b", 0.25, time.Minute); d.Late {
		t.Errorf("another session is late: %+v", d)
	}
	for range 2 {
		if d := ask("a", 0.25, time.Minute); !d.Late {
			t.Errorf("a session whose controller is at work is decided by it: %+v", d)
		}
	}
	var text bytes.Buffer
	require.OK(t, s.WriteMetrics(&text))
	if !strings.Contains(text.String(), "\ngpc_outlasted_total 1\n") {
		t.Errorf("metrics:\n%s", &text)
	}
	h.gate.open()
	require.Until(t, "the session is decided by its controller again", func() bool { return !ask("a", 0.25, time.Minute).Late })
	if h.blind.Load() != 0 {
		t.Errorf("%d of %d missed periods are told without their state", h.blind.Load(), h.missed.Load())
	}
	if h.executed.Load() != 1 || h.missed.Load() < 2 {
		t.Errorf("the controller knows of %d actions in place of its own and %d periods without it, want 1 and 2 or more", h.executed.Load(), h.missed.Load())
	}
}

// A preparation that does not end holds up neither other sessions nor the end of the server.
func TestAPreparationThatDoesNotEndHoldsUpNoOther(t *testing.T) {
	h := held{gate: newGate(), executed: new(atomic.Int64), missed: new(atomic.Int64), blind: new(atomic.Int64), prepares: true}
	s := holding(t, h, 20*time.Millisecond)
	t.Cleanup(h.gate.open)
	for _, session := range []string{"a", "b", "c"} {
		d := require.Get(s.Decide(t.Context(), session, serve.Request{S: []float64{0.25, 0.1}, C: []float64{0}, Deadline: time.Now().Add(time.Minute)}))(t)
		if d.Late {
			t.Errorf("session %s is late: %+v", session, d)
		}
	}
	s.Close()
}

// What a controller cannot do between decisions is not asked for, and a decision counts as replaced where its action is not the method's.
func TestDecisionsAreCountedByWhoseActionTheyHave(t *testing.T) {
	var noticed logged
	h := held{gate: newGate(), executed: new(atomic.Int64), missed: new(atomic.Int64), blind: new(atomic.Int64)}
	s := holding(t, h, 0, func(_ *domain.Case, o *serve.Options) { o.Log = noticed.logger() })
	require.Get(s.Decide(t.Context(), "a", serve.Request{S: []float64{0.25, 0.1}, C: []float64{0}}))(t)
	s.Close()
	if text := strings.Join(noticed.lines(), "\n"); strings.Contains(text, "prepared") {
		t.Error(text)
	}
	s = server(t, serve.Options{})
	for k, x := range []float64{0.25, -30, 0.2, -30, -30} { // far outside of the map's codes
		session := string(rune('a' + k))
		if d := require.Get(s.Decide(t.Context(), session, serve.Request{S: []float64{x, 0.1}, C: []float64{0}}))(t); domain.Fallback(d.Fallback).Replaced() != (x < 0) {
			t.Errorf("at %g: fallback %v", x, domain.Fallback(d.Fallback))
		}
	}
	if h := s.Health(); h.Decisions != 5 || h.Replaced != 3 {
		t.Errorf("%d of %d decisions are replaced, want 3 of 5", h.Replaced, h.Decisions)
	}
}
