package gpc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
)

// written is a scene file with this content.
func written(t *testing.T, text string) *closedloop.Scenes {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scene.json")
	require.OK(t, os.WriteFile(file, []byte(text), 0o644))
	return require.Get(closedloop.ReadScenes(file))(t)
}

// staged evaluates a method on given scenes with a trace, which has to verify.
func staged(t *testing.T, c *gpc.Case, method string, s *closedloop.Scenes) (*closedloop.Result, *closedloop.Verification, string) {
	t.Helper()
	catalogue := paper.Cases()
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	r := require.Get(c.Evaluate(context.Background(), require.Get(c.Setup(method, ""))(t), engine.Options{Backend: "cpu"}, closedloop.Options{
		Episodes: len(s.Files), Scenes: s, Seed: 991, TracePath: trace, Preference: domain.Preference{Adaptive: true},
	}))(t)
	v := require.Get(catalogue.Verify(t.Context(), trace, &gpc.Again{}, closedloop.VerifyOptions{}))(t)
	if !v.OK || !v.Exact {
		t.Errorf("%s: its trace does not verify: %v", method, v.Mismatches)
	}
	return r, v, string(require.Get(os.ReadFile(trace))(t))
}

// unlike is what the traces of a drawn scene and of its file may differ in.
var unlike = regexp.MustCompile(`"latency_us":[^,]*,|,?"times_us":\[[^\]]*\]|"(before_|scenes_)?sha256":"[^"]*",?|"device":"[^"]*",`)

// In every case the file of a drawn scene is bit for bit the episode that it was drawn from.
func TestTheFileOfADrawnSceneIsItsEpisode(t *testing.T) {
	catalogue := paper.Cases()
	for name, method := range map[string]string{
		"integrator-convex": "online", "multiagent-static": "planner-no-latent-primitives", "opf30": "hold", "opf30-uncertain": "direct",
	} {
		t.Run(name, func(t *testing.T) {
			c := require.Get(catalogue.Find(name))(t)
			text := require.Get(require.Get(c.Scene(t.Context(), 991, 0, "", domain.Preference{Adaptive: true}))(t).Text())(t)
			r, v, given := staged(t, c, method, written(t, string(text)))
			if len(r.Excursions) != 0 {
				t.Errorf("a drawn scene lies beyond training: %v", r.Excursions)
			}
			for _, check := range v.Checks {
				if check.Field == "header.params" && check.Verdict != closedloop.Confirmed {
					t.Errorf("the case's own params: %+v", check)
				}
			}
			drawn := require.Get(os.ReadFile(recorded(t, c, require.Get(c.Setup(method, ""))(t))))(t)
			a, b := unlike.ReplaceAllString(string(drawn), ""), unlike.ReplaceAllString(given, "")
			if a != b {
				x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
				for i := range min(len(x), len(y)) {
					if x[i] != y[i] {
						t.Fatalf("line %d: drawn\n%.400s\ngiven\n%.400s", i+1, x[i], y[i])
					}
				}
				t.Fatalf("%d and %d lines", len(x), len(y))
			}
		})
	}
}

