package laneflow

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// Contingency is the network after the outage of a branch or a unit, of which the other is −1. Voltages, what is
// held and what units share are where a solve begins, and what Read finds.
type Contingency struct {
	Branch, Unit int
	Vm, Va       []float64 // by bus
	Held         []int8    // by bus: at its units' lower (−1) or upper (+1) reactive limit
	Delta        float64   // what units share, pu
	Solved       bool
	Margin       float64   // the least room to a limit, pu
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
// missing within their limits, and buses hold their voltage until a reactive limit. Outages are in groups of as many as
// there are lanes. One group at a time is in the lanes: others are kept where they stand. At the next dispatch all go on
// from there. Where few outages of each group need a step, Look and Finish take it in lanes that these share. It is used by
// one goroutine.
type Contingencies struct {
	w          *Worker
	y          *sharing
	dispatch   Dispatch
	before     voltages // before the outages
	dispatches int      // taken so far
	start      voltages // of an outage that is loaded
	moves      int      // the dispatch from which the cells of sharing.moved lead to this one; 0: none
	tolerance  float64
	lane       []lane // of the group at work, or shared
	group      []stand
	now        int       // of group; −1: outages of several share the lanes
	shared     []lane    // of outages of several groups
	unsettled  []seat    // that Look has left to Finish
	qlo, qhi   []float64 // by bus of hold: sums of limits
	ps, qs     []float64 // without the units that share
	rated      []int     // by branch, among the rated; −1: not
	rough      bool      // see Roughly
	near       bool      // factors are of where the lanes stand, or near there
	margins    bool      // they are of the voltages in the lanes
	flows      bool      // so are |S|
	// Flows counts power flows, Factorisations those of all lanes, Steps Newton's steps likewise.
	Flows, Factorisations, Steps int
}

// stand is where the outages of a group stand.
type stand struct {
	lane     []lane
	cells    [7][]float64 // kept
	before   voltages     // the outages there
	dispatch int          // of dispatches
}

// voltages are by bus, in polar and rectangular form.
type voltages struct{ vm, va, e, f []float64 }

func newVoltages(buses int) voltages {
	made := func() []float64 { return make([]float64, buses) }
	return voltages{made(), made(), made(), made()}
}

// turn finds the rectangular form.
func (v *voltages) turn() {
	for b, m := range v.vm {
		sin, cos := math.Sincos(v.va[b])
		v.e[b], v.f[b] = m*cos, m*sin
	}
}

func (v *voltages) take(o *voltages) {
	copy(v.vm, o.vm)
	copy(v.va, o.va)
	copy(v.e, o.e)
	copy(v.f, o.f)
}

// lane is one outage at work.
type lane struct {
	of       *Contingency
	out      lost
	released []uint8
	stuck    bool // a bus is at a limit that does not hold it there, and was released too often
	anew     bool // begun at the voltages before the outage
	failed   bool // it has no power flow where it stands
	stale    bool // the last factors do not serve the next step
	worst    float64
	// What the last check has come to: whether there is a power flow, and the least room to a limit, −1 without one.
	solved bool
	margin float64
}

// seat is the place of an outage in its group, and how large its imbalance is there.
type seat struct {
	group, at int
	sum       float64
}

// NewContingencies returns them for a solver of ForContingencies. Power flows have at most tolerance pu of imbalance.
func NewContingencies(s *Solver, tolerance float64) *Contingencies {
	n, y := s.net, s.sharing
	c := &Contingencies{
		w: s.NewWorker(), y: y, tolerance: tolerance, qlo: make([]float64, n.Buses()), qhi: make([]float64, n.Buses()),
		before: newVoltages(n.Buses()), start: newVoltages(n.Buses()), ps: make([]float64, n.Buses()), qs: make([]float64, n.Buses()),
		rated: slices.Repeat([]int{-1}, n.Branches()),
	}
	c.shared = c.newLanes()
	c.Use(0)
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
	for k, b := range y.hold {
		m.SetAll(y.least[k], c.qlo[b])
		m.SetAll(y.most[k], c.qhi[b])
	}
	for k, g := range y.units {
		m.SetAll(y.part[k], y.share[g])
		m.SetAll(y.lo[k], n.PMin[g])
		m.SetAll(y.hi[k], n.PMax[g])
	}
	return c
}

// Lanes is how many power flows its workers solve at once.
func (s *Solver) Lanes() int { return s.compiled.Width() }

// Lanes is how many outages a group has at most.
func (c *Contingencies) Lanes() int { return c.w.Lanes() }

func (c *Contingencies) newLanes() []lane {
	to := make([]lane, c.w.Lanes())
	for at := range to {
		to[at].released = make([]uint8, len(c.y.hold))
	}
	return to
}

// Use puts a group into the lanes.
func (c *Contingencies) Use(g int) {
	for len(c.group) <= g {
		c.group = append(c.group, stand{lane: c.newLanes(), before: newVoltages(c.y.net.Buses())})
	}
	if g == c.now && c.lane != nil {
		return
	}
	c.clear()
	c.now, c.lane, c.margins, c.flows, c.near = g, c.group[g].lane, false, false, false
	c.takeUp(&c.group[g])
	for at := range c.lane {
		c.w.state[at], c.lane[at].stale = idle, true
		if c.lane[at].of != nil {
			c.occupy(at)
		}
	}
}

// clear takes what is in the lanes out of them. A group is kept where it stands.
func (c *Contingencies) clear() {
	for at := range c.lane {
		c.vacate(at)
	}
	if c.lane != nil && c.now >= 0 {
		c.keep(&c.group[c.now])
	}
}

// kept are the cells of what says where outages stand.
func (c *Contingencies) kept() [7]lanes.Col {
	y, p := c.y, &c.w.solver.plan
	return [7]lanes.Col{p.vm, p.va, p.e, p.f, y.delta, y.free, y.side}
}

// keep takes note of where the lanes stand.
func (c *Contingencies) keep(to *stand) {
	for i, cells := range c.kept() {
		to.cells[i] = slices.Grow(to.cells[i][:0], len(cells)*len(c.lane))[:len(cells)*len(c.lane)]
		c.w.m.Read(to.cells[i], cells[0])
	}
}

// takeUp puts the lanes where they stood, moved as the voltages before outages have since.
func (c *Contingencies) takeUp(from *stand) {
	for i, cells := range c.kept() {
		c.w.m.Write(cells[0], from.cells[i])
	}
	c.follow(from)
}

// follow moves voltages in the lanes, which are of a group, as those before outages have moved since it stood there.
func (c *Contingencies) follow(from *stand) {
	if from.dispatch == c.dispatches {
		return
	}
	if from.dispatch > 0 {
		if c.moves != from.dispatch {
			c.moves = from.dispatch
			c.move(&from.before)
		}
		c.w.m.Run(programFollow)
	}
	from.before.take(&c.before)
	from.dispatch = c.dispatches
}

// move fills in how voltages before outages have moved.
func (c *Contingencies) move(was *voltages) {
	m, by, is := c.w.m, &c.y.moved, &c.before
	for b, v := range was.vm {
		v2 := v * v
		m.SetAll(by[0][b], is.vm[b]/v)
		m.SetAll(by[1][b], is.va[b]-was.va[b])
		m.SetAll(by[2][b], (is.e[b]*was.e[b]+is.f[b]*was.f[b])/v2)
		m.SetAll(by[3][b], (is.f[b]*was.e[b]-is.e[b]*was.f[b])/v2)
	}
}

// lift puts an outage of a group that is kept at this dispatch into a shared lane.
func (c *Contingencies) lift(at int, from seat) {
	home, lanes := &c.group[from.group], len(c.lane)
	for i, cells := range c.kept() {
		for k, r := range cells {
			c.w.m.Set(r, at, home.cells[i][k*lanes+from.at])
		}
	}
	l := &c.lane[at]
	l.of, l.stale, l.anew, l.failed, l.margin = home.lane[from.at].of, true, false, home.lane[from.at].failed, home.lane[from.at].margin
	c.occupy(at)
}

// lower puts it back into its group, with what it has come to.
func (c *Contingencies) lower(at int, to seat) {
	home, lanes := &c.group[to.group], len(c.lane)
	for i, cells := range c.kept() {
		for k, r := range cells {
			home.cells[i][k*lanes+to.at] = c.w.m.Get(r, at)
		}
	}
	l, was := &c.lane[at], &home.lane[to.at]
	was.failed, was.solved, was.margin = l.failed, l.solved, l.margin
	c.Leave(at)
}

// At takes a dispatch. Outages go on from where they stand, moved as the voltages before them have.
func (c *Contingencies) At(d Dispatch) {
	n, y, m, p := c.y.net, c.y, c.w.m, &c.w.solver.plan
	c.dispatch = d
	c.dispatches++
	c.moves, c.near = 0, false
	copy(c.before.vm, d.Vm)
	copy(c.before.va, d.Va)
	c.before.turn()
	c.follow(&c.group[c.now])
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
	}
	for at := range c.lane {
		if c.lane[at].of != nil {
			c.place(at)
		}
	}
}

