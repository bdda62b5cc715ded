package secure

import (
	"context"
	"sync"

	"github.com/gpc-engine/gpc/grid/acopf/laneflow"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
)

// laneFlowTolerance is the mismatch (pu) of power flows in lanes, a thousandth of Tolerance.
const laneFlowTolerance = 1e-9

// laneFlows solves power flows after several outages at once, one in each lane of a vector.
type laneFlows struct {
	solver *laneflow.Solver
	pool   sync.Pool // of *laneflow.Contingencies
}

func newLaneFlows(s *system) (*laneFlows, error) {
	solver, err := laneflow.ForContingencies(s.net, s.share, s.rated, s.opt.Emergency, s.opt.Band)
	if err != nil {
		return nil, err
	}
	return &laneFlows{solver: solver, pool: sync.Pool{New: func() any { return laneflow.NewContingencies(solver, laneFlowTolerance) }}}, nil
}

// checkOutages checks every outage and starts at the checks of an earlier dispatch. Power flows in lanes settle the
// outages that break no limit. checkScalar solves each of the others.
func (s *Solver) checkOutages(ctx context.Context, pd, qd, pg, vm, va []float64, states []*state, earlier earlierChecks) ([]*Check, error) {
	checks := make([]*Check, len(s.outages))
	if s.sys.islands[0].others != nil { // lanes have one balance
		return checks, s.checkScalar(ctx, pd, qd, pg, vm, va, states, earlier, checks)
	}
	solver, err := s.sys.laneSolver()
	if err != nil {
		return nil, err
	}
	width := solver.solver.Lanes()
	groups := (len(checks) + width - 1) / width
	threads := max(1, min(s.sys.opt.Threads, groups))
	parallel.Each(threads, threads, func(_, part int) {
		flows := solver.pool.Get().(*laneflow.Contingencies)
		defer solver.pool.Put(flows)
		flows.SetDispatch(laneflow.Dispatch{Pd: pd, Qd: qd, Pg: pg, Vm: vm, Va: va})
		for k := part; k < groups && ctx.Err() == nil; k += threads {
			solver.check(s, flows, checks, k*width, min((k+1)*width, len(checks)), vm, va, earlier)
		}
	})
	if ctx.Err() != nil {
		return checks, ctx.Err()
	}
	return checks, s.checkScalar(ctx, pd, qd, pg, vm, va, states, earlier, checks)
}

// check solves a group of outages in lanes and writes the checks of those that break no limit.
func (y *laneFlows) check(s *Solver, flows *laneflow.Contingencies, checks []*Check, lo, hi int, vm, va []float64, earlier earlierChecks) {
	group := make([]*laneflow.Contingency, hi-lo)
	for i := range group {
		o := s.outages[lo+i]
		c := y.solver.NewContingency(o.Branch, o.Unit)
		copy(c.Vm, vm)
		copy(c.Va, va)
		earlier.initialise(lo+i, c, vm, va)
		group[i] = c
	}
	flows.Solve(group)
	for i, c := range group {
		if c.Solved && c.Margin >= -Tolerance && s.sys.part(s.outages[lo+i]).others == nil {
			checks[lo+i] = checked(c)
		}
	}
}

// solveOne solves one outage in lanes from the voltages before it.
func (y *laneFlows) solveOne(o Outage, d laneflow.Dispatch) *Check {
	flows := y.pool.Get().(*laneflow.Contingencies)
	defer y.pool.Put(flows)
	flows.SetDispatch(d)
	c := y.solver.NewContingency(o.Branch, o.Unit)
	copy(c.Vm, d.Vm)
	copy(c.Va, d.Va)
	flows.Solve([]*laneflow.Contingency{c})
	return checked(c)
}

// initialise starts a power flow at the earlier check, shifted by the change of the voltages before the outage.
func (k *earlierChecks) initialise(i int, c *laneflow.Contingency, vm, va []float64) {
	if i >= len(k.checks) || !k.checks[i].Solved {
		return
	}
	to := &Check{vm: c.Vm, va: c.Va, q: c.Q, atLimit: c.AtLimit}
	k.initialiser(i, vm, va)(to)
	c.Delta = to.Delta
}

// checked is the Check of a power flow that breaks no limit.
func checked(c *laneflow.Contingency) *Check {
	return &Check{Outage: Outage{c.Branch, c.Unit, false}, Solved: c.Solved, Delta: c.Delta, Margin: c.Margin, vm: c.Vm, va: c.Va, q: c.Q, atLimit: c.AtLimit, reference: -1}
}
