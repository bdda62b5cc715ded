package opf

import (
	"math"

	"github.com/gpc-engine/gpc/domains/opf/network"
)

// flowModel is what every power flow of a System shares: which quantities are
// unknown and where each derivative goes. Every bus with a unit holds its
// voltage; the others are PQ; the reference holds angle 0 and takes up the
// mismatch.
//
// Unknowns are the angle of every bus but the reference and the voltage of every
// bus without a unit; equation P_i stands in the row of θ_i, Q_i in that of V_i.
type flowModel struct {
	network  *network.Network
	terms    terms
	lu       *sparseLU
	angle    []int // row of θ_i and P_i in elimination order, −1 at the reference
	size     []int // row of V_i and Q_i, −1 at a bus with a unit
	unit     []int // first unit at each bus, −1: none
	units    []int // how many there are
	slackGen int
	leads    []bool // whether a unit is the first at its bus: its V_G counts
	// entries holds, for every branch, the positions of the sixteen derivatives
	// ∂(Pf, Qf, Pt, Qt)/∂(θf, θt, Vf, Vt) in the values of a workspace: in the
	// matrix, in the columns of the V_G behind it, or in the last place, which
	// nobody reads.
	entries [][16]int32
	own     [][4]int32 // ∂(P_i, Q_i)/∂(θ_i, V_i) of every bus
	// columns lists the derivatives of the equations in V_G of each unit.
	columns [][]columnEntry
	values  int
	near    [][]int // branches at each bus
}

// columnEntry is a derivative outside the matrix: its equation's row and place.
type columnEntry struct{ row, at int32 }

func newFlowModel(n *network.Network) flowModel {
	m := flowModel{network: n, angle: make([]int, n.Buses()), size: make([]int, n.Buses()), unit: make([]int, n.Buses()), units: make([]int, n.Buses()),
		leads: make([]bool, n.Gens()), near: make([][]int, n.Buses()), columns: make([][]columnEntry, n.Gens())}
	for i := range m.unit {
		m.unit[i] = -1
	}
	for g, b := range n.GenBus {
		m.units[b]++
		if m.unit[b] < 0 {
			m.unit[b], m.leads[g] = g, true
		}
	}
	m.slackGen = m.unit[n.Slack]
	unknowns := 0
	for i := range m.angle {
		m.angle[i], m.size[i] = -1, -1
		if i != n.Slack {
			m.angle[i] = unknowns
			unknowns++
		}
		if m.unit[i] < 0 {
			m.size[i] = unknowns
			unknowns++
		}
	}
	coupled := make([][]int, unknowns)
	couple := func(i, j int) {
		for _, a := range [2]int{m.angle[i], m.size[i]} {
			for _, b := range [2]int{m.angle[j], m.size[j]} {
				if a >= 0 && b >= 0 {
					coupled[a] = append(coupled[a], b)
				}
			}
		}
	}
	for i := range m.angle {
		couple(i, i)
	}
	for k, f := range n.From {
		couple(f, n.To[k])
		m.near[f], m.near[n.To[k]] = append(m.near[f], k), append(m.near[n.To[k]], k)
	}
	m.lu = newSparseLU(coupled)
	m.place()
	return m
}

// place fills in the positions of all derivatives, and turns rows into
// elimination order.
func (m *flowModel) place() {
	n, next := m.network, int32(len(m.lu.column))
	type pair struct{ row, gen int }
	extra := map[pair]int32{}
	position := func(row int, bus int, size bool) int32 {
		column := m.angle[bus]
		if size {
			column = m.size[bus]
		}
		switch g := m.unit[bus]; {
		case row < 0:
			return -1
		case column >= 0:
			return int32(m.lu.position(row, column))
		case size && g >= 0:
			at, known := extra[pair{row, g}]
			if !known {
				at = next
				next++
				extra[pair{row, g}] = at
				m.columns[g] = append(m.columns[g], columnEntry{int32(m.lu.place[row]), at})
			}
			return at
		}
		return -1
	}
	for k, f := range n.From {
		t := n.To[k]
		var e [16]int32
		for r, row := range [4]int{m.angle[f], m.size[f], m.angle[t], m.size[t]} {
			e[4*r], e[4*r+1] = position(row, f, false), position(row, t, false)
			e[4*r+2], e[4*r+3] = position(row, f, true), position(row, t, true)
		}
		m.entries = append(m.entries, e)
	}
	for i := range m.angle {
		m.own = append(m.own, [4]int32{
			position(m.angle[i], i, false), position(m.angle[i], i, true),
			position(m.size[i], i, false), position(m.size[i], i, true),
		})
	}
	m.values = int(next) + 1
	unread := next
	for k := range m.entries {
		for j, at := range m.entries[k] {
			if at < 0 {
				m.entries[k][j] = unread
			}
		}
	}
	for i := range m.own {
		for j, at := range m.own[i] {
			if at < 0 {
				m.own[i][j] = unread
			}
		}
	}
	for i := range m.angle {
		if m.angle[i] >= 0 {
			m.angle[i] = m.lu.place[m.angle[i]]
		}
		if m.size[i] >= 0 {
			m.size[i] = m.lu.place[m.size[i]]
		}
	}
}

