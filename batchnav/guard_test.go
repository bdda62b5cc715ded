package batchnav

import (
	"context"
	"errors"
	"fmt"
	"math"
	"pgregory.net/rapid"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/planscore"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"gonum.org/v1/gonum/floats"
)

// speeding is the cart that is lost when it is too fast, which its projection does not see.
// It counts the steps that it is asked for.
type speeding struct {
	finite
	limit float64
	steps *atomic.Int64
}

func (p speeding) Abilities() *domain.ProblemAbilities {
	may := p.finite.Abilities()
	may.Failed = p.Failed
	return may
}

func (p speeding) Failed(s, c []float64) bool { return s[1] > p.limit }

func (p speeding) Step(s, c, u, nextS, nextC []float64) {
	p.steps.Add(1)
	p.finite.Step(s, c, u, nextS, nextC)
}

func newSpeeding(limit float64) speeding {
	return speeding{finite{testdomain.NewCart(cartSteps)}, limit, new(atomic.Int64)}
}

// solver answers with a plan of its own; nil: with what it was given.
type solver struct {
	domain.Horizon
	answer func(s []float64, steps int) []float64
	calls  int
	begun  [][]float64 // from what
	slack  []float64
	limit  time.Duration
}

func (r *solver) NewHorizon(iterations int) domain.Horizon {
	if iterations != domain.DefaultRescueIterations && iterations != 0 {
		panic(iterations)
	}
	return r
}

func (r *solver) Begin(plan []float64) { r.begun = append(r.begun, slices.Clone(plan)) }

func (r *solver) Solve(s, c []float64, pref domain.Preference, plan []float64) (float64, bool, error) {
	r.calls++
	answer := r.answer(s, len(plan))
	copy(plan, answer)
	return 0, answer != nil, nil
}

func (r *solver) Within(limit time.Duration) { r.limit = limit }

func (r *solver) Tightened(slack []float64) domain.Receding {
	r.slack = slices.Clone(slack)
	return r
}

func guarded(t testing.TB, p domain.Problem, g domain.Guard, rescue domain.Receding) *Navigator {
	t.Helper()
	return require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, Options{Direct: true, Guard: &g, Rescue: rescue}))(t)
}

// drive runs an episode of the cart to its end and returns actions, bits and states.
func drive(t testing.TB, n *Navigator, pref domain.Preference, s []float64, steps int) (actions []float64, bits []domain.Fallback, states [][]float64) {
	t.Helper()
	cart, s, c := testdomain.NewCart(cartSteps), slices.Clone(s), []float64{0}
	for range steps {
		d, err := n.Decide(s, c, pref)
		if err != nil {
			t.Fatal(err)
		}
		actions, bits = append(actions, d.U[0]), append(bits, d.Fallback)
		cart.Step(slices.Clone(s), slices.Clone(c), d.U, s, c)
		states = append(states, slices.Clone(s))
	}
	return actions, bits, states
}

func fastest(states [][]float64) (v float64) {
	for _, s := range states {
		v = math.Max(v, s[1])
	}
	return v
}

