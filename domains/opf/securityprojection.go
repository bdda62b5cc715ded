package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/powerflow"
)

// Constants of the projection onto limits after outages.
const (
	secureRounds = 6 // as projectionRounds
	// watchReach, pu: an outage with no more room than this is looked at in every round that follows.
	watchReach = 0.05
	// After an outage limits this near, pu, are rows of the program: of flows and of voltages.
	afterPowerReach   = 0.03
	afterVoltageReach = 0.004
)

// projectSecure is Project where a dispatch has to survive outages: the same rounds, in which limits after
// the outages that are near to breaking one are rows of the program too, linearised at the power flow after
// the outage. Outages that bind at exact dispatches are looked at from the beginning, all of them where the
// projection ends; those that break a limit there are corrected in rounds that follow.
func (y *System) projectSecure(w *workspace, s, c, u []float64) bool {
	p := w.projection
	p.begun = false
	p.watch = append(p.watch[:0], y.likely()...)
	best, broken := math.Inf(-1), 0.0
	for round, since := 0, 0; ; round++ {
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
		low := w.watched(false)
		last := round >= secureRounds && (since >= patience || broken > contradiction) || round >= 2*secureRounds
		if low >= -negligible*MarginTolerance || last {
			if low = w.watched(true); low >= -negligible*MarginTolerance || last {
				return y.spec.Keeps(low)
			}
		}
		if since++; low > leastProgress*best {
			best, since = low, 0
		}
		broken = w.correctSecure(c, u)
		y.clip(c, u)
	}
}

// watched is the least margin before any outage and after those that are watched, or after all of them: those
// within reach are watched from then on.
func (w *workspace) watched(all bool) float64 {
	y, p := w.system, w.projection
	low := slices.Min(w.margin[:y.layout.marginAfter])
	if all {
		w.checkOutages(nil)
	} else {
		w.checkOutages(p.watch)
	}
	for i := range p.watch {
		if !w.looked[i] {
			continue
		}
		m := w.margin[y.layout.marginAfter+i]
		if low = math.Min(low, m); m < watchReach {
			p.watch[i] = true
		}
	}
	return low
}

// correctSecure is correct with the limits after outages.
func (w *workspace) correctSecure(c, u []float64) (broken float64) {
	y, p := w.system, w.projection
	p.program.metric, p.program.slack = y.metric(), elasticity
	if !w.linear.LineariseAt(w.solver) {
		return math.Inf(1)
	}
	p.program.reset()
	w.limitsWithin(c)
	w.boxes(c, u)
	p.chosen = p.chosen[:0]
	for k := range p.limits {
		if p.limits[k].bound > -p.near {
			p.chosen = append(p.chosen, k)
		}
	}
	w.addOutages()
	return w.move(u)
}

// addOutages makes limits after the watched outages rows of the program.
func (w *workspace) addOutages() {
	y, p := w.system, w.projection
	n := y.Network
	slackRow := false
	for i, o := range w.outages {
		if !p.watch[i] || !o.solved {
			continue
		}
		p.nearby = p.nearby[:0]
		w.limitsAfter(o)
		if len(p.nearby) == 0 || !o.at.solver.Linearise() {
			continue
		}
		if !slackRow {
			slackRow = true
			angle, magnitude := p.angle[0], p.magnitude[0]
			w.gradient(&limit{what: slackPower, at: n.Slack}, angle, magnitude)
			w.linear.Sensitivities(p.angle[:1], p.magnitude[:1])
			p.slackRow = resized(p.slackRow, len(p.control))
			for j, at := range p.control {
				p.slackRow[j] = w.sensitivity(at, -1, angle, magnitude)
			}
		}
		w.balance(o)
		for left := p.nearby; len(left) > 0; {
			batch := left[:min(len(left), powerflow.SideBySide)]
			left = left[len(batch):]
			for k := range batch {
				w.gradientAfter(o, &batch[k], p.angle[k], p.magnitude[k])
			}
			o.at.solver.Sensitivities(p.angle[:len(batch)], p.magnitude[:len(batch)])
			for k := range batch {
				w.addAfter(o, &batch[k], p.angle[k], p.magnitude[k])
			}
		}
	}
}

