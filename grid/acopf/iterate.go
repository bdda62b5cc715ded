package acopf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// run solves the queue. Each lane solves a problem of its own, and takes the next one when that ends.
func (w *worker) run(q *queue) {
	for {
		if !w.assign(q) {
			return
		}
		if q.ctx.Err() != nil {
			clear(w.lane) // their results stay NotSolved
			return
		}
		w.m.Run(programEvaluate)
		for l := range w.lane {
			if ln := &w.lane[l]; ln.mode != idle && ln.pendingSlacks {
				w.initialiseSlacks(l)
			}
		}
		w.m.Run(programGradient)
		busy := false
		for l := range w.lane {
			if w.lane[l].mode != idle {
				w.assess(l)
			}
			busy = busy || w.lane[l].mode != idle
		}
		if !busy {
			continue
		}
		if w.solver.opt.Trace != nil {
			for l := range w.lane {
				w.trace(l)
			}
		}
		w.factorise()
		w.tilt()
		w.direction(programPredictor)
		w.pivotedSolve()
		w.m.Run(programExpand)
		w.pivotedExpand()
		w.m.Run(programReach)
		w.setBarriers()
		w.correct()
		if w.shortenSteps() {
			w.correct()
		}
		w.m.Run(programSave)
		w.m.Run(programMovePrimal)
		w.m.Run(programMoveDual)
	}
}

// direction solves for the bus blocks of the affine direction or the one that is taken.
func (w *worker) direction(targets int) {
	w.m.Run(targets)
	w.m.Run(programGather)
	w.m.Run(programSolve)
}

// correct computes every lane's direction for its barrier, and its step lengths.
func (w *worker) correct() {
	w.direction(programCorrector)
	w.refine()
	w.pivotedSolve()
	w.m.Run(programExpand)
	w.pivotedExpand()
	w.m.Run(programReach)
	w.stepLengths()
}

// assign gives idle lanes their next problem and reports whether any lane works.
func (w *worker) assign(q *queue) bool {
	busy := false
	for l := range w.lane {
		ln := &w.lane[l]
		for ln.mode == idle {
			if ln.retry {
				ln.retry = false
			} else if !ln.job.next(q) {
				break
			} else {
				ln.earlierIterations = 0
			}
			if !w.load(l) {
				w.finishEmpty(l, Infeasible)
			}
		}
		if ln.mode != idle {
			w.prepare(l)
			busy = true
		}
	}
	return busy
}

// assess decides what a lane does after the evaluation of its iterate.
func (w *worker) assess(l int) {
	ln, opt := &w.lane[l], &w.solver.opt
	k, f := w.conditions(l), w.objective(l)
	comp := w.m.Get(w.plan.comp[0], l)
	if notFinite(w.residualSum(l)) || notFinite(w.m.Get(w.plan.sumGrad[0], l)) || notFinite(comp) {
		w.restoreOrEnd(l, Numerical)
		return
	}
	gap := comp / (1 + math.Abs(f))
	ln.dualConverged = ln.mode == optimising && k.Gradient <= opt.Optimality && gap <= opt.Optimality
	switch ln.mode {
	case optimising:
		if w.optimal(l, k) {
			w.finish(l, Optimal)
			return
		}
	case restoring:
		worst := w.mismatch(l)
		if worst <= resumeBelow && k.Violation <= resumeBelow {
			ln.turn = resume
			return
		}
		if w.locallyInfeasible(l, worst) {
			w.finish(l, Infeasible)
			return
		}
	}
	w.detectStall(l, gap, k.Gradient)
	ln.lastObjective = f
	if ln.iteration >= w.iterationLimit(l) {
		w.finish(l, IterationLimit)
		return
	}
	ln.iteration++
	w.measureProgress(l)
	if w.needsRestoration(l) {
		ln.turn = restore
	}
}

// residualSum is the sum of the residuals of balances and limits.
func (w *worker) residualSum(l int) float64 {
	return w.m.Get(w.plan.sumG[0], l) + w.m.Get(w.plan.sumR[0], l)
}

