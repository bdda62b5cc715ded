package kernels

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/tensor"
)

// drive takes closed loops of the integrator through a few decisions with noisy
// measurements, one loop blind now and then, and gives every decision.
func drive(t testing.TB, b backend.Backend, opt batchnav.Options, loops, steps int) (decisions []batchnav.Decision) {
	t.Helper()
	problem := integrator.Convex().Problem
	nav := problem.Spec().Navigation
	nav.LatentStep, nav.VMax, nav.LieGain, nav.RetractionMix, nav.Smoothing, nav.PriorityFilter = 0.05, 2, 0.2, 0.3, 0.4, 0.6
	opt.Navigation, opt.Latents = &nav, true
	batch := require.Get(batchnav.NewBatch(b, integratorModel(t, 300), problem, opt, loops))(t)
	if _, device := b.(backend.LoopsBackend); device != batch.OnDevice() {
		t.Errorf("latents on the device: %v, want %v", batch.OnDevice(), device)
	}
	rng := rand.New(rand.NewPCG(11, 12))
	spec := problem.Spec()
	obs, out := make([]batchnav.Observation, loops), make([]batchnav.Decision, loops)
	next, nextC := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	for i := range obs {
		obs[i] = batchnav.Observation{S: []float64{-2.2 + 0.05*float64(i), 0.1, 1.2, -0.1}, C: []float64{0.9, 0.1, 0.15, 0.1, 0.2}, Preference: domain.Preference{Adaptive: true}}
		if i%5 == 4 {
			obs[i].Preference = domain.Preference{W: []float64{0.3, 0.7}}
		}
	}
	for step := range steps {
		given := make([]batchnav.Observation, loops)
		for i := range obs {
			s := make([]float64, len(obs[i].S))
			for j := range s {
				s[j] = obs[i].S[j] + 0.1*float64(1-2*(step%2))*(1+0.3*rng.Float64())
			}
			if step == 2 && i == 1 {
				s[0] = math.NaN()
			}
			given[i] = batchnav.Observation{S: s, C: obs[i].C, Preference: obs[i].Preference}
		}
		require.OK(t, batch.Decide(given, out))
		for i := range out {
			d := out[i]
			d.U, d.Decoded, d.Latent = append([]float64(nil), d.U...), append([]float32(nil), d.Decoded...), append([]float32(nil), d.Latent...)
			d.Sigma, d.Margins = append([]float64(nil), d.Sigma...), append([]float64(nil), d.Margins...)
			d.Times = domain.Times{}
			decisions = append(decisions, d)
			problem.Step(obs[i].S, obs[i].C, d.U, next, nextC)
			copy(obs[i].S, next)
			copy(obs[i].C, nextC)
		}
		if step == 3 {
			batch.ResetLoop(0)
		}
	}
	return decisions
}

// sameDecisions says where two runs differ by more than rounding.
func sameDecisions(t testing.TB, got, want []batchnav.Decision) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d decisions, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Fallback != w.Fallback || g.Consistent != w.Consistent || math.Abs(g.NoiseVariance-w.NoiseVariance) > 1e-4*w.NoiseVariance {
			t.Errorf("decision %d: fallback %v, consistent %v, variance %g, want %v, %v, %g", i, g.Fallback, g.Consistent, g.NoiseVariance, w.Fallback, w.Consistent, w.NoiseVariance)
		}
		if w.Fallback&domain.FallbackObservation != 0 {
			continue // no latent stands behind it
		}
		for _, v := range []struct {
			what      string
			got, want []float64
		}{
			{"action", g.U, w.U}, {"plan", wide32(g.Decoded), wide32(w.Decoded)}, {"latent", wide32(g.Latent), wide32(w.Latent)}, {"σ", g.Sigma, w.Sigma}, {"margins", g.Margins, w.Margins},
			{"residual and displacement", []float64{g.Residual, g.Displacement}, []float64{w.Residual, w.Displacement}},
		} {
			if err := backendtest.Near(v.got, v.want, 2e-4); err != nil {
				t.Fatalf("decision %d, %s: %v", i, v.what, err)
			}
		}
	}
}

