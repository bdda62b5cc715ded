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

	"github.com/gpc-engine/gpc/internal/must"
)

// built is the program.
func built(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gpc")
	if out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return file
}

// job is a command line as a launcher starts it, again and again.
type job struct {
	program, dir string
	args         []string
	variables    []string
}

// start begins it; ended gives its exit code, −1 where a signal has ended it.
func (j *job) start(t *testing.T) (cmd *exec.Cmd, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	cmd = exec.Command(j.program, j.args...)
	cmd.Dir, cmd.Stderr, cmd.Env = j.dir, log, append(os.Environ(), j.variables...)
	must.OK(t, cmd.Start())
	return cmd, log
}

// end runs it undisturbed.
func (j *job) end(t *testing.T) {
	t.Helper()
	cmd, log := j.start(t)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("gpc %v: %v: %s", j.args, err, log)
	}
}

// disturbances are what launchers do to a process: signals one after the other at once.
var disturbances = [][]syscall.Signal{
	{syscall.SIGUSR1}, {syscall.SIGTERM}, {syscall.SIGKILL}, {syscall.SIGINT}, {syscall.SIGTERM, syscall.SIGTERM}, {syscall.SIGUSR1, syscall.SIGTERM},
}

// disturbed is how often a job is disturbed before it is left in peace.
const disturbed = 6

// disturb starts it until it is done, and signals it a random time after each start, disturbed
// times. It gives how often it ended by which exit code.
func (j *job) disturb(t *testing.T, rng *rand.Rand, most time.Duration) map[int]int {
	t.Helper()
	codes := map[int]int{}
	for try := range disturbed {
		cmd, log := j.start(t)
		time.Sleep(time.Duration(rng.Int64N(int64(most))))
		how := disturbances[try%len(disturbances)]
		for _, s := range how {
			_ = cmd.Process.Signal(s) // it may have ended
		}
		_ = cmd.Wait()
		code := cmd.ProcessState.ExitCode()
		codes[code]++
		switch code {
		case 0:
			return codes
		case 75:
		case -1: // killed, or before it has taken signals over
		default:
			t.Fatalf("gpc %v after %v: exit code %d: %s", j.args, how, code, log)
		}
	}
	j.end(t)
	return codes
}

// parts are the samples of a dataset, file by file.
func parts(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, path := range must.Get(filepath.Glob(filepath.Join(dir, "part-*.parquet")))(t) {
		out[filepath.Base(path)] = string(must.Get(os.ReadFile(path))(t))
	}
	return out
}