// optimal says whether a lane is at an optimum. It counts the acceptable iterates, which end a solve after patience:
// rounding prevents more where multipliers are hardly determined.
func (w *worker) optimal(l int, k KKT) bool {
	ln, opt := &w.lane[l], &w.solver.opt
	first := math.IsNaN(ln.lastObjective)
	infeasibility := max(k.Mismatch, k.Violation)
	if ln.dualConverged && infeasibility <= opt.Feasibility && !first && k.Max() <= conditionLimit {
		return true
	}
	maxCondition, feasible := conditionLimit, opt.Feasibility
	if w.plan.soft > 0 {
		maxCondition, feasible = softLimit, minRelaxation/2
	}
	acceptable := !first && k.Max() <= maxCondition
	if acceptable && ln.acceptable > patience && infeasibility <= feasible {
		return true
	}
	if acceptable || ln.acceptable > 0 {
		ln.acceptable++
	}
	return false
}

// locallyInfeasible says whether the feasibility phase is at a minimum above zero. The dual gap and the gradient over
// distances of order one bound how far the minimum of φ = ‖g‖²/(2·elasticity) can lie below its value here. The
// residuals of the limits count in the gap by their multipliers.
func (w *worker) locallyInfeasible(l int, worst float64) bool {
	p, m := w.plan, w.m
	small := infeasibleShare * w.infeasibility(l)
	if worst < minInfeasibility || m.Get(p.comp[0], l) > small || m.Get(p.sumGrad[0], l) > small ||
		max(m.Get(p.maxG[0], l), m.Get(p.maxH[0], l)) > infeasibleShare*worst {
		return false
	}
	gap := 0.0
	for i := range p.s {
		gap += math.Abs(m.Get(p.r[i], l)) * m.Get(p.z[i], l)
	}
	return gap <= small
}

// iterationLimit is the most iterations of a lane's attempt.
func (w *worker) iterationLimit(l int) int {
	job, limit := &w.lane[l].job, w.solver.opt.MaxIterations
	if job.attempt == warm {
		limit = min(limit, warmIterations)
	}
	if job.problem.Limit > 0 {
		limit = min(limit, job.problem.Limit)
	}
	return limit
}

// measureProgress counts iterations without a tenth less infeasibility. Residuals of limits of |S|² are squares: with large
// flows they may grow while the balances close.
func (w *worker) measureProgress(l int) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	sum := w.residualSum(l)
	if balances := m.Get(p.sumG[0], l); balances < 0.9*ln.bestBalance {
		ln.bestBalance, ln.slowIterations = balances, 0
	} else if sum < 0.9*ln.bestResidual {
		ln.bestResidual, ln.slowIterations = sum, 0
	} else if ln.job.attempt != warm || ln.alpha < shortWarmStep {
		ln.slowIterations++
	}
	if mean := m.Get(p.comp[0], l) / float64(len(p.s)+p.soft); mean < 0.9*ln.lowestBarrier {
		ln.lowestBarrier = mean
		if ln.monotone {
			ln.slowIterations = 0
		}
	}
}

// needsRestoration says whether a lane makes too little progress and has not tried the feasibility phase.
func (w *worker) needsRestoration(l int) bool {
	ln, limit := &w.lane[l], patience
	if ln.levelled || ln.monotone {
		limit = monotonePatience
	}
	return ln.mode == optimising && !ln.restored && ln.job.problem.Limit == 0 && ln.slowIterations >= limit && w.residualSum(l) > 1e-5
}

// infeasibility is φ, the objective of the feasibility phase.
func (w *worker) infeasibility(l int) float64 {
	p, sum := w.plan, 0.0
	for i := range p.nb {
		gp, gq := w.m.Get(p.gp[i], l), w.m.Get(p.gq[i], l)
		sum += gp*gp + gq*gq
	}
	return sum / (2 * elasticity)
}

// warmIterations bounds a warm start; a flat one follows.
const warmIterations = 75

// conditionLimit bounds the KKT conditions of an optimal result whatever the
// options ask for.
const conditionLimit = 1e-6

