package laneflow

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/powerflow"
)

// reach puts a bus of hold at a reactive limit.
func (c *Contingencies) reach(at, k int, side int8) {
	m, p, y, b := c.w.m, &c.w.solver.plan, c.y, c.y.hold[k]
	given := c.qs[b] + c.limit(at, k, side)
	c.lane[at].of.Held[b] = side
	m.Set(y.free[k], at, 1)
	m.Set(y.side[k], at, float64(side))
	m.Set(p.qs[b], at, given)
	m.Set(p.dq[b], at, given-m.Get(p.q[b], at))
}

// release lets a bus of hold have its set-point again.
func (c *Contingencies) release(at, k int) {
	m, p, y, l, b := c.w.m, &c.w.solver.plan, c.y, &c.lane[at], c.y.hold[k]
	l.of.Held[b] = 0
	l.released[k]++
	v := m.Get(p.vm[b], at)
	m.Set(y.free[k], at, 0)
	m.Set(y.side[k], at, 0)
	m.Set(p.qs[b], at, c.qs[b])
	m.Set(p.dq[b], at, (c.dispatch.Vm[b]-v)/v)
}

// Constants of these power flows.
const (
	contingencySteps = 16
	switchBelow      = 0.1 // pu: with a larger imbalance reactive powers say little
	serves           = 0.2 // what a step by old factors leaves of the imbalance at most for them to serve again

	// roughTolerance, pu: a linear step is off by a hundred times as much.
	roughTolerance = 1e-5

	reactiveSlack = 1e-7 // as package powerflow's
	maxReleases   = 3    // likewise

	// takes is what a sum of imbalances may take of the room to a limit at most: distribution factors of flows are below
	// one, and so are voltages' in reactive powers. Of 86 000 power flows of PGLib's 118 buses that were looked at
	// before their end, none took 0.5. tried, pu, is the largest sum that is looked at so.
	takes = 1
	tried = 0.03

	// A margin that was smaller than what would do by more than marginMoves, pu, is not found again before the end: it hardly
	// moves by as much between two dispatches.
	marginMoves = 0.01

	// Factors of Jacobians whose imbalance was at most nearImbalance, pu, are those of where the step leads for a linear model.
	nearImbalance = 1e-3
)

