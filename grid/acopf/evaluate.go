package acopf

import (
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// groupSize is the number of branches or buses in one run of a program: large enough for long runs, small enough for
// temporaries to stay in the cache.
const groupSize = 32

// groups calls f with the elements of index, groupSize at a time.
func groups(index []int, f func(part []int)) {
	for len(index) > 0 {
		n := min(groupSize, len(index))
		f(index[:n])
		index = index[n:]
	}
}

// sums calls f with ranges of the elements of a group, eight at a time. Terms at a bus are added in this order for
// every groupSize, so that results keep their bits.
func sums(n int, f func(lo, hi int)) {
	const size = 8
	for lo := 0; lo < n; lo += size {
		f(lo, min(lo+size, n))
	}
}

func indices(n int) []int {
	index := make([]int, n)
	for i := range index {
		index[i] = i
	}
	return index
}

func pick(values []int, index []int) []int {
	out := make([]int, len(index))
	for i, j := range index {
		out[i] = values[j]
	}
	return out
}

// branchBuses are the buses of branches: at the from end the one whose angle and the one whose magnitude they have, and the
// one at the to end.
type branchBuses struct{ angle, voltage, remote []int }

func (p *plan) buses(l []int) branchBuses {
	return branchBuses{pick(p.angleFrom, l), pick(p.voltageFrom, l), pick(p.net.To, l)}
}

func (y branchBuses) part(lo, hi int) branchBuses {
	return branchBuses{y.angle[lo:hi], y.voltage[lo:hi], y.remote[lo:hi]}
}

// ends are the cells of a column of magnitudes or reactive powers at both ends of branches, one behind another.
func (p *plan) ends(b *lanes.Builder, c lanes.Col, l []int) (from, to lanes.Col) {
	return b.Clone(c.At(pick(p.voltageFrom, l))), b.Clone(c.At(pick(p.net.To, l)))
}

// differences are those of angles over the branches with a lower and with an upper limit.
func (p *plan) differences(b *lanes.Builder, angle lanes.Col) (low, high lanes.Col) {
	difference := func(l []int) (d lanes.Col) {
		if len(l) > 0 {
			d = b.Sub(angle.At(pick(p.net.From, l)), angle.At(pick(p.net.To, l)))
		}
		return d
	}
	if low = difference(p.angleLo); slices.Equal(p.angleLo, p.angleHi) {
		return low, low
	}
	return low, difference(p.angleHi)
}

// evaluate writes the program of what depends on the iterate alone.
//
// With θ = θ_f − θ_t, c = V_f V_t cos θ and s = V_f V_t sin θ, the parts of the
// flows that change with the angle are
//
//	a = Gft c + Bft s   b = Gft s − Bft c   c' = Gtf c − Btf s   d = Gtf s + Btf c
//
// so that Pf = Gff V_f² + a, Qf = −Bff V_f² + b, Pt = Gtt V_t² + c',
// Qt = −Btt V_t² − d, and ∂a/∂θ = −b, ∂b/∂θ = a, ∂c'/∂θ = −d, ∂d/∂θ = c'.
func (p *plan) evaluate(b *lanes.Builder) {
	c := &p.cells
	zero, one := p.constant(0), p.constant(1)
	for _, t := range p.ties {
		b.SetFMA(c.u[t.follow:t.follow+1], p.constant(t.ratio), c.u[t.lead:t.lead+1], p.constant(t.constant))
	}
	b.SetMul(c.v2, c.v, c.v)
	b.SetDiv(c.iv, one, c.v)
	b.SetFMA(c.gp, c.gs, c.v2, c.pd)
	b.SetFNMA(c.gq, c.bs, c.v2, c.qd)
	groups(indices(p.nl), func(l []int) {
		ends := p.buses(l)
		sin, cos := b.Sincos(b.Sub(c.th.At(ends.angle), c.th.At(ends.remote)), 21, 22, p.constant)
		vf, vt := p.ends(b, c.v, l)
		vv := b.Mul(vf, vt)
		vf, vt = b.Mul(vf, vf), b.Mul(vt, vt)
		cos, sin = b.Mul(vv, cos), b.Mul(vv, sin)
		set := func(d, g, x, h, y lanes.Col) { b.SetFMA(d, g, x, b.Mul(h, y)) }
		neg := b.Sub(zero, sin)
		negCos := b.Sub(zero, cos)
		set(c.a.At(l), c.gft.At(l), cos, c.bft.At(l), sin)
		set(c.b.At(l), c.gft.At(l), sin, c.bft.At(l), negCos)
		set(c.c.At(l), c.gtf.At(l), cos, c.btf.At(l), neg)
		set(c.d.At(l), c.gtf.At(l), sin, c.btf.At(l), cos)
		b.SetFMA(c.pf.At(l), c.gff.At(l), vf, c.a.At(l))
		b.SetFNMA(c.qf.At(l), c.bff.At(l), vf, c.b.At(l))
		b.SetFMA(c.pt.At(l), c.gtt.At(l), vt, c.c.At(l))
		b.SetFMA(c.qt.At(l), c.btt.At(l), vt, c.d.At(l))
		b.SetSub(c.qt.At(l), zero, c.qt.At(l))
		sums(len(l), func(lo, hi int) {
			l, ends := l[lo:hi], ends.part(lo, hi)
			b.SetAdd(c.gp.At(ends.angle), c.gp.At(ends.angle), c.pf.At(l))
			b.SetAdd(c.gp.At(ends.remote), c.gp.At(ends.remote), c.pt.At(l))
			b.SetAdd(c.gq.At(ends.voltage), c.gq.At(ends.voltage), c.qf.At(l))
			b.SetAdd(c.gq.At(ends.remote), c.gq.At(ends.remote), c.qt.At(l))
		})
	})
	for i := range p.unitBus {
		g := p.cell(i, c.gp, c.gq)
		b.SetSub(g, g, c.u[i:i+1])
	}
	p.limits(b)
	p.objectives(b)
}

// curveUnits are the units P and Q of each side of a capability curve.
func (p *plan) curveUnits() (active, reactive []int) {
	for _, c := range p.net.Curves {
		active, reactive = append(active, c.Gen), append(reactive, p.ng+c.Gen)
	}
	return active, reactive
}

// balance returns the first column for the P units, the second for the Q units.
func (p *plan) balance(unit int, ofP, ofQ lanes.Col) lanes.Col {
	if p.active(unit) {
		return ofP
	}
	return ofQ
}

// limits writes h, every limit as h ≤ 0.
func (p *plan) limits(b *lanes.Builder) {
	c, r := &p.cells, p.rows()
	b.SetSub(part(c.h, r.vLo), p.coupled(b, c.vLo, c.v), c.v)
	b.SetSub(part(c.h, r.vHi), c.v, p.coupled(b, c.vHi, c.v))
	b.SetSub(part(c.h, r.uLo), c.uLo.At(p.bounded[0]), c.u.At(p.bounded[0]))
	b.SetSub(part(c.h, r.uHi), c.u.At(p.bounded[1]), c.uHi.At(p.bounded[1]))
	flow := func(h, pw, qw lanes.Col, bus []int) {
		groups(indices(len(p.rated)), func(k []int) {
			l := pick(p.rated, k)
			pl, ql, limit := pw.At(l), qw.At(l), c.rate2.At(k)
			if p.current {
				limit = b.Mul(limit, c.v2.At(pick(bus, l)))
			}
			b.SetSub(h.At(k), b.FMA(pl, pl, b.Mul(ql, ql)), limit)
		})
	}
	flow(part(c.h, r.sf), c.pf, c.qf, p.net.From)
	flow(part(c.h, r.st), c.pt, c.qt, p.net.To)
	{
		low, high := p.differences(b, c.th)
		b.SetSub(part(c.h, r.aLo), c.aLo, low)
		b.SetSub(part(c.h, r.aHi), high, c.aHi)
		if len(p.segmentOf) > 0 {
			line := b.FMA(c.slope, c.u.At(pick(p.linear, p.segmentOf)), c.offset)
			b.SetSub(part(c.h, r.segment), line, c.y.At(p.segmentOf))
		}
		if active, reactive := p.curveUnits(); len(active) > 0 {
			line := b.FMA(c.curveP, c.u.At(active), b.Mul(c.curveQ, c.u.At(reactive)))
			b.SetSub(part(c.h, r.curve), line, c.curveBound)
		}
	}
}

// objectives writes J₁, J₂ and cost with the derivatives of J₁ by |S|² and of
// the costs by the units.
func (p *plan) objectives(b *lanes.Builder) {
	c := &p.cells
	zero := p.constant(0)
	b.Copy(c.j1, zero)
	groups(indices(len(p.rated)), func(k []int) {
		l := pick(p.rated, k)
		pl, ql, inverse := c.pf.At(l), c.qf.At(l), c.inverseRate.At(k)
		s := b.Sqrt(b.FMA(pl, pl, b.Mul(ql, ql)))
		overload := b.Max(b.Sub(b.Mul(s, inverse), p.constant(ThermalThreshold)), zero)
		over2 := b.Mul(overload, overload)
		b.Dot(c.j1, over2, over2)
		// With x = |S|², t = √x/S^max − τ: t' = 1/(2 S^max √x), t'' = −t'/(2x).
		rs := b.Div(p.constant(0.5), b.Max(s, p.constant(1e-9)))
		t1 := b.Mul(inverse, rs)
		over3 := b.Mul(over2, overload)
		first := b.Mul(p.constant(4), b.Mul(over3, t1))
		b.SetMul(c.t1f.At(k), c.c1, first)
		second := b.Mul(p.constant(12), b.Mul(over2, b.Mul(t1, t1)))
		curved := b.Mul(first, b.Mul(p.constant(2), b.Mul(rs, rs))) // ψ'·(1/2x), as rs² = 1/4x
		b.SetMul(c.t2f.At(k), c.c1, b.Sub(second, curved))
	})
	b.Copy(c.j2, zero)
	{
		overload := p.overVoltage(b)
		b.Dot(c.j2, overload, overload)
	}
	b.Copy(c.j3, zero)
	{
		poly := p.polynomialUnits()
		if len(poly) > 0 {
			u := c.u.At(poly)
			value, first, second := zero, zero, zero
			for k := p.degree; k >= 0; k-- {
				second = b.FMA(second, u, b.Add(first, first))
				first = b.FMA(first, u, value)
				value = b.FMA(value, u, c.coefficients[k].At(poly))
			}
			b.SetMul(c.cost1.At(poly), c.c3, first)
			b.SetMul(c.cost2.At(poly), c.c3, second)
			b.Dot(c.j3, value, p.constant(1))
		}
		if len(p.linear) > 0 {
			b.Dot(c.j3, c.y, p.constant(1))
		}
		if p.soft > 0 {
			b.Dot(c.j3, c.penalty, c.elasticSlack)
		}
	}
}

// overVoltage is max(0, |V − 1| − deadband), and 0 for inner buses.
func (p *plan) overVoltage(b *lanes.Builder) lanes.Col {
	deviation := b.Sub(p.v[:p.inner], p.constant(1))
	magnitude := b.Max(deviation, b.Sub(p.constant(0), deviation))
	out := b.Max(b.Sub(magnitude, p.constant(VoltageDeadband)), p.constant(0))
	for range p.variables {
		out = append(out, p.constant(0)...)
	}
	return out
}

// polynomialUnits lists the units with a polynomial cost.
func (p *plan) polynomialUnits() []int {
	var out []int
	for i := range p.unitBus {
		if cost, ok := p.unitCost(i); ok && !cost.PiecewiseLinear() {
			out = append(out, i)
		}
	}
	return out
}
