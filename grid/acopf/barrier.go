package acopf

import "math"

// setBarriers sets the target of s·z: Mehrotra's rule from the affine step, or the monotone barrier.
func (w *worker) setBarriers() {
	p, m := w.plan, w.m
	n := float64(len(p.s) + p.soft)
	for l := range w.lane {
		comp := m.Get(p.comp[0], l)
		aP, aD := min(1, 1/m.Get(p.limitP[0], l)), min(1, 1/m.Get(p.limitD[0], l))
		after := comp + aP*m.Get(p.dsz[0], l) + aD*m.Get(p.sdz[0], l) + aP*aD*m.Get(p.dsdz[0], l)
		ratio := max(after, 0) / comp
		sigma := ratio * ratio * ratio
		minBarrier := w.minBarrier(l)
		mu, second := max(sigma*comp/n, minBarrier), 1.0
		switch ln := &w.lane[l]; {
		case ln.prediction == predict:
			ln.prediction, ln.pendingSlacks = predicted, true
			mu, second = 0, 0
		case w.keepsBarrier(l, comp/n, minBarrier):
			mu, second = ln.barrier, 0
		}
		m.Set(p.renew[0], l, -1)
		m.Set(p.mu[0], l, mu)
		m.Set(p.second[0], l, second)
	}
}

// minBarrier is the smallest target of s·z. Complementarity far below the tolerance costs accuracy elsewhere. With a large
// objective that tolerance alone would leave more than an optimum may have.
func (w *worker) minBarrier(l int) float64 {
	n := float64(len(w.plan.s) + w.plan.soft)
	if w.lane[l].mode == restoring {
		return 0.1 * infeasibleShare * w.infeasibility(l) / n
	}
	return min(0.1*w.solver.opt.Optimality*(1+math.Abs(w.objective(l))), conditionLimit/2*(1+w.m.Get(w.plan.maxX[0], l))) / n
}

// shortenSteps changes the barrier of lanes with very short steps and reports whether there are any. The other lanes
// compute the same direction again.
func (w *worker) shortenSteps() bool {
	any := false
	for l := range w.lane {
		renew := 1.0
		if w.plan.soft == 0 && w.shortenStep(l) {
			renew, any = -1, true
		}
		w.m.Set(w.plan.renew[0], l, renew)
	}
	return any
}

// shortenStep keeps a lane's barrier in place of a very short step. A warm start does so for this step only.
func (w *worker) shortenStep(l int) bool {
	p, m, ln := w.plan, w.m, &w.lane[l]
	if ln.mode != optimising || ln.turn != proceed || ln.pendingSlacks || ln.barrier > 0 {
		return false
	}
	barrier := m.Get(p.comp[0], l) / float64(len(p.s))
	switch {
	case ln.job.attempt == warm && ln.iteration < warmAdaptive:
		if ln.alpha >= shortWarmStep {
			return false
		}
	case ln.alpha > minStep || !ln.monotone:
		return false
	default:
		ln.barrier = barrier
		w.lowerBarrier(l, w.minBarrier(l))
		barrier = ln.barrier
	}
	m.Set(p.mu[0], l, barrier)
	m.Set(p.second[0], l, 0)
	return true
}

// keepsBarrier chooses between two rules. Mehrotra's rule lets s·z fall as if the problem were linear. The monotone
// rule (Fiacco and McCormick) holds s·z until its conditions are met to ten times as much, then lowers it. The
// combination follows J. Nocedal, A. Wächter, R. A. Waltz, SIAM J. Optim. 19, 2009. A short step without a tenth
// less error starts the monotone rule, and such a decrease ends it. Warm starts use it only after warmAdaptive
// iterations: their few short steps are near the end.
func (w *worker) keepsBarrier(l int, mean, minBarrier float64) bool {
	p, m, ln := w.plan, w.m, &w.lane[l]
	if ln.mode != optimising || ln.job.attempt == warm && ln.iteration < warmAdaptive {
		return false
	}
	err := m.Get(p.sumGrad[0], l)/float64(len(p.v)+len(p.th)+len(p.u)) + (m.Get(p.sumG[0], l)+m.Get(p.sumR[0], l))/float64(2*p.nb+len(p.s)) + mean
	short := shortStep
	if ln.monotone || ln.job.attempt == warm {
		short = monotoneShortStep
	}
	early := ln.iteration < firstMonotone && !ln.levelled
	// Circulating powers of settings that vary have curvatures of either sign. While the matrix needs a shift, s·z would come to its
	// end far from a minimum.
	indefinite := len(p.variables) > 0 && ln.shiftAttempts > 0 && !early
	if !indefinite && (err <= errorReduction*ln.error || ln.barrier == 0 && (early || ln.alpha > short)) {
		ln.error, ln.barrier = err, 0
		return false
	}
	if ln.barrier == 0 {
		ln.barrier, ln.monotone = mean, true
	}
	w.lowerBarrier(l, minBarrier)
	return true
}

// lowerBarrier lowers a monotone barrier while its conditions are met to ten times as much.
func (w *worker) lowerBarrier(l int, minBarrier float64) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	k := w.conditions(l)
	scale := max(1, (m.Get(p.maxL[0], l)+m.Get(p.maxZ[0], l))/100)
	for ln.barrier > minBarrier {
		residual := 0.0
		for i := range p.s {
			residual = max(residual, math.Abs(m.Get(p.s[i], l)*m.Get(p.z[i], l)-ln.barrier))
		}
		if max(k.Mismatch, k.Violation, m.Get(p.maxGrad[0], l)/scale, residual/scale) > 10*ln.barrier {
			break
		}
		ln.barrier = max(minBarrier, min(ln.barrier/5, math.Pow(ln.barrier, 1.5)))
	}
	ln.barrier = max(ln.barrier, minBarrier)
}

const (
	shortStep         = 0.05 // a shorter primal step is short
	minStep           = 0.02 // a primal step that is not longer is retried after a monotone phase
	monotoneShortStep = 0.5  // shortStep after a monotone phase
	errorReduction    = 0.9  // decrease of the error that counts as progress
	firstMonotone     = 3    // iteration; the first steps of every flat start are short
	warmAdaptive      = 12   // iteration; most warm starts have converged by then
	// A warm start with longer primal steps makes progress, even while its balances do not.
	shortWarmStep = 0.1
)

// stepLengths sets the primal and dual step length of each lane.
func (w *worker) stepLengths() {
	p, m := w.plan, w.m
	for l := range w.lane {
		ln := &w.lane[l]
		aP := min(1, boundaryFraction/m.Get(p.limitP[0], l))
		aD := min(1, boundaryFraction/m.Get(p.limitD[0], l))
		if ln.mode == idle {
			aP, aD = 0, 0
		}
		if ln.pendingSlacks { // slacks and multipliers are initialised at its end
			aP, aD = 1, 1
		}
		ln.alpha = aP
		m.Set(p.alphaP[0], l, aP)
		m.Set(p.alphaD[0], l, aD)
	}
}
