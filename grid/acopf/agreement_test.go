package acopf

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// mixture is problems that end in every way and after different times.
func mixture(tb testing.TB, s *Solver, n int) []Problem {
	rng := rand.New(rand.NewPCG(11, 12))
	net := s.net
	problems := make([]Problem, n)
	for i := range problems {
		problems[i] = scenario(rng, net, 0.6+0.5*rng.Float64())
		switch i % 5 {
		case 1:
			problems[i].Objective = Objective{Weights: [3]float64{rng.Float64(), rng.Float64(), rng.Float64()}, Nadir: [3]float64{1e-3, 1e-3, 600}}
		case 2:
			problems[i].Tightening = Tightening{P: 10} // contradictory
		case 3:
			if i%2 == 0 { // leaves infinities and NaN behind in its lane
				for l := range problems[i].BranchFactors {
					problems[i].BranchFactors[l] = 1e200
				}
			}
		}
	}
	return problems
}

// A result is bitwise the same whatever the instruction set, the number of
// lanes, the number of threads and the company it is solved in.
func TestThreadsLanesAndCompanyDoNotChangeAResult(t *testing.T) {
	net := load(t, "case30")
	reference, err := newSolver(net, Options{Threads: 1}, []kernel{{isa.Generic, 1}})
	if err != nil {
		t.Fatal(err)
	}
	n := 24
	if testing.Short() {
		n = 10
	}
	problems := mixture(t, reference, n)
	want := make([]Result, n)
	status := map[Status]int{}
	for i := range problems {
		if err := reference.Solve(context.Background(), problems[i:i+1], want[i:i+1]); err != nil {
			t.Fatal(err)
		}
		status[want[i].Status]++
	}
	if status[Optimal] == 0 || status[Infeasible] == 0 || status[Numerical] == 0 {
		t.Fatalf("statuses %v: want some of each", status)
	}
	for _, k := range kernels() {
		for _, threads := range []int{1, 3} {
			s, err := newSolver(net, Options{Threads: threads}, []kernel{k})
			if err != nil {
				t.Fatal(err)
			}
			for _, order := range []string{"forward", "backward"} {
				mixed, got := make([]Problem, n), make([]Result, n)
				for i := range problems {
					at := i
					if order == "backward" {
						at = n - 1 - i
					}
					mixed[at] = problems[i]
				}
				if err := s.Solve(context.Background(), mixed, got); err != nil {
					t.Fatal(err)
				}
				for i := range want {
					at := i
					if order == "backward" {
						at = n - 1 - i
					}
					if !same(&got[at], &want[i]) {
						t.Errorf("%v×%d, %d threads, %s: problem %d ends %v after %d at %.17g, alone in Go %v after %d at %.17g", k.level, k.lanes, threads, order,
							i, got[at].Status, got[at].Iterations, got[at].Objective, want[i].Status, want[i].Iterations, want[i].Objective)
					}
				}
			}
		}
	}
}

// same compares results bit by bit.
func same(a, b *Result) bool {
	flat := func(r *Result) (out []uint64) {
		v := append([]float64{r.Objective, r.J[0], r.J[1], r.J[2], r.KKT.Gradient, r.KKT.Cost}, r.Vm...)
		for _, s := range [][]float64{r.Va, r.Pg, r.Qg, r.LambdaP, r.LambdaQ, r.Multipliers, r.Settings} {
			v = append(v, s...)
		}
		for _, x := range v {
			out = append(out, math.Float64bits(x))
		}
		return out
	}
	return a.Status == b.Status && a.Iterations == b.Iterations && reflect.DeepEqual(flat(a), flat(b))
}

// The program's name is in the error of a level that the machine lacks.
func TestEnvironmentChoosesTheKernels(t *testing.T) {
	net := load(t, "case9")
	for _, level := range isa.Available() {
		t.Setenv(isa.Environment, level.String())
		s, err := New(net, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s.ISA() != level.String() {
			t.Errorf("%s=%v runs %s", isa.Environment, level, s.ISA())
		}
		if r := solveOne(t, s, Problem{}); r.Status != Optimal {
			t.Errorf("%v: %v", level, r.Status)
		}
	}
	t.Setenv(isa.Environment, "abacus")
	if _, err := New(net, Options{}); err == nil {
		t.Error("an unknown instruction set was accepted")
	}
}

// A solve takes no memory once its worker and its result's slices exist.
func TestSolveDoesNotAllocate(t *testing.T) {
	s := newTestSolver(t, load(t, "case9"), Options{Threads: 1})
	problems, results := make([]Problem, 1), make([]Result, 1)
	run := func() {
		if err := s.Solve(context.Background(), problems, results); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(50, run); n >= 1 {
		t.Errorf("%v allocations a solve", n)
	}
}

func ExampleSolver_Lanes() {
	fmt.Println(Optimal, Infeasible, IterationLimit)
	// Output: optimal infeasible iteration limit
}
