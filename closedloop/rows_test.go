package closedloop_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

var rowAxes = []domain.Variable{{Name: "q0", Lo: -1.5, Hi: 1.5}, {Name: "v0", Lo: -0.5, Hi: 0.5}}

func rowStart(p, s, c []float64) { s[0], s[1], c[0] = p[0], p[1], 0 }

// rowCase is a problem with the generic solver, plant and oracle.
func rowCase(t *testing.T, p domain.Problem, opt ocp.Options) *domain.Case {
	t.Helper()
	solver := require.Get(ocp.New(p, rowAxes, rowStart, opt))(t)
	plant := closedloop.Simulated(p, rowAxes, rowStart)
	plant.Oracle = solver.Oracle
	return &domain.Case{Problem: p, Solver: solver, Plant: plant}
}

// rowOptions are three episodes under fixed weights.
func rowOptions() closedloop.Options {
	o := options("")
	o.Episodes, o.Preference = 3, domain.Preference{W: []float64{0.8, 0.2}}
	return o
}

// row evaluates one of the generic methods by its name.
func row(t *testing.T, c *domain.Case, name string, o closedloop.Options) *closedloop.Result {
	t.Helper()
	m, ok := closedloop.Row(c, name)
	if !ok {
		t.Fatalf("there is no method %q", name)
	}
	return evaluate(t, c, func() (domain.Controller, error) { return m.New(domain.Means{}) }, o)
}

func names(methods []domain.Method) (all []string) {
	for _, m := range methods {
		all = append(all, m.Name)
	}
	return all
}

// prepared counts preparations.
type prepared struct {
	*ocp.Solver
	times int
}

func (p *prepared) Prepare(ctx context.Context, seed uint64, progress func(done, total int)) error {
	p.times++
	return p.Solver.Prepare(ctx, seed, progress)
}

// What first decisions begin from is there before the first of them is timed.
func TestRowsPrepareTheirSolver(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{})
	solver := &prepared{Solver: c.Solver.(*ocp.Solver)}
	c.Solver = solver
	for _, name := range []string{"oracle", "nmpc", "nmpc-ahead"} {
		before := solver.times
		m, _ := closedloop.Row(c, name)
		require.Get(m.New(domain.Means{}))(t)
		if solver.times != before+1 {
			t.Errorf("%s prepared its solver %d times", name, solver.times-before)
		}
	}
}

func TestRowsOfACase(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{})
	if got, want := names(closedloop.Rows(c)), []string{"oracle", "hold", "online", "mpc-5", "mpc-10", "nmpc", "nmpc-from-8", "nmpc-ahead", "mppi-512", "mppi-4096"}; !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	for name, there := range map[string]bool{"mpc-1": true, "mpc-7": true, "mpc-12": true, "mpc-13": false, "mpc-0": false, "mpc-07": false, "mpc-": false, "mpc": false, "nmpc": true, "direct": false,
		"nmpc-from-3": true, "nmpc-from-0": false, "mppi-8": true, "mppi-7": false, "mppi-064": false, "mppi-64-0.1-0.02-0.9-100": true, "mppi-64-0.1-0.02-1-100": false, "mppi-64-0.1-0.02": false, "mppi-64--0.1-0.02-0-1": false,
	} {
		if m, ok := closedloop.Row(c, name); ok != there || ok && m.Name != name {
			t.Errorf("%q: %t, named %q", name, ok, m.Name)
		}
	}
	for what, without := range map[string]domain.Case{
		"no solver":                 {Problem: c.Problem, Plant: c.Plant},
		"a map of another problem":  {Problem: c.Problem, Learned: c.Problem, Solver: c.Solver, Plant: c.Plant},
		"a solver that cannot look": {Problem: c.Problem, Solver: struct{ domain.Solver }{c.Solver}, Plant: c.Plant},
	} {
		if _, ok := closedloop.Row(&without, "mpc-3"); ok || len(closedloop.Rows(&without)) > 0 {
			t.Errorf("%s: it has rows", what)
		}
	}
}