// What is rolled out before an action is executed is the policy's roll-out: the same cost
// and margin as its closed form, and safe where that is.
func TestGuardRollsThePolicyOut(t *testing.T) {
	require.Seeded(t)
	cart, failed := testdomain.NewCart(cartSteps), 0
	rapid.Check(t, func(rt *rapid.T) {
		p := newSpeeding(rapid.Float64Range(0.2, 1.2).Draw(rt, "limit"))
		s := []float64{rapid.Float64Range(-2, 2.2).Draw(rt, "q"), rapid.Float64Range(-1, 1.5).Draw(rt, "v")}
		c := []float64{float64(rapid.IntRange(0, cartSteps-1).Draw(rt, "step")) / cartSteps}
		pref := simplex(rapid.Float64Range(0, 1).Draw(rt, "w"))
		n, plain := guarded(t, p, domain.Guard{}, nil), require.Get(NewNavigator(ref.New(), testdomain.Map(cart, 5, false), cart, Options{Direct: true}))(t)
		d, want := require.Get(n.Decide(s, c, pref))(t), require.Get(plain.Decide(s, c, pref))(t)
		steps := p.Remaining(c)
		cost, margin := bent(cart, s, pref.W[1], pref, make([]float32, 3*steps), steps)
		fast := false
		for h, at, next, cn := 0, slices.Clone(s), make([]float64, 2), []float64{0}; h < steps; h++ {
			u := []float64{testdomain.Feedback[0]*at[0] + testdomain.Feedback[1]*at[1] + 0.2*pref.W[1]}
			cart.Project(at, c, u)
			cart.Step(at, c, u, next, cn)
			copy(at, next)
			fast = fast || at[1] > p.limit
		}
		plan := &n.batch.loops[0].guard.accepted
		switch {
		case fast || margin < 0:
			failed++
			if d.Fallback&domain.FallbackGuard == 0 || plan.keepsLimits() && !d.Fallback.Replaced() {
				rt.Fatalf("margin %g, too fast %t: fallback %v, the plan lasts: %t", margin, fast, d.Fallback, plan.keepsLimits())
			}
		case d.Fallback&^domain.FallbackWeights != 0 || !slices.Equal(d.U, want.U) || !plan.safe() || len(plan.actions) != steps:
			rt.Fatalf("a safe action became %v of %v, fallback %v, with %d actions of %d", d.U, want.U, d.Fallback, len(plan.actions), steps)
		case math.Abs(plan.margin-margin) > 1e-5:
			rt.Fatalf("margin %g; the roll-out has %g", plan.margin, margin)
		}
		w := &n.batch.loops[0].guard
		require.OK(t, n.batch.guard.rollOne(rollout{s: s, c: c, pref: pref, steps: steps, priced: true, result: &w.other}))
		if w.other.safe() && (math.Abs(w.other.cost-cost) > 1e-5*(1+cost) || math.Abs(w.other.margin-margin) > 1e-5) {
			rt.Fatalf("cost %g, margin %g; the roll-out has %g, %g", w.other.cost, w.other.margin, cost, margin)
		}
	})
	if failed == 0 {
		t.Error("no roll-out failed")
	}
}

// Where the policy would lose the state a search finds a way, once, and what it has found is
// followed where the policy still fails.
func TestGuardSearches(t *testing.T) {
	const limit = 0.5
	start := []float64{-2, 0}
	_, _, plain := drive(t, require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), finite{testdomain.NewCart(cartSteps)}, Options{Direct: true}))(t), adaptively, start, cartSteps)
	if !(fastest(plain) > limit) {
		t.Fatalf("without a guard the cart is at most at %g", fastest(plain))
	}
	for _, o := range []SearchOptions{{}, {Candidates: 1}} {
		n := require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), newSpeeding(limit), Options{Direct: true, Search: o, Guard: &domain.Guard{}}))(t)
		_, bits, states := drive(t, n, adaptively, start, cartSteps)
		const found, incumbent = domain.FallbackGuard | domain.FallbackRescue | domain.FallbackSolver, domain.FallbackGuard | domain.FallbackIncumbent
		if fastest(states) > limit || bits[0] != found || !slices.Contains(bits, incumbent) {
			t.Errorf("%+v: at most at %g, bits %v", o, fastest(states), bits)
		}
		for h, f := range bits[1:] {
			if f&domain.FallbackRescue != 0 {
				t.Errorf("%+v: another rescue at decision %d", o, h+1)
			}
		}
	}
}

// The margins that a decision reports are those of the action it gives, also where that replaces another.
func TestMarginsAreThoseOfTheActionGiven(t *testing.T) {
	p := newSpeeding(0.56)
	half := func(s, c []float64, pref domain.Preference, u []float64) bool {
		u[0] = -0.5
		return true
	}
	n := require.Get(NewNavigator(ref.New(), testdomain.Map(p.Cart, 5, false), p, Options{Direct: true, Guard: &domain.Guard{}, Solver: half}))(t)
	s, c, replaced := []float64{-1.2, 0.3}, []float64{0}, 0
	margins := make([]float64, len(p.Spec().Margins))
	for h := range cartSteps {
		d := require.Get(n.Decide(s, c, adaptively))(t)
		if d.Fallback.Replaced() {
			replaced++
		}
		if p.Margins(s, c, d.U, margins); !slices.Equal(d.Margins, margins) || d.Margin != domain.Smallest(margins) {
			t.Errorf("decision %d, fallback %v: margins %v, the smallest %g; those of its action are %v", h, d.Fallback, d.Margins, d.Margin, margins)
		}
		p.Cart.Step(slices.Clone(s), slices.Clone(c), d.U, s, c)
	}
	if replaced == 0 {
		t.Error("no action was replaced")
	}
}

// braking is speeding that knows an escape: against the speed.
type braking struct{ speeding }

func (p braking) Abilities() *domain.ProblemAbilities {
	may := p.speeding.Abilities()
	may.Escape = p.Escape
	return may
}

func (p braking) Escape(s, _, u []float64) bool {
	u[0] = -s[1]
	p.Project(s, nil, u)
	return true
}

