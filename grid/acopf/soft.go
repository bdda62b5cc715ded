package acopf

import "github.com/gpc-engine/gpc/internal/simd/lanes"

// A plan with soft limits minimises, besides its objective, price·give for every limit
// h − give ≤ 0 with give ≥ 0; only the segments of piecewise linear costs stay hard.
// With the slack s of the limit, its multiplier z and the multiplier hold of give ≥ 0,
//
//	h − give + s = 0   s·z = μ   give·hold = μ   z + hold = c₃·price
//
// of which the last holds from the start on, because both multipliers are moved by the
// same share of opposite steps. Newton's step is eliminated to
//
//	dz = W·(Jh dx + r + τ/z − s − τ'/hold + give)   W = 1/(s/z + give/hold)
//
// with r = h − give + s and the targets τ of s·z and τ' of give·hold: the weight W takes
// the place of z/s, and what else there is follows from dz.
type softCells struct {
	price             lanes.Col // of a unit of give, unscaled
	give, hold        lanes.Col
	give0             lanes.Col
	dgive, dhold, aim lanes.Col // steps, and the target τ'
	weight            lanes.Col // z/s of every limit, W of the soft ones
}

// soften lays out the cells of soft limits.
func (p *plan) soften() {
	r := p.rows()
	p.soft = r.segment[0]
	c := &p.cells
	for _, col := range []*lanes.Col{&c.price, &c.give, &c.hold, &c.give0, &c.dgive, &c.dhold, &c.aim} {
		*col = p.layout.New(p.soft)
	}
	c.weight = p.layout.New(r.n)
}

// beyond is what the limits are exceeded by, less what the soft ones give.
func (p *plan) beyond(b *lanes.Builder) lanes.Col {
	c := &p.cells
	if p.soft == 0 {
		return c.h
	}
	return append(b.Sub(c.h[:p.soft], c.give), c.h[p.soft:]...)
}

// weights are the curvatures that the limits leave in the KKT matrix.
func (p *plan) weights(b *lanes.Builder) lanes.Col {
	c := &p.cells
	if p.soft == 0 {
		return b.Mul(c.z, c.is)
	}
	b.SetMul(c.weight, c.z, c.is)
	s, z := c.s[:p.soft], c.z[:p.soft]
	b.SetDiv(c.weight[:p.soft], p.constant(1), b.Add(b.Div(s, z), b.Div(c.give, c.hold)))
	return c.weight
}

// softTargets writes the targets of give·hold and Newton's multipliers of the soft
// limits, after those of all limits.
func (p *plan) softTargets(b *lanes.Builder, corrector bool) {
	c := &p.cells
	if p.soft == 0 {
		return
	}
	if corrector {
		b.SetFNMA(c.aim, b.Mul(c.second, c.dgive), c.dhold, c.mu)
	} else {
		b.Copy(c.aim, p.constant(0))
	}
	z := c.z[:p.soft]
	toward := b.Add(c.h[:p.soft], b.Sub(b.Div(c.target[:p.soft], z), b.Div(c.aim, c.hold)))
	b.SetFMA(c.w[:p.soft], c.weight[:p.soft], toward, z)
}

// softSteps writes the steps of the soft limits, where those of all limits have left
// −Jh dx − r in ds, and takes them into the products along the step.
func (p *plan) softSteps(b *lanes.Builder) {
	c := &p.cells
	if p.soft == 0 {
		return
	}
	s, z, ds := c.s[:p.soft], c.z[:p.soft], c.ds[:p.soft]
	aim := b.Div(c.aim, c.hold)
	toward := b.Sub(b.Sub(b.Div(c.target[:p.soft], z), s), b.Sub(aim, c.give))
	dz := c.dz[:p.soft]
	b.SetMul(dz, c.weight[:p.soft], b.Sub(toward, ds))
	b.SetSub(c.dhold, p.constant(0), dz)
	b.SetFMA(c.dgive, b.Div(c.give, c.hold), dz, b.Sub(aim, c.give))
	b.SetAdd(ds, ds, c.dgive)
}

// softProducts takes the soft limits into how far a step may go and into the products
// that predict complementarity along it. Without hard limits on a voltage it must not
// fall by more than a quarter in a step.
func (p *plan) softProducts(b *lanes.Builder) {
	c := &p.cells
	if p.soft == 0 {
		return
	}
	b.MaxNegProduct(c.limitP, c.dgive, b.Div(p.constant(1), c.give))
	b.MaxNegProduct(c.limitP, p.solCell(c.sol, rowMagnitude), b.Mul(p.constant(4), c.iv))
	b.MaxNegProduct(c.limitD, c.dhold, b.Div(p.constant(1), c.hold))
	b.Dot(c.dsz, c.dgive, c.hold)
	b.Dot(c.sdz, c.give, c.dhold)
	b.Dot(c.dsdz, c.dgive, c.dhold)
}

// beginSoft gives a lane's soft limits what they give and their multipliers, after
// slacks and multipliers of all limits. From a start with multipliers they are near these, and
// centred.
func (w *worker) beginSoft(l int) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	for i := range p.soft {
		if ln.warm {
			h, price := m.Get(p.h[i], l), ln.scale*ln.coef[2]*m.Get(p.price[i], l)
			barrier := nextBarrier * min(1, price)
			z := max(ln.job.problem.Start.Multipliers[i]*ln.scale, barrier/(max(-h, 0)+warmSlack))
			hold := max(price-z, barrier/(max(h, 0)+warmSlack))
			z = price - hold
			m.Set(p.s[i], l, barrier/z)
			m.Set(p.z[i], l, z)
			m.Set(p.give[i], l, barrier/hold)
			m.Set(p.hold[i], l, hold)
			continue
		}
		h, s := m.Get(p.h[i], l), startSlack
		give := startSlack
		if h < 0 {
			s -= h
		} else {
			give += h
		}
		price := ln.scale * ln.coef[2] * m.Get(p.price[i], l)
		z := min(startBarrier/s, price/2)
		m.Set(p.s[i], l, s)
		m.Set(p.z[i], l, z)
		m.Set(p.give[i], l, give)
		m.Set(p.hold[i], l, price-z)
	}
}
