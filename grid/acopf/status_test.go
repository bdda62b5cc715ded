package acopf

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// case30 has an optimum up to about 1.05 times its loads.
func TestInfeasibleLoadsAreFound(t *testing.T) {
	for _, name := range []string{"case30", "case39"} {
		net := load(t, name)
		s := newTestSolver(t, net, Options{})
		for _, k := range []float64{1.1, 1.2, 1.4, 2, 5} {
			r := solveOne(t, s, Problem{Pd: scaled(net.Pd, k), Qd: scaled(net.Qd, k)})
			if r.Status != Infeasible || r.Iterations > 75 {
				t.Errorf("%s ×%g: %v after %d iterations, want infeasible within 75", name, k, r.Status, r.Iterations)
			}
		}
	}
}

// The feasibility phase ends in a few quadratic steps: with a regularisation that does not fall with the
// mismatch this one and the optimisation after it take 15 iterations.
func TestFeasibilityPhaseConvergesQuadratically(t *testing.T) {
	net := load(t, "case_ieee30")
	pr := Problem{Feasible: true, Pd: scaled(net.Pd, 0.5), Qd: scaled(net.Qd, 0.5)}
	r := solveOne(t, newTestSolver(t, net, Options{}), pr)
	if r.Status != Optimal || r.Iterations > 13 {
		t.Errorf("%v after %d iterations, want optimal within 13", r.Status, r.Iterations)
	}
	checkOptimum(t, net, pr, r)
}

func TestContradictoryLimitsAreInfeasibleAtOnce(t *testing.T) {
	net := load(t, "case30")
	s := newTestSolver(t, net, Options{})
	far := make([]float64, net.Gens())
	for g := range far {
		far[g] = 5
	}
	for name, pr := range map[string]Problem{
		"ramp":    {Previous: far, Ramp: make([]float64, net.Gens())},
		"voltage": {Tightening: Tightening{VLoad: 0.06}},
		"flow":    {Tightening: Tightening{S: 0.2}},
		"power":   {Tightening: Tightening{P: 1}},
	} {
		r := solveOne(t, s, pr)
		if r.Status != Infeasible || r.Iterations != 0 || len(r.Vm) != 0 {
			t.Errorf("%s: %v after %d iterations with %d voltages, want infeasible at once and no point", name, r.Status, r.Iterations, len(r.Vm))
		}
	}
}

func TestIterationLimit(t *testing.T) {
	r := solveOne(t, newTestSolver(t, load(t, "case30"), Options{MaxIterations: 4}), Problem{})
	if r.Status != IterationLimit || r.Iterations != 2*4 {
		t.Errorf("%v after %d iterations, want the limit of 4 in two attempts", r.Status, r.Iterations)
	}
}

// A problem's own limit is of one attempt from its start, which may be a point without
// multipliers: it ends with the point that it came to, and that is nearer with every few.
func TestLimitedFromAPoint(t *testing.T) {
	net := load(t, "case30")
	s := newTestSolver(t, net, Options{})
	best := solveOne(t, s, Problem{})
	point := &Result{Vm: scaled(best.Vm, 1.002), Va: best.Va, Pg: scaled(best.Pg, 0.97), Qg: best.Qg}
	last := math.Inf(1)
	for _, limit := range []int{2, 6, 10} {
		r := solveOne(t, s, Problem{Start: point, Limit: limit})
		away := 0.0
		for g, p := range r.Pg {
			away = max(away, math.Abs(p-best.Pg[g]))
		}
		if r.Status != Optimal && r.Status != IterationLimit || r.Iterations > limit || len(r.Pg) != net.Gens() || !(away < last) {
			t.Errorf("limit %d: %v after %d iterations, %d units, %g pu away after %g", limit, r.Status, r.Iterations, len(r.Pg), away, last)
		}
		last = away
	}
	if !(last < 1e-3) {
		t.Errorf("ten iterations end %g pu from the optimum", last)
	}
	results := make([]Result, 1)
	for says, pr := range map[string]Problem{"limit of -1": {Limit: -1}, "without multipliers": {Start: &Result{Vm: best.Vm, Va: best.Va, Pg: best.Pg, Qg: best.Qg, Multipliers: best.Multipliers}}} {
		if err := s.Solve(context.Background(), []Problem{pr}, results); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error with %q", err, says)
		}
	}
}

// What rounding keeps from the tolerance asked for is optimal within 1e-6, not an
// iteration limit. With constant marginal costs the multipliers of these copies are
// hardly determined.
func TestTolerancesBeyondRounding(t *testing.T) {
	net := chainOfNetworks(t, "case30", 3)
	for _, c := range net.Cost {
		clear(c.Polynomial[2:])
	}
	opt := Options{Optimality: 1e-12, Feasibility: 1e-11}
	r := solveOne(t, newTestSolver(t, net, opt), Problem{})
	if r.Status != Optimal || !(r.KKT.Max() <= conditionLimit) || !(r.KKT.Mismatch <= opt.Feasibility) {
		t.Errorf("%v after %d iterations, %+v", r.Status, r.Iterations, r.KKT)
	}
}

