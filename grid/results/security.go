package results

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Security is what single outages do to a power flow.
type Security struct {
	Case       string        `json:"case"`            // of the network
	EnforceQ   bool          `json:"enforce_q"`       // whether units were held within their reactive limits
	Emergency  float64       `json:"emergency"`       // factor on ratings after an outage
	Band       float64       `json:"voltage_band_pu"` // what voltages may leave their limits by after one
	WallMS     float64       `json:"wall_ms"`         // of all power flows
	Secure     int           `json:"secure"`          // outages with a power flow that breaks no limit more than the base, and that cut off no load
	Unsolved   int           `json:"unsolved"`        // outages without a power flow
	CutOff     int           `json:"cut_off"`         // outages that cut off load
	SolvedBy   SolvedBy      `json:"solved_by"`       // how their power flows were solved, but those of units that share the missing power
	Violations []Broken      `json:"violations"`      // of the base
	Outages    []AfterOutage `json:"outages"`         // those without a power flow first, then by lost load, lost generation and severity
	Elements   []Extreme     `json:"elements"`        // of each voltage, rating and unit's limit the highest loading after any outage

	Base *powerflow.Solution `json:"-"`
}

// SolvedBy counts outages by how their power flows were solved.
type SolvedBy struct {
	Lanes       int `json:"lanes"`        // side by side in the lanes of vectors
	BaseFactors int `json:"base_factors"` // by the factors of the base and a few changed rows
	OwnFactors  int `json:"own_factors"`  // by Newton's method
}

// Extreme is a limit after the outage at which it is farthest exceeded, or has the least room.
type Extreme struct {
	Broken        // `by` is below 0 where the limit holds after every outage
	Outage Outage `json:"after"`
}

// AfterOutage is the power flow of one outage. Violations are those that the base does not have, or has less of.
type AfterOutage struct {
	Outage
	Converged   bool     `json:"converged"`          // whether there is a power flow
	Reason      string   `json:"reason"`             // why not; ""
	Iterations  int      `json:"iterations"`         // Newton steps
	Compensated bool     `json:"compensated"`        // whether the factors of the base served
	Islanded    []int    `json:"islanded"`           // buses that are left without supply; the power flow is of the rest
	References  []int    `json:"references"`         // buses that take up the balance of a part that has lost its reference
	LostMW      float64  `json:"lost_load_mw"`       // of the buses without supply
	LostUnitsMW float64  `json:"lost_generation_mw"` // of the units there, before the outage
	Severity    *float64 `json:"severity"`           // the largest of overloads as shares of the rating or of a unit's larger limit, and of voltages tenfold their pu; null without a power flow
	Violations  []Broken `json:"violations"`         // limits of voltages, ratings and units that are broken more than in the base, those of units by a hundredth of the larger
}

// SecurityOptions set the limits after an outage and the number of threads.
type SecurityOptions struct {
	// Emergency is the factor on every rating after an outage, 1 or more; 0 is 1. Band widens the voltage limits,
	// pu.
	Emergency, Band float64
	// ShareMissing lets units share the missing power after an outage, within their limits of active and reactive
	// power, by the factors Participation as in package secure. Otherwise the reference takes it up, as it always
	// does after a branch that cuts off a part of the network.
	ShareMissing bool
	// Groups are outages of several elements of a case. The reference takes up what is missing after them.
	Groups        []Group
	Case          *matpower.Case
	Participation []float64
	Threads       int
	Record        *Record // nil: nothing is kept
	// Progress, if not nil, is called after outages with the number finished, by one goroutine at a time.
	Progress func(done, total int)
}

// voltageSeverity: an overload counts relative to its rating, a voltage tenfold its pu, so that 0.01 pu equals a
// tenth of a rating.
const voltageSeverity = 10

// minUnitChange is the smallest change of a unit's limit that is broken before the outage, as its severity: every outage
// moves the powers of most units a little.
const minUnitChange = 0.01

// minViolation is the smallest violation that counts, pu.
const minViolation = 1e-6

// NoBaseError says why the base has no power flow.
type NoBaseError struct{ Reason string }

