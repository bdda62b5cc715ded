package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Constants of the power flows after outages.
const (
	// Tolerances, pu, of the power flows after outages and of what units share: a hundredth of what a
	// margin may be below zero, since more would cost iterations that no margin shows.
	afterTolerance = 1e-7
	shareTolerance = 1e-6
	shareRounds    = 12 // of correcting what units share
	mostReferences = 8  // buses that take up the balance inside a power flow, one after another
	heldSlack      = 1e-6
)

// afterOutage is the network after one outage at the dispatch of a workspace.
type afterOutage struct {
	secure.Outage
	solvers map[int]*outageFlow // by the bus that takes up the balance inside
	at      *outageFlow         // of the last solve
	solved  bool
	delta   float64   // what units share
	margin  float64   // the least of all limits
	share   []float64 // by unit
	inside  []float64 // by unit: derivative of what it gives in P and, times its share, in delta
	tried   []int
}

// outageFlow is the power flow after an outage in which one bus takes up the balance. What that bus's units
// give is then made what they have to by correcting what all units share.
type outageFlow struct {
	reference int
	first     int   // unit in service that is the first there
	units     []int // in service
	solver    *powerflow.Solver
	solution  *powerflow.Solution
	in        powerflow.Input
	flows     *network.Flows
}

func newAfterOutages(y *System) []*afterOutage {
	all, share := make([]*afterOutage, len(y.security.Outages)), y.security.shares()
	for i, o := range y.security.Outages {
		all[i] = &afterOutage{Outage: o, share: share, solvers: map[int]*outageFlow{}, inside: make([]float64, y.layout.gens)}
	}
	return all
}

// flow is the power flow with that reference.
func (o *afterOutage) flow(y *System, reference int) *outageFlow {
	if f := o.solvers[reference]; f != nil {
		return f
	}
	n := *y.Network
	n.Kind, n.Va0 = make([]network.Kind, n.Buses()), make([]float64, n.Buses())
	f := &outageFlow{reference: reference, first: -1, flows: network.NewFlows(n.Branches())}
	for g, b := range y.Network.GenBus {
		if g == o.Unit {
			continue
		}
		n.Kind[b] = network.PV
		if f.units = append(f.units, g); b == reference && f.first < 0 {
			f.first = g
		}
	}
	if o.Unit >= 0 {
		n.GenBus, n.GenRow = pick(n.GenBus, f.units), pick(n.GenRow, f.units)
		for _, v := range []*[]float64{&n.QMin, &n.QMax, &n.Pg0, &n.Qg0, &n.Vg} {
			*v = pick(*v, f.units)
		}
	}
	n.Kind[reference], n.Slack, n.References = network.Slack, reference, []int{reference}
	var err error
	if f.solver, err = powerflow.New(&n); err != nil {
		panic("opf: after an outage: " + err.Error())
	}
	admittance := network.NewAdmittance(n.Branches())
	from, to := admittanceOf(&n.Admittance), admittanceOf(admittance)
	for i, v := range from {
		copy(to[i], v)
		if o.Branch >= 0 {
			to[i][o.Branch] = 0
		}
	}
	if err := f.solver.SetAdmittance(admittance); err != nil {
		panic("opf: after an outage: " + err.Error())
	}
	f.solution = f.solver.NewSolution()
	f.in = powerflow.Input{Pg: make([]float64, len(f.units)), Vg: make([]float64, len(f.units))}
	o.solvers[reference] = f
	return f
}

func admittanceOf(y *network.Admittance) [8][]float64 {
	return [8][]float64{y.Gff, y.Bff, y.Gft, y.Bft, y.Gtf, y.Btf, y.Gtt, y.Btt}
}

func pick[T any](list []T, at []int) []T {
	out := make([]T, len(at))
	for i, k := range at {
		out[i] = list[k]
	}
	return out
}

// after solves the power flow after an outage at the workspace's dispatch, from its voltages, and finds the
// least margin. It is −1 where there is no power flow.
func (w *workspace) after(o *afterOutage) {
	y := w.system
	o.solved, o.margin, o.delta, o.tried = false, -1, 0, o.tried[:0]
	if o.Unit >= 0 {
		o.delta = w.solution.Pg[o.Unit]
	}
	reference := y.Network.Slack
	if lo, hi := o.reactive(y, reference); lo > hi {
		reference = o.widest(y, nil)
	}
	vm, va := w.solution.Vm, w.solution.Va
	for reference >= 0 && len(o.tried) < mostReferences {
		o.tried = append(o.tried, reference)
		f := o.flow(y, reference)
		o.at = f
		copy(f.solution.Vm, vm)
		copy(f.solution.Va, va)
		if !w.shared(o, f) {
			return
		}
		q := 0.0
		for k, g := range f.units {
			if y.Network.GenBus[g] == reference {
				q += f.solution.Qg[k]
			}
		}
		if lo, hi := o.reactive(y, reference); q >= lo-heldSlack && q <= hi+heldSlack {
			o.solved = true
			w.judge(o)
			return
		}
		vm, va = f.solution.Vm, f.solution.Va
		reference = o.widest(y, f)
	}
}

