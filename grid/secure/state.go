package secure

import (
	"math"

	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
	"github.com/gpc-engine/gpc/grid/network"
)

// limit is one inequality h ≤ 0 of a state: of a variable, of an angle difference or of the
// squared apparent power at one end of a branch.
type limit struct {
	kind   limitKind
	at     int     // variable, or branch
	sign   float64 // h = sign·(value − bound) where it is linear
	bound  float64 // |S|² of a flow
	weight float64 // price per unit of |S| or of the variable, where it may be exceeded; 0: it may not
}

type limitKind uint8

const (
	ofVariable limitKind = iota
	ofDifference
	ofShare // P + share·Δ of a unit after an outage
	atFrom
	atTo
)

// state is the network before an outage or after one: its part of the iterate, of the residuals
// of the optimality conditions, and of their matrix
//
//	before:  ⎡ K₀ + Σ_c S_c ⎤      after outage c:  ⎡ K_c  B_cᵀ ⎤   S_c = C_c − B_c K_c⁻¹ B_cᵀ
//	                                                ⎣ B_c  C_c  ⎦
//
// in which B_c are the columns of the set-points.
type state struct {
	*layout
	sys    *system
	outage Outage
	after  bool
	corner *corner // which side of their corners units are on; nil: corners are smooth
	pd, qd []float64
	scale  float64 // of the objective
	weight weights // before an outage
	omit   []bool  // variables that are not there
	zero   []int32 // their entries off the diagonal

	x, r, d, rhs    []float64 // iterate, residual of the conditions, direction, right-hand side
	values          []float64
	factor          *multifrontal.Factor
	residual        []float64
	whole           []float64 // before an outage: values with the Schur complements
	schur           []float64 // after one, with pivots chosen: what its factorisation leaves of the border
	negative, zeros int       // eigenvalues of the last factorisation

	elastic *elastic // nil: balances hold
	idle    int      // results in a row in which an outage meant nothing

	limits       []limit
	sides        int       // of the limits, the last ones
	h, s, z      []float64 // value, slack, multiplier
	price        []float64 // of what a limit gives, +Inf for none
	give, hold   []float64 // what it gives, and the multiplier of that being positive
	ds, dz       []float64
	dgive, dhold []float64
	q            []float64
	weigh        []float64 // weights of limits in the matrix
	// Products s·z and give·hold that a step goes to.
	target, giveTarget []float64
	slope              [][4]float64 // of a flow's limit by θ_f, V_f, θ_t, V_t
	flowRow            [2][]int     // by branch: its limit at either end, −1 for none
	objective          float64
}

