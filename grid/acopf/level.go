package acopf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
)

// Neighbours with different limits may have midpoints so far apart, for the impedance between them, that the flat start
// has larger flows than all load. The interior point fails from there. Magnitudes and angles are then levelled along
// branches.

const (
	// stiffFlow, relative to all load, bounds the flows of a network. A flat start with more flow is stiff.
	stiffFlow = 5
	// One branch with more than stiffOverload times its rating, and more than stiffPower pu, makes it stiff too.
	stiffOverload = 2
	stiffPower    = 10
	// midpointWeight (pu) weighs the middle of a bus's limits against the admittances of its branches. The angle of
	// the flat start has a tenth of it.
	midpointWeight = 1
	// levelMargin is the distance of levelled magnitudes from their limits, relative to the range.
	levelMargin = 0.1
	// referenceWeight is the weight of a reference angle.
	referenceWeight = 1e9
)

// startIsStiff says whether the flows of the flat start add up to more than stiffFlow times the load, or one branch
// carries many times its rating.
func (w *worker) startIsStiff(l int) bool {
	p, m := w.plan, w.m
	load, flow := 0.0, 0.0
	for i := range p.nb {
		load += math.Abs(m.Get(p.pd[i], l))
	}
	rated := 0
	for k := range p.nl {
		f, t := m.Get(p.v[p.voltageFrom[k]], l), m.Get(p.v[p.net.To[k]], l)
		sin, cos := math.Sincos(p.startAngles[p.angleFrom[k]] - p.startAngles[p.net.To[k]])
		active := f * (m.Get(p.gff[k], l)*f + (m.Get(p.gft[k], l)*cos+m.Get(p.bft[k], l)*sin)*t)
		reactive := f * (m.Get(p.bff[k], l)*f + (m.Get(p.bft[k], l)*cos-m.Get(p.gft[k], l)*sin)*t)
		s := math.Hypot(active, reactive)
		if rated < len(p.rated) && p.rated[rated] == k {
			if s > stiffPower && s > stiffOverload*math.Sqrt(m.Get(p.rate2[rated], l)) {
				return true
			}
			rated++
		}
		flow += s
	}
	return flow > stiffFlow*load
}

// newLevelling is the structure of the systems of a levelled start: a variable a bus in elimination order, an entry
// a bus and one a branch.
func (p *plan) newLevelling() *multifrontal.Structure {
	sizes := make([]int, p.nb)
	var row, col []int32
	for k := range p.nb {
		sizes[k] = 1
		row, col = append(row, int32(k)), append(col, int32(k))
	}
	for _, pair := range p.pairs {
		row, col = append(row, int32(pair[0])), append(col, int32(pair[1]))
	}
	return multifrontal.Analyse(sizes, 1, p.order.Below, row, col)
}

// level moves the voltages of the flat start to those with little current in branches without load. They are the
// least squares of V_f − ρ·V_t and θ_f − θ_t − φ, weighted by admittances, with magnitudes within the limits.
func (w *worker) level(l int) {
	p, m := w.plan, w.m
	n := p.nb + len(p.pairs)
	magnitude, angle := make([]float64, n), make([]float64, n)
	v, th := make([]float64, p.nb), make([]float64, p.nb)
	for i := range p.nb {
		k := p.order.Position[i]
		magnitude[k] = midpointWeight
		v[k] = midpointWeight * (m.Get(p.vLo[i], l) + m.Get(p.vHi[i], l)) / 2
		angle[k] = midpointWeight / 10.0
		th[k] = midpointWeight / 10.0 * p.startAngles[i]
	}
	quotient, shift := slices.Repeat([]float64{1}, p.nl), make([]float64, p.nl)
	for _, y := range p.variables {
		if q, angle := y.place(y.start); y.Kind != Susceptance {
			quotient[y.Index], shift[y.Index] = quotient[y.Index]/q, shift[y.Index]+angle
		}
	}
	for k := range p.nl {
		gft, bft := m.Get(p.gft[k], l), m.Get(p.bft[k], l)
		gtf, btf := m.Get(p.gtf[k], l), m.Get(p.btf[k], l)
		y := math.Hypot(gft, bft)
		f, t := p.order.Position[p.net.From[k]], p.order.Position[p.net.To[k]]
		ratio := math.Sqrt(math.Hypot(m.Get(p.gtt[k], l), m.Get(p.btt[k], l))/math.Hypot(m.Get(p.gff[k], l), m.Get(p.bff[k], l))) * quotient[k]
		if f == t || y == 0 || notFinite(ratio) {
			continue
		}
		e, _ := p.pair(max(f, t), min(f, t))
		e += p.nb
		magnitude[f] += y
		magnitude[t] += float64(y * ratio * ratio)
		magnitude[e] -= float64(y * ratio)
		turn := math.Atan2(bft*gtf-gft*btf, gft*gtf+bft*btf)/2 + shift[k]
		angle[f], angle[t] = angle[f]+y, angle[t]+y
		angle[e] -= y
		th[f], th[t] = th[f]+float64(y*turn), th[t]-float64(y*turn)
	}
	for _, ref := range p.net.References {
		k := p.order.Position[ref]
		angle[k] += referenceWeight
		th[k] += float64(referenceWeight * p.net.Va0[ref])
	}
	factor := multifrontal.NewFactor(w.solver.levelling())
	factor.Factor(magnitude, nil)
	factor.Solve(v)
	factor.Factor(angle, nil)
	factor.Solve(th)
	for i := range p.nb {
		k := p.order.Position[i]
		lo, hi := m.Get(p.vLo[i], l), m.Get(p.vHi[i], l)
		margin := levelMargin * (hi - lo)
		m.Set(p.v[i], l, min(max(v[k], lo+margin), hi-margin))
		m.Set(p.th[i], l, th[k])
	}
}
