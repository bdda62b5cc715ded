package batchnav

import (
	"fmt"
	"math"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Observation is what one loop sees at one decision: measured state, context
// and preference, physical units.
type Observation struct {
	S, C       []float64
	Preference domain.Preference
}

// Batch is many independent closed loops of one map that decide together: each
// backend call serves all rows. It is used by one goroutine.
type Batch struct {
	*loaded
	opt           Options
	size          int
	residualLimit float64
	loops         []loop
	// Rows of every matrix are loops.
	input, normal, state, ctx  tensor.Matrix // [s,c,slot]; x̂; s; c
	observed, latent, moved    tensor.Matrix // z_obs; z_t; z_{t+1}
	plan, decoded, normDecoded tensor.Matrix // u; ŝ; ŝ normalised
	weight                     tensor.Matrix
	tau                        []float32
	consistent                 []bool
	guards                     []backend.Fallback
	// uniform is the preference of the ablation without semantics.
	uniform domain.Preference
	slot    []float64
	delta   []float64
	fresh   []float64
	shat    []float64
}

// loop is the memory of one closed loop.
type loop struct {
	noise                        NoiseEstimator
	haveLatent                   bool
	previous                     []float32 // z of the last decision
	haveSigma                    bool
	sigma                        []float64 // filtered priority
	haveState                    bool
	lastS, lastC, lastU          []float64
	state                        []float64 // what the loop works on: s_t, or the observer's estimate
	predictedS, predictedC       []float64
	innovation                   []float64
	u, raw, margins, alternative []float64
	alternativeMargins           []float64
	bad                          bool
	variance                     float64
}

// NewBatch prepares size loops; see NewNavigator.
func NewBatch(b backend.Backend, m *model.Model, p domain.Problem, opt Options, size int) (*Batch, error) {
	if size < 1 {
		return nil, fmt.Errorf("batchnav: a batch of %d loops, want at least 1", size)
	}
	l, err := load(b, m, p, &opt, size)
	if err != nil {
		return nil, err
	}
	spec, nz := l.spec, m.Latent()
	ns, nc, nu, nm, objectives := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), len(spec.Margins), spec.ObjectiveSize()
	a := &Batch{
		loaded: l, opt: opt, size: size,
		residualLimit: opt.ResidualLimit,
		loops:         make([]loop, size),
		input:         tensor.New(size, spec.ObservationSize()),
		normal:        tensor.New(size, ns), state: tensor.New(size, ns), ctx: tensor.New(size, nc),
		observed: tensor.New(size, nz), latent: tensor.New(size, nz), moved: tensor.New(size, nz),
		plan: tensor.New(size, spec.PlanSize()), decoded: tensor.New(size, ns), normDecoded: tensor.New(size, ns),
		weight: tensor.New(size, objectives),
		tau:    make([]float32, size), consistent: make([]bool, size), guards: make([]backend.Fallback, size),
		slot: make([]float64, spec.PreferenceSize()), delta: make([]float64, objectives), fresh: make([]float64, objectives), shat: make([]float64, ns),
	}
	if a.residualLimit == 0 {
		a.residualLimit = DefaultResidualLimit
	}
	a.uniform.W = make([]float64, objectives)
	for i := range a.uniform.W {
		a.uniform.W[i] = 1 / float64(objectives)
	}
	for i := range a.loops {
		l := &a.loops[i]
		l.previous = make([]float32, nz)
		l.sigma = make([]float64, objectives)
		l.lastS, l.predictedS, l.innovation = make([]float64, ns), make([]float64, ns), make([]float64, ns)
		l.state = make([]float64, ns)
		l.lastC, l.predictedC = make([]float64, nc), make([]float64, nc)
		l.lastU, l.u, l.raw, l.alternative = make([]float64, nu), make([]float64, nu), make([]float64, nu), make([]float64, nu)
		l.margins, l.alternativeMargins = make([]float64, nm), make([]float64, nm)
		a.ResetLoop(i)
	}
	return a, nil
}

