//go:build unix

package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// manifest is what the manifests of lab/scripts/kubernetes use of batch/v1, and no more: another
// field is an error.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		CompletionMode           string `yaml:"completionMode"`
		Completions, Parallelism int
		BackoffLimit             int                    `yaml:"backoffLimit"`
		BackoffLimitPerIndex     int                    `yaml:"backoffLimitPerIndex"`
		PodFailurePolicy         struct{ Rules []rule } `yaml:"podFailurePolicy"`
		Template                 struct {
			Spec struct {
				RestartPolicy                 string `yaml:"restartPolicy"`
				TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Name, Image  string
					Args         []string
					Resources    struct{ Requests, Limits map[string]string }
					VolumeMounts []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct {
					Name  string
					Claim struct {
						Name string `yaml:"claimName"`
					} `yaml:"persistentVolumeClaim"`
				}
			}
		}
	}
}

// rule is of a podFailurePolicy.
type rule struct {
	Action      string
	OnExitCodes *struct {
		ContainerName string `yaml:"containerName"`
		Operator      string
		Values        []int
	} `yaml:"onExitCodes"`
	OnPodConditions []struct{ Type, Status string } `yaml:"onPodConditions"`
}

func readManifest(t *testing.T, name string) (m manifest) {
	t.Helper()
	dec := yaml.NewDecoder(bytes.NewReader(require.Get(os.ReadFile(filepath.Join("../../lab/scripts/kubernetes", name)))(t)))
	dec.KnownFields(true)
	require.OK(t, dec.Decode(&m))
	pod := &m.Spec.Template.Spec
	if m.APIVersion != "batch/v1" || m.Kind != "Job" || len(pod.Containers) != 1 || pod.RestartPolicy != "Never" { // a podFailurePolicy wants Never
		t.Fatalf("%s is %+v", name, m)
	}
	return m
}

// action is what the Job controller does with a pod whose container ended so: the first rule
// that matches, or counting it.
func (m *manifest) action(code int) string {
	for _, r := range m.Spec.PodFailurePolicy.Rules {
		if e := r.OnExitCodes; e != nil && e.Operator == "In" && e.ContainerName == m.Spec.Template.Spec.Containers[0].Name && slices.Contains(e.Values, code) {
			return r.Action
		}
	}
	return "Count"
}

// pod is the process of an index, -1 for a Job without: variables are expanded in its
// arguments as the kubelet does, /data is dir.
func (m *manifest) pod(program, dir string, index int, more ...string) *job {
	j := &job{program: program, dir: dir, out: fmt.Sprintf("shard-%d", index)}
	expand := strings.NewReplacer("/data", dir)
	if index >= 0 {
		j.variables = []string{fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index)}
		expand = strings.NewReplacer("/data", dir, "$(JOB_COMPLETION_INDEX)", fmt.Sprint(index))
	}
	for _, a := range m.Spec.Template.Spec.Containers[0].Args {
		j.args = append(j.args, expand.Replace(a))
	}
	j.args = append(j.args, more...)
	return j
}

