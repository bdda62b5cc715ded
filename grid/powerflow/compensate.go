package powerflow

import (
	"cmp"
	"math"

	"github.com/gpc-engine/gpc/grid/network"
)

// Compensation ends after compensatedSteps since the last switch of buses, or at the slowSteps-th of them that does not halve the
// mismatch. New factors cost more than these steps.
const (
	compensatedSteps = 15
	slowSteps        = 6
)

// Buses switch from a mismatch of earlySwitch (pu) on, where they are beyond a limit by more than earlyMargin of it. The mismatch
// is at few buses then, and what the others inject hardly changes any more.
const (
	earlySwitch = 1e-2
	earlyMargin = 1e-2
)

// negligible is the part of the tolerance below which a mismatch takes part in no step. Most buses of a large network have no
// larger one after the first step, and a triangular solve passes over them.
const negligible = 1.0 / 16

// restoreBase restores the base's factors, kinds and injections.
func (o *Outages) restoreBase() {
	s := o.s
	if !o.hasBaseFactors {
		_ = s.specify(o.input) // which NewOutages has checked
		copy(s.lu.data, o.data)
		copy(s.lu.inverse, o.inverseBlocks)
		o.hasBaseFactors = true
	}
	// Enforced limits are those of the base.
	copy(s.atLimit, o.atLimit)
	copy(s.kind, o.kinds)
	copy(s.ps, o.ps)
	copy(s.qs, o.qs)
	clear(s.released)
}

// compensate iterates with the base factors, corrected by what the outage of branches changes in the Jacobian at the base
// solution. It reports whether that found a power flow within enforced reactive limits.
func (o *Outages) compensate(branches []int, out *Solution) bool {
	s := o.s
	for _, branch := range branches {
		if c := &o.changes[o.count]; o.change(branch, c) { // else only references lose flow, and no voltage changes
			o.count++
		}
	}
	o.invert()
	if !o.follow() {
		return false
	}
	if o.count == 1 && len(branches) == 1 && len(s.outUnits) == 0 {
		out.Mismatch = o.firstMismatch(&o.changes[0])
		return o.iterate(false, out)
	}
	o.rows.inject(s)
	out.Mismatch, out.MismatchBus = o.mismatch()
	return o.iterate(true, out)
}

// iterate takes steps until a power flow within enforced limits is found, which it reports. evaluated says that the mismatch
// is of the whole network.
func (o *Outages) iterate(evaluated bool, out *Solution) bool {
	s, tolerance, small := o.s, cmp.Or(o.opt.Tolerance, DefaultTolerance), o.small()
	steps, slow := 0, 0 // since the last switch
	for ; ; evaluated = true {
		if margin := o.margin(out.Mismatch); evaluated && margin > 0 {
			switched := o.opt.EnforceQ && s.enforce(out, margin)
			if !switched && out.Mismatch <= tolerance {
				out.Status = Converged
				return true
			}
			if switched {
				if !o.follow() {
					return false
				}
				o.release()
				o.rows.inject(s)
				out.Mismatch, out.MismatchBus = o.mismatch()
				o.lengths, steps, slow = o.lengths[:0], 0, 0
			}
		}
		previous := out.Mismatch
		o.solve()
		o.freezeIsland()
		o.broyden()
		out.Iterations++
		o.addStep(o.rows.move(s))
		o.rows.inject(s)
		if out.Mismatch, out.MismatchBus = o.mismatch(); !(out.Mismatch < previous/2) {
			slow++
		}
		if steps++; !(out.Mismatch <= small) && (slow == slowSteps || steps == compensatedSteps) {
			return false
		}
	}
}

// small is the mismatch from which on the exact limits decide what switches.
func (o *Outages) small() float64 {
	small := cmp.Or(o.opt.Tolerance, DefaultTolerance)
	if o.opt.EnforceQ {
		small = max(small, reactiveSlack/10)
	}
	return small
}