// Reset starts an episode in every loop.
func (a *Batch) Reset() {
	for i := range a.loops {
		a.ResetLoop(i)
	}
}

// ResetLoop starts an episode in loop i alone.
func (a *Batch) ResetLoop(i int) {
	l := &a.loops[i]
	l.noise.Reset()
	l.haveLatent, l.haveSigma, l.haveState = false, false, false
	clear(l.lastC)
	copy(l.sigma, a.uniform.W)
}

// Decide makes one decision in every loop. len(obs) and len(out) must be the
// size of the batch. See Navigator.Decide.
func (a *Batch) Decide(obs []Observation, out []Decision) error {
	if len(obs) != a.size || len(out) != a.size {
		return fmt.Errorf("batchnav: %d observations and %d decisions for a batch of %d loops", len(obs), len(out), a.size)
	}
	start := time.Now()
	for i := range obs {
		if err := a.admit(i, &obs[i]); err != nil {
			return err
		}
	}
	if err := a.localize(); err != nil {
		return err
	}
	localized := time.Now()
	if err := a.flow(obs, out); err != nil {
		return err
	}
	stepped := time.Now()
	for i := range obs {
		a.execute(i, &obs[i], &out[i])
	}
	times := Times{Localize: localized.Sub(start), Step: stepped.Sub(localized), Project: time.Since(stepped)}
	for i := range out {
		out[i].Times = times
	}
	return nil
}

// preference is the one in force: the ablation without semantics replaces it.
func (a *Batch) preference(obs *Observation) domain.Preference {
	if a.opt.NoSemantic {
		return a.uniform
	}
	return obs.Preference
}

// admit checks an observation, updates the noise estimate and writes the
// observation in the backend's units. An observation that is not finite is replaced by zeros so that
// the batch can go on, and marked.
func (a *Batch) admit(i int, obs *Observation) error {
	spec, l := a.spec, &a.loops[i]
	if len(obs.S) != spec.MeasuredSize() || len(obs.C) != spec.ContextSize() {
		return fmt.Errorf("batchnav: observation %d has %d measured values and %d of context, case %q has %d and %d",
			i, len(obs.S), len(obs.C), spec.Name, spec.MeasuredSize(), spec.ContextSize())
	}
	if err := obs.Preference.Validate(spec.ObjectiveSize()); err != nil {
		return err
	}
	finiteC := finite(obs.C)
	l.bad = !finiteC || !finite(obs.S)
	if l.bad {
		clear(a.input.Row(i))
		clear(a.normal.Row(i))
		clear(a.state.Row(i))
		clear(a.ctx.Row(i))
		l.noise.Interrupt()
		l.haveState = false
		copy(l.state, obs.S)
	} else {
		a.innovate(l, obs.S)
	}
	l.variance = l.noise.Variance(a.model.Calibration.TauGeom)
	a.tau[i] = float32(a.threshold(l.variance))
	if !l.bad {
		a.estimate(l, obs.S)
		a.observe(l.state, obs.C, a.preference(obs), a.slot, a.input.Row(i), a.state.Row(i), a.ctx.Row(i), a.normal.Row(i))
	}
	if finiteC {
		copy(l.lastC, obs.C)
	}
	return nil
}

// innovate updates the noise estimate with s_t − F(s_{t−1}, u_{t−1}), both sides
// as measured.
func (a *Batch) innovate(l *loop, s []float64) {
	if l.haveState && !a.opt.NoiseFree && a.nav.Smoothing < 1 {
		a.problem.Step(l.lastS, l.lastC, l.lastU, l.predictedS, l.predictedC)
		for j, v := range s {
			l.innovation[j] = (v - l.predictedS[j]) / float64(a.model.NormS.Scale[j])
		}
		if finite(l.innovation) {
			l.noise.Observe(l.innovation)
		} else {
			l.noise.Interrupt()
		}
	}
	copy(l.lastS, s)
}

