package opf

import (
	"context"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/tensor"
)

// exactTolerance is the largest KKT residual of a solution that is used.
const exactTolerance = 1e-6

// problem is the dispatch for loads by bus under branch factors (nil: ones), as
// weights of the raw objectives rate it, within the ramp of previous (nil: none).
func (y *System) problem(pd, qd, factors, previous []float64, weights [objectives]float64, tighten acopf.Tightening, start *acopf.Result) acopf.Problem {
	p := acopf.Problem{
		Pd: pd, Qd: qd, BranchFactors: factors, Objective: acopf.Objective{Weights: weights},
		Previous: previous, Tightening: tighten,
	}
	if previous != nil {
		p.Ramp = y.Ramp
	}
	if start != nil && start.Status == acopf.Optimal {
		p.Start = start
	}
	return p
}

// problemAt is the exact problem of an observation, without tightening.
func (y *System) problemAt(s, c []float64, pref domain.Preference, start *acopf.Result) acopf.Problem {
	pd, qd := make([]float64, y.layout.buses), make([]float64, y.layout.buses)
	y.loads(c, pd, qd)
	previous := c[y.layout.previous : y.layout.previous+y.layout.gens]
	return y.problem(pd, qd, y.branchFactors(c), previous, y.weightsAt(s, c, pref), acopf.Tightening{}, start)
}

// solve solves problems side by side.
func (y *System) solve(ctx context.Context, problems []acopf.Problem, results []acopf.Result) error {
	if y.security != nil {
		return y.security.solveAll(ctx, problems, results)
	}
	x, err := y.exact()
	if err == nil {
		err = x.Solve(ctx, problems, results)
	}
	if err != nil {
		return fmt.Errorf("opf: %w", err)
	}
	return nil
}

// solveOne solves one problem, and once more without its start where that leads to
// nothing; it reports whether the result is usable.
func (y *System) solveOne(ctx context.Context, problem acopf.Problem, result []acopf.Result) (bool, error) {
	if err := y.solve(ctx, []acopf.Problem{problem}, result); err != nil {
		return false, err
	}
	if usable(&result[0]) || problem.Start == nil {
		return usable(&result[0]), nil
	}
	problem.Start = nil
	err := y.solve(ctx, []acopf.Problem{problem}, result)
	return err == nil && usable(&result[0]), err
}

// usable says whether a result is an optimum to exactTolerance.
func usable(r *acopf.Result) bool {
	return r.Status == acopf.Optimal && r.KKT.Max() <= exactTolerance && r.KKT.Mismatch <= exactTolerance && r.KKT.Violation <= exactTolerance
}

// setPoints writes u of a result: P_G of every unit and the voltage at its bus.
func (y *System) setPoints(r *acopf.Result, u []float64) {
	copy(u, r.Pg)
	for g, b := range y.Network.GenBus {
		u[y.layout.gens+g] = r.Vm[b]
	}
}

// Polish is domain.ProblemAbilities.Polish by iterations of the interior point from the power
// flow of the dispatch, without tightening. The loads beyond the present dispatch are
// not known: a longer plan is left as it is.
func (y *System) Polish(s, c []float64, pref domain.Preference, bounds []domain.Bound, plan []float64, iterations int) bool {
	if len(plan) != 2*y.layout.gens || y.security != nil || len(bounds) > 0 { // its iterations know no outages and no bounds
		return false
	}
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	if !w.dispatch(s, c, plan) {
		return false
	}
	solution := w.solution
	problem := y.problemAt(s, c, pref, nil)
	y.Weigh(pref, problem.Objective.Weights[:]) // what roll-outs are scored by
	problem.Start, problem.Limit = &acopf.Result{Vm: solution.Vm, Va: solution.Va, Pg: solution.Pg, Qg: solution.Qg}, iterations
	result := make([]acopf.Result, 1)
	if y.solve(context.Background(), []acopf.Problem{problem}, result) != nil || len(result[0].Pg) == 0 {
		return false
	}
	polished := make([]float64, len(plan))
	y.setPoints(&result[0], polished)
	if !tensor.Finite(polished) {
		return false
	}
	copy(plan, polished)
	return true
}
