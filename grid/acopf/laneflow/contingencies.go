package laneflow

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// Contingency is the network after the outage of a branch or a unit; the other index is −1. A solve starts at its
// voltages, reactive limits and Delta, and Read overwrites them.
type Contingency struct {
	Branch, Unit  int
	Vm, Va        []float64 // by bus
	AtLimit       []int8    // by bus: at its units' lower (−1) or upper (+1) reactive limit
	Delta         float64   // shared power, pu
	Solved        bool
	Margin        float64   // smallest distance to a limit, pu
	Q             []float64 // by bus: reactive power of its units
	From, To      []float64 // |S| of rated branches; undefined for the one that is out
	Participating []bool    // by unit: in service and not at a limit of P
	Steps         int       // of Newton's method in the last solve
}

// NewContingency allocates the contingency of an outage.
func (s *Solver) NewContingency(branch, unit int) *Contingency {
	buses, rated := s.net.Buses(), len(s.rated)
	return &Contingency{
		Branch: branch, Unit: unit, Vm: make([]float64, buses), Va: make([]float64, buses), AtLimit: make([]int8, buses),
		Q: make([]float64, buses), From: make([]float64, rated), To: make([]float64, rated), Participating: make([]bool, s.net.Gens()),
	}
}

// Dispatch is the operating point before outages: loads by bus, powers by unit, and voltages by bus. Voltages of
// buses with units are set-points.
type Dispatch struct{ Pd, Qd, Pg, Vm, Va []float64 }

// Contingencies solves power flows after outages at once, each by Newton's method. Units share the missing power
// within their limits, and buses hold their voltage up to a reactive limit. Outages form groups of as many as there
// are lanes. One group at a time is in the lanes; the others are saved. After a new dispatch every outage continues
// from its last state. Where few outages of each group need a step, AcceptConverged and SolveRemaining take the
// steps in shared lanes. One goroutine uses it.
type Contingencies struct {
	w              *Worker
	y              *sharing
	dispatch       Dispatch
	before         voltages // at the dispatch
	dispatches     int      // counts SetDispatch
	scratch        voltages // of Load
	shiftedFrom    int      // the dispatch from which the cells of sharing.shift lead to this one; 0: none
	tolerance      float64
	lane           []lane // of the current group, or sharedLanes
	groups         []groupState
	groupIndex     int         // of the current group; −1: sharedLanes
	sharedLanes    []lane      // of outages of several groups
	remaining      []groupSlot // left by AcceptConverged to SolveRemaining
	qlo, qhi       []float64   // by bus: sums of its units' limits
	ps, qs         []float64   // without the units that share
	rated          []int       // by branch: its index among the rated; −1: none
	rough          bool        // see SetRough
	factorsCurrent bool        // factors belong to the present voltages, nearly
	marginsCurrent bool        // margins belong to the present voltages
	flowsCurrent   bool        // |S| belong to the present voltages
	// Flows counts power flows of single lanes, Factorisations and Steps those of all lanes at once.
	Flows, Factorisations, Steps int
}

// groupState is the saved state of a group's outages.
type groupState struct {
	lane     []lane
	saved    [7][]float64 // by stateCells
	before   voltages     // voltages before its outages
	dispatch int          // its number; 0: none
}

// voltages are by bus, in polar and rectangular form.
type voltages struct{ vm, va, e, f []float64 }

func newVoltages(buses int) voltages {
	array := func() []float64 { return make([]float64, buses) }
	return voltages{array(), array(), array(), array()}
}

// toRectangular computes the rectangular form.
func (v *voltages) toRectangular() {
	for b, m := range v.vm {
		sin, cos := math.Sincos(v.va[b])
		v.e[b], v.f[b] = m*cos, m*sin
	}
}

func (v *voltages) copyFrom(source *voltages) {
	copy(v.vm, source.vm)
	copy(v.va, source.va)
	copy(v.e, source.e)
	copy(v.f, source.f)
}

// lane is one outage in a lane.
type lane struct {
	contingency  *Contingency
	removed      removedBranch
	released     []uint8
	stuck        bool // a bus switched to PV too often
	fromBase     bool // started at the voltages before the outage
	failed       bool // without a power flow
	staleFactors bool // the last factors do not serve the next step
	worst        float64
	// Result of the last check: whether there is a power flow, and the smallest distance to a limit, −1 without one.
	solved bool
	margin float64
}

// groupSlot is the place of an outage in its group, with its mismatch there.
type groupSlot struct {
	group, lane int
	sum         float64
}