// Constants of the power flow.
const (
	// flowTolerance, pu: largest mismatch of a solved power flow.
	flowTolerance = 1e-9
	// chordTolerance, pu: below this mismatch the last factorisation is used again;
	// it is at most a step of this size out of date.
	chordTolerance = 1e-4
	flowIterations = 20
)

// workspace is what one call of a System computes in.
type workspace struct {
	system     *System
	y          *network.Admittance
	factors    []float64 // the branch factors that y holds
	pd, qd     []float64 // loads
	injected   []float64 // active power of the units at each bus
	vm, va     []float64 // the solution
	p, q       []float64 // net injections at vm, va
	branch     []branchState
	flows      *network.Flows
	values     []float64 // Jacobian, then its factors; behind it the columns of V_G
	inverse    []float64
	rhs        []float64
	pg, qg     []float64 // what the units give, slack included
	margin     []float64
	row        []float64 // gradient of a margin in the unknowns
	scored     []float64 // the solution as a state
	projection *projection
	// key is what vm, va, pg, qg and margin are the answer to: s, c, u.
	key    []float64
	known  bool
	solved bool
}

// branchState is a branch at vm, va: what its flows and their derivatives are
// made of.
type branchState struct{ along, across, back, reverse float64 }

func newWorkspace(y *System) *workspace {
	n, m := y.Network, &y.model
	vector := func(k int) []float64 { return make([]float64, k) }
	w := &workspace{
		system: y, y: &n.Admittance, pd: vector(n.Buses()), qd: vector(n.Buses()), injected: vector(n.Buses()), vm: vector(n.Buses()), va: vector(n.Buses()),
		p: vector(n.Buses()), q: vector(n.Buses()), branch: make([]branchState, n.Branches()), flows: network.NewFlows(n.Branches()),
		values: vector(m.values), inverse: vector(m.lu.n), rhs: vector(m.lu.n),
		pg: vector(n.Gens()), qg: vector(n.Gens()), margin: vector(y.layout.margins), row: vector(m.lu.n), scored: vector(2 * n.Buses()),
		key: vector(2*n.Buses() + y.layout.context + 2*n.Gens()),
	}
	if y.layout.uncertain {
		w.y = network.NewAdmittance(n.Branches())
		w.factors = vector(n.Branches())
	}
	w.projection = newProjection(y)
	return w
}

// setContext takes loads and branch factors.
func (w *workspace) setContext(c []float64) {
	w.system.loads(c, w.pd, w.qd)
	if b := w.system.branchFactors(c); b != nil {
		w.setFactors(b)
	}
}

func (w *workspace) setFactors(b []float64) {
	same := true
	for k, v := range b {
		same = same && w.factors[k] == v
	}
	if same {
		return
	}
	// What no network has, in an observation that cannot be right, is taken as the
	// nearest that one could have.
	for k, v := range b {
		if !(v > 0.1) {
			v = 0.1
		}
		w.factors[k] = math.Min(v, 10)
	}
	if err := w.system.Network.ScaleBranches(w.factors, w.y); err != nil {
		panic("opf: " + err.Error())
	}
	copy(w.factors, b)
}