// limitsAfter lists the limits after an outage within reach.
func (w *workspace) limitsAfter(o *afterOutage) {
	y, n, p, f := w.system, w.system.Network, w.projection, o.at
	add := func(l limit, gap float64) {
		l.bound, l.row = l.guard-gap, -1
		p.nearby = append(p.nearby, l)
	}
	for b, v := range f.solution.Vm {
		if lo := v - n.VMin[b] + y.security.Band; lo < afterVoltageReach {
			add(limit{what: magnitude, at: b, sign: 1, guard: voltageGuard}, lo)
		}
		if hi := n.VMax[b] + y.security.Band - v; hi < afterVoltageReach {
			add(limit{what: magnitude, at: b, sign: -1, guard: voltageGuard}, hi)
		}
	}
	for _, k := range y.layout.rated {
		if k == o.Branch {
			continue
		}
		for end, s := range [2][2]float64{{f.flows.Pf[k], f.flows.Qf[k]}, {f.flows.Pt[k], f.flows.Qt[k]}} {
			size := math.Hypot(s[0], s[1])
			if gap := y.security.Emergency*n.Rate[k] - size; gap < afterPowerReach && size > 0 {
				l := limit{what: flowFrom + quantity(end), at: k, sign: -1, guard: powerGuard}
				l.p, l.q = s[0]/size, s[1]/size
				add(l, gap)
			}
		}
	}
}

// gradientAfter writes that of a limit's quantity after an outage in the voltages.
func (w *workspace) gradientAfter(o *afterOutage, l *limit, angle, magnitudes []float64) {
	clear(angle)
	clear(magnitudes)
	if l.what == magnitude {
		magnitudes[l.at] = 1
		return
	}
	o.at.solver.AddFlowGradient(l.at, l.what == flowFrom, l.p, l.q, angle, magnitudes)
}

// direct is the derivative of a quantity after an outage in one entry of u, the units' share held: of its
// sensitivities by bus.
func (w *workspace) direct(o *afterOutage, at int, angle, magnitudes []float64) float64 {
	n := w.system.Network
	if gens := n.Gens(); at >= gens {
		b := n.GenBus[at-gens]
		if o.at.solution.AtLimit[b] != 0 {
			return 0
		}
		if lo, hi := o.reactive(w.system, b); lo > hi {
			return 0
		}
		return magnitudes[b]
	}
	if at == o.Unit {
		return 0
	}
	return o.inside[at] * angle[n.GenBus[at]]
}

// byShare is the derivative of a quantity in what units share.
func (w *workspace) byShare(o *afterOutage, angle []float64) (sum float64) {
	for _, g := range o.at.units {
		sum += o.share[g] * o.inside[g] * angle[w.system.Network.GenBus[g]]
	}
	return sum
}

// balance finds the derivatives of what units share after an outage in every entry of u that the program
// changes, and in the power of the reference's unit before it: the reference's unit then gives what it has to.
func (w *workspace) balance(o *afterOutage) {
	y, p, f := w.system, w.projection, o.at
	angle, magnitude := p.angle[0], p.magnitude[0]
	clear(angle)
	clear(magnitude)
	f.solver.AddInjectionGradient(f.reference, 1, 0, angle, magnitude)
	f.solver.Sensitivities(p.angle[:1], p.magnitude[:1])
	own := func(at int) float64 { // what the reference's units give by themselves
		if at < y.layout.gens && at != o.Unit && y.Network.GenBus[at] == f.reference {
			return o.inside[at]
		}
		return 0
	}
	slope := w.byShare(o, angle)
	for _, g := range f.units {
		if y.Network.GenBus[g] == f.reference {
			slope -= o.share[g] * o.inside[g]
		}
	}
	by := func(at int) float64 {
		if slope == 0 {
			return 0
		}
		return -(w.direct(o, at, angle, magnitude) - own(at)) / slope
	}
	p.shareRow = resized(p.shareRow, len(p.control))
	for j, at := range p.control {
		p.shareRow[j] = by(at)
	}
	p.shareSlack = by(y.model.slackGen)
}

// addAfter makes a limit after an outage a row.
func (w *workspace) addAfter(o *afterOutage, l *limit, angle, magnitudes []float64) {
	p, slack := w.projection, w.system.model.slackGen
	row, byShare := p.program.add(l.bound), w.byShare(o, angle)
	bySlack := w.direct(o, slack, angle, magnitudes) + byShare*p.shareSlack
	for j, at := range p.control {
		row[j] = l.sign * (w.direct(o, at, angle, magnitudes) + byShare*p.shareRow[j] + bySlack*p.slackRow[j])
	}
	p.program.known()
}

// likelyOutages are those that are near a limit at the answers, exact dispatches over the scenarios' range.
func (y *System) likelyOutages() []bool {
	near := make([]bool, len(y.security.Outages))
	for _, sample := range y.Answers() {
		for i := range near {
			near[i] = near[i] || sample.Margins[y.layout.marginAfter+i] < watchReach
		}
	}
	return near
}