// Without rescues nothing is searched: the escape keeps the cart slow where the policy does not. A
// problem without an escape has the rest.
func TestGuardWithoutRescues(t *testing.T) {
	start, limit := []float64{-1, 0.4}, 0.5
	how := Options{Direct: true, NoRescue: true, Guard: &domain.Guard{}, Solver: func(_, _ []float64, _ domain.Preference, _ []float64) bool {
		t.Error("the solver was asked")
		return false
	}}
	loop := func(p domain.Problem) *Navigator {
		return require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, how))(t)
	}
	_, bits, states := drive(t, loop(braking{newSpeeding(limit)}), adaptively, start, cartSteps)
	if fastest(states) > limit || bits[0] != domain.FallbackGuard|domain.FallbackEscape {
		t.Errorf("at most at %g, bits %v", fastest(states), bits)
	}
	_, bits, _ = drive(t, loop(newSpeeding(limit)), adaptively, start, 1)
	if bits[0]&(domain.FallbackGuard|domain.FallbackEscape|domain.FallbackRescue) != domain.FallbackGuard {
		t.Errorf("without an escape: bits %v", bits)
	}
	if fmt.Sprint(require.Get(OptionsFor("direct-no-rescue"))(t)) != fmt.Sprint(Options{Direct: true, NoRescue: true, NoiseFree: true}) {
		t.Error("direct-no-rescue is not direct without rescues")
	}
}

// A solver goes on from what was found. Its plan is executed where it costs less, and
// followed while it costs less than the policy from there.
func TestGuardFollowsTheCheaper(t *testing.T) {
	for _, c := range []struct {
		u     float64
		taken bool
	}{{0, true}, {-1, false}} {
		rescue := &solver{answer: func(s []float64, steps int) []float64 { return slices.Repeat([]float64{c.u}, steps) }}
		actions, bits, states := drive(t, guarded(t, newSpeeding(0.5), domain.Guard{}, rescue), simplex(0), []float64{-1, 0.4}, cartSteps) // effort alone costs
		if fastest(states) > 0.5 || rescue.calls != 1 {
			t.Errorf("at most at %g, the solver was asked %d times", fastest(states), rescue.calls)
		}
		if g := rescue.begun[0]; len(g) != cartSteps || (actions[0] == c.u) != c.taken || !c.taken && actions[0] != g[0] {
			t.Errorf("given %v, a plan of %g: %v was executed", g, c.u, actions)
		}
		if last := bits[cartSteps-1]; last&domain.FallbackGuard != 0 {
			t.Errorf("with a plan of %g the policy fails to the end: %v", c.u, bits)
		}
		if all := slices.Equal(actions, slices.Repeat([]float64{c.u}, cartSteps)); all != c.taken {
			t.Errorf("a plan of %g is followed to the end: %t; bits %v", c.u, all, bits)
		}
	}
}

