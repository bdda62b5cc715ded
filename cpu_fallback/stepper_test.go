package cpufallback

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// bowl is a smooth problem that allocates nothing:
//
//	J_1 = ½Σ_i (s_i − c_0)²,  J_2 = ½Σ_j u_j²,  J_3 = Σ_j sin(s_0)·u_j
//
// with Base = c/10 + s/20 and the box |u| ≤ 0.6 on all action entries but the last.
type bowl struct {
	domain.Problem // the rest of the contract is not used
	spec           domain.Spec
}

func newBowl(measured, context, action, plan int) *bowl {
	p := &bowl{spec: domain.Spec{
		Name:     "bowl",
		Measured: make([]domain.Variable, measured), Context: make([]domain.Variable, context),
		Action: make([]domain.Variable, action), Objectives: make([]domain.Variable, 3), Plan: plan,
	}}
	for j := range action - 1 {
		p.spec.Action[j] = domain.Variable{Lo: -0.6, Hi: 0.6}
	}
	return p
}

func (p *bowl) Spec() *domain.Spec { return &p.spec }

func (p *bowl) Base(s, c, plan []float64) {
	for j := range plan {
		plan[j] = 0.1*c[j%len(c)] + 0.05*s[j%len(s)]
	}
}

func (p *bowl) Objectives(s, u, c, J []float64) {
	clear(J)
	for _, v := range s {
		J[0] += 0.5 * (v - c[0]) * (v - c[0])
	}
	for _, v := range u {
		J[1] += 0.5 * v * v
		J[2] += math.Sin(s[0]) * v
	}
}

func (p *bowl) Gradient(s, u, c, sigma, gs, gu []float64) {
	for i, v := range s {
		gs[i] = sigma[0] * (v - c[0])
	}
	sum := 0.0
	for j, v := range u {
		gu[j] = sigma[1]*v + sigma[2]*math.Sin(s[0])
		sum += v
	}
	gs[0] += sigma[2] * math.Cos(s[0]) * sum
}

// batchBowl evaluates whole batches itself.
type batchBowl struct{ *bowl }

func (p batchBowl) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Rows: p.GradientBatch}}
}

func (p batchBowl) GradientBatch(b domain.Batch) {
	for r := range b.Rows {
		s, u := b.S[r*b.SStride:][:len(p.spec.Measured)], b.U[r*b.UStride:][:len(p.spec.Action)]
		c0, sigma := b.C[r*b.CStride], b.Sigma[r*b.SigmaStride:][:3]
		gs, gu := b.GS[r*b.GSStride:][:len(s)], b.GU[r*b.GUStride:][:len(u)]
		sin, cos := math.Sincos(float64(s[0]))
		J := [3]float32{}
		for i, v := range s {
			gs[i] = sigma[0] * (v - c0)
			J[0] += 0.5 * (v - c0) * (v - c0)
		}
		for j, v := range u {
			gu[j] = sigma[1]*v + sigma[2]*float32(sin)
			gs[0] += sigma[2] * float32(cos) * v
			J[1] += 0.5 * v * v
			J[2] += float32(sin) * v
		}
		if b.J != nil {
			copy(b.J[r*b.JStride:][:3], J[:])
		}
	}
}

// stepCase is one model of the tests.
type stepCase struct {
	latent, hidden, measured, context, action, plan int
	params                                          backend.StepParams
}

var plainParams = backend.StepParams{Dt: 0.125, VMax: 2, Epsilon: 0.5, MetricLambda: 0.05, TopK: 3, LieGain: 0.2, LieScale: 1.5}

var (
	opfSize      = stepCase{32, 256, 60, 7, 12, 1, plainParams}
	caseOneSize  = stepCase{16, 256, 4, 9, 2, 1, plainParams}
	planSize     = stepCase{6, 33, 12, 3, 2, 5, plainParams}
	rotationSize = stepCase{8, 40, 9, 2, 3, 1, with(plainParams, func(p *backend.StepParams) { p.Group.RotationBlocks = 2 })}
)

