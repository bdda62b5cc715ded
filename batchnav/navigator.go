// Package batchnav is the online part of Geometric Pareto Control. It has
// Algorithm 2 of the paper ("Online Pareto Map Navigation") for one state and
// for thousands at once, and the refinement of many latent candidates. The
// monitor of a running loop is here too.
//
// The central type is Navigator, one closed loop of one trained map on one
// compute backend. Batch is the same for many independent loops that decide
// together. The arithmetic of a latent step is the backend's; this package
// decides what is localized, steered, projected, guarded and recorded.
//
// Sources: paper, sec. "Online Navigation" (alg:online), app:rk2. Where the
// paper leaves a choice, the choice is stated at the code that makes it and in
// docs/explain/decision.md.
package batchnav

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Navigator is one closed loop. It is used by one goroutine. On the CPU backend
// Decide does not allocate after its first call, if the Problem does not.
type Navigator struct {
	batch       *Batch
	observation [1]Observation
	decision    [1]Decision
}

// NewNavigator checks that model and problem fit each other and prepares a loop.
// The model and problem are kept and not modified.
func NewNavigator(b backend.Backend, m *model.Model, p domain.Problem, opt Options) (*Navigator, error) {
	batch, err := NewBatch(b, m, p, opt, 1)
	if err != nil {
		return nil, err
	}
	return &Navigator{batch: batch}, nil
}

// Reset starts an episode: smoothing, priority filter and noise estimate forget
// what was.
func (n *Navigator) Reset() { n.batch.Reset() }

// Decide takes the measured state s and context c in physical units under a
// preference and returns the executed action with its monitor record. The inputs
// are not kept; the Decision's slices are valid until the next call. An entry
// of s or c that is not finite is answered by Problem.Fallback and flagged; it is
// not an error.
func (n *Navigator) Decide(s, c []float64, pref domain.Preference) (*Decision, error) {
	n.observation[0] = Observation{S: s, C: c, Preference: pref}
	if err := n.batch.Decide(n.observation[:], n.decision[:]); err != nil {
		return nil, err
	}
	return &n.decision[0], nil
}

// Prepare is Batch.Prepare.
func (n *Navigator) Prepare() error { return n.batch.Prepare() }

// AnswerError is Batch.AnswerError.
func (n *Navigator) AnswerError() float64 { return n.batch.AnswerError() }

// Follow has the guard ask about each decision before it rolls it out; nil: it asks no follower. The navigator must
// have a guard.
func (n *Navigator) Follow(f *domain.Follower) { n.batch.guard.follower = f }

// Controller is the navigator as evaluation takes a method.
func (n *Navigator) Controller() domain.Controller { return controller{n} }

type controller struct{ navigator *Navigator }

// Abilities implements domain.Able.
func (c controller) Abilities() *domain.ControllerAbilities {
	b := c.navigator.batch
	abilities := &domain.ControllerAbilities{Executed: func(u []float64) { b.Executed(0, u) }, Missed: c.missed}
	if b.Prepares() {
		abilities.Prepare = b.Prepare
	}
	if b.guard != nil {
		abilities.Follows = c.navigator.Follow
		if b.guard.receding != nil {
			abilities.Again = c.replay
		}
	}
	return abilities
}

func (c controller) Reset(domain.Episode) error {
	c.navigator.Reset()
	return nil
}

func (c controller) replay(plan []float64) {
	c.navigator.Reset()
	b := c.navigator.batch
	b.loops[0].guard.accepted.continueWith(plan, b.spec.ActionSize())
}

func (c controller) Decide(s, cx []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	d, err := c.navigator.Decide(s, cx, pref)
	if err != nil {
		return domain.Decision{}, err
	}
	copy(u, d.U)
	return d.Decision, nil
}

func (c controller) missed(s, cx, u []float64) {
	if s == nil {
		s = []float64{math.NaN()} // as an observation that is not known
	}
	c.navigator.batch.Missed(0, Observation{S: s, C: cx}, u)
}

// Decide makes one decision in every loop. len(obs) and len(out) must be the
// size of the batch. See Navigator.Decide.
func (a *Batch) Decide(obs []Observation, out []Decision) error {
	if len(obs) != a.size || len(out) != a.size {
		return fmt.Errorf("%d observations and %d decisions for a batch of %d loops", len(obs), len(out), a.size)
	}
	return a.decide(a.allLoops, obs, out)
}