// Where nothing is safe what fails last is executed, and the solver is asked less and less.
func TestGuardWithoutASafePlan(t *testing.T) {
	rescue := &solver{answer: func([]float64, int) []float64 { return nil }}
	n := guarded(t, newSpeeding(-0.9), domain.Guard{}, rescue)
	_, bits, _ := drive(t, n, adaptively, []float64{-2, 1}, cartSteps)
	var calls []int
	for h, f := range bits {
		if f&domain.FallbackGuard == 0 {
			t.Errorf("decision %d: %v", h, f)
		}
		if f&domain.FallbackRescue != 0 {
			calls = append(calls, h)
		}
	}
	if !slices.Equal(calls, []int{0, 1, 3, 7}) || rescue.calls != 4 || len(rescue.begun) != 4 {
		t.Errorf("a solver was asked at %v, %d times", calls, rescue.calls)
	}
	if w := &n.batch.loops[0].guard; w.vain != 4 || w.wait != 3 {
		t.Errorf("after %d rescues in vain the next waits %d decisions", w.vain, w.wait)
	}
	safe := guarded(t, newSpeeding(0.5), domain.Guard{}, nil)
	for _, v := range []float64{0, 0.4} { // of the map, and of a rescue
		w := &safe.batch.loops[0].guard
		w.forget()
		w.vain = 3
		d := require.Get(safe.Decide([]float64{-1, v}, []float64{0}, simplex(0)))(t)
		if w.vain != 0 || w.wait != 0 || !w.accepted.safe() {
			t.Errorf("at %g, %v: a safe plan leaves %d in vain and a wait of %d", v, d.Fallback, w.vain, w.wait)
		}
	}
	// Beyond every limit at once full braking is what Problem.Fallback does, and what fails
	// with the larger margin is taken.
	d := require.Get(guarded(t, finite{testdomain.NewCart(cartSteps)}, domain.Guard{}, nil).Decide([]float64{2.1, 0.5}, []float64{0}, adaptively))(t)
	if d.Fallback&(domain.FallbackGuard|domain.FallbackMargin) != domain.FallbackGuard|domain.FallbackMargin || d.U[0] != -1 || !d.Breaks || d.Keeps() {
		t.Errorf("beyond the wall: u %v, fallback %v, breaks %t", d.U, d.Fallback, d.Breaks)
	}
	if d := require.Get(guarded(t, finite{testdomain.NewCart(cartSteps)}, domain.Guard{}, nil).Decide([]float64{0, 0}, []float64{0}, adaptively))(t); d.Breaks || !d.Keeps() {
		t.Errorf("far from the wall: fallback %v, breaks %t", d.Fallback, d.Breaks)
	}
	// After a deadline no solver is asked.
	never := &solver{}
	require.Get(guarded(t, newSpeeding(-0.9), domain.Guard{Deadline: time.Nanosecond}, never).Decide([]float64{-2, 1}, []float64{0}, adaptively))(t)
	if never.calls != 0 {
		t.Errorf("after the deadline the solver was asked %d times", never.calls)
	}
	// Before it the solver has what is left, and without one its own time.
	for _, deadline := range []time.Duration{time.Hour, 0} {
		timed := &solver{answer: func([]float64, int) []float64 { return nil }}
		require.Get(guarded(t, newSpeeding(-0.9), domain.Guard{Deadline: deadline}, timed).Decide([]float64{-2, 1}, []float64{0}, adaptively))(t)
		if timed.calls != 1 || timed.limit < 0 || timed.limit > deadline || (timed.limit == 0) != (deadline == 0) {
			t.Errorf("of a deadline of %v the solver has %v", deadline, timed.limit)
		}
	}
}

// A rescue ends with the context of its loop, within its search.
func TestGuardEndsWithItsContext(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for ctx, want := range map[context.Context]error{nil: nil, t.Context(): nil, ended: context.Canceled} {
		n := require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), newSpeeding(-0.9), Options{Direct: true, Guard: &domain.Guard{}, Context: ctx}))(t)
		if _, err := n.Decide([]float64{-2, 1}, []float64{0}, adaptively); !errors.Is(err, want) {
			t.Errorf("context %v: %v", ctx, err)
		}
	}
}

// Where the plant is not where a plan foresaw it, the solver goes on from that plan's actions before they are executed.
func TestGuardResolvesAPlanThatWasNotForeseen(t *testing.T) {
	for _, moved := range []bool{false, true} {
		rescue := &solver{answer: func(s []float64, steps int) []float64 {
			plan := make([]float64, steps)
			for h := range plan {
				plan[h] = -0.01 * float64(h)
			}
			return plan
		}}
		n, cart := guarded(t, newSpeeding(0.5), domain.Guard{}, rescue), testdomain.NewCart(cartSteps)
		s, c := []float64{-1, 0.4}, []float64{0}
		d := require.Get(n.Decide(s, c, simplex(0)))(t)
		cart.Step(slices.Clone(s), slices.Clone(c), d.U, s, c)
		if moved {
			s[0] += 0.01
		}
		before := slices.Clone(n.batch.loops[0].guard.accepted.actions)
		d = require.Get(n.Decide(s, c, simplex(0)))(t)
		switch asked := d.Fallback&domain.FallbackRescue != 0; {
		case asked != moved || rescue.calls != len(rescue.begun) || (rescue.calls == 2) != moved:
			t.Errorf("moved %t: fallback %v, the solver was asked %d times", moved, d.Fallback, rescue.calls)
		case moved && !slices.Equal(rescue.begun[1], before[1:]):
			t.Errorf("it began at %v, want %v", rescue.begun[1], before[1:])
		case moved && (!d.Fallback.Replaced() || d.U[0] != 0):
			t.Errorf("u %v, fallback %v: want the first action of its plan", d.U, d.Fallback)
		}
	}
}

