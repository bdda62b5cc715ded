package secure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The limits of a state are those of the network: with band and emergency factor after an outage, of what is in service in its part.
func TestLimitsOfAState(t *testing.T) {
	c := networktest.Case(t, "case_ieee30")
	c.Branch[4].AngMin, c.Branch[4].AngMax, c.Branch[5].AngMax = -20, 30, 40
	c.Branch[5].AngMin = -360
	c.Bus[3].VMin, c.Bus[3].VMax = 1, 1
	c.Gen[3].PMin, c.Gen[3].PMax = 10, 10
	c.Gen[4].QMax = math.Inf(1)
	for k := range c.Branch {
		c.Branch[k].RateA = float64(40 * (k % 4)) // 0: none
	}
	n := networktest.Of(t, c)
	opt := Options{Emergency: 1.2, Band: 0.03, Outages: []Outage{{Branch: 6, Unit: -1}, {Branch: -1, Unit: 1}}}
	sys := require.Get(newSystem(n, opt.withDefaults()))(t)
	base := newState(sys, Outage{Branch: -1, Unit: -1}, false, n.Pd, n.Qd, nil)
	branch, unit := newState(sys, opt.Outages[0], true, n.Pd, n.Qd, nil), newState(sys, opt.Outages[1], true, n.Pd, n.Qd, nil)
	for _, st := range []*state{base, branch, unit} {
		var want []limit
		bounds := func(variable int, lo, hi, weight float64) {
			for _, l := range []limit{{variableLimit, variable, -1, lo, weight}, {variableLimit, variable, 1, hi, weight}} {
				if !math.IsInf(l.bound, 0) {
					want = append(want, l)
				}
			}
		}
		band, factor, weight := 0.0, 1.0, 0.0
		if st.after {
			band, factor, weight = 0.03, 1.2, 10
		}
		for b := range n.BusID {
			lo, hi := n.VMin[b]-band, n.VMax[b]+band
			if lo == hi {
				lo, hi = lo-5e-10, hi+5e-10
			}
			bounds(st.bus[b]+magnitudeOffset, lo, hi, weight)
		}
		for k, rate := range n.Rate {
			if math.IsInf(rate, 1) || st.after && k == st.outage.Branch {
				continue
			}
			soft := 0.0
			if rate *= factor; st.after {
				soft = 0.5 / rate
			}
			want = append(want, limit{fromFlowLimit, k, 0, rate * rate, soft}, limit{toFlowLimit, k, 0, rate * rate, soft})
		}
		if st.after {
			longest := 0.0
			for g, share := range sys.share {
				if g != st.outage.Unit && share > 0 {
					longest = max(longest, (n.PMax[g]-n.PMin[g])/share)
				}
			}
			bounds(st.delta, -longest, longest, 0)
		} else {
			want = append(want, limit{angleLimit, 4, -1, n.AngMin[4], 0}, limit{angleLimit, 4, 1, n.AngMax[4], 0}, limit{angleLimit, 5, 1, n.AngMax[5], 0})
			for g, k := range sys.setP {
				if k >= 0 {
					bounds(st.setPoints[k], n.PMin[g], n.PMax[g], 0)
				}
			}
			for i, b := range sys.genBuses {
				g := slices.Index(n.GenBus, b)
				bounds(st.reactive[i], n.QMin[g], n.QMax[g], 0)
			}
		}
		key := func(l limit) string { return fmt.Sprintf("%+v", l) }
		got := map[string]bool{}
		for i, l := range st.limits {
			got[key(l)] = true
			if penalty := 100 * l.weight; l.weight > 0 && math.Abs(st.penalty[i]-penalty) > 1e-12*penalty || l.weight == 0 && st.soft(i) {
				t.Errorf("%+v has the penalty %g", l, st.penalty[i])
			}
		}
		for _, l := range want {
			if !got[key(l)] {
				t.Errorf("outage %+v: no limit %+v", st.outage, l)
			}
		}
		if len(st.limits) != len(want) || len(got) != len(want) {
			t.Errorf("outage %+v: %d limits, want %d", st.outage, len(st.limits), len(want))
		}
		for k := range n.Branches() {
			for end, kind := range []limitKind{fromFlowLimit, toFlowLimit} {
				if i := st.flowRow[end][k]; i != slices.IndexFunc(st.limits, func(l limit) bool { return l.kind == kind && l.element == k }) {
					t.Errorf("branch %d has limit %d", k, i)
				}
			}
		}
	}
}

