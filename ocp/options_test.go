package ocp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// Options are taken up to their bounds and refused by name beyond them; what is left out has a default.
func TestOptionsHaveBounds(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	start := func(p, s, c []float64) { copy(s, p) }
	axes := []domain.Variable{{Lo: 0.25, Hi: 0.75}, {Lo: 0.5, Hi: 1}}
	for _, c := range []struct {
		says string
		opt  Options
	}{
		{"", Options{}}, {"", Options{Horizon: 2}}, {"horizon of 1 steps", Options{Horizon: 1}}, {"", Options{Horizon: 50_000}}, {"horizon of 50001 steps", Options{Horizon: 50_001}},
		{"", Options{Keep: 29}}, {"keeping 30 of 30", Options{Keep: 30}}, {"keeping -1", Options{Keep: -1}}, {"", Options{Keep: 1}}, {"", Options{Horizon: 12, Keep: 11}}, {"keeping 12 of 12", Options{Horizon: 12, Keep: 12}},
		{"-1 starts", Options{Starts: -1}}, {"-1 iterations", Options{Iterations: -1}}, {"-1 perturbed", Options{Perturbed: -1}}, {"-1 steps", Options{Follow: -1}}, {"library of -1", Options{Library: -1}},
		{"", Options{Starts: 1, Iterations: 1, Follow: 1}},
		{"", Options{Tolerance: 0.999}}, {"tolerance is 1,", Options{Tolerance: 1}}, {"tolerance is -1e-09", Options{Tolerance: -1e-9}}, {"tolerance is NaN", Options{Tolerance: nan}},
		{"perturbation scale is -1", Options{PerturbScale: -1}}, {"perturbation scale is +Inf", Options{PerturbScale: inf}}, {"perturbation scale is NaN", Options{PerturbScale: nan}},
		{"room is given for 1 margins", Options{Room: []float64{1}}}, {"", Options{Room: []float64{0, 1, 0, 1}}}, {"room of margin 2 is -1", Options{Room: []float64{0, 1, -1, 1}}}, {"room of margin 3 is +Inf", Options{Room: []float64{0, 1, 0, inf}}}, {"room of margin 0 is NaN", Options{Room: []float64{nan, 1, 0, 0}}},
		{"1 state scales", Options{StateScale: []float64{1}}}, {"state scale 1 is 0", Options{StateScale: []float64{1, 0}}}, {"state scale 0 is +Inf", Options{StateScale: []float64{inf, 1}}}, {"state scale 0 is NaN", Options{StateScale: []float64{nan, 1}}},
		{"block 1 has 0 steps", Options{Blocks: []int{1, 0}}}, {"", Options{Blocks: []int{1}}},
	} {
		if _, err := New(tanks{}, axes, start, c.opt); c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v, want %q", c.opt, err, c.says)
		}
	}
	if _, err := New(tanks{}, axes, nil, Options{}); err == nil || !strings.Contains(err.Error(), "is nil") {
		t.Errorf("no initial state: %v", err)
	}
	p := newFunctions(1, 0, 0, variablesOf(1), nil, nil, nil)
	p.spec.Plan = 0
	if _, err := New(p, nil, start, Options{}); err == nil || !strings.Contains(err.Error(), "Spec.Plan is 0") {
		t.Errorf("no plan: %v", err)
	}
	s := require.Get(New(tanks{}, axes, start, Options{TerminalCost: true}))(t)
	want := Options{Horizon: 30, Keep: 29, Starts: 1, Tolerance: 1e-5, Iterations: 200, PerturbScale: 0.02, Follow: 1, StateScale: []float64{1, 1}, TerminalCost: true}
	if !reflect.DeepEqual(s.opt, want) {
		t.Errorf("defaults %+v, want %+v", s.opt, want)
	}
	if !slices.Equal(s.terminalCosts.start, []float64{0.5, 0.75}) {
		t.Errorf("the middle of the axes is %v", s.terminalCosts.start)
	}
	if tolerance, iterations := s.Bounds(); tolerance != 1e-5 || iterations != 200 {
		t.Errorf("solves are bounded by %v and %d", tolerance, iterations)
	}
}