// DecideSome makes one decision in the loops of these numbers alone. obs and out are in their order; the other loops
// stay as they are. A decision does not depend on its companions, to the bit, where the rows of a backend are
// independent and it keeps no loops by itself. The CPU is such a backend.
func (a *Batch) DecideSome(numbers []int, obs []Observation, out []Decision) error {
	if len(obs) != len(numbers) || len(out) != len(numbers) {
		return fmt.Errorf("%d observations and %d decisions for %d loops", len(obs), len(out), len(numbers))
	}
	if len(numbers) == 0 {
		return nil
	}
	for i := range a.loops {
		a.loops[i].row = -1
	}
	for i, w := range numbers {
		if w < 0 || w >= a.size || a.loops[w].row >= 0 {
			return fmt.Errorf("entry %[2]d names loop %[1]d, want each of 0 to %[3]d at most once", w, i, a.size-1)
		}
		a.loops[w].row = i
	}
	return a.decide(numbers, obs, out)
}

func (a *Batch) decide(numbers []int, obs []Observation, out []Decision) error {
	start := time.Now()
	a.assignRows(numbers)
	defer func() { a.active, a.obs, a.decisions = nil, nil, nil }()
	obs, err := a.weigh(obs)
	if err != nil {
		return err
	}
	a.obs, a.decisions = obs, out
	if err := a.admit(); err != nil {
		return err
	}
	if err := a.latent(); err != nil {
		return err
	}
	if a.search != nil {
		for i := range obs {
			if err := a.refine(i, &obs[i], len(obs)-i); err != nil {
				return err
			}
		}
	}
	stepEnd := time.Now()
	a.share(a.executes)
	if a.guard != nil {
		if err := a.guard.watch(a, obs, out); err != nil {
			return err
		}
	}
	for i := range obs {
		l := a.loopAt(i)
		if a.ahead != nil {
			l.prepared.finish(a.preference(&obs[i]))
		}
		copy(l.lastU, l.u)
		l.history.state, l.history.decision = !l.bad, true
		out[i].Ahead = l.guard.accepted.actions
	}
	times := domain.Times{Step: stepEnd.Sub(start), Project: time.Since(stepEnd)}
	if host, ok := a.latents.(*backend.HostLoops); ok {
		times.Localize = host.Localized().Sub(start)
		times.Step -= times.Localize
	}
	for i := range out {
		out[i].Times = times
	}
	return nil
}

// loopsOfAThread is the least number of loops that are worth a thread.
const loopsOfAThread = 32

// share has threads call f for parts of the decision's entries: what each loop does by itself.
func (a *Batch) share(f func(part, from, to int)) {
	parallel.Split(min(a.threads, len(a.obs)/loopsOfAThread), len(a.obs), f)
}

// loopAt is the loop of entry i of a decision.
func (a *Batch) loopAt(i int) *loop { return &a.loops[a.active[i]] }

// assignRows gives the loops of a decision their rows. On the host only these loops have rows. Where a backend keeps
// the latents every loop has its row, and those that do not decide are on hold.
func (a *Batch) assignRows(numbers []int) {
	a.active, a.in, a.out = numbers, a.room, a.answer
	if _, host := a.latents.(*backend.HostLoops); host {
		a.in, a.out = a.room.First(len(numbers)), a.answer.First(len(numbers))
		for i, w := range numbers {
			a.loops[w].row = i
		}
		return
	}
	if len(numbers) < leastProjected {
		a.in.State, a.out.Action, a.out.Margins = nil, nil, nil
	}
	for i := range a.loops {
		a.loops[i].row = i
		a.in.Hold[i], a.in.Smoothing[i], a.in.Steering[i] = true, 1, backend.SteerKeep
	}
}

// admit checks the observations and takes them.
func (a *Batch) admit() error {
	for i := range a.obs {
		if err := a.spec.CheckSizes(a.obs[i].S, a.obs[i].C); err != nil {
			return fmt.Errorf("observation %d %w", i, err)
		}
		if err := a.obs[i].Preference.Validate(a.spec.ObjectiveSize()); err != nil {
			return fmt.Errorf("observation %d: %w", i, err)
		}
	}
	a.share(a.takeSome)
	return nil
}

