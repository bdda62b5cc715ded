//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// served is a gpc serve of its own, and a client of it.
func served(t *testing.T, file string, args ...string) (*exec.Cmd, *serve.Client, string) {
	t.Helper()
	cmd := exec.Command(file, append([]string{"serve", "--deadline", "0"}, append(args, "--listen", "127.0.0.1:0", "--log", "json")...)...)
	out := require.Get(cmd.StderrPipe())(t)
	cmd.Env = append(os.Environ(), patience+"=1h")
	require.OK(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var said struct{ Msg, Address string }
		fmt.Fprintln(&all, lines.Text())
		if json.Unmarshal(lines.Bytes(), &said) == nil && said.Msg == "listening" {
			go func() {
				for lines.Scan() {
				}
			}()
			url := "http://" + said.Address
			client := require.Get(serve.Dial(url, serve.ClientOptions{}))(t)
			t.Cleanup(client.Close)
			return cmd, client, url
		}
	}
	t.Fatalf("it does not listen: %s", all.String())
	return nil, nil, ""
}

// A plant behind the socket has the actions, the states and the costs of an evaluation, to the bit.
func TestThePlantBehindASocketIsThatOfEval(t *testing.T) {
	file := built(t)
	for _, of := range []struct {
		name, method string
		episodes     int
		long         bool
	}{{"integrator-convex", "navigator", 3, false}, {"opf30", "direct", 1, false}, {"opf30", "navigator", 1, true}, {"integrator-nonconvex", "refine-64", 2, true}, {"multiagent-static", "planner", 1, true}} {
		if of.long && testing.Short() {
			continue
		}
		dir := t.TempDir()
		_, client, url := served(t, file, of.name, "--method", of.method)
		run := func(trace string, args ...string) (result map[string]any) {
			cmd := exec.Command(file, append(args, "--episodes", fmt.Sprint(of.episodes), "--seed", "991", "--noise", "0.01", "--trace", trace, "--json")...)
			var log bytes.Buffer
			cmd.Stderr = &log
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v: %s", args, err, log.String())
			}
			require.OK(t, json.Unmarshal(out, &result))
			return result
		}
		one, two := filepath.Join(dir, "eval.jsonl"), filepath.Join(dir, "plant.jsonl")
		want := run(one, "eval", of.name, "--method", of.method)
		got := run(two, "plant", of.name, "--connect", url, "--parallel", fmt.Sprint(of.episodes))
		for _, v := range []map[string]any{want, got} {
			for _, key := range []string{"latency_us", "shares_us", "load", "device"} { // of time and place
				delete(v, key)
			}
		}
		for key := range want {
			if fmt.Sprint(got[key]) != fmt.Sprint(want[key]) {
				t.Errorf("%s %s: behind the socket %s is %v, in eval %v", of.name, of.method, key, got[key], want[key])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s %s: behind the socket there are %d keys, in eval %d", of.name, of.method, len(got), len(want))
		}
		episodes := func(trace string) (all []*closedloop.EpisodeRecord) {
			require.Get(closedloop.ReadEpisodes(t.Context(), trace, func(e *closedloop.EpisodeRecord) error {
				all = append(all, e)
				return nil
			}))(t)
			return all
		}
		a, b := episodes(one), episodes(two)
		if len(a) != of.episodes || len(b) != of.episodes {
			t.Fatalf("%s %s: %d and %d episodes", of.name, of.method, len(a), len(b))
		}
		for i := range a {
			if len(a[i].Lines) != len(b[i].Lines) || a[i].End.Cost != b[i].End.Cost || a[i].End.Failure != "" {
				t.Fatalf("%s %s, episode %d: %d decisions of cost %v, in eval %d of %v", of.name, of.method, i, len(b[i].Lines), b[i].End.Cost, len(a[i].Lines), a[i].End.Cost)
			}
			for k := range a[i].Lines {
				x, y := &a[i].Lines[k], &b[i].Lines[k]
				if !slices.Equal(x.U, y.U) || !slices.Equal(x.S, y.S) || !slices.Equal(x.J, y.J) || !slices.Equal(x.Priority, y.Priority) || x.Fallback != y.Fallback {
					t.Fatalf("%s %s, episode %d, decision %d: behind the socket %+v, in eval %+v", of.name, of.method, i, k, y, x)
				}
			}
		}
		if h := require.Get(client.Health(t.Context()))(t); h.Sessions != 0 || h.Late != 0 || h.Refused != 0 {
			t.Errorf("%s %s: it leaves %+v", of.name, of.method, h)
		}
	}
	_, _, url := served(t, file, "integrator-convex", "--method", "direct")
	for says, args := range map[string][]string{
		"that server runs case integrator-convex, want opf30": {"opf30", "--connect", url}, "--connect is required": {"opf30"}, "want http://": {"opf30", "--connect", "nowhere"},
	} {
		out, err := exec.Command(file, append([]string{"plant"}, args...)...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), says) {
			t.Errorf("plant %q: %v, %s; want exit code 2 and %q", args, err, out, says)
		}
	}
}

