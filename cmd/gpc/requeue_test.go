//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// job is a command line as a launcher starts it, again and again.
type job struct {
	program, dir, out string // out begins the names of what it writes
	args              []string
	variables         []string
}

// start begins it.
func (j *job) start(t *testing.T) *process {
	t.Helper()
	cmd := exec.Command(j.program, j.args...)
	cmd.Dir, cmd.Env = j.dir, append(append(os.Environ(), patience+"=1h"), j.variables...) // its exit code is its own
	return begin(t, cmd)
}

// end runs it undisturbed.
func (j *job) end(t *testing.T) {
	t.Helper()
	if p := j.start(t); p.code() != 0 {
		t.Fatalf("gpc %v: exit code %d: %s", j.args, p.code(), &p.log)
	}
}

// interrupt starts it and signals it at its beginning, which ends it with exit code 75. Where it was
// done before it heard anything, what it has written is removed and it begins anew.
func (j *job) interrupt(t *testing.T, s syscall.Signal) {
	t.Helper()
	for {
		p := j.start(t)
		code := 0
		if s == syscall.SIGUSR1 { // which says nothing to a program that has not read its flags
			code = p.insist(s)
		} else {
			_ = p.Process.Signal(s) // it may have ended
			code = p.code()
		}
		switch code {
		case 75:
			return
		case 0:
			for _, path := range require.Get(filepath.Glob(filepath.Join(j.dir, j.out+"*")))(t) {
				require.OK(t, os.RemoveAll(path))
			}
		default:
			t.Fatalf("gpc %v after %v: exit code %d: %s", j.args, s, code, &p.log)
		}
	}
}

// disturbances are what launchers do to a process: signals one after the other at once.
var disturbances = [][]syscall.Signal{
	{syscall.SIGUSR1}, {syscall.SIGTERM}, {syscall.SIGKILL}, {syscall.SIGINT}, {syscall.SIGTERM, syscall.SIGTERM}, {syscall.SIGUSR1, syscall.SIGTERM},
}

// disturbed is how often a job is disturbed before it is left in peace.
const disturbed = 6

// disturb interrupts it at its beginning, then starts it until it is done and signals it a random time
// after each start, disturbed times.
func (j *job) disturb(t *testing.T, rng *rand.Rand, most time.Duration) {
	t.Helper()
	j.interrupt(t, []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGINT}[rng.IntN(3)])
	for try := range disturbed {
		p := j.start(t)
		time.Sleep(time.Duration(rng.Int64N(int64(most)))) // somewhere in its work, or behind it
		how := disturbances[try%len(disturbances)]
		for _, s := range how {
			_ = p.Process.Signal(s) // it may have ended
		}
		switch code := p.code(); code {
		case 0:
			return
		case 75, -1: // -1: killed
		default:
			t.Fatalf("gpc %v after %v: exit code %d: %s", j.args, how, code, &p.log)
		}
	}
	j.end(t)
}

// parts are the samples of a dataset, file by file.
func parts(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, path := range require.Get(filepath.Glob(filepath.Join(dir, "part-*.parquet")))(t) {
		out[filepath.Base(path)] = string(require.Get(os.ReadFile(path))(t))
	}
	return out
}

