package powerflow

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Outages solves the power flow of a network without one of its branches or units at a time,
// each from the base solution. A branch's outage keeps the factors of the base Jacobian and
// corrects their solutions by the four rows that it changes (mid-compensation: O. Alsaç, B. Stott,
// W. F. Tinney, IEEE Trans. PAS-102, 1983). Broyden's method makes up for the voltages that have changed
// since the base. Where that does not converge, and for everything
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
	e, f, p, q    []float64 // voltages and injections there
	present       bool      // the solver has these factors, and kinds and injections of the base
	left, right   []half    // the halves of the inverse base Jacobian at the changed rows, by position
	path          []int32   // where they are not zero
	steps         [][]float64
	lengths       []float64 // squared, of these steps
	out           []bool    // buses of islands without a reference
	bridges       []bool
	queue         [2][]int32 // buses on either side of a bridge
	seen          []int
	stamp         int
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

// sameBase is how far a base may lie from its own solution, pu and radian, and still be taken for it: well above what a
// solve to DefaultTolerance leaves. To a looser tolerance it is sameBaseTolerances times that.
const (
	sameBase           = 1e-6
	sameBaseTolerances = 1e3
)

// NewOutages takes the base: an input, options (Start is not used) and their converged solution
// of this solver. It is solved again from its voltages, and where that ends elsewhere, because base is of another input or of
// other options, the outages start from what was found: Base gives it. A base without a solution is an error.
func (s *Solver) NewOutages(in Input, opt Options, base *Solution) (*Outages, error) {
	// A unit's outage changes these, which clones share.
	s.gensAt, s.qlo, s.qhi = slices.Clone(s.gensAt), slices.Clone(s.qlo), slices.Clone(s.qhi)
	o := &Outages{s: s, in: in, opt: opt, base: base, out: make([]bool, s.net.Buses()), seen: make([]int, s.net.Buses())}
	o.opt.Start = Given
	sol := s.NewSolution()
	copy(sol.Vm, base.Vm)
	copy(sol.Va, base.Va)
	if err := s.Solve(in, o.opt, sol); err != nil {
		return nil, err
	}
	if !sol.Converged() {
		return nil, fmt.Errorf("powerflow: the base case, without any outage, has no solution with these options: %s", s.Reason(sol))
	}
	if sol.apart(base) > max(sameBase, sameBaseTolerances*opt.Tolerance) {
		o.base = sol
	}
	s.evaluate()
	s.jacobian()
	if !s.lu.factorise() {
		s.lu.data[0] = math.NaN() // no compensation comes to anything, and each outage factors
	}
	o.held, o.qs = slices.Clone(s.held), slices.Clone(s.qs)
	o.data, o.inverse = slices.Clone(s.lu.data), slices.Clone(s.lu.inverse)
	o.e, o.f, o.p, o.q = slices.Clone(s.e), slices.Clone(s.f), slices.Clone(s.p), slices.Clone(s.q)
	o.left, o.right = make([]half, s.lu.n), make([]half, s.lu.n)
	o.bridges = s.net.Bridges()
	return o, nil
}

// apart is the largest difference of two solutions' voltages, pu or radian; +Inf where other buses are held at a limit.
func (s *Solution) apart(from *Solution) float64 {
	if !slices.Equal(s.AtLimit, from.AtLimit) {
		return math.Inf(1)
	}
	most := 0.0
	for b, vm := range s.Vm {
		most = max(most, math.Abs(vm-from.Vm[b]), math.Abs(s.Va[b]-from.Va[b]))
	}
	return most
}

// Network is the network with buses of the kinds that the base left them: PQ where its reactive
// power is held. Specified are the injections by bus that its power flows have, pu.
func (o *Outages) Network() *network.Network {
	n := *o.s.net
	n.Kind = slices.Clone(n.Kind)
	for b, h := range o.held {
		if h != 0 {
			n.Kind[b] = network.PQ
		}
	}
	return &n
}

// Specified are the injections by bus of the outages' power flows, generation less load, pu.
func (o *Outages) Specified() (p, q []float64) {
	o.ready()
	return slices.Clone(o.s.ps), slices.Clone(o.s.qs)
}

// Base is the solution that outages start from; it is not to be changed.
func (o *Outages) Base() *Solution { return o.base }

// Options are those of its power flows.
func (o *Outages) Options() Options { return o.opt }

