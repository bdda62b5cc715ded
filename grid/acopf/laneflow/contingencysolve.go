package laneflow

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/powerflow"
)

// toPQ switches a bus to PQ at a reactive limit.
func (c *Contingencies) toPQ(lane, k int, side int8) {
	m, p := c.w.m, &c.w.solver.plan
	y, b := c.y, c.y.genBuses[k]
	injection := c.qs[b] + c.reactiveLimit(lane, k, side)
	c.lane[lane].contingency.AtLimit[b] = side
	m.Set(y.free[k], lane, 1)
	m.Set(y.limitSide[k], lane, float64(side))
	m.Set(p.qs[b], lane, injection)
	m.Set(p.dq[b], lane, injection-m.Get(p.q[b], lane))
}

// toPV switches a bus back to PV at its set-point.
func (c *Contingencies) toPV(lane, k int) {
	m, p, l := c.w.m, &c.w.solver.plan, &c.lane[lane]
	y, b := c.y, c.y.genBuses[k]
	l.contingency.AtLimit[b] = 0
	l.released[k]++
	v := m.Get(p.vm[b], lane)
	m.Set(y.free[k], lane, 0)
	m.Set(y.limitSide[k], lane, 0)
	m.Set(p.qs[b], lane, c.qs[b])
	m.Set(p.dq[b], lane, (c.dispatch.Vm[b]-v)/v)
}

// Constants of these power flows.
const (
	maxContingencySteps = 16
	switchBelow         = 0.1 // pu: with a larger mismatch reactive powers are unreliable
	reuseRatio          = 0.2 // largest ratio of mismatches for which old factors serve again

	// roughTolerance, pu: a linear step has an error of a hundred times as much.
	roughTolerance = 1e-5

	reactiveSlack = 1e-7 // as package powerflow's
	maxReleases   = 3    // as package powerflow's

	// marginFactor bounds the loss of margin per pu of mismatch. Distribution factors of flows are below one, and so
	// are those of voltages in reactive power. Of 86 000 power flows of PGLib's 118 buses that ended early, none
	// lost more than 0.5. maxEarlySum, pu, is the largest sum of mismatches for that test.
	marginFactor = 1
	maxEarlySum  = 0.03

	// A margin that was below the wanted one by more than marginDrift, pu, is not computed before the end: it hardly
	// moves that far between two dispatches.
	marginDrift = 0.01

	// Factors of Jacobians with a mismatch of at most nearImbalance, pu, serve a linear model after the step.
	nearImbalance = 1e-3
)

// switchBuses switches buses between PV and PQ and reports whether any did.
func (c *Contingencies) switchBuses(lane int) (changed bool) {
	m, p, l := c.w.m, &c.w.solver.plan, &c.lane[lane]
	for k, b := range c.y.genBuses {
		if m.Get(c.y.noUnit[k], lane) != 0 {
			continue
		}
		if side := l.contingency.AtLimit[b]; side == 0 {
			switch q := m.Get(p.q[b], lane) - c.qs[b]; {
			case q > m.Get(c.y.qmax[k], lane)+reactiveSlack:
				c.toPQ(lane, k, 1)
			case q < m.Get(c.y.qmin[k], lane)-reactiveSlack:
				c.toPQ(lane, k, -1)
			default:
				continue
			}
		} else if above := m.Get(p.vm[b], lane) - c.dispatch.Vm[b]; !(float64(side)*above > reactiveSlack) {
			continue
		} else if l.released[k] == maxReleases {
			l.stuck = true
			continue
		} else {
			c.toPV(lane, k)
		}
		changed = true
	}
	return changed
}

// Solve solves the power flows of at most Lanes outages, each from its own start, and reads them.
func (c *Contingencies) Solve(group []*Contingency) {
	for lane := range c.lane {
		if lane < len(group) {
			c.Load(lane, group[lane])
		} else {
			c.Unload(lane)
		}
	}
	c.run(math.Inf(1))
	for lane := range group {
		c.record(lane)
		c.Read(lane)
		c.Unload(lane)
	}
}

// Check solves the power flows of the outages in the lanes from their states. A failed one restarts at the voltages
// before the outage. A power flow ends early where its mismatch cannot bring its margin below room, pu.
func (c *Contingencies) Check(room float64) {
	for lane := range c.lane {
		switch l := &c.lane[lane]; {
		case l.contingency == nil:
		case l.failed:
			c.Restart(lane, l.contingency)
		default:
			c.resume(lane)
		}
	}
	c.run(room)
	retry := false
	for lane := range c.lane {
		if l := &c.lane[lane]; l.contingency != nil && c.w.state[lane] == gaveUp && !l.fromBase {
			c.Restart(lane, l.contingency)
			retry = true
		}
	}
	if retry {
		c.run(room)
	}
	for lane := range c.lane {
		l := &c.lane[lane]
		l.fromBase, l.failed = false, c.w.state[lane] == gaveUp
		c.record(lane)
	}
}

// SetRough makes power flows end at roughTolerance, with the reactive limits of the first step. They serve a linear
// model of the outages, not a margin.
func (c *Contingencies) SetRough(rough bool) { c.rough = rough }

