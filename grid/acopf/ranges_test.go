package acopf

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
)

// ranges reads settings such as "tap 8 0.9 1.1", by rows from 1 and numbers of buses, in degrees and MVAr.
func ranges(tb testing.TB, n *network.Network, lines ...string) (out []Range) {
	tb.Helper()
	for _, line := range lines {
		var kind string
		var number int
		var r Range
		if _, err := fmt.Sscan(line, &kind, &number, &r.Min, &r.Max); err != nil {
			tb.Fatal(err)
		}
		unit := unitOf(n, kind)
		r.Min, r.Max = r.Min*unit, r.Max*unit
		r.Kind = map[string]RangeKind{"tap": Ratio, "shift": Shift, "shunt": Susceptance}[kind]
		if r.Index = slices.Index(n.BranchRow, number-1); kind == "shunt" {
			r.Index = slices.Index(n.BusID, number)
		}
		out = append(out, r)
	}
	return out
}

func unitOf(n *network.Network, kind string) float64 {
	return map[string]float64{"tap": 1, "shift": math.Pi / 180, "shunt": 1 / n.BaseMVA}[kind]
}

// The optima of settings that are variables are those of IPOPT on the same problems with CasADi's derivatives
// (lab/peers/opf/settings.py), and so are the settings. Some end at their ranges' ends. NaN is one that the objective, to
// 1e-9 of it, does not determine.
func TestSettingsAreThoseOfIPOPT(t *testing.T) {
	for _, c := range []struct {
		name      string
		lines     []string
		objective float64
		settings  []float64
	}{
		{"case9", []string{"tap 1 0.9 1.1", "tap 4 0.9 1.1", "tap 7 0.9 1.1"}, 5296.677458, []float64{0.950027865, 0.957486566, math.NaN()}},
		{"case14", []string{"tap 8 0.9 1.1", "tap 9 0.9 1.1", "tap 10 0.9 1.1"}, 8078.672252, []float64{1.00415751, 0.9, 0.97138429}},
		{"case14", []string{"tap 8 0.9 1.1", "shift 8 -30 30", "shift 9 -10 10", "shunt 9 0 40", "shunt 14 -10 20"}, 8078.504627, []float64{1.0025989, math.NaN(), math.NaN(), math.NaN(), 6.40972703}},
		{"case30", []string{"tap 11 0.9 1.1", "tap 12 0.9 1.1", "tap 15 0.9 1.1", "tap 36 0.9 1.1", "shift 12 -20 20", "shunt 5 0 30"}, 573.9136924, []float64{0.977013357, 0.961222806, 1.04036853, 1.06119004, -7.95581839, 4.97060503}},
		{"pglib_opf_case57_ieee", []string{"tap 19 0.9 1.1", "tap 31 0.9 1.1", "tap 35 0.9 1.1", "tap 41 0.9 1.1", "tap 66 0.9 1.1", "shift 41 -10 10", "shunt 25 0 20"}, 37553.69873, []float64{0.923663167, 0.995086663, 1.07418879, 0.970467087, 0.916997374, 4.98026032, 18.162557}},
		{"case118", []string{"tap 8 0.9 1.1", "tap 32 0.9 1.1", "tap 36 0.9 1.1", "tap 51 0.9 1.1", "tap 93 0.9 1.1", "tap 95 0.9 1.1", "tap 102 0.9 1.1", "tap 107 0.9 1.1", "tap 127 0.9 1.1", "shift 107 -10 10", "shunt 34 0 30", "shunt 5 -60 0"}, 129544.8842,
			[]float64{0.979386763, 1.06015015, 0.983203176, 0.97318683, 0.983227327, 0.99712479, 0.987516056, 0.969786479, 0.986780021, 6.79709665, math.NaN(), 0}},
	} {
		n := load(t, c.name)
		list := ranges(t, n, c.lines...)
		s := newTestSolver(t, n, Options{Ranges: list})
		results := make([]Result, 1)
		if err := s.Solve(context.Background(), make([]Problem, 1), results); err != nil {
			t.Fatal(err)
		}
		r := &results[0]
		t.Logf("%s: %v after %d iterations, %.10g, KKT %+v", c.name, r.Status, r.Iterations, r.Objective, r.KKT)
		if r.Status != Optimal {
			t.Errorf("%s: %s", c.name, r.Reason())
			continue
		}
		if d := r.Objective/c.objective - 1; math.Abs(d) > 1e-7 {
			t.Errorf("%s: %.10g $/h, IPOPT %.10g: %.1e", c.name, r.Objective, c.objective, d)
		}
		for i, line := range c.lines {
			kind, _, _ := strings.Cut(line, " ")
			if got := r.Settings[i] / unitOf(n, kind); math.Abs(got-c.settings[i]) > 2e-3*(1+math.Abs(c.settings[i])) {
				t.Errorf("%s, %s: %.9g, IPOPT %.9g", c.name, line, got, c.settings[i])
			}
		}
	}
}

