package batchnav

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// execute projects the decoded action, where it is not projected within its limits yet,
// checks and, where needed, replaces it, and completes the record.
func (a *Batch) execute(i int, obs *Observation, d *Decision) {
	l := a.at(i)
	o, row := &a.out, l.row
	flags := o.Flags[row]
	l.haveSigma = l.haveSigma || flags&backend.LoopSteered != 0
	decoded := o.U.Row(row)
	d.U, d.Decoded, d.Sigma, d.Margins = l.u, decoded, l.sigma, l.margins
	if a.opt.Latents {
		d.Latent = o.Z.Row(row)
	}
	d.Fallback = domain.Fallback(o.Fallbacks[row])
	d.Threshold, d.NoiseVariance = a.threshold(l.variance), l.variance
	d.Residual, d.Displacement, d.Correction, d.Gap = o.Residual[row], o.Displacement[row], 0, 0
	d.Consistent = flags&backend.LoopConsistent != 0
	d.Limit = a.limit(l.variance)
	d.OffMap = l.bad || !(d.Residual <= d.Limit) || a.beyond(l.state, l.variance)
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
		l.haveLatent = false
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
	d.Consistent, d.Decoded = false, nil
}

// margin is the smallest of u in what is assumed of an observation that is not finite.
func (a *Batch) margin(l *loop, u, margins []float64) float64 {
	a.problem.Margins(l.state, l.lastC, u, margins)
	return domain.Smallest(margins)
}

// trigger is the fallback trigger: a margin below −MarginTolerance after
// projection (written so that a NaN triggers too), an observation off the map, or a map that
// is wrong about known answers, or an action that may be dearer than the optimum by more than
// domain.LargestGap. It asks the solver, then Problem.Fallback. An answer to a
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
	if (broken && better) || (!broken && a.spec.Keeps(margin)) {
		copy(l.u, l.alternative)
		copy(l.margins, l.alternativeMargins)
		d.Margin = margin
		d.Fallback |= bit
		a.gap(l, obs, d)
	}
}

// gap is that of the action, where the problem knows one and the action keeps the limits.
func (a *Batch) gap(l *loop, obs *Observation, d *Decision) {
	if d.Gap = 0; a.may.Gap != nil && a.spec.Keeps(d.Margin) {
		d.Gap = a.may.Gap(l.state, obs.C, a.preference(obs), l.u)
	}
}
