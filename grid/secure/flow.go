package secure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Kind says what limit a violation is of.
type Kind int

// The kinds.
const (
	LowVoltage Kind = iota
	HighVoltage
	FromRating
	ToRating
	// The kinds that follow are of what would have to give (Result.Gives) alone: limits of a unit, a
	// bus whose units are at a limit that does not hold them there, and power that is missing.
	LowActive
	HighActive
	LowReactive
	HighReactive
	SetPoint
	ActiveBalance
	ReactiveBalance
)

// Violation is a limit that an outage breaks.
type Violation struct {
	Kind      Kind
	At        int     // bus, branch, or unit of a limit of active power
	Value, By float64 // pu; of a balance what is missing, negative where it is too much, and its size
	Severity  float64 // By as a share of the rating, ten times the pu of voltage, or the pu of power
}

// Check is what the power flow after one outage shows.
type Check struct {
	Outage
	Solved bool
	Reason string // why there is no power flow
	// Delta is what units share in all, pu; Switched the buses whose units are at a reactive limit.
	Delta      float64
	Switched   int
	Violations []Violation // the worst first
	// Margin is how far the nearest limit is, pu: negative where one is broken; 0 without a power flow.
	Margin float64

	vm, va, q []float64 // by bus; q of its units
	held      []int8    // by bus: at its lower (−1) or upper (+1) reactive limit
	reference int       // the bus that took up the balance inside; −1: none did
}

// Severity is the worst violation's; 0 where there is none, +Inf where there is no power flow.
func (c *Check) Severity() float64 {
	switch {
	case !c.Solved:
		return math.Inf(1)
	case len(c.Violations) == 0:
		return 0
	}
	return c.Violations[0].Severity
}

const (
	voltageSeverity = 10   // as in gpc pf outages: 0.01 pu counts as a tenth of a rating
	shareTolerance  = 1e-9 // of what units share, pu
	shareIterations = 40
	// Of what units share, losses take all but so little at the most. Where they take all of it a network can carry no more, and
	// an optimum may lie there: what is off has a double root. Such losses say nothing of the next outage's.
	mostLosses, usualLosses = 1e6, 2
	reactiveSlack           = 1e-7 // package powerflow's
)

// outageFlows solves the power flows after outages at one dispatch, with package powerflow: units share
// what is missing, within their limits, and voltages are held until a reactive limit. The bus
// that takes up the balance inside one power flow is a matter of calculation alone: what units
// share is corrected until its unit gives what it has to. Its voltage cannot be let go, so that
// where its reactive limit is reached another bus takes its place.
type outageFlows struct {
	sys     *system
	pd, qd  []float64
	solvers map[[2]int]*powerflow.Solver // by reference and unit that is out, −1 for none
	y       *network.Admittance
	losses  float64 // of near power flows: what units have to share more, as losses take their part
}

func newOutageFlows(s *system, pd, qd []float64) *outageFlows {
	return &outageFlows{sys: s, pd: pd, qd: qd, solvers: map[[2]int]*powerflow.Solver{}, y: network.NewAdmittance(s.net.Branches()), losses: 1}
}

// solver is one for a reference and a unit that is out.
func (f *outageFlows) solver(reference, unit int) (*powerflow.Solver, error) {
	key := [2]int{reference, unit}
	if s := f.solvers[key]; s != nil {
		return s, nil
	}
	n := *f.sys.net
	n.Kind = make([]network.Kind, n.Buses())
	if unit >= 0 {
		n.GenBus, n.GenRow = without(n.GenBus, unit), without(n.GenRow, unit)
		n.QMin, n.QMax, n.Pg0, n.Qg0, n.Vg = without(n.QMin, unit), without(n.QMax, unit), without(n.Pg0, unit), without(n.Qg0, unit), without(n.Vg, unit)
	}
	for _, b := range n.GenBus {
		n.Kind[b] = network.PV
	}
	n.Kind[reference], n.Slack, n.References = network.Slack, reference, []int{reference}
	s, err := powerflow.New(&n)
	if err == nil {
		f.solvers[key] = s
	}
	return s, err
}