// While curvatures along settings need shifts of the matrix, s·z is held: otherwise it is at its end after ten iterations, and twenty
// more follow. With all 1167 settings of PGLib's 2312 buses none of 450 iterations was an optimum.
func TestBarrierIsHeldWhileSettingsNeedShifts(t *testing.T) {
	n := load(t, "case14")
	var pr Problem
	pr.Pd, pr.Qd = n.Loads(1.03)
	s := newTestSolver(t, n, Options{Ranges: ranges(t, n, "tap 8 0.9 1.1", "tap 9 0.9 1.1", "tap 10 0.9 1.1", "shunt 9 -10 32.8")})
	if r := solveOne(t, s, pr); r.Status != Optimal || math.Abs(r.Objective/8391.53793-1) > 1e-8 || r.Iterations > 20 {
		t.Errorf("%v after %d iterations, %.9g $/h", r.Status, r.Iterations, r.Objective)
	}
}

// Settings that do not vary are the network with them, to the bits: those of the file, and others.
func TestRangesWithoutWidthAreTheNetworkItself(t *testing.T) {
	n := load(t, "case30")
	lines := []string{"tap 11 1 1", "tap 12 0.97 0.97", "shift 13 3 3", "shunt 5 7 7", "shunt 24 4 4"}
	list := ranges(t, n, lines...)
	var values []float64
	for _, r := range list {
		values = append(values, r.Min)
	}
	other := Settled(n, list, values)
	want := solveOne(t, newTestSolver(t, other, Options{}), Problem{})
	got := solveOne(t, newTestSolver(t, n, Options{Ranges: list}), Problem{})
	settings := got.Settings
	if got.Settings = nil; !same(got, want) {
		t.Errorf("%.17g $/h after %d iterations, the network itself %.17g after %d", got.Objective, got.Iterations, want.Objective, want.Iterations)
	}
	for i, r := range list {
		if settings[i] != r.Min {
			t.Errorf("%s: %v", lines[i], settings[i])
		}
	}
	file := solveOne(t, newTestSolver(t, n, Options{}), Problem{})
	got = solveOne(t, newTestSolver(t, n, Options{Ranges: ranges(t, n, "tap 11 1 1")}), Problem{})
	got.Settings = nil
	if !same(file, got) {
		t.Error("the file's ratio as a range is not the file's network")
	}
}

// At the settings of an optimum the network without ranges has that optimum and its prices, in every phase of the solver: from a flat
// start, warm at other loads, with pivots by size, with an outage of a branch whose settings vary, from the feasibility phase, and with
// the paper's objectives. No setting leaves its range, and no start or kernel changes the bits.
func TestSettledNetworksHaveTheSameOptimum(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"case14", "case30", "pegase89"} {
		var n *network.Network
		lines := []string{"tap 8 0.9 1.1", "shift 9 -10 10", "tap 9 0.95 1.05", "shunt 9 -5 30"}
		switch name {
		case "case30":
			lines = []string{"tap 11 0.9 1.1", "shift 11 -5 5", "tap 12 0.9 1.1", "shift 15 -5 5", "shunt 5 0 30"}
			n = load(t, name)
		case "pegase89":
			n, lines = pegase89(t), nil
			for k := range n.From {
				if n.Ratio(k) != 1 {
					lines = append(lines, fmt.Sprintf("tap %d %g %g", n.BranchRow[k]+1, n.Ratio(k)-0.02, n.Ratio(k)+0.01))
				}
			}
		default:
			n = load(t, name)
		}
		opt := Options{Ranges: ranges(t, n, lines...), Threads: 1}
		s := newTestSolver(t, n, opt)
		first := solveOne(t, s, Problem{})
		var near Problem
		near.Pd, near.Qd = n.Loads(0.999)
		warm := near
		warm.Start = first
		problems := map[string]Problem{"flat": {}, "near": near, "warm": warm, "feasible": {Feasible: true}}
		if name != "pegase89" {
			problems["outage"] = Problem{Out: Out{Branches: []int{opt.Ranges[0].Index}}}
			problems["objectives"] = Problem{Objective: Objective{Weights: [3]float64{0, 100, 1}}}
		}
		for kind, pr := range problems {
			r := solveOne(t, s, pr)
			if r.Status != Optimal {
				t.Errorf("%s, %s: %s", name, kind, r.Reason())
				continue
			}
			for i, y := range opt.Ranges {
				if v := r.Settings[i]; v < y.Min-1e-8 || v > y.Max+1e-8 {
					t.Errorf("%s, %s: %s is %g", name, kind, lines[i], v)
				}
			}
			fixed := pr
			fixed.Start = nil
			settled := solveOne(t, newTestSolver(t, Settled(n, opt.Ranges, r.Settings), Options{}), fixed)
			if d := r.Objective/settled.Objective - 1; settled.Status != Optimal || math.Abs(d) > 2e-8 {
				t.Errorf("%s, %s: %.10g, with these settings %v at %.10g: %.1e", name, kind, r.Objective, settled.Status, settled.Objective, d)
			}
			for b := range r.LambdaP {
				if math.Abs(r.LambdaP[b]-settled.LambdaP[b]) > 1e-5*(1+math.Abs(r.LambdaP[b])) || math.Abs(r.LambdaQ[b]-settled.LambdaQ[b]) > 1e-4*(1+math.Abs(r.LambdaP[b])) {
					t.Errorf("%s, %s: bus %d has the prices %g and %g, with these settings %g and %g", name, kind, b, r.LambdaP[b], r.LambdaQ[b], settled.LambdaP[b], settled.LambdaQ[b])
				}
			}
			if kind == "warm" && r.Iterations > first.Iterations {
				t.Errorf("%s: %d iterations from an optimum, %d without", name, r.Iterations, first.Iterations)
			}
		}
		for _, k := range kernels() {
			other, err := newSolver(n, opt, []kernel{k})
			if err != nil {
				t.Fatal(err)
			}
			results := make([]Result, 3)
			if err := other.Solve(ctx, []Problem{near, {}, near}, results); err != nil || !same(&results[1], first) {
				t.Errorf("%s, %v×%d: not the same bits (%v)", name, k.level, k.lanes, err)
			}
		}
	}
}

