package secure

import (
	"math"

	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
	"github.com/gpc-engine/gpc/grid/network"
)

// limit is one inequality h ≤ 0 of a state: on a variable, an angle difference, or the squared apparent power at one
// end of a branch.
type limit struct {
	kind    limitKind
	element int     // variable, or branch
	sign    float64 // h = sign·(value − bound) where it is linear
	bound   float64 // |S|² of a flow
	weight  float64 // penalty per unit of |S| or of the variable; 0: a hard limit
}

type limitKind uint8

const (
	variableLimit limitKind = iota
	angleLimit
	shareLimit   // P + share·Δ of a unit after an outage
	segmentLimit // of a piecewise linear cost: sign·power + bound, scaled, is its slope·power + intercept
	fromFlowLimit
	toFlowLimit
)

// state is the network before or after an outage: its part of the iterate, of the KKT residuals and of the KKT
// matrix
//
//	before:  ⎡ K₀ + Σ_c S_c ⎤      after outage c:  ⎡ K_c  B_cᵀ ⎤   S_c = C_c − B_c K_c⁻¹ B_cᵀ
//	                                                ⎣ B_c  C_c  ⎦
//
// in which B_c are the columns of the set-points.
type state struct {
	*layout
	sys       *system
	outage    Outage
	after     bool
	part      *part      // after an outage: what it leaves to one balance
	switching *switching // nil: smoothed
	pd, qd    []float64
	scale     float64 // of the objective
	weight    weights // before an outage
	omit      []bool  // variables that do not exist
	zero      []int32 // their entries off the diagonal

	x, r, d, rhs    []float64 // iterate, residual of the conditions, direction, right-hand side
	values          []float64
	factor          *multifrontal.Factor
	residual        []float64
	condensed       []float64 // base state: values plus the Schur complements
	schur           []float64 // after an outage, with pivots chosen by size: Schur complement of the border
	negative, zeros int       // eigenvalues of the last factorisation

	elastic *elastic // nil: hard balances
	idle    int      // results in a row in which the outage was idle

	limits                      []limit
	switchLimits                int       // count of switching limits, which are last
	h, s, z                     []float64 // value, slack, multiplier
	penalty                     []float64 // of the elastic slack, +Inf for a hard limit
	elasticSlack, elasticDual   []float64 // slack of a soft limit, and its dual
	ds, dz                      []float64
	dElasticSlack, dElasticDual []float64
	q                           []float64
	limitWeights                []float64 // in the matrix
	// Targets of the products s·z and elasticSlack·elasticDual.
	target, elasticTarget []float64
	slope                 [][4]float64 // of a flow's limit by θ_f, V_f, θ_t, V_t
	flowRow               [2][]int     // by branch: its limit at either end, −1 for none
	objective             float64
}

func newState(s *system, outage Outage, after bool, pd, qd []float64, c *switching) *state {
	t := &state{switching: c, sys: s, outage: outage, after: after, pd: pd, qd: qd, layout: s.base, scale: 1}
	if after {
		t.layout, t.part = s.after, s.part(outage)
	}
	n := t.variables
	t.omit = make([]bool, n)
	if after {
		t.omit[t.bus[t.part.reference]+angleOffset] = true
		for b, first := range t.bus {
			for k := range 4 {
				t.omit[first+k] = t.omit[first+k] || t.part.excludes(b)
			}
		}
		for i := range s.genBuses {
			if lo, hi := t.reactiveLimits(i); lo > hi { // all its units are out
				t.omit[t.reactive[i]], t.omit[t.drop[i]] = true, true
			}
		}
	} else {
		for _, b := range s.references {
			t.omit[t.bus[b]+angleOffset] = true
		}
		for k, y := range s.groups {
			t.omit[t.reactive[k]] = y.fixed()
		}
	}
	for e, i := range t.row {
		if j := t.col[e]; t.omit[i] || t.omit[j] {
			t.zero = append(t.zero, int32(e))
		}
	}
	for _, v := range []*[]float64{&t.x, &t.r, &t.d, &t.rhs, &t.residual} {
		*v = make([]float64, n)
	}
	t.values = make([]float64, len(t.row))
	t.setLimits()
	m := len(t.limits)
	for _, v := range []*[]float64{&t.h, &t.s, &t.z, &t.penalty, &t.elasticSlack, &t.elasticDual, &t.ds, &t.dz, &t.dElasticSlack, &t.dElasticDual, &t.q, &t.limitWeights, &t.target, &t.elasticTarget} {
		*v = make([]float64, m)
	}
	for i := range t.penalty {
		t.penalty[i] = math.Inf(1)
		if w := t.limits[i].weight; w > 0 {
			t.penalty[i] = initialPenalty * w
		}
	}
	t.slope = make([][4]float64, m)
	return t
}