// margin is what buses switch beyond at a mismatch; 0 while none does.
func (o *Outages) margin(mismatch float64) float64 {
	switch {
	case mismatch <= o.small():
		return reactiveSlack
	case o.opt.EnforceQ && mismatch <= earlySwitch:
		return max(reactiveSlack, earlyMargin*mismatch)
	}
	return 0
}

// freezeIsland keeps the voltages of an island: with the rows of its live neighbour corrected the rest does not
// depend on them.
func (o *Outages) freezeIsland() {
	s := o.s
	if s.dead == nil {
		return
	}
	for k, b := range s.unknown {
		if s.dead[b] {
			s.lu.rhs[2*k], s.lu.rhs[2*k+1] = 0, 0
		}
	}
}

// firstMismatch writes the right-hand side of the first step, with mismatches at the branch's ends only, and returns
// the largest.
func (o *Outages) firstMismatch(c *change) (worst float64) {
	clear(o.s.lu.rhs)
	for i := range c.n {
		o.s.lu.rhs[c.row[i]] = c.mismatch[i]
		worst = max(worst, math.Abs(c.mismatch[i]))
	}
	return worst
}

// solve overwrites the right-hand side with the solution of the changed Jacobian.
func (o *Outages) solve() {
	lu, r, c := o.s.lu, o.responses, o.correction
	lu.forward()
	c.y = c.y[:0]
	for _, m := range c.switched {
		c.y = append(c.y, r.left[m].times(lu.rhs))
	}
	c.apply(lu.rhs, 2)
	for t, m := range c.switched {
		r.right[m].add(-c.y[t], lu.rhs)
	}
	lu.backward()
}

// apply is the part of a solve between those of the base Jacobian's triangular factors A and B. Let E·C·Eᵀ be the change of
// its rows by branches, and Z = Eᵀ(A·B)⁻¹E. The solution is B⁻¹(x − A⁻¹E·(I + C·Z)⁻¹C·(EᵀB⁻¹)x), with x = A⁻¹ times the
// right-hand side. EᵀB⁻¹ and A⁻¹E are the halves. What the switched buses do is taken out of EᵀB⁻¹x; y is their products with x
// before, and what is to be taken out of x after. The numbers of x are stride from one position to the next, and half of it within.
func (c *correction) apply(x []float64, stride int) {
	var u, y [maxRows]float64
	for i := range c.count {
		c, u := &c.changes[i], (*[columns]float64)(u[columns*i:])
		for _, k := range c.path {
			z, k := &c.upper[k], stride*int(k)
			x0, x1 := x[k], x[k+stride/2]
			for i := range u {
				u[i] += z[i]*x0 + z[columns+i]*x1
			}
		}
	}
	rows := columns * c.count
	c.factors.Lower(c.y, 0)
	for i, response := range c.response[:rows] {
		u[i] -= dot(response, c.y)
	}
	for i := range rows {
		for j, v := range c.matrix[i][:rows] {
			y[i] += v * u[j]
		}
		for t, v := range c.effect[i] {
			c.y[t] -= v * y[i]
		}
	}
	c.factors.Upper(c.y)
	for i := range c.count {
		c, y := &c.changes[i], (*[columns]float64)(y[columns*i:])
		for _, k := range c.path {
			z, k := &c.lower[k], stride*int(k)
			x[k] -= z[0]*y[0] + z[1]*y[1] + z[2]*y[2] + z[3]*y[3]
			x[k+stride/2] -= z[4]*y[0] + z[5]*y[1] + z[6]*y[2] + z[7]*y[3]
		}
	}
}

