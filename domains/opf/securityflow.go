package opf

import (
	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/tensor"
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
	// ended says which were solved at an earlier dispatch, with shift what their voltages are there beside those before
	// the outage: magnitudes, and behind these angles. Where follows is set, a power flow begins there.
	ended   []bool
	shift   [][]float64
	follows bool
}

func newOutages(y *System) *outages {
	solver, err := y.security.flows()
	if err != nil {
		panic("opf: after outages: " + err.Error())
	}
	count := len(y.security.Outages)
	o := &outages{
		flows: laneflow.NewContingencies(solver, afterTolerance), known: make([]bool, count),
		ended: make([]bool, count), shift: make([][]float64, count),
	}
	for i, out := range y.security.Outages {
		o.all = append(o.all, solver.NewContingency(out.Branch, out.Unit))
		o.shift[i] = make([]float64, 2*y.layout.buses)
	}
	return o
}

// follow makes power flows begin where those of the dispatches from here on ended, or, without, at the voltages before
// the outage: what they end with then depends on the dispatch alone.
func (o *outages) follow(on bool) {
	o.follows = on
	clear(o.ended)
}

// checkOutages fills in the margins after outages: of all of them, or of those that watch marks alone.
// What was checked at this dispatch is not checked again. A margin is −1 where there is no power flow.
func (w *workspace) checkOutages(watch []bool) {
	y := w.system
	if y.security == nil || !w.solved || w.checked {
		return
	}
	o := w.outagesHere()
	o.flows.At(laneflow.Dispatch{Pd: w.pd, Qd: w.qd, Pg: w.solution.Pg, Vm: w.solution.Vm, Va: w.solution.Va})
	for i := range o.all {
		if !o.known[i] && (watch == nil || watch[i]) {
			w.begin(i)
		}
	}
	w.solveOutages()
	for i, c := range o.all {
		if o.ended[i] && o.known[i] && !c.Solved { // perhaps from the voltages before
			o.ended[i] = false
			w.begin(i)
		}
	}
	w.solveOutages()
	w.checked = watch == nil
}

func (w *workspace) outagesHere() *outages {
	if w.outages == nil {
		w.outages = newOutages(w.system)
	}
	return w.outages
}

// begin begins a power flow after an outage at the voltages before it, or, beside these, where it ended before.
func (w *workspace) begin(i int) {
	o := w.outages
	c := o.all[i]
	o.known[i], o.group, o.at = true, append(o.group, c), append(o.at, i)
	copy(c.Vm, w.solution.Vm)
	copy(c.Va, w.solution.Va)
	if o.ended[i] {
		buses := w.system.layout.buses
		tensor.Axpy(1, o.shift[i][:buses], c.Vm)
		tensor.Axpy(1, o.shift[i][buses:], c.Va)
		return
	}
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
		c := o.group[k]
		w.margin[w.system.layout.marginAfter+i] = w.marginAfter(c)
		if o.follows && c.Solved {
			o.ended[i] = true
			shift, buses := o.shift[i], w.system.layout.buses
			for b := range c.Vm {
				shift[b], shift[buses+b] = c.Vm[b]-w.solution.Vm[b], c.Va[b]-w.solution.Va[b]
			}
		}
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
			margin = min(margin, y.security.Emergency*n.Rate[k]-max(c.From[r], c.To[r]))
		}
	}
	return margin
}