func without[T any](list []T, at int) []T { return slices.Delete(slices.Clone(list), at, at+1) }

// after is the power flow after an outage at a dispatch: active powers by unit and voltages by
// bus, from the voltages vm, va, or from what near writes into the check.
func (f *outageFlows) after(o Outage, pg, vm, va []float64, near func(c *Check)) (*Check, error) {
	s := f.sys
	c := &Check{Outage: o, vm: slices.Clone(vm), va: slices.Clone(va), q: make([]float64, len(vm)), held: make([]int8, len(vm)), reference: -1}
	reference := s.net.Slack
	if near != nil {
		near(c)
		if reference = c.reference; reference < 0 {
			reference = f.widest(o, nil, c.held, c.q)
		}
	} else if lo, hi := s.left(o, s.at[reference]); lo > hi || s.at[reference] < 0 {
		reference = f.widest(o, nil, nil, nil)
	}
	if reference < 0 {
		c.Reason = "no unit is left that holds a voltage"
		return c, nil
	}
	tried := map[int]bool{}
	for {
		tried[reference] = true
		c.reference = reference
		if err := f.sharing(o, reference, pg, vm, c, near != nil); err != nil || !c.Solved {
			return c, err
		}
		lo, hi := s.left(o, s.at[reference])
		if q := c.q[reference]; q >= lo-reactiveSlack && q <= hi+reactiveSlack {
			break
		}
		c.Solved = false
		if reference = f.widest(o, tried, c.held, c.q); reference < 0 {
			c.Reason = "every bus with a unit is at a reactive limit: nothing holds a voltage"
			return c, nil
		}
		if len(tried) > 8 {
			c.Reason = "no bus was found that holds its voltage within its units' reactive limits"
			return c, nil
		}
	}
	f.judge(c)
	return c, nil
}

// left are the reactive limits of the units in service at a place of hold.
func (s *system) left(o Outage, i int) (lo, hi float64) {
	if i < 0 {
		return 1, -1
	}
	return (&state{sys: s, after: true, outage: o}).reactiveLimits(i)
}

// widest is the bus with the most reactive room that has not been tried and is not held.
func (f *outageFlows) widest(o Outage, tried map[int]bool, held []int8, q []float64) int {
	best, most := -1, -1.0
	for i, b := range f.sys.hold {
		lo, hi := f.sys.left(o, i)
		if tried[b] || lo > hi || held != nil && held[b] != 0 {
			continue
		}
		room := hi - lo
		if q != nil {
			room = min(hi-q[b], q[b]-lo)
		}
		if room > most || best < 0 {
			best, most = b, room
		}
	}
	return best
}

