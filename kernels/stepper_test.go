package kernels

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// hidden hides a problem's device functions.
type hidden struct{ domain.Problem }

// stepFor is a step of a bundled map over the rows of its problem.
func stepFor(t testing.TB, m *model.Model, d deviceProblem, params backend.StepParams) (backend.StepperConfig, backend.StepInput) {
	t.Helper()
	spec, rows := d.problem.Spec(), len(d.s)
	cfg := backend.StepperConfig{
		DecoderS: m.DecoderS, DecoderU: m.DecoderU, NormS: m.NormS, NormU: m.NormU, Problem: d.problem, MaxBatch: rows, Params: params,
	}
	rng := rand.New(rand.NewPCG(3, 4))
	in := backend.StepInput{
		Z: tensor.New(rows, m.Latent()), X: tensor.Matrix{Rows: rows, Cols: spec.MeasuredSize(), Stride: spec.MeasuredSize(), Data: narrow(d.s)},
		Ctx:     tensor.Matrix{Rows: rows, Cols: spec.ContextSize(), Stride: spec.ContextSize(), Data: narrow(d.c)},
		Weights: tensor.Matrix{Rows: rows, Cols: spec.ObjectiveSize(), Stride: spec.ObjectiveSize(), Data: narrow(d.w)},
	}
	for i := range rows {
		code := m.Codes.Row(i % m.Codes.Rows)
		for j := range in.Z.Row(i) {
			in.Z.Row(i)[j] = code[j] + 0.1*float32(rng.NormFloat64())
		}
	}
	return cfg, in
}

// integratorStep is a step of the integrator's sizes over the rows of
// integratorRows.
func integratorStep(t testing.TB, rows int) (backend.StepperConfig, backend.StepInput) {
	t.Helper()
	return stepFor(t, integratorModel(t, 10), integratorRows(t, true, rows),
		backend.StepParams{Dt: 0.1, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 4, LieGain: 0.1, LieScale: 0.1})
}

type stepped struct {
	z, u      tensor.Matrix
	energy    []float32
	fallbacks []uint8
}

func takeStep(t testing.TB, s backend.Stepper, cfg backend.StepperConfig, in backend.StepInput) stepped {
	t.Helper()
	rows := in.Z.Rows
	r := stepped{tensor.New(rows, cfg.DecoderS.In()), tensor.New(rows, cfg.DecoderU.Out()), make([]float32, rows), make([]uint8, rows)}
	require.OK(t, s.Step(in, backend.StepOutput{Z: r.z, U: r.u, Energy: r.energy, Fallbacks: r.fallbacks}))
	return r
}

// TestStepWithDeviceFunctions compares the captured step with the reference, and
// with the split step of the same problem.
func TestStepWithDeviceFunctions(t *testing.T) {
	cfg, in := integratorStep(t, 37)
	compareSteps(t, cfg, in)
}

func compareSteps(t *testing.T, cfg backend.StepperConfig, in backend.StepInput) {
	t.Helper()
	rows := in.Z.Rows
	b := onAny(t)
	type way struct {
		b   backend.Backend
		cfg backend.StepperConfig
	}
	ways := []way{{ref.New(), cfg}, {b, cfg}}
	split := cfg
	split.Problem = hidden{cfg.Problem}
	ways = append(ways, way{b, split})
	var results []stepped
	for _, c := range ways {
		s := require.Get(c.b.NewStepper(c.cfg))(t)
		results = append(results, takeStep(t, s, c.cfg, in))
		if d, ok := s.(*Stepper); ok {
			if cost := d.Split(); (cost.Evaluations != 0) != (d.flow.code.name == "") {
				t.Errorf("%d evaluations on the host with device functions %q", cost.Evaluations, d.flow.code.name)
			}
		}
	}
	// A row at a kink or with unresolved eigenvectors may differ between two
	// backends in float32; nearly all may not.
	for k, got := range results[1:] {
		off := 0
		for i := range rows {
			want := results[0]
			err := backendtest.Near(wide32(got.z.Row(i)), wide32(want.z.Row(i)), 1e-4)
			if err == nil {
				err = backendtest.Near(wide32(got.u.Row(i)), wide32(want.u.Row(i)), 1e-4)
			}
			if err == nil {
				err = backendtest.Near([]float64{float64(got.energy[i])}, []float64{float64(want.energy[i])}, 1e-4)
			}
			if err != nil {
				off++
			}
			if got.fallbacks[i] != want.fallbacks[i] {
				t.Errorf("way %d, row %d: fallbacks %b, want %b", k, i, got.fallbacks[i], want.fallbacks[i])
			}
		}
		if off > rows/10 {
			t.Errorf("way %d: %d of %d rows differ from the reference", k, off, rows)
		}
	}
}