// NewContingencies returns them for a solver of ForContingencies. Power flows end at a mismatch of tolerance pu.
func NewContingencies(s *Solver, tolerance float64) *Contingencies {
	n, y := s.net, s.sharing
	c := &Contingencies{
		w: s.NewWorker(), y: y, tolerance: tolerance, qlo: make([]float64, n.Buses()), qhi: make([]float64, n.Buses()),
		before: newVoltages(n.Buses()), scratch: newVoltages(n.Buses()), ps: make([]float64, n.Buses()), qs: make([]float64, n.Buses()),
		rated: slices.Repeat([]int{-1}, n.Branches()),
	}
	c.sharedLanes = c.newLanes()
	c.SelectGroup(0)
	for g, b := range n.GenBus {
		c.qlo[b] += n.QMin[g]
		c.qhi[b] += n.QMax[g]
	}
	m := c.w.m
	for b := range n.Kind {
		m.SetAll(y.vmin[b], n.VMin[b]-y.band)
		m.SetAll(y.vmax[b], n.VMax[b]+y.band)
	}
	for r, k := range s.rated {
		c.rated[k] = r
		m.SetAll(y.rate[r], y.emergency*n.Rate[k])
	}
	for k, b := range y.genBuses {
		m.SetAll(y.qmin[k], c.qlo[b])
		m.SetAll(y.qmax[k], c.qhi[b])
	}
	for k, g := range y.units {
		m.SetAll(y.participation[k], y.share[g])
		m.SetAll(y.lo[k], n.PMin[g])
		m.SetAll(y.hi[k], n.PMax[g])
	}
	return c
}

// Lanes is the number of power flows that its workers solve at once.
func (s *Solver) Lanes() int { return s.compiled.Width() }

// Lanes is the largest number of outages in a group.
func (c *Contingencies) Lanes() int { return c.w.Lanes() }

func (c *Contingencies) newLanes() []lane {
	list := make([]lane, c.w.Lanes())
	for lane := range list {
		list[lane].released = make([]uint8, len(c.y.genBuses))
	}
	return list
}

// SelectGroup puts a group into the lanes.
func (c *Contingencies) SelectGroup(g int) {
	for len(c.groups) <= g {
		c.groups = append(c.groups, groupState{lane: c.newLanes(), before: newVoltages(c.y.net.Buses())})
	}
	if g == c.groupIndex && c.lane != nil {
		return
	}
	c.clear()
	c.groupIndex, c.lane, c.marginsCurrent = g, c.groups[g].lane, false
	c.flowsCurrent, c.factorsCurrent = false, false
	for i, cells := range c.stateCells() {
		c.w.m.Write(cells[0], c.groups[g].saved[i])
	}
	c.shiftVoltages(&c.groups[g])
	for lane := range c.lane {
		c.w.state[lane], c.lane[lane].staleFactors = idle, true
		if c.lane[lane].contingency != nil {
			c.removeFromNetwork(lane)
		}
	}
}

// clear empties the lanes. A group's state is saved.
func (c *Contingencies) clear() {
	for lane := range c.lane {
		c.restoreNetwork(lane)
	}
	if c.lane != nil && c.groupIndex >= 0 {
		group := &c.groups[c.groupIndex]
		for i, cells := range c.stateCells() {
			group.saved[i] = slices.Grow(group.saved[i][:0], len(cells)*len(c.lane))[:len(cells)*len(c.lane)]
			c.w.m.Read(group.saved[i], cells[0])
		}
	}
}

// stateCells are the cells of an outage's state.
func (c *Contingencies) stateCells() [7]lanes.Col {
	y, p := c.y, &c.w.solver.plan
	return [7]lanes.Col{p.vm, p.va, p.e, p.f, y.delta, y.free, y.limitSide}
}

// shiftVoltages shifts the voltages of a group's lanes by the change of the voltages before outages since its last
// dispatch.
func (c *Contingencies) shiftVoltages(from *groupState) {
	if from.dispatch == c.dispatches {
		return
	}
	if from.dispatch > 0 {
		if c.shiftedFrom != from.dispatch {
			c.shiftedFrom = from.dispatch
			c.setShift(&from.before)
		}
		c.w.m.Run(programShift)
	}
	from.before.copyFrom(&c.before)
	from.dispatch = c.dispatches
}

// setShift writes the change of the voltages before outages.
func (c *Contingencies) setShift(old *voltages) {
	m, shift, current := c.w.m, &c.y.shift, &c.before
	for b, v := range old.vm {
		v2 := v * v
		m.SetAll(shift[0][b], current.vm[b]/v)
		m.SetAll(shift[1][b], current.va[b]-old.va[b])
		m.SetAll(shift[2][b], (current.e[b]*old.e[b]+current.f[b]*old.f[b])/v2)
		m.SetAll(shift[3][b], (current.f[b]*old.e[b]-current.e[b]*old.f[b])/v2)
	}
}