// Whoever is told of periods that it missed is told of actions in place of its own too.
func TestRowsAreToldOfBothOrNone(t *testing.T) {
	for _, m := range closedloop.Rows(rowCase(t, testdomain.NewCart(steps), ocp.Options{})) {
		a := domain.AbilitiesOfController(require.Get(m.New(domain.Means{}))(t))
		if (a.Executed == nil) != (a.Missed == nil) {
			t.Errorf("%s: Executed is nil: %t, Missed: %t", m.Name, a.Executed == nil, a.Missed == nil)
		}
	}
}

// What is no observation is flagged by every row, the first one too, and the next one is decided as well as without it.
func TestRowsFlagWhatIsNoObservation(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{})
	for _, name := range []string{"online", "mpc-5", "nmpc", "nmpc-ahead", "mppi-16"} {
		m, _ := closedloop.Row(c, name)
		for entry := range 4 {
			k := domain.FiniteController(c.Problem, require.Get(m.New(domain.Means{}))(t))
			require.OK(t, k.Reset(nil))
			u, healthy := make([]float64, 1), [][]float64{{-0.5, 0.1}, {0}}
			for decision := range 4 {
				s, cx := slices.Clone(healthy[0]), slices.Clone(healthy[1])
				lost := decision == 1 || entry == 3 && decision == 0
				if lost {
					*[]*float64{&s[0], &s[1], &cx[0], &s[0]}[entry] = math.NaN()
				}
				d := require.Get(k.Decide(s, cx, domain.Preference{W: []float64{0.5, 0.5}}, u))(t)
				if math.IsNaN(u[0]) || (d.Fallback != 0) != lost {
					t.Errorf("%s, entry %d, decision %d: action %v, fallback %v", name, entry, decision, u, d.Fallback)
				}
				if prepare := domain.AbilitiesOfController(k).Prepare; prepare != nil {
					require.OK(t, prepare())
				}
			}
		}
	}
}

// The longer the look-ahead, the nearer to the optimum, up to it; every row keeps the
// margins.
func TestRowsAreInTheOrderOfTheirLookAhead(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{Tolerance: 1e-8})
	last := math.Inf(1)
	for _, name := range []string{"hold", "online", "mpc-2", "mpc-5", "nmpc"} {
		r := row(t, c, name, rowOptions())
		if r.Safe != 1 || r.Failures != 0 || name != "hold" && r.Fallback != 0 || r.RegretN != 3 {
			t.Errorf("%s: %+v", name, r)
		}
		if !(float64(r.RegretPct) < last) {
			t.Errorf("%s: regret %v %%, that of less look-ahead %v", name, r.RegretPct, last)
		}
		last = float64(r.RegretPct)
	}
	if !(math.Abs(last) < 1e-3) {
		t.Errorf("regret of the whole remaining horizon is %v %%", last)
	}
	whole, mpc := row(t, c, "nmpc", rowOptions()), row(t, c, "mpc-12", rowOptions())
	if whole.CostMean != mpc.CostMean {
		t.Errorf("all %d decisions cost %v by nmpc and %v by mpc-%d", steps, whole.CostMean, mpc.CostMean, steps)
	}
	// In the adaptive mode too the plan along σ of what is predicted is what the plant counts.
	adaptive := rowOptions()
	adaptive.Preference = domain.Preference{Adaptive: true}
	smooth := rowCase(t, mild{testdomain.NewCart(steps)}, ocp.Options{Tolerance: 1e-7})
	if r := row(t, smooth, "nmpc", adaptive); !(math.Abs(float64(r.RegretPct)) < 1e-2) || !(row(t, smooth, "online", adaptive).RegretPct > 1) {
		t.Errorf("adaptive: regret %v %% and %v %%", r.RegretPct, row(t, smooth, "online", adaptive).RegretPct)
	}
}

// counted is a solver that counts its solves.
type counted struct {
	domain.Receding
	solved *int
}

type countedHorizon struct {
	domain.Horizon
	of counted
}

func (r counted) NewHorizon(iterations int) domain.Horizon {
	return countedHorizon{r.Receding.NewHorizon(iterations), r}
}

func (h countedHorizon) Solve(s, c []float64, pref domain.Preference, plan []float64) (float64, bool, error) {
	*h.of.solved++
	return h.Horizon.Solve(s, c, pref, plan)
}

