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

// restoreBase restores the base's factors, kinds and injections, and reports whether the input is usable.
func (o *Outages) restoreBase() bool {
	s := o.s
	if !o.hasBaseFactors {
		if err := s.specify(o.input); err != nil {
			return false
		}
		copy(s.lu.data, o.data)
		copy(s.lu.inverse, o.inverse)
		o.hasBaseFactors = true
	}
	// Enforced limits are those of the base.
	copy(s.atLimit, o.atLimit)
	copy(s.kind, o.kinds)
	copy(s.qs, o.qs)
	clear(s.released)
	return true
}

// compensate iterates with the base factors, corrected by the outage's change of the Jacobian at the base solution.
// It begins at the start, if there is one: a power flow beyond reactive limits. It reports whether that found a power flow
// within enforced ones.
func (o *Outages) compensate(branch int, start *Attempt, out *Solution) bool {
	s := o.s
	if !o.restoreBase() {
		return false
	}
	o.startBase(out)
	c := o.change(branch)
	tolerance := cmp.Or(o.opt.Tolerance, DefaultTolerance)
	if c.n == 0 { // only references lose flow, and no voltage changes
		o.rows.inject(s)
		out.Mismatch, out.MismatchBus = s.mismatch(0)
		return o.accept(out, tolerance)
	}
	factors, ok := o.newSmall(c)
	if !ok {
		return false
	}
	out.Mismatch = o.firstMismatch(c)
	if start != nil {
		copy(s.vm, start.Vm)
		copy(s.va, start.Va)
		o.rows.start(s)
		o.rows.inject(s)
		out.Mismatch, out.MismatchBus = o.mismatch()
		out.Iterations = start.Steps
	}
	return o.iterate(c, factors, start != nil, out)
}

// startBase puts the solver's voltages at the base.
func (o *Outages) startBase(out *Solution) {
	s := o.s
	copy(s.vm, o.base.Vm)
	copy(s.va, o.base.Va)
	copy(o.rows.v, o.v)
	*out = Solution{Vm: out.Vm, Va: out.Va, Pg: out.Pg, Qg: out.Qg, AtLimit: out.AtLimit}
	o.lengths = o.lengths[:0]
	o.responses.reset()
}

// compensateUnit is compensate for a unit, which the solver has taken out of the base.
func (o *Outages) compensateUnit(unit int, power float64, out *Solution) bool {
	s, n := o.s, o.s.net
	o.startBase(out)
	b := n.GenBus[unit]
	saved, gens, vg := s.ps[b], s.gensAt[b], pick(o.input.Vg, n.Vg)
	defer func() { s.ps[b] = saved }()
	s.ps[b] -= power
	switch {
	case n.Kind[b] == network.PQ:
		s.qs[b] -= n.Qg0[unit]
	case len(gens) > 0 && vg[gens[len(gens)-1]] != s.vset[b]:
		return false // another voltage
	case len(gens) == 0:
		s.kind[b], s.atLimit[b], s.qs[b] = network.PQ, 0, -pick(o.input.Qd, n.Qd)[b]
	case s.atLimit[b] > 0:
		s.qs[b] = s.qhi[b] - pick(o.input.Qd, n.Qd)[b]
	case s.atLimit[b] < 0:
		s.qs[b] = s.qlo[b] - pick(o.input.Qd, n.Qd)[b]
	}
	c := &change{}
	o.path = o.path[:0]
	factors, ok := o.responses.follow(o, c)
	o.rows.inject(s)
	out.Mismatch, out.MismatchBus = o.mismatch()
	return ok && o.iterate(c, factors, true, out)
}

