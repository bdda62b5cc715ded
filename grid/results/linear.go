package results

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/grid/network"
)

// LinearPoint is a solution of a network's linear model: magnitudes are 1 pu, and no reactive power flows.
func LinearPoint(n *network.Network, dc *network.DC, va, pg []float64) Point {
	p := Point{n, slices.Repeat([]float64{1}, n.Buses()), va, pg, make([]float64, n.Gens()), network.NewFlows(n.Branches())}
	copy(p.Flows.Pf, dc.Flows(va))
	for k, f := range p.Flows.Pf {
		p.Flows.Pt[k] = -f
	}
	return p
}

// LinearFlow solves the power flow of the linear model at loads by bus and powers by unit, pu. The first unit of each reference takes up the
// balance of its island.
func LinearFlow(n *network.Network, pd, pg []float64) (*PowerFlow, Point, error) {
	start := time.Now()
	dc, err := network.NewDC(n)
	if err != nil {
		return nil, Point{}, err
	}
	pg = slices.Clone(pg)
	missing := n.Balanced(pd, pg) // what buses give, and below what flows from them
	va, flow := dc.Solve(missing)
	for k, f := range flow {
		missing[n.From[k]] -= f
		missing[n.To[k]] += f
	}
	for _, r := range n.References {
		g := slices.Index(n.GenBus, r)
		if g < 0 {
			return nil, Point{}, fmt.Errorf("network %s, bus %d: the reference bus has no generator in service, so that no power takes up the balance", n.Name, n.BusID[r])
		}
		if pg[g] -= missing[r]; math.IsNaN(pg[g]) || math.IsInf(pg[g], 0) {
			return nil, Point{}, fmt.Errorf("network %s, bus %d: no finite power takes up the balance", n.Name, n.BusID[r])
		}
	}
	r := &PowerFlow{Case: n.Name, Converged: true, Status: "converged", Reason: "a linear power flow", LoadMW: n.MW(pd), Bus: []FlowBus{}, WallMS: float64(time.Since(start)) / 1e6}
	p := LinearPoint(n, dc, va, pg)
	r.fill(n, p, pd, make([]float64, n.Buses()), make([]int8, n.Buses()))
	r.Violations = slices.DeleteFunc(r.Violations, func(l Broken) bool { return l.Unit == "pu" || l.Unit == "MVAr" })
	return r, p, nil
}
