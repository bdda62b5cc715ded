package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// stepShape is one model of the step's checks.
type stepShape struct {
	latent, hidden, measured, context, action, plan, topK, batch int
}

var stepShapes = []stepShape{
	{1, 7, 1, 1, 1, 1, 1, 31},
	{2, 7, 2, 2, 1, 1, 2, bigBatch},
	{3, 33, 4, 9, 2, 1, 3, 33},
	{5, 33, 12, 3, 2, 6, 4, 32},
	{16, 256, 4, 9, 2, 1, 3, 33}, // the integrator's sizes
	{32, 256, 60, 7, 12, 1, 3, 2},
	{33, 7, 12, 5, 1, 12, 5, 31},
	{64, 33, 60, 1, 3, 1, 3, 1},
}

// rowwise hides everything of a problem but domain.Problem, so that a backend
// must call it row by row.
type rowwise struct{ domain.Problem }

func randomNormalizer(rng *rand.Rand, n int) model.Normalizer {
	norm := model.Normalizer{Mean: make([]float32, n), Scale: make([]float32, n)}
	for i := range n {
		norm.Mean[i], norm.Scale[i] = float32(0.2*rng.NormFloat64()), float32(0.5+rng.Float64())
	}
	return norm
}

var stepParams = backend.StepParams{Dt: 0.125, VMax: 2, Epsilon: 0.5, MetricLambda: 0.05, LieGain: 0.2, LieScale: 1.5}

func (s stepShape) config(rng *rand.Rand) backend.StepperConfig {
	problem := NewToy(s.measured, s.context, s.action, s.plan)
	cfg := backend.StepperConfig{
		DecoderS: testdomain.Network(rng, 0.2, s.latent, s.hidden, s.hidden, s.measured),
		DecoderU: testdomain.Network(rng, 0.2, s.latent, s.hidden, s.hidden, s.action*s.plan),
		NormS:    randomNormalizer(rng, s.measured), NormU: randomNormalizer(rng, s.action*s.plan),
		Problem: problem, Params: stepParams, MaxBatch: s.batch,
	}
	cfg.Params.TopK = s.topK
	return cfg
}

func (s stepShape) input(rng *rand.Rand, batch int) backend.StepInput {
	in := backend.StepInput{
		Z: testdomain.Matrix(rng, batch, s.latent), X: testdomain.Matrix(rng, batch, s.measured),
		Ctx: testdomain.Matrix(rng, batch, s.context), Weights: tensor.New(batch, 3),
	}
	for i := range in.Weights.Data {
		in.Weights.Data[i] = rng.Float32()
	}
	return in
}

// stepResults are the outputs of the three operations of a Stepper.
type stepResults struct {
	z, u, f, decodedU, decodedS tensor.Matrix
	energy, fieldEnergy         []float32
	fallbacks                   []uint8
}

func (r stepResults) joined() []float32 {
	bits := make([]float32, len(r.fallbacks))
	for i, f := range r.fallbacks {
		bits[i] = float32(f)
	}
	return all(r.z.Data, r.u.Data, r.f.Data, r.decodedU.Data, r.decodedS.Data, r.energy, r.fieldEnergy, bits)
}

func runStep(b backend.Backend, cfg backend.StepperConfig, in backend.StepInput) (stepResults, error) {
	rows, n, ns, nu := in.Z.Rows, cfg.DecoderS.In(), cfg.DecoderS.Out(), cfg.DecoderU.Out()
	r := stepResults{
		output(rows, n), output(rows, nu), output(rows, n), output(rows, nu), output(rows, ns),
		make([]float32, rows), make([]float32, rows), make([]uint8, rows),
	}
	s, err := b.NewStepper(cfg)
	if err != nil {
		return r, fmt.Errorf("NewStepper: %w", err)
	}
	if err := s.Step(in, backend.StepOutput{Z: r.z, U: r.u, Energy: r.energy, Fallbacks: r.fallbacks}); err != nil {
		return r, fmt.Errorf("stepper.Step: %w", err)
	}
	if err := s.Field(in, r.f, r.fieldEnergy); err != nil {
		return r, fmt.Errorf("stepper.Field: %w", err)
	}
	if err := s.Decode(in.Z, in.Ctx, in.X, r.decodedU, r.decodedS); err != nil {
		return r, fmt.Errorf("stepper.Decode: %w", err)
	}
	return r, nil
}

