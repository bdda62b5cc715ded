package kernels

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testcart"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
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
	if _, err := nvrtc.Find(); err != nil {
		t.Skip(err)
	}
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
	for range 2 {
		b, told := interpreted(t)
		errs := backendtest.DeviceGradient(b, p, at)
		_, _, wrong := backendtest.DeviceStep(b, p, at, true)
		for _, err := range append(errs, wrong...) {
			t.Error(err)
		}
		if len(*told) > 0 {
			t.Errorf("told %q", *told)
		}
		t.Setenv(nvrtc.Variable, filepath.Join(t.TempDir(), "none")) // from now on the cache has them
	}
}
