package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
)

var hashes = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// A network that was edited under its name is another one: its dataset is not continued,
// samples of both do not train one map, and a map of the first is none of the second.
func TestAnEditedNetworkIsAnotherOne(t *testing.T) {
	app := &App{Catalogue: paper.Cases()}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	net := at("net.m")
	text := require.Get(cases.Text("case9"))(t)
	edited := bytes.Replace(text, []byte("0.11"), []byte("0.13"), 1) // a cost
	if bytes.Equal(edited, text) {
		t.Fatal("nothing is edited")
	}
	write := func(b []byte) {
		t.Helper()
		require.OK(t, os.WriteFile(net, b, 0o644))
	}
	ok := func(args ...string) {
		t.Helper()
		if code, _, log := run(app, args...); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, log)
		}
	}
	refused := func(args ...string) {
		t.Helper()
		code, _, log := run(app, args...)
		if code != 2 || strings.Count(log, "problem_sha256") != 1 || len(hashes.FindAllString(log, -1)) != 2 {
			t.Errorf("%v: exit code %d, want 2 and both problems named: %s", args, code, log)
		}
	}
	dataset := func(seed, scenarios int, out string) []string {
		return []string{"dataset", "opf:" + net, "--seed", fmt.Sprint(seed), "--scenarios", fmt.Sprint(scenarios), "--weights", "2", "--chunk", "2", "--out", at(out)}
	}
	train := func(out string, data ...string) []string {
		return []string{"train", "opf:" + net, "--epochs", "1", "--rollout-epochs", "-1", "--hidden", "8", "--latent", "4", "--batch", "16", "--data", strings.Join(data, ","), "--out", at(out)}
	}
	write(text)
	ok(dataset(1, 8, "first")...)
	ok(train("map", at("first"))...)
	write(edited)
	refused(dataset(1, 8, "first")...)
	refused(train("other", at("first"))...)
	ok(dataset(2, 8, "second")...)
	refused(train("other", at("second"), at("first"))...)
	for _, args := range [][]string{
		{"eval", "opf:" + net, "--method", "direct", "--episodes", "1", "--model", at("map")},
		train("again", at("second")),
		{"dataset", "opf:" + net, "--policy", at("map"), "--scenarios", "2", "--out", at("visited")},
	} {
		if args[0] == "train" {
			args = append(args, "--init", at("map"))
		}
		refused(args...)
	}
	if _, err := os.Stat(at("other")); err == nil {
		t.Error("a map of two networks was written")
	}
	write(text)
	ok("eval", "opf:"+net, "--method", "direct", "--episodes", "1", "--regime", "paper", "--model", at("map"))
}