// estimate sets the state that the loop works on: the measured one, or under
// noise the observer's.
func (a *Batch) estimate(l *loop, s []float64) {
	if a.opt.Observer && l.haveState && l.variance > 0 {
		a.problem.Step(l.state, l.lastC, l.lastU, l.predictedS, l.predictedC)
		if finite(l.predictedS) {
			alpha := a.nav.Smoothing
			for j, v := range s {
				l.state[j] = (1-alpha)*l.predictedS[j] + alpha*v
			}
			return
		}
	}
	copy(l.state, s)
}

// localize is step 1 of Algorithm 2: encode, the nearest measurement-consistent
// code with its affine refinement, and smoothing with α = 1 while σ̂² = 0.
func (a *Batch) localize() error {
	if err := a.encoder.Forward(a.input, a.observed); err != nil {
		return err
	}
	if a.opt.Direct || a.index == nil {
		for i := range a.size {
			copy(a.latent.Row(i), a.observed.Row(i))
			a.consistent[i] = true
		}
	} else if err := a.index.Localize(a.normal, a.observed, a.tau, a.nav.Neighbours, backend.LocalizeOutput{Z: a.latent, Consistent: a.consistent}); err != nil {
		return err
	}
	for i := range a.loops {
		l := &a.loops[i]
		if l.bad || a.opt.Direct || a.opt.Observer || !l.haveLatent || l.variance == 0 {
			continue
		}
		z, alpha := a.latent.Row(i), float32(a.nav.Smoothing)
		for j, p := range l.previous {
			z[j] = (1-alpha)*p + alpha*z[j]
		}
	}
	return nil
}

// flow is steps 2 to 5: priority at ŝ = D_s(z_t), latent step, retraction,
// decode and clip.
func (a *Batch) flow(obs []Observation, out []Decision) error {
	if err := a.stepper.Decode(a.latent, a.ctx, a.state, a.plan, a.decoded); err != nil {
		return err
	}
	for i := range obs {
		l, d := &a.loops[i], &out[i]
		a.model.NormS.Apply(a.normDecoded.Row(i), a.decoded.Row(i))
		d.Residual = square(a.normal.Row(i), a.normDecoded.Row(i))
		d.Threshold = a.threshold(l.variance)
		d.NoiseVariance = l.variance
		d.Consistent = a.consistent[i]
		a.steer(i, obs)
		a.weights(l.sigma, a.weight.Row(i))
		a.guards[i] = 0
	}
	if a.opt.Direct {
		return a.moved.CopyFrom(a.latent)
	}
	mix := float32(a.nav.RetractionMix)
	retract := mix > 0 && a.index != nil
	in := backend.StepInput{Z: a.latent, X: a.state, Ctx: a.ctx, Weights: a.weight}
	stepped := backend.StepOutput{Z: a.moved, Fallbacks: a.guards}
	if !retract {
		stepped.U = a.plan
	}
	if err := a.stepper.Step(in, stepped); err != nil || !retract {
		return err
	}
	// Π_{M*} is the same search and refinement, with the moved latent as query.
	retracted := a.observed
	if err := a.index.Localize(a.normal, a.moved, a.tau, a.nav.Neighbours, backend.LocalizeOutput{Z: retracted}); err != nil {
		return err
	}
	for i := range a.size {
		z, r := a.moved.Row(i), retracted.Row(i)
		for j := range z {
			z[j] = (1-mix)*z[j] + mix*r[j]
		}
	}
	return a.stepper.Decode(a.moved, a.ctx, a.state, a.plan, tensor.Matrix{})
}

// steer updates the priority of loop i from the decoded state, through the
// first-order low-pass filter. A fixed preference is not filtered.
func (a *Batch) steer(i int, obs []Observation) {
	l := &a.loops[i]
	pref := a.preference(&obs[i])
	if !pref.Adaptive {
		copy(l.sigma, pref.W)
		l.haveSigma = false
		return
	}
	if l.bad {
		return
	}
	tensor.Widen(a.shat, a.decoded.Row(i))
	tensor.Widen(l.raw, a.plan.Row(i)[:len(l.raw)])
	a.problem.Indicators(a.shat, l.raw, obs[i].C, a.delta)
	if !finite(a.delta) {
		return // keeps the last priority; the action's own check follows
	}
	if !l.haveSigma {
		a.spec.Semantic.Priority(a.delta, l.sigma)
		l.haveSigma = true
		return
	}
	a.spec.Semantic.Priority(a.delta, a.fresh)
	gain := a.nav.PriorityFilter
	for j := range l.sigma {
		l.sigma[j] += gain * (a.fresh[j] - l.sigma[j])
	}
}