// evaluate computes branch flows and injections at vm, va and, where asked, the
// Jacobian.
func (w *workspace) evaluate(jacobian bool) {
	n, m, y := w.system.Network, &w.system.model, w.y
	for i, v := range w.vm {
		w.p[i], w.q[i] = v*v*n.Gs[i], -v*v*n.Bs[i]
	}
	v := w.values
	if jacobian {
		clear(v)
		for i, e := range m.own {
			v[e[1]] += 2 * w.vm[i] * n.Gs[i]
			v[e[3]] -= 2 * w.vm[i] * n.Bs[i]
		}
	}
	for k, f := range n.From {
		t := n.To[k]
		sin, cos := math.Sincos(w.va[f] - w.va[t])
		vf, vt := w.vm[f], w.vm[t]
		along, across := y.Gft[k]*cos+y.Bft[k]*sin, y.Gft[k]*sin-y.Bft[k]*cos
		back, reverse := y.Gtf[k]*cos-y.Btf[k]*sin, y.Gtf[k]*sin+y.Btf[k]*cos
		w.branch[k] = branchState{along, across, back, reverse}
		vv := vf * vt
		pf, qf := vf*vf*y.Gff[k]+vv*along, -vf*vf*y.Bff[k]+vv*across
		pt, qt := vt*vt*y.Gtt[k]+vv*back, -vt*vt*y.Btt[k]-vv*reverse
		w.flows.Pf[k], w.flows.Qf[k], w.flows.Pt[k], w.flows.Qt[k] = pf, qf, pt, qt
		w.p[f], w.q[f] = w.p[f]+pf, w.q[f]+qf
		w.p[t], w.q[t] = w.p[t]+pt, w.q[t]+qt
		if !jacobian {
			continue
		}
		e := &m.entries[k]
		v[e[0]] -= vv * across
		v[e[1]] += vv * across
		v[e[2]] += 2*vf*y.Gff[k] + vt*along
		v[e[3]] += vf * along
		v[e[4]] += vv * along
		v[e[5]] -= vv * along
		v[e[6]] += vt*across - 2*vf*y.Bff[k]
		v[e[7]] += vf * across
		v[e[8]] -= vv * reverse
		v[e[9]] += vv * reverse
		v[e[10]] += vt * back
		v[e[11]] += 2*vt*y.Gtt[k] + vf*back
		v[e[12]] -= vv * back
		v[e[13]] += vv * back
		v[e[14]] -= vt * reverse
		v[e[15]] -= 2*vt*y.Btt[k] + vf*reverse
	}
}

// mismatch writes what the equations lack into rhs and returns the largest.
func (w *workspace) mismatch() float64 {
	m, worst := &w.system.model, 0.0
	for i := range w.vm {
		if r := m.angle[i]; r >= 0 {
			w.rhs[r] = w.injected[i] - w.pd[i] - w.p[i]
			worst = math.Max(worst, math.Abs(w.rhs[r]))
		}
		if r := m.size[i]; r >= 0 {
			w.rhs[r] = -w.qd[i] - w.q[i]
			worst = math.Max(worst, math.Abs(w.rhs[r]))
		}
	}
	return worst
}

// newton solves the power flow of set-points u from the voltages in vm, va.
func (w *workspace) newton(u []float64) bool {
	n, m := w.system.Network, &w.system.model
	clear(w.injected)
	for g, b := range n.GenBus {
		w.injected[b] += u[g]
		if m.leads[g] {
			w.vm[b] = u[n.Gens()+g]
		}
	}
	w.va[n.Slack] = 0
	last := math.Inf(1)
	for range flowIterations {
		fresh := last > chordTolerance
		w.evaluate(fresh)
		worst := w.mismatch()
		if worst <= flowTolerance {
			return true
		}
		if !(worst < 1e6) {
			return false
		}
		if fresh {
			if !m.lu.factor(w.values, w.inverse) {
				return false
			}
		} else if worst > 0.5*last {
			last = math.Inf(1) // the old factorisation no longer helps
			continue
		}
		last = worst
		m.lu.solve(w.values, w.inverse, w.rhs)
		for i := range w.vm {
			if r := m.angle[i]; r >= 0 {
				w.va[i] += w.rhs[r]
			}
			if r := m.size[i]; r >= 0 {
				w.vm[i] += w.rhs[r]
			}
		}
	}
	return false
}

