package acopf

import "math"

// run solves what is in the queue until nothing is left. Lanes work side by
// side, each on a problem of its own; one that ends takes the next.
func (w *worker) run(q *queue) {
	for {
		if !w.fill(q) {
			return
		}
		if q.ctx.Err() != nil {
			clear(w.lane) // results of what they are at stay NotSolved
			return
		}
		w.m.Run(programEvaluate)
		for l := range w.lane {
			if ln := &w.lane[l]; ln.mode != idle && ln.pending {
				w.begin(l)
			}
		}
		w.m.Run(programGradient)
		busy := false
		for l := range w.lane {
			if w.lane[l].mode != idle {
				w.judge(l)
			}
			busy = busy || w.lane[l].mode != idle
		}
		if !busy {
			continue
		}
		if w.solver.opt.Trace != nil {
			for l := range w.lane {
				w.tell(l)
			}
		}
		w.factorise()
		w.m.Run(programPredictor)
		w.pivotedSolve()
		w.m.Run(programExpand)
		w.pivotedExpand()
		w.m.Run(programReach)
		w.centre()
		w.correct()
		if w.again() {
			w.correct()
		}
		w.m.Run(programSave)
		w.m.Run(programMovePrimal)
		w.m.Run(programMoveDual)
	}
}

// correct computes every lane's direction for its target of s·z, and how far it goes along it.
func (w *worker) correct() {
	w.m.Run(programCorrector)
	w.improve()
	w.pivotedSolve()
	w.m.Run(programExpand)
	w.pivotedExpand()
	w.m.Run(programReach)
	w.lengths()
}

// fill gives idle lanes their next problem and reports whether any lane works.
func (w *worker) fill(q *queue) bool {
	busy := false
	for l := range w.lane {
		ln := &w.lane[l]
		for ln.mode == idle {
			if ln.again {
				ln.again = false
			} else if !ln.job.next(q) {
				break
			} else {
				ln.spent = 0
			}
			if !w.load(l) {
				w.empty(l, Infeasible)
			}
		}
		if ln.mode != idle {
			w.prepare(l)
			busy = true
		}
	}
	return busy
}

// judge decides what a lane does after the evaluation of its iterate.
func (w *worker) judge(l int) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	opt := &w.solver.opt
	k := w.conditions(l)
	f := w.objective(l)
	sum := m.Get(p.sumG[0], l) + m.Get(p.sumR[0], l)
	if bad(sum) || bad(m.Get(p.sumGrad[0], l)) || bad(m.Get(p.comp[0], l)) {
		w.stuck(l, Numerical)
		return
	}
	gap := m.Get(p.comp[0], l) / (1 + math.Abs(f))
	first := math.IsNaN(ln.previousF)
	ln.settled = ln.mode == optimising && k.Gradient <= opt.Optimality && gap <= opt.Optimality
	switch ln.mode {
	case optimising:
		if ln.settled && max(k.Mismatch, k.Violation) <= opt.Feasibility && !first && k.Max() <= conditionLimit {
			w.end(l, Optimal)
			return
		}
		most, feasible := conditionLimit, opt.Feasibility
		if p.soft > 0 {
			most, feasible = softLimit, leastRelaxation/2
		}
		near := !first && k.Max() <= most
		if near && ln.near > patience && max(k.Mismatch, k.Violation) <= feasible {
			// Rounding keeps a problem whose multipliers are hardly determined from
			// going further.
			w.end(l, Optimal)
			return
		}
		if near || ln.near > 0 {
			ln.near++
		}
	case restoring:
		// The dual gap and the gradient over distances of order one bound how far the
		// minimum of φ = ‖g‖²/(2·elasticity) can lie below its value here.
		worst, phi := w.mismatch(l), w.infeasibility(l)
		if worst <= resumeBelow && k.Violation <= resumeBelow {
			ln.turn = resume
			return
		}
		small := infeasibleShare * phi
		if worst >= leastInfeasibility && m.Get(p.comp[0], l) <= small && m.Get(p.sumGrad[0], l) <= small &&
			m.Get(p.maxG[0], l) <= infeasibleShare*worst && m.Get(p.sumR[0], l) <= infeasibleShare*worst {
			w.end(l, Infeasible)
			return
		}
	}
	w.stall(l, gap, k.Gradient)
	ln.previousF = f
	limit := opt.MaxIterations
	if ln.job.attempt == warm {
		limit = min(limit, warmIterations)
	}
	if most := ln.job.problem.Limit; most > 0 {
		limit = min(limit, most)
	}
	if ln.iteration >= limit {
		w.end(l, IterationLimit)
		return
	}
	ln.iteration++
	// The limits' residuals of |S|² are squares: where flows are large they may grow while the
	// balances close.
	if balances := m.Get(p.sumG[0], l); balances < 0.9*ln.bestG {
		ln.bestG, ln.slow = balances, 0
	} else if sum < 0.9*ln.bestSum {
		ln.bestSum, ln.slow = sum, 0
	} else if ln.job.attempt != warm || ln.alpha < shortWarmStep {
		ln.slow++
	}
	if mean := m.Get(p.comp[0], l) / float64(len(p.s)+p.soft); mean < 0.9*ln.lowest {
		ln.lowest = mean
		if ln.careful {
			ln.slow = 0
		}
	}
	most := patience
	if ln.stiff || ln.careful {
		most = carefulPatience
	}
	if ln.mode == optimising && !ln.restored && ln.job.problem.Limit == 0 && ln.slow >= most && sum > 1e-5 {
		ln.turn = restore
	}
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