// Products is how many products of blocks a factorisation of its Jacobian takes.
func (o *Outages) Products() int { return len(o.s.lu.target) }

// Bridge says whether a branch's outage leaves an island.
func (o *Outages) Bridge(branch int) bool { return o.bridges[branch] }

// Take writes a power flow of an outage of a branch that was found elsewhere: voltages and
// injections by bus, balanced to a mismatch. It says whether that keeps the reactive limits, if they count; where it does not
// out is not to be used.
func (o *Outages) Take(vm, va, p, q []float64, mismatch float64, out *Solution) bool {
	s := o.s
	if !o.ready() {
		return false
	}
	copy(s.vm, vm)
	copy(s.va, va)
	copy(s.p, p)
	copy(s.q, q)
	s.fit(out)
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

// Tried is where Newton's method, which went elsewhere from the base without a branch, ended without a power flow.
type Tried struct {
	Vm, Va []float64 // by bus
	Steps  int
}

// Retry is Branch where Newton's method is tried already: what compensation finds counts, else that trial. Where reactive limits
// count it is Branch.
func (o *Outages) Retry(branch int, tried Tried, out *Solution) (Outage, error) {
	if o.opt.EnforceQ {
		return o.Branch(branch, out)
	}
	return o.branch(branch, &tried, out)
}

func (o *Outages) branch(branch int, tried *Tried, out *Solution) (Outage, error) {
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
	o.kill(result.Islanded)
	if o.compensate(branch, out) {
		result.Compensated = true
		o.finish(out)
		o.bury(result.Islanded, out)
		return result, nil
	}
	if tried != nil {
		copy(s.vm, tried.Vm)
		copy(s.va, tried.Va)
		s.evaluate()
		out.Iterations, out.Status = tried.Steps, IterationLimit
		if out.Mismatch, out.MismatchBus = s.mismatch(); !(out.Mismatch < Hopeless) {
			out.Status = Diverged
		}
		o.finish(out)
		return result, nil
	}
	err := o.newton(o.in, out)
	o.bury(result.Islanded, out)
	return result, err
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
	err := o.newton(in, out)
	out.Pg[unit], out.Qg[unit] = 0, 0
	return result, err
}

// kill marks the buses of an island, whose balances no solve looks at from then on.
func (o *Outages) kill(islanded []int32) {
	for _, b := range islanded {
		o.out[b] = true
	}
	if o.s.dead = nil; len(islanded) > 0 {
		o.s.dead = o.out
	}
}

// bury takes these marks away; in the solution nothing is left of the island.
func (o *Outages) bury(islanded []int32, out *Solution) {
	o.s.dead = nil
	for _, b := range islanded {
		o.out[b] = false
		out.Vm[b], out.Va[b] = 0, 0
		for _, g := range o.s.gensAt[b] {
			out.Pg[g], out.Qg[g] = 0, 0
		}
	}
}

// newton solves from the base voltages with factors of its own.
func (o *Outages) newton(in Input, out *Solution) error {
	o.present = false
	copy(out.Vm, o.base.Vm)
	copy(out.Va, o.base.Va)
	return o.s.Solve(in, o.opt, out)
}

// island lists the buses that a bridge's outage leaves without a reference. Both sides grow in turn,
// so that a small one costs little.
func (o *Outages) island(branch int) []int32 {
	s, n := o.s, o.s.net
	o.stamp++
	ends := [2]int{n.From[branch], n.To[branch]}
	held := [2]bool{}
	for side, b := range ends {
		o.queue[side] = append(o.queue[side][:0], int32(b))
		o.seen[b] = o.stamp
		held[side] = n.Kind[b] == network.Slack
	}
	at, whole := [2]int{}, [2]bool{}
	for !whole[0] || !whole[1] {
		for side := range ends {
			if at[side] == len(o.queue[side]) {
				whole[side] = true
				if !held[side] {
					return slices.Clone(o.queue[side])
				}
				continue
			}
			b := o.queue[side][at[side]]
			at[side]++
			for _, k := range s.near[b] {
				other := int32(n.From[k] + n.To[k] - int(b))
				if int(k) == branch || o.seen[other] == o.stamp {
					continue
				}
				o.seen[other] = o.stamp
				o.queue[side] = append(o.queue[side], other)
				held[side] = held[side] || n.Kind[other] == network.Slack
			}
		}
	}
	return nil
}
