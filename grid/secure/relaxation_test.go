package secure

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
)

// What gives after an outage comes the most severe first, by element and kind. Its value is what the point has, its excess is
// positive on either side, and words have the units of the file.
func TestWhatGivesIsSaidByKind(t *testing.T) {
	n := networktest.Load(t, "case14")
	for k := range n.Rate {
		n.Rate[k] = 0.5
	}
	sys, err := newSystem(n, DefaultOptions().withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	out := Outage{Branch: 2, Unit: -1}
	st := newState(sys, out, true, n.Pd, n.Qd, nil)
	modes := st.modes()
	clear(modes.active)
	clear(modes.reactive)
	modes.reactive[2] = 1 // the units at bus 3 are at a limit
	st.setSwitching(modes)
	st.elastic = newElastic(st)
	clear(st.elasticSlack)
	p := &interior{sys: sys, states: []*state{newState(sys, Outage{Branch: -1, Unit: -1}, false, n.Pd, n.Qd, nil), st}}
	gives := func(kind limitKind, element int, sign, h float64) {
		i := slices.IndexFunc(st.limits, func(l limit) bool { return l.kind == kind && l.element == element && l.sign == sign })
		if i < 0 {
			t.Fatalf("no limit %d of %d with sign %g", kind, element, sign)
		}
		st.h[i], st.elasticSlack[i] = h, h
	}
	bound := n.VMin[5] - sys.opt.Band
	st.x[st.bus[5]+magnitudeOffset] = bound - 0.07
	gives(variableLimit, st.bus[5]+magnitudeOffset, -1, 0.07)
	st.x[st.bus[6]+magnitudeOffset] = n.VMax[6] + sys.opt.Band + 0.06
	gives(variableLimit, st.bus[6]+magnitudeOffset, 1, 0.06)
	rate := sys.opt.Emergency * 0.5
	gives(fromFlowLimit, 7, 0, 1.25*rate*rate) // 1.5 times the rating
	gives(toFlowLimit, 8, 0, 0.96*rate*rate)   // 1.4 times
	gives(shareLimit, 0, -1, 0.3)
	gives(shareLimit, 1, 1, 0.2)
	st.x[st.reactive[1]] = sys.qlo[1] - 0.1
	gives(variableLimit, st.reactive[1], -1, 0.1)
	st.x[st.reactive[3]] = sys.qhi[3] + 0.09
	gives(variableLimit, st.reactive[3], 1, 0.09)
	st.x[st.bus[2]+magnitudeOffset] = 1.02
	gives(variableLimit, st.reactive[2], -1, 0.008*dropUnit)
	small := 2 * Tolerance / voltageSeverity // what counts is the severity
	st.x[st.bus[7]+magnitudeOffset] = n.VMax[7] + sys.opt.Band + small
	gives(variableLimit, st.bus[7]+magnitudeOffset, 1, small)
	gives(variableLimit, st.bus[8]+magnitudeOffset, 1, small/4)
	st.elastic.slack[4*9+1] = 0.05 // more power than the bus has
	st.elastic.slack[4*10+2] = 0.04
	st.elastic.slack[4*11] = Tolerance / 2

	// The elements are numbered from 0, those in words from 1. The base is 100 MVA.
	want := []struct {
		Violation
		words string
	}{
		{Violation{LowVoltage, 5, bound - 0.07, 0.07, 0.7}, "the voltage limit of bus 6 by 0.07 pu"},
		{Violation{HighVoltage, 6, n.VMax[6] + sys.opt.Band + 0.06, 0.06, 0.6}, "the voltage limit of bus 7 by 0.06 pu"},
		{Violation{FromRating, 7, 1.5 * rate, 0.5 * rate, 0.5}, "the rating of branch 8 from bus 4 to bus 7 by 32.5 MVA"},
		{Violation{ToRating, 8, 1.4 * rate, 0.4 * rate, 0.4}, "the rating of branch 9 from bus 4 to bus 9 by 26 MVA"},
		{Violation{LowActive, 0, n.PMin[0] - 0.3, 0.3, 0.3}, "the limit of active power of unit 1 at bus 1 by 30 MW"},
		{Violation{HighActive, 1, n.PMax[1] + 0.2, 0.2, 0.2}, "the limit of active power of unit 2 at bus 2 by 20 MW"},
		{Violation{LowReactive, 1, sys.qlo[1] - 0.1, 0.1, 0.1}, "the reactive limit of the units at bus 2 by 10 MVAr"},
		{Violation{HighReactive, 5, sys.qhi[3] + 0.09, 0.09, 0.09}, "the reactive limit of the units at bus 6 by 9 MVAr"},
		{Violation{SetPoint, 2, 1.02, 0.008, 0.08}, "the voltage set-point of bus 3 by 0.008 pu"},
		{Violation{ActiveBalance, 9, -0.05, 0.05, 0.05}, "the balance of bus 10 by 5 MW"},
		{Violation{ReactiveBalance, 10, 0.04, 0.04, 0.04}, "the balance of bus 11 by 4 MVAr"},
		{Violation{HighVoltage, 7, n.VMax[7] + sys.opt.Band + small, small, 2 * Tolerance}, "the voltage limit of bus 8 by 2e-07 pu"},
	}
	got := p.relaxations()
	if len(got) != len(want) {
		t.Fatalf("%d give, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		off := max(math.Abs(g.Value-w.Value), math.Abs(g.Excess-w.Excess), math.Abs(g.Severity-w.Severity))
		if g.Outage != out || g.Kind != w.Kind || g.Element != w.Element || !(off < 1e-12) || g.describe(n) != w.words {
			t.Errorf("%+v: %q\nwant %+v", g, g.describe(n), w)
		}
	}
}

// The elastic slacks of a balance differ by what it misses, and their products with their multipliers are the barrier.
func TestElasticBalancesBeginAtTheirMismatch(t *testing.T) {
	st := bordered(t, "case14", true).states[1]
	const barrier = 0.1
	st.elastic = newElastic(st)
	st.evaluate(0.1) // without slack: the residual is the mismatch
	st.elastic.begin(st, barrier)
	e, begun := st.elastic, 0
	for i := 0; i < len(e.row); i += 2 {
		mismatch := st.r[e.row[i]]
		if !(math.Abs(mismatch) > barrier/e.penalty) {
			continue
		}
		begun++
		for k := i; k < i+2; k++ {
			if !(e.dual[k] > 0) || math.Abs(e.slack[k]*e.dual[k]/barrier-1) > 1e-9 || math.Abs(e.dualResidual(k, st)) > 1e-9*e.penalty {
				t.Errorf("entry %d: slack %g, multiplier %g, barrier %g", k, e.slack[k], e.dual[k], barrier)
			}
		}
		if got := e.slack[i] - e.slack[i+1]; math.Abs(got-mismatch) > 1e-6*math.Abs(mismatch) {
			t.Errorf("balance %d misses %g, its slacks %g", i/2, mismatch, got)
		}
	}
	clear(e.slack) // where the barrier is small next to what is missing, no multiplier begins below a millionth of the penalty
	e.begin(st, 1e-9)
	if least := slices.Min(e.dual); math.Abs(least/e.penalty-1e-6) > 1e-12 {
		t.Errorf("the least multiplier is %g of the penalty", least/e.penalty)
	}
	if begun < len(st.bus) {
		t.Errorf("%d balances of %d buses miss anything", begun, len(st.bus))
	}
}

// A trace counts iterations from 0 in every solve, has as many outages as are remembered, and ends at the result: its cost is
// that of the file, without the scale.
func TestTraceEndsAtTheResult(t *testing.T) {
	n := networktest.Load(t, "case_ieee30")
	var trace []Iterate
	opt := DefaultOptions()
	opt.Trace = func(it Iterate) { trace = append(trace, it) }
	s, r := solve(t, n, opt, 0.9, nil)
	outages, starts, steps := 0, 0, 0
	for k, it := range trace {
		if it.Iteration == 0 {
			starts++
		} else if steps++; k == 0 || it.Iteration != trace[k-1].Iteration+1 {
			t.Errorf("iteration %d is after iteration %d", it.Iteration, trace[max(0, k-1)].Iteration)
		}
		if it.Outages < outages || it.Outages > len(s.outages) || !(it.Step > 0 && it.Step <= 1) || !(it.Barrier > 0) || it.Shift < 0 {
			t.Errorf("%+v after %d outages", it, outages)
		}
		outages = it.Outages
	}
	last := trace[len(trace)-1]
	if starts < 2 || steps != r.Iterations || len(r.Remembered) == 0 || last.Outages != len(r.Remembered) || last.KKT != r.KKT || math.Abs(last.Objective/r.Objective-1) > 1e-6 {
		t.Errorf("%d solves, %d iterations of %d, %d remembered; the last is %+v; the cost is %g", starts, steps, r.Iterations, len(r.Remembered), last, r.Objective)
	}
}

// The gap along a step is that of the iterate that the step leads to, with hard and with elastic balances, and its lengths are the
// longest that keep what has to be positive so.
func TestGapAlongAStepIsThatAfterIt(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		p := bordered(t, "case14", elastic)
		defer p.release()
		if !p.factorise() {
			t.Fatal("no direction")
		}
		p.direction(0.1, false)
		primal, dual := p.lengths(0.9)
		for _, length := range [][2]float64{{0, 0}, {primal, dual}, {primal / 2, dual}, {primal, dual / 3}} {
			along, before, clones := p.gapAlong(length[0], length[1]), p.gap(), p.clone()
			p.move(length[0], length[1])
			if after := p.gap(); math.Abs(along-after) > 1e-9*(1+math.Abs(after)) || length == [2]float64{} && after != before {
				t.Errorf("elastic %v: the gap along %v is %g, after it %g", elastic, length, along, after)
			}
			least := math.Inf(1)
			for _, st := range p.states {
				for i := range st.limits {
					least = min(least, st.s[i], st.z[i])
				}
				if st.elastic != nil {
					least = min(least, slices.Min(st.elastic.slack), slices.Min(st.elastic.dual))
				}
			}
			if !(least > 0) {
				t.Errorf("elastic %v: after %v a slack or multiplier is %g", elastic, length, least)
			}
			for k, st := range p.states { // back, with the direction
				copy(st.x, clones[k].x)
				copy(st.s, clones[k].s)
				copy(st.z, clones[k].z)
				copy(st.elasticSlack, clones[k].elasticSlack)
				copy(st.elasticDual, clones[k].elasticDual)
				if st.elastic != nil {
					copy(st.elastic.slack, clones[k].elastic.slack)
					copy(st.elastic.dual, clones[k].elastic.dual)
				}
			}
		}
	}
}
