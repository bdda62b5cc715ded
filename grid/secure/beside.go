package secure

import (
	"context"
	"sync"

	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// besideTolerance, pu, of power flows side by side: a thousandth of what a limit has to be exceeded by.
const besideTolerance = 1e-9

// beside solves power flows after outages side by side, where most keep every limit.
type beside struct {
	solver *laneflow.Solver
	pool   sync.Pool // of *laneflow.Contingencies
}

func newBeside(s *system) (*beside, error) {
	solver, err := laneflow.ForContingencies(s.net, s.share, s.rated, s.opt.Emergency, s.opt.Band)
	if err != nil {
		return nil, err
	}
	return &beside{solver: solver, pool: sync.Pool{New: func() any { return laneflow.NewContingencies(solver, besideTolerance) }}}, nil
}

// screen is Check of every outage from what is known of an earlier dispatch. Side by side power flows find the outages
// that break no limit; every other gets one of its own, from the voltages before, or, where that comes to none,
// from the state that the dispatch was found with, if there is one.
func (s *Solver) screen(ctx context.Context, pd, qd, pg, vm, va []float64, states []*state, from known) ([]*Check, error) {
	by, err := s.sys.beside()
	if err != nil {
		return nil, err
	}
	checks := make([]*Check, len(s.outages))
	width := by.solver.Lanes()
	groups := (len(checks) + width - 1) / width
	threads := max(1, min(s.sys.opt.Threads, groups))
	parallel.Each(threads, threads, func(_, part int) {
		flows := by.pool.Get().(*laneflow.Contingencies)
		defer by.pool.Put(flows)
		flows.At(laneflow.Dispatch{Pd: pd, Qd: qd, Pg: pg, Vm: vm, Va: va})
		for k := part; k < groups && ctx.Err() == nil; k += threads {
			by.check(s, flows, checks, k*width, min((k+1)*width, len(checks)), vm, va, from)
		}
	})
	if ctx.Err() != nil {
		return checks, ctx.Err()
	}
	return checks, s.single(ctx, pd, qd, pg, vm, va, states, from, checks)
}

// check solves a group of outages side by side and writes the checks of those that keep every limit.
func (y *beside) check(s *Solver, flows *laneflow.Contingencies, checks []*Check, lo, hi int, vm, va []float64, from known) {
	group := make([]*laneflow.Contingency, hi-lo)
	for i := range group {
		o := s.outages[lo+i]
		c := y.solver.NewContingency(o.Branch, o.Unit)
		copy(c.Vm, vm)
		copy(c.Va, va)
		from.place(lo+i, c, vm, va)
		group[i] = c
	}
	flows.Solve(group)
	for i, c := range group {
		if c.Solved && c.Margin >= -Tolerance {
			checks[lo+i] = s.sys.checked(c)
		}
	}
}

// one solves an outage's from the voltages before it.
func (y *beside) one(s *system, o Outage, d laneflow.Dispatch) *Check {
	flows := y.pool.Get().(*laneflow.Contingencies)
	defer y.pool.Put(flows)
	flows.At(d)
	c := y.solver.NewContingency(o.Branch, o.Unit)
	copy(c.Vm, d.Vm)
	copy(c.Va, d.Va)
	flows.Solve([]*laneflow.Contingency{c})
	out := s.checked(c)
	out.Solved = c.Solved
	return out
}

// place begins a power flow where the earlier one stood, moved as voltages before it have.
func (k *known) place(i int, c *laneflow.Contingency, vm, va []float64) {
	if i >= len(k.checks) || !k.checks[i].Solved {
		return
	}
	to := &Check{vm: c.Vm, va: c.Va, q: c.Q, held: c.Held}
	k.begin(i, vm, va)(to)
	c.Delta = to.Delta
}

// checked is the Check of an outage that breaks no limit.
func (s *system) checked(c *laneflow.Contingency) *Check {
	out := &Check{
		Outage: Outage{Branch: c.Branch, Unit: c.Unit}, Solved: true, Delta: c.Delta, Margin: c.Margin,
		vm: c.Vm, va: c.Va, q: c.Q, held: c.Held, reference: -1,
	}
	for _, h := range c.Held {
		if h != 0 {
			out.Switched++
		}
	}
	return out
}
