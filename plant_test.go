package gpc_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// sledOf are the equations of a mass of which each push moves so much.
func sledOf[T dual.Scalar](push float64) equations.Functions[T] {
	return equations.Functions[T]{
		Step: func(s, _, u, n, _ []T) {
			a := dual.Const[T](push) * u[0]
			n[0], n[1] = s[0]+dual.Const[T](0.2)*s[1]+dual.Const[T](0.02)*a, s[1]+dual.Const[T](0.2)*a
		},
		Objectives: func(_, _, u, n, j []T) {
			j[0], j[1] = n[0]*n[0]+dual.Const[T](0.1)*n[1]*n[1], u[0]*u[0]
		},
		Margins: func(_, _, _, n, m []T) { m[0] = 1 - n[1] },
	}
}

func sledSystem(push float64, horizon int) equations.System {
	return equations.System{
		Name: "sled", Description: "a mass with a speed limit",
		State:      []domain.Variable{{Name: "q", Unit: "m"}, {Name: "v", Unit: "m/s"}},
		Action:     []domain.Variable{{Name: "u", Unit: "m/s²", Lo: -2, Hi: 2}},
		Objectives: []domain.Variable{{Name: "position", Unit: "m²"}, {Name: "effort", Unit: "1"}},
		Margins:    []domain.Variable{{Name: "speed", Unit: "m/s"}},
		Scenario:   []domain.Variable{{Name: "q", Unit: "m", Lo: -1, Hi: 1}, {Name: "v", Unit: "m/s", Lo: -0.5, Hi: 0.5}},
		Initial:    func(p, s, _ []float64) { copy(s, p) },
		Steps:      10, StepSeconds: 0.2, Horizon: horizon, Constants: push,
		Real: sledOf[float64](push), Dual: sledOf[complex128](push),
		Plants: &equations.Plants{
			Parameters: []domain.PlantParameter{{Name: "push", About: "what a push moves"}},
			New:        func(f []float64) equations.System { return sledSystem(push*f[0], horizon) },
		},
	}
}

// sledCase is the sled and the catalogue that a trace of it is verified by.
func sledCase(t *testing.T, horizon int) (*gpc.Case, *gpc.Catalogue) {
	t.Helper()
	y := sledSystem(1, horizon)
	def := require.Get(y.Case())(t)
	return require.Get(gpc.NewCase(def))(t), &gpc.Catalogue{Cases: []domain.Case{def}}
}

func episodes(t *testing.T, c *gpc.Case, opt closedloop.Options) *closedloop.Result {
	t.Helper()
	opt.Seed, opt.Preference = 5, domain.Preference{Adaptive: true}
	return require.Get(c.Evaluate(context.Background(), gpc.Setup{Method: "nmpc"}, engine.Options{}, opt))(t)
}

// verified demands that a trace is confirmed, decision by decision.
func verified(t *testing.T, k *gpc.Catalogue, trace string) {
	t.Helper()
	v := require.Get(k.Verify(t.Context(), trace, &gpc.Again{}, closedloop.VerifyOptions{}))(t)
	if !v.OK || !v.Exact {
		t.Errorf("the trace is not confirmed: exact %t, %+v", v.Exact, v.Mismatches)
	}
}

// Methods know the model, the reference knows the plant: in a plant whose pushes move less they cost more than its
// optimum. The same factor as a shift is known to the solver, which then costs nothing more.
func TestEpisodesInAnotherPlantThanTheModel(t *testing.T) {
	c, k := sledCase(t, 0)
	weak := require.Get(c.Shifted(map[string]float64{"push": 0.6}))(t)
	trace := filepath.Join(t.TempDir(), "run.jsonl")
	unknown := episodes(t, require.Get(c.On(weak))(t), closedloop.Options{Episodes: 3, TracePath: trace})
	known := episodes(t, weak, closedloop.Options{Episodes: 3})
	if !(unknown.RegretPct > 0.1) || !(known.RegretPct < 0.01) || unknown.RegretN != 3 {
		t.Errorf("regret %v %% where the plant is not known and %v %% where it is, of %d episodes", unknown.RegretPct, known.RegretPct, unknown.RegretN)
	}
	if p := unknown.Plant; p == nil || p.Case != "sled" || p.Shift["push"] != 0.6 || p.ProblemSHA256 == unknown.ProblemSHA256 || known.Plant != nil || unknown.Shift != nil {
		t.Errorf("the plant is said to be %+v, of the model %s with the shift %v", p, unknown.ProblemSHA256, unknown.Shift)
	}
	verified(t, k, trace)
	knows := filepath.Join(t.TempDir(), "oracle.jsonl")
	for _, late := range []float64{0, 1} {
		of := require.Get(require.Get(c.On(weak))(t).Delayed(late))(t)
		opt := closedloop.Options{Episodes: 3, Seed: 5, Preference: domain.Preference{Adaptive: true}, TracePath: knows + fmt.Sprint(late)}
		oracle := require.Get(of.Evaluate(t.Context(), gpc.Setup{Method: "oracle"}, engine.Options{}, opt))(t)
		if !(math.Abs(float64(oracle.RegretPct)) < 0.01) || oracle.RegretN != 3 {
			t.Errorf("delay %v: the oracle costs %v %% more than the plant's optimum, of %d episodes: it should know the plant", late, oracle.RegretPct, oracle.RegretN)
		}
		verified(t, k, opt.TracePath)
	}
	other := *k
	y := sledSystem(1.01, 0)
	other.Cases = []domain.Case{require.Get(y.Case())(t)}
	if v := require.Get(other.Verify(t.Context(), trace, nil, closedloop.VerifyOptions{}))(t); v.OK {
		t.Error("a trace is confirmed by another model and plant of the same names")
	}
	pair := require.Get(require.Get(c.On(weak))(t).Pair(context.Background(), []gpc.Contender{{Method: "nmpc"}, {Method: "hold"}}, "", engine.Options{},
		closedloop.Options{Episodes: 3, Seed: 5, Preference: domain.Preference{Adaptive: true}}))(t)
	if pair.Plant == nil || pair.Plant.Shift["push"] != 0.6 || pair.Pairs[0].RegretPct != unknown.RegretPct {
		t.Errorf("a pairing in the plant %+v has the regret %v, want %v", pair.Plant, pair.Pairs[0].RegretPct, unknown.RegretPct)
	}
	late := episodes(t, require.Get(require.Get(c.On(weak))(t).Delayed(1))(t), closedloop.Options{Episodes: 1})
	if late.Plant == nil || late.Failures != 0 {
		t.Errorf("with a delay: %+v", late)
	}
}

