package acopf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// mode is the phase that a lane is in.
type mode int

const (
	idle       mode = iota
	optimising      // interior point on the problem
	restoring       // interior point on min ‖g‖²/(2·elasticity) over the limits
)

// turn is what a lane does before the next evaluation.
type turn int

const (
	proceed turn = iota
	restore      // look for a feasible point
	resume       // optimise from the feasible point
)

// attempt is the start of a solve. A failed attempt is followed by the next one.
type attempt int

const (
	warm     attempt = iota // Problem.Start
	flat                    // the middle of the limits
	fromFile                // the file's voltages and generation
	feasible                // the middle of the limits, the feasibility phase first
)

// prediction is the state of a warm start from a near optimum. Its first step is a full affine one, across limits
// too. Slacks and multipliers are initialised where that step ends.
type prediction int

const (
	noPrediction prediction = iota
	predict                 // the next step
	predicted               // the current step
)

// elasticity is the weight of the balance multipliers in the feasibility phase. Its problem is min
// ‖g‖²/(2·elasticity) subject to the limits, whose λ is g/elasticity.
const elasticity = 0.1

const (
	// minInfeasibility is the balance residual (pu) from which a minimum of the feasibility phase counts as
	// infeasible.
	minInfeasibility = 1e-5
	// infeasibleShare is the largest share of φ that may still be gained there.
	infeasibleShare = 0.03
	// resumeBelow is the balance residual (pu) that ends the feasibility phase.
	resumeBelow = 1e-6
)

// Interior-point constants.
const (
	boundaryFraction   = 0.9995 // of the way to the boundary
	startSlack         = 0.1    // least slack of a flat start
	startBarrier       = 0.1    // s·z of a flat start
	nextBarrier        = 1e-4   // products of the next round of a relaxation
	steepLimit         = 100    // slope from which a branch's limit starts with a larger slack after levelling
	gradientScale      = 10     // largest marginal cost ($/h per pu) in the scaled objective
	minShift           = 1e-7   // primal regularisation of every matrix
	dualConvergedShift = 1e-3   // the same once only the balance has to converge: flat directions stay put
	firstShift         = 2e-3   // primal regularisation tried first when the inertia is wrong
	dualShift          = 1e-8   // dual regularisation when the inertia is wrong
	monotoneShift      = 1e-4   // replaces firstShift after a monotone phase
	monotoneMinShift   = 1e-6   // smallest shift there after earlier ones
	unitShare          = 0.01   // part of such a shift for the units
	largestShift       = 1e10
	solveTolerance     = 1e-9 // KKT solves with a larger relative residual are corrected
	corrections        = 3    // at most
	poorSolve          = 1e-6 // a larger residual before the last one asks for other pivots
)

// restoringShare, relative to ‖g‖∞, bounds the first shift of the feasibility phase, whose curvature falls with g.
// With a fixed shift the last steps gain a constant share each. With one proportional to ‖g‖ they converge
// quadratically (J. Fan, Y. Yuan, Computing 74, 2005).
const restoringShare = 0.05

// lane is the state of one lane of a worker.
type lane struct {
	mode              mode
	turn              turn
	pendingSlacks     bool // slacks and multipliers are set after the next evaluation
	warmMultipliers   bool // they are those of problem.Start
	restored          bool // it had a feasibility phase
	job               job
	acceptable        int     // iterations since the first iterate within conditionLimit
	retry             bool    // the job's next attempt follows
	earlierIterations int     // of earlier attempts
	scale             float64 // objective of the programs = scale × the problem's
	coef              [3]float64
	iteration         int
	shift             float64 // regularisation of this iteration
	lastShift         float64
	shiftAttempts     int     // shifts in this iteration
	convexified       int     // iterations in a row with shifts
	levelled          bool    // the flat start was levelled
	monotone          bool    // it had a monotone phase
	barrier           float64 // monotone s·z, 0: Mehrotra's rule
	error             float64 // of the KKT conditions at the last sufficient decrease
	alpha             float64 // length of the last primal step
	lastObjective     float64
	dualConverged     bool    // optimal except for the balance
	slowIterations    int     // iterations without progress in feasibility
	bestResidual      float64 // sum of all residuals at its last decrease by a tenth
	bestBalance       float64 // the same of the balances
	lowestBarrier     float64 // the same of the mean s·z
	prediction        prediction
	pivoted           bool    // the matrix is factored with pivots chosen by size
	factored          bool    // so in this iteration
	stalled           int     // iterations at the final barrier whose gradient did not fall
	gradient          float64 // at the last iterate
}

