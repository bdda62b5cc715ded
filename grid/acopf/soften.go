package acopf

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// SoftLimits are what an optimum pays for a violation of limits, in $/h per unit of it; 0 keeps the limits hard.
type SoftLimits struct {
	Rating     float64 // |S| beyond a branch's rating at either end, per pu
	Voltage    float64 // per pu
	Angle      float64 // per rad
	Generation float64 // P and Q of units beyond their limits, per pu
}

// hardPrice is the price of a limit that is hard, over the largest price of a soft one and marginal cost. It is an exact
// penalty wherever no multiplier is as large.
const hardPrice = 1e3

// SoftResult is an optimum with soft limits. Multipliers are nil without one.
type SoftResult struct {
	Result
	Limits *LimitMultipliers
	Gives  Relaxation // what limits give by; its cost is part of the objective
}

// SolveSoft finds the cheapest dispatch whose limits give at these prices, at the loads pd and qd (pu; nil: the network's
// own). The objective is the cost of units with that of what the limits give by. The problem is
// that of MATPOWER's softlims with the limits removed. It is Infeasible where a hard limit would have to give.
func SolveSoft(ctx context.Context, net *network.Network, pd, qd []float64, opt Options, soft SoftLimits) (*SoftResult, error) {
	prices, err := soft.penalties(net)
	switch {
	case err != nil:
		return nil, err
	case opt.CurrentLimits:
		return nil, fmt.Errorf("acopf: limits of currents cannot be soft")
	}
	opt.soft = true
	s, err := New(net, opt)
	if err != nil {
		return nil, err
	}
	pr := Problem{Pd: pd, Qd: qd, penalties: s.plan.limitPenalties(prices)}
	out, r := &Relaxation{}, &Result{}
	for update := true; update && out.Rounds < maxRounds; out.Rounds++ {
		results := make([]Result, 1)
		if err := s.Solve(ctx, []Problem{pr}, results); err != nil {
			return nil, err
		}
		r = &results[0]
		out.Iterations += r.Iterations
		if out.Status = r.Status; r.Status != Optimal {
			// The end of a problem whose hard limits have to give has a gap that their price makes wide.
			if len(r.Vm) > 0 && r.KKT.Mismatch < minRelaxation {
				if out.measure(net, r, prices); soft.hardExcess(out) > minHardExcess {
					r.Status = Infeasible
				}
			}
			return &SoftResult{*r, nil, *out}, nil
		}
		update = s.plan.updatePenalties(pr.penalties, prices.Flow/2, r.elasticSlacks)
		pr.Start = r
	}
	out.measure(net, r, prices)
	r.Iterations, r.Objective = out.Iterations, out.Cost
	r.J[2] = 0 // of units alone
	for g, cost := range net.Cost {
		value, _, _ := cost.At(r.Pg[g])
		r.J[2] += value
	}
	for g, cost := range net.ReactiveCost {
		value, _, _ := cost.At(r.Qg[g])
		r.J[2] += value
	}
	r.Objective += r.J[2]
	if soft.hardExcess(out) > 0 {
		r.Status = Infeasible
		return &SoftResult{*r, nil, *out}, nil
	}
	m := s.LimitMultipliers(&pr, r)
	return &SoftResult{*r, &m, *out}, nil
}

// minHardExcess is the excess over a hard limit (pu or rad) at the end of a solve, from which on no point keeps it.
const minHardExcess = 1e-3

// hardExcess is the most by which a hard limit gives.
func (y SoftLimits) hardExcess(x *Relaxation) (largest float64) {
	for _, kind := range []struct {
		price   float64
		amounts [][]float64
	}{{y.Rating, [][]float64{x.Flow}}, {y.Voltage, [][]float64{x.VMin, x.VMax}}, {y.Angle, [][]float64{x.AngMin, x.AngMax}}, {y.Generation, [][]float64{x.PMin, x.PMax, x.QMin, x.QMax}}} {
		for _, amounts := range kind.amounts {
			if kind.price == 0 {
				largest = max(largest, slices.Max(append(amounts, 0)))
			}
		}
	}
	return largest
}

// penalties are the prices by kind, those of hard limits above all.
func (y SoftLimits) penalties(net *network.Network) (Penalties, error) {
	largest := 0.0
	for _, v := range []float64{y.Rating, y.Voltage, y.Angle, y.Generation} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return Penalties{}, fmt.Errorf("acopf: prices %+v: want finite numbers, not negative", y)
		}
		largest = max(largest, v)
	}
	for g, cost := range net.Cost {
		for _, p := range []float64{net.PMin[g], net.PMax[g]} {
			if _, first, _ := cost.At(p); !math.IsInf(p, 0) {
				largest = max(largest, math.Abs(first))
			}
		}
	}
	price := func(v float64) float64 { return cmp.Or(v, hardPrice*largest) }
	// Relax prices half of an excess at either end of a branch.
	return Penalties{Generation: price(y.Generation), Flow: 2 * price(y.Rating), Voltage: price(y.Voltage), Angle: price(y.Angle)}, nil
}
