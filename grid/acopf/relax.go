package acopf

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Prices are what Relax counts a violation at, per unit of it. A price of 0 is the
// default.
type Prices struct {
	Balance    float64 // of P and of Q that a bus lacks or has too much, per pu; 10
	Generation float64 // of a generator's P and Q beyond their limits, per pu; 2
	Flow       float64 // of |S| beyond a branch's rating, per pu: half of it at either end; 1
	Voltage    float64 // of |V| beyond its limits, per pu; 10
	Angle      float64 // of an angle difference beyond its limits, per rad; 10
}

func (p Prices) withDefaults() (Prices, error) {
	for _, v := range []float64{p.Balance, p.Generation, p.Flow, p.Voltage, p.Angle} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return p, fmt.Errorf("acopf: prices %+v: want finite numbers, not negative", p)
		}
	}
	return Prices{cmp.Or(p.Balance, 10), cmp.Or(p.Generation, 2), cmp.Or(p.Flow, 1), cmp.Or(p.Voltage, 10), cmp.Or(p.Angle, 10)}, nil
}

// Relaxation is the cheapest way that Relax found to break limits so that the rest can
// be kept. Amounts are of what is beyond a limit and never negative, zero below
// leastRelaxation; those of buses' balances have a sign.
type Relaxation struct {
	Status     Status // Optimal, or why there is none: then there is no more than the status
	Iterations int    // in all rounds
	Rounds     int
	Cost       float64   // Σ price × amount
	Vm, Va     []float64 // one a bus, pu and rad
	Pg, Qg     []float64 // one a generator, pu
	// MissingP and MissingQ are what each bus lacks of a balance, pu: load that would
	// have to go, or, below zero, power that nothing takes.
	MissingP, MissingQ     []float64
	VMin, VMax             []float64 // buses, pu
	PMin, PMax, QMin, QMax []float64 // generators, pu
	Flow                   []float64 // branches, |S| at the end with the larger one, pu
	AngMin, AngMax         []float64 // branches, rad
}

// leastRelaxation is the amount, pu or rad, from which a limit counts as broken.
const leastRelaxation = 1e-6

// Rounds of Relax: each has the prices of the last one's overloads and begins where that ended,
// until none changes by more than samePrice of itself, or the cost falls by less than sameCost.
const (
	mostRounds = 30
	samePrice  = 1e-7
	sameCost   = 1e-7
)

// Relax looks for the least violation of a network's limits, balances included, at the
// loads pd and qd (pu; nil: the network's own): the priced sum of absolute amounts, by the
// interior point of Solver with soft limits. Costs of generation have no part in it. Where
// the limits can be kept all amounts are zero. The minimum is a local one, as power flow is
// not convex. opt.CurrentLimits must be off.
//
// The solver's limits are of |S|², so that a round prices what |S|² gives by the
// derivative of |S| at the last round's; the cost falls from round to round, and where prices
// stay the conditions of the sum of |S| hold.
func Relax(ctx context.Context, net *network.Network, pd, qd []float64, opt Options, prices Prices) (*Relaxation, error) {
	prices, err := prices.withDefaults()
	switch {
	case err != nil:
		return nil, err
	case opt.CurrentLimits:
		return nil, fmt.Errorf("acopf: limits of currents cannot be relaxed")
	}
	opt.soft = true
	s, err := New(withSlackUnits(net, prices.Balance), opt)
	if err != nil {
		return nil, err
	}
	pr := Problem{Pd: pd, Qd: qd, price: s.plan.prices(prices)}
	out := &Relaxation{}
	found := false // a round has ended at an optimum
	for again := true; again && out.Rounds < mostRounds; {
		results := make([]Result, 1)
		if err := s.Solve(ctx, []Problem{pr}, results); err != nil {
			return nil, err
		}
		r := &results[0]
		out.Rounds++
		out.Iterations += r.Iterations
		out.Status = r.Status
		if r.Status != Optimal {
			break
		}
		next := *out
		next.measure(net, r, prices)
		again = s.plan.reprice(pr.price, prices.Flow/2, r.give) && (!found || next.Cost < out.Cost*(1-sameCost))
		if !found || next.Cost <= out.Cost {
			*out = next
		}
		found, pr.Start = true, r
	}
	if found {
		out.Status = Optimal
	}
	return out, nil
}

