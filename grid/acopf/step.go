package acopf

import "github.com/gpc-engine/gpc/internal/simd/lanes"

// newton writes the program of one Newton direction up to the right-hand side.
//
// With ds = −(h + s) − Jh dx and dz = (target − z ds)/s − z the limits leave
// their multipliers' place to w = (target + z (h + s))/s. The affine step has
// target 0; the corrector has μ − second·ds·dz with the affine step's ds, dz, or the
// target that was there.
func (p *plan) newton(b *lanes.Builder, corrector bool) {
	c := &p.cells
	zero := p.constant(0)
	if corrector {
		b.Copy(c.target, b.Select(c.renew, b.FNMA(b.Mul(c.second, c.ds), c.dz, c.mu), c.target))
	} else {
		b.Copy(c.target, zero)
	}
	b.SetMul(c.w, b.FMA(c.z, c.r, c.target), c.is)
	p.softTargets(b, corrector)
}

// gather writes the right-hand side from the multipliers w of the limits, and as the residual of no direction.
func (p *plan) gather(b *lanes.Builder) {
	c := &p.cells
	zero := p.constant(0)
	th, v, u := b.Add(c.g0th, zero), b.Add(c.g0v, zero), b.Add(c.g0u, zero)
	var y lanes.Col
	if len(p.linear) > 0 {
		y = b.Add(c.g0y, zero)
	}
	p.addLimits(b, c.w, th, v, u, y)
	b.SetSub(c.nu, zero, u)
	if len(p.linear) > 0 {
		b.SetSub(c.ny, zero, y)
		unit := c.nu.At(p.linear)
		b.SetFNMA(unit, b.Mul(c.kpy, c.iyy), c.ny, unit)
	}
	b.SetSub(p.solCell(c.rhs, rowAngle), zero, th)
	b.SetSub(p.solCell(c.rhs, rowMagnitude), zero, v)
	active, reactive := p.solCell(c.rhs, rowActive), p.solCell(c.rhs, rowReactive)
	b.SetFMA(active, c.elastic, c.lp, b.Sub(zero, c.gp))
	b.SetFMA(reactive, c.elastic, c.lq, b.Sub(zero, c.gq))
	for i := range p.unitBus {
		if p.follows[i] {
			continue
		}
		cell := p.cell(i, active, reactive)
		b.SetFMA(cell, c.nu[i:i+1], c.iu[i:i+1], cell)
	}
	for i, g := range p.curved {
		for _, unit := range [2]int{g, p.ng + g} {
			cell, other := p.cell(unit, active, reactive), 2*g+p.ng-unit
			b.SetFMA(cell, c.nu[other:other+1], c.cross[i:i+1], cell)
		}
	}
	for _, t := range p.ties {
		cell := p.cell(t.follow, active, reactive)
		b.SetFMA(cell, b.Mul(p.constant(t.ratio), c.nu[t.lead:t.lead+1]), c.iu[t.lead:t.lead+1], cell)
	}
	for _, ref := range p.net.References {
		b.Copy(p.solCell(c.rhs, rowAngle)[ref:ref+1], zero)
	}
	b.Copy(c.res, c.rhs)
}

// expand writes the step of all eliminated variables.
func (p *plan) expand(b *lanes.Builder) {
	c, r := &p.cells, p.rows()
	zero := p.constant(0)
	dth, dv := p.solCell(c.sol, rowAngle), p.solCell(c.sol, rowMagnitude)
	active, reactive := p.solCell(c.sol, rowActive), p.solCell(c.sol, rowReactive)
	for i := range p.unitBus {
		b.SetAdd(c.du[i:i+1], c.nu[i:i+1], p.cell(i, active, reactive))
	}
	for _, t := range p.ties {
		lead := c.du[t.lead : t.lead+1]
		b.SetFMA(lead, p.constant(t.ratio), p.cell(t.follow, active, reactive), lead)
	}
	crossed := make([]lanes.Col, 2*len(p.curved))
	for i, g := range p.curved {
		crossed[2*i] = b.Mul(c.cross[i:i+1], c.du[p.ng+g:p.ng+g+1])
		crossed[2*i+1] = b.Mul(c.cross[i:i+1], c.du[g:g+1])
	}
	b.SetMul(c.du, c.du, c.iu)
	for i, g := range p.curved {
		for k, unit := range [2]int{g, p.ng + g} {
			b.SetAdd(c.du[unit:unit+1], c.du[unit:unit+1], crossed[2*i+k])
		}
	}
	for _, t := range p.ties {
		b.SetMul(c.du[t.follow:t.follow+1], p.constant(t.ratio), c.du[t.lead:t.lead+1])
	}
	if len(p.linear) > 0 {
		b.SetMul(c.dy, b.FNMA(c.kpy, c.du.At(p.linear), c.ny), c.iyy)
	}
	b.SetSub(part(c.ds, r.vLo), dv, part(c.r, r.vLo))
	b.SetSub(part(c.ds, r.vHi), b.Sub(zero, dv), part(c.r, r.vHi))
	for _, y := range p.variables {
		outer, inner := dv[y.outer:y.outer+1], [2]int{y.inner, y.inner + 1}
		low, high := part(part(c.ds, r.vLo), inner), part(part(c.ds, r.vHi), inner)
		b.SetFNMA(low, part(c.vLo, inner), outer, low)
		b.SetFMA(high, part(c.vHi, inner), outer, high)
	}
	b.SetSub(part(c.ds, r.uLo), c.du.At(p.bounded[0]), part(c.r, r.uLo))
	{
		b.SetSub(part(c.ds, r.uHi), b.Sub(zero, c.du.At(p.bounded[1])), part(c.r, r.uHi))
	}
	nr := len(p.rated)
	groups(indices(nr), func(k []int) {
		l := pick(p.rated, k)
		difference := b.Sub(dth.At(pick(p.angleFrom, l)), dth.At(pick(p.net.To, l)))
		from, to := p.ends(b, dv, l)
		for end, interval := range [][2]int{r.sf, r.st} {
			q := func(col lanes.Col) lanes.Col { return col[end*nr : (end+1)*nr].At(k) }
			t := b.Mul(q(c.qth), difference)
			t = b.FMA(q(c.qvi), from, t)
			t = b.FMA(q(c.qvj), to, t)
			t = b.Add(t, part(c.r, interval).At(k))
			b.SetSub(part(c.ds, interval).At(k), zero, t)
		}
	})
	{
		low, high := p.differences(b, dth)
		b.SetSub(part(c.ds, r.aLo), low, part(c.r, r.aLo))
		if len(high) > 0 {
			b.SetSub(part(c.ds, r.aHi), b.Sub(zero, high), part(c.r, r.aHi))
		}
		if len(p.segmentOf) > 0 {
			t := b.FNMA(c.slope, c.du.At(pick(p.linear, p.segmentOf)), c.dy.At(p.segmentOf))
			b.SetSub(part(c.ds, r.segment), t, part(c.r, r.segment))
		}
		if active, reactive := p.curveUnits(); len(active) > 0 {
			t := b.FMA(c.curveP, c.du.At(active), b.Mul(c.curveQ, c.du.At(reactive)))
			b.SetSub(part(c.ds, r.curve), b.Sub(zero, t), part(c.r, r.curve))
		}
	}
	{
		t := b.Mul(b.FNMA(c.z, c.ds, c.target), c.is)
		b.SetSub(c.dz, t, c.z)
	}
	p.softSteps(b)
}