// take updates the noise estimate by an observation and writes what the
// loop's latent is moved by. An observation that is not finite is replaced by zeros
// so that the batch can go on, and marked.
func (a *Batch) take(l *loop, obs *Observation) {
	input, row := &a.in, l.row
	c, pref := input.C[row*len(obs.C):][:len(obs.C)], a.preference(obs)
	l.bad = !tensor.Finite(obs.C) || !tensor.Finite(obs.S)
	if l.bad {
		clear(input.S.Row(row))
		clear(c)
		clear(input.Slot.Row(row))
		l.noise.Interrupt()
		a.assume(l, obs)
	} else {
		a.innovate(l, obs.S)
	}
	l.variance = min(l.noise.Variance(a.model.Calibration.TauGeom), a.bound)
	input.Tau[row] = float32(a.threshold(l.variance))
	input.Hold[row], input.Smoothing[row], input.Steering[row] = l.bad, 1, backend.SteerKeep
	if !l.bad {
		a.estimate(l, obs.S)
		tensor.Narrow(input.S.Row(row), l.state)
		if len(input.State) > 0 {
			copy(input.State[row*len(l.state):], l.state)
		}
		copy(c, obs.C)
		pref.Slot(l.slot, a.model.Calibration.PreferenceFloor)
		tensor.Narrow(input.Slot.Row(row), l.slot)
		// α = 1 while σ̂² = 0.
		if !a.opt.Direct && !a.opt.Observer && l.history.latent && l.variance > 0 {
			input.Smoothing[row] = float32(a.nav.Smoothing)
		}
	}
	switch {
	case !pref.Adaptive: // a fixed preference is not filtered
		copy(l.sigma, pref.W)
		l.history.sigma = false
	case l.bad:
	case l.history.sigma:
		input.Steering[row] = backend.SteerFilter
	default:
		input.Steering[row] = backend.SteerSet
	}
	copy(input.Sigma[row*len(l.sigma):], l.sigma)
	if !l.bad {
		copy(l.lastC, obs.C)
	}
}

// assume completes an observation that is not finite by the known dynamics from the last decision. Before the first
// decision a state stays unknown, and a context is the mean of those that the map was made for.
func (a *Batch) assume(l *loop, obs *Observation) {
	if l.history.decision {
		a.problem.Step(l.lastS, l.lastC, l.lastU, l.predictedS, l.predictedC)
	} else {
		tensor.Fill(l.predictedS, math.NaN())
		tensor.Widen(l.lastC, a.model.NormX.Mean[len(l.lastS):][:len(l.lastC)])
		copy(l.predictedC, l.lastC)
	}
	for j, v := range obs.S {
		l.state[j] = finiteOr(v, l.predictedS[j])
	}
	copy(l.lastS, l.state)
	for j, v := range obs.C {
		l.lastC[j] = finiteOr(v, finiteOr(l.predictedC[j], l.lastC[j]))
	}
}

// finiteOr is v, or otherwise where that is not finite.
func finiteOr(v, otherwise float64) float64 {
	if v-v != 0 {
		return otherwise
	}
	return v
}

