package secure

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// solve finds a dispatch at a share of a network's loads.
func solve(t *testing.T, n *network.Network, opt Options, scale float64, start *Result) (*Solver, *Result) {
	t.Helper()
	s, err := New(n, opt)
	if err != nil {
		t.Fatal(err)
	}
	pr := Problem{Start: start}
	pr.Pd, pr.Qd = n.Loads(scale)
	r, err := s.Solve(context.Background(), pr)
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

// survives holds a dispatch to every outage by package powerflow's own analysis of outages, given
// what units share after each. What that cannot do, let the reference's voltage go, is counted.
func survives(t *testing.T, s *Solver, r *Result, pd, qd []float64) (skipped int) {
	t.Helper()
	n := s.net
	solver, err := powerflow.New(s.sys.net.WithUnitVoltages())
	if err != nil {
		t.Fatal(err)
	}
	opt := powerflow.Options{EnforceQ: true, MaxIterations: 60}
	flow := network.NewFlows(n.Branches())
	for i, o := range s.outages {
		c := r.After[i]
		if !c.Solved || len(c.Violations) > 0 {
			t.Errorf("%s: %s breaks %d limits %s", n.Name, o.name(n), len(c.Violations), c.Reason)
			continue
		}
		in := powerflow.Input{Pd: pd, Qd: qd, Pg: slices.Clone(r.Pg), Vg: make([]float64, n.Gens())}
		for g, b := range n.GenBus {
			in.Vg[g] = r.Vm[b]
			if s.sys.share[g] > 0 && g != o.Unit {
				in.Pg[g], _, _ = clip(r.Pg[g]+s.sys.share[g]*c.Delta, n.PMin[g], n.PMax[g], 0)
			}
		}
		base := solver.NewSolution()
		if err := solver.Solve(in, opt, base); err != nil {
			t.Fatal(err)
		}
		outages, err := solver.Clone().NewOutages(in, opt, base)
		if err != nil {
			t.Fatal(err)
		}
		sol := solver.NewSolution()
		var got powerflow.Outage
		if o.Branch >= 0 {
			got, err = outages.Branch(o.Branch, sol)
		} else {
			got, err = outages.Unit(o.Unit, sol)
		}
		if err != nil {
			t.Fatal(err)
		}
		lo, hi, q := 0.0, 0.0, 0.0
		for g, b := range n.GenBus {
			if b == n.Slack && g != o.Unit {
				lo, hi, q = lo+n.QMin[g], hi+n.QMax[g], q+sol.Qg[g]
			}
		}
		if got.Balance || !sol.Converged() || q < lo-1e-6 || q > hi+1e-6 {
			skipped++
			continue
		}
		const slack = 1e-5 // of voltages and flows between two power flows to 1e-9
		for b, v := range sol.Vm {
			if math.Abs(v-c.vm[b]) > slack {
				t.Errorf("%s, %s: |V| at bus %d is %g, the check has %g", n.Name, o.name(n), n.BusID[b], v, c.vm[b])
			}
			if v < n.VMin[b]-s.sys.opt.Band-slack || v > n.VMax[b]+s.sys.opt.Band+slack {
				t.Errorf("%s, %s: |V| at bus %d is %g, limits are %g and %g", n.Name, o.name(n), n.BusID[b], v, n.VMin[b], n.VMax[b])
			}
		}
		n.BranchFlows(&n.Admittance, sol.Vm, sol.Va, flow)
		for k, rate := range n.Rate {
			if f := max(math.Hypot(flow.Pf[k], flow.Qf[k]), math.Hypot(flow.Pt[k], flow.Qt[k])); k != o.Branch && f > s.sys.opt.Emergency*rate+slack {
				t.Errorf("%s, %s: branch %d carries %g, its rating is %g", n.Name, o.name(n), k, f, rate)
			}
		}
	}
	return skipped
}

// A dispatch that is called secure survives every outage by power flows of another analysis, costs no
// less than the plain optimum, meets the conditions of an optimum, and is the same on two threads.
func TestSecureDispatchSurvivesEveryOutage(t *testing.T) {
	for _, c := range []struct {
		name      string
		scale     float64
		emergency float64
		branches  bool
	}{{"case9", 1, 1.3, false}, {"case_ieee30", 0.9, 1.3, false}, {"case39", 0.9, 1.3, true}, {"case118", 1, 1.2, false}} {
		n := networktest.Load(t, c.name)
		opt := DefaultOptions()
		opt.Emergency, opt.Threads = c.emergency, 1
		if c.branches {
			opt.Outages = Branches(n)
		}
		s, r := solve(t, n, opt, c.scale, nil)
		if r.Status != Secure {
			t.Errorf("%s: %v: %s", c.name, r.Status, r.Reason)
			continue
		}
		pd, qd := n.Loads(c.scale)
		if skipped := survives(t, s, r, pd, qd); skipped > len(s.outages)/2 {
			t.Errorf("%s: %d of %d outages could not be checked again", c.name, skipped, len(s.outages))
		}
		broken := 0
		for _, b := range r.Before {
			if b.Severity() > 0 {
				broken++
			}
		}
		if (broken > 0) != (len(r.Remembered) > 0) || r.Objective < r.Plain*(1-1e-8) || r.KKT.Max() > conditionLimit {
			t.Errorf("%s: the plain optimum breaks %d, %d remembered; costs %g and %g; %+v", c.name, broken, len(r.Remembered), r.Plain, r.Objective, r.KKT)
		}
		opt.Threads = 2
		if _, again := solve(t, n, opt, c.scale, nil); again.Objective != r.Objective || !slices.Equal(again.Pg, r.Pg) {
			t.Errorf("%s: on two threads the cost is %.17g, on one %.17g", c.name, again.Objective, r.Objective)
		}
	}
}

// At random loads every dispatch that is called secure survives every outage by power flows of another
// analysis; where there is none the result says why.
func TestRandomLoads(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 1))
	for _, name := range []string{"case9", "case14", "case_ieee30"} {
		n := networktest.Load(t, name)
		s, err := New(n, DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		secure := 0
		for range 6 {
			pd, qd := n.Loads(0.6 + 0.4*r.Float64())
			for b := range pd {
				f := 0.9 + 0.2*r.Float64()
				pd[b], qd[b] = f*pd[b], f*qd[b]
			}
			result, err := s.Solve(context.Background(), Problem{Pd: pd, Qd: qd})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case result.Status == Secure:
				secure++
				if skipped := survives(t, s, result, pd, qd); skipped > len(s.outages)/2 {
					t.Errorf("%s: %d of %d outages could not be checked again", name, skipped, len(s.outages))
				}
			case result.Status != Insecure || result.Reason == "":
				t.Errorf("%s: %v: %q", name, result.Status, result.Reason)
			}
		}
		if secure == 0 {
			t.Errorf("%s: no load had a secure dispatch", name)
		}
	}
}