// reactiveLimits are the sums over the units in service at a bus; lo is above hi without any, and outside the state's part.
func (t *state) reactiveLimits(i int) (lo, hi float64) {
	s := t.sys
	if t.part.excludes(s.genBuses[i]) {
		return 1, -1
	}
	if !t.after || t.outage.Unit < 0 || s.net.GenBus[t.outage.Unit] != s.genBuses[i] {
		return s.qlo[i], s.qhi[i]
	}
	if len(s.units[i]) == 1 {
		return 1, -1
	}
	for _, g := range s.units[i] {
		if g != t.outage.Unit {
			lo, hi = lo+s.net.QMin[g], hi+s.net.QMax[g]
		}
	}
	return lo, hi
}

// setLimits lists the limits of a state.
func (t *state) setLimits() {
	s, n := t.sys, t.sys.net
	weight := 0.0
	bounds := func(variable int, lo, hi float64) {
		if finite(lo) {
			t.limits = append(t.limits, limit{kind: variableLimit, element: variable, sign: -1, bound: lo, weight: weight})
		}
		if finite(hi) {
			t.limits = append(t.limits, limit{kind: variableLimit, element: variable, sign: 1, bound: hi, weight: weight})
		}
	}
	band, factor := 0.0, 1.0
	if t.after {
		band, factor, weight = s.opt.Band, s.opt.Emergency, voltageSeverity
	}
	for b := range n.BusID {
		if t.part.excludes(b) {
			continue
		}
		lo, hi := n.VMin[b]-band, n.VMax[b]+band
		if hi-lo <= fixedWidth {
			lo, hi = lo-fixedWidth/2, hi+fixedWidth/2
		}
		bounds(t.bus[b]+magnitudeOffset, lo, hi)
	}
	t.flowRow = [2][]int{make([]int, n.Branches()), make([]int, n.Branches())}
	for k := range n.Branches() {
		t.flowRow[0][k], t.flowRow[1][k] = -1, -1
	}
	for _, k := range s.rated {
		if t.after && (k == t.outage.Branch || t.part.excludes(n.From[k])) {
			continue
		}
		rate := factor * n.Rate[k]
		for end, kind := range []limitKind{fromFlowLimit, toFlowLimit} {
			t.flowRow[end][k] = len(t.limits)
			l := limit{kind: kind, element: k, bound: rate * rate}
			if t.after {
				l.weight = 1 / (2 * rate)
			}
			t.limits = append(t.limits, l)
		}
	}
	if t.after {
		maxDelta := 0.0
		for g, a := range s.share {
			if t.shares(g) {
				maxDelta = max(maxDelta, (n.PMax[g]-n.PMin[g])/a)
			}
		}
		weight = 0
		bounds(t.delta, -maxDelta, maxDelta)
		t.addSwitchLimits()
		return
	}
	for k := range n.From {
		for end, bound := range [2]float64{n.AngMin[k], n.AngMax[k]} {
			if !math.IsInf(bound, 0) {
				t.limits = append(t.limits, limit{kind: angleLimit, element: k, sign: float64(2*end - 1), bound: bound})
			}
		}
	}
	for i := range s.genBuses {
		for _, g := range s.units[i] {
			if s.free[g] {
				bounds(t.setPoints[s.setP[g]], n.PMin[g], n.PMax[g])
			}
		}
	}
	for k, y := range s.groups {
		if !t.omit[t.reactive[k]] {
			bounds(t.reactive[k], y.lo, y.hi)
		}
	}
	for k, y := range s.levels {
		slopes, intercepts := y.Segments()
		for i, slope := range slopes {
			t.limits = append(t.limits, limit{kind: segmentLimit, element: k, sign: slope, bound: intercepts[i]})
		}
	}
}

// shares says whether a unit shares the missing power after the outage.
func (t *state) shares(g int) bool {
	return t.sys.setP[g] >= 0 && t.sys.share[g] > 0 && g != t.outage.Unit && !t.part.excludes(t.sys.net.GenBus[g])
}

