package powerflow

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Outages solves the power flow of a network without one of its branches or units at a time, each from the base
// solution. A branch's outage keeps the factors of the base Jacobian and corrects their solutions by the four rows
// that it changes (mid-compensation: O. Alsaç, B. Stott, W. F. Tinney, IEEE Trans. PAS-102, 1983). Buses that switch at
// a reactive limit, or lose their only unit, change a row each. Broyden's method corrects for the change of voltages since the
// base. Where that does not converge, Newton's method continues with its own factors. Either way a result is a power flow to the same tolerance as any
// other.
//
// It is not safe for concurrent use; take one for each goroutine, of a Clone.
type Outages struct {
	s       *Solver
	input   Input
	opt     Options
	base    *Solution
	atLimit []int8
	kinds   []network.Kind
	qs      []float64 // of the base, with enforced reactive limits

	data, inverse            []float64 // factors at the base solution
	p, q                     []float64 // injections of the base
	rows                     *rows
	v                        [][2]float64 // voltages of the base
	hasBaseFactors           bool         // the solver has the base's factors, kinds and injections
	lowerHalves, upperHalves []half       // the halves of the inverse base Jacobian at the changed rows, by position
	path                     []int32      // their positions that are not zero
	steps                    [][]float64
	lengths                  []float64 // squared, of these steps
	responses                *responses
	dead                     []bool // buses of islands without a reference
	bridges                  []bool
	queue                    [2][]int32 // buses on either side of a bridge
	visited                  []int
	stamp                    int
}

// Outage is one power flow without a branch or unit.
type Outage struct {
	Solution *Solution // owned by Outages until the next call
	// Islanded lists the buses left without a reference. They are dead, and the solution is of the rest.
	Islanded []int32
	// Compensated says that the base factors served, Lanes that it was solved next to others in the lanes of vectors.
	Compensated, Lanes bool
	// Balance says that no unit takes up the balance: the only one at a reference is out.
	Balance bool
}

const (
	// sameBase is the largest difference (pu and radian) of a base from its own solution that counts as equal. The
	// error of a solve to DefaultTolerance is far smaller. A looser tolerance widens it to sameBaseTolerances times
	// that.
	sameBase           = 1e-6
	sameBaseTolerances = 1e3
)

// NewOutages takes the base: an input, options (Start is not used) and their converged solution of this solver. It
// solves the base again from its voltages. If that ends elsewhere, because base belongs to another input or other
// options, the outages start from the new solution: Base returns it. A base without a solution is an error.
func (s *Solver) NewOutages(input Input, opt Options, base *Solution) (*Outages, error) {
	// A unit's outage changes these, which clones share.
	s.gensAt, s.qlo, s.qhi = slices.Clone(s.gensAt), slices.Clone(s.qlo), slices.Clone(s.qhi)
	o := &Outages{s: s, input: input, opt: opt, base: base, dead: make([]bool, s.net.Buses()), visited: make([]int, s.net.Buses())}
	o.opt.Start = FromSolution
	sol := s.NewSolution()
	copy(sol.Vm, base.Vm)
	copy(sol.Va, base.Va)
	if err := s.Solve(input, o.opt, sol); err != nil {
		return nil, err
	}
	if !sol.Converged() {
		return nil, fmt.Errorf("powerflow: the base case, without any outage, has no solution with these options: %s", s.Reason(sol))
	}
	if sol.distance(base) > max(sameBase, sameBaseTolerances*opt.Tolerance) {
		o.base = sol
	}
	s.evaluate()
	s.jacobian()
	if !s.lu.factorise() {
		s.lu.data[0] = math.NaN() // compensation fails, and each outage factors
	}
	o.atLimit, o.kinds, o.qs = slices.Clone(s.atLimit), slices.Clone(s.kind), slices.Clone(s.qs)
	o.responses = s.newResponses()
	o.data, o.inverse = slices.Clone(s.lu.data), slices.Clone(s.lu.inverse)
	o.rows = s.newRows()
	o.rows.start(s)
	o.v = slices.Clone(o.rows.v)
	o.p, o.q = slices.Clone(s.p), slices.Clone(s.q)
	o.lowerHalves, o.upperHalves = make([]half, s.lu.n), make([]half, s.lu.n)
	o.bridges = s.net.Bridges()
	return o, nil
}

