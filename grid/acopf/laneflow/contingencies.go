package laneflow

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/powerflow"
)

// Contingency is the network after the outage of a branch or a unit, of which the other is −1. Voltages, what is
// held and what units share are where a solve begins, and what it ends with.
type Contingency struct {
	Branch, Unit int
	Vm, Va       []float64 // by bus
	Held         []int8    // by bus: at its units' lower (−1) or upper (+1) reactive limit
	Delta        float64   // what units share, pu
	Solved       bool
	Q            []float64 // by bus: what its units give
	From, To     []float64 // |S| of rated branches; of one that is out without meaning
	Inside       []bool    // by unit: not at a limit of P for what it shares
	Steps        int       // of Newton's method that a solve took
}

// NewContingency has room for that of an outage.
func (s *Solver) NewContingency(branch, unit int) *Contingency {
	buses, rated := s.net.Buses(), len(s.rated)
	return &Contingency{
		Branch: branch, Unit: unit, Vm: make([]float64, buses), Va: make([]float64, buses), Held: make([]int8, buses),
		Q: make([]float64, buses), From: make([]float64, rated), To: make([]float64, rated), Inside: make([]bool, s.net.Gens()),
	}
}

// Dispatch is what every outage begins at: loads by bus, powers by unit, and voltages by bus, of which those of
// buses with units are set-points.
type Dispatch struct{ Pd, Qd, Pg, Vm, Va []float64 }

// Contingencies solves power flows after outages side by side, each by Newton's method. Units share what is
// missing within their limits, and buses hold their voltage until a reactive limit. It is used by one goroutine.
type Contingencies struct {
	w         *Worker
	y         *sharing
	dispatch  Dispatch
	tolerance float64
	lane      []lane
	qlo, qhi  []float64 // by bus of hold: sums of limits
	ps, qs    []float64 // without the units that share
	cell      []float64
	// Flows counts power flows, Factorisations those of as many side by side as there are lanes, Steps Newton's steps likewise.
	Flows, Factorisations, Steps int
}

// lane is one outage at work.
type lane struct {
	of       *Contingency
	out      lost
	lo, hi   []float64 // reactive limits by bus of hold; lo > hi: no unit is left
	released []uint8
	stuck    bool // a bus is at a limit that does not hold it there, and was released too often
	worst    float64
	looked   bool // worst is that of the voltages
	stale    bool // the last factors do not serve the next step
	lacks    int  // a unit; −1: none
}

// NewContingencies returns them for a solver of ForContingencies. Power flows have at most tolerance pu of imbalance.
func NewContingencies(s *Solver, tolerance float64) *Contingencies {
	n, y := s.net, s.sharing
	c := &Contingencies{
		w: s.NewWorker(), y: y, tolerance: tolerance, qlo: make([]float64, n.Buses()), qhi: make([]float64, n.Buses()),
		ps: make([]float64, n.Buses()), qs: make([]float64, n.Buses()), cell: make([]float64, max(n.Buses(), len(y.units))),
	}
	c.lane = make([]lane, c.w.Lanes())
	for k := range c.lane {
		l := &c.lane[k]
		l.lo, l.hi, l.released = make([]float64, len(y.hold)), make([]float64, len(y.hold)), make([]uint8, len(y.hold))
	}
	for g, b := range n.GenBus {
		c.qlo[b] += n.QMin[g]
		c.qhi[b] += n.QMax[g]
	}
	return c
}

// Lanes is how many power flows its workers solve at once.
func (s *Solver) Lanes() int { return s.compiled.Width() }

// Lanes is how many outages a call of Linearise takes at most.
func (c *Contingencies) Lanes() int { return len(c.lane) }

// At takes a dispatch, which is kept. All lanes are given what outages leave as it is.
func (c *Contingencies) At(d Dispatch) {
	n, y, m, p := c.y.net, c.y, c.w.m, &c.w.solver.plan
	c.dispatch = d
	for b := range c.ps {
		c.ps[b], c.qs[b] = -d.Pd[b], -d.Qd[b]
	}
	for g, b := range n.GenBus {
		if y.share[g] <= 0 {
			c.ps[b] += d.Pg[g]
		}
	}
	for b, v := range c.ps {
		m.SetAll(p.ps[b], v)
		m.SetAll(p.qs[b], c.qs[b])
	}
	for k, b := range y.hold {
		m.SetAll(y.set[k], d.Vm[b])
	}
	for k, g := range y.units {
		m.SetAll(y.p[k], d.Pg[g])
		m.SetAll(y.part[k], y.share[g])
		m.SetAll(y.lo[k], n.PMin[g])
		m.SetAll(y.hi[k], n.PMax[g])
	}
	for at := range c.lane {
		c.lane[at].lacks = -1
	}
}