// innovate updates the noise estimate with s_t − F(s_{t−1}, u_{t−1}), both sides
// as measured.
func (a *Batch) innovate(l *loop, s []float64) {
	if l.history.state && !a.opt.NoiseFree && a.nav.Smoothing < 1 {
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

// plausible reports whether an innovation may be noise: it is at most as large as the limit can be.
func (a *Batch) plausible(innovation []float64) bool {
	return tensor.DotInOrder(innovation, innovation) <= (1+a.times)*a.bound
}

// estimate sets the state that the loop works on: the measured one, or under
// noise the observer's.
func (a *Batch) estimate(l *loop, s []float64) {
	if a.opt.Observer && l.history.state && l.variance > 0 {
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

// preference is the one in force: the ablation without semantics replaces it.
func (a *Batch) preference(obs *Observation) domain.Preference {
	if a.opt.NoSemantic {
		return a.uniform
	}
	return obs.Preference
}

// latent makes the decision's latents.
func (a *Batch) latent() error {
	if host, ok := a.latents.(*backend.HostLoops); ok {
		return host.DecideSome(a.active, a.in, a.out)
	}
	return a.latents.Decide(a.in, a.out)
}

// refine replaces direct's plan of entry i by the one of the search. remaining is the number of entries that still
// share the time, this one included.
func (a *Batch) refine(i int, obs *Observation, remaining int) (err error) {
	l := a.loopAt(i)
	row := l.row
	if l.bad || a.out.Flags[row]&backend.LoopFinite == 0 {
		return nil
	}
	if l.prepared.ready {
		if l.prepared.preference.Equal(a.preference(obs)) {
			a.out.Displacement[row], err = a.ahead.bend(l.memory, obs.C, a.in.S.Row(row), a.out.Z.Row(row), a.out.U.Row(row))
			return err
		}
		l.memory.lose()
		l.prepared.forget()
	}
	timeLimit := a.opt.Search.TimeLimit
	if !obs.Deadline.IsZero() {
		share := max(1, time.Until(obs.Deadline)/time.Duration(remaining))
		if timeLimit == 0 || share < timeLimit {
			timeLimit = share
		}
	}
	x := root{l.state, obs.C, a.preference(obs), a.in.S.Row(row), a.out.Z.Row(row)}
	a.out.Displacement[row], err = a.search.decide(l.memory, x, a.out.U.Row(row), timeLimit)
	return err
}

// execute projects the decoded action, unless the backend did, checks it, replaces it where needed, and completes the
// record.
func (a *Batch) execute(i int, obs *Observation, d *Decision) {
	l := a.loopAt(i)
	o, row := &a.out, l.row
	flags := o.Flags[row]
	copy(l.sigma, o.Sigma[row*len(l.sigma):])
	l.history.sigma = l.history.sigma || flags&backend.LoopSteered != 0
	decoded := o.U.Row(row)
	d.U, d.Decoded = l.u, decoded
	d.Sigma, d.Margins = l.sigma, l.margins
	if a.opt.Latents {
		d.Latent = o.Z.Row(row)
	}
	d.Fallback = domain.Fallback(o.Fallbacks[row])
	d.Threshold, d.NoiseVariance = a.threshold(l.variance), l.variance
	d.Residual, d.Displacement = o.Residual[row], o.Displacement[row]
	d.Correction, d.Gap, d.Breaks = 0, 0, false
	d.Consistent = flags&backend.LoopConsistent != 0
	d.Limit = a.limit(l.variance)
	if w := a.preference(obs).W; len(w) > 0 && slices.Min(w) < 0.01 && l.pursuit.goal == nil && a.spec.Training.Design == (domain.WeightDesign{}) {
		d.Fallback |= domain.FallbackWeights
	}
	d.OffMap = l.bad || !(d.Residual <= d.Limit) || a.outsideEnvelope(l.state, obs.C, l.variance)
	if l.bad {
		a.refuse(l, obs, d)
		return
	}
	tensor.Widen(l.u, decoded[:len(l.u)])
	if flags&backend.LoopFinite == 0 {
		d.Decoded = nil
		d.Fallback |= domain.FallbackAction | domain.FallbackConservative
		a.problem.Fallback(l.state, obs.C, l.u)
		a.problem.Margins(l.state, obs.C, l.u, l.margins)
		d.Margin = domain.Smallest(l.margins)
		l.history.latent = false
	} else {
		copy(l.raw, l.u)
		if flags&backend.LoopProjected != 0 {
			copy(l.u, o.Action[row*len(l.u):])
			copy(l.margins, o.Margins[row*len(l.margins):])
		} else {
			if !a.opt.NoProjection {
				a.problem.Project(l.state, obs.C, l.u)
			}
			a.problem.Margins(l.state, obs.C, l.u, l.margins)
		}
		for j, v := range l.raw {
			d.Correction = math.Max(d.Correction, math.Abs(v-l.u[j]))
		}
		d.Margin = domain.Smallest(l.margins)
		a.trigger(l, obs, d)
		l.history.latent = true
	}
}

// refuse answers an observation that is not finite by Problem.Fallback in the assumed state, or by the solver where the
// fallback would break a limit. The margins are not known.
func (a *Batch) refuse(l *loop, obs *Observation, d *Decision) {
	a.problem.Fallback(l.state, l.lastC, l.u)
	d.Fallback = domain.FallbackObservation | domain.FallbackConservative
	if tensor.Finite(l.state) && !a.spec.Keeps(a.margin(l, l.u, l.margins)) &&
		a.opt.Solver.Finds(l.state, l.lastC, a.preference(obs), l.alternative) &&
		a.margin(l, l.alternative, l.alternativeMargins) > domain.Smallest(l.margins) {
		copy(l.u, l.alternative)
		d.Fallback = domain.FallbackObservation | domain.FallbackSolver
	}
	tensor.Fill(l.margins, math.NaN())
	d.Margin, d.Residual, d.Displacement = math.NaN(), math.NaN(), 0
	d.Consistent, d.Decoded = false, nil
}

// margin is the smallest margin of u in the assumed state of an observation that is not finite.
func (a *Batch) margin(l *loop, u, margins []float64) float64 {
	a.problem.Margins(l.state, l.lastC, u, margins)
	return domain.Smallest(margins)
}

// trigger is the fallback trigger. It fires for a margin below −MarginTolerance after projection, or NaN, and for an
// observation off the map. It also fires where the map fails at known answers, or an action may cost more than the
// optimum by more than domain.LargestGap. It asks the solver, then Problem.Fallback. An answer to a negative margin is
// executed only if its own smallest margin is larger. Under a guard the trigger is only recorded: the roll-out decides
// whether the action is executed.
func (a *Batch) trigger(l *loop, obs *Observation, d *Decision) {
	infeasible := !a.spec.Keeps(d.Margin)
	if infeasible {
		d.Fallback |= domain.FallbackMargin
	}
	if d.OffMap {
		d.Fallback |= domain.FallbackResidual
	}
	if !(a.wrong <= answerTolerance) {
		d.Fallback |= domain.FallbackMap
	}
	if a.gap(l, obs, d); !(d.Gap <= domain.LargestGap) {
		d.Fallback |= domain.FallbackGap
	}
	if d.Fallback&(domain.FallbackMargin|domain.FallbackResidual|domain.FallbackMap|domain.FallbackGap) == 0 {
		return
	}
	if a.guard != nil || a.opt.NoFallback || a.opt.NoProjection && a.opt.Solver == nil {
		return // the ablation executes what was decoded; the trigger is recorded
	}
	bit := a.opt.Solver.Instead(a.problem, l.state, obs.C, a.preference(obs), l.alternative)
	a.problem.Margins(l.state, obs.C, l.alternative, l.alternativeMargins)
	margin := domain.Smallest(l.alternativeMargins)
	better := margin > d.Margin || math.IsNaN(d.Margin)
	if (infeasible && better) || (!infeasible && a.spec.Keeps(margin)) {
		copy(l.u, l.alternative)
		copy(l.margins, l.alternativeMargins)
		d.Margin = margin
		d.Fallback |= bit
		a.gap(l, obs, d)
	}
}

// gap is that of the action, where the problem knows one and the action keeps the limits.
func (a *Batch) gap(l *loop, obs *Observation, d *Decision) {
	if d.Gap = 0; a.abilities.Gap != nil && a.spec.Keeps(d.Margin) {
		d.Gap = a.abilities.Gap(l.state, obs.C, a.preference(obs), l.u)
	}
}

// limit is the residual above which an observation is off the map. It is the stated multiple of τ_t, but at most the
// domain's bound and that multiple of the noise. Without a τ_t, of a model that was not calibrated, it is the bound.
func (l *loaded) limit(variance float64) float64 {
	tau, bound := l.threshold(variance), l.bound+l.times*variance
	switch {
	case math.IsInf(l.times, 1):
		return l.times
	case tau == 0:
		return bound
	}
	return min(l.times*tau, bound)
}

// threshold is τ_t for the noise variance σ̂²_t.
func (l *loaded) threshold(variance float64) float64 {
	return variance + l.model.Calibration.TauGeom + l.cover
}

// outsideEnvelope reports whether an entry of the context is outside the envelope, or a component of the state. For the
// state there is room for envelopeDeviations of noise of that variance, in the map's units.
func (l *loaded) outsideEnvelope(state, c []float64, variance float64) bool {
	allowance := envelopeDeviations * math.Sqrt(variance)
	for j, lo := range l.envelope.lo {
		v, room := 0.0, 0.0
		if j < len(state) {
			v, room = state[j], allowance*float64(l.model.NormS.Scale[j])
		} else {
			v = c[j-len(state)]
		}
		if !(v >= lo-room && v <= l.envelope.hi[j]+room) {
			return true
		}
	}
	return false
}

// envelopeDeviations is the allowance outside the envelope, in standard deviations of the estimated noise.
const envelopeDeviations = 3
