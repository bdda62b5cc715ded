package kernels

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testcart"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/nvrtc"
	"github.com/gpc-engine/gpc/kernels/ptx"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
)

// interpreted is a backend on the interpreter of PTX, which takes compiled functions as a GPU does, and what it tells.
func interpreted(t *testing.T) (b *Backend, told *[]string) {
	t.Helper()
	b, told = on(t, device.New(ptx.Options{Shared: true, Global: true}), Options{}), &[]string{}
	b.Notify(func(text string) { *told = append(*told, text) })
	return b, told
}

// findCompiler finds a compiler, that of `make nvcc` included; without any the test is skipped.
func findCompiler(t *testing.T) *nvrtc.Compiler {
	t.Helper()
	if wheel, err := filepath.Abs("../build/nvcc"); err == nil {
		t.Setenv("PYTHONPATH", wheel)
	}
	c, err := nvrtc.Find(0)
	if err != nil {
		t.Skip(err)
	}
	return c
}

// cartsMap is a map of the cart that is not trained.
func cartsMap(t *testing.T) (domain.Problem, backend.LoopsConfig) {
	t.Helper()
	p := require.Get(testcart.System().Case())(t).Problem
	m := testdomain.Untrained(rand.New(rand.NewPCG(5, 6)), p.Spec(), 6, 10, 24)
	return p, backend.LoopsConfig{MapConfig: mapOf(t, m, p, 4), RetractionMix: 0.25, PriorityFilter: 0.5}
}

// TestEquationsWithoutACompiler leaves them to the host, and says once what is missing.
func TestEquationsWithoutACompiler(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libnvrtc.so.12")
	t.Setenv(nvrtc.Variable, missing)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	b, told := interpreted(t)
	_, cfg := cartsMap(t)
	for range 2 {
		if _, err := b.NewLoops(cfg); !errors.Is(err, backend.ErrNoLoops) {
			t.Errorf("loops without device functions: %v, want %v", err, backend.ErrNoLoops)
		}
	}
	if s := require.Get(b.NewStepper(cfg.Step))(t).(*Stepper); s.flow.code.name != "" {
		t.Errorf("a stepper has the device functions %q", s.flow.code.name)
	}
	if len(*told) != 1 || !strings.Contains((*told)[0], missing) || !strings.Contains((*told)[0], "nvidia-cuda-nvrtc-cu12") {
		t.Errorf("told %q, want one line with %s", *told, missing)
	}
}

// TestCompiledEquations compiles the functions of a cart, once, and holds what the PTX computes to the problem's own methods.
func TestCompiledEquations(t *testing.T) {
	findCompiler(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p, _ := cartsMap(t)
	spec, rng := p.Spec(), rand.New(rand.NewPCG(3, 4))
	var at backend.DeviceRows
	for range 20 {
		draw := func(n int) []float64 {
			x := make([]float64, n)
			for i := range x {
				x[i] = rng.Float64() - 0.5
			}
			return x
		}
		at.S, at.C, at.U = append(at.S, draw(spec.MeasuredSize())), append(at.C, draw(spec.ContextSize())), append(at.U, draw(spec.ActionSize()))
		at.Sigma = append(at.Sigma, []float64{0.3, 0.7, 0.1}[:spec.ObjectiveSize()])
	}
	for compilations := 1; compilations >= 0; compilations-- {
		b, told := interpreted(t)
		errs := backendtest.DeviceGradient(b, p, at)
		_, _, wrong := backendtest.DeviceStep(b, p, at, true)
		for _, err := range append(errs, wrong...) {
			t.Error(err)
		}
		if len(*told) != compilations {
			t.Errorf("told %q, want %d lines", *told, compilations)
		}
		t.Setenv(nvrtc.Variable, filepath.Join(t.TempDir(), "none")) // from now on the cache has them
	}
}

// TestEquationsAreCompiledForTheDevice makes a cubin for an architecture that the compiler knows and PTX for another, takes what the cache has
// without a compiler, and refuses PTX that the driver is too old for.
func TestEquationsAreCompiledForTheDevice(t *testing.T) {
	c := findCompiler(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p, _ := cartsMap(t)
	text, version := require.Get(export.DeviceOf(p))(t), 1000*c.Major+10*c.Minor
	var lines []string
	told := func(line string) { lines = append(lines, line) }
	known, unknown := driver.Device{Major: 8, Minor: 0}, driver.Device{Major: 99, Minor: 0}
	var newer *nvrtc.NewerError
	if _, err := compiled(text, unknown, version-10, 2, told); !errors.As(err, &newer) {
		t.Errorf("PTX for a driver that is older than the compiler: %v", err)
	}
	for range 2 {
		for _, of := range []struct {
			on     driver.Device
			target string
			begins string
		}{{known, "sm_80.cubin", "\x7fELF"}, {unknown, "compute_80.ptx", "//"}} {
			files := require.Get(compiled(text, of.on, version, 2, told))(t)
			set := require.Get(images.New(files))(t)
			blob, err := fs.ReadFile(files, images.FileName(text.Name, of.target))
			require.OK(t, err)
			image := require.Get(images.Unpack(blob))(t)
			if !strings.HasPrefix(string(image[:min(20, len(image))]), of.begins) || len(set.Kernels()) != 6 {
				t.Errorf("%s begins with %q and has the kernels %v", of.target, image[:min(20, len(image))], set.Kernels())
			}
		}
		t.Setenv(nvrtc.Variable, filepath.Join(t.TempDir(), "none")) // from now on the cache has them
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "sm_80") || !strings.Contains(lines[1], "compute_80") {
		t.Errorf("told %q, want a line for each compilation", lines)
	}
	found := require.Get(WrittenImages())(t)
	if len(found) != 2 || found[0].Target == found[1].Target || found[0].Name != text.Name || found[0].Compiler != fmt.Sprintf("NVRTC %d.%d", c.Major, c.Minor) || found[0].Bytes == 0 {
		t.Errorf("the cache has %+v", found)
	}
}