// soft says whether a limit has an elastic slack.
func (t *state) soft(i int) bool { return !math.IsInf(t.penalty[i], 1) }

// isIdle says whether an outage has small multipliers and a wide margin.
func (t *state) isIdle(c *Check) bool {
	for v, dual := range t.dual {
		if dual && !t.omit[v] && math.Abs(t.x[v]) > idleMultiplier {
			return false
		}
	}
	return c.Margin > idleMargin
}

const (
	idleMultiplier = 1e-3 // of power or voltage at any bus, scaled; its effect on the cost is quadratic
	idleMargin     = 0.01 // pu
	idleResults    = 5    // in a row, after which an outage is forgotten
)

// limitWeight is the weight of a limit in the matrix: z/s for a hard limit, less for a soft one.
func (t *state) limitWeight(i int) float64 {
	if !t.soft(i) {
		return t.z[i] / t.s[i]
	}
	return 1 / (t.s[i]/t.z[i] + t.elasticSlack[i]/t.elasticDual[i])
}

// evaluate writes the KKT residual, the limits and the matrix at the iterate. smoothing is the width of clip.
func (t *state) evaluate(smoothing float64) {
	n := t.sys.net
	x := t.x
	r := t.r
	clear(r)
	clear(t.values)
	t.objective = 0
	for b, first := range t.bus {
		v, lp, lq := x[first+magnitudeOffset], x[first+activeDualOffset], x[first+reactiveDualOffset]
		r[first+activeDualOffset] += n.Gs[b]*v*v + t.pd[b]
		r[first+reactiveDualOffset] += -n.Bs[b]*v*v + t.qd[b]
		shunt := 2 * (lp*n.Gs[b] - lq*n.Bs[b])
		r[first+magnitudeOffset] += shunt * v
		t.values[t.diagonal[first+magnitudeOffset]] += shunt
		t.values[t.shunt[b][0]] += 2 * v * n.Gs[b]
		t.values[t.shunt[b][1]] -= 2 * v * n.Bs[b]
		if t.weight.voltage > 0 {
			t.addVoltageCost(first+magnitudeOffset, v)
		}
	}
	for i := range t.limitWeights {
		t.limitWeights[i] = t.limitWeight(i)
	}
	for k := range n.From {
		if !t.after || k != t.outage.Branch {
			t.evaluateBranch(k)
		}
	}
	for i := range t.limits {
		l := &t.limits[i]
		switch l.kind {
		case variableLimit:
			t.h[i] = l.sign * (x[l.element] - l.bound)
			r[l.element] += l.sign * t.z[i]
			t.values[t.diagonal[l.element]] += t.limitWeights[i]
		case angleLimit:
			f, to := t.bus[n.From[l.element]], t.bus[n.To[l.element]]
			t.h[i] = l.sign * (x[f] - x[to] - l.bound)
			r[f] += l.sign * t.z[i]
			r[to] -= l.sign * t.z[i]
			w := t.limitWeights[i]
			t.values[t.diagonal[f]] += w
			t.values[t.diagonal[to]] += w
			t.values[t.branch[l.element][0][4]] -= w
		case shareLimit:
			p, a, w := t.setPoints[t.sys.setP[l.element]], t.sys.share[l.element], t.limitWeights[i]
			t.h[i] = l.sign * (x[p] + a*x[t.delta] - l.bound)
			r[p] += l.sign * t.z[i]
			r[t.delta] += l.sign * a * t.z[i]
			t.values[t.diagonal[p]] += w
			t.values[t.diagonal[t.delta]] += a * a * w
			t.values[t.unitEntries[l.element].delta] += a * w
		case segmentLimit:
			v, y, slope, w := t.levelPower[l.element], t.level[l.element], t.costScale()*l.sign, t.limitWeights[i]
			t.h[i] = slope*x[v] + t.costScale()*l.bound - x[y]
			r[v] += slope * t.z[i]
			r[y] -= t.z[i]
			t.values[t.diagonal[v]] += slope * slope * w
			t.values[t.diagonal[y]] += w
			t.values[t.levelEntries[l.element]] -= slope * w
		}
	}
	if t.after {
		t.evaluateAfter(smoothing)
	} else {
		t.evaluateBefore()
	}
	for v, omitted := range t.omit {
		if omitted {
			r[v] = 0
			t.values[t.diagonal[v]] = 0
		}
	}
	for _, e := range t.zero {
		t.values[e] = 0
	}
	if t.elastic != nil {
		t.elastic.evaluate(t)
	}
}