// load gives a lane an outage from where it begins.
func (c *Contingencies) load(at int, of *Contingency) {
	w, l := c.w, &c.lane[at]
	m, p := w.m, &w.solver.plan
	l.of, l.worst, l.looked = of, math.Inf(1), false
	clear(l.released)
	l.out.restore(w, at)
	if of.Branch >= 0 {
		l.out.take(w, at, of.Branch)
	}
	m.Scatter(p.vm[0], at, of.Vm)
	m.Scatter(p.va[0], at, of.Va)
	m.Set(p.va[c.y.net.Slack], at, c.dispatch.Va[c.y.net.Slack])
	m.Set(c.y.delta[0], at, of.Delta)
	if l.lacks >= 0 {
		c.unit(at, l.lacks, true)
	}
	if l.lacks = of.Unit; of.Unit >= 0 {
		c.unit(at, of.Unit, false)
	}
	w.state[at], w.steps[at] = going, 0
	c.hold(at, of)
}

// unit gives a lane a unit, or takes it.
func (c *Contingencies) unit(at, unit int, there bool) {
	n, y, m := c.y.net, c.y, c.w.m
	var power, part, lo, hi float64
	if there {
		power, part, lo, hi = c.dispatch.Pg[unit], y.share[unit], n.PMin[unit], n.PMax[unit]
	}
	k, shares := slices.BinarySearch(y.units, unit)
	if !shares {
		b := n.GenBus[unit]
		m.Set(c.w.solver.plan.ps[b], at, c.ps[b]-(c.dispatch.Pg[unit]-power))
		return
	}
	m.Set(y.p[k], at, power)
	m.Set(y.part[k], at, part)
	m.Set(y.lo[k], at, lo)
	m.Set(y.hi[k], at, hi)
}

// hold gives a lane what holds each voltage.
func (c *Contingencies) hold(at int, of *Contingency) {
	y, m, l, p := c.y, c.w.m, &c.lane[at], &c.w.solver.plan
	for k, b := range y.hold {
		l.lo[k], l.hi[k] = c.qlo[b], c.qhi[b]
		if of.Unit >= 0 && y.net.GenBus[of.Unit] == b {
			l.lo[k], l.hi[k] = c.without(of.Unit)
		}
		switch side := of.Held[b]; { // what is to be given counts where the voltage is free
		case l.lo[k] > l.hi[k]:
			m.Set(y.free[k], at, 1)
			m.Set(p.qs[b], at, c.qs[b])
		case side != 0:
			c.reach(at, k, side)
		default:
			m.Set(y.free[k], at, 0)
			m.Set(p.vm[b], at, c.dispatch.Vm[b])
		}
	}
}

// without are the reactive limits at a unit's bus when it is out; lo above hi where no other is there.
func (c *Contingencies) without(unit int) (lo, hi float64) {
	n, others := c.y.net, false
	for g, b := range n.GenBus {
		if g != unit && b == n.GenBus[unit] {
			lo, hi, others = lo+n.QMin[g], hi+n.QMax[g], true
		}
	}
	if !others {
		return 1, -1
	}
	return lo, hi
}

// reach puts a bus of hold at a reactive limit.
func (c *Contingencies) reach(at, k int, side int8) {
	m, p, l, b := c.w.m, &c.w.solver.plan, &c.lane[at], c.y.hold[k]
	limit := l.hi[k]
	if side < 0 {
		limit = l.lo[k]
	}
	l.of.Held[b] = side
	m.Set(c.y.free[k], at, 1)
	m.Set(p.qs[b], at, c.qs[b]+limit)
	m.Set(p.dq[b], at, c.qs[b]+limit-m.Get(p.q[b], at))
}