// Solves that cannot be are refused with what is wrong, and one whose context has ended returns that.
func TestSolvesAreRefused(t *testing.T) {
	s, fixed := newTanks(Options{Horizon: 6}), domain.Preference{W: []float64{0.5, 0.5}}
	state, c := []float64{0.5, 0.4}, []float64{0.6, 0.4, 0.1}
	endless, blocked := newTanks(Options{Horizon: 6, TerminalCost: true}), newTanks(Options{Horizon: 6, Blocks: []int{2}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ended, library := s.Until(ctx).(*Solver), newTanks(Options{Horizon: 6, Library: 2}).Until(ctx).(*Solver)
	minimise := func(s *Solver, state, c []float64, steps int, pref domain.Preference, how domain.Scalarization, starts ...[][]float64) error {
		_, err := s.Minimise(state, c, steps, pref, how, 1, starts...)
		return err
	}
	solve := func(s *Solver, how domain.Scalarization, at ...float64) error {
		_, err := s.Solve(0, at, fixed, how, 1)
		return err
	}
	visit := func(s *Solver, policy domain.Controller, at ...float64) error {
		_, err := s.SolveVisited(0, at, fixed, domain.Lent(policy))
		return err
	}
	at := []float64{0.5, 0.4, 0.6}
	receding := func(state, c []float64, n int, pref domain.Preference, plan ...float64) error {
		r := require.Get(s.Receding(0, 0))(t)
		r.Begin(plan)
		_, err := r.Solve(state, c, n, pref)
		return err
	}
	_, _, stopped := ended.Oracle(ctx, state, c, 6, fixed)
	_, _, decision := ended.NewHorizon(0).Solve(state, c, fixed, make([]float64, 12))
	_, _, references := library.Oracle(ctx, state, c, 6, fixed)
	_, _, first := library.NewHorizon(0).Solve(state, c, fixed, make([]float64, 60))
	_, starts := library.ColdStarts(ctx)
	_, payoff := newCart(cart{force: 1, speed: 0.5, steps: 10}, Options{}).Minimise([]float64{0, 1}, nil, 10, fixed, domain.Chebyshev, 1)
	for says, err := range map[string]error{
		"preference":                           minimise(s, state, c, 6, domain.Preference{W: []float64{1}}, ""),
		"have 1 and 3 components":              minimise(s, state[:1], c, 6, fixed, ""),
		"have 2 and 2 components":              minimise(s, state, c[:2], 6, fixed, ""),
		"0 steps with 2 actions":               minimise(s, state, c, 0, fixed, ""),
		"50001 steps with 2 actions":           minimise(s, state, c, 50_001, fixed, ""),
		"start 1 has 1 steps, want 2":          minimise(s, state, c, 2, fixed, "", make([][]float64, 2), make([][]float64, 1)),
		"without an end":                       minimise(endless, state, c, 6, fixed, domain.Chebyshev),
		"plans of blocks":                      solve(blocked, domain.EpsilonConstraint, at...),
		`unknown scalarization "x"`:            minimise(s, state, c, 6, fixed, "x"),
		"minimum of objective 0":               payoff,
		"scenario has 2 parameters, want 3":    solve(s, "", 0.5, 0.4),
		"scenario has 1 parameters, want 3":    visit(s, idle{}, 0.5),
		"it does not begin":                    visit(s, &unable{reset: errors.New("it does not begin")}, at...),
		"policy at step 2: it does not decide": visit(s, &unable{left: 2, decide: errors.New("it does not decide")}, at...),
		"receding preference":                  fmt.Errorf("receding %w", receding(state, c, 6, domain.Preference{W: []float64{1}})),
		"have 3 and 3 components":              receding(at, c, 6, fixed),
		"have 2 and 1 components":              receding(state, c[:1], 6, fixed),
		"0 steps with 2":                       receding(state, c, 0, fixed),
		"50001 steps with 2":                   receding(state, c, 50_001, fixed),
		"a plan of 3 values":                   receding(state, c, 6, fixed, 1, 2, 3),
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	for what, err := range map[string]error{
		"a solve": minimise(ended, state, c, 6, fixed, ""), "samples": solve(ended, "", at...), "visited states": visit(ended, idle{}, at...), "samples of blocks": solve(blocked.Until(ctx).(*Solver), "", at...),
		"a payoff table": minimise(ended, state, c, 6, fixed, domain.Chebyshev), "a reference": stopped, "a decision": decision, "a library": library.Prepare(ctx, 1, nil),
		"samples from a library": solve(library, "", at...), "a reference from a library": references, "visited states from a library": visit(library, idle{}, at...), "starts of a library": starts, "a first decision": first,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := range 60 { // wherever it ends, all is well or it says so
		if err := newTanks(Options{Horizon: 4, Library: 3, Iterations: 6}).Prepare(require.EndAfter(n), 1, nil); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a library whose context ends at look %d: %v", n, err)
		}
	}
}

// unable idles, and then is not able to.
type unable struct {
	reset, decide error
	left          int
}

func (u *unable) Reset(domain.Episode) error { return u.reset }
func (u *unable) Decide(_, _ []float64, _ domain.Preference, action []float64) (domain.Decision, error) {
	if u.left--; u.left < 0 {
		return domain.Decision{}, u.decide
	}
	clear(action)
	return domain.Decided(true), nil
}

// broken is a problem whose derivatives of stages cannot be made.
type broken struct{ dualTanks }

func (broken) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Stages: func() (domain.Stages, error) { return nil, errors.New("no stages") }}}
}

