package results

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Conditions are those of a network's outages.
type Conditions struct {
	Case      string  `json:"case"`            // of the network
	EnforceQ  bool    `json:"enforce_q"`       // whether units were held within their reactive limits
	Emergency float64 `json:"emergency"`       // factor on ratings after an outage
	Band      float64 `json:"voltage_band_pu"` // what voltages may leave their limits by after one
	WallMS    float64 `json:"wall_ms"`         // of all power flows
}

func (o *SecurityOptions) conditions(n *network.Network, pr *FlowProblem) Conditions {
	return Conditions{Case: n.Name, EnforceQ: pr.EnforceQ, Emergency: o.Emergency, Band: o.Band}
}

// normalize puts the defaults in place of 0.
func (o *SecurityOptions) normalize() {
	o.Emergency, o.Threads = cmp.Or(o.Emergency, 1), cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
}

// Security is what outages do to a power flow.
type Security struct {
	Conditions
	Shard      [2]int        `json:"shard"`      // [i, n] of --shard: the outages are those of every n-th part of the list, from i on; [0, 1] of all
	Count      int           `json:"count"`      // of outages
	Breaking   int           `json:"breaking"`   // outages that break a limit
	Secure     int           `json:"secure"`     // outages with a power flow that breaks no limit more than the base, and that cut off no load
	Unsolved   int           `json:"unsolved"`   // outages without a power flow
	CutOff     int           `json:"cut_off"`    // outages that cut off load
	SolvedBy   SolvedBy      `json:"solved_by"`  // how their power flows were solved, but those of units that share the missing power
	Violations []Broken      `json:"violations"` // of the base
	Outages    []AfterOutage `json:"outages"`    // the worst: those without a power flow first, then by lost load, lost generation and severity
	Elements   []Extreme     `json:"elements"`   // of each voltage, rating and unit's limit the highest loading after any outage

	Base *powerflow.Solution `json:"-"`
}

// SolvedBy counts outages by how their power flows were solved.
type SolvedBy struct {
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
	// List are the outages of one element, Groups lines of those of several, as ReadOutages has them. The reference takes up
	// what is missing after groups.
	List          []secure.Outage
	Groups        []string
	Participation []float64
	Worst         int     // outages that are kept and ranked, while all are counted; 0 is all
	Threads       int     // 0 is GOMAXPROCS
	Record        *Record // nil: nothing is kept
	// Progress, if not nil, is called after outages with the number finished, by one goroutine at a time.
	Progress func(done, total int)

	needs bool // of scenarios are kept
}

// DefaultWorst is a number of outages to rank that fits any memory.
const DefaultWorst = 10_000

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

// After solves the base and every outage in parallel. A base without a power flow is a NoBaseError. No
// result depends on the number of threads.
func After(ctx context.Context, n *network.Network, pr FlowProblem, opt SecurityOptions) (*Security, error) {
	n = pr.network(n)
	s, err := powerflow.New(n)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	opt.normalize()
	y, err := newRun(n, s, powerflow.NewLoading(n), pr, opt)
	if err == nil {
		err = y.start()
	}
	if err != nil {
		return nil, err
	}
	w := newSecurityWatch(y.n, y.loading)
	if err := y.parts(ctx, w); err != nil {
		return nil, err
	}
	w.measure(y.base, nil, nil)
	y.out.Elements = y.elements(w)
	y.out.WallMS = float64(time.Since(start)) / 1e6
	y.out.rank(opt.Worst)
	return y.out, nil
}