// Dataset, training and evaluation, each of several tasks that are killed, signalled and
// started again, end as one machine ends that nobody disturbs.
func TestWhatIsRequeuedEndsAsIfUndisturbed(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a process fifty times")
	}
	program, rng := built(t), rand.New(rand.NewPCG(991, 0))
	one, many := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, many} {
		require.OK(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
		require.OK(t, os.Mkdir(filepath.Join(dir, "eval"), 0o755))
	}
	words := func(line string, more ...string) []string { return append(strings.Fields(line), more...) }
	const (
		tasks   = 3
		dataset = "dataset opf30 --seed 991 --scenarios 600 --weights 1 --chunk 20 --threads 1"
		train   = "train opf30 --data data/merged --seed 991 --epochs 60 --rollout-epochs 6 --hidden 32 --latent 4 --batch 64 --threads 1 --out map --requeue"
		eval    = "eval opf30 --method mo-opf --regime paper --episodes 12 --seed 991"
	)
	slurm := func(i int) []string {
		return []string{fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", 2*i+1), "SLURM_ARRAY_TASK_MIN=1", fmt.Sprintf("SLURM_ARRAY_TASK_MAX=%d", 2*tasks-1), "SLURM_ARRAY_TASK_STEP=2", fmt.Sprintf("SLURM_ARRAY_TASK_COUNT=%d", tasks)}
	}
	merge := &job{program: program, dir: many, out: "data/merged", args: words("dataset merge --requeue --out data/merged")}
	for i := range tasks {
		to := fmt.Sprintf("data/shard-%d", i)
		merge.args = append(merge.args, to)
		j := &job{program, many, to, words(dataset, "--shard", "env", "--requeue", "--out", to), slurm(i)}
		j.disturb(t, rng, 700*time.Millisecond)
	}
	merge.disturb(t, rng, 100*time.Millisecond)
	(&job{program: program, dir: one, args: words(dataset, "--out", "data/merged")}).end(t)
	merged := parts(t, filepath.Join(many, "data/merged"))
	if len(merged) != 30 || !maps.Equal(merged, parts(t, filepath.Join(one, "data/merged"))) {
		t.Errorf("the %d merged parts are not those of one machine", len(merged))
	}
	merge.end(t) // once more
	if !maps.Equal(merged, parts(t, filepath.Join(many, "data/merged"))) {
		t.Error("a second merge changes the dataset")
	}

	(&job{program: program, dir: many, out: "map", args: words(train)}).disturb(t, rng, 1500*time.Millisecond)
	(&job{program: program, dir: one, args: words(train)}).end(t)
	if a, b := require.Get(os.ReadFile(filepath.Join(many, "map")))(t), require.Get(os.ReadFile(filepath.Join(one, "map")))(t); !bytes.Equal(a, b) {
		t.Error("the map of the disturbed training is not that of the other")
	}

	join := words("eval join opf30 --json --requeue")
	for i := range tasks {
		to := fmt.Sprintf("eval/shard-%d.jsonl", i)
		j := &job{program, many, to, words(eval, "--shard", "env", "--requeue", "--trace", to), slurm(i)}
		j.disturb(t, rng, 700*time.Millisecond)
		join = slices.Insert(join, 3, to)
	}
	(&job{program: program, dir: one, args: words(eval, "--trace", "eval/whole.jsonl")}).end(t)
	timeless := func(dir string, args ...string) string {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		var r map[string]any
		require.OK(t, json.Unmarshal(require.Get(cmd.Output())(t), &r))
		for _, key := range []string{"latency_us", "shares_us", "load"} {
			delete(r, key)
		}
		return string(require.Get(json.Marshal(r))(t))
	}
	if a, b := timeless(many, join...), timeless(one, words("eval join opf30 --json eval/whole.jsonl")...); a != b {
		t.Errorf("joined %s\none machine's %s", a, b)
	}
}

// With --requeue a signal ends a command with exit code 75 and others behind it do nothing. Without,
// an interrupt ends with exit code 1 and SIGUSR1 does nothing, as in every Go program, also where a
// launcher has set its variables.
func TestSignalsWithAndWithoutRequeue(t *testing.T) {
	program, dir := built(t), t.TempDir()
	for i, c := range []struct {
		flag   string
		before syscall.Signal // does nothing, 0: none
		ends   []os.Signal
		code   int
	}{
		{"--adaptive", 0, []os.Signal{syscall.SIGTERM}, 1}, {"--adaptive", syscall.SIGUSR1, []os.Signal{syscall.SIGINT}, 1},
		{"--requeue=false", syscall.SIGUSR1, []os.Signal{syscall.SIGTERM}, 1}, {"--requeue", 0, []os.Signal{syscall.SIGUSR1}, 75},
		{"--requeue", 0, []os.Signal{syscall.SIGTERM, syscall.SIGINT}, 75},
	} {
		out := fmt.Sprintf("d%d", i)
		j := &job{program, dir, out, []string{"dataset", "opf30", "--scenarios", "100000", "--weights", "1", "--chunk", "2", "--out", out, c.flag}, []string{"SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT=7"}}
		p := j.start(t)
		solved := func() int { return len(require.Get(filepath.Glob(filepath.Join(dir, out, "part-*.parquet")))(t)) }
		ended := func() bool {
			select {
			case <-p.ended:
				return true
			default:
				return false
			}
		}
		require.Until(t, "it solves", func() bool { return solved() > 0 || ended() })
		if c.before != 0 {
			_ = p.Process.Signal(c.before) // if that has ended it the next says so
			from := solved()
			require.Until(t, "it goes on", func() bool { return solved() > from+1 || ended() })
		}
		if ended() {
			t.Errorf("%s, %v: it has ended with exit code %d: %s", c.flag, c.before, p.code(), &p.log)
			continue
		}
		got := 0
		if c.code == 75 {
			got = p.insist(c.ends...)
		} else {
			require.OK(t, p.Process.Signal(c.ends[0]))
			got = p.code()
		}
		if got != c.code {
			t.Errorf("%s, %v: exit code %d, want %d: %s", c.flag, c.ends, got, c.code, &p.log)
		}
	}
}
