package secure

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
)

// Solver finds secure dispatches of one network. Several goroutines may call its methods at once.
type Solver struct {
	net     *network.Network
	sys     *system
	outages []Outage
	plain   *acopf.Solver
}

// Result is a dispatch with its checks. It owns its slices.
type Result struct {
	Status Status
	Reason string // why it is not Secure; ""
	// Objective is the file's cost of the dispatch, $/h. Plain is that of the optimum without outages.
	Objective, Plain float64
	// J are package acopf's objectives; the last is the file's cost.
	J      [3]float64
	Vm, Va []float64 // before any outage, one a bus, pu and rad
	Pg, Qg []float64 // one a unit, pu
	// LambdaP and LambdaQ are the objective's derivatives by the load of each bus, per pu, summed over the
	// remembered states.
	LambdaP, LambdaQ []float64
	// Remembered are the outages in the optimisation, in the order they were added.
	Remembered []Outage
	// Before are the checks of the first dispatch: the plain optimum or the earlier result. After are those of the
	// result. Both are in the order of the solver's outages.
	Before, After []*Check
	Rounds        int
	Iterations    int // of the interior point, in all rounds, without those of the plain optimum
	KKT           KKT

	// Relaxations are the limits after an outage that the dispatch violates; empty where it is secure.
	Relaxations []Relaxation

	states []*state
	sys    *system
	plain  acopf.Result
}

// New analyses a network and its outages.
func New(n *network.Network, opt Options) (*Solver, error) {
	if err := cmp.Or(n.RequireCosts(), n.RequireRectangles(), n.RequireFreeDelivery()); err != nil {
		return nil, err
	}
	constantFactor, _, err := n.PowerFactors(opt.Dispatchable)
	if err != nil {
		return nil, err
	}
	for _, f := range constantFactor {
		return nil, fmt.Errorf("network %s, generator %d at bus %d is a load of constant power factor, which a secure optimal power flow does not take: read as plain its P and Q are free", n.Name, n.GenRow[f.Gen]+1, n.BusID[n.GenBus[f.Gen]])
	}
	if err := opt.check(n); err != nil {
		return nil, err
	}
	if opt.Outages == nil {
		opt.Outages = append(Branches(n), Units(n)...)
	}
	s := &Solver{net: n}
	bridges := n.Bridges()
	for _, o := range opt.Outages {
		if s.outages = append(s.outages, o); o.Branch >= 0 && bridges[o.Branch] {
			s.outages = append(s.outages, Outage{o.Branch, -1, true})
		}
	}
	opt.Outages = s.outages
	if s.sys, err = newSystem(n, opt.withDefaults()); err != nil {
		return nil, err
	}
	s.plain, err = acopf.New(n, acopf.Options{Threads: s.sys.opt.Threads, Dispatchable: opt.Dispatchable})
	return s, err
}

// Outages are those that a dispatch has to survive. A branch that splits an island is there for each of the parts.
func (s *Solver) Outages() []Outage { return s.outages }

// Shares are the participation factors by unit, which sum to one in each island.
func (s *Solver) Shares() []float64 { return s.sys.share }

// Check solves the power flow of every outage at a dispatch, from the voltages before: loads by bus and powers by
// unit in pu. The voltages of buses with units are the set-points.
func (s *Solver) Check(ctx context.Context, pd, qd, pg, vm, va []float64) ([]*Check, error) {
	n := s.net
	for _, v := range []struct {
		name string
		v    []float64
		n    int
	}{{"loads P", pd, n.Buses()}, {"loads Q", qd, n.Buses()}, {"powers", pg, n.Gens()}, {"magnitudes", vm, n.Buses()}, {"angles", va, n.Buses()}} {
		if len(v.v) != v.n {
			return nil, fmt.Errorf("secure: %d %s to check, want %d", len(v.v), v.name, v.n)
		}
	}
	checks := make([]*Check, len(s.outages))
	return checks, s.checkScalar(ctx, pd, qd, pg, vm, va, nil, earlierChecks{}, checks)
}

// A round of constraint generation adds at most outagesPerRound outages. A second one for the same limit joins only
// up to outagesPerVector in all, the lanes of one vector: empty lanes cost the same.
const outagesPerRound, outagesPerVector = 24, 8

