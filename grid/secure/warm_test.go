package secure

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
)

// From the dispatch before, where loads have moved by up to one percent, the optimum costs no more than that of a
// solve from nothing, after a third of its iterations.
func TestWarmStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		level float64
		units bool
	}{{"case_ieee30", 0.89, true}, {"case39", 0.88, false}, {"pglib_opf_case118_ieee", 0.9, false}} {
		if c.name == "pglib_opf_case118_ieee" && testing.Short() {
			continue // its solves from nothing take seconds
		}
		n := networktest.Load(t, c.name)
		opt := DefaultOptions()
		opt.Threads = 1
		if !c.units {
			opt.Outages = Branches(n)
		}
		s, err := New(n, opt)
		if err != nil {
			t.Fatal(err)
		}
		steps := walk(n, c.level, 0.01, 6, 2)
		var few, many int
		err = s.Chain(context.Background(), steps, func(k int, warm bool, r *Result) error {
			cold, err := s.Solve(context.Background(), steps[k])
			if err != nil {
				return err
			}
			if r.Status != Secure || cold.Status != Secure || warm != (k > 0) || len(r.Remembered) == 0 {
				t.Fatalf("%s, step %d: warm %v: %v %s, cold %v, %d remembered",
					c.name, k, warm, r.Status, r.Reason, cold.Status, len(r.Remembered))
			}
			if r.Objective-cold.Objective > 1e-7*cold.Objective {
				t.Errorf("%s, step %d: warm %.9g, cold %.9g", c.name, k, r.Objective, cold.Objective)
			}
			if skipped := survives(t, s, r, steps[k].Pd, steps[k].Qd); skipped > len(s.outages)/2 {
				t.Errorf("%s, step %d: %d of %d outages could not be checked again", c.name, k, skipped, len(s.outages))
			}
			if warm {
				few, many = few+r.Iterations, many+cold.Iterations
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if t.Logf("%s: %d iterations warm, %d cold", c.name, few, many); few > many/3 {
			t.Errorf("%s: %d iterations warm, %d cold", c.name, few, many)
		}
	}
}

// Where a unit is at a corner, the conditions of an optimum are off by as much on either side, if the limit of the
// other side has the multiplier that across says: that of a set-point or of what is shared does not change.
func TestMultiplierAcrossACorner(t *testing.T) {
	n := networktest.Load(t, "case_ieee30")
	s, err := New(n, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(39, 3))
	kinds := map[limitKind]int{}
	for _, side := range []int8{-1, 0, 1} {
		c := newState(s.sys, Outage{Branch: 0, Unit: -1}, true, n.Pd, n.Qd, nil).modes()
		for g := range c.active {
			c.active[g] = side
		}
		for i := range c.reactive {
			c.reactive[i] = side
		}
		at := newState(s.sys, Outage{Branch: 0, Unit: -1}, true, n.Pd, n.Qd, c)
		for i := len(at.limits) - at.switchLimits; i < len(at.limits); i++ {
			l := at.limits[i]
			for v := range at.x {
				at.x[v] = 0.9 + 0.2*rng.Float64()
			}
			clear(at.z)
			if l.kind == shareLimit {
				at.x[at.setPoints[s.sys.setP[l.element]]] = l.bound - s.sys.share[l.element]*at.x[at.delta]
				at.z[i] = rng.Float64()
			} else {
				at.x[l.element] = l.bound
				at.evaluate(0)
				at.z[i] = -l.sign * at.r[l.element] // as at an optimum
			}
			at.evaluate(0)
			other := at.switching.clone()
			at.switchMode(other, i)
			o := at.withSwitching(other)
			clear(o.z)
			on := slices.IndexFunc(o.limits, func(m limit) bool {
				return m.kind == l.kind && m.element == l.element && m.bound == l.bound && m.weight == l.weight
			})
			o.z[on] = at.multiplierAcross(i)
			o.evaluate(0)
			for v := range o.r {
				if math.Abs(o.r[v]-at.r[v]) > 1e-12 {
					t.Errorf("side %d, limit of kind %d at %d: condition %d is off by %g on one side, by %g on the other",
						side, l.kind, l.element, v, at.r[v], o.r[v])
				}
			}
			kinds[l.kind]++
		}
	}
	if kinds[variableLimit] == 0 || kinds[shareLimit] == 0 {
		t.Errorf("corners by kind: %v", kinds)
	}
}

// powerFlowBefore is the power flow of a dispatch before any outage, and its powers with their shares of the balance.
func powerFlowBefore(f *outageFlows, pg, vm []float64) (*Check, []float64, error) {
	n := f.sys.net
	check, err := f.solveOutage(Outage{Branch: -1, Unit: -1}, pg, vm, make([]float64, n.Buses()), nil)
	if err != nil || !check.Solved {
		return check, nil, err
	}
	pg = slices.Clone(pg)
	for g, share := range f.sys.share {
		if share > 0 {
			pg[g], _, _ = clip(pg[g]+share*check.Delta, n.PMin[g], n.PMax[g], 0)
		}
	}
	return check, pg, nil
}

// Checks side by side, from the voltages before an outage and from checks of an earlier dispatch, come to the power
// flows that those one by one come to.
func TestChecksFromEarlierOnes(t *testing.T) {
	n := networktest.Load(t, "case118")
	opt := DefaultOptions()
	opt.Threads = 1
	s, err := New(n, opt)
	if err != nil {
		t.Fatal(err)
	}
	var from earlierChecks
	switched, begun, beside := 0, 0, 0
	for _, level := range []float64{1, 1.01, 0.98} {
		pd, qd := n.Loads(level)
		base, pg, err := powerFlowBefore(newOutageFlows(s.sys, pd, qd), scaled(n.Pg0, level), n.Vm0)
		if err != nil || !base.Solved {
			t.Fatal(err, base.Reason)
		}
		alone, err := s.Check(context.Background(), pd, qd, pg, base.vm, base.va)
		if err != nil {
			t.Fatal(err)
		}
		near, err := s.checkOutages(context.Background(), pd, qd, pg, base.vm, base.va, nil, from)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range alone {
			if i < len(from.checks) && from.checks[i].Solved {
				begun++
			}
			if near[i].Solved && near[i].reference < 0 {
				beside++
			} else if near[i].Margin > 0.01 && i >= len(s.outages)-8 {
				t.Errorf("level %g, %s: margin %g, one by one", level, c.name(n), near[i].Margin)
			}
			if math.Abs(c.Margin-near[i].Margin) > 1e-6 || math.Abs(c.Delta-near[i].Delta) > 1e-6 {
				t.Errorf("level %g, %s: margin %g, shared %g; side by side %g, %g", level, c.name(n), c.Margin, c.Delta, near[i].Margin, near[i].Delta)
			}
			switched += len(c.atLimit) - len(slices.DeleteFunc(slices.Clone(c.atLimit), func(side int8) bool { return side != 0 }))
			if c.Solved != near[i].Solved || len(c.Violations) != len(near[i].Violations) {
				t.Errorf("level %g, %s: solved %v, %d broken; from the earlier check %v, %d", level, c.name(n),
					c.Solved, len(c.Violations), near[i].Solved, len(near[i].Violations))
			}
			for b, v := range c.vm {
				if c.Solved && math.Abs(v-near[i].vm[b]) > 1e-7 {
					t.Errorf("level %g, %s: |V| at bus %d is %g, from the earlier check %g", level, c.name(n), n.BusID[b], v, near[i].vm[b])
				}
			}
		}
		from = earlierChecks{alone, base.vm, base.va}
	}
	if switched == 0 || begun < len(s.outages) || beside < len(s.outages) {
		t.Errorf("%d buses at a reactive limit, %d checks from earlier ones, %d side by side", switched, begun, beside)
	}
}

// A step of a series ends at the optimum from nothing also where its load is far from the last one's, and where an outage
// matters for the first time that has no power flow at the last dispatch: begun there, both ended at dearer local optima.
func TestAStepOfASeriesEndsAtTheOptimumFromNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []float64
		units  bool
		warm   []bool
	}{
		{"case_ieee30", []float64{0.87, 0.9}, true, []bool{false, true}},
		{"case14", []float64{1.123, 0.726, 0.729}, false, []bool{false, false, true}},
	} {
		n := networktest.Load(t, c.name)
		opt := DefaultOptions()
		if !c.units {
			opt.Outages = Branches(n)
		}
		s, err := New(n, opt)
		if err != nil {
			t.Fatal(err)
		}
		steps := make([]Problem, len(c.levels))
		for k, level := range c.levels {
			steps[k].Pd, steps[k].Qd = n.Loads(level)
		}
		err = s.Chain(context.Background(), steps, func(k int, warm bool, r *Result) error {
			cold, err := s.Solve(context.Background(), steps[k])
			if err != nil {
				return err
			}
			if r.Status != Secure || warm != c.warm[k] || math.Abs(r.Objective/cold.Objective-1) > 1e-6 {
				t.Errorf("%s, step %d: %v at %g $/h, warm %v; from nothing %g", c.name, k, r.Status, r.Objective, warm, cold.Objective)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A solve that begins at an earlier result and comes to no end does not go on with balances that give: from nothing it does.
func TestNoBalanceGivesBehindAnEarlierResult(t *testing.T) {
	for _, warm := range []bool{true, false} {
		p := bordered(t, "case_ieee30", false)
		defer p.release()
		p.warm, p.sys.opt.MaxIterations = warm, 1
		s := &Solver{sys: p.sys}
		if status := s.solveElastic(context.Background(), p, &Result{}, coldStart, finalTolerances); status != IterationLimit || p.elastic == warm {
			t.Errorf("behind an earlier result %v: %v, balances give: %v", warm, status, p.elastic)
		}
	}
}

// With very many set-points a step of a series gives up other sides that gain less than 1e-6 of the cost. Sides that gain more it
// takes, and it survives every outage, after fewer iterations.
func TestStepsOfManySetPointsTakeTheSidesThatPay(t *testing.T) {
	n := networktest.Load(t, "case_ieee30")
	s, err := New(n, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	few, some, setPoints := 0, 0, s.sys.setCount
	var last *Result
	for k, step := range walk(n, 0.89, 0.02, 12, 2) {
		solve := func(count int) *Result {
			s.sys.setCount, step.Start = count, last
			r, err := s.Solve(context.Background(), step)
			if err != nil || r.Status != Secure {
				t.Fatalf("step %d with %d set-points: %v %s", k, count, err, r.Reason)
			}
			return r
		}
		r := solve(setPoints)
		if last != nil {
			kept := solve(maxPivotedSetPoints + 1)
			if few, some = few+kept.Iterations, some+r.Iterations; math.Abs(kept.Objective/r.Objective-1) > 1e-6 {
				t.Errorf("step %d: %.9g $/h where sides that gain little are given up, %.9g with all of them", k, kept.Objective, r.Objective)
			}
			survives(t, s, kept, step.Pd, step.Qd)
		}
		last = r
	}
	if few >= some {
		t.Errorf("%d iterations, %d with all sides tried", few, some)
	}
}
