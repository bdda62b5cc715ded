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

// mostStarts is how many ways there are to begin an optimum.
const mostStarts = 2

// lowerOptimum is by how much of itself an optimum has to be lower than that of an earlier start to take its place: more
// than the tolerances leave.
const lowerOptimum = 1e-6

// checkStarts says what is wrong with a number of starts.
func checkStarts(starts int) error {
	if starts < 1 || starts > mostStarts {
		return cli.BadInputf("--starts %d: want 1 to %d", starts, mostStarts)
	}
	return nil
}

// solveFrom solves a problem from the flat start and, of two starts, from the feasible point
// nearest to it too. It returns every start's end, and the number and result of the lower optimum.
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

// lowest is the first of the optima that none is lower than by lowerOptimum of it; 0 where there is no optimum.
func lowest(results []acopf.Result) (best int) {
	for i := range results {
		r, old := &results[i], &results[best]
		if r.Status == acopf.Optimal && (old.Status != acopf.Optimal || r.Objective < old.Objective-lowerOptimum*math.Abs(old.Objective)) {
			best = i
		}
	}
	return best
}
