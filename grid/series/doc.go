// Package series solves the optimal power flow along a series of loads: a day in five-minute
// steps, or thousands of scenarios, read from CSV or parquet and written as parquet.
//
// The central type is Steps, loads of consecutive steps in per unit. A Source reads them from a
// table, Solve finds their optima, each warm from the one before, and Write keeps dispatch, prices
// and flows as four tables.
package series

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
)

// Steps are the loads of consecutive steps.
type Steps struct {
	First  int         // number of the first, from 0
	Time   []string    // what the table calls each step
	Pd, Qd [][]float64 // by step and bus, pu
}

// Len is the number of steps.
func (s *Steps) Len() int { return len(s.Pd) }

func (s *Steps) add(label string, pd, qd []float64) {
	s.Time, s.Pd, s.Qd = append(s.Time, label), append(s.Pd, pd), append(s.Qd, qd)
}

// Problems are the optimal power flows of the steps, by the file's costs.
func (s *Steps) Problems() []acopf.Problem {
	problems := make([]acopf.Problem, s.Len())
	for k := range problems {
		problems[k].Pd, problems[k].Qd = s.Pd[k], s.Qd[k]
	}
	return problems
}

// Solver solves steps in the order of their calls.
type Solver struct {
	s *acopf.Solver
	// Chains is into how many runs of consecutive steps a call divides its steps. They are
	// solved side by side, and every step begins at the optimum of the step before; the first
	// of a run begins at the last optimum of the call before, or flat. 0 solves every step from a
	// flat start. Results depend on Chains, not on the number of threads.
	chains int
	latest *acopf.Result
}

// NewSolver takes a solver and the number of chains.
func NewSolver(s *acopf.Solver, chains int) (*Solver, error) {
	if chains < 0 || chains > MaxChains {
		return nil, fmt.Errorf("series: %d chains: want 0 to %d", chains, MaxChains)
	}
	return &Solver{s: s, chains: chains}, nil
}

// MaxChains is the most there may be, DefaultChains enough for the lanes of two cores.
const (
	MaxChains     = 4096
	DefaultChains = 16
)

// Solve writes the results of steps; len(results) is steps.Len(). Its errors are those of
// acopf.Solver.Solve.
func (y *Solver) Solve(ctx context.Context, steps *Steps, results []acopf.Result) error {
	problems := steps.Problems()
	if len(results) != len(problems) {
		return fmt.Errorf("series: %d results for %d steps", len(results), len(problems))
	}
	if y.chains == 0 {
		return y.s.Solve(ctx, problems, results)
	}
	var chains []acopf.Chain
	for k := range y.chains {
		from, to := k*len(problems)/y.chains, (k+1)*len(problems)/y.chains
		if from == to {
			continue
		}
		problems[from].Start = y.latest
		chains = append(chains, acopf.Chain{Problems: problems[from:to], Results: results[from:to]})
	}
	err := y.s.SolveChains(ctx, chains)
	for k := len(results) - 1; k >= 0; k-- {
		if results[k].Status == acopf.Optimal {
			latest := results[k] // its slices are the caller's, who may use them again
			for _, v := range []*[]float64{&latest.Vm, &latest.Va, &latest.Pg, &latest.Qg, &latest.LambdaP, &latest.LambdaQ, &latest.Multipliers, &latest.Settings} {
				*v = slices.Clone(*v)
			}
			y.latest = &latest
			break
		}
	}
	return err
}

// LoadMW is the active load of a step.
func (s *Steps) LoadMW(n *network.Network, step int) float64 {
	return n.MW(s.Pd[step])
}