// Where the derivatives of stages cannot be made, all solves say why.
func TestStagesThatCannotBeMade(t *testing.T) {
	for _, endless := range []bool{false, true} {
		s := require.Get(New(broken{}, nil, func(_, _, _ []float64) {}, Options{TerminalCost: endless}))(t)
		state, c, pref := []float64{0.5, 0.4}, []float64{0.6, 0.4, 0.1}, domain.Preference{Adaptive: true}
		_, minimise := s.Minimise(state, c, 6, pref, "", 1)
		_, receding := require.Get(s.Receding(0, 0))(t).Solve(state, c, 6, pref)
		for what, err := range map[string]error{"a solve": minimise, "a decision": receding} {
			if err == nil || !strings.Contains(err.Error(), "no stages") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if s.Polish(state, c, pref, nil, make([]float64, 12), 3) || s.TerminalCost(state, c, pref) != 0 {
			t.Error("a plan is polished, or its end costs something")
		}
		if margin, ok := s.RegulatorMargin(state, c, 3); ok || margin != 0 {
			t.Errorf("a regulator has the margin %v", margin)
		}
	}
}

// roundedTanks has corners: where they are rounded pumping costs more, and beyond the first levels nothing is a number.
type roundedTanks struct {
	stagedTanks
	most int
}

func (p roundedTanks) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{
		Stages:  func() (domain.Stages, error) { return &tankStages{most: p.most}, nil },
		Rounded: func() int { return 6 },
	}}
}

// A plan of corners is followed from the widest rounding that has a solution to the problem's own functions, whose optimum it is. Costs
// and margins are those of these functions.
func TestCornersAreFollowed(t *testing.T) {
	state, c, pref := []float64{0.5, 0.4}, []float64{0.75, 0.4, 0.1}, domain.Preference{W: []float64{0.7, 0.3}}
	opt := Options{Tolerance: 1e-8, StateScale: []float64{0.5, 1}}
	solver := func(p domain.Problem) *Solver { return require.Get(New(p, nil, func(_, _, _ []float64) {}, opt))(t) }
	want := minimise(t, solver(sizedTanks{}), state, c, 12, pref, "")
	for _, most := range []int{5, 4, 3, 1, 0} { // below the levels 4 − 2k the first of all starts solve
		s := solver(roundedTanks{most: most})
		task := s.taskFrom(state, c, 12, 1)
		task.keepWorkspace = true
		got := require.Get(task.minimise(pref, ""))(t)
		if math.Abs(got.Cost-want.Cost) > 1e-7*want.Cost || got.KKT > 1e-8 {
			t.Errorf("rounding to level %d: cost %v, residual %v, want %v", most, got.Cost, got.KKT, want.Cost)
		}
		if task.workspace == nil || task.workspace.q.level != 0 {
			t.Errorf("rounding to level %d: the workspace is none of the problem's own functions", most)
		}
		sum, m := 0.0, make([]float64, 4)
		for k, j := range got.J {
			sum += tensor.DotInOrder(got.Sigma[k], j)
			tanks{}.Margins(got.S[k], got.C[k], got.U[k], m)
			for i, v := range m {
				if math.Abs(v-got.Margins[k][i]) > 1e-9 {
					t.Fatalf("rounding to level %d: margin %d of step %d is %v, want %v", most, i, k, got.Margins[k][i], v)
				}
			}
		}
		if math.Abs(sum-got.Cost) > 1e-12 {
			t.Errorf("rounding to level %d: stages cost %v, together %v", most, sum, got.Cost)
		}
		// Levels 5, 3 and 1 are tried first, until one has a solution, and then each below.
		if runs, first := s.Counts().Starts, map[int]int64{5: 5, 4: 3, 3: 3, 1: 1, 0: 0}[most]; runs < 1+first {
			t.Errorf("rounding to level %d: %d solves", most, runs)
		}
	}
}

