package acopf

import (
	"context"
	"math"
	"testing"
)

// A sweep of preferences from warm starts ends where flat starts end, in fewer
// iterations.
func TestSweepAgreesWithFlatStarts(t *testing.T) {
	net := load(t, "case30")
	s := newTestSolver(t, net, Options{})
	ideal, nadir, err := s.PayoffTable(context.Background(), Problem{})
	if err != nil {
		t.Fatal(err)
	}
	var problems []Problem
	for _, w := range Preferences() {
		if w[2] > 0 { // without a share of cost the optimum is not unique
			problems = append(problems, Problem{Objective: Objective{Weights: w, Ideal: ideal, Nadir: nadir}})
		}
	}
	chain := []Chain{{Problems: problems, Results: make([]Result, len(problems)), Sweep: true}}
	if err := s.SolveChains(context.Background(), chain); err != nil {
		t.Fatal(err)
	}
	flat := make([]Result, len(problems))
	if err := s.Solve(context.Background(), problems, flat); err != nil {
		t.Fatal(err)
	}
	warmIterations, flatIterations := 0, 0
	for i := range problems {
		warm := &chain[0].Results[i]
		if warm.Status != Optimal {
			t.Fatalf("preference %d: %v, the sweep is not complete", i, warm.Status)
		}
		checkOptimum(t, net, problems[i], warm)
		warmIterations += warm.Iterations
		flatIterations += flat[i].Iterations
		if flat[i].Status != Optimal {
			t.Errorf("preference %d: %v from a flat start", i, flat[i].Status)
		} else if !(math.Abs(warm.Objective-flat[i].Objective) <= 1e-6) {
			t.Errorf("preference %d: %.9g from the one before, %.9g from a flat start", i, warm.Objective, flat[i].Objective)
		}
	}
	if warmIterations*2 > flatIterations {
		t.Errorf("%d iterations from warm starts, %d from flat ones", warmIterations, flatIterations)
	}
}

func TestInfeasibleSweepIsFoundOnce(t *testing.T) {
	net := load(t, "case30")
	s := newTestSolver(t, net, Options{})
	var problems []Problem
	for _, w := range Preferences() {
		problems = append(problems, Problem{Pd: scaled(net.Pd, 1.3), Qd: scaled(net.Qd, 1.3), Objective: Objective{Weights: w}})
	}
	chain := []Chain{{Problems: problems, Results: make([]Result, len(problems)), Sweep: true}}
	if err := s.SolveChains(context.Background(), chain); err != nil {
		t.Fatal(err)
	}
	for i := range chain[0].Results {
		r := &chain[0].Results[i]
		if r.Status != Infeasible || i > 0 && r.Iterations != 0 {
			t.Errorf("preference %d: %v after %d iterations", i, r.Status, r.Iterations)
		}
	}
}

func TestBadChainsAreNamed(t *testing.T) {
	s := newTestSolver(t, load(t, "case9"), Options{})
	for name, c := range map[string]Chain{
		"results": {Problems: make([]Problem, 2), Results: make([]Result, 1)},
		"problem": {Problems: []Problem{{Pd: []float64{1}}}, Results: make([]Result, 1)},
	} {
		if err := s.SolveChains(context.Background(), []Chain{c}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