// evaluateBefore adds costs and powers of the units in the base state.
func (t *state) evaluateBefore() {
	s, n := t.sys, t.sys.net
	x, r := t.x, t.r
	for i, b := range s.genBuses {
		bus := t.bus[b]
		for _, g := range s.units[i] {
			k := s.setP[g]
			if k < 0 {
				value, _, _ := n.Cost[g].At(t.addFollower(g))
				t.objective += t.costScale() * value
				continue
			}
			p := t.setPoints[k]
			t.addCost(p, n.Cost[g])
			r[p] -= x[bus+activeDualOffset]
			r[bus+activeDualOffset] -= x[p]
			t.values[t.unitEntries[g].balance] = -1
		}
	}
	for k, y := range s.groups {
		q, bus := t.reactive[k], t.bus[s.genBuses[y.place]]
		t.addCost(q, y.cost)
		r[bus+reactiveDualOffset] -= x[q]
		r[q] -= x[bus+reactiveDualOffset]
		t.values[t.groupEntries[k]] = -1
	}
	for _, y := range t.level {
		t.objective += x[y]
		r[y]++
	}
}

// costScale is the factor of costs in the objective.
func (t *state) costScale() float64 { return t.scale * t.weight.cost }

// addCost adds the cost of a power. One that is piecewise linear has a variable of its own.
func (t *state) addCost(variable int, c network.Cost) {
	if c.PiecewiseLinear() && !t.omit[variable] {
		return
	}
	value, first, second := c.At(t.x[variable])
	t.objective += t.costScale() * value
	t.r[variable] += t.costScale() * first
	t.values[t.diagonal[variable]] += t.costScale() * second
}

// addFollower subtracts the power of a unit without a set-point from the balance of its bus: a constant, or what a DC line
// delivers.
func (t *state) addFollower(g int) (p float64) {
	s, n := t.sys, t.sys.net
	balance := t.bus[n.GenBus[g]] + activeDualOffset
	p = (n.PMin[g] + n.PMax[g]) / 2
	if d := s.source[g]; d != nil {
		lead, ratio := t.setPoints[s.setP[d.From]], d.Loss1-1
		p = ratio*t.x[lead] - d.Loss0
		t.r[lead] -= ratio * t.x[balance]
		t.values[t.unitEntries[g].balance] -= ratio
	}
	t.r[balance] -= p
	return p
}

// evaluateAfter adds powers and voltages of the units after an outage.
func (t *state) evaluateAfter(smoothing float64) {
	s, n := t.sys, t.sys.net
	x, r := t.x, t.r
	for i, b := range s.genBuses {
		bus := t.bus[b]
		for _, g := range s.units[i] {
			if g == t.outage.Unit || t.part.excludes(b) {
				continue
			}
			k := s.setP[g]
			if k < 0 {
				t.addFollower(g)
				continue
			}
			p, share, lp := t.setPoints[k], s.share[g], x[bus+activeDualOffset]
			value, first, second := x[p], 1.0, 0.0
			if share > 0 {
				value, first, second = clipInMode(t.switching, func() int8 { return t.switching.active[g] }, x[p]+share*x[t.delta], n.PMin[g], n.PMax[g], smoothing)
			}
			r[bus+activeDualOffset] -= value
			r[p] -= lp * first
			r[t.delta] -= lp * first * share
			t.values[t.unitEntries[g].balance] -= first
			t.values[t.genBusEntries[i].deltaBalance] -= first * share
			t.values[t.diagonal[p]] -= lp * second
			t.values[t.unitEntries[g].delta] -= lp * second * share
			t.values[t.diagonal[t.delta]] -= lp * second * share * share
		}
		lo, hi := t.reactiveLimits(i)
		if lo > hi {
			continue
		}
		y, drop, v := t.reactive[i], t.drop[i], bus+magnitudeOffset
		set, lq := t.setPoints[s.setV[i]], x[bus+reactiveDualOffset]
		value, first, second := clipInMode(t.switching, func() int8 { return t.switching.reactive[i] }, x[y], lo, hi, smoothing)
		r[bus+reactiveDualOffset] -= value
		r[drop] += x[v] - x[set] + (x[y]-value)/dropUnit
		r[v] += x[drop]
		r[set] -= x[drop]
		r[y] += x[drop]*(1-first)/dropUnit - lq*first
		t.values[t.genBusEntries[i].balance] -= first
		t.values[t.genBusEntries[i].parameterDrop] += (1 - first) / dropUnit
		t.values[t.genBusEntries[i].voltageDrop] += 1
		t.values[t.genBusEntries[i].setPointDrop] -= 1
		t.values[t.diagonal[y]] -= (lq + x[drop]/dropUnit) * second
	}
}