// distance is the largest difference of two solutions' voltages, pu or radian; +Inf where other buses are at a
// limit.
func (s *Solution) distance(from *Solution) float64 {
	if !slices.Equal(s.AtLimit, from.AtLimit) {
		return math.Inf(1)
	}
	largest := 0.0
	for b, vm := range s.Vm {
		largest = max(largest, math.Abs(vm-from.Vm[b]), math.Abs(s.Va[b]-from.Va[b]))
	}
	return largest
}

// Network is the network with the kinds of buses of the base: PQ at a reactive limit.
func (o *Outages) Network() *network.Network {
	n := *o.s.net
	n.Kind = slices.Clone(n.Kind)
	for b, h := range o.atLimit {
		if h != 0 {
			n.Kind[b] = network.PQ
		}
	}
	return &n
}

// Specified are the injections by bus of the outages' power flows, generation minus load, pu.
func (o *Outages) Specified() (p, q []float64) {
	o.restoreBase()
	return slices.Clone(o.s.ps), slices.Clone(o.s.qs)
}

// Base is the solution that outages start from. Do not change it.
func (o *Outages) Base() *Solution { return o.base }

// Options are the options of the power flows.
func (o *Outages) Options() Options { return o.opt }

// Products is the number of block products of a factorisation of the Jacobian.
func (o *Outages) Products() int { return len(o.s.lu.target) }

// Bridge says whether a branch's outage leaves an island.
func (o *Outages) Bridge(branch int) bool { return o.bridges[branch] }

// Adopt writes a power flow of a branch outage that was found elsewhere: voltages and injections by bus, balanced to
// a mismatch. It returns false, with out undefined, where that exceeds enforced reactive limits.
func (o *Outages) Adopt(vm, va, p, q []float64, mismatch float64, out *Solution) bool {
	s := o.s
	if !o.restoreBase() {
		return false
	}
	copy(s.vm, vm)
	copy(s.va, va)
	copy(s.p, p)
	copy(s.q, q)
	s.resize(out)
	*out = Solution{Vm: out.Vm, Va: out.Va, Pg: out.Pg, Qg: out.Qg, AtLimit: out.AtLimit, Mismatch: mismatch}
	if !o.accept(out, mismatch) {
		return false
	}
	o.finish(out)
	return true
}

// Branch is the power flow without a branch in service; out is written.
func (o *Outages) Branch(branch int, out *Solution) (Outage, error) {
	return o.branch(branch, nil, out)
}

// Attempt is the last iterate of Newton's method elsewhere, from the base without a branch. It found no power flow, or
// one beyond reactive limits.
type Attempt struct {
	Vm, Va []float64 // by bus
	Steps  int
	Solved bool
}

// Retry is Branch after an attempt of Newton's method. One that is solved is gone on with. Of another one compensation is
// tried, else the attempt is the result; with EnforceQ it is Branch.
func (o *Outages) Retry(branch int, attempt Attempt, out *Solution) (Outage, error) {
	if o.opt.EnforceQ && !attempt.Solved {
		return o.Branch(branch, out)
	}
	return o.branch(branch, &attempt, out)
}

