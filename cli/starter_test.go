package cli

import (
	"bytes"
	"encoding/json"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// checkout is this one.
func checkout(t *testing.T) string { return require.Get(filepath.Abs(".."))(t) }

// TestStarter: what is written is a module of its own that, before it is edited, vets,
// passes its test, and compiles a map that keeps its limits.
func TestStarter(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a module and compiles a map")
	}
	dir := filepath.Join(t.TempDir(), "new", "crane-2")
	require.Get(starter{Name: "crane-2", Version: "v0.1.0", Source: checkout(t)}.write(dir))(t)
	// Its sums are among those of what it requires.
	require.OK(t, os.WriteFile(filepath.Join(dir, "go.sum"), require.Get(os.ReadFile(filepath.Join(checkout(t), "go.sum")))(t), 0o644))
	run := func(command ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(command[0], command[1:]...)
		var out, log bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &log
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
		err := cmd.Run()
		code := cmd.ProcessState.ExitCode()
		if err != nil && code != 1 || code == 1 && command[0] == "go" {
			t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, &out, &log)
		}
		return out.String(), code
	}
	run("go", "vet", "./...")
	run("go", "test", "-short", "./...")
	run("go", "build")
	var report struct {
		Rounds []struct{ Samples int }
		Test   struct {
			Episodes, Unsafe int
			Mean             float64 `json:"mean_pct"`
		}
		Met bool
	}
	out, code := run("./crane-2", "compile", "crane-2", "--out", "map", "--rounds", "1", "--scenarios", "30", "--starts", "10", "--test-starts", "10", "--json")
	require.OK(t, json.Unmarshal([]byte(out), &report))
	if len(report.Rounds) != 1 || report.Rounds[0].Samples < 1000 || report.Test.Episodes != 10 || report.Test.Unsafe != 0 || !(report.Test.Mean < 50) || report.Met != (code == 0) {
		t.Errorf("compile ends with %d and says %s", code, out)
	}
	var pair struct {
		Results []struct{ Method string }
	}
	out, _ = run("./crane-2", "eval", "pair", "crane-2", "--model", "map", "--methods", "direct,nmpc", "--episodes", "2", "--json")
	if require.OK(t, json.Unmarshal([]byte(out), &pair)); !strings.Contains(out, "nmpc") {
		t.Errorf("eval pair says %s", out)
	}
	if out, _ = run("./crane-2", "export", "map", "--c", "c", "--map-only"); !strings.HasPrefix(out, "gpc_crane_2 in c: ") {
		t.Errorf("export says %s", out)
	}
}

// TestStarterTemplates: formatted, short enough to read, and of gpc's own version of Go.
func TestStarterTemplates(t *testing.T) {
	for _, f := range require.Get(starter{Name: "crane", Version: "v0.1.0"}.render())(t) {
		if strings.HasSuffix(f.Name, ".go") {
			if got := require.Get(format.Source(f.Text))(t); !bytes.Equal(got, f.Text) {
				t.Errorf("%s is not formatted", f.Name)
			}
		}
		if n := bytes.Count(f.Text, []byte("\n")); n > 110 {
			t.Errorf("%s has %d lines", f.Name, n)
		}
		if bytes.Contains(f.Text, []byte("<<")) || bytes.Contains(f.Text, []byte("replace")) {
			t.Errorf("%s:\n%s", f.Name, f.Text)
		}
	}
	if own := require.Get(os.ReadFile("../go.mod"))(t); !bytes.Contains(own, []byte("\ngo "+goVersion+"\n\ntoolchain "+toolchain+"\n")) {
		t.Errorf("the module asks for Go %s and %s, gpc's go.mod does not", goVersion, toolchain)
	}
}

func TestStarterRefusals(t *testing.T) {
	good := starter{Name: "crane", Version: "v0.1.0"}
	empty := t.TempDir()
	if files := require.Get(good.write(empty))(t); len(files) != 5 || len(require.Get(os.ReadDir(empty))(t)) != 5 {
		t.Errorf("an empty folder gets %v", files)
	}
	full, file := t.TempDir(), filepath.Join(t.TempDir(), "notes.txt")
	require.OK(t, os.WriteFile(filepath.Join(full, "notes.txt"), nil, 0o644))
	require.OK(t, os.WriteFile(file, nil, 0o644))
	other := t.TempDir()
	require.OK(t, os.WriteFile(filepath.Join(other, "go.mod"), []byte("module example.com/other\n"), 0o644))
	for _, c := range []struct {
		dir  string
		m    starter
		says string
	}{
		{full, good, "notes.txt"},
		{file, good, "notes.txt"},
		{filepath.Join(file, "below"), good, "notes.txt"},
		{"", starter{Name: "Crane"}, `"Crane"`},
		{"", starter{Name: "2crane"}, `"2crane"`},
		{"", starter{Name: "my crane"}, `"my crane"`},
		{"", starter{Name: "a/b"}, `"a/b"`},
		{"", starter{Name: "crane-"}, `"crane-"`},
		{"", starter{}, `""`},
		{"", starter{Name: "crane", Source: full}, full + " is no checkout"},
		{"", starter{Name: "crane", Source: other}, "module example.com/other"},
	} {
		if c.dir == "" {
			c.dir = filepath.Join(t.TempDir(), "new")
		}
		before, _ := os.ReadDir(filepath.Dir(c.dir))
		if _, err := c.m.write(c.dir); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v into %s: %v, want an error that names %s", c.m, c.dir, err, c.says)
		}
		if after, _ := os.ReadDir(filepath.Dir(c.dir)); len(after) != len(before) {
			t.Errorf("%+v leaves %v beside %s", c.m, after, c.dir)
		}
	}
	if left := require.Get(os.ReadDir(full))(t); len(left) != 1 {
		t.Errorf("a folder that is not empty has %v afterwards", left)
	}
}