func with(p backend.StepParams, change func(*backend.StepParams)) backend.StepParams {
	change(&p)
	return p
}

func (c stepCase) config(t testing.TB, rng *rand.Rand) backend.StepperConfig {
	normalizer := func(n int) model.Normalizer {
		m := model.Normalizer{Mean: make([]float32, n), Scale: make([]float32, n)}
		for i := range n {
			m.Mean[i], m.Scale[i] = float32(0.2*rng.NormFloat64()), 0.5+rng.Float32()
		}
		return m
	}
	plan := c.action * c.plan
	return backend.StepperConfig{
		DecoderS: testdomain.Network(rng, 0.3, c.latent, c.hidden, c.hidden, c.measured),
		DecoderU: testdomain.Network(rng, 0.3, c.latent, c.hidden, c.hidden, plan),
		NormS:    normalizer(c.measured), NormU: normalizer(plan),
		Problem: newBowl(c.measured, c.context, c.action, c.plan), Params: c.params, MaxBatch: 4096,
	}
}

func (c stepCase) input(rng *rand.Rand, rows int) backend.StepInput {
	in := backend.StepInput{
		Z: randomRows(rng, rows, c.latent, c.latent), X: randomRows(rng, rows, c.measured, c.measured),
		Ctx: randomRows(rng, rows, c.context, c.context), Weights: tensor.New(rows, 3),
	}
	for i := range in.Weights.Data {
		in.Weights.Data[i] = rng.Float32()
	}
	return in
}

// reference is the float64 step of one row.
type reference struct {
	cfg    backend.StepperConfig
	energy ref.Energy
}

func newReference(cfg backend.StepperConfig) reference {
	return reference{cfg, ref.Energy{
		DecoderS: ref.Widen(cfg.DecoderS), DecoderU: ref.Widen(cfg.DecoderU),
		NormS: ref.WidenNormalizer(cfg.NormS), NormU: ref.WidenNormalizer(cfg.NormU),
		Problem: cfg.Problem, Epsilon: float64(cfg.Params.Epsilon),
	}}
}

func widened(v []float32) []float64 {
	w := make([]float64, len(v))
	tensor.Widen(w, v)
	return w
}

// determined redraws latents until float32 and float64 must agree on the step:
// both fields away from the kinks of the networks, the metric's leading
// eigenvalues apart (the sign of an eigenvector changes the residual, so its
// largest entry must lead too).
func (r reference) determined(rng *rand.Rand, in backend.StepInput) {
	const kink, apart = 2e-6, 2e-2
	p := r.cfg.Params
	for b := range in.Z.Rows {
		for draw := 0; ; draw++ {
			if draw == 1000 {
				panic("no latent of this model is away from the kinks")
			}
			z := widened(in.Z.Row(b))
			smooth := func(z []float64) bool {
				return backendtest.KinkMargin(r.energy.DecoderS, z) > kink && backendtest.KinkMargin(r.energy.DecoderU, z) > kink
			}
			f, _ := r.energy.Field(z, widened(in.X.Row(b)), widened(in.Ctx.Row(b)), widened(in.Weights.Row(b)))
			mid := slices.Clone(z)
			for i, k := range ref.Cap(f, float64(p.VMax)) {
				mid[i] += float64(p.Dt) / 2 * k
			}
			if smooth(z) && smooth(mid) && frameApart(r.energy.DecoderS.Metric(z, float64(p.MetricLambda)), len(z), p.TopK, apart) {
				break
			}
			for i := range in.Z.Row(b) {
				in.Z.Row(b)[i] = float32(rng.NormFloat64())
			}
		}
	}
}

