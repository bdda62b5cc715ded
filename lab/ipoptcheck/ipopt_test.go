//go:build ipopt

package ipoptcheck

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// TestSameOptimumAsIPOPT on every case that comes with the program, at the
// file's cost.
func TestSameOptimumAsIPOPT(t *testing.T) {
	for _, name := range cases.Names() {
		n := networktest.Load(t, name)
		compare(t, name, n, acopf.Problem{})
	}
}

// With the analysis kept IPOPT takes the same iterations to the same optimum, and analysing anew between changes nothing.
func TestAgainIsTheSameSolve(t *testing.T) {
	for _, name := range []string{"case9", "pglib_opf_case118_ieee"} {
		p, err := New(networktest.Load(t, name), &acopf.Problem{}, Default)
		if err != nil {
			t.Fatal(err)
		}
		first := p.Again() // nothing is analysed yet
		for i, s := range []Solution{p.Again(), p.Solve(), p.Again()} {
			if !first.Optimal || !s.Optimal || s.Iterations != first.Iterations || math.Abs(s.Objective/first.Objective-1) > 1e-12 || !slices.Equal(s.Vm, first.Vm) {
				t.Errorf("%s, solve %d: status %d after %d iterations, %.12g, the first %d after %d, %.12g", name, i+2, s.Status, s.Iterations, s.Objective, first.Status, first.Iterations, first.Objective)
			}
		}
		p.Close()
	}
}