// wellPosed marks the rows whose field (first) and whose whole step (second)
// are determined in float32: away from kinks at z and at the midpoint, and with
// an eigenframe whose gaps and signs are resolved.
func wellPosed(cfg backend.StepperConfig, in backend.StepInput) (field, step []bool) {
	e := ref.NewEnergy(cfg)
	field = smoothRows(in.Z, cfg.DecoderS, cfg.DecoderU)
	mid := in.Z.Clone()
	for b := range mid.Rows {
		z, x := row64(in.Z.Row(b)), row64(in.X.Row(b))
		var ctx, weights []float64
		if cfg.Problem != nil {
			ctx, weights = row64(in.Ctx.Row(b)), row64(in.Weights.Row(b))
		}
		f, _ := e.Field(z, x, ctx, weights)
		for i, k := range ref.Cap(f, float64(cfg.Params.VMax)) {
			z[i] += float64(cfg.Params.Dt) / 2 * k
		}
		tensor.Narrow(mid.Row(b), z)
	}
	step = smoothRows(mid, cfg.DecoderS, cfg.DecoderU)
	n, k := cfg.DecoderS.In(), cfg.Params.TopK
	for b := range step {
		step[b] = step[b] && field[b]
		if !step[b] || cfg.Params.LieGain == 0 || k < 2 {
			continue
		}
		values, vectors := ref.EigTopK(e.DecoderS.Metric(row64(in.Z.Row(b)), float64(cfg.Params.MetricLambda)), n, n)
		for j := range k {
			v := make([]float64, n)
			for i := range v {
				v[i] = vectors[i*n+j]
			}
			if eigenGap(values, j) < gapMargin*values[0] || signLead(v) < signMargin {
				step[b] = false
			}
		}
	}
	return field, step
}

func (r stepResults) compare(want stepResults, field, step []bool) error {
	for b := range want.z.Rows {
		fail := func(what string, err error) error { return fmt.Errorf("%s, row %d: %w", what, b, err) }
		scale := math.Max(1, math.Abs(float64(want.energy[b])))
		if err := tolEnergy.number(float64(r.energy[b]), float64(want.energy[b]), scale); err != nil {
			return fail("energy of Step", err)
		}
		if err := tolEnergy.number(float64(r.fieldEnergy[b]), float64(want.fieldEnergy[b]), scale); err != nil {
			return fail("energy of Field", err)
		}
		if err := tolDecode.row(r.decodedU.Row(b), want.decodedU.Row(b)); err != nil {
			return fail("decoded plan", err)
		}
		if err := tolDecode.row(r.decodedS.Row(b), want.decodedS.Row(b)); err != nil {
			return fail("decoded state", err)
		}
		if field[b] {
			if err := tolField.row(r.f.Row(b), want.f.Row(b)); err != nil {
				return fail("field", err)
			}
		}
		if !step[b] {
			continue
		}
		if r.fallbacks[b] != want.fallbacks[b] {
			return fail("fallbacks", fmt.Errorf("bits %04b, want %04b", r.fallbacks[b], want.fallbacks[b]))
		}
		if err := tolStep.row(r.z.Row(b), want.z.Row(b)); err != nil {
			return fail("new latent", err)
		}
		if err := tolStepAction.row(r.u.Row(b), want.u.Row(b)); err != nil {
			return fail("action", err)
		}
	}
	return nil
}