// A solve that is interrupted says so and leaves what it has not done NotSolved.
func TestInterrupted(t *testing.T) {
	s := newTestSolver(t, load(t, "case9"), Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	results := make([]Result, 20)
	if err := s.Solve(ctx, make([]Problem, 20), results); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	for i := range results {
		if results[i].Status != NotSolved {
			t.Errorf("result %d is %v", i, results[i].Status)
		}
	}
}

func TestBadInputIsNamed(t *testing.T) {
	net := load(t, "case9")
	s := newTestSolver(t, net, Options{})
	good := solveOne(t, s, Problem{})
	other := solveOne(t, newTestSolver(t, load(t, "case14"), Options{}), Problem{})
	nan := append([]float64(nil), net.Pd...)
	nan[4] = math.NaN()
	factors := make([]float64, net.Branches())
	for want, pr := range map[string]Problem{
		"Pd has 3 values for 9 buses":      {Pd: make([]float64, 3)},
		"Pd[4] is NaN":                     {Pd: nan},
		"BranchFactors[0] is 0":            {BranchFactors: factors},
		"one of Previous and Ramp is nil":  {Previous: make([]float64, 3)},
		"Ramp[1] is -1":                    {Previous: make([]float64, 3), Ramp: []float64{1, -1, 1}},
		"start is infeasible":              {Start: &Result{Status: Infeasible}},
		"start belongs to another network": {Start: other},
		"weight 2 is -1":                   {Objective: Objective{Weights: [3]float64{1, -1, 1}}},
		"objective 3 has ideal 1 and":      {Objective: Objective{Weights: [3]float64{1, 1, 1}, Ideal: [3]float64{0, 0, 1}, Nadir: [3]float64{1, 1, 1}}},
		"tightening {VLoad:-1":             {Tightening: Tightening{VLoad: -1}},
		"tightening {VLoad:0 VGen:NaN":     {Tightening: Tightening{VGen: math.NaN()}},
		"Previous[0] is +Inf":              {Previous: []float64{math.Inf(1), 0, 0}, Ramp: make([]float64, 3)},
	} {
		err := s.Solve(context.Background(), []Problem{{Start: good}, pr}, make([]Result, 2))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "problem 1") {
			t.Errorf("error %v, want problem 1 and %q", err, want)
		}
	}
	if err := s.Solve(context.Background(), make([]Problem, 2), make([]Result, 1)); err == nil {
		t.Error("one result for two problems was accepted")
	}
	for _, opt := range []Options{{MaxIterations: -1}, {Threads: -2}, {Feasibility: math.NaN()}, {Optimality: 1}} {
		if _, err := New(net, opt); err == nil {
			t.Errorf("options %+v were accepted", opt)
		}
	}
}

func TestNetworksWithoutCostsAreRefused(t *testing.T) {
	c := &matpower.Case{Name: "bare", BaseMVA: 100,
		Bus: []matpower.Bus{{ID: 1, Type: matpower.Reference, Vm: 1, VMax: 1.1, VMin: 0.9}},
		Gen: []matpower.Gen{{Bus: 1, InService: true, PMax: 10, QMax: 10, QMin: -10, Vg: 1}},
	}
	net := networktest.Of(t, c)
	if _, err := New(net, Options{}); !errors.Is(err, network.ErrNoCost) {
		t.Errorf("error %v, want ErrNoCost", err)
	}
}

// A unit whose reactive range is narrower than its tightening has an optimum inside it.
func TestNarrowReactiveRangeIsTightenedWithin(t *testing.T) {
	c := networktest.Case(t, "case30")
	tight := Tightening{VLoad: 0.002, Q: 0.004, S: 0.0025}
	q := solveOne(t, newTestSolver(t, networktest.Of(t, c), Options{}), Problem{Tightening: tight}).Qg
	for g, half := range map[int]float64{2: 0.002, 3: 0} { // pu
		c.Gen[g].QMin, c.Gen[g].QMax = 100*(q[g]-half), 100*(q[g]+half)
	}
	r := solveOne(t, newTestSolver(t, networktest.Of(t, c), Options{}), Problem{Tightening: tight})
	if r.Status != Optimal || math.Abs(r.Qg[2]-q[2]) > 0.001+1e-9 || math.Abs(r.Qg[3]-q[3]) > 1e-8 {
		t.Errorf("%v after %d iterations, reactive powers %v, want near %v", r.Status, r.Iterations, r.Qg, q)
	}
}