// branchEnds holds the flows of a branch at its from and to end, with their derivatives by θ_f, V_f, θ_t, V_t.
type branchEnds struct {
	p, q       [2]float64
	dp, dq     [2][4]float64
	a, b, c, d float64
}

// branchFlows evaluates a branch; docs/reference/acopf.md has the formulas.
func branchFlows(y *network.Admittance, k int, angle, vf, vt float64) (f branchEnds) {
	sin, cos := math.Sincos(angle)
	c, s := vf*vt*cos, vf*vt*sin
	a, b := y.Gft[k]*c+y.Bft[k]*s, y.Gft[k]*s-y.Bft[k]*c
	e, d := y.Gtf[k]*c-y.Btf[k]*s, y.Gtf[k]*s+y.Btf[k]*c
	f.a, f.b = a, b
	f.c, f.d = e, d
	f.p = [2]float64{vf*vf*y.Gff[k] + a, vt*vt*y.Gtt[k] + e}
	f.q = [2]float64{-vf*vf*y.Bff[k] + b, -vt*vt*y.Btt[k] - d}
	f.dp = [2][4]float64{{-b, 2*vf*y.Gff[k] + a/vf, b, a / vt}, {-d, e / vf, d, 2*vt*y.Gtt[k] + e/vt}}
	f.dq = [2][4]float64{{a, -2*vf*y.Bff[k] + b/vf, -a, b / vt}, {-e, -d / vf, e, -2*vt*y.Btt[k] - d/vt}}
	return f
}

// evaluateBranch adds a branch's flows, its gradient and Hessian of the Lagrangian, and its limits of |S|².
func (t *state) evaluateBranch(k int) {
	n, y := t.sys.net, &t.sys.net.Admittance
	f, to := t.bus[n.From[k]], t.bus[n.To[k]]
	vf, vt := t.x[f+magnitudeOffset], t.x[to+magnitudeOffset]
	w := branchFlows(y, k, t.x[f]-t.x[to], vf, vt)
	variables := [4]int{f, f + magnitudeOffset, to, to + magnitudeOffset}
	buses := [2]int{f, to}
	var multipliers [2][2]float64 // multipliers of P and Q at either end
	var h [4][4]float64
	for end, bus := range buses {
		t.r[bus+activeDualOffset] += w.p[end]
		t.r[bus+reactiveDualOffset] += w.q[end]
		multipliers[end] = [2]float64{t.x[bus+activeDualOffset], t.x[bus+reactiveDualOffset]}
		i := t.flowRow[end][k]
		if i < 0 {
			continue
		}
		p, q := w.p[end], w.q[end]
		t.h[i] = p*p + q*q - t.limits[i].bound
		first, weight := t.z[i], t.limitWeights[i]
		if end == 0 && t.weight.thermal > 0 {
			slope, curve := t.addLoadingCost(k, p*p+q*q)
			first, weight = first+slope, weight+curve
		}
		multipliers[end][0] += 2 * first * p
		multipliers[end][1] += 2 * first * q
		g := &t.slope[i]
		for a := range 4 {
			g[a] = 2 * (p*w.dp[end][a] + q*w.dq[end][a])
		}
		for a := range 4 {
			for b := range a + 1 {
				h[a][b] += 2*first*(w.dp[end][a]*w.dp[end][b]+w.dq[end][a]*w.dq[end][b]) + weight*g[a]*g[b]
			}
		}
	}
	for a, v := range variables {
		for end := range 2 {
			t.r[v] += multipliers[end][0]*w.dp[end][a] + multipliers[end][1]*w.dq[end][a]
		}
	}
	alpha, beta := multipliers[0][0], multipliers[0][1]
	gamma, delta := multipliers[1][0], multipliers[1][1]
	T := beta*w.a - alpha*w.b - gamma*w.d - delta*w.c
	U := alpha*w.a + beta*w.b + gamma*w.c - delta*w.d
	h[0][0] -= U
	h[2][0] += U
	h[2][2] -= U
	h[1][0] += T / vf
	h[2][1] -= T / vf
	h[3][0] += T / vt
	h[3][2] -= T / vt
	h[1][1] += 2 * (alpha*y.Gff[k] - beta*y.Bff[k])
	h[3][1] += U / (vf * vt)
	h[3][3] += 2 * (gamma*y.Gtt[k] - delta*y.Btt[k])
	place := &t.branch[k]
	for a := range 4 {
		for b := range a + 1 {
			t.values[place[2*a][2*b]] += h[a][b]
		}
		for end := range 2 {
			t.values[place[2*a][4*end+activeDualOffset]] += w.dp[end][a]
			t.values[place[2*a][4*end+reactiveDualOffset]] += w.dq[end][a]
		}
	}
}