// Ramps bound the powers of the base state around the previous ones, within the units' limits; where that leaves nothing the bounds are
// as wide as a fixed power, next to it. The largest scaled slope of a cost is ten.
func TestRampsBoundPowers(t *testing.T) {
	n := networktest.Load(t, "case9")
	sys := require.Get(newSystem(n, DefaultOptions().withDefaults()))(t)
	st := newState(sys, Outage{Branch: -1, Unit: -1}, false, n.Pd, n.Qd, nil)
	for _, c := range []struct{ previous, ramp, lo, hi float64 }{
		{1, 0.2, 0.8, 1.2}, {n.PMin[1] + 0.1, 0.3, n.PMin[1], n.PMin[1] + 0.4}, {n.PMax[1] - 0.1, 0.3, n.PMax[1] - 0.4, n.PMax[1]},
		{1, 0, 1 - fixedWidth/2, 1 + fixedWidth/2}, {n.PMax[1] + 2, 0.1, n.PMax[1] - fixedWidth/2, n.PMax[1] + fixedWidth/2}, {n.PMin[1] - 2, 0.1, n.PMin[1] - fixedWidth/2, n.PMin[1] + fixedWidth/2}, {0, 0, 0, 0},
	} {
		pr := Problem{Previous: []float64{0, c.previous, 0}, Ramp: []float64{9, c.ramp, 9}}
		if c.previous == 0 { // no ramps
			pr, c.lo, c.hi = Problem{}, n.PMin[1], n.PMax[1]
		}
		before := slices.Clone(st.limits)
		st.applyProblem(pr)
		for i, l := range st.limits {
			want := before[i].bound
			if l.kind == variableLimit && l.element == st.setPoints[sys.setP[1]] {
				if want = c.lo; l.sign > 0 {
					want = c.hi
				}
			}
			if math.Abs(l.bound-want) > 1e-14 {
				t.Errorf("%+v: limit %d is %g, want %g", c, i, l.bound, want)
			}
		}
	}
	steepest := func() (largest float64) {
		for g := range n.GenBus {
			_, slope, _ := n.Cost[g].At((n.PMin[g] + n.PMax[g]) / 2)
			largest = max(largest, math.Abs(slope))
		}
		return largest
	}
	for _, c := range []struct{ weights, want [3]float64 }{{[3]float64{}, [3]float64{0, 0, 1}}, {[3]float64{3, 2, 0.5}, [3]float64{3, 2, 0.5}}, {[3]float64{0, 1, 1e-9}, [3]float64{0, 1, 1e-9}}} {
		st.applyProblem(Problem{Objective: acopf.Objective{Weights: c.weights}})
		if want := min(1, gradientScale/(c.want[2]*steepest())); st.weight != (weights{c.want[0], c.want[1], c.want[2]}) || math.Abs(st.scale/want-1) > 1e-12 || st.costScale() != st.scale*c.want[2] {
			t.Errorf("weights %v are %+v at a scale of %g, want %g", c.weights, st.weight, st.scale, want)
		}
	}
}

// The objectives of a dispatch are the excess of loadings over their threshold, of voltages over their band, and its cost.
func TestObjectivesOfADispatch(t *testing.T) {
	n := networktest.Load(t, "case14")
	rng := rand.New(rand.NewPCG(57, 8))
	r := &Result{Objective: 7}
	for b := range n.Buses() {
		r.Vm, r.Va = append(r.Vm, 0.9+0.2*rng.Float64()), append(r.Va, 0.2*rng.NormFloat64())
		if b == 3 {
			r.Vm[b] = 0.95
		}
	}
	flows := network.NewFlows(n.Branches())
	n.BranchFlows(&n.Admittance, r.Vm, r.Va, flows)
	want := [3]float64{2: 7}
	for k := range n.Rate {
		s := math.Hypot(flows.Pf[k], flows.Qf[k])
		if n.Rate[k] = s / (0.5 + 0.1*float64(k)); k%5 == 4 {
			n.Rate[k] = math.Inf(1)
		}
		want[0] += math.Pow(max(0, s/n.Rate[k]-0.85), 4)
	}
	for _, v := range r.Vm {
		want[1] += math.Pow(max(0, math.Abs(v-1)-0.05), 2)
	}
	r.objectives(n)
	for i, v := range r.J {
		if math.Abs(v-want[i]) > 1e-12*want[i] {
			t.Errorf("objective %d is %g, want %g", i, v, want[i])
		}
	}
}

