package secure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Kind is the kind of limit that a violation exceeds.
type Kind int

// The kinds.
const (
	LowVoltage Kind = iota
	HighVoltage
	FromRating
	ToRating
	// These kinds occur in Result.Relaxations alone: limits of a unit, a set-point whose units are at a limit that
	// does not hold them there, and missing power.
	LowActive
	HighActive
	LowReactive
	HighReactive
	SetPoint
	ActiveBalance
	ReactiveBalance
)

// Violation is a limit that a dispatch exceeds after an outage.
type Violation struct {
	Kind          Kind
	Element       int     // bus, branch, or unit of a limit of active power
	Value, Excess float64 // pu; of a balance the missing power, negative for a surplus, and its magnitude
	Severity      float64 // Excess relative to the rating, ten times the pu of voltage, or the pu of power
}

// Check is the result of the power flow after one outage.
type Check struct {
	Outage
	Solved     bool
	Reason     string      // why there is no power flow
	Delta      float64     // power that the units share, pu
	Violations []Violation // the worst first
	// Margin is the distance to the nearest limit, pu: negative where one is exceeded, 0 without a power flow.
	Margin float64

	vm, va, q []float64 // by bus; q of its units
	atLimit   []int8    // by bus: at its lower (−1) or upper (+1) reactive limit
	reference int       // reference bus of the power flow; −1: none
}

// Voltages are the magnitudes (pu) and angles (rad) by bus, where there is a power flow.
func (c *Check) Voltages() (vm, va []float64) { return c.vm, c.va }

// Severity is that of the worst violation: 0 without any, +Inf without a power flow.
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
	shareTolerance  = 1e-9 // of the shared power, pu
	shareIterations = 40
	// Losses take a part of the power that the units share. At the loadability limit they take all of it, and the
	// mismatch has a double root. Optima may lie there. A factor above usualLossFactor is not used for the next
	// outage.
	maxLossFactor, usualLossFactor = 1e6, 2
	reactiveSlack                  = 1e-7 // package powerflow's
)

// outageFlows solves the power flows after outages at one dispatch with package powerflow. Units share the missing
// power within their limits, and buses hold their voltages up to a reactive limit. Each power flow needs a reference
// bus, which is only a device of calculation: the shared power is corrected until the reference's unit has its
// share. The reference cannot leave its voltage. Another bus takes its place where it reaches a reactive limit.
type outageFlows struct {
	sys        *system
	pd, qd     []float64
	solvers    map[int]*powerflow.Solver // by reference
	lossFactor float64                   // of warm power flows: shared power per pu of mismatch, as losses take a part
}

func newOutageFlows(s *system, pd, qd []float64) *outageFlows {
	return &outageFlows{sys: s, pd: pd, qd: qd, solvers: map[int]*powerflow.Solver{}, lossFactor: 1}
}

// solver returns the power flow solver for a reference bus.
func (f *outageFlows) solver(reference int) (*powerflow.Solver, error) {
	if s := f.solvers[reference]; s != nil {
		return s, nil
	}
	n := *f.sys.net
	n.DCLines = nil // whose ends are units of a constant power
	s, err := powerflow.New(n.WithReference(reference))
	if err == nil {
		f.solvers[reference] = s
	}
	return s, err
}

// solveOutage solves the power flow after an outage at a dispatch: active powers by unit and voltages by bus. It
// starts at the voltages vm and va, or where initialise puts the check.
func (f *outageFlows) solveOutage(o Outage, pg, vm, va []float64, initialise func(c *Check)) (*Check, error) {
	s := f.sys
	c := &Check{Outage: o, vm: slices.Clone(vm), va: slices.Clone(va), q: make([]float64, len(vm)), atLimit: make([]int8, len(vm)), reference: -1}
	y := s.part(o)
	reference := y.reference
	if initialise != nil {
		initialise(c)
		if reference = c.reference; reference < 0 {
			reference = f.roomiestBus(o, nil, c.atLimit, c.q)
		}
	} else if lo, hi := s.reactiveLimitsAfter(o, s.genBusIndex[reference]); lo > hi || s.genBusIndex[reference] < 0 {
		reference = f.roomiestBus(o, nil, nil, nil)
	}
	if reference < 0 {
		c.Reason = "no unit is left that holds a voltage"
		return c, nil
	}
	for b, other := range y.others {
		if other {
			c.vm[b], c.va[b] = vm[b], va[b]
		}
	}
	triedBuses := map[int]bool{}
	for {
		triedBuses[reference] = true
		c.reference = reference
		if err := f.solveShared(c, y, reference, pg, vm, initialise != nil); err != nil || !c.Solved {
			return c, err
		}
		lo, hi := s.reactiveLimitsAfter(o, s.genBusIndex[reference])
		if q := c.q[reference]; q >= lo-reactiveSlack && q <= hi+reactiveSlack {
			break
		}
		c.Solved = false
		if reference = f.roomiestBus(o, triedBuses, c.atLimit, c.q); reference < 0 {
			c.Reason = "every bus with a unit is at a reactive limit: nothing holds a voltage"
			return c, nil
		}
		if len(triedBuses) > 8 {
			c.Reason = "no bus was found that holds its voltage within its units' reactive limits"
			return c, nil
		}
	}
	f.listViolations(c)
	return c, nil
}