// addLimits adds the transposed derivatives of the limits times m.
func (t *state) addLimits(m, to []float64) {
	n := t.sys.net
	for i := range t.limits {
		l := &t.limits[i]
		switch l.kind {
		case variableLimit:
			to[l.element] += l.sign * m[i]
		case angleLimit:
			to[t.bus[n.From[l.element]]] += l.sign * m[i]
			to[t.bus[n.To[l.element]]] -= l.sign * m[i]
		case shareLimit:
			to[t.setPoints[t.sys.setP[l.element]]] += l.sign * m[i]
			to[t.delta] += l.sign * t.sys.share[l.element] * m[i]
		case segmentLimit:
			to[t.levelPower[l.element]] += t.costScale() * l.sign * m[i]
			to[t.level[l.element]] -= m[i]
		default:
			f, u := t.bus[n.From[l.element]], t.bus[n.To[l.element]]
			g := &t.slope[i]
			to[f] += g[0] * m[i]
			to[f+magnitudeOffset] += g[1] * m[i]
			to[u] += g[2] * m[i]
			to[u+magnitudeOffset] += g[3] * m[i]
		}
	}
}

// directional is a limit's directional derivative.
func (t *state) directional(i int, d []float64) float64 {
	n, l := t.sys.net, &t.limits[i]
	switch l.kind {
	case variableLimit:
		return l.sign * d[l.element]
	case angleLimit:
		return l.sign * (d[t.bus[n.From[l.element]]] - d[t.bus[n.To[l.element]]])
	case shareLimit:
		return l.sign * (d[t.setPoints[t.sys.setP[l.element]]] + t.sys.share[l.element]*d[t.delta])
	case segmentLimit:
		return t.costScale()*l.sign*d[t.levelPower[l.element]] - d[t.level[l.element]]
	}
	f, u := t.bus[n.From[l.element]], t.bus[n.To[l.element]]
	g := &t.slope[i]
	return g[0]*d[f] + g[1]*d[f+magnitudeOffset] + g[2]*d[u] + g[3]*d[u+magnitudeOffset]
}

// clone is an independent copy.
func (t *state) clone() *state { return t.withSwitching(t.switching) }

// withSwitching is a copy with other switching modes.
func (t *state) withSwitching(c *switching) *state {
	o := newState(t.sys, t.outage, t.after, t.pd, t.qd, c)
	o.scale, o.weight, o.idle = t.scale, t.weight, t.idle
	copy(o.x, t.x)
	if t.elastic != nil {
		o.elastic = t.elastic.clone(t)
	}
	n := len(t.limits) - t.switchLimits
	copy(o.limits[:n], t.limits[:n]) // with the ramp limits of the problem
	for _, v := range o.limitArrays(t) {
		copy(v[0][:n], v[1][:n])
	}
	if t.switching == nil {
		return o
	}
	// Units that stay in their mode keep its slacks and multipliers. One that switches starts almost free.
	place := map[limit]int{}
	for i := n; i < len(t.limits); i++ {
		place[t.limits[i]] = i
	}
	for i := n; i < len(o.limits); i++ {
		if from, ok := place[o.limits[i]]; ok && o.modeAt(i) == t.modeAt(from) {
			for _, v := range o.limitArrays(t) {
				v[0][i] = v[1][from]
			}
		} else {
			o.z[i] = minMultiplier
		}
	}
	return o
}

// limitArrays pairs the arrays of two states' limits that a copy keeps.
func (t *state) limitArrays(from *state) [5][2][]float64 {
	return [5][2][]float64{{t.s, from.s}, {t.z, from.z}, {t.penalty, from.penalty}, {t.elasticSlack, from.elasticSlack}, {t.elasticDual, from.elasticDual}}
}