// record stores the result of a lane.
func (c *Contingencies) record(lane int) {
	l := &c.lane[lane]
	l.solved, l.margin = c.w.state[lane] == converged, -1
	if l.solved {
		l.margin = -c.w.m.Get(c.y.breach[0], lane)
	}
}

// AcceptConverged ends the power flows that need no step and leaves the others to SolveRemaining. These are few in
// each group and need far fewer lanes together. Both together are Check.
func (c *Contingencies) AcceptConverged(room float64) {
	m, p := c.w.m, &c.w.solver.plan
	m.Run(programMismatch)
	c.marginsCurrent, c.flowsCurrent = false, false
	for lane := range c.lane {
		l := &c.lane[lane]
		if l.contingency == nil {
			continue
		}
		if c.resume(lane); !l.failed && c.endsEarly(lane, room) {
			c.Flows++
			c.record(lane)
			continue
		}
		c.w.state[lane] = idle
		c.remaining = append(c.remaining, groupSlot{c.groupIndex, lane, m.Get(p.sum[0], lane) + m.Get(c.y.reactiveExcess[0], lane)})
	}
}

// SolveRemaining solves the outages that AcceptConverged left, in shared lanes. Similar mismatches need about as
// many steps, so they share lanes.
func (c *Contingencies) SolveRemaining(room float64) {
	if len(c.remaining) == 0 {
		return
	}
	slices.SortStableFunc(c.remaining, func(a, b groupSlot) int { return cmp.Compare(b.sum, a.sum) })
	c.clear()
	previous := c.groupIndex
	c.groupIndex, c.lane = -1, c.sharedLanes
	for pack := range slices.Chunk(c.remaining, len(c.lane)) {
		for lane := range c.lane {
			if c.w.state[lane] = idle; lane < len(pack) {
				c.loadShared(lane, pack[lane])
			}
		}
		c.Check(room)
		for lane, to := range pack {
			c.storeShared(lane, to)
		}
	}
	c.remaining, c.lane = c.remaining[:0], nil
	c.SelectGroup(previous)
}

// run takes steps until no lane is running, then computes the margins.
func (c *Contingencies) run(room float64) {
	for lane := range c.lane {
		if c.w.state[lane] == running {
			c.Flows++
		}
	}
	for c.evaluate(room) {
		c.step()
	}
	c.findMargins()
}

func (c *Contingencies) findMargins() {
	if !c.marginsCurrent {
		c.w.m.Run(programMargin)
		c.marginsCurrent = true
	}
}

// evaluate computes the mismatches and reports whether any lane is still running.
func (c *Contingencies) evaluate(room float64) (active bool) {
	c.w.m.Run(programMismatch)
	c.marginsCurrent, c.flowsCurrent = false, false
	for lane := range c.lane {
		if c.w.state[lane] == running && !c.endsEarly(lane, room) && c.continues(lane) {
			active = true
		}
		c.w.m.Set(c.w.solver.plan.running[0], lane, 1)
		if c.w.state[lane] == running {
			c.w.m.Set(c.w.solver.plan.running[0], lane, -1)
		}
	}
	return active
}

// endsEarly ends a lane whose mismatch, reactive power beyond limits included, cannot bring its margin below room.
func (c *Contingencies) endsEarly(lane int, room float64) bool {
	m, y := c.w.m, c.y
	bound := marginFactor * (m.Get(c.w.solver.plan.sum[0], lane) + m.Get(y.reactiveExcess[0], lane))
	if math.IsInf(room, 1) || !(bound <= maxEarlySum) || bound > c.lane[lane].margin+marginDrift-room {
		return false
	}
	if c.groupIndex < 0 && c.w.steps[lane] == 0 {
		return false // as AcceptConverged found
	}
	c.findMargins()
	if bound > -m.Get(y.breach[0], lane)-room {
		return false
	}
	c.w.state[lane] = converged
	return true
}

// step takes a Newton step in the running lanes, with the last factors where these serve all of them.
func (c *Contingencies) step() {
	refactor := false
	for lane := range c.lane {
		if c.w.state[lane] == running {
			refactor = refactor || c.lane[lane].staleFactors
			c.w.steps[lane]++
		}
	}
	c.Steps++
	if !refactor {
		c.w.m.Run(programSolve)
		return
	}
	c.Factorisations++
	c.factorsCurrent = true
	for lane := range c.lane {
		c.lane[lane].staleFactors = false
		c.factorsCurrent = c.factorsCurrent && (c.w.state[lane] != running || c.lane[lane].worst <= nearImbalance)
	}
	c.w.m.Run(programStep)
}