// reactiveLimitsAfter returns the reactive limits of the units in service at an index of genBuses.
func (s *system) reactiveLimitsAfter(o Outage, i int) (lo, hi float64) {
	if i < 0 {
		return 1, -1
	}
	return (&state{sys: s, after: true, outage: o, part: s.part(o)}).reactiveLimits(i)
}

// roomiestBus is the bus with the most reactive room among those neither excluded nor at a limit; −1 for none.
func (f *outageFlows) roomiestBus(o Outage, excluded map[int]bool, atLimit []int8, q []float64) int {
	best, largestRoom := -1, -1.0
	for i, b := range f.sys.genBuses {
		lo, hi := f.sys.reactiveLimitsAfter(o, i)
		if excluded[b] || lo > hi || atLimit != nil && atLimit[b] != 0 {
			continue
		}
		room := hi - lo
		if q != nil {
			room = min(hi-q[b], q[b]-lo)
		}
		if room > largestRoom || best < 0 {
			best, largestRoom = b, room
		}
	}
	return best
}

// solveShared solves a check of a part with one bus as the reference. warm says that it starts near its solution.
func (f *outageFlows) solveShared(c *Check, y *part, reference int, pg, vm []float64, warm bool) error {
	s, n, o := f.sys, f.sys.net, c.Outage
	solver, err := f.solver(reference)
	if err != nil {
		return err
	}
	defer solver.TakeOut(o.Elements())()
	input := powerflow.Input{Pd: f.pd, Qd: f.qd, Pg: make([]float64, n.Gens()), Vg: make([]float64, n.Gens())}
	unit := -1 // of the reference
	for g, b := range n.GenBus {
		input.Vg[g] = vm[b]
		if unit < 0 && g != o.Unit && b == reference {
			unit = g
		}
	}
	solver.Hold(y.others)
	sol := solver.NewSolution()
	copy(sol.Vm, c.vm)
	for b, a := range c.va { // the reference's angle is the file's
		sol.Va[b] = a + (n.Va0[reference] - c.va[reference])
	}
	copy(sol.AtLimit, c.atLimit)
	sol.AtLimit[reference] = 0
	delta := c.Delta
	if o.Unit >= 0 && delta == 0 {
		delta = pg[o.Unit]
	}
	opt := powerflow.Options{Start: powerflow.FromSolution, EnforceQ: true, KeepLimits: true, Tolerance: 1e-10, MaxIterations: 60}
	var path secants
	for k := 0; ; k++ {
		slope := 0.0
		for g, power := range pg {
			if g == o.Unit {
				continue
			}
			input.Pg[g] = power
			if a := s.share[g]; a > 0 && !y.excludes(n.GenBus[g]) {
				value, first, _ := clip(power+a*delta, n.PMin[g], n.PMax[g], 0)
				input.Pg[g] = value
				slope += a * first
			}
		}
		if err := solver.Solve(input, opt, sol); err != nil {
			return err
		}
		if !sol.Converged() {
			c.Solved, c.Reason = false, solver.Reason(sol)
			return nil
		}
		mismatch := sol.Pg[unit] - input.Pg[unit]
		if shareConverged(mismatch, slope, k, sol.Iterations) {
			break
		}
		if k == shareIterations || slope <= 0 && k > 0 {
			c.Solved, c.Reason = false, fmt.Sprintf("%.4g MW are missing that no unit has left", mismatch*n.BaseMVA)
			return nil
		}
		first := 1 / max(slope, 1e-6) // without losses
		step := mismatch * first
		if opt.Factors = true; warm {
			step *= f.lossFactor
		}
		if secant, ok := path.next(delta, mismatch, first); ok {
			step = mismatch * secant
			if secant < usualLossFactor*first {
				f.lossFactor = secant / first
			}
		}
		delta += step
	}
	c.Solved, c.Delta = true, delta
	copy(c.vm, sol.Vm)
	copy(c.va, sol.Va)
	clear(c.q)
	for g, b := range n.GenBus {
		c.q[b] += sol.Qg[g]
	}
	copy(c.atLimit, sol.AtLimit)
	return nil
}

// secants holds the last pair of shared power and mismatch.
type secants struct {
	delta, mismatch float64
	started         bool
}

// next is the change of shared power per pu of mismatch, by this pair and the last one. first is that change without
// losses.
func (s *secants) next(delta, mismatch, first float64) (secant float64, ok bool) {
	secant = (delta - s.delta) / (s.mismatch - mismatch)
	ok = s.started && secant > 0.5*first && secant < maxLossFactor*first
	*s = secants{delta, mismatch, true}
	return secant, ok
}

