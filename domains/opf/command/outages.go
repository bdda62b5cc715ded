package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/parallel"
)

// security is what gpc pf --outages prints.
type security struct {
	Case       string         `json:"case"`       // of the network
	EnforceQ   bool           `json:"enforce_q"`  // whether units were held within their reactive limits
	WallMS     float64        `json:"wall_ms"`    // of all power flows
	Secure     int            `json:"secure"`     // outages with a power flow that breaks no limit more than the base, and that cut off no load
	Unsolved   int            `json:"unsolved"`   // outages without a power flow
	CutOff     int            `json:"cut_off"`    // outages that cut off load
	Violations []brokenLimit  `json:"violations"` // of the base
	Outages    []outageResult `json:"outages"`
}

// outageResult is one outage. Violations are those that the base has not, or has less of.
type outageResult struct {
	outage
	Converged   bool          `json:"converged"`    // whether there is a power flow
	Reason      string        `json:"reason"`       // why not; ""
	Iterations  int           `json:"iterations"`   // Newton steps
	Compensated bool          `json:"compensated"`  // whether the factors of the base served
	Islanded    []int         `json:"islanded"`     // buses that are left without a reference; the power flow is of the rest
	LostMW      float64       `json:"lost_load_mw"` // of these buses
	Severity    float64       `json:"severity"`     // the largest of overloads as shares of the rating, and of voltages tenfold their pu; the worst outage stands first
	Violations  []brokenLimit `json:"violations"`   // ratings and voltages that are broken more than in the base
}

// severities: an overload counts as its share of the rating, a voltage tenfold its pu, so that
// 0.01 pu is as much as a tenth of a rating.
const voltageSeverity = 10

// leastViolation is what a limit has to be broken by to count, pu.
const leastViolation = 1e-6

// contingencies are those that an argument names: all branches, all units, or those of a file.
func contingencies(n *network.Network, what string) (list []secure.Outage, err error) {
	switch what {
	case "branches":
		for k := range n.Branches() {
			list = append(list, secure.Outage{Branch: k, Unit: -1})
		}
		return list, nil
	case "units":
		return secure.Units(n), nil
	}
	f, err := os.Open(what)
	if err != nil {
		return nil, fmt.Errorf("%w: want branches, units or a file of lines such as \"branch 7\" and \"unit 2\"", err)
	}
	defer f.Close()
	return secure.ReadOutages(n, what, f)
}

// runOutages solves the base and every outage, side by side on so many threads.
func runOutages(ctx context.Context, n *network.Network, opt powerflow.Options, scale float64, what string, threads int) (*security, error) {
	list, err := contingencies(n, what)
	if err != nil {
		return nil, cli.BadInputf("--outages: %w", err)
	}
	s, err := powerflow.New(n)
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	var in powerflow.Input
	in.Pd, in.Qd = n.Loads(scale)
	base := s.NewSolution()
	start := time.Now()
	if err := s.Solve(in, opt, base); err != nil {
		return nil, err
	}
	out := &security{Case: n.Name, EnforceQ: opt.EnforceQ, Violations: []brokenLimit{}, Outages: make([]outageResult, len(list))}
	if !base.Converged() {
		return nil, fmt.Errorf("without any outage: %s", s.Reason(base))
	}
	w := newSecurityWatch(n)
	before := make([]float64, w.limits())
	w.measure(base, nil, before)
	for i, by := range before {
		if by > leastViolation {
			out.Violations = append(out.Violations, w.broken(i, by))
		}
	}
	threads = min(max(1, threads), len(list))
	errs := make([]error, threads)
	y := &securityRun{n: n, in: in, before: before, out: out, list: list}
	inLanes := sync.OnceValues(func() (*laneflow.Solver, error) {
		o, err := s.Clone().NewOutages(in, opt, base)
		if err != nil {
			return nil, err
		}
		return laneflow.ForOutages(o)
	})
	parallel.Each(threads, threads, func(_, part int) {
		one := s.Clone()
		alone, err := one.NewOutages(in, opt, base)
		if err != nil {
			errs[part] = err
			return
		}
		lanes, err := inLanes()
		if err != nil {
			errs[part] = err
			return
		}
		errs[part] = y.part(ctx, one, laneflow.NewOutages(lanes, alone), alone, part, threads)
	})
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out.WallMS = float64(time.Since(start)) / 1e6
	for i := range out.Outages {
		r := &out.Outages[i]
		if r.LostMW != 0 {
			out.CutOff++
		}
		switch {
		case !r.Converged:
			out.Unsolved++
		case len(r.Violations) == 0 && r.LostMW == 0:
			out.Secure++
		}
	}
	slices.SortStableFunc(out.Outages, func(a, b outageResult) int {
		if a.Converged != b.Converged {
			return bit(a.Converged) - bit(b.Converged)
		}
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.LostMW, a.LostMW))
	})
	return out, nil
}

// securityRun are the outages of one network.
type securityRun struct {
	n      *network.Network
	in     powerflow.Input
	before []float64 // by how much the base breaks each limit
	out    *security
	list   []secure.Outage
}

