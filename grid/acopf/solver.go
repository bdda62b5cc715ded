package acopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// Solver solves problems on one network. Its methods may be called from several
// goroutines at once.
type Solver struct {
	net   *network.Network
	opt   Options
	plan  *plan
	level isa.Level
	teams []*team // widest first

	compiling sync.Mutex
	compiled  *lanes.Compiled // the first one; it owns the programs' memory

	pivoting  func() *pivoting
	levelling func() *multifrontal.Structure
}

// team is the workers of one width.
type team struct {
	kernel
	compiled func() *lanes.Compiled
	workers  sync.Pool
}

// Options are those of the solver, with their defaults.
func (s *Solver) Options() Options { return s.opt }

// New analyses a network: variables, sparsity, elimination order, programs. A
// network without costs, or with costs or limits that cannot be honoured
// (network.Network.RequireCosts), is an error.
func New(net *network.Network, opt Options) (*Solver, error) {
	level, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	kernels := []kernel{{level, lanes.Widths(level)[0]}}
	// One problem alone fits the caches better in narrow vectors. Results are bitwise the same.
	narrow := min(level, isa.AVX2)
	kernels = append(kernels, kernel{narrow, lanes.Widths(narrow)[1]})
	return newSolver(net, opt, kernels)
}

// kernel is a way to run programs.
type kernel struct {
	level isa.Level
	lanes int
}

func newSolver(net *network.Network, opt Options, kernels []kernel) (*Solver, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	p, err := newPlan(net, opt)
	if err != nil {
		return nil, err
	}
	s := &Solver{net: net, opt: opt.withDefaults(), plan: p, level: kernels[0].level}
	s.opt.Feasibility = max(s.opt.Feasibility, slices.Max(net.Rounding(&net.Admittance, make([]float64, net.Buses()))))
	s.pivoting, s.levelling = sync.OnceValue(p.newPivoting), sync.OnceValue(p.newLevelling)
	for _, k := range kernels {
		if err := lanes.Check(k.level, k.lanes, p.programs[:]...); err != nil {
			return nil, fmt.Errorf("network %s: %w", net.Name, err)
		}
		t := &team{kernel: k, compiled: sync.OnceValue(func() *lanes.Compiled { return s.compile(k) })}
		t.workers.New = func() any { return newWorker(s, t.compiled()) }
		s.teams = append(s.teams, t)
	}
	return s, nil
}

// compile makes the programs ready for a kernel that was checked. A network of tens of thousands
// of buses has programs of a gigabyte: there is one copy for every width that is used.
func (s *Solver) compile(k kernel) *lanes.Compiled {
	s.compiling.Lock()
	defer s.compiling.Unlock()
	var err error
	c := s.compiled
	if c == nil {
		c, err = lanes.Take(k.level, k.lanes, s.plan.programs[:]...)
		s.compiled = c
	} else {
		c, err = c.For(k.level, k.lanes)
	}
	if err != nil {
		panic(err) // newSolver has checked it
	}
	return c
}

// Lanes is the number of problems that one thread solves at once.
func (s *Solver) Lanes() int { return s.teams[0].lanes }

// ISA names the instruction set.
func (s *Solver) ISA() string { return s.level.String() }

// Solve solves each problem and writes its result; len(results) is
// len(problems). A result depends on its problem alone, not on the others, on
// the number of threads or on the instruction set. An error is bad input or the
// context's end; what was finished by then is in results, the rest is NotSolved.
func (s *Solver) Solve(ctx context.Context, problems []Problem, results []Result) error {
	if len(results) != len(problems) {
		return fmt.Errorf("acopf: %d results for %d problems", len(results), len(problems))
	}
	for i := range problems {
		if err := s.check(&problems[i]); err != nil {
			return fmt.Errorf("acopf: problem %d: %w", i, err)
		}
		results[i].Status, results[i].Iterations = NotSolved, 0
	}
	s.work(ctx, problems, results, nil, len(problems))
	return ctx.Err()
}

