//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/must"
)

// program is the built binary in a folder with what its commands read: a trace, a state, a
// small dataset.
func program(t *testing.T) (file, dir string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "gpc")
	if out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, args := range [][]string{
		{"eval", "integrator-convex", "--method", "direct", "--episodes", "1", "--trace", "one.jsonl"},
		{"dataset", "opf30", "--scenarios", "8", "--weights", "1", "--out", "data"},
	} {
		cmd := exec.Command(file, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("gpc %v: %v\n%s", args, err, out)
		}
	}
	state := must.Get(json.Marshal(map[string][]float64{"s": {-3, 0.5, 0, 0}, "c": {0, 0, 0.2, 0, 0}}))(t)
	must.OK(t, os.WriteFile(filepath.Join(dir, "state.json"), state, 0o644))
	must.OK(t, syscall.Mkfifo(filepath.Join(dir, "silent"), 0o600))           // opening it waits for a writer
	serving := must.Get(net.Listen("unix", filepath.Join(dir, "serving")))(t) // nobody answers there
	t.Cleanup(func() { serving.Close() })
	return file, dir
}

// stopped are command lines that would take longer than a test may, for every command and
// for what each waits in. What ends at once by itself has none.
var stopped = map[string][]string{
	"bench":   {"--time 1m", "compare silent silent", "deadline --case integrator-convex --for 1h", "scaling --out scaling --time 1m"},
	"certify": {"opf30 --scenarios 1000", "integrator-convex --scenarios 1000"},
	"compile": {"integrator-convex --out compiled"},
	"dataset": {"integrator-convex --scenarios 1000 --out d1", "opf30 --scenarios 5000 --chunk 5000 --out d2", "opf30 --policy silent --out d3"},
	"demo":    {"--out demo"},
	"eval":    {"opf30 --method mo-opf --episodes 1000 --trace opf.jsonl", "pair integrator-convex --methods direct,oracle --episodes 1000", "join integrator-convex silent", "compare silent silent"},
	"export":  {"integrator-convex --c c --records 65536"},
	"opf":     {"-", "silent"},
	"pf":      {"-", "silent"},
	"refine":  {"integrator-convex", "integrator-convex --state state.json --repeat 1000000", "integrator-convex --state state.json --candidates 262144 --flow-steps 1000"},
	"report":  {"--results RESULTS --out report"},
	"mcap":    {"silent recorded.mcap"},
	"plant":   {"integrator-convex --connect unix:serving --episodes 10000000"},
	"serve":   {"integrator-convex --stdin", "opf30 --stdin --method direct", "integrator-convex --listen 127.0.0.1:0 --unix door --state-file sessions.json", "opf30 --ui --listen 127.0.0.1:0"},
	"steer":   {"integrator-convex", "opf30"},
	"train":   {"opf30 --data data --epochs 100000 --out trained", "opf30 --data data --init silent --out trained"},
	"verify":  {"silent"},
	"view":    {"silent"},
	"cases":   nil, "methods": nil, "scene": nil, "doctor": nil, "new": nil, "help": nil, "completion": nil,
}

func TestASignalEndsEveryCommandWithinTwoSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts every command")
	}
	file, dir := program(t)
	results := must.Get(filepath.Abs("../../bench/results"))(t)
	help := must.Get(exec.Command(file, "--help").Output())(t)
	_, list, _ := strings.Cut(string(help), "Begin:\n")
	list, _, _ = strings.Cut(list, "\n\nFlags:")
	named := regexp.MustCompile(`(?m)^  (\w+) `).FindAllStringSubmatch(list, -1)
	for _, m := range named {
		if _, ok := stopped[m[1]]; !ok {
			t.Errorf("gpc help has the command %s, which this test does not stop", m[1])
		}
	}
	if len(named) != len(stopped) {
		t.Errorf("gpc help has %d commands, this test %d", len(named), len(stopped))
	}
	// stop runs a command, with a terminal at which nobody types, and signals it once it has
	// taken the signals over; what ends before that is started anew.
	stop := func(t *testing.T, line string, signals ...os.Signal) (cmd *exec.Cmd, log string, took time.Duration) {
		t.Helper()
		for wait := 100 * time.Millisecond; wait < 10*time.Second; wait *= 2 {
			var out bytes.Buffer
			cmd = exec.Command(file, strings.Fields(strings.ReplaceAll(line, "RESULTS", results))...)
			cmd.Dir, cmd.Stderr = dir, &out
			in, terminal, err := os.Pipe()
			must.OK(t, err)
			defer terminal.Close()
			cmd.Stdin = in
			must.OK(t, cmd.Start())
			in.Close()
			time.Sleep(wait)
			start := time.Now()
			for i, s := range signals {
				if i > 0 {
					time.Sleep(wait)
					start = time.Now()
				}
				must.OK(t, cmd.Process.Signal(s))
			}
			_ = cmd.Wait() // its exit code says it
			if took, log = time.Since(start), out.String(); len(signals) > 1 || cmd.ProcessState.ExitCode() != -1 {
				return cmd, log, took
			}
		}
		t.Fatalf("gpc %s does not take signals", line)
		return nil, "", 0
	}
	for command, lines := range stopped {
		for i, line := range lines {
			line = command + " " + line
			t.Run(line, func(t *testing.T) {
				if strings.Contains(line, "silent") {
					t.Parallel() // it only waits
				}
				cmd, log, took := stop(t, line, []os.Signal{os.Interrupt, syscall.SIGTERM}[i%2])
				if took > 2*time.Second {
					t.Errorf("it took %v to end", took)
				}
				if code := cmd.ProcessState.ExitCode(); command == "serve" && code != 0 {
					t.Errorf("a server is to end with exit code 0, not %d: %s", code, log)
				} else if command != "serve" && (code != 1 || !strings.Contains(log, "interrupted")) {
					t.Errorf("exit code %d: %s", code, log)
				}
			})
		}
	}
	t.Run("twice", func(t *testing.T) {
		if cmd, _, took := stop(t, "verify silent", os.Interrupt, os.Interrupt); took > time.Second || cmd.ProcessState.ExitCode() != -1 {
			t.Errorf("after the second signal it ended in %v with exit code %d, want at once, by the signal", took, cmd.ProcessState.ExitCode())
		}
	})
	for _, path := range must.Get(filepath.Glob(filepath.Join(dir, "*", "*.json")))(t) {
		if !json.Valid(must.Get(os.ReadFile(path))(t)) {
			t.Errorf("%s was left cut off", path)
		}
	}
}
