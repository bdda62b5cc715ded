package powerflow

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Outages solves the power flow of a network without one of its branches or units at a time,
// each from the base solution. A branch's outage keeps the factors of the base Jacobian and
// corrects their solutions by the four rows that it changes (compensation: O. Alsaç, B. Stott,
// W. F. Tinney, IEEE Trans. PAS-102, 1983); where that does not converge, and for everything
// else, Newton's method goes on with factors of its own. Either way a result is a power flow to
// the same tolerance as any other.
//
// It is not safe for concurrent use; take one for each goroutine, of a Clone.
type Outages struct {
	s    *Solver
	in   Input
	opt  Options
	base *Solution
	held []int8
	qs   []float64 // as the base ended: with reactive limits held

	data, inverse []float64 // factors at the base solution
	z             []float64 // inverse of the base Jacobian at the changed rows, four columns
	out           []bool    // buses of islands without a reference
	bridges       []bool
	queue         []int32
}

// Outage is one power flow without a branch or unit.
type Outage struct {
	Solution *Solution // the Outages' own until the next call
	// Islanded lists the buses that are left without a reference; they are dead, and the
	// solution is of the rest.
	Islanded []int32
	// Compensated says that the base factors served.
	Compensated bool
	// Balance says that nothing takes up the balance: the only unit at a reference is out.
	Balance bool
}

// NewOutages takes the base: an input, options (Start is not used) and their converged solution
// of this solver.
func (s *Solver) NewOutages(in Input, opt Options, base *Solution) (*Outages, error) {
	// A unit's outage changes these, which clones share.
	s.gensAt, s.qlo, s.qhi = slices.Clone(s.gensAt), slices.Clone(s.qlo), slices.Clone(s.qhi)
	o := &Outages{s: s, in: in, opt: opt, base: base, out: make([]bool, s.net.Buses())}
	o.opt.Start = Given
	sol := s.NewSolution()
	copy(sol.Vm, base.Vm)
	copy(sol.Va, base.Va)
	if err := s.Solve(in, o.opt, sol); err != nil {
		return nil, err
	}
	s.evaluate()
	s.jacobian()
	if !s.lu.factorise() {
		s.lu.data[0] = math.NaN() // no compensation comes to anything, and each outage factors
	}
	o.held, o.qs = slices.Clone(s.held), slices.Clone(s.qs)
	o.data, o.inverse = slices.Clone(s.lu.data), slices.Clone(s.lu.inverse)
	o.z = make([]float64, 4*2*s.lu.n)
	o.bridges = bridges(s.net)
	return o, nil
}

// Branch is the power flow without a branch in service; out is written.
func (o *Outages) Branch(branch int, out *Solution) (Outage, error) {
	s, n := o.s, o.s.net
	s.fit(out)
	from, to := n.From[branch], n.To[branch]
	y := s.admitting
	p := &s.pairs[s.toPair[branch]]
	saved := *p
	gf, bf, gt, bt := s.gd[from], s.bd[from], s.gd[to], s.bd[to]
	s.gd[from] -= y.Gff[branch]
	s.bd[from] -= y.Bff[branch]
	s.gd[to] -= y.Gtt[branch]
	s.bd[to] -= y.Btt[branch]
	gij, bij, gji, bji := y.Gft[branch], y.Bft[branch], y.Gtf[branch], y.Btf[branch]
	if s.flipped[branch] {
		gij, bij, gji, bji = gji, bji, gij, bij
	}
	p.gij, p.bij, p.gji, p.bji = p.gij-gij, p.bij-bij, p.gji-gji, p.bji-bji
	if s.alone(branch) { // nothing of rounding stays
		p.gij, p.bij, p.gji, p.bji = 0, 0, 0, 0
	}
	defer func() {
		*p = saved
		s.gd[to], s.bd[to] = gt, bt
		s.gd[from], s.bd[from] = gf, bf
	}()
	result := Outage{Solution: out}
	if o.bridges[branch] {
		result.Islanded = o.island(branch)
	}
	if len(result.Islanded) == 0 && o.compensate(branch, out) {
		result.Compensated = true
		o.finish(out)
		return result, nil
	}
	return result, o.newton(o.in, out, result.Islanded)
}

// alone says whether a branch is the only one between its buses.
func (s *Solver) alone(branch int) bool {
	for _, k := range s.near[s.net.From[branch]] {
		if int(k) != branch && s.toPair[k] == s.toPair[branch] {
			return false
		}
	}
	return true
}

