package serve_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// A case whose method searches by itself refines under a deadline too.
func TestASearchOfItsOwnRefinesByADeadline(t *testing.T) {
	k := paper.Cases()
	c := require.Get(k.Find("multiagent-static"))(t)
	s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: require.Get(c.Setup("planner", ""))(t)}))(t)
	t.Cleanup(s.Close)
	o := require.Get(c.Observe(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	r := serve.Request{S: o.S, C: o.C, Deadline: time.Now().Add(24 * time.Hour)}
	if a, err := s.Refine(t.Context(), "", r, batchnav.RefineOptions{Candidates: 96}); err != nil || a.Late || a.LookAhead < 8 || len(a.U) != a.LookAhead*c.Spec().ActionSize() {
		t.Errorf("%+v, %v", a, err)
	}
	r.Deadline = time.Now().Add(time.Microsecond)
	if a, err := s.Refine(t.Context(), "", r, batchnav.RefineOptions{Candidates: 96}); err != nil || !a.Late {
		t.Errorf("by a deadline that is too short: %+v, %v", a, err)
	}
}

// A refinement ends by its own time where that comes before the deadline, and by the deadline where it has none.
func TestARefinementEndsByTheFirstOfItsTimes(t *testing.T) {
	s := server(t, serve.Options{})
	r := serve.Request{S: []float64{0.3, 0.1}, C: []float64{0}, Deadline: time.Now().Add(24 * time.Hour)}
	for limit, hasty := range map[time.Duration]bool{1: true, 0: false, 48 * time.Hour: false} {
		a, err := s.Refine(t.Context(), "", r, batchnav.RefineOptions{Candidates: 256, TimeLimit: limit})
		if err != nil || a.Late || (len(a.Rounds) == 1) != hasty {
			t.Errorf("within %v: %d rounds, late %v, %v", limit, len(a.Rounds), a.Late, err)
		}
	}
}

// A server is not made whose method cannot be, and a client's controller says what its server did.
func TestAMethodThatCannotBeMadeIsNotServed(t *testing.T) {
	own, setup := cart(t)
	def := *own.Definition()
	def.Methods = append(def.Methods[:0:0], domain.Method{Name: "broken", New: func(domain.Means) (domain.Controller, error) { return nil, errors.New("no such device") }})
	setup.Method = "broken"
	if _, err := serve.New(require.Get(gpc.NewCase(def))(t), cpu(t), serve.Options{Setup: setup}); err == nil || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("error %v", err)
	}
	for _, setup := range []gpc.Setup{{Method: "none"}, {Method: "none", Model: setup.Model}} {
		if _, err := serve.New(own, cpu(t), serve.Options{Setup: setup}); err == nil || !strings.Contains(err.Error(), "no method \"none\"") {
			t.Errorf("no method: %v", err)
		}
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer h.Close()
	client := require.Get(serve.Dial(h.URL, serve.ClientOptions{}))(t)
	defer client.Close()
	var status *serve.StatusError
	u := []float64{7}
	if _, err := client.Controller(t.Context(), "a", 0).Decide([]float64{0, 0}, []float64{0}, domain.Preference{Adaptive: true}, u); !errors.As(err, &status) || status.Status != http.StatusTeapot || u[0] != 7 {
		t.Errorf("action %v, error %v", u, err)
	}
}

// Limits of a server are those that it can keep.
func TestLimitsOfAServer(t *testing.T) {
	own, setup := cart(t)
	for _, c := range []struct {
		opt  serve.Options
		want string
	}{
		{serve.Options{Sessions: -1}, "sessions"}, {serve.Options{Sessions: serve.MaxSessions + 1}, "sessions"},
		{serve.Options{Deadline: -2}, "a deadline"}, {serve.Options{Deadline: serve.MaxDeadline + 1}, "a deadline"}, {serve.Options{Deadline: serve.MaxDeadline}, ""}, {serve.Options{Deadline: serve.Period}, ""},
		{serve.Options{MaxAge: -1}, "largest age"}, {serve.Options{MaxAge: serve.MaxDeadline + 1}, "largest age"}, {serve.Options{MaxAge: serve.MaxDeadline}, ""},
		{serve.Options{Waiting: -3}, "waiting"}, {serve.Options{Waiting: 1}, ""}, {serve.Options{Waiting: serve.Measured}, ""},
		{serve.Options{Preference: []float64{1, 1}}, "sum"},
	} {
		c.opt.Setup = setup
		s, err := serve.New(own, cpu(t), c.opt)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.opt, err, c.want)
		}
		if err == nil {
			s.Close()
		}
	}
}
