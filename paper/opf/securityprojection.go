package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// Constants of the projection onto limits after outages.
const (
	secureRounds = 6 // as projectionRounds
	// After an outage limits this near, pu, are rows of the program: of flows and of voltages. A step may take up that much.
	afterPowerReach   = 0.1
	afterVoltageReach = 0.004
	// An outage with no more room than watchReach, pu, is looked at in the rounds that follow, and in those of the next
	// decision where it has less than twice that in the end. One with less than twice that at an exact dispatch is looked at
	// from the beginning. Where an emergency leaves the smallest rating less room, that takes the place of watchReach: else every
	// outage would be near a limit that none changes. It is leastWatchReach at least.
	watchReach      = 0.01
	leastWatchReach = 1e-3
)

// reachOf is how near a limit is that outages are watched for, pu.
func reachOf(n *network.Network, emergency float64) float64 {
	reach := watchReach
	for _, rate := range n.Rate {
		if !math.IsInf(rate, 1) {
			reach = math.Min(reach, (emergency-1)*rate)
		}
	}
	return math.Max(reach, leastWatchReach)
}

// projectSecure is Project where a dispatch has to survive outages: the same rounds, in which limits after
// the outages that are near to breaking one are rows of the program too, linearised at the power flow after
// the outage. Outages that bind at exact dispatches, or that a descent remembers, are looked at in every round, as are those
// with little room from then on, and all of them where the projection ends; those that break a limit
// there are corrected in rounds that follow. With a descent the first rounds are its steps, from power flows that are rough: these say
// where a step leads, and none of them is what ends the projection.
func (y *System) projectSecure(w *workspace, s, c, u []float64, d *descent) bool {
	p, o := w.projection, w.outagesHere()
	if !o.follows {
		o.follow(true)
		defer o.follow(false)
	}
	room := math.Inf(1)
	if d != nil && !y.nearLoadability() {
		room = y.security.reach
	}
	p.linearised = false
	if d != nil && d.watch != nil {
		p.watch = append(p.watch[:0], d.watch...)
	} else {
		p.watch = append(p.watch[:0], y.likely()...)
	}
	o.gather(p.watch)
	best, infeasibility := math.Inf(-1), 0.0
	for round, stalled := 0, 0; ; round++ {
		if !w.dispatch(s, c, u) {
			if round > 0 {
				return false
			}
			y.Base(s, c, u)
			y.clip(c, u)
			if !w.dispatch(s, c, u) {
				return false
			}
		}
		slack := y.model.slackGen
		u[slack] = math.Min(math.Max(w.solution.Pg[slack], y.Network.PMin[slack]), y.Network.PMax[slack])
		if d != nil && d.due(round) {
			o.flows.SetRough(true)
			w.watched(false, room)
			down := w.goesDown(d, c, u, round)
			if o.flows.SetRough(false); down {
				y.clip(c, u)
				continue
			}
			o.forget()
		}
		low := w.watched(false, room)
		last := round >= secureRounds && (stalled >= patience || infeasibility > contradiction) || round >= 2*secureRounds
		if low >= -negligible*MarginTolerance || last {
			if low = w.watched(true, room); low >= -negligible*MarginTolerance || last {
				if d != nil {
					for i := range p.watch {
						p.watch[i] = p.watch[i] && w.margin[y.layout.marginAfter+i] < 2*y.security.reach
					}
					d.end(w.worth(c, &d.weights), p.watch)
				}
				return y.spec.Keeps(low)
			}
		}
		if stalled++; low > leastProgress*best {
			best, stalled = low, 0
		}
		infeasibility = w.correctSecure(c, u)
		y.clip(c, u)
	}
}

// watched is the least margin before any outage and after those that are watched, or after all of them: those
// within reach are then watched too.
func (w *workspace) watched(all bool, room float64) float64 {
	y, p := w.system, w.projection
	low := slices.Min(w.margin[:y.layout.marginAfter])
	if all {
		w.checkOutages(nil, room)
	} else {
		w.checkOutages(p.watch, room)
	}
	for i := range p.watch {
		if w.outages.knowledge[i] == unknown {
			continue
		}
		m := w.margin[y.layout.marginAfter+i]
		if low = math.Min(low, m); m < y.security.reach {
			p.watch[i] = true
		}
	}
	return low
}

// correctSecure is correct with the limits after outages.
func (w *workspace) correctSecure(c, u []float64) (infeasibility float64) {
	y, p := w.system, w.projection
	p.program.metric, p.program.slack = y.metric(), elasticity
	if !w.linear.LineariseAt(w.solver) {
		return math.Inf(1)
	}
	p.program.reset()
	w.limitsWithin(c)
	w.boxes(c, u)
	p.candidates = p.candidates[:0]
	for k := range p.limits {
		if p.limits[k].bound > -p.reach {
			p.candidates = append(p.candidates, k)
		}
	}
	w.addOutages()
	return w.move(u)
}

// addOutages makes limits after the watched outages rows of the program.
func (w *workspace) addOutages() {
	p, o := w.projection, w.outages
	p.nearby, p.outageRows = p.nearby[:0], p.outageRows[:0]
	for g := range o.started {
		p.rows = len(p.nearby)
		for lane, i := range o.group(g) {
			if !p.watch[i] {
				continue
			}
			if flows := w.solvedGroup(g); flows.Solved(lane) {
				flows.Read(lane)
				w.limitsAfter(i, lane)
			}
		}
		if len(p.nearby) == p.rows {
			continue
		}
		if p.rows == 0 {
			w.slackRow()
		}
		w.addGroup()
	}
}

