package command

import (
	"context"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/acopf"
)

// mostStarts is how many ways there are to begin an optimum.
const mostStarts = 2

// checkStarts says what is wrong with a number of starts.
func checkStarts(starts int) error {
	if starts < 1 || starts > mostStarts {
		return cli.BadInputf("--starts %d: want 1 to %d", starts, mostStarts)
	}
	return nil
}

// solveFrom solves a problem from the flat start and, of two starts, from the feasible point
// nearest to it too: the lower optimum, with the iterations of both.
func solveFrom(ctx context.Context, s *acopf.Solver, pr acopf.Problem, starts int) (*acopf.Result, error) {
	problems := []acopf.Problem{pr, pr}[:starts]
	if starts > 1 {
		problems[1].Feasible = true
	}
	results := make([]acopf.Result, starts)
	if err := s.Solve(ctx, problems, results); err != nil {
		return nil, err
	}
	best, iterations := &results[0], 0
	for i := range results {
		r := &results[i]
		iterations += r.Iterations
		if r.Status == acopf.Optimal && (best.Status != acopf.Optimal || r.Objective < best.Objective) {
			best = r
		}
	}
	best.Iterations = iterations
	return best, nil
}