func (o *Outages) branch(branch int, attempt *Attempt, out *Solution) (Outage, error) {
	s, n := o.s, o.s.net
	s.resize(out)
	from, to := n.From[branch], n.To[branch]
	y := s.admittance
	p := &s.pairs[s.pairOf[branch]]
	saved := *p
	gf, bf := s.gd[from], s.bd[from]
	gt, bt := s.gd[to], s.bd[to]
	s.gd[from] -= y.Gff[branch]
	s.bd[from] -= y.Bff[branch]
	s.gd[to] -= y.Gtt[branch]
	s.bd[to] -= y.Btt[branch]
	gij, bij := y.Gft[branch], y.Bft[branch]
	gji, bji := y.Gtf[branch], y.Btf[branch]
	if s.flipped[branch] {
		gij, gji = gji, gij
		bij, bji = bji, bij
	}
	p.gij, p.bij = p.gij-gij, p.bij-bij
	p.gji, p.bji = p.gji-gji, p.bji-bji
	if s.isSingle(branch) { // exact zeros
		p.gij, p.bij = 0, 0
		p.gji, p.bji = 0, 0
	}
	o.rows.set(s, s.pairOf[branch])
	defer func() {
		*p = saved
		o.rows.set(s, s.pairOf[branch])
		s.gd[to], s.bd[to] = gt, bt
		s.gd[from], s.bd[from] = gf, bf
	}()
	result := Outage{Solution: out}
	if o.bridges[branch] {
		result.Islanded = o.island(branch)
	}
	o.markIsland(result.Islanded)
	var start *Attempt
	if attempt != nil && attempt.Solved {
		start, attempt = attempt, nil
	}
	if o.compensate(branch, start, out) {
		result.Compensated = true
		o.finish(out)
		o.clearIsland(result.Islanded, out)
		return result, nil
	}
	if attempt != nil {
		copy(s.vm, attempt.Vm)
		copy(s.va, attempt.Va)
		s.evaluate()
		out.Iterations, out.Status = attempt.Steps, IterationLimit
		if out.Mismatch, out.MismatchBus = s.mismatch(0); !(out.Mismatch < Hopeless) {
			out.Status = Diverged
		}
		o.finish(out)
		return result, nil
	}
	err := o.newton(o.input, out)
	o.clearIsland(result.Islanded, out)
	return result, err
}

// isSingle says whether a branch is the only one between its buses.
func (s *Solver) isSingle(branch int) bool {
	for _, k := range s.branchesAt[s.net.From[branch]] {
		if int(k) != branch && s.pairOf[k] == s.pairOf[branch] {
			return false
		}
	}
	return true
}

// Unit is the power flow without a unit. The reference takes up its power, and a bus without another unit becomes
// PQ.
func (o *Outages) Unit(unit int, out *Solution) (Outage, error) {
	s, n := o.s, o.s.net
	s.resize(out)
	bus := n.GenBus[unit]
	result := Outage{Solution: out}
	gens := s.gensAt[bus]
	if n.Kind[bus] == network.Slack && int(gens[0]) == unit && (len(gens) == 1 || s.terminal[gens[1]]) {
		result.Balance = true
		*out = Solution{Status: Singular, Vm: out.Vm, Va: out.Va, Pg: out.Pg, Qg: out.Qg, AtLimit: out.AtLimit}
		return result, nil
	}
	restored, power := o.restoreBase(), pick(o.input.Pg, n.Pg0)
	input := o.input
	input.Pg = slices.Clone(power)
	input.Pg[unit] = 0
	index := slices.Index(gens, int32(unit))
	s.gensAt[bus] = slices.Delete(slices.Clone(gens), index, index+1)
	lo, hi := s.qlo[bus], s.qhi[bus]
	s.qlo[bus], s.qhi[bus] = 0, 0
	for _, g := range s.gensAt[bus] {
		s.qlo[bus] += n.QMin[g]
		s.qhi[bus] += n.QMax[g]
	}
	s.outUnit = unit
	defer func() {
		s.gensAt[bus], s.qlo[bus] = gens, lo
		s.qhi[bus], s.outUnit = hi, -1
	}()
	var err error
	if result.Compensated = restored && o.compensateUnit(unit, power[unit], out); result.Compensated {
		o.finish(out)
	} else {
		err = o.newton(input, out)
	}
	out.Pg[unit], out.Qg[unit] = 0, 0
	return result, err
}

