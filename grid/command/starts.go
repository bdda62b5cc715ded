package command

import (
	"context"
	"math"
	"time"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/internal/machine"
)

// maxStarts is the number of different starts.
const maxStarts = 2

// minImprovement is the relative decrease from an earlier start's optimum that counts as lower: more than the
// tolerances leave.
const minImprovement = 1e-6

// checkStarts validates a number of starts.
func checkStarts(starts int) error {
	if starts < 1 || starts > maxStarts {
		return cli.BadInputf("--starts %d: want 1 to %d", starts, maxStarts)
	}
	return nil
}

// solveFrom solves a problem from the flat start and, with two starts, from the nearest feasible point as well. It
// returns the result of every start, and the index and result of the lower optimum.
func solveFrom(ctx context.Context, s *acopf.Solver, pr acopf.Problem, starts int) (ends []optima.Start, best int, r *acopf.Result, err error) {
	results := make([]acopf.Result, starts)
	for i := range results {
		pr.Feasible = i > 0
		start, cpu := time.Now(), machine.CPUTime()
		if err := s.Solve(ctx, []acopf.Problem{pr}, results[i:i+1]); err != nil {
			return nil, 0, nil, err
		}
		end := optima.Start{Status: results[i].Status.String(), Iterations: results[i].Iterations,
			WallMS: milliseconds(time.Since(start)), CPUMS: milliseconds(machine.CPUTime() - cpu)}
		if results[i].Status == acopf.Optimal {
			end.Objective = &results[i].Objective
		}
		ends = append(ends, end)
	}
	best = lowest(results)
	return ends, best, &results[best], nil
}

// lowest is the first optimum that no other one is lower than by minImprovement; 0 without an optimum.
func lowest(results []acopf.Result) (best int) {
	for i := range results {
		r, old := &results[i], &results[best]
		if r.Status == acopf.Optimal && (old.Status != acopf.Optimal || r.Objective < old.Objective-minImprovement*math.Abs(old.Objective)) {
			best = i
		}
	}
	return best
}