// An evaluation that is ended does not wait for the solve of a decision.
func TestAnEvaluationEndsWithinADecision(t *testing.T) {
	c, _ := sledCase(t, 0)
	asked := 0
	_, err := c.Evaluate(require.EndAfter(5), gpc.Setup{Method: "nmpc"}, engine.Options{}, closedloop.Options{
		Episodes: 1, Preference: domain.Preference{Adaptive: true}, Clock: func() time.Time { asked++; return time.Time{} },
	})
	if !errors.Is(err, context.Canceled) || asked > 3 {
		t.Errorf("%v after %d times of decisions", err, asked)
	}
}

// An oracle of a case's own knows that case's plant, so that it is refused in another, and so is one in a plant that
// nothing solves. The message names what to use.
func TestAnOracleIsRefusedWhereItDoesNotKnowThePlant(t *testing.T) {
	model := sledSystem(1, 0)
	own := require.Get(model.Case())(t)
	own.Methods = []domain.Method{{Name: "exact", Group: domain.GroupExact, New: func(domain.Means) (domain.Controller, error) { return nil, nil }}}
	plant := sledSystem(0.6, 0)
	unsolved := require.Get(plant.Case())(t)
	unsolved.Solver, unsolved.Tightened = nil, nil
	for method, c := range map[string]*gpc.Case{
		"exact":  require.Get(require.Get(gpc.NewCase(own))(t).On(caseOf(t, plant)))(t),
		"oracle": require.Get(caseOf(t, model).On(require.Get(gpc.NewCase(unsolved))(t)))(t),
	} {
		if _, err := c.Resolve(gpc.Setup{Method: method}); !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), "use nmpc") {
			t.Errorf("method %s: %v", method, err)
		}
		if _, err := c.Resolve(gpc.Setup{Method: "nmpc"}); err != nil {
			t.Errorf("nmpc beside method %s: %v", method, err)
		}
	}
}

// A plant that runs on is driven for as long as is asked, by the same decisions; one that ends is not.
func TestAPlantThatRunsOnIsDrivenForLonger(t *testing.T) {
	c, k := sledCase(t, 10)
	dir := t.TempDir()
	trace := filepath.Join(dir, "long.jsonl")
	long := episodes(t, require.Get(c.Driven(100))(t), closedloop.Options{Episodes: 1, TracePath: trace})
	var first []float64
	episodes(t, c, closedloop.Options{Episodes: 1, Visit: func(e *closedloop.EpisodeRecord) {
		for _, l := range e.Lines {
			first = append(first, l.U...)
		}
	}})
	if long.Decisions != 100 || long.Steps != 100 || long.Safe != 1 || !(long.RegretPct < 1) {
		t.Errorf("%d decisions of %d, safe %v, regret %v %%: a receding plan over ten horizons costs about the optimum", long.Decisions, long.Steps, long.Safe, long.RegretPct)
	}
	if points := len(long.Series.Total.Mean); points != 50 {
		t.Errorf("the series has %d points", points)
	}
	episodes(t, require.Get(c.Driven(100))(t), closedloop.Options{Episodes: 1, Visit: func(e *closedloop.EpisodeRecord) {
		for i, u := range first {
			if e.Lines[i].U[0] != u {
				t.Fatalf("decision %d is %v, in an episode of 10 decisions %v", i, e.Lines[i].U[0], u)
			}
		}
	}})
	verified(t, k, trace)
	for _, refused := range []func() (*gpc.Case, error){
		func() (*gpc.Case, error) { return c.Driven(0) },
		func() (*gpc.Case, error) { return require.Get(c.Delayed(3))(t).Driven(3) },
		func() (*gpc.Case, error) { return require.Get(c.Driven(3))(t).Delayed(3) },
		func() (*gpc.Case, error) { ends, _ := sledCase(t, 0); return ends.Driven(20) },
	} {
		if _, err := refused(); !errors.As(err, new(gpc.InputError)) {
			t.Errorf("want an error of input, got %v", err)
		}
	}
}