// Solve finds the cheapest dispatch that survives every outage. Without a start it begins at the plain optimum. The
// error is for bad input or the context's end.
func (s *Solver) Solve(ctx context.Context, pr Problem) (*Result, error) {
	n := s.net
	pd, qd := n.Pd, n.Qd
	if pr.Pd != nil {
		pd = pr.Pd
	}
	if pr.Qd != nil {
		qd = pr.Qd
	}
	r := &Result{}
	plain := make([]acopf.Result, 1)
	if err := pr.check(n); err != nil {
		return nil, err
	}
	baseProblem := acopf.Problem{Pd: pd, Qd: qd, Objective: pr.Objective, Previous: pr.Previous, Ramp: pr.Ramp}
	if pr.Start != nil && pr.Start.plain.Status == acopf.Optimal {
		baseProblem.Start = &pr.Start.plain
	}
	if err := s.plain.Solve(ctx, []acopf.Problem{baseProblem}, plain); err != nil {
		return nil, err
	}
	if plain[0].Status != acopf.Optimal {
		r.Status, r.Reason = Insecure, "without any outage: "+plain[0].Reason()
		return r, nil
	}
	r.Plain, r.plain = plain[0].Objective, plain[0]
	if r.Reason = s.capacityShortfall(pd); r.Reason != "" {
		r.Status = Insecure
		return r, nil
	}
	p := &interior{sys: s.sys, threads: s.sys.opt.Threads, trace: s.sys.opt.Trace}
	defer p.release()
	base := s.baseState(pr, pd, qd, &plain[0])
	p.states = []*state{base}
	var earlier earlierChecks
	if pr.Start != nil {
		earlier = earlierChecks{pr.Start.After, pr.Start.Vm, pr.Start.Va}
		if err := s.resume(p, r, pr.Start, pd, qd); err != nil {
			return nil, err
		}
		p.states[0].applyProblem(pr)
		status := s.solveModes(ctx, p, r, warmStart)
		if status == converged {
			_, status = s.improveModes(ctx, p, r)
		}
		if status != converged {
			return s.unsolved(ctx, p, r, status)
		}
	}
	return s.generate(ctx, p, r, pd, qd, earlier)
}

// generate adds violated outages until none is left, or until elastic slacks remain at the highest penalty.
func (s *Solver) generate(ctx context.Context, p *interior, r *Result, pd, qd []float64, earlier earlierChecks) (*Result, error) {
	for polished, relaxed := p.warm, false; ; {
		r.read(s, p.states[0])
		checks, err := s.checkOutages(ctx, pd, qd, r.Pg, r.Vm, r.Va, p.states, earlier)
		if err != nil {
			return r, err
		}
		r.After, earlier = checks, earlierChecks{checks, r.Vm, r.Va}
		if r.Before == nil {
			r.Before = checks
		}
		if relaxed {
			return r.conclude(s, p, checks), nil
		}
		added := s.add(p, r, checks, pd, qd)
		if added == 0 && polished {
			return r.conclude(s, p, checks), nil
		}
		if added > 0 && r.Rounds == s.sys.opt.Rounds {
			r.Status = IterationLimit
			r.Reason = fmt.Sprintf("after %d rounds %d outages still break limits that had not before", r.Rounds, added)
			return r, nil
		}
		r.Rounds++
		status, changed := converged, added > 0
		if polished = added == 0; !polished {
			status = s.optimise(ctx, p, r)
			relaxed = status == converged && len(p.relaxations()) > 0
		}
		if status == converged && (polished || relaxed) {
			changed, status = s.improveModes(ctx, p, r)
			relaxed = len(p.relaxations()) > 0
		}
		if status != converged {
			return s.unsolved(ctx, p, r, status)
		}
		if !changed && !relaxed { // the checked dispatch is the result
			r.Rounds--
			return r.conclude(s, p, checks), nil
		}
	}
}

// unsolved ends a solve whose interior point failed.
func (s *Solver) unsolved(ctx context.Context, p *interior, r *Result, status Status) (*Result, error) {
	r.Status, r.KKT = status, p.kkt
	r.explain(s, p)
	return r, ctx.Err()
}

// capacityShortfall names the outage that leaves less power than load to a part of the network; "" for none.
func (s *Solver) capacityShortfall(pd []float64) (reason string) {
	n, missing, terminals := s.net, 0.0, s.net.Terminals()
	for _, o := range s.outages {
		y, load, power := s.sys.part(o), 0.0, 0.0
		if o.Unit < 0 && s.sys.splits[o] == nil {
			continue
		}
		for b, p := range pd {
			if !y.excludes(b) {
				load += p
			}
		}
		for g, p := range n.PMax {
			if terminals[g] { // whose line may come from another part
				p = max(p, 0)
			}
			if g != o.Unit && !y.excludes(n.GenBus[g]) && (!terminals[g] || y.others != nil) {
				power += p
			}
		}
		if load-power > missing {
			missing = load - power
			reason = fmt.Sprintf("no dispatch survives the outage of %s: the other units give %.4g MW at most, the load is %.4g MW", o.name(n), power*n.BaseMVA, load*n.BaseMVA)
		}
	}
	return reason
}

