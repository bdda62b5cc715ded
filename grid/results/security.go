package results

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
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