// A horizon that is solved ahead decides as nmpc does where the plant goes as expected, and solves
// for no decision but the first and those under a new preference.
func TestSolvedAhead(t *testing.T) {
	cart := testdomain.NewCart(steps)
	c := rowCase(t, cart, ocp.Options{Tolerance: 1e-8})
	if ahead, nmpc := row(t, c, "nmpc-ahead", rowOptions()), row(t, c, "nmpc", rowOptions()); math.Abs(float64(ahead.CostMean-nmpc.CostMean)) > 1e-6 || ahead.Prepare == nil || nmpc.Prepare != nil {
		t.Errorf("costs %v and %v, prepared in %+v and %+v", ahead.CostMean, nmpc.CostMean, ahead.Prepare, nmpc.Prepare)
	}
	var solved int
	own := *c
	own.Solver = struct {
		domain.Solver
		counted
	}{c.Solver, counted{c.Solver.(domain.Receding), &solved}}
	m, _ := closedloop.Row(&own, "nmpc-ahead")
	pref := rowOptions().Preference
	decide := func(k domain.Controller, s, cx []float64, pref domain.Preference) []float64 {
		u := make([]float64, 1)
		if d, err := k.Decide(s, cx, pref, u); !d.Solved() || err != nil {
			t.Fatal(d, err)
		}
		return u
	}
	k := require.Get(m.New(domain.Means{}))(t)
	require.OK(t, k.Reset(nil))
	s, cx, next, nextC := []float64{1.2, 0.3}, []float64{0}, make([]float64, 2), make([]float64, 1)
	for h := range 5 {
		before := solved
		u := decide(k, s, cx, pref)
		if solves := solved - before; solves != min(h, 1)^1 {
			t.Errorf("decision %d asks for %d solves", h, solves)
		}
		cart.Step(s, cx, u, next, nextC)
		copy(s, next)
		copy(cx, nextC)
		require.OK(t, domain.AbilitiesOfController(k).Prepare())
	}
	before := solved
	if decide(k, s, cx, domain.Preference{W: []float64{0.5, 0.5}}); solved != before+1 {
		t.Errorf("a new preference asks for %d solves", solved-before)
	}
}

// uncorrected hides what a horizon knows to first order.
type uncorrected struct{ domain.Receding }

func (r uncorrected) NewHorizon(iterations int) domain.Horizon {
	return unlinearised{r.Receding.NewHorizon(iterations)}
}

type unlinearised struct{ domain.Horizon }

func (unlinearised) Linearise() bool { return false }

// A decision solved ahead is corrected for what is measured: under noise it costs what nmpc's costs.
func TestAheadIsCorrected(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{Tolerance: 1e-8})
	plain := *c
	plain.Solver = struct {
		domain.Solver
		uncorrected
	}{c.Solver, uncorrected{c.Solver.(domain.Receding)}}
	o := rowOptions()
	o.Noise = 0.03
	nmpc := float64(row(t, c, "nmpc", o).CostMean)
	ahead, as := math.Abs(float64(row(t, c, "nmpc-ahead", o).CostMean)-nmpc), math.Abs(float64(row(t, &plain, "nmpc-ahead", o).CostMean)-nmpc)
	if !(ahead < 0.01*as) {
		t.Errorf("costs differ from nmpc's %v by %v, by %v without the correction", nmpc, ahead, as)
	}
}

// mild is the cart with an urgency that has derivatives.
type mild struct{ *testdomain.Cart }

func (mild) Indicators(s, _, _, delta []float64) { delta[0], delta[1] = s[0]*s[0]/(s[0]*s[0]+1), 0.2 }

// basins is the cart that is pulled to q = −1 or, less, to +1.
type basins struct{ *testdomain.Cart }

func (basins) Objectives(s, u, _, J []float64) {
	w := s[0]*s[0] - 1
	J[0], J[1] = w*w+0.3*s[0]+1, 0.01*u[0]*u[0]+0.05*s[1]*s[1]
}