// execute projects, checks and, where needed, replaces the decoded action, and
// completes the record.
func (a *Batch) execute(i int, obs *Observation, d *Decision) {
	l := &a.loops[i]
	d.U, d.Plan, d.Latent, d.Sigma, d.Margins = l.u, a.plan.Row(i), a.moved.Row(i), l.sigma, l.margins
	d.Fallback = Fallback(a.guards[i])
	d.Correction = 0
	if l.bad {
		a.refuse(l, obs, d)
		return
	}
	d.Displacement = math.Sqrt(square(a.moved.Row(i), a.latent.Row(i)))
	tensor.Widen(l.u, d.Plan[:len(l.u)])
	if !finite(l.u) || !finite(d.Latent) {
		d.Fallback |= FallbackAction | FallbackConservative
		a.problem.Fallback(l.state, obs.C, l.u)
		a.problem.Margins(l.state, obs.C, l.u, l.margins)
		d.Margin = smallest(l.margins)
		l.haveLatent = false
	} else {
		if !a.opt.NoProjection {
			copy(l.raw, l.u)
			a.problem.Project(l.state, obs.C, l.u)
			for j, v := range l.raw {
				d.Correction = math.Max(d.Correction, math.Abs(v-l.u[j]))
			}
		}
		a.problem.Margins(l.state, obs.C, l.u, l.margins)
		d.Margin = smallest(l.margins)
		a.guard(l, obs, d)
		copy(l.previous, d.Latent)
		l.haveLatent = true
	}
	copy(l.lastU, l.u)
	l.haveState = true
}

// refuse answers an observation that is not finite.
func (a *Batch) refuse(l *loop, obs *Observation, d *Decision) {
	a.problem.Fallback(l.state, l.lastC, l.u)
	d.Fallback = FallbackObservation | FallbackConservative
	for j := range l.margins {
		l.margins[j] = math.NaN()
	}
	d.Margin, d.Residual, d.Displacement = math.NaN(), math.NaN(), 0
	d.Consistent = false
}

// guard is the fallback trigger: a margin below −MarginTolerance after
// projection, or a residual above the stated multiple of τ_t (written so that a
// NaN triggers too; a model without calibration has no τ). It asks the solver, then Problem.Fallback. An answer to a
// negative margin is executed only if its own smallest margin is larger.
func (a *Batch) guard(l *loop, obs *Observation, d *Decision) {
	broken := !(d.Margin >= -a.spec.MarginTolerance)
	if broken {
		d.Fallback |= FallbackMargin
	}
	if d.Threshold > 0 && !(d.Residual <= a.residualLimit*d.Threshold) {
		d.Fallback |= FallbackResidual
	} else if !broken {
		return
	}
	if a.opt.NoFallback || a.opt.NoProjection && a.opt.Solver == nil {
		return // the ablation executes what was decoded; the trigger is recorded
	}
	bit := FallbackSolver
	if a.opt.Solver == nil || !a.opt.Solver(l.state, obs.C, a.preference(obs), l.alternative) || !finite(l.alternative) {
		bit = FallbackConservative
		a.problem.Fallback(l.state, obs.C, l.alternative)
	}
	a.problem.Margins(l.state, obs.C, l.alternative, l.alternativeMargins)
	margin := smallest(l.alternativeMargins)
	better := margin > d.Margin || math.IsNaN(d.Margin)
	keeps := margin >= -a.spec.MarginTolerance
	if (broken && better) || (!broken && keeps) {
		copy(l.u, l.alternative)
		copy(l.margins, l.alternativeMargins)
		d.Margin = margin
		d.Fallback |= bit
	}
}
