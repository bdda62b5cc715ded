package acopf

import "github.com/gpc-engine/gpc/internal/simd/lanes"

// gradient writes the program of the Lagrangian's gradient and of the norms
// of the KKT conditions.
//
// For multipliers α, β, γ, δ of Pf, Qf, Pt, Qt the gradient of their sum by
// (θ, V_f, V_t) needs only U = αa + βb + γc − δd and T = −αb + βa − γd − δc:
//
//	∂θ = T   ∂V_f = 2V_f(αGff − βBff) + U/V_f   ∂V_t = 2V_t(γGtt − δBtt) + U/V_t
func (p *plan) gradient(b *lanes.Builder) {
	c := &p.cells
	zero, two := p.constant(0), p.constant(2)
	b.SetAdd(c.r, p.excess(b), c.s)

	// Buses: shunts and the voltage deadband.
	b.Copy(c.g0th, zero)
	groups(indices(p.nb), func(i []int) {
		shunt := b.FNMA(c.lq.At(i), c.bs.At(i), b.Mul(c.lp.At(i), c.gs.At(i)))
		b.SetMul(c.g0v.At(i), b.Mul(two, c.v.At(i)), shunt)
	})
	{
		overvoltage := p.overVoltage(b)
		down := b.Mul(p.constant(-2), overvoltage)
		up := b.Mul(two, overvoltage)
		deviation := b.Sub(c.v, p.constant(1))
		b.SetFMA(c.g0v, c.c2, b.Select(deviation, down, up), c.g0v)
	}
	unrated, rated := p.split()
	for _, set := range []struct {
		index []int // rated: positions in p.rated
		rated bool
	}{{unrated, false}, {rated, true}} {
		groups(set.index, func(k []int) {
			l := k
			if set.rated {
				l = pick(p.rated, k)
			}
			ends := p.buses(l)
			x := p.multipliers(b, l)
			if set.rated {
				double := b.Add(c.t1f.At(k), c.t1f.At(k))
				x.alpha = b.FMA(double, c.pf.At(l), x.alpha)
				x.beta = b.FMA(double, c.qf.At(l), x.beta)
			}
			t, u := p.combine(b, l, x)
			e := branchEnds{}
			e.iv, e.jv = p.ends(b, c.iv, l)
			e.vf, e.vt = p.ends(b, c.v, l)
			e.vf, e.vt = b.Add(e.vf, e.vf), b.Add(e.vt, e.vt)
			vf := b.Mul(e.vf, b.FNMA(x.beta, c.bff.At(l), b.Mul(x.alpha, c.gff.At(l))))
			vt := b.Mul(e.vt, b.FNMA(x.delta, c.btt.At(l), b.Mul(x.gamma, c.gtt.At(l))))
			vf, vt = b.FMA(u, e.iv, vf), b.FMA(u, e.jv, vt)
			sums(len(l), func(lo, hi int) {
				ends := ends.part(lo, hi)
				b.SetAdd(c.g0th.At(ends.angle), c.g0th.At(ends.angle), t[lo:hi])
				b.SetSub(c.g0th.At(ends.remote), c.g0th.At(ends.remote), t[lo:hi])
				b.SetAdd(c.g0v.At(ends.voltage), c.g0v.At(ends.voltage), vf[lo:hi])
				b.SetAdd(c.g0v.At(ends.remote), c.g0v.At(ends.remote), vt[lo:hi])
			})
			if set.rated {
				p.flowGradients(b, k, l, e)
			}
		})
	}
	for i := range p.unitBus {
		l := p.cell(i, c.lp, c.lq)
		cost, ok := p.unitCost(i)
		if ok && !cost.PiecewiseLinear() {
			b.SetSub(c.g0u[i:i+1], c.cost1[i:i+1], l)
		} else {
			b.SetSub(c.g0u[i:i+1], zero, l)
		}
	}
	for _, t := range p.ties {
		lead, follow := c.g0u[t.lead:t.lead+1], c.g0u[t.follow:t.follow+1]
		b.SetFMA(lead, p.constant(t.ratio), follow, lead)
		b.Copy(follow, zero)
	}
	if len(p.linear) > 0 {
		b.Copy(c.g0y, c.c3)
	}
	p.norms(b)
}