func (e NoBaseError) Error() string { return "without any outage: " + e.Reason }

// After solves the base and every outage of a list in parallel. A base without a power flow is a NoBaseError. No
// result depends on the number of threads.
func After(ctx context.Context, n *network.Network, pr FlowProblem, opt SecurityOptions, list []secure.Outage) (*Security, error) {
	s, err := powerflow.New(n)
	if err != nil {
		return nil, err
	}
	opt.Emergency = cmp.Or(opt.Emergency, 1)
	start := time.Now()
	base, input, err := pr.solve(s, n)
	if err != nil {
		return nil, err
	}
	if pr.Slack != nil { // outages begin at what units give then
		input.Pg = slices.Clone(base.Pg)
		if pr.Slack.Shares == nil {
			opt.Participation = floats.SubTo(make([]float64, n.Gens()), n.PMax, base.Pg)
			for g, room := range opt.Participation {
				opt.Participation[g] = max(room, 0)
			}
		}
		pr.Slack = nil
	}
	if !base.Converged() {
		return nil, NoBaseError{s.Reason(base)}
	}
	y := &securityRun{n: n, s: s, input: input, limits: limitsAfter(n, opt.Emergency, opt.Band), base: base, opt: opt, flow: pr.Options, list: list, groups: opt.Groups, progress: opt.Progress}
	w := newSecurityWatch(n, y.limits)
	y.before = make([]float64, w.count())
	w.measure(base.Vm, base.Va, base.Pg, base.Qg, nil, y.before)
	y.out = &Security{Case: n.Name, EnforceQ: pr.EnforceQ, Emergency: opt.Emergency, Band: opt.Band, Violations: brokenBefore(n, base), Outages: []AfterOutage{}, Base: base}
	if err := y.parts(ctx, w); err != nil {
		return nil, err
	}
	w.measure(base.Vm, base.Va, base.Pg, base.Qg, nil, y.before)
	y.out.Elements = y.elements(w)
	y.out.WallMS = float64(time.Since(start)) / 1e6
	y.out.rank()
	return y.out, nil
}

// solveAll solves every outage of the run.
func (y *securityRun) solveAll(ctx context.Context, w *securityWatch) (err error) {
	y.out.Outages = make([]AfterOutage, len(y.list)+len(y.groups))
	flows := y.indices()
	if y.opt.ShareMissing {
		if flows, err = y.shareOutages(ctx, y.opt, y.base, w); err != nil {
			return err
		}
	}
	if err := y.solve(ctx, y.s, y.flow, y.opt.Threads, w, flows); err != nil {
		return err
	}
	return y.solveGroups(ctx)
}

// brokenBefore lists the limits that the base violates.
func brokenBefore(n *network.Network, base *powerflow.Solution) []Broken {
	w := newSecurityWatch(n, limitsAfter(n, 1, 0))
	excesses, list := make([]float64, w.count()), []Broken{}
	w.measure(base.Vm, base.Va, base.Pg, base.Qg, nil, excesses)
	for i, x := range excesses {
		if x > minViolation {
			list = append(list, w.broken(i, x))
		}
	}
	return list
}

// indices are the indices of all outages.
func (y *securityRun) indices() []int {
	all := make([]int, len(y.list))
	for i := range all {
		all[i] = i
	}
	return all
}

// rank counts the outages by result and sorts them, the worst first.
func (y *Security) rank() {
	for i := range y.Outages {
		r := &y.Outages[i]
		if r.LostMW != 0 {
			y.CutOff++
		}
		switch {
		case !r.Converged:
			y.Unsolved++
		case len(r.Violations) == 0 && r.LostMW == 0:
			y.Secure++
		}
	}
	slices.SortStableFunc(y.Outages, func(a, b AfterOutage) int {
		if a.Converged != b.Converged {
			return cmp.Compare(len(b.Reason), len(a.Reason)) // of one the reason is empty
		}
		order := cmp.Or(cmp.Compare(b.LostMW, a.LostMW), cmp.Compare(b.LostUnitsMW, a.LostUnitsMW))
		if order != 0 || !a.Converged {
			return order
		}
		return cmp.Compare(*b.Severity, *a.Severity)
	})
}

