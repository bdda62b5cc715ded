package offline

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
)

// Point is one solve of a sweep.
type Point struct {
	W []float64
	// Cost is each objective summed over the solution's trajectory.
	Cost    []float64
	KKT     float64 // largest scaled KKT residual
	Samples []domain.Sample
}

// Front is what a scalarization sweep of one scenario found, in the order of
// its weights.
type Front struct {
	Points       []Point
	Infeasible   int // solves that returned domain.ErrInfeasible
	NotConverged int // solves that returned domain.ErrNotConverged
}

// Sweep solves one scenario p for every weight by the given scalarization.
// Solves without a solution are counted, other errors end the sweep. The
// meaning of a weight is the solver's: see domain.Scalarization. A sweep of n
// weights has the same seeds for its first k as a sweep of k.
func Sweep(ctx context.Context, solver domain.Solver, p []float64, weights [][]float64, how domain.Scalarization, seed uint64) (Front, error) {
	var front Front
	for i, w := range weights {
		if err := ctx.Err(); err != nil {
			return front, fmt.Errorf("offline: sweep stopped before weight %d of %d: %w", i+1, len(weights), err)
		}
		samples, err := solver.Solve(0, p, domain.Preference{W: w}, how, derive(seed, streamSolve, uint64(i)))
		switch {
		case errors.Is(err, domain.ErrInfeasible):
			front.Infeasible++
			continue
		case errors.Is(err, domain.ErrNotConverged):
			front.NotConverged++
			continue
		case err != nil:
			return front, fmt.Errorf("offline: weight %v: %w", w, err)
		}
		pt := Point{W: w, Samples: samples, Cost: make([]float64, len(w))}
		for _, s := range samples {
			pt.KKT = max(pt.KKT, s.KKT)
			if s.Perturbed {
				continue
			}
			for j, v := range s.J {
				pt.Cost[j] += v
			}
		}
		front.Points = append(front.Points, pt)
	}
	return front, nil
}

// NonDominated returns the points that no other point is at least as good as
// in every objective and better in one, in their order.
func NonDominated(points []Point) []Point {
	var out []Point
	for i, p := range points {
		dominated := false
		for j, q := range points {
			if i != j && dominates(q.Cost, p.Cost) {
				dominated = true
				break
			}
		}
		if !dominated {
			out = append(out, p)
		}
	}
	return out
}

func dominates(a, b []float64) bool {
	better := false
	for i := range a {
		if a[i] > b[i] {
			return false
		}
		better = better || a[i] < b[i]
	}
	return better
}