// iterate takes steps until a power flow within enforced limits is found, which it reports. evaluated says that the mismatch
// is of the whole network.
func (o *Outages) iterate(c *change, factors *smallLU, evaluated bool, out *Solution) (ok bool) {
	s, tolerance := o.s, cmp.Or(o.opt.Tolerance, DefaultTolerance)
	small := tolerance
	if o.opt.EnforceQ { // buses may switch
		small = max(small, reactiveSlack/10)
	}
	steps, slow := 0, 0 // since the last switch
	for ; ; evaluated = true {
		if solved := out.Mismatch <= small; evaluated && (solved || o.opt.EnforceQ && out.Mismatch <= earlySwitch) {
			margin := reactiveSlack
			if !solved {
				margin = max(margin, earlyMargin*out.Mismatch)
			}
			switched := o.opt.EnforceQ && s.enforce(out, margin)
			if !switched && out.Mismatch <= tolerance {
				out.Status = Converged
				return true
			}
			if switched {
				if factors, ok = o.responses.follow(o, c); !ok {
					return false
				}
				o.release()
				o.rows.inject(s)
				out.Mismatch, out.MismatchBus = o.mismatch()
				o.lengths, steps, slow = o.lengths[:0], 0, 0
			}
		}
		previous := out.Mismatch
		o.solve(c, factors)
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

// accept says whether a compensated solution is a power flow within enforced reactive limits.
func (o *Outages) accept(out *Solution, tolerance float64) bool {
	if !(out.Mismatch <= tolerance) {
		return false
	}
	out.Status = Converged
	if !o.opt.EnforceQ {
		return true
	}
	return !o.s.enforce(out, reactiveSlack)
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
func (o *Outages) solve(c *change, factors *smallLU) {
	lu := o.s.lu
	x := lu.rhs
	lu.forward()
	u := o.branchValues(x)
	o.responses.solve(x, &u)
	y := c.times(&u)
	factors.solve(&y)
	o.responses.take(x, &y)
	for _, k := range o.path {
		z := &o.lowerHalves[k]
		x[2*k] -= z[0]*y[0] + z[1]*y[1] + z[2]*y[2] + z[3]*y[3]
		x[2*k+1] -= z[4]*y[0] + z[5]*y[1] + z[6]*y[2] + z[7]*y[3]
	}
	lu.backward()
}

// branchValues are the unknowns of the branch's rows for x, which is A⁻¹ times a right-hand side.
func (o *Outages) branchValues(x []float64) (u [columns]float64) {
	for _, k := range o.path {
		z, x0, x1 := &o.upperHalves[k], x[2*k], x[2*k+1]
		for i := range u {
			u[i] += z[i]*x0 + z[columns+i]*x1
		}
	}
	return u
}

// broyden turns a step of the changed base Jacobian into one of Broyden's method, whose inverse Jacobians are stored
// as the earlier steps (C. T. Kelley, Iterative Methods for Linear and Nonlinear Equations, SIAM 1995, section 7.3).
func (o *Outages) broyden() {
	x, n := o.s.lu.rhs, len(o.lengths)
	for j := range n {
		share := dot(o.steps[j], x) / o.lengths[j]
		if j == n-1 {
			for i := range x {
				x[i] /= 1 - share
			}
			return
		}
		for i, v := range o.steps[j+1] {
			x[i] += share * v
		}
	}
}

// addStep adds a step for broyden, which holds for full steps only. A shortened step clears the list.
func (o *Outages) addStep(scale float64) {
	x, n := o.s.lu.rhs, len(o.lengths)
	if scale != 1 {
		o.lengths = o.lengths[:0]
		return
	}
	if n == len(o.steps) {
		o.steps = append(o.steps, make([]float64, len(x)))
	}
	copy(o.steps[n], x)
	o.lengths = append(o.lengths, dot(x, x))
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

// newSmall writes the halves and factors I + C·Z, with the change C of the rows and the inverse base Jacobian Z
// there.
func (o *Outages) newSmall(c *change) (*smallLU, bool) {
	ends := [2]int32{int32(c.row[0] / 2), int32(c.row[c.n-1] / 2)}
	o.path = o.s.lu.path(o.path[:0], ends[0], ends[1])
	for _, k := range o.path {
		o.lowerHalves[k], o.upperHalves[k] = half{}, half{}
	}
	for j := range c.n {
		index := columns*(c.row[j]%2) + j
		o.lowerHalves[c.row[j]/2][index], o.upperHalves[c.row[j]/2][index] = 1, 1
	}
	o.s.lu.halves(o.lowerHalves, o.upperHalves, o.path)
	inverse := &c.inverse
	for _, k := range o.path {
		l, r := &o.lowerHalves[k], &o.upperHalves[k]
		for i := range columns {
			for j := range columns {
				inverse[i][j] += r[i]*l[j] + r[columns+i]*l[columns+j]
			}
		}
	}
	return c.factor(inverse)
}

// factor factors I + C·Z.
func (c *change) factor(inverse *[columns][columns]float64) (*smallLU, bool) {
	var small [columns][columns]float64
	for i := range c.n {
		for j := range c.n {
			for k := range c.n {
				small[i][j] += c.entries[i][k] * inverse[k][j]
			}
		}
		small[i][i]++
	}
	return factorSmall(small, c.n)
}

// finish writes the result of a compensated solve.
func (o *Outages) finish(out *Solution) {
	s := o.s
	copy(out.Vm, s.vm)
	copy(out.Va, s.va)
	copy(out.AtLimit, s.atLimit)
	s.Share(o.input, s.p, s.q, out.Pg, out.Qg)
}

// change is a branch outage's change of the Jacobian at the base solution, in the rows and columns of its buses.
// entries are added at row × row; mismatch is the remaining mismatch there.
type change struct {
	n        int
	row      [columns]int
	entries  [columns][columns]float64
	mismatch [columns]float64
	// reactive are the entries of the reactive balances' rows, also of those that the base does not have. inverse is
	// the inverse base Jacobian in these rows and columns.
	reactive, inverse [columns][columns]float64
}

// times is the change times a vector of its columns.
func (c *change) times(u *[columns]float64) (y [columns]float64) {
	for i := range c.n {
		for k := range c.n {
			y[i] += c.entries[i][k] * u[k]
		}
	}
	return y
}

func (o *Outages) change(branch int) *change {
	s, y, c := o.s, o.s.admittance, &change{}
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
		if row[i] < 0 || s.dead != nil && s.dead[b] {
			continue // no row of an island counts
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
			if s.kind[b] == network.PQ {
				c.entries[row[i]+1] = c.reactive[row[i]+1]
			}
		}
		put(row[i], [4]float64{-h, n + 2*v2*self[i][0], n, h - 2*v2*self[i][1]})
		put(row[1-i], [4]float64{h, n, -n, h})
	}
	return c
}

// smallLU are the factors of a matrix of up to four rows, with row pivots.
type smallLU struct {
	n   int
	a   [columns][columns]float64
	row [columns]int
}

func factorSmall(a [columns][columns]float64, n int) (*smallLU, bool) {
	f := &smallLU{n: n, a: a}
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
			return nil, false
		}
		for i := k + 1; i < n; i++ {
			f.a[i][k] /= f.a[k][k]
			for j := k + 1; j < n; j++ {
				f.a[i][j] -= f.a[i][k] * f.a[k][j]
			}
		}
	}
	return f, true
}

func (f *smallLU) solve(y *[columns]float64) {
	var x [columns]float64
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
