package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/paper/models"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout/rollouttest"
	"github.com/gpc-engine/gpc/tensor"
)

// onShim makes the host shim the driver of this process for one test, to fail calls of.
func onShim(t *testing.T) *shim.Library {
	t.Helper()
	l := shim.Open(t)
	use(t, l)
	return l
}

// onDevice is the driver that tests run on, counting.
func onDevice(t *testing.T) *shim.Metered {
	t.Helper()
	d := shim.NewMetered(shim.Device(t))
	use(t, d)
	return d
}

func use(t *testing.T, d driver.Driver) {
	before := findDriver
	findDriver = func() (driver.Driver, error) { return d, nil }
	t.Cleanup(func() { findDriver = before })
}

// work uses every kind of object of a backend several times and gives all that came
// out of it.
func work(b backend.Backend) (out []float32, err error) {
	step := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	problem := testdomain.NewCart(10)
	m := testdomain.Map(problem, 9, false)
	rng := rand.New(rand.NewPCG(5, 6))
	random := func(rows, cols int) tensor.Matrix {
		a := tensor.New(rows, cols)
		for i := range a.Data {
			a.Data[i] = rng.Float32() - 0.5
		}
		return a
	}
	add := func(values ...[]float32) { out = append(out, slices.Concat(values...)...) }
	const rows = 6
	z, x, ctx, weights := random(rows, 3), random(rows, 2), tensor.New(rows, 1), random(rows, 2)

	var net backend.Net
	step(func() (err error) { net, err = b.NewNet(m.DecoderS); return })
	y, zbar, jac, metric := tensor.New(rows, 2), tensor.New(rows, 3), tensor.New(rows, 6), tensor.New(rows, 9)
	step(func() error { return net.Forward(z, y) })
	step(func() error { return net.VJP(z, y, zbar) })
	step(func() error { return net.Jacobian(z, jac) })
	step(func() error { return net.Metric(z, 0.5, metric) })
	values := tensor.New(rows, 1)
	step(func() error { return b.EigTopK(metric, 3, 1, values, tensor.New(rows, 3)) })
	add(y.Data, zbar.Data, jac.Data, metric.Data, values.Data)

	var index backend.Index
	step(func() (err error) { index, err = b.NewIndex(m.Codes, m.CodesDecoded); return })
	near := backend.LocalizeOutput{Z: tensor.New(rows, 3), Residual: make([]float32, rows)}
	for range 2 {
		step(func() error { return index.Localize(x, z, []float32{1, 1, 1, 1, 1, 1}, 2, near) })
	}
	add(near.Z.Data, near.Residual)

	nav := problem.Spec().Navigation
	var stepper backend.Stepper
	step(func() (err error) {
		stepper, err = b.NewStepper(backend.StepperConfig{
			DecoderS: m.DecoderS, DecoderU: m.DecoderU, NormS: m.NormS, NormU: m.NormU, Problem: problem, MaxBatch: 4,
			Params: backend.StepParams{Dt: 0.01, VMax: float32(nav.VMax), Epsilon: float32(nav.Epsilon), MetricLambda: 0.5, TopK: 2, LieGain: 0.1, LieScale: 1},
		})
		return err
	})
	u, f := tensor.New(rows, 1), tensor.New(rows, 3)
	for range 3 { // each from where the one before ended, in place
		step(func() error {
			return stepper.Step(backend.StepInput{Z: z, X: x, Ctx: ctx, Weights: weights}, backend.StepOutput{Z: z, U: u})
		})
	}
	step(func() error { return stepper.Field(backend.StepInput{Z: z, X: x, Ctx: ctx, Weights: weights}, f, nil) })
	step(func() error { return stepper.Decode(z, ctx, x, u, tensor.Matrix{}) })
	add(z.Data, u.Data, f.Data)
	return out, err
}

