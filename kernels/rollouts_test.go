package kernels

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/paper/opf"
	"github.com/gpc-engine/gpc/tensor"
)

// roundConfig is the integrator's map for rounds of so many candidates.
func roundConfig(t testing.TB, rows int) backend.RolloutsConfig {
	t.Helper()
	return backend.RolloutsConfig{MapConfig: mapOf(t, integratorModel(t, 20), integrator.Convex().Problem, rows), Steps: 20}
}

// drawnRound is a round of so many candidates and steps, and room for its result.
func drawnRound(cfg *backend.RolloutsConfig, rows, steps int) (backend.RolloutsInput, backend.RolloutsOutput) {
	rng := rand.New(rand.NewPCG(9, uint64(steps)))
	in := backend.RolloutsInput{
		S: []float64{-2.2, 0.1, 1.2, -0.1}, C: []float64{0.9, 0.1, 0.15, 0.1, 0.2}, Preference: domain.Preference{Adaptive: true},
		Z: make([]float32, cfg.Step.DecoderS.In()), Offsets: tensor.New(rows, steps*cfg.Width()), Steps: steps,
	}
	for i := range in.Z {
		in.Z[i] = float32(rng.NormFloat64())
	}
	for i := range in.Offsets.Data {
		in.Offsets.Data[i] = float32(0.1 * rng.NormFloat64())
	}
	return in, backend.RolloutsOutput{Cost: make([]float64, rows), Margin: make([]float64, rows), First: tensor.New(rows, cfg.Step.DecoderU.Out())}
}

// all are the bits of a result.
func all(out backend.RolloutsOutput) (bits []uint64) {
	for _, v := range slices.Concat(out.Cost, out.Margin, wide32(out.First.Data)) {
		bits = append(bits, math.Float64bits(v))
	}
	return bits
}