// switches moves a lane's buses to or from their reactive limits and says whether any was.
func (c *Contingencies) switches(at int) (changed bool) {
	m, p, l := c.w.m, &c.w.solver.plan, &c.lane[at]
	for k, b := range c.y.hold {
		if m.Get(c.y.empty[k], at) != 0 {
			continue
		}
		if side := l.of.Held[b]; side == 0 {
			switch q := m.Get(p.q[b], at) - c.qs[b]; {
			case q > m.Get(c.y.most[k], at)+reactiveSlack:
				c.reach(at, k, 1)
			case q < m.Get(c.y.least[k], at)-reactiveSlack:
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

// Solve solves the power flows of as many outages as there are lanes at most, each from where it begins, and reads them.
func (c *Contingencies) Solve(group []*Contingency) {
	for at := range c.lane {
		if at < len(group) {
			c.Load(at, group[at])
		} else {
			c.Leave(at)
		}
	}
	c.run(math.Inf(1))
	for at := range group {
		c.settle(at)
		c.Read(at)
		c.Leave(at)
	}
}

// Check solves the power flows of the outages in the lanes from where they stand, and anew from the voltages before the
// outage where that fails. A power flow ends before its tolerance where the imbalance that is left cannot bring its
// margin below room, pu.
func (c *Contingencies) Check(room float64) {
	for at := range c.lane {
		switch l := &c.lane[at]; {
		case l.of == nil:
		case l.failed:
			c.Begin(at, l.of)
		default:
			c.again(at)
		}
	}
	c.run(room)
	anew := false
	for at := range c.lane {
		if l := &c.lane[at]; l.of != nil && c.w.state[at] == given && !l.anew {
			c.Begin(at, l.of)
			anew = true
		}
	}
	if anew {
		c.run(room)
	}
	for at := range c.lane {
		l := &c.lane[at]
		l.anew, l.failed = false, c.w.state[at] == given
		c.settle(at)
	}
}

// Roughly makes power flows end at imbalances of roughTolerance, with reactive limits as the first step finds them: what they
// have is good for a linear model of the outages where they stand, not for a margin.
func (c *Contingencies) Roughly(on bool) { c.rough = on }

// settle takes note of what a lane has come to.
func (c *Contingencies) settle(at int) {
	l := &c.lane[at]
	l.solved, l.margin = c.w.state[at] == converged, -1
	if l.solved {
		l.margin = -c.w.m.Get(c.y.breach[0], at)
	}
}

// Look ends the power flows of the outages in the lanes that end where they stand, and leaves the others to Finish: in every
// group a few are left, which together need far fewer lanes. Together they are Check.
func (c *Contingencies) Look(room float64) {
	m, p := c.w.m, &c.w.solver.plan
	m.Run(programMismatch)
	c.margins, c.flows = false, false
	for at := range c.lane {
		l := &c.lane[at]
		if l.of == nil {
			continue
		}
		if c.again(at); !l.failed && c.enough(at, room) {
			c.Flows++
			c.settle(at)
			continue
		}
		c.w.state[at] = idle
		c.unsettled = append(c.unsettled, seat{c.now, at, m.Get(p.sum[0], at) + m.Get(c.y.excess[0], at)})
	}
}

// Finish is described at Look. Outages with imbalances of a size take about as many steps, so that they share lanes.
func (c *Contingencies) Finish(room float64) {
	if len(c.unsettled) == 0 {
		return
	}
	slices.SortStableFunc(c.unsettled, func(a, b seat) int { return cmp.Compare(b.sum, a.sum) })
	c.clear()
	last := c.now
	c.now, c.lane = -1, c.shared
	for pack := range slices.Chunk(c.unsettled, len(c.lane)) {
		for at := range c.lane {
			if c.w.state[at] = idle; at < len(pack) {
				c.lift(at, pack[at])
			}
		}
		c.Check(room)
		for at, to := range pack {
			c.lower(at, to)
		}
	}
	c.unsettled, c.lane = c.unsettled[:0], nil
	c.Use(last)
}

// run takes steps until no lane goes on, and finds the margins.
func (c *Contingencies) run(room float64) {
	for at := range c.lane {
		if c.w.state[at] == going {
			c.Flows++
		}
	}
	for c.look(room) {
		c.step()
	}
	c.findMargins()
}

func (c *Contingencies) findMargins() {
	if !c.margins {
		c.w.m.Run(programMargin)
		c.margins = true
	}
}

// look finds the imbalances, and says whether any lane goes on.
func (c *Contingencies) look(room float64) (more bool) {
	c.w.m.Run(programMismatch)
	c.margins, c.flows = false, false
	for at := range c.lane {
		if c.w.state[at] == going && !c.enough(at, room) && c.goesOn(at) {
			more = true
		}
		c.w.m.Set(c.w.solver.plan.going[0], at, 1)
		if c.w.state[at] == going {
			c.w.m.Set(c.w.solver.plan.going[0], at, -1)
		}
	}
	return more
}

// enough ends a lane where what is left of its imbalance, reactive power beyond a limit included, cannot take its margin
// below room.
func (c *Contingencies) enough(at int, room float64) bool {
	m, y := c.w.m, c.y
	most := takes * (m.Get(c.w.solver.plan.sum[0], at) + m.Get(y.excess[0], at))
	if math.IsInf(room, 1) || !(most <= tried) || most > c.lane[at].margin+marginMoves-room {
		return false
	}
	if c.now < 0 && c.w.steps[at] == 0 {
		return false // as Look found
	}
	c.findMargins()
	if most > -m.Get(y.breach[0], at)-room {
		return false
	}
	c.w.state[at] = converged
	return true
}

// step takes a Newton step in the lanes that go on, by the last factors where these serve all of them.
func (c *Contingencies) step() {
	anew := false
	for at := range c.lane {
		if c.w.state[at] == going {
			anew = anew || c.lane[at].stale
			c.w.steps[at]++
		}
	}
	c.Steps++
	if !anew {
		c.w.m.Run(programAgain)
		return
	}
	c.Factorisations++
	c.near = true
	for at := range c.lane {
		c.lane[at].stale = false
		c.near = c.near && (c.w.state[at] != going || c.lane[at].worst <= nearImbalance)
	}
	c.w.m.Run(programStep)
}

// goesOn says how a lane stands after a step, and whether the last factors serve the next one.
func (c *Contingencies) goesOn(at int) bool {
	m, p, l := c.w.m, &c.w.solver.plan, &c.lane[at]
	worst, sum := m.Get(p.worst[0], at), m.Get(p.sum[0], at)
	l.stuck = false
	tolerance, late := c.tolerance, false
	if c.rough {
		tolerance, late = math.Max(tolerance, roughTolerance), c.w.steps[at] > 0
	}
	switched := !late && worst < switchBelow && m.Get(c.y.beyond[0], at) > reactiveSlack && c.switches(at)
	switch {
	case sum-sum != 0 || worst >= powerflow.Hopeless || c.w.steps[at] == contingencySteps:
		c.w.state[at] = given
	case worst <= tolerance && !switched:
		if c.w.state[at] = converged; l.stuck {
			c.w.state[at] = given
		}
	}
	l.stale = l.stale || switched || worst > serves*l.worst
	l.worst = worst
	return c.w.state[at] == going
}

// Solved says whether the outage in a lane has a power flow.
func (c *Contingencies) Solved(at int) bool { return c.lane[at].solved }

// Margin is the least room to a limit after an outage of a group, pu: −1 where it has no power flow.
func (c *Contingencies) Margin(group, at int) float64 { return c.group[group].lane[at].margin }

// Read writes where the outage in a lane stands.
func (c *Contingencies) Read(at int) {
	n, m, p, y, of := c.y.net, c.w.m, &c.w.solver.plan, c.y, c.lane[at].of
	of.Solved, of.Steps, of.Margin = c.lane[at].solved, c.w.steps[at], c.lane[at].margin
	m.Gather(of.Vm, p.vm[0], at)
	m.Gather(of.Va, p.va[0], at)
	of.Delta = m.Get(y.delta[0], at)
	clear(of.Q)
	for _, b := range y.hold {
		of.Q[b] = m.Get(p.q[b], at) - c.qs[b]
	}
	if !c.flows {
		c.w.Flows(true)
		c.flows = true
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

// Linearise factorises the Jacobians of the outages in the lanes where they stand, unless the last step's are as good.
func (c *Contingencies) Linearise() {
	if c.near {
		return
	}
	c.near = true
	c.w.m.Run(programFactors)
	c.Factorisations++
	for at := range c.lane {
		c.lane[at].stale = false
	}
}

// OfMagnitude asks for the sensitivities of a voltage magnitude in a lane that is linearised where Read found it.
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
