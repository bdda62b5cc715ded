package secure

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"gonum.org/v1/gonum/mat"
)

// begun is a solve at a share of a network's loads, with the outages of the first round.
func begun(t *testing.T, name string, level float64) (*Solver, *interior, *Result) {
	t.Helper()
	n := networktest.Load(t, name)
	opt := DefaultOptions()
	opt.Threads = 1
	s := require.Get(New(n, opt))(t)
	pd, qd := n.Loads(level)
	plain := make([]acopf.Result, 1)
	require.OK(t, s.plain.Solve(context.Background(), []acopf.Problem{{Pd: pd, Qd: qd}}, plain))
	p, r := &interior{sys: s.sys, threads: 1}, &Result{}
	t.Cleanup(p.release)
	p.states = []*state{s.baseState(Problem{}, pd, qd, &plain[0])}
	if !s.addViolated(context.Background(), p, r) || r.Rounds != 1 || len(p.states) != len(r.Remembered)+1 {
		t.Fatalf("%s: %d outages in round %d", name, len(r.Remembered), r.Rounds)
	}
	return s, p, r
}

// same says whether two lists of states are at the same point, with the same switching modes.
func same(a, b []*state) bool {
	return slices.EqualFunc(a, b, func(x, y *state) bool {
		return slices.Equal(x.x, y.x) && slices.Equal(x.s, y.s) && slices.Equal(x.z, y.z) && (x.switching == nil) == (y.switching == nil) &&
			(x.switching == nil || slices.Equal(x.switching.active, y.switching.active) && slices.Equal(x.switching.reactive, y.switching.reactive))
	})
}

// A solve that is interrupted anywhere ends with the context's error and claims nothing.
func TestInterruptedAnywhere(t *testing.T) {
	s, _, _ := begun(t, "case_ieee30", 0.9)
	cold := Problem{}
	cold.Pd, cold.Qd = s.net.Loads(0.9)
	warm := Problem{Start: require.Get(s.Solve(context.Background(), cold))(t)}
	warm.Pd, warm.Qd = s.net.Loads(0.905)
	for _, pr := range []Problem{cold, warm} {
		for looks := 0; ; looks += 5 {
			r, err := s.Solve(require.EndAfter(looks), pr)
			if err == nil {
				if looks < 10 || r.Status != Secure {
					t.Errorf("after %d looks: %v %s", looks, r.Status, r.Reason)
				}
				break
			}
			if !errors.Is(err, context.Canceled) || r != nil && r.Status != NotSolved {
				t.Fatalf("after %d looks: %v, %+v", looks, err, r)
			}
		}
	}
}

// Without rounds or iterations left a solve says so, cold and from an earlier result.
func TestEffortOfASolveIsLimited(t *testing.T) {
	s, _, _ := begun(t, "case_ieee30", 0.9)
	ctx := context.Background()
	pr := Problem{}
	pr.Pd, pr.Qd = s.net.Loads(0.9)
	whole := require.Get(s.Solve(ctx, pr))(t)
	if whole.Status != Secure || whole.Rounds != 1 {
		t.Fatalf("%v after %d rounds", whole.Status, whole.Rounds)
	}
	s.sys.opt.Rounds = 0
	if r := require.Get(s.Solve(ctx, pr))(t); r.Status != IterationLimit || r.Rounds != 0 || r.Reason != "after 0 rounds 2 outages still break limits that had not before" || len(r.After) != len(s.outages) {
		t.Errorf("with a round less than it takes: %v after %d: %s", r.Status, r.Rounds, r.Reason)
	}
	s.sys.opt.Rounds = 1
	if r := require.Get(s.Solve(ctx, pr))(t); r.Status != Secure {
		t.Errorf("with the round that it takes: %v: %s", r.Status, r.Reason)
	}
	s.sys.opt.MaxIterations = 1
	for start, round := range map[*Result]string{nil: "1 ", whole: "0 "} {
		pr.Pd, pr.Qd = s.net.Loads(0.95)
		pr.Start = start
		if r := require.Get(s.Solve(ctx, pr))(t); r.Status != IterationLimit || !strings.HasPrefix(r.Reason, "the interior point ended after 1 iterations of round "+round) {
			t.Errorf("with one iteration: %v: %s", r.Status, r.Reason)
		}
	}
}

