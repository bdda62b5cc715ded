package results

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/parallel"
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
	Violations []Broken      `json:"violations"`      // of the base
	Outages    []AfterOutage `json:"outages"`
}

// AfterOutage is the power flow of one outage. Violations are those that the base has not, or has less of.
type AfterOutage struct {
	Outage
	Converged   bool     `json:"converged"`    // whether there is a power flow
	Reason      string   `json:"reason"`       // why not; ""
	Iterations  int      `json:"iterations"`   // Newton steps
	Compensated bool     `json:"compensated"`  // whether the factors of the base served
	Islanded    []int    `json:"islanded"`     // buses that are left without a reference; the power flow is of the rest
	LostMW      float64  `json:"lost_load_mw"` // of these buses
	Severity    *float64 `json:"severity"`     // the largest of overloads as shares of the rating, and of voltages tenfold their pu; null without a power flow; the worst outage stands first
	Violations  []Broken `json:"violations"`   // ratings and voltages that are broken more than in the base
}

// Outage is a branch or unit that goes out of service.
type Outage struct {
	Kind string `json:"outage"` // branch or unit
	Row  int    `json:"row"`    // in `mpc.branch` or `mpc.gen`, from 1
	From int    `json:"from"`   // bus; of a unit its bus
	To   int    `json:"to"`     // likewise
}

// NewOutage puts an outage in the file's rows and numbers of buses.
func NewOutage(n *network.Network, o secure.Outage) Outage {
	if o.Branch >= 0 {
		return Outage{"branch", n.BranchRow[o.Branch] + 1, n.BusID[n.From[o.Branch]], n.BusID[n.To[o.Branch]]}
	}
	bus := n.BusID[n.GenBus[o.Unit]]
	return Outage{"unit", n.GenRow[o.Unit] + 1, bus, bus}
}

// Outages puts a list likewise; it is empty, not nil, where there are none.
func Outages(n *network.Network, list []secure.Outage) []Outage {
	out := []Outage{}
	for _, o := range list {
		out = append(out, NewOutage(n, o))
	}
	return out
}

// Where names what is out.
func (o Outage) Where() string {
	if o.Kind == "branch" {
		return fmt.Sprintf("branch %d, bus %d to %d", o.Row, o.From, o.To)
	}
	return fmt.Sprintf("unit %d at bus %d", o.Row, o.From)
}

// SecurityOptions say which limits hold after an outage, and on how many threads power flows are solved.
type SecurityOptions struct {
	// Emergency is the factor on ratings after an outage, 1 or more, and 1 where it is 0. Band is how far voltages may then
	// leave their limits, pu.
	Emergency, Band float64
	// Shared says that units share the power that is missing after an outage, within their limits of active and reactive
	// power, by the factors Participation as in package secure; else the reference takes it up, as it does in any case after a
	// branch that cuts off a part of the network.
	Shared        bool
	Participation []float64
	Threads       int
	// Progress, if not nil, is called after outages with how many are done, by one goroutine at a time.
	Progress func(done, total int)
}

// severities: an overload counts as its share of the rating, a voltage tenfold its pu, so that
// 0.01 pu is as much as a tenth of a rating.
const voltageSeverity = 10

// leastViolation is what a limit has to be broken by to count, pu.
const leastViolation = 1e-6

// NoBaseError says why there is no power flow to begin with.
type NoBaseError struct{ Reason string }

func (e NoBaseError) Error() string { return "without any outage: " + e.Reason }