// Supplied is an outage that leaves the buses of mask without a reference, with another one for them. That is the bus with
// the largest sum of P_max, at the base's angle. It is −1 where none of them has a unit.
func (o *Outages) Supplied(branch, unit int, mask []bool, out *Solution) (result Outage, reference int, err error) {
	n, power := *o.s.net, make([]float64, o.s.net.Buses())
	for g, b := range n.GenBus {
		if !o.s.terminal[g] {
			power[b] += n.PMax[g]
		}
	}
	reference = -1
	for g, b := range n.GenBus {
		if g != unit && !o.s.terminal[g] && mask[b] && (reference < 0 || power[b] > power[reference]) {
			reference = b
		}
	}
	if reference < 0 {
		return result, reference, nil
	}
	n.Kind, n.Va0, n.References = slices.Clone(n.Kind), slices.Clone(n.Va0), slices.Clone(n.References)
	if unit >= 0 { // at the reference that is lost, which holds its voltage in the base
		n.References = slices.DeleteFunc(n.References, func(r int) bool { return r == n.GenBus[unit] })
		n.Kind[n.GenBus[unit]] = network.PV
	}
	n.Kind[reference], n.Va0[reference], n.References = network.Slack, o.base.Va[reference], append(n.References, reference)
	n.Slack = n.References[0]
	s, err := New(&n)
	if err != nil {
		return result, reference, err
	}
	input := o.input
	input.Pg = o.base.Pg
	outages, err := s.NewOutages(input, o.opt, o.base)
	if err != nil {
		return result, reference, err
	}
	if unit >= 0 {
		result, err = outages.Unit(unit, out)
	} else {
		result, err = outages.Branch(branch, out)
	}
	return result, reference, err
}

// markIsland marks the buses of an island, whose balances later solves ignore.
func (o *Outages) markIsland(islanded []int32) {
	for _, b := range islanded {
		o.dead[b] = true
	}
	if o.s.dead = nil; len(islanded) > 0 {
		o.s.dead = o.dead
	}
}

// clearIsland clears these marks and the island's part of the solution.
func (o *Outages) clearIsland(islanded []int32, out *Solution) {
	o.s.dead = nil
	for _, b := range islanded {
		o.dead[b] = false
		out.Vm[b], out.Va[b] = 0, 0
		for _, g := range o.s.gensAt[b] {
			out.Pg[g], out.Qg[g] = 0, 0
		}
	}
}

// newton solves from the base voltages with new factors.
func (o *Outages) newton(input Input, out *Solution) error {
	o.hasBaseFactors = false
	copy(out.Vm, o.base.Vm)
	copy(out.Va, o.base.Va)
	return o.s.Solve(input, o.opt, out)
}

// island lists the buses that a bridge's outage leaves without a reference. The search grows both sides in turn, so
// that a small side costs little.
func (o *Outages) island(branch int) []int32 {
	s, n := o.s, o.s.net
	o.stamp++
	ends := [2]int{n.From[branch], n.To[branch]}
	hasReference := [2]bool{}
	for side, b := range ends {
		o.queue[side] = append(o.queue[side][:0], int32(b))
		o.visited[b] = o.stamp
		hasReference[side] = n.Kind[b] == network.Slack
	}
	next, complete := [2]int{}, [2]bool{}
	for !complete[0] || !complete[1] {
		for side := range ends {
			if next[side] == len(o.queue[side]) {
				complete[side] = true
				if !hasReference[side] {
					return slices.Clone(o.queue[side])
				}
				continue
			}
			b := o.queue[side][next[side]]
			next[side]++
			for _, k := range s.branchesAt[b] {
				neighbour := int32(n.From[k] + n.To[k] - int(b))
				if int(k) == branch || o.visited[neighbour] == o.stamp {
					continue
				}
				o.visited[neighbour] = o.stamp
				o.queue[side] = append(o.queue[side], neighbour)
				hasReference[side] = hasReference[side] || n.Kind[neighbour] == network.Slack
			}
		}
	}
	return nil
}
