package opf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf"
)

// Decision is a step along a chain of exact dispatches: what is observed there, and dispatches
// that the projection may begin at.
type Decision struct {
	S, C []float64 // state and context, as an episode observes them
	// Exact is the problem of the step, pu, within the ramp of the step before and started from
	// its optimum; Cost is Σ J of the optimum that it has.
	Exact acopf.Problem
	Cost  float64
	// From are set-points u of the merit order, of the step before, and of the optimum with errors of a map's size.
	From [3][]float64
}

// Errors of a map's size, pu: those that the networks are compared at (docs/results/dispatch.md).
const (
	errorPower   = 0.01
	errorVoltage = 0.0025
)

// Decisions are those of the first steps of so many exact chains under test loads of a regime
// (as a scene's), drawn by a seed; loads without an exact chain are drawn anew.
func (y *System) Decisions(ctx context.Context, regime string, seed uint64, steps, chains int) ([]Decision, error) {
	r, err := parseRegime(regime)
	if err != nil {
		return nil, fmt.Errorf("opf: regime %q: %w", regime, err)
	}
	if steps < 1 || steps >= Steps || chains < 1 {
		return nil, fmt.Errorf("opf: %d steps in each of %d chains: want 1 to %d steps, and at least one chain", steps, chains, Steps-1)
	}
	var all []Decision
	for k := range chains {
		start := len(all)
		for attempt := 0; attempt < maxRedraws && len(all) == start; attempt++ {
			pd, qd := loadPaths(rand.New(rand.NewPCG(seed, uint64(k*maxRedraws+attempt))), y.Network, r, Steps)
			chain, err := y.decisionsAlong(ctx, pd[:steps+1], qd[:steps+1], rand.New(rand.NewPCG(seed+1, uint64(k))))
			if err != nil {
				return nil, err
			}
			all = append(all, chain...)
		}
		if len(all) == start {
			return nil, fmt.Errorf("opf: in %d steps no optimum follows from the one before, in %d draws of the loads %q of %s", steps, maxRedraws, regime, y.Network.Name)
		}
	}
	return all, nil
}

// decisionsAlong are those of all steps but the first of loads by row and bus; none where a
// step has no optimum.
func (y *System) decisionsAlong(ctx context.Context, pd, qd [][]float64, rng *rand.Rand) (all []Decision, err error) {
	n, l := y.Network, &y.layout
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	s, c := slices.Concat(ones(l.buses), make([]float64, l.buses)), make([]float64, l.context)
	var last *acopf.Result
	var previous, applied []float64
	for t := range pd {
		results := make([]acopf.Result, 1)
		problem := y.problem(pd[t], qd[t], nil, previous, totalWeights, acopf.Tightening{}, last)
		if ok, err := y.solveOne(ctx, problem, results); !ok {
			return nil, err
		}
		optimum := make([]float64, 2*l.gens)
		y.setPoints(&results[0], optimum)
		if t > 0 {
			y.Context(c, pd[t], qd[t], previous, nil)
			if !w.dispatch(s, c, applied) {
				return nil, nil
			}
			w.state(s)
			decision := Decision{S: slices.Clone(s), C: slices.Clone(c), Exact: problem, Cost: stageCost(results[0].J[:], nil)}
			decision.From = [3][]float64{make([]float64, 2*l.gens), slices.Clone(applied), slices.Clone(optimum)}
			y.Base(s, c, decision.From[0])
			for g := range l.gens {
				if n.PMin[g] < n.PMax[g] {
					decision.From[2][g] += errorPower * min(1, n.PMax[g]) * rng.NormFloat64()
				}
				decision.From[2][l.gens+g] += errorVoltage * rng.NormFloat64()
			}
			all = append(all, decision)
		}
		y.Context(c, pd[t], qd[t], results[0].Pg, nil)
		if !w.dispatch(s, c, optimum) {
			return nil, nil
		}
		w.state(s)
		last, previous, applied = &results[0], slices.Clone(w.solution.Pg), optimum
	}
	return all, nil
}
