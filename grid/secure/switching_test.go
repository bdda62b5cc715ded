package secure

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// modesAt are a state's modes by unit or bus.
func modesAt(c *switching, t *state, l limit) int8 {
	if l.kind == shareLimit {
		return c.active[l.element]
	}
	return c.reactive[slices.Index(t.reactive, l.element)]
}

// Of limits of modes that bind with a slack, units switch to the adjacent mode, twice at most; of those whose multiplier in the adjacent
// mode is negative enough, the rate is told. What does not switch keeps its slack and multiplier, what does starts almost free.
func TestUnitsSwitchWhereTheirLimitsGive(t *testing.T) {
	rng := rand.New(rand.NewPCG(57, 20))
	switched, rates := 0, 0
	for trial := range 30 {
		p := stirred(t, "case14", trial%2 == 0, true)
		st := p.states[1]
		first := len(st.limits) - st.switchLimits
		want := st.switching.clone()
		moved := map[limitKey]bool{}
		for i := first; i < len(st.limits); i++ {
			l := st.limits[i]
			st.z[i], st.s[i] = []float64{1e-5, 0.5, 0.9e-5}[rng.IntN(3)], []float64{1e-6, 0.5}[rng.IntN(2)]
			st.elasticSlack[i] = []float64{1e-7, 1.1e-7, 1}[rng.IntN(3)]
			st.switching.switches[l.key()] = rng.IntN(3)
		}
		for i := first; i < len(st.limits); i++ { // at most one of a unit's two limits
			if l := st.limits[i]; i > first && st.limits[i-1].key() == l.key() {
				st.z[i] = 0
			}
		}
		maps.Copy(want.switches, st.switching.switches)
		want.switches = maps.Clone(st.switching.switches)
		for i := first; i < len(st.limits); i++ {
			l := st.limits[i]
			if st.z[i] >= 1e-5 && st.z[i] > st.s[i] && st.elasticSlack[i] > 1e-7 && st.switching.switches[l.key()] < 2 {
				moved[l.key()] = true
				want.switches[l.key()]++
				mode := &want.active
				at := l.element
				if l.kind != shareLimit {
					mode, at = &want.reactive, slices.Index(st.reactive, l.element)
				}
				if (*mode)[at] != 0 {
					(*mode)[at] = 0
				} else {
					(*mode)[at] = int8(l.sign)
				}
			}
		}
		// Rates before that.
		costs := map[limitKey]float64{}
		const threshold = 0.1
		for i := first; i < len(st.limits); i++ {
			if l := st.limits[i]; st.z[i] >= 1e-5 && st.z[i] > st.s[i] {
				gain := -st.multiplierAcross(i)
				if rng.IntN(2) == 0 {
					st.switching.fruitless[l.key()] = math.Abs(gain) * []float64{0.4, 0.6}[rng.IntN(2)]
				}
				if gain > threshold && gain > 2*st.switching.fruitless[l.key()] {
					costs[l.key()] = gain
				}
			}
		}
		rates += len(costs)
		if got := st.reducedCosts(threshold); !maps.Equal(got, costs) {
			t.Fatalf("trial %d: rates %v, want %v", trial, got, costs)
		}
		flipped := st.clone() // a switch where a lower cost is promised
		flipped.switchModes(costs)
		for i := first; i < len(st.limits); i++ {
			l := st.limits[i]
			mode := modesAt(st.switching, st, l)
			if _, ok := costs[l.key()]; ok && st.z[i] >= 1e-5 && st.z[i] > st.s[i] {
				if mode != 0 {
					mode = 0
				} else {
					mode = int8(l.sign)
				}
				if got := modesAt(flipped.switching, flipped, l); got != mode {
					t.Fatalf("trial %d: %+v has the mode %d, want %d", trial, l, got, mode)
				}
			} else if !ok && modesAt(flipped.switching, flipped, l) != mode {
				t.Fatalf("trial %d: %+v switches for nothing", trial, l)
			}
		}
		was := st.clone()
		count := st.switchViolated()
		if switched += count; count != len(moved) || !slices.Equal(st.switching.active, want.active) || !slices.Equal(st.switching.reactive, want.reactive) || !maps.Equal(st.switching.switches, want.switches) {
			t.Fatalf("trial %d: %d switch, want %d: %v, want %v", trial, count, len(moved), st.switching, want)
		}
		for i, l := range st.limits {
			from := slices.Index(was.limits, l)
			kept := i < first || !moved[l.key()]
			if kept && (from < 0 || st.s[i] != was.s[from] || st.z[i] != was.z[from] || st.penalty[i] != was.penalty[from] || st.elasticSlack[i] != was.elasticSlack[from] || st.elasticDual[i] != was.elasticDual[from]) {
				t.Fatalf("trial %d: limit %+v does not keep its numbers", trial, l)
			}
			if !kept && (st.z[i] != 1e-5 || st.s[i] != 0 || st.elasticSlack[i] != 0) {
				t.Fatalf("trial %d: limit %+v starts at %g and %g", trial, l, st.s[i], st.z[i])
			}
		}
	}
	if switched < 30 || rates < 30 {
		t.Errorf("%d switches, %d rates", switched, rates)
	}
}