func (basins) Gradient(s, u, _, sigma, gs, gu []float64) {
	gs[0], gs[1] = sigma[0]*(4*s[0]*(s[0]*s[0]-1)+0.3), sigma[1]*0.1*s[1]
	gu[0] = sigma[1] * 0.02 * u[0]
}

func (basins) Fallback(_, _, u []float64) { u[0] = 0.1 } // the solver's own start is towards the worse

// Where one solve ends in the worse of two basins, the oracle finds the better and says
// how far its starts lie apart.
func TestOracleStatesTheGapBetweenItsStarts(t *testing.T) {
	p := basins{testdomain.NewCart(40)}
	c := rowCase(t, p, ocp.Options{})
	c.Plant.(*closedloop.Simulation).Initial = func(_, s, cx []float64) { clear(s); clear(cx); s[0] = 0.1 }
	o := rowOptions()
	o.Episodes, o.TracePath = 1, t.TempDir()+"/t.jsonl"
	r := row(t, c, "oracle", o)
	// The reference is then the optimum of the better basin.
	if r.Safe != 1 || !(math.Abs(float64(r.RegretPct)) < 0.01) || r.BestKnown != 0 {
		t.Errorf("safe %v, regret %v %%, best known in %d, against a single solve in the worse basin", r.Safe, r.RegretPct, r.BestKnown)
	}
	m := r.Starts
	if m == nil || m.Solves != 8 || !(m.Converged > 0.5) || !(m.Best > 0 && m.Best < 1) || !(m.GapPct.Max > 5) || m.GapPct.N != 1 {
		t.Fatalf("starts %+v", m)
	}
	joined := require.Get(closedloop.Join(t.Context(), p.Spec(), []string{o.TracePath}))(t)
	if joined.Starts == nil || joined.Starts.GapPct.Max != m.GapPct.Max {
		t.Errorf("from the trace: %+v, want %+v", joined.Starts, m)
	}
	if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); !v.OK {
		t.Errorf("%+v", v.Mismatches)
	}
	o.TracePath = ""
	single := *c
	single.Solver = c.Solver.(*ocp.Solver).SingleStart()
	one := row(t, &single, "nmpc", o)
	if one.Starts != nil {
		t.Errorf("nmpc has starts: %+v", one.Starts)
	}
	// So does a loop whose first plan is of several starts, screened or not.
	for _, several := range []struct {
		c    *domain.Case
		name string
	}{{c, "nmpc"}, {&single, "nmpc-from-8"}} {
		if r := row(t, several.c, several.name, o); !(r.CostMean < 0.95*one.CostMean) {
			t.Errorf("%s costs %v, from one start %v", several.name, r.CostMean, one.CostMean)
		}
	}
}

// Path integral control keeps the limits and comes the nearer to the optimum the more it samples; the same seed gives the
// same actions, with or without equations in lanes.
func TestPathIntegralControlComesNearTheOptimum(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{Tolerance: 1e-8})
	regret := func(name string) float64 {
		r := row(t, c, name, rowOptions())
		if r.Safe != 1 || r.Failures != 0 || r.RegretN != 3 {
			t.Errorf("%s: %+v", name, r)
		}
		return float64(r.RegretPct)
	}
	few, many := regret("mppi-16-0.2-0.1-0.9-100"), regret("mppi-1024-0.2-0.1-0.9-100")
	if !(many < few && many < 2) || many != regret("mppi-1024") {
		t.Errorf("regrets of %v %% with 16 candidates and %v %% with 1024", few, many)
	}
	lanes := *c
	lanes.Problem = inRows{c.Problem}
	if r := row(t, &lanes, "mppi-1024", rowOptions()); float64(r.RegretPct) != many {
		t.Errorf("regret %v %% where candidates step together, %v %% one by one", r.RegretPct, many)
	}
}

// inRows evaluates many decisions by the problem's own functions.
type inRows struct{ domain.Problem }

