package serve_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// Where all places are taken, the session that was not asked for longest gives its own to a new one, but only after
// SessionIdle, and never where its observation was stale.
func TestAnIdleSessionGivesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, setup := cart(t)
		s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: setup, Sessions: 3, SessionIdle: time.Minute}))(t)
		defer s.Close()
		at := time.Now()
		decide := func(name string) (*serve.Decision, error) {
			r := about(0.1)
			if name == "stale" {
				r.Observed = at // twice the same
			}
			return s.Decide(t.Context(), name, r)
		}
		for _, name := range []string{"stale", "stale", "a", "b"} {
			require.Get(decide(name))(t)
		}
		time.Sleep(50 * time.Second)
		require.Get(decide("a"))(t)
		time.Sleep(9 * time.Second)
		if _, err := decide("c"); !errors.Is(err, serve.ErrFull) {
			t.Errorf("before a minute: %v", err)
		}
		time.Sleep(time.Second)
		require.Get(decide("c"))(t)
		var open []string
		for _, of := range require.Get(s.Sessions(t.Context()))(t) {
			open = append(open, of.Session)
		}
		if len(open) != 3 || open[0] != "a" || open[1] != "c" || open[2] != "stale" {
			t.Errorf("sessions %q are open, want a, c and the stale one", open)
		}
		if d := require.Get(decide("stale"))(t); d.Stale == "" {
			t.Error("the stale session has decided")
		}
	})
}

// A deadline that has passed is late, however soon the decision is there.
func TestADeadlineThatHasPassedIsLate(t *testing.T) {
	s := server(t, serve.Options{})
	for range 200 {
		r := about(0.1)
		r.Deadline = time.Now()
		if d := require.Get(s.Decide(t.Context(), "a", r))(t); !d.Late {
			t.Fatalf("a decision by a deadline of nothing: %+v", d)
		}
	}
}