// softLimit takes its place in a relaxation, where flat costs and limits that just give or do not
// keep the gradient from settling; what gives is measured at the point itself.
const softLimit = 1e-5

// patience is how many iterations in a row may pass without a tenth less
// infeasibility before a feasible point is looked for, and how many may follow one
// within conditionLimit before another such is taken that balances as asked.
const patience = 8

// carefulPatience takes its place for infeasibility after a levelled start, and once the
// barrier has been held: it falls with the barrier then, and a tenth less of either counts.
const carefulPatience = 24

func bad(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// stuck ends a lane that cannot go on, or turns it to the feasibility phase
// when that has not been tried.
func (w *worker) stuck(l int, s Status) {
	ln := &w.lane[l]
	if ln.mode == optimising && !ln.restored && ln.job.problem.Limit == 0 && ln.iteration < w.solver.opt.MaxIterations {
		ln.iteration++
		ln.turn = restore
		return
	}
	w.end(l, s)
}

// mismatch is ‖g‖∞ of a lane, pu, whatever its mode.
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
		Cost:            math.Abs(f-ln.previousF) / (1 + math.Abs(ln.previousF)),
	}
	k.Feasibility = max(g, h) / (1 + max(x, m.Get(p.maxS[0], l)))
	return k
}

// factorise assembles and factors the KKT matrix of every lane, with more
// regularisation in those whose matrix has not as many negative eigenvalues as
// balances.
func (w *worker) factorise() {
	p, m := w.plan, w.m
	for l := range w.lane {
		ln := &w.lane[l]
		ln.shift, ln.tried, ln.factored = leastShift, 0, false
		if ln.settled {
			ln.shift = settledShift
		}
		m.Set(p.shift[0], l, ln.shift)
		m.Set(p.unitShift[0], l, ln.shift)
		m.Set(p.rho[0], l, 0)
		w.keepApart(l)
	}
	for {
		m.Run(programAssemble)
		m.Run(programFactor)
		again := false
		for l := range w.lane {
			ln := &w.lane[l]
			if ln.mode == idle || ln.turn != goOn || ln.shift > largestShift {
				continue
			}
			negative := int(m.Get(p.negative[0], l))
			if ln.pivoted {
				negative = w.pivotedFactor(l)
			}
			if negative == 2*p.nb {
				if ln.tried > 0 {
					ln.lastShift = ln.shift
				}
				continue
			}
			// A shift slows every direction for the sake of one. Where progress is slow it is
			// sought more finely, and the units, whose costs are often flat, get little of it.
			first, least, growth, share := firstShift, firstShift, 8.0, 1.0
			if ln.careful {
				first, least, growth, share = carefulShift, carefulLeast, 2, unitShare
			}
			if ln.mode == restoring {
				first = min(first, max(carefulLeast, restoringShare*w.mismatch(l)))
				least = first
			}
			switch {
			case ln.tried == 0 && ln.lastShift == 0:
				ln.shift = first
			case ln.tried == 0:
				ln.shift = max(least, ln.lastShift/3)
			case ln.lastShift == 0:
				ln.shift *= 100
			default:
				ln.shift *= growth
			}
			ln.tried++
			m.Set(p.shift[0], l, ln.shift)
			m.Set(p.unitShift[0], l, max(leastShift, share*ln.shift))
			m.Set(p.rho[0], l, dualShift)
			again = true
		}
		if !again {
			return
		}
	}
}