// loadShared copies an outage of a saved group at this dispatch into a shared lane.
func (c *Contingencies) loadShared(lane int, from groupSlot) {
	home, lanes := &c.groups[from.group], len(c.lane)
	for i, cells := range c.stateCells() {
		for k, r := range cells {
			c.w.m.Set(r, lane, home.saved[i][k*lanes+from.lane])
		}
	}
	l := &c.lane[lane]
	l.contingency, l.staleFactors, l.fromBase = home.lane[from.lane].contingency, true, false
	l.failed, l.margin = home.lane[from.lane].failed, home.lane[from.lane].margin
	c.removeFromNetwork(lane)
}

// storeShared copies it back with its result.
func (c *Contingencies) storeShared(lane int, to groupSlot) {
	home, lanes := &c.groups[to.group], len(c.lane)
	for i, cells := range c.stateCells() {
		for k, r := range cells {
			home.saved[i][k*lanes+to.lane] = c.w.m.Get(r, lane)
		}
	}
	l, target := &c.lane[lane], &home.lane[to.lane]
	target.failed, target.solved, target.margin = l.failed, l.solved, l.margin
	c.Unload(lane)
}

// SetDispatch sets the dispatch. Outages continue from their states, shifted by the change of the voltages before
// them.
func (c *Contingencies) SetDispatch(d Dispatch) {
	n, y := c.y.net, c.y
	m, p := c.w.m, &c.w.solver.plan
	c.dispatch = d
	c.dispatches++
	c.shiftedFrom, c.factorsCurrent = 0, false
	copy(c.before.vm, d.Vm)
	copy(c.before.va, d.Va)
	c.before.toRectangular()
	c.shiftVoltages(&c.groups[c.groupIndex])
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
	for k, b := range y.genBuses {
		m.SetAll(y.setPoint[k], d.Vm[b])
	}
	for k, g := range y.units {
		m.SetAll(y.p[k], d.Pg[g])
	}
	for lane := range c.lane {
		if c.lane[lane].contingency != nil {
			c.applyOutage(lane)
		}
	}
}

// applyOutage sets the cells of a lane in which its outage changes the dispatch.
func (c *Contingencies) applyOutage(lane int) {
	m, contingency := c.w.m, c.lane[lane].contingency
	if contingency.Unit >= 0 {
		c.setUnit(lane, contingency.Unit, false)
	}
	for k, b := range c.y.genBuses {
		if side := contingency.AtLimit[b]; side != 0 {
			m.Set(c.w.solver.plan.qs[b], lane, c.qs[b]+c.reactiveLimit(lane, k, side))
		}
	}
}

// reactiveLimit is the lower or upper reactive limit at an index of genBuses.
func (c *Contingencies) reactiveLimit(lane, k int, side int8) float64 {
	if side < 0 {
		return c.w.m.Get(c.y.qmin[k], lane)
	}
	return c.w.m.Get(c.y.qmax[k], lane)
}

// Load puts an outage into a lane, at its own start and the dispatch of SetDispatch.
func (c *Contingencies) Load(lane int, contingency *Contingency) {
	start := &c.scratch
	copy(start.vm, contingency.Vm)
	copy(start.va, contingency.Va)
	start.va[c.y.net.Slack] = c.dispatch.Va[c.y.net.Slack]
	for _, b := range c.y.genBuses {
		if contingency.AtLimit[b] == 0 && !(contingency.Unit >= 0 && c.y.net.GenBus[contingency.Unit] == b && c.isLastUnit(contingency.Unit)) {
			start.vm[b] = c.before.vm[b]
		}
	}
	start.toRectangular()
	c.load(lane, contingency, start)
}

func (c *Contingencies) load(lane int, contingency *Contingency, from *voltages) {
	l, y := &c.lane[lane], c.y
	m, p := c.w.m, &c.w.solver.plan
	c.Unload(lane)
	l.contingency, l.staleFactors, l.fromBase = contingency, true, false
	l.failed, l.margin = false, math.Inf(1)
	c.factorsCurrent = false
	m.Scatter(p.vm[0], lane, from.vm)
	m.Scatter(p.va[0], lane, from.va)
	m.Scatter(p.e[0], lane, from.e)
	m.Scatter(p.f[0], lane, from.f)
	m.Set(y.delta[0], lane, contingency.Delta)
	c.removeFromNetwork(lane)
	for k, b := range y.genBuses {
		free := 0.0
		if m.Get(y.noUnit[k], lane) != 0 || contingency.AtLimit[b] != 0 {
			free = 1
		}
		m.Set(y.free[k], lane, free)
		m.Set(y.limitSide[k], lane, float64(contingency.AtLimit[b]))
	}
	c.resume(lane)
}