// Each attempt of a solve that comes to no end leaves the states as they were. The last begins at the modes of the power flows.
func TestAttemptsThatFailAreUndone(t *testing.T) {
	ctx := context.Background()
	s, p, r := begun(t, "case_ieee30", 0.9)
	p.smoothing = wideSmoothing
	p.begin(coldStart)
	before := p.clone()
	ended, stop := context.WithCancel(ctx)
	stop()
	for name, attempt := range map[string]func() Status{
		"cold":   func() Status { return s.solveCold(ended, p, r) },
		"warm":   func() Status { return s.solveWarm(ended, p, r, wideTolerances) },
		"narrow": func() Status { return s.solveNarrow(ended, p, r) },
	} {
		if status := attempt(); status != NotSolved || !same(p.states, before) {
			t.Errorf("%s: %v; the states are as they were: %v", name, status, same(p.states, before))
		}
	}
	if s.addViolated(ended, p, r) || r.Rounds != 1 {
		t.Error("outages are added after the context's end")
	}
	// A later round begins at the narrow optimum of the earlier one; without an end it stands where it was.
	s.solveSmoothed(ctx, p, r)
	narrow := p.clone()
	if len(p.smoothedStates) != len(p.states) || !same(p.smoothedStates, narrow) {
		t.Fatalf("%d smooth states of %d", len(p.smoothedStates), len(p.states))
	}
	for _, st := range p.states {
		for v := range st.x {
			st.x[v] += 0.01
		}
	}
	moved := p.clone()
	if s.solveSmoothed(ended, p, r); !same(p.states, moved) {
		t.Error("an interrupted round does not stand where it was")
	}
	iterations := r.Iterations
	if s.solveSmoothed(ctx, p, r); r.Iterations-iterations > warmIterations || p.smoothing != narrowSmoothing {
		t.Errorf("a later round takes %d iterations", r.Iterations-iterations)
	}
	for k, st := range p.states {
		for v, x := range st.x {
			if !st.dual[v] && math.Abs(x-narrow[k].x[v]) > 1e-3 {
				t.Fatalf("state %d, variable %d is %g, at the optimum before %g", k, v, x, narrow[k].x[v])
			}
		}
	}
	// With one iteration each: a warm solve tries its modes, the smoothing and the modes of the power flows.
	s, p, r = begun(t, "case_ieee30", 0.9)
	s.sys.opt.MaxIterations, p.warm, p.unsolvedOutage = 1, true, false
	if status := s.optimise(ctx, p, r); status != IterationLimit || r.Iterations != 3 || slices.ContainsFunc(p.states[1:], func(st *state) bool { return st.switching == nil }) {
		t.Errorf("%v after %d iterations", status, r.Iterations)
	}
}

// An optimum with slacks stands where the one at a higher penalty is not reached.
func TestAnOptimumStandsWhereAHigherPenaltyFails(t *testing.T) {
	s, p, r := begun(t, "case9", 1.3)
	s.solveSmoothed(context.Background(), p, r)
	for _, st := range p.states[1:] {
		st.setSwitching(st.modes())
	}
	p.trace = func(Iterate) { s.sys.opt.MaxIterations = 1 } // of the solves after this one
	if status := s.solveModes(context.Background(), p, r, resumedStart); status != converged || len(p.relaxations()) == 0 {
		t.Fatalf("%v with %d relaxations", status, len(p.relaxations()))
	}
	if m := p.norms(); m.mismatch > feasibility || m.gradient > optimality*(1+m.multiplier) || p.gap() > optimality*(1+p.objective()) {
		t.Errorf("the states are at %+v", m)
	}
	if k := r.KKT; !(k.Max() <= conditionLimit) {
		t.Errorf("the conditions are those of another solve: %+v", k)
	}
}

// Other modes are taken where an optimum of theirs costs less; else the states and the conditions are those before, and what promised
// less is not tried again.
func TestModesThatCostLessAreTaken(t *testing.T) {
	ctx := context.Background()
	s, p, r := begun(t, "case_ieee30", 0.95)
	if status := s.optimise(ctx, p, r); status != converged {
		t.Fatal(status)
	}
	optimum, f, kkt, most := p.clone(), p.objective(), r.KKT, s.sys.opt.MaxIterations
	for name, c := range map[string]struct {
		iterations, most int
		ctx              context.Context
		status           Status
		improves         bool
	}{"no effort left": {1001, 200, ctx, converged, false}, "interrupted": {0, 200, require.EndAfter(3), NotSolved, false}, "no end": {0, 8, ctx, converged, false}, "the last effort": {1000, 200, ctx, converged, true}, "": {0, 200, ctx, converged, true}} {
		for k, st := range optimum {
			*p.states[k] = *st.clone()
		}
		p.evaluate()
		p.elastic, r.KKT, r.Iterations, s.sys.opt.MaxIterations = false, kkt, c.iterations, c.most
		improved, status := s.improveModes(c.ctx, p, r)
		if status != c.status || improved != c.improves || (r.Iterations > c.iterations) == (name == "no effort left") {
			t.Errorf("%s: %v, improved %v, %d iterations", name, status, improved, r.Iterations-c.iterations)
		}
		if status == NotSolved {
			continue
		}
		if got := p.objective(); improved != (got < f*(1-1e-9)) || !improved && (!same(p.states, optimum) || r.KKT != kkt) || !(p.norms().mismatch < 1e-8 && r.KKT.Max() < conditionLimit) {
			t.Errorf("%s: %g, before %g, conditions %+v", name, got, f, r.KKT)
		}
		count := 0
		for _, st := range p.states[1:] {
			count += len(st.reducedCosts(p.reducedCostThreshold(f)))
		}
		if (count > 0) != strings.Contains(name, "effort") {
			t.Errorf("%s: %d modes still promise less", name, count)
		}
	}
	for _, st := range optimum[1:] { // other results keep their own
		if len(st.switching.fruitless) > 0 {
			t.Error("an earlier copy has fruitless switches")
		}
	}
	s.sys.opt.MaxIterations = most
}