// worker solves problems on the lanes of one machine.
type worker struct {
	solver *Solver
	plan   *plan
	m      *lanes.Machine
	lane   []lane
	adm    *network.Admittance
	// pivoted are the lanes' factors with pivots chosen by size; nil for lanes without one.
	pivoted    []*pivoted
	localQueue queue // of a solve on one thread, without allocation
}

func newWorker(s *Solver, compiled *lanes.Compiled) *worker {
	w := &worker{solver: s, plan: s.plan, m: lanes.NewMachine(compiled), adm: network.NewAdmittance(s.plan.nl)}
	w.lane = make([]lane, w.m.Lanes())
	w.pivoted = make([]*pivoted, len(w.lane))
	p := s.plan
	for v, c := range p.constants {
		w.m.SetAll(c[0], v)
	}
	setAll := func(c lanes.Col, v []float64) {
		for i := range c {
			w.m.SetAll(c[i], v[i])
		}
	}
	setAll(p.gs, p.net.Gs)
	setAll(p.bs, p.net.Bs)
	for i := range p.unitBus {
		cost, ok := p.unitCost(i)
		if !ok || cost.PiecewiseLinear() {
			continue
		}
		for k, a := range cost.Polynomial {
			w.m.SetAll(p.coefficients[k][i], a)
		}
	}
	for i, l := range p.rated {
		w.m.SetAll(p.inverseRate[i], 1/p.net.Rate[l])
	}
	setAll(p.slope, p.segmentSlope)
	setAll(p.offset, p.segmentOffset)
	for k, curve := range p.net.Curves {
		w.m.SetAll(p.curveP[k], curve.P)
		w.m.SetAll(p.curveQ[k], curve.Q)
		w.m.SetAll(p.curveBound[k], curve.Bound)
	}
	w.m.SetAll(p.shift[0], minShift)
	w.m.SetAll(p.unitShift[0], minShift)
	// Empty lanes compute on harmless numbers.
	for _, c := range []lanes.Col{p.v, p.s, p.z, p.elasticSlack, p.elasticDual, p.condensed} {
		for _, r := range c {
			w.m.SetAll(r, 1)
		}
	}
	return w
}

// load writes the problem of a lane's job into the lane. It returns false when its limits contradict one another.
func (w *worker) load(l int) bool {
	p, m, net := w.plan, w.m, w.plan.net
	ln := &w.lane[l]
	pr := &ln.job.problem
	pd, qd := net.Pd, net.Qd
	if pr.Pd != nil {
		pd = pr.Pd
	}
	if pr.Qd != nil {
		qd = pr.Qd
	}
	m.Scatter(p.pd[0], l, pd)
	m.Scatter(p.qd[0], l, qd)
	y := &net.Admittance
	if pr.BranchFactors != nil || len(pr.Out.Branches) > 0 {
		y = w.adm
		if err := p.neutral.ScaleBranches(pr.BranchFactors, y); err != nil {
			panic(err) // checked by Solve
		}
		for _, b := range pr.Out.Branches {
			y.Open(b)
		}
	}
	if p.nl > 0 {
		cells := [...]lanes.Col{p.gff, p.bff, p.gft, p.bft, p.gtf, p.btf, p.gtt, p.btt}
		for i, v := range y.Parts() {
			m.Scatter(cells[i][0], l, v)
		}
	}
	t := pr.Tightening
	ok := true
	box := func(cLo, cHi lanes.Ref, lo, hi float64) {
		ok = ok && lo <= hi
		m.Set(cLo, l, lo)
		m.Set(cHi, l, hi)
	}
	for i := range p.nb {
		eta := t.VLoad
		switch {
		case i >= p.inner:
			eta = 0
		case p.hasGenerator[i]:
			eta = t.VGen
		}
		box(p.vLo[i], p.vHi[i], net.VMin[i]+eta, net.VMax[i]-eta)
	}
	for i := range p.unitBus {
		lo, hi := p.unitLimits(i)
		eta := t.P
		if i >= p.ng {
			eta = t.Reactive(lo, hi)
		}
		lo, hi = lo+eta, hi-eta
		if i < p.ng && pr.Previous != nil {
			lo, hi = max(lo, pr.Previous[i]-pr.Ramp[i]), min(hi, pr.Previous[i]+pr.Ramp[i])
		}
		if i < 2*p.ng && slices.Contains(pr.Out.Units, i%p.ng) {
			lo, hi = 0, 0
		}
		if lo > hi {
			ok = false
		}
		lo, hi = max(lo, -unbounded), min(hi, unbounded)
		if hi-lo < 2*fixedHalfWidth { // a fixed power: the limits need an interior
			mid := (lo + hi) / 2
			lo, hi = mid-fixedHalfWidth, mid+fixedHalfWidth
		}
		box(p.uLo[i], p.uHi[i], lo, hi)
	}
	for i, b := range p.rated {
		r := net.Rate[b] - t.S
		if r <= 0 {
			ok = false
		}
		m.Set(p.rate2[i], l, r*r)
	}
	angle := func(branch int) float64 {
		if branch >= p.nl { // of a phase shift
			return 0
		}
		return t.Angle
	}
	for i, b := range p.angleLo {
		m.Set(p.aLo[i], l, net.AngMin[b]+angle(b))
		if slices.Contains(pr.Out.Branches, b) {
			m.Set(p.aLo[i], l, -wideAngle)
		}
	}
	for i, b := range p.angleHi {
		m.Set(p.aHi[i], l, net.AngMax[b]-angle(b))
		if slices.Contains(pr.Out.Branches, b) {
			m.Set(p.aHi[i], l, wideAngle)
		}
	}
	if p.soft > 0 {
		m.Scatter(p.penalty[0], l, pr.penalties)
	}
	ln.coef, _ = pr.Objective.coefficients()
	ln.scale = w.objectiveScale(l, ln.coef[2])
	w.setWeights(l, ln.scale)
	m.Set(p.elastic[0], l, 0)
	m.Set(p.rho[0], l, 0)
	w.startPoint(l)
	// Soft limits are feasible everywhere and need no feasibility phase.
	ln.mode, ln.turn, ln.pendingSlacks = optimising, proceed, true
	ln.warmMultipliers, ln.restored = ln.job.attempt == warm && pr.Start.Multipliers != nil, p.soft > 0
	ln.iteration = 0
	ln.restart()
	if (pr.Feasible && ln.job.attempt == flat || ln.job.attempt == feasible) && p.soft == 0 {
		ln.turn = restore
	}
	return ok
}

