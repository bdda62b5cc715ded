package ocp

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// terminalCostAt is V of a solver at a state and context, with the terminal cost itself.
func terminalCostAt(t *testing.T, s *Solver, state, c []float64, pref domain.Preference) (float64, *terminalCost) {
	t.Helper()
	l := s.terminalCosts.forContext(c, pref)
	if l == nil {
		t.Fatal("no place to rest")
	}
	return s.TerminalCost(state, c, pref), l
}

// long is the least cost of many steps without a terminal cost.
func long(t *testing.T, s *Solver, steps int, state, c []float64, pref domain.Preference) float64 {
	t.Helper()
	plain := *s
	plain.terminalCosts, plain.opt.TerminalCost = nil, false
	best, err := plain.Minimise(state, c, steps, pref, domain.WeightedSum, 1)
	if err != nil {
		t.Fatal(err)
	}
	return best.Cost
}

// The regulator's cost-to-go is what a horizon of hundreds of steps costs: of a linear system with quadratic costs
// exactly.
func TestTerminalCostIsALongHorizonOfALinearSystem(t *testing.T) {
	s := newCart(cart{force: 1e3, speed: 1e3, steps: 20}, Options{TerminalCost: true, Horizon: 20, Keep: 1, Tolerance: 1e-9})
	pref := domain.Preference{W: []float64{0.6, 0.4}}
	for _, state := range [][]float64{{1, 0}, {0, -1}, {-0.7, 0.4}} {
		v, l := terminalCostAt(t, s, state, nil, pref)
		want := long(t, s, 300, state, nil, pref)
		if math.Abs(v-want) > 1e-6*want || math.Abs(l.cost) > 1e-12 {
			t.Errorf("from %v: V is %v, 300 steps cost %v; resting costs %v a step", state, v, want, l.cost)
		}
		// So a horizon of three steps decides as one of 300 does.
		best, err := s.Minimise(state, nil, 3, pref, domain.WeightedSum, 1)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(best.Cost-want) > 1e-6*want || best.TerminalCost <= 0 {
			t.Errorf("from %v: 3 steps and V cost %v, of it V %v; 300 steps cost %v", state, best.Cost, best.TerminalCost, want)
		}
	}
}

// Of a nonlinear system whose steady state has a cost, and whose context remembers the action, V is right to second
// order: at half the distance from the steady state its error is an eighth.
func TestTerminalCostIsRightToSecondOrder(t *testing.T) {
	s, err := New(dualTanks{}, []domain.Variable{{Name: "h1", Lo: 0.1, Hi: 0.9}}, func(p, s, c []float64) {
		s[0], s[1] = p[0], 0.4
		c[0], c[1], c[2] = 0.5, 0.4, 0.1
	}, Options{TerminalCost: true, Horizon: 30, Keep: 1, Tolerance: 1e-8, Iterations: 400})
	if err != nil {
		t.Fatal(err)
	}
	for name, pref := range map[string]domain.Preference{"fixed": {W: []float64{0.8, 0.2}}, "adaptive": {Adaptive: true}} {
		c := []float64{0.5, 0, 0}
		_, l := terminalCostAt(t, s, []float64{0.4, 0.4}, c, pref)
		if l.cost < 1e-4 {
			t.Fatalf("%s: resting at %v costs %v a step: this test is of one that costs something", name, l.At, l.cost)
		}
		at := func(by float64) (state, context []float64) {
			return []float64{l.At[0] + 0.1*by, l.At[1] - 0.06*by}, []float64{0.5, l.At[3] + 0.05*by, l.At[4] - 0.05*by}
		}
		restS, restC := at(0)
		base := long(t, s, 200, restS, restC, pref)
		var errs [2]float64
		for k, by := range []float64{1, 0.5} {
			state, context := at(by)
			v, _ := terminalCostAt(t, s, state, context, pref)
			want := long(t, s, 200, state, context, pref) - base
			errs[k] = math.Abs(v - want)
			if errs[k] > 0.1*math.Abs(want) {
				t.Errorf("%s: %v of the way off V is %v, 200 steps cost %v more than resting", name, by, v, want)
			}
		}
		if errs[1] > errs[0]/5 && errs[0] > 1e-6 {
			t.Errorf("%s: V errs by %v, half as far off by %v: want about an eighth", name, errs[0], errs[1])
		}
	}
}