// part solves every so-manieth outage of the list.
func (y *securityRun) part(ctx context.Context, s *powerflow.Solver, o *laneflow.Outages, alone *powerflow.Outages, part, of int) error {
	w, sol := newSecurityWatch(y.n), s.NewSolution()
	now := make([]float64, w.limits())
	var branches, positions []int
	for i := part; i < len(y.list); i += of {
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
	n, c, sol := y.n, y.list[i], got.Solution
	r := &y.out.Outages[i]
	*r = outageResult{outage: newOutage(n, c), Islanded: []int{}, Violations: []brokenLimit{}}
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
	for k, by := range now {
		if by > leastViolation && by > max(y.before[k], 0)+leastViolation {
			l := w.broken(k, by)
			r.Violations = append(r.Violations, l)
			r.Severity = max(r.Severity, w.severity(k, by))
		}
	}
	slices.SortStableFunc(r.Violations, func(a, b brokenLimit) int {
		return cmp.Compare(b.By/severityUnit(&b, n), a.By/severityUnit(&a, n))
	})
}

// severityUnit is what a violation is divided by to be compared with others.
func severityUnit(l *brokenLimit, n *network.Network) float64 {
	if l.Unit == "pu" {
		return 1.0 / voltageSeverity
	}
	return max(l.Bound, 1e-9*n.BaseMVA)
}

// securityWatch measures a solution against ratings and voltages: limits are numbered V lower, V
// upper by bus, |S| from and to by branch.
type securityWatch struct {
	n   *network.Network
	p   point
	out secure.Outage
}

func newSecurityWatch(n *network.Network) *securityWatch {
	return &securityWatch{n: n, p: point{n: n, flows: network.NewFlows(n.Branches())}, out: secure.Outage{Branch: -1, Unit: -1}}
}

func (w *securityWatch) limits() int { return 2 * (w.n.Buses() + w.n.Branches()) }

// measure writes by how much each limit is broken, pu; what is dead or out breaks none.
func (w *securityWatch) measure(sol *powerflow.Solution, islanded []int32, by []float64) {
	n, nb, nl := w.n, w.n.Buses(), w.n.Branches()
	w.p.vm, w.p.va, w.p.pg, w.p.qg = sol.Vm, sol.Va, sol.Pg, sol.Qg
	n.BranchFlows(&n.Admittance, sol.Vm, sol.Va, w.p.flows)
	f := w.p.flows
	for b, v := range sol.Vm {
		by[b], by[nb+b] = n.VMin[b]-v, v-n.VMax[b]
	}
	for _, b := range islanded {
		by[b], by[nb+int(b)] = 0, 0
	}
	for k, rate := range n.Rate {
		by[2*nb+k], by[2*nb+nl+k] = math.Hypot(f.Pf[k], f.Qf[k])-rate, math.Hypot(f.Pt[k], f.Qt[k])-rate
	}
	if k := w.out.Branch; k >= 0 {
		by[2*nb+k], by[2*nb+nl+k] = 0, 0
	}
}

func (w *securityWatch) broken(i int, by float64) brokenLimit {
	n, nb, nl := w.n, w.n.Buses(), w.n.Branches()
	switch {
	case i < nb:
		return brokenLimit{w.p.bus("vmin", n.VMin)(i), by}
	case i < 2*nb:
		return brokenLimit{w.p.bus("vmax", n.VMax)(i - nb), by}
	case i < 2*nb+nl:
		return brokenLimit{w.p.flow("from")(i - 2*nb), by * n.BaseMVA}
	}
	return brokenLimit{w.p.flow("to")(i - 2*nb - nl), by * n.BaseMVA}
}

func (w *securityWatch) severity(i int, by float64) float64 {
	if nb, nl := w.n.Buses(), w.n.Branches(); i >= 2*nb {
		return by / w.n.Rate[(i-2*nb)%nl]
	}
	return voltageSeverity * by
}

// printed is how many outages a table lists.
const printedOutages = 40

// inShort is a reason in a table: what happened, without the numbers and hints behind a colon, which --json has.
func inShort(reason string) string {
	what, _, _ := strings.Cut(reason, ":")
	return what
}

func (y *security) print(w io.Writer) {
	breaking := 0
	for _, r := range y.Outages {
		breaking += bit(len(r.Violations) > 0)
	}
	fmt.Fprintf(w, "%s: %s in %.3f ms: %d secure; %d break a limit, %d cut off load, %d without a power flow\n", y.Case, count(len(y.Outages), "outage"), y.WallMS,
		y.Secure, breaking, y.CutOff, y.Unsolved)
	if len(y.Violations) > 0 {
		printBroken(w, "broken before any outage", y.Violations)
		fmt.Fprintln(w)
	}
	rows := [][]string{{"outage", "row", "at", "severity", "worst", "by", "unit", "broken", "islanded", "load lost MW"}}
	for i, r := range y.Outages {
		if i == printedOutages || r.Converged && len(r.Violations) == 0 && len(r.Islanded) == 0 {
			break
		}
		at := fmt.Sprintf("bus %d", r.From)
		if r.Outage == "branch" {
			at = fmt.Sprintf("%d to %d", r.From, r.To)
		}
		worst, by, unit := "", "", ""
		switch {
		case !r.Converged:
			worst = inShort(r.Reason)
		case len(r.Violations) > 0:
			l := r.Violations[0]
			worst, by, unit = l.Limit+" at "+l.where(), fmt.Sprintf("%.4f", l.By), l.Unit
		}
		rows = append(rows, []string{r.Outage, strconv.Itoa(r.Row), at, fmt.Sprintf("%.3f", r.Severity), worst, by, unit,
			strconv.Itoa(len(r.Violations)), strconv.Itoa(len(r.Islanded)), fmt.Sprintf("%.1f", r.LostMW)})
	}
	if len(rows) == 1 {
		return
	}
	cli.Table(w, rows)
}
