package compile

import (
	"cmp"
	"context"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/model"
)

// solver is what a map is held beside: the warm exact solver, between decisions.
const solver = "nmpc-ahead"

const (
	// besideStarts of the test are those of the solver, fewer where they would take more than
	// besideShare of the budget.
	besideStarts = 20
	besideShare  = 0.05
)

// Beside is the solver from the first starts of the test, on one thread.
type Beside struct {
	Score
	// Over so many of them, in which both are safe and there is a reference, the chosen method
	// costs Map and the solver Own.
	Compared int               `json:"compared"`     // of these starts, those from which both it and the chosen method are safe and there is a reference
	Map      closedloop.Number `json:"map_mean_pct"` // mean regret of the chosen method there
	Own      closedloop.Number `json:"own_mean_pct"` // that of the solver there
	// Informed is what the solver costs from the same starts where it is given the state of the plant; absent where it is.
	Informed *closedloop.Number `json:"informed_mean_pct,omitempty"` // that of the solver from the same starts where it is given the state of the plant; absent where it is anyway
	Period   closedloop.Number  `json:"period_us"`                   // time between two decisions
	Fits     bool               `json:"fits"`                        // whether the solver's time between decisions is within that in 99 of 100
}

// solverStarts is how many starts the solver has, 0 where the case has none or it was not timed.
func (r *run) solverStarts() int {
	took := r.journal.Pace.Episodes[solver]
	if took == 0 {
		return 0
	}
	return max(1, min(besideStarts, cmp.Or(r.opt.TestStarts, leastTests), int(besideShare*r.opt.Budget.Seconds()/took)))
}

// driveSolver drives the solver from the starts of the test, in which the chosen method had the regrets
// mapped, by episode.
func (r *run) driveSolver(ctx context.Context, m *model.Model, mapped map[int]float64) (*Beside, error) {
	n := r.solverStarts()
	if n == 0 {
		return nil, nil
	}
	out := &Beside{Period: r.period()}
	own, other := map[int]float64{}, 0.0
	score, err := r.drive(ctx, loops{
		of: r.c, model: m, method: solver, purpose: tested, episodes: n, threads: 1,
		visit: func(e *closedloop.EpisodeRecord) {
			pct, ok := e.Regret()
			if of, both := mapped[e.Episode]; ok && both {
				own[e.Episode], other = pct, other+of
			}
		},
	})
	if err != nil {
		return nil, err
	}
	out.Score, out.Compared = score, len(own)
	sum := 0.0
	for i := range n { // in their order: it is rounded
		sum += own[i]
	}
	out.Own, out.Map = closedloop.Number(sum/float64(out.Compared)), closedloop.Number(other/float64(out.Compared))
	out.Fits = score.Prepare != nil && r.fits(&score)
	if r.c.Definition().Measurement == nil {
		return out, nil
	}
	out.Informed, err = r.informed(ctx, m, n, own)
	return out, err
}

// informed is the mean regret of the solver that is given the state of the plant, over the starts in which it was safe without.
func (r *run) informed(ctx context.Context, m *model.Model, starts int, own map[int]float64) (*closedloop.Number, error) {
	sum, known := 0.0, 0
	_, err := r.drive(ctx, loops{
		of: r.c.Informed(), model: m, method: solver, purpose: tested, episodes: starts, threads: 1,
		visit: func(e *closedloop.EpisodeRecord) {
			if pct, ok := e.Regret(); ok {
				if _, both := own[e.Episode]; both {
					sum, known = sum+pct, known+1
				}
			}
		},
	})
	mean := closedloop.Number(sum / float64(known))
	return &mean, err
}