func frameApart(g []float64, n, k int, apart float64) bool {
	values, vectors := ref.EigTopK(g, n, n)
	for j := range k {
		if j+1 < n && values[j]-values[j+1] < apart*values[0] {
			return false
		}
		first, second := 0.0, 0.0
		for i := range n {
			if v := vectors[i*n+j]; v > first {
				first = v
			} else {
				second = max(second, -v)
			}
		}
		if first-second < apart {
			return false
		}
	}
	return true
}

// outputs of one Step, all wanted.
func outputs(cfg backend.StepperConfig, rows int) backend.StepOutput {
	return backend.StepOutput{
		Z: tensor.New(rows, cfg.DecoderS.In()), U: tensor.New(rows, cfg.DecoderU.Out()),
		Energy: make([]float32, rows), Fallbacks: make([]backend.Fallback, rows),
	}
}

func newStepper(t testing.TB, b *Backend, cfg backend.StepperConfig) backend.Stepper {
	t.Helper()
	s := require.Get(b.NewStepper(cfg))(t)
	return s
}

func step(t testing.TB, b *Backend, cfg backend.StepperConfig, in backend.StepInput) backend.StepOutput {
	t.Helper()
	out := outputs(cfg, in.Z.Rows)
	require.OK(t, newStepper(t, b, cfg).Step(in, out))
	return out
}

// near compares a row at a tolerance relative to its largest entry, or to one.
func near(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	scale := 1.0
	for _, w := range want {
		scale = max(scale, math.Abs(w))
	}
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= tolerance*scale) {
			t.Fatalf("%s: entry %d is %v, want %v (off %.2g, tolerance %.2g)", what, i, got[i], w, d, tolerance*scale)
		}
	}
}

func TestStepFieldAndDecodeAgainstReference(t *testing.T) {
	for name, c := range map[string]stepCase{
		"opf": opfSize, "case one": caseOneSize, "plan": planSize, "rotations": rotationSize,
		"no residual": {5, 40, 9, 2, 3, 1, with(plainParams, func(p *backend.StepParams) { p.LieGain = 0 })},
		"two of five": {5, 40, 9, 2, 3, 1, with(plainParams, func(p *backend.StepParams) { p.TopK = 2 })},
		"five":        {5, 40, 9, 2, 3, 1, with(plainParams, func(p *backend.StepParams) { p.TopK = 5 })},
		"capped":      {5, 40, 9, 2, 3, 1, with(plainParams, func(p *backend.StepParams) { p.VMax = 0.01 })},
	} {
		rng := rand.New(rand.NewPCG(21, uint64(len(name))))
		cfg := c.config(t, rng)
		rows := 21
		if c.hidden > 100 {
			rows = 6
		}
		in := c.input(rng, rows)
		r := newReference(cfg)
		r.determined(rng, in)
		for _, level := range isa.Available() {
			for _, problem := range []domain.Problem{cfg.Problem, batchBowl{cfg.Problem.(*bowl)}} {
				cfg := cfg
				cfg.Problem, cfg.MaxBatch = problem, 5 // several chunks
				b := open(t, level, 2)
				s := newStepper(t, b, cfg)
				out, f, energy := outputs(cfg, rows), tensor.New(rows, c.latent), make([]float32, rows)
				u, states := tensor.New(rows, c.action*c.plan), tensor.New(rows, c.measured)
				for _, err := range []error{s.Step(in, out), s.Field(in, f, energy), s.Decode(in.Z, in.Ctx, in.X, u, states)} {
					require.OK(t, err)
				}
				for i := range rows {
					what := fmt.Sprintf("%s, %s, row %d", name, level, i)
					z, x, ctx, weights := widened(in.Z.Row(i)), widened(in.X.Row(i)), widened(in.Ctx.Row(i)), widened(in.Weights.Row(i))
					wantF, wantV := r.energy.Field(z, x, ctx, weights)
					near(t, what+", field", f.Row(i), wantF, tolerance)
					near(t, what+", energy of Field", energy[i:i+1], []float64{wantV}, tolerance)
					near(t, what+", energy of Step", out.Energy[i:i+1], []float64{wantV}, tolerance)
					near(t, what+", plan", u.Row(i), r.energy.DecodeAction(z, x, ctx), tolerance)
					near(t, what+", state", states.Row(i), r.energy.NormS.Invert(r.energy.DecoderS.Forward(z)), tolerance)
					next, fallback := r.energy.Step(z, x, ctx, weights, cfg.Params)
					near(t, what+", latent", out.Z.Row(i), next, tolerance)
					near(t, what+", action", out.U.Row(i), r.energy.DecodeAction(next, x, ctx), 5*tolerance)
					if out.Fallbacks[i] != fallback || fallback != 0 {
						t.Errorf("%s: fallbacks %04b, reference %04b", what, out.Fallbacks[i], fallback)
					}
				}
			}
		}
	}
}

