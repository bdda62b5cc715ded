package acopf

import (
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

const (
	// Rows and columns of a bus's block in the KKT matrix. Angle and active balance are adjacent, as are magnitude
	// and reactive balance. The off-diagonal entries of the 2×2 pivots on these pairs are diagonal entries of the
	// power flow Jacobian. They keep the pivots regular without curvature.
	rowAngle = iota
	rowActive
	rowMagnitude
	rowReactive
)

// blocks finds the cells of the KKT matrix.
type blocks struct{ p *plan }

// pair is the index of two places in pairs and offDiag.
func (p *plan) pair(later, earlier int) (index int, ok bool) {
	first := p.pairsAt[earlier]
	for i, pair := range p.pairs[first:p.pairsAt[earlier+1]] {
		if pair[0] == later {
			return first + i, true
		}
	}
	return 0, false
}

// diagonal is a cell of each bus's own block; row ≥ col.
func (k *blocks) diagonal(bus []int, row, col int) lanes.Col {
	out := make(lanes.Col, len(bus))
	for i, b := range bus {
		out[i] = k.p.diag[k.p.order.Position[b]] + lanes.Ref(4*row+col)
	}
	return out
}

// entry is the cell of (row of bus i, col of bus j) for each pair of buses.
func (k *blocks) entry(i, j []int, row, col int) lanes.Col {
	out := make(lanes.Col, len(i))
	for n := range i {
		a, b := k.p.order.Position[i[n]], k.p.order.Position[j[n]]
		if a == b {
			out[n] = k.p.diag[a] + lanes.Ref(4*max(row, col)+min(row, col))
			continue
		}
		index, _ := k.p.pair(max(a, b), min(a, b))
		if a > b {
			out[n] = k.p.offDiag[index] + lanes.Ref(4*row+col)
		} else {
			out[n] = k.p.offDiag[index] + lanes.Ref(4*col+row)
		}
	}
	return out
}

// solCell is a cell of a bus's four in sol, rhs or res.
func (p *plan) solCell(c lanes.Col, row int) lanes.Col {
	out := make(lanes.Col, p.nb)
	for bus := range out {
		out[bus] = c[4*p.order.Position[bus]+row]
	}
	return out
}

// assemble writes the program of the KKT matrix
//
//	[ H + Jhᵀ(z/s)Jh + shift·I   Jgᵀ          ]
//	[ Jg                         −(rho+elastic)·I ]
//
// with the units eliminated: a unit with pivot d puts −1/d on the diagonal of its
// balance; the shift of the units is their own. H is the exact Hessian of the Lagrangian.
func (p *plan) assemble(b *lanes.Builder) {
	c, r := &p.cells, p.rows()
	zero, one, two := p.constant(0), p.constant(1), p.constant(2)
	k := &blocks{p}
	buses := indices(p.nb)
	b.SetDiv(c.is, one, c.s)
	{
		sigma := p.weights(b)
		if branches := b.Mul(sigma[r.sf[0]:r.aHi[1]], c.condensed); len(c.condensed) > 0 {
			sigma = slices.Concat(sigma[:r.sf[0]], branches, sigma[r.aHi[1]:])
		}

		b.Copy(k.diagonal(buses, rowAngle, rowAngle), c.shift)
		for _, entry := range [][2]int{{rowActive, rowAngle}, {rowMagnitude, rowAngle}, {rowReactive, rowAngle}, {rowReactive, rowActive}} {
			b.Copy(k.diagonal(buses, entry[0], entry[1]), zero)
		}
		{
			shunt := b.FNMA(c.lq, c.bs, b.Mul(c.lp, c.gs))
			curvature := b.FMA(two, shunt, b.Add(part(sigma, r.vLo), part(sigma, r.vHi)))
			active := b.Select(b.Sub(zero, p.overVoltage(b)), two, zero)
			b.SetAdd(k.diagonal(buses, rowMagnitude, rowMagnitude), b.FMA(c.c2, active, curvature), c.shift)
			b.SetMul(k.diagonal(buses, rowMagnitude, rowActive), b.Add(c.v, c.v), c.gs)
			b.SetMul(k.diagonal(buses, rowReactive, rowMagnitude), b.Mul(p.constant(-2), c.v), c.bs)
			dual := b.Sub(zero, b.Add(c.rho, c.elastic))
			b.Copy(k.diagonal(buses, rowActive, rowActive), dual)
			b.Copy(k.diagonal(buses, rowReactive, rowReactive), dual)
		}
		if len(c.offDiag) > 0 {
			var cells lanes.Col
			for _, first := range c.offDiag {
				for i := range lanes.Ref(lanes.BlockCells) {
					cells = append(cells, first+i)
				}
			}
			b.Copy(cells, zero)
		}
		b.Copy(c.negative, zero)
		p.assembleUnits(b, sigma)
		row := func(unit int) int {
			if p.active(unit) {
				return rowActive
			}
			return rowReactive
		}
		for i, bus := range p.unitBus {
			if p.follows[i] {
				continue
			}
			d := k.diagonal([]int{bus}, row(i), row(i))
			b.SetSub(d, d, c.iu[i:i+1])
		}
		for i, g := range p.curved {
			d := k.diagonal(p.net.GenBus[g:g+1], rowReactive, rowActive)
			b.SetSub(d, d, c.cross[i:i+1])
		}
		for _, t := range p.ties {
			lead, follow := p.unitBus[t.lead:t.lead+1], p.unitBus[t.follow:t.follow+1]
			coupling := b.Mul(p.constant(t.ratio), c.iu[t.lead:t.lead+1])
			d := k.entry(follow, lead, row(t.follow), row(t.lead))
			b.SetSub(d, d, coupling)
			d = k.diagonal(follow, row(t.follow), row(t.follow))
			b.SetFNMA(d, p.constant(t.ratio), coupling, d)
		}
		unrated, rated := p.split()
		groups(unrated, func(l []int) { p.assembleBranches(b, k, nil, l, sigma) })
		groups(rated, func(n []int) { p.assembleBranches(b, k, n, pick(p.rated, n), sigma) })
		angle := func(l []int, sigma lanes.Col) {
			for i, branch := range l {
				from, to := []int{p.net.From[branch]}, []int{p.net.To[branch]}
				s := sigma[i : i+1]
				for _, d := range []lanes.Col{k.diagonal(from, rowAngle, rowAngle), k.diagonal(to, rowAngle, rowAngle)} {
					b.SetAdd(d, d, s)
				}
				d := k.entry(from, to, rowAngle, rowAngle)
				b.SetSub(d, d, s)
			}
		}
		angle(p.angleLo, part(sigma, r.aLo))
		angle(p.angleHi, part(sigma, r.aHi))
		p.assembleRanges(b, k, part(sigma, r.vLo), part(sigma, r.vHi))
	}
	// The reference angles are given: their rows and columns become the identity's.
	for _, ref := range p.net.References {
		place := p.order.Position[ref]
		d := c.diag[place]
		b.Copy(lanes.Col{d}, one)
		b.Copy(lanes.Col{d + 4*rowActive, d + 4*rowMagnitude, d + 4*rowReactive}, zero)
		for i, pair := range p.pairs {
			switch place {
			case pair[0]:
				b.Copy(lanes.Col{c.offDiag[i], c.offDiag[i] + 1, c.offDiag[i] + 2, c.offDiag[i] + 3}, zero)
			case pair[1]:
				b.Copy(lanes.Col{c.offDiag[i], c.offDiag[i] + 4, c.offDiag[i] + 8, c.offDiag[i] + 12}, zero)
			}
		}
	}
}

// assembleUnits writes the pivots of the units, with those of piecewise linear
// cost variables eliminated before them.
func (p *plan) assembleUnits(b *lanes.Builder, sigma lanes.Col) {
	c, r := &p.cells, p.rows()
	zero := p.constant(0)
	b.Copy(c.du2, c.unitShift)
	poly := c.du2.At(p.polynomialUnits())
	if len(poly) > 0 {
		b.SetAdd(poly, poly, c.cost2.At(p.polynomialUnits()))
	}
	for _, t := range p.ties {
		lead, follow := c.du2[t.lead:t.lead+1], c.du2[t.follow:t.follow+1]
		b.SetFMA(lead, p.constant(t.ratio*t.ratio), follow, lead)
		b.Copy(follow, p.constant(1))
	}
	low, high := c.du2.At(p.bounded[0]), c.du2.At(p.bounded[1])
	b.SetAdd(low, low, part(sigma, r.uLo))
	b.SetAdd(high, high, part(sigma, r.uHi))
	if len(p.linear) > 0 {
		b.Copy(c.kyy, c.unitShift)
		b.Copy(c.kpy, zero)
		s := part(sigma, r.segment)
		yy, py, unit := c.kyy.At(p.segmentOf), c.kpy.At(p.segmentOf), c.du2.At(pick(p.linear, p.segmentOf))
		b.SetAdd(yy, yy, s)
		{
			weighted := b.Mul(s, c.slope)
			b.SetSub(py, py, weighted)
			b.SetFMA(unit, weighted, c.slope, unit)
		}
		b.SetDiv(c.iyy, p.constant(1), c.kyy)
		{
			unit := c.du2.At(p.linear)
			b.SetFNMA(unit, b.Mul(c.kpy, c.kpy), c.iyy, unit)
		}
	}
	p.assembleCurves(b, part(sigma, r.curve))
	b.SetDiv(c.iu, p.constant(1), c.du2)
	for i, g := range p.curved {
		// The inverse of [p c; c q] with p' = 1/p and q' = 1/(q − c²/p) has p' + (c/p)²·q', −c/p·q' and q'.
		active, reactive := c.iu[g:g+1], c.iu[p.ng+g:p.ng+g+1]
		b.SetMul(c.cross[i:i+1], c.crossRatio[i:i+1], reactive)
		b.SetFMA(active, c.cross[i:i+1], c.crossRatio[i:i+1], active)
	}
	b.Dot(c.negative, b.Select(c.du2, p.constant(1), zero), p.constant(1))
}

// assembleCurves adds the sides of capability curves to the pivots of P and Q. The second pivot is that after the
// elimination of the first.
func (p *plan) assembleCurves(b *lanes.Builder, sigma lanes.Col) {
	c := &p.cells
	if len(p.curved) == 0 {
		return
	}
	b.Copy(c.cross, p.constant(0))
	position := 0
	for k, curve := range p.net.Curves {
		if p.curved[position] != curve.Gen {
			position++
		}
		active, reactive, cross := c.du2[curve.Gen:curve.Gen+1], c.du2[p.ng+curve.Gen:p.ng+curve.Gen+1], c.cross[position:position+1]
		byP, byQ := b.Mul(sigma[k:k+1], c.curveP[k:k+1]), b.Mul(sigma[k:k+1], c.curveQ[k:k+1])
		b.SetFMA(active, byP, c.curveP[k:k+1], active)
		b.SetFMA(cross, byP, c.curveQ[k:k+1], cross)
		b.SetFMA(reactive, byQ, c.curveQ[k:k+1], reactive)
	}
	for i, g := range p.curved {
		ratio, reactive := c.crossRatio[i:i+1], c.du2[p.ng+g:p.ng+g+1]
		b.SetDiv(ratio, b.Sub(p.constant(0), c.cross[i:i+1]), c.du2[g:g+1])
		b.SetFMA(reactive, ratio, c.cross[i:i+1], reactive)
	}
}

// row are the derivatives of a value of each branch by (θ, V_f, V_t).
type row [3]lanes.Col

// assembleBranches adds the branches l to the matrix. rated are their positions
// in p.rated, nil for branches without a limit.
func (p *plan) assembleBranches(b *lanes.Builder, k *blocks, rated, l []int, sigma lanes.Col) {
	c, r := &p.cells, p.rows()
	zero := p.constant(0)
	ends := p.buses(l)
	iv, jv := p.ends(b, c.iv, l)
	vf2, vt2 := p.ends(b, c.v, l)
	vf2, vt2 = b.Add(vf2, vf2), b.Add(vt2, vt2)
	A, B := c.a.At(l), c.b.At(l)
	C, D := c.c.At(l), c.d.At(l)
	x := p.multipliers(b, l)
	neg := func(x lanes.Col) lanes.Col { return b.Sub(zero, x) }

	// Jacobian of (Pf, Qf, Pt, Qt).
	jpf := row{neg(B), b.FMA(A, iv, b.Mul(vf2, c.gff.At(l))), b.Mul(A, jv)}
	jqf := row{A, b.FNMA(vf2, c.bff.At(l), b.Mul(B, iv)), b.Mul(B, jv)}
	dv := b.Mul(D, jv)
	jpt := row{neg(D), b.Mul(C, iv), b.FMA(C, jv, b.Mul(vt2, c.gtt.At(l)))}
	jqt := row{neg(C), neg(b.Mul(D, iv)), neg(b.FMA(vt2, c.btt.At(l), dv))}

	var a1f, a2f, a1t, a2t lanes.Col
	if rated != nil {
		a1f = b.Add(part(c.z, r.sf).At(rated), c.t1f.At(rated))
		a1f = b.Add(a1f, a1f)
		a2f = b.Add(part(sigma, r.sf).At(rated), c.t2f.At(rated))
		zt := part(c.z, r.st).At(rated)
		a1t = b.Add(zt, zt)
		a2t = part(sigma, r.st).At(rated)
		x.alpha = b.FMA(a1f, c.pf.At(l), x.alpha)
		x.beta = b.FMA(a1f, c.qf.At(l), x.beta)
		x.gamma = b.FMA(a1t, c.pt.At(l), x.gamma)
		x.delta = b.FMA(a1t, c.qt.At(l), x.delta)
	}
	t, u := p.combine(b, l, x)
	// Hessian by (θ, V_f, V_t), lower part.
	two := p.constant(2)
	h := [6]lanes.Col{
		neg(u),
		b.Mul(t, iv), b.Mul(two, b.FNMA(x.beta, c.bff.At(l), b.Mul(x.alpha, c.gff.At(l)))),
		b.Mul(t, jv), b.Mul(b.Mul(u, iv), jv), b.Mul(two, b.FNMA(x.delta, c.btt.At(l), b.Mul(x.gamma, c.gtt.At(l)))),
	}
	if rated != nil {
		if p.current {
			h[2] = b.FNMA(a1f, c.rate2.At(rated), h[2])
			h[5] = b.FNMA(a1t, c.rate2.At(rated), h[5])
		}
		nr := len(p.rated)
		gradient := func(end int) row {
			index := make([]int, len(rated))
			for i := range rated {
				index[i] = rated[i] + end*nr
			}
			return row{c.qth.At(index), c.qvi.At(index), c.qvj.At(index)}
		}
		add := func(weight lanes.Col, g row) {
			n := 0
			for i := range 3 {
				scaled := b.Mul(weight, g[i])
				for j := range i + 1 {
					h[n] = b.FMA(scaled, g[j], h[n])
					n++
				}
			}
		}
		add(a1f, jpf)
		add(a1f, jqf)
		add(a2f, gradient(0))
		add(a1t, jpt)
		add(a1t, jqt)
		add(a2t, gradient(1))
	}

	sums(len(l), func(lo, hi int) {
		cut := func(r row) row { return row{r[0][lo:hi], r[1][lo:hi], r[2][lo:hi]} }
		var slice [6]lanes.Col
		for i := range h {
			slice[i] = h[i][lo:hi]
		}
		p.addBranches(b, k, ends.part(lo, hi), slice, [4]row{cut(jpf), cut(jqf), cut(jpt), cut(jqt)})
	})
}

// addBranches adds the Hessians h and the Jacobians j of (Pf, Qf, Pt, Qt) of branches to the matrix.
func (p *plan) addBranches(b *lanes.Builder, k *blocks, ends branchBuses, h [6]lanes.Col, j [4]row) {
	plus := func(cell, x lanes.Col) { b.SetAdd(cell, cell, x) }
	minus := func(cell, x lanes.Col) { b.SetSub(cell, cell, x) }
	const θ, v, λp, λq = rowAngle, rowMagnitude, rowActive, rowReactive
	angle, voltage, remote := ends.angle, ends.voltage, ends.remote
	plus(k.entry(angle, angle, θ, θ), h[0])
	plus(k.entry(remote, remote, θ, θ), h[0])
	minus(k.entry(angle, remote, θ, θ), h[0])
	plus(k.entry(voltage, angle, v, θ), h[1])
	minus(k.entry(voltage, remote, v, θ), h[1])
	plus(k.entry(voltage, voltage, v, v), h[2])
	plus(k.entry(angle, remote, θ, v), h[3])
	minus(k.entry(remote, remote, v, θ), h[3])
	plus(k.entry(voltage, remote, v, v), h[4])
	plus(k.entry(remote, remote, v, v), h[5])
	for i, balance := range []struct {
		bus []int
		row int
	}{{angle, λp}, {voltage, λq}, {remote, λp}, {remote, λq}} {
		plus(k.entry(balance.bus, angle, balance.row, θ), j[i][0])
		minus(k.entry(balance.bus, remote, balance.row, θ), j[i][0])
		plus(k.entry(balance.bus, voltage, balance.row, v), j[i][1])
		plus(k.entry(balance.bus, remote, balance.row, v), j[i][2])
	}
}

// factor writes the program of the block LDLᵀ.
func (p *plan) factor(b *lanes.Builder) {
	c := &p.cells
	cells := func(blocks lanes.Col) lanes.Col {
		out := make(lanes.Col, 0, lanes.BlockCells*len(blocks))
		for _, first := range blocks {
			for i := range lanes.Ref(lanes.BlockCells) {
				out = append(out, first+i)
			}
		}
		return out
	}
	b.Copy(cells(c.fd), cells(c.diag))
	for k, below := range p.order.Below {
		for n, j := range below {
			source := p.constant(0)
			if i, ok := p.pair(j, k); ok {
				source = cells(c.offDiag[i : i+1])
			}
			b.Copy(cells(p.column(c.fw, k)[n:n+1]), source)
		}
	}
	var target, rows, columns lanes.Col
	for k, below := range p.order.Below {
		b.Pivot(c.fd[k], c.fp[k], c.negative[0])
		w, l := p.column(c.fw, k), p.column(c.fl, k)
		if len(below) == 0 {
			continue
		}
		b.Scale(l, w, c.fp[k:k+1])
		var targets lanes.Col
		for _, j := range below {
			targets = append(targets, c.fd[j])
		}
		b.Symmetric(targets, w, l)
		target, rows, columns = target[:0], rows[:0], columns[:0]
		for x, j := range below {
			for y := range x {
				row, _ := slices.BinarySearch(p.order.Below[below[y]], j)
				target = append(target, p.column(c.fw, below[y])[row])
				rows, columns = append(rows, w[x]), append(columns, l[y])
			}
		}
		if len(target) > 0 {
			b.Product(target, rows, columns)
		}
	}
}

// column are the blocks below the diagonal of one of the factor's columns, in fw or fl.
func (p *plan) column(c lanes.Col, k int) lanes.Col { return c[p.fill[k]:p.fill[k+1]] }

// solve writes sol = K⁻¹·res by the factor; res is overwritten.
func (p *plan) solve(b *lanes.Builder) {
	c := &p.cells
	x, work := c.sol, c.res
	first := func(v lanes.Col, indices ...int) (out lanes.Col) {
		for _, k := range indices {
			out = append(out, v[4*k])
		}
		return out
	}
	for k, below := range p.order.Below {
		b.Lower(work[4*k], c.fp[k], x[4*k])
		if len(below) > 0 {
			b.Forward(first(work, below...), p.column(c.fl, k), first(work, k))
		}
	}
	for k, below := range slices.Backward(p.order.Below) {
		if len(below) > 0 {
			b.Backward(first(x, k), p.column(c.fl, k), first(x, below...))
		}
		b.Upper(x[4*k], c.fp[k])
	}
}

// residual writes res = rhs − K·sol and the largest entries of res and rhs, and keeps sol.
func (p *plan) residual(b *lanes.Builder) {
	c := &p.cells
	b.Copy(c.fix, c.sol)
	b.Copy(c.res, c.rhs)
	var upper, lower, diagonal, solution lanes.Col
	for k, d := range c.diag {
		for row := range 4 {
			for col := range row {
				upper, lower = append(upper, d+lanes.Ref(4*col+row)), append(lower, d+lanes.Ref(4*row+col))
			}
		}
		diagonal, solution = append(diagonal, c.res[4*k]), append(solution, c.sol[4*k])
	}
	b.Copy(upper, lower)
	b.Forward(diagonal, c.diag, solution)
	var below, column, above, row lanes.Col
	for _, pair := range p.pairs {
		below, column = append(below, c.res[4*pair[0]]), append(column, c.sol[4*pair[1]])
		above, row = append(above, c.res[4*pair[1]]), append(row, c.sol[4*pair[0]])
	}
	if len(c.offDiag) > 0 {
		b.Forward(below, c.offDiag, column)
		b.Backward(above, c.offDiag, row)
	}
	b.Copy(c.maxRes, p.constant(0))
	b.Copy(c.maxRhs, p.constant(0))
	b.AbsMax(c.maxRes, c.res)
	b.AbsMax(c.maxRhs, c.rhs)
}

// correct writes what the residual kept, corrected by sol = K⁻¹·res in the lanes that ask for it.
func (p *plan) correct(b *lanes.Builder) {
	c := &p.cells
	b.Copy(c.sol, b.Select(c.refine, b.Add(c.sol, c.fix), c.fix))
}
