package gpc_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func heaterOf[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Step:       func(s, _, u, n, _ []T) { n[0] = dual.Const[T](0.8)*s[0] + dual.Const[T](0.2)*u[0] },
		Objectives: func(_, c, u, n, j []T) { e := n[0] - c[0]; j[0], j[1] = e*e, dual.Const[T](1e-4)*u[0]*u[0] },
		Margins:    func(_, _, _, n, m []T) { m[0] = 40 - n[0] },
	}
}

// heater holds a room, in K above the outside, at a reference. Rest needs an action, so that a wrong gain leaves an
// offset.
func heater() equations.System {
	return equations.System{
		Name: "heater", Description: "a heated room",
		State: []domain.Variable{{Name: "T", Unit: "K", Lo: 0, Hi: 40}}, Context: []domain.Variable{{Name: "reference", Unit: "K"}},
		Action:     []domain.Variable{{Name: "power", Unit: "K", Lo: 0, Hi: 50}},
		Objectives: []domain.Variable{{Name: "comfort", Unit: "K²"}, {Name: "power", Unit: "K²"}}, Margins: []domain.Variable{{Name: "T", Unit: "K"}},
		Scenario: []domain.Variable{{Name: "T", Unit: "K", Lo: 5, Hi: 15}, {Name: "reference", Unit: "K", Lo: 18, Hi: 24}},
		Initial:  func(p, s, c []float64) { s[0], c[0] = p[0], p[1] },
		Steps:    60, StepSeconds: 60, Real: heaterOf[float64](), Dual: heaterOf[complex128](),
		Urgency: func(_, _, delta []float64) { delta[0], delta[1] = 1, 0 },
		Measurement: &domain.Measurement{
			Outputs: []domain.Variable{{Name: "T", Unit: "K"}}, Deviation: []float64{0.02},
			Real: func(s, _, _, y []float64) { y[0] = s[0] }, Dual: func(s, _, _, y []complex128) { y[0] = s[0] },
		},
	}
}

func caseOf(t *testing.T, y equations.System) *gpc.Case {
	t.Helper()
	return require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
}

// offsetOf is how far the mean temperature of the last decisions is from the reference, in % of the range.
func offsetOf(t *testing.T, c *gpc.Case) float64 {
	t.Helper()
	offset := 0.0
	episodes(t, c, closedloop.Options{Episodes: 1, Visit: func(e *closedloop.EpisodeRecord) {
		for _, l := range e.Lines[30:50] {
			offset += (l.S[0] - l.C[0]) / 20
		}
	}})
	return 100 * math.Abs(offset) / 40
}

// The gain of an actuator is a parameter of any system's plant. A solver that knows it rests at the reference, one that
// does not rests beside it, and one that is given the estimate of it rests at the reference.
func TestAGainIsKnownUnknownOrEstimated(t *testing.T) {
	c := caseOf(t, heater())
	uncertain := require.Get(heater().UncertainGains(0.1))(t)
	for _, gain := range []float64{0.9, 1.1} {
		plant := require.Get(c.Shifted(map[string]float64{"power": gain}))(t)
		known, unknown := offsetOf(t, plant), offsetOf(t, require.Get(c.On(plant))(t))
		def := require.Get(uncertain.Case())(t)
		drawn := def.Plant.(*closedloop.Simulation)
		p := drawn.Start(5, 0)
		p[2] = gain
		drawn.Starts = [][]float64{p}
		estimated := offsetOf(t, require.Get(gpc.NewCase(def))(t))
		t.Logf("gain %v: offset at rest, %% of the range: known %.3g, unknown %.3g, estimated %.3g", gain, known, unknown, estimated)
		if known > 0.5 || estimated > 0.5 || !(unknown > 0.5+2*estimated) {
			t.Errorf("gain %v: offset at rest, %% of the range: known %.3g and estimated %.3g, want 0.5 at most, unknown %.3g, want more", gain, known, estimated, unknown)
		}
	}
	if _, err := c.Shifted(map[string]float64{"powr": 2}); err == nil || !strings.Contains(err.Error(), "power") {
		t.Errorf("an actuator that there is not: %v", err)
	}
	if _, err := heater().UncertainGains(1); err == nil {
		t.Error("gains down to zero are taken")
	}
}