// TestRoundsAreOneGraph holds the count of docs/contribute/cuda-kernels.md to the program, and
// what a round asks of the driver: one graph; nothing is captured or allocated for
// counts seen before, whatever the round before was.
func TestRoundsAreOneGraph(t *testing.T) {
	library, b := metered(t, Options{})
	cfg := roundConfig(t, 40)
	r := require.Get(b.NewRollouts(cfg))(t)
	lengths := []int{20, 7, 3, 1}
	for _, steps := range lengths {
		in, out := drawnRound(&cfg, 40, steps)
		before := library.Calls("kernel")
		require.OK(t, r.Score(in, out))
		if n := library.Calls("kernel") - before; n != 1 {
			t.Errorf("a round of %d steps launches %d kernels, want one", steps, n)
		}
	}
	dispatch := dispatchStates(t, opf.Thirty(), 1)
	warps := backend.RolloutsConfig{MapConfig: mapOf(t, bundledModel(t, "opf30", 20), opf.Thirty().Problem, 4), Steps: 4}
	taken := require.Get(b.NewRollouts(warps))(t)
	for _, steps := range []int{1, 4} {
		in, out := drawnRound(&warps, 4, steps)
		in.S, in.C = dispatch.s[0], dispatch.c[0]
		before := library.Calls("kernel")
		require.OK(t, taken.Score(in, out))
		if n, want := library.Calls("kernel")-before, 3+3*steps-2; n != want {
			t.Errorf("a round of %d dispatches launches %d kernels, want %d", steps, n, want)
		}
	}
	counted := []string{"cuGraphLaunch", "cuStreamBeginCapture_v2", "cuMemAlloc_v2", "cuMemHostAlloc", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuLaunchKernel"}
	before := map[string]int{}
	for _, s := range counted {
		before[s] = library.Calls(s)
	}
	for _, steps := range lengths {
		require.OK(t, r.Score(drawnRound(&cfg, 40, steps)))
	}
	for _, s := range counted {
		want := 0
		if s == "cuGraphLaunch" {
			want = len(lengths)
		}
		if n := library.Calls(s) - before[s]; n != want {
			t.Errorf("%d rounds call %s %d times, want %d", len(lengths), s, n, want)
		}
	}
}

// TestRoundsRepeat gives a round again, on the shim to lanes in another order, behind rounds of
// other sizes and on another object: the bits are the same. A candidate in other company
// is the same but for rounding.
func TestRoundsRepeat(t *testing.T) {
	library, b := metered(t, Options{})
	cfg := roundConfig(t, 40)
	r := require.Get(b.NewRollouts(cfg))(t)
	in, out := drawnRound(&cfg, 40, 6)
	require.OK(t, r.Score(in, out))
	want := all(out)
	for order := range 3 {
		shim.SetOrder(library, uint64(order))
		require.OK(t, r.Score(drawnRound(&cfg, 9, 4+order)))
		if order == 2 {
			r = require.Get(b.NewRollouts(cfg))(t)
		}
		require.OK(t, r.Score(in, out))
		if !slices.Equal(all(out), want) {
			t.Errorf("the same round again is another")
		}
	}
	some, part := drawnRound(&cfg, 40, 6)
	some.Offsets = some.Offsets.Slice(30, 35)
	part.Cost, part.Margin, part.First = part.Cost[:5], part.Margin[:5], part.First.Slice(0, 5)
	require.OK(t, r.Score(some, part))
	if err := backendtest.Near(slices.Concat(part.Cost, part.Margin, wide32(part.First.Data)), slices.Concat(out.Cost[30:35], out.Margin[30:35], wide32(out.First.Slice(30, 35).Data)), 1e-5); err != nil {
		t.Errorf("candidates alone: %v", err)
	}
}

// searched are the decisions of a few steps under the search.
func searched(t *testing.T, b backend.Backend, p domain.Problem, model string, o batchnav.SearchOptions, s, c []float64, steps int) (decisions []batchnav.Decision) {
	t.Helper()
	n := require.Get(batchnav.NewNavigator(b, bundledModel(t, model, 60), p, batchnav.Options{Search: o, Latents: true}))(t)
	s, c = slices.Clone(s), slices.Clone(c)
	for range steps {
		d := *require.Get(n.Decide(s, c, domain.Preference{Adaptive: true}))(t)
		d.U, d.Decoded, d.Latent, d.Sigma, d.Margins = slices.Clone(d.U), slices.Clone(d.Decoded), slices.Clone(d.Latent), slices.Clone(d.Sigma), slices.Clone(d.Margins)
		decisions = append(decisions, d)
		nextS, nextC := make([]float64, len(s)), make([]float64, len(c))
		p.Step(s, c, d.U, nextS, nextC)
		s, c = nextS, nextC
	}
	return decisions
}

// TestSearchOnDevice holds two decisions, the second with the memory of the first, whose
// rounds are the device's to those of the CPU: the same candidates, the same choices.
// Later rounding may decide between candidates as good as each other, and what is then
// drawn is another: TestRegretOfASearchOnDevice is about that.
func TestSearchOnDevice(t *testing.T) {
	cpu := require.Get(cpufallback.New(cpufallback.Options{Threads: 1}))(t)
	defer cpu.Close()
	device := onAny(t)
	dispatch := dispatchStates(t, opf.Thirty(), 2)
	for _, c := range []struct {
		problem domain.Problem
		model   string
		o       batchnav.SearchOptions
		s, c    []float64
	}{
		{integrator.Convex().Problem, "integrator-convex", batchnav.SearchOptions{Candidates: 64}, []float64{-2.2, 0.1, 1.2, -0.1}, []float64{0.9, 0.1, 0.15, 0.1, 0.2}},
		{integrator.Convex().Problem, "integrator-convex", batchnav.SearchOptions{Candidates: 40, LookAhead: 4}, []float64{-2.2, 0.1, 1.2, -0.1}, []float64{0.9, 0.1, 0.15, 0.1, 0.2}},
		{opf.Thirty().Problem, "opf30", batchnav.SearchOptions{Candidates: 32, LookAhead: 1}, dispatch.s[0], dispatch.c[0]},
	} {
		want, got := searched(t, cpu, c.problem, c.model, c.o, c.s, c.c, 2), searched(t, device, c.problem, c.model, c.o, c.s, c.c, 2)
		for i := range want {
			if got[i].Fallback != want[i].Fallback || want[i].Displacement == 0 {
				t.Errorf("%s, decision %d: fallback %v, want %v; displacement %v", c.model, i, got[i].Fallback, want[i].Fallback, want[i].Displacement)
			}
			if err := backendtest.Near(got[i].U, want[i].U, 1e-4); err != nil {
				t.Errorf("%s, decision %d: action: %v", c.model, i, err)
			}
			if err := backendtest.Near(wide32(got[i].Latent), wide32(want[i].Latent), 1e-4); err != nil {
				t.Errorf("%s, decision %d: latent: %v", c.model, i, err)
			}
		}
	}
}

// TestRegretOfASearchOnDevice takes an episode with every round on the device and one
// on the CPU: their regret is the same.
func TestRegretOfASearchOnDevice(t *testing.T) {
	if testing.Short() && !shim.OnGPU() {
		t.Skip("an episode on the shim takes ten seconds")
	}
	cpu := require.Get(cpufallback.New(cpufallback.Options{Threads: 1}))(t)
	defer cpu.Close()
	c := integrator.Convex()
	var regrets [2]float64
	for i, b := range []backend.Backend{cpu, onAny(t)} {
		n := require.Get(batchnav.NewNavigator(b, integratorModel(t, 60), c.Problem, batchnav.Options{Search: batchnav.SearchOptions{Candidates: 64}}))(t)
		episode := require.Get(c.Plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		optimum, _, err := episode.Oracle()
		require.OK(t, err)
		spec, cost := c.Problem.Spec(), 0.0
		s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		for !episode.Done() {
			episode.Observe(s, cx)
			d := require.Get(n.Decide(s, cx, domain.Preference{Adaptive: true}))(t)
			out := require.Get(episode.Apply(d.U))(t)
			cost += out.Cost
			if !spec.Keeps(out.Margin) || d.Fallback != 0 {
				t.Errorf("margin %g, fallback %v", out.Margin, d.Fallback)
			}
		}
		regrets[i] = (cost - optimum) / optimum
	}
	if r := regrets; !(r[0] > 0 && math.Abs(r[1]-r[0]) < 1e-8) {
		t.Errorf("a regret of %g, on the CPU it is %g", r[1], r[0])
	}
}

// TestRoundsThatAreNone names what is refused, and where the caller has to roll out.
func TestRoundsThatAreNone(t *testing.T) {
	library, b := metered(t, Options{})
	cart := testdomain.NewCart(5)
	m := testdomain.Map(cart, 5, false)
	plain := roundConfig(t, 4)
	plain.EncoderX, plain.NormX, plain.Step.DecoderS, plain.Step.DecoderU, plain.Step.NormS, plain.Step.NormU = m.EncoderX, m.NormX, m.DecoderS, m.DecoderU, m.NormS, m.NormU
	plain.Step.Problem, plain.Step.Params.TopK, plain.Codes, plain.Decoded = cart, 0, tensor.Matrix{}, tensor.Matrix{}
	if _, err := b.NewRollouts(plain); !errors.Is(err, backend.ErrNoRollouts) {
		t.Errorf("a problem without device functions: %v", err)
	}
	cfg := roundConfig(t, 8)
	r := require.Get(b.NewRollouts(cfg))(t)
	for says, change := range map[string]func(in *backend.RolloutsInput, out *backend.RolloutsOutput){
		"9 candidates": func(in *backend.RolloutsInput, _ *backend.RolloutsOutput) {
			in.Offsets = tensor.New(9, in.Offsets.Cols)
		},
		"0 steps":  func(in *backend.RolloutsInput, _ *backend.RolloutsOutput) { in.Steps = 0 },
		"21 steps": func(in *backend.RolloutsInput, _ *backend.RolloutsOutput) { in.Steps = 21 },
		"Offsets": func(in *backend.RolloutsInput, _ *backend.RolloutsOutput) {
			in.Offsets = tensor.New(3, in.Offsets.Cols-1)
		},
		"3 measured": func(in *backend.RolloutsInput, _ *backend.RolloutsOutput) { in.S = in.S[:3] },
		"latent":     func(in *backend.RolloutsInput, _ *backend.RolloutsOutput) { in.Z = in.Z[1:] },
		"Cost":       func(_ *backend.RolloutsInput, out *backend.RolloutsOutput) { out.Cost = out.Cost[:7] },
		"First":      func(_ *backend.RolloutsInput, out *backend.RolloutsOutput) { out.First = tensor.New(8, 1) },
		"weights": func(in *backend.RolloutsInput, _ *backend.RolloutsOutput) {
			in.Preference = domain.Preference{W: []float64{1}}
		},
	} {
		in, out := drawnRound(&cfg, 8, 6)
		change(&in, &out)
		if err := r.Score(in, out); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error with %q", err, says)
		}
	}
	for what, change := range map[string]func(*backend.RolloutsConfig){
		"plans of": func(c *backend.RolloutsConfig) { c.Steps = 0 },
		"E_x is":   func(c *backend.RolloutsConfig) { c.EncoderX = c.Step.DecoderS },
		"MaxBatch": func(c *backend.RolloutsConfig) { c.Step.MaxBatch = 0 },
	} {
		bad := roundConfig(t, 8)
		change(&bad)
		if _, err := b.NewRollouts(bad); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want an error with %q", err, what)
		}
	}
	library.SetMemory(1 << 20)
	if _, err := b.NewRollouts(roundConfig(t, 50000)); !errors.Is(err, backend.ErrNoRollouts) {
		t.Errorf("without memory: %v", err)
	}
}