// release lets a bus of hold have its set-point again.
func (c *Contingencies) release(at, k int) {
	m, p, l, b := c.w.m, &c.w.solver.plan, &c.lane[at], c.y.hold[k]
	l.of.Held[b] = 0
	l.released[k]++
	v := m.Get(p.vm[b], at)
	m.Set(c.y.free[k], at, 0)
	m.Set(p.dq[b], at, (c.dispatch.Vm[b]-v)/v)
}

// Constants of these power flows.
const (
	contingencySteps = 16
	switchBelow      = 0.1 // pu: with a larger imbalance reactive powers say little
	serves           = 0.2 // what a step by old factors leaves of the imbalance at most for them to serve again

	reactiveSlack = 1e-7 // as package powerflow's
	maxReleases   = 3    // likewise
)

// switches moves a lane's buses to or from their reactive limits and says whether any was.
func (c *Contingencies) switches(at int) (changed bool) {
	m, p, l := c.w.m, &c.w.solver.plan, &c.lane[at]
	l.stuck = false
	for k, b := range c.y.hold {
		lo, hi, side := l.lo[k], l.hi[k], l.of.Held[b]
		if lo > hi {
			continue
		}
		if side == 0 {
			switch q := m.Get(p.q[b], at) - c.qs[b]; {
			case q > hi+reactiveSlack:
				c.reach(at, k, 1)
			case q < lo-reactiveSlack:
				c.reach(at, k, -1)
			default:
				continue
			}
		} else if above := m.Get(p.vm[b], at) - c.dispatch.Vm[b]; !(float64(side)*above > reactiveSlack) {
			continue
		} else if l.released[k] == maxReleases {
			l.stuck = true
			continue
		} else {
			c.release(at, k)
		}
		changed = true
	}
	return changed
}

// refillContingencies: lanes are given new outages once one of so many is free. Imbalances are then found once more.
const refillContingencies = 2

// Solve solves the power flows of outages, each from where it begins. A lane that is done goes on with the next.
func (c *Contingencies) Solve(list []*Contingency) {
	c.free()
	c.Flows += len(list)
	next, busy := 0, 0
	due := func() bool {
		return next < len(list) && (len(c.lane)-busy)*refillContingencies >= len(c.lane)
	}
	for next < len(list) || busy > 0 {
		if due() {
			c.finish()
			for at := range c.lane {
				if next < len(list) && c.lane[at].of == nil {
					c.load(at, list[next])
					next, busy = next+1, busy+1
				}
			}
		}
		c.w.m.Run(programMismatch)
		if busy = c.look(); busy > 0 && !due() {
			c.step()
		}
	}
	c.finish()
}

// free takes what an earlier call may have left out of every lane.
func (c *Contingencies) free() {
	for at := range c.lane {
		c.lane[at].of, c.w.state[at] = nil, idle
	}
}

// look takes in the imbalances of the lanes that have moved since the last time and says how many lanes go on.
func (c *Contingencies) look() (busy int) {
	for at := range c.lane {
		if l := &c.lane[at]; c.w.state[at] == going && !l.looked {
			l.looked = true
			c.goesOn(at)
		}
		if c.w.state[at] == going {
			busy++
		}
	}
	return busy
}

// step takes a Newton step in the lanes that go on, by the last factors where these serve all of them.
func (c *Contingencies) step() {
	anew := false
	for at := range c.lane {
		if l := &c.lane[at]; c.w.state[at] == going {
			anew = anew || l.stale
			l.looked = false
			c.w.steps[at]++
		}
	}
	c.Steps++
	if !anew {
		c.w.m.Run(programAgain)
		return
	}
	c.Factorisations++
	c.w.m.Run(programStep)
}

// goesOn says how a lane stands after a step, and whether the last factors serve the next one.
func (c *Contingencies) goesOn(at int) {
	m, p, l := c.w.m, &c.w.solver.plan, &c.lane[at]
	worst, sum := m.Get(p.worst[0], at), m.Get(p.sum[0], at)
	switched := worst < switchBelow && c.switches(at)
	switch {
	case sum-sum != 0 || worst >= powerflow.Hopeless || c.w.steps[at] == contingencySteps:
		c.w.state[at] = given
	case worst <= c.tolerance && !switched:
		if c.w.state[at] = converged; l.stuck {
			c.w.state[at] = given
		}
	}
	l.stale = c.w.steps[at] == 0 || switched || worst > serves*l.worst
	l.worst = worst
	if m.Set(p.going[0], at, 1); c.w.state[at] == going {
		m.Set(p.going[0], at, -1)
	}
}