// withSlackUnits is a network without costs of generation and without ratings out of reach,
// whose squares would drown the other limits in rounding, and with one more unit at every
// bus, whose P and Q are free and cost price × their absolute value.
func withSlackUnits(net *network.Network, price float64) *network.Network {
	n := *net
	free := network.Cost{Power: []float64{-1, 0, 1}, Value: []float64{price, 0, price}}
	n.GenBus, n.GenRow = slices.Clone(net.GenBus), slices.Clone(net.GenRow)
	extend := func(v []float64, with float64) []float64 {
		return append(slices.Clone(v), slices.Repeat([]float64{with}, net.Buses())...)
	}
	n.PMin, n.PMax = extend(net.PMin, math.Inf(-1)), extend(net.PMax, math.Inf(1))
	n.QMin, n.QMax = extend(net.QMin, math.Inf(-1)), extend(net.QMax, math.Inf(1))
	n.Pg0, n.Qg0, n.Vg, n.Ramp = extend(net.Pg0, 0), extend(net.Qg0, 0), extend(net.Vg, 1), extend(net.Ramp, 0)
	n.Cost = make([]network.Cost, net.Gens())
	for b := range net.Buses() {
		n.GenBus, n.GenRow, n.Cost = append(n.GenBus, b), append(n.GenRow, -1), append(n.Cost, free)
	}
	n.ReactiveCost = n.Cost
	n.Rate = slices.Clone(net.Rate)
	for l, rate := range net.Rate {
		if rate > net.Reach(l) {
			n.Rate[l] = math.Inf(1)
		}
	}
	return &n
}

// prices are those of what the soft limits give, the first round's of |S|².
func (p *plan) prices(of Prices) []float64 {
	r := p.rows()
	out := make([]float64, p.soft)
	fill := func(at [2]int, price float64) {
		for i := at[0]; i < at[1]; i++ {
			out[i] = price
		}
	}
	fill(r.vLo, of.Voltage)
	fill(r.vHi, of.Voltage)
	fill(r.uLo, of.Generation)
	fill(r.uHi, of.Generation)
	fill(r.aLo, of.Angle)
	fill(r.aHi, of.Angle)
	p.reprice(out, of.Flow/2, make([]float64, p.soft))
	return out
}

// reprice writes the derivatives by |S|² of price·|S|, where |S|² is the rating's and
// what it gave, and reports whether any changed.
func (p *plan) reprice(prices []float64, price float64, give []float64) (changed bool) {
	r := p.rows()
	for _, at := range [][2]int{r.sf, r.st} {
		for k, l := range p.rated {
			rate := p.net.Rate[l]
			next := price / (2 * math.Sqrt(rate*rate+give[at[0]+k]))
			changed = changed || math.Abs(next-prices[at[0]+k]) > samePrice*next
			prices[at[0]+k] = next
		}
	}
	return changed
}

// measure takes the amounts from the point itself.
func (x *Relaxation) measure(net *network.Network, r *Result, prices Prices) {
	ng := net.Gens()
	x.Cost = 0
	x.Vm, x.Va, x.Pg, x.Qg = r.Vm, r.Va, r.Pg[:ng], r.Qg[:ng]
	amounts := func(n int, price float64, of func(i int) float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			if v := of(i); v >= leastRelaxation {
				out[i] = v
				x.Cost += price * v
			}
		}
		return out
	}
	missing := func(of []float64) []float64 {
		out := amounts(net.Buses(), prices.Balance, func(b int) float64 { return math.Abs(of[ng+b]) })
		for b := range out {
			out[b] = math.Copysign(out[b], of[ng+b])
		}
		return out
	}
	x.MissingP, x.MissingQ = missing(r.Pg), missing(r.Qg)
	x.VMin = amounts(net.Buses(), prices.Voltage, func(b int) float64 { return net.VMin[b] - x.Vm[b] })
	x.VMax = amounts(net.Buses(), prices.Voltage, func(b int) float64 { return x.Vm[b] - net.VMax[b] })
	x.PMin = amounts(ng, prices.Generation, func(g int) float64 { return net.PMin[g] - x.Pg[g] })
	x.PMax = amounts(ng, prices.Generation, func(g int) float64 { return x.Pg[g] - net.PMax[g] })
	x.QMin = amounts(ng, prices.Generation, func(g int) float64 { return net.QMin[g] - x.Qg[g] })
	x.QMax = amounts(ng, prices.Generation, func(g int) float64 { return x.Qg[g] - net.QMax[g] })
	flows := network.NewFlows(net.Branches())
	net.BranchFlows(&net.Admittance, x.Vm, x.Va, flows)
	from := amounts(net.Branches(), prices.Flow/2, func(l int) float64 { return math.Hypot(flows.Pf[l], flows.Qf[l]) - net.Rate[l] })
	x.Flow = amounts(net.Branches(), prices.Flow/2, func(l int) float64 { return math.Hypot(flows.Pt[l], flows.Qt[l]) - net.Rate[l] })
	for l := range x.Flow {
		x.Flow[l] = max(x.Flow[l], from[l])
	}
	angle := func(l int) float64 { return x.Va[net.From[l]] - x.Va[net.To[l]] }
	x.AngMin = amounts(net.Branches(), prices.Angle, func(l int) float64 { return net.AngMin[l] - angle(l) })
	x.AngMax = amounts(net.Branches(), prices.Angle, func(l int) float64 { return angle(l) - net.AngMax[l] })
}