// resume takes the states of an earlier result at other loads, without outages that have long been idle.
func (s *Solver) resume(p *interior, r *Result, start *Result, pd, qd []float64) error {
	if start.sys != s.sys || len(start.states) == 0 {
		return fmt.Errorf("secure: the start is not a result of this solver with its states")
	}
	p.states = nil
	for k, t := range start.states {
		if t.idle >= idleResults {
			continue
		}
		if k > 0 {
			r.Remembered = append(r.Remembered, start.Remembered[k-1])
		}
		c := t.clone()
		c.pd, c.qd = pd, qd
		if start.Status == Secure {
			c.elastic = nil // its balances hold
		}
		p.elastic = p.elastic || c.elastic != nil
		p.states = append(p.states, c)
	}
	p.warm = true
	return nil
}

// Tolerances of the interior point, package acopf's.
const (
	feasibility = 1e-9
	optimality  = 1e-8
)

// baseState is the base state at the plain optimum.
func (s *Solver) baseState(pr Problem, pd, qd []float64, plain *acopf.Result) *state {
	t := newState(s.sys, Outage{Branch: -1, Unit: -1}, false, pd, qd, nil)
	t.applyProblem(pr)
	for b, first := range t.bus {
		t.x[first+angleOffset], t.x[first+magnitudeOffset] = plain.Va[b], plain.Vm[b]
		t.x[first+activeDualOffset], t.x[first+reactiveDualOffset] = t.scale*plain.LambdaP[b], t.scale*plain.LambdaQ[b]
	}
	for g, k := range s.sys.setP {
		if k >= 0 {
			t.x[t.setPoints[k]] = plain.Pg[g]
		}
	}
	for k, y := range s.sys.groups {
		for _, g := range y.units {
			t.x[t.reactive[k]] += plain.Qg[g]
		}
		if y.fixed() {
			t.x[t.reactive[k]] = (y.lo + y.hi) / 2
		}
	}
	for k, y := range s.sys.levels {
		value, _, _ := y.At(t.x[t.levelPower[k]])
		t.x[t.level[k]] = t.costScale() * value
	}
	return t
}

// gradientScale is the largest scaled marginal cost, as in package acopf.
const gradientScale = 10

// add adds states for the worst outages that are not remembered. It returns the number of all that violate a limit.
func (s *Solver) add(p *interior, r *Result, checks []*Check, pd, qd []float64) (count int) {
	var worst []*Check
	for _, c := range checks {
		if c.Severity() > 0 && !slices.Contains(r.Remembered, c.Outage) {
			worst = append(worst, c)
		}
	}
	slices.SortStableFunc(worst, func(a, b *Check) int { return cmp.Compare(b.Severity(), a.Severity()) })
	p.unsolvedOutage = false
	for _, c := range selectOutages(worst) {
		p.unsolvedOutage = p.unsolvedOutage || !c.Solved
		t := newState(s.sys, c.Outage, true, pd, qd, nil)
		s.sys.initialise(t, p.states[0], c)
		if p.elastic {
			t.elastic = newElastic(t)
		}
		p.states = append(p.states, t)
		r.Remembered = append(r.Remembered, c.Outage)
	}
	return len(worst)
}

// selectOutages selects the outages of a round from the violated ones. These are all without a power flow, then the
// worst one for each limit, then the second worst. Most others keep a limit that these keep: on case118 82 of 100
// outages violate a limit at one of four buses.
func selectOutages(worst []*Check) (list []*Check) {
	type limit struct {
		kind    Kind
		element int
	}
	counts := map[limit]int{}
	for _, pass := range []struct{ earlier, limit int }{{0, outagesPerRound}, {1, outagesPerVector}} {
		for _, c := range worst {
			if len(list) >= pass.limit {
				break
			}
			if !c.Solved {
				if pass.earlier == 0 {
					list = append(list, c)
				}
				continue
			}
			key := limit{c.Violations[0].Kind, c.Violations[0].Element}
			if counts[key] == pass.earlier && !slices.Contains(list, c) {
				counts[key]++
				list = append(list, c)
			}
		}
	}
	return list
}

// initialise starts a state after an outage at its power flow. Without one it starts at the voltages before.
func (s *system) initialise(t, base *state, c *Check) {
	for b, first := range t.bus {
		source := base.bus[b]
		t.x[first+angleOffset], t.x[first+magnitudeOffset] = base.x[source+angleOffset], base.x[source+magnitudeOffset]
		if c.Solved {
			reference := c.va[t.part.reference] - base.x[base.bus[t.part.reference]+angleOffset]
			t.x[first+angleOffset], t.x[first+magnitudeOffset] = c.va[b]-reference, c.vm[b]
		}
	}
	for i, b := range s.genBuses {
		lo, hi := t.reactiveLimits(i)
		if lo > hi {
			continue
		}
		q := 0.0
		for k, y := range s.groups {
			if y.place == i {
				q += base.x[base.reactive[k]]
			}
		}
		if c.Solved {
			q = c.q[b]
		}
		t.x[t.reactive[i]] = q
		if c.Solved {
			if drop := base.x[base.bus[b]+magnitudeOffset] - c.vm[b]; math.Abs(drop) > reactiveSlack {
				t.x[t.reactive[i]] = q + dropUnit*drop
			}
		}
	}
	if c.Solved {
		t.x[t.delta] = c.Delta
	}
}

