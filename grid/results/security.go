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

// AfterOutage is the power flow of one outage. Violations are those that the base does not have, or has less of.
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

// SecurityOptions set the limits after an outage and the number of threads.
type SecurityOptions struct {
	// Emergency is the factor on every rating after an outage, 1 or more; 0 is 1. Band widens the voltage limits,
	// pu.
	Emergency, Band float64
	// ShareMissing lets units share the missing power after an outage, within their limits of active and reactive
	// power, by the factors Participation as in package secure. Otherwise the reference takes it up, as it always
	// does after a branch that cuts off a part of the network.
	ShareMissing  bool
	Participation []float64
	Threads       int
	// Progress, if not nil, is called after outages with the number finished, by one goroutine at a time.
	Progress func(done, total int)
}

// voltageSeverity: an overload counts relative to its rating, a voltage tenfold its pu, so that 0.01 pu equals a
// tenth of a rating.
const voltageSeverity = 10

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
	if !base.Converged() {
		return nil, NoBaseError{s.Reason(base)}
	}
	out := &Security{Case: n.Name, EnforceQ: pr.EnforceQ, Emergency: opt.Emergency, Band: opt.Band, Violations: brokenBefore(n, base), Outages: make([]AfterOutage, len(list))}
	y := &securityRun{n: n, input: input, limits: limitsAfter(n, opt.Emergency, opt.Band), out: out, list: list, progress: opt.Progress}
	w := newSecurityWatch(n, y.limits)
	y.before = make([]float64, w.count())
	w.measure(base, nil, y.before)
	flows := y.indices()
	if opt.ShareMissing {
		if flows, err = y.shareOutages(ctx, opt, base); err != nil {
			return nil, err
		}
	}
	if err := y.solve(ctx, s, pr.Options, opt.Threads, base, flows); err != nil {
		return nil, err
	}
	out.WallMS = float64(time.Since(start)) / 1e6
	out.rank()
	return out, nil
}

// brokenBefore lists the ratings and voltages that the base violates.
func brokenBefore(n *network.Network, base *powerflow.Solution) []Broken {
	w := newSecurityWatch(n, limitsAfter(n, 1, 0))
	excesses, list := make([]float64, w.count()), []Broken{}
	w.measure(base, nil, excesses)
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

// solve solves the power flows of some outages, by their indices in the list.
func (y *securityRun) solve(ctx context.Context, s *powerflow.Solver, opt powerflow.Options, threadLimit int, base *powerflow.Solution, flows []int) error {
	if len(flows) == 0 {
		return nil
	}
	threads := min(max(1, threadLimit), len(flows))
	errs := make([]error, threads)
	inLanes := sync.OnceValues(func() (*laneflow.Solver, error) {
		o, err := s.Clone().NewOutages(y.input, opt, base)
		if err != nil {
			return nil, err
		}
		return laneflow.ForOutages(o)
	})
	parallel.Each(threads, threads, func(_, part int) {
		scalarSolver := s.Clone()
		scalar, err := scalarSolver.NewOutages(y.input, opt, base)
		if err != nil {
			errs[part] = err
			return
		}
		lanes, err := inLanes()
		if err != nil {
			errs[part] = err
			return
		}
		errs[part] = y.part(ctx, scalarSolver, laneflow.NewOutages(lanes, scalar), scalar, flows, part, threads)
	})
	return cmp.Or(cmp.Or(errs...), ctx.Err())
}

// securityRun is the analysis of one network's outages.
type securityRun struct {
	n      *network.Network
	input  powerflow.Input
	limits limits
	before []float64 // by how much the base breaks each limit after an outage
	out    *Security
	list   []secure.Outage

	mu       sync.Mutex // of done
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
	y.progress(y.finished, len(y.list))
}

// part solves every stride-th of these outages, from the index part on.
func (y *securityRun) part(ctx context.Context, s *powerflow.Solver, o *laneflow.Outages, scalar *powerflow.Outages, flows []int, part, stride int) error {
	w, sol := newSecurityWatch(y.n, y.limits), s.NewSolution()
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
		y.record(i, s, outage, w, excesses)
	}
	return o.Branches(branches, sol, func(k int, outage powerflow.Outage) error {
		y.record(positions[k], s, outage, w, excesses)
		return ctx.Err()
	})
}

// record writes the result of an outage.
func (y *securityRun) record(i int, s *powerflow.Solver, outage powerflow.Outage, w *securityWatch, excesses []float64) {
	defer y.reportProgress()
	n, c, sol := y.n, y.list[i], outage.Solution
	r := &y.out.Outages[i]
	*r = AfterOutage{Outage: NewOutage(n, c), Islanded: []int{}, Violations: []Broken{}}
	r.Converged, r.Iterations, r.Compensated = sol.Converged(), sol.Iterations, outage.Compensated
	for _, b := range outage.Islanded {
		r.Islanded = append(r.Islanded, n.BusID[b])
		r.LostMW += y.input.Pd[b] * n.BaseMVA
	}
	slices.Sort(r.Islanded)
	switch {
	case outage.Balance:
		r.Reason = "nothing takes up the balance: it is the only unit at a reference bus"
		return
	case !r.Converged:
		r.Reason = s.Reason(sol)
		return
	}
	w.out = c
	w.measure(sol, outage.Islanded, excesses)
	severity := 0.0
	for k, excess := range excesses {
		if excess > minViolation && excess > max(y.before[k], 0)+minViolation {
			l := w.broken(k, excess)
			r.Violations = append(r.Violations, l)
			severity = max(severity, w.severity(k, excess))
		}
	}
	r.Severity = &severity
	slices.SortStableFunc(r.Violations, func(a, b Broken) int {
		return cmp.Compare(b.Excess/severityUnit(&b, n), a.Excess/severityUnit(&a, n))
	})
}