// dispatch solves the power flow of u under context c from the state s, or from
// a flat start where that fails, and fills in the units' outputs and all margins.
// The answer depends on (s, c, u) alone; asked again it is not computed again.
// Without a solution the margins are −1 and it reports false.
func (w *workspace) dispatch(s, c, u []float64) bool {
	if w.known && w.sameKey(s, c, u) {
		return w.solved
	}
	w.remember(s, c, u)
	w.setContext(c)
	nb := w.system.layout.buses
	copy(w.vm, s[:nb])
	for i, v := range s[nb : 2*nb] {
		w.va[i] = v - s[nb+w.system.Network.Slack]
	}
	if w.solved = w.newton(u); !w.solved {
		for i := range w.vm {
			w.vm[i], w.va[i] = 1, 0
		}
		w.solved = w.newton(u)
	}
	if !w.solved {
		for k := range w.margin {
			w.margin[k] = -1
		}
		return false
	}
	w.output(u)
	w.measure(c[w.system.layout.previous:])
	return true
}

// sameKey compares with the key; the reference unit's P_G, which the power flow
// does not read, is no part of it.
func (w *workspace) sameKey(s, c, u []float64) bool {
	at, slack := 0, len(s)+len(c)+w.system.model.slackGen
	for _, part := range [3][]float64{s, c, u} {
		for _, v := range part {
			if w.key[at] != v && at != slack {
				return false
			}
			at++
		}
	}
	return true
}

func (w *workspace) remember(s, c, u []float64) {
	at := copy(w.key, s)
	at += copy(w.key[at:], c)
	copy(w.key[at:], u)
	w.known = true
}

// output fills in pg and qg at the solution: the reference's first unit takes up
// what the others leave, and units at one bus share its Q in proportion to their
// ranges.
func (w *workspace) output(u []float64) {
	n, m := w.system.Network, &w.system.model
	copy(w.pg, u[:n.Gens()])
	slack := w.p[n.Slack] + w.pd[n.Slack]
	for g, b := range n.GenBus {
		if b == n.Slack && g != m.slackGen {
			slack -= u[g]
		}
	}
	w.pg[m.slackGen] = slack
	for g, b := range n.GenBus {
		need := w.q[b] + w.qd[b]
		if m.units[b] == 1 {
			w.qg[g] = need
			continue
		}
		low, span, units := 0.0, 0.0, 0.0
		for other, at := range n.GenBus {
			if at == b {
				low, span, units = low+n.QMin[other], span+n.QMax[other]-n.QMin[other], units+1
			}
		}
		if span > 0 && !math.IsInf(span, 0) && !math.IsInf(low, 0) {
			w.qg[g] = n.QMin[g] + (need-low)/span*(n.QMax[g]-n.QMin[g])
		} else {
			w.qg[g] = need / units
		}
	}
}

// measure fills in the margins at the solution after the previous outputs.
func (w *workspace) measure(previous []float64) {
	n, l := w.system.Network, &w.system.layout
	inside := func(v, lo, hi float64) float64 { return math.Min(v-lo, hi-v) }
	for g := range n.GenBus {
		w.margin[g] = inside(w.pg[g], n.PMin[g], n.PMax[g])
		w.margin[l.marginQ+g] = finiteMargin(inside(w.qg[g], n.QMin[g], n.QMax[g]))
		w.margin[l.marginRamp+g] = w.system.Ramp[g] - math.Abs(w.pg[g]-previous[g])
	}
	for i, v := range w.vm {
		w.margin[l.marginV+i] = inside(v, n.VMin[i], n.VMax[i])
	}
	for r, k := range l.rated {
		from := math.Sqrt(w.flows.Pf[k]*w.flows.Pf[k] + w.flows.Qf[k]*w.flows.Qf[k])
		to := math.Sqrt(w.flows.Pt[k]*w.flows.Pt[k] + w.flows.Qt[k]*w.flows.Qt[k])
		w.margin[l.marginS+r] = n.Rate[k] - math.Max(from, to)
	}
}

// marginBound bounds the margin of a limit that is infinite.
const marginBound = 1e6

func finiteMargin(m float64) float64 { return math.Min(m, marginBound) }