// After solves the base and every outage of a list, side by side. A base without a power flow is a NoBaseError. No result
// depends on the number of threads.
func After(ctx context.Context, n *network.Network, pr FlowProblem, opt SecurityOptions, list []secure.Outage) (*Security, error) {
	s, err := powerflow.New(n)
	if err != nil {
		return nil, err
	}
	opt.Emergency = cmp.Or(opt.Emergency, 1)
	start := time.Now()
	base, in, err := pr.solve(s, n)
	if err != nil {
		return nil, err
	}
	if !base.Converged() {
		return nil, NoBaseError{s.Reason(base)}
	}
	out := &Security{Case: n.Name, EnforceQ: pr.EnforceQ, Emergency: opt.Emergency, Band: opt.Band, Violations: brokenBefore(n, base), Outages: make([]AfterOutage, len(list))}
	y := &securityRun{n: n, in: in, limits: limitsAfter(n, opt.Emergency, opt.Band), out: out, list: list, progress: opt.Progress}
	w := newSecurityWatch(n, y.limits)
	y.before = make([]float64, w.count())
	w.measure(base, nil, y.before)
	flows := y.every()
	if opt.Shared {
		if flows, err = y.share(ctx, opt, base); err != nil {
			return nil, err
		}
	}
	if err := y.all(ctx, s, pr.Options, opt.Threads, base, flows); err != nil {
		return nil, err
	}
	out.WallMS = float64(time.Since(start)) / 1e6
	out.close()
	return out, nil
}

// brokenBefore are the ratings and voltages that the base breaks.
func brokenBefore(n *network.Network, base *powerflow.Solution) []Broken {
	w := newSecurityWatch(n, limitsAfter(n, 1, 0))
	by, list := make([]float64, w.count()), []Broken{}
	w.measure(base, nil, by)
	for i, x := range by {
		if x > leastViolation {
			list = append(list, w.broken(i, x))
		}
	}
	return list
}

// every are the numbers of all outages.
func (y *securityRun) every() []int {
	all := make([]int, len(y.list))
	for i := range all {
		all[i] = i
	}
	return all
}

// share solves the outages after which units share what is missing, and returns the numbers of the others.
func (y *securityRun) share(ctx context.Context, opt SecurityOptions, base *powerflow.Solution) (others []int, err error) {
	var list []secure.Outage
	var at []int
	bridges := y.n.Bridges()
	for i, o := range y.list {
		if o.Branch >= 0 && bridges[o.Branch] {
			others = append(others, i)
			continue
		}
		list, at = append(list, o), append(at, i)
	}
	if len(list) == 0 {
		return others, nil
	}
	s, err := secure.New(y.n, secure.Options{Outages: list, Emergency: opt.Emergency, Band: opt.Band, Participation: opt.Participation, Threads: opt.Threads, Dispatchable: network.DispatchablePlain})
	if err != nil {
		return nil, err
	}
	checks, err := s.Check(ctx, y.in.Pd, y.in.Qd, base.Pg, base.Vm, base.Va)
	if err != nil {
		return nil, err
	}
	for k, c := range checks {
		y.checked(at[k], c)
	}
	return others, nil
}

// checked writes the result of an outage after which units share.
func (y *securityRun) checked(i int, c *secure.Check) {
	defer y.tell()
	r := &y.out.Outages[i]
	*r = AfterOutage{Outage: NewOutage(y.n, c.Outage), Converged: c.Solved, Reason: c.Reason, Islanded: []int{}, Violations: []Broken{}}
	if !c.Solved {
		return
	}
	severity := 0.0
	for _, v := range c.Violations {
		if v.By > max(y.before[y.number(v)], 0)+leastViolation {
			r.Violations = append(r.Violations, broken(y.n, v))
			severity = max(severity, v.Severity)
		}
	}
	r.Severity = &severity
}

// number is that of a limit among securityWatch's.
func (y *securityRun) number(v secure.Violation) int {
	nb, nl := y.n.Buses(), y.n.Branches()
	switch v.Kind {
	case secure.LowVoltage:
		return v.At
	case secure.HighVoltage:
		return nb + v.At
	case secure.FromRating:
		return 2*nb + v.At
	}
	return 2*nb + nl + v.At
}

