package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// What cannot be kept or measured ends with exit code 2 and what it is.
func TestBenchRefuses(t *testing.T) {
	app, file := cart(t)
	dir := t.TempDir()
	for says, args := range map[string][]string{
		"--case is required":            {"bench", "deadline"},
		`unknown case "boat"`:           {"bench", "deadline", "--case", "boat"},
		"a rate of 0":                   {"bench", "deadline", "--case", "cart", "--model", file, "--rate", "0"},
		"--for 25h0m0s: want 0 to":      {"bench", "deadline", "--case", "cart", "--model", file, "--for", "25h"},
		"--episodes 0":                  {"bench", "deadline", "--case", "cart", "--model", file, "--episodes", "0"},
		"magic":                         {"bench", "deadline", "--case", "cart", "--model", file, "--method", "magic"},
		"--out is required":             {"bench", "scaling"},
		"--axes hope (want some of bat": {"bench", "scaling", "--out", dir, "--axes", "hope"},
	} {
		refused(t, app, says, args...)
	}
}

func read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

// A loop of a map's decisions: as many as the rate and the time say, each of them the recorded
// one.
func TestBenchDeadline(t *testing.T) {
	app, file := cart(t)
	code, out, log := run(app, "bench", "deadline", "--case", "cart", "--model", file, "--rate", "500", "--for", "100ms", "--json")
	var d bench.Deadlines
	require.OK(t, json.Unmarshal([]byte(out), &d))
	if code != 0 || d.Releases != 50 || d.Decisions+d.Skipped != 50 || d.Differing != 0 || d.Method != "navigator" || d.Threads != 1 || !(d.Response.P50 > 0) || d.Command == "" {
		t.Errorf("exit code %d, %s, %s", code, out, log)
	}
	if code, out, log := run(app, "bench", "deadline", "--case", "cart", "--method", "hold", "--rate", "500", "--for", "50ms", "--deadline", "1ms"); code != 0 || !strings.Contains(out, "deadline 1000 µs") || !strings.Contains(out, "release jitter") || !strings.Contains(out, "deadlines missed") {
		t.Errorf("exit code %d, %s, %s", code, out, log)
	}
}

// The record of some axes can be read again.
func TestBenchScaling(t *testing.T) {
	app, _ := cart(t)
	dir := filepath.Join(t.TempDir(), "record")
	code, out, log := run(app, "bench", "scaling", "--out", dir, "--axes", "n_z", "--time", "1ms", "--threads", "1")
	if code != 0 || !strings.Contains(out, "n_z") || strings.Contains(out, "codes") {
		t.Fatalf("exit code %d, %s, %s", code, out, log)
	}
	var s bench.Scaling
	require.OK(t, json.Unmarshal([]byte(require.Get(read(filepath.Join(dir, "scaling.json")))(t)), &s))
	require.OK(t, s.Validate())
	if len(s.Curves) != 1 || s.Curves[0].Axis != "n_z" || s.Device == "" || s.Threads != 1 || !(s.Peak > 0) {
		t.Errorf("%+v", s)
	}
}
