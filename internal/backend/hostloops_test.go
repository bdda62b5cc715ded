package backend_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

const rows = 5

// config is the cart's exact map, z = (q, v, w₂), without a Lie residual, which the step's own
// tests are about.
func config() (backend.LoopsConfig, *model.Model) {
	p := testdomain.NewCart(20)
	m := testdomain.Map(p, 13, false)
	return backend.LoopsConfig{
		MapConfig: backend.MapConfig{
			EncoderX: m.EncoderX, NormX: m.NormX,
			Step: backend.StepperConfig{
				DecoderS: m.DecoderS, DecoderU: m.DecoderU, NormS: m.NormS, NormU: m.NormU, Problem: p, MaxBatch: rows,
				Params: backend.StepParams{Dt: 0.05, VMax: 1, Epsilon: 0.2, MetricLambda: 1e-3},
			},
			Codes: m.Codes, Decoded: m.CodesDecoded, Neighbours: 4, InverseRange: []float64{1, 0.5},
		},
		PriorityFilter: 0.5, Smooths: true,
	}, m
}

func made(t *testing.T, cfg backend.LoopsConfig) *backend.HostLoops {
	t.Helper()
	return require.Get(backend.NewHostLoops(ref.New(), cfg))(t)
}

// observed is a decision's input of states at random under a kept preference.
func observed(rng *rand.Rand) backend.LoopsInput {
	in := backend.LoopsInput{
		S: tensor.New(rows, 2), C: make([]float64, rows), Slot: tensor.New(rows, 3), Tau: make([]float32, rows), Smoothing: make([]float32, rows),
		Hold: make([]bool, rows), Steering: make([]backend.Steering, rows), Sigma: make([]float64, 2*rows),
	}
	for i := range rows {
		in.S.Row(i)[0], in.S.Row(i)[1], in.C[i] = float32(2*rng.Float64()-1), float32(rng.Float64()-0.5), rng.Float64()
		copy(in.Slot.Row(i), []float32{1, 0.7, 0.3})
		in.Tau[i], in.Smoothing[i] = 1, 1
		in.Sigma[2*i], in.Sigma[2*i+1] = 0.7, 0.3
	}
	return in
}

func answer() backend.LoopsOutput {
	return backend.LoopsOutput{
		U: tensor.New(rows, 1), Sigma: make([]float64, 2*rows), Residual: make([]float64, rows), Displacement: make([]float64, rows),
		Fallbacks: make([]backend.Fallback, rows), Flags: make([]backend.LoopFlag, rows), Z: tensor.New(rows, 3),
	}
}

// decided is what loops answer.
func decided(t *testing.T, l *backend.HostLoops, in backend.LoopsInput) backend.LoopsOutput {
	t.Helper()
	out := answer()
	require.OK(t, l.Decide(in, out))
	return out
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-5*(1+math.Abs(b)) }

// Without localization and flow the latent is E_x's, mixed with the one before by α:
// z_t = (1−α) z_{t−1} + α E_x; a loop on hold keeps the one it had.
func TestSmoothingMixesWithTheLatentBefore(t *testing.T) {
	cfg, _ := config()
	cfg.Direct = true
	l := made(t, cfg)
	rng := rand.New(rand.NewPCG(1, 2))
	first := observed(rng)
	before := decided(t, l, first).Z
	second := observed(rng)
	copy(second.Smoothing, []float32{1, 0.25, 0, 0.75, 0.5})
	second.Hold[4] = true
	out := decided(t, l, second)
	kept := tensor.New(rows, 3)
	require.OK(t, l.Latents(kept))
	for i := range rows {
		exact := []float32{second.S.Row(i)[0], second.S.Row(i)[1], 0.3} // what E_x says
		alpha := float64(second.Smoothing[i])
		if second.Hold[i] {
			alpha = 1
		}
		for j, z := range out.Z.Row(i) {
			want := (1-alpha)*float64(before.Row(i)[j]) + alpha*float64(exact[j])
			if !near(float64(z), want) {
				t.Errorf("loop %d, α %v: z%d is %v, want %v", i, alpha, j, z, want)
			}
		}
		want := out.Z.Row(i)
		if second.Hold[i] {
			want = before.Row(i)
		}
		if !slices.Equal(kept.Row(i), want) {
			t.Errorf("loop %d, hold %v: it goes on from %v, want %v", i, second.Hold[i], kept.Row(i), want)
		}
		// D_s is exact, so that the residual is how far smoothing leads off.
		r := 0.0
		for j := range 2 {
			r += math.Pow(float64(out.Z.Row(i)[j]-second.S.Row(i)[j]), 2)
		}
		if !near(out.Residual[i], r) || out.Displacement[i] != 0 {
			t.Errorf("loop %d: residual %v and displacement %v, want %v and 0", i, out.Residual[i], out.Displacement[i], r)
		}
	}
}

