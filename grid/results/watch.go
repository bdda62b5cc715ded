package results

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
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

// severityUnit is the divisor of a violation that makes it comparable with others.
func severityUnit(l *Broken, n *network.Network) float64 {
	if l.Unit == "pu" {
		return 1.0 / voltageSeverity
	}
	return max(l.Bound, 1e-9*n.BaseMVA)
}

// securityWatch measures a solution against ratings and voltages. Limits are numbered V lower, V upper by bus, |S|
// from and to by branch.
type securityWatch struct {
	n      *network.Network
	limits limits
	p      Point
	out    secure.Outage
}

func newSecurityWatch(n *network.Network, l limits) *securityWatch {
	return &securityWatch{n: n, limits: l, p: Point{net: n, Flows: network.NewFlows(n.Branches())}, out: secure.Outage{Branch: -1, Unit: -1}}
}

func (w *securityWatch) count() int { return 2 * (w.n.Buses() + w.n.Branches()) }

// measure writes the excess over each limit, pu; 0 for buses and branches that are out.
func (w *securityWatch) measure(sol *powerflow.Solution, islanded []int32, excess []float64) {
	n, nb, nl := w.n, w.n.Buses(), w.n.Branches()
	w.p.Vm, w.p.Va = sol.Vm, sol.Va
	w.p.Pg, w.p.Qg = sol.Pg, sol.Qg
	n.BranchFlows(&n.Admittance, sol.Vm, sol.Va, w.p.Flows)
	f := w.p.Flows
	for b, v := range sol.Vm {
		excess[b], excess[nb+b] = w.limits.vmin[b]-v, v-w.limits.vmax[b]
	}
	for _, b := range islanded {
		excess[b], excess[nb+int(b)] = 0, 0
	}
	for k, rate := range w.limits.rate {
		excess[2*nb+k], excess[2*nb+nl+k] = math.Hypot(f.Pf[k], f.Qf[k])-rate, math.Hypot(f.Pt[k], f.Qt[k])-rate
	}
	if k := w.out.Branch; k >= 0 {
		excess[2*nb+k], excess[2*nb+nl+k] = 0, 0
	}
}

func (w *securityWatch) broken(i int, excess float64) Broken {
	n, nb, nl := w.n, w.n.Buses(), w.n.Branches()
	switch {
	case i < nb:
		return Broken{w.p.Bus("vmin", w.limits.vmin)(i), excess}
	case i < 2*nb:
		return Broken{w.p.Bus("vmax", w.limits.vmax)(i - nb), excess}
	case i < 2*nb+nl:
		return Broken{w.rating("from", i-2*nb), excess * n.BaseMVA}
	}
	return Broken{w.rating("to", i-2*nb-nl), excess * n.BaseMVA}
}

func (w *securityWatch) severity(i int, excess float64) float64 {
	if nb, nl := w.n.Buses(), w.n.Branches(); i >= 2*nb {
		return excess / w.limits.rate[(i-2*nb)%nl]
	}
	return voltageSeverity * excess
}

// rating is the rating of a branch's end after an outage.
func (w *securityWatch) rating(end string, k int) Limit {
	l := w.p.Flow(end)(k)
	l.Bound = w.limits.rate[k] * w.n.BaseMVA
	return l
}
