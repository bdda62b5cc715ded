package acopf

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Penalties are what Relax charges for a violation, per unit of it. A penalty of 0 is the default.
type Penalties struct {
	Balance    float64 // imbalance of P and of Q at a bus, per pu; 10
	Generation float64 // P and Q of a generator beyond their limits, per pu; 2
	Flow       float64 // |S| beyond a branch's rating, per pu: half of it at either end; 1
	Voltage    float64 // |V| beyond its limits, per pu; 10
	Angle      float64 // angle difference beyond its limits, per rad; 10
}

func (p Penalties) withDefaults() (Penalties, error) {
	for _, v := range []float64{p.Balance, p.Generation, p.Flow, p.Voltage, p.Angle} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return p, fmt.Errorf("acopf: prices %+v: want finite numbers, not negative", p)
		}
	}
	return Penalties{cmp.Or(p.Balance, 10), cmp.Or(p.Generation, 2), cmp.Or(p.Flow, 1), cmp.Or(p.Voltage, 10), cmp.Or(p.Angle, 10)}, nil
}

// limits are the prices by limit.
func (p Penalties) limits(net *network.Network) *LimitMultipliers {
	out := &LimitMultipliers{}
	for i, list := range out.lists(net) {
		price := p.Voltage
		switch {
		case i >= 8:
			price = p.Angle
		case i >= 6:
			price = p.Flow / 2
		case i >= 2:
			price = p.Generation
		}
		*list.values = slices.Repeat([]float64{price}, list.size)
	}
	return out
}

// Relaxation is the cheapest violation of limits that Relax found. Amounts are distances beyond a limit, zero below
// minRelaxation and never negative. Amounts of balances have a sign.
type Relaxation struct {
	Status     Status // Optimal, or the reason why nothing else is set
	Iterations int    // in all rounds
	Rounds     int
	Cost       float64   // Σ penalty × amount
	Vm, Va     []float64 // one a bus, pu and rad
	Pg, Qg     []float64 // one a generator, pu
	Settings   []float64 // of Options.Ranges
	// MissingP and MissingQ are the missing power of each bus, pu: load to shed, or, below zero, surplus.
	MissingP, MissingQ     []float64
	VMin, VMax             []float64 // buses, pu
	PMin, PMax, QMin, QMax []float64 // generators, pu
	Flow                   []float64 // branches, |S| at the end with the larger one, pu
	AngMin, AngMax         []float64 // branches, rad
}

// minRelaxation is the amount, pu or rad, from which a limit counts as violated.
const minRelaxation = 1e-6

const (
	// Each round of Relax takes its penalties from the last one's overloads and starts at its point. Rounds end when
	// no penalty changes by more than samePenalty, or the cost falls by less than sameCost, both relative.
	maxRounds   = 30
	samePenalty = 1e-7
	sameCost    = 1e-7
)

// Relax looks for the least violation of a network's limits, balances included, at the loads pd and qd (pu; nil: the
// network's own). It minimises the sum of penalties times absolute amounts by the interior point of Solver with soft
// limits. Costs of generation do not count. Where the limits can be kept all amounts are zero. The minimum is local,
// as power flow is not convex. opt.CurrentLimits must be off.
//
// The solver's limits are of |S|². A round prices the excess of |S|² by the derivative of |S| at the last round's.
// The cost falls from round to round. Once the penalties settle, the conditions for the sum of |S| hold.
func Relax(ctx context.Context, net *network.Network, pd, qd []float64, opt Options, prices Penalties) (*Relaxation, error) {
	prices, err := prices.withDefaults()
	switch {
	case err != nil:
		return nil, err
	case opt.CurrentLimits:
		return nil, fmt.Errorf("acopf: limits of currents cannot be relaxed")
	}
	opt.soft = true
	s, err := New(withSlackUnits(net, prices.Balance, opt.Ranges), opt)
	if err != nil {
		return nil, err
	}
	limits := prices.limits(net)
	out := &Relaxation{}
	solved := false // a round has ended at an optimum
	_, err = s.solveRounds(ctx, Problem{Pd: pd, Qd: qd}, limits, out, func(r *Result) bool {
		next := *out
		next.measure(Settled(net, opt.Ranges, r.Settings), r, prices.Balance, limits)
		improved := !solved || next.Cost < out.Cost*(1-sameCost)
		if !solved || next.Cost <= out.Cost {
			*out = next
		}
		solved = true
		return improved
	})
	if solved {
		out.Status = Optimal
	}
	return out, err
}