// A chain costs no more than the solves one by one, is warm where the dispatch before serves, takes in outages
// that begin to matter, and goes on after a step that nothing survives.
func TestChain(t *testing.T) {
	n := networktest.Load(t, "case_ieee30")
	s, err := New(n, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	var steps []Problem
	for _, scale := range []float64{0.82, 0.89, 9, 0.885} {
		var pr Problem
		pr.Pd, pr.Qd = n.Loads(scale)
		steps = append(steps, pr)
	}
	count, remembered := 0, 0
	err = s.Chain(context.Background(), steps, func(k int, warm bool, r *Result) error {
		count++
		if (k == 2) != (r.Status != Secure) || warm != (k == 1 || k == 3) {
			t.Errorf("step %d: %v, warm %v", k, r.Status, warm)
		}
		if k == 2 {
			return nil
		}
		if k == 1 && len(r.Remembered) <= remembered {
			t.Errorf("step %d: %d outages remembered, %d before", k, len(r.Remembered), remembered)
		}
		remembered = len(r.Remembered)
		cold, err := s.Solve(context.Background(), steps[k])
		if err != nil {
			return err
		}
		if r.Objective-cold.Objective > 1e-6*cold.Objective {
			t.Errorf("step %d: %.9g, alone %.9g", k, r.Objective, cold.Objective)
		}
		return nil
	})
	if err != nil || count != len(steps) {
		t.Errorf("%d steps, %v", count, err)
	}
}

// Where no dispatch survives, the result names the outage and what would have to give.
func TestNothingSurvives(t *testing.T) {
	n := networktest.Load(t, "case30")
	opt := DefaultOptions()
	opt.Outages = Branches(n)
	_, r := solve(t, n, opt, 1, nil)
	if r.Status != Insecure || len(r.Relaxations) == 0 || !strings.Contains(r.Reason, "branch") {
		t.Errorf("case30: %v, %d limits give: %s", r.Status, len(r.Relaxations), r.Reason)
	}
	for _, g := range r.Relaxations {
		if !(g.Excess > Tolerance) {
			t.Errorf("case30: a limit gives %g", g.Excess)
		}
	}
	_, r = solve(t, networktest.Load(t, "case9"), DefaultOptions(), 1.8, nil)
	if r.Status != Insecure || !strings.Contains(r.Reason, "unit 2 at bus 2: the other units give") {
		t.Errorf("case9: %v: %s", r.Status, r.Reason)
	}
}

// What cannot be posed is refused with what is wrong.
func TestRefusals(t *testing.T) {
	n := networktest.Load(t, "case14")
	bridge := -1
	for k, cutsOff := range n.Bridges() {
		if cutsOff {
			bridge = k
		}
	}
	for want, opt := range map[string]Options{
		"cuts off a part of the network": {Outages: []Outage{{Branch: bridge, Unit: -1}}, Participation: []float64{1, 1, 1, 1, 0}},
		"want one of":                    {Outages: []Outage{{Branch: -1, Unit: 99}}},
		"participation factors":          {Participation: []float64{1}},
		"not negative":                   {Participation: []float64{-1, 0, 0, 0, 0}},
		"no unit replaces the power":     {Participation: make([]float64, n.Gens())},
		"emergency factor":               {Emergency: 0.5},
		"voltage band":                   {Band: -1},
		"and at most 10000 iterat":       {MaxIterations: -1},
	} {
		if _, err := New(n, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	for want, most := range map[string]float64{"of constant power factor, which": 0, "has to be 0": 20} {
		c := networktest.Case(t, "case14")
		load := &c.Gen[1]
		load.PMin, load.PMax, load.QMin, load.QMax, load.Pg, load.Qg = -50, 0, -20, most, -25, -10
		if _, err := New(networktest.Of(t, c), Options{Dispatchable: network.DispatchablePowerFactor}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a load of constant power factor: want an error with %q, got %v", want, err)
		}
	}
	other, r := solve(t, n, Options{Outages: []Outage{{Branch: 0, Unit: -1}}, Band: 0.1}, 0.5, nil)
	if _, err := other.Solve(context.Background(), Problem{Start: r}); len(r.states) == 0 && err == nil {
		t.Error("a start without states is taken")
	}
}

// The smooth corner meets the corner outside its width, and its derivatives are those of differences.
func TestRamp(t *testing.T) {
	const width = 0.3
	for _, x := range []float64{-1, -0.3, -0.299, -0.1, 0, 0.2, 0.299, 0.3, 2} {
		v, d, dd := ramp(x, width)
		if math.Abs(x) >= width && v != max(0, x) {
			t.Errorf("ramp(%g) = %g", x, v)
		}
		const h = 1e-5
		up, dUp, _ := ramp(x+h, width)
		down, dDown, _ := ramp(x-h, width)
		if math.Abs((up-down)/(2*h)-d) > 1e-4 || math.Abs((dUp-dDown)/(2*h)-dd) > 1e-3 {
			t.Errorf("ramp at %g: derivatives %g, %g, differences %g, %g", x, d, dd, (up-down)/(2*h), (dUp-dDown)/(2*h))
		}
	}
}

// With one unit that shares, an outage that leaves it at its limit leaves a rounding of the balance, which is no missing power.
func TestOneUnitAtItsLimitTakesUpTheRest(t *testing.T) {
	n := networktest.Load(t, "case14")
	opt := DefaultOptions()
	opt.Participation = make([]float64, n.Gens())
	opt.Participation[0] = 1
	s, r := solve(t, n, opt, 1, nil)
	if r.Status != Secure || r.Objective < r.Plain {
		t.Fatalf("%v: %s", r.Status, r.Reason)
	}
	pd, qd := n.Loads(1)
	checks, err := s.Check(context.Background(), pd, qd, r.Pg, r.Vm, r.Va)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if c.Severity() > 0 {
			t.Errorf("%s: %s breaks %d limits", c.name(n), c.Reason, len(c.Violations))
		}
	}
}

// A unit of fixed power gives it after an outage as before.
func TestAFixedUnitAfterOutages(t *testing.T) {
	c := networktest.Case(t, "case_ieee30")
	c.Gen[1].PMin, c.Gen[1].PMax = 50, 50
	n := networktest.Of(t, c)
	opt := DefaultOptions()
	opt.Emergency = 1.3
	s, r := solve(t, n, opt, 0.9, nil)
	if r.Status != Secure || len(r.Remembered) == 0 || r.Pg[1] != 0.5 {
		t.Fatalf("%v: %s, %d outages remembered, the fixed unit gives %g pu", r.Status, r.Reason, len(r.Remembered), r.Pg[1])
	}
	pd, qd := n.Loads(0.9)
	if skipped := survives(t, s, r, pd, qd); skipped > len(s.outages)/2 {
		t.Errorf("%d of %d outages could not be checked again", skipped, len(s.outages))
	}
}

// A centred multiplier is within its price and balances the slack with what the limit gives.
func TestCentredMultipliersFit(t *testing.T) {
	for _, h := range []float64{-3, -1e-3, 0, 1e-3, 3} {
		for _, price := range []float64{0.5, 40} {
			for _, mu := range []float64{1e-6, 0.1, 20} {
				z := centred(h, price, mu)
				if off := mu/z - mu/(price-z) + h; !(z > 0 && z < price) || !(math.Abs(off) <= 1e-7*(1+math.Abs(h)+mu/z+mu/(price-z))) {
					t.Errorf("h %g, price %g, μ %g: z %g is off by %g", h, price, mu, z, off)
				}
			}
		}
	}
}