func TestKubernetesManifestsAgree(t *testing.T) {
	dataset, merge := readManifest(t, "dataset.yaml"), readManifest(t, "merge.yaml")
	n := dataset.Spec.Completions
	if dataset.Spec.CompletionMode != "Indexed" || n < 2 || dataset.Spec.BackoffLimitPerIndex < 1 {
		t.Errorf("the dataset is %+v", dataset.Spec)
	}
	if args := dataset.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, fmt.Sprintf("--shard=env/%d", n)) || !slices.Contains(args, "--requeue") {
		t.Errorf("%d completions have the arguments %v", n, args)
	}
	args := merge.Spec.Template.Spec.Containers[0].Args
	for i := range n {
		if !slices.Contains(args, fmt.Sprintf("/data/shard-%d", i)) {
			t.Errorf("part %d is not merged: %v", i, args)
		}
	}
	for _, m := range []manifest{dataset, merge} {
		for code, want := range map[int]string{1: "FailJob", 2: "FailJob", 75: "Ignore", 137: "Count", 143: "Count"} {
			if got := m.action(code); got != want {
				t.Errorf("%s, exit code %d: %s, want %s", m.Metadata.Name, code, got, want)
			}
		}
		last := m.Spec.PodFailurePolicy.Rules[len(m.Spec.PodFailurePolicy.Rules)-1]
		if last.Action != "Ignore" || len(last.OnPodConditions) != 1 || last.OnPodConditions[0].Type != "DisruptionTarget" {
			t.Errorf("%s: the last rule is %+v", m.Metadata.Name, last)
		}
		c, volumes := m.Spec.Template.Spec.Containers[0], m.Spec.Template.Spec.Volumes
		if len(volumes) != 1 || len(c.VolumeMounts) != 1 || c.VolumeMounts[0].Name != volumes[0].Name || c.VolumeMounts[0].MountPath != "/data" || volumes[0].Claim.Name == "" {
			t.Errorf("%s mounts %+v of %+v", m.Metadata.Name, c.VolumeMounts, volumes)
		}
		if m.Spec.Template.Spec.TerminationGracePeriodSeconds < 5 { // a command ends within two seconds
			t.Errorf("%s has %d s to end", m.Metadata.Name, m.Spec.Template.Spec.TerminationGracePeriodSeconds)
		}
	}
}

// The processes of the manifests, with the variables of an indexed Job and treated by the
// Job's own policy: pods are deleted while they work, and replaced.
func TestKubernetesProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a process thirty times")
	}
	dataset, merge := readManifest(t, "dataset.yaml"), readManifest(t, "merge.yaml")
	program, dir, rng := built(t), t.TempDir(), rand.New(rand.NewPCG(992, 0))
	small := []string{"--scenarios=320", "--weights=1", "--chunk=10"}
	if action := dataset.action(75); action != "Ignore" {
		t.Errorf("a pod that is interrupted ends with exit code 75: %s", action)
	}
	for i := range dataset.Spec.Completions {
		dataset.pod(program, dir, i, small...).interrupt(t, syscall.SIGTERM)
		done, counted := false, 0
		for try := 0; !done && try < disturbed; try++ {
			p := dataset.pod(program, dir, i, small...).start(t)
			// Deleted, evicted, drained; now and then out of memory.
			time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Millisecond)))) // somewhere in its work, or behind it
			_ = p.Process.Signal([]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL}[rng.IntN(3)])
			code := p.code()
			if code == -1 {
				code = 128 + int(p.ProcessState.Sys().(syscall.WaitStatus).Signal())
			}
			switch action := dataset.action(code); {
			case code == 0:
				done = true
			case action == "Ignore":
			case action == "Count" && counted < dataset.Spec.BackoffLimitPerIndex:
				counted++
			case action == "Count": // the index would have failed
				try = disturbed
			default:
				t.Fatalf("index %d: exit code %d: %s: %s", i, code, action, &p.log)
			}
		}
		if !done { // it is left in peace
			dataset.pod(program, dir, i, small...).end(t)
		}
	}
	merge.pod(program, dir, -1).end(t)
	whole := &job{program: program, dir: dir, args: append([]string{"dataset", "opf30", "--seed=1", "--out=whole"}, small...)}
	whole.end(t)
	if got := parts(t, filepath.Join(dir, "merged")); len(got) != 32 || !maps.Equal(got, parts(t, filepath.Join(dir, "whole"))) {
		t.Errorf("the %d merged parts are not those of one machine", len(got))
	}
	// An index that the Job does not have is a mistake of the manifest.
	p := dataset.pod(program, dir, dataset.Spec.Completions, small...).start(t)
	if code := p.code(); dataset.action(code) != "FailJob" || !strings.Contains(p.log.String(), "JOB_COMPLETION_INDEX is 8") {
		t.Errorf("index %d: exit code %d: %s", dataset.Spec.Completions, code, &p.log)
	}
}