func TestStepWithoutProblem(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	cfg := planSize.config(t, rng)
	in := planSize.input(rng, 9)
	newReference(cfg).determined(rng, in)
	cfg.Problem = nil
	in.Ctx, in.Weights = tensor.Matrix{}, tensor.Matrix{}
	r := newReference(cfg)
	out := step(t, open(t, isa.Generic, 1), cfg, in)
	for i := range in.Z.Rows {
		z, x := widened(in.Z.Row(i)), widened(in.X.Row(i))
		_, v := r.energy.Field(z, x, nil, nil)
		near(t, "energy", out.Energy[i:i+1], []float64{v}, tolerance)
		near(t, "plan", out.U.Row(i), r.energy.DecodeAction(widened(out.Z.Row(i)), x, nil), tolerance)
	}
}

// The bits of a row depend neither on the threads, nor on its place, nor on
// MaxBatch, nor on inputs being shared, nor on which outputs are wanted.
func TestStepIsTheSameHoweverItIsCut(t *testing.T) {
	for _, c := range []stepCase{opfSize, rotationSize} {
		rng := rand.New(rand.NewPCG(23, 1))
		cfg := c.config(t, rng)
		const rows = 133
		in := c.input(rng, rows)
		in.X, in.Ctx, in.Weights = tensor.Broadcast(in.X.Row(3), rows), tensor.Broadcast(in.Ctx.Row(3), rows), tensor.Broadcast(in.Weights.Row(3), rows)
		dense := in
		dense.X, dense.Ctx, dense.Weights = in.X.Clone(), in.Ctx.Clone(), in.Weights.Clone()
		for _, level := range isa.Available() {
			want := step(t, open(t, level, 1), cfg, dense)
			same := func(what string, got backend.StepOutput, from int) {
				t.Helper()
				what = fmt.Sprintf("%s, %s", level, what)
				n := got.Z.Rows
				identical(t, what+": latents", got.Z, want.Z.Slice(from, from+n))
				identical(t, what+": actions", got.U, want.U.Slice(from, from+n))
				if !slices.Equal(got.Energy, want.Energy[from:from+n]) || !slices.Equal(got.Fallbacks, want.Fallbacks[from:from+n]) {
					t.Errorf("%s: energies or fallbacks differ", what)
				}
			}
			for _, threads := range []int{2, 5} {
				same(fmt.Sprint(threads, " threads"), step(t, open(t, level, threads), cfg, in), 0)
			}
			small := cfg
			small.MaxBatch = 7
			same("chunks of 7", step(t, open(t, level, 2), small, in), 0)
			for _, i := range []int{0, 50, rows - 1} {
				one := backend.StepInput{Z: in.Z.Slice(i, i+1), X: in.X.Slice(0, 1), Ctx: in.Ctx.Slice(0, 1), Weights: in.Weights.Slice(0, 1)}
				same(fmt.Sprintf("row %d alone", i), step(t, open(t, level, 2), cfg, one), i)
			}
			s, in := newStepper(t, open(t, level, 2), cfg), in
			in.Z = in.Z.Clone()
			onlyU := tensor.New(rows, cfg.DecoderU.Out())
			for _, err := range []error{s.Step(in, backend.StepOutput{U: onlyU}), s.Step(in, backend.StepOutput{Z: in.Z})} {
				require.OK(t, err)
			}
			identical(t, "only actions wanted", onlyU, want.U)
			identical(t, "latents in place", in.Z, want.Z)
		}
	}
}