// The violations of a power flow are those of package network's flows and the voltages, the most severe first; the margin is the least.
func TestViolationsOfAPowerFlow(t *testing.T) {
	n := networktest.Load(t, "case14")
	for k := range n.Rate {
		n.Rate[k] = 0.3 + 0.1*float64(k)
	}
	n.Rate[3] = math.Inf(1)
	sys := require.Get(newSystem(n, Options{Emergency: 1.5, Band: 0.02}.withDefaults()))(t)
	f := newOutageFlows(sys, n.Pd, n.Qd)
	rng := rand.New(rand.NewPCG(57, 9))
	all := 0
	for trial := range 40 {
		c := &Check{Outage: Outage{Branch: trial % n.Branches(), Unit: -1}, Solved: true}
		spread := 0.01 * float64(trial)
		for range n.Buses() {
			c.vm, c.va = append(c.vm, 1+spread*rng.NormFloat64()), append(c.va, spread*rng.NormFloat64())
		}
		flows := network.NewFlows(n.Branches())
		n.BranchFlows(&n.Admittance, c.vm, c.va, flows)
		var want []Violation
		margin := math.Inf(1)
		add := func(v Violation) {
			if margin = min(margin, -v.Excess); v.Excess > 1e-6 {
				want = append(want, v)
			}
		}
		for b, v := range c.vm {
			low, high := n.VMin[b]-0.02-v, v-n.VMax[b]-0.02
			add(Violation{LowVoltage, b, v, low, 10 * low})
			add(Violation{HighVoltage, b, v, high, 10 * high})
		}
		for k, rate := range n.Rate {
			if k == c.Branch || math.IsInf(rate, 1) {
				continue
			}
			from, to := math.Hypot(flows.Pf[k], flows.Qf[k]), math.Hypot(flows.Pt[k], flows.Qt[k])
			add(Violation{FromRating, k, from, from - 1.5*rate, from/(1.5*rate) - 1})
			add(Violation{ToRating, k, to, to - 1.5*rate, to/(1.5*rate) - 1})
		}
		f.listViolations(c)
		all += len(want)
		if len(c.Violations) != len(want) || math.Abs(c.Margin-margin) > 1e-12 {
			t.Fatalf("%d violations, want %d; margin %g, want %g", len(c.Violations), len(want), c.Margin, margin)
		}
		for i, v := range c.Violations {
			if i > 0 && v.Severity > c.Violations[i-1].Severity || !slices.ContainsFunc(want, func(w Violation) bool {
				return w.Kind == v.Kind && w.Element == v.Element && math.Abs(w.Value-v.Value)+math.Abs(w.Excess-v.Excess)+math.Abs(w.Severity-v.Severity) < 1e-10
			}) {
				t.Errorf("violation %d is %+v", i, v)
			}
		}
		if want := slices.MaxFunc(append(c.Violations, Violation{}), func(a, b Violation) int { return int(math.Copysign(1, a.Severity-b.Severity)) }).Severity; c.Severity() != want {
			t.Errorf("severity %g, want %g", c.Severity(), want)
		}
	}
	if all < 100 || !math.IsInf((&Check{}).Severity(), 1) {
		t.Errorf("%d violations", all)
	}
	exact := &Check{Outage: Outage{Branch: 0, Unit: -1}, vm: slices.Repeat([]float64{1}, n.Buses()), va: make([]float64, n.Buses())}
	n.VMin[2], n.VMax[2] = 1.02+Tolerance, 2 // an excess of the tolerance is none
	if f.listViolations(exact); slices.ContainsFunc(exact.Violations, func(v Violation) bool { return v.Element == 2 && v.Kind == LowVoltage && v.Excess <= Tolerance }) {
		t.Errorf("%+v", exact.Violations)
	}
}

