package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// launcher sets the variables of launchers, and no others: NAME=VALUE, without what the names
// have in common.
func launcher(t *testing.T, variables string) {
	t.Helper()
	for _, name := range []string{slurmID, slurmMin, slurmMax, slurmStep, slurmCount, kubernetesIndex} {
		t.Setenv(name, "")
	}
	for _, v := range strings.Fields(variables) {
		name, value, _ := strings.Cut(v, "=")
		if name == "INDEX" {
			name = kubernetesIndex
		} else {
			name = "SLURM_ARRAY_TASK_" + name
		}
		t.Setenv(name, value)
	}
}

func TestShardsAreThoseOfTheLauncher(t *testing.T) {
	const array = " MIN=4 MAX=10 STEP=3 COUNT=3"
	for _, c := range []struct {
		flag, variables string
		want            dataset.Shard
		says            string // of an error
	}{
		{"", "ID=1" + array, dataset.Shard{}, ""}, // nothing is asked for
		{"1/4", "ID=7" + array, dataset.Shard{Index: 1, Count: 4}, ""},
		{"env", "ID=4" + array, dataset.Shard{Index: 0, Count: 3}, ""},
		{"env", "ID=10" + array, dataset.Shard{Index: 2, Count: 3}, ""},
		{"env", "ID=8 MIN=0 MAX=8 STEP=4 COUNT=3", dataset.Shard{Index: 2, Count: 3}, ""},
		{"env", "ID=3 MIN=3 MAX=3 STEP=1 COUNT=1", dataset.Shard{Index: 0, Count: 1}, ""},
		{"env/5", "ID=4 MIN=4 MAX=4 STEP=1 COUNT=1", dataset.Shard{Index: 4, Count: 5}, ""}, // a task run again by itself
		{"env/5", "INDEX=4", dataset.Shard{Index: 4, Count: 5}, ""},
		{"env/1", "INDEX=0", dataset.Shard{Index: 0, Count: 1}, ""},

		{"env", "", dataset.Shard{}, "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set"},
		{"env/4", "COUNT=4 MIN=0 MAX=3 STEP=1", dataset.Shard{}, "neither SLURM_ARRAY_TASK_ID nor"},
		{"env", "INDEX=2", dataset.Shard{}, "JOB_COMPLETION_INDEX is 2, and no variable says how many processes there are"},
		{"env/4", "INDEX=2 ID=2", dataset.Shard{}, "SLURM_ARRAY_TASK_ID is 2 and JOB_COMPLETION_INDEX is 2: two job systems number this process"},
		{"env", "ID=4 MIN=4 MAX=10 STEP=3", dataset.Shard{}, "SLURM_ARRAY_TASK_COUNT is not set"},
		{"env", "ID=4 MIN=4 STEP=3 COUNT=3", dataset.Shard{}, "SLURM_ARRAY_TASK_MAX is not set"},
		{"env", "ID=x" + array, dataset.Shard{}, `SLURM_ARRAY_TASK_ID is "x"`},
		{"env/4", "INDEX=-1", dataset.Shard{}, `JOB_COMPLETION_INDEX is "-1"`},
		{"env/4", "INDEX=4", dataset.Shard{}, "JOB_COMPLETION_INDEX is 4, want 0 to 3"},
		{"env/4", "ID=7", dataset.Shard{}, "SLURM_ARRAY_TASK_ID is 7, want 0 to 3"},
		{"env", "ID=5" + array, dataset.Shard{}, "SLURM_ARRAY_TASK_ID is 5, SLURM_ARRAY_TASK_MIN 4, SLURM_ARRAY_TASK_MAX 10, SLURM_ARRAY_TASK_STEP 3, SLURM_ARRAY_TASK_COUNT 3"},
		{"env", "ID=1" + array, dataset.Shard{}, "not a task"},
		{"env", "ID=13" + array, dataset.Shard{}, "not a task"},
		{"env", "ID=4 MIN=4 MAX=10 STEP=3 COUNT=4", dataset.Shard{}, "not a task"},
		{"env", "ID=2 MIN=1 MAX=9 STEP=1 COUNT=3", dataset.Shard{}, "give --shard env/n"}, // --array=1,2,9
		{"env", "ID=4 MIN=4 MAX=10 STEP=0 COUNT=3", dataset.Shard{}, "not a task"},
		{"env", "ID=4 MIN=10 MAX=4 STEP=3 COUNT=3", dataset.Shard{}, "not a task"},
		{"env/0", "INDEX=0", dataset.Shard{}, "n ≥ 1"},
		{"env/", "INDEX=0", dataset.Shard{}, "n ≥ 1"},
		{"environment", "INDEX=0", dataset.Shard{}, "want i/n"},
		{"4/4", "", dataset.Shard{}, "want i/n"},
		{"-1/4", "", dataset.Shard{}, "want i/n"},
		{"1", "", dataset.Shard{}, "want i/n"},
	} {
		t.Run(c.flag+" "+c.variables, func(t *testing.T) {
			launcher(t, c.variables)
			var log strings.Builder
			got, err := (&App{Name: "gpc", Stderr: &log}).Shard(c.flag)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want one that says %q", err, c.says)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("shard %v, %v, want %v", got, err, c.want)
			}
			if told := strings.Contains(log.String(), "shard "+c.want.String()); told != strings.HasPrefix(c.flag, "env") {
				t.Errorf("on stderr is %q", &log)
			}
		})
	}
}