// Dataset, training and evaluation, each of several tasks that are killed, signalled and
// started again, end as one machine ends that nobody disturbs.
func TestWhatIsRequeuedEndsAsIfUndisturbed(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes for half a minute")
	}
	program, rng := built(t), rand.New(rand.NewPCG(991, 0))
	one, many := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, many} {
		must.OK(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
		must.OK(t, os.Mkdir(filepath.Join(dir, "eval"), 0o755))
	}
	words := func(line string, more ...string) []string { return append(strings.Fields(line), more...) }
	const (
		tasks   = 3
		dataset = "dataset opf30 --seed 991 --scenarios 300 --weights 1 --chunk 10 --threads 1"
		train   = "train opf30 --data data/merged --seed 991 --epochs 60 --rollout-epochs 6 --hidden 32 --latent 4 --batch 64 --threads 1 --out map --requeue"
		eval    = "eval opf30 --method mo-opf --regime paper --episodes 12 --seed 991"
	)
	seen := map[int]int{}
	count := func(codes map[int]int) {
		for code, n := range codes {
			seen[code] += n
		}
	}
	slurm := func(i int) []string {
		return []string{fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", 2*i+1), "SLURM_ARRAY_TASK_MIN=1", fmt.Sprintf("SLURM_ARRAY_TASK_MAX=%d", 2*tasks-1), "SLURM_ARRAY_TASK_STEP=2", fmt.Sprintf("SLURM_ARRAY_TASK_COUNT=%d", tasks)}
	}
	merge := &job{program: program, dir: many, args: words("dataset merge --requeue --out data/merged")}
	for i := range tasks {
		to := fmt.Sprintf("data/shard-%d", i)
		merge.args = append(merge.args, to)
		j := &job{program, many, words(dataset, "--shard", "env", "--requeue", "--out", to), slurm(i)}
		count(j.disturb(t, rng, 700*time.Millisecond))
	}
	count(merge.disturb(t, rng, 100*time.Millisecond))
	(&job{program: program, dir: one, args: words(dataset, "--out", "data/merged")}).end(t)
	merged := parts(t, filepath.Join(many, "data/merged"))
	if len(merged) != 30 || !maps.Equal(merged, parts(t, filepath.Join(one, "data/merged"))) {
		t.Errorf("the %d merged parts are not those of one machine", len(merged))
	}
	merge.end(t) // once more
	if !maps.Equal(merged, parts(t, filepath.Join(many, "data/merged"))) {
		t.Error("a second merge changes the dataset")
	}

	count((&job{program: program, dir: many, args: words(train)}).disturb(t, rng, 1500*time.Millisecond))
	(&job{program: program, dir: one, args: words(train)}).end(t)
	if a, b := must.Get(os.ReadFile(filepath.Join(many, "map")))(t), must.Get(os.ReadFile(filepath.Join(one, "map")))(t); !bytes.Equal(a, b) {
		t.Error("the map of the disturbed training is not that of the other")
	}

	join := words("eval join opf30 --json --requeue")
	for i := range tasks {
		to := fmt.Sprintf("eval/shard-%d.jsonl", i)
		j := &job{program, many, words(eval, "--shard", "env", "--requeue", "--trace", to), slurm(i)}
		count(j.disturb(t, rng, 700*time.Millisecond))
		join = slices.Insert(join, 3, to)
	}
	(&job{program: program, dir: one, args: words(eval, "--trace", "eval/whole.jsonl")}).end(t)
	timeless := func(dir string, args ...string) string {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		var r map[string]any
		must.OK(t, json.Unmarshal(must.Get(cmd.Output())(t), &r))
		for _, key := range []string{"latency_us", "shares_us", "load"} {
			delete(r, key)
		}
		return string(must.Get(json.Marshal(r))(t))
	}
	if a, b := timeless(many, join...), timeless(one, words("eval join opf30 --json eval/whole.jsonl")...); a != b {
		t.Errorf("joined %s\none machine's %s", a, b)
	}
	if seen[75] < 8 {
		t.Errorf("the tasks ended by exit codes %v: too few were interrupted", seen)
	}
	t.Logf("exit codes and how often: %v", seen)
}

// With --requeue the first signal ends a command with exit code 75 and others at once behind it
// do nothing. Without, an interrupt ends with exit code 1 and SIGUSR1 does nothing, as in every Go
// program, also where a launcher has set its variables.
func TestSignalsWithAndWithoutRequeue(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	program, dir := built(t), t.TempDir()
	for i, c := range []struct {
		flag    string
		signals []syscall.Signal // without --requeue the first to end it is the last
		code    int
	}{
		{"--adaptive", []syscall.Signal{syscall.SIGTERM}, 1}, {"--adaptive", []syscall.Signal{syscall.SIGUSR1, syscall.SIGINT}, 1},
		{"--requeue=false", []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM}, 1}, {"--requeue", []syscall.Signal{syscall.SIGUSR1}, 75},
		{"--requeue", []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM}, 75},
	} {
		out := fmt.Sprintf("d%d", i)
		j := &job{program, dir, []string{"dataset", "opf30", "--scenarios", "10000", "--chunk", "10000", "--out", out, c.flag}, []string{"SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT=7"}}
		cmd, log := j.start(t)
		for start := time.Now(); ; time.Sleep(20 * time.Millisecond) { // the header is there, it solves
			if _, err := os.Stat(filepath.Join(dir, out, "dataset.json")); err == nil {
				break
			}
			if time.Since(start) > 30*time.Second {
				t.Fatalf("%v does not begin: %s", j.args, log)
			}
		}
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // its exit code says it
			close(ended)
		}()
		for k, s := range c.signals {
			must.OK(t, cmd.Process.Signal(s))
			switch {
			case k == len(c.signals)-1:
			case c.code == 75:
				time.Sleep(20 * time.Millisecond)
			default:
				select {
				case <-ended:
					t.Fatalf("%s: %v has ended it: %s", c.flag, s, log)
				case <-time.After(2500 * time.Millisecond):
				}
			}
		}
		<-ended
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("%s, %v: exit code %d, want %d: %s", c.flag, c.signals, got, c.code, log)
		}
	}
}
