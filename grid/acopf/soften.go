package acopf

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// SoftLimits are what an optimum pays for a violation of each limit, $/h per pu or rad; 0 keeps a limit hard, and so does a nil
// slice. The prices of a rating are of |S| beyond it at either end.
type SoftLimits LimitMultipliers

// limitList are the values of a kind of limits.
type limitList struct {
	values *[]float64
	size   int
}

// lists are the kinds in the order of the fields.
func (m *LimitMultipliers) lists(n *network.Network) []limitList {
	nb, ng, nl := n.Buses(), n.Gens(), n.Branches()
	return []limitList{{&m.VMin, nb}, {&m.VMax, nb}, {&m.PMin, ng}, {&m.PMax, ng}, {&m.QMin, ng}, {&m.QMax, ng}, {&m.SFrom, nl}, {&m.STo, nl}, {&m.AngMin, nl}, {&m.AngMax, nl}}
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
	prices, err := soft.prices(net)
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
	pr := Problem{Pd: pd, Qd: qd}
	out := &Relaxation{}
	r, err := s.solveRounds(ctx, pr, prices, out, func(*Result) bool { return true })
	if err != nil {
		return nil, err
	}
	if r.Status != Optimal {
		// The end of a problem whose hard limits have to give has a gap that their price makes wide.
		if len(r.Vm) > 0 && r.KKT.Mismatch < minRelaxation {
			if out.measure(Settled(net, opt.Ranges, r.Settings), r, 0, prices); soft.hardExcess(out) > minHardExcess {
				r.Status = Infeasible
			}
		}
		return &SoftResult{*r, nil, *out}, nil
	}
	out.measure(Settled(net, opt.Ranges, r.Settings), r, 0, prices)
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
	return &SoftResult{*r, new(s.LimitMultipliers(&pr, r)), *out}, nil
}

// minHardExcess is the excess over a hard limit (pu or rad) at the end of a solve, from which on no point keeps it.
const minHardExcess = 1e-3

// hardExcess is the most by which a hard limit gives.
func (y SoftLimits) hardExcess(x *Relaxation) (largest float64) {
	prices := [][]float64{y.VMin, y.VMax, y.PMin, y.PMax, y.QMin, y.QMax, y.SFrom, y.STo, y.AngMin, y.AngMax}
	for k, amounts := range [][]float64{x.VMin, x.VMax, x.PMin, x.PMax, x.QMin, x.QMax, x.Flow, x.Flow, x.AngMin, x.AngMax} {
		for i, v := range amounts {
			if prices[k] == nil || prices[k][i] == 0 {
				largest = max(largest, v)
			}
		}
	}
	return largest
}

// prices are those of all limits, of hard ones above all.
func (y SoftLimits) prices(net *network.Network) (*LimitMultipliers, error) {
	largest := 0.0
	out := LimitMultipliers(y)
	for _, list := range out.lists(net) {
		if *list.values = slices.Clone(*list.values); *list.values == nil {
			*list.values = make([]float64, list.size)
		}
		if len(*list.values) != list.size {
			return nil, fmt.Errorf("acopf: %d prices of a kind of limits: want %d", len(*list.values), list.size)
		}
		for _, v := range *list.values {
			if !(v >= 0) || math.IsInf(v, 1) {
				return nil, fmt.Errorf("acopf: a price of %g: want a finite number, not negative", v)
			}
			largest = max(largest, v)
		}
	}
	for g, cost := range net.Cost {
		for _, p := range []float64{net.PMin[g], net.PMax[g]} {
			if _, first, _ := cost.At(p); !math.IsInf(p, 0) {
				largest = max(largest, math.Abs(first))
			}
		}
	}
	for _, list := range out.lists(net) {
		for i, v := range *list.values {
			(*list.values)[i] = cmp.Or(v, hardPrice*largest)
		}
	}
	return &out, nil
}