// solve solves the power flows of some outages, by their indices in the list.
func (y *securityRun) solve(ctx context.Context, s *powerflow.Solver, opt powerflow.Options, threadLimit int, w *securityWatch, flows []int) error {
	if len(flows) == 0 {
		return nil
	}
	threads := min(max(1, threadLimit), len(flows))
	errs := make([]error, threads)
	inLanes := sync.OnceValues(func() (*laneflow.Solver, error) {
		o, err := s.Clone().NewOutages(y.input, opt, y.base)
		if err != nil {
			return nil, err
		}
		return laneflow.ForOutages(o)
	})
	parallel.Each(threads, threads, func(_, part int) {
		scalarSolver := s.Clone()
		scalar, err := scalarSolver.NewOutages(y.input, opt, y.base)
		if err != nil {
			errs[part] = err
			return
		}
		lanes, err := inLanes()
		if err != nil {
			errs[part] = err
			return
		}
		errs[part] = y.part(ctx, scalarSolver, laneflow.NewOutages(lanes, scalar), scalar, w, flows, part, threads)
	})
	return cmp.Or(cmp.Or(errs...), ctx.Err())
}

// securityRun is the analysis of one network's outages.
type securityRun struct {
	n      *network.Network
	s      *powerflow.Solver
	input  powerflow.Input
	limits limits
	base   *powerflow.Solution
	before []float64 // by how much the base breaks each limit after an outage
	opt    SecurityOptions
	flow   powerflow.Options
	out    *Security
	list   []secure.Outage
	groups []Group
	first  int // number of the first group

	mu       sync.Mutex // of finished and the watch of all parts
	finished int
	progress func(done, total int)
}