// reactive are the limits of the units in service at a bus; lo above hi where there are none.
func (o *afterOutage) reactive(y *System, bus int) (lo, hi float64) {
	none := true
	for g, b := range y.Network.GenBus {
		if b == bus && g != o.Unit {
			lo, hi, none = lo+y.Network.QMin[g], hi+y.Network.QMax[g], false
		}
	}
	if none {
		return 1, -1
	}
	return lo, hi
}

// widest is the bus with the most reactive room that has not taken up the balance yet and holds its voltage;
// −1 where there is none.
func (o *afterOutage) widest(y *System, f *outageFlow) int {
	best, most := -1, math.Inf(-1)
	for g, b := range y.Network.GenBus {
		lo, hi := o.reactive(y, b)
		switch first := y.model.unit[b]; {
		case g == o.Unit || lo > hi || slices.Contains(o.tried, b):
			continue
		case first != g && first != o.Unit: // another unit there stands for the bus
			continue
		case f != nil && f.solution.AtLimit[b] != 0:
			continue
		}
		room := hi - lo
		if f != nil {
			q := 0.0
			for k, u := range f.units {
				if y.Network.GenBus[u] == b {
					q += f.solution.Qg[k]
				}
			}
			room = math.Min(hi-q, q-lo)
		}
		if room > most {
			best, most = b, room
		}
	}
	return best
}

// shared solves with what units share such that the reference's unit gives what it has to.
func (w *workspace) shared(o *afterOutage, f *outageFlow) bool {
	n := w.system.Network
	f.in.Pd, f.in.Qd = w.pd, w.qd
	unit := slices.Index(f.units, f.first)
	for k, g := range f.units {
		f.in.Vg[k] = w.vg[g]
	}
	opt := powerflow.Options{
		Start: powerflow.Given, EnforceQ: true, Tolerance: afterTolerance, MaxIterations: 3 * flowIterations,
	}
	var last, lastOff float64
	for round := range shareRounds {
		slope := 0.0
		for k, g := range f.units {
			p, share := w.solution.Pg[g], o.share[g]
			o.inside[g] = 1
			if share > 0 {
				given := math.Min(math.Max(p+share*o.delta, n.PMin[g]), n.PMax[g])
				if given != p+share*o.delta {
					o.inside[g] = 0
				}
				p = given
				slope += share * o.inside[g]
			}
			f.in.Pg[k] = p
		}
		if f.solver.Solve(f.in, opt, f.solution) != nil || !f.solution.Converged() {
			return false
		}
		off := f.solution.Pg[unit] - f.in.Pg[unit]
		if math.Abs(off) <= shareTolerance {
			return true
		}
		if slope <= 0 && round > 0 {
			return false
		}
		first := 1 / math.Max(slope, 1e-6)
		by := off * first
		if round > 0 {
			if secant := -(o.delta - last) / (off - lastOff); secant > 0.5*first && secant < 100*first {
				by = off * secant
			}
		}
		opt.Held = true
		last, lastOff = o.delta, off
		o.delta += by
	}
	return false
}

// judge finds the least margin after an outage whose power flow is solved.
func (w *workspace) judge(o *afterOutage) {
	y, n, f := w.system, w.system.Network, o.at
	f.solver.BranchFlows(f.solution, f.flows)
	o.margin = marginBound
	for b, v := range f.solution.Vm {
		o.margin = min(o.margin, v-n.VMin[b]+y.security.Band, n.VMax[b]+y.security.Band-v)
	}
	for _, k := range y.layout.rated {
		if k != o.Branch {
			from, to := math.Hypot(f.flows.Pf[k], f.flows.Qf[k]), math.Hypot(f.flows.Pt[k], f.flows.Qt[k])
			o.margin = math.Min(o.margin, y.security.Emergency*n.Rate[k]-math.Max(from, to))
		}
	}
}

// checkOutages fills in the margins after outages: of all of them, or of those that watch marks alone.
// What was checked at this dispatch is not checked again.
func (w *workspace) checkOutages(watch []bool) {
	y := w.system
	if y.security == nil || !w.solved || w.checked {
		return
	}
	if w.outages == nil {
		w.outages, w.looked = newAfterOutages(y), make([]bool, len(y.security.Outages))
	}
	for i, o := range w.outages {
		if w.looked[i] || watch != nil && !watch[i] {
			continue
		}
		w.after(o)
		w.looked[i] = true
		w.margin[y.layout.marginAfter+i] = o.margin
	}
	w.checked = watch == nil
}