// TestLoopsStayOnDevice holds decisions whose latents never leave the device to the
// same loops in single operations, on the reference and on this backend.
func TestLoopsStayOnDevice(t *testing.T) {
	for name, opt := range map[string]batchnav.Options{
		"navigator": {}, "no retraction": {NoRetraction: true}, "no Lie residual": {NoLie: true}, "direct": {Direct: true}, "no semantics": {NoSemantic: true}, "observer": {Observer: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := onAny(t)
			want := drive(t, ref.New(), opt, 6, 6)
			sameDecisions(t, drive(t, b, opt, 6, 6), want)
			smoothed := 0
			for _, d := range want {
				if d.NoiseVariance > 0 {
					smoothed++
				}
			}
			if smoothed < 10 {
				t.Errorf("only %d decisions under noise: smoothing was not tried", smoothed)
			}
		})
	}
}

// TestLatentsCrossOnRequestAlone counts what a decision asks of the driver: one
// graph, and a wait.
func TestLatentsCrossOnRequestAlone(t *testing.T) {
	library, b := metered(t, Options{})
	cfg := loopsConfig(t, 5)
	l := require.Get(b.NewLoops(cfg))(t)
	in, out := loopsCall(cfg)
	for range 2 {
		require.OK(t, l.Decide(in, out))
	}
	counted := []string{"cuGraphLaunch", "cuStreamBeginCapture_v2", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel"}
	before := map[string]int{}
	for _, s := range counted {
		before[s] = library.Calls(s)
	}
	const more = 3
	for range more {
		require.OK(t, l.Decide(in, out))
	}
	for _, s := range counted {
		want := 0
		if s == "cuGraphLaunch" {
			want = more
		}
		if n := library.Calls(s) - before[s]; n != want {
			t.Errorf("%d decisions call %s %d times, want %d", more, s, n, want)
		}
	}
}

// mapOf is a map with its problem for batches of so many rows.
func mapOf(t testing.TB, m *model.Model, problem domain.Problem, rows int) backend.MapConfig {
	t.Helper()
	decoded := m.CodesDecoded
	if decoded.Rows == 0 {
		decoded = tensor.New(m.Codes.Rows, m.DecoderS.Out())
		require.OK(t, m.DecoderS.Forward(m.Codes, decoded))
	}
	return backend.MapConfig{
		EncoderX: m.EncoderX, NormX: m.NormX, Codes: m.Codes, Decoded: decoded, Neighbours: 6, InverseRange: []float64{1.5, 0.5, 1}[:problem.Spec().ObjectiveSize()],
		Step: backend.StepperConfig{
			DecoderS: m.DecoderS, DecoderU: m.DecoderU, NormS: m.NormS, NormU: m.NormU, Problem: problem, MaxBatch: rows,
			Params: backend.StepParams{Dt: 0.05, VMax: 1, Epsilon: 0.1, MetricLambda: 1e-3, TopK: 4, LieGain: 0.1, LieScale: 0.1},
		},
	}
}

// loopsConfig is the integrator's map for so many loops.
func loopsConfig(t testing.TB, loops int) backend.LoopsConfig {
	t.Helper()
	return backend.LoopsConfig{
		MapConfig:     mapOf(t, integratorModel(t, 200), integrator.Convex().Problem, loops),
		RetractionMix: 0.25, PriorityFilter: 0.5, Smooths: true,
	}
}

// loopsCall is one decision of a configuration, and room for its result.
func loopsCall(cfg backend.LoopsConfig) (backend.LoopsInput, backend.LoopsOutput) {
	spec, n := cfg.Step.Problem.Spec(), cfg.Step.MaxBatch
	m := spec.ObjectiveSize()
	in := backend.NewLoopsInput(spec, n)
	for i := range n {
		copy(in.S.Row(i), []float32{-2.2 + 0.07*float32(i%40), 0.1 - 0.01*float32(i%7), 1.2, -0.1})
		copy(in.C[5*i:], []float64{0.9, 0.1, 0.15, 0.1, 0.2})
		in.Slot.Row(i)[0] = 1
		in.Tau[i], in.Smoothing[i], in.Steering[i] = 0.05, 1-0.5*float32(i%2), backend.SteerFilter
		for j := range m {
			in.Sigma[i*m+j] = 1 / float64(m)
		}
	}
	return in, backend.NewLoopsOutput(spec, n)
}

// TestLatentsAreReadAndReplaced takes latents from one object to another half way:
// both go on alike. A loop without a latent says so.
func TestLatentsAreReadAndReplaced(t *testing.T) {
	b := onAny(t)
	cfg := loopsConfig(t, 7)
	in, out := loopsCall(cfg)
	begin := func() backend.Loops {
		l := require.Get(b.NewLoops(cfg))(t)
		return l
	}
	decide := func(l backend.Loops) {
		t.Helper()
		require.OK(t, l.Decide(in, out))
	}
	first, second := begin(), begin()
	z := tensor.New(7, cfg.Step.DecoderS.In())
	if err := first.Latents(z); err != nil || !math.IsNaN(float64(z.Row(6)[0])) {
		t.Errorf("before the first decision a latent is %v, %v, want NaN", z.Row(6)[0], err)
	}
	alphas := in.Smoothing
	in.Smoothing = slices.Repeat([]float32{1}, 7)
	decide(first)
	in.Smoothing = alphas
	require.OK(t, first.Latents(z))
	if err := second.SetLatents(z); err != nil {
		t.Fatal(err)
	}
	in.S.Row(0)[0] += 0.2
	out.Z = tensor.New(7, z.Cols)
	decide(first)
	plan, latents := out.U.Clone(), out.Z.Clone()
	decide(second)
	if !slices.Equal(out.U.Data, plan.Data) || !slices.Equal(out.Z.Data, latents.Data) {
		t.Error("the object that took the latents over decides otherwise")
	}
	if slices.Equal(latents.Data, z.Data) {
		t.Error("a decision leaves the latents where they were")
	}
	if err := second.SetLatents(tensor.New(3, z.Cols)); err == nil {
		t.Error("latents of three loops are accepted for seven")
	}
}

// TestLoopsInChunks gives the device too little memory for all loops at once: the
// same decisions, chunk by chunk.
func TestLoopsInChunks(t *testing.T) {
	cfg := loopsConfig(t, 150)
	cfg.Projects = true
	in, out := loopsCall(cfg)
	askForActions(cfg, &in, &out)
	var plans [2]tensor.Matrix
	var actions, margins [2][]float64
	used := 0
	for i := range plans {
		library, b := metered(t, Options{})
		if i == 1 {
			library.SetMemory(used - 128<<10)
		}
		made := require.Get(b.NewLoops(cfg))(t)
		if l := made.(*loops); (l.chunk < 150) != (i == 1) {
			t.Fatalf("chunks of %d loops", l.chunk)
		}
		used = library.Used()
		alphas := in.Smoothing
		in.Smoothing = slices.Repeat([]float32{1}, 150)
		for range 2 {
			require.OK(t, made.Decide(in, out))
			in.Smoothing = alphas
		}
		plans[i], actions[i], margins[i] = out.U.Clone(), slices.Clone(out.Action), slices.Clone(out.Margins)
	}
	if err := errors.Join(backendtest.Near(actions[1], actions[0], 1e-4), backendtest.Near(margins[1], margins[0], 1e-4)); err != nil {
		t.Errorf("projected in chunks: %v", err)
	}
	for i, v := range plans[0].Data {
		if d := math.Abs(float64(v - plans[1].Data[i])); !(d < 1e-4) {
			t.Fatalf("entry %d of the plans is %v in chunks, want %v", i, plans[1].Data[i], v)
		}
	}
}