// close counts the outages and puts the worst first.
func (y *Security) close() {
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
		switch {
		case !a.Converged && !b.Converged:
			return cmp.Compare(b.LostMW, a.LostMW)
		case !a.Converged:
			return -1
		case !b.Converged:
			return 1
		}
		return cmp.Or(cmp.Compare(*b.Severity, *a.Severity), cmp.Compare(b.LostMW, a.LostMW))
	})
}

// all solves the power flows of some outages, by their numbers in the list, on so many threads.
func (y *securityRun) all(ctx context.Context, s *powerflow.Solver, opt powerflow.Options, most int, base *powerflow.Solution, flows []int) error {
	if len(flows) == 0 {
		return nil
	}
	threads := min(max(1, most), len(flows))
	errs := make([]error, threads)
	inLanes := sync.OnceValues(func() (*laneflow.Solver, error) {
		o, err := s.Clone().NewOutages(y.in, opt, base)
		if err != nil {
			return nil, err
		}
		return laneflow.ForOutages(o)
	})
	parallel.Each(threads, threads, func(_, part int) {
		one := s.Clone()
		alone, err := one.NewOutages(y.in, opt, base)
		if err != nil {
			errs[part] = err
			return
		}
		lanes, err := inLanes()
		if err != nil {
			errs[part] = err
			return
		}
		errs[part] = y.part(ctx, one, laneflow.NewOutages(lanes, alone), alone, flows, part, threads)
	})
	return cmp.Or(cmp.Or(errs...), ctx.Err())
}

// securityRun are the outages of one network.
type securityRun struct {
	n      *network.Network
	in     powerflow.Input
	limits limits
	before []float64 // by how much the base breaks each limit after an outage
	out    *Security
	list   []secure.Outage

	mu       sync.Mutex // of done
	done     int
	progress func(done, total int)
}