// A decision ends at (1−μ_R) z̄ + μ_R Π(z̄): z̄ is where it ends without retraction, Π the
// localization of it, and the action is decoded there.
func TestRetractionMixesWithTheManifold(t *testing.T) {
	cfg, m := config()
	cfg.Neighbours, cfg.Step.Params.Dt = 1, 0.2 // onto single codes, which a long step leads off
	in := observed(rand.New(rand.NewPCG(3, 4)))
	moved := decided(t, made(t, cfg), in)
	index := require.Get(ref.New().NewIndex(m.Codes, m.CodesDecoded))(t)
	on := tensor.New(rows, 3)
	require.OK(t, index.Localize(in.S, moved.Z, in.Tau, cfg.Neighbours, backend.LocalizeOutput{Z: on, Nearest: make([]int32, rows), Residual: make([]float32, rows), Consistent: make([]bool, rows)}))
	for _, mu := range []float64{0.25, 1} {
		cfg.RetractionMix = mu
		out := decided(t, made(t, cfg), in)
		far := 0.0
		for i := range rows {
			for j, z := range out.Z.Row(i) {
				bar, onto := float64(moved.Z.Row(i)[j]), float64(on.Row(i)[j])
				if want := (1-mu)*bar + mu*onto; !near(float64(z), want) {
					t.Errorf("μ_R %v, loop %d: z%d is %v, want %v of %v and %v", mu, i, j, z, want, bar, onto)
				}
				far = math.Max(far, math.Abs(bar-onto))
			}
			z := out.Z.Row(i)
			u := testdomain.Feedback[0]*float64(z[0]) + testdomain.Feedback[1]*float64(z[1]) + 0.2*float64(z[2])
			if u = math.Max(-1, math.Min(1, u)); !near(float64(out.U.Row(i)[0]), u) {
				t.Errorf("μ_R %v, loop %d: the action is %v, that of its latent %v", mu, i, out.U.Row(i)[0], u)
			}
		}
		if far < 0.05 {
			t.Errorf("z̄ and Π(z̄) are %v apart: too near to tell", far)
		}
	}
}

// σ is kept, set by the indicators at ŝ, or taken a step towards them; the residual filter is
// said to be met or not, and what is not a number leaves the loop where it was.
func TestSteeringAndFlagsOfLoops(t *testing.T) {
	cfg, _ := config()
	cfg.Direct = true
	l := made(t, cfg)
	rng := rand.New(rand.NewPCG(5, 6))
	before := decided(t, l, observed(rng)).Z
	in := observed(rng)
	copy(in.Steering, []backend.Steering{backend.SteerKeep, backend.SteerSet, backend.SteerFilter})
	in.S.Row(4)[0] = float32(math.NaN())
	out := decided(t, l, in)
	spec := cfg.Step.Problem.Spec()
	for i, how := range in.Steering[:3] {
		s := []float64{float64(in.S.Row(i)[0]), float64(in.S.Row(i)[1])}
		u := []float64{float64(out.U.Row(i)[0])}
		delta, want := make([]float64, 2), []float64{0.7, 0.3}
		cfg.Step.Problem.Indicators(s, u, in.C[i:i+1], delta)
		fresh := make([]float64, 2)
		spec.Semantic.Priority(delta, fresh)
		for j := range want {
			switch how {
			case backend.SteerSet:
				want[j] = fresh[j]
			case backend.SteerFilter:
				want[j] += cfg.PriorityFilter * (fresh[j] - want[j])
			}
			if !near(out.Sigma[2*i+j], want[j]) {
				t.Errorf("steering %d: σ%d is %v, want %v", how, j, out.Sigma[2*i+j], want[j])
			}
		}
		if steered := out.Flags[i]&backend.LoopSteered != 0; steered != (how != backend.SteerKeep) || out.Flags[i]&backend.LoopFinite == 0 {
			t.Errorf("steering %d: flags %b", how, out.Flags[i])
		}
	}
	kept := tensor.New(rows, 3)
	require.OK(t, l.Latents(kept))
	if out.Flags[4]&backend.LoopFinite != 0 || !slices.Equal(kept.Row(4), before.Row(4)) {
		t.Errorf("a state that is no number: flags %b, the latent went from %v to %v", out.Flags[4], before.Row(4), kept.Row(4))
	}
	cfg.Direct = false
	in = observed(rng)
	in.S.Row(0)[0] = 40 // no code is near
	out = decided(t, made(t, cfg), in)
	if out.Flags[0]&backend.LoopConsistent != 0 || out.Flags[1]&backend.LoopConsistent == 0 {
		t.Errorf("the residual filter is met in loops %b and %b, want in the second alone", out.Flags[0], out.Flags[1])
	}
}