// unable is a problem that is too large for its device functions.
type unable struct{ domain.Problem }

func (p unable) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Device: p.Device}
}

func (unable) Device() domain.DeviceCode { return domain.DeviceCode{Reason: "it has 7 wheels"} }

// TestProblemTooLargeForTheDevice steers a problem whose device functions do not hold
// it like one without any, and refuses to refine it whole, with the reason.
func TestProblemTooLargeForTheDevice(t *testing.T) {
	cfg, in := integratorStep(t, 5)
	b := onAny(t)
	var results [2]stepped
	for i, p := range []domain.Problem{unable{cfg.Problem}, hidden{cfg.Problem}} {
		own := cfg
		own.Problem = p
		s := require.Get(b.NewStepper(own))(t)
		results[i] = takeStep(t, s, own, in)
		if n := s.(*Stepper).Split().Evaluations; n != 2 {
			t.Errorf("problem %d: %d evaluations on the host, want 2", i, n)
		}
	}
	if !slices.Equal(results[0].z.Data, results[1].z.Data) {
		t.Error("the steps differ")
	}
	m := integratorModel(t, 10)
	own := cfg
	own.Problem = unable{cfg.Problem}
	_, err := b.NewRefiner(backend.MapConfig{EncoderX: m.EncoderX, NormX: m.NormX, Step: own, InverseRange: []float64{1, 1}})
	if !errors.Is(err, backend.ErrNoRefiner) || !strings.Contains(err.Error(), "7 wheels") {
		t.Errorf("the refiner says %v, want ErrNoRefiner with the reason", err)
	}
}

// TestOneGraphPerBatchSize counts driver calls: a step is one graph launch, and a
// batch size seen before captures nothing and allocates nothing.
func TestOneGraphPerBatchSize(t *testing.T) {
	const rows = 20
	cfg, in := integratorStep(t, rows)
	library, b := metered(t, Options{})
	s := require.Get(b.NewStepper(cfg))(t)
	first := takeStep(t, s, cfg, in)
	few := backend.StepInput{Z: in.Z.Slice(0, 3), X: in.X.Slice(0, 3), Ctx: in.Ctx.Slice(0, 3), Weights: in.Weights.Slice(0, 3)}
	takeStep(t, s, cfg, few)
	count := func() [4]int {
		return [4]int{library.Calls("cuStreamBeginCapture_v2"), library.Calls("cuMemAlloc_v2"), library.Calls("cuGraphInstantiateWithFlags"), library.Calls("cuGraphLaunch")}
	}
	before := count()
	for range 3 {
		again := takeStep(t, s, cfg, in)
		if !slices.Equal(again.z.Data, first.z.Data) || !slices.Equal(again.u.Data, first.u.Data) {
			t.Error("the same step gives other bits")
		}
		takeStep(t, s, cfg, few)
	}
	after := count()
	if after[0] != before[0] || after[1] != before[1] || after[2] != before[2] {
		t.Errorf("six steps of known sizes capture %d graphs, allocate %d times and instantiate %d graphs, want none", after[0]-before[0], after[1]-before[1], after[2]-before[2])
	}
	if n := after[3] - before[3]; n != 6 {
		t.Errorf("six steps launch %d graphs, want one each", n)
	}
	// More sizes than the cache holds: the oldest graph is captured again.
	for n := 1; n <= rows; n++ {
		takeStep(t, s, cfg, backend.StepInput{Z: in.Z.Slice(0, n), X: tensor.Broadcast(in.X.Row(0), n), Ctx: in.Ctx.Slice(0, n), Weights: tensor.Broadcast(in.Weights.Row(0), n)})
	}
	if n := len(s.(*Stepper).graphs.order); n > maxGraphs {
		t.Errorf("%d graphs are kept, at most %d may be", n, maxGraphs)
	}
}