// wideAngle is the limit (rad) of angle differences over a branch that is out.
const wideAngle = 10

// fixedHalfWidth is half the width (pu) that the interior of a fixed power gets.
const fixedHalfWidth = 5e-10

// setWeights sets the weights of the objectives in a lane.
func (w *worker) setWeights(l int, scale float64) {
	p, c := w.plan, w.lane[l].coef
	w.m.Set(p.c1[0], l, scale*c[0])
	w.m.Set(p.c2[0], l, scale*c[1])
	w.m.Set(p.c3[0], l, scale*c[2])
}

// objectiveScale makes the largest marginal cost at the middle of the limits at
// most gradientScale.
func (w *worker) objectiveScale(l int, cost float64) float64 {
	p := w.plan
	largest := 0.0
	for i := range p.unitBus {
		c, ok := p.unitCost(i)
		if !ok {
			continue
		}
		_, slope, _ := c.At(w.midpoint(l, i))
		largest = max(largest, math.Abs(slope))
	}
	return min(1, gradientScale/(cost*largest))
}

// midpoint is the middle of a unit's limits in a lane.
func (w *worker) midpoint(l, unit int) float64 {
	lo, hi := w.m.Get(w.plan.uLo[unit], l), w.m.Get(w.plan.uHi[unit], l)
	switch {
	case lo <= -unbounded && hi >= unbounded:
		return 0
	case lo <= -unbounded:
		return min(0, hi)
	case hi >= unbounded:
		return max(0, lo)
	}
	return (lo + hi) / 2
}

// startPoint writes the start of the lane's attempt.
func (w *worker) startPoint(l int) {
	p, m, net := w.plan, w.m, w.plan.net
	w.lane[l].levelled = false
	switch job := &w.lane[l].job; job.attempt {
	case warm:
		start := job.problem.Start
		m.Scatter(p.th[0], l, start.Va)
		m.Scatter(p.v[0], l, start.Vm)
		m.Scatter(p.u[0], l, start.Pg)
		m.Scatter(p.u[p.ng], l, start.Qg)
	case flat, feasible:
		for i := range p.nb {
			m.Set(p.th[i], l, p.startAngles[i])
			m.Set(p.v[i], l, (m.Get(p.vLo[i], l)+m.Get(p.vHi[i], l))/2)
		}
		for i := range p.unitBus {
			m.Set(p.u[i], l, w.midpoint(l, i))
		}
		w.startSettings(l)
		if w.lane[l].levelled = w.startIsStiff(l); w.lane[l].levelled {
			w.level(l)
		}
	case fromFile:
		clamp := func(c lanes.Col, i int, v float64, lo, hi lanes.Col) {
			m.Set(c[i], l, min(max(v, m.Get(lo[i], l)), m.Get(hi[i], l)))
		}
		m.Scatter(p.th[0], l, net.Va0)
		for i := range p.nb {
			clamp(p.v, i, net.Vm0[i], p.vLo, p.vHi)
		}
		for i := range p.ng {
			clamp(p.u, i, net.Pg0[i], p.uLo, p.uHi)
			clamp(p.u, p.ng+i, net.Qg0[i], p.uLo, p.uHi)
		}
	}
	for _, ref := range net.References {
		m.Set(p.th[ref], l, net.Va0[ref])
	}
	w.startSettings(l)
	for k := range p.linear {
		m.Set(p.y[k], l, math.Inf(-1))
	}
	for k, piece := range p.segmentOf {
		v := p.segmentSlope[k]*m.Get(p.u[p.linear[piece]], l) + p.segmentOffset[k]
		m.Set(p.y[piece], l, max(m.Get(p.y[piece], l), v))
	}
}

