package opf

import (
	"math"

	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
)

// afterTolerance, pu, of the power flows after outages: a hundredth of what a margin may be below zero, since
// more would cost iterations that no margin shows.
const afterTolerance = 1e-7

// outages are the power flows after outages at the dispatch of a workspace.
type outages struct {
	flows *laneflow.Contingencies
	all   []*laneflow.Contingency
	group []*laneflow.Contingency
	at    []int  // of the group, among all
	known []bool // which were solved at this dispatch
}

func newOutages(y *System) *outages {
	solver, err := y.security.flows()
	if err != nil {
		panic("opf: after outages: " + err.Error())
	}
	o := &outages{flows: laneflow.NewContingencies(solver, afterTolerance), known: make([]bool, len(y.security.Outages))}
	for _, out := range y.security.Outages {
		o.all = append(o.all, solver.NewContingency(out.Branch, out.Unit))
	}
	return o
}

// checkOutages fills in the margins after outages: of all of them, or of those that watch marks alone.
// What was checked at this dispatch is not checked again. A margin is −1 where there is no power flow.
func (w *workspace) checkOutages(watch []bool) {
	y := w.system
	if y.security == nil || !w.solved || w.checked {
		return
	}
	if w.outages == nil {
		w.outages = newOutages(y)
	}
	o := w.outages
	o.flows.At(laneflow.Dispatch{Pd: w.pd, Qd: w.qd, Pg: w.solution.Pg, Vm: w.solution.Vm, Va: w.solution.Va})
	for i := range o.all {
		if !o.known[i] && (watch == nil || watch[i]) {
			o.known[i] = true
			w.begin(o.all[i])
			if o.group, o.at = append(o.group, o.all[i]), append(o.at, i); len(o.group) == o.flows.Lanes() {
				w.solveOutages()
			}
		}
	}
	w.solveOutages()
	w.checked = watch == nil
}

// begin begins a power flow after an outage at the voltages before it.
func (w *workspace) begin(c *laneflow.Contingency) {
	copy(c.Vm, w.solution.Vm)
	copy(c.Va, w.solution.Va)
	clear(c.Held)
	if c.Delta = 0; c.Unit >= 0 {
		c.Delta = w.solution.Pg[c.Unit]
	}
}

// solveOutages solves the group and empties it.
func (w *workspace) solveOutages() {
	o := w.outages
	if len(o.group) == 0 {
		return
	}
	o.flows.Solve(o.group)
	for k, i := range o.at {
		w.margin[w.system.layout.marginAfter+i] = w.marginAfter(o.group[k])
	}
	o.group, o.at = o.group[:0], o.at[:0]
}

// marginAfter is the least margin after an outage.
func (w *workspace) marginAfter(c *laneflow.Contingency) float64 {
	y, n := w.system, w.system.Network
	if !c.Solved {
		return -1
	}
	margin := float64(marginBound)
	for b, v := range c.Vm {
		margin = min(margin, v-n.VMin[b]+y.security.Band, n.VMax[b]+y.security.Band-v)
	}
	for r, k := range y.layout.rated {
		if k != c.Branch {
			margin = math.Min(margin, y.security.Emergency*n.Rate[k]-math.Max(c.From[r], c.To[r]))
		}
	}
	return margin
}