// continues updates the state of a lane after a step, and decides whether the last factors serve the next one.
func (c *Contingencies) continues(lane int) bool {
	m, p, l := c.w.m, &c.w.solver.plan, &c.lane[lane]
	worst, sum := m.Get(p.worst[0], lane), m.Get(p.sum[0], lane)
	l.stuck = false
	tolerance, late := c.tolerance, false
	if c.rough {
		tolerance, late = math.Max(tolerance, roughTolerance), c.w.steps[lane] > 0
	}
	switched := !late && worst < switchBelow && m.Get(c.y.switchExcess[0], lane) > reactiveSlack && c.switchBuses(lane)
	switch {
	case sum-sum != 0 || worst >= powerflow.Hopeless || c.w.steps[lane] == maxContingencySteps:
		c.w.state[lane] = gaveUp
	case worst <= tolerance && !switched:
		if c.w.state[lane] = converged; l.stuck {
			c.w.state[lane] = gaveUp
		}
	}
	l.staleFactors = l.staleFactors || switched || worst > reuseRatio*l.worst
	l.worst = worst
	return c.w.state[lane] == running
}

// Solved says whether the outage in a lane has a power flow.
func (c *Contingencies) Solved(lane int) bool { return c.lane[lane].solved }

// Margin is the smallest distance to a limit after an outage of a group, pu: −1 without a power flow.
func (c *Contingencies) Margin(group, lane int) float64 { return c.groups[group].lane[lane].margin }

// Read writes the state of a lane into its contingency.
func (c *Contingencies) Read(lane int) {
	n, m, p := c.y.net, c.w.m, &c.w.solver.plan
	y, contingency := c.y, c.lane[lane].contingency
	contingency.Solved, contingency.Steps, contingency.Margin = c.lane[lane].solved, c.w.steps[lane], c.lane[lane].margin
	m.Gather(contingency.Vm, p.vm[0], lane)
	m.Gather(contingency.Va, p.va[0], lane)
	contingency.Delta = m.Get(y.delta[0], lane)
	clear(contingency.Q)
	for _, b := range y.genBuses {
		contingency.Q[b] = m.Get(p.q[b], lane) - c.qs[b]
	}
	if !c.flowsCurrent {
		c.w.Flows(true)
		c.flowsCurrent = true
	}
	c.w.From(lane, contingency.From)
	c.w.To(lane, contingency.To)
	for g := range contingency.Participating {
		contingency.Participating[g] = g != contingency.Unit
		if part := y.share[g]; part > 0 && contingency.Participating[g] {
			output := c.dispatch.Pg[g] + part*contingency.Delta
			contingency.Participating[g] = output >= n.PMin[g] && output <= n.PMax[g]
		}
	}
}

// Linearise factors the Jacobians of the outages in the lanes, unless the factors of the last step serve.
func (c *Contingencies) Linearise() {
	if c.factorsCurrent {
		return
	}
	c.factorsCurrent = true
	c.w.m.Run(programFactors)
	c.Factorisations++
	for lane := range c.lane {
		c.lane[lane].staleFactors = false
	}
}

// SeedMagnitude sets the adjoint's gradient to that of a voltage magnitude. The lane must be linearised and read.
func (c *Contingencies) SeedMagnitude(lane, bus int) {
	c.seed(lane, [2]int{bus, bus}, 0, [2]float64{1, 0})
}

// SeedFlow sets the adjoint's gradient to that of |S| at one end of a branch.
func (c *Contingencies) SeedFlow(lane, branch int, fromEnd bool) {
	contingency := c.lane[lane].contingency
	g := powerflow.SizeGradient(c.y.net, branch, fromEnd, contingency.Vm, contingency.Va)
	c.seed(lane, [2]int{g.Bus, g.Remote}, g.Angle, [2]float64{g.Magnitude, g.RemoteMagnitude})
}

// seed sets a lane's gradient by the angle across two buses and by their magnitudes.
func (c *Contingencies) seed(lane int, bus [2]int, turn float64, magnitude [2]float64) {
	m, e := c.w.m, c.w.solver.elimination
	for i := range e.size {
		m.Set(c.y.gradient[i], lane, 0)
	}
	add := func(unknown int, v float64) {
		m.Set(c.y.gradient[unknown], lane, m.Get(c.y.gradient[unknown], lane)+v)
	}
	for k, b := range bus {
		if b != c.y.net.Slack {
			add(e.unknown[0][b], turn)
		}
		add(e.unknown[1][b], c.lane[lane].contingency.Vm[b]*magnitude[k])
		turn = -turn
	}
}

// Adjoint solves for the sensitivities of every lane's quantity. Power and Voltage read them.
func (c *Contingencies) Adjoint() { c.w.m.Run(programAdjoint) }

// Power is the derivative of a lane's quantity by a unit's power before the outage.
func (c *Contingencies) Power(lane, unit int) float64 {
	if !c.lane[lane].contingency.Participating[unit] {
		return 0
	}
	e := c.w.solver.elimination
	return c.w.m.Get(e.x[e.unknown[0][c.y.net.GenBus[unit]]], lane)
}

// Voltage is the derivative by the set-point of a bus with units.
func (c *Contingencies) Voltage(lane, bus int) float64 {
	e, contingency := c.w.solver.elimination, c.lane[lane].contingency
	if contingency.AtLimit[bus] != 0 || contingency.Unit >= 0 && c.y.net.GenBus[contingency.Unit] == bus && c.isLastUnit(contingency.Unit) {
		return 0
	}
	return c.w.m.Get(e.x[e.unknown[1][bus]], lane) / contingency.Vm[bus]
}