// solveRounds solves with the limits at these prices until those of |S|² settle or goOn declines, and returns the last result.
func (s *Solver) solveRounds(ctx context.Context, pr Problem, prices *LimitMultipliers, x *Relaxation, goOn func(r *Result) bool) (r *Result, err error) {
	for i, follows := range s.plan.follows[:2*s.plan.ng] {
		if g := i % s.plan.ng; follows { // its limits are those of the lead
			kind := [][]float64{prices.PMin, prices.PMax, prices.QMin, prices.QMax}[2*(i/s.plan.ng):]
			kind[0][g], kind[1][g] = 0, 0
		}
	}
	pr.penalties = s.plan.limitPenalties(prices)
	for more := true; more && x.Rounds < maxRounds; {
		results := make([]Result, 1)
		if err := s.Solve(ctx, []Problem{pr}, results); err != nil {
			return nil, err
		}
		r = &results[0]
		x.Rounds++
		x.Iterations += r.Iterations
		if x.Status = r.Status; r.Status != Optimal {
			break
		}
		more = s.plan.updatePenalties(pr.penalties, prices, r.elasticSlacks)
		more = goOn(r) && more
		pr.Start = r
	}
	return r, nil
}

// withSlackUnits returns the network without costs of generation and with one more unit at every bus. Its P and Q
// are free and cost price × their absolute value. Ratings out of reach are dropped: their squares would drown the
// other limits in rounding.
func withSlackUnits(net *network.Network, price float64, ranges []Range) *network.Network {
	n := *net
	free := network.Cost{Power: []float64{-1, 0, 1}, Value: []float64{price, 0, price}}
	n.GenBus, n.GenRow = slices.Clone(net.GenBus), slices.Clone(net.GenRow)
	extend := func(v []float64, value float64) []float64 {
		return append(slices.Clone(v), slices.Repeat([]float64{value}, net.Buses())...)
	}
	n.PMin, n.PMax = extend(net.PMin, math.Inf(-1)), extend(net.PMax, math.Inf(1))
	n.QMin, n.QMax = extend(net.QMin, math.Inf(-1)), extend(net.QMax, math.Inf(1))
	n.Pg0, n.Qg0 = extend(net.Pg0, 0), extend(net.Qg0, 0)
	n.Vg, n.Ramp = extend(net.Vg, 1), extend(net.Ramp, 0)
	n.Cost = make([]network.Cost, net.Gens())
	for b := range net.Buses() {
		n.GenBus, n.GenRow, n.Cost = append(n.GenBus, b), append(n.GenRow, -1), append(n.Cost, free)
	}
	n.ReactiveCost = n.Cost
	n.Rate = slices.Clone(net.Rate)
	for l, rate := range net.Rate {
		if rate > net.Reach(l) && !slices.ContainsFunc(ranges, func(r Range) bool { return r.Kind == Ratio && r.Index == l }) {
			n.Rate[l] = math.Inf(1)
		}
	}
	return &n
}

// limitPenalties are the penalties of the soft limits, those of |S|² for the first round.
func (p *plan) limitPenalties(prices *LimitMultipliers) []float64 {
	r := p.rows()
	largest := 0.0
	for _, list := range prices.lists(p.neutral) {
		largest = max(largest, slices.Max(append(*list.values, 0)))
	}
	out := slices.Repeat([]float64{hardPrice * largest}, p.soft) // that of ranges of settings
	fill := func(interval [2]int, elements []int, price []float64) {
		for k, i := range elements {
			if i < len(price) {
				out[interval[0]+k] = price[i]
			}
		}
	}
	fill(r.vLo, indices(p.nb), prices.VMin)
	fill(r.vHi, indices(p.nb), prices.VMax)
	for k, interval := range [][2]int{r.uLo, r.uHi} {
		for i, unit := range p.bounded[k] {
			list := [][]float64{prices.PMin, prices.PMax, prices.QMin, prices.QMax}[k+2*(unit/p.ng)]
			out[interval[0]+i] = list[unit%p.ng]
		}
	}
	fill(r.aLo, p.angleLo, prices.AngMin)
	fill(r.aHi, p.angleHi, prices.AngMax)
	p.updatePenalties(out, prices, make([]float64, p.soft))
	return out
}

