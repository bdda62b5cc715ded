package ocp

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// grouped is a problem of longer steps, as a user would write it who holds actions by hand: a step is so many of another's, and has
// the objectives and margins of all of them.
type grouped struct {
	domain.Problem
	steps int
}

func (g grouped) Spec() *domain.Spec {
	spec := *g.Problem.Spec()
	spec.Margins = slices.Repeat(spec.Margins, g.steps)
	spec.Clock = 0
	return &spec
}

// along calls visit at each of the steps.
func (g grouped) along(s, c, u []float64, visit func(k int, s, c []float64)) (sn, cn []float64) {
	s, c = slices.Clone(s), slices.Clone(c)
	sn, cn = make([]float64, len(s)), make([]float64, len(c))
	for k := range g.steps {
		visit(k, s, c)
		g.Problem.Step(s, c, u, sn, cn)
		s, sn, c, cn = sn, s, cn, c
	}
	return s, c
}

func (g grouped) Step(s, c, u, sn, cn []float64) {
	endS, endC := g.along(s, c, u, func(int, []float64, []float64) {})
	copy(sn, endS)
	copy(cn, endC)
}

func (g grouped) Objectives(s, u, c, j []float64) {
	clear(j)
	one := make([]float64, len(j))
	g.along(s, c, u, func(_ int, s, c []float64) {
		g.Problem.Objectives(s, u, c, one)
		for i, v := range one {
			j[i] += v
		}
	})
}

func (g grouped) Margins(s, c, u, m []float64) {
	n := len(m) / g.steps
	g.along(s, c, u, func(k int, s, c []float64) { g.Problem.Margins(s, c, u, m[k*n:(k+1)*n]) })
}

func (g grouped) Gradient(s, u, c, sigma, gs, gu []float64) {
	j := make([]float64, len(sigma))
	cost := func(s, u []float64) (sum float64) {
		g.Objectives(s, u, c, j)
		for i, v := range j {
			sum += sigma[i] * v
		}
		return sum
	}
	differences := func(at, g []float64, cost func(at []float64) float64) {
		at = slices.Clone(at)
		for i, v := range at {
			at[i] = v + 1e-5
			above := cost(at)
			at[i] = v - 1e-5
			g[i] = (above - cost(at)) / 2e-5
			at[i] = v
		}
	}
	differences(s, gs, func(s []float64) float64 { return cost(s, u) })
	differences(u, gu, func(u []float64) float64 { return cost(s, u) })
}

