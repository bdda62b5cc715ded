package batchnav

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// loaded is one model with its problem on one backend.
type loaded struct {
	backend   backend.Backend
	model     *model.Model
	problem   domain.Problem
	abilities *domain.ProblemAbilities
	spec      *domain.Spec
	nav       domain.Navigation
	encoder   backend.Net
	index     backend.Index   // nil for a model without codes
	stepper   backend.Stepper // of makeStepper
	// inverseRange is 1/(nadir − ideal) of each objective on the dataset; 1 for RawWeights.
	inverseRange []float64
	// decoded are D_s of the codes; the model's own where it carries them.
	decoded tensor.Matrix
	// cover is τ_cover, see coverTolerance.
	cover    float64
	envelope envelope // of the codes; empty: the domain asks for none
	// bound is ResidualBound, times the multiple of τ_t above which a residual counts.
	bound, times float64
}

// load checks that the model was made for a problem of these sizes and packs it, its
// step apart: see makeStepper.
func load(b backend.Backend, m *model.Model, p domain.Problem, opt *Options) (*loaded, error) {
	spec := p.Spec()
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if err := Fits(m, spec); err != nil {
		return nil, err
	}
	nav, err := opt.resolve(spec)
	if err != nil {
		return nil, err
	}
	if opt.NoRollout {
		if m, err = m.WithoutRollout(); err != nil {
			return nil, err
		}
	}
	domain.Prepare(p)
	l := &loaded{backend: b, model: m, problem: p, abilities: domain.AbilitiesOfProblem(p), spec: spec, nav: nav, bound: ResidualBound(spec, m.NormS), times: cmp.Or(opt.ResidualLimit, DefaultResidualLimit)}
	if l.encoder, err = b.NewNet(m.EncoderX); err != nil {
		return nil, fmt.Errorf("encoder E_x: %w", err)
	}
	if m.Codes.Rows > 0 {
		if err := l.decodeCodes(); err != nil {
			return nil, err
		}
		if l.index, err = b.NewIndex(m.Codes, l.decoded); err != nil {
			return nil, fmt.Errorf("index over the codes: %w", err)
		}
		if l.cover, err = coverTolerance(l.index, m.Codes, l.decoded, nav.Neighbours); err != nil {
			return nil, err
		}
		l.enclose()
	}
	l.inverseRange = make([]float64, spec.ObjectiveSize())
	for i := range l.inverseRange {
		l.inverseRange[i] = 1
		if cal := m.Calibration; !l.nav.RawWeights && i < len(cal.ObjectiveIdeal) && i < len(cal.ObjectiveNadir) {
			if r := cal.ObjectiveNadir[i] - cal.ObjectiveIdeal[i]; r > 0 && !math.IsInf(r, 0) {
				l.inverseRange[i] = 1 / r
			}
		}
	}
	return l, nil
}

// stepperConfig is the model's step for batches of up to maxBatch rows.
func (l *loaded) stepperConfig(maxBatch int) backend.StepperConfig {
	m := l.model
	return backend.StepperConfig{
		DecoderS: m.DecoderS, DecoderU: m.DecoderU,
		NormS: m.NormS, NormU: m.NormU,
		Problem: l.problem, Params: stepParams(l.nav, m.Latent()), MaxBatch: maxBatch,
	}
}

// mapConfig is the whole map, for a backend that navigates or refines by itself.
func (l *loaded) mapConfig(maxBatch int) backend.MapConfig {
	cfg := backend.MapConfig{
		EncoderX: l.model.EncoderX, NormX: l.model.NormX, Step: l.stepperConfig(maxBatch), Neighbours: l.nav.Neighbours, InverseRange: l.inverseRange,
		PreferenceFloor: l.model.Calibration.PreferenceFloor,
	}
	if l.index != nil {
		cfg.Codes, cfg.Decoded = l.model.Codes, l.decoded
	}
	return cfg
}

// makeStepper prepares the step for batches of up to maxBatch rows.
func (l *loaded) makeStepper(maxBatch int) error {
	var err error
	if l.stepper, err = l.backend.NewStepper(l.stepperConfig(maxBatch)); err != nil {
		return fmt.Errorf("stepper: %w", err)
	}
	return nil
}

// decodeCodes takes the model's decoded codes, or computes them.
func (l *loaded) decodeCodes() error {
	m := l.model
	if m.CodesDecoded.Rows > 0 {
		l.decoded = m.CodesDecoded
		return nil
	}
	net, err := l.backend.NewNet(m.DecoderS)
	if err != nil {
		return fmt.Errorf("decoder D_s: %w", err)
	}
	l.decoded = tensor.New(m.Codes.Rows, l.spec.MeasuredSize())
	if err := net.Forward(m.Codes, l.decoded); err != nil {
		return fmt.Errorf("decoding the codes: %w", err)
	}
	return nil
}

// coverSamples codes estimate the spacing of M*; coverQuantile of them are
// spaced no wider.
const (
	coverSamples  = 64
	coverQuantile = 0.95
)

