package secure

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// Where no outage binds, the secure optimum of a weighted objective within ramps is package acopf's;
// where one binds, it keeps the ramps, survives and costs more.
func TestObjectivesAndRampsAreThoseOfTheOptimumWithoutOutages(t *testing.T) {
	n := networktest.Load(t, "case39")
	plain, err := acopf.New(n, acopf.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	opt := DefaultOptions()
	opt.Outages, opt.Threads = Branches(n), 1
	s, err := New(n, opt)
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Solve(context.Background(), Problem{Pd: scaled(n.Pd, 0.85), Qd: scaled(n.Qd, 0.85)})
	if err != nil || before.Status != Secure {
		t.Fatal(before.Reason, err)
	}
	ramp := make([]float64, n.Gens())
	for g := range ramp {
		ramp[g] = 0.3
	}
	for _, level := range []float64{0.83, 0.875} {
		pr := Problem{Pd: scaled(n.Pd, level), Qd: scaled(n.Qd, level), Objective: acopf.Objective{Weights: [3]float64{2e4, 3e4, 1}}, Previous: before.Pg, Ramp: ramp}
		best := make([]acopf.Result, 1)
		if err := plain.Solve(context.Background(), []acopf.Problem{{Pd: pr.Pd, Qd: pr.Qd, Objective: pr.Objective, Previous: pr.Previous, Ramp: pr.Ramp}}, best); err != nil {
			t.Fatal(err)
		}
		for _, start := range []*Result{nil, before} {
			pr.Start = start
			r, err := s.Solve(context.Background(), pr)
			if err != nil || r.Status != Secure {
				t.Fatalf("level %v: %v %v", level, r.Reason, err)
			}
			value, least := r.Value(pr), best[0].Objective
			if value < least*(1-1e-7) {
				t.Errorf("level %v: %v is below the optimum without outages, %v", level, value, least)
			}
			if start == nil && len(r.Remembered) == 0 && math.Abs(value-least) > 1e-7*least {
				t.Errorf("level %v: %v, without outages %v", level, value, least)
			}
			if len(r.Remembered) > 0 && level > 0.87 && value < least*(1+1e-5) {
				t.Errorf("level %v: security costs nothing", level)
			}
			for g, p := range r.Pg {
				if math.Abs(p-before.Pg[g]) > ramp[g]+1e-7 {
					t.Errorf("level %v: unit %d moves by %v", level, g, p-before.Pg[g])
				}
			}
		}
	}
}

// Without multipliers the residual of the variables is the slope of the objective, by central differences: of its costs, of loadings
// above their threshold and of voltages outside their band.
func TestTheResidualIsTheSlopeOfTheObjective(t *testing.T) {
	n := networktest.Load(t, "case30")
	sys, err := newSystem(n, DefaultOptions().withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 2))
	for name, w := range map[string]weights{"cost": {cost: 0.5}, "loading": {thermal: 0.3}, "voltage": {voltage: 20}, "all": {0.01, 20, 0.1}} {
		st := newState(sys, Outage{Branch: -1, Unit: -1}, false, n.Pd, n.Qd, nil)
		st.scale, st.weight = 0.7, w
		for i := range st.limits {
			st.s[i], st.penalty[i] = 1, math.Inf(1)
		}
		for b, at := range st.bus {
			st.x[at+magnitudeOffset], st.x[at] = n.Vm0[b]+0.05*r.NormFloat64(), 0.05*r.NormFloat64()
		}
		for g, k := range sys.setP {
			if k >= 0 {
				st.x[st.setPoints[k]] = n.PMin[g] + 0.3*(n.PMax[g]-n.PMin[g])
			}
		}
		st.evaluate(0)
		slopes, moving := slices.Clone(st.r), 0
		for v, slope := range slopes {
			if st.dual[v] || st.omit[v] {
				continue
			}
			const step = 1e-6
			x := st.x[v]
			st.x[v] = x + step
			st.evaluate(0)
			above := st.objective
			st.x[v] = x - step
			st.evaluate(0)
			want := (above - st.objective) / (2 * step)
			if st.x[v] = x; !(math.Abs(slope-want) <= 1e-5*(1+math.Abs(want))) {
				t.Fatalf("%s: variable %d has the slope %g, differences say %g", name, v, slope, want)
			}
			if want != 0 {
				moving++
			}
		}
		if moving < 5 {
			t.Errorf("%s: %d variables move the objective", name, moving)
		}
	}
}

// A problem that cannot be asked is refused by what is wrong with it.
func TestProblemsThatAreNone(t *testing.T) {
	n := networktest.Load(t, "case9")
	s, err := New(n, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for want, pr := range map[string]Problem{
		"ideal and nadir":   {Objective: acopf.Objective{Weights: [3]float64{1, 1, 1}, Nadir: [3]float64{1, 1, 1}}},
		"weight -1":         {Objective: acopf.Objective{Weights: [3]float64{-1, 0, 0}}},
		"3 previous powers": {Previous: make([]float64, 3)},
	} {
		if _, err := s.Solve(context.Background(), pr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := s.Check(context.Background(), n.Pd, n.Qd, nil, nil, nil); err == nil || !strings.Contains(err.Error(), "0 powers") {
		t.Errorf("a check without powers: %v", err)
	}
}

func scaled(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = by * v[i]
	}
	return out
}

// Value is the objective of the problem at this result: the file's cost without weights, else the weighted sum.
func (r *Result) Value(pr Problem) float64 {
	if pr.Objective.FileCost() {
		return r.Objective
	}
	return pr.Objective.Value(r.J)
}
