//go:build unix

package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// programWithInputs is the binary and a folder with what its commands read: a trace, a state, a small dataset.
func programWithInputs(t testing.TB) (file, dir string) {
	t.Helper()
	file, dir = built(t), t.TempDir()
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
	state := require.Get(json.Marshal(map[string][]float64{"s": {-3, 0.5, 0, 0}, "c": {0, 0, 0.2, 0, 0}}))(t)
	require.OK(t, os.WriteFile(filepath.Join(dir, "state.json"), state, 0o644))
	for _, name := range []string{"silent", "silent-too"} {
		require.OK(t, syscall.Mkfifo(filepath.Join(dir, name), 0o600)) // opening it waits for a writer
	}
	serving := require.Get(net.Listen("unix", filepath.Join(dir, "serving")))(t) // nobody answers there
	t.Cleanup(func() { serving.Close() })
	return file, dir
}

// stopped are command lines that would take longer than a test may, for every command and
// for what each waits in. What ends at once by itself has none.
var stopped = map[string][]string{
	"bench":   {"--time 1m"},
	"compile": {"integrator-convex --out compiled"},
	"dataset": {"integrator-convex --scenarios 1000 --out d1", "opf30 --scenarios 5000 --chunk 5000 --out d2", "opf30 --policy silent --out d3"},
	"eval":    {"opf30 --method mo-opf --episodes 1000 --trace opf.jsonl", "pair integrator-convex --methods direct,oracle --episodes 1000", "join integrator-convex silent", "compare silent silent-too"},
	"export":  {"integrator-convex --c c --map-only --records 65536"},
	"opf":     {"-", "silent", "batch silent", "dc silent", "secure silent"},
	"pf":      {"-", "silent", "convert silent --out c.m", "dc silent", "outages silent"},
	"front":   {"integrator-convex --state -", "integrator-convex --repeat 1000000", "integrator-convex --points 16384 --repeat 1000"},
	"refine":  {"integrator-convex", "integrator-convex --state state.json --repeat 1000000", "integrator-convex --state state.json --candidates 262144 --flow-steps 1000"},
	"mcap":    {"silent recorded.mcap"},
	"plant":   {"integrator-convex --connect unix:serving --episodes 10000000"},
	"serve":   {"integrator-convex --stdin", "opf30 --stdin --method direct", "integrator-convex --listen 127.0.0.1:0 --unix door --state-file sessions.json", "opf30 --ui --listen 127.0.0.1:0"},
	"steer":   {"integrator-convex", "opf30"},
	"train":   {"opf30 --data data --epochs 100000 --out trained", "opf30 --data data --init silent --out trained"},
	"verify":  {"silent"},
	"view":    {"silent"},
	"cases":   nil, "methods": nil, "system": nil, "check": nil, "scene": nil, "doctor": nil, "new": nil, "help": nil, "completion": nil,
}

// amid is how long a command is let go on before it is signalled, so that it is in the middle of what
// it does; it may be at its beginning all the same.
const amid = 100 * time.Millisecond

// A signal ends every command, whatever it does or waits for. How soon is BenchmarkASignalEnds's.
func TestASignalEndsEveryCommand(t *testing.T) {
	file, dir := programWithInputs(t)
	help := require.Get(exec.Command(file, "--help").Output())(t)
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
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	for command, lines := range stopped {
		for i, line := range lines {
			line = command + " " + line
			t.Run(line, func(t *testing.T) {
				if strings.Contains(line, "silent") {
					t.Parallel() // it only waits
				}
				var more []string
				if command == "serve" { // it drains, and says what came of it, on a slow machine too
					more = append(more, patience+"=1h")
				}
				var p *process
				code := 0
				for try := 0; try == 0 || try < 20 && command != "serve" && code == 0; try++ { // 0: it was done before it heard
					p = amidst(t, file, dir, line, more...)
					_ = p.Process.Signal(ends[(len(command)+i)%len(ends)]) // its exit code says what came of it
					code = p.code()
				}
				if command == "serve" && code != 0 {
					t.Errorf("a server is to end with exit code 0, not %d: %s", code, &p.log)
				} else if command != "serve" && (code != 1 || !strings.Contains(p.log.String(), "interrupted")) {
					t.Errorf("exit code %d: %s", code, &p.log)
				}
			})
		}
	}
	t.Run("one that does not heed it", func(t *testing.T) {
		p := amidst(t, file, dir, "stuck")
		require.OK(t, p.Process.Signal(os.Interrupt))
		if code := p.code(); code != 1 || !strings.Contains(p.log.String(), "interrupted") {
			t.Errorf("exit code %d: %s", code, &p.log)
		}
	})
	t.Run("twice", func(t *testing.T) {
		// A second signal has its usual effect. Once all may be so slow that it ends before.
		for range 20 {
			p := amidst(t, file, dir, "stuck")
			switch code := p.insist(os.Interrupt); {
			case code == -1:
				return
			case code != 1 || !strings.Contains(p.log.String(), "interrupted"):
				t.Fatalf("exit code %d: %s", code, &p.log)
			}
		}
		t.Error("no second signal ends it")
	})
	for _, path := range require.Get(filepath.Glob(filepath.Join(dir, "*", "*.json")))(t) {
		if !json.Valid(require.Get(os.ReadFile(path))(t)) {
			t.Errorf("%s was left cut off", path)
		}
	}
}

// amidst is a command line in the middle of its work, or behind it where this test was kept waiting.
func amidst(t testing.TB, file, dir, line string, variables ...string) *process {
	t.Helper()
	cmd := exec.Command(file, strings.Fields(line)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), variables...)
	p := begin(t, cmd)
	select {
	case <-p.ended:
	case <-time.After(amid):
	}
	return p
}

// BenchmarkASignalEnds is how long commands go on after a signal; they have two seconds.
func BenchmarkASignalEnds(b *testing.B) {
	file, dir := programWithInputs(b)
	for _, line := range []string{"dataset opf30 --scenarios 5000 --chunk 5000 --out d2", "eval opf30 --method mo-opf --episodes 1000", "verify silent", "serve integrator-convex --stdin", "stuck"} {
		b.Run(line, func(b *testing.B) {
			longest := time.Duration(0)
			for b.Loop() {
				p := amidst(b, file, dir, line)
				began := time.Now()
				require.OK(b, p.Process.Signal(os.Interrupt))
				p.code()
				longest = max(longest, time.Since(began))
			}
			b.ReportMetric(longest.Seconds(), "longest-s")
		})
	}
}
