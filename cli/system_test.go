package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

const craneFile = "../equations/systemfile/testdata/crane.json"

// A system's file is taken where a case's name is: it is checked, compiled, driven, verified without the file, and a map of
// another system is refused by name.
func TestASystemsFileIsACase(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a map")
	}
	dir := t.TempDir()
	file, model, trace := filepath.Join(dir, "crane.json"), filepath.Join(dir, "crane.safetensors"), filepath.Join(dir, "run.jsonl")
	text := require.Get(os.ReadFile(craneFile))(t)
	small := strings.Replace(string(text), `"steps":50`, `"steps":12`, 1)
	small = strings.Replace(small, `["const",0.02]`, `["const",0.08333333333333333]`, 1)
	small = strings.Replace(small, `"program":{`, `"training":{"latent":4,"hidden":16,"scenarios":6,"manifold_epochs":6,"rollout_epochs":1},"program":{`, 1)
	require.OK(t, os.WriteFile(file, []byte(small), 0o644))

	app, _ := cart(t)
	done := func(args ...string) string {
		t.Helper()
		code, out, log := run(app, args...)
		if code != 0 {
			t.Fatalf("%v ends with %d: %s", args, code, log)
		}
		return out
	}
	var about writtenSystem
	require.OK(t, json.Unmarshal([]byte(done("system", file, "--json")), &about))
	if about.Case != "crane" || about.Functions != 8 {
		t.Errorf("the file is %+v", about)
	}
	done("compile", file, "--out", model, "--rounds", "1", "--target", "1000%", "--tail", "1e6%", "--starts", "10", "--test-starts", "10", "--budget", "1h", "--threads", "1")
	done("eval", file, "--model", model, "--episodes", "2", "--trace", trace, "--threads", "1")
	other := filepath.Join(dir, "heavier.json")
	require.OK(t, os.WriteFile(other, []byte(strings.Replace(small, `["const",9.81]`, `["const",9.91]`, 1)), 0o644))
	refused(t, app, "was trained on other equations than those of case crane", "eval", other, "--model", model, "--episodes", "1")
	require.OK(t, os.Remove(file))
	done("verify", trace)
	refused(t, app, "does not exist", "eval", file, "--method", "nmpc")
	require.OK(t, os.WriteFile(file, []byte(`{"format":"gpc-system","version":3}`), 0o644))
	refused(t, app, "version is 3, this program reads 1", "serve", file, "--stdin")
}

// What of a system's integrator is not accurate is said on stderr by every command, and what is wrong is refused.
func TestRemarksOnASystemAreSaid(t *testing.T) {
	text := string(require.Get(os.ReadFile(craneFile))(t))
	app, _ := cart(t)
	for length, want := range map[string]string{"0.1": "", "0.6": "a remark on crane: one step of the integrator", "2": "want: refused"} {
		file := filepath.Join(t.TempDir(), "crane.json")
		require.OK(t, os.WriteFile(file, []byte(strings.Replace(text, `"span_s":0.1`, `"span_s":`+length, 1)), 0o644))
		switch code, _, log := run(app, "system", file); {
		case want == "want: refused":
			if code != 2 || !strings.Contains(log, "give ode substeps=") {
				t.Errorf("a span of %s ends with %d: %s", length, code, log)
			}
		case code != 0 || !strings.Contains(log, want) || want == "" && log != "":
			t.Errorf("a span of %s ends with %d: %s", length, code, log)
		}
	}
	for _, command := range [][]string{{"eval", craneFile, "--method", "nmpc"}, {"eval", "pair", craneFile, "--methods", "nmpc"}} {
		if code, out, log := run(app, append(command, "--episodes", "2", "--seed", "9001")...); code != 0 || !strings.Contains(out, "integration: ") {
			t.Errorf("%v ends with %d, %s: %s", command, code, log, out)
		}
	}
	refused(t, app, "--budget 0s", "compile", craneFile, "--out", filepath.Join(t.TempDir(), "a.safetensors"), "--budget", "0s")
}