// reach writes the longest step and the products that predict complementarity along it.
func (p *plan) reach(b *lanes.Builder) {
	c := &p.cells
	zero := p.constant(0)
	for _, d := range []lanes.Col{c.limitP, c.limitD, c.dsz, c.sdz, c.dsdz} {
		b.Copy(d, zero)
	}
	b.MaxNegProduct(c.limitP, c.ds, c.is)
	b.MaxNegProduct(c.limitD, c.dz, b.Div(p.constant(1), c.z))
	b.Dot(c.dsz, c.ds, c.z)
	b.Dot(c.sdz, c.s, c.dz)
	b.Dot(c.dsdz, c.ds, c.dz)
	p.softProducts(b)
}

// primal lists the primal columns: iterate, start of the step, step.
func (p *plan) primal() [][3]lanes.Col {
	c := &p.cells
	list := [][3]lanes.Col{
		{c.th, c.th0, p.solCell(c.sol, rowAngle)},
		{c.v, c.v0, p.solCell(c.sol, rowMagnitude)},
		{c.u, c.u0, c.du},
		{c.s, c.s0, c.ds},
	}
	if len(p.linear) > 0 {
		list = append(list, [3]lanes.Col{c.y, c.y0, c.dy})
	}
	if p.soft > 0 {
		list = append(list, [3]lanes.Col{c.elasticSlack, c.elasticSlack0, c.dElasticSlack})
	}
	return list
}

// save writes the program that keeps the primal iterate.
func (p *plan) save(b *lanes.Builder) {
	for _, x := range p.primal() {
		b.Copy(x[1], x[0])
	}
}

// movePrimal writes x = x₀ + α_P·dx, and the same for s.
func (p *plan) movePrimal(b *lanes.Builder) {
	for _, x := range p.primal() {
		b.SetFMA(x[0], p.alphaP, x[2], x[1])
	}
}

// moveDual writes λ += α_D·dλ, and the same for z.
func (p *plan) moveDual(b *lanes.Builder) {
	c := &p.cells
	b.SetFMA(c.lp, c.alphaD, p.solCell(c.sol, rowActive), c.lp)
	b.SetFMA(c.lq, c.alphaD, p.solCell(c.sol, rowReactive), c.lq)
	b.SetFMA(c.z, c.alphaD, c.dz, c.z)
	if p.soft > 0 {
		b.SetFMA(c.elasticDual, c.alphaD, c.dElasticDual, c.elasticDual)
	}
}

// build writes all programs.
func (p *plan) build() {
	b := lanes.NewBuilder(&p.layout)
	write := func(index int, f func(b *lanes.Builder)) {
		f(b)
		p.programs[index] = b.Program()
	}
	write(programEvaluate, p.evaluate)
	write(programGradient, p.gradient)
	write(programAssemble, p.assemble)
	write(programFactor, p.factor)
	write(programPredictor, func(b *lanes.Builder) { p.newton(b, false) })
	write(programCorrector, func(b *lanes.Builder) { p.newton(b, true) })
	write(programGather, p.gather)
	write(programSolve, p.solve)
	write(programResidual, p.residual)
	write(programCorrect, p.correct)
	write(programExpand, p.expand)
	write(programReach, p.reach)
	write(programSave, p.save)
	write(programMovePrimal, p.movePrimal)
	write(programMoveDual, p.moveDual)
}