// sharing solves with one bus as the reference. Near says that the check's voltages are near those that come out.
func (f *outageFlows) sharing(o Outage, reference int, pg, vm []float64, c *Check, near bool) error {
	s, n := f.sys, f.sys.net
	solver, err := f.solver(reference, o.Unit)
	if err != nil {
		return err
	}
	*f.y = *cloneAdmittance(&n.Admittance, f.y)
	if k := o.Branch; k >= 0 {
		for _, v := range [][]float64{f.y.Gff, f.y.Bff, f.y.Gft, f.y.Bft, f.y.Gtf, f.y.Btf, f.y.Gtt, f.y.Btt} {
			v[k] = 0
		}
	}
	if err := solver.SetAdmittance(f.y); err != nil {
		return err
	}
	in := powerflow.Input{Pd: f.pd, Qd: f.qd}
	of := make([]int, 0, n.Gens()) // units in service
	for g := range n.Gens() {
		if g != o.Unit {
			of = append(of, g)
		}
	}
	in.Pg, in.Vg = make([]float64, len(of)), make([]float64, len(of))
	unit := -1 // of the reference
	for k, g := range of {
		in.Vg[k] = vm[n.GenBus[g]]
		if unit < 0 && n.GenBus[g] == reference {
			unit = k
		}
	}
	sol := solver.NewSolution()
	copy(sol.Vm, c.vm)
	for b, a := range c.va { // the reference's angle is the file's
		sol.Va[b] = a + (n.Va0[reference] - c.va[reference])
	}
	copy(sol.AtLimit, c.held)
	sol.AtLimit[reference] = 0
	delta := c.Delta
	if o.Unit >= 0 && delta == 0 {
		delta = pg[o.Unit]
	}
	opt := powerflow.Options{Start: powerflow.Given, EnforceQ: true, Held: true, Tolerance: 1e-10, MaxIterations: 60}
	var path secants
	for k := 0; ; k++ {
		slope := 0.0
		for k, g := range of {
			in.Pg[k] = pg[g]
			if a := s.share[g]; a > 0 {
				value, first, _ := clip(pg[g]+a*delta, n.PMin[g], n.PMax[g], 0)
				in.Pg[k] = value
				slope += a * first
			}
		}
		if err := solver.Solve(in, opt, sol); err != nil {
			return err
		}
		if !sol.Converged() {
			c.Solved, c.Reason = false, solver.Reason(sol)
			return nil
		}
		off := sol.Pg[unit] - in.Pg[unit]
		if shared(off, slope, k, sol.Iterations) {
			break
		}
		if k == shareIterations || slope <= 0 && k > 0 {
			c.Solved, c.Reason = false, fmt.Sprintf("%.4g MW are missing that no unit has left", off*n.BaseMVA)
			return nil
		}
		first := 1 / max(slope, 1e-6) // losses left aside
		by := off * first
		if opt.Factors = true; near {
			by *= f.losses
		}
		if secant, known := path.next(delta, off, first); known {
			by = off * secant
			if secant < usualLosses*first {
				f.losses = secant / first
			}
		}
		delta += by
	}
	c.Solved, c.Delta, c.Switched = true, delta, 0
	copy(c.vm, sol.Vm)
	copy(c.va, sol.Va)
	clear(c.q)
	for k, g := range of {
		c.q[n.GenBus[g]] += sol.Qg[k]
	}
	copy(c.held, sol.AtLimit)
	for _, h := range c.held {
		if h != 0 {
			c.Switched++
		}
	}
	return nil
}

// secants are of what units share and what is off by that.
type secants struct {
	delta, off float64
	begun      bool
}

// next is what units have to share more for each pu that is off, by this pair and the one before; first is that without losses.
func (s *secants) next(delta, off, first float64) (secant float64, known bool) {
	secant = (delta - s.delta) / (s.off - off)
	known = s.begun && secant > 0.5*first && secant < mostLosses*first
	*s = secants{delta, off, true}
	return secant, known
}

// shared says whether units need not share more, pu, after so many corrections and with the Newton steps of the last power flow.
// What is off by less than Tolerance breaks no limit: it stays where every unit is at one, or where the last correction,
// spread over many units, was too small for a step.
func shared(off, slope float64, corrections, steps int) bool {
	off = math.Abs(off)
	return off <= shareTolerance || off <= Tolerance && (slope <= 0 || corrections > 0 && steps == 0)
}

func cloneAdmittance(from, to *network.Admittance) *network.Admittance {
	copy(to.Gff, from.Gff)
	copy(to.Bff, from.Bff)
	copy(to.Gft, from.Gft)
	copy(to.Bft, from.Bft)
	copy(to.Gtf, from.Gtf)
	copy(to.Btf, from.Btf)
	copy(to.Gtt, from.Gtt)
	copy(to.Btt, from.Btt)
	return to
}

// judge lists what a power flow breaks.
func (f *outageFlows) judge(c *Check) {
	s, n := f.sys, f.sys.net
	c.Margin = math.Inf(1)
	add := func(kind Kind, at int, value, by, severity float64) {
		c.Margin = min(c.Margin, -by)
		if by > Tolerance {
			c.Violations = append(c.Violations, Violation{kind, at, value, by, severity})
		}
	}
	for b, v := range c.vm {
		low, high := n.VMin[b]-s.opt.Band-v, v-n.VMax[b]-s.opt.Band
		add(LowVoltage, b, v, low, voltageSeverity*low)
		add(HighVoltage, b, v, high, voltageSeverity*high)
	}
	for _, k := range s.rated {
		if k == c.Branch {
			continue
		}
		from, to := n.From[k], n.To[k]
		w := flows(&n.Admittance, k, c.va[from]-c.va[to], c.vm[from], c.vm[to])
		rate := s.opt.Emergency * n.Rate[k]
		for end, kind := range []Kind{FromRating, ToRating} {
			flow := math.Hypot(w.p[end], w.q[end])
			add(kind, k, flow, flow-rate, (flow-rate)/rate)
		}
	}
	slices.SortStableFunc(c.Violations, func(a, b Violation) int {
		switch {
		case a.Severity > b.Severity:
			return -1
		case a.Severity < b.Severity:
			return 1
		}
		return 0
	})
}