// A try of other modes ends where its objective cannot come below the ceiling, and at the optimum where it can.
func TestATryEndsAboveItsCeiling(t *testing.T) {
	s, p, r := begun(t, "case_ieee30", 0.9)
	if status := s.optimise(context.Background(), p, r); status != converged {
		t.Fatal(status)
	}
	f := p.objective()
	for ceiling, want := range map[float64]Status{0: converged, 0.99 * f: Insecure, 1.01 * f: converged} {
		p.ceiling = ceiling
		p.begin(warmStart)
		if got := p.run(context.Background(), 50, finalTolerances); got != want || math.Abs(p.objective()/f-1) > 1e-4 {
			t.Errorf("under %g: %v at %g, the optimum is %g", ceiling, got, p.objective(), f)
		}
	}
	// Where no gradient is small enough it goes on at the least barrier, and stands after nine more iterates near the optimum.
	setPoints := p.sys.setCount
	for _, gap := range []float64{1e-8, 1e-12} {
		for _, count := range []int{setPoints, maxPivotedSetPoints + 1} {
			p.ceiling, p.sys.setCount = 0, count
			goal := finalTolerances
			goal.gap, goal.gradient, goal.shiftedGradient = gap, -1, -1
			p.begin(warmStart)
			near := 0
			p.trace = func(it Iterate) {
				if it.KKT.Max() <= 1e-6 || near > 0 {
					near++
				}
			}
			got := p.run(context.Background(), 50, goal)
			want := 0.1 * min(goal.gap*(1+f), 1e-6)
			if count > setPoints {
				want = 0.5 * min(goal.gap*(1+f), 1e-6*(1+p.norms().x))
			}
			if got != converged || near != 10 || math.Abs(p.gap()/want-1) > 1e-3 {
				t.Errorf("%d set-points, gap %g: %v after %d iterates near the optimum, gap %g, want %g", count, gap, got, near, p.gap(), want)
			}
		}
	}
	p.trace, p.sys.setCount = nil, setPoints
	p.begin(warmStart) // a shift that is too large ends it as well
	for _, c := range []struct {
		most float64
		want Status
	}{{1e-12, IterationLimit}, {1e-11, converged}} {
		goal := narrowTolerances
		goal.maxShift = c.most
		goal.gap = 1e-9
		if got := p.run(context.Background(), 50, goal); got != c.want || c.want == IterationLimit && p.iterations != 1 {
			t.Errorf("shifts up to %g: %v after %d iterations", c.most, got, p.iterations)
		}
	}
	// Without an inertia there is no direction.
	p.begin(warmStart)
	p.states[1].pd = slices.Clone(p.states[1].pd)
	base := p.states[0]
	for v, dual := range base.dual {
		if !dual {
			base.values[base.diagonal[v]] = math.NaN()
		}
	}
	if got := p.run(context.Background(), 50, finalTolerances); got != Numerical || p.iterations != 1 {
		t.Errorf("without an inertia: %v after %d iterations", got, p.iterations)
	}
}

// Five matrices that are mostly shift end a run with hard balances; with elastic ones it goes on.
func TestShiftsWithoutHope(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		p := bordered(t, "case9", elastic)
		for g := range p.sys.net.Cost {
			p.sys.net.Cost[g] = network.Cost{Polynomial: []float64{0, 0, -1e8}}
		}
		p.states[0].weight = weights{cost: 1}
		p.evaluate()
		p.trace = func(it Iterate) {
			if it.Iteration > 0 && it.Shift < 1e5 {
				t.Errorf("elastic %v: a shift of %g", elastic, it.Shift)
			}
		}
		if got := p.run(context.Background(), 7, finalTolerances); got != IterationLimit || p.iterations != map[bool]int{false: 5, true: 7}[elastic] {
			t.Errorf("elastic %v: %v after %d iterations", elastic, got, p.iterations)
		}
	}
}