// The bus for a reference has the most reactive room of those in question, and the first of equals.
func TestBusWithTheMostRoom(t *testing.T) {
	n := networktest.Load(t, "case39")
	sys := require.Get(newSystem(n, DefaultOptions().withDefaults()))(t)
	f := newOutageFlows(sys, n.Pd, n.Qd)
	rng := rand.New(rand.NewPCG(57, 10))
	for trial := range 100 {
		for i := range sys.genBuses {
			sys.qlo[i], sys.qhi[i] = -float64(rng.IntN(3)), float64(rng.IntN(3))
		}
		o := Outage{Branch: 0, Unit: -1}
		if trial%2 == 0 {
			o = Outage{Branch: -1, Unit: rng.IntN(n.Gens())}
		}
		excluded, atLimit, q := map[int]bool{}, make([]int8, n.Buses()), make([]float64, n.Buses())
		for b := range q {
			excluded[b], atLimit[b], q[b] = rng.IntN(4) == 0, int8(max(0, rng.IntN(6)-3)-1), float64(rng.IntN(7)-3)/2
			if rng.IntN(2) == 0 {
				atLimit[b] = 0
			}
		}
		if trial%3 == 0 {
			atLimit, q = nil, nil
		}
		best, most := -1, 0.0
		for i, b := range sys.genBuses {
			if excluded[b] || atLimit != nil && atLimit[b] != 0 || o.Unit >= 0 && n.GenBus[o.Unit] == b {
				continue
			}
			room := sys.qhi[i] - sys.qlo[i]
			if q != nil {
				room = min(sys.qhi[i]-q[b], q[b]-sys.qlo[i])
			}
			if best < 0 || room > most {
				best, most = b, room
			}
		}
		if got := f.roomiestBus(o, excluded, atLimit, q); got != best {
			t.Fatalf("trial %d: bus %d, want %d", trial, got, best)
		}
	}
	if lo, hi := sys.reactiveLimitsAfter(Outage{Branch: 0, Unit: -1}, -1); lo <= hi {
		t.Errorf("a bus without units has limits %g and %g", lo, hi)
	}
}

// Where no power flow exists after an outage, the check says why.
func TestWhyThereIsNoPowerFlow(t *testing.T) {
	for want, change := range map[string]func(c *matpower.Case){
		"no unit is left that holds a voltage": func(c *matpower.Case) { c.Gen[1].InService, c.Gen[2].InService = false, false },
		"every bus with a unit is at a reactive limit: nothing holds a voltage": func(c *matpower.Case) {
			for g := range c.Gen {
				c.Gen[g].QMin, c.Gen[g].QMax = -5, 5
			}
		},
		"10.": func(c *matpower.Case) { c.Gen[1].PMax, c.Gen[2].PMax, c.Bus[4].Gs = 200, 110, 0 },
	} {
		c := networktest.Case(t, "case9")
		change(c)
		n := networktest.Of(t, c)
		sys := require.Get(newSystem(n, Options{Outages: []Outage{}}.withDefaults()))(t)
		check := require.Get(newOutageFlows(sys, n.Pd, n.Qd).solveOutage(Outage{Branch: -1, Unit: 0}, n.Pg0, n.Vm0, n.Va0, nil))(t)
		states := []*state{newState(sys, Outage{Branch: -1, Unit: -1}, false, n.Pd, n.Qd, nil), newState(sys, Outage{Branch: -1, Unit: 0}, true, n.Pd, n.Qd, nil)}
		for _, st := range states { // other starts come to no end either, and the first says why
			for b, first := range st.bus {
				st.x[first+magnitudeOffset] = n.Vm0[b]
			}
		}
		tried := require.Get(newOutageFlows(sys, n.Pd, n.Qd).check(Outage{Branch: -1, Unit: 0}, n.Pg0, n.Vm0, n.Va0, states, func(*Check) {}))(t)
		if tried.Solved || tried.Reason != check.Reason {
			t.Errorf("from other starts: %v: %q, want %q", tried.Solved, tried.Reason, check.Reason)
		}
		missing, what, _ := strings.Cut(check.Reason, " MW are missing")
		if want == "10." { // 315 MW of load, 310 MW of units, and the losses
			if lost := 0.0; check.Solved || what != " that no unit has left" || func() bool { fmt.Sscan(missing, &lost); return !(lost > 5 && lost < 25) }() {
				t.Errorf("%q", check.Reason)
			}
		} else if check.Solved || check.Reason != want {
			t.Errorf("%v: %q, want %q", check.Solved, check.Reason, want)
		}
	}
}