// broyden turns a step of the changed base Jacobian into one of Broyden's method, whose inverse Jacobians are stored
// as the earlier steps (C. T. Kelley, Iterative Methods for Linear and Nonlinear Equations, SIAM 1995, section 7.3).
func (o *Outages) broyden() {
	x, n := o.s.lu.rhs, len(o.lengths)
	if n == 0 {
		return
	}
	share := addDot(x, 0, o.steps[0]) / o.lengths[0]
	for j := 1; j < n; j++ {
		share = addDot(x, share, o.steps[j]) / o.lengths[j]
	}
	factor := 1 / (1 - share)
	for i := range x {
		x[i] *= factor
	}
}

// addDot adds a multiple of a to x, and returns their product then.
func addDot(x []float64, factor float64, a []float64) float64 {
	var s [4]float64
	a = a[:len(x)]
	k := 0
	if vectors {
		addDotAVX2(x, factor, a, &s)
		k = len(x) &^ 3
	}
	for ; k < len(x); k++ {
		x[k] += factor * a[k]
		s[k%4] += a[k] * x[k]
	}
	return s[0] + s[1] + (s[2] + s[3])
}

// addStep adds a step for broyden, which holds for full steps only. A shortened step clears the list.
func (o *Outages) addStep(scale, length float64) {
	x, n := o.s.lu.rhs, len(o.lengths)
	if scale != 1 {
		o.lengths = o.lengths[:0]
		return
	}
	if n == len(o.steps) {
		o.steps = append(o.steps, make([]float64, len(x)))
	}
	o.lengths = append(o.lengths, length)
	o.steps[n], o.s.lu.rhs = x, o.steps[n] // which is written before it is read
}

// dot is the sum of products, in four independent parts.
func dot(a, b []float64) float64 {
	var s [4]float64
	b = b[:len(a)]
	k := 0
	for ; k+4 <= len(a); k += 4 {
		s[0] += a[k] * b[k]
		s[1] += a[k+1] * b[k+1]
		s[2] += a[k+2] * b[k+2]
		s[3] += a[k+3] * b[k+3]
	}
	for ; k < len(a); k++ {
		s[0] += a[k] * b[k]
	}
	return s[0] + s[1] + s[2] + s[3]
}

// invert writes the halves and the inverse base Jacobian in the branches' rows.
func (o *Outages) invert() {
	o.inverse = [maxRows][maxRows]float64{}
	for i := range o.count {
		c := &o.changes[i]
		if c.lower == nil {
			c.lower, c.upper = make([]half, o.s.lu.n), make([]half, o.s.lu.n)
		}
		for _, k := range c.path {
			c.lower[k], c.upper[k] = half{}, half{}
		}
		c.path = o.s.lu.path(c.path[:0], []int32{int32(c.row[0] / 2), int32(c.row[c.n-1] / 2)})
		for j := range c.n {
			index := columns*(c.row[j]%2) + j
			c.lower[c.row[j]/2][index], c.upper[c.row[j]/2][index] = 1, 1
		}
		o.s.lu.halves(c.lower, c.upper, c.path)
	}
	for p := range o.count {
		for q := range o.count {
			for _, k := range o.changes[p].path {
				r, l := &o.changes[p].upper[k], &o.changes[q].lower[k]
				for i := range columns {
					row := (*[columns]float64)(o.inverse[columns*p+i][columns*q:])
					for j := range columns {
						row[j] += r[i]*l[j] + r[columns+i]*l[columns+j]
					}
				}
			}
		}
	}
}

