package results

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"gonum.org/v1/gonum/mathext"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Scenarios is how often outages break limits over samples of loads. Each has a power flow of its own, and every outage of it.
type Scenarios struct {
	Conditions
	Scenarios int           `json:"scenarios"` // samples
	Count     int           `json:"count"`     // outages of each
	SolvedBy  SolvedBy      `json:"solved_by"` // how the power flows of all were solved
	Before    Risk          `json:"before"`    // that a limit is broken, or there is no power flow, without any outage
	After     Risk          `json:"after"`     // that an outage breaks a limit, or has no power flow
	Either    Risk          `json:"either"`    // that one of both is so
	Outages   []OutageRisk  `json:"outages"`   // of each that does in a scenario, the most frequent first
	Elements  []ElementRisk `json:"elements"`  // of each limit that is broken after an outage in a scenario, likewise

	needs [][]need // of scenarios
}

// Risk is a number of scenarios, the probability that it estimates, and its exact interval of 95 %.
type Risk struct {
	Scenarios   int     `json:"violated"`    // that break a limit
	Probability float64 `json:"probability"` // their share
	Low         float64 `json:"low"`         // of Clopper and Pearson's interval of 95 %
	High        float64 `json:"high"`        // likewise
}

// OutageRisk is how often an outage breaks a limit.
type OutageRisk struct {
	Outage
	Risk
	Unsolved int     `json:"unsolved"` // scenarios without a power flow after it
	Severity float64 `json:"severity"` // the largest of all scenarios
}

// ElementRisk is how often a limit is broken after an outage, and by how much at most.
type ElementRisk struct {
	Extreme
	Risk
	Scenario string `json:"scenario"` // of the extreme: its time in the table, or its number from 1
	excess   float64
	number   int
}

// estimate completes a count of n scenarios (C. Clopper and E. Pearson, Biometrika 26, 1934).
func (r *Risk) estimate(n int) {
	const tail = 0.025
	k, all := float64(r.Scenarios), float64(n)
	if r.High = 1; n > 0 {
		r.Probability = k / all
	}
	if r.Scenarios > 0 {
		r.Low = mathext.InvRegIncBeta(k, all-k+1, tail)
	}
	if r.Scenarios < n {
		r.High = mathext.InvRegIncBeta(k+1, all-k, 1-tail)
	}
}

// Samples are the loads of scenarios by bus, pu, and their names; "" is the number.
type Samples struct {
	Pd, Qd [][]float64
	Names  []string
}

// Loads reads up to a number of further scenarios. It returns io.EOF after the last.
type Loads func(limit int) (Samples, error)

// Rows are the scenarios of rows of loads.
func Rows(pd, qd [][]float64) Loads {
	return func(limit int) (Samples, error) {
		k := min(limit, len(pd))
		if k == 0 {
			return Samples{}, io.EOF
		}
		out := Samples{pd[:k], qd[:k], make([]string, k)}
		pd, qd = pd[k:], qd[k:]
		return out, nil
	}
}

// scenariosAtOnce are in memory at a time.
const scenariosAtOnce = 256

// sampling is a run over scenarios.
type sampling struct {
	n       *network.Network
	pr      FlowProblem
	opt     SecurityOptions
	loading *powerflow.Loading
	threads []samplingThread

	mu       sync.Mutex // of the sums
	out      *Scenarios
	outages  []OutageRisk
	elements []ElementRisk
}

// samplingThread is what a thread keeps from scenario to scenario.
type samplingThread struct {
	s     *powerflow.Solver
	check *secure.Solver
}