func (p inRows) Abilities() *domain.ProblemAbilities {
	a := *domain.AbilitiesOfProblem(p.Problem)
	spec := p.Spec()
	ns, nu, nj, nm := spec.MeasuredSize(), spec.ActionSize(), spec.ObjectiveSize(), len(spec.Margins)
	nx := ns + spec.ContextSize()
	a.ManyValues = func() (func() domain.ManyValues, error) {
		return func() domain.ManyValues {
			return domain.ManyValues{Evaluate: func(n int, x, u, next, j, margins []float64) {
				for i := range n {
					s, c, u, to := x[i*nx:][:ns], x[i*nx+ns:][:nx-ns], u[i*nu:][:nu], next[i*nx:][:nx]
					p.Objectives(s, u, c, j[i*nj:][:nj])
					p.Margins(s, c, u, margins[i*nm:][:nm])
					p.Step(s, c, u, to[:ns], to[ns:])
				}
			}}
		}, nil
	}
	return &a
}

// lost is a receding horizon that does not converge where fails says, or whose solver
// breaks. Its plan is the number of the call.
type lost struct {
	domain.Horizon
	fails         func(calls int) bool
	broke         error
	calls, begins int
	sizes         []int
}

// lostSolver gives it out.
type lostSolver struct {
	domain.Solver
	h *lost
}

func (s lostSolver) NewHorizon(int) domain.Horizon { return s.h }

func (s lostSolver) Tightened([]float64) domain.Receding { return nil }

func (h *lost) Linearise() bool { return false }

func (h *lost) Begin([]float64) { h.begins++ }

func (h *lost) Solve(_, _ []float64, _ domain.Preference, plan []float64) (float64, bool, error) {
	h.calls++
	h.sizes = append(h.sizes, len(plan))
	for i := range plan {
		plan[i] = 0.01 * float64(h.calls)
	}
	return 0, h.broke == nil && !h.fails(h.calls), h.broke
}

// A decision whose solve does not converge executes what it was left with, and says so;
// the look-ahead ends with the episode, which starts from nothing.
func TestRecedingGoesOnWithoutASolve(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{})
	for name, f := range map[string]struct {
		fails    func(calls int) bool
		fallback int
	}{
		"always": {func(int) bool { return true }, 2 * steps},
		"never":  {func(int) bool { return false }, 0},
		"once":   {func(calls int) bool { return calls == 5 }, 1},
	} {
		h := &lost{fails: f.fails}
		of := domain.Case{Problem: c.Problem, Solver: lostSolver{c.Solver, h}, Plant: c.Plant}
		o := rowOptions()
		var executed []float64
		o.Episodes, o.Visit = 2, func(e *closedloop.EpisodeRecord) {
			for _, l := range e.Lines {
				executed = append(executed, l.U[0])
			}
		}
		r := row(t, &of, "mpc-4", o)
		if r.Fallback != f.fallback || h.calls != 2*steps || h.begins != 2 {
			t.Errorf("%s: %d fallbacks, %d solves, begun %d times; want %d, %d, 2", name, r.Fallback, h.calls, h.begins, f.fallback, 2*steps)
		}
		for i, u := range executed {
			if left := steps - i%steps; math.Abs(u-0.01*float64(i+1)) > 1e-12 || h.sizes[i] != min(4, left) {
				t.Errorf("%s: decision %d executes %v and looks %d ahead, %d are left", name, i, u, h.sizes[i], left)
			}
		}
	}
	of := domain.Case{Problem: c.Problem, Solver: lostSolver{c.Solver, &lost{broke: errors.New("wrong sizes")}}, Plant: c.Plant}
	for _, name := range []string{"nmpc", "oracle"} {
		r := row(t, &of, name, rowOptions())
		if r.Failures != 3 || !strings.Contains(r.Unsafe[0].Cause, "wrong sizes") {
			t.Errorf("%s with a broken solver: %+v", name, r)
		}
	}
	none := domain.Case{Problem: c.Problem, Solver: lostSolver{c.Solver, &lost{fails: func(int) bool { return true }}}, Plant: c.Plant}
	if r := row(t, &none, "oracle", rowOptions()); r.Failures != 3 || r.Starts == nil || r.Starts.Converged != 0 {
		t.Errorf("an oracle whose starts all fail: %+v", r)
	}
}

func TestHoldRepeatsItsAction(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{})
	o := rowOptions()
	o.Visit = func(e *closedloop.EpisodeRecord) {
		for _, l := range e.Lines {
			if l.U[0] != -1 { // the fallback
				t.Errorf("episode %d, decision %d: %v", e.Episode, l.T, l.U)
			}
		}
	}
	row(t, c, "hold", o)
}