// factor writes (I + C·Z)⁻¹C, with the changes C of the rows and the inverse Jacobian Z there. It returns false where that is singular.
func (c *correction) factor(inverse *[maxRows][maxRows]float64) bool {
	n := columns * c.count
	var a [maxRows][2 * maxRows]float64 // I + C·Z, and C from column n on; eliminated with row pivots
	for i := range n {
		first, row := i&^(columns-1), &a[i]
		for k, entry := range c.changes[i/columns].entries[i%columns] {
			if row[n+first+k] = entry; entry != 0 {
				for j := range n {
					row[j] += entry * inverse[first+k][j]
				}
			}
		}
		row[i]++
	}
	for k := range n {
		best := k
		for i := k + 1; i < n; i++ {
			if math.Abs(a[i][k]) > math.Abs(a[best][k]) {
				best = i
			}
		}
		a[k], a[best] = a[best], a[k]
		if !(math.Abs(a[k][k]) > 1e-10) {
			return false
		}
		for i := range n {
			factor := a[i][k] / a[k][k]
			for j := k + 1; j < 2*n && i != k && factor != 0; j++ {
				a[i][j] -= factor * a[k][j]
			}
		}
	}
	for i := range n {
		for j, v := range a[i][n : 2*n] {
			c.matrix[i][j] = v / a[i][i]
		}
	}
	return true
}

// finish writes the result of a compensated solve.
func (o *Outages) finish(out *Solution) {
	s := o.s
	copy(out.Vm, s.vm)
	copy(out.Va, s.va)
	copy(out.AtLimit, s.atLimit)
	s.Share(o.input, s.p, s.q, out.Pg, out.Qg)
}

const (
	maxOut  = 2 // branches that the base factors serve without
	maxRows = maxOut * columns
)

// change is a branch outage's change of the Jacobian at the base solution, in the rows and columns of its buses.
// entries are added at row × row; mismatch is the remaining mismatch there.
type change struct {
	n        int
	row      [columns]int
	entries  [columns][columns]float64
	mismatch [columns]float64
	// reactive are the entries of the reactive balances' rows, also of those that the base does not have.
	reactive     [columns][columns]float64
	lower, upper []half  // the halves of the inverse base Jacobian at the changed rows, by position
	path         []int32 // their positions that are not zero
}

// change writes that of a branch, and reports whether there is one.
func (o *Outages) change(branch int, c *change) bool {
	*c = change{lower: c.lower, upper: c.upper, path: c.path}
	s, y := o.s, o.s.admittance
	ends := [2]int{s.net.From[branch], s.net.To[branch]}
	var row [2]int
	for i, b := range ends {
		row[i] = -1
		if k := int(s.position[b]); k >= 0 {
			row[i] = c.n
			c.row[c.n], c.row[c.n+1] = 2*k, 2*k+1
			c.n += 2
		}
	}
	sin, cos := math.Sincos(o.base.Va[ends[0]] - o.base.Va[ends[1]])
	product := o.base.Vm[ends[0]] * o.base.Vm[ends[1]]
	self := [2][2]float64{{y.Gff[branch], y.Bff[branch]}, {y.Gtt[branch], y.Btt[branch]}}
	mutual := [2][2]float64{{y.Gft[branch], y.Bft[branch]}, {y.Gtf[branch], y.Btf[branch]}}
	for i, b := range ends {
		if row[i] < 0 || s.fixed(int32(b)) {
			continue
		}
		v2 := o.base.Vm[b] * o.base.Vm[b]
		x, d := product*cos, product*sin
		if i == 1 {
			d = -d
		}
		h, n := mutual[i][0]*d-mutual[i][1]*x, mutual[i][0]*x+mutual[i][1]*d
		// The balance gains the branch's flow, n + v²G and h − v²B.
		c.mismatch[row[i]] = s.ps[b] - o.p[b] + n + v2*self[i][0]
		if s.kind[b] == network.PQ {
			c.mismatch[row[i]+1] = s.qs[b] - o.q[b] + h - v2*self[i][1]
		}
		put := func(column int, block [4]float64) {
			if column < 0 {
				return
			}
			c.entries[row[i]][column], c.entries[row[i]][column+1] = -block[0], -block[1]
			c.reactive[row[i]+1][column], c.reactive[row[i]+1][column+1] = -block[2], -block[3]
		}
		put(row[i], [4]float64{-h, n + 2*v2*self[i][0], n, h - 2*v2*self[i][1]})
		put(row[1-i], [4]float64{h, n, -n, h})
	}
	return c.n > 0
}