// A bus without a unit is no reference, and a power flow from numbers that are none is refused.
func TestReferencesHaveUnits(t *testing.T) {
	n := networktest.Load(t, "case9")
	sys := require.Get(newSystem(n, DefaultOptions().withDefaults()))(t)
	f := newOutageFlows(sys, n.Pd, n.Qd)
	bus := slices.Index(sys.genBusIndex, -1)
	c := &Check{Outage: Outage{Branch: 2, Unit: -1}, vm: n.Vm0, va: n.Va0, atLimit: make([]int8, n.Buses())}
	if err := f.solveShared(c, sys.part(c.Outage), bus, n.Pg0, n.Vm0, false); err == nil || !strings.Contains(err.Error(), "has no generator in service") || len(f.solvers) > 0 {
		t.Errorf("%v with %d solvers", err, len(f.solvers))
	}
	if c, err := f.solveOutage(c.Outage, n.Pg0, n.Vm0, n.Va0, nil); err != nil || !c.Solved || len(f.solvers) != 1 || c.reference != n.Slack {
		t.Errorf("%v, reference %d", err, c.reference)
	} else if vm, va := c.Voltages(); len(vm) != n.Buses() || &vm[0] != &c.vm[0] || &va[0] != &c.va[0] {
		t.Error("voltages are others")
	}
	pg := slices.Clone(n.Pg0)
	pg[1] = math.NaN()
	if _, err := f.solveOutage(c.Outage, pg, n.Vm0, n.Va0, nil); err == nil || !strings.Contains(err.Error(), "want a finite number") {
		t.Errorf("a power that is no number: %v", err)
	}
}

// The outage that leaves the least power for the load is named, where it leaves too little.
func TestOutageWithoutCapacity(t *testing.T) {
	n := networktest.Load(t, "case9")
	s := require.Get(New(n, DefaultOptions()))(t)
	whole := 0.0
	for g, p := range []float64{2, 3.5, 2.5} {
		n.PMax[g] = p
		whole += p
	}
	pd := make([]float64, n.Buses())
	for _, c := range []struct {
		load float64
		want string
	}{{whole - 3.5, ""}, {whole - 3.25, "unit 2 at bus 2: the other units give 450 MW at most, the load is 475 MW"}, {whole - 0.5, "unit 2 at bus 2: the other units give 450 MW at most, the load is 750 MW"}} {
		pd[4], pd[6] = c.load-1, 1
		if got := s.capacityShortfall(pd); got != "" && got != "no dispatch survives the outage of "+c.want || (got == "") != (c.want == "") {
			t.Errorf("load %g: %q, want %q", c.load, got, c.want)
		}
	}
}

