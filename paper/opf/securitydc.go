package opf

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/tensor"
)

// Constants of the linear model's program.
const (
	dcRounds = 40   // of adding limits that the last answer breaks
	dcLimits = 20   // that a round adds at most
	dcBroken = 1e-6 // pu
)

// dcController dispatches by the linear model: active powers of least cost whose flows, by distribution factors, keep
// every rating before and after outages. Voltages stay as they are, and losses are those of the state.
type dcController struct {
	system  *System
	model   *network.DC
	factor  [][]float64 // of power transfer, by branch and bus
	outage  [][]float64 // of line outage, by branch that is out and branch
	program leastCost
	p       []float64 // powers, by unit
	flow    []float64 // by branch
	limited map[dcLimit]bool
}

// dcLimit is one side of a rating after an outage; −1, −1 is none.
type dcLimit struct {
	branch int
	out    secure.Outage
	sign   float64
}

func newDCController(y *System) (domain.Controller, error) {
	model, err := network.NewDC(y.Network)
	gens := y.layout.gens
	d := &dcController{system: y, model: model, p: make([]float64, gens)}
	d.program.leastChange = newLeastChange(gens)
	d.program.metric, d.program.slack = &metric{diagonal: make([]float64, gens)}, elasticity
	for k := 0; err == nil && k < y.layout.branches; k++ {
		d.factor, d.outage = append(d.factor, model.BranchFactors(k)), append(d.outage, model.OutageFactors(k))
	}
	return d, err
}

func (d *dcController) Reset(domain.Episode) error { return nil }

func (d *dcController) Decide(s, c []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	y, n := d.system, d.system.Network
	l := &y.layout
	previous := c[l.previous : l.previous+l.gens]
	pd, qd := make([]float64, l.buses), make([]float64, l.buses)
	y.loads(c, pd, qd)
	p, q := make([]float64, l.buses), make([]float64, l.buses)
	n.Injections(&n.Admittance, s[:l.buses], s[l.buses:2*l.buses], p, q)
	missing := 0.0 // what units have to give in all, less what they gave
	for b := range pd {
		missing += pd[b] + p[b] // loads and losses
	}
	for _, v := range previous {
		missing -= v
	}
	ok := d.solve(pd, previous, missing)
	copy(u, d.p)
	for g, b := range n.GenBus {
		u[l.gens+g] = s[b]
	}
	return domain.Decided(ok), nil
}

// solve finds the powers, and reports whether the linear model keeps its limits.
func (d *dcController) solve(pd, previous []float64, missing float64) bool {
	y, n, program := d.system, d.system.Network, &d.program
	slope := make([]float64, len(previous))
	for g, p := range previous {
		_, first, second := n.Cost[g].At(p)
		slope[g] = first
		program.metric.diagonal[g] = 1 / (math.Max(second, 0) + flatSlope)
		lo, hi := y.window(g, p)
		program.lo[g], program.hi[g] = lo-p, hi-p
	}
	program.reset()
	program.begin(slope)
	for _, sign := range []float64{1, -1} {
		row := program.add(sign * missing)
		tensor.Fill(row, sign)
		program.complete()
	}
	d.limited = map[dcLimit]bool{}
	for start, round := 0, 0; ; round++ {
		program.solve(start, programTolerance)
		copy(d.p, previous)
		tensor.Axpy(1, program.x, d.p)
		start = len(program.bound)
		if violations := d.addBroken(pd); violations == 0 || round == dcRounds {
			return violations == 0
		}
	}
}

// dcBreach is a limit of the linear model that breaks.
type dcBreach struct {
	dcLimit
	excess float64
}

// addBroken makes the limits that break most rows, and returns how many break that are none yet.
func (d *dcController) addBroken(pd []float64) int {
	y, n := d.system, d.system.Network
	_, d.flow = d.model.Solve(n.Balanced(pd, d.p))
	var violations []dcBreach
	look := func(k int, out secure.Outage, flow, rate float64) {
		breach := dcBreach{dcLimit{k, out, -math.Copysign(1, flow)}, math.Abs(flow) - rate}
		if breach.excess > dcBroken && !d.limited[breach.dcLimit] {
			violations = append(violations, breach)
		}
	}
	for _, k := range y.layout.rated {
		look(k, secure.Outage{Branch: -1, Unit: -1}, d.flow[k], n.Rate[k])
		for _, o := range y.security.Outages {
			if k != o.Branch {
				look(k, o, d.outageFlow(k, o), y.security.Emergency*n.Rate[k])
			}
		}
	}
	slices.SortStableFunc(violations, func(a, b dcBreach) int { return cmp.Compare(b.excess, a.excess) })
	for _, breach := range violations[:min(len(violations), dcLimits)] {
		d.limited[breach.dcLimit] = true
		d.addLimit(&breach)
	}
	return len(violations)
}

// outageFlow is the flow in a branch after an outage.
func (d *dcController) outageFlow(k int, o secure.Outage) float64 {
	if o.Branch >= 0 {
		return d.flow[k] + d.outage[o.Branch][k]*d.flow[o.Branch]
	}
	return d.flow[k] + (d.shared(k, o.Unit)-d.factor[k][d.system.Network.GenBus[o.Unit]])*d.p[o.Unit]
}

// shared is the flow in a branch of one pu that the units give together when one is out.
func (d *dcController) shared(k, outage int) (sum float64) {
	all := 0.0
	for g, share := range d.system.security.shares() {
		if g != outage {
			sum += share * d.factor[k][d.system.Network.GenBus[g]]
			all += share
		}
	}
	return sum / all
}

// addLimit makes a limit that breaks at the present powers a row.
func (d *dcController) addLimit(breach *dcBreach) {
	row := d.program.add(breach.excess)
	for g, b := range d.system.Network.GenBus {
		v := d.factor[breach.branch][b]
		switch o := breach.out; {
		case o.Branch >= 0:
			v += d.outage[o.Branch][breach.branch] * d.factor[o.Branch][b]
		case g == o.Unit:
			v = d.shared(breach.branch, g)
		}
		row[g] = breach.sign * v
	}
	d.program.bound[len(d.program.bound)-1] += tensor.Dot(row, d.program.x)
	d.program.complete()
}