// A server that is killed leaves its sessions to the next; one that is told to end ends with 0.
func TestAKilledServersSessionsResume(t *testing.T) {
	file := built(t)
	state := filepath.Join(t.TempDir(), "sessions.json")
	args := []string{"integrator-convex", "--method", "navigator", "--state-file", state}
	cmd, client, _ := served(t, file, args...)
	ctx := t.Context()
	at := time.Now()
	ask := func(c *serve.Client, session string, x float64, observed time.Time) *serve.Decision {
		t.Helper()
		return require.Get(c.Decide(ctx, session, serve.Request{S: []float64{x, 0.2, 0.3, 0}, C: []float64{0, 0, 0.15, 0.1, 0}, Observed: observed}))(t)
	}
	nan := math.NaN()
	require.OK(t, client.SetPreference(ctx, "a", domain.Preference{W: []float64{1, 0}}))
	last := ask(client, "a", -3.4, at)
	ask(client, "b", -3.3, at)
	if d := ask(client, "b", -3.3, at); d.Stale != "order" {
		t.Fatalf("%+v", d)
	}
	if out, err := exec.Command(file, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...).CombinedOutput(); err == nil || !strings.Contains(string(out), "being written") {
		t.Errorf("another server on the same file: %v, %s", err, out)
	}
	require.Until(t, "the sessions are saved", func() bool {
		text, _ := os.ReadFile(state)
		return bytes.Contains(text, []byte(`"stale": "order"`))
	})
	require.OK(t, cmd.Process.Signal(syscall.SIGKILL))
	cmd.Wait()

	cmd, client, _ = served(t, file, args...)
	if h := require.Get(client.Health(ctx))(t); h.Sessions != 2 {
		t.Errorf("health %+v", h)
	}
	// What is lost of the next observation is predicted from what was told and done last.
	gap := require.Get(client.Decide(ctx, "a", serve.Request{S: []float64{nan, nan, nan, nan}, C: []float64{nan, nan, nan, nan, nan}}))(t)
	if fresh := require.Get(client.Decide(ctx, "new", serve.Request{S: []float64{nan, nan, nan, nan}, C: []float64{nan, nan, nan, nan, nan}}))(t); slices.Equal(gap.U, fresh.U) {
		t.Errorf("blind it decides %v as one that was told nothing; last was %v", gap.U, last.U)
	}
	if d := ask(client, "a", -3.4, at.Add(time.Second)); d.Sigma[0] != 1 {
		t.Errorf("the preference is lost: %+v", d)
	}
	if d := ask(client, "b", -3.3, at.Add(time.Second)); d.Stale != "order" {
		t.Errorf("the latch is lost: %+v", d)
	}
	if d := ask(client, "a", -3.4, at); d.Stale != "order" {
		t.Errorf("the order is lost: %+v", d)
	}
	// What was asked until the end is in the file.
	ask(client, "c", -3.1, at)
	require.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("told to end it ends with %v", err)
	}
	if text := require.Get(os.ReadFile(state))(t); !bytes.Contains(text, []byte(`"session": "c"`)) || !bytes.Contains(text, []byte("-3.1")) {
		t.Errorf("at the end it has saved %s", text)
	}
	if _, err := os.Stat(state + ".lock"); err == nil {
		t.Error("the lock is left behind")
	}
}