// slackRow finds the derivatives of the reference's power before outages.
func (w *workspace) slackRow() {
	p := w.projection
	angle, magnitude := p.angle[0], p.magnitude[0]
	w.gradient(&limit{kind: slackPower, index: w.system.Network.Slack}, angle, magnitude)
	w.linear.Sensitivities(p.angle[:1], p.magnitude[:1])
	p.slackRow = resized(p.slackRow, len(p.control))
	for j, entry := range p.control {
		p.slackRow[j] = w.sensitivity(entry, -1, angle, magnitude)
	}
}

// addGroup makes the limits after the outages in the lanes rows of the program: one of each outage at a time.
func (w *workspace) addGroup() {
	p, flows := w.projection, w.outages.flows
	flows.Linearise()
	limits := p.nearby[p.rows:]
	// Those that stand at the same place among their outage's are solved for together.
	for place, remaining := 0, len(limits); remaining > 0; place++ {
		p.batch = p.batch[:0]
		for k, l := range limits {
			if k-place >= 0 && limits[k-place].lane == l.lane && (k-place == 0 || limits[k-place-1].lane != l.lane) {
				p.batch = append(p.batch, l)
			}
		}
		remaining -= len(p.batch)
		for _, l := range p.batch {
			if l.kind == magnitude {
				flows.SeedMagnitude(l.lane, l.index)
			} else {
				flows.SeedFlow(l.lane, l.index, l.kind == flowFrom)
			}
		}
		flows.Adjoint()
		for _, l := range p.batch {
			w.addAfter(&l)
		}
	}
}

// addAfter makes a limit after an outage a row.
func (w *workspace) addAfter(l *limit) {
	p, n, flows := w.projection, w.system.Network, w.outages.flows
	p.outageRows = append(p.outageRows, l.place(l.outage))
	row, bySlack := p.program.add(l.bound), flows.Power(l.lane, w.system.model.slackGen)
	for j, entry := range p.control {
		change := bySlack * p.slackRow[j]
		if gens := n.Gens(); entry >= gens {
			change += flows.Voltage(l.lane, n.GenBus[entry-gens])
		} else {
			change += flows.Power(l.lane, entry)
		}
		row[j] = l.sign * change
	}
	p.program.complete()
}

// limitsAfter lists the limits after an outage within reach, for its lane.
func (w *workspace) limitsAfter(outage, lane int) {
	y, n := w.system, w.system.Network
	p, c := w.projection, w.outages.all[outage]
	add := func(l limit, gap float64) {
		l.bound, l.row = l.guard-gap, -1
		l.outage, l.lane = outage, lane
		p.nearby = append(p.nearby, l)
	}
	for b, v := range c.Vm {
		if lo := v - n.VMin[b] + y.security.Band; lo < afterVoltageReach {
			add(limit{kind: magnitude, index: b, sign: 1, guard: voltageGuard}, lo)
		}
		if hi := n.VMax[b] + y.security.Band - v; hi < afterVoltageReach {
			add(limit{kind: magnitude, index: b, sign: -1, guard: voltageGuard}, hi)
		}
	}
	for r, k := range y.layout.rated {
		if k == c.Branch {
			continue
		}
		for end, size := range [2]float64{c.From[r], c.To[r]} {
			if gap := y.security.Emergency*n.Rate[k] - size; gap < afterPowerReach && size > 0 {
				add(limit{kind: flowFrom + quantity(end), index: k, sign: -1, guard: powerGuard}, gap)
			}
		}
	}
}

// likelyOutages are those that are near a limit at the answers, exact dispatches over the scenarios' range.
func (y *System) likelyOutages() []bool {
	likely := make([]bool, len(y.security.Outages))
	for _, sample := range y.Answers() {
		for i := range likely {
			likely[i] = likely[i] || sample.Margins[y.layout.marginAfter+i] < 2*y.security.reach
		}
	}
	return likely
}

// likely are the likelyOutages that prepared has found; before it, any outage is.
func (y *System) likely() []bool {
	if likely := y.likelyWatch.Load(); likely != nil {
		return *likely
	}
	return slices.Repeat([]bool{true}, len(y.security.Outages))
}

// ladenBy is by how much loads at the answers are raised to find out whether a network is laden.
const ladenBy = 0.02

// isLaden reports whether outages of the network have no power flow where loads are a little higher than at the answers. What is left of an
// imbalance may then move voltages by any multiple of it, so that power flows have to be solved to their end.
func (y *System) isLaden() bool {
	w := newWorkspace(y)
	for _, sample := range y.Answers() {
		if !w.dispatch(sample.S, sample.C, slices.Clone(sample.U[:y.spec.ActionSize()])) {
			return true
		}
		for b := range w.pd {
			w.pd[b] *= 1 + ladenBy
			w.qd[b] *= 1 + ladenBy
		}
		w.checkOutages(nil, math.Inf(1))
		if slices.Contains(w.margin[y.layout.marginAfter:], -1) { // no power flow
			return true
		}
	}
	return false
}
