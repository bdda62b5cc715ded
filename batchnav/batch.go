package batchnav

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/loops"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Observation is what one loop sees at one decision: measured state, context
// and preference, physical units.
type Observation struct {
	S, C       []float64
	Preference domain.Preference
	// Until is when a search is to have its best: it begins no round that would end later, as
	// far as the last one tells. The result then depends on the machine. Zero: whenever.
	Until time.Time
}

// Batch is many independent closed loops of one map that decide together: each
// backend call serves all rows. Where the backend keeps loops by itself
// (backend.LoopsBackend) their latents stay there from decision to decision. It is
// used by one goroutine.
type Batch struct {
	*loaded
	opt      Options
	size     int
	latents  backend.Loops
	onDevice bool
	loops    []loop
	every    []int // all loops
	// Of the decision that is made: the loops that make it, and their input and output.
	which []int
	in    backend.LoopsInput
	out   backend.LoopsOutput
	// room and answer are in and out for every loop.
	room   backend.LoopsInput
	answer backend.LoopsOutput
	search *search // nil: none
	guard  *guard  // nil: none
	wrong  float64 // answerError of the map
	// uniform is the preference of the ablation without semantics.
	uniform domain.Preference
	slot    []float64
}

// loop is the memory of one closed loop.
type loop struct {
	row                          int // of the decision's input and output
	noise                        NoiseEstimator
	haveLatent                   bool
	haveSigma                    bool
	sigma                        []float64 // filtered priority
	haveState                    bool
	decided                      bool      // there is a last decision
	lastS, lastC, lastU          []float64 // as measured, or assumed where that was not finite
	state                        []float64 // what the loop works on: s_t, or the observer's estimate
	predictedS, predictedC       []float64
	innovation                   []float64
	u, raw, margins, alternative []float64
	alternativeMargins           []float64
	bad                          bool
	variance                     float64
	memory                       *memory // of the search
	watched                      watched // of the guard
}

// NewBatch prepares size loops; see NewNavigator.
func NewBatch(b backend.Backend, m *model.Model, p domain.Problem, opt Options, size int) (*Batch, error) {
	if size < 1 {
		return nil, fmt.Errorf("batchnav: a batch of %d loops, want at least 1", size)
	}
	searches := opt.Search != SearchOptions{}
	opt.Direct = opt.Direct || searches && !opt.Search.Flow
	l, err := load(b, m, p, &opt)
	if err != nil {
		return nil, err
	}
	spec, nz := l.spec, m.Latent()
	ns, nc, nu, nm, objectives := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), len(spec.Margins), spec.ObjectiveSize()
	a := &Batch{
		loaded: l, opt: opt, size: size,
		loops: make([]loop, size), every: make([]int, size),
		room: backend.NewLoopsInput(spec, size), answer: backend.NewLoopsOutput(spec, size),
		slot: make([]float64, spec.PreferenceSize()),
	}
	a.answer.Sigma = a.room.Sigma
	if opt.Latents || searches {
		a.answer.Z = tensor.New(size, nz)
	}
	if err := a.keep(); err != nil {
		return nil, err
	}
	if searches {
		if a.search, err = newSearch(l, &opt); err != nil {
			return nil, err
		}
	}
	if opt.Guard != nil && !opt.NoGuard {
		if a.guard, err = newGuard(l, &opt, size); err != nil {
			return nil, err
		}
	}
	if a.wrong, err = l.answerError(); err != nil {
		return nil, err
	}
	a.uniform.W = make([]float64, objectives)
	for i := range a.uniform.W {
		a.uniform.W[i] = 1 / float64(objectives)
	}
	for i := range a.loops {
		a.every[i] = i
		l := &a.loops[i]
		l.sigma = make([]float64, objectives)
		l.lastS, l.predictedS, l.innovation = make([]float64, ns), make([]float64, ns), make([]float64, ns)
		l.state = make([]float64, ns)
		l.lastC, l.predictedC = make([]float64, nc), make([]float64, nc)
		l.lastU, l.u, l.raw, l.alternative = make([]float64, nu), make([]float64, nu), make([]float64, nu), make([]float64, nu)
		l.margins, l.alternativeMargins = make([]float64, nm), make([]float64, nm)
		if searches {
			l.memory = &memory{Memory: a.search.sampler.NewMemory()}
		}
		a.ResetLoop(i)
	}
	return a, nil
}