// AfterScenarios solves scenarios, and every outage of each, in parallel. Dispatch and set-points are those of the problem, and the
// balance is taken up as in After. No result depends on the number of threads.
func AfterScenarios(ctx context.Context, n *network.Network, pr FlowProblem, opt SecurityOptions, next Loads) (*Scenarios, error) {
	n = pr.network(n)
	s, err := powerflow.New(n)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if base, _, err := pr.solve(s, n); err != nil {
		return nil, err
	} else if base.Converged() {
		pr.Vm, pr.Va = base.Vm, base.Va
	}
	opt.normalize()
	y := &sampling{n: n, pr: pr, opt: opt, loading: powerflow.NewLoading(n), threads: make([]samplingThread, opt.Threads)}
	y.opt.Threads, y.opt.Progress, y.opt.Record = 1, nil, nil
	y.out = &Scenarios{Conditions: opt.conditions(n, &pr), Count: len(opt.List) + len(opt.Groups), Outages: []OutageRisk{}, Elements: []ElementRisk{}}
	y.outages, y.elements = make([]OutageRisk, y.out.Count), make([]ElementRisk, (&securityWatch{n: n}).count())
	named := &securityRun{n: n, list: opt.List, groups: opt.Groups}
	for i := range y.outages {
		y.outages[i].Outage = named.outage(i)
	}
	for i := range y.threads {
		y.threads[i].s = s.Clone()
	}
	for {
		samples, err := next(scenariosAtOnce)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		first, errs := y.out.Scenarios, make([]error, len(samples.Pd))
		if opt.needs {
			y.out.needs = append(y.out.needs, make([][]need, len(errs))...)
		}
		parallel.Each(len(y.threads), len(errs), func(thread, k int) {
			if errs[k] = ctx.Err(); errs[k] == nil {
				errs[k] = y.scenario(ctx, &y.threads[thread], samples.Pd[k], samples.Qd[k], first+k, cmp.Or(samples.Names[k], strconv.Itoa(first+k+1)))
			}
		})
		if err := cmp.Or(errs...); err != nil {
			return nil, err
		}
	}
	y.out.WallMS = float64(time.Since(start)) / 1e6
	y.out.Before.estimate(y.out.Scenarios)
	y.out.After.estimate(y.out.Scenarios)
	y.out.Either.estimate(y.out.Scenarios)
	for _, r := range y.outages {
		if r.estimate(y.out.Scenarios); r.Scenarios > 0 {
			y.out.Outages = append(y.out.Outages, r)
		}
	}
	for _, r := range y.elements {
		if r.estimate(y.out.Scenarios); r.Scenarios > 0 {
			y.out.Elements = append(y.out.Elements, r)
		}
	}
	slices.SortStableFunc(y.out.Outages, func(a, b OutageRisk) int {
		return cmp.Or(cmp.Compare(b.Scenarios, a.Scenarios), cmp.Compare(b.Severity, a.Severity))
	})
	slices.SortStableFunc(y.out.Elements, func(a, b ElementRisk) int { return cmp.Compare(b.Scenarios, a.Scenarios) })
	return y.out, nil
}

// scenario solves one.
func (y *sampling) scenario(ctx context.Context, v *samplingThread, pd, qd []float64, number int, name string) error {
	pr := y.pr
	pr.Pd, pr.Qd = pd, qd
	run, err := newRun(y.n, v.s, y.loading, pr, y.opt)
	solved := !errors.As(err, new(NoBaseError))
	if err != nil && solved {
		return err
	}
	var w *securityWatch
	if solved {
		w = newSecurityWatch(run.n, y.loading)
		run.check = v.check
		if err := run.start(); err != nil {
			return err
		}
		if err := run.solveAll(ctx, w); err != nil {
			return err
		}
		if v.check = run.check; pr.Slack != nil && pr.Slack.Shares == nil {
			v.check = nil // its factors are of this dispatch
		}
		w.measure(run.base, nil, nil)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.out.Scenarios++
	violates := !solved
	for i := range y.outages {
		r, o := &y.outages[i], AfterOutage{}
		if solved {
			o = run.out.Outages[i]
		}
		if o.Converged {
			r.Severity = max(r.Severity, *o.Severity)
		} else {
			r.Unsolved++
		}
		if !o.Converged || len(o.Violations) > 0 {
			r.Scenarios, violates = r.Scenarios+1, true
		}
	}
	if violates {
		y.out.After.Scenarios++
	}
	if !solved || len(run.out.Violations) > 0 {
		y.out.Before.Scenarios++
		violates = true
	}
	if violates {
		y.out.Either.Scenarios++
	}
	if !solved {
		return nil
	}
	if y.opt.needs {
		y.out.needs[number] = w.needs(run)
	}
	y.out.SolvedBy.add(run.out.SolvedBy)
	for k, x := range w.extreme {
		if r := &y.elements[k]; x > run.threshold[k] {
			if r.Scenarios++; r.Scenarios == 1 || x > r.excess || x == r.excess && number < r.number {
				r.Extreme, r.Scenario = run.extreme(w, k), name
				r.excess, r.number = x, number
			}
		}
	}
	return nil
}