// Declared times say which decisions are late, whatever the machine does: these are counted, the plan before is
// executed in their place, and the episode costs more. Times within the period change nothing.
func TestALateDecisionIsHeldAndCosts(t *testing.T) {
	c, k := sledCase(t, 0)
	trace := filepath.Join(t.TempDir(), "late.jsonl")
	const period = 0.2e6
	prompt := episodes(t, c, closedloop.Options{Episodes: 6})
	within := episodes(t, c, closedloop.Options{Episodes: 6, Computing: &closedloop.Computing{P50: 0.1 * period, P99: 0.2 * period}})
	if within.Late != 0 || within.CostMean != prompt.CostMean {
		t.Errorf("%d late decisions cost %v, none cost %v", within.Late, within.CostMean, prompt.CostMean)
	}
	slow := &closedloop.Computing{P50: 0.5 * period, P99: 4 * period}
	recorded, held := 0, 0
	late := episodes(t, c, closedloop.Options{Episodes: 6, Computing: slow, TracePath: trace, Visit: func(e *closedloop.EpisodeRecord) {
		for _, l := range e.Lines {
			if l.Late {
				recorded++
			}
			if f := domain.Fallback(l.Fallback); f&(domain.FallbackIncumbent|domain.FallbackConservative) != 0 {
				held++
			}
		}
	}})
	if late.Late == 0 || late.Late == late.Decisions || late.Late != recorded || held != recorded || late.Fallback != recorded || !(late.RegretPct > prompt.RegretPct+0.01) {
		t.Errorf("%d of %d decisions late, %d recorded as late, %d held; regret %v %%, in time %v %%", late.Late, late.Decisions, recorded, held, late.RegretPct, prompt.RegretPct)
	}
	verified(t, k, trace)
	for _, method := range []string{"nmpc-ahead", "hold"} { // they are told what was executed, or the trace is not decided again
		trace := filepath.Join(t.TempDir(), method)
		require.Get(c.Evaluate(context.Background(), gpc.Setup{Method: method}, engine.Options{}, closedloop.Options{
			Episodes: 2, Seed: 5, Computing: slow, TracePath: trace, Preference: domain.Preference{Adaptive: true},
		}))(t)
		verified(t, k, trace)
	}
	always := episodes(t, c, closedloop.Options{Episodes: 1, Computing: &closedloop.Computing{P50: 1.5 * period, P99: 1.5 * period}})
	if always.Late != always.Decisions {
		t.Errorf("%d of %d decisions that take a period and a half are late", always.Late, always.Decisions)
	}
	for _, wrong := range []closedloop.Computing{{}, {P50: 2, P99: 1}, {P50: -1, P99: 1}} {
		opt := closedloop.Options{Episodes: 1, Preference: domain.Preference{Adaptive: true}, Computing: &wrong}
		if _, err := c.Evaluate(context.Background(), gpc.Setup{Method: "nmpc"}, engine.Options{}, opt); !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), "median computing time") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// A filter counts on what is executed in place of late decisions, of actions under way too: its predictions stay those
// of the plant, though a plan of one action leaves the conservative one, which is far from it.
func TestAFilterKnowsWhatIsExecutedInPlaceOfLateDecisions(t *testing.T) {
	c := require.Get(caseOf(t, heater()).Delayed(1))(t)
	period := 1e6 * c.Spec().StepSeconds
	late := 0
	opt := closedloop.Options{Episodes: 2, Seed: 5, Preference: domain.Preference{Adaptive: true}, Computing: &closedloop.Computing{P50: 0.8 * period, P99: 3 * period}}
	opt.Visit = func(e *closedloop.EpisodeRecord) {
		for _, l := range e.Lines[10:50] { // the filter has begun, and actions act in the episode
			if l.Late {
				late++
			}
			if made := l.Latency > 0; made && !(math.Abs(l.X[0]-l.S[0]) < 0.1) {
				t.Errorf("decision %d is made for %v K, its action begins to act in %v K", l.T, l.X[0], l.S[0])
			}
		}
	}
	r := require.Get(c.Evaluate(context.Background(), gpc.Setup{Method: "mpc-1"}, engine.Options{}, opt))(t)
	if late == 0 || late != min(late, r.Late) || r.Failures != 0 {
		t.Errorf("%d late decisions of %d, %d episodes not completed", late, r.Late, r.Failures)
	}
}
