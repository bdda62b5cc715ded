package powerflow

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Outages solves the power flow of a network without some of its branches and units at a time, each from the base
// solution. An outage of up to two branches keeps the factors of the base Jacobian and corrects their solutions by the four rows
// that each changes (mid-compensation: O. Alsaç, B. Stott, W. F. Tinney, IEEE Trans. PAS-102, 1983). Buses that switch at
// a reactive limit, or lose their only unit, change a row each. Broyden's method corrects for the change of voltages since the
// base. Where that does not converge, Newton's method continues with its own factors. Either way a result is a power flow to the same tolerance as any
// other.
//
// The solver serves it alone. It is not safe for concurrent use; take one for each goroutine, of a Clone.
type Outages struct {
	s       *Solver
	input   Input
	opt     Options
	base    *Solution
	atLimit []int8
	kinds   []network.Kind
	ps, qs  []float64 // of the base, with enforced reactive limits

	data, inverseBlocks []float64 // factors at the base solution; nil while the solver has no others
	p, q                []float64 // injections of the base
	rows                *rows
	v                   [][2]float64 // voltages of the base
	hasBaseFactors      bool         // the solver has the base's factors, kinds and injections
	*correction
	steps     [][]float64
	lengths   []float64 // squared, of these steps
	responses *responses
	batch     *batch              // nil until Ahead
	dead      []bool              // buses of islands without a reference
	sides     [][]int             // of bridges, without the reference
	supplied  map[string]*Outages // of other references
}

// Outage is one power flow without branches or units.
type Outage struct {
	Solution *Solution // owned by Outages until the next call
	// V are its voltages in rectangular form, by bus, owned likewise; nil without Solution's.
	V [][2]float64
	// Islanded lists the buses left without a reference. They are dead, and the solution is of the rest.
	Islanded []int
	// Compensated says that the base factors served.
	Compensated bool
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
	o := &Outages{s: s, input: input, opt: opt, base: base, dead: make([]bool, s.net.Buses())}
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
	s.jacobian() // at the voltages that Solve has evaluated last
	if !s.lu.factorise() {
		s.lu.data[0] = math.NaN() // compensation fails, and each outage factors
	}
	o.atLimit, o.kinds = slices.Clone(s.atLimit), slices.Clone(s.kind)
	o.ps, o.qs = slices.Clone(s.ps), slices.Clone(s.qs)
	o.responses = &responses{}
	o.hasBaseFactors = true
	o.rows = s.newRows()
	s.rows = o.rows
	o.v = slices.Clone(o.rows.v)
	o.p, o.q = slices.Clone(s.p), slices.Clone(s.q)
	o.correction = &correction{}
	o.supplied = map[string]*Outages{}
	o.sides = s.sides()
	return o, nil
}

// distance is the largest difference of two solutions' voltages, pu or radian; +Inf where other buses are at a
// limit.
func (s *Solution) distance(other *Solution) float64 {
	if !slices.Equal(s.AtLimit, other.AtLimit) {
		return math.Inf(1)
	}
	largest := 0.0
	for b, vm := range s.Vm {
		largest = max(largest, math.Abs(vm-other.Vm[b]), math.Abs(s.Va[b]-other.Va[b]))
	}
	return largest
}

// Base is the solution that outages start from. Do not change it.
func (o *Outages) Base() *Solution { return o.base }

// Bridge says whether a branch's outage leaves an island.
func (o *Outages) Bridge(branch int) bool { return o.sides[branch] != nil }

// Branch is the power flow without a branch in service; out is written.
func (o *Outages) Branch(branch int, out *Solution) (Outage, error) {
	dark := o.cutOff(branch)
	if o.batched(branchOutages, branch, out) {
		return Outage{Solution: out, Islanded: dark, Compensated: true, V: o.rows.v}, nil
	}
	return o.Without([]int{branch}, nil, dark, out)
}

// Unit is the power flow without a unit. The reference takes up its power, and a bus without another unit becomes
// PQ.
func (o *Outages) Unit(unit int, out *Solution) (Outage, error) {
	s, n := o.s, o.s.net
	gens := s.gensAt[n.GenBus[unit]]
	if n.Kind[n.GenBus[unit]] == network.Slack && int(gens[0]) == unit && (len(gens) == 1 || s.terminal[gens[1]]) {
		s.reset(out)
		out.Status = Singular
		return Outage{Solution: out, Balance: true}, nil
	}
	if o.batched(unitOutages, unit, out) {
		return Outage{Solution: out, Compensated: true, V: o.rows.v}, nil
	}
	return o.Without(nil, []int{unit}, nil, out)
}