// Inputs are shared one by one: sharing one must not be taken for sharing all.
func TestEachInputMayBeShared(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 1))
	cfg := planSize.config(t, rng)
	const rows = 50
	full := planSize.input(rng, rows)
	for what, share := range map[string]func(in *backend.StepInput){
		"Z":       func(in *backend.StepInput) { in.Z = tensor.Broadcast(in.Z.Row(0), rows) },
		"X":       func(in *backend.StepInput) { in.X = tensor.Broadcast(in.X.Row(0), rows) },
		"Ctx":     func(in *backend.StepInput) { in.Ctx = tensor.Broadcast(in.Ctx.Row(0), rows) },
		"Weights": func(in *backend.StepInput) { in.Weights = tensor.Broadcast(in.Weights.Row(0), rows) },
	} {
		for _, problem := range []domain.Problem{cfg.Problem, batchBowl{cfg.Problem.(*bowl)}} {
			cfg := cfg
			cfg.Problem = problem
			b, in := open(t, isa.Generic, 1), full
			share(&in)
			got := step(t, b, cfg, in)
			dense := backend.StepInput{Z: in.Z.Clone(), X: in.X.Clone(), Ctx: in.Ctx.Clone(), Weights: in.Weights.Clone()}
			want := step(t, b, cfg, dense)
			identical(t, "latents with shared "+what, got.Z, want.Z)
			identical(t, "actions with shared "+what, got.U, want.U)
		}
	}
}

// A row that could not step leaves nothing behind in the workspace.
func TestFallbackIsForgotten(t *testing.T) {
	rng := rand.New(rand.NewPCG(28, 1))
	cfg := planSize.config(t, rng)
	in := planSize.input(rng, 20)
	want := step(t, open(t, isa.Generic, 1), cfg, in)
	s, got := newStepper(t, open(t, isa.Generic, 1), cfg), outputs(cfg, 20)
	bad := in
	bad.X = in.X.Clone()
	for i := range bad.X.Data {
		bad.X.Data[i] = float32(math.NaN())
	}
	for _, in := range []backend.StepInput{bad, in} {
		require.OK(t, s.Step(in, got))
	}
	identical(t, "latents after a NaN batch", got.Z, want.Z)
	if !slices.Equal(got.Fallbacks, want.Fallbacks) {
		t.Errorf("fallbacks after a NaN batch: %v, want %v", got.Fallbacks, want.Fallbacks)
	}
}

func TestCapIsHonoured(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 1))
	c := planSize
	c.params.VMax, c.params.LieGain = 0.3, 0
	cfg := c.config(t, rng)
	in := c.input(rng, 64)
	out := step(t, open(t, isa.Generic, 1), cfg, in)
	limit := float64(c.params.VMax * c.params.Dt)
	for i := range in.Z.Rows {
		sum := 0.0
		for j, v := range out.Z.Row(i) {
			d := float64(v) - float64(in.Z.Row(i)[j])
			sum += d * d
		}
		if d := math.Sqrt(sum); !(d <= limit*(1+1e-5) && d > 0.99*limit) {
			t.Errorf("row %d moves by %g, want the limit %g (the field is far above it)", i, d, limit)
		}
	}
}

// scalarNet is z ↦ w·z + b on one latent coordinate, for fields known by hand.
func scalarNet(w, b float32) *model.MLP {
	return &model.MLP{Layers: []model.Layer{{W: tensor.Matrix{Rows: 1, Cols: 1, Stride: 1, Data: []float32{w}}, B: []float32{b}}}}
}