// reportProgress counts a finished outage.
func (y *securityRun) reportProgress() {
	if y.progress == nil {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.finished++
	y.progress(y.finished, len(y.list)+len(y.groups))
}

// finish counts an outage.
func (y *securityRun) finish(outage powerflow.Outage) {
	y.mu.Lock()
	switch count := &y.out.SolvedBy; {
	case outage.Lanes:
		count.Lanes++
	case outage.Compensated:
		count.BaseFactors++
	default:
		count.OwnFactors++
	}
	y.mu.Unlock()
	y.reportProgress()
}

// part solves every stride-th of these outages, from the index part on.
func (y *securityRun) part(ctx context.Context, s *powerflow.Solver, o *laneflow.Outages, scalar *powerflow.Outages, all *securityWatch, flows []int, part, stride int) error {
	w, sol := newSecurityWatch(y.n, y.limits), s.NewSolution()
	defer func() {
		y.mu.Lock()
		defer y.mu.Unlock()
		all.keep(w.extreme, func(limit int) int { return w.outage[limit] })
	}()
	excesses := make([]float64, w.count())
	var branches, positions []int
	for k := part; k < len(flows); k += stride {
		i := flows[k]
		if c := y.list[i]; c.Branch >= 0 {
			branches, positions = append(branches, c.Branch), append(positions, i)
			continue
		}
		outage, err := scalar.Unit(y.list[i].Unit, sol)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if err := y.record(i, s, outage, scalar, w, excesses); err != nil {
			return err
		}
	}
	return o.Branches(branches, sol, func(k int, outage powerflow.Outage) error {
		return cmp.Or(y.record(positions[k], s, outage, scalar, w, excesses), ctx.Err())
	})
}

// record writes the result of an outage.
func (y *securityRun) record(i int, s *powerflow.Solver, outage powerflow.Outage, o *powerflow.Outages, w *securityWatch, excesses []float64) error {
	n, c, sol := y.n, y.list[i], outage.Solution
	defer func() { y.finish(outage) }()
	r := &y.out.Outages[i]
	*r = AfterOutage{Outage: NewOutage(n, c), Islanded: []int{}, References: []int{}, Violations: []Broken{}}
	var dark []int
	if outage.Balance || len(outage.Islanded) > 0 && sol.Converged() {
		var err error
		if outage, dark, err = y.supply(r, outage, c, o); err != nil {
			return err
		}
		sol = outage.Solution
	}
	r.Converged, r.Iterations, r.Compensated = sol.Converged(), sol.Iterations, outage.Compensated
	switch {
	case outage.Balance:
		r.Reason = "nothing takes up the balance: it is the only unit of its part"
	case !r.Converged:
		r.Reason = s.Reason(sol)
	}
	for _, b := range dark {
		r.Islanded = append(r.Islanded, n.BusID[b])
		r.LostMW += y.input.Pd[b] * n.BaseMVA
	}
	for g, b := range n.GenBus {
		if g != c.Unit && slices.Contains(dark, b) {
			r.LostUnitsMW += y.base.Pg[g] * n.BaseMVA
		}
	}
	slices.Sort(r.Islanded)
	if !r.Converged {
		return nil
	}
	y.measure(i, w, sol.Vm, sol.Va, sol.Pg, sol.Qg, dark, excesses)
	return nil
}

// measure writes what the power flow of an outage breaks, the worst first.
func (y *securityRun) measure(i int, w *securityWatch, vm, va, pg, qg []float64, dark []int, excesses []float64) {
	r, worst := &y.out.Outages[i], 0.0
	w.out = y.list[i]
	w.measure(vm, va, pg, qg, dark, excesses)
	w.keep(excesses, func(int) int { return i })
	var violated []int
	for k, excess := range excesses {
		more := minViolation
		if k >= 2*(y.n.Buses()+y.n.Branches()) && y.before[k] > minViolation {
			more = minUnitChange / w.severity(k, 1)
		}
		if excess > minViolation && excess > max(y.before[k], 0)+more {
			violated = append(violated, k)
		}
	}
	severity := func(k int) float64 { return w.severity(k, excesses[k]) }
	slices.SortStableFunc(violated, func(a, b int) int { return cmp.Compare(severity(b), severity(a)) })
	for _, k := range violated {
		r.Violations, worst = append(r.Violations, w.broken(k, excesses[k])), max(worst, severity(k))
	}
	r.Severity = &worst
}

// supply solves an outage with another reference for the buses that it leaves without, where they have load and a unit.
// Otherwise these buses are dark.
func (y *securityRun) supply(r *AfterOutage, outage powerflow.Outage, c secure.Outage, o *powerflow.Outages) (_ powerflow.Outage, dark []int, err error) {
	n, mask, load := y.n, make([]bool, y.n.Buses()), 0.0
	for _, b := range outage.Islanded {
		dark = append(dark, int(b))
	}
	if outage.Balance {
		island := n.Islands()
		for b, i := range island {
			if i == island[n.GenBus[c.Unit]] {
				dark = append(dark, b)
			}
		}
	}
	for _, b := range dark {
		mask[b], load = true, max(load, y.input.Pd[b])
	}
	for g, b := range n.GenBus {
		if mask[b] {
			load = max(load, -y.base.Pg[g])
		}
	}
	if load == 0 {
		return outage, dark, nil
	}
	supplied, reference, err := o.Supplied(c.Branch, c.Unit, mask, &powerflow.Solution{})
	if err != nil || reference < 0 || !supplied.Solution.Converged() && !outage.Balance {
		return outage, dark, err
	}
	r.References = append(r.References, n.BusID[reference])
	return supplied, nil, nil
}

// elements are the extremes of all limits; of a rating that at the end where it is heavier loaded.
func (y *securityRun) elements(w *securityWatch) []Extreme {
	out, first, nl := []Extreme{}, 2*y.n.Buses(), y.n.Branches()
	for i, x := range w.extreme {
		if row := i - first; math.IsInf(x, -1) || row >= 0 && row < nl && w.extreme[i+nl] > x || row >= nl && row < 2*nl && w.extreme[i-nl] >= x {
			continue
		}
		e := Extreme{w.broken(i, x), NewOutage(y.n, y.list[w.outage[i]])}
		if e.Value = e.Bound + e.Excess; strings.HasSuffix(e.Kind, "min") {
			e.Value = e.Bound - e.Excess
		}
		out = append(out, e)
	}
	return out
}
