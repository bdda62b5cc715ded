package acopf

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
)

// loads are the network's, each times a random factor within step of one.
func randomLoads(s *Solver, rng *rand.Rand, level, step float64) Problem {
	pd, qd := s.net.Loads(level)
	for b := range pd {
		f := 1 + step*(2*rng.Float64()-1)
		pd[b], qd[b] = pd[b]*f, qd[b]*f
	}
	return Problem{Pd: pd, Qd: qd}
}

// Warm starts end at the flat start's optimum, and in the fewer iterations the less the loads have moved.
func TestWarmStartsByHowFarLoadsHaveMoved(t *testing.T) {
	s := newTestSolver(t, load(t, "case118"), Options{Threads: 1})
	for _, c := range []struct{ step, most float64 }{{0.001, 2.5}, {0.01, 3.75}, {0.1, 7}} {
		const n = 16
		rng := rand.New(rand.NewPCG(118, uint64(1e4*c.step)))
		from, problems := make([]Problem, n), make([]Problem, n)
		for i := range problems {
			from[i] = randomLoads(s, rng, 0.95, 0.05)
			problems[i] = Problem{Pd: make([]float64, s.plan.nb), Qd: make([]float64, s.plan.nb)}
			for b := range from[i].Pd {
				f := 1 + c.step*(2*rng.Float64()-1)
				problems[i].Pd[b], problems[i].Qd[b] = f*from[i].Pd[b], f*from[i].Qd[b]
			}
		}
		start, flat, warm := make([]Result, n), make([]Result, n), make([]Result, n)
		solve := func(problems []Problem, results []Result) {
			t.Helper()
			if err := s.Solve(context.Background(), problems, results); err != nil {
				t.Fatal(err)
			}
		}
		solve(from, start)
		solve(problems, flat)
		for i := range problems {
			problems[i].Start = &start[i]
		}
		solve(problems, warm)
		iterations := 0
		for i := range warm {
			iterations += warm[i].Iterations
			if warm[i].Status != Optimal || !(math.Abs(warm[i].Objective-flat[i].Objective) <= 1e-6*flat[i].Objective) {
				t.Errorf("loads by %g: %v at %.9g, from a flat start %.9g",
					c.step, warm[i].Status, warm[i].Objective, flat[i].Objective)
			}
		}
		if mean := float64(iterations) / n; mean > c.most {
			t.Errorf("loads by %g: %.2f iterations in the mean, want at most %g", c.step, mean, c.most)
		}
	}
}

// Slacks follow the data alone where the data is what has moved, and a start from near predicts: with
// another objective or other limits a warm start has the usual slacks.
func TestSlacksOfWarmStarts(t *testing.T) {
	s := newTestSolver(t, load(t, "case118"), Options{Threads: 1})
	results := make([]Result, 1)
	if err := s.Solve(context.Background(), make([]Problem, 1), results); err != nil {
		t.Fatal(err)
	}
	scaled := func(f float64) Problem {
		pd, qd := s.net.Loads(f)
		return Problem{Pd: pd, Qd: qd, Start: &results[0]}
	}
	other := scaled(1.0001)
	other.Objective.Weights = [3]float64{0, 0, 1}
	tighter := scaled(1.0001)
	tighter.Tightening.P = 0.01
	for _, c := range []struct {
		name    string
		problem Problem
		want    float64
		next    prediction
	}{
		{"the same loads", scaled(1), minSlack, predict}, {"loads by 0.01 %", scaled(1.0001), minSlack, predict},
		{"loads by 2 %", scaled(1.02), warmSlack, noPrediction}, {"loads by 10 %", scaled(0.9), farSlack, noPrediction},
		{"another objective", other, warmSlack, noPrediction}, {"tighter limits", tighter, warmSlack, noPrediction},
	} {
		w := s.teams[0].workers.New().(*worker)
		ln := &w.lane[0]
		ln.job.problem, ln.job.result = c.problem, new(Result)
		ln.job.begin()
		if !w.load(0) {
			t.Fatalf("%s: limits contradict one another", c.name)
		}
		w.m.Run(programEvaluate)
		if slack, barrier, next := w.warmStart(0); slack != c.want || next != c.next || barrier != warmMultiplier*slack {
			t.Errorf("%s: least slack %g and s·z %g, want %g and %g", c.name, slack, barrier, c.want, warmMultiplier*c.want)
		}
	}
}

// After a prediction all limits have one s·z, but where a multiplier and a distance are both larger: a
// limit that binds keeps its multiplier, one that does not its distance.
func TestSlacksAfterAPrediction(t *testing.T) {
	s := newTestSolver(t, load(t, "case118"), Options{Threads: 1})
	results := make([]Result, 1)
	if err := s.Solve(context.Background(), make([]Problem, 1), results); err != nil {
		t.Fatal(err)
	}
	w, p := s.teams[0].workers.New().(*worker), s.plan
	ln := &w.lane[0]
	ln.job.problem, ln.job.result = Problem{Start: &results[0]}, new(Result)
	ln.job.begin()
	w.load(0)
	w.m.Run(programEvaluate)
	for i := range p.z {
		w.m.Set(p.z[i], 0, results[0].Multipliers[i]*ln.scale)
	}
	w.m.Set(p.z[0], 0, -1)
	w.followPrediction(0)
	const barrier = minSlack * minSlack
	binding := 0
	for i := range p.s {
		slack, z, was, away := w.m.Get(p.s[i], 0), w.m.Get(p.z[i], 0), results[0].Multipliers[i]*ln.scale, -w.m.Get(p.h[i], 0)
		if i == 0 {
			was = 0
		}
		if was > minSlack && away < barrier/was {
			binding++
			away = barrier / was
		}
		if away > minSlack || was > minSlack {
			if want := max(barrier, was*away); !(math.Abs(slack*z-want) <= 1e-12*want) || slack != away {
				t.Errorf("limit %d: slack %g and multiplier %g, want s·z = %g at a slack of %g", i, slack, z, want, away)
			}
		}
	}
	if binding == 0 {
		t.Error("no limit binds: the test has nothing of them")
	}
}
