package acopf

import (
	"context"
	"fmt"
	"math"
)

// Least ranges that PayoffTable returns: J₁ and J₂ are sums of powers that
// vanish over whole regions, and a range is divided by.
const (
	minPenaltyRange = 1e-6
	minCostRange    = 1e-3 // of the cost
	// anchorShare is the weight of the objectives that an anchor does not minimise:
	// enough to choose among its optima.
	anchorShare = 0.01
)

// PayoffTable solves for the anchors of a problem's three objectives and returns
// the least and the greatest value of each over them: ideal and nadir of an
// Objective. The problem's own objective and start are not used. An anchor
// without an optimum is an error that wraps its status.
func (s *Solver) PayoffTable(ctx context.Context, pr Problem) (ideal, nadir [3]float64, err error) {
	pr.Objective, pr.Start = Objective{}, nil
	anchors := make([]Result, 3)
	if err := s.Solve(ctx, []Problem{pr}, anchors[2:]); err != nil {
		return ideal, nadir, err
	}
	if r := &anchors[2]; r.Status != Optimal {
		return ideal, nadir, StatusError{r.Status}
	}
	j := anchors[2].J
	floor := [3]float64{minPenaltyRange, minPenaltyRange, max(minPenaltyRange, minCostRange*math.Abs(j[2]))}
	var problems [2]Problem
	for m := range problems {
		problems[m] = pr
		for k := range j {
			w := anchorShare
			if k == m {
				w = 1
			}
			scale := max(j[k], floor[k])
			if k == 2 {
				scale = max(math.Abs(j[k])/10, floor[k])
			}
			problems[m].Objective.Weights[k] = w / scale
		}
		problems[m].Start = &anchors[2]
	}
	if err := s.Solve(ctx, problems[:], anchors[:2]); err != nil {
		return ideal, nadir, err
	}
	ideal, nadir = j, j
	for m := range problems {
		if anchors[m].Status != Optimal {
			return ideal, nadir, StatusError{anchors[m].Status}
		}
		for k, v := range anchors[m].J {
			ideal[k], nadir[k] = min(ideal[k], v), max(nadir[k], v)
		}
	}
	for k := range ideal {
		nadir[k] = max(nadir[k], ideal[k]+floor[k])
	}
	return ideal, nadir, nil
}

// StatusError is a solve without an optimum as an error.
type StatusError struct{ Status Status }

func (e StatusError) Error() string { return fmt.Sprintf("acopf: no optimum: %v", e.Status) }
