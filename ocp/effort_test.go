package ocp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// Newton's method takes few iterations, from its own starts and from plans, with whatever derivatives and objective. These are means, from
// which a solve with a wrong slope, curvature or multiplier is far away.
func TestSolvesTakeFewIterations(t *testing.T) {
	mean := func(s *Solver, solve func()) float64 {
		before := s.Counts()
		solve()
		after := s.Counts()
		return float64(after.Iterations-before.Iterations) / float64(after.Starts-before.Starts)
	}
	fixed, adaptive := domain.Preference{W: []float64{0.7, 0.3}}, domain.Preference{Adaptive: true}
	for _, c := range []struct {
		name string
		s    *Solver
		pref domain.Preference
		how  domain.Scalarization
		most float64
	}{
		{"tanks", newTanks(Options{Horizon: 12}), fixed, "", 7.5},
		{"tanks, adaptive", newTanks(Options{Horizon: 12}), adaptive, "", 8.1},
		{"tanks, Chebyshev", newTanks(Options{Horizon: 12}), fixed, domain.Chebyshev, 66},
		{"tanks, ε-constraint", newTanks(Options{Horizon: 12}), fixed, domain.EpsilonConstraint, 13.2},
		{"tanks, to 1e-9", newTanks(Options{Horizon: 12, Tolerance: 1e-9}), fixed, "", 9.3},
		{"tanks, infinite", newTanks(Options{Horizon: 12, TerminalCost: true}), fixed, "", 7.7},
	} {
		rng := rand.New(rand.NewPCG(9001, 31))
		got := mean(c.s, func() {
			for range 5 {
				s, x := []float64{0.2 + 0.6*rng.Float64(), 0.2 + 0.5*rng.Float64()}, []float64{0.3 + 0.5*rng.Float64(), 0.4, 0.1}
				minimise(t, c.s, s, x, 12, c.pref, c.how)
			}
		})
		if got > c.most {
			t.Errorf("%s: %v iterations a solve", c.name, got)
		}
	}
	pole, rng := newPole(testdomain.Pole{}, Options{}), rand.New(rand.NewPCG(9001, 32))
	if got := mean(pole, func() {
		for range 5 {
			x, c := testdomain.PoleStart(rng)
			minimise(t, pole, x, c, testdomain.PoleSteps, fixed, "")
		}
	}); got > 11 {
		t.Errorf("pole: %v iterations a solve", got)
	}
	for speed, most := range map[float64]float64{0.5: 9.1, 100: 8.3} {
		s := newCart(cart{force: 0.7, speed: speed, steps: 15}, Options{})
		if got := mean(s, func() {
			for _, x := range []float64{-2, -1, 0.5, 2} {
				minimise(t, s, []float64{x, 0}, nil, 15, fixed, "")
			}
		}); got > most {
			t.Errorf("cart of speeds up to %v: %v iterations a solve", speed, got)
		}
	}
}

// searched counts how often a fallback is asked for: once for each start of a search.
type searched struct {
	*functions
	starts *int
}

func (p searched) Fallback(_, _, u []float64) { *p.starts++; clear(u) }