// tell counts an outage that is done.
func (y *securityRun) tell() {
	if y.progress == nil {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.done++
	y.progress(y.done, len(y.list))
}

// limits are the voltages, pu by bus, and ratings, pu by branch, that hold after an outage.
type limits struct{ vmin, vmax, rate []float64 }

func limitsAfter(n *network.Network, emergency, band float64) limits {
	l := limits{slices.Clone(n.VMin), slices.Clone(n.VMax), slices.Clone(n.Rate)}
	for b := range l.vmin {
		l.vmin[b] -= band
		l.vmax[b] += band
	}
	for k := range l.rate {
		l.rate[k] *= emergency
	}
	return l
}

// part solves every so-manieth of these outages.
func (y *securityRun) part(ctx context.Context, s *powerflow.Solver, o *laneflow.Outages, alone *powerflow.Outages, flows []int, part, of int) error {
	w, sol := newSecurityWatch(y.n, y.limits), s.NewSolution()
	now := make([]float64, w.count())
	var branches, positions []int
	for at := part; at < len(flows); at += of {
		i := flows[at]
		if c := y.list[i]; c.Branch >= 0 {
			branches, positions = append(branches, c.Branch), append(positions, i)
			continue
		}
		got, err := alone.Unit(y.list[i].Unit, sol)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		y.judge(i, s, got, w, now)
	}
	return o.Branches(branches, sol, func(k int, got powerflow.Outage) error {
		y.judge(positions[k], s, got, w, now)
		return ctx.Err()
	})
}

// judge writes the result of an outage.
func (y *securityRun) judge(i int, s *powerflow.Solver, got powerflow.Outage, w *securityWatch, now []float64) {
	defer y.tell()
	n, c, sol := y.n, y.list[i], got.Solution
	r := &y.out.Outages[i]
	*r = AfterOutage{Outage: NewOutage(n, c), Islanded: []int{}, Violations: []Broken{}}
	r.Converged, r.Iterations, r.Compensated = sol.Converged(), sol.Iterations, got.Compensated
	for _, b := range got.Islanded {
		r.Islanded = append(r.Islanded, n.BusID[b])
		r.LostMW += y.in.Pd[b] * n.BaseMVA
	}
	slices.Sort(r.Islanded)
	switch {
	case got.Balance:
		r.Reason = "nothing takes up the balance: it is the only unit at a reference bus"
		return
	case !r.Converged:
		r.Reason = s.Reason(sol)
		return
	}
	w.out = c
	w.measure(sol, got.Islanded, now)
	severity := 0.0
	for k, by := range now {
		if by > leastViolation && by > max(y.before[k], 0)+leastViolation {
			l := w.broken(k, by)
			r.Violations = append(r.Violations, l)
			severity = max(severity, w.severity(k, by))
		}
	}
	r.Severity = &severity
	slices.SortStableFunc(r.Violations, func(a, b Broken) int {
		return cmp.Compare(b.By/severityUnit(&b, n), a.By/severityUnit(&a, n))
	})
}

// severityUnit is what a violation is divided by to be compared with others.
func severityUnit(l *Broken, n *network.Network) float64 {
	if l.Unit == "pu" {
		return 1.0 / voltageSeverity
	}
	return max(l.Bound, 1e-9*n.BaseMVA)
}

// securityWatch measures a solution against ratings and voltages: limits are numbered V lower, V
// upper by bus, |S| from and to by branch.
type securityWatch struct {
	n      *network.Network
	limits limits
	p      Point
	out    secure.Outage
}

func newSecurityWatch(n *network.Network, l limits) *securityWatch {
	return &securityWatch{n: n, limits: l, p: Point{net: n, Flows: network.NewFlows(n.Branches())}, out: secure.Outage{Branch: -1, Unit: -1}}
}

func (w *securityWatch) count() int { return 2 * (w.n.Buses() + w.n.Branches()) }

// measure writes by how much each limit is broken, pu; what is dead or out breaks none.
func (w *securityWatch) measure(sol *powerflow.Solution, islanded []int32, by []float64) {
	n, nb, nl := w.n, w.n.Buses(), w.n.Branches()
	w.p.Vm, w.p.Va, w.p.Pg, w.p.Qg = sol.Vm, sol.Va, sol.Pg, sol.Qg
	n.BranchFlows(&n.Admittance, sol.Vm, sol.Va, w.p.Flows)
	f := w.p.Flows
	for b, v := range sol.Vm {
		by[b], by[nb+b] = w.limits.vmin[b]-v, v-w.limits.vmax[b]
	}
	for _, b := range islanded {
		by[b], by[nb+int(b)] = 0, 0
	}
	for k, rate := range w.limits.rate {
		by[2*nb+k], by[2*nb+nl+k] = math.Hypot(f.Pf[k], f.Qf[k])-rate, math.Hypot(f.Pt[k], f.Qt[k])-rate
	}
	if k := w.out.Branch; k >= 0 {
		by[2*nb+k], by[2*nb+nl+k] = 0, 0
	}
}

func (w *securityWatch) broken(i int, by float64) Broken {
	n, nb, nl := w.n, w.n.Buses(), w.n.Branches()
	switch {
	case i < nb:
		return Broken{w.p.Bus("vmin", w.limits.vmin)(i), by}
	case i < 2*nb:
		return Broken{w.p.Bus("vmax", w.limits.vmax)(i - nb), by}
	case i < 2*nb+nl:
		return Broken{w.rating("from", i-2*nb), by * n.BaseMVA}
	}
	return Broken{w.rating("to", i-2*nb-nl), by * n.BaseMVA}
}

func (w *securityWatch) severity(i int, by float64) float64 {
	if nb, nl := w.n.Buses(), w.n.Branches(); i >= 2*nb {
		return by / w.limits.rate[(i-2*nb)%nl]
	}
	return voltageSeverity * by
}

// rating is that of a branch's end after an outage.
func (w *securityWatch) rating(end string, k int) Limit {
	l := w.p.Flow(end)(k)
	l.Bound = w.limits.rate[k] * w.n.BaseMVA
	return l
}
