package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/paper/integrator"
)

// brief says whether a test takes some of its sizes: under -short, where the host computes.
func brief() bool { return testing.Short() && !shim.OnGPU() }

// onShim gives a backend on the host shim, to fail calls of: a test that asks for it is
// left out on a GPU. Every other asks onAny or metered.
func onShim(t testing.TB, o Options) (*shim.Library, *Backend) {
	t.Helper()
	library := shim.Open(t)
	return library, on(t, library, o)
}

// onAny gives a backend on the host shim or, where tests run on one, on a GPU.
func onAny(t testing.TB) *Backend {
	t.Helper()
	return on(t, shim.Device(t), Options{})
}

// metered is onAny with options, behind a driver that counts and can be short of memory.
func metered(t testing.TB, o Options) (*shim.Metered, *Backend) {
	t.Helper()
	d := shim.NewMetered(shim.Device(t))
	return d, on(t, d, o)
}

func on(t testing.TB, d driver.Driver, o Options) *Backend {
	t.Helper()
	context := require.Get(driver.Open(d, 0))(t)
	b := require.Get(New(context, o))(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// deviceProblem is a problem with device functions and rows to try them on.
type deviceProblem struct {
	problem    domain.Problem
	s, c, u, w [][]float64
}

// integratorRows draws rows around the ellipse: states that head for it, actions
// within and beyond every limit.
func integratorRows(t testing.TB, nonconvex bool, rows int) deviceProblem {
	t.Helper()
	system := require.Get(integrator.NewSystem("integrator", integrator.Default(nonconvex)))(t)
	rng := rand.New(rand.NewPCG(7, 8))
	d := deviceProblem{problem: system}
	within := func(lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
	for range rows {
		d.s = append(d.s, []float64{within(-3, 3), within(-2, 1.5), within(-1, 2), within(-1, 1)})
		previous := within(0, 1.5)
		sin, cos := math.Sincos(within(0, 2*math.Pi))
		d.c = append(d.c, []float64{previous * cos, previous * sin, within(0, 0.5), within(0.06, 0.14), float64(rng.IntN(20)) / 20})
		d.u = append(d.u, []float64{within(-2, 2), within(-2, 2)})
		d.w = append(d.w, []float64{rng.Float64(), rng.Float64()})
	}
	return d
}

func wide32(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w
}

// TestDeviceFunctionsAgree holds the device functions of a problem to its own
// methods: Base, Objectives and Gradient in float32, one roll-out step in float64.
func TestDeviceFunctionsAgree(t *testing.T) {
	b := onAny(t)
	for _, nonconvex := range []bool{false, true} {
		d := integratorRows(t, nonconvex, 4000)
		d.u[5][0] = math.NaN()
		checkGradient(t, b, d)
		if moved := checkRollout(t, b, d, true, 4000); moved < 2000 {
			t.Errorf("only %d of 4000 actions were projected; the rows are badly chosen", moved)
		}
		checkRollout(t, b, d, false, 20)
	}
}

func (d deviceProblem) rows() backend.DeviceRows {
	return backend.DeviceRows{S: d.s, C: d.c, U: d.u, Sigma: d.w}
}

// first are the first rows of a problem.
func (d deviceProblem) first(rows int) deviceProblem {
	return deviceProblem{d.problem, d.s[:rows], d.c[:rows], d.u[:rows], d.w[:rows]}
}

func checkGradient(t *testing.T, b *Backend, d deviceProblem) {
	t.Helper()
	for _, err := range backendtest.DeviceGradient(b, d.problem, d.rows()) {
		t.Error(err)
	}
}

// rollOut takes one step with the device functions, under the adaptive priority.
func rollOut(t testing.TB, b *Backend, d deviceProblem, project bool) backend.DeviceSteps {
	t.Helper()
	r := require.Get(b.DeviceStep(d.problem, d.rows(), project))(t)
	return r
}

// checkRollout compares a step of the first rows with the problem's own methods, and
// counts the actions that the projection moved.
func checkRollout(t *testing.T, b *Backend, d deviceProblem, project bool, rows int) (moved int) {
	t.Helper()
	moved, worst, errs := backendtest.DeviceStep(b, d.problem, d.first(rows).rows(), project)
	for _, err := range errs {
		t.Error(err)
	}
	t.Logf("%s, %d rows, projected %v: action off by at most %.1e, state %.1e, context %.1e, cost and margin %.1e, all margins %.1e", d.problem.Spec().Name, rows, project, worst[0], worst[1], worst[2], worst[3], worst[4])
	return moved
}
