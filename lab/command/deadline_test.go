package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/deadline"
)

// What cannot be kept or measured ends with exit code 2 and what it is.
func TestDeadlinesThatAreRefused(t *testing.T) {
	app, file := cart(t)
	for says, args := range map[string][]string{
		"--case is required":       {"bench", "deadline"},
		`unknown case "boat"`:      {"bench", "deadline", "--case", "boat"},
		"a rate of 0":              {"bench", "deadline", "--case", "cart", "--model", file, "--rate", "0"},
		"--for 25h0m0s: want 0 to": {"bench", "deadline", "--case", "cart", "--model", file, "--for", "25h"},
		"--episodes 0":             {"bench", "deadline", "--case", "cart", "--model", file, "--episodes", "0"},
		"magic":                    {"bench", "deadline", "--case", "cart", "--model", file, "--method", "magic"},
	} {
		if code, _, log := run(app, args...); code != 2 || !strings.Contains(log, says) {
			t.Errorf("%v: exit code %d: %s, want %q", args, code, log, says)
		}
	}
}

// A loop of a map's decisions: as many as the rate and the time say, each of them the recorded
// one.
func TestBenchDeadline(t *testing.T) {
	app, file := cart(t)
	code, out, log := run(app, "bench", "deadline", "--case", "cart", "--model", file, "--rate", "500", "--for", "100ms", "--json")
	var d deadline.Deadlines
	require.OK(t, json.Unmarshal([]byte(out), &d))
	if code != 0 || d.Releases != 50 || d.Decisions+d.Skipped != 50 || d.Differing != 0 || d.Method != "navigator" || d.Threads != 1 || !(d.Response.P50 > 0) || d.Command == "" {
		t.Errorf("exit code %d, %s, %s", code, out, log)
	}
	if code, out, log := run(app, "bench", "deadline", "--case", "cart", "--method", "hold", "--rate", "500", "--for", "50ms", "--deadline", "1ms"); code != 0 || !strings.Contains(out, "deadline 1000 µs") || !strings.Contains(out, "release jitter") || !strings.Contains(out, "deadlines missed") {
		t.Errorf("exit code %d, %s, %s", code, out, log)
	}
}
