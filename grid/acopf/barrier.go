package acopf

import "math"

// centre sets the target of s·z: by Mehrotra's rule from the affine step, or what a lane
// holds it at.
func (w *worker) centre() {
	p, m := w.plan, w.m
	n := float64(len(p.s) + p.soft)
	for l := range w.lane {
		comp := m.Get(p.comp[0], l)
		aP, aD := min(1, 1/m.Get(p.limitP[0], l)), min(1, 1/m.Get(p.limitD[0], l))
		after := comp + aP*m.Get(p.dsz[0], l) + aD*m.Get(p.sdz[0], l) + aP*aD*m.Get(p.dsdz[0], l)
		ratio := max(after, 0) / comp
		sigma := ratio * ratio * ratio
		least := w.leastBarrier(l)
		mu, second := max(sigma*comp/n, least), 1.0
		switch ln := &w.lane[l]; {
		case ln.prediction == predict:
			ln.prediction, ln.pending = predicted, true
			mu, second = 0, 0
		case w.holds(l, comp/n, least):
			mu, second = ln.barrier, 0
		}
		m.Set(p.renew[0], l, -1)
		m.Set(p.mu[0], l, mu)
		m.Set(p.second[0], l, second)
	}
}

// leastBarrier is the least target of s·z: complementarity far below what is asked for only costs
// accuracy elsewhere.
func (w *worker) leastBarrier(l int) float64 {
	n := float64(len(w.plan.s) + w.plan.soft)
	if w.lane[l].mode == restoring {
		return 0.1 * infeasibleShare * w.infeasibility(l) / n
	}
	return 0.1 * w.solver.opt.Optimality * (1 + math.Abs(w.objective(l))) / n
}

// again gives lanes whose step by Mehrotra's rule is very short another target, and reports whether
// any has one. The others keep theirs, so that their directions are the same once more.
func (w *worker) again() bool {
	any := false
	for l := range w.lane {
		renew := 1.0
		if w.plan.soft == 0 && w.shortened(l) {
			renew, any = -1, true
		}
		w.m.Set(w.plan.renew[0], l, renew)
	}
	return any
}

// shortened holds s·z of a lane where it is instead of a step that is very short: from a warm start
// for this step alone.
func (w *worker) shortened(l int) bool {
	p, m, ln := w.plan, w.m, &w.lane[l]
	if ln.mode != optimising || ln.turn != goOn || ln.pending || ln.barrier > 0 {
		return false
	}
	barrier := m.Get(p.comp[0], l) / float64(len(p.s))
	switch {
	case ln.job.attempt == warm && ln.iteration < latestWarm:
		if ln.alpha >= shortWarmStep {
			return false
		}
	case ln.alpha > leastStep || !ln.careful:
		return false
	default:
		ln.barrier = barrier
		w.lower(l, w.leastBarrier(l))
		barrier = ln.barrier
	}
	m.Set(p.mu[0], l, barrier)
	m.Set(p.second[0], l, 0)
	return true
}

// holds decides whether a lane follows Mehrotra's rule, which lets s·z fall as if the
// problem were linear, or holds s·z until the conditions for that are met to ten times
// as much, and then lowers it (Fiacco and McCormick's rule; the two together as in
// J. Nocedal, A. Wächter, R. A. Waltz, SIAM J. Optim. 19, 2009). It is held after a short
// step that has not lowered the error of the conditions by a tenth, until that is lower
// by so much; from a warm start only after latestWarm iterations: its short steps are few and
// near the end.
func (w *worker) holds(l int, mean, least float64) bool {
	p, m, ln := w.plan, w.m, &w.lane[l]
	if ln.mode != optimising || ln.job.attempt == warm && ln.iteration < latestWarm {
		return false
	}
	err := m.Get(p.sumGrad[0], l)/float64(len(p.v)+len(p.th)+len(p.u)) + (m.Get(p.sumG[0], l)+m.Get(p.sumR[0], l))/float64(2*p.nb+len(p.s)) + mean
	short := shortStep
	if ln.careful || ln.job.attempt == warm {
		short = carefulShort
	}
	early := ln.iteration < earliestHold && !ln.stiff
	if err <= enoughError*ln.error || ln.barrier == 0 && (early || ln.alpha > short) {
		ln.error, ln.barrier = err, 0
		return false
	}
	if ln.barrier == 0 {
		ln.barrier, ln.careful = mean, true
	}
	w.lower(l, least)
	return true
}

// lower lowers the s·z that a lane holds until the conditions for it are not met to ten times as much.
func (w *worker) lower(l int, least float64) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	k := w.conditions(l)
	scale := max(1, (m.Get(p.maxL[0], l)+m.Get(p.maxZ[0], l))/100)
	for ln.barrier > least {
		off := 0.0
		for i := range p.s {
			off = max(off, math.Abs(m.Get(p.s[i], l)*m.Get(p.z[i], l)-ln.barrier))
		}
		if max(k.Mismatch, k.Violation, m.Get(p.maxGrad[0], l)/scale, off/scale) > 10*ln.barrier {
			break
		}
		ln.barrier = max(least, min(ln.barrier/5, math.Pow(ln.barrier, 1.5)))
	}
	ln.barrier = max(ln.barrier, least)
}

const (
	shortStep    = 0.05 // a primal step below this is short
	leastStep    = 0.02 // and one that is not longer is not taken, once the barrier has been held
	carefulShort = 0.5  // and this, once the barrier has been held
	enoughError  = 0.9  // an error below this share of the last is lower by enough
	earliestHold = 3    // iteration: the first steps of a flat start are short anywhere
	latestWarm   = 12   // iteration: by then most warm starts are at an optimum
	// A warm start whose primal steps are longer is on its way, though its balances wait for them.
	shortWarmStep = 0.1
)

// lengths sets how far each lane goes along its step.
func (w *worker) lengths() {
	p, m := w.plan, w.m
	for l := range w.lane {
		ln := &w.lane[l]
		aP := min(1, boundaryFraction/m.Get(p.limitP[0], l))
		aD := min(1, boundaryFraction/m.Get(p.limitD[0], l))
		if ln.mode == idle {
			aP, aD = 0, 0
		}
		if ln.pending { // slacks and multipliers follow from where it ends
			aP, aD = 1, 1
		}
		ln.alpha = aP
		m.Set(p.alphaP[0], l, aP)
		m.Set(p.alphaD[0], l, aD)
	}
}
