package command

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/paper/opf"
)

// exactStep is a step along a chain of exact dispatches: what is observed there, and dispatches that the projection
// may begin at.
type exactStep struct {
	s, c []float64 // state and context, as an episode observes them
	// problem is the exact problem of the step, pu, within the ramp of the step before and started from its optimum;
	// cost is Σ J of the optimum that it has.
	problem acopf.Problem
	cost    float64
	// start are set-points u by what dispatchNames has of them.
	start [3][]float64
}

// dispatchNames say where the dispatches of a step come from: the merit order, the step before, and the optimum with
// errors of a map's size.
var dispatchNames = [3]string{"merit", "hold", "map"}

// Errors of a map's size, pu: those that the networks are compared at (docs/results/dispatch.md).
const (
	errorPower   = 0.01
	errorVoltage = 0.0025
)

// dispatchRedraws is the number of load paths that a chain is looked for in.
const dispatchRedraws = 100

// exactTolerance is the largest KKT residual of a solution that is used.
const exactTolerance = 1e-6

// exactSteps are the first steps of exact chains under test loads of a regime, drawn by a seed. Loads without an exact
// chain are drawn once more.
func exactSteps(ctx context.Context, y *opf.System, solver *acopf.Solver, regime string, seed uint64, steps int) ([]exactStep, error) {
	var all []exactStep
	for k := range dispatchChains {
		start := len(all)
		for attempt := 0; attempt < dispatchRedraws && len(all) == start; attempt++ {
			pd, qd, err := opf.Loads(rand.New(rand.NewPCG(seed, uint64(k*dispatchRedraws+attempt))), y.Network, regime, opf.Steps)
			if err != nil {
				return nil, err
			}
			chain, err := exactChain(ctx, y, solver, pd[:steps+1], qd[:steps+1], rand.New(rand.NewPCG(seed+1, uint64(k))))
			if err != nil {
				return nil, err
			}
			all = append(all, chain...)
		}
		if len(all) == start {
			return nil, fmt.Errorf("in %d steps no optimum follows from the one before, in %d draws of the loads %q of %s", steps, dispatchRedraws, regime, y.Network.Name)
		}
	}
	return all, nil
}

// exactChain are all steps but the first of loads by row and bus; none where a step has no optimum.
func exactChain(ctx context.Context, y *opf.System, solver *acopf.Solver, pd, qd [][]float64, rng *rand.Rand) (all []exactStep, err error) {
	n, buses, gens := y.Network, y.Network.Buses(), len(y.Network.GenBus)
	s, next := make([]float64, 2*buses), make([]float64, 2*buses)
	floats.AddConst(1, s[:buses])
	c := make([]float64, y.Spec().ContextSize())
	applied, nextContext := make([]float64, 2*gens), slices.Clone(c)
	var last acopf.Result
	var previous []float64
	for t := range pd {
		problem := acopf.Problem{Pd: pd[t], Qd: qd[t], Objective: acopf.Objective{Weights: [3]float64{1, 1, 1}}}
		if t > 0 {
			problem.Previous, problem.Ramp, problem.Start = previous, y.Ramp, &last
		}
		result, ok, err := exactOptimum(ctx, solver, problem)
		if !ok {
			return nil, err
		}
		optimum := slices.Clone(result.Pg)
		for _, b := range n.GenBus {
			optimum = append(optimum, result.Vm[b])
		}
		if t > 0 {
			y.Context(c, pd[t], qd[t], previous, nil)
			y.Step(s, c, applied, next, nextContext)
			copy(s, next)
			step := exactStep{s: slices.Clone(s), c: slices.Clone(c), problem: problem, cost: floats.Sum(result.J[:])}
			step.start = [3][]float64{make([]float64, 2*gens), slices.Clone(applied), slices.Clone(optimum)}
			y.Base(s, c, step.start[0])
			for g := range gens {
				if n.PMin[g] < n.PMax[g] {
					step.start[2][g] += errorPower * min(1, n.PMax[g]) * rng.NormFloat64()
				}
				step.start[2][gens+g] += errorVoltage * rng.NormFloat64()
			}
			all = append(all, step)
		}
		y.Context(c, pd[t], qd[t], result.Pg, nil)
		y.Step(s, c, optimum, next, nextContext)
		copy(s, next)
		last, previous, applied = result, result.Pg, optimum
	}
	return all, nil
}

// exactOptimum solves a problem, and once more without its start where that leads to no optimum.
func exactOptimum(ctx context.Context, solver *acopf.Solver, problem acopf.Problem) (r acopf.Result, ok bool, err error) {
	for {
		results := make([]acopf.Result, 1)
		if err := solver.Solve(ctx, []acopf.Problem{problem}, results); err != nil {
			return r, false, err
		}
		r = results[0]
		ok = r.Status == acopf.Optimal && r.KKT.Max() <= exactTolerance && r.KKT.Mismatch <= exactTolerance && r.KKT.Violation <= exactTolerance
		if ok || problem.Start == nil {
			return r, ok, nil
		}
		problem.Start = nil
	}
}

// stageCost is Σ J₁ + J₂ + J₃ of a dispatch under the loads of a step, after the power flow; ok is false where there is
// none, or a limit is broken by more than MarginTolerance.
func stageCost(y *opf.System, d *exactStep, u []float64) (cost float64, ok bool) {
	J, margin := make([]float64, y.Spec().ObjectiveSize()), make([]float64, len(y.Spec().Margins))
	y.Score(d.s, d.c, u, J, margin)
	return floats.Sum(J), y.Spec().Keeps(slices.Min(margin))
}