// A search for a steady state has nine starts, and while all that it finds is outside the ranges up to 36.
func TestStartsOfASteadyStateSearch(t *testing.T) {
	for name, c := range map[string]struct {
		step   func(s, c, u, sn, cn []float64)
		starts int
	}{
		"inside":    {func(s, _, u, sn, _ []float64) { sn[0] = 0.5*s[0] + 0.5*(0.5+0.1*u[0]) }, 9},
		"outside":   {func(s, _, u, sn, _ []float64) { sn[0] = 0.5*s[0] + 0.5*(5+u[0]) }, 36},
		"none":      {func(s, _, u, sn, _ []float64) { sn[0] = s[0] + 3 + u[0] }, 9},
		"no number": {func(s, _, u, sn, _ []float64) { sn[0] = math.Sqrt(-1 - u[0]*u[0]) }, 9},
	} {
		p := newFunctions(1, 0, 0, []domain.Variable{{Lo: -1, Hi: 1}}, c.step, func(s, u, _, j []float64) { j[0] = s[0]*s[0] + u[0]*u[0] }, nil)
		p.spec.Measured[0].Lo, p.spec.Measured[0].Hi = 0, 1
		starts := 0
		r := newSteadyStateSolver(searched{p, &starts}, []float64{1}, []float64{7}, nil)
		if r.middle[0] != 0.5 || r.half[0] != 0.5 {
			t.Errorf("%s: the range is %v ± %v", name, r.middle, r.half)
		}
		starts = 0
		if l := r.solve(nil, only); starts != c.starts || (l != nil) != (name == "inside" || name == "outside") {
			t.Errorf("%s: %d starts, %+v", name, starts, l)
		}
	}
	p := newFunctions(1, 0, 0, variablesOf(1), func(s, _, u, sn, _ []float64) { sn[0] = 0.5*s[0] + u[0] }, func(s, u, _, j []float64) { j[0] = u[0] * u[0] }, nil)
	if r := newSteadyStateSolver(p, []float64{3}, []float64{7}, nil); r.middle[0] != 7 || r.half[0] != 3 {
		t.Errorf("without a range: %v ± %v", r.middle, r.half)
	}
}