// known is what checks of every outage begin with: the checks of an earlier dispatch, in the order of the outages,
// and its voltages.
type known struct {
	checks []*Check
	vm, va []float64
}

// begin begins the power flow after an outage where the earlier one stood, moved as voltages before it have.
func (k *known) begin(i int, vm, va []float64) func(c *Check) {
	if i >= len(k.checks) || !k.checks[i].Solved {
		return nil
	}
	return func(c *Check) {
		earlier := k.checks[i]
		for b := range c.vm {
			c.vm[b] = earlier.vm[b] + vm[b] - k.vm[b]
			c.va[b] = earlier.va[b] + va[b] - k.va[b]
		}
		copy(c.q, earlier.q)
		copy(c.held, earlier.held)
		c.Delta, c.reference = earlier.Delta, earlier.reference
	}
}

// single is screen's for the outages that have no check yet, one after another.
func (s *Solver) single(ctx context.Context, pd, qd, pg, vm, va []float64, states []*state, from known, checks []*Check) error {
	threads := max(1, min(s.sys.opt.Threads, len(checks)))
	errs := make([]error, threads)
	parallel.Each(threads, threads, func(_, part int) {
		f := newOutageFlows(s.sys, pd, qd)
		for i := part; i < len(checks) && errs[part] == nil && ctx.Err() == nil; i += threads {
			if checks[i] == nil {
				checks[i], errs[part] = f.check(s.outages[i], pg, vm, va, states, from.begin(i, vm, va))
			}
		}
	})
	return cmp.Or(errors.Join(errs...), ctx.Err())
}

// check is single's of one outage: from the voltages before it, from the state that the dispatch was found with,
// from where the earlier check stood, and from what is found side by side, until there is a power flow.
func (f *outageFlows) check(o Outage, pg, vm, va []float64, states []*state, near func(c *Check)) (*Check, error) {
	starts := []func(*Check){nil}
	for _, t := range states {
		if t.after && t.outage == o {
			starts = append(starts, t.start)
		}
	}
	if near != nil {
		starts = append(starts, near)
	}
	var first *Check
	for _, start := range starts {
		c, err := f.after(o, pg, vm, va, start)
		if err != nil || c.Solved {
			return c, err
		}
		first = cmp.Or(first, c)
	}
	by, err := f.sys.beside()
	if err != nil {
		return nil, err
	}
	if found := by.one(f.sys, o, laneflow.Dispatch{Pd: f.pd, Qd: f.qd, Pg: pg, Vm: vm, Va: va}); found.Solved {
		if c, err := f.after(o, pg, vm, va, found.start); err != nil || c.Solved {
			return c, err
		}
	}
	return first, nil
}

// start begins a power flow at one that was found side by side.
func (c *Check) start(to *Check) {
	copy(to.vm, c.vm)
	copy(to.va, c.va)
	copy(to.q, c.q)
	copy(to.held, c.held)
	to.Delta, to.reference = c.Delta, c.reference
}

// start begins a power flow at the state.
func (t *state) start(c *Check) {
	for b, at := range t.bus {
		c.va[b], c.vm[b] = t.x[at+ofAngle], t.x[at+ofMagnitude]
	}
	for i, b := range t.sys.hold {
		if lo, hi := t.reactiveLimits(i); lo <= hi {
			y := t.x[t.reactive[i]]
			c.q[b], c.held[b] = min(max(y, lo), hi), sideOf(y, lo, hi)
		}
	}
	c.Delta = t.x[t.delta]
}
