package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A scene is written, run, verified, refined and recorded by the commands, and changed scenes are others.
func TestScenesOfOnesOwn(t *testing.T) {
	app, model := cart(t)
	dir := t.TempDir()
	scene, trace, recording := filepath.Join(dir, "scene.json"), filepath.Join(dir, "trace.jsonl"), filepath.Join(dir, "run.mcap")
	ok := func(args ...string) string {
		t.Helper()
		code, out, log := run(app, args...)
		if code != 0 {
			t.Fatalf("gpc %s: exit code %d: %s", strings.Join(args, " "), code, log)
		}
		return out
	}
	var w sceneResult
	require.OK(t, json.Unmarshal([]byte(ok("scene", "cart", "--seed", "7", "--episode", "3", "--out", scene, "--json")), &w))
	if info := require.Get(os.Stat(scene))(t); w.Case != "cart" || w.Seed != 7 || w.Episode != 3 || int64(w.Bytes) != info.Size() {
		t.Errorf("what was written: %+v", w)
	}
	var r closedloop.Result
	require.OK(t, json.Unmarshal([]byte(ok("eval", "cart", "--method", "direct", "--model", model, "--scene", scene, "--trace", trace, "--mcap", recording, "--json")), &r))
	if r.Episodes != 1 || r.ScenesSHA256 != w.SHA256 || len(r.Excursions) != 0 {
		t.Errorf("%d episodes of %s, beyond %v", r.Episodes, r.ScenesSHA256, r.Excursions)
	}
	ok("verify", trace, "--deep", "--model", model)
	ok("mcap", trace, recording)
	if info := require.Get(os.Stat(recording))(t); info.Size() < 1000 {
		t.Errorf("a recording of %d bytes", info.Size())
	}
	alone := filepath.Join(dir, "alone.mcap")
	ok("eval", "cart", "--method", "direct", "--model", model, "--episodes", "1", "--mcap", alone)
	require.Get(os.Stat(alone))(t)
	ok("eval", "pair", "cart", "--methods", "direct,gpc:1", "--model", model, "--scene", scene)
	ok("refine", "cart", "--model", model, "--scene", scene, "--candidates", "16")
	far := filepath.Join(dir, "far.json")
	require.OK(t, os.WriteFile(far, []byte(`{"gpc_scene": 1, "case": "cart", "scene": {"p": [1.25, 0]}}`), 0o644))
	if out := ok("eval", "cart", "--method", "direct", "--model", model, "--scene", far); !strings.Contains(out, "not what maps are made for: episode 0: p[0] (q) is 1.25") {
		t.Errorf("what lies beyond is not said: %s", out)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"a file that is there":       {[]string{"scene", "cart", "--out", scene}, "exists"},
		"no file":                    {[]string{"scene", "cart"}, "--out"},
		"an episode below none":      {[]string{"scene", "cart", "--episode", "-1", "--out", filepath.Join(dir, "x.json")}, "--episode -1"},
		"an unknown regime":          {[]string{"scene", "cart", "--regime", "ice", "--out", filepath.Join(dir, "x.json")}, "ice"},
		"a scene with episodes":      {[]string{"eval", "cart", "--model", model, "--scene", scene, "--episodes", "3"}, "--episodes"},
		"a scene with a regime":      {[]string{"eval", "cart", "--model", model, "--scene", scene, "--regime", "x"}, "--regime"},
		"a scene with a state":       {[]string{"refine", "cart", "--model", model, "--scene", scene, "--state", scene}, "--state"},
		"a trace over a scene":       {[]string{"eval", "cart", "--model", model, "--scene", scene, "--trace", scene}, "--scene"},
		"a recording over a trace":   {[]string{"mcap", trace, trace}, "overwrite"},
		"a recording of no trace":    {[]string{"mcap", scene, filepath.Join(dir, "y.mcap")}, "scene.json"},
		"no scene":                   {[]string{"eval", "cart", "--model", model, "--scene", trace}, "trace.jsonl"},
		"a scene of another case":    {[]string{"eval", "cart", "--model", model, "--scene", other(t, dir)}, `case is "boat"`},
		"a folder to refine from":    {[]string{"refine", "cart", "--model", model, "--scene", both(t, dir)}, "2 scenes"},
		"a scene that cannot be run": {[]string{"eval", "cart", "--model", model, "--scene", impossible(t, dir)}, "p has 3 entries"},
	} {
		if code, _, log := run(app, c.args...); code != 2 || !strings.Contains(log, c.says) {
			t.Errorf("%s: exit code %d, %s; want 2 and %q", name, code, log, c.says)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "y.mcap")); err == nil {
		t.Error("a recording of no trace was written")
	}
}

func sceneFile(t *testing.T, path, text string) string {
	t.Helper()
	require.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.OK(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func other(t *testing.T, dir string) string {
	return sceneFile(t, filepath.Join(dir, "other.json"), `{"gpc_scene": 1, "case": "boat", "scene": {"p": [0, 0]}}`)
}

func impossible(t *testing.T, dir string) string {
	return sceneFile(t, filepath.Join(dir, "impossible.json"), `{"gpc_scene": 1, "case": "cart", "scene": {"p": [0, 0, 0]}}`)
}

func both(t *testing.T, dir string) string {
	for _, name := range []string{"a.json", "b.json"} {
		sceneFile(t, filepath.Join(dir, "both", name), `{"gpc_scene": 1, "case": "cart", "scene": {"p": [0, 0]}}`)
	}
	return filepath.Join(dir, "both")
}
