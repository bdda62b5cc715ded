package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"
)

// No command writes over what it was given or what an earlier run has left, under whatever
// name: it is refused before any work, with exit code 2 and both names.
func TestNothingIsWrittenOver(t *testing.T) {
	app, file := cart(t)
	dir := t.TempDir()
	trace, link, data := filepath.Join(dir, "trace.jsonl"), filepath.Join(dir, "link"), filepath.Join(dir, "data")
	if code, _, log := run(app, "eval", "cart", "--method", "direct", "--episodes", "1", "--model", file, "--trace", trace); code != 0 {
		t.Fatal(log)
	}
	require.OK(t, os.Link(file, link))
	require.OK(t, os.Mkdir(data, 0o755))
	out := filepath.Join(dir, "map.safetensors")
	for name, c := range map[string]struct {
		args []string
		says []string
		kept string
	}{
		"a finished trace":                  {[]string{"eval", "cart", "--method", "direct", "--episodes", "2", "--model", file, "--trace", trace}, []string{trace, "exists"}, trace},
		"a trace over the model":            {[]string{"eval", "cart", "--method", "direct", "--model", file, "--trace", file}, []string{"--trace", "--model"}, file},
		"a trace over a link of it":         {[]string{"eval", "cart", "--method", "direct", "--model", file, "--trace", link, "--resume"}, []string{"--trace", "--model"}, file},
		"curves over the map":               {[]string{"train", "cart", "--data", data, "--out", out, "--curves", out}, []string{"--curves", "--out"}, ""},
		"curves over the checkpoint":        {[]string{"train", "cart", "--data", data, "--out", out, "--curves", out + ".checkpoint"}, []string{"--curves", "checkpoint"}, ""},
		"a map over the one it begins with": {[]string{"train", "cart", "--data", data, "--init", file, "--out", link}, []string{"--init", "--out"}, file},
	} {
		var before []byte
		if c.kept != "" {
			before = require.Get(os.ReadFile(c.kept))(t)
		}
		code, _, log := run(app, c.args...)
		if code != 2 {
			t.Errorf("%s: exit code %d: %s", name, code, log)
		}
		for _, says := range c.says {
			if !strings.Contains(log, says) {
				t.Errorf("%s: %q does not name %s", name, log, says)
			}
		}
		if c.kept != "" && !bytes.Equal(before, require.Get(os.ReadFile(c.kept))(t)) {
			t.Errorf("%s: %s was changed", name, c.kept)
		}
	}
}

// The case that a model file names is looked up among the program's own: a file that it
// names is not opened.
func TestAModelNamesNoFile(t *testing.T) {
	app, file := cart(t)
	app.Open = func(name string) (domain.Case, bool, error) {
		t.Errorf("%s was to be opened", name)
		return domain.Case{}, false, nil
	}
	m := require.Get(model.ReadFile(file))(t)
	m.Case = "opf:/dev/zero"
	forged := filepath.Join(t.TempDir(), "forged.safetensors")
	require.OK(t, m.WriteFile(forged))
	if code, _, log := run(app, "export", forged, "--c", t.TempDir()); code != 2 || !strings.Contains(log, "--case") {
		t.Errorf("exit code %d: %s", code, log)
	}
	app.Open = nil
	m.Case = "another"
	require.OK(t, m.WriteFile(forged))
	if code, _, log := run(app, "export", forged, "--case", "cart", "--map-only", "--c", t.TempDir()); code != 2 || !strings.Contains(log, "another") {
		t.Errorf("a map of another case: exit code %d: %s", code, log)
	}
}

// verify says of every field whether it was confirmed, recomputed or left unchecked.
func TestVerifySaysWhatItDid(t *testing.T) {
	app, file := cart(t)
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	if code, _, log := run(app, "eval", "cart", "--method", "direct", "--episodes", "2", "--model", file, "--trace", trace); code != 0 {
		t.Fatal(log)
	}
	code, out, log := run(app, "verify", trace)
	if code != 0 || !strings.Contains(out, "only deciding again (--deep) can tell: header.method, header.model_sha256") || !strings.Contains(out, "no time can be taken again: latency_us, times_us") {
		t.Errorf("exit code %d: %s%s", code, out, log)
	}
	code, out, log = run(app, "verify", trace, "--deep", "--model", file)
	if code != 0 || !strings.Contains(out, "bit for bit") || strings.Contains(out, "--deep") {
		t.Errorf("deep: exit code %d: %s%s", code, out, log)
	}
	for name, args := range map[string][]string{
		"no map to decide by":  {"verify", trace, "--deep"},
		"a map without --deep": {"verify", trace, "--model", file},
		"no time at all":       {"verify", trace, "--episode-limit", "0s"},
		"not a map":            {"verify", trace, "--deep", "--model", trace},
	} {
		if code, _, log := run(app, args...); code != 2 || log == "" {
			t.Errorf("%s: exit code %d: %s", name, code, log)
		}
	}
}