// Loops begin without latents, go on from those that they are given, and refuse what does not
// fit.
func TestLatentsOfLoops(t *testing.T) {
	cfg, _ := config()
	cfg.Direct = true
	l := made(t, cfg)
	z := tensor.New(rows, 3)
	require.OK(t, l.Latents(z))
	for _, v := range z.Data {
		if !math.IsNaN(float64(v)) {
			t.Fatalf("before the first decision the latents are %v", z.Data)
		}
	}
	given := tensor.New(rows, 3)
	for i := range given.Data {
		given.Data[i] = float32(i)
	}
	require.OK(t, l.SetLatents(given))
	in := observed(rand.New(rand.NewPCG(7, 8)))
	clear(in.Smoothing)
	if out := decided(t, l, in); !slices.Equal(out.Z.Data, given.Data) {
		t.Errorf("with α = 0 the loops end at %v, they were given %v", out.Z.Data, given.Data)
	}
	short := answer()
	short.Residual = short.Residual[1:]
	if err := l.Decide(in, short); err == nil {
		t.Error("four residuals of five loops are accepted")
	}
	if err := l.SetLatents(tensor.New(rows, 2)); err == nil {
		t.Error("latents of another size are accepted")
	}
	cfg.RetractionMix = 1.5
	if _, err := backend.NewHostLoops(ref.New(), cfg); err == nil {
		t.Error("μ_R = 1.5 is accepted")
	}
}

// Loops in single operations leave projections to the caller, and refuse to be asked for what
// does not fit.
func TestProjectionsOfLoopsAreTheCallers(t *testing.T) {
	cfg, _ := config()
	in, out := observed(rand.New(rand.NewPCG(9, 8))), answer()
	out.Action, out.Margins = make([]float64, rows), make([]float64, 2*rows)
	if err := made(t, cfg).Decide(in, out); err == nil || !strings.Contains(err.Error(), "without Projects") {
		t.Errorf("projected actions of loops that have none: %v", err)
	}
	cfg.Projects = true
	l := made(t, cfg)
	if err := l.Decide(in, out); err == nil || !strings.Contains(err.Error(), "State has 0 entries, want 10") {
		t.Errorf("projected actions without a state: %v", err)
	}
	in.State, out.Margins = make([]float64, 2*rows), out.Margins[:2*rows-1]
	if err := l.Decide(in, out); err == nil || !strings.Contains(err.Error(), "Margins has 9 entries, want 10") {
		t.Errorf("nine margins of five loops: %v", err)
	}
	out.Margins = out.Margins[:2*rows]
	require.OK(t, l.Decide(in, out))
	for i, f := range out.Flags {
		if f&backend.LoopProjected != 0 || f&backend.LoopFinite == 0 {
			t.Errorf("loop %d has flags %b", i, f)
		}
	}
	if few, of := in.First(2), out.First(2); len(few.State) != 4 || len(of.Action) != 2 || len(of.Margins) != 4 {
		t.Errorf("two loops have %d entries of states, %d of actions, %d margins", len(few.State), len(of.Action), len(of.Margins))
	}
}

// Some of the loops decide as they do among all, to the bit, and the others stay as they were.
func TestSomeDecideAsAmongAll(t *testing.T) {
	cfg, _ := config()
	all, some := made(t, cfg), made(t, cfg)
	rng := rand.New(rand.NewPCG(5, 6))
	for step, which := range [][]int{{0, 1, 2, 3, 4}, {3, 0}, {2}, {4, 2, 0, 1}} {
		in := observed(rng)
		for i := range in.Smoothing {
			if in.Smoothing[i] = 0.4; step == 0 {
				in.Smoothing[i] = 1
			}
			in.Hold[i] = !slices.Contains(which, i)
		}
		want := decided(t, all, in)
		n := len(which)
		few, got := observed(rng), answer()
		few.S, few.Slot, few.C, few.Tau, few.Smoothing, few.Hold, few.Steering, few.Sigma = few.S.Slice(0, n), few.Slot.Slice(0, n), few.C[:n], few.Tau[:n], few.Smoothing[:n], few.Hold[:n], few.Steering[:n], few.Sigma[:2*n]
		got.U, got.Z, got.Sigma, got.Residual, got.Displacement, got.Fallbacks, got.Flags = got.U.Slice(0, n), got.Z.Slice(0, n), got.Sigma[:2*n], got.Residual[:n], got.Displacement[:n], got.Fallbacks[:n], got.Flags[:n]
		for row, i := range which {
			copy(few.S.Row(row), in.S.Row(i))
			copy(few.Slot.Row(row), in.Slot.Row(i))
			few.C[row], few.Tau[row], few.Smoothing[row], few.Steering[row] = in.C[i], in.Tau[i], in.Smoothing[i], in.Steering[i]
			copy(few.Sigma[2*row:2*row+2], in.Sigma[2*i:])
		}
		require.OK(t, some.DecideSome(which, few, got))
		for row, i := range which {
			if !slices.Equal(got.U.Row(row), want.U.Row(i)) || !slices.Equal(got.Z.Row(row), want.Z.Row(i)) || got.Residual[row] != want.Residual[i] || got.Flags[row] != want.Flags[i] {
				t.Errorf("decision %d, loop %d: u %v, z %v, among all %v, %v", step, i, got.U.Row(row), got.Z.Row(row), want.U.Row(i), want.Z.Row(i))
			}
		}
		a, b := tensor.New(rows, 3), tensor.New(rows, 3)
		require.OK(t, all.Latents(a))
		require.OK(t, some.Latents(b))
		if !slices.Equal(a.Data, b.Data) {
			t.Errorf("decision %d: latents %v, among all %v", step, b.Data, a.Data)
		}
	}
}
