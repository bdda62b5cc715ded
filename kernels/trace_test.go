package kernels

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// TestEveryLaunchIsTraced takes a step, a training update and the decision of loops launch
// by launch: as many as the graphs hold, the same results, no limit left out where a
// product is made, and times where the device has any.
func TestEveryLaunchIsTraced(t *testing.T) {
	library, b := metered(t, Options{})
	cfg, in := integratorStep(t, 20)
	want := takeStep(t, require.Get(b.NewStepper(cfg))(t), cfg, in)
	before := library.Calls("kernel")
	takeStep(t, require.Get(b.NewStepper(cfg))(t), cfg, in)
	kernels := library.Calls("kernel") - before
	var s backend.Stepper
	var got stepped
	launches := require.Get(b.Trace(3, func() (err error) { s, err = b.NewStepper(cfg); return err }, func() error { got = takeStep(t, s, cfg, in); return nil }))(t)
	if len(launches) != kernels {
		t.Errorf("%d launches are traced, a step is %d", len(launches), kernels)
	}
	if !slices.Equal(got.z.Data, want.z.Data) || !slices.Equal(got.u.Data, want.u.Data) || !slices.Equal(got.energy, want.energy) {
		t.Error("launch by launch the step is another")
	}
	p := smallProblem
	var trainer backend.Trainer
	rows, neighbours, weights := p.manifoldRows(0)
	launches = append(launches, require.Get(b.Trace(3, func() error { trainer = trainerOf(t, b, p.config(1)); return nil },
		func() error { _, err := trainer.ManifoldStep(rows, neighbours, weights, 1e-3); return err }))(t)...)
	loops := loopsConfig(t, 5)
	observed, decided := loopsCall(loops)
	var l backend.Loops
	launches = append(launches, require.Get(b.Trace(3, func() (err error) { l, err = b.NewLoops(loops); return err }, func() error { return l.Decide(observed, decided) }))(t)...)
	timed := 0
	for i, v := range launches {
		us, by := v.Limits.Largest()
		for _, product := range []string{"gpc_mlp", "gpc_jacobian", "gpc_train_forward", "gpc_train_backward", "gpc_train_gradient"} {
			if strings.HasPrefix(v.Kernel, product) && !(v.Limits.FMA > 0 && v.Limits.Shared > 0 && v.Limits.Bytes > 0) {
				t.Errorf("launch %d, %s: limits %+v", i, v.Kernel, v.Limits)
			}
		}
		if math.IsNaN(us) || v.Grid[0] < 1 || v.Block < 1 || us > 0 && by == "" {
			t.Errorf("launch %d: %+v", i, v)
		}
		if len(v.Times) == 3 {
			timed++
		}
	}
	if device := !b.device.Emulated(); device != (timed == len(launches)) || !device && timed > 0 {
		t.Errorf("%d of %d launches have times", timed, len(launches))
	}
	for _, one := range []string{"gpc_eig", "gpc_step_end", "gpc_domain_gradient_integrator", "gpc_train_adam", "gpc_search_bound", "gpc_localize_point"} {
		if !slices.ContainsFunc(launches, func(v backend.Launch) bool { return strings.HasPrefix(v.Kernel, one) }) {
			t.Errorf("%s is not traced", one)
		}
	}
	before = library.Calls("cuGraphLaunch")
	takeStep(t, s, cfg, in)
	if n := library.Calls("cuGraphLaunch") - before; n != 1 {
		t.Errorf("after a trace a step launches %d graphs", n)
	}
}

// TestLimitsOfALaunch counts what docs/contribute/cuda-kernels.md says of a forward pass of 4096 rows
// through 32 → 256 → 256 → 60 on an H200.
func TestLimitsOfALaunch(t *testing.T) {
	d := driver.Device{Major: 9, Multiprocessors: 132, ClockKHz: 1_980_000}
	tr := &trace{sizes: map[driver.Pointer][][2]int{1: {{256, 32}, {256, 256}, {60, 256}}}}
	l := tr.pass(4096, 32, single, 1).limits(d, 128)
	fma := 4096.0 * (32*256 + 256*256 + 256*60)
	for _, v := range []struct {
		what      string
		got, want float64
	}{
		{"multiply-adds", l.FMA, fma / (128 * 128) / 1980},
		{"shared memory", l.Shared, fma / 32 * 6 / 32 / 128 / 1980},
		{"bytes", l.Bytes, 128 * 4 * 89088.0 / (128 * 64) / 1980},
	} {
		if math.Abs(v.got-v.want) > 1e-9*v.want {
			t.Errorf("%s: %g µs, want %g", v.what, v.got, v.want)
		}
	}
	if us, by := l.Largest(); by != "multiply-adds" || us != l.FMA {
		t.Errorf("the launch is bound by %s, %g µs", by, us)
	}
	if l := tr.pass(4096, 32, rounded, 1).limits(d, 128); !(l.FMA < fma/(128*128)/1980/7) {
		t.Errorf("on tensor cores %+v", l)
	}
	if l := (work{cycles: 30000, resident: 21}).limits(d, 4096); math.Abs(l.Latency-2*30000/1980.0) > 1e-9 {
		t.Errorf("two waves of a chain of 30 000 cycles take %g µs", l.Latency)
	}
	if l := (work{fma: 1e9}).limits(driver.Device{Multiprocessors: 1}, 1); l != (backend.Limits{}) {
		t.Errorf("without a clock: %+v", l)
	}
}

// The shim's static memory is that of the cubins: what launches would be short of on a
// device they are short of here.
func TestStaticSharedMemoryCounts(t *testing.T) {
	if b := onAny(t); !b.device.Emulated() {
		return // where the driver counts it
	}
	_, b := metered(t, Options{})
	err := b.execute(func(th *driver.Thread) error {
		k, err := b.kernel(th, "gpc_search_exact")
		if err != nil {
			return err
		}
		job := searchJob{count: 0, rows: 0, k: 1}
		for _, v := range []struct {
			shared int
			want   string
		}{{48 << 10, ""}, {166912 - 24608, ""}, {166912 - 24607, "24608 of its own, a block of this device has 166912"}} {
			err := th.Launch(k, driver.Launch{Block: driver.Dim{X: 128}, Shared: v.shared}, driver.Struct(&job))
			if v.want == "" && err != nil || v.want != "" && (err == nil || !strings.Contains(err.Error(), v.want)) {
				t.Errorf("%d bytes: %v, want %q", v.shared, err, v.want)
			}
		}
		return th.Synchronize()
	})
	require.OK(t, err)
}