// leaking is a level that leaks, and costs what is pumped; below 1 it must not be.
func leaking() *functions {
	return newFunctions(1, 0, 1, []domain.Variable{{Name: "u", Lo: 0, Hi: 1}},
		func(s, _, u, sn, _ []float64) { sn[0] = 0.9*s[0] + u[0] },
		func(_, u, _, j []float64) { j[0] = u[0] * u[0] },
		func(s, _, u, m []float64) { m[0] = 0.9*s[0] + u[0] - 1 })
}

// Where the optimal steady state lies at a limit, V has the slope of the limit's multiplier.
func TestTerminalCostAtALimit(t *testing.T) {
	s, err := New(leaking(), []domain.Variable{{Lo: 1, Hi: 2}}, func(p, s, _ []float64) { s[0] = p[0] }, Options{TerminalCost: true, Horizon: 20, Keep: 1, Tolerance: 1e-8})
	if err != nil {
		t.Fatal(err)
	}
	pref := domain.Preference{W: []float64{1}}
	v, l := terminalCostAt(t, s, []float64{1.01}, nil, pref)
	if math.Abs(l.At[0]-1) > 1e-4 || math.Abs(l.action[0]-0.1) > 1e-4 {
		t.Fatalf("it rests at %v by %v, want 1 by 0.1", l.At, l.action)
	}
	want := long(t, s, 100, []float64{1.01}, nil, pref) - long(t, s, 100, []float64{1}, nil, pref)
	if want >= 0 || math.Abs(v-want) > 0.1*math.Abs(want) {
		t.Errorf("0.01 above the limit V is %v, 100 steps cost %v more", v, want)
	}
}