// Variables that contradict each other end every command that shards with exit code 2; with
// none that asks for them they change nothing.
func TestALaunchersVariablesAreNotTakenUnasked(t *testing.T) {
	app, file := cart(t)
	launcher(t, "ID=1 MIN=0 MAX=3 STEP=1 COUNT=4")
	dir := t.TempDir()
	for _, line := range [][]string{
		{"dataset", "cart", "--scenarios", "8", "--weights", "1", "--chunk", "2", "--out", filepath.Join(dir, "data")},
		{"eval", "cart", "--method", "direct", "--episodes", "8", "--model", file, "--trace", filepath.Join(dir, "trace")},
	} {
		if code, _, log := run(app, line...); code != 0 || strings.Contains(log, "shard") {
			t.Errorf("%v: exit code %d: %s", line, code, log)
		}
		line[len(line)-1] += "-1"
		if code, _, log := run(app, append(line, "--shard", "env")...); code != 0 || !strings.Contains(log, "shard 1/4") {
			t.Errorf("%v: exit code %d: %s", line, code, log)
		}
	}
	if d := require.Get(dataset.Open(filepath.Join(dir, "data")))(t); d.Header.Shard != (dataset.Shard{Index: 0, Count: 1}) {
		t.Errorf("the dataset is shard %v", d.Header.Shard)
	}
	if d := require.Get(dataset.Open(filepath.Join(dir, "data-1")))(t); d.Header.Shard != (dataset.Shard{Index: 1, Count: 4}) {
		t.Errorf("the dataset of the array's task is shard %v", d.Header.Shard)
	}
	t.Setenv(slurmCount, "5")
	for _, line := range [][]string{
		{"dataset", "cart", "--scenarios", "8", "--shard", "env", "--requeue", "--out", filepath.Join(dir, "none")},
		{"eval", "cart", "--method", "direct", "--shard", "env", "--model", file},
	} {
		if code, _, log := run(app, line...); code != 2 || !strings.Contains(log, "SLURM_ARRAY_TASK_COUNT 5") {
			t.Errorf("%v: exit code %d: %s", line, code, log)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused command left %v", err)
	}
}

// Exit code 75 is of what the same command goes on with, and only where it is asked for.
func TestRequeueIsForWhatGoesOn(t *testing.T) {
	app, file := cart(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	ok := func(args ...string) {
		t.Helper()
		if code, _, log := run(app, args...); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, log)
		}
	}
	ok("dataset", "cart", "--scenarios", "8", "--weights", "1", "--chunk", "2", "--out", at("whole"))
	ok("eval", "cart", "--method", "direct", "--episodes", "2", "--model", file, "--trace", at("whole.jsonl"))
	small := []string{"--epochs", "1", "--rollout-epochs", "-1", "--lr", "0.001", "--hidden", "8", "--latent", "4", "--batch", "16"}
	for _, c := range []struct {
		args []string
		lock string // what another process writes; "": nothing
	}{
		{[]string{"dataset", "cart", "--scenarios", "8", "--out", at("d")}, at("d")},
		{[]string{"dataset", "merge", at("whole"), "--out", at("merged")}, at("merged")},
		{append([]string{"train", "cart", "--data", at("whole"), "--out", at("map")}, small...), at("map.checkpoint")},
		{[]string{"eval", "cart", "--method", "direct", "--model", file, "--trace", at("t.jsonl")}, at("t.jsonl")},
		{[]string{"eval", "join", "cart", at("whole.jsonl")}, ""},
		{[]string{"compile", "cart", "--scenarios", "8", "--out", at("compiled")}, at("compiled.compile")},
	} {
		name := strings.Join(c.args[:2], " ")
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		var log strings.Builder
		end := func(ctx context.Context, flags ...string) int {
			a := *app
			a.Stdout, a.Stderr = io.Discard, &log
			return a.Run(ctx, append(c.args, flags...))
		}
		if got := [2]int{end(stopped), end(stopped, "--requeue")}; got != [2]int{1, 75} {
			t.Errorf("%s, interrupted: exit codes %v, want 1 and with --requeue 75: %s", name, got, &log)
		}
		if c.lock == "" {
			continue
		}
		if filepath.Ext(c.lock) == "" {
			require.OK(t, os.MkdirAll(c.lock, 0o755))
		}
		lock := require.Get(durable.Acquire(c.lock))(t)
		if got := [2]int{end(t.Context()), end(t.Context(), "--requeue")}; got != [2]int{2, 75} {
			t.Errorf("%s, written by another: exit codes %v, want 2 and with --requeue 75: %s", name, got, &log)
		}
		require.OK(t, lock.Release())
	}
	// What a person has to see to is not tried again.
	for _, c := range [][]string{
		{"dataset", "cart", "--scenarios", "8", "--out", at("full"), "--requeue"},
		{"dataset", "merge", at("whole"), "--out", at("full-merged"), "--requeue"},
	} {
		durable.Fill(3)
		code, _, log := run(app, c...)
		durable.Fill(-1)
		if code != 1 || !strings.Contains(log, "no space left") {
			t.Errorf("%v on a full disk: exit code %d: %s", c, code, log)
		}
	}
	for _, c := range [][]string{
		{"dataset", "cart", "--scenarios", "9", "--out", at("whole"), "--requeue"}, // another dataset
		{"dataset", "merge", at("nothing"), "--out", at("m"), "--requeue"},
		{"eval", "cart", "--method", "direct", "--model", file, "--requeue"}, // no trace to go on with
		{"steer", "cart", "--requeue"},
	} {
		if code, _, log := run(app, c...); code != 2 {
			t.Errorf("%v: exit code %d, want 2: %s", c, code, log)
		}
	}
}