// initialiseSlacks sets slacks and multipliers of a lane whose limits have been evaluated.
func (w *worker) initialiseSlacks(l int) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	if ln.prediction == predicted {
		w.followPrediction(l)
		ln.pendingSlacks, ln.prediction = false, noPrediction
		return
	}
	slack, barrier := startSlack, startBarrier
	if ln.warmMultipliers {
		slack, barrier, ln.prediction = w.warmStart(l)
	}
	for i := range p.nb {
		lp, lq, bus := 0.0, 0.0, i
		if i >= p.inner {
			bus = p.variables[i-p.inner].outer
		}
		if ln.warmMultipliers {
			lp, lq = ln.job.problem.Start.LambdaP[bus]*ln.scale, ln.job.problem.Start.LambdaQ[bus]*ln.scale
		}
		m.Set(p.lp[i], l, lp)
		m.Set(p.lq[i], l, lq)
	}
	w.startTransfers(l)
	flows, steep := p.rows().sf[0], !ln.warmMultipliers && ln.levelled && p.soft == 0
	for i := range p.s {
		limitSlack := slack
		if k := i - flows; steep && k >= 0 && k < 2*len(p.rated) {
			limitSlack *= max(1, w.steepness(l, k)/steepLimit)
		}
		s := max(-m.Get(p.h[i], l), limitSlack)
		z := barrier / s
		if ln.warmMultipliers {
			z = max(z, ln.job.problem.Start.Multipliers[i]*ln.scale)
			if p.soft > 0 {
				s = max(-m.Get(p.h[i], l), nextBarrier/z)
			}
		}
		m.Set(p.s[i], l, s)
		m.Set(p.z[i], l, z)
	}
	w.initialiseSoftLimits(l)
	ln.pendingSlacks, ln.warmMultipliers = false, false
}

// steepness estimates how much a limit of |S|² changes with a voltage, per pu. k counts from ends, then to ends.
func (w *worker) steepness(l, k int) float64 {
	p, m, nr := w.plan, w.m, len(w.plan.rated)
	if k < nr {
		b := p.rated[k]
		return 2 * math.Hypot(m.Get(p.pf[b], l), m.Get(p.qf[b], l)) * math.Hypot(m.Get(p.gft[b], l), m.Get(p.bft[b], l))
	}
	b := p.rated[k-nr]
	return 2 * math.Hypot(m.Get(p.pt[b], l), m.Get(p.qt[b], l)) * math.Hypot(m.Get(p.gtf[b], l), m.Get(p.btf[b], l))
}

// prepare carries out a lane's turn before the next evaluation.
func (w *worker) prepare(l int) {
	m, p, ln := w.m, w.plan, &w.lane[l]
	switch ln.turn {
	case restore:
		for _, c := range []lanes.Col{p.c1, p.c2, p.c3} {
			m.Set(c[0], l, 0)
		}
		m.Set(p.elastic[0], l, elasticity)
		// A warm point belongs to other loads; its balance may be worse than the flat start's.
		ln.job.attempt = max(ln.job.attempt, flat)
		w.startPoint(l)
		ln.mode, ln.restored = restoring, true
	case resume:
		w.setWeights(l, ln.scale)
		m.Set(p.elastic[0], l, 0)
		ln.mode = optimising
	default:
		return
	}
	ln.turn, ln.pendingSlacks = proceed, true
	ln.restart()
}

// restart resets the history of a lane's iterates.
func (ln *lane) restart() {
	ln.slowIterations, ln.acceptable, ln.lowestBarrier = 0, 0, math.Inf(1)
	ln.lastShift, ln.lastObjective = 0, math.NaN()
	ln.prediction = noPrediction
	ln.bestResidual, ln.bestBalance = math.Inf(1), math.Inf(1)
	ln.monotone, ln.barrier = false, 0
	ln.error, ln.alpha = math.Inf(1), 1
	ln.pivoted, ln.stalled = false, 0
	ln.gradient, ln.convexified = math.Inf(1), 0
}
