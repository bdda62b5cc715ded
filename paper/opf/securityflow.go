package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
)

// afterTolerance, pu, of the power flows after outages: a hundredth of what a margin may be below zero, since
// more would cost iterations that no margin shows.
const afterTolerance = 1e-7

// outages are the power flows after outages at the dispatch of a workspace.
type outages struct {
	flows *laneflow.Contingencies
	all   []*laneflow.Contingency
	// seat is the place of each outage, in groups of as many as there are lanes, and outage the one of each place.
	seat, outage []int
	due          []int       // groups that are to be checked
	now          int         // the group that is in the lanes as it was checked last; −1: none
	started      []bool      // groups that go on from where they stand
	placed       bool        // flows are at this dispatch
	knowledge    []knowledge // of each outage's margin
	follows      bool        // see follow
}

// knowledge is how far a margin after an outage is known at a dispatch.
type knowledge uint8

const (
	unknown knowledge = iota
	ample             // it is above security.reach, not by how much
	exact
)

func newOutages(y *System) *outages {
	solver, err := y.security.flows()
	if err != nil {
		panic("opf: after outages: " + err.Error())
	}
	count := len(y.security.Outages)
	o := &outages{
		flows: laneflow.NewContingencies(solver, afterTolerance), seat: make([]int, count), outage: make([]int, count),
		knowledge: make([]knowledge, count), started: make([]bool, (count+solver.Lanes()-1)/solver.Lanes()),
	}
	for _, out := range y.security.Outages {
		o.all = append(o.all, solver.NewContingency(out.Branch, out.Unit))
	}
	o.follow(false)
	return o
}

// follow makes power flows begin where those of the dispatches from here on ended, or, without, at the voltages before
// the outage: what they end with then depends on the dispatch alone.
func (o *outages) follow(enabled bool) {
	o.follows, o.now = enabled, -1
	clear(o.started)
	for i := range o.outage {
		o.seat[i], o.outage[i] = i, i
	}
}

// move is told of another dispatch.
func (o *outages) move() {
	o.forget()
	if o.placed = false; !o.follows {
		clear(o.started)
	}
}

// forget lets no margin be known any more.
func (o *outages) forget() { clear(o.knowledge) }

// lanes is how many outages a group has at most.
func (o *outages) lanes() int { return o.flows.Lanes() }

// group are the outages of one.
func (o *outages) group(g int) []int {
	lanes := o.lanes()
	return o.outage[g*lanes : min((g+1)*lanes, len(o.outage))]
}

// use puts a group into the lanes.
func (o *outages) use(g int) {
	o.flows.SelectGroup(g)
	o.now = g
}

// gather gives the watched outages places in as few groups as they need.
func (o *outages) gather(watch []bool) {
	count, lanes := 0, o.lanes()
	for _, watched := range watch {
		if watched {
			count++
		}
	}
	to := 0
	for from := (count + lanes - 1) / lanes * lanes; from < len(o.outage); from++ {
		if watch[o.outage[from]] {
			for watch[o.outage[to]] {
				to++
			}
			o.exchange(from, to)
		}
	}
}

// exchange lets the outages of two places change theirs, with where they stand.
func (o *outages) exchange(a, b int) {
	lanes, places := o.lanes(), [2]int{a, b}
	for _, p := range places {
		if o.started[p/lanes] {
			o.use(p / lanes)
			o.flows.Read(p % lanes)
		}
	}
	o.outage[a], o.outage[b] = o.outage[b], o.outage[a]
	for _, p := range places {
		o.seat[o.outage[p]] = p
		if o.started[p/lanes] {
			o.use(p / lanes)
			o.flows.Load(p%lanes, o.all[o.outage[p]])
		}
	}
	o.now = -1
}

// checkOutages fills in the margins after outages: of all of them, or of those that watch marks and others.
// What was checked at this dispatch is not checked again. A margin is −1 where there is no power flow. Of one that is
// above room, pu, more is not to be known.
func (w *workspace) checkOutages(watch []bool, room float64) {
	y := w.system
	if y.security == nil || !w.solved || w.checked {
		return
	}
	o, want := w.outagesHere(), exact
	if !math.IsInf(room, 1) {
		want = ample
	}
	o.due = o.due[:0]
	for i, k := range o.knowledge {
		if g := o.seat[i] / o.lanes(); k < want && (watch == nil || watch[i]) && !slices.Contains(o.due, g) {
			o.due = append(o.due, g)
		}
	}
	if len(o.due) > 1 && want == ample {
		w.checkTogether(room)
	} else {
		for _, g := range o.due {
			w.checkGroup(g, room, want)
		}
	}
	w.checked = watch == nil && want == exact
}

// checkGroup solves the power flows of a group, which is then in the lanes.
func (w *workspace) checkGroup(g int, room float64, want knowledge) {
	w.bringUp(g)
	w.outages.flows.Check(room)
	w.know(g, want)
}

// checkTogether solves those of the groups that are due, in which few outages need a step.
func (w *workspace) checkTogether(room float64) {
	o := w.outages
	for _, g := range o.due {
		w.bringUp(g)
		o.flows.AcceptConverged(room)
	}
	o.flows.SolveRemaining(room)
	for _, g := range o.due {
		w.know(g, ample)
	}
	o.now = -1
}

// bringUp puts a group into the lanes, at the dispatch of the workspace.
func (w *workspace) bringUp(g int) {
	o := w.outages
	if !o.placed {
		o.flows.SetDispatch(laneflow.Dispatch{Pd: w.pd, Qd: w.qd, Pg: w.solution.Pg, Vm: w.solution.Vm, Va: w.solution.Va})
		o.placed = true
	}
	o.use(g)
	if o.started[g] {
		return
	}
	o.started[g] = true
	group := o.group(g)
	for lane := range o.lanes() {
		if lane < len(group) {
			o.flows.Restart(lane, o.all[group[lane]])
		} else {
			o.flows.Unload(lane)
		}
	}
}

// know takes the margins of a group that was checked.
func (w *workspace) know(g int, checked knowledge) {
	o := w.outages
	for lane, i := range o.group(g) {
		o.knowledge[i] = checked
		w.margin[w.system.layout.marginAfter+i] = o.flows.Margin(g, lane)
	}
}

// solvedGroup has a group in the lanes that was checked at the dispatch of the workspace, as far as its margins are known.
func (w *workspace) solvedGroup(g int) *laneflow.Contingencies {
	o := w.outages
	switch k := o.knowledge[o.group(g)[0]]; {
	case o.now == g && k != unknown:
	case k == ample:
		w.checkGroup(g, w.system.security.reach, ample)
	default:
		w.checkGroup(g, math.Inf(1), exact)
	}
	return o.flows
}

func (w *workspace) outagesHere() *outages {
	if w.outages == nil {
		w.outages = newOutages(w.system)
	}
	return w.outages
}