// softLimit replaces conditionLimit in a relaxation: with flat costs and degenerate soft limits the gradient does
// not settle. The violations are measured at the point itself.
const softLimit = 1e-5

// patience is the number of iterations in a row without a tenth less infeasibility before the feasibility phase. It
// is also the number of iterates within conditionLimit before one that balances is accepted.
const patience = 8

// monotonePatience replaces it after a levelled start and with a monotone barrier. The infeasibility falls with the
// barrier then, and a tenth less of either counts.
const monotonePatience = 24

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// restoreOrEnd moves a lane that failed to the feasibility phase, or ends it where that was tried.
func (w *worker) restoreOrEnd(l int, s Status) {
	ln := &w.lane[l]
	if ln.mode == optimising && !ln.restored && ln.job.problem.Limit == 0 && ln.iteration < w.solver.opt.MaxIterations {
		ln.iteration++
		ln.turn = restore
		return
	}
	w.finish(l, s)
}

// mismatch is ‖g‖∞ of a lane, pu, in any mode.
func (w *worker) mismatch(l int) float64 {
	p, worst := w.plan, 0.0
	for i := range p.nb {
		worst = max(worst, math.Abs(w.m.Get(p.gp[i], l)), math.Abs(w.m.Get(p.gq[i], l)))
	}
	return worst
}

// objective is the scaled objective of a lane's programs.
func (w *worker) objective(l int) float64 {
	p, m, ln := w.plan, w.m, &w.lane[l]
	if ln.mode == restoring {
		return 0
	}
	return ln.scale * (ln.coef[0]*m.Get(p.j1[0], l) + ln.coef[1]*m.Get(p.j2[0], l) + ln.coef[2]*m.Get(p.j3[0], l))
}

// conditions are the KKT residuals of a lane.
func (w *worker) conditions(l int) KKT {
	p, m, ln := w.plan, w.m, &w.lane[l]
	g, h, x := m.Get(p.maxG[0], l), m.Get(p.maxH[0], l), m.Get(p.maxX[0], l)
	f := w.objective(l)
	k := KKT{
		Gradient:        m.Get(p.maxGrad[0], l) / (1 + max(m.Get(p.maxL[0], l), m.Get(p.maxZ[0], l))),
		Complementarity: m.Get(p.comp[0], l) / (1 + x),
		Mismatch:        g,
		Violation:       h,
		Cost:            math.Abs(f-ln.lastObjective) / (1 + math.Abs(ln.lastObjective)),
	}
	k.Feasibility = max(g, h) / (1 + max(x, m.Get(p.maxS[0], l)))
	return k
}

// factorise assembles and factors the KKT matrix of every lane. It increases the regularisation of lanes with the
// wrong inertia: as many negative eigenvalues as balances.
func (w *worker) factorise() {
	p, m := w.plan, w.m
	for l := range w.lane {
		ln := &w.lane[l]
		ln.shift, ln.shiftAttempts, ln.factored = minShift, 0, false
		if ln.dualConverged {
			ln.shift = dualConvergedShift
		}
		m.Set(p.shift[0], l, ln.shift)
		m.Set(p.unitShift[0], l, ln.shift)
		m.Set(p.rho[0], l, 0)
		w.chooseUncondensed(l)
	}
	for {
		m.Run(programAssemble)
		m.Run(programFactor)
		retry := false
		for l := range w.lane {
			ln := &w.lane[l]
			if ln.mode == idle || ln.turn != proceed || ln.shift > largestShift {
				continue
			}
			negative := int(m.Get(p.negative[0], l))
			if ln.pivoted {
				negative = w.pivotedFactor(l)
			}
			if negative == 2*p.nb {
				if ln.shiftAttempts > 0 {
					ln.lastShift = ln.shift
				}
				continue
			}
			// A shift slows all directions to convexify one. With slow progress the search is finer, and the
			// units, whose costs are often flat, get little of it.
			first, minimum := firstShift, firstShift
			growth, share := 8.0, 1.0
			if ln.monotone {
				first, minimum = monotoneShift, monotoneMinShift
				growth, share = 2, unitShare
			}
			if ln.mode == restoring {
				first = min(first, max(monotoneMinShift, restoringShare*w.mismatch(l)))
				minimum = first
			}
			switch {
			case ln.shiftAttempts == 0 && ln.lastShift == 0:
				ln.shift = first
			case ln.shiftAttempts == 0:
				ln.shift = max(minimum, ln.lastShift/3)
			case ln.lastShift == 0:
				ln.shift *= 100
			default:
				ln.shift *= growth
			}
			ln.shiftAttempts++
			m.Set(p.shift[0], l, ln.shift)
			m.Set(p.unitShift[0], l, max(minShift, share*ln.shift))
			m.Set(p.rho[0], l, dualShift)
			retry = true
		}
		if !retry {
			return
		}
	}
}

