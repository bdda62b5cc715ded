package ipoptcheck

import (
	"errors"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
)

// What IPOPT takes for infinity, and a little more.
const unbounded = 2e19

// formulate puts an acopf problem in IPOPT's form. Lengths of its slices are
// acopf's to check.
func formulate(n *network.Network, pr *acopf.Problem) (*formulation, error) {
	if err := n.RequireCosts(); err != nil {
		return nil, err
	}
	if kept, _, err := n.PowerFactors(network.DispatchableByFile); err != nil || len(kept) > 0 {
		return nil, errors.Join(err, fmt.Errorf("network %s: %d loads of constant power factor, which this formulation does not have", n.Name, len(kept)))
	}
	f := &formulation{net: n, y: network.NewAdmittance(n.Branches()), pd: n.Pd, qd: n.Qd, cost: 1}
	if err := n.ScaleBranches(pr.BranchFactors, f.y); err != nil {
		return nil, err
	}
	if pr.Pd != nil {
		f.pd = pr.Pd
	}
	if pr.Qd != nil {
		f.qd = pr.Qd
	}
	f.weigh(pr.Objective)
	f.bounds(pr)
	f.limits(pr)
	f.visitJacobian(nil, func(row, column int, _ float64) { f.jacobian.add(row, column) })
	f.visitHessian(nil, 0, nil, func(row, column int, _ float64) { f.hessian.add(row, column) })
	return f, nil
}

// weigh sets the objective's factors: Σ w·(J − ideal)/(nadir − ideal).
func (f *formulation) weigh(o acopf.Objective) {
	if o.FileCost() {
		return
	}
	var factor [3]float64
	for m, w := range o.Weights {
		span := 1.0
		if o.Ideal != [3]float64{} || o.Nadir != [3]float64{} {
			span = o.Nadir[m] - o.Ideal[m]
		}
		factor[m] = w / span
		f.constant -= factor[m] * o.Ideal[m]
	}
	f.loading, f.deadband, f.cost = factor[0], factor[1], factor[2]
}

// bounds sets the limits of the variables and the start: voltages in the middle
// of their limits at the reference's angle, powers in the middle of theirs.
func (f *formulation) bounds(pr *acopf.Problem) {
	n := f.net
	f.epigraph = make([]int, len(n.Cost)+len(n.ReactiveCost))
	variables := f.reactive(n.Gens())
	f.costs(func(number, _ int, c network.Cost) {
		f.epigraph[number] = -1
		if c.PiecewiseLinear() {
			f.epigraph[number] = variables
			variables++
		}
	})
	f.x0, f.xlo, f.xhi = make([]float64, variables), make([]float64, variables), make([]float64, variables)
	set := func(i int, lo, hi float64) {
		f.xlo[i], f.xhi[i] = max(lo, -unbounded), min(hi, unbounded)
		switch {
		case !math.IsInf(lo, 0) && !math.IsInf(hi, 0):
			f.x0[i] = (lo + hi) / 2
		case !math.IsInf(lo, 0):
			f.x0[i] = lo
		case !math.IsInf(hi, 0):
			f.x0[i] = hi
		}
	}
	generates := make([]bool, n.Buses())
	for _, b := range n.GenBus {
		generates[b] = true
	}
	for b := range n.BusID {
		set(f.angle(b), math.Inf(-1), math.Inf(1))
		f.x0[f.angle(b)] = n.Va0[n.Slack]
		tighter := pr.Tightening.VLoad
		if generates[b] {
			tighter = pr.Tightening.VGen
		}
		set(f.magnitude(b), n.VMin[b]+tighter, n.VMax[b]-tighter)
	}
	for _, r := range n.References {
		set(f.angle(r), n.Va0[r], n.Va0[r])
	}
	for g := range n.GenBus {
		lo, hi := n.PMin[g]+pr.Tightening.P, n.PMax[g]-pr.Tightening.P
		if pr.Ramp != nil {
			lo, hi = max(lo, pr.Previous[g]-pr.Ramp[g]), min(hi, pr.Previous[g]+pr.Ramp[g])
		}
		set(f.active(g), lo, hi)
		tighter := pr.Tightening.Reactive(n.QMin[g], n.QMax[g])
		set(f.reactive(g), n.QMin[g]+tighter, n.QMax[g]-tighter)
	}
	f.costs(func(number, variable int, c network.Cost) {
		e := f.epigraph[number]
		if e < 0 {
			return
		}
		set(e, math.Inf(-1), math.Inf(1))
		f.x0[e], _, _ = c.At(f.x0[variable])
		slope, intercept := c.Segments()
		for k := range slope {
			f.segments = append(f.segments, segment{variable, e, slope[k], intercept[k]})
		}
	})
}

// limits sets those of the constraints.
func (f *formulation) limits(pr *acopf.Problem) {
	n := f.net
	f.glo, f.ghi = make([]float64, 2*n.Buses()), make([]float64, 2*n.Buses())
	add := func(lo, hi float64) {
		f.glo, f.ghi = append(f.glo, max(lo, -unbounded)), append(f.ghi, min(hi, unbounded))
	}
	f.ratedAt = make([]int, n.Branches())
	for k, rate := range n.Rate {
		f.ratedAt[k] = -1
		if !math.IsInf(rate, 1) {
			f.ratedAt[k] = len(f.rated)
			f.rated = append(f.rated, k)
		}
		if !math.IsInf(n.AngMin[k], -1) || !math.IsInf(n.AngMax[k], 1) {
			f.angled = append(f.angled, k)
		}
	}
	for range 2 {
		for _, k := range f.rated {
			rate := n.Rate[k] - pr.Tightening.S
			add(math.Inf(-1), rate*rate)
		}
	}
	for _, k := range f.angled {
		add(n.AngMin[k]+pr.Tightening.Angle, n.AngMax[k]-pr.Tightening.Angle)
	}
	for range f.segments {
		add(math.Inf(-1), 0)
	}
}

// fill writes the values of a derivative, visited in the order of its pattern,
// to their places.
func (p *pattern) fill(out []float64) func(row, column int, value float64) {
	clear(out)
	next := 0
	return func(_, _ int, value float64) {
		out[p.place[next]] += value
		next++
	}
}