// study trains a little and gives what came out.
func study(t *testing.T, b backend.Backend) (out []float32, err error) {
	tr, err := b.NewTrainer(small())
	if err != nil {
		return nil, err
	}
	rows, neighbours := []int32{1, 2, 3}, []int32{4, 5, 6}
	for range 3 {
		if _, err := tr.ManifoldStep(rows, neighbours, []float32{1, 0.5, 0.25}, 1e-3); err != nil {
			return nil, err
		}
	}
	if err := tr.PrepareRollout(); err != nil {
		return nil, err
	}
	for range 3 {
		if _, err := tr.RolloutStep(rows, 1e-3); err != nil {
			return nil, err
		}
	}
	nets, err := tr.Networks()
	if err != nil {
		return nil, err
	}
	for _, mlp := range nets.All() {
		for _, layer := range mlp.Layers {
			out = append(append(out, layer.W.Data...), layer.B...)
		}
	}
	return out, nil
}

// convexMap is the bundled map of the convex integrator with few of its codes.
func convexMap(t *testing.T) *model.Model {
	t.Helper()
	text := require.Get(models.Bundled.ReadFile("integrator-convex.safetensors"))(t)
	m := require.Get(model.Read(bytes.NewReader(text)))(t)
	m.Codes = m.Codes.Slice(0, 40)
	if m.CodesDecoded.Rows > 0 {
		m.CodesDecoded = m.CodesDecoded.Slice(0, 40)
	}
	return m
}

// refine refines two observations of the convex integrator among few candidates.
func refine(t *testing.T, b backend.Backend) (out []float32, err error) {
	t.Helper()
	m := convexMap(t)
	r, err := batchnav.NewRefiner(b, m, integrator.Convex().Problem, batchnav.Options{}, 6)
	if err != nil {
		return nil, err
	}
	for _, s := range [][]float64{{-2.2, 0.1, 1.2, -0.1}, {-1.4, -0.4, 1.5, 0.2}} {
		obs := batchnav.Observation{S: s, C: []float64{0.9, 0.1, 0.15, 0.1, 0.2}, Preference: domain.Preference{Adaptive: true}}
		result, err := r.Refine(context.Background(), obs, batchnav.RefineOptions{Candidates: 6, FlowSteps: 1, Seed: 3, LookAhead: 2})
		if err != nil {
			return nil, err
		}
		out = append(out, float32(result.Cost), float32(result.Margin))
		for _, u := range result.U {
			out = append(out, float32(u))
		}
	}
	return out, nil
}

// searching takes a closed loop through decisions that search along roll-outs.
func searching(t *testing.T, b backend.Backend) (out []float32, err error) {
	t.Helper()
	problem := integrator.Convex().Problem
	n, err := batchnav.NewNavigator(b, convexMap(t), problem, batchnav.Options{Search: batchnav.SearchOptions{Candidates: 24, LookAhead: 3}})
	if err != nil {
		return nil, err
	}
	s, c := []float64{-2.2, 0.1, 1.2, -0.1}, []float64{0.9, 0.1, 0.15, 0.1, 0.2}
	for range 3 {
		d, err := n.Decide(s, c, domain.Preference{Adaptive: true})
		if err != nil {
			return nil, err
		}
		for _, u := range d.U {
			out = append(out, float32(u))
		}
		next, nextC := make([]float64, 4), make([]float64, 5)
		problem.Step(s, c, d.U, next, nextC)
		s, c = next, nextC
	}
	return out, nil
}

