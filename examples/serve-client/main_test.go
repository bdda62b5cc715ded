package main

import (
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// Both clients drive the same loop, and leave no session behind.
func TestTheClientsDriveTheSameLoop(t *testing.T) {
	cases := paper.Cases()
	c := require.Get(cases.Find("integrator-convex"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	s := require.Get(serve.New(c, e, serve.Options{Setup: require.Get(c.Setup("navigator", ""))(t)}))(t)
	defer s.Close()
	h := httptest.NewServer(serve.Handler(s, serve.HTTPOptions{}))
	defer h.Close()
	var out strings.Builder
	require.OK(t, drive(t.Context(), h.URL, &out))
	if n := strings.Count(out.String(), "\n"); n != steps || strings.Contains(out.String(), "false") || s.Health().Sessions != 0 {
		t.Errorf("%d decisions, %d sessions: %s", n, s.Health().Sessions, out.String())
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	text, err := exec.Command(python, "client.py", h.URL).CombinedOutput()
	if err != nil || string(text) != out.String() || s.Health().Sessions != 0 {
		t.Errorf("%v, in Python:\n%s\nin Go:\n%s", err, text, out.String())
	}
}