// What a solve says at its end: where the interior point stands, what would have to give, or which power flow breaks a limit.
func TestWhatASolveSaysAtItsEnd(t *testing.T) {
	p := stirred(t, "case9", false, false)
	s := &Solver{net: p.sys.net, sys: p.sys}
	for _, st := range p.states {
		clear(st.r)
		clear(st.h)
		for v := range st.r {
			if !st.dual[v] {
				st.r[v] = 9 // no equation
			}
		}
	}
	r := &Result{Rounds: 2}
	p.iterations = 3
	says := func(off, where string) {
		t.Helper()
		want := "the interior point ended after 3 iterations of round 2 with a balance or limit off by " + off + " pu " + where
		if r.explain(s, p); r.Reason != want {
			t.Errorf("%q, want %q", r.Reason, want)
		}
	}
	says("0", "before any outage")
	row := p.states[1].bus[4] + activeDualOffset
	p.states[1].r[row] = -0.5
	says("0.5", "after the outage of branch 3 from bus 5 to bus 6")
	p.states[0].h[1] = 0.75
	says("0.75", "before any outage")
	p.states[2].h[2] = 1.25
	says("1.2", "after the outage of unit 2 at bus 2")
	p.states[1].omit[row], p.states[1].r[row] = true, 7
	says("1.2", "after the outage of unit 2 at bus 2")

	// The severity of checks decides, and slacks name what would give.
	for i := range p.states[1].limits {
		for _, st := range p.states[1:] {
			if i < len(st.elasticSlack) {
				st.elasticSlack[i] = 0
			}
		}
	}
	for _, st := range p.states {
		clear(st.elasticSlack)
	}
	fine, broken := &Check{Outage: p.states[1].outage, Solved: true}, &Check{Outage: p.states[2].outage, Solved: true, Violations: []Violation{{Kind: LowVoltage, Element: 4, Excess: 0.02, Severity: 0.2}}}
	for _, c := range []struct {
		checks []*Check
		slack  float64
		want   string
	}{
		{[]*Check{fine}, 1, ""}, {nil, 0, ""},
		{[]*Check{fine, broken}, 0, "the optimisation ends at a dispatch, but its power flow after the outage of unit 2 at bus 2 is another, which breaks the voltage limit of bus 5 by 0.02 pu"},
		{[]*Check{broken, {Outage: p.states[3].outage, Reason: "it has none"}}, 0, "the optimisation ends at a dispatch, but its power flow after the outage of branch 5 from bus 6 to bus 7 was not found: it has none"},
		{[]*Check{broken}, 0.5, "no dispatch was found that keeps every limit after every outage: after that of unit 2 at bus 2, the voltage limit of bus 1 by "},
	} {
		p.states[2].elasticSlack[0] = c.slack
		got := (&Result{Reason: "none"}).conclude(s, p, c.checks)
		if (got.Status == Secure) != (c.want == "") || c.want == "" && got.Reason != "" || !strings.HasPrefix(got.Reason, c.want) || (c.slack > 0 && c.want != "") != (len(got.Relaxations) > 0) || len(got.states) != len(p.states) {
			t.Errorf("%v, %q with %d relaxations, want %q", got.Status, got.Reason, len(got.Relaxations), c.want)
		}
	}
}

// An outage is idle where its multipliers are small and its margin is wide; a result that is not idle starts the count anew.
func TestOutagesAreCountedAsIdle(t *testing.T) {
	p := stirred(t, "case9", false, false)
	for _, st := range p.states {
		for v := range st.x {
			if st.x[v] = 5; st.dual[v] {
				st.x[v] = 0
			}
		}
		st.idle = 2
	}
	var checks []*Check
	r := &Result{states: p.states}
	for _, st := range p.states[1:] {
		r.Remembered = append(r.Remembered, st.outage)
		checks = append(checks, &Check{Outage: st.outage, Solved: true, Margin: 2 * idleMargin})
	}
	row := p.states[1].bus[3] + reactiveDualOffset
	p.states[1].x[row] = -1.01 * idleMultiplier
	p.states[2].x[p.states[2].bus[3]+activeDualOffset] = idleMultiplier
	checks[2].Margin = idleMargin
	p.states[4].x[row], p.states[4].omit[row] = 1, true
	slices.Reverse(checks)
	r.After = append(checks, &Check{Outage: Outage{Branch: 0, Unit: -1}, Solved: true, Margin: 1})
	r.countIdle()
	var idle []int
	for _, st := range p.states {
		idle = append(idle, st.idle)
	}
	if !slices.Equal(idle, []int{2, 0, 3, 0, 3, 3}) {
		t.Errorf("idle for %v results", idle)
	}
}