// navigate takes closed loops through noisy decisions, so that each depends on the
// latents of the one before.
func navigate(t *testing.T, b backend.Backend, loops int) (out []float32, err error) {
	t.Helper()
	m := convexMap(t)
	problem := integrator.Convex().Problem
	nav := problem.Spec().Navigation
	nav.LatentStep, nav.VMax, nav.RetractionMix, nav.Smoothing = 0.05, 2, 0.3, 0.4
	batch, err := batchnav.NewBatch(b, m, problem, batchnav.Options{Navigation: &nav}, loops)
	if err != nil {
		return nil, err
	}
	obs, decisions := make([]batchnav.Observation, loops), make([]batchnav.Decision, loops)
	states := make([][]float64, loops)
	for i := range obs {
		states[i] = []float64{-2.2 + 0.3*float64(i)/float64(loops), 0.1, 1.2, -0.1}
		obs[i] = batchnav.Observation{S: make([]float64, 4), C: []float64{0.9, 0.1, 0.15, 0.1, 0.2}, Preference: domain.Preference{Adaptive: true}}
	}
	for step := range 5 {
		for i := range obs {
			for j, v := range states[i] {
				obs[i].S[j] = v + 0.1*float64(1-2*(step%2))
			}
		}
		if err := batch.Decide(obs, decisions); err != nil {
			return nil, err
		}
		for i, d := range decisions {
			for _, v := range append(slices.Clone(d.U), d.Displacement, d.Margin) {
				out = append(out, float32(v))
			}
			next, nextC := make([]float64, 4), make([]float64, 5)
			problem.Step(states[i], obs[i].C, d.U, next, nextC)
			states[i] = next
		}
	}
	return out, nil
}

// differ says where two results differ by more than rounding and a few steps of it.
func differ(got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d values, want %d", len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= 1e-3*math.Max(1, math.Abs(float64(want[i])))) {
			return fmt.Errorf("value %d is %v, want %v", i, got[i], want[i])
		}
	}
	return nil
}

// symbols are what the binding calls when a backend is opened, used and closed.
var symbols = []string{
	"cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuCtxCreate_v2",
	"cuMemGetInfo_v2", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncGetParamInfo", "cuFuncGetAttribute",
	"cuFuncSetAttribute", "cuMemAlloc_v2", "cuMemHostAlloc", "cuMemHostGetDevicePointer_v2", "cuStreamCreate",
	"cuEventCreate", "cuMemcpyHtoD_v2", "cuStreamBeginCapture_v2", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel",
	"cuMemcpyDtoHAsync_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuMemsetD8Async",
	"cuMemsetD32Async", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyDtoDAsync_v2", "cuGraphLaunch", "cuEventSynchronize",
	"cuEventElapsedTime", "cuStreamSynchronize", "cuMemcpyDtoH_v2", "cuCtxSynchronize", "cuGraphExecDestroy",
	"cuGraphDestroy", "cuEventDestroy_v2", "cuMemFreeHost", "cuMemFree_v2", "kernel",
}

// plans scores plans of several robots in a program of the domain's own.
func plans(b backend.Backend) ([]float32, error) {
	accelerator, _ := b.(domain.Accelerator)
	v, err := rollout.NewEvaluator(accelerator)
	if err != nil {
		return nil, err
	}
	const candidates = 20
	o := rollouttest.Problems()[0]
	memory, err := v.Plans(o.Problem, candidates)
	if err != nil {
		return nil, err
	}
	drawn := o.Draw(rand.New(rand.NewPCG(1, 2)), candidates)
	copy(memory, drawn)
	results := make([]rollout.Result, rollout.Blocks(candidates))
	if err := v.Evaluate(o.Problem, o.Bounds, memory, candidates, results, drawn); err != nil {
		return nil, err
	}
	var all []float32
	for i := range candidates {
		all = append(all, results[i/rollout.Lanes].Cost[i%rollout.Lanes])
	}
	return all, nil
}