// Unit is the power flow without a unit: the reference takes up what it gave, and a bus whose
// only one it was holds no voltage.
func (o *Outages) Unit(unit int, out *Solution) (Outage, error) {
	s, n := o.s, o.s.net
	s.fit(out)
	bus := n.GenBus[unit]
	result := Outage{Solution: out}
	gens := s.gensAt[bus]
	if n.Kind[bus] == network.Slack && len(gens) == 1 {
		result.Balance = true
		*out = Solution{Status: Singular, Vm: out.Vm, Va: out.Va, Pg: out.Pg, Qg: out.Qg, AtLimit: out.AtLimit}
		return result, nil
	}
	in := o.in
	in.Pg = slices.Clone(pick(in.Pg, n.Pg0))
	in.Pg[unit] = 0
	at := slices.Index(gens, int32(unit))
	s.gensAt[bus] = slices.Delete(slices.Clone(gens), at, at+1)
	lo, hi := s.qlo[bus], s.qhi[bus]
	s.qlo[bus], s.qhi[bus] = 0, 0
	for _, g := range s.gensAt[bus] {
		s.qlo[bus] += n.QMin[g]
		s.qhi[bus] += n.QMax[g]
	}
	s.lost = unit
	defer func() { s.gensAt[bus], s.qlo[bus], s.qhi[bus], s.lost = gens, lo, hi, -1 }()
	err := o.newton(in, out, nil)
	out.Pg[unit], out.Qg[unit] = 0, 0
	return result, err
}

// newton solves from the base voltages with factors of its own.
func (o *Outages) newton(in Input, out *Solution, islanded []int32) error {
	s := o.s
	copy(out.Vm, o.base.Vm)
	copy(out.Va, o.base.Va)
	for _, b := range islanded {
		o.out[b] = true
	}
	s.dead = nil
	if len(islanded) > 0 {
		s.dead = o.out
	}
	err := s.Solve(in, o.opt, out)
	s.dead = nil
	for _, b := range islanded {
		o.out[b] = false
		out.Vm[b], out.Va[b] = 0, 0
		for _, g := range s.gensAt[b] {
			out.Pg[g], out.Qg[g] = 0, 0
		}
	}
	return err
}

// Compensation ends after so many steps, or where one does not halve the mismatch.
const compensatedSteps = 15

// compensate iterates with the base factors, corrected by what the outage of a branch of a pair
// changes of the Jacobian at the base solution. It says whether that came to a power flow that
// keeps the reactive limits, if they count.
func (o *Outages) compensate(branch int, out *Solution) bool {
	s := o.s
	// Where limits count, buses are as the base left them; one that would switch is for Newton.
	if err := s.specify(o.in); err != nil {
		return false
	}
	copy(s.held, o.held)
	copy(s.qs, o.qs)
	for b, h := range s.held {
		if h != 0 {
			s.kind[b] = network.PQ
		}
	}
	copy(s.vm, o.base.Vm)
	copy(s.va, o.base.Va)
	*out = Solution{Vm: out.Vm, Va: out.Va, Pg: out.Pg, Qg: out.Qg, AtLimit: out.AtLimit}
	copy(s.lu.data, o.data)
	copy(s.lu.inverse, o.inverse)
	s.evaluate()
	last, _ := s.mismatch()
	change, rows := o.change(branch)
	if len(rows) == 0 {
		return false
	}
	rhs := s.lu.rhs
	n := len(rhs)
	kept := slices.Clone(rhs)
	// small is I + C·EᵀJ⁻¹E, with C the change of the rows.
	var small [4][4]float64
	for c, row := range rows {
		clear(rhs)
		rhs[row] = 1
		s.lu.solve()
		copy(o.z[c*n:(c+1)*n], rhs)
	}
	for i := range rows {
		for j := range rows {
			v := 0.0
			for k, row := range rows {
				v += change[i][k] * o.z[j*n+row]
			}
			if i == j {
				v++
			}
			small[i][j] = v
		}
	}
	factors, ok := newSmall(small, len(rows))
	if !ok {
		return false
	}
	copy(rhs, kept)
	tolerance := o.opt.Tolerance
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	for range compensatedSteps {
		s.lu.solve()
		var y [4]float64
		for i := range rows {
			for k, row := range rows {
				y[i] += change[i][k] * rhs[row]
			}
		}
		factors.solve(&y)
		for c := range rows {
			z := o.z[c*n : (c+1)*n]
			for i := range rhs {
				rhs[i] -= y[c] * z[i]
			}
		}
		out.Iterations++
		s.step()
		s.evaluate()
		out.Mismatch, out.MismatchBus = s.mismatch()
		if out.Mismatch <= tolerance {
			out.Status = Converged
			return !o.opt.EnforceQ || !s.enforce(out)
		}
		if !(out.Mismatch < last/2) {
			return false
		}
		last = out.Mismatch
	}
	return false
}

