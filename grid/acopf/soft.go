package acopf

import "github.com/gpc-engine/gpc/internal/simd/lanes"

// A plan with soft limits adds penalty·elasticSlack to the objective for every limit h − elasticSlack ≤ 0 with
// elasticSlack ≥ 0. Only the segments of piecewise linear costs stay hard. With the slack s and multiplier z of the
// limit, and the dual of elasticSlack ≥ 0,
//
//	h − elasticSlack + s = 0   s·z = μ   elasticSlack·elasticDual = μ   z + elasticDual = c₃·penalty
//
// The last holds from the start on, because both multipliers take the same share of opposite steps. Elimination
// leaves Newton's step
//
//	dz = W·(Jh dx + r + τ/z − s − τ'/elasticDual + elasticSlack)   W = 1/(s/z + elasticSlack/elasticDual)
//
// with r = h − elasticSlack + s and the targets τ of s·z and τ' of elasticSlack·elasticDual. The weight W replaces
// z/s. The other steps follow from dz.
type softCells struct {
	penalty                                    lanes.Col // of a unit of elasticSlack, unscaled
	elasticSlack, elasticDual                  lanes.Col
	elasticSlack0                              lanes.Col
	dElasticSlack, dElasticDual, elasticTarget lanes.Col // steps, and the target τ'
	weight                                     lanes.Col // z/s of every limit, W of the soft ones
}

// allocateSoftLimits lays out the cells of soft limits.
func (p *plan) allocateSoftLimits() {
	r := p.rows()
	p.soft = r.segment[0]
	c := &p.cells
	for _, col := range []*lanes.Col{&c.penalty, &c.elasticSlack, &c.elasticDual, &c.elasticSlack0, &c.dElasticSlack, &c.dElasticDual, &c.elasticTarget} {
		*col = p.layout.New(p.soft)
	}
	c.weight = p.layout.New(r.n)
}

// excess is h, less the elastic slack of soft limits.
func (p *plan) excess(b *lanes.Builder) lanes.Col {
	c := &p.cells
	if p.soft == 0 {
		return c.h
	}
	return append(b.Sub(c.h[:p.soft], c.elasticSlack), c.h[p.soft:]...)
}

// weights are the curvatures of the limits in the KKT matrix.
func (p *plan) weights(b *lanes.Builder) lanes.Col {
	c := &p.cells
	if p.soft == 0 {
		return b.Mul(c.z, c.is)
	}
	b.SetMul(c.weight, c.z, c.is)
	s, z := c.s[:p.soft], c.z[:p.soft]
	b.SetDiv(c.weight[:p.soft], p.constant(1), b.Add(b.Div(s, z), b.Div(c.elasticSlack, c.elasticDual)))
	return c.weight
}

// softTargets writes the targets of elasticSlack·elasticDual and Newton's multipliers of the soft limits, after
// those of all limits.
func (p *plan) softTargets(b *lanes.Builder, corrector bool) {
	c := &p.cells
	if p.soft == 0 {
		return
	}
	if corrector {
		b.SetFNMA(c.elasticTarget, b.Mul(c.second, c.dElasticSlack), c.dElasticDual, c.mu)
	} else {
		b.Copy(c.elasticTarget, p.constant(0))
	}
	z := c.z[:p.soft]
	residual := b.Add(c.h[:p.soft], b.Sub(b.Div(c.target[:p.soft], z), b.Div(c.elasticTarget, c.elasticDual)))
	b.SetFMA(c.w[:p.soft], c.weight[:p.soft], residual, z)
}

// softSteps writes the steps of the soft limits from −Jh dx − r in ds, and updates ds.
func (p *plan) softSteps(b *lanes.Builder) {
	c := &p.cells
	if p.soft == 0 {
		return
	}
	s, z, ds := c.s[:p.soft], c.z[:p.soft], c.ds[:p.soft]
	elastic := b.Div(c.elasticTarget, c.elasticDual)
	residual := b.Sub(b.Sub(b.Div(c.target[:p.soft], z), s), b.Sub(elastic, c.elasticSlack))
	dz := c.dz[:p.soft]
	b.SetMul(dz, c.weight[:p.soft], b.Sub(residual, ds))
	b.SetSub(c.dElasticDual, p.constant(0), dz)
	b.SetFMA(c.dElasticSlack, b.Div(c.elasticSlack, c.elasticDual), dz, b.Sub(elastic, c.elasticSlack))
	b.SetAdd(ds, ds, c.dElasticSlack)
}

// softProducts adds the soft limits to the longest step and to the predicted complementarity. Voltages without hard
// limits must not fall by more than a quarter in a step.
func (p *plan) softProducts(b *lanes.Builder) {
	c := &p.cells
	if p.soft == 0 {
		return
	}
	b.MaxNegProduct(c.limitP, c.dElasticSlack, b.Div(p.constant(1), c.elasticSlack))
	b.MaxNegProduct(c.limitP, p.solCell(c.sol, rowMagnitude), b.Mul(p.constant(4), c.iv))
	b.MaxNegProduct(c.limitD, c.dElasticDual, b.Div(p.constant(1), c.elasticDual))
	b.Dot(c.dsz, c.dElasticSlack, c.elasticDual)
	b.Dot(c.sdz, c.elasticSlack, c.dElasticDual)
	b.Dot(c.dsdz, c.dElasticSlack, c.dElasticDual)
}

// initialiseSoftLimits sets elastic slacks and duals of a lane, after the slacks and multipliers of all limits. A
// start with multipliers is centred near them.
func (w *worker) initialiseSoftLimits(l int) {
	p, m, ln := w.plan, w.m, &w.lane[l]
	for i := range p.soft {
		if ln.warmMultipliers {
			h, price := m.Get(p.h[i], l), ln.scale*ln.coef[2]*m.Get(p.penalty[i], l)
			barrier := nextBarrier * min(1, price)
			z := max(ln.job.problem.Start.Multipliers[i]*ln.scale, barrier/(max(-h, 0)+warmSlack))
			hold := max(price-z, barrier/(max(h, 0)+warmSlack))
			z = price - hold
			m.Set(p.s[i], l, barrier/z)
			m.Set(p.z[i], l, z)
			m.Set(p.elasticSlack[i], l, barrier/hold)
			m.Set(p.elasticDual[i], l, hold)
			continue
		}
		h, s := m.Get(p.h[i], l), startSlack
		give := startSlack
		if h < 0 {
			s -= h
		} else {
			give += h
		}
		price := ln.scale * ln.coef[2] * m.Get(p.penalty[i], l)
		z := min(startBarrier/s, price/2)
		m.Set(p.s[i], l, s)
		m.Set(p.z[i], l, z)
		m.Set(p.elasticSlack[i], l, give)
		m.Set(p.elasticDual[i], l, price-z)
	}
}