// The starts of a cold decision are the library's scenarios and the waves of the solver's own starts.
func TestColdStartsAreTheSolvers(t *testing.T) {
	s := newWells(4)
	s.opt.Starts = 4
	got := require.Get(s.ColdStarts(context.Background()))(t)
	if got.Starts != 4 || got.Nearest != 3 || len(got.Waves) != 4 || len(got.States) != len(s.work.library.entries) || !slices.Equal(got.Scale, s.work.library.scale) {
		t.Errorf("%+v", got)
	}
	for k, w := range got.Waves {
		if !reflect.DeepEqual(w, waves(1, 2+k, 1)) {
			t.Errorf("waves %d are %v", k, w)
		}
	}
	for i, e := range s.work.library.entries {
		if !slices.Equal(got.States[i], e.start) || !reflect.DeepEqual(got.Plans[i], e.plan) {
			t.Errorf("scenario %d is %v", i, got.States[i])
		}
	}
	if got := require.Get(newWells(0).ColdStarts(context.Background()))(t); len(got.States) != 0 || len(got.Waves) != 1 || got.Starts != 1 {
		t.Errorf("without a library: %+v", got)
	}
}

// Tighter limits are kept by their slack. The terminal cost is that of the problem itself.
func TestTightenedLimits(t *testing.T) {
	s := newCart(cart{force: 5, speed: 0.5, steps: 15}, Options{TerminalCost: true})
	slack := []float64{0.1}
	tight := s.Tightened(slack).(*Solver)
	slack[0] = 9
	m := make([]float64, 1)
	if tight.problem.Margins([]float64{0, 0.2}, nil, []float64{0}, m); math.Abs(m[0]-0.2) > 1e-15 || tight.terminalCosts != s.terminalCosts {
		t.Errorf("a margin of 0.3 is %v", m[0])
	}
	got := minimise(t, tight, []float64{-2, 0}, nil, 15, domain.Preference{W: []float64{0.95, 0.05}}, "")
	fastest := 0.0
	for _, x := range got.S {
		fastest = max(fastest, x[1])
	}
	if math.Abs(fastest-0.4) > 1e-4 {
		t.Errorf("the fastest is %v, want 0.4", fastest)
	}
}

// leaning is x⁺ = 1.1 x + u, whose regulator is known; its limits are at both sides, and its projection halves an action.
type leaning struct {
	*functions
	lost float64
}

func (p leaning) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Failed: func(s, _ []float64) bool { return s[0] > p.lost }}
}

func (leaning) Project(_, _, u []float64) bool { u[0] /= 2; return true }

// The margin of a regulator is that of a loop by its gain: u = −k x with k of the Riccati equation, within the box, projected where that
// breaks a limit, to the first limit that is broken still.
func TestTheMarginOfARegulator(t *testing.T) {
	const a, q, r = 1.1, 1.0, 0.5
	p := q // p = q + a²p − (ap)²/(r + p)
	for range 200 {
		p = q + a*a*p - a*p*a*p/(r+p)
	}
	gain := a * p / (r + p)
	for _, c := range []struct{ box, limit, lost float64 }{{0, 5, 100}, {4, 5, 100}, {0.75, 5, 100}, {4, 0.4, 100}, {4, 5, 0.9}, {0.05, 1e9, 100}, {0, 0.3, 100}} {
		action := domain.Variable{Lo: -c.box, Hi: c.box}
		if c.box == 0 {
			action = domain.Variable{}
		}
		margin := func(s, _, u, m []float64) { m[0], m[1] = c.limit-math.Abs(u[0]), 2-s[0] }
		problem := leaning{newFunctions(1, 0, 2, []domain.Variable{action},
			func(s, _, u, sn, _ []float64) { sn[0] = a*s[0] + u[0] },
			func(s, u, _, j []float64) { j[0] = q*s[0]*s[0] + r*u[0]*u[0] }, margin), c.lost}
		s := require.Get(New(problem, []domain.Variable{{Lo: -1, Hi: 1}}, func(p, s, _ []float64) { s[0] = p[0] }, Options{TerminalCost: true, Horizon: 10, Keep: 1}))(t)
		for _, x := range []float64{0, 0.25, 0.8, 1, -0.9, 1.75} {
			for _, steps := range []int{1, 2, 20, 200} {
				want, y, m := math.Inf(1), x, make([]float64, 2)
				for range steps {
					u := []float64{-gain * y}
					if c.box > 0 {
						u[0] = max(-c.box, min(c.box, u[0]))
					}
					if margin([]float64{y}, nil, u, m); min(m[0], m[1]) < 0 {
						u[0] /= 2
						margin([]float64{y}, nil, u, m)
					}
					if want = min(want, m[0], m[1]); want < 0 {
						break
					}
					if y = a*y + u[0]; y > c.lost {
						want = math.Inf(-1)
						break
					}
				}
				if got, ok := s.RegulatorMargin([]float64{x}, nil, steps); !ok || got != want && math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
					t.Errorf("%+v, %d steps from %v: %v, %v, want %v", c, steps, x, got, ok, want)
				}
			}
		}
	}
	if margin, ok := newCart(cart{force: 1, speed: 1, steps: 5}, Options{}).RegulatorMargin([]float64{0, 0}, nil, 3); ok || margin != 0 {
		t.Errorf("without a terminal cost: %v", margin)
	}
}