// work runs as many workers as jobs can keep busy.
func (s *Solver) work(ctx context.Context, problems []Problem, results []Result, chains []Chain, jobs int) {
	t := s.teamFor(jobs)
	threads := min(cmp.Or(s.opt.Threads, runtime.GOMAXPROCS(0)), (jobs+t.lanes-1)/t.lanes)
	if threads <= 1 {
		w := t.workers.Get().(*worker)
		w.localQueue = queue{ctx: ctx, problems: problems, results: results, chains: chains}
		w.run(&w.localQueue)
		w.localQueue = queue{}
		t.workers.Put(w)
		return
	}
	q := &queue{ctx: ctx, problems: problems, results: results, chains: chains}
	parallel.Each(threads, threads, func(int, int) {
		w := t.workers.Get().(*worker)
		w.run(q)
		t.workers.Put(w)
	})
}

// teamFor is the narrowest team that has a lane for every job, else the widest.
func (s *Solver) teamFor(jobs int) *team {
	t := s.teams[0]
	for _, narrower := range s.teams[1:] {
		if jobs <= narrower.lanes {
			t = narrower
		}
	}
	return t
}

func (s *Solver) check(pr *Problem) error {
	sizes := []struct {
		name string
		v    []float64
		n    int
		kind string
	}{
		{"Pd", pr.Pd, s.plan.inner, "buses"}, {"Qd", pr.Qd, s.plan.inner, "buses"},
		{"BranchFactors", pr.BranchFactors, s.plan.nl, "branches"},
		{"Previous", pr.Previous, s.plan.ng, "generators"}, {"Ramp", pr.Ramp, s.plan.ng, "generators"},
	}
	for _, c := range sizes {
		if c.v == nil {
			continue
		}
		if len(c.v) != c.n {
			return fmt.Errorf("%s has %d values for %d %s in service", c.name, len(c.v), c.n, c.kind)
		}
		for i, x := range c.v {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("%s[%d] is %g: want a finite number", c.name, i, x)
			}
			if c.name == "BranchFactors" && x <= 0 {
				return fmt.Errorf("%s[%d] is %g: want a positive number", c.name, i, x)
			}
			if c.name == "Ramp" && x < 0 {
				return fmt.Errorf("%s[%d] is %g: want 0 or more", c.name, i, x)
			}
		}
	}
	if s.opt.CurrentLimits && pr.Objective.Weights[0] > 0 {
		return errors.New("the thermal penalty counts |S|, but with CurrentLimits the limits are on |I|: want weight 0 for the thermal penalty")
	}
	if (pr.Previous == nil) != (pr.Ramp == nil) {
		return errors.New("one of Previous and Ramp is nil: give both or neither")
	}
	if t := pr.Tightening; !(min(t.VLoad, t.VGen, t.P, t.Q, t.S, t.Angle) >= 0) {
		return fmt.Errorf("tightening %+v: want nonnegative numbers", t)
	}
	if st := pr.Start; st != nil {
		if st.Status != Optimal && (st.Status != NotSolved || st.Multipliers != nil) {
			return fmt.Errorf("start is %v: want an optimal result, or one not solved and without multipliers", st.Status)
		}
		if len(st.Vm) != s.plan.inner || len(st.Pg) != s.plan.ng || st.Multipliers != nil && len(st.Multipliers) != len(s.plan.s) {
			return fmt.Errorf("start belongs to another network: %d buses, %d generators, %d limits, want %d, %d, %d",
				len(st.Vm), len(st.Pg), len(st.Multipliers), s.plan.inner, s.plan.ng, len(s.plan.s))
		}
	}
	for _, out := range []struct {
		kind string
		list []int
		n    int
	}{{"branch", pr.Out.Branches, s.plan.nl}, {"unit", pr.Out.Units, s.plan.ng}} {
		for _, i := range out.list {
			if i < 0 || i >= out.n {
				return fmt.Errorf("the outage of %s %d is not in the network: want an index of 0 to %d, which counts those in service", out.kind, i, out.n-1)
			}
		}
	}
	if pr.Limit < 0 {
		return fmt.Errorf("limit of %d iterations: want 0 or more", pr.Limit)
	}
	return pr.Objective.validate()
}
