package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A system's file is checked: what is wrong ends with exit code 1, is said by every command that begins with it, and is refused by
// compile before any work.
func TestASystemIsChecked(t *testing.T) {
	app, _ := cart(t)
	text := string(require.Get(os.ReadFile(craneFile))(t))
	dir := t.TempDir()
	write := func(name, before, after string) string {
		t.Helper()
		if !strings.Contains(text, before) {
			t.Fatalf("%s is not in the file", before)
		}
		file := filepath.Join(dir, name+".json")
		require.OK(t, os.WriteFile(file, []byte(strings.Replace(text, before, after, 1)), 0o644))
		return file
	}
	if code, out, log := run(app, "check", craneFile); code != 0 || out != "crane: nothing found\n" {
		t.Errorf("the crane ends with %d: %s%s", code, out, log)
	}
	const says = "at 32 of 32 starts no action keeps the limits for one step: margin speed- in 32 of them"
	wrong := write("wrong", `["add",8,11],["sub",11,8]`, `["sub",8,11],["sub",11,8]`) // speed − limit
	code, out, _ := run(app, "check", wrong, "--json")
	var r checked
	require.OK(t, json.Unmarshal([]byte(out), &r))
	if f := r.Findings.Fatal(); code != 1 || r.Case != "crane" || f == nil || f.Subject != "margin speed-" || f.Function != "margins" || !strings.HasPrefix(f.Message, says) {
		t.Errorf("a wrong sign ends with %d: %s", code, out)
	}
	code, out, log := run(app, "eval", wrong, "--method", "nmpc", "--episodes", "2")
	if code != 0 || !strings.Contains(log, "crane: error: "+says) || !strings.Contains(out, "nmpc: no reference in 2 of 2 episodes: no plan keeps the limits, first in episode 0 from the state [") || !strings.Contains(out, "regret is over 0 of 2 episodes") {
		t.Errorf("eval ends with %d: %s%s", code, out, log)
	}
	if code, out, _ := run(app, "eval", wrong, "--method", "nmpc", "--episodes", "1", "--json"); code != 0 || !strings.Contains(out, `"findings":[{"severity":"error","of":"margin speed-"`) {
		t.Errorf("eval --json ends with %d: %.2000s", code, out)
	}
	model := filepath.Join(dir, "crane.safetensors")
	refused(t, app, "case crane: "+says, "compile", wrong, "--out", model)
	if _, err := os.Stat(model + ".compile"); err == nil {
		t.Error("compile began")
	}

	// What the solver follows is no finding: an optimum that lies in a corner is a reference.
	corner := write("corner", `["mul",11,11],["mul",8,8]`, `["abs",11],["mul",8,8]`) // |position − goal|
	if code, out, _ := run(app, "check", corner); code != 0 || out != "crane: nothing found\n" {
		t.Errorf("a corner ends with %d: %s", code, out)
	}
	if _, out, log := run(app, "eval", "pair", corner, "--methods", "nmpc", "--episodes", "1"); strings.Contains(out+log, "remark") || strings.Contains(out, "no reference") {
		t.Errorf("eval pair says %s%s", out, log)
	}
	jump := write("jump", `["mul",11,11],["mul",8,8]`, `["floor",11],["mul",8,8]`)
	if code, out, _ := run(app, "check", jump); code != 0 || !strings.HasPrefix(out, string(diagnosis.Remark)+": objective position jumps at the state [") {
		t.Errorf("a jump ends with %d: %s", code, out)
	}
	if _, _, log := run(app, "eval", "pair", jump, "--methods", "hold", "--episodes", "1"); !strings.Contains(log, "crane: remark: objective position jumps") {
		t.Errorf("eval pair says %s", log)
	}
}