// TestFaultsOfARound fails every driver call that a round and its preparation make: the
// context is lost, and every later call says so.
func TestFaultsOfARound(t *testing.T) {
	symbols := []string{"cuMemAlloc_v2", "cuMemHostAlloc", "cuMemcpyHtoD_v2", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuGraphLaunch", "cuStreamSynchronize", "kernel"}
	run := func(b *Backend) error {
		cfg := roundConfig(t, 8)
		r, err := b.NewRollouts(cfg)
		if err != nil {
			return err
		}
		for _, steps := range []int{3, 2, 3} {
			if err := r.Score(drawnRound(&cfg, 8, steps)); err != nil {
				return err
			}
		}
		return nil
	}
	library, b := onShim(t, Options{})
	library.Reset()
	require.OK(t, run(b))
	calls := map[string]int{}
	for _, s := range symbols {
		if calls[s] = library.Calls(s); calls[s] == 0 {
			t.Errorf("%s is never called; the list of this test is out of date", s)
		}
	}
	const illegalAddress = 700
	for _, symbol := range symbols {
		for n := 1; n <= calls[symbol]; n += max(1, calls[symbol]-1) {
			library, b := onShim(t, Options{})
			library.Fail(symbol, n, illegalAddress)
			var lost *driver.LostError
			for range 2 {
				if err := run(b); !errors.As(err, &lost) {
					t.Errorf("%s failing at call %d: %v, want a *driver.LostError", symbol, n, err)
				}
			}
			b.Close()
		}
	}
}