// Limits are of their own quantities: of a variable, a shared power, an angle, a flow, or a segment of a cost.
func TestLimitsAreOfTheirQuantities(t *testing.T) {
	p := stirred(t, everyFeature, false, true)
	n := p.sys.net
	kinds := map[limitKind]int{}
	for _, st := range p.states {
		vm, va := make([]float64, n.Buses()), make([]float64, n.Buses())
		for b, first := range st.bus {
			vm[b], va[b] = st.x[first+magnitudeOffset], st.x[first+angleOffset]
		}
		flows := network.NewFlows(n.Branches())
		n.BranchFlows(&n.Admittance, vm, va, flows)
		for i, l := range st.limits {
			kinds[l.kind]++
			want := 0.0
			switch k := l.element; l.kind {
			case variableLimit:
				want = l.sign * (st.x[k] - l.bound)
			case angleLimit:
				want = l.sign * (va[n.From[k]] - va[n.To[k]] - l.bound)
			case shareLimit:
				want = l.sign * (st.x[st.setPoints[p.sys.setP[k]]] + p.sys.share[k]*st.x[st.delta] - l.bound)
			case fromFlowLimit:
				want = flows.Pf[k]*flows.Pf[k] + flows.Qf[k]*flows.Qf[k] - l.bound
			case toFlowLimit:
				want = flows.Pt[k]*flows.Pt[k] + flows.Qt[k]*flows.Qt[k] - l.bound
			case segmentLimit:
				want = st.scale*st.weight.cost*(l.sign*st.x[st.levelPower[k]]+l.bound) - st.x[st.level[k]]
			}
			if !(math.Abs(st.h[i]-want) <= 1e-12*(1+math.Abs(want))) {
				t.Fatalf("%+v is %g, want %g", l, st.h[i], want)
			}
		}
	}
	if len(kinds) != 6 {
		t.Errorf("limits by kind: %v", kinds)
	}
	m := networktest.Load(t, "case9")
	for b := range m.VMin { // without limits of voltages a flow's is the first
		m.VMin[b], m.VMax[b] = math.Inf(-1), math.Inf(1)
	}
	st := newState(require.Get(newSystem(m, DefaultOptions().withDefaults()))(t), Outage{Branch: -1, Unit: -1}, false, m.Pd, m.Qd, nil)
	for b, first := range st.bus {
		st.x[first+magnitudeOffset], st.x[first+angleOffset] = 1, 0.1*float64(b)
	}
	st.evaluate(0)
	f := network.NewFlows(m.Branches())
	m.BranchFlows(&m.Admittance, slices.Repeat([]float64{1}, 9), []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, f)
	if l, want := st.limits[0], f.Pf[0]*f.Pf[0]+f.Qf[0]*f.Qf[0]; l.kind != fromFlowLimit || math.Abs(st.h[0]+l.bound-want) > 1e-9 {
		t.Errorf("%+v is %g, the square of the flow is %g", l, st.h[0], want)
	}
}