// The case's own exact solver gives an action, after which the policy goes on. It is not
// asked where there is a generic one, which takes the deadline and the margins that are tightened.
func TestGuardAsksTheCasesOwnSolver(t *testing.T) {
	calls := 0
	own := func(s, c []float64, pref domain.Preference, u []float64) bool {
		calls++
		u[0] = -0.5
		return true
	}
	p := newSpeeding(0.56)
	n := require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, Options{Direct: true, Guard: &domain.Guard{}, Solver: own}))(t)
	_, bits, states := drive(t, n, adaptively, []float64{-1.2, 0.3}, cartSteps)
	if calls != 1 || fastest(states) > 0.56 || bits[0] != domain.FallbackGuard|domain.FallbackRescue|domain.FallbackSolver {
		t.Errorf("asked %d times, at most at %g, bits %v", calls, fastest(states), bits)
	}
	generic := &solver{answer: func(s []float64, steps int) []float64 { return make([]float64, steps) }}
	both := require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, Options{Direct: true, Guard: &domain.Guard{}, Solver: own, Rescue: generic}))(t)
	if _, _, states = drive(t, both, adaptively, []float64{-1.2, 0.3}, cartSteps); calls != 1 || generic.calls == 0 || fastest(states) > 0.56 {
		t.Errorf("beside a generic solver, asked %d times, it was asked %d times; at most at %g", calls, generic.calls, fastest(states))
	}
}

// What is known of the plan before is not rolled out again, and gives what rolling out
// again gives: to the end of an episode, and over a look-ahead that moves with it.
func TestGuardOfWhatIsKnown(t *testing.T) {
	for _, steps := range []int{0, 1, 2, 5} {
		for _, limit := range []float64{0.5, 0.7, 0.8, 2} {
			p := newSpeeding(limit)
			answer := func(s []float64, steps int) []float64 {
				return slices.Repeat([]float64{math.Min(0.3, limit-s[1])}, steps)
			}
			n, again := guarded(t, p, domain.Guard{Steps: steps}, &solver{answer: answer}), guarded(t, newSpeeding(limit), domain.Guard{Steps: steps}, &solver{answer: answer})
			s, c, known := []float64{-2, 0.1}, []float64{0}, 0
			for h := range cartSteps {
				p.steps.Store(0)
				d := require.Get(n.Decide(s, c, adaptively))(t)
				w, fresh := &n.batch.loops[0].guard, &again.batch.loops[0].guard
				if d.Fallback == 0 && h > 0 && w.extends {
					known++
					if p.steps.Load() > 3 {
						t.Errorf("look-ahead %d, limit %g, decision %d: %d steps of the dynamics", steps, limit, h, p.steps.Load())
					}
				}
				found := fresh.accepted.solved
				// The other forgets where the plan was to lead.
				fresh.accepted.s = fresh.accepted.s[:0]
				e := require.Get(again.Decide(s, c, adaptively))(t)
				if !slices.Equal(d.U, e.U) || d.Fallback != e.Fallback && !found || !slices.Equal(w.accepted.actions, fresh.accepted.actions) || w.accepted.fails != fresh.accepted.fails {
					t.Fatalf("look-ahead %d, limit %g, decision %d: u %v with %v, rolled out again %v with %v", steps, limit, h, d.U, d.Fallback, e.U, e.Fallback)
				}
				for _, v := range [][2][]float64{{w.accepted.s, fresh.accepted.s}, {w.accepted.endS, fresh.accepted.endS}, {w.accepted.endC, fresh.accepted.endC}} {
					if w.accepted.keepsLimits() && !floats.EqualApprox(v[0], v[1], 1e-9) {
						t.Errorf("look-ahead %d, limit %g, decision %d: the plan leads to %v, rolled out again to %v", steps, limit, h, v[0], v[1])
					}
				}
				if fresh.extends {
					t.Error("a state that is not the predicted one was taken for it")
				}
				p.finite.Step(slices.Clone(s), slices.Clone(c), d.U, s, c)
			}
			if limit == 2 && steps != 1 && known != cartSteps-1 {
				t.Errorf("look-ahead %d: %d decisions were known", steps, known)
			}
		}
	}
}