// TestEachFallback provokes every NaN guard and checks what it did.
func TestEachFallback(t *testing.T) {
	unit := model.Normalizer{Mean: []float32{0}, Scale: []float32{1}}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, level := range isa.Available() {
		run := func(cfg backend.StepperConfig, in backend.StepInput) backend.StepOutput {
			t.Helper()
			want := outputs(cfg, in.Z.Rows)
			s := require.Get(ref.New().NewStepper(cfg))(t)
			require.OK(t, s.Step(in, want))
			got := step(t, open(t, level, 1), cfg, in)
			// In the suite's cases float64 overflows where float32 does.
			if !slices.Equal(got.Fallbacks, want.Fallbacks) {
				t.Errorf("%s: fallbacks %04b, reference %04b", level, got.Fallbacks, want.Fallbacks)
			}
			return got
		}
		cfg := backend.StepperConfig{
			DecoderS: scalarNet(1, 0), DecoderU: scalarNet(1, 0), NormS: unit, NormU: unit, MaxBatch: 8,
			Params: backend.StepParams{Dt: 1, VMax: 1, Epsilon: 1, TopK: 1, LieGain: 0.1, LieScale: 1},
		}
		row := func(z, x float32) backend.StepInput {
			return backend.StepInput{Z: tensor.Broadcast([]float32{z}, 1), X: tensor.Broadcast([]float32{x}, 1)}
		}

		for _, bad := range []float32{nan, inf, -inf} {
			out := run(cfg, row(0.5, bad))
			if out.Fallbacks[0] != backend.FallbackNoStep || out.Z.Data[0] != 0.5 || out.U.Data[0] != 0.5 {
				t.Errorf("%s: a measurement of %v gives bits %04b and latent %v, want no step", level, bad, out.Fallbacks[0], out.Z.Data[0])
			}
		}

		// A decoder that is dead in the third dimension keeps its residual at zero
		// there: 0 eigenvalues make ω infinite.
		flat := cfg
		flat.DecoderS = &model.MLP{Layers: []model.Layer{{W: tensor.Matrix{Rows: 1, Cols: 3, Stride: 3, Data: []float32{1, 0, 0}}, B: []float32{0}}}}
		flat.DecoderU = flat.DecoderS
		flat.Params.TopK = 3
		in := backend.StepInput{Z: tensor.Broadcast([]float32{0.5, 1, 2}, 1), X: tensor.Broadcast([]float32{0.25}, 1)}
		out := run(flat, in)
		if out.Fallbacks[0] != backend.FallbackLie {
			t.Errorf("%s: a metric of rank one without λ gives bits %04b, want the residual's", level, out.Fallbacks[0])
		}
		flat.Params.LieGain = 0
		identical(t, level.String()+": a residual that is not finite is zero", out.Z, run(flat, in).Z)

		// The midpoint overflows float32; float64 would not, so only bits of this
		// backend are looked at: z' = z + Δt·k.
		far := cfg
		far.Params.Dt, far.Params.VMax, far.Params.Epsilon, far.Params.LieGain = 4, 3e38, 0x1p-126, 0
		out = step(t, open(t, level, 1), far, row(1, 2))
		if out.Fallbacks[0] != backend.FallbackMidpoint {
			t.Errorf("%s: an infinite midpoint gives bits %04b", level, out.Fallbacks[0])
		}

		// The field is finite at z and infinite half a step further.
		steep := cfg
		steep.DecoderS, steep.Params.VMax, steep.Params.LieGain = scalarNet(-1, 0), 1e37, 0
		steep.Params.Dt, steep.Params.Epsilon = 1, 1
		steep.Params.Epsilon = 0x1p-100
		in = row(1, 0)
		out = step(t, open(t, level, 1), steep, in)
		if out.Fallbacks[0] != backend.FallbackSecondSlope {
			t.Errorf("%s: an infinite second slope gives bits %04b", level, out.Fallbacks[0])
		} else if k1 := -float32(0x1p101); out.Z.Data[0] != 1+k1 {
			t.Errorf("%s: an infinite second slope moves z to %g, want by k_1 to %g", level, out.Z.Data[0], 1+k1)
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 1))
	for _, threads := range []int{1, 2} {
		for _, c := range []stepCase{planSize, rotationSize} {
			cfg := c.config(t, rng)
			const rows = 70
			in := c.input(rng, rows)
			for _, problem := range []domain.Problem{cfg.Problem, batchBowl{cfg.Problem.(*bowl)}} {
				cfg.Problem = problem
				s, out := newStepper(t, open(t, isa.Available()[len(isa.Available())-1], threads), cfg), outputs(cfg, rows)
				f, u, states := tensor.New(rows, c.latent), tensor.New(rows, c.action*c.plan), tensor.New(rows, c.measured)
				for name, call := range map[string]func() error{
					"Step":   func() error { return s.Step(in, out) },
					"Field":  func() error { return s.Field(in, f, out.Energy) },
					"Decode": func() error { return s.Decode(in.Z, in.Ctx, in.X, u, states) },
				} {
					if n := testing.AllocsPerRun(10, func() {
						require.OK(t, call())
					}); n != 0 {
						t.Errorf("%s on %d threads makes %v allocations", name, threads, n)
					}
				}
			}
		}
	}
}