// The worst outages of a round are added that are not remembered; all that break a limit are counted. After elastic balances a new
// state has them as well.
func TestARoundAddsTheWorstOutages(t *testing.T) {
	p := stirred(t, "case14", false, false)
	s := &Solver{net: p.sys.net, sys: p.sys}
	check := func(branch, bus int, severity float64) *Check {
		c := &Check{Outage: Outage{branch, -1, false}, Solved: severity >= 0}
		for range p.sys.net.Buses() {
			c.vm, c.va, c.q = append(c.vm, 1), append(c.va, 0), append(c.q, 0)
		}
		if severity > 0 {
			c.Violations = []Violation{{LowVoltage, bus, 0, severity, severity}}
		}
		return c
	}
	checks := []*Check{check(2, 1, 9), check(0, 1, 0.1), check(1, 1, 0.3), check(3, 2, 0.2), check(6, 3, 0), check(7, 4, -1)}
	for _, unsolved := range []bool{false, true} {
		for _, elastic := range []bool{false, true} {
			list := checks[:5]
			want := []Outage{{2, -1, false}, {1, -1, false}, {3, -1, false}, {0, -1, false}}
			if unsolved {
				list = checks
				want = slices.Insert(want, 1, Outage{7, -1, false})
			}
			r := &Result{Remembered: []Outage{{2, -1, false}}}
			q := &interior{sys: p.sys, elastic: elastic, states: slices.Clone(p.states[:2]), unsolvedOutage: true}
			if got := s.add(q, r, list, p.states[0].pd, p.states[0].qd); got != len(want)-1 || !slices.Equal(r.Remembered, want) || q.unsolvedOutage != unsolved || len(q.states) != len(want)+1 {
				t.Errorf("%d outages break limits, remembered are %v, without a power flow %v", got, r.Remembered, q.unsolvedOutage)
			}
			for k, st := range q.states[2:] {
				if st.outage != want[k+1] || (st.elastic != nil) != elastic || !st.after || st.switching != nil {
					t.Errorf("state %d is after %v", k+2, st.outage)
				}
			}
		}
	}
}

// A solve from an earlier result takes its states but those idle five times, at the new loads; balances of a secure result are hard.
func TestStatesOfAnEarlierResult(t *testing.T) {
	for _, secure := range []bool{true, false} {
		p := stirred(t, "case9", true, true)
		s := &Solver{net: p.sys.net, sys: p.sys}
		start := &Result{sys: p.sys, states: p.states, Status: Insecure}
		if secure {
			start.Status = Secure
		}
		for _, st := range p.states[1:] {
			start.Remembered = append(start.Remembered, st.outage)
		}
		p.states[2].idle, p.states[4].idle = 5, 4
		pd, qd := []float64{1}, []float64{2}
		q, r := &interior{sys: p.sys}, &Result{}
		require.OK(t, s.resume(q, r, start, pd, qd))
		left := slices.Delete(slices.Clone(p.states), 2, 3)
		if !slices.Equal(r.Remembered, slices.Delete(slices.Clone(start.Remembered), 1, 2)) || len(q.states) != len(left) || !q.warm || q.elastic == secure || !same(q.states, left) {
			t.Fatalf("remembered %v in %d states, warm %v, elastic %v", r.Remembered, len(q.states), q.warm, q.elastic)
		}
		for k, st := range q.states {
			if st == left[k] || st.pd[0] != 1 || st.qd[0] != 2 || (st.elastic != nil) != (k > 0 && !secure) || st.idle != left[k].idle {
				t.Errorf("state %d: elastic %v, idle %d", k, st.elastic != nil, st.idle)
			}
		}
	}
}