// Gains are entries of the context with a place of their own: the functions of the system itself are given what they
// were given without, and a gain of one changes nothing.
func TestGainsStandBehindTheContext(t *testing.T) {
	y := heater()
	y.Measurement = nil
	y.Real.Margins = func(_, c, _, n, m []float64) { m[0] = 40 - n[0] + c[1] } // c[1] is the clock
	y.Dual.Margins = func(_, c, _, n, m []complex128) { m[0] = 40 - n[0] + c[1] }
	with := require.Get(y.UncertainGains(0.1))(t)
	own, gained := require.Get(equations.New(y))(t), require.Get(equations.New(with))(t)
	if spec := gained.Spec(); spec.Name != "heater-gains" || spec.ContextSize() != 3 || spec.Context[1].Name != "gain of power" {
		t.Fatalf("the context is %+v of %s", spec.Context, spec.Name)
	}
	one, s, c, u, u2 := make([]float64, 1), []float64{20}, []float64{22, 0.3}, []float64{30}, []float64{24}
	own.Margins(s, c, u, one)
	next, after := make([]float64, 1), make([]float64, 3)
	m := make([]float64, 1)
	if gained.Margins(s, []float64{22, 1, 0.3}, u, m); m[0] != one[0] {
		t.Errorf("with a gain of 1 the margin is %v, without gains %v", m[0], one[0])
	}
	a, b := make([]float64, 1), make([]float64, 2)
	own.Step(s, c, u2, a, b)
	if gained.Step(s, []float64{22, 0.8, 0.3}, u, next, after); math.Abs(next[0]-a[0]) > 1e-12 || after[1] != 0.8 || after[2] != b[1] {
		t.Errorf("a gain of 0.8 leads to %v and %v, %v of the action to %v and %v", next, after, 0.8, a, b)
	}
}

// A trace of a system's file whose plant has another gain is verified without the file: in a plant that the solver
// knows, and in one that it does not.
func TestATraceOfAShiftedFileIsVerifiedWithoutIt(t *testing.T) {
	text := string(require.Get(os.ReadFile("equations/systemfile/testdata/crane.json"))(t))
	text = strings.Replace(strings.Replace(text, `"steps":50`, `"steps":12`, 1), `["const",0.02]`, `["const",0.08333333333333333]`, 1)
	c := require.Get(gpc.SystemText([]byte(text)))(t)
	weak := require.Get(c.Shifted(map[string]float64{"pull": 0.9}))(t)
	for name, of := range map[string]*gpc.Case{"known": weak, "unknown": require.Get(c.On(weak))(t)} {
		trace := filepath.Join(t.TempDir(), "run.jsonl")
		r := require.Get(of.Evaluate(t.Context(), gpc.Setup{Method: "mpc-5"}, engine.Options{}, closedloop.Options{
			Episodes: 1, Seed: 5, TracePath: trace, Preference: domain.Preference{Adaptive: true},
		}))(t)
		if r.Failures != 0 {
			t.Errorf("%s: %+v", name, r)
		}
		verified(t, &gpc.Catalogue{}, trace)
	}
}