// improve corrects the last solve in the lanes whose residual is large.
func (w *worker) improve() {
	p, m := w.plan, w.m
	for range 3 {
		m.Run(programResidual)
		again := false
		for l := range w.lane {
			ln := &w.lane[l]
			flag := 1.0
			if ln.mode != idle && ln.turn == goOn && !ln.pivoted && m.Get(p.maxRes[0], l) > solveTolerance*m.Get(p.maxRhs[0], l) {
				flag, again = -1, true
			}
			m.Set(p.refine[0], l, flag)
		}
		if !again {
			return
		}
		m.Run(programCorrect)
	}
}

// end writes a lane's result and frees the lane. A start that came to nothing is
// followed by the next kind.
func (w *worker) end(l int, s Status) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	restoring := ln.mode == restoring
	ln.mode, ln.turn = idle, goOn
	if ln.job.attempt < fromFile && ln.job.problem.Limit == 0 && (s == IterationLimit || s == Numerical) {
		ln.job.attempt++
		ln.again = true
		ln.spent += ln.iteration
		return
	}
	if s == Numerical {
		w.empty(l, s)
		return
	}
	r := ln.job.result
	r.Status, r.Iterations, r.objective, r.restoring = s, ln.spent+ln.iteration, ln.job.problem.Objective, restoring
	n := len(p.s)
	r.Vm, r.Va = resize(r.Vm, p.nb), resize(r.Va, p.nb)
	r.Pg, r.Qg = resize(r.Pg, p.ng), resize(r.Qg, p.ng)
	r.LambdaP, r.LambdaQ = resize(r.LambdaP, p.nb), resize(r.LambdaQ, p.nb)
	r.Multipliers = resize(r.Multipliers, n)
	m.Gather(r.Vm, p.v[0], l)
	m.Gather(r.Va, p.th[0], l)
	m.Gather(r.Pg, p.u[0], l)
	m.Gather(r.Qg, p.u[p.ng], l)
	m.Gather(r.LambdaP, p.lp[0], l)
	m.Gather(r.LambdaQ, p.lq[0], l)
	m.Gather(r.Multipliers, p.z[0], l)
	if p.soft > 0 {
		r.give = resize(r.give, p.soft)
		m.Gather(r.give, p.give[0], l)
	}
	for _, v := range [][]float64{r.LambdaP, r.LambdaQ, r.Multipliers} {
		for i := range v {
			v[i] /= ln.scale
		}
	}
	r.J = [3]float64{m.Get(p.j1[0], l), m.Get(p.j2[0], l), m.Get(p.j3[0], l)}
	for k, unit := range p.linear {
		// The variable lies above the function by what the tolerances allow.
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

// empty writes a result without a point and frees the lane.
func (w *worker) empty(l int, s Status) {
	ln := &w.lane[l]
	ln.mode = idle
	r := ln.job.result
	*r = Result{Status: s, Iterations: ln.spent + ln.iteration, Vm: r.Vm[:0], Va: r.Va[:0], Pg: r.Pg[:0], Qg: r.Qg[:0],
		LambdaP: r.LambdaP[:0], LambdaQ: r.LambdaQ[:0], Multipliers: r.Multipliers[:0]}
}

func resize(v []float64, n int) []float64 {
	if cap(v) < n {
		return make([]float64, n)
	}
	return v[:n]
}

// stall turns a lane to pivots chosen by size where its barrier is down and its gradient does not
// follow for stalledPatience iterations; those that only corrected the balance do not count.
func (w *worker) stall(l int, gap, scaled float64) {
	ln := &w.lane[l]
	gradient, opt := w.m.Get(w.plan.maxGrad[0], l), w.solver.opt.Optimality
	switch {
	case ln.mode != optimising || scaled <= opt || gap > stalledGap*opt || gradient <= stalledShare*ln.gradient:
		ln.stalled = 0
	case ln.shift != settledShift:
		ln.stalled++
	}
	most := stalledPatience
	if !ln.job.problem.Objective.FileCost() {
		// The penalties are flat over much of their range, where the gradient hardly falls and a
		// point near the conditions is taken after patience.
		most = flatPatience
	}
	ln.pivoted = ln.pivoted || ln.stalled >= most
	ln.gradient = gradient
}

const (
	stalledGap      = 10  // times the optimality asked for: the barrier is down
	stalledShare    = 0.5 // a gradient above this share of the last does not fall
	stalledPatience = 2   // iterations of that
	flatPatience    = patience + 4
)