// tilt helps lanes off a saddle. Where equal units stand behind branches without resistance, the least cost is often at
// uneven powers. With even ones every matrix needs a shift, which slows all directions, and by symmetry no step makes
// them uneven. So the costs of the units are tilted for one iteration, each differently, and so are settings that vary, of equal
// transformers. The curvature does the rest.
func (w *worker) tilt() {
	p, m := w.plan, w.m
	for l := range w.lane {
		ln := &w.lane[l]
		if ln.shiftAttempts == 0 || ln.mode != optimising {
			ln.convexified = 0
			continue
		}
		ln.convexified++
		if !ln.monotone || ln.convexified%tiltEvery != firstTilt {
			continue
		}
		tilted := p.g0u[:2*p.ng]
		for _, y := range p.variables {
			tilted = append(slices.Clip(tilted), map[bool]lanes.Col{false: p.g0v, true: p.g0th}[y.Kind == Shift][y.inner])
		}
		for i, c := range tilted {
			_, share := math.Modf(float64(i+1) * math.Phi)
			m.Set(c, l, m.Get(c, l)+float64(largestTilt*(share-0.5)))
		}
	}
}

const (
	firstTilt   = 4    // iterations in a row with shifts before the first tilt
	tiltEvery   = 8    // such iterations from one to the next
	largestTilt = 1e-3 // of a scaled marginal cost, between two units
)

// refine corrects the last solve in the lanes with large residuals. Those that corrections do not help go on with pivots
// chosen by size.
func (w *worker) refine() {
	p, m := w.plan, w.m
	for correction := range corrections {
		m.Run(programResidual)
		unsolved := false
		for l := range w.lane {
			ln := &w.lane[l]
			flag := 1.0
			residual, largest := m.Get(p.maxRes[0], l), m.Get(p.maxRhs[0], l)
			if ln.mode != idle && ln.turn == proceed && !ln.pivoted && residual > solveTolerance*largest {
				flag, unsolved = -1, true
				ln.pivoted = ln.mode == optimising && correction == corrections-1 && residual > poorSolve*largest
			}
			m.Set(p.refine[0], l, flag)
		}
		if !unsolved {
			return
		}
		m.Run(programSolve)
		m.Run(programCorrect)
	}
}

// nearOptimum is the largest KKT condition at the end of an attempt that is worth another from a feasible point.
const nearOptimum = 1e-3