// shareConverged says whether the shared power needs no further correction. It gets the number of corrections and
// the Newton steps of the last power flow. A mismatch below Tolerance violates no limit. It is accepted where all
// units are at a limit, or where the last correction was too small for a Newton step.
func shareConverged(mismatch, slope float64, corrections, steps int) bool {
	mismatch = math.Abs(mismatch)
	return mismatch <= shareTolerance || mismatch <= Tolerance && (slope <= 0 || corrections > 0 && steps == 0)
}

// listViolations lists the limits that a power flow violates.
func (f *outageFlows) listViolations(c *Check) {
	s, n := f.sys, f.sys.net
	c.Margin = math.Inf(1)
	add := func(kind Kind, element int, value, excess, severity float64) {
		c.Margin = min(c.Margin, -excess)
		if excess > Tolerance {
			c.Violations = append(c.Violations, Violation{kind, element, value, excess, severity})
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
		w := branchFlows(&n.Admittance, k, c.va[from]-c.va[to], c.vm[from], c.vm[to])
		rate := s.opt.Emergency * n.Rate[k]
		for end, kind := range []Kind{FromRating, ToRating} {
			flow := math.Hypot(w.p[end], w.q[end])
			add(kind, k, flow, flow-rate, (flow-rate)/rate)
		}
	}
	slices.SortStableFunc(c.Violations, func(a, b Violation) int { return cmp.Compare(b.Severity, a.Severity) })
}

// earlierChecks is where new checks start: the checks of an earlier dispatch, in the order of the outages, and its
// voltages before any outage.
type earlierChecks struct {
	checks []*Check
	vm, va []float64
}

// initialiser starts the power flow at the earlier check, shifted by the change of the voltages before the outage.
func (k *earlierChecks) initialiser(i int, vm, va []float64) func(c *Check) {
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
		copy(c.atLimit, earlier.atLimit)
		c.Delta, c.reference = earlier.Delta, earlier.reference
	}
}

// checkScalar checks the outages that have no check yet, one after another.
func (s *Solver) checkScalar(ctx context.Context, pd, qd, pg, vm, va []float64, states []*state, earlier earlierChecks, checks []*Check) error {
	threads := max(1, min(s.sys.opt.Threads, len(checks)))
	errs := make([]error, threads)
	parallel.Each(threads, threads, func(_, part int) {
		f := newOutageFlows(s.sys, pd, qd)
		for i := part; i < len(checks) && errs[part] == nil && ctx.Err() == nil; i += threads {
			if checks[i] == nil {
				checks[i], errs[part] = f.check(s.outages[i], pg, vm, va, states, earlier.initialiser(i, vm, va))
			}
		}
	})
	return cmp.Or(errors.Join(errs...), ctx.Err())
}

// check tries several starts until one has a power flow: the voltages before the outage, the optimiser's state, the
// earlier check, and a power flow in lanes.
func (f *outageFlows) check(o Outage, pg, vm, va []float64, states []*state, initialise func(c *Check)) (*Check, error) {
	starts := []func(*Check){nil}
	for _, t := range states {
		if t.after && t.outage == o {
			starts = append(starts, t.initialiseCheck)
		}
	}
	if initialise != nil {
		starts = append(starts, initialise)
	}
	var first *Check
	for _, start := range starts {
		c, err := f.solveOutage(o, pg, vm, va, start)
		if err != nil || c.Solved {
			return c, err
		}
		first = cmp.Or(first, c)
	}
	if f.sys.part(o).others != nil { // lanes have one balance
		return first, nil
	}
	lanes, err := f.sys.laneSolver()
	if err != nil {
		return nil, err
	}
	if laneCheck := lanes.solveOne(o, laneflow.Dispatch{Pd: f.pd, Qd: f.qd, Pg: pg, Vm: vm, Va: va}); laneCheck.Solved {
		if c, err := f.solveOutage(o, pg, vm, va, laneCheck.copyTo); err != nil || c.Solved {
			return c, err
		}
	}
	return first, nil
}

// copyTo copies a power flow into a check as its start.
func (c *Check) copyTo(to *Check) {
	copy(to.vm, c.vm)
	copy(to.va, c.va)
	copy(to.q, c.q)
	copy(to.atLimit, c.atLimit)
	to.Delta, to.reference = c.Delta, c.reference
}

// initialiseCheck starts a power flow at the optimiser's state.
func (t *state) initialiseCheck(c *Check) {
	for b, first := range t.bus {
		c.va[b], c.vm[b] = t.x[first+angleOffset], t.x[first+magnitudeOffset]
	}
	for i, b := range t.sys.genBuses {
		if lo, hi := t.reactiveLimits(i); lo <= hi {
			y := t.x[t.reactive[i]]
			c.q[b], c.atLimit[b] = min(max(y, lo), hi), modeOf(y, lo, hi)
		}
	}
	c.Delta = t.x[t.delta]
}