// read takes the dispatch from the base state.
func (r *Result) read(s *Solver, t *state) {
	n := s.net
	nb, ng := n.Buses(), n.Gens()
	r.Vm, r.Va = make([]float64, nb), make([]float64, nb)
	r.LambdaP, r.LambdaQ = make([]float64, nb), make([]float64, nb)
	r.Pg, r.Qg = make([]float64, ng), make([]float64, ng)
	for b, first := range t.bus {
		r.Va[b], r.Vm[b] = t.x[first+angleOffset], t.x[first+magnitudeOffset]
		r.LambdaP[b], r.LambdaQ[b] = t.x[first+activeDualOffset]/t.scale, t.x[first+reactiveDualOffset]/t.scale
	}
	r.Objective = 0
	for g := range r.Pg {
		r.Pg[g] = (n.PMin[g] + n.PMax[g]) / 2
		if k := s.sys.setP[g]; k >= 0 {
			r.Pg[g] = t.x[t.setPoints[k]]
		} else if d := s.sys.source[g]; d != nil {
			r.Pg[g] = (d.Loss1-1)*t.x[t.setPoints[s.sys.setP[d.From]]] - d.Loss0
		}
		value, _, _ := n.Cost[g].At(r.Pg[g])
		r.Objective += value
	}
	for k, y := range s.sys.groups {
		lo, hi, q := y.lo, y.hi, t.x[t.reactive[k]]
		for _, g := range y.units {
			switch {
			case !y.fixed() && finite(lo) && finite(hi):
				r.Qg[g] = n.QMin[g] + (q-lo)/(hi-lo)*(n.QMax[g]-n.QMin[g])
			default:
				r.Qg[g] = q / float64(len(y.units))
			}
		}
		value, _, _ := y.cost.At(q)
		r.Objective += value
	}
	r.objectives(n)
}

// conclude sets the status by the last checks, and the reason where the dispatch is not secure.
func (r *Result) conclude(s *Solver, p *interior, checks []*Check) *Result {
	r.states, r.sys = p.states, s.sys
	r.Status, r.Reason, r.Relaxations = Secure, "", nil
	worst := slices.MaxFunc(append([]*Check{{Solved: true}}, checks...), func(a, b *Check) int { return cmp.Compare(a.Severity(), b.Severity()) })
	if worst.Severity() == 0 {
		r.countIdle()
		return r
	}
	r.Status, r.Relaxations = Insecure, p.relaxations()
	switch {
	case len(r.Relaxations) > 0:
		g := r.Relaxations[0]
		r.Reason = fmt.Sprintf("no dispatch was found that keeps every limit after every outage: after that of %s, %s would have to give",
			g.name(s.net), g.describe(s.net))
	case !worst.Solved:
		r.Reason = fmt.Sprintf("the optimisation ends at a dispatch, but its power flow after the outage of %s was not found: %s", worst.name(s.net), worst.Reason)
	default:
		r.Reason = fmt.Sprintf("the optimisation ends at a dispatch, but its power flow after the outage of %s is another, which breaks %s", worst.name(s.net), worst.Violations[0].describe(s.net))
	}
	return r
}

// countIdle counts the results in a row in which a remembered outage was idle.
func (r *Result) countIdle() {
	for _, c := range r.After {
		k := slices.Index(r.Remembered, c.Outage)
		if k < 0 {
			continue
		}
		t := r.states[k+1]
		if t.idle++; !t.isIdle(c) {
			t.idle = 0
		}
	}
}

// explain says which state has the largest residual.
func (r *Result) explain(s *Solver, p *interior) {
	location, worst := "before any outage", 0.0
	for _, t := range p.states {
		residual := 0.0
		for v, x := range t.r {
			if t.dual[v] && !t.omit[v] {
				residual = max(residual, math.Abs(x))
			}
		}
		for i := range t.limits {
			residual = max(residual, t.h[i])
		}
		if residual > worst {
			worst = residual
			if location = "before any outage"; t.after {
				location = "after the outage of " + t.outage.name(s.net)
			}
		}
	}
	r.Reason = fmt.Sprintf("the interior point ended after %d iterations of round %d with a balance or limit off by %.2g pu %s", p.iterations, r.Rounds, worst, location)
}
