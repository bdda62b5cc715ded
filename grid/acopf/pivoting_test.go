package acopf

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// pegase89 is case89_pegase__api of PGLib-OPF v23.07 (CC BY 4.0; the file names its authors):
// at its optimum nearly every voltage and many ratings bind, and the block elimination loses the
// direction of the last iterations.
func pegase89(tb testing.TB) *network.Network {
	tb.Helper()
	f, err := os.Open("testdata/pglib_opf_case89_pegase__api.m")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	c, err := matpower.Read(f.Name(), f)
	if err != nil {
		tb.Fatal(err)
	}
	return networktest.Of(tb, c)
}

// Where the block elimination stalls the lane goes on with pivots chosen by size to the published
// optimum, 1.2957e5 $/h, with every kernel and in any company to the same bits.
func TestPivotsBySize(t *testing.T) {
	net := pegase89(t)
	problems := make([]Problem, 3)
	for i := range problems {
		problems[i].Pd, problems[i].Qd = net.Loads(0.98 + 0.01*float64(i))
	}
	var want []Result
	for _, k := range kernels() {
		pivoted := 0
		s, err := newSolver(net, Options{Threads: 1, Trace: func(i Iterate) {
			if i.Pivoted {
				pivoted++
			}
		}}, []kernel{k})
		if err != nil {
			t.Fatal(err)
		}
		results := make([]Result, len(problems))
		if err := s.Solve(context.Background(), problems, results); err != nil {
			t.Fatal(err)
		}
		if pivoted == 0 {
			t.Error("no iteration had pivots chosen by size: the test has nothing of them")
		}
		if want == nil {
			want = results
		}
		for i := range results {
			r := &results[i]
			if r.Status != Optimal || r.Iterations > 40 || r.Reason() != "" {
				t.Errorf("problem %d: %v after %d iterations: %s", i, r.Status, r.Iterations, r.Reason())
			}
			if !same(r, &want[i]) {
				t.Errorf("problem %d, %v×%d: not the same bits", i, k.level, k.lanes)
			}
		}
		alone := solveOne(t, s, problems[2])
		if !same(alone, &want[2]) {
			t.Errorf("%v×%d: not the same bits alone", k.level, k.lanes)
		}
	}
	if o := want[2].Objective; math.Abs(o-1.2957e5) > 1e-4*1.2957e5 {
		t.Errorf("objective %.7g $/h, published 1.2957e5", o)
	}
	checkOptimum(t, net, problems[2], &want[2])
}

// A solve that begins with the feasibility phase ends at an optimum too: of a network with one,
// at the same.
func TestBeginningWithTheFeasibilityPhase(t *testing.T) {
	net := load(t, "case39")
	var first []Iterate
	s := newTestSolver(t, net, Options{Threads: 1, Trace: func(i Iterate) { first = append(first, i) }})
	want := solveOne(t, s, Problem{})
	if first[0].Restoring || first[0].Attempt != "flat" {
		t.Errorf("first iterate %+v", first[0])
	}
	first = nil
	r := solveOne(t, s, Problem{Feasible: true})
	if !first[0].Restoring {
		t.Errorf("first iterate %+v, want one of the feasibility phase", first[0])
	}
	if r.Status != Optimal || math.Abs(r.Objective-want.Objective) > 1e-6*want.Objective {
		t.Errorf("%v at %.9g, want %.9g", r.Status, r.Objective, want.Objective)
	}
}

// Every end without an optimum has its reason.
func TestReasons(t *testing.T) {
	net := load(t, "case30")
	pd, qd := net.Loads(2)
	for _, c := range []struct {
		name   string
		opt    Options
		pr     Problem
		status Status
		says   string
	}{
		{"too much load", Options{}, Problem{Pd: pd, Qd: qd}, Infeasible, "a balance is off by"},
		{"contradictory limits", Options{}, Problem{Tightening: Tightening{VLoad: 0.06}}, Infeasible, "a lower limit lies above its upper one"},
		{"few iterations", Options{MaxIterations: 3}, Problem{}, IterationLimit, "after 6 iterations the conditions of an optimum are not met"},
		{"few iterations for a feasible point", Options{}, Problem{Feasible: true, Limit: 3}, IterationLimit, "no point that keeps balances and limits was found, nor that there is none"},
	} {
		r := solveOne(t, newTestSolver(t, net, c.opt), c.pr)
		if r.Status != c.status || !strings.Contains(r.Reason(), c.says) {
			t.Errorf("%s: %v: %q, want %v: %q", c.name, r.Status, r.Reason(), c.status, c.says)
		}
	}
	if reason := (&Result{}).Reason(); !strings.Contains(reason, "interrupted") {
		t.Errorf("of none: %q", reason)
	}
}

// One branch that would carry many times its rating makes a flat start stiff.
func TestOneStiffBranch(t *testing.T) {
	c := networktest.Case(t, "case118")
	tie := matpower.Branch{From: c.Bus[4].ID, To: c.Bus[90].ID, R: 5e-6, X: 5e-5, RateA: 200, ShiftDeg: 1, InService: true}
	c.Branch = append(c.Branch, tie)
	net := networktest.Of(t, c)
	s := newTestSolver(t, net, Options{Threads: 1})
	r := solveOne(t, s, Problem{})
	if r.Status != Optimal || r.Iterations > 40 {
		t.Errorf("%v after %d iterations, want optimal within 40", r.Status, r.Iterations)
	}
	checkOptimum(t, net, Problem{}, r)
}

// Loads a little above the most that the network can carry are infeasible in the first attempt: what the residuals of
// limits weigh counts, not their sum.
func TestBarelyInfeasible(t *testing.T) {
	net := pegase89(t)
	var pr Problem
	pr.Pd, pr.Qd = net.Loads(1.004)
	opt := Options{}.withDefaults()
	if r := solveOne(t, newTestSolver(t, net, opt), pr); r.Status != Infeasible || r.Iterations > opt.MaxIterations || !(r.KKT.Mismatch > minInfeasibility) {
		t.Errorf("%v after %d iterations, %+v", r.Status, r.Iterations, r.KKT)
	}
}