// A method that has a number in its name takes those from 1 to its most, written as numbers are.
func TestNumberedMethodsHaveBounds(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{})
	most := c.Problem.Spec().LookAhead()
	for name, want := range map[string]bool{
		"mpc-1": true, fmt.Sprintf("mpc-%d", most): true, fmt.Sprintf("mpc-%d", most+1): false, "mpc-0": false, "mpc-01": false, "mpc--1": false, "mpc-": false,
		"nmpc-from-1": true, "nmpc-from-65536": true, "nmpc-from-65537": false, "nmpc-from-0": false, "nmpc-from-x": false,
	} {
		if m, ok := closedloop.Row(c, name); ok != want || ok && m.Name != name {
			t.Errorf("%s: %v, %q", name, ok, m.Name)
		}
	}
}

// An oracle needs an episode, what solves the plant that runs, and is asked no further than its plan.
func TestAnOracleIsOfItsPlant(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(2), ocp.Options{})
	m, _ := closedloop.Row(c, "oracle")
	k := require.Get(m.New(domain.Means{}))(t)
	if err := k.Reset(nil); err == nil || !strings.Contains(err.Error(), "is nil") {
		t.Errorf("without an episode: %v", err)
	}
	pref := domain.Preference{W: []float64{0.8, 0.2}}
	require.OK(t, k.Reset(require.Get(c.Plant.Episode(1, 0, domain.EpisodeOptions{Preference: pref}))(t)))
	s, cx, u := []float64{0.1, 0}, []float64{0}, make([]float64, 1)
	for i, want := range []string{"", "", "has 2 steps"} {
		if _, err := k.Decide(s, cx, pref, u); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("decision %d: %v", i, err)
		}
	}
	other := *c
	other.Other = &domain.OtherPlant{}
	own := *c.Plant.(*closedloop.Simulation)
	other.Plant = &own
	if _, err := m.New(domain.Means{}); err != nil {
		t.Error(err)
	}
	of, _ := closedloop.Row(&other, "oracle")
	if _, err := of.New(domain.Means{}); err == nil || !strings.Contains(err.Error(), "nothing solves the plant") {
		t.Errorf("a plant that nothing solves: %v", err)
	}
	own.Solver = c.Solver
	require.Get(of.New(domain.Means{}))(t)
}

// A method goes on from what was executed in place of its decision, or in a period without one.
func TestRowsGoOnFromWhatWasExecuted(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{})
	s, cx, u := []float64{0.2, 0}, []float64{0}, make([]float64, 1)
	pref := domain.Preference{W: []float64{0.8, 0.2}}
	m, _ := closedloop.Row(c, "hold")
	k := require.Get(m.New(domain.Means{}))(t)
	a := domain.AbilitiesOfController(k)
	for _, tell := range []func(u []float64){a.Executed, func(u []float64) { a.Missed(nil, nil, u) }} {
		require.OK(t, k.Reset(nil))
		require.Get(k.Decide(s, cx, pref, u))(t)
		tell([]float64{0.375})
		if require.Get(k.Decide(s, cx, pref, u))(t); u[0] != 0.375 {
			t.Errorf("told of 0.375, it holds %v", u)
		}
	}
	// A receding horizon looks one decision less far for each period, made or missed; solved ahead, it solves anew after a missed one.
	for _, name := range []string{"mpc-12", "nmpc-ahead"} {
		m, _ := closedloop.Row(c, name)
		k := require.Get(m.New(domain.Means{}))(t)
		a := domain.AbilitiesOfController(k)
		require.OK(t, k.Reset(nil))
		for i, missed := range []bool{false, false, true, true, false, false} {
			if missed {
				a.Missed(s, cx, u)
				if a.Prepare != nil {
					require.OK(t, a.Prepare())
				}
				continue
			}
			if d := require.Get(k.Decide(s, cx, pref, u))(t); len(d.Ahead) != steps-i {
				t.Errorf("%s: decision %d looks %d ahead", name, i, len(d.Ahead))
			}
		}
	}
}