// Uncertain gains of a case are those of its system: an exact solver that is given their estimates rests at the reference in a
// plant that has another gain besides, which is estimated too. A measurement that comes afterwards knows no gain either.
func TestUncertainGainsOfACase(t *testing.T) {
	c := caseOf(t, heater())
	of := require.Get(c.UncertainGains(0.1))(t)
	weak := map[string]float64{"power": 0.93}
	fixed := require.Get(of.On(require.Get(of.Shifted(weak))(t)))(t)
	if name := require.Get(of.On(c))(t).Definition().Other.Case; name != "heater-gains" {
		t.Errorf("the other plant is %s, whose gains should be uncertain too", name)
	}
	if unknown, estimated := offsetOf(t, require.Get(c.On(require.Get(c.Shifted(weak))(t)))(t)), offsetOf(t, fixed); !(estimated < 0.5) || !(unknown > 1) {
		t.Errorf("offset at rest, %% of the range: unknown %.3g, estimated %.3g", unknown, estimated)
	}
	y := heater()
	y.Measurement = nil
	late := require.Get(require.Get(caseOf(t, y).UncertainGains(0.1))(t).Measured(domain.Whole(c.Spec(), 1e-3)))(t)
	if m := late.Definition().Measurement; len(m.Unknown) != 1 || m.Unknown[0].Context != 1 || m.Unknown[0].Mean != 1 {
		t.Errorf("a measurement that comes afterwards does not know %+v", m.Unknown)
	}
	for _, refused := range []func() (*gpc.Case, error){
		func() (*gpc.Case, error) { return of.UncertainGains(0.1) },
		func() (*gpc.Case, error) { return c.UncertainGains(1) },
		func() (*gpc.Case, error) { return require.Get(c.Shifted(weak))(t).UncertainGains(0.1) },
		func() (*gpc.Case, error) { return require.Get(c.On(c))(t).UncertainGains(0.1) },
	} {
		if _, err := refused(); !errors.As(err, new(gpc.InputError)) {
			t.Errorf("want an error of input, got %v", err)
		}
	}
}

// A trace with uncertain gains holds the system with them, so that it is verified by the program without it, in another
// plant too. A scene of what acts on a plant is no scene of one on which nothing acts.
func TestATraceOfUncertainGainsIsVerified(t *testing.T) {
	text := string(require.Get(os.ReadFile("equations/systemfile/testdata/crane.json"))(t))
	text = strings.Replace(strings.Replace(text, `"steps":50`, `"steps":12`, 1), `["const",0.02]`, `["const",0.08333333333333333]`, 1)
	c := require.Get(require.Get(gpc.SystemText([]byte(text)))(t).UncertainGains(0.2))(t)
	weak := require.Get(c.Shifted(map[string]float64{"pull": 0.9}))(t)
	for name, of := range map[string]*gpc.Case{"own": c, "known": weak, "unknown": require.Get(c.On(weak))(t)} {
		of = require.Get(of.Measured(domain.Whole(of.Spec(), 1e-3)))(t)
		trace := filepath.Join(t.TempDir(), "run.jsonl")
		r := require.Get(of.Evaluate(t.Context(), gpc.Setup{Method: "mpc-5"}, engine.Options{}, closedloop.Options{
			Episodes: 1, Seed: 5, TracePath: trace, Preference: domain.Preference{Adaptive: true},
		}))(t)
		if r.Failures != 0 || r.Case != "crane-gains" {
			t.Errorf("%s: %+v", name, r)
		}
		verified(t, &gpc.Catalogue{}, trace)
	}
	plant := c.Definition().Plant
	scene := []byte(`{"p":null,"s":[0,0,0,0],"c":[0,1,0],"preference":{"adaptive":true},"process":7}`)
	if _, err := plant.Replay(require.Get(json.Marshal(plant.Params()))(t), scene); err == nil {
		t.Error("a scene of a plant on which something acts is taken for one on which nothing does")
	}
}

// What is found of a system is of the plant that it is on: a gain of a million million leaves the first objective alone.
func TestFindingsAreOfTheShiftedPlant(t *testing.T) {
	c := caseOf(t, heater())
	shifted := require.Get(c.Shifted(map[string]float64{"power": 1e12}))(t)
	if before, after := c.Findings(), shifted.Findings(); len(before) > 0 || len(after) == 0 || after[0].Subject != "objective power" {
		t.Errorf("found %v, and of the shifted plant %v", before, after)
	}
}
