package acopf

import (
	"context"
	"math"
	"math/rand/v2"
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
	if !chain[0].Complete() {
		t.Fatal("the sweep is not complete")
	}
	warmIterations, flatIterations := 0, 0
	for i := range problems {
		warm := &chain[0].Results[i]
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

// trajectory is loads that move by up to step of the file's from one to the next.
func trajectory(s *Solver, seed uint64, steps int, level, step float64) []Problem {
	rng := rand.New(rand.NewPCG(seed, 3))
	net := s.Network()
	problems := make([]Problem, steps)
	for k := range problems {
		problems[k].Pd, problems[k].Qd = scaled(net.Pd, level), scaled(net.Qd, level)
		level += step * (2*rng.Float64() - 1)
		level = min(max(level, 0.6), 0.95)
	}
	return problems
}

// Along a trajectory no generator moves by more than its ramp, and every step is
// the ramp-bounded optimum.
func TestRampCouplesATrajectory(t *testing.T) {
	net := load(t, "case30")
	s := newTestSolver(t, net, Options{})
	ramp := scaled(net.PMax, 0.05)
	const steps = 60
	chains := make([]Chain, 4)
	for c := range chains {
		chains[c] = Chain{Problems: trajectory(s, uint64(c), steps, 0.75, 0.05), Results: make([]Result, steps), Ramp: ramp, AllOrNothing: true}
	}
	if err := s.SolveChains(context.Background(), chains); err != nil {
		t.Fatal(err)
	}
	bound := 0
	for c := range chains {
		if !chains[c].Complete() {
			t.Errorf("trajectory %d is not complete", c)
			continue
		}
		for k := 1; k < steps; k++ {
			now, before := &chains[c].Results[k], &chains[c].Results[k-1]
			pr := chains[c].Problems[k]
			pr.Previous, pr.Ramp = before.Pg, ramp
			checkOptimum(t, net, pr, now)
			for g := range ramp {
				if move := math.Abs(now.Pg[g] - before.Pg[g]); move > ramp[g]+1e-8 {
					t.Errorf("trajectory %d, step %d: generator %d moves by %g, its ramp is %g", c, k, g, move, ramp[g])
				} else if move > ramp[g]-1e-6 {
					bound++
				}
			}
		}
	}
	if bound == 0 {
		t.Error("no ramp was ever bound: the test shows nothing")
	}
}

// A trajectory with a step that cannot be followed is left there.
func TestAllOrNothing(t *testing.T) {
	net := load(t, "case30")
	s := newTestSolver(t, net, Options{})
	problems := trajectory(s, 1, 6, 0.7, 0.01)
	problems[3].Pd, problems[3].Qd = scaled(net.Pd, 1.4), scaled(net.Qd, 1.4)
	for _, all := range []bool{true, false} {
		chain := []Chain{{Problems: problems, Results: make([]Result, 6), AllOrNothing: all}}
		if err := s.SolveChains(context.Background(), chain); err != nil {
			t.Fatal(err)
		}
		for i, want := range []Status{Optimal, Optimal, Optimal, Infeasible, Optimal, Optimal} {
			if all && i > 3 {
				want = NotSolved
			}
			if got := chain[0].Results[i].Status; got != want {
				t.Errorf("all or nothing %v: step %d is %v, want %v", all, i, got, want)
			}
		}
		if chain[0].Complete() {
			t.Error("the chain counts as complete")
		}
	}
}

func TestBadChainsAreNamed(t *testing.T) {
	s := newTestSolver(t, load(t, "case9"), Options{})
	for name, c := range map[string]Chain{
		"results":        {Problems: make([]Problem, 2), Results: make([]Result, 1)},
		"ramp too short": {Problems: make([]Problem, 1), Results: make([]Result, 1), Ramp: []float64{1}},
		"sweep and ramp": {Problems: make([]Problem, 1), Results: make([]Result, 1), Ramp: make([]float64, 3), Sweep: true},
	} {
		if err := s.SolveChains(context.Background(), []Chain{c}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