// finish writes a lane's result and frees the lane. A failed attempt is followed by the next kind.
func (w *worker) finish(l int, s Status) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	restoring := ln.mode == restoring
	ln.mode, ln.turn = idle, proceed
	last := fromFile
	if p.soft == 0 && !ln.job.problem.Feasible && !restoring && w.conditions(l).Max() < nearOptimum {
		last = feasible
	}
	if ln.job.attempt < last && ln.job.problem.Limit == 0 && (s == IterationLimit || s == Numerical) {
		ln.job.attempt++
		ln.retry = true
		ln.earlierIterations += ln.iteration
		return
	}
	if s == Numerical {
		w.finishEmpty(l, s)
		return
	}
	r := ln.job.result
	r.Status, r.Iterations = s, ln.earlierIterations+ln.iteration
	r.objective, r.restoring = ln.job.problem.Objective, restoring
	n := len(p.s)
	r.Vm, r.Va = resize(r.Vm, p.inner), resize(r.Va, p.inner)
	r.Pg, r.Qg = resize(r.Pg, p.ng), resize(r.Qg, p.ng)
	r.LambdaP, r.LambdaQ = resize(r.LambdaP, p.inner), resize(r.LambdaQ, p.inner)
	r.Multipliers = resize(r.Multipliers, n)
	m.Gather(r.Vm, p.v[0], l)
	m.Gather(r.Va, p.th[0], l)
	m.Gather(r.Pg, p.u[0], l)
	m.Gather(r.Qg, p.u[p.ng], l)
	m.Gather(r.LambdaP, p.lp[0], l)
	m.Gather(r.LambdaQ, p.lq[0], l)
	m.Gather(r.Multipliers, p.z[0], l)
	r.Settings = w.settings(l, r.Settings)
	if p.soft > 0 {
		r.elasticSlacks = resize(r.elasticSlacks, p.soft)
		m.Gather(r.elasticSlacks, p.elasticSlack[0], l)
	}
	for _, v := range [][]float64{r.LambdaP, r.LambdaQ, r.Multipliers} {
		for i := range v {
			v[i] /= ln.scale
		}
	}
	r.J = [3]float64{m.Get(p.j1[0], l), m.Get(p.j2[0], l), m.Get(p.j3[0], l)}
	for k, unit := range p.linear {
		// The variable exceeds the function by up to the tolerances.
		cost, _ := p.unitCost(unit)
		value, _, _ := cost.At(m.Get(p.u[unit], l))
		r.J[2] += value - m.Get(p.y[k], l)
	}
	for _, unit := range ln.job.problem.Out.Units {
		for _, i := range []int{unit, unit + p.ng} {
			if cost, ok := p.unitCost(i); ok {
				idle, _, _ := cost.At(0)
				r.J[2] -= idle
			}
		}
	}
	r.Objective = ln.job.problem.Objective.Value(r.J)
	r.KKT = w.conditions(l)
	r.KKT.Mismatch = w.mismatch(l)
}

// finishEmpty writes a result without a point and frees the lane.
func (w *worker) finishEmpty(l int, s Status) {
	ln := &w.lane[l]
	ln.mode = idle
	r := ln.job.result
	*r = Result{Status: s, Iterations: ln.earlierIterations + ln.iteration, Vm: r.Vm[:0], Va: r.Va[:0], Pg: r.Pg[:0], Qg: r.Qg[:0],
		LambdaP: r.LambdaP[:0], LambdaQ: r.LambdaQ[:0], Multipliers: r.Multipliers[:0], Settings: r.Settings[:0]}
}

func resize(v []float64, n int) []float64 {
	if cap(v) < n {
		return make([]float64, n)
	}
	return v[:n]
}

// detectStall switches a lane to pivots chosen by size. Its barrier is at the end, and its gradient has not fallen
// for stalledPatience iterations. Iterations that only corrected the balance do not count.
func (w *worker) detectStall(l int, gap, scaled float64) {
	ln := &w.lane[l]
	gradient, opt := w.m.Get(w.plan.maxGrad[0], l), w.solver.opt.Optimality
	switch {
	case ln.mode != optimising || scaled <= opt || gap > stalledGap*opt || gradient <= stalledShare*ln.gradient:
		ln.stalled = 0
	case ln.shift != dualConvergedShift:
		ln.stalled++
	}
	limit := stalledPatience
	if !ln.job.problem.Objective.FileCost() {
		// The penalties are flat over much of their range. The gradient hardly falls there, and a point near the
		// conditions is accepted after patience.
		limit = flatPatience
	}
	ln.pivoted = ln.pivoted || ln.stalled >= limit
	ln.gradient = gradient
}

const (
	stalledGap      = 10  // times Options.Optimality: the barrier is at its end
	stalledShare    = 0.5 // a gradient above this share of the last does not fall
	stalledPatience = 2   // such iterations
	flatPatience    = patience + 4
)
