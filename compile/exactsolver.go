package compile

import (
	"cmp"
	"context"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/model"
)

// exactSolver is the method that a map is compared with: the warm exact solver, between decisions.
const exactSolver = "nmpc-ahead"

const (
	// The solver drives from exactSolverStarts of the test's starts, fewer where they would take more than
	// exactSolverShare of the budget.
	exactSolverStarts = 20
	exactSolverShare  = 0.05
)

// ExactSolver is the result of the exact solver from the first starts of the test, on one thread.
type ExactSolver struct {
	Score
	// Compared counts the starts where both are safe and there is a reference. Map and Own are the two mean regrets
	// there.
	Compared int               `json:"compared"`     // of these starts, those from which both it and the chosen method are safe and there is a reference
	Map      closedloop.Number `json:"map_mean_pct"` // mean regret of the chosen method there
	Own      closedloop.Number `json:"own_mean_pct"` // that of the solver there
	// Informed is the solver's regret where it gets the plant's state; absent where it always does.
	Informed *closedloop.Number `json:"informed_mean_pct,omitempty"` // that of the solver from the same starts where it is given the state of the plant; absent where it is anyway
	Period   closedloop.Number  `json:"period_us"`                   // time between two decisions
	Fits     bool               `json:"fits"`                        // whether the solver's time between decisions is within that in 99 of 100
}

// solverStarts is the number of the solver's starts, 0 where the case has no solver or it was not timed.
func (r *run) solverStarts() int {
	seconds := r.journal.Pace.Episodes[exactSolver]
	if seconds == 0 {
		return 0
	}
	return max(1, min(exactSolverStarts, cmp.Or(r.opt.TestStarts, minTests), int(exactSolverShare*r.opt.Budget.Seconds()/seconds)))
}

// driveExactSolver drives the solver from the test's starts. regrets are those of the chosen method, by episode.
func (r *run) driveExactSolver(ctx context.Context, m *model.Model, regrets map[int]float64) (*ExactSolver, error) {
	n := r.solverStarts()
	if n == 0 {
		return nil, nil
	}
	out := &ExactSolver{Period: r.period()}
	solverRegrets, mapSum := map[int]float64{}, 0.0
	score, err := r.drive(ctx, loops{
		gpcCase: r.c, model: m, method: exactSolver, purpose: tested, episodes: n, threads: 1,
		visit: func(e *closedloop.EpisodeRecord) {
			pct, ok := e.Regret()
			if mapRegret, compared := regrets[e.Episode]; ok && compared {
				solverRegrets[e.Episode], mapSum = pct, mapSum+mapRegret
			}
		},
	})
	if err != nil {
		return nil, err
	}
	out.Score, out.Compared = score, len(solverRegrets)
	sum := 0.0
	for i := range n { // in order, for the same rounding
		sum += solverRegrets[i]
	}
	out.Own, out.Map = closedloop.Number(sum/float64(out.Compared)), closedloop.Number(mapSum/float64(out.Compared))
	out.Fits = score.Prepare != nil && r.fits(&score)
	if r.c.Definition().Measurement == nil {
		return out, nil
	}
	out.Informed, err = r.driveInformed(ctx, m, n, solverRegrets)
	return out, err
}

// driveInformed is the mean regret of the solver that gets the plant's state, over the starts that it is also safe
// from without.
func (r *run) driveInformed(ctx context.Context, m *model.Model, starts int, regrets map[int]float64) (*closedloop.Number, error) {
	sum, n := 0.0, 0
	_, err := r.drive(ctx, loops{
		gpcCase: r.c.Informed(), model: m, method: exactSolver, purpose: tested, episodes: starts, threads: 1,
		visit: func(e *closedloop.EpisodeRecord) {
			if pct, ok := e.Regret(); ok {
				if _, compared := regrets[e.Episode]; compared {
					sum, n = sum+pct, n+1
				}
			}
		},
	})
	mean := closedloop.Number(sum / float64(n))
	return &mean, err
}