// split lists the branches without a limit, and the positions of p.rated.
func (p *plan) split() (unrated, rated []int) {
	position := 0
	for l := range p.nl {
		if position < len(p.rated) && p.rated[position] == l {
			position++
			continue
		}
		unrated = append(unrated, l)
	}
	return unrated, indices(len(p.rated))
}

// branchEnds are 1/V and 2V at both ends of some branches.
type branchEnds struct{ iv, jv, vf, vt lanes.Col }

// flowMultipliers weigh Pf, Qf, Pt and Qt of some branches.
type flowMultipliers struct{ alpha, beta, gamma, delta lanes.Col }

// multipliers are those of the balances at the branches' ends.
func (p *plan) multipliers(b *lanes.Builder, l []int) (x flowMultipliers) {
	x.alpha, x.gamma = b.Clone(p.lp.At(pick(p.angleFrom, l))), b.Clone(p.lp.At(pick(p.net.To, l)))
	x.beta, x.delta = p.ends(b, p.lq, l)
	return x
}

// combine returns T and U.
func (p *plan) combine(b *lanes.Builder, l []int, x flowMultipliers) (t, u lanes.Col) {
	c := &p.cells
	t = b.Mul(x.beta, c.a.At(l))
	t = b.FNMA(x.alpha, c.b.At(l), t)
	t = b.FNMA(x.gamma, c.d.At(l), t)
	t = b.FNMA(x.delta, c.c.At(l), t)
	u = b.Mul(x.alpha, c.a.At(l))
	u = b.FMA(x.beta, c.b.At(l), u)
	u = b.FMA(x.gamma, c.c.At(l), u)
	u = b.FNMA(x.delta, c.d.At(l), u)
	return t, u
}

// flowGradients writes ∇|S|² = 2P∇P + 2Q∇Q at both ends of rated branches, less
// ∇(rate²·V²) where limits are of currents.
func (p *plan) flowGradients(b *lanes.Builder, k, l []int, e branchEnds) {
	c := &p.cells
	zero, nr := p.constant(0), len(p.rated)
	end := func(first int, x flowMultipliers, gf, bf, gt, bt lanes.Col) {
		index := make([]int, len(k))
		for i := range k {
			index[i] = k[i] + first
		}
		t, u := p.combine(b, l, x)
		b.Copy(c.qth.At(index), t)
		vf, vt := b.Mul(u, e.iv), b.Mul(u, e.jv)
		if gf != nil {
			vf = p.lessLimit(b, b.FMA(e.vf, b.FNMA(x.beta, bf, b.Mul(x.alpha, gf)), vf), e.vf, k)
		} else {
			vt = p.lessLimit(b, b.FMA(e.vt, b.FNMA(x.delta, bt, b.Mul(x.gamma, gt)), vt), e.vt, k)
		}
		b.Copy(c.qvi.At(index), vf)
		b.Copy(c.qvj.At(index), vt)
	}
	pf, qf := b.Add(c.pf.At(l), c.pf.At(l)), b.Add(c.qf.At(l), c.qf.At(l))
	end(0, flowMultipliers{pf, qf, zero, zero}, c.gff.At(l), c.bff.At(l), nil, nil)
	pt, qt := b.Add(c.pt.At(l), c.pt.At(l)), b.Add(c.qt.At(l), c.qt.At(l))
	end(nr, flowMultipliers{zero, zero, pt, qt}, nil, nil, c.gtt.At(l), c.btt.At(l))
}

// lessLimit is a derivative by V of |S|² less that of rate²·V², where that is the limit; double is 2V.
func (p *plan) lessLimit(b *lanes.Builder, d, double lanes.Col, rated []int) lanes.Col {
	if !p.current {
		return d
	}
	return b.FNMA(double, p.rate2.At(rated), d)
}