// The parts that an outage leaves are those that a walk along the other branches reaches; each has a reference with a unit in it. An
// outage that leaves too little power to its part is named.
func TestPartsThatAnOutageLeaves(t *testing.T) {
	c := twice(t)
	c.Branch = append(c.Branch, matpower.Branch{From: 12, To: second + 21, R: 0.02, X: 0.1, RateA: 40, InService: true, AngMin: -360, AngMax: 360})
	c.AddDCLine(matpower.DCLine{From: 15, To: second + 9, InService: true, PMax: 20, Cost: polynomial(0, 0)})
	for b := range c.Bus {
		if c.Bus[b].ID > second && c.Bus[b].Type == matpower.Reference {
			c.Bus[b].Type = matpower.PV
		}
	}
	n := networktest.Of(t, c)
	opt := Options{Outages: append(Branches(n), Outage{Branch: n.Branches() - 1, Unit: -1}, Outage{Branch: -1, Unit: 3}, Outage{Branch: -1, Unit: 8})}
	s := require.Get(New(n, opt))(t)
	for _, o := range s.outages {
		from := n.Slack
		if o.Remote {
			from = n.To[o.Branch]
			if slices.Contains(reached(n, o.Branch, from), n.Slack) {
				from = n.From[o.Branch]
			}
		}
		in, y := reached(n, o.Branch, from), s.sys.part(o)
		for b := range n.Buses() {
			if y.excludes(b) == slices.Contains(in, b) {
				t.Fatalf("%+v: bus %d excluded %v", o, b, y.excludes(b))
			}
		}
		if !slices.Contains(n.GenBus, y.reference) || !slices.Contains(in, y.reference) {
			t.Errorf("%+v: reference %d", o, y.reference)
		}
	}
	rng := rand.New(rand.NewPCG(57, 21))
	named, terminals := map[string]bool{}, n.Terminals()
	for range 60 {
		pd := make([]float64, n.Buses())
		for b := range pd {
			pd[b] = 0.25 * rng.Float64()
		}
		for g := range n.PMax {
			n.PMax[g] = rng.Float64()
			if terminals[g] {
				n.PMax[g] = rng.NormFloat64()
			}
		}
		worst, want := 0.0, ""
		for _, o := range s.outages {
			y, lack := s.sys.part(o), 0.0
			split := o.Branch == n.Branches()-1
			if !split && o.Unit < 0 {
				continue
			}
			for b, p := range pd {
				if !y.excludes(b) {
					lack += p
				}
			}
			for g, b := range n.GenBus {
				switch {
				case g == o.Unit || y.excludes(b):
				case !terminals[g]:
					lack -= n.PMax[g]
				case split:
					lack -= max(0, n.PMax[g])
				}
			}
			if lack > worst {
				worst, want = lack, "no dispatch survives the outage of "+o.name(n)+": the other units give "
			}
		}
		got := s.capacityShortfall(pd)
		if named[want] = true; (got == "") != (want == "") || len(got) < len(want) || got[:len(want)] != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	if len(named) < 4 {
		t.Errorf("%d outages are named", len(named))
	}
}

// reached are the buses that a walk without a branch comes to.
func reached(n *network.Network, without, from int) []int {
	list := []int{from}
	for k := 0; k < len(list); k++ {
		for e, f := range n.From {
			for _, ends := range [][2]int{{f, n.To[e]}, {n.To[e], f}} {
				if e != without && ends[0] == list[k] && !slices.Contains(list, ends[1]) {
					list = append(list, ends[1])
				}
			}
		}
	}
	return list
}

// A unit in a mode may not leave it: at a limit it stays beyond, within both it stays between. Penalties are those of a pu of power.
func TestLimitsOfModes(t *testing.T) {
	n := networktest.Load(t, "case39")
	n.QMax[2], n.QMin[3], n.QMax[4] = math.Inf(1), math.Inf(-1), n.QMin[4]
	sys := require.Get(newSystem(n, DefaultOptions().withDefaults()))(t)
	rng := rand.New(rand.NewPCG(57, 22))
	out := Outage{Branch: -1, Unit: 6}
	free := newState(sys, out, true, n.Pd, n.Qd, nil)
	if free.setSwitching(nil); free.switchLimits != 0 || free.switching != nil {
		t.Fatal("limits of no modes")
	}
	for range 20 {
		c := free.modes()
		var want []limit
		add := func(kind limitKind, element int, mode int8, lo, hi float64) {
			list := []limit{{kind, element, -1, lo, 1}, {kind, element, 1, hi, 1}}
			if mode != 0 {
				list = [][]limit{{{kind, element, 1, lo, 1}}, nil, {{kind, element, -1, hi, 1}}}[mode+1]
			}
			for _, l := range list {
				if !math.IsInf(l.bound, 0) {
					want = append(want, l)
				}
			}
		}
		for i, b := range sys.genBuses {
			c.reactive[i] = int8(rng.IntN(3) - 1)
			if lo, hi := sys.qlo[i], sys.qhi[i]; b != n.GenBus[6] && hi > lo {
				add(variableLimit, free.reactive[i], c.reactive[i], lo, hi)
			}
		}
		for g := range n.GenBus {
			if c.active[g] = int8(rng.IntN(3) - 1); g != 6 {
				add(shareLimit, g, c.active[g], n.PMin[g], n.PMax[g])
			}
		}
		st := free.withSwitching(c)
		got := st.limits[len(free.limits):]
		if len(got) != len(want) || st.switchLimits != len(want) || !slices.Equal(st.limits[:len(free.limits)], free.limits) {
			t.Fatalf("%d limits of modes, want %d", len(got), len(want))
		}
		for i, l := range got {
			if !slices.Contains(want, l) || st.penalty[len(free.limits)+i] != 100 {
				t.Errorf("%+v with a penalty of %g is none of %v", l, st.penalty[len(free.limits)+i], want)
			}
		}
	}
}