// A voltage that a ratio alone can lift needs no relaxation where the ratio varies; beyond its range it gives by as much less. Soft limits
// give by what is left too.
func TestRelaxationsUseSettings(t *testing.T) {
	n := load(t, "case14")
	k := slices.Index(n.BranchRow, 13) // bus 7 to bus 8, which has a unit
	n.VMin[n.To[k]], n.VMax[n.To[k]] = 1.08, 1.2
	n.VMin[n.From[k]], n.VMax[n.From[k]] = 0.94, 0.96
	g := slices.Index(n.GenBus, n.To[k])
	n.QMax[g], n.QMin[g] = 0, 0
	if r := solveOne(t, newTestSolver(t, n, Options{}), Problem{}); r.Status != Infeasible {
		t.Fatalf("%v: want limits that a ratio of 1 cannot keep", r.Status)
	}
	give := func(opt Options) float64 {
		x, err := Relax(context.Background(), n, nil, nil, opt, Penalties{})
		if err != nil || x.Status != Optimal {
			t.Fatal(x.Status, err)
		}
		for i, r := range opt.Ranges {
			if v := x.Settings[i]; v < r.Min-1e-6 || v > r.Max+1e-6 {
				t.Errorf("ratio %g, range %g to %g", v, r.Min, r.Max)
			}
		}
		return x.Cost
	}
	fixed := give(Options{})
	some, enough := Options{Ranges: []Range{{Ratio, k, 0.95, 1}}}, Options{Ranges: []Range{{Ratio, k, 0.8, 1}}}
	if partly := give(some); !(partly > 1e-3 && partly < 0.7*fixed) {
		t.Errorf("gives %g, with a ratio of 1 %g", partly, fixed)
	}
	if v := give(enough); v != 0 {
		t.Errorf("gives %g where a ratio keeps all limits", v)
	}
	soft := SoftLimits{VMin: slices.Repeat([]float64{1e4}, n.Buses())}
	for _, opt := range []Options{some, enough} {
		r, err := SolveSoft(context.Background(), n, nil, nil, opt, soft)
		if err != nil || r.Status != Optimal {
			t.Fatal(r.Status, err)
		}
		if v := r.Gives.VMin[n.To[k]]; math.Abs(r.Settings[0]-opt.Ranges[0].Min) > 1e-5 && v > 1e-6 || opt.Ranges[0].Min == 0.8 && v > 1e-6 {
			t.Errorf("bus 8 gives %g at a ratio of %g", v, r.Settings[0])
		}
	}
}

// What is no range is refused by name.
func TestWrongRangesAreRefused(t *testing.T) {
	n := load(t, "case14")
	for reason, list := range map[string][]Range{
		"has two ranges":                     {{Ratio, 7, 0.9, 1.1}, {Ratio, 7, 1, 1}},
		"the ratio 20 is not in the network": {{Ratio, 20, 0.9, 1.1}},
		"the susceptance 14 is not":          {{Susceptance, 14, 0, 1}},
		"not falling":                        {{Ratio, 7, 1.1, 0.9}},
		"ratios above 0":                     {{Ratio, 7, 0, 1}},
		"finite":                             {{Shift, 7, math.Inf(-1), 1}},
		"at most a turn":                     {{Shift, 7, -4, 4}},
	} {
		if _, err := New(n, Options{Ranges: list}); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%v: %v, want %q", list, err, reason)
		}
	}
	if _, err := New(n, Options{Ranges: []Range{{Ratio, 7, 0.9, 1.1}}, CurrentLimits: true}); err == nil || !strings.Contains(err.Error(), "exclude one another") {
		t.Error(err)
	}
}