// addLimits adds Jhᵀ·mult to the gradient columns.
func (p *plan) addLimits(b *lanes.Builder, mult, th, v, u, y lanes.Col) {
	c, r := &p.cells, p.rows()
	b.SetSub(v, v, part(mult, r.vLo))
	b.SetAdd(v, v, part(mult, r.vHi))
	for _, y := range p.variables {
		outer, inner := v[y.outer:y.outer+1], [2]int{y.inner, y.inner + 1}
		b.SetFMA(outer, part(c.vLo, inner), part(part(mult, r.vLo), inner), outer)
		b.SetFNMA(outer, part(c.vHi, inner), part(part(mult, r.vHi), inner), outer)
	}
	low, high := u.At(p.bounded[0]), u.At(p.bounded[1])
	b.SetSub(low, low, part(mult, r.uLo))
	b.SetAdd(high, high, part(mult, r.uHi))
	nr := len(p.rated)
	ends := p.buses(p.rated)
	for end, rows := range [][2]int{r.sf, r.st} {
		m := part(mult, rows)
		g := func(q lanes.Col) lanes.Col { return q[end*nr : (end+1)*nr] }
		if nr > 0 {
			b.SetFMA(th.At(ends.angle), m, g(c.qth), th.At(ends.angle))
			b.SetFNMA(th.At(ends.remote), m, g(c.qth), th.At(ends.remote))
			b.SetFMA(v.At(ends.voltage), m, g(c.qvi), v.At(ends.voltage))
			b.SetFMA(v.At(ends.remote), m, g(c.qvj), v.At(ends.remote))
		}
	}
	if l := p.angleLo; len(l) > 0 {
		from, to := th.At(pick(p.net.From, l)), th.At(pick(p.net.To, l))
		b.SetSub(from, from, part(mult, r.aLo))
		b.SetAdd(to, to, part(mult, r.aLo))
	}
	if l := p.angleHi; len(l) > 0 {
		from, to := th.At(pick(p.net.From, l)), th.At(pick(p.net.To, l))
		b.SetAdd(from, from, part(mult, r.aHi))
		b.SetSub(to, to, part(mult, r.aHi))
	}
	if len(p.segmentOf) > 0 {
		unit, cost := u.At(pick(p.linear, p.segmentOf)), y.At(p.segmentOf)
		b.SetFMA(unit, part(mult, r.segment), c.slope, unit)
		b.SetSub(cost, cost, part(mult, r.segment))
	}
	// One side after another: two may be of one generator.
	active, reactive := p.curveUnits()
	for k := range active {
		m := part(mult, r.curve)[k : k+1]
		for _, side := range []struct {
			unit   int
			weight lanes.Col
		}{{active[k], c.curveP[k : k+1]}, {reactive[k], c.curveQ[k : k+1]}} {
			cell := u[side.unit : side.unit+1]
			b.SetFMA(cell, m, side.weight, cell)
		}
	}
}

// norms writes the norms of the KKT conditions.
func (p *plan) norms(b *lanes.Builder) {
	c := &p.cells
	zero := p.constant(0)
	for _, d := range []lanes.Col{c.maxG, c.maxH, c.maxX, c.maxL, c.maxZ, c.maxS, c.maxGrad, c.sumGrad, c.sumG, c.sumR, c.comp} {
		b.Copy(d, zero)
	}
	{
		// The balance asked for, g − elastic·λ.
		gp, gq := b.FNMA(c.elastic, c.lp, c.gp), b.FNMA(c.elastic, c.lq, c.gq)
		b.AbsMax(c.maxG, gp)
		b.AbsMax(c.maxG, gq)
		b.AbsSum(c.sumG, gp)
		b.AbsSum(c.sumG, gq)
	}
	b.AbsMax(c.maxH, b.Max(p.excess(b), zero))
	b.AbsSum(c.sumR, c.r)
	b.AbsMax(c.maxX, c.th)
	b.AbsMax(c.maxX, c.v)
	b.AbsMax(c.maxX, c.u)
	b.AbsMax(c.maxL, c.lp)
	b.AbsMax(c.maxL, c.lq)
	b.AbsMax(c.maxZ, c.z)
	b.AbsMax(c.maxS, c.s)
	b.Dot(c.comp, c.s, c.z)
	if p.soft > 0 {
		b.Dot(c.comp, c.elasticSlack, c.elasticDual)
	}
	{
		th, v, u := b.Add(c.g0th, zero), b.Add(c.g0v, zero), b.Add(c.g0u, zero)
		var y lanes.Col
		if len(p.linear) > 0 {
			y = b.Add(c.g0y, zero)
		}
		p.addLimits(b, c.z, th, v, u, y)
		for _, ref := range p.net.References {
			b.Copy(th[ref:ref+1], zero)
		}
		for _, g := range []lanes.Col{th, v, u, y} {
			if len(g) > 0 {
				b.AbsMax(c.maxGrad, g)
				b.AbsSum(c.sumGrad, g)
			}
		}
	}
}