// finish reads the lanes that are done, which are then free.
func (c *Contingencies) finish() {
	done := false
	for at := range c.lane {
		done = done || c.lane[at].of != nil && c.w.state[at] != going
	}
	if !done {
		return
	}
	c.w.Flows(true)
	for at := range c.lane {
		if l := &c.lane[at]; l.of != nil && c.w.state[at] != going {
			c.read(at)
			l.of = nil
		}
	}
}

// read writes what a lane ended with.
func (c *Contingencies) read(at int) {
	n, m, p, y, of := c.y.net, c.w.m, &c.w.solver.plan, c.y, c.lane[at].of
	of.Solved, of.Steps = c.w.state[at] == converged, c.w.steps[at]
	c.w.state[at] = idle
	m.Gather(of.Vm, p.vm[0], at)
	m.Gather(of.Va, p.va[0], at)
	of.Delta = m.Get(y.delta[0], at)
	clear(of.Q)
	for _, b := range y.hold {
		of.Q[b] = m.Get(p.q[b], at) - c.qs[b]
	}
	c.w.From(at, of.From)
	c.w.To(at, of.To)
	for g := range of.Inside {
		of.Inside[g] = g != of.Unit
		if part := y.share[g]; part > 0 && of.Inside[g] {
			output := c.dispatch.Pg[g] + part*of.Delta
			of.Inside[g] = output >= n.PMin[g] && output <= n.PMax[g]
		}
	}
}

// Linearise factorises the Jacobians of solved outages where they are.
func (c *Contingencies) Linearise(group []*Contingency) {
	for at, of := range group {
		c.load(at, of)
	}
	c.w.m.Run(programMismatch)
	c.w.m.Run(programFactors)
	c.Factorisations++
	for at := range group {
		c.w.state[at] = idle
	}
}

// OfMagnitude asks for the sensitivities of a voltage magnitude in a lane of Linearise.
func (c *Contingencies) OfMagnitude(at, bus int) {
	c.ask(at, [2]int{bus, bus}, 0, [2]float64{1, 0})
}

// OfFlow asks for those of |S| at an end of a branch.
func (c *Contingencies) OfFlow(at, branch int, fromEnd bool) {
	of := c.lane[at].of
	near, far, turn, byNear, byFar := powerflow.SizeGradient(c.y.net, branch, fromEnd, of.Vm, of.Va)
	c.ask(at, [2]int{near, far}, turn, [2]float64{byNear, byFar})
}

// ask gives a lane a gradient in the angle across two buses and in their magnitudes.
func (c *Contingencies) ask(at int, bus [2]int, turn float64, magnitude [2]float64) {
	m, e := c.w.m, c.w.solver.elimination
	for i := range e.size {
		m.Set(c.y.gradient[i], at, 0)
	}
	add := func(unknown int, v float64) {
		m.Set(c.y.gradient[unknown], at, m.Get(c.y.gradient[unknown], at)+v)
	}
	for k, b := range bus {
		if b != c.y.net.Slack {
			add(e.at[0][b], turn)
		}
		add(e.at[1][b], c.lane[at].of.Vm[b]*magnitude[k])
		turn = -turn
	}
}

// Adjoint solves for the sensitivities of every lane's quantity, which Power and Voltage read.
func (c *Contingencies) Adjoint() { c.w.m.Run(programAdjoint) }

// Power is the derivative of a lane's quantity in a unit's power before the outage, and Voltage in the set-point
// of a bus with units.
func (c *Contingencies) Power(at, unit int) float64 {
	if !c.lane[at].of.Inside[unit] {
		return 0
	}
	e := c.w.solver.elimination
	return c.w.m.Get(e.x[e.at[0][c.y.net.GenBus[unit]]], at)
}

// Voltage is described at Power.
func (c *Contingencies) Voltage(at, bus int) float64 {
	e, of := c.w.solver.elimination, c.lane[at].of
	if of.Held[bus] != 0 || of.Unit >= 0 && c.y.net.GenBus[of.Unit] == bus && c.emptied(of.Unit) {
		return 0
	}
	return c.w.m.Get(e.x[e.at[1][bus]], at) / of.Vm[bus]
}

func (c *Contingencies) emptied(unit int) bool {
	lo, hi := c.without(unit)
	return lo > hi
}