// finish writes what a compensated solve ended with.
func (o *Outages) finish(out *Solution) {
	s := o.s
	copy(out.Vm, s.vm)
	copy(out.Va, s.va)
	copy(out.AtLimit, s.held)
	s.Share(o.in, s.p, s.q, out.Pg, out.Qg)
}

// change is what a branch's outage adds to the Jacobian at the base voltages, in the rows and
// columns of its buses, and their places.
func (o *Outages) change(branch int) (c [4][4]float64, rows []int) {
	s, y := o.s, o.s.admitting
	ends := [2]int{s.net.From[branch], s.net.To[branch]}
	var at [2]int
	for i, b := range ends {
		at[i] = -1
		if k := int(s.position[b]); k >= 0 {
			at[i] = len(rows)
			rows = append(rows, 2*k, 2*k+1)
		}
	}
	sin, cos := math.Sincos(o.base.Va[ends[0]] - o.base.Va[ends[1]])
	across := o.base.Vm[ends[0]] * o.base.Vm[ends[1]]
	own := [2][2]float64{{y.Gff[branch], y.Bff[branch]}, {y.Gtt[branch], y.Btt[branch]}}
	mutual := [2][2]float64{{y.Gft[branch], y.Bft[branch]}, {y.Gtf[branch], y.Btf[branch]}}
	for i, b := range ends {
		if at[i] < 0 {
			continue
		}
		v2 := o.base.Vm[b] * o.base.Vm[b]
		x, d := across*cos, across*sin
		if i == 1 {
			d = -d
		}
		h, n := mutual[i][0]*d-mutual[i][1]*x, mutual[i][0]*x+mutual[i][1]*d
		put := func(column int, block [4]float64) {
			if column < 0 {
				return
			}
			for r := range 2 {
				if r == 0 || s.kind[b] == network.PQ {
					c[at[i]+r][column], c[at[i]+r][column+1] = -block[2*r], -block[2*r+1]
				}
			}
		}
		put(at[i], [4]float64{-h, n + 2*v2*own[i][0], n, h - 2*v2*own[i][1]})
		put(at[1-i], [4]float64{h, n, -n, h})
	}
	return c, rows
}

// smallLU are the factors of a matrix of up to four rows, with pivots of its columns.
type smallLU struct {
	n   int
	a   [4][4]float64
	row [4]int
}

func newSmall(a [4][4]float64, n int) (*smallLU, bool) {
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

func (f *smallLU) solve(y *[4]float64) {
	var x [4]float64
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

// bridges says of every branch whether its buses hang together by it alone (R. E. Tarjan, Inf.
// Proc. Letters 2, 1974), without recursion.
func bridges(n *network.Network) []bool {
	near := make([][]int32, n.Buses())
	for k, from := range n.From {
		near[from] = append(near[from], int32(k))
		near[n.To[k]] = append(near[n.To[k]], int32(k))
	}
	found := make([]bool, n.Branches())
	seen, low := make([]int, n.Buses()), make([]int, n.Buses())
	next := 0
	type visit struct{ bus, by, at int }
	for root := range near {
		if seen[root] > 0 {
			continue
		}
		next++
		seen[root], low[root] = next, next
		stack := []visit{{root, -1, 0}}
		for len(stack) > 0 {
			v := &stack[len(stack)-1]
			if v.at < len(near[v.bus]) {
				k := int(near[v.bus][v.at])
				v.at++
				if k == v.by {
					continue
				}
				other := n.From[k] + n.To[k] - v.bus
				if seen[other] > 0 {
					low[v.bus] = min(low[v.bus], seen[other])
					continue
				}
				next++
				seen[other], low[other] = next, next
				stack = append(stack, visit{other, k, 0})
				continue
			}
			done := *v
			stack = stack[:len(stack)-1]
			if len(stack) > 0 {
				above := stack[len(stack)-1].bus
				low[above] = min(low[above], low[done.bus])
				found[done.by] = low[done.bus] > seen[above]
			}
		}
	}
	return found
}

// island lists the buses that a bridge's outage leaves without a reference.
func (o *Outages) island(branch int) []int32 {
	s, n := o.s, o.s.net
	for _, side := range []int{n.From[branch], n.To[branch]} {
		seen := map[int32]bool{int32(side): true}
		o.queue = append(o.queue[:0], int32(side))
		held := false
		for i := 0; i < len(o.queue); i++ {
			b := o.queue[i]
			held = held || n.Kind[b] == network.Slack
			for _, k := range s.near[b] {
				if int(k) == branch {
					continue
				}
				if other := int32(n.From[k] + n.To[k] - int(b)); !seen[other] {
					seen[other] = true
					o.queue = append(o.queue, other)
				}
			}
		}
		if !held {
			return slices.Clone(o.queue)
		}
	}
	return nil
}