// compare solves a problem both ways and wants the objectives within 1e-6.
func compare(t *testing.T, what string, n *network.Network, pr acopf.Problem) {
	t.Helper()
	program, err := New(n, &pr, Exact)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	theirs := program.Solve()
	solver, err := acopf.New(n, acopf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	results := make([]acopf.Result, 1)
	start := time.Now()
	if err := solver.Solve(context.Background(), []acopf.Problem{pr}, results); err != nil {
		t.Fatal(err)
	}
	wall := time.Since(start)
	ours := results[0]
	if theirs.Optimal != (ours.Status == acopf.Optimal) {
		t.Errorf("%s: IPOPT ends with status %d, %g, acopf with %v, %g", what, theirs.Status, theirs.Objective, ours.Status, ours.Objective)
		return
	}
	if !theirs.Optimal {
		t.Logf("%s: neither solves it: status %d, %v", what, theirs.Status, ours.Status)
		return
	}
	gap := (ours.Objective - theirs.Objective) / math.Max(1e-3, math.Abs(theirs.Objective))
	t.Logf("%-40s %14.6f  relative difference %8.1e  IPOPT %3d iterations %9v  acopf %3d iterations %9v (first solve)",
		what, theirs.Objective, gap, theirs.Iterations, theirs.Wall.Round(time.Microsecond), ours.Iterations, wall.Round(time.Microsecond))
	if !(math.Abs(gap) <= 1e-6) {
		t.Errorf("%s: acopf %.9g, IPOPT %.9g", what, ours.Objective, theirs.Objective)
	}
}

// TestSameOptimumUnderOtherObjectives: weighted objectives, other loads, branch
// factors, ramps and tightening on case30.
func TestSameOptimumUnderOtherObjectives(t *testing.T) {
	n := networktest.Load(t, "case30")
	ideal, nadir := [3]float64{0, 0, 300}, [3]float64{2e-3, 2e-3, 600}
	for _, level := range []float64{0.7, 0.95} {
		pd, qd := n.Loads(level)
		for _, w := range [][3]float64{{0, 0, 1}, {0.2, 0.3, 0.5}, {0.9, 0.05, 0.05}, {0.01, 0.98, 0.01}} {
			pr := acopf.Problem{Pd: pd, Qd: qd, Objective: acopf.Objective{Weights: w, Ideal: ideal, Nadir: nadir}}
			compare(t, fmt.Sprintf("case30 × %.2f, weights %v", level, w), n, pr)
		}
		factors := make([]float64, n.Branches())
		for k := range factors {
			factors[k] = 1 + 0.05*math.Sin(float64(3*k))
		}
		compare(t, fmt.Sprintf("case30 × %.2f, branch factors", level), n, acopf.Problem{Pd: pd, Qd: qd, BranchFactors: factors})
		compare(t, fmt.Sprintf("case30 × %.2f, tightened", level), n, acopf.Problem{Pd: pd, Qd: qd,
			Tightening: acopf.Tightening{VLoad: 0.003, VGen: 0.002, P: 0.001, Q: 0.005, S: 0.005}})
		previous, ramp := make([]float64, n.Gens()), make([]float64, n.Gens())
		for g := range previous {
			previous[g], ramp[g] = level*n.Pg0[g], 0.05*n.PMax[g]
		}
		compare(t, fmt.Sprintf("case30 × %.2f, ramps", level), n, acopf.Problem{Pd: pd, Qd: qd, Previous: previous, Ramp: ramp})
	}
}

// TestSameOptimumWithEverything: piecewise linear, cubic and reactive costs,
// angle limits and phase shifters.
func TestSameOptimumWithEverything(t *testing.T) {
	compare(t, "case14 with everything", everything(t), acopf.Problem{})
}

// TestBothCallItInfeasible: case30 at 1.2 times its load.
func TestBothCallItInfeasible(t *testing.T) {
	n := networktest.Load(t, "case30")
	pd, qd := n.Loads(1.2)
	compare(t, "case30 × 1.20", n, acopf.Problem{Pd: pd, Qd: qd})
}

// TestRandomLoadsAsIPOPT: at 50 loads, each of a bus within 10 % of the file's, an optimum is
// found wherever IPOPT finds one, and none that is worse.
func TestRandomLoadsAsIPOPT(t *testing.T) {
	const loads, spread = 50, 0.1
	for _, name := range []string{"pglib_opf_case118_ieee", "pglib_opf_case300_ieee"} {
		n := networktest.Load(t, name)
		random := rand.New(rand.NewPCG(20261124, 5))
		problems := make([]acopf.Problem, loads)
		for i := range problems {
			pr := &problems[i]
			pr.Pd, pr.Qd = n.Loads(1)
			for b := range pr.Pd {
				factor := 1 + spread*(2*random.Float64()-1)
				pr.Pd[b] *= factor
				pr.Qd[b] *= factor
			}
		}
		solver, err := acopf.New(n, acopf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ours := make([]acopf.Result, loads)
		if err := solver.Solve(context.Background(), problems, ours); err != nil {
			t.Fatal(err)
		}
		theirs, both, lower, iterations := 0, 0, 0, 0
		for i := range problems {
			program, err := New(n, &problems[i], Exact)
			if err != nil {
				t.Fatal(err)
			}
			ipopt := program.Solve()
			program.Close()
			if !ipopt.Optimal {
				continue
			}
			theirs++
			switch gap := (ours[i].Objective - ipopt.Objective) / ipopt.Objective; {
			case ours[i].Status != acopf.Optimal:
				t.Logf("%s, load %d: %s; IPOPT has %g", name, i, ours[i].Reason(), ipopt.Objective)
			case gap > 1e-6:
				t.Errorf("%s, load %d: %.9g, IPOPT %.9g", name, i, ours[i].Objective, ipopt.Objective)
			default:
				both++
				iterations += ours[i].Iterations
				if gap < -1e-6 {
					lower++
				}
			}
		}
		t.Logf("%s: IPOPT finds %d optima of %d, of these %d are found here, %d lower, %.1f iterations each", name, theirs, loads, both, lower, float64(iterations)/float64(max(1, both)))
		if theirs == 0 || float64(both) < 0.99*float64(theirs) {
			t.Errorf("%s: %d of IPOPT's %d optima", name, both, theirs)
		}
	}
}