// place gives a lane what its outage changes of a dispatch.
func (c *Contingencies) place(at int) {
	m, of := c.w.m, c.lane[at].of
	if of.Unit >= 0 {
		c.unit(at, of.Unit, false)
	}
	for k, b := range c.y.hold {
		if side := of.Held[b]; side != 0 {
			m.Set(c.w.solver.plan.qs[b], at, c.qs[b]+c.limit(at, k, side))
		}
	}
}

// limit is the reactive limit of a bus of hold on a side.
func (c *Contingencies) limit(at, k int, side int8) float64 {
	if side < 0 {
		return c.w.m.Get(c.y.least[k], at)
	}
	return c.w.m.Get(c.y.most[k], at)
}

// Load gives a lane an outage from where it begins, at the dispatch of At.
func (c *Contingencies) Load(at int, of *Contingency) {
	start := &c.start
	copy(start.vm, of.Vm)
	copy(start.va, of.Va)
	start.va[c.y.net.Slack] = c.dispatch.Va[c.y.net.Slack]
	for _, b := range c.y.hold {
		if of.Held[b] == 0 && !(of.Unit >= 0 && c.y.net.GenBus[of.Unit] == b && c.emptied(of.Unit)) {
			start.vm[b] = c.before.vm[b]
		}
	}
	start.turn()
	c.load(at, of, start)
}

