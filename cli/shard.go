package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/dataset"
)

// ShardUsage is the help of --shard, behind what the command makes of i/n.
const ShardUsage = "; env: i and n of a Slurm array, env/n: i of a Slurm array or an indexed Kubernetes job"

// Shard reads --shard: i/n with 0 ≤ i < n, "" for the whole, env or env/n for what the
// launcher of this process says, which is then told.
func (a *App) Shard(s string) (dataset.Shard, error) {
	left, right, hasCount := strings.Cut(s, "/")
	switch {
	case s == "":
		return dataset.Shard{}, nil
	case left != "env":
		i, errI := strconv.Atoi(left)
		n, errN := strconv.Atoi(right)
		if !hasCount || errors.Join(errI, errN) != nil || n < 1 || i < 0 || i >= n {
			return dataset.Shard{}, BadInputf("--shard %q: want i/n with 0 ≤ i < n, env, or env/n", s)
		}
		return dataset.Shard{Index: i, Count: n}, nil
	}
	n := 0
	if hasCount {
		var err error
		if n, err = strconv.Atoi(right); err != nil || n < 1 {
			return dataset.Shard{}, BadInputf("--shard %q: want env/n with n ≥ 1", s)
		}
	}
	part, err := shardOfLauncher(n, os.Getenv)
	if err != nil {
		return part, BadInputf("--shard %s: %w", s, err)
	}
	a.notice("shard " + part.String())
	return part, nil
}

// What launchers say of the place of a process among those that they start together. Slurm's
// are of array jobs, Kubernetes' of jobs with completionMode Indexed, which does not say how
// many there are.
const (
	slurmID         = "SLURM_ARRAY_TASK_ID"
	slurmMin        = "SLURM_ARRAY_TASK_MIN"
	slurmMax        = "SLURM_ARRAY_TASK_MAX"
	slurmStep       = "SLURM_ARRAY_TASK_STEP"
	slurmCount      = "SLURM_ARRAY_TASK_COUNT"
	kubernetesIndex = "JOB_COMPLETION_INDEX"
)

// shardOfLauncher is the shard that the environment says: of n, or for n = 0 of as many as the
// array has tasks.
func shardOfLauncher(n int, getenv func(string) string) (dataset.Shard, error) {
	part := dataset.Shard{Count: n}
	slurm, kubernetes := getenv(slurmID), getenv(kubernetesIndex)
	switch {
	case slurm != "" && kubernetes != "":
		return part, fmt.Errorf("%s is %s and %s is %s: two job systems number this process; give --shard i/n", slurmID, slurm, kubernetesIndex, kubernetes)
	case slurm == "" && kubernetes == "":
		return part, fmt.Errorf("neither %s nor %s is set: give --shard i/n, or start it from a Slurm array or an indexed Kubernetes job", slurmID, kubernetesIndex)
	case n == 0 && kubernetes != "":
		return part, fmt.Errorf("%s is %s, and no variable says how many processes there are: give --shard env/n", kubernetesIndex, kubernetes)
	case n == 0:
		return arrayTask(getenv)
	}
	name := slurmID
	if kubernetes != "" {
		name = kubernetesIndex
	}
	var err error
	if part.Index, err = number(name, getenv); err == nil && part.Index >= n {
		err = fmt.Errorf("%s is %d, want 0 to %d", name, part.Index, n-1)
	}
	return part, err
}

// arrayTask is the place of a task in a Slurm array of the form a-b or a-b:step, all of whose
// tasks are the whole.
func arrayTask(getenv func(string) string) (dataset.Shard, error) {
	var part dataset.Shard
	var id, least, most, step int
	for _, v := range []struct {
		name string
		dst  *int
	}{{slurmID, &id}, {slurmMin, &least}, {slurmMax, &most}, {slurmStep, &step}, {slurmCount, &part.Count}} {
		var err error
		if *v.dst, err = number(v.name, getenv); err != nil {
			return part, err
		}
	}
	if step < 1 || most < least || part.Count != (most-least)/step+1 || id < least || id > most || (id-least)%step != 0 {
		return part, fmt.Errorf("%s is %d, %s %d, %s %d, %s %d, %s %d: not a task of a whole array a-b or a-b:step; for other arrays give --shard env/n",
			slurmID, id, slurmMin, least, slurmMax, most, slurmStep, step, slurmCount, part.Count)
	}
	part.Index = (id - least) / step
	return part, nil
}

// number reads a variable that counts.
func number(name string, getenv func(string) string) (int, error) {
	text := getenv(name)
	if text == "" {
		return 0, fmt.Errorf("%s is not set", name)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is %q, want a number ≥ 0", name, text)
	}
	return n, nil
}
