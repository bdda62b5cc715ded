package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// TestMain is also the server.
func TestMain(m *testing.M) {
	if os.Getenv(environment) != "" {
		os.Exit(be())
	}
	os.Exit(m.Run())
}

// A short load: every request is answered, what is wrong is answered as such, and another session
// decides as on the idle server. Times and memory need a quiet machine and longer.
func TestAShortLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it loads the machine for seconds")
	}
	// As long as it takes for some of everything.
	var r *peerrecord.Served
	for lasts := 2 * time.Second; r == nil || r.Canary == 0 || r.Idle.N == 0 || r.Trouble.Large == 0 || r.Trouble.Malformed == 0 || r.Trouble.Disconnected == 0; lasts *= 2 {
		r = require.Get(run(t.Context(), options{name: "integrator-convex", method: "navigator", lasts: lasts, measure: lasts / 4, deadline: time.Minute, connections: 32, waiting: "measured", halfOpen: 100, patience: time.Hour}, t.Output()))(t)
	}
	l := r.Load
	if l.Lost != 0 || l.Wrong != 0 || l.Sent == 0 || l.Accepted == 0 || l.Accepted+l.Refused != l.Sent {
		t.Errorf("load %+v", l)
	}
	if r.CanaryDiffering != 0 {
		t.Errorf("of %d decisions of another session %d differ", r.Canary, r.CanaryDiffering)
	}
	if x := r.Trouble; x.Wrong != 0 {
		t.Errorf("trouble %+v", x)
	}
	if r.Capacity <= 0 || r.Idle.N == 0 || r.Idle.P99 < r.Idle.P50 || l.Answers.N != l.Accepted || r.Memory.End <= 0 || r.Memory.Most < r.Memory.End {
		t.Errorf("record %+v", r)
	}
	var out bytes.Buffer
	print(&out, r)
	for _, says := range []string{"capacity", "refused", "resident memory", "does not hold"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("the table does not mention %s: %s", says, out.String())
		}
	}
	file := filepath.Join(t.TempDir(), "serve.json")
	require.OK(t, os.WriteFile(file, require.Get(finite.Marshal(r))(t), 0o644))
	var back peerrecord.Served
	require.OK(t, json.Unmarshal(require.Get(os.ReadFile(file))(t), &back))
	if back.Load.Sent != r.Load.Sent || back.Capacity != r.Capacity {
		t.Errorf("read back as %+v", back)
	}
}
