package compile

import (
	"cmp"
	"context"
	"math"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/model"
)

// exactSolver is the method that a map is compared with: the warm exact solver, between decisions.
const exactSolver = "nmpc-ahead"

const (
	// The solver drives from exactSolverStarts of the test's starts, fewer or none where they would take more than
	// exactSolverShare of the budget.
	exactSolverStarts = 20
	exactSolverShare  = 0.05
)

// ExactSolver is the result of the exact solver from the first starts of the test, on one thread.
type ExactSolver struct {
	Score
	Compared int                `json:"compared"`                    // of these starts, those from which both it and the chosen method are safe and there is a reference
	Map      closedloop.Number  `json:"map_mean_pct"`                // mean regret of the chosen method there
	Own      closedloop.Number  `json:"own_mean_pct"`                // that of the solver there
	Informed *closedloop.Number `json:"informed_mean_pct,omitempty"` // that of the solver from the same starts where it is given the state of the plant; absent where it is anyway
	Period   closedloop.Number  `json:"period_us"`                   // time between two decisions
	Fits     bool               `json:"fits"`                        // whether the solver's time between decisions is within that in 99 of 100
}

// solverStarts is the number of the solver's starts, 0 where the case has no solver, it was not timed, or takes too long.
func (r *run) solverStarts() int {
	seconds := r.journal.Pace.Episodes[exactSolver]
	if seconds == 0 {
		return 0
	}
	return min(exactSolverStarts, cmp.Or(r.opt.TestStarts, minTests), int(exactSolverShare*r.opt.Budget.Seconds()/seconds))
}

// driveExactSolver drives the solver from the test's starts, of which mapStarts are those of the chosen method.
func (r *run) driveExactSolver(ctx context.Context, file string, m *model.Model, mapStarts []start) (*ExactSolver, error) {
	n := min(r.solverStarts(), len(mapStarts)) // whose references are solved
	if n == 0 {
		return nil, nil
	}
	solver, err := r.driveSingle(ctx, loops{name: file, gpcCase: r.c, model: m, method: exactSolver, purpose: tested, episodes: n, deadline: r.deadline(1 + maxOverrun)})
	if err != nil || len(solver.Starts) == 0 {
		return nil, err
	}
	out := &ExactSolver{Score: solver.Score, Period: r.period()}
	out.Own, out.Map, out.Compared = meansOverCommon(solver.Starts, mapStarts, solver.Starts)
	out.Fits = out.Score.Prepare != nil && r.fits(&out.Score)
	if r.c.Definition().Measurement == nil {
		return out, nil
	}
	// The mean regret of the solver that gets the plant's state, over the starts that it is also safe from without.
	informed, err := r.drive(ctx, loops{name: file + " informed", gpcCase: r.c.Informed(), model: m, method: exactSolver, purpose: tested, episodes: len(solver.Starts), threads: 1, deadline: r.deadline(1 + maxOverrun)})
	if err != nil {
		return nil, err
	}
	mean, _, _ := meansOverCommon(informed.Starts, mapStarts, solver.Starts)
	out.Informed = &mean
	return out, nil
}

// meansOverCommon are the mean regrets of two methods from the n starts where both, and a third, have one.
func meansOverCommon(one, two, three []start) (a, b closedloop.Number, n int) {
	for i := range min(len(one), len(two), len(three)) {
		if x, y := one[i].Regret, two[i].Regret; !math.IsNaN(float64(x + y + three[i].Regret)) {
			a, b, n = a+x, b+y, n+1
		}
	}
	return a / closedloop.Number(n), b / closedloop.Number(n), n
}
