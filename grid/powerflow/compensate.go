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
	o.count = 0
	for _, branch := range branches {
		if c := &o.changes[o.count]; o.change(branch, c) { // else only references lose flow, and no voltage changes
			o.count++
		}
	}
	o.invert()
	if !o.responses.follow(o) {
		return false
	}
	if o.count == 1 && len(branches) == 1 && len(s.outUnits) == 0 && out.Iterations == 0 {
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
				if !o.responses.follow(o) {
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

// solve overwrites the right-hand side with the solution of the changed Jacobian. Let A·B be the base Jacobian's
// triangular factors, E·C·Eᵀ the change of its rows, and Z = Eᵀ(A·B)⁻¹E. The solution is B⁻¹(x − A⁻¹E·(I +
// C·Z)⁻¹C·(EᵀB⁻¹)x), with x = A⁻¹ times the right-hand side. EᵀB⁻¹ and A⁻¹E are the halves.
func (o *Outages) solve() {
	lu := o.s.lu
	x := lu.rhs
	lu.forward()
	u := o.branchValues(x)
	o.responses.solve(o.rowCount(), x, &u)
	var y [maxRows]float64
	for i := range o.count {
		o.changes[i].times(u[columns*i:], y[columns*i:])
	}
	o.factors.solve(&y)
	o.responses.take(o.rowCount(), x, &y)
	for i := range o.count {
		c, y := &o.changes[i], (*[columns]float64)(y[columns*i:])
		for _, k := range c.path {
			z := &c.lower[k]
			x[2*k] -= z[0]*y[0] + z[1]*y[1] + z[2]*y[2] + z[3]*y[3]
			x[2*k+1] -= z[4]*y[0] + z[5]*y[1] + z[6]*y[2] + z[7]*y[3]
		}
	}
	lu.backward()
}

// rowCount is the number of rows that the branches change.
func (o *Outages) rowCount() int { return columns * o.count }

// branchValues are the unknowns of the branches' rows for x, which is A⁻¹ times a right-hand side.
func (o *Outages) branchValues(x []float64) (u [maxRows]float64) {
	for i := range o.count {
		c, u := &o.changes[i], (*[columns]float64)(u[columns*i:])
		for _, k := range c.path {
			z, x0, x1 := &c.upper[k], x[2*k], x[2*k+1]
			for i := range u {
				u[i] += z[i]*x0 + z[columns+i]*x1
			}
		}
	}
	return u
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

// factor factors I + C·Z, with the changes C of the rows and the inverse Jacobian Z there.
func (o *Outages) factor(inverse *[maxRows][maxRows]float64) bool {
	n := o.rowCount()
	for i := range n {
		c, row := &o.changes[i/columns], &o.factors.a[i]
		*row = [maxRows]float64{}
		for k, entry := range c.entries[i%columns] {
			if entry != 0 {
				for j := range n {
					row[j] += entry * inverse[i&^(columns-1)+k][j]
				}
			}
		}
		row[i]++
	}
	return o.factors.factor(n)
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

// times writes the change times a vector of its columns.
func (c *change) times(u, y []float64) {
	for i := range c.n {
		for k := range c.n {
			y[i] += c.entries[i][k] * u[k]
		}
	}
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

// smallLU are the factors of a matrix of few rows, with row pivots.
type smallLU struct {
	n   int
	a   [maxRows][maxRows]float64
	row [maxRows]int
}

// factor factors the n rows of a.
func (f *smallLU) factor(n int) bool {
	f.n = n
	for i := range n {
		f.row[i] = i
	}
	for k := range n {
		best := k
		for i := k + 1; i < n; i++ {
			if math.Abs(f.a[i][k]) > math.Abs(f.a[best][k]) {
				best = i
			}
		}
		f.a[k], f.a[best] = f.a[best], f.a[k]
		f.row[k], f.row[best] = f.row[best], f.row[k]
		if !(math.Abs(f.a[k][k]) > 1e-10) {
			return false
		}
		for i := k + 1; i < n; i++ {
			f.a[i][k] /= f.a[k][k]
			for j := k + 1; j < n; j++ {
				f.a[i][j] -= f.a[i][k] * f.a[k][j]
			}
		}
	}
	return true
}

func (f *smallLU) solve(y *[maxRows]float64) {
	var x [maxRows]float64
	for i := range f.n {
		x[i] = y[f.row[i]]
		for j := range i {
			x[i] -= f.a[i][j] * x[j]
		}
	}
	for i := f.n - 1; i >= 0; i-- {
		for j := i + 1; j < f.n; j++ {
			x[i] -= f.a[i][j] * x[j]
		}
		x[i] /= f.a[i][i]
	}
	*y = x
}