// Outputs that would destroy an input or each other, and outputs that cannot be written,
// are refused before any work.
func TestOutputsAreCheckedFirst(t *testing.T) {
	app, file := cart(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	data := at("data")
	if code, _, log := run(app, "dataset", "cart", "--scenarios", "3", "--weights", "1", "--out", data); code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	require.OK(t, os.Symlink(file, at("link")))
	require.OK(t, os.Link(file, at("hard")))
	require.OK(t, syscall.Mkfifo(at("pipe"), 0o644))
	system := at("crane.json")
	require.OK(t, os.WriteFile(system, require.Get(os.ReadFile("../equations/systemfile/testdata/crane.json"))(t), 0o644))
	require.OK(t, os.Symlink(system, at("craneLink")))
	before := require.Get(os.ReadFile(file))(t)
	train := func(args ...string) []string {
		return append([]string{"train", "cart", "--latent", "2", "--batch", "8", "--epochs", "1", "--lr", "0.001", "--hidden", "4", "--data", data}, args...)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{train("--out", at("m"), "--curves", at("m")), "--curves"},
		{train("--out", at("m"), "--curves", at("m.checkpoint")), "--curves"},
		{train("--out", file, "--init", file), "--init"},
		{train("--out", at("link"), "--init", file), "--init"},
		{train("--out", at("m"), "--curves", at("hard"), "--init", file), "--init"},
		{train("--out", data), "--data"},
		{train("--out", at("none/m")), "does not exist"},
		{train("--out", at("pipe")), "not a regular file"},
		{train("--out", at("m"), "--curves", at("none/c")), "does not exist"},
		{[]string{"compile", "cart", "--out", at("none/m")}, "does not exist"},
		{[]string{"compile", "cart", "--out", data}, "not a regular file"},
		{[]string{"dataset", "cart", "--scenarios", "3", "--out", file}, "not a directory"},
		{[]string{"compile", system, "--out", system}, "would overwrite the system"},
		{[]string{"compile", "cart", "--plant", system, "--out", at("craneLink")}, "would overwrite the system"},
	} {
		code, _, log := run(app, c.args...)
		if code != 2 || !strings.Contains(log, c.says) || strings.Contains(log, "epoch") {
			t.Errorf("%v: exit code %d, want 2 before any work: %s", c.args, code, log)
		}
	}
	if !bytes.Equal(before, require.Get(os.ReadFile(file))(t)) {
		t.Error("an input was overwritten")
	}
	if code, _, log := run(app, train("--out", at("m"), "--curves", at("c"))...); code != 0 {
		t.Errorf("exit code %d: %s", code, log)
	}
	// Another run has the folder.
	for lock, args := range map[string][]string{
		data:                    {"dataset", "cart", "--scenarios", "3", "--weights", "1", "--out", data},
		at("m") + ".checkpoint": train("--out", at("m")),
	} {
		l := require.Get(durable.Acquire(lock))(t)
		code, _, log := run(app, args...)
		if code != 2 || !strings.Contains(log, fmt.Sprintf("process %d", os.Getpid())) {
			t.Errorf("%v beside another: exit code %d, %s", args, code, log)
		}
		require.OK(t, l.Release())
	}
}

// A dataset without a sample is a failure that says why.
func TestNoSamplesIsAFailure(t *testing.T) {
	app := &App{Catalogue: paper.Cases()}
	net := filepath.Join(t.TempDir(), "net.m")
	text := require.Get(cases.Text("case9"))(t)
	require.OK(t, os.WriteFile(net, append(text, "\nmpc.bus(:, [3, 4]) = mpc.bus(:, [3, 4]) * 9;\n"...), 0o644))
	out := filepath.Join(t.TempDir(), "d")
	for range 2 { // also when there is nothing left to solve
		code, _, log := run(app, "dataset", "opf:"+net, "--scenarios", "3", "--weights", "1", "--out", out)
		if code != 1 || !strings.Contains(log, "no samples of 3 scenarios; no sample from 6 of 6 solves: 6 infeasible") {
			t.Errorf("exit code %d: %s", code, log)
		}
	}
}

// What a program records names that program, so that its command can be given again.
func TestRecordsNameTheirProgram(t *testing.T) {
	app, _ := cart(t)
	app.Name = "gpc-cart"
	data := filepath.Join(t.TempDir(), "data")
	if code, _, log := run(app, "dataset", "cart", "--scenarios", "2", "--weights", "1", "--out", data); code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	d := require.Get(dataset.Open(data))(t)
	if want := "gpc-cart dataset cart --scenarios 2 --weights 1 --out " + data; d.Header.Command != want {
		t.Errorf("the dataset was made by %q, want %q", d.Header.Command, want)
	}
}

// A benchmark that cannot be kept is refused before it is measured.
func TestBenchChecksItsOutputsFirst(t *testing.T) {
	app, file := cart(t)
	nowhere := filepath.Join(t.TempDir(), "none", "step.safetensors")
	refused(t, app, "--record", "bench", "step", "--record", nowhere, "--time", "1h")
	refused(t, app, "--model", "bench", "refine", "--case", "cart", "--model", file, "--record", file, "--time", "1h")
	refused(t, app, "--lines", "bench", "gemm", "--lines", filepath.Dir(nowhere)+"/rows.jsonl", "--time", "1h")
}