// updatePenalties writes the derivatives by |S|² of price·|S| at the last round's |S|², and reports whether any
// changed.
func (p *plan) updatePenalties(penalties []float64, prices *LimitMultipliers, give []float64) (changed bool) {
	r := p.rows()
	for i, interval := range [][2]int{r.sf, r.st} {
		for k, l := range p.rated {
			rate := p.net.Rate[l]
			next := [][]float64{prices.SFrom, prices.STo}[i][l] / (2 * math.Sqrt(rate*rate+give[interval[0]+k]))
			changed = changed || math.Abs(next-penalties[interval[0]+k]) > samePenalty*next
			penalties[interval[0]+k] = next
		}
	}
	return changed
}

// measure computes the amounts at the point itself.
func (x *Relaxation) measure(net *network.Network, r *Result, balance float64, prices *LimitMultipliers) {
	ng := net.Gens()
	x.Cost = 0
	x.Vm, x.Va = r.Vm, r.Va
	x.Pg, x.Qg = r.Pg[:ng], r.Qg[:ng]
	x.Settings = r.Settings
	amounts := func(price []float64, amount func(i int) float64) []float64 {
		out := make([]float64, len(price))
		for i := range out {
			if v := amount(i); v >= minRelaxation && price[i] > 0 {
				out[i] = v
				x.Cost += price[i] * v
			}
		}
		return out
	}
	missing := func(amount []float64) []float64 {
		if len(amount) == ng { // without slack units
			return make([]float64, net.Buses())
		}
		out := amounts(slices.Repeat([]float64{balance}, net.Buses()), func(b int) float64 { return math.Abs(amount[ng+b]) })
		for b := range out {
			out[b] = math.Copysign(out[b], amount[ng+b])
		}
		return out
	}
	x.MissingP, x.MissingQ = missing(r.Pg), missing(r.Qg)
	x.VMin = amounts(prices.VMin, func(b int) float64 { return net.VMin[b] - x.Vm[b] })
	x.VMax = amounts(prices.VMax, func(b int) float64 { return x.Vm[b] - net.VMax[b] })
	x.PMin = amounts(prices.PMin, func(g int) float64 { return net.PMin[g] - x.Pg[g] })
	x.PMax = amounts(prices.PMax, func(g int) float64 { return x.Pg[g] - net.PMax[g] })
	x.QMin = amounts(prices.QMin, func(g int) float64 { return net.QMin[g] - x.Qg[g] })
	x.QMax = amounts(prices.QMax, func(g int) float64 { return x.Qg[g] - net.QMax[g] })
	flows := network.NewFlows(net.Branches())
	net.BranchFlows(&net.Admittance, x.Vm, x.Va, flows)
	from := amounts(prices.SFrom, func(l int) float64 { return math.Hypot(flows.Pf[l], flows.Qf[l]) - net.Rate[l] })
	x.Flow = amounts(prices.STo, func(l int) float64 { return math.Hypot(flows.Pt[l], flows.Qt[l]) - net.Rate[l] })
	for l := range x.Flow {
		x.Flow[l] = max(x.Flow[l], from[l])
	}
	angle := func(l int) float64 { return x.Va[net.From[l]] - x.Va[net.To[l]] }
	x.AngMin = amounts(prices.AngMin, func(l int) float64 { return net.AngMin[l] - angle(l) })
	x.AngMax = amounts(prices.AngMax, func(l int) float64 { return angle(l) - net.AngMax[l] })
}