// convex evaluates the states nearly without multipliers, and adds to the variables' diagonals: the inertia is right.
func (p *interior) convex() {
	for _, st := range p.states {
		for v, dual := range st.dual {
			if dual {
				st.x[v] = 0
			}
		}
		for i := range st.z {
			st.z[i] = 1e-3
		}
	}
	p.evaluate()
	for k := range p.states {
		p.addToDiagonal(k, 0.01)
	}
}

// addToDiagonal adds to the diagonals of a state's variables, except the border's.
func (p *interior) addToDiagonal(k int, x float64) {
	st := p.states[k]
	for v, dual := range st.dual {
		if !dual && !st.omit[v] && (k == 0 || !slices.Contains(st.setPoints, v)) {
			st.values[st.diagonal[v]] += x
		}
	}
}

// A shift is 1e-12 where that gives the inertia; else from 1e-4, or a third of the last one, eight times as much until it does.
func TestShiftsGiveTheInertia(t *testing.T) {
	for _, curvature := range []float64{0, 3, 2000} {
		p := bordered(t, "case9", false)
		indefinite := func() { p.convex(); p.addToDiagonal(0, -curvature) }
		negative := func(less float64) (count, want int) {
			a, place := p.whole()
			for k, st := range p.states {
				for v, at := range place[k] {
					if at >= 0 && st.dual[v] {
						want++
					} else if at >= 0 && (k == 0 || !slices.Contains(st.setPoints, v)) {
						a.SetSym(at, at, a.At(at, at)-less)
					}
				}
			}
			var eigen mat.EigenSym
			if !eigen.Factorize(a, false) {
				t.Fatal("no eigenvalues")
			}
			for _, v := range eigen.Values(nil) {
				if v < 0 {
					count++
				}
			}
			return count, want
		}
		for _, c := range []struct {
			last    float64
			shifted bool
			first   []float64
		}{{0, false, []float64{1e-12, 1e-4}}, {3e-3, false, []float64{1e-12, 1e-3}}, {3e-7, false, []float64{1e-12, 1e-6}}, {3e-3, true, []float64{1e-3}}, {2.9e-6, true, []float64{1e-12, 1e-6}}} {
			indefinite()
			p.lastShift, p.shifted = c.last, c.shifted
			if !p.factorise() {
				t.Fatalf("curvature %g: no shift gives the inertia", curvature)
			}
			got, want := negative(0)
			k := slices.IndexFunc(c.first, func(first float64) bool {
				steps := math.Log2(p.shift/first) / 3
				return steps > -1e-9 && math.Abs(steps-math.Round(steps)) < 1e-9
			})
			small := p.shift == c.first[0]
			if got != want || k < 0 || len(c.first) == 2 && k == 0 && !small || p.shifted != (p.shift > 1e-12) || p.shifted && p.lastShift != p.shift || !p.shifted && p.lastShift != c.last || (curvature == 0) != small {
				t.Errorf("curvature %g, %+v: shift %g, %d negative of %d, last %g", curvature, c, p.shift, got, want, p.lastShift)
			}
			before := p.shift * 7 / 8
			if p.shift == c.first[len(c.first)-1] && len(c.first) == 2 {
				before = p.shift - 1e-12
			}
			if got, want := negative(before); !small && got == want {
				t.Errorf("curvature %g, %+v: a shift less than %g is enough", curvature, c, p.shift)
			}
		}
	}
}

// An equation without entries takes a shift of the multipliers, and of the variables a third of the last one.
func TestShiftOfMultipliers(t *testing.T) {
	for _, c := range []struct{ diagonal, last, shift float64 }{{0, 0, 1e-12}, {0, 3e-3, 1e-3}} {
		p := bordered(t, "case9", false)
		p.states = p.states[:1]
		p.convex()
		p.addToDiagonal(0, 1)
		p.lastShift, p.shifted = c.last, false
		st := p.states[0]
		row := int32(st.bus[4] + activeDualOffset)
		for e := range st.row {
			if st.row[e] == row || st.col[e] == row {
				st.values[e] = 0
			}
		}
		st.values[st.diagonal[row]] = c.diagonal
		if !p.factorise() || p.shift != c.shift || math.Abs(st.values[st.diagonal[row]]-c.diagonal+1e-8) > 1e-18 {
			t.Errorf("%+v: shift %g, the diagonal is %g", c, p.shift, st.values[st.diagonal[row]])
		}
	}
}