// TestKernelsHaveNoRaces runs everything with lanes and warps in other orders, on a GPU
// in whatever order it takes; a kernel in which one thread's write races with another's
// read would differ.
func TestKernelsHaveNoRaces(t *testing.T) {
	cfg, in := integratorStep(t, 9)
	m := integratorModel(t, 200)
	var first []float32
	for i, order := range []uint64{0, 1, 12345} {
		library, b := metered(t, Options{})
		shim.SetOrder(library, order)
		s := require.Get(b.NewStepper(cfg))(t)
		got := takeStep(t, s, cfg, in)
		result := slices.Concat(got.z.Data, got.u.Data, got.energy)
		decoded := tensor.New(m.Codes.Rows, m.DecoderS.Out())
		net := require.Get(b.NewNet(m.DecoderS))(t)
		require.OK(t, net.Forward(m.Codes, decoded))
		index := require.Get(b.NewIndex(m.Codes, decoded))(t)
		z, tau := tensor.New(9, m.Latent()), slices.Repeat([]float32{0.5}, 9)
		require.OK(t, index.Localize(tensor.Broadcast(decoded.Row(3), 9), in.Z, tau, 5, backend.LocalizeOutput{Z: z}))
		idx, dist := make([]int32, 9*40), make([]float32, 9*40)
		require.OK(t, index.Nearest(in.Z, 40, idx, dist))
		result = slices.Concat(result, z.Data, dist)
		if i == 0 {
			first = result
		} else if !slices.Equal(first, result) {
			t.Errorf("order %d of the lanes gives other results", order)
		}
	}
}

// TestShortMemoryIsTakenInChunks gives a backend little memory: a large batch goes
// through in parts, with the same results.
func TestShortMemoryIsTakenInChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mlp := require.Get(model.NewMLP(rng, 4, 9, 300))(t)
	z := tensor.New(900, 4)
	for i := range z.Data {
		z.Data[i] = float32(rng.NormFloat64())
	}
	var results [2]tensor.Matrix
	for i := range results {
		library, b := metered(t, Options{})
		if i == 1 {
			library.SetMemory(512 << 10)
		}
		net := require.Get(b.NewNet(mlp))(t)
		results[i] = tensor.New(900, 300)
		require.OK(t, net.Forward(z, results[i]))
	}
	if !slices.Equal(results[0].Data, results[1].Data) {
		t.Error("chunks give other results")
	}
}

// TestTensorCoresErrWithinTheirRounding takes the step with TF32 products: off by
// more than float32, by less than what 11-bit significands explain. There are as many rows as
// the device needs for tensor cores: fewer are multiplied in float32 with TF32 too.
func TestTensorCoresErrWithinTheirRounding(t *testing.T) {
	_, single := metered(t, Options{})
	_, tensorCores := metered(t, Options{TF32: true})
	cfg, in := integratorStep(t, productRows(tensorCores))
	worst := func(b backend.Backend) float64 {
		s := require.Get(b.NewStepper(cfg))(t)
		want := require.Get(ref.New().NewStepper(cfg))(t)
		got, exact := takeStep(t, s, cfg, in), takeStep(t, want, cfg, in)
		off := 0.0
		for i := range got.u.Data {
			off = math.Max(off, math.Abs(float64(got.u.Data[i])-float64(exact.u.Data[i])))
		}
		return off
	}
	fp32, tf32 := worst(single), worst(tensorCores)
	t.Logf("largest error of an action: %.2g in float32, %.2g in TF32", fp32, tf32)
	if !(tf32 > fp32 && tf32 < 2e-2) {
		t.Errorf("an action errs by %g in TF32 and %g in float32, want the former larger and below 0.02", tf32, fp32)
	}
}