// Whatever driver call fails, with whatever kind of error, and whenever, `auto`
// gives the result that the CPU gives, and says so once if it had begun on the GPU.
func TestAutoSurvivesAFaultAtEveryDriverCall(t *testing.T) {
	l, turn := onShim(t), 0
	for name, task := range map[string]func(backend.Backend) ([]float32, error){
		"work":   work,
		"refine": func(b backend.Backend) ([]float32, error) { return refine(t, b) },
		"study":  func(b backend.Backend) ([]float32, error) { return study(t, b) },
		"loops":  func(b backend.Backend) ([]float32, error) { return navigate(t, b, 3) },
		"search": func(b backend.Backend) ([]float32, error) { return searching(t, b) },
		"plans":  plans,
	} {
		want := require.Get(task(cpu(t)))(t)
		run := func() (notices []string, reason string) {
			t.Helper()
			e, reason, err := Open(Options{Threads: 1, Notice: func(s string) { notices = append(notices, s) }})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			got, err := task(e)
			if err == nil {
				err = differ(got, want)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_ = e.Close() // of a failed device may fail
			return notices, reason
		}
		l.Reset()
		if notices, reason := run(); len(notices) > 0 || !strings.Contains(reason, "gpc host shim") {
			t.Errorf("%s without a fault: %q, %q", name, reason, notices)
		}
		counts := map[string]int{}
		for _, s := range symbols {
			counts[s] = l.Calls(s)
		}
		for _, s := range symbols {
			last := counts[s]
			if last == 0 {
				continue
			}
			tries := []int{1, last}
			if name == "loops" && last > 4 { // at a decision in the midst
				tries = []int{1, last / 2}
			}
			if name != "refine" && !testing.Short() { // whose calls are many and alike
				tries = append(tries, last/2)
			}
			slices.Sort(tries)
			codes := []int{700, 2}
			if testing.Short() { // one call of each symbol, by one of the errors, which take turns
				tries, codes = tries[min(turn%2, len(tries)-1):][:1], codes[turn/2%2:][:1]
				turn++
			}
			for _, n := range slices.Compact(tries) {
				for _, code := range codes {
					if n < 1 {
						continue
					}
					l.Reset()
					l.Fail(s, n, code)
					notices, reason := run()
					onCPU := strings.HasPrefix(reason, "auto: the CPU, because")
					if t.Failed() {
						t.Fatalf("%s: error %d at call %d of %d of %s: %q", name, code, n, last, s, notices)
					}
					if onCPU && len(notices) > 0 || len(notices) > 1 {
						t.Errorf("%s: error %d at call %d of %s: reason %q, notices %q", name, code, n, s, reason, notices)
					}
				}
			}
		}
	}
}

// counting is what workers are watched by.
type counting interface {
	Calls(symbol string) int
	Allocations() int
}

// Engines of one process share a context: workers side by side get what one alone
// gets, and the last to close ends it.
func TestWorkersShareOneContext(t *testing.T) { shareContext(t, onDevice(t), false) }

// The loss of the context moves all workers and is told once.
func TestWorkersLoseOneContext(t *testing.T) { shareContext(t, onShim(t), true) }

func shareContext(t *testing.T, l counting, lost bool) {
	const loops = 33 // more than are left to the host to project
	want := require.Get(navigate(t, cpu(t), loops))(t)
	const workers = 4
	var engines [workers]Engine
	var notices atomic.Int32
	for i := range engines {
		e, _, err := Open(Options{Threads: 1, Notice: func(string) { notices.Add(1) }})
		require.OK(t, err)
		engines[i] = e
	}
	if n := l.Calls("cuCtxCreate_v2"); n != 1 {
		t.Errorf("%d engines open %d contexts, want 1", workers, n)
	}
	if lost {
		l.(*shim.Library).Fail("cuGraphLaunch", 7, 700)
	}
	var results [workers][]float32
	var failures [workers]error
	var wait sync.WaitGroup
	for i, e := range engines {
		wait.Go(func() { results[i], failures[i] = navigate(t, e, loops) })
	}
	wait.Wait()
	for i := range engines {
		err := failures[i]
		if err == nil {
			err = differ(results[i], want)
		}
		if err != nil {
			t.Errorf("worker %d, context lost %v: %v", i, lost, err)
		}
	}
	if n := notices.Load(); lost && n != 1 || !lost && n != 0 {
		t.Errorf("context lost %v: told %d times", lost, n)
	}
	if lost { // a new engine gets a new context
		e, reason, err := Open(Options{Backend: "cuda"})
		if err != nil {
			t.Fatalf("after a loss: %q, %v", reason, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	for i, e := range engines {
		if n := l.Allocations(); n == 0 && i < workers && !lost {
			t.Errorf("%d engines are open and nothing is allocated", workers-i)
		}
		if err := e.Close(); err != nil && !lost {
			t.Error(err)
		}
		_ = e.Close() // a second time does nothing
	}
	if n := l.Allocations(); n != 0 {
		t.Errorf("%d allocations outlive the engines", n)
	}
}

func TestAutoSaysWhyItIsTheCPU(t *testing.T) {
	before := findDriver
	defer func() { findDriver = before }()
	findDriver = func() (driver.Driver, error) {
		return nil, &driver.LibraryError{Tried: []string{"libcuda.so.1"}, Cause: errors.New("no such file")}
	}
	e, reason, err := Open(Options{})
	if err != nil || e.Describe().Name != "cpu" || !strings.Contains(reason, "install NVIDIA's driver") {
		t.Errorf("%q, %v", reason, err)
	}
	var library *driver.LibraryError
	if _, _, err := Open(Options{Backend: "cuda"}); !errors.As(err, &library) {
		t.Errorf("--backend cuda without a driver: %v", err)
	}
	c := ProbeCUDA()
	if c.Problem == nil || c.Device != -1 || c.Driver != "" {
		t.Errorf("%+v", c)
	}
}

func TestOpenOnADevice(t *testing.T) {
	l := onDevice(t)
	devices, version := require.Get(driver.Devices(l))(t), require.Get(l.Version())(t)
	told := fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	t.Setenv("CUDA_VISIBLE_DEVICES", "3,1") // which a driver reads as it is opened, and so not here
	e, reason, err := Open(Options{Backend: "cuda"})
	require.OK(t, err)
	for _, want := range []string{fmt.Sprintf("device 0 of %d", len(devices)), devices[0].ISA(), "CUDA " + told + " through " + l.Name(), `CUDA_VISIBLE_DEVICES="3,1"`} {
		if !strings.Contains(reason, want) {
			t.Errorf("reason %q has no %q", reason, want)
		}
	}
	if d := e.Describe(); d.Name != "cuda" || d.Device != devices[0].Name {
		t.Errorf("%+v", d)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	c := ProbeCUDA()
	if c.Problem != nil || c.Device != 0 || len(c.Devices) != len(devices) || c.Version != told || !c.Restricted {
		t.Errorf("%+v", c)
	}
	// A device that is too old is passed over only if another is not.
	l.SetAttribute(driver.Major, 7)
	var old *driver.CapabilityError
	if _, _, err := Open(Options{Backend: "cuda"}); !errors.As(err, &old) {
		t.Errorf("an old device: %v", err)
	}
	if e, reason, err := Open(Options{}); err != nil || !strings.Contains(reason, "compute capability 7.") {
		t.Errorf("an old device: %q, %v", reason, err)
	} else if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TF32 is what was asked for or nothing: CUDA says that it computes so, the CPU
// refuses.
func TestTF32IsAskedFor(t *testing.T) {
	onDevice(t)
	for _, name := range []string{"cuda", "auto"} {
		for _, tf32 := range []bool{false, true} {
			e, reason, err := Open(Options{Backend: name, TF32: tf32})
			require.OK(t, err)
			if got := e.Describe().Precision == "tf32"; got != tf32 || strings.Contains(reason, "TF32") != tf32 {
				t.Errorf("%s, TF32 %v: %+v, %s", name, tf32, e.Describe(), reason)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, name := range []string{"cpu", "ref"} {
		if _, _, err := Open(Options{Backend: name, TF32: true}); err == nil || !strings.Contains(err.Error(), "CUDA") {
			t.Errorf("%s: %v, want a refusal that names CUDA", name, err)
		}
	}
}
