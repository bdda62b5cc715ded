package batchnav

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

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
		return fmt.Errorf("batchnav: observation %d: %w", i, err)
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
		if len(in.State) > 0 {
			copy(in.State[row*len(l.state):], l.state)
		}
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
