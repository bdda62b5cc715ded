package results

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// limits are the voltages, pu by bus, and ratings, pu by branch, after an outage.
type limits struct{ vmin, vmax, rate []float64 }

func limitsAfter(n *network.Network, emergency, band float64) limits {
	l := limits{slices.Clone(n.VMin), slices.Clone(n.VMax), slices.Clone(n.Rate)}
	for b := range l.vmin {
		l.vmin[b] -= band
		l.vmax[b] += band
	}
	for k := range l.rate {
		l.rate[k] *= emergency
	}
	return l
}

// securityWatch measures a solution against the limits of voltages, ratings and units. Limits are numbered V lower, V
// upper by bus, |S| from and to by branch, P lower, P upper, Q lower and Q upper by unit.
type securityWatch struct {
	n      *network.Network
	limits limits
	p      Point
	out    secure.Outage
	// extreme is the largest excess over each limit after any outage, and after the number of that outage.
	extreme []float64
	after   []int
}

func newSecurityWatch(n *network.Network, l limits) *securityWatch {
	w := &securityWatch{n: n, limits: l, p: Point{net: n, Flows: network.NewFlows(n.Branches())}, out: secure.Outage{Branch: -1, Unit: -1}}
	w.extreme, w.after = slices.Repeat([]float64{math.Inf(-1)}, w.count()), make([]int, w.count())
	return w
}

func (w *securityWatch) count() int { return 2*(w.n.Buses()+w.n.Branches()) + 4*w.n.Gens() }

// measure writes the excess over each limit, pu; −Inf for what is out or without supply, and for units without pg.
func (w *securityWatch) measure(vm, va, pg, qg []float64, dark []int, excess []float64) {
	n, nb, nl, ng := w.n, w.n.Buses(), w.n.Branches(), w.n.Gens()
	w.p.Vm, w.p.Va = vm, va
	w.p.Pg, w.p.Qg = pg, qg
	n.BranchFlows(&n.Admittance, vm, va, w.p.Flows)
	f, none := w.p.Flows, math.Inf(-1)
	for b, v := range vm {
		excess[b], excess[nb+b] = w.limits.vmin[b]-v, v-w.limits.vmax[b]
	}
	for k, rate := range w.limits.rate {
		excess[2*nb+k], excess[2*nb+nl+k] = math.Hypot(f.Pf[k], f.Qf[k])-rate, math.Hypot(f.Pt[k], f.Qt[k])-rate
	}
	if k := w.out.Branch; k >= 0 {
		excess[2*nb+k], excess[2*nb+nl+k] = none, none
	}
	units := excess[2*(nb+nl):]
	for g, b := range n.GenBus {
		if pg == nil || g == w.out.Unit || slices.Contains(dark, b) {
			units[g], units[ng+g], units[2*ng+g], units[3*ng+g] = none, none, none, none
			continue
		}
		units[g], units[ng+g] = n.PMin[g]-pg[g], pg[g]-n.PMax[g]
		units[2*ng+g], units[3*ng+g] = n.QMin[g]-qg[g], qg[g]-n.QMax[g]
	}
	for _, b := range dark {
		excess[b], excess[nb+b] = none, none
	}
}

// keep keeps the excess over each limit after an outage that is the largest so far; the first of equals.
func (w *securityWatch) keep(excess []float64, outage func(limit int) int) {
	for i, x := range excess {
		if k := outage(i); x > w.extreme[i] || x == w.extreme[i] && k < w.after[i] {
			w.extreme[i], w.after[i] = x, k
		}
	}
}

func (w *securityWatch) broken(i int, excess float64) Broken {
	n, nb, nl := w.n, w.n.Buses(), w.n.Branches()
	unit, ng := i-2*(nb+nl), n.Gens()
	switch {
	case i < nb:
		return Broken{w.p.Bus("vmin", w.limits.vmin)(i), excess}
	case i < 2*nb:
		return Broken{w.p.Bus("vmax", w.limits.vmax)(i - nb), excess}
	case i < 2*nb+nl:
		return Broken{w.rating("from", i-2*nb), excess * n.BaseMVA}
	case unit < 0:
		return Broken{w.rating("to", i-2*nb-nl), excess * n.BaseMVA}
	}
	values, bounds, kind, of := w.p.Pg, n.PMin, "pmin", "MW"
	switch unit / ng {
	case 1:
		bounds, kind = n.PMax, "pmax"
	case 2:
		values, bounds, kind, of = w.p.Qg, n.QMin, "qmin", "MVAr"
	case 3:
		values, bounds, kind, of = w.p.Qg, n.QMax, "qmax", "MVAr"
	}
	return Broken{w.p.Gen(kind, of, values, bounds)(unit % ng), excess * n.BaseMVA}
}

// severity of an excess: as a share of the rating, or of a unit's limit that is farther from 0, and of voltages tenfold.
func (w *securityWatch) severity(i int, excess float64) float64 {
	n, nb, nl := w.n, w.n.Buses(), w.n.Branches()
	unit, ng := i-2*(nb+nl), n.Gens()
	switch {
	case i < 2*nb:
		return voltageSeverity * excess
	case unit < 0:
		return excess / max(w.limits.rate[(i-2*nb)%nl], 1e-9)
	case unit < 2*ng:
		return excess / unitRange(n.PMin[unit%ng], n.PMax[unit%ng])
	}
	return excess / unitRange(n.QMin[unit%ng], n.QMax[unit%ng])
}

// unitRange is the finite limit that is farther from 0, a hundredth pu or more.
func unitRange(lo, hi float64) float64 {
	size := 0.01
	for _, x := range []float64{math.Abs(lo), math.Abs(hi)} {
		if !math.IsInf(x, 1) {
			size = max(size, x)
		}
	}
	return size
}

// rating is the rating of a branch's end after an outage.
func (w *securityWatch) rating(end string, k int) Limit {
	l := w.p.Flow(end)(k)
	l.Bound = w.limits.rate[k] * w.n.BaseMVA
	return l
}