// A margin within two standard deviations of the measurement's noise is not safe, and the
// solver is told how far to keep off.
func TestGuardTightensMargins(t *testing.T) {
	const noise = 0.004
	// The clearance is Wall − q − v Dt − ½u Dt², q and v have the ranges 6 and 4.
	slack := 2 * noise * math.Hypot(6, 4*testdomain.Dt)
	for _, c := range []struct {
		q    float64
		safe bool
	}{{testdomain.Wall - 1.01*slack, true}, {testdomain.Wall - 0.99*slack, false}} {
		rescue := &solver{answer: func(s []float64, steps int) []float64 { return slices.Repeat([]float64{-1}, steps) }}
		n := guarded(t, finite{testdomain.NewCart(cartSteps)}, domain.Guard{Noise: noise}, rescue)
		u := []float64{0}
		// At rest against the wall the first action brakes: the margin of the first step is
		// the least.
		d := require.Get(n.Decide([]float64{c.q + 0.5*testdomain.Dt*testdomain.Dt, 0}, []float64{0}, adaptively))(t)
		copy(u, d.U)
		if (d.Fallback == 0) != c.safe || (rescue.slack == nil) != c.safe {
			t.Errorf("q %g, tightened by %g: %v, slack %v, u %v", c.q, slack, d.Fallback, rescue.slack, u)
		}
		if !c.safe && math.Abs(rescue.slack[0]-slack) > 1e-12 {
			t.Errorf("the solver is told %v, want %g for the clearance", rescue.slack, slack)
		}
		if d := require.Get(guarded(t, finite{testdomain.NewCart(cartSteps)}, domain.Guard{}, nil).Decide([]float64{c.q, 0}, []float64{0}, adaptively))(t); d.Fallback != 0 {
			t.Errorf("without noise: %v", d.Fallback)
		}
	}
}

// resting is the cart that may end only at rest.
type resting struct{ finite }

func (p resting) Abilities() *domain.ProblemAbilities {
	may := p.finite.Abilities()
	may.TerminalMargin = p.TerminalMargin
	return may
}

func (resting) TerminalMargin(s, c []float64) float64 { return 0.3 - math.Abs(s[1]) }

// Where a look-ahead may not end is where it fails.
func TestGuardOfTheEnd(t *testing.T) {
	for _, c := range []struct {
		v    float64
		safe bool
	}{{0, true}, {2, false}} {
		n := guarded(t, resting{finite{testdomain.NewCart(cartSteps)}}, domain.Guard{Steps: 3}, nil)
		d := require.Get(n.Decide([]float64{0, c.v}, []float64{0}, adaptively))(t)
		if (d.Fallback&domain.FallbackGuard == 0) != c.safe {
			t.Errorf("from the speed %g: %v", c.v, d.Fallback)
		}
	}
}

// presently is the cart whose clearance is that of the state it is in, not of the next.
type presently struct{ finite }

func (presently) Margins(s, c, u, m []float64) { m[0], m[1] = testdomain.Wall-s[0], 1-math.Abs(u[0]) }

// The state that the last action leads to keeps the limits that no action there changes.
func TestGuardOfTheLastState(t *testing.T) {
	for _, c := range []struct {
		q    float64
		safe bool
	}{{testdomain.Wall - 0.11, true}, {testdomain.Wall - 0.05, false}} {
		d := require.Get(guarded(t, presently{finite{testdomain.NewCart(cartSteps)}}, domain.Guard{Steps: 1}, nil).Decide([]float64{c.q, 1}, []float64{0}, adaptively))(t)
		if (d.Fallback&domain.FallbackGuard == 0) != c.safe || d.Margin < 0 {
			t.Errorf("from %g at 1 m/s: %v, margin %g", c.q, d.Fallback, d.Margin)
		}
	}
}

// A loop decides what it decides alone, in any company and on any number of threads, with
// a look-ahead and a preference of its own.
func TestGuardInCompany(t *testing.T) {
	const size = 6
	m := testdomain.Map(testdomain.NewCart(cartSteps), 5, false)
	for _, threads := range []int{1, 3} {
		b := require.Get(cpufallback.New(cpufallback.Options{Threads: threads}))(t)
		defer b.Close()
		rescue := func() domain.Receding {
			return &solver{answer: func(s []float64, steps int) []float64 {
				return slices.Repeat([]float64{math.Max(-1, math.Min(0.2, 0.4-s[1]))}, steps)
			}}
		}
		together := require.Get(NewBatch(b, m, newSpeeding(0.5), Options{Direct: true, Guard: &domain.Guard{}, Rescue: rescue()}, size))(t)
		obs, out := make([]Observation, size), make([]Decision, size)
		alone := make([]*Navigator, size)
		for i := range obs {
			alone[i] = require.Get(NewNavigator(b, m, newSpeeding(0.5), Options{Direct: true, Guard: &domain.Guard{}, Rescue: rescue()}))(t)
			obs[i] = Observation{S: []float64{-2 + 0.3*float64(i), 0.08 * float64(i)}, C: []float64{float64(2*(i%3)) / cartSteps}, Preference: simplex(float64(i) / size)}
		}
		acted := 0
		for h := range 6 {
			if h == 3 {
				obs[1].S[1] = math.NaN()
			}
			if err := together.Decide(obs, out); err != nil {
				t.Fatal(err)
			}
			for i := range obs {
				d := require.Get(alone[i].Decide(obs[i].S, obs[i].C, obs[i].Preference))(t)
				if !slices.Equal(d.U, out[i].U) || d.Fallback != out[i].Fallback {
					t.Fatalf("%d threads, decision %d of loop %d: %v with %v, alone %v with %v", threads, h, i, out[i].U, out[i].Fallback, d.U, d.Fallback)
				}
				if d.Fallback&domain.FallbackGuard != 0 {
					acted++
				}
				if h == 3 && i == 1 {
					obs[1].S[1] = 0.1
				}
				testdomain.NewCart(cartSteps).Step(slices.Clone(obs[i].S), slices.Clone(obs[i].C), d.U, obs[i].S, obs[i].C)
			}
		}
		if acted == 0 {
			t.Error("no guard acted")
		}
	}
}