func TestStepShapesAreChecked(t *testing.T) {
	rng := rand.New(rand.NewPCG(26, 1))
	cfg := planSize.config(t, rng)
	b := open(t, isa.Generic, 1)
	s := newStepper(t, b, cfg)
	for what, change := range map[string]func(in *backend.StepInput, out *backend.StepOutput){
		"latent width":  func(in *backend.StepInput, _ *backend.StepOutput) { in.Z = tensor.New(4, 7) },
		"measured rows": func(in *backend.StepInput, _ *backend.StepOutput) { in.X = in.X.Slice(0, 3) },
		"context":       func(in *backend.StepInput, _ *backend.StepOutput) { in.Ctx = tensor.Matrix{} },
		"weights":       func(in *backend.StepInput, _ *backend.StepOutput) { in.Weights = tensor.New(4, 2) },
		"shared output": func(_ *backend.StepInput, out *backend.StepOutput) { out.Z = tensor.Broadcast(out.Z.Row(0), 4) },
		"plan width":    func(_ *backend.StepInput, out *backend.StepOutput) { out.U = tensor.New(4, 9) },
		"energy":        func(_ *backend.StepInput, out *backend.StepOutput) { out.Energy = make([]float32, 3) },
		"fallbacks":     func(_ *backend.StepInput, out *backend.StepOutput) { out.Fallbacks = make([]uint8, 5) },
	} {
		in, out := planSize.input(rng, 4), outputs(cfg, 4)
		change(&in, &out)
		if err := s.Step(in, out); err == nil {
			t.Errorf("a wrong %s is accepted", what)
		}
	}
	for what, change := range map[string]func(*backend.StepperConfig){
		"no decoder": func(c *backend.StepperConfig) { c.DecoderU = nil },
		"too many":   func(c *backend.StepperConfig) { c.Params.TopK = 7 },
		"gain":       func(c *backend.StepperConfig) { c.Params.LieGain = float32(math.NaN()) },
		"epsilon":    func(c *backend.StepperConfig) { c.Params.Epsilon = 0 },
		"blocks":     func(c *backend.StepperConfig) { c.Params.Group.RotationBlocks = 3 },
		"batch":      func(c *backend.StepperConfig) { c.MaxBatch = 0 },
		"problem":    func(c *backend.StepperConfig) { c.Problem = newBowl(3, 1, 1, 1) },
	} {
		bad := cfg
		change(&bad)
		if _, err := b.NewStepper(bad); err == nil {
			t.Errorf("a configuration with wrong %s is accepted", what)
		}
	}
}