// A context that changes by itself has no steady state, so there is no terminal cost.
func TestNoTerminalCostWithoutASteadyState(t *testing.T) {
	p := newFunctions(1, 1, 0, []domain.Variable{{Name: "u", Lo: -1, Hi: 1}},
		func(s, c, u, sn, cn []float64) { sn[0], cn[0] = 0.9*s[0]+u[0], c[0]+0.1 },
		func(s, u, c, j []float64) { j[0] = (s[0]-math.Sin(c[0]))*(s[0]-math.Sin(c[0])) + u[0]*u[0] },
		func(_, _, _, _ []float64) {})
	s, err := New(p, []domain.Variable{{Lo: -1, Hi: 1}}, func(p, s, _ []float64) { s[0] = p[0] }, Options{TerminalCost: true, Horizon: 20, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	best, err := s.Minimise([]float64{0.5}, []float64{0}, 20, domain.Preference{W: []float64{1}}, domain.WeightedSum, 1)
	if err != nil || best.TerminalCost != 0 {
		t.Errorf("behind the horizon are %v, %v: want nothing, and no error", best.TerminalCost, err)
	}
}

// recede drives a loop by the first action of each plan and returns what it costs.
func recede(t *testing.T, s *Solver, horizon, steps int, state, c []float64, pref domain.Preference) float64 {
	t.Helper()
	h, p := s.NewHorizon(0), s.problem
	nu := p.Spec().ActionSize()
	state, c = append([]float64(nil), state...), append([]float64(nil), c...)
	nextS, nextC, j, plan := make([]float64, len(state)), make([]float64, len(c)), make([]float64, p.Spec().ObjectiveSize()), make([]float64, horizon*nu)
	sum := 0.0
	for range steps {
		if _, solved, err := h.Solve(state, c, pref, plan); err != nil || !solved {
			t.Fatalf("a decision is not solved: %v", err)
		}
		p.Objectives(state, plan[:nu], c, j)
		for i, v := range j {
			sum += pref.W[i] * v
		}
		p.Step(state, c, plan[:nu], nextS, nextC)
		copy(state, nextS)
		copy(c, nextC)
	}
	return sum
}

// With the terminal cost, a loop that looks ten steps ahead costs over a hundred steps as much as their optimum. Without
// it, the loop costs more.
func TestRecedingLoopOfAPlantThatRunsOn(t *testing.T) {
	build := func(terminal bool) *Solver {
		s, err := New(dualTanks{}, []domain.Variable{{Name: "h1", Lo: 0.1, Hi: 0.9}}, func(p, s, c []float64) { s[0] = p[0] },
			Options{TerminalCost: terminal, Horizon: 10, Keep: 1, Tolerance: 1e-7})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	state, c, pref := []float64{0.2, 0.7}, []float64{0.45, 0.3, 0.1}, domain.Preference{W: []float64{0.9, 0.1}}
	terminal, plain := build(true), build(false)
	best, _, err := terminal.Oracle(t.Context(), state, c, 100, pref)
	if err != nil {
		t.Fatal(err)
	}
	with, without := recede(t, terminal, 10, 100, state, c, pref)/best-1, recede(t, plain, 10, 100, state, c, pref)/best-1
	t.Logf("above the optimum of 100 steps: %.4f %% with the terminal cost after 10, %.4f %% without", 100*with, 100*without)
	if with > 0.002 || with < -0.002 || without < 2*math.Abs(with) {
		t.Errorf("the loop costs %v above the optimum with the terminal cost, %v without", with, without)
	}
}

// A store buys at a price that swings for ever, so that it never comes to the steady state of its terminal cost. A reference
// of three days costs what three days of thirteen do, and so does a loop that looks two days ahead.
func TestAReferenceLooksBeyondItsLastDecision(t *testing.T) {
	sin, cos := math.Sincos(2 * math.Pi / 24)
	p := newFunctions(3, 0, 2, []domain.Variable{{Name: "buy", Lo: 0, Hi: 4}},
		func(s, _, u, sn, _ []float64) {
			sn[0], sn[1], sn[2] = 0.99*s[0]+u[0]-1, cos*s[1]-sin*s[2], sin*s[1]+cos*s[2]
		},
		func(s, u, _, j []float64) { j[0] = 2 + (0.4+s[1])*u[0] + 0.02*u[0]*u[0] },
		func(s, _, u, m []float64) { m[0], m[1] = 10.5-0.99*s[0]-u[0], 0.99*s[0]+u[0]-1.5 })
	s := p.solver(t, Options{TerminalCost: true, Horizon: 48, Keep: 1})
	p.spec.Horizon = 48
	state := []float64{7, 0.1, 0.2}
	got, plan, err := s.Oracle(t.Context(), state, nil, 72, only)
	want := require.Get(s.Minimise(state, nil, 300, only, domain.WeightedSum, 1))(t).stageCost(72)
	loop := recede(t, s, 48, 72, state, nil, only)
	if err != nil || len(plan) != 72 || math.Abs(got-want) > 1e-5*want || math.Abs(loop-want) > 1e-5*want {
		t.Errorf("72 decisions cost %v, %v in a loop, and %v of 300; %v", got, loop, want, err)
	}
}

// Where a context's entry has a range, one search from the steady state of its cell's centre finds the steady state that
// all searches find. So it does for a context at a centre or outside the range.
func TestTerminalCostFromTheCentreOfACell(t *testing.T) {
	// A tank that should be as full as the context says, which also remembers what was pumped.
	p := newFunctions(1, 2, 1, []domain.Variable{{Name: "u", Lo: 0, Hi: 1}},
		func(s, c, u, sn, cn []float64) {
			sn[0] = s[0] + 0.25*u[0] - 0.15*s[0]/math.Sqrt(math.Sqrt(s[0]*s[0]+1e-2))
			cn[0], cn[1] = c[0], u[0]
		},
		func(s, u, c, j []float64) {
			j[0] = (s[0]-c[0])*(s[0]-c[0]) + 0.05*u[0]*u[0] + (u[0]-c[1])*(u[0]-c[1])
		},
		func(s, _, _, m []float64) { m[0] = 1 - s[0] })
	p.spec.Context[0].Lo, p.spec.Context[0].Hi = 0.2, 0.84
	s, err := New(p, []domain.Variable{{Name: "h", Lo: 0.1, Hi: 0.9}}, func(p, s, _ []float64) { s[0] = p[0] }, Options{TerminalCost: true, Horizon: 10, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, pref := range map[string]domain.Preference{"fixed": {W: []float64{1}}, "adaptive": {Adaptive: true}} {
		for _, reference := range []float64{0.16, 0.21, 0.24, 0.5, 0.53, 0.6, 0.87} {
			c := []float64{reference, 0}
			got := s.terminalCosts.forContext(c, pref)
			rest := newSteadyStateSolver(p, s.terminalCosts.scale, s.terminalCosts.start, c)
			want := rest.solve(c, pref)
			if got == nil || want == nil {
				t.Fatalf("%s, %v: found %v, by all searches %v", name, reference, got, want)
			}
			if near := rest.warmSolve(c, pref, s.terminalCosts.forContext(rest.cellCentre(c), pref)); near == nil {
				t.Errorf("%s, %v: nothing is found from the middle of the cell", name, reference)
			}
			for what, of := range map[string][2][]float64{
				"place": {got.At, want.At}, "action": {got.action, want.action}, "gradient": {got.Slope, want.Slope}, "P": {got.Curvature, want.Curvature}, "gains": {got.gains, want.gains},
			} {
				for i, v := range of[1] {
					if math.Abs(of[0][i]-v) > 1e-5*(1+math.Abs(v)) {
						t.Errorf("%s, %v: entry %d of the %s is %v, by all searches %v", name, reference, i, what, of[0][i], v)
					}
				}
			}
		}
	}
}

// mirrored is a tank that drains into another, of which the second has a level to keep. The outflow is a root smoothed by an
// even function, so that −h drains as h does; h counts a little, so that the mirror image of a steady state is cheaper.
func mirrored() *functions {
	p := newFunctions(2, 1, 0, []domain.Variable{{Name: "u", Lo: 0, Hi: 1}},
		func(s, c, u, sn, cn []float64) {
			out := func(h float64) float64 { return 0.3 * math.Sqrt(math.Sqrt(h*h+1e-4)) }
			sn[0], sn[1], cn[0] = s[0]+0.5*(0.5*u[0]-out(s[0])), s[1]+0.5*(out(s[0])-out(s[1])), c[0]
		},
		func(s, u, c, j []float64) {
			j[0] = (s[1]-c[0])*(s[1]-c[0]) + 0.01*(u[0]-0.4)*(u[0]-0.4) + 1e-6*s[0]
		}, nil)
	p.spec.Measured = []domain.Variable{{Name: "h1", Lo: 0.1, Hi: 1.5}, {Name: "h2", Lo: 0.1, Hi: 1.5}}
	return p
}

// A steady state inside the declared ranges is preferred to its mirror image, which costs less.
func TestSteadyStateInsideTheRanges(t *testing.T) {
	s := mirrored().solver(t, Options{TerminalCost: true, Horizon: 10, Keep: 1})
	for _, reference := range []float64{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} {
		l := s.terminalCosts.forContext([]float64{reference}, only)
		if l == nil || l.excess > 0 || math.Abs(l.At[1]-reference) > 0.1 {
			t.Errorf("reference %v: %+v", reference, l)
		}
	}
}

// A warm search takes whole steps also where margins curve.
func TestWarmSearchTakesWholeSteps(t *testing.T) {
	p := newFunctions(2, 2, 1, []domain.Variable{{Name: "u1", Lo: -28, Hi: 28}, {Name: "u2", Lo: -28, Hi: 28}},
		func(s, c, u, sn, cn []float64) {
			sn[0], sn[1] = s[0]+5e-4*(u[0]-0.5*s[0]), s[1]+5e-4*(u[1]-0.5*s[1])
			copy(cn, c)
		},
		func(s, u, c, j []float64) {
			j[0] = (s[0]-c[0])*(s[0]-c[0]) + (s[1]-c[1])*(s[1]-c[1]) + 1e-3*(u[0]*u[0]+u[1]*u[1])
		},
		func(_, _, u, m []float64) { m[0] = 768 - u[0]*u[0] - u[1]*u[1] })
	for i := range 2 {
		p.spec.Measured[i].Lo, p.spec.Measured[i].Hi = -20, 20
		p.spec.Context[i].Lo, p.spec.Context[i].Hi = -12, 12
	}
	s := p.solver(t, Options{TerminalCost: true, Horizon: 10, Keep: 1})
	costs := s.terminalCosts
	costs.forContext([]float64{3, 6}, only)
	centre := costs.forContext(costs.steady.cellCentre([]float64{3, 6}), only)
	before := costs.steady.q.evaluations
	if costs.steady.warmSolve([]float64{3, 6}, only, centre) == nil || costs.steady.q.evaluations-before > 160 {
		t.Errorf("a search from the centre of the cell evaluates %d points", costs.steady.q.evaluations-before)
	}
}

// The cost-to-go of a system that forgets slowly is its limit, which hundreds of thousands of steps of the recursion would
// take.
func TestCostToGoOfASlowSystem(t *testing.T) {
	const a, b, q, r = 0.99999, 1e-3, 1.0, 1e5
	p := newFunctions(1, 0, 0, []domain.Variable{{Name: "u"}},
		func(s, _, u, sn, _ []float64) { sn[0] = a*s[0] + b*u[0] },
		func(s, u, _, j []float64) { j[0] = q*s[0]*s[0] + r*u[0]*u[0] }, nil)
	l := p.solver(t, Options{TerminalCost: true, Horizon: 10, Keep: 1}).terminalCosts.forContext(nil, only)
	// p = q + a²p − (abp)²/(r + b²p), of V = p x².
	linear := r*(1-a*a) - b*b*q
	want := (-linear + math.Sqrt(linear*linear+4*b*b*q*r)) / (2 * b * b)
	if l == nil || l.gains == nil || math.Abs(l.Curvature[0]/2-want) > 1e-5*want {
		t.Errorf("P is %+v, want %v", l, 2*want)
	}
}

// A state at the rim of its range counts as one inside: where it is far cheaper, a plant rests there.
func TestSteadyStateAtTheRimOfARange(t *testing.T) {
	p := newFunctions(1, 0, 0, []domain.Variable{{Name: "u", Lo: -1, Hi: 1}},
		func(s, _, u, sn, _ []float64) { sn[0] = s[0] + u[0] },
		func(s, u, _, j []float64) {
			x := s[0] + 0.03
			j[0] = 100*x*x*(s[0]-0.7)*(s[0]-0.7) + x*x + u[0]*u[0]
		},
		func(_, _, _, _ []float64) {})
	p.spec.Measured[0].Lo, p.spec.Measured[0].Hi = 0, 1
	l := p.solver(t, Options{TerminalCost: true, Horizon: 10, Keep: 1}).terminalCosts.forContext(nil, only)
	if l == nil || math.Abs(l.At[0]+0.03) > 1e-4 {
		t.Errorf("it rests at %+v", l)
	}
}

// A steady state is a minimum where the Hessian is positive definite along the equation alone, however large it is off it, and
// in whatever units the objective is.
func TestConvexityIsAlongTheEquations(t *testing.T) {
	for _, c := range []struct {
		h        [3]float64 // xx, xy, yy
		equation [2]float64
		want     bool
	}{
		{[3]float64{1, 0, 2}, [2]float64{0, 1}, true},
		{[3]float64{1, 0, -2}, [2]float64{0, 1}, true},
		{[3]float64{1, 0, -2}, [2]float64{1, 0}, false},
		{[3]float64{1, 0, -1e6}, [2]float64{0, 1}, true},
		{[3]float64{-2, 0, 1}, [2]float64{1, 0}, true},
		{[3]float64{-2, 0, 1}, [2]float64{0, 1}, false},
		{[3]float64{0, 3, 0}, [2]float64{1, -1}, true}, // 2 x y along x = y
		{[3]float64{0, 3, 0}, [2]float64{1, 1}, false},
	} {
		for _, scale := range []float64{1, 1e3, 1e6, 1e9} {
			const n, k = 2, 3
			r := &steadyStateSolver{q: &program{next: []float64{1 + c.equation[0], c.equation[1]}}, n: n, m: 1, kkt: make([]float64, k*k)}
			r.kkt[0], r.kkt[k], r.kkt[k+1] = scale*c.h[0], scale*c.h[1], scale*c.h[2]
			if got := r.isConvex(n, k); got != c.want && (scale == 1 || c.h[1] == 0) {
				t.Errorf("Hessian %v times %g along %v: %v", c.h, scale, c.equation, got)
			}
		}
	}
}

// A linear system is solved where it has a solution, however badly it is conditioned, and refused where it is singular or no numbers.
func TestLinearSystemsAreSolvedOrRefused(t *testing.T) {
	for _, c := range []struct {
		a    []float64
		want bool
	}{{[]float64{2, 1, 1, 3}, true}, {[]float64{1, 1, 1, 1 + 1e-15}, true}, {[]float64{1e-200, 0, 0, 1}, true}, {[]float64{1, 2, 2, 4}, false}, {[]float64{0, 0, 0, 0}, false}, {[]float64{math.NaN(), 0, 0, 1}, false}} {
		x := [2]float64{3, -2}
		b := []float64{c.a[0]*x[0] + c.a[1]*x[1], c.a[2]*x[0] + c.a[3]*x[1]}
		if got := solveLinear(slices.Clone(c.a), b, 2); got != c.want || got && (math.Abs(b[0]-x[0]) > 1 || math.Abs(b[1]-x[1]) > 1) {
			t.Errorf("%v: %v, %v", c.a, got, b)
		}
	}
}

// The waves that starts are made of are level within three fifths of the range, and have the stated amplitudes and every phase.
func TestWavesOfStarts(t *testing.T) {
	lo, hi, squares, n := [4]float64{9, 9, 9, 9}, [4]float64{-9, -9, -9, -9}, [4]float64{}, 0
	for k := range 400 {
		for _, w := range waves(3, k, 2) {
			for i, v := range w {
				lo[i], hi[i], squares[i] = min(lo[i], v), max(hi[i], v), squares[i]+v*v
			}
			n++
		}
	}
	if lo[0] < -0.6 || lo[0] > -0.58 || hi[0] > 0.6 || hi[0] < 0.58 || lo[3] < 0 || lo[3] > 0.05 || hi[3] > 2*math.Pi || hi[3] < 6.2 {
		t.Errorf("from %v to %v", lo, hi)
	}
	for i := 1; i < 3; i++ {
		if rms := math.Sqrt(squares[i] / float64(n)); math.Abs(rms-0.4) > 0.04 {
			t.Errorf("amplitude %d is %g, want 0.4", i, rms)
		}
	}
}

// A signal that is known ahead moves along a plan. Its terminal cost is that of the signal's last value, in decisions as in searches.
func TestTerminalCostOfASignalThatIsKnownAhead(t *testing.T) {
	p := newFunctions(1, 3, 1, []domain.Variable{{Name: "u", Lo: 0, Hi: 1}},
		func(s, c, u, sn, cn []float64) { sn[0], cn[0], cn[1], cn[2] = 0.9*s[0]+u[0], c[1], c[2], c[2] },
		func(s, u, c, j []float64) { j[0] = (0.5+c[0])*u[0]*u[0] + (s[0]-3)*(s[0]-3) },
		func(_, _, _, m []float64) { m[0] = 1 })
	s := p.solver(t, Options{TerminalCost: true, Horizon: 10, Keep: 1, Tolerance: 1e-8})
	state, c := []float64{1}, []float64{0.1, 1, 2}
	best := require.Get(s.Minimise(state, c, 10, only, domain.WeightedSum, 1))(t)
	plan, ok := s.PlanTerminalCost(state, c, 10, only)
	if v := plan.Value(best.S[10], best.C[10]); !ok || best.TerminalCost == 0 || math.Abs(v-best.TerminalCost) > 1e-12 {
		t.Errorf("the plan's end costs %v, %v by search", best.TerminalCost, v)
	}
	settled := s.TerminalCost(best.S[10], []float64{2, 2, 2}, only)
	if math.Abs(best.TerminalCost-settled) > 1e-12 {
		t.Errorf("the plan's end costs %v, that of the last value %v", best.TerminalCost, settled)
	}
	if got := require.Get(require.Get(s.Receding(0, 0))(t).Solve(state, c, 10, only))(t).TerminalCost; math.Abs(got-best.TerminalCost) > 1e-6 {
		t.Errorf("a decision's end costs %v, want %v", got, best.TerminalCost)
	}
	// Where the signal still changes at the end there is none.
	if best := require.Get(s.Minimise(state, c, 1, only, domain.WeightedSum, 1))(t); best.TerminalCost != 0 {
		t.Errorf("behind one step are %v, want nothing", best.TerminalCost)
	}
}