// clocked moves its second component by the action in one step alone, and never in the Solver's eyes.
type clocked struct {
	*functions
	dual bool
	step int
}

func (p clocked) Step(s, _, u, sn, _ []float64) {
	sn[0], sn[1] = s[0]+1, s[1]
	if int(math.Round(s[0])) == p.step {
		sn[1] += u[0]
	}
}

func (p clocked) Abilities() *domain.ProblemAbilities {
	if !p.dual {
		return &domain.ProblemAbilities{}
	}
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{
		Step: func(s, _, u, sn, _ []complex128) {
			sn[0], sn[1] = s[0]+1, s[1]
			if int(math.Round(real(s[0]))) == p.step {
				sn[1] += u[0]
			}
		},
		Objectives: func(s, u, _, j []complex128) { j[0] = u[0] * u[0] }, Margins: func(_, _, _, _ []complex128) {},
	}}
}

// Derivatives are complete where no component that counts as constant moves, in any of the steps whose image matters.
func TestAMovingConstantIsNoticed(t *testing.T) {
	for _, dual := range []bool{false, true} {
		for step := range 5 {
			p := clocked{newFunctions(2, 0, 0, variablesOf(1), nil, func(_, u, _, j []float64) { j[0] = u[0] * u[0] }, nil), dual, step}
			q := newProgram(p, []float64{1, 1})
			q.setWeights(false, []float64{1})
			q.layout(4)
			at := new(point)
			q.resize(at)
			q.roll(at)
			if got, want := q.differentiate(at), step >= 3; got != want {
				t.Errorf("dual numbers %v: moved in step %d of 4, complete %v", dual, step, got)
			}
			q.terminal = newTerminalCost(q)
			if got, want := q.differentiate(at), step >= 4; got != want {
				t.Errorf("dual numbers %v, with a terminal cost: moved in step %d of 4, complete %v", dual, step, got)
			}
		}
	}
}

// A state that cannot be solved from gives no sample and is counted.
func TestPerturbedStatesMayBeDropped(t *testing.T) {
	s := newCart(cart{force: 1, speed: 0.5, steps: 10}, Options{PerturbScale: 40})
	best := minimise(t, s, []float64{0, 0}, nil, 10, domain.Preference{W: []float64{0.5, 0.5}}, "")
	first := s.taskFrom([]float64{0, 0}, nil, 10, 1)
	first.keepWorkspace = true
	require.Get(first.minimise(domain.Preference{W: []float64{0.5, 0.5}}, ""))(t)
	rng, solved, dropped := rand.New(rand.NewPCG(3, 1)), 0, 0
	for range 8 {
		perturbed := s.perturbedTask(best, []float64{0, 0}, 2, 8, first.workspace, rng)
		got := require.Get(s.perturbedOptima([]*task{perturbed}, domain.Preference{W: []float64{0.5, 0.5}}, ""))(t)[0]
		if got == nil {
			dropped++
		} else if solved++; len(got.U) != 8 {
			t.Errorf("an optimum of %d steps", len(got.U))
		}
	}
	if solved == 0 || dropped == 0 || s.Counts().PerturbedDropped != int64(dropped) {
		t.Errorf("%d optima and %d dropped, %+v", solved, dropped, s.Counts())
	}
}

// A weight of zero bounds nothing: the Chebyshev optimum is then that of the other objective, but for the share of all.
func TestWeightsOfZero(t *testing.T) {
	s := newTanks(Options{Tolerance: 1e-7})
	state, c := []float64{0.2, 0.3}, []float64{0.7, 0.4, 0.1}
	table := require.Get((&task{solver: s, state: state, ctx: c, steps: 20, ownStarts: 1}).payoff())(t)
	for i := range 2 {
		w := []float64{float64(1 - i), float64(i)}
		got := minimise(t, s, state, c, 20, domain.Preference{W: w}, domain.Chebyshev)
		if v := (got.Total()[i] - table.ideal[i]) / table.spread[i]; math.Abs(v) > 1e-3 {
			t.Errorf("objective %d ends %v of its range from its least", i, v)
		}
		if !slices.Equal(got.Sigma[3], w) {
			t.Errorf("weights %v", got.Sigma[3])
		}
	}
}