// A state after an outage starts at its power flow, turned to the base state's reference, and without one at the voltages before.
// Its parameters are the reactive powers, and beyond a limit a tenth of them is what the voltage leaves its set-point by.
func TestStatesStartAtTheirPowerFlow(t *testing.T) {
	p := stirred(t, "case14", false, false)
	sys, base := p.sys, p.states[0]
	rng := rand.New(rand.NewPCG(57, 11))
	for v := range base.x {
		base.x[v] = rng.NormFloat64()
	}
	for _, solved := range []bool{true, false} {
		for _, o := range []Outage{{2, -1, false}, {-1, 1, false}} {
			st := newState(sys, o, true, base.pd, base.qd, nil)
			nb := sys.net.Buses()
			c := &Check{Outage: o, Solved: solved, Delta: 0.7, vm: make([]float64, nb), va: make([]float64, nb), q: make([]float64, nb)}
			for b := range c.vm {
				c.vm[b], c.va[b], c.q[b] = rng.Float64(), rng.Float64(), rng.NormFloat64()
			}
			held := sys.genBuses[3]
			c.vm[held] = base.x[base.bus[held]+magnitudeOffset] - reactiveSlack/2
			sys.initialise(st, base, c)
			ref := st.part.reference
			for b, first := range st.bus {
				vm, va := base.x[base.bus[b]+magnitudeOffset], base.x[base.bus[b]+angleOffset]
				if solved {
					vm, va = c.vm[b], c.va[b]-c.va[ref]+base.x[base.bus[ref]+angleOffset]
				}
				if math.Abs(st.x[first+magnitudeOffset]-vm) > 1e-14 || math.Abs(st.x[first+angleOffset]-va) > 1e-14 {
					t.Errorf("solved %v, bus %d starts at %g, %g, want %g, %g", solved, b, st.x[first+magnitudeOffset], st.x[first+angleOffset], vm, va)
				}
			}
			for i, b := range sys.genBuses {
				want := base.x[base.reactive[i]]
				if lo, hi := st.reactiveLimits(i); lo > hi {
					want = 0
				} else if solved {
					want = c.q[b]
					if b != held {
						want += 10 * (base.x[base.bus[b]+magnitudeOffset] - c.vm[b])
					}
				}
				if math.Abs(st.x[st.reactive[i]]-want) > 1e-14 {
					t.Errorf("solved %v, bus %d: parameter %g, want %g", solved, b, st.x[st.reactive[i]], want)
				}
			}
			if want := map[bool]float64{true: 0.7}[solved]; st.x[st.delta] != want {
				t.Errorf("solved %v: shared %g, want %g", solved, st.x[st.delta], want)
			}
		}
	}
	st := p.states[1] // and its check at the state
	for v := range st.x {
		st.x[v] = rng.NormFloat64()
	}
	nb := sys.net.Buses()
	c := &Check{vm: make([]float64, nb), va: make([]float64, nb), q: make([]float64, nb), atLimit: make([]int8, nb)}
	st.initialiseCheck(c)
	copied := &Check{vm: make([]float64, nb), va: make([]float64, nb), q: make([]float64, nb), atLimit: make([]int8, nb)}
	c.reference = 3
	c.copyTo(copied)
	for _, at := range []*Check{c, copied} {
		for b, first := range st.bus {
			if at.vm[b] != st.x[first+magnitudeOffset] || at.va[b] != st.x[first+angleOffset] || at.Delta != st.x[st.delta] || at.reference != 3 {
				t.Errorf("bus %d of the check starts at %g, %g", b, at.vm[b], at.va[b])
			}
		}
		for i, b := range sys.genBuses {
			y, mode := st.x[st.reactive[i]], int8(0)
			if y <= sys.qlo[i] {
				mode = -1
			} else if y >= sys.qhi[i] {
				mode = 1
			}
			if at.q[b] != min(max(y, sys.qlo[i]), sys.qhi[i]) || at.atLimit[b] != mode {
				t.Errorf("bus %d of the check: %g in mode %d, want %g in mode %d", b, at.q[b], at.atLimit[b], y, mode)
			}
		}
	}
}

// Secants are of the last two pairs, and are followed between half and a million of the change without losses.
func TestSecants(t *testing.T) {
	for _, c := range []struct {
		slope float64
		ok    bool
	}{{0.51, true}, {0.5, false}, {1, true}, {0.9 * maxLossFactor, true}, {1.1 * maxLossFactor, false}, {-1, false}} {
		var s secants
		if _, ok := s.next(1, 0.5, 2); ok {
			t.Error("there is one pair")
		}
		step := 2 * c.slope * 0.25
		got, ok := s.next(1+step, 0.25, 2)
		if math.Abs(got/(2*c.slope)-1) > 1e-12 || ok != c.ok || s != (secants{1 + step, 0.25, true}) {
			t.Errorf("%+v: %g, %v, %+v", c, got, ok, s)
		}
	}
	for _, c := range []struct {
		mismatch, slope float64
		corrections     int
		steps           int
		want            bool
	}{{shareTolerance, 1, 0, 3, true}, {-shareTolerance, 1, 0, 3, true}, {Tolerance, 0, 0, 3, true}, {1.01 * Tolerance, 0, 1, 0, false}, {Tolerance, 1e-3, 1, 0, true}, {Tolerance, 1e-3, 1, 1, false}, {Tolerance, 1e-3, 0, 0, false}} {
		if got := shareConverged(c.mismatch, c.slope, c.corrections, c.steps); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