// coverTolerance is τ_cover. The paper's M_t is a subset of a continuous M*; here
// M* is finitely many codes, and an observation lies between them. A code that the
// affine refinement needs differs from the observation by the spacing of the codes.
// τ_geom, the reconstruction error at one point, does not include that: with τ_geom
// alone M_t would be empty almost everywhere. τ_cover is the
// coverQuantile over codes of the largest squared decoded distance to the
// neighbours that refinement would use, so that
//
//	τ_t = σ̂²_t + τ_geom + τ_cover.
func coverTolerance(index backend.Index, codes, decoded tensor.Matrix, neighbours int) (float64, error) {
	n := codes.Rows
	k := min(max(neighbours, 1)+1, n)
	samples := min(n, coverSamples)
	query := tensor.New(samples, codes.Cols)
	for i := range samples {
		copy(query.Row(i), codes.Row(i*n/samples))
	}
	idx, distance := make([]int32, samples*k), make([]float32, samples*k)
	if err := index.Nearest(query, k, idx, distance); err != nil {
		return 0, fmt.Errorf("spacing of the codes: %w", err)
	}
	spacing := make([]float64, samples)
	for i := range samples {
		code := decoded.Row(i * n / samples)
		for _, j := range idx[i*k : (i+1)*k] {
			if j >= 0 {
				spacing[i] = math.Max(spacing[i], tensor.SquaredDistance(code, decoded.Row(int(j))))
			}
		}
	}
	slices.Sort(spacing)
	return spacing[int(coverQuantile*float64(samples-1))], nil
}

// Fits says whether a valid model was made for the problem of this spec: its
// case, the widths of its networks, its decoded codes.
func Fits(m *model.Model, spec *domain.Spec) error {
	if m.Case != "" && m.Case != spec.Name {
		return fmt.Errorf("the model was trained for case %q, want %q", m.Case, spec.Name)
	}
	for _, w := range []struct {
		name       string
		size, want int
	}{
		{"E_x takes", m.EncoderX.In(), spec.ObservationSize()},
		{"E_o takes", m.EncoderO.In(), spec.OracleSize()},
		{"D_s gives", m.DecoderS.Out(), spec.MeasuredSize()},
		{"D_u gives", m.DecoderU.Out(), spec.PlanSize()},
	} {
		if w.size != w.want {
			return fmt.Errorf("%s %d values, case %q needs %d", w.name, w.size, spec.Name, w.want)
		}
	}
	if tau, bound := m.Calibration.TauGeom, ResidualBound(spec, m.NormS); !(tau >= 0 && tau <= bound) {
		return fmt.Errorf("the map's tau_geom is %g, want it in [0, %.4g]: no observation of case %q has a larger residual", tau, bound, spec.Name)
	}
	if n := m.Codes.Rows; n > 0 && m.CodesDecoded.Rows > 0 {
		return tensor.Check("batchnav", "decoded codes", m.CodesDecoded, n, spec.MeasuredSize())
	}
	return nil
}

// stepParams narrows the navigation constants to what a backend takes.
func stepParams(nav domain.Navigation, latent int) backend.StepParams {
	return backend.StepParams{
		Dt: float32(nav.LatentStep), VMax: float32(nav.VMax), Epsilon: float32(nav.Epsilon),
		MetricLambda: float32(nav.MetricLambda), TopK: min(nav.TopK, latent),
		LieGain: float32(nav.LieGain), LieScale: float32(nav.LieScale),
		Group: backend.Group{RotationBlocks: nav.RotationBlocks},
	}
}

// observe writes the normalised input of E_x, [s, c, slot], and the float32 copies that the backend takes. slot is
// scratch of PreferenceSize. normal is x̂, nil where the caller has no use for it.
func (l *loaded) observe(s, c []float64, pref domain.Preference, slot []float64, input, state, ctx, normal []float32) {
	ns, nc := l.spec.MeasuredSize(), l.spec.ContextSize()
	tensor.Narrow(state, s)
	tensor.Narrow(ctx, c)
	if normal != nil {
		l.model.NormS.Apply(normal, state)
	}
	copy(input[:ns], state)
	copy(input[ns:ns+nc], ctx)
	pref.Slot(slot, l.model.Calibration.PreferenceFloor)
	tensor.Narrow(input[ns+nc:], slot)
	l.model.NormX.Apply(input, input)
}

// weights writes σ_i/(nadir_i − ideal_i), the effective objective weights.
func (l *loaded) weights(sigma []float64, w []float32) {
	for i, v := range sigma {
		w[i] = float32(v * l.inverseRange[i])
	}
}

// rates writes the weights of the raw objectives that an action is counted with: those
// of ProblemAbilities.Weights, or σ.
func (l *loaded) rates(pref domain.Preference, s, u, c, delta, weights []float64) {
	if !l.abilities.Weights(pref, weights) {
		pref.Priority(l.problem, s, u, c, delta, weights)
	}
}