// keep makes the loops' latents.
func (a *Batch) keep() (err error) {
	a.latents, a.onDevice, err = a.keepLoops(backend.LoopsConfig{
		MapConfig: a.mapConfig(a.size), RetractionMix: a.nav.RetractionMix, PriorityFilter: a.nav.PriorityFilter, Direct: a.opt.Direct,
		Smooths: a.smooths(),
	})
	return err
}

// smooths reports whether a decision may depend on the latent of the one before.
func (a *Batch) smooths() bool {
	return a.nav.Smoothing < 1 && !a.opt.Direct && !a.opt.Observer && !a.opt.NoiseFree
}

// keepLoops makes loops of the map: where the backend computes if it offers that, in its
// single operations otherwise.
func (l *loaded) keepLoops(cfg backend.LoopsConfig) (kept backend.Loops, onDevice bool, err error) {
	if b, ok := l.backend.(backend.LoopsBackend); ok {
		kept, err := b.NewLoops(cfg)
		switch {
		case err == nil:
			return kept, true, nil
		case !errors.Is(err, backend.ErrNoLoops):
			return nil, false, fmt.Errorf("batchnav: %w", err)
		}
	}
	if err := l.makeStepper(cfg.Step.MaxBatch); err != nil {
		return nil, false, err
	}
	kept, err = loops.Of(loops.Parts{Encoder: l.encoder, Index: l.index, Stepper: l.stepper}, cfg)
	return kept, false, err
}

// AnswerError is how wrong the map is about decisions that the problem knows by its own solver
// (domain.Answered): what it misses of their variation, as a share, 0 where none are known. Above
// 0.5 no decision of the map is trusted: each has domain.FallbackMap.
func (a *Batch) AnswerError() float64 { return a.wrong }

// OnDevice tells whether the latents stay where the backend computes.
func (a *Batch) OnDevice() bool { return a.onDevice }

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
	l.haveLatent, l.haveSigma, l.haveState, l.decided = false, false, false, false
	l.watched.forget()
	copy(l.sigma, a.uniform.W)
	if l.memory != nil {
		l.memory.forget()
	}
}

// Decide makes one decision in every loop. len(obs) and len(out) must be the
// size of the batch. See Navigator.Decide.
func (a *Batch) Decide(obs []Observation, out []Decision) error {
	if len(obs) != a.size || len(out) != a.size {
		return fmt.Errorf("batchnav: %d observations and %d decisions for a batch of %d loops", len(obs), len(out), a.size)
	}
	return a.decide(a.every, obs, out)
}

// DecideSome makes one decision in the loops of these numbers alone, which obs and out are
// of in their order; the others stay as they are. A decision is, to the bit, what it would be
// among others on a backend whose rows do not depend on each other's place, as the CPU's.
func (a *Batch) DecideSome(which []int, obs []Observation, out []Decision) error {
	if len(obs) != len(which) || len(out) != len(which) {
		return fmt.Errorf("batchnav: %d observations and %d decisions for %d loops", len(obs), len(out), len(which))
	}
	if len(which) == 0 {
		return nil
	}
	for i := range a.loops {
		a.loops[i].row = -1
	}
	for i, w := range which {
		if w < 0 || w >= a.size || a.loops[w].row >= 0 {
			return fmt.Errorf("batchnav: loop %d is asked for at place %d, want each of 0 to %d once at most", w, i, a.size-1)
		}
		a.loops[w].row = i
	}
	return a.decide(which, obs, out)
}

// at is the loop that entry i of a decision is of.
func (a *Batch) at(i int) *loop { return &a.loops[a.which[i]] }