// Without is the power flow without branches and units, which leave each reference a unit. Buses that are cut off from all
// references are dark.
func (o *Outages) Without(branches, units []int, dark []int, out *Solution) (result Outage, err error) {
	s := o.s
	s.reset(out)
	o.restoreBase()
	copy(s.vm, o.base.Vm)
	copy(s.va, o.base.Va)
	copy(o.rows.v, o.v)
	o.lengths = o.lengths[:0]
	o.respond(len(units) > 0)
	defer s.open(branches)()
	input, compatible, restore := o.takeOut(units)
	defer restore()
	o.markIsland(dark)
	result = Outage{Solution: out, Islanded: dark}
	if result.Compensated = compatible && len(branches) <= maxOut && o.compensate(branches, out); result.Compensated {
		o.finish(out)
	} else {
		if o.hasBaseFactors = false; o.data == nil {
			o.data, o.inverseBlocks = slices.Clone(s.lu.data), slices.Clone(s.lu.inverse)
		}
		copy(out.Vm, o.base.Vm)
		copy(out.Va, o.base.Va)
		err = s.Solve(input, o.opt, out)
	}
	if o.clearIsland(dark, out); result.Compensated {
		result.V = o.rows.v
	} else {
		result.V = Rectangular(out.Vm, out.Va)
	}
	for _, unit := range units {
		out.Pg[unit], out.Qg[unit] = 0, 0
	}
	return result, err
}

// respond has no branch out and nothing switched, and the changes of rows where buses may switch. The solver has the base's state.
func (o *Outages) respond(released bool) {
	o.count = 0
	if o.reset(); o.responses.number == nil && (o.opt.EnforceQ || released) {
		o.responses = o.newResponses()
	}
}

// takeOut takes units out of the base, and returns the input without them and what puts them back. compatible says whether the
// base's factors serve.
func (o *Outages) takeOut(units []int) (input Input, compatible bool, restore func()) {
	s, n := o.s, o.s.net
	input = o.input
	if len(units) == 0 {
		return input, true, func() {}
	}
	power, vg, qd := pick(input.Pg, n.Pg0), pick(input.Vg, n.Vg), pick(input.Qd, n.Qd)
	restore = s.takeOut(units)
	compatible, input.Pg = true, slices.Clone(power)
	for _, unit := range units {
		b := n.GenBus[unit]
		input.Pg[unit] = 0
		s.ps[b] -= power[unit]
		switch gens := s.gensAt[b]; {
		case n.Kind[b] == network.PQ:
			s.qs[b] -= n.Qg0[unit]
		case len(gens) == 0:
			s.kind[b], s.atLimit[b], s.qs[b] = network.PQ, 0, -qd[b]
		case vg[gens[len(gens)-1]] != s.vset[b]:
			compatible = false // another voltage
		case s.atLimit[b] > 0:
			s.qs[b] = s.qhi[b] - qd[b]
		case s.atLimit[b] < 0:
			s.qs[b] = s.qlo[b] - qd[b]
		}
	}
	return input, compatible, restore
}

// suppliedNumbers bounds the numbers that Supplied keeps.
const suppliedNumbers = 1 << 21

// Supplied are the outages of the same base with other references: without former ones, and with further ones at the
// base's angle. They are owned by o.
func (o *Outages) Supplied(former, further []int) (*Outages, error) {
	key := fmt.Sprint(former, further)
	if y := o.supplied[key]; y != nil {
		return y, nil
	}
	n := *o.s.net
	n.Kind, n.Va0 = slices.Clone(n.Kind), slices.Clone(n.Va0)
	n.References = slices.DeleteFunc(slices.Clone(n.References), func(r int) bool { return slices.Contains(former, r) })
	for _, r := range former { // which hold their voltage in the base
		n.Kind[r] = network.PV
	}
	for _, r := range further {
		n.Kind[r], n.Va0[r], n.References = network.Slack, o.base.Va[r], append(n.References, r)
	}
	n.Slack = n.References[0]
	s, err := o.s, error(nil)
	if len(former) == 0 {
		s = s.Clone()
		s.net = &n
	} else if s, err = New(&n); err != nil { // former references are unknowns
		return nil, err
	}
	input := o.input
	input.Pg = o.base.Pg
	y, err := s.NewOutages(input, o.opt, o.base)
	if err != nil {
		return nil, err
	}
	if len(former) == 0 {
		y.correction = o.correction // which one of them uses at a time
	}
	if (len(o.supplied)+1)*len(o.s.lu.data) > suppliedNumbers {
		clear(o.supplied)
	}
	o.supplied[key] = y
	return y, nil
}

// markIsland marks the buses of an island, whose balances later solves ignore.
func (o *Outages) markIsland(islanded []int) {
	for _, b := range islanded {
		o.dead[b] = true
	}
	if o.s.dead = nil; len(islanded) > 0 {
		o.s.dead = o.dead
	}
}

// unmarkIsland clears these marks.
func (o *Outages) unmarkIsland(islanded []int) {
	o.s.dead = nil
	for _, b := range islanded {
		o.dead[b] = false
	}
}

// clearIsland clears them and the island's part of the solution.
func (o *Outages) clearIsland(islanded []int, out *Solution) {
	o.unmarkIsland(islanded)
	for _, b := range islanded {
		out.Vm[b], out.Va[b], o.rows.v[b] = 0, 0, [2]float64{}
		for _, g := range o.s.gensAt[b] {
			out.Pg[g], out.Qg[g] = 0, 0
		}
	}
}

// cutOff are the buses that a branch's outage leaves without a reference.
func (o *Outages) cutOff(branch int) []int {
	if slices.ContainsFunc(o.sides[branch], func(b int) bool { return o.s.net.Kind[b] == network.Slack }) {
		return nil
	}
	return o.sides[branch]
}