// What a search has decided is rolled out as the search did, and a search takes no
// roll-out through a lost state where there is another.
func TestGuardOfASearch(t *testing.T) {
	for _, o := range []SearchOptions{{Candidates: 64}} {
		p := newSpeeding(0.5)
		n := require.Get(NewNavigator(ref.New(), testdomain.Map(testdomain.NewCart(cartSteps), 5, false), p, Options{Search: o, Guard: &domain.Guard{}}))(t)
		_, bits, states := drive(t, n, adaptively, []float64{-1, 0.4}, 1)
		best, plan := n.batch.loops[0].memory.Best(), &n.batch.loops[0].guard.accepted
		if bits[0] != 0 || !plan.safe() || math.Abs(plan.margin-best.Margin) > 1e-5 {
			t.Errorf("%+v: %v, margin %g; the search's is %g", o, bits, plan.margin, best.Margin)
		}
		_, cost, _ := planscore.Plan(p.finite, []float64{-1, 0.4}, []float64{0}, adaptively, plan.actions, cartSteps, true)
		if math.Abs(cost-best.Cost) > 1e-5*(1+best.Cost) {
			t.Errorf("%+v: the plan costs %g, the search's best %g", o, cost, best.Cost)
		}
		if fastest(states) > 0.5 {
			t.Errorf("at %g", fastest(states))
		}
	}
}

func TestGuardRefusesWhatItCannotBe(t *testing.T) {
	cart := testdomain.NewCart(cartSteps)
	for says, g := range map[string]domain.Guard{
		"-1 steps": {Steps: -1}, "-2 iterations": {Iterations: -2}, "noise NaN": {Noise: math.NaN()}, "deadline -1s": {Deadline: -time.Second},
	} {
		if _, err := NewNavigator(ref.New(), testdomain.Map(cart, 5, false), cart, Options{Guard: &g}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want an error with %q", g, err, says)
		}
	}
	longer := testdomain.NewPlanCart(cartSteps, 3)
	if _, err := NewNavigator(ref.New(), testdomain.Map(longer, 5, false), longer, Options{Guard: &domain.Guard{}}); err == nil || !strings.Contains(err.Error(), "plans of one action") {
		t.Errorf("plans of three actions: %v", err)
	}
	off := require.Get(NewNavigator(ref.New(), testdomain.Map(longer, 5, false), longer, Options{Guard: &domain.Guard{}, NoGuard: true}))(t)
	if off.batch.guard != nil {
		t.Error("a guard that was left out")
	}
	for _, guards := range []bool{false, true} {
		if has := slices.ContainsFunc(Methods(cart, guards), func(m domain.Method) bool { return strings.HasSuffix(m.Name, "-no-guard") }); has != guards {
			t.Errorf("guarded %t: methods without a guard: %t", guards, has)
		}
	}
	if fmt.Sprint(require.Get(OptionsFor("direct-no-guard"))(t)) != fmt.Sprint(Options{Direct: true, NoGuard: true}) {
		t.Error("direct-no-guard is not direct without a guard")
	}
}

// What a plan that was not foreseen has taken of a deadline is not there for the rescue behind it.
func TestGuardSpendsItsDeadlineOnce(t *testing.T) {
	const deadline = time.Hour
	rescue := &solver{answer: func([]float64, int) []float64 { return nil }}
	n := guarded(t, newSpeeding(-0.9), domain.Guard{Deadline: deadline}, rescue)
	s := []float64{-2, 1}
	require.Get(n.Decide(s, []float64{0}, adaptively))(t)
	n.batch.loops[0].guard.wait = 0
	require.OK(t, n.batch.guard.rescue(&n.batch.loops[0], []float64{0}, adaptively, &Decision{}, deadline))
	if rescue.calls != 1 {
		t.Errorf("behind its deadline the solver was asked %d times, want once before", rescue.calls)
	}
}