// blockedSolver is one whose Minimise holds actions, as samples and receding horizons do.
func blockedSolver(t *testing.T, p domain.Problem, scale []float64, opt Options) *Solver {
	t.Helper()
	opt.StateScale = scale
	s, err := New(p, nil, func(p, s, c []float64) {}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s.forSamples()
}

// Held actions cost what the same problem costs with longer steps, whose limits are looked at in between; free ones cost less.
func TestBlocksCostWhatLongerStepsDo(t *testing.T) {
	const each, steps = 3, 12
	cases := []struct {
		name     string
		p        domain.Problem
		scale    []float64
		s, c     []float64
		pref     domain.Preference
		tightest float64 // largest margin of the tightest step: a limit binds
	}{
		{"cart", cart{force: 2, speed: 0.6, steps: steps}, []float64{1, 1}, []float64{-2, 0}, nil, domain.Preference{W: []float64{0.8, 0.2}}, 1e-4},
		{"tanks", tanks{}, []float64{1, 1}, []float64{0.5, 0.3}, []float64{0.7, 0.4, 0.4}, domain.Preference{W: []float64{0.9, 0.1}}, math.Inf(1)},
	}
	for _, c := range cases {
		opt := Options{Tolerance: 1e-8, Blocks: []int{each}}
		blocked, err := blockedSolver(t, c.p, c.scale, opt).Minimise(c.s, c.c, steps, c.pref, domain.WeightedSum, 1)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		opt.Blocks = nil
		free, err := blockedSolver(t, c.p, c.scale, opt).Minimise(c.s, c.c, steps, c.pref, domain.WeightedSum, 1)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		opt.Horizon = 29
		long, err := blockedSolver(t, grouped{c.p, each}, c.scale, opt).Minimise(c.s, c.c, steps/each, c.pref, domain.WeightedSum, 1)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if math.Abs(blocked.Cost-long.Cost) > 1e-6*long.Cost || !(free.Cost < blocked.Cost) {
			t.Errorf("%s: held actions cost %v, longer steps %v, free actions %v", c.name, blocked.Cost, long.Cost, free.Cost)
		}
		tightest := math.Inf(1)
		for i, u := range blocked.U {
			for j, v := range u {
				if v != blocked.U[i-i%each][j] || math.Abs(v-long.U[i/each][j]) > 1e-4 {
					t.Errorf("%s: action %d is %v, its block begins with %v, and longer steps have %v", c.name, i, u, blocked.U[i-i%each], long.U[i/each])
				}
			}
			tightest = min(tightest, slices.Min(blocked.Margins[i]))
		}
		if tightest > c.tightest {
			t.Errorf("%s: the tightest margin is %v: no limit binds, the test is too easy", c.name, tightest)
		}
	}
}

// polesOptions are those of a pole that falls.
func polesOptions(blocks ...int) Options {
	return Options{Tolerance: 1e-7, StateScale: []float64{1, 1, 0.3, 1}, Blocks: blocks}
}

// Each decision of a receding loop has the optimum of its blocks, which begin anew, however it begins.
func TestRecedingHorizonsHoldActions(t *testing.T) {
	const steps = 30
	pref := domain.Preference{W: []float64{0.5, 0.5}}
	for _, blocks := range [][]int{nil, {1, 1, 2, 4}, {5}} {
		solver, err := New(testdomain.Pole{}, nil, func(p, s, c []float64) {}, polesOptions(blocks...))
		if err != nil {
			t.Fatal(err)
		}
		h := solver.NewHorizon(0).(*horizon)
		s, c := []float64{0.4, 0, 0.3, 0.2}, make([]float64, len(testdomain.Pole{}.Spec().Context))
		sn, cn, plan := make([]float64, len(s)), make([]float64, len(c)), make([]float64, steps)
		for k := range 15 {
			cost, solved, err := h.Solve(s, c, pref, plan)
			if err != nil || !solved {
				t.Fatalf("blocks %v: decision %d is not solved: %v", blocks, k, err)
			}
			want, err := solver.forSamples().Minimise(s, c, steps, pref, domain.WeightedSum, 1)
			if err != nil || math.Abs(cost-want.Cost) > 1e-5*want.Cost {
				t.Errorf("blocks %v: decision %d costs %v, its optimum %v, %v", blocks, k, cost, want.Cost, err)
			}
			for i, blocked := range h.warm.p.q.blocked {
				if blocked && plan[i] != plan[i-1] {
					t.Errorf("blocks %v: decision %d: action %d is %v behind %v", blocks, k, i, plan[i], plan[i-1])
				}
			}
			testdomain.Pole{}.Step(s, c, plan[:1], sn, cn)
			copy(s, sn)
			copy(c, cn)
		}
	}
}

// A plan of few blocks is found in fewer steps than one of free actions, and each step has fewer multiplications.
func TestBlocksSpareOperations(t *testing.T) {
	of := func(blocks []int) (iterations int, flops int64) {
		p := newIPM(newProgram(testdomain.Pole{}, []float64{1, 1, 0.3, 1}))
		p.q.blocks = blocks
		p.q.setWeights(false, []float64{0.5, 0.5})
		for _, at := range [][]float64{{0.4, 0, 0.3, 0.2, 0, 0}, {-0.4, 0.5, 0.2, 0, 0, 0}, {0, 0, -0.3, -0.5, 0, 0}} {
			p.opt = ipmOptions{tolerance: 1e-7, iterations: 100, mu: holdBarrier}
			p.setInitialState(at[:4], at[4:], 30)
			clear(p.cur.v)
			if !p.start(true, nil) {
				t.Fatal("the start is not finite")
			}
			if r, feasible := p.minimise(); !feasible || r.kkt > 1e-7 {
				t.Fatalf("blocks %v from %v: the residual is %v", blocks, at, r.kkt)
			}
			iterations += p.iterations
		}
		return iterations, p.r.flops
	}
	free, all := of(nil)
	held, fewer := of([]int{1, 1, 2, 4})
	if held >= free || float64(fewer)/float64(held) >= float64(all)/float64(free) {
		t.Errorf("held actions take %d iterations and %d multiplications in their recursions, free ones %d and %d", held, fewer, free, all)
	}
	t.Logf("%d iterations and %d multiplications in recursions, with free actions %d and %d", held, fewer, free, all)
}

// What is called free is: the references of a solver with blocks hold no action.
func TestReferencesOfBlocksAreFree(t *testing.T) {
	s, pref := []float64{-2, 0}, domain.Preference{W: []float64{0.8, 0.2}}
	of := func(blocks []int) float64 {
		solver, err := New(cart{force: 2, speed: 0.6, steps: 12}, nil, func(p, s, c []float64) {}, Options{Tolerance: 1e-8, Blocks: blocks})
		if err != nil {
			t.Fatal(err)
		}
		cost, _, err := solver.Oracle(t.Context(), s, nil, 12, pref)
		if err != nil {
			t.Fatal(err)
		}
		return cost
	}
	if with, without := of([]int{4}), of(nil); with != without {
		t.Errorf("the reference costs %v, without blocks %v", with, without)
	}
}

// Samples of plans with blocks are decisions of a receding loop: each is the first action of the optimum from its own state.
func TestSamplesOfBlocksAreDecisions(t *testing.T) {
	const steps = 12
	pref := domain.Preference{W: []float64{0.8, 0.2}}
	solver, err := New(cart{force: 2, speed: 0.6, steps: steps}, []domain.Variable{{Lo: -3, Hi: 3}}, func(p, s, c []float64) { s[0], s[1] = p[0], 0 },
		Options{Tolerance: 1e-8, Perturbed: 3, PerturbScale: 0.1, Follow: steps, Blocks: []int{1, 2, 4}})
	if err != nil {
		t.Fatal(err)
	}
	samples, err := solver.Solve(7, []float64{-2}, pref, domain.WeightedSum, 5)
	if err != nil {
		t.Fatal(err)
	}
	perturbed := 0
	var before *domain.Sample
	for i := range samples {
		at := &samples[i]
		want, err := solver.forSamples().Minimise(at.S, at.C, steps-at.Step, pref, domain.WeightedSum, 1)
		if err != nil || math.Abs(want.U[0][0]-at.U[0]) > 1e-5 {
			t.Errorf("sample %d of step %d has the action %v, its optimum %v, %v", i, at.Step, at.U, want.U[0], err)
		}
		if at.Perturbed {
			perturbed++
			continue
		}
		if before != nil {
			next := make([]float64, 2)
			cart{}.Step(before.S, nil, before.U, next, nil)
			if at.Step != before.Step+1 || !slices.Equal(next, at.S) {
				t.Errorf("sample %d begins at %v, the one before leads to %v", i, at.S, next)
			}
		}
		before = at
	}
	if perturbed != 3 || len(samples) != steps+3 {
		t.Errorf("%d samples, %d of them perturbed, want %d and 3", len(samples), perturbed, steps+3)
	}
	if _, err := solver.Solve(7, []float64{-2}, pref, domain.Chebyshev, 5); err == nil || !strings.Contains(err.Error(), "plans of blocks") {
		t.Errorf("samples of chebyshev: %v", err)
	}
}

func TestBlocksAreStepsOfAPlan(t *testing.T) {
	_, err := New(cart{force: 1, speed: 1, steps: 5}, nil, func(p, s, c []float64) {}, Options{Blocks: []int{1, 0}})
	if err == nil || !strings.Contains(err.Error(), "block 1 has 0 steps") {
		t.Errorf("a block of no step: %v", err)
	}
	for _, how := range []domain.Scalarization{domain.Chebyshev, domain.EpsilonConstraint} {
		single := blockedSolver(t, cart{force: 1, speed: 1, steps: 5}, nil, Options{Blocks: []int{5}})
		if _, err := single.Minimise([]float64{-2, 0}, nil, 5, domain.Preference{W: []float64{0.5, 0.5}}, how, 1); err == nil || !strings.Contains(err.Error(), "plans of blocks") {
			t.Errorf("one block, %s: %v", how, err)
		}
	}
	q := newProgram(cart{force: 1, speed: 1, steps: 5}, nil)
	q.blocks = []int{2, 1, 3}
	q.layout(10)
	if want := []bool{false, true, false, false, true, true, false, true, true, false}; !slices.Equal(q.blocked, want) {
		t.Errorf("blocked stages are %v, want %v", q.blocked, want)
	}
}