// Unload removes the outage from a lane, if there is one.
func (c *Contingencies) Unload(lane int) {
	c.restoreNetwork(lane)
	c.lane[lane].contingency, c.w.state[lane] = nil, idle
}

// removeFromNetwork removes the branch or unit of the outage from a lane's network.
func (c *Contingencies) removeFromNetwork(lane int) {
	l := &c.lane[lane]
	if branch := l.contingency.Branch; branch >= 0 {
		l.removed.remove(c.w, lane, branch)
		c.setRating(lane, branch, math.Inf(1))
	}
	if unit := l.contingency.Unit; unit >= 0 {
		c.setReactiveLimits(lane, unit, false)
		if b := c.y.net.GenBus[unit]; c.isLastUnit(unit) {
			l.contingency.AtLimit[b] = 0
		}
	}
	c.applyOutage(lane)
}

// restoreNetwork puts it back.
func (c *Contingencies) restoreNetwork(lane int) {
	l, y := &c.lane[lane], c.y
	if l.contingency == nil {
		return
	}
	l.removed.restore(c.w, lane)
	if branch := l.contingency.Branch; branch >= 0 {
		c.setRating(lane, branch, y.emergency*y.net.Rate[branch])
	}
	if unit := l.contingency.Unit; unit >= 0 {
		c.setUnit(lane, unit, true)
		c.setReactiveLimits(lane, unit, true)
	}
	for _, b := range y.genBuses {
		c.w.m.Set(c.w.solver.plan.qs[b], lane, c.qs[b])
	}
}

// setReactiveLimits sets the reactive limits at a unit's bus, with that unit present or not.
func (c *Contingencies) setReactiveLimits(lane, unit int, present bool) {
	m, y, b := c.w.m, c.y, c.y.net.GenBus[unit]
	lo, hi, empty := c.qlo[b], c.qhi[b], 0.0
	if !present {
		if lo, hi = c.limitsWithout(unit); lo > hi {
			empty = roomWithoutUnit
		}
	}
	k, _ := slices.BinarySearch(y.genBuses, b)
	m.Set(y.qmin[k], lane, lo)
	m.Set(y.qmax[k], lane, hi)
	m.Set(y.noUnit[k], lane, empty)
}

func (c *Contingencies) setRating(lane, branch int, v float64) {
	if r := c.rated[branch]; r >= 0 {
		c.w.m.Set(c.y.rate[r], lane, v)
	}
}

// Restart puts an outage into a lane at the voltages before it.
func (c *Contingencies) Restart(lane int, contingency *Contingency) {
	copy(contingency.Vm, c.before.vm)
	copy(contingency.Va, c.before.va)
	clear(contingency.AtLimit)
	if contingency.Delta = 0; contingency.Unit >= 0 {
		contingency.Delta = c.dispatch.Pg[contingency.Unit]
	}
	c.load(lane, contingency, &c.before)
	c.lane[lane].fromBase = true
}

// resume sets a lane running.
func (c *Contingencies) resume(lane int) {
	l := &c.lane[lane]
	l.worst = math.Inf(1)
	clear(l.released)
	c.w.state[lane], c.w.steps[lane] = running, 0
}

// setUnit adds a unit to a lane or removes it.
func (c *Contingencies) setUnit(lane, unit int, present bool) {
	n, y, m := c.y.net, c.y, c.w.m
	var power, part, lo, hi float64
	if present {
		power, part = c.dispatch.Pg[unit], y.share[unit]
		lo, hi = n.PMin[unit], n.PMax[unit]
	}
	k, shares := slices.BinarySearch(y.units, unit)
	if !shares {
		b := n.GenBus[unit]
		m.Set(c.w.solver.plan.ps[b], lane, c.ps[b]-(c.dispatch.Pg[unit]-power))
		return
	}
	m.Set(y.p[k], lane, power)
	m.Set(y.participation[k], lane, part)
	m.Set(y.lo[k], lane, lo)
	m.Set(y.hi[k], lane, hi)
}

// limitsWithout are the reactive limits at a unit's bus when it is out; lo is above hi without another unit there.
func (c *Contingencies) limitsWithout(unit int) (lo, hi float64) {
	n, anyUnit := c.y.net, false
	for g, b := range n.GenBus {
		if g != unit && b == n.GenBus[unit] {
			lo, hi, anyUnit = lo+n.QMin[g], hi+n.QMax[g], true
		}
	}
	if !anyUnit {
		return 1, -1
	}
	return lo, hi
}

func (c *Contingencies) isLastUnit(unit int) bool {
	lo, hi := c.limitsWithout(unit)
	return lo > hi
}