// A decision that is made again under other limits has its rescue begin at the plan that was found for it before.
func TestAnotherDecisionBeginsAtThePlan(t *testing.T) {
	rescue := &solver{answer: func([]float64, int) []float64 { return nil }}
	n := guarded(t, newSpeeding(-0.9), domain.Guard{}, rescue)
	may := domain.AbilitiesOfController(n.Controller())
	s, plan := []float64{-2, 1}, []float64{0.3, -0.2, 0.1}
	may.Again(plan)
	require.Get(n.Decide(s, []float64{0}, adaptively))(t)
	if len(rescue.begun) == 0 || !slices.Equal(rescue.begun[0][:len(plan)], plan) {
		t.Errorf("the solver began at %v, want at the plan %v first", rescue.begun, plan)
	}
	calls := rescue.calls
	n.Reset()
	require.Get(n.Decide(s, []float64{0}, adaptively))(t)
	if begun := rescue.begun[calls:]; len(begun) != 1 || slices.Equal(begun[0][:len(plan)], plan) {
		t.Errorf("in an episode of its own the solver began at %v", begun)
	}
}

// Of a plan that broke a limit at once nothing is left to go on from: where the plant is elsewhere a rescue follows.
func TestGuardWithNothingLeftOfAPlan(t *testing.T) {
	rescue := &solver{answer: func([]float64, int) []float64 { return nil }}
	n := guarded(t, newSpeeding(-0.9), domain.Guard{}, rescue)
	for _, q := range []float64{-2, -1} {
		d := require.Get(n.Decide([]float64{q, 1}, []float64{0}, adaptively))(t)
		if d.Fallback&domain.FallbackRescue == 0 || len(n.batch.loops[0].guard.accepted.actions) != 1 {
			t.Errorf("q %g: fallback %v, a plan of %v: want a rescue that finds none", q, d.Fallback, n.batch.loops[0].guard.accepted.actions)
		}
	}
	if rescue.calls != 2 {
		t.Errorf("the solver was asked %d times, want once a rescue", rescue.calls)
	}
}

// unable is a solver whose solves are an error.
type unable struct{ *solver }

func (u unable) NewHorizon(int) domain.Horizon             { return u }
func (u unable) Tightened(slack []float64) domain.Receding { return u }
func (u unable) Solve(s, c []float64, pref domain.Preference, plan []float64) (float64, bool, error) {
	return 0, false, errors.New("no such plan")
}

// A decision is an error where the solver of its rescue says so.
func TestAnErrorOfARescueIsTheDecisions(t *testing.T) {
	n := guarded(t, newSpeeding(0.5), domain.Guard{}, unable{&solver{}})
	if _, err := n.Decide([]float64{-1, 0.4}, []float64{0}, simplex(0)); err == nil || !strings.Contains(err.Error(), "no such plan") {
		t.Errorf("error %v", err)
	}
}

// Where a lost observation leaves a fallback that breaks a limit, a solver's action of a larger margin is executed, and no other.
func TestALostObservationsFallback(t *testing.T) {
	cart := testdomain.NewCart(50)
	const solved = domain.FallbackObservation | domain.FallbackSolver
	const braked = domain.FallbackObservation | domain.FallbackConservative
	nan := math.NaN()
	for _, c := range []struct {
		s    []float64
		u    float64
		want domain.Fallback
	}{{[]float64{2.2, 0.5}, -1.2, solved}, {[]float64{2.2, 0.5}, -0.5, braked}, {[]float64{2.2, 0.5}, -1, braked}, {[]float64{0, 0}, -0.5, braked}, {[]float64{nan, 0.5}, -1.2, braked}} {
		solver := func(_, _ []float64, _ domain.Preference, u []float64) bool {
			u[0] = c.u
			return true
		}
		n := require.Get(NewNavigator(ref.New(), testdomain.Map(cart, 3, false), cart, Options{Solver: solver}))(t)
		d := require.Get(n.Decide(c.s, []float64{nan}, adaptively))(t)
		u := -1.0
		if c.want == solved {
			u = c.u
		}
		if d.Fallback != c.want || d.U[0] != u || !math.IsNaN(d.Margin) || !math.IsNaN(d.Residual) || d.Displacement != 0 || d.Consistent || d.Decoded != nil || !d.OffMap {
			t.Errorf("%+v: %+v", c, d)
		}
	}
}