// newRun solves the base.
func newRun(n *network.Network, s *powerflow.Solver, loading *powerflow.Loading, pr FlowProblem, opt SecurityOptions) (*securityRun, error) {
	base, input, err := pr.solve(s, n)
	if err != nil {
		return nil, err
	}
	if !base.Converged() {
		return nil, NoBaseError{s.Reason(base)}
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
	y := &securityRun{n: withLimits(n, opt.Emergency, opt.Band), s: s, input: input, base: base, loading: loading, opt: opt, flow: pr.Options, list: opt.List, groups: opt.Groups}
	y.threshold = newSecurityWatch(y.n, loading).thresholds(base)
	w := newSecurityWatch(n, loading)
	y.out = &Security{Conditions: opt.conditions(n, &pr), Violations: brokenBefore(w, base), Outages: []AfterOutage{}, Base: base}
	y.baseExcess = w.excesses
	return y, nil
}

// solveAll solves every outage of the run.
func (y *securityRun) solveAll(ctx context.Context, w *securityWatch) (err error) {
	y.out.Outages = make([]AfterOutage, len(y.list)+len(y.groups))
	var flows []int
	first := 0
	if y.opt.ShareMissing {
		if flows, err = y.shareOutages(ctx, w); err != nil {
			return err
		}
		first = len(y.list)
	}
	for i := first; i < len(y.out.Outages); i++ {
		flows = append(flows, i)
	}
	errs := make([]error, len(y.workers))
	parallel.Each(len(y.workers), len(y.workers), func(_, part int) {
		errs[part] = y.part(ctx, y.workers[part], w, flows, part)
	})
	return cmp.Or(cmp.Or(errs...), ctx.Err())
}

// brokenBefore lists the limits that the base violates.
func brokenBefore(w *securityWatch, base *powerflow.Solution) []Broken {
	list := []Broken{}
	w.measure(base, nil, nil)
	for i, x := range w.excesses {
		if x > minViolation {
			list = append(list, w.broken(i, x))
		}
	}
	return list
}

// count counts an outage.
func (y *Security) count(r *AfterOutage) {
	y.Count++
	if r.LostMW != 0 {
		y.CutOff++
	}
	switch {
	case !r.Converged:
		y.Unsolved++
	case len(r.Violations) > 0:
		y.Breaking++
	case r.LostMW == 0:
		y.Secure++
	}
}

// rank sorts the outages, the worst first, and keeps a number of them; 0 is all.
func (y *Security) rank(worst int) {
	type rank struct {
		key    [4]float64
		number int
	}
	order := make([]rank, len(y.Outages))
	for i := range order {
		r := &y.Outages[i]
		if order[i] = (rank{[4]float64{0, r.LostMW, r.LostUnitsMW}, i}); r.Converged {
			order[i].key[3] = *r.Severity
		} else {
			order[i].key[0] = 1
		}
	}
	slices.SortFunc(order, func(a, b rank) int { return cmp.Or(slices.Compare(b.key[:], a.key[:]), a.number-b.number) })
	if worst > 0 {
		order = order[:min(worst, len(order))]
	}
	outages := make([]AfterOutage, len(order))
	for i, r := range order {
		outages[i] = y.Outages[r.number]
	}
	y.Outages = outages
}

// worker is what a thread solves outages with.
type worker struct {
	scalar       *powerflow.Outages
	w            *securityWatch
	sol, reserve *powerflow.Solution
}

// start makes the workers.
func (y *securityRun) start() error {
	y.workers = make([]*worker, min(y.opt.Threads, max(1, len(y.list)+len(y.groups))))
	for i := range y.workers {
		scalar, err := y.s.Clone().NewOutages(y.input, y.flow, y.base)
		if err != nil {
			return err
		}
		y.workers[i] = &worker{scalar, newSecurityWatch(y.n, y.loading), y.s.NewSolution(), y.s.NewSolution()}
	}
	return nil
}

// securityRun is the analysis of one network's outages.
type securityRun struct {
	n          *network.Network // with the limits after an outage
	s          *powerflow.Solver
	input      powerflow.Input
	base       *powerflow.Solution
	baseExcess []float64 // excesses of the base over limits without an outage
	threshold  []float64 // what each limit is broken by more than, where it counts
	loading    *powerflow.Loading
	opt        SecurityOptions
	flow       powerflow.Options
	out        *Security
	list       []secure.Outage
	groups     []string
	first      int // number of the first group

	workers  []*worker
	check    *secure.Solver // of shareOutages
	mu       sync.Mutex     // of finished and the watch of all workers
	finished int
	progress func(count int)
}

// reportProgress counts a finished outage.
func (y *securityRun) reportProgress() {
	if y.progress == nil {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.finished++
	y.progress(y.finished)
}

// finish counts an outage.
func (y *securityRun) finish(outage powerflow.Outage) {
	y.mu.Lock()
	if outage.Compensated {
		y.out.SolvedBy.BaseFactors++
	} else {
		y.out.SolvedBy.OwnFactors++
	}
	y.mu.Unlock()
	y.reportProgress()
}

// part solves the outages of a worker, from its number on.
func (y *securityRun) part(ctx context.Context, v *worker, all *securityWatch, flows []int, number int) error {
	v.w.reset()
	defer func() {
		y.mu.Lock()
		defer y.mu.Unlock()
		for limit, x := range v.w.extreme {
			all.keep(limit, x, v.w.outage[limit])
		}
	}()
	var branches, units []int
	for k := number; k < len(flows); k += len(y.workers) {
		if i := flows[k]; i < len(y.list) {
			b, u := y.list[i].Elements()
			branches, units = append(branches, b...), append(units, u...)
		}
	}
	v.scalar.Ahead(branches, units)
	for k := number; k < len(flows); k += len(y.workers) {
		if err := cmp.Or(y.solve(flows[k], v), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// solve solves an outage.
func (y *securityRun) solve(i int, v *worker) error {
	if i >= len(y.list) {
		return y.group(i, v)
	}
	var outage powerflow.Outage
	var err error
	if o := y.list[i]; o.Branch >= 0 {
		outage, err = v.scalar.Branch(o.Branch, v.sol)
	} else {
		outage, err = v.scalar.Unit(o.Unit, v.sol)
	}
	if err == nil {
		y.record(i, v, outage)
	}
	return err
}

// record writes the result of an outage of the list. Where it leaves buses with load and a unit without a reference, they
// get another one.
func (y *securityRun) record(i int, v *worker, outage powerflow.Outage) {
	c := y.list[i]
	var g Group
	g.Branches, g.Units = c.Elements()
	r := &y.out.Outages[i]
	*r = newAfterOutage(y.outage(i))
	lines := len(y.withLines(Group{}, outage.Islanded).Units) > 0
	if outage.Balance || outage.Solution.Converged() && (lines || y.supplies(outage.Islanded)) {
		supplied, err := y.supplied(v, g, v.reserve)
		switch {
		case err == nil && (lines || len(supplied.references) > 0) && (outage.Balance || supplied.Solution.Converged()):
			outage, r.References = supplied.Outage, supplied.references
		case outage.Balance:
			outage.Islanded = supplied.Islanded
		default:
			outage.V = nil // which supplied has overwritten
		}
	}
	if outage.Balance {
		r.Reason = "nothing takes up the balance: it is the only unit of its part"
	}
	y.write(i, v, g, outage)
}

// newAfterOutage has empty lists, not null.
func newAfterOutage(o Outage) AfterOutage {
	return AfterOutage{Outage: o, Islanded: []int{}, References: []int{}, Violations: []Broken{}}
}

// supplies says whether buses have load, or a unit that is a load, and a unit that takes up their balance.
func (y *securityRun) supplies(buses []int) bool {
	if len(buses) == 0 {
		return false
	}
	load, unit := slices.ContainsFunc(buses, func(b int) bool { return y.input.Pd[b] > 0 }), false
	terminals := y.n.Terminals()
	for g, b := range y.n.GenBus {
		if slices.Contains(buses, b) {
			load, unit = load || y.base.Pg[g] < 0, unit || !terminals[g]
		}
	}
	return load && unit
}

// write writes the result of an outage.
func (y *securityRun) write(i int, v *worker, g Group, outage powerflow.Outage) {
	n, r := y.n, &y.out.Outages[i]
	sol, dark := outage.Solution, outage.Islanded
	defer y.finish(outage)
	g = y.withLines(g, dark)
	r.Converged, r.Iterations, r.Compensated = sol.Converged(), sol.Iterations, outage.Compensated
	if !r.Converged && r.Reason == "" {
		r.Reason = y.s.Reason(sol)
	}
	for _, b := range dark {
		r.Islanded = append(r.Islanded, n.BusID[b])
		r.LostMW += y.input.Pd[b] * n.BaseMVA
	}
	for unit, b := range n.GenBus {
		if len(dark) > 0 && !slices.Contains(g.Units, unit) && slices.Contains(dark, b) {
			r.LostUnitsMW += y.base.Pg[unit] * n.BaseMVA
		}
	}
	slices.Sort(r.Islanded)
	if r.Converged {
		v.w.branches, v.w.outUnits = g.opened(n)
		y.measure(i, v.w, sol, outage.V, dark)
	}
}

// measure writes what the power flow of an outage breaks, the worst first.
func (y *securityRun) measure(i int, w *securityWatch, sol *powerflow.Solution, voltages [][2]float64, dark []int) {
	r, worst := &y.out.Outages[i], 0.0
	excesses := w.excesses
	violated := w.violated[:0]
	for _, k := range w.measure(sol, voltages, dark) {
		excess := excesses[k]
		if excess > w.extreme[k] { // of equals the first, which most set-points are
			w.extreme[k], w.outage[k] = excess, i
			w.floor[k] = math.Nextafter(min(excess, y.threshold[k]), math.Inf(1))
		}
		if excess > y.threshold[k] {
			violated = append(violated, violation{k, w.severity(k, excess)})
		}
	}
	slices.SortFunc(violated, func(a, b violation) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), cmp.Compare(a.limit, b.limit))
	})
	r.Violations = slices.Grow(r.Violations, len(violated))
	for _, v := range violated {
		r.Violations, worst = append(r.Violations, w.broken(v.limit, excesses[v.limit])), max(worst, v.severity)
	}
	r.Severity, w.violated = &worst, violated
}

// elements are the extremes of all limits; of a rating that at the end where it is heavier loaded.
func (y *securityRun) elements(w *securityWatch) []Extreme {
	out, first, nl := make([]Extreme, 0, len(w.extreme)), 2*y.n.Buses(), y.n.Branches()
	for i, x := range w.extreme {
		if row := i - first; math.IsInf(x, -1) || row >= 0 && row < nl && w.extreme[i+nl] > x || row >= nl && row < 2*nl && w.extreme[i-nl] >= x {
			continue
		}
		out = append(out, y.extreme(w, i))
	}
	return out
}

// extreme is that of a limit, of a watch that has measured the base last.
func (y *securityRun) extreme(w *securityWatch, limit int) Extreme {
	e := Extreme{w.broken(limit, w.extreme[limit]), y.outage(w.outage[limit])}
	if e.Value = e.Bound + e.Excess; strings.HasSuffix(e.Kind, "min") {
		e.Value = e.Bound - e.Excess
	}
	return e
}
