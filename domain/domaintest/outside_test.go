package domaintest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/kernels/shim"
)

// outside is a copy of examples/outside as a module that requires this checkout, and
// the environment that its go commands run in, which reach nothing but this machine.
type outside struct {
	dir string
	env []string
}

func copyOutside(t *testing.T) *outside {
	t.Helper()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	o := &outside{dir: t.TempDir(), env: append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")}
	if err := os.CopyFS(o.dir, os.DirFS(filepath.Join(checkout, "examples/outside"))); err != nil {
		t.Fatal(err)
	}
	// Its sums are among those of what it requires.
	sums, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.dir, "go.sum"), sums, 0o644); err != nil {
		t.Fatal(err)
	}
	o.run(t, nil, "go", "mod", "edit", "-replace", "github.com/gpc-engine/gpc="+checkout)
	return o
}

// run gives what a command prints on standard output, decoded into v where v is not
// nil.
func (o *outside) run(t *testing.T, v any, command ...string) string {
	t.Helper()
	out, log, err := o.try(command...)
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, out, log)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(out), v); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
		}
	}
	return out
}

func (o *outside) try(command ...string) (out, log string, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = o.dir, o.env, &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// spoilt leaves a module whose device functions are off by a little, which both the
// check of the images and its own test say.
func spoilt(t *testing.T, o *outside, build string) {
	t.Helper()
	file := filepath.Join(o.dir, "heating/heating.cu")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wrong := bytes.Replace(text, []byte("k[LIMIT] - air"), []byte("k[LIMIT] + 1e-6 - air"), 1)
	if err := os.WriteFile(file, wrong, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, log, err := o.try("go", "run", build, "check"); err == nil || !strings.Contains(log, "heating/heating.cu, a header or the flags changed") {
		t.Errorf("a changed source: check says %v, %s", err, log)
	}
	if out, _, err := o.try("go", "test", "-short", "-run", "Contract/device", "./heating"); err == nil || !strings.Contains(out, "cost and margin") {
		t.Errorf("a margin that is off on the device: the module's own test says %v, %s", err, out)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDomainOfAnotherModule: a domain with CUDA code in a module of its own is written
// in three places, a .cu file, a Go package and the program that registers it. Its
// images belong to its sources, domaintest.Run holds its device functions to its own
// methods, and gpc's commands take it from the dataset to the benchmark, on the CPU and
// on the host shim in place of the CUDA driver.
func TestDomainOfAnotherModule(t *testing.T) {
	o := copyOutside(t)
	sources := map[string]bool{}
	err := filepath.WalkDir(o.dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(o.dir, path)
		switch filepath.Ext(name) {
		case ".cu":
			sources[name] = true
		case ".go":
			sources["package "+filepath.Dir(name)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"heating/heating.cu", "package .", "package heating"}; len(sources) != 3 || !sources[want[0]] || !sources[want[1]] || !sources[want[2]] {
		t.Errorf("a domain with CUDA code is written in %v, want %v", sources, want)
	}

	const build = "github.com/gpc-engine/gpc/kernels/build"
	o.run(t, nil, "go", "run", build, "check")

	_, _, err = shim.Compiler()
	var none *shim.NoCompilerError
	onShim := !errors.As(err, &none) && runtime.GOOS == "linux"
	if log := o.run(t, nil, "go", "test", "-short", "-v", "./..."); strings.Contains(log, "--- PASS: TestContract/device") != onShim {
		t.Errorf("a C++20 compiler for the host shim: %v; the module's own test says\n%s", onShim, log)
	}

	o.run(t, nil, "go", "build", "-o", "program", ".")
	if onShim {
		spoilt(t, o, build)
	}
	program := func(t *testing.T, v any, arguments ...string) {
		t.Helper()
		o.run(t, v, append([]string{"./program", "--json"}, arguments...)...)
	}
	if _, log, err := o.try("./program", "fly"); err == nil || !strings.HasPrefix(log, "heating: unknown command") {
		t.Errorf("a command that it does not have: %v, %s", err, log)
	}
	program(t, nil, "dataset", "heating", "--scenarios", "30", "--weights", "1", "--out", "data")
	program(t, nil, "train", "heating", "--data", "data", "--out", "heating.safetensors", "--epochs", "30", "--rollout-epochs", "2")
	var eval struct {
		Safe     float64 `json:"safe"`
		Episodes int     `json:"episodes"`
	}
	program(t, &eval, "eval", "heating", "--method", "navigator", "--episodes", "5", "--seed", "5", "--model", "heating.safetensors", "--trace", "trace.jsonl")
	if eval.Safe != 1 || eval.Episodes != 5 {
		t.Errorf("of %d episodes %v were safe, want all 5", eval.Episodes, eval.Safe)
	}
	program(t, nil, "verify", "trace.jsonl")
	var benchmark struct {
		Results []struct{ Case, Size string }
	}
	program(t, &benchmark, "bench", "step", "--case", "heating", "--batch", "8", "--time", "5ms")
	if len(benchmark.Results) != 1 || benchmark.Results[0].Case != "heating" || !strings.Contains(benchmark.Results[0].Size, "own objectives") {
		t.Errorf("bench step: %+v", benchmark.Results)
	}
	type refined struct {
		Cost, Margin float64
		Feasible     bool
	}
	refine := func(t *testing.T, backend string) (r refined) {
		t.Helper()
		program(t, &r, "refine", "heating", "--state", "state.json", "--candidates", "64", "--model", "heating.safetensors", "--backend", backend)
		return r
	}
	cpu := refine(t, "cpu")
	if !cpu.Feasible {
		t.Errorf("refinement: %+v", cpu)
	}

	t.Run("on the host shim", func(t *testing.T) {
		if !onShim {
			t.Skip("it needs a C++20 compiler")
		}
		o.run(t, nil, "go", "run", build, "shim", "driver/libcuda.so.1")
		o.env = append(o.env, "LD_LIBRARY_PATH="+filepath.Join(o.dir, "driver"))
		cuda := refine(t, "cuda")
		if !cuda.Feasible || !(math.Abs(cuda.Cost-cpu.Cost) <= 1e-3*(1+cpu.Cost)) || !(math.Abs(cuda.Margin-cpu.Margin) <= 1e-3) {
			t.Errorf("refinement on the host shim %+v, on the CPU %+v", cuda, cpu)
		}
	})
}