func checkStep(t testing.TB, open Open) {
	b := opened(t, open, 0)
	kept, total := 0, 0
	for i, s := range stepShapes {
		rng := newRand(uint64(800 + i))
		cfg, in := s.config(rng), s.input(rng, s.batch)
		field, step := wellPosed(cfg, in)
		kept, total = kept+count(step), total+s.batch
		want, err := runStep(ref.New(), cfg, in)
		if err != nil {
			t.Fatalf("%+v: reference: %v", s, err)
		}
		problem := cfg.Problem
		for _, variant := range []struct {
			name     string
			problem  domain.Problem
			maxBatch int
		}{{"batch gradient", problem, s.batch}, {"row-wise gradient in chunks", rowwise{problem}, 8}} {
			if testing.Short() && variant.problem != problem {
				continue
			}
			cfg.Problem, cfg.MaxBatch = variant.problem, variant.maxBatch
			got, err := runStep(b, cfg, in)
			if err != nil {
				t.Errorf("%+v, %s: %v", s, variant.name, err)
				continue
			}
			if err := got.compare(want, field, step); err != nil {
				t.Errorf("%+v, %s: %v", s, variant.name, err)
			}
		}
	}
	share(t, "step", kept, total)
}

// checkStepPlain runs without a Problem, without a Lie residual, and with only
// some of the outputs.
func checkStepPlain(t testing.TB, open Open) {
	b := opened(t, open, 0)
	s := stepShape{5, 33, 12, 3, 2, 1, 3, 33}
	for name, change := range map[string]func(*backend.StepperConfig){
		"no problem":    func(c *backend.StepperConfig) { c.Problem = nil },
		"γ_L = 0":       func(c *backend.StepperConfig) { c.Params.LieGain = 0 },
		"k = 0":         func(c *backend.StepperConfig) { c.Params.TopK = 0 },
		"Δt = 0":        func(c *backend.StepperConfig) { c.Params.Dt = 0 },
		"cap at work":   func(c *backend.StepperConfig) { c.Params.VMax = 0.01 },
		"cap out":       func(c *backend.StepperConfig) { c.Params.VMax = 1e6; c.Params.Dt = 0.01 },
		"small epsilon": func(c *backend.StepperConfig) { c.Params.Epsilon = 0.01 },
	} {
		rng := newRand(850)
		cfg, in := s.config(rng), s.input(rng, s.batch)
		change(&cfg)
		if cfg.Problem == nil {
			in.Ctx, in.Weights = tensor.Matrix{Rows: s.batch}, tensor.Matrix{Rows: s.batch}
		}
		field, step := wellPosed(cfg, in)
		share(t, "step, "+name, count(step), len(step))
		want, err := runStep(ref.New(), cfg, in)
		if err != nil {
			t.Fatalf("%s: reference: %v", name, err)
		}
		got, err := runStep(b, cfg, in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := got.compare(want, field, step); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		stepper := require.Get(b.NewStepper(cfg))(t)
		onlyZ, onlyU := output(s.batch, s.latent), output(s.batch, s.action)
		if err := stepper.Step(in, backend.StepOutput{Z: onlyZ}); err != nil {
			t.Errorf("%s, only Z wanted: %v", name, err)
		}
		if err := stepper.Step(in, backend.StepOutput{U: onlyU}); err != nil {
			t.Errorf("%s, only U wanted: %v", name, err)
		}
		if err := identical(all(onlyZ.Data, onlyU.Data), all(got.z.Data, got.u.Data)); err != nil {
			t.Errorf("%s: outputs depend on which are wanted: %v", name, err)
		}
	}
}

// checkStepGroup runs the rotation group, rotation vectors longer than π
// included.
func checkStepGroup(t testing.TB, open Open) {
	b := opened(t, open, 0)
	for _, blocks := range []int{1, 2} {
		s := stepShape{8, 33, 12, 3, 2, 1, 3, 33}
		rng := newRand(uint64(860 + blocks))
		cfg, in := s.config(rng), s.input(rng, s.batch)
		cfg.Params.Group.RotationBlocks = blocks
		for i := range 3 {
			in.Z.Row(0)[i] *= 5
			in.Z.Row(1)[i] = 0
		}
		_, step := wellPosed(cfg, in)
		share(t, "step-group", count(step), len(step))
		want := require.Get(runStep(ref.New(), cfg, in))(t)
		got, err := runStep(b, cfg, in)
		if err != nil {
			t.Errorf("%d rotation blocks: %v", blocks, err)
			continue
		}
		for r := range step {
			if !step[r] {
				continue
			}
			have, need := row64(got.z.Row(r)), row64(want.z.Row(r))
			for block := range blocks {
				v, w := [3]float64(have[3*block:3*block+3]), [3]float64(need[3*block:3*block+3])
				for axis := range 3 {
					var unit [3]float64
					unit[axis] = 1
					a, c := ref.Rodrigues(v, unit), ref.Rodrigues(w, unit)
					for i := range a {
						if err := tolRotation.number(a[i], c[i], 1); err != nil {
							t.Fatalf("%d rotation blocks, row %d, block %d: %v", blocks, r, block, err)
						}
					}
				}
				if length := math.Sqrt(v[0]*v[0] + v[1]*v[1] + v[2]*v[2]); length > math.Pi*(1+4*epsilon) {
					t.Errorf("%d rotation blocks, row %d: rotation vector of length %v, want at most π", blocks, r, length)
				}
			}
			if err := tolStep.row(got.z.Row(r)[3*blocks:], want.z.Row(r)[3*blocks:]); err != nil {
				t.Errorf("%d rotation blocks, row %d, translation: %v", blocks, r, err)
			}
		}
	}
}

// checkStepBroadcast shares one observation, context and weight among all rows.
func checkStepBroadcast(t testing.TB, open Open) {
	b := opened(t, open, 0)
	s := stepShape{5, 33, 12, 3, 2, 1, 3, 33}
	rng := newRand(870)
	cfg, in := s.config(rng), s.input(rng, s.batch)
	in.Z = strided(in.Z)
	in.X, in.Ctx, in.Weights = tensor.Broadcast(in.X.Row(0), s.batch), tensor.Broadcast(in.Ctx.Row(0), s.batch), tensor.Broadcast(in.Weights.Row(0), s.batch)
	field, step := wellPosed(cfg, in)
	share(t, "step-broadcast", count(step), len(step))
	want := require.Get(runStep(ref.New(), cfg, in))(t)
	for _, problem := range []domain.Problem{cfg.Problem, rowwise{cfg.Problem}} {
		cfg.Problem = problem
		got, err := runStep(b, cfg, in)
		if err != nil {
			t.Errorf("%T: %v", problem, err)
			continue
		}
		if err := got.compare(want, field, step); err != nil {
			t.Errorf("%T: %v", problem, err)
		}
	}
}

// wall is a problem whose gradient is NaN on one side of a value of s_0.
type wall struct {
	domain.Problem
	at, side float64
}

func (w wall) Gradient(s, u, c, sigma, gs, gu []float64) {
	w.Problem.Gradient(s, u, c, sigma, gs, gu)
	if (s[0]-w.at)*w.side > 0 {
		gs[0] = math.NaN()
	}
}

// checkStepFallbacks provokes every guard and looks at the rows around it.
func checkStepFallbacks(t testing.TB, open Open) {
	b := opened(t, open, 0)
	s := stepShape{5, 33, 12, 3, 2, 1, 3, 33}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const at = 18
	newInput := func() (backend.StepperConfig, backend.StepInput) {
		rng := newRand(880)
		return s.config(rng), s.input(rng, s.batch)
	}
	cfg, in := newInput()
	clean := require.Get(runStep(b, cfg, in))(t)
	for name, poke := range map[string]func(in backend.StepInput){
		"NaN observation":      func(in backend.StepInput) { in.X.Row(at)[0] = nan },
		"infinite observation": func(in backend.StepInput) { in.X.Row(at)[1] = inf },
		"NaN context":          func(in backend.StepInput) { in.Ctx.Row(at)[0] = nan },
		"NaN weight":           func(in backend.StepInput) { in.Weights.Row(at)[0] = nan },
		"NaN latent":           func(in backend.StepInput) { in.Z.Row(at)[2] = nan },
	} {
		cfg, in := newInput()
		poke(in)
		got, err := runStep(b, cfg, in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.fallbacks[at] != backend.FallbackNoStep {
			t.Errorf("%s: fallback bits %04b, want only FallbackNoStep", name, got.fallbacks[at])
		}
		if err := identical(got.z.Row(at), in.Z.Row(at)); err != nil {
			t.Errorf("%s: the latent moved: %v", name, err)
		}
		want, err := runStep(ref.New(), cfg, in)
		if err != nil {
			t.Fatalf("%s: reference: %v", name, err)
		}
		if err := tolStepAction.row(got.u.Row(at), want.u.Row(at)); err != nil {
			t.Errorf("%s: action: %v", name, err)
		}
		if isFinite(float64(got.energy[at])) {
			t.Errorf("%s: energy %v, want a non-finite one", name, got.energy[at])
		}
		for r := range s.batch {
			if r == at {
				continue
			}
			if err := identical(all(got.z.Row(r), got.u.Row(r), got.f.Row(r)), all(clean.z.Row(r), clean.u.Row(r), clean.f.Row(r))); err != nil {
				t.Errorf("%s in row %d changed row %d: %v", name, at, r, err)
			}
			if got.fallbacks[r] != 0 {
				t.Errorf("%s in row %d: fallback bits %04b in row %d", name, at, got.fallbacks[r], r)
			}
		}
	}

	// A second slope that is NaN: the wall stands between z and the midpoint.
	cfg, in = newInput()
	one := backend.StepInput{Z: in.Z.Slice(0, 1), X: in.X.Slice(0, 1), Ctx: in.Ctx.Slice(0, 1), Weights: in.Weights.Slice(0, 1)}
	e := ref.NewEnergy(cfg)
	z := row64(one.Z.Row(0))
	f, _ := e.Field(z, row64(one.X.Row(0)), row64(one.Ctx.Row(0)), row64(one.Weights.Row(0)))
	mid := append([]float64(nil), z...)
	for i, k := range ref.Cap(f, float64(cfg.Params.VMax)) {
		mid[i] += float64(cfg.Params.Dt) / 2 * k
	}
	s0, s1 := e.NormS.Invert(e.DecoderS.Forward(z))[0], e.NormS.Invert(e.DecoderS.Forward(mid))[0]
	cfg.Problem = wall{cfg.Problem, (s0 + s1) / 2, s1 - s0}
	compareFallback(t, b, "NaN second slope", cfg, one, backend.FallbackSecondSlope)

	// A zero Jacobian and λ = 0: every eigenvalue is zero, the Lie residual NaN.
	cfg, _ = newInput()
	for i := range cfg.DecoderS.Layers[0].B {
		cfg.DecoderS.Layers[0].B[i] = -100
	}
	cfg.Params.MetricLambda = 0
	compareFallback(t, b, "zero metric", cfg, one, backend.FallbackLie)
}

// compareFallback expects the given bits in a batch of one and the reference's
// finite results.
func compareFallback(t testing.TB, b backend.Backend, name string, cfg backend.StepperConfig, in backend.StepInput, bits backend.Fallback) {
	t.Helper()
	want, err := runStep(ref.New(), cfg, in)
	if err != nil {
		t.Fatalf("%s: reference: %v", name, err)
	}
	if want.fallbacks[0] != bits {
		t.Fatalf("%s: the reference has bits %04b, the case was built for %04b", name, want.fallbacks[0], bits)
	}
	got, err := runStep(b, cfg, in)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if got.fallbacks[0] != bits {
		t.Errorf("%s: fallback bits %04b, want %04b", name, got.fallbacks[0], bits)
	}
	if err := tolStep.row(got.z.Row(0), want.z.Row(0)); err != nil {
		t.Errorf("%s: new latent: %v", name, err)
	}
	if err := tolStepAction.row(got.u.Row(0), want.u.Row(0)); err != nil {
		t.Errorf("%s: action: %v", name, err)
	}
}

func checkStepShapes(t testing.TB, open Open) {
	b := opened(t, open, 0)
	s := stepShape{3, 7, 4, 2, 2, 1, 3, 4}
	rng := newRand(890)
	cfg, in := s.config(rng), s.input(rng, s.batch)
	stepper := require.Get(b.NewStepper(cfg))(t)
	out := backend.StepOutput{Z: tensor.New(4, 3), U: tensor.New(4, 2)}
	for what, change := range map[string]func(in *backend.StepInput, out *backend.StepOutput){
		"Z":                  func(in *backend.StepInput, _ *backend.StepOutput) { in.Z = tensor.New(4, 2) },
		"X":                  func(in *backend.StepInput, _ *backend.StepOutput) { in.X = tensor.New(4, 3) },
		"rows of X":          func(in *backend.StepInput, _ *backend.StepOutput) { in.X = tensor.New(3, 4) },
		"Ctx":                func(in *backend.StepInput, _ *backend.StepOutput) { in.Ctx = tensor.New(4, 1) },
		"Weights":            func(in *backend.StepInput, _ *backend.StepOutput) { in.Weights = tensor.New(4, 2) },
		"output Z":           func(_ *backend.StepInput, out *backend.StepOutput) { out.Z = tensor.New(4, 4) },
		"output U":           func(_ *backend.StepInput, out *backend.StepOutput) { out.U = tensor.New(5, 2) },
		"length of energies": func(_ *backend.StepInput, out *backend.StepOutput) { out.Energy = make([]float32, 3) },
		"length of the bits": func(_ *backend.StepInput, out *backend.StepOutput) { out.Fallbacks = make([]uint8, 5) },
	} {
		i, o := in, out
		change(&i, &o)
		wantError(t, "Step, "+what, func() error { return stepper.Step(i, o) })
	}
	wantError(t, "Field, f", func() error { return stepper.Field(in, tensor.New(4, 4), nil) })
	wantError(t, "Decode, u", func() error { return stepper.Decode(in.Z, in.Ctx, in.X, tensor.New(4, 3), tensor.Matrix{}) })
	wantError(t, "Decode, s", func() error { return stepper.Decode(in.Z, in.Ctx, in.X, tensor.New(4, 2), tensor.New(4, 3)) })
	for what, change := range map[string]func(*backend.StepperConfig){
		"TopK":            func(c *backend.StepperConfig) { c.Params.TopK = 4 },
		"VMax":            func(c *backend.StepperConfig) { c.Params.VMax = 0 },
		"Epsilon":         func(c *backend.StepperConfig) { c.Params.Epsilon = 0 },
		"NaN Dt":          func(c *backend.StepperConfig) { c.Params.Dt = float32(math.NaN()) },
		"LieGain":         func(c *backend.StepperConfig) { c.Params.LieGain = -0.5 },
		"MetricLambda":    func(c *backend.StepperConfig) { c.Params.MetricLambda = -1 },
		"rotation blocks": func(c *backend.StepperConfig) { c.Params.Group.RotationBlocks = 2 },
		"MaxBatch":        func(c *backend.StepperConfig) { c.MaxBatch = 0 },
		"decoder":         func(c *backend.StepperConfig) { c.DecoderU = nil },
		"problem's sizes": func(c *backend.StepperConfig) { c.Problem = NewToy(5, 2, 2, 1) },
		"latent sizes":    func(c *backend.StepperConfig) { c.DecoderU = testdomain.Network(newRand(891), 0.2, 4, 7, 2) },
		"normalizer":      func(c *backend.StepperConfig) { c.NormS = randomNormalizer(newRand(892), 3) },
		"zero scale": func(c *backend.StepperConfig) {
			c.NormU = model.Normalizer{Mean: make([]float32, 2), Scale: make([]float32, 2)}
		},
	} {
		c := cfg
		change(&c)
		wantError(t, "NewStepper, "+what, func() error { _, err := b.NewStepper(c); return err })
	}
}