// A shift is the first of a geometric series that makes a step definite. The series begins at a share of the largest entry, at a third
// of the last shift, or at the least one.
func TestAShiftIsTheLeastOfItsSeries(t *testing.T) {
	p := testPrograms(dualTanks{})["fixed"]
	q := p.q
	q.differentiate(p.cur)
	clear(p.r.P[q.steps*q.nX*q.nX:])
	for _, c := range []struct{ curvature, last, least, first float64 }{{-2, 0, 0, 2e-8}, {-2, 0.6, 0, 0.2}, {-2, 30, 0, 10}, {-0.5, 0, 0, 1e-8}, {-2, 0.6, 0.001, 0.001}, {2, 0.6, 0, 0}, {2, 0, 0.5, 0.5}} {
		clear(p.h)
		for i := range q.steps * q.d {
			p.h[i*q.d+i%q.d] = c.curvature
		}
		p.shift, p.minShift = c.last, c.least
		if !p.factor() || !p.hasFeedback {
			t.Fatalf("%+v: not definite", c)
		}
		k := math.Round(math.Log(p.shift/c.first) / math.Log(8))
		if c.first == 0 && p.shift != 0 || c.first > 0 && math.Abs(p.shift-c.first*math.Pow(8, k)) > 1e-9*p.shift {
			t.Errorf("%+v: the shift is %v", c, p.shift)
		}
		if p.shift > c.first && p.r.factor(p.h, q.next, p.shift/8, 0) {
			t.Errorf("%+v: an eighth of the shift %v will do", c, p.shift)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, at := range []int{0, q.d, len(p.h) - 1} {
			clear(p.h)
			for i := range q.steps * q.d {
				p.h[i*q.d+i%q.d] = 1
			}
			if p.h[at] = v; p.factor() || p.hasFeedback {
				t.Errorf("entry %d is %v, and a step is found", at, v)
			}
		}
	}
}

// The gains of all actions of a plan, in the problem's units, are those that other solves have.
func TestGainsOfSeveralActions(t *testing.T) {
	const steps = 6
	solver := require.Get(New(dualTanks{}, nil, func(_, _, _ []float64) {}, Options{Tolerance: 1e-10, StateScale: []float64{0.5, 2}}))(t)
	pref, state, c := domain.Preference{W: []float64{0.6, 0.4}}, []float64{0.5, 0.4}, []float64{0.6, 0.4, 0.3}
	pinned := slices.Repeat([]float64{math.NaN()}, 2*steps)
	pinned[2] = 0.45 // the first pump of the second step
	plan := func(state []float64) *Trajectory {
		return require.Get(solver.MinimisePinned(state, c, steps, pref, pinned, 1))(t)
	}
	best := plan(state)
	if len(best.Gains) != steps*2*2 || best.U[1][0] != 0.45 {
		t.Fatalf("%d gains, the given action is %v", len(best.Gains), best.U[1])
	}
	for i := range state {
		const shift = 1e-3
		moved := slices.Clone(state)
		moved[i] += shift
		other := plan(moved)
		for j := range 2 {
			if slope, gain := (other.U[0][j]-best.U[0][j])/shift, best.Gains[j*2+i]; math.Abs(gain-slope) > 2e-2*(0.1+math.Abs(slope)) {
				t.Errorf("the gain of pump %d to level %d is %v, another solve has %v", j, i, gain, slope)
			}
		}
		if best.Gains[4+i] != 0 {
			t.Errorf("the action that is given answers by %v", best.Gains[4+i])
		}
		// Later gains are about the states of their own steps.
		for _, gain := range best.Gains[len(best.Gains)-4:] {
			if math.IsNaN(gain) || math.Abs(gain) > 10 {
				t.Errorf("gains of the last step %v", best.Gains[len(best.Gains)-4:])
			}
		}
	}
}

// What moves by itself to no number has no terminal cost, and says so; a full cache begins anew.
func TestTerminalCostsOfWhatMovesByItself(t *testing.T) {
	p := newFunctions(1, 1, 0, []domain.Variable{{Lo: -1, Hi: 1}},
		func(s, c, u, sn, cn []float64) { sn[0], cn[0] = 0.5*s[0]+u[0], c[0]*c[0] },
		func(s, u, c, j []float64) { j[0] = (s[0]-c[0])*(s[0]-c[0]) + u[0]*u[0] }, nil)
	s := p.solver(t, Options{TerminalCost: true, Horizon: 10, Keep: 1})
	for _, c := range []struct {
		at    float64
		steps int
		ok    bool
		end   float64
	}{{1, 10, true, 1}, {0.5, 1, true, 0}, {0, 10, true, 0}, {1e100, 3, false, 0}, {1e100, 1, true, 0}, {1e200, 1, false, 0}} {
		got, ok := s.PlanTerminalCost([]float64{0.1}, []float64{c.at}, c.steps, only)
		if ok != c.ok || (got != nil) != (c.at == 1 || c.at == 0) { // others are no steady states
			t.Errorf("%+v: %v, %v", c, got, ok)
		}
		if got != nil && got.At[1] != c.end {
			t.Errorf("%+v: it is about the context %v", c, got.At)
		}
	}
	l := s.terminalCosts
	for i := range maxTerminalCosts - len(l.cache) {
		l.cache[fmt.Sprint(i)] = nil
	}
	if l.forContext([]float64{0}, only); len(l.cache) != maxTerminalCosts {
		t.Errorf("what is known leaves %d costs", len(l.cache))
	}
	if l.forContext([]float64{-0.125}, only); len(l.cache) != 1 {
		t.Errorf("a full cache has %d costs after another", len(l.cache))
	}
	if got, ok := p.solver(t, Options{}).PlanTerminalCost([]float64{0}, []float64{0}, 3, only); got != nil || !ok {
		t.Errorf("without an infinite horizon: %v, %v", got, ok)
	}
	blocks := newCart(cart{force: 1, speed: 1, steps: 8}, Options{Blocks: []int{2}})
	if plan := make([]float64, 8); blocks.Polish([]float64{1, 0}, nil, domain.Preference{W: []float64{0.5, 0.5}}, []domain.Bound{{Most: 1, Unit: 1}}, plan, 3) || slices.Max(plan) != 0 {
		t.Error("a plan of blocks is polished within bounds")
	}
}