func newState(s *system, outage Outage, after bool, pd, qd []float64, c *corner) *state {
	t := &state{corner: c, sys: s, outage: outage, after: after, pd: pd, qd: qd, layout: s.base, scale: 1}
	if after {
		t.layout = s.after
	}
	n := t.variables
	t.omit = make([]bool, n)
	t.omit[t.bus[s.net.Slack]+ofAngle] = true
	if after {
		for i := range s.hold {
			if lo, hi := t.reactiveLimits(i); lo > hi { // no unit is left
				t.omit[t.reactive[i]], t.omit[t.drop[i]] = true, true
			}
		}
	} else {
		for i := range s.hold {
			if s.qhi[i]-s.qlo[i] <= narrow {
				t.omit[t.reactive[i]] = true
			}
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
	for _, v := range []*[]float64{&t.h, &t.s, &t.z, &t.price, &t.give, &t.hold, &t.ds, &t.dz, &t.dgive, &t.dhold, &t.q, &t.weigh, &t.target, &t.giveTarget} {
		*v = make([]float64, m)
	}
	for i := range t.price {
		t.price[i] = math.Inf(1)
		if w := t.limits[i].weight; w > 0 {
			t.price[i] = firstPrice * w
		}
	}
	t.slope = make([][4]float64, m)
	return t
}

// reactiveLimits are those of the units in service at a bus; lo above hi where there are none.
func (t *state) reactiveLimits(i int) (lo, hi float64) {
	s := t.sys
	if !t.after || t.outage.Unit < 0 || s.net.GenBus[t.outage.Unit] != s.hold[i] {
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

// setLimits lists what a state is held to.
func (t *state) setLimits() {
	s, n := t.sys, t.sys.net
	weight := 0.0
	bounds := func(variable int, lo, hi float64) {
		if finite(lo) {
			t.limits = append(t.limits, limit{kind: ofVariable, at: variable, sign: -1, bound: lo, weight: weight})
		}
		if finite(hi) {
			t.limits = append(t.limits, limit{kind: ofVariable, at: variable, sign: 1, bound: hi, weight: weight})
		}
	}
	band, factor := 0.0, 1.0
	if t.after {
		band, factor, weight = s.opt.Band, s.opt.Emergency, voltageSeverity
	}
	for b := range n.BusID {
		lo, hi := n.VMin[b]-band, n.VMax[b]+band
		if hi-lo <= narrow {
			lo, hi = lo-narrow/2, hi+narrow/2
		}
		bounds(t.bus[b]+ofMagnitude, lo, hi)
	}
	t.flowRow = [2][]int{make([]int, n.Branches()), make([]int, n.Branches())}
	for k := range n.Branches() {
		t.flowRow[0][k], t.flowRow[1][k] = -1, -1
	}
	for _, k := range s.rated {
		if t.after && k == t.outage.Branch {
			continue
		}
		rate := factor * n.Rate[k]
		for end, kind := range []limitKind{atFrom, atTo} {
			t.flowRow[end][k] = len(t.limits)
			l := limit{kind: kind, at: k, bound: rate * rate}
			if t.after {
				l.weight = 1 / (2 * rate)
			}
			t.limits = append(t.limits, l)
		}
	}
	if t.after {
		most := 0.0
		for g, a := range s.share {
			if a > 0 && g != t.outage.Unit {
				most = max(most, (n.PMax[g]-n.PMin[g])/a)
			}
		}
		weight = 0
		bounds(t.delta, -most, most)
		t.setSides()
		return
	}
	for k := range n.From {
		for side, bound := range [2]float64{n.AngMin[k], n.AngMax[k]} {
			if !math.IsInf(bound, 0) {
				t.limits = append(t.limits, limit{kind: ofDifference, at: k, sign: float64(2*side - 1), bound: bound})
			}
		}
	}
	for i := range s.hold {
		for _, g := range s.units[i] {
			if s.free[g] {
				bounds(t.set[s.setP[g]], n.PMin[g], n.PMax[g])
			}
		}
		if !t.omit[t.reactive[i]] {
			bounds(t.reactive[i], s.qlo[i], s.qhi[i])
		}
	}
}

// gives says whether a limit may be exceeded at a price.
func (t *state) gives(i int) bool { return !math.IsInf(t.price[i], 1) }

// idles says whether an outage means nothing to the optimum, and has much room.
func (t *state) idles(c *Check) bool {
	for v, dual := range t.dual {
		if dual && !t.omit[v] && math.Abs(t.x[v]) > idlePrice {
			return false
		}
	}
	return c.Margin > idleMargin
}

const (
	idlePrice   = 1e-3 // of power or voltage at any bus, scaled; what the optimum costs depends on its square
	idleMargin  = 0.01 // pu
	idleResults = 5    // in a row, after which an outage is no longer remembered
)

// heavy is the weight of a limit in the matrix: z/s, and less where the limit may give.
func (t *state) heavy(i int) float64 {
	if !t.gives(i) {
		return t.z[i] / t.s[i]
	}
	return 1 / (t.s[i]/t.z[i] + t.give[i]/t.hold[i])
}

// evaluate writes the residual of the optimality conditions, what limits are, and the matrix at
// the iterate. width is that of the corners of what units give after an outage.
func (t *state) evaluate(width float64) {
	n := t.sys.net
	x, r := t.x, t.r
	clear(r)
	clear(t.values)
	t.objective = 0
	for b, at := range t.bus {
		v, lp, lq := x[at+ofMagnitude], x[at+ofActive], x[at+ofReactive]
		r[at+ofActive] += n.Gs[b]*v*v + t.pd[b]
		r[at+ofReactive] += -n.Bs[b]*v*v + t.qd[b]
		shunt := 2 * (lp*n.Gs[b] - lq*n.Bs[b])
		r[at+ofMagnitude] += shunt * v
		t.values[t.diagonal[at+ofMagnitude]] += shunt
		t.values[t.shunt[b][0]] += 2 * v * n.Gs[b]
		t.values[t.shunt[b][1]] -= 2 * v * n.Bs[b]
		if t.weight.voltage > 0 {
			t.deviation(at+ofMagnitude, v)
		}
	}
	for i := range t.weigh {
		t.weigh[i] = t.heavy(i)
	}
	for k := range n.From {
		if !t.after || k != t.outage.Branch {
			t.evaluateBranch(k)
		}
	}
	for i := range t.limits {
		l := &t.limits[i]
		switch l.kind {
		case ofVariable:
			t.h[i] = l.sign * (x[l.at] - l.bound)
			r[l.at] += l.sign * t.z[i]
			t.values[t.diagonal[l.at]] += t.weigh[i]
		case ofDifference:
			f, to := t.bus[n.From[l.at]], t.bus[n.To[l.at]]
			t.h[i] = l.sign * (x[f] - x[to] - l.bound)
			r[f] += l.sign * t.z[i]
			r[to] -= l.sign * t.z[i]
			w := t.weigh[i]
			t.values[t.diagonal[f]] += w
			t.values[t.diagonal[to]] += w
			t.values[t.branch[l.at][0][4]] -= w
		case ofShare:
			p, a, w := t.set[t.sys.setP[l.at]], t.sys.share[l.at], t.weigh[i]
			t.h[i] = l.sign * (x[p] + a*x[t.delta] - l.bound)
			r[p] += l.sign * t.z[i]
			r[t.delta] += l.sign * a * t.z[i]
			t.values[t.diagonal[p]] += w
			t.values[t.diagonal[t.delta]] += a * a * w
			t.values[t.ofUnit[l.at].shared] += a * w
		}
	}
	if t.after {
		t.evaluateAfter(width)
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

// evaluateBefore adds what units cost and give before any outage.
func (t *state) evaluateBefore() {
	s, n, x, r := t.sys, t.sys.net, t.x, t.r
	for i, b := range s.hold {
		at := t.bus[b]
		for _, g := range s.units[i] {
			k := s.setP[g]
			if k < 0 {
				p := (n.PMin[g] + n.PMax[g]) / 2
				value, _, _ := n.Cost[g].At(p)
				t.objective += t.scale * t.weight.cost * value
				r[at+ofActive] -= p
				continue
			}
			p := t.set[k]
			value, first, second := n.Cost[g].At(x[p])
			scale := t.scale * t.weight.cost
			t.objective += scale * value
			r[p] += scale*first - x[at+ofActive]
			r[at+ofActive] -= x[p]
			t.values[t.diagonal[p]] += scale * second
			t.values[t.ofUnit[g].balance] = -1
		}
		q := t.reactive[i]
		r[at+ofReactive] -= x[q]
		r[q] -= x[at+ofReactive]
		t.values[t.ofPlace[i].balance] = -1
	}
}

// evaluateAfter adds what units give after an outage, and which voltages they hold.
func (t *state) evaluateAfter(width float64) {
	s, n, x, r := t.sys, t.sys.net, t.x, t.r
	for i, b := range s.hold {
		at := t.bus[b]
		for _, g := range s.units[i] {
			if g == t.outage.Unit {
				continue
			}
			k := s.setP[g]
			if k < 0 {
				r[at+ofActive] -= (n.PMin[g] + n.PMax[g]) / 2
				continue
			}
			p, share, lp := t.set[k], s.share[g], x[at+ofActive]
			value, first, second := x[p], 1.0, 0.0
			if share > 0 {
				value, first, second = given(t.corner, func() int8 { return t.corner.active[g] }, x[p]+share*x[t.delta], n.PMin[g], n.PMax[g], width)
			}
			r[at+ofActive] -= value
			r[p] -= lp * first
			r[t.delta] -= lp * first * share
			t.values[t.ofUnit[g].balance] -= first
			t.values[t.ofPlace[i].shared] -= first * share
			t.values[t.diagonal[p]] -= lp * second
			t.values[t.ofUnit[g].shared] -= lp * second * share
			t.values[t.diagonal[t.delta]] -= lp * second * share * share
		}
		lo, hi := t.reactiveLimits(i)
		if lo > hi {
			continue
		}
		y, drop, v, set, lq := t.reactive[i], t.drop[i], at+ofMagnitude, t.set[s.setV[i]], x[at+ofReactive]
		value, first, second := given(t.corner, func() int8 { return t.corner.reactive[i] }, x[y], lo, hi, width)
		r[at+ofReactive] -= value
		r[drop] += x[v] - x[set] + (x[y]-value)/dropUnit
		r[v] += x[drop]
		r[set] -= x[drop]
		r[y] += x[drop]*(1-first)/dropUnit - lq*first
		t.values[t.ofPlace[i].balance] -= first
		t.values[t.ofPlace[i].beyond] += (1 - first) / dropUnit
		t.values[t.ofPlace[i].voltage] += 1
		t.values[t.ofPlace[i].set] -= 1
		t.values[t.diagonal[y]] -= (lq + x[drop]/dropUnit) * second
	}
}

// two is a branch's flows at its from and its to end with their derivatives by θ_f, V_f, θ_t, V_t.
type two struct {
	p, q       [2]float64
	dp, dq     [2][4]float64
	a, b, c, d float64
}

// flows evaluates a branch; docs/acopf.md has the formulas.
func flows(y *network.Admittance, k int, angle, vf, vt float64) (f two) {
	sin, cos := math.Sincos(angle)
	c, s := vf*vt*cos, vf*vt*sin
	a, b := y.Gft[k]*c+y.Bft[k]*s, y.Gft[k]*s-y.Bft[k]*c
	e, d := y.Gtf[k]*c-y.Btf[k]*s, y.Gtf[k]*s+y.Btf[k]*c
	f.a, f.b, f.c, f.d = a, b, e, d
	f.p = [2]float64{vf*vf*y.Gff[k] + a, vt*vt*y.Gtt[k] + e}
	f.q = [2]float64{-vf*vf*y.Bff[k] + b, -vt*vt*y.Btt[k] - d}
	f.dp = [2][4]float64{{-b, 2*vf*y.Gff[k] + a/vf, b, a / vt}, {-d, e / vf, d, 2*vt*y.Gtt[k] + e/vt}}
	f.dq = [2][4]float64{{a, -2*vf*y.Bff[k] + b/vf, -a, b / vt}, {-e, -d / vf, e, -2*vt*y.Btt[k] - d/vt}}
	return f
}

// evaluateBranch adds a branch's flows, the gradient and Hessian of its part of the Lagrangian, and
// its limits of |S|².
func (t *state) evaluateBranch(k int) {
	n, y := t.sys.net, &t.sys.net.Admittance
	f, to := t.bus[n.From[k]], t.bus[n.To[k]]
	vf, vt := t.x[f+ofMagnitude], t.x[to+ofMagnitude]
	w := flows(y, k, t.x[f]-t.x[to], vf, vt)
	at := [4]int{f, f + ofMagnitude, to, to + ofMagnitude}
	buses := [2]int{f, to}
	var of [2][2]float64 // multipliers of P and Q at either end
	var h [4][4]float64
	for end, bus := range buses {
		t.r[bus+ofActive] += w.p[end]
		t.r[bus+ofReactive] += w.q[end]
		of[end] = [2]float64{t.x[bus+ofActive], t.x[bus+ofReactive]}
		i := t.flowRow[end][k]
		if i < 0 {
			continue
		}
		p, q := w.p[end], w.q[end]
		t.h[i] = p*p + q*q - t.limits[i].bound
		first, weight := t.z[i], t.weigh[i]
		if end == 0 && t.weight.thermal > 0 {
			slope, curve := t.load(k, p*p+q*q)
			first, weight = first+slope, weight+curve
		}
		of[end][0] += 2 * first * p
		of[end][1] += 2 * first * q
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
	for a, v := range at {
		for end := range 2 {
			t.r[v] += of[end][0]*w.dp[end][a] + of[end][1]*w.dq[end][a]
		}
	}
	alpha, beta, gamma, delta := of[0][0], of[0][1], of[1][0], of[1][1]
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
			t.values[place[2*a][4*end+ofActive]] += w.dp[end][a]
			t.values[place[2*a][4*end+ofReactive]] += w.dq[end][a]
		}
	}
}

// addLimits adds the product of the limits' derivatives, transposed, with m.
func (t *state) addLimits(m, to []float64) {
	n := t.sys.net
	for i := range t.limits {
		l := &t.limits[i]
		switch l.kind {
		case ofVariable:
			to[l.at] += l.sign * m[i]
		case ofDifference:
			to[t.bus[n.From[l.at]]] += l.sign * m[i]
			to[t.bus[n.To[l.at]]] -= l.sign * m[i]
		case ofShare:
			to[t.set[t.sys.setP[l.at]]] += l.sign * m[i]
			to[t.delta] += l.sign * t.sys.share[l.at] * m[i]
		default:
			f, u := t.bus[n.From[l.at]], t.bus[n.To[l.at]]
			g := &t.slope[i]
			to[f] += g[0] * m[i]
			to[f+ofMagnitude] += g[1] * m[i]
			to[u] += g[2] * m[i]
			to[u+ofMagnitude] += g[3] * m[i]
		}
	}
}

// along is a limit's derivative times a direction.
func (t *state) along(i int, d []float64) float64 {
	n, l := t.sys.net, &t.limits[i]
	switch l.kind {
	case ofVariable:
		return l.sign * d[l.at]
	case ofDifference:
		return l.sign * (d[t.bus[n.From[l.at]]] - d[t.bus[n.To[l.at]]])
	case ofShare:
		return l.sign * (d[t.set[t.sys.setP[l.at]]] + t.sys.share[l.at]*d[t.delta])
	}
	f, u := t.bus[n.From[l.at]], t.bus[n.To[l.at]]
	g := &t.slope[i]
	return g[0]*d[f] + g[1]*d[f+ofMagnitude] + g[2]*d[u] + g[3]*d[u+ofMagnitude]
}

// clone is a copy that can be solved on.
func (t *state) clone() *state {
	o := t.with(t.corner)
	for _, v := range o.known(t) {
		copy(v[0], v[1])
	}
	return o
}

// with is the state on sides of its corners.
func (t *state) with(c *corner) *state {
	o := newState(t.sys, t.outage, t.after, t.pd, t.qd, c)
	o.scale, o.weight, o.idle = t.scale, t.weight, t.idle
	copy(o.x, t.x)
	if t.elastic != nil {
		o.elastic = t.elastic.clone(t)
	}
	n := len(t.limits) - t.sides
	copy(o.limits[:n], t.limits[:n]) // with the window of what was asked
	for _, v := range o.known(t) {
		copy(v[0][:n], v[1][:n])
	}
	if t.corner == nil || c == nil || c == t.corner {
		return o
	}
	// Units that stay on their side keep what is known about that; one that changes it begins almost free.
	place := map[limit]int{}
	for i := n; i < len(t.limits); i++ {
		place[t.limits[i]] = i
	}
	for i := n; i < len(o.limits); i++ {
		if from, ok := place[o.limits[i]]; ok && o.sideAt(i) == t.sideAt(from) {
			for _, v := range o.known(t) {
				v[0][i] = v[1][from]
			}
		} else {
			o.z[i] = leastMultiplier
		}
	}
	return o
}

// known pairs what is known about a state's limits with that of another.
func (t *state) known(from *state) [5][2][]float64 {
	return [5][2][]float64{{t.s, from.s}, {t.z, from.z}, {t.price, from.price}, {t.give, from.give}, {t.hold, from.hold}}
}