func (c *Contingencies) load(at int, of *Contingency, from *voltages) {
	l, y := &c.lane[at], c.y
	m, p := c.w.m, &c.w.solver.plan
	c.Leave(at)
	l.of, l.stale, l.anew, l.failed, l.margin = of, true, false, false, math.Inf(1)
	c.near = false
	m.Scatter(p.vm[0], at, from.vm)
	m.Scatter(p.va[0], at, from.va)
	m.Scatter(p.e[0], at, from.e)
	m.Scatter(p.f[0], at, from.f)
	m.Set(y.delta[0], at, of.Delta)
	c.occupy(at)
	for k, b := range y.hold {
		free := 0.0
		if m.Get(y.empty[k], at) != 0 || of.Held[b] != 0 {
			free = 1
		}
		m.Set(y.free[k], at, free)
		m.Set(y.side[k], at, float64(of.Held[b]))
	}
	c.again(at)
}

// Leave takes the outage out of a lane, if there is one.
func (c *Contingencies) Leave(at int) {
	c.vacate(at)
	c.lane[at].of, c.w.state[at] = nil, idle
}

// occupy takes what an outage takes out of a lane's network.
func (c *Contingencies) occupy(at int) {
	l := &c.lane[at]
	if branch := l.of.Branch; branch >= 0 {
		l.out.take(c.w, at, branch)
		c.rating(at, branch, math.Inf(1))
	}
	if unit := l.of.Unit; unit >= 0 {
		c.reactive(at, unit, false)
		if b := c.y.net.GenBus[unit]; c.emptied(unit) {
			l.of.Held[b] = 0
		}
	}
	c.place(at)
}

// vacate gives it back.
func (c *Contingencies) vacate(at int) {
	l, y := &c.lane[at], c.y
	if l.of == nil {
		return
	}
	l.out.restore(c.w, at)
	if branch := l.of.Branch; branch >= 0 {
		c.rating(at, branch, y.emergency*y.net.Rate[branch])
	}
	if unit := l.of.Unit; unit >= 0 {
		c.unit(at, unit, true)
		c.reactive(at, unit, true)
	}
	for _, b := range y.hold {
		c.w.m.Set(c.w.solver.plan.qs[b], at, c.qs[b])
	}
}

// reactive gives a lane the reactive limits at a unit's bus, with that unit there or not.
func (c *Contingencies) reactive(at, unit int, there bool) {
	m, y, b := c.w.m, c.y, c.y.net.GenBus[unit]
	lo, hi, empty := c.qlo[b], c.qhi[b], 0.0
	if !there {
		if lo, hi = c.without(unit); lo > hi {
			empty = roomWithoutUnit
		}
	}
	k, _ := slices.BinarySearch(y.hold, b)
	m.Set(y.least[k], at, lo)
	m.Set(y.most[k], at, hi)
	m.Set(y.empty[k], at, empty)
}

func (c *Contingencies) rating(at, branch int, v float64) {
	if r := c.rated[branch]; r >= 0 {
		c.w.m.Set(c.y.rate[r], at, v)
	}
}

// Begin gives a lane an outage from the voltages before it.
func (c *Contingencies) Begin(at int, of *Contingency) {
	copy(of.Vm, c.before.vm)
	copy(of.Va, c.before.va)
	clear(of.Held)
	if of.Delta = 0; of.Unit >= 0 {
		of.Delta = c.dispatch.Pg[of.Unit]
	}
	c.load(at, of, &c.before)
	c.lane[at].anew = true
}

// again lets a lane go on.
func (c *Contingencies) again(at int) {
	l := &c.lane[at]
	l.worst = math.Inf(1)
	clear(l.released)
	c.w.state[at], c.w.steps[at] = going, 0
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

func (c *Contingencies) emptied(unit int) bool {
	lo, hi := c.without(unit)
	return lo > hi
}
