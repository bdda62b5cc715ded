package cli

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/paper/multiagent"
)

// scenes is a program with the static case of Case 2 and an untrained map of it.
func scenes(t *testing.T) (app *App, file string) {
	t.Helper()
	c := multiagent.Static()
	return &App{Catalogue: gpc.Catalogue{Cases: []domain.Case{c}}}, untrained(t, c.MapProblem(), c.MapProblem().Spec().PlanSize())
}

// untrained writes a map with random weights whose plans have so many entries.
func untrained(t *testing.T, p domain.Problem, plan int) (file string) {
	t.Helper()
	of := *p.Spec()
	of.Plan = plan / of.ActionSize()
	m := testdomain.Untrained(rand.New(rand.NewPCG(1, 2)), &of, 8, 0, 16)
	m.NormU, m.Provenance.ProblemSHA256 = testdomain.Scaled(plan, 0.3), durable.Sum(domain.FingerprintOf(p))
	file = filepath.Join(t.TempDir(), "map.safetensors")
	require.OK(t, m.WriteFile(file))
	return file
}

// A method that asks the case's map runs, is recorded with the map's priority and
// residual, verifies, and comes out the same in shards, and when it is resumed
// behind an interruption.
func TestGuidedMethodIsEvaluatedLikeAnyOther(t *testing.T) {
	if testing.Short() {
		t.Skip("whole episodes")
	}
	app, file := scenes(t)
	dir := t.TempDir()
	eval := func(name string, more ...string) map[string]json.RawMessage {
		t.Helper()
		trace := filepath.Join(dir, name)
		code, out, log := run(app, append([]string{"eval", "multiagent-static", "--method", "planner-384", "--model", file, "--seed", "991", "--trace", trace, "--json"}, more...)...)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", name, code, log)
		}
		if code, _, log := run(app, "verify", trace); code != 0 {
			t.Fatalf("%s: verify: exit code %d: %s", name, code, log)
		}
		var result map[string]json.RawMessage
		require.OK(t, json.Unmarshal([]byte(out), &result))
		return result
	}
	whole := eval("whole.jsonl", "--episodes", "2")
	text := require.Get(os.ReadFile(filepath.Join(dir, "whole.jsonl")))(t)
	lines := strings.Split(string(text), "\n")
	var line struct {
		Priority []float64 `json:"priority"`
		Residual *float64  `json:"residual"`
	}
	require.OK(t, json.Unmarshal([]byte(lines[2]), &line))
	if len(line.Priority) != 3 || line.Residual == nil || !(*line.Residual > 0) {
		t.Errorf("a decision is recorded with priority %v and residual %v", line.Priority, line.Residual)
	}
	cost := func(path string, episode int) string {
		t.Helper()
		text := require.Get(os.ReadFile(filepath.Join(dir, path)))(t)
		for _, l := range strings.Split(string(text), "\n") {
			var end struct {
				Episode *int `json:"episode"`
				End     *struct {
					Cost json.Number `json:"cost"`
				} `json:"end"`
			}
			if json.Unmarshal([]byte(l), &end) == nil && end.End != nil && end.Episode != nil && *end.Episode == episode {
				return end.End.Cost.String()
			}
		}
		t.Fatalf("%s has no end of episode %d", path, episode)
		return ""
	}
	eval("part.jsonl", "--episodes", "2", "--shard", "1/2")
	if a, b := cost("whole.jsonl", 1), cost("part.jsonl", 1); a != b {
		t.Errorf("episode 1 costs %s in the whole run and %s in its shard", a, b)
	}
	cut := strings.Join(lines[:len(lines)-40], "\n") // within the second episode
	require.OK(t, os.WriteFile(filepath.Join(dir, "resumed.jsonl"), []byte(cut), 0o644))
	resumed := eval("resumed.jsonl", "--episodes", "2", "--resume", "--threads", "2")
	for _, key := range []string{"cost_mean", "safe", "margin_mean", "fallback", "decisions"} {
		if string(whole[key]) != string(resumed[key]) {
			t.Errorf("%s is %s, resumed %s", key, whole[key], resumed[key])
		}
	}
}

func TestGuidedMethodsAreListedAndRefuseByName(t *testing.T) {
	app, file := scenes(t)
	code, out, log := run(app, "cases", "--json")
	if code != 0 {
		t.Fatal(log)
	}
	for _, name := range []string{"planner", "planner-384", "planner-no-latent-primitives", "planner-no-latent-descents", "planner-no-lookahead", "planner-no-semantic", "planner-no-lie", "planner-no-rollout", "navigator-no-retraction", "navigator", "raw", "reference", "reference-4096"} {
		if !strings.Contains(out, `"`+name+`"`) {
			t.Errorf("gpc cases does not list %s: %s", name, out)
		}
	}
	if strings.Contains(out, `"direct"`) {
		t.Errorf("gpc cases lists direct, and the map is not about the plant's problem: %s", out)
	}
	_, cartFile := cart(t)
	joint := app.Cases[0].Problem.Spec()
	state, err := json.Marshal(map[string][]float64{"s": make([]float64, joint.MeasuredSize()), "c": make([]float64, joint.ContextSize())})
	require.OK(t, err)
	empty := filepath.Join(t.TempDir(), "empty.json")
	require.OK(t, os.WriteFile(empty, state, 0o644))
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"no model", []string{"eval", "multiagent-static", "--method", "planner"}, "--model"},
		{"a model of another case", []string{"eval", "multiagent-static", "--method", "planner", "--model", cartFile}, "cart"},
		{"a model of another size", []string{"eval", "multiagent-static", "--method", "planner", "--model", untrained(t, app.Cases[0].MapProblem(), 16)}, "D_u gives 16 values, case \"multiagent-static\" needs 80"},
		{"export of what direct does not decide", []string{"export", file, "--map-only", "--c", filepath.Join(t.TempDir(), "c")}, "direct"},
		{"a map without the decoder before its refinement", []string{"eval", "multiagent-static", "--method", "planner-no-rollout", "--model", file}, "rollout-aware refinement"},
		{"navigator's method", []string{"eval", "multiagent-static", "--method", "direct", "--model", file}, "direct"},
		{"refine without robots", []string{"refine", "multiagent-static", "--model", file, "--state", empty}, "nothing to choose"},
		{"another regime", []string{"eval", "multiagent-static", "--method", "planner", "--model", file, "--regime", "night"}, "night"},
	} {
		if code, _, log := run(app, c.args...); code == 0 || !strings.Contains(log, c.says) {
			t.Errorf("%s: exit code %d, stderr %q does not name %q", c.name, code, log, c.says)
		}
	}
}