// seat gives the loops of a decision their rows. On the host there are no others; where a
// backend keeps the latents every loop has its row, and those that do not decide are on hold.
func (a *Batch) seat(which []int) {
	a.which, a.in, a.out = which, a.room, a.answer
	if _, host := a.latents.(*loops.Loops); host {
		a.in, a.out = a.room.First(len(which)), a.answer.First(len(which))
		for i, w := range which {
			a.loops[w].row = i
		}
		return
	}
	for i := range a.loops {
		a.loops[i].row = i
		a.in.Hold[i], a.in.Smoothing[i], a.in.Steering[i] = true, 1, backend.SteerKeep
	}
}

// latent makes the decision's latents.
func (a *Batch) latent() error {
	if host, ok := a.latents.(*loops.Loops); ok {
		return host.DecideSome(a.which, a.in, a.out)
	}
	return a.latents.Decide(a.in, a.out)
}

func (a *Batch) decide(which []int, obs []Observation, out []Decision) error {
	start := time.Now()
	a.seat(which)
	defer func() { a.which = nil }()
	for i := range obs {
		if err := a.admit(i, &obs[i]); err != nil {
			return err
		}
	}
	if err := a.latent(); err != nil {
		return err
	}
	m := a.spec.ObjectiveSize()
	for i := range obs {
		l := a.at(i)
		copy(l.sigma, a.out.Sigma[l.row*m:])
	}
	if a.search != nil {
		for i := range obs {
			if err := a.refine(i, &obs[i], len(obs)-i); err != nil {
				return err
			}
		}
	}
	stepped := time.Now()
	for i := range obs {
		a.execute(i, &obs[i], &out[i])
	}
	if a.guard != nil {
		if err := a.guard.watch(a, obs, out); err != nil {
			return err
		}
	}
	for i := range obs {
		l := a.at(i)
		copy(l.lastU, l.u)
		l.haveState, l.decided = !l.bad, true
	}
	times := domain.Times{Step: stepped.Sub(start), Project: time.Since(stepped)}
	if host, ok := a.latents.(*loops.Loops); ok {
		times.Localize = host.Localized().Sub(start)
		times.Step -= times.Localize
	}
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

// admit checks an observation, updates the noise estimate and writes what the
// loop's latent is moved by. An observation that is not finite is replaced by zeros
// so that the batch can go on, and marked.
func (a *Batch) admit(i int, obs *Observation) error {
	spec, l, in := a.spec, a.at(i), &a.in
	row := l.row
	if err := spec.CheckSizes(obs.S, obs.C); err != nil {
		return fmt.Errorf("batchnav: observation %d %w", i, err)
	}
	if err := obs.Preference.Validate(spec.ObjectiveSize()); err != nil {
		return err
	}
	nc := spec.ContextSize()
	c, pref := in.C[row*nc:(row+1)*nc], a.preference(obs)
	l.bad = !tensor.Finite(obs.C) || !tensor.Finite(obs.S)
	if l.bad {
		clear(in.S.Row(row))
		clear(c)
		clear(in.Slot.Row(row))
		l.noise.Interrupt()
		a.assume(l, obs)
	} else {
		a.innovate(l, obs.S)
	}
	l.variance = min(l.noise.Variance(a.model.Calibration.TauGeom), a.bound)
	in.Tau[row] = float32(a.threshold(l.variance))
	in.Hold[row], in.Smoothing[row], in.Steering[row] = l.bad, 1, backend.SteerKeep
	if !l.bad {
		a.estimate(l, obs.S)
		tensor.Narrow(in.S.Row(row), l.state)
		copy(c, obs.C)
		pref.Slot(a.slot, a.model.Calibration.PreferenceFloor)
		tensor.Narrow(in.Slot.Row(row), a.slot)
		// α = 1 while σ̂² = 0.
		if !a.opt.Direct && !a.opt.Observer && l.haveLatent && l.variance > 0 {
			in.Smoothing[row] = float32(a.nav.Smoothing)
		}
	}
	switch {
	case !pref.Adaptive: // a fixed preference is not filtered
		copy(l.sigma, pref.W)
		l.haveSigma = false
	case l.bad:
	case l.haveSigma:
		in.Steering[row] = backend.SteerFilter
	default:
		in.Steering[row] = backend.SteerSet
	}
	copy(in.Sigma[row*len(l.sigma):], l.sigma)
	if !l.bad {
		copy(l.lastC, obs.C)
	}
	return nil
}

// assume completes an observation that is not finite by what the known dynamics lead to
// from the last decision. Before there is one a state stays unknown, and a context is the
// mean of those that the map was made for.
func (a *Batch) assume(l *loop, obs *Observation) {
	if l.decided {
		a.problem.Step(l.lastS, l.lastC, l.lastU, l.predictedS, l.predictedC)
	} else {
		for j := range l.predictedS {
			l.predictedS[j] = math.NaN()
		}
		tensor.Widen(l.lastC, a.model.NormX.Mean[len(l.lastS):][:len(l.lastC)])
		copy(l.predictedC, l.lastC)
	}
	for j, v := range obs.S {
		l.state[j] = known(v, l.predictedS[j])
	}
	copy(l.lastS, l.state)
	for j, v := range obs.C {
		l.lastC[j] = known(v, known(l.predictedC[j], l.lastC[j]))
	}
}

// known is v, or otherwise where that is not finite.
func known(v, otherwise float64) float64 {
	if v-v != 0 {
		return otherwise
	}
	return v
}

// innovate updates the noise estimate with s_t − F(s_{t−1}, u_{t−1}), both sides
// as measured.
func (a *Batch) innovate(l *loop, s []float64) {
	if l.haveState && !a.opt.NoiseFree && a.nav.Smoothing < 1 {
		a.problem.Step(l.lastS, l.lastC, l.lastU, l.predictedS, l.predictedC)
		for j, v := range s {
			l.innovation[j] = (v - l.predictedS[j]) / float64(a.model.NormS.Scale[j])
		}
		if a.plausible(l.innovation) {
			l.noise.Observe(l.innovation)
		} else {
			l.noise.Interrupt()
		}
	}
	copy(l.lastS, s)
}

// plausible reports whether an innovation may be noise: not where it is beyond what the limit
// can be.
func (a *Batch) plausible(innovation []float64) bool {
	sum := 0.0
	for _, v := range innovation {
		sum += v * v
	}
	return sum <= (1+a.times)*a.bound
}

// estimate sets the state that the loop works on: the measured one, or under
// noise the observer's.
func (a *Batch) estimate(l *loop, s []float64) {
	if a.opt.Observer && l.haveState && l.variance > 0 {
		a.problem.Step(l.state, l.lastC, l.lastU, l.predictedS, l.predictedC)
		if tensor.Finite(l.predictedS) {
			alpha := a.nav.Smoothing
			for j, v := range s {
				l.state[j] = (1-alpha)*l.predictedS[j] + alpha*v
			}
			return
		}
	}
	copy(l.state, s)
}

// refine replaces direct's plan of entry i by the one that the search finds. So many, this
// one included, are still to share the time.
func (a *Batch) refine(i int, obs *Observation, left int) (err error) {
	l := a.at(i)
	row := l.row
	if l.bad || a.out.Flags[row]&backend.LoopFinite == 0 {
		return nil
	}
	within := a.opt.Search.Within
	if !obs.Until.IsZero() {
		share := max(1, time.Until(obs.Until)/time.Duration(left))
		if within == 0 || share < within {
			within = share
		}
	}
	a.out.Displacement[row], err = a.search.decide(l.memory, l.state, obs.C, a.preference(obs), a.in.S.Row(row), a.out.Z.Row(row), a.out.U.Row(row), within)
	return err
}

// execute projects, checks and, where needed, replaces the decoded action, and
// completes the record.
func (a *Batch) execute(i int, obs *Observation, d *Decision) {
	l := a.at(i)
	o, row := &a.out, l.row
	flags := o.Flags[row]
	l.haveSigma = l.haveSigma || flags&backend.LoopSteered != 0
	d.U, d.Plan, d.Sigma, d.Margins = l.u, o.U.Row(row), l.sigma, l.margins
	if a.opt.Latents {
		d.Latent = o.Z.Row(row)
	}
	d.Fallback = domain.Fallback(o.Fallbacks[row])
	d.Threshold, d.NoiseVariance = a.threshold(l.variance), l.variance
	d.Residual, d.Displacement, d.Correction = o.Residual[row], o.Displacement[row], 0
	d.Consistent = flags&backend.LoopConsistent != 0
	d.Limit = a.limit(l.variance)
	d.OffMap = l.bad || !(d.Residual <= d.Limit)
	if l.bad {
		a.refuse(l, obs, d)
		return
	}
	tensor.Widen(l.u, d.Plan[:len(l.u)])
	if flags&backend.LoopFinite == 0 {
		d.Fallback |= domain.FallbackAction | domain.FallbackConservative
		a.problem.Fallback(l.state, obs.C, l.u)
		a.problem.Margins(l.state, obs.C, l.u, l.margins)
		d.Margin = domain.Smallest(l.margins)
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
		d.Margin = domain.Smallest(l.margins)
		a.trigger(l, obs, d)
		l.haveLatent = true
	}
}

// refuse answers an observation that is not finite: by Problem.Fallback in what is assumed,
// or by the solver where that would break a limit. What the margins are is not known.
func (a *Batch) refuse(l *loop, obs *Observation, d *Decision) {
	a.problem.Fallback(l.state, l.lastC, l.u)
	d.Fallback = domain.FallbackObservation | domain.FallbackConservative
	if tensor.Finite(l.state) && !a.spec.Keeps(a.margin(l, l.u, l.margins)) &&
		a.opt.Solver.Finds(l.state, l.lastC, a.preference(obs), l.alternative) &&
		a.margin(l, l.alternative, l.alternativeMargins) > domain.Smallest(l.margins) {
		copy(l.u, l.alternative)
		d.Fallback = domain.FallbackObservation | domain.FallbackSolver
	}
	for j := range l.margins {
		l.margins[j] = math.NaN()
	}
	d.Margin, d.Residual, d.Displacement = math.NaN(), math.NaN(), 0
	d.Consistent = false
}

// margin is the smallest of u in what is assumed of an observation that is not finite.
func (a *Batch) margin(l *loop, u, margins []float64) float64 {
	a.problem.Margins(l.state, l.lastC, u, margins)
	return domain.Smallest(margins)
}

// trigger is the fallback trigger: a margin below −MarginTolerance after
// projection (written so that a NaN triggers too), an observation off the map, or a map that
// is wrong about known answers. It asks the solver, then Problem.Fallback. An answer to a
// negative margin is executed only if its own smallest margin is larger. Under a
// guard the trigger is recorded: whether the action is executed is the roll-out's to say.
func (a *Batch) trigger(l *loop, obs *Observation, d *Decision) {
	broken := !a.spec.Keeps(d.Margin)
	if broken {
		d.Fallback |= domain.FallbackMargin
	}
	if d.OffMap {
		d.Fallback |= domain.FallbackResidual
	}
	if !(a.wrong <= answerTolerance) {
		d.Fallback |= domain.FallbackMap
	}
	if d.Fallback&(domain.FallbackMargin|domain.FallbackResidual|domain.FallbackMap) == 0 {
		return
	}
	if a.guard != nil || a.opt.NoFallback || a.opt.NoProjection && a.opt.Solver == nil {
		return // the ablation executes what was decoded; the trigger is recorded
	}
	bit := a.opt.Solver.Instead(a.problem, l.state, obs.C, a.preference(obs), l.alternative)
	a.problem.Margins(l.state, obs.C, l.alternative, l.alternativeMargins)
	margin := domain.Smallest(l.alternativeMargins)
	better := margin > d.Margin || math.IsNaN(d.Margin)
	if (broken && better) || (!broken && a.spec.Keeps(margin)) {
		copy(l.u, l.alternative)
		copy(l.margins, l.alternativeMargins)
		d.Margin = margin
		d.Fallback |= bit
	}
}