// Eight robots, slower than those that the map was trained on, are steered by it, by the planner without it
// and by the reference; what it was not trained for is said, and the trace verifies by what it embeds.
func TestMoreRobotsThanThePaperHas(t *testing.T) {
	catalogue := paper.Cases()
	c := require.Get(catalogue.Find("multiagent-moving"))(t)
	var robots []string
	for i := range 8 {
		robots = append(robots, fmt.Sprintf(`{"p": [-6, %g], "theta": 0, "v": 0, "r": 0.3, "goal": [6, %g]}`, 1.5*float64(i)-5, 1.5*float64(7-i)-5))
	}
	text := `{"gpc_scene": 1, "case": "multiagent-moving", "params": {"robots": 8, "steps": 10, "limits": {"v_max": 1}},
		"scene": {"agents": [` + strings.Join(robots, ",") + `], "obstacles": [{"c": [0, 0], "v": [0.3, 0.2], "r": 0.6}]}}`
	for _, method := range []string{"planner-384", "navigator", "planner-no-latent-primitives", "reference"} {
		r, v, trace := staged(t, c, method, written(t, text))
		all := fmt.Sprint(r.Excursions)
		for _, says := range []string{"-1 params.robots is 8", "-1 params.limits.v_max is 1, maps and policies are trained with 1.2", "number of agents is 8"} {
			if !strings.Contains(all, says) {
				t.Errorf("%s: no %q in %s", method, says, all)
			}
		}
		if v.Decisions != 10 || r.Failures != 0 || !strings.Contains(trace, `"robots":8`) {
			t.Errorf("%s: %d decisions, %d failures", method, v.Decisions, r.Failures)
		}
		for _, check := range v.Checks {
			if check.Field == "header.params" && check.Verdict != closedloop.Unchecked {
				t.Errorf("params of the trace's own: %+v", check)
			}
		}
	}
	// Without room for them they are refused, by name, and nothing is run.
	_, err := c.Evaluate(context.Background(), gpc.Setup{Method: "reference"}, engine.Options{}, closedloop.Options{
		Episodes: 1, Scenes: written(t, strings.Replace(text, `"robots": 8, `, "", 1)), Preference: domain.Preference{Adaptive: true},
	})
	var in gpc.InputError
	if err == nil || !strings.Contains(err.Error(), "params.robots makes more") || !strings.Contains(err.Error(), "scene.json") || !asInput(err, &in) {
		t.Errorf("eight robots in room for six: %v", err)
	}
}

func asInput(err error, in *gpc.InputError) bool {
	e, ok := err.(gpc.InputError)
	if ok {
		*in = e
	}
	return ok
}

// Ramps and ratings of a scene's own bind the plant, the projection and the oracle alike.
func TestLimitsOfAScenesOwnBind(t *testing.T) {
	catalogue := paper.Cases()
	c := require.Get(catalogue.Find("opf30"))(t)
	level := make([]string, 301)
	for i := range level {
		level[i] = fmt.Sprint(0.7 + 0.0005*float64(i))
	}
	text := `{"gpc_scene": 1, "case": "opf30", "params": {"ramp_pu": [0.01, 0.01, 0.01, 0.01, 0.01, 0.01]}, "scene": {"level": [` + strings.Join(level, ",") + `]}}`
	r, _, _ := staged(t, c, "direct", written(t, text))
	if r.Episodes != 1 || r.Feasible != 1 || len(r.Excursions) != 1 || !strings.Contains(r.Excursions[0].Quantity, "params.ramp_pu") {
		t.Errorf("feasible %v, beyond %v", r.Feasible, r.Excursions)
	}
}

// Scenes of a folder are of one case and one plant.
func TestScenesOfOneFolderAreOfOnePlant(t *testing.T) {
	catalogue := paper.Cases()
	c := require.Get(catalogue.Find("integrator-convex"))(t)
	for name, texts := range map[string][2]string{
		"b.json: params": {`{"gpc_scene": 1, "case": "integrator-convex", "scene": {}}`, `{"gpc_scene": 1, "case": "integrator-convex", "params": {"u_max": 1}, "scene": {}}`},
		"b.json: case":   {`{"gpc_scene": 1, "case": "integrator-convex", "scene": {}}`, `{"gpc_scene": 1, "case": "opf30", "scene": {}}`},
		"a.json: params": {`{"gpc_scene": 1, "case": "integrator-convex", "params": {"u_max": -1}, "scene": {}}`, `{"gpc_scene": 1, "case": "integrator-convex", "params": {"u_max": -1}, "scene": {}}`},
	} {
		dir := t.TempDir()
		for i, file := range []string{"a.json", "b.json"} {
			require.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(texts[i]), 0o644))
		}
		if _, err := c.Staged(require.Get(closedloop.ReadScenes(dir))(t)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The scenes of the examples are run as the page on formats says, and begin.
func TestTheScenesOfTheExamples(t *testing.T) {
	catalogue := paper.Cases()
	files := require.Get(filepath.Glob("examples/scenes/*.json"))(t)
	if len(files) < 3 {
		t.Fatalf("%d scenes", len(files))
	}
	for _, file := range files {
		s := require.Get(closedloop.ReadScenes(file))(t)
		c := require.Get(require.Get(catalogue.Find(s.Files[0].Case))(t).Staged(s))(t)
		how := domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}
		if all := require.Get(s.Check(t.Context(), c.Definition(), 1, 0, 1, how))(t); len(all) == 0 {
			t.Errorf("%s: there is nothing of its own in it", file)
		}
	}
}
