package serve_test

import (
	"math"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// glider is a mass whose position alone is measured, in a wind that nobody knows.
func glider(t *testing.T) *gpc.Case {
	t.Helper()
	c := require.Get(equations.System{
		Name: "glider", State: []domain.Variable{{Name: "x"}, {Name: "v"}}, Context: []domain.Variable{{Name: "wind"}},
		Action: []domain.Variable{{Name: "u", Lo: -1, Hi: 1}}, Objectives: []domain.Variable{{Name: "away"}, {Name: "effort"}},
		Margins:  []domain.Variable{{Name: "wall"}},
		Scenario: []domain.Variable{{Name: "x", Lo: -1, Hi: 1}, {Name: "wind", Lo: -0.3, Hi: 0.3}},
		Initial:  func(p, s, c []float64) { s[0], s[1], c[0] = p[0], 0, p[1] },
		Steps:    20, StepSeconds: 0.1, Real: gliderOf[float64](), Dual: gliderOf[complex128](),
		Measurement: &domain.Measurement{
			Outputs: []domain.Variable{{Name: "x"}}, Deviation: []float64{0.01},
			Real: func(s, _, _, y []float64) { y[0] = s[0] }, Dual: func(s, _, _, y []complex128) { y[0] = s[0] },
			Unknown: []domain.Unknown{{Context: 0, Deviation: 0.2}},
		},
	}.Case())(t)
	return require.Get(gpc.NewCase(c))(t)
}

func gliderOf[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Step: func(s, c, u, n, _ []T) {
			n[1] = s[1] + 0.1*(u[0]+c[0])
			n[0] = s[0] + 0.1*n[1]
		},
		Objectives: func(_, _, u, n, j []T) { j[0], j[1] = n[0]*n[0], u[0]*u[0] },
		Margins:    func(_, _, _, n, m []T) { m[0] = 5 - n[0] },
	}
}

// What is measured, served, is decided about as in an evaluation: to the bit, with the estimate said.
func TestWhatIsMeasuredIsServed(t *testing.T) {
	c := glider(t)
	s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: gpc.Setup{Method: "nmpc"}}))(t)
	t.Cleanup(s.Close)
	k := require.Get(c.Controller(nil, gpc.Setup{Method: "nmpc"}))(t)
	require.OK(t, k.Reset(nil))
	adaptive := domain.Preference{Adaptive: true}
	ep := require.Get(c.Definition().Plant.Episode(3, 0, domain.EpisodeOptions{Preference: adaptive}))(t)
	y, x, state, known, u := make([]float64, 1), make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 1)
	for n := 0; !ep.Done(); n++ {
		domain.AbilitiesOfEpisode(ep).Measure(y, x)
		if n == 5 {
			y[0] = math.NaN()
		}
		require.Get(domain.AbilitiesOfController(k).DecideMeasured(y, x, adaptive, state, known, u))(t)
		d := require.Get(s.Decide(t.Context(), "a", serve.Request{Y: y, C: x}))(t)
		if d.U[0] != u[0] || d.Estimate == nil || d.Estimate.S[1] != state[1] || d.Estimate.C[0] != known[0] {
			t.Fatalf("decision %d: %+v, want %v of %v, %v", n, d, u, state, known)
		}
		if want := map[bool]string{true: "missing", false: "fine"}[n == 5]; d.Estimate.Faults[0] != want {
			t.Errorf("decision %d: the output is %s, want %s", n, d.Estimate.Faults[0], want)
		}
		require.Get(ep.Apply(u))(t)
	}
	truth := make([]float64, 2)
	if ep.State(truth); math.Abs(state[1]-truth[1]) > 0.2 {
		t.Errorf("the speed is %v, its estimate at the last decision %v", truth[1], state[1])
	}
}

// A plant that a client drives gives what it measures, with its gaps, and its episodes are those of an evaluation.
func TestAPlantElsewhereIsMeasured(t *testing.T) {
	c := glider(t)
	s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: gpc.Setup{Method: "nmpc"}}))(t)
	t.Cleanup(s.Close)
	h := httptest.NewServer(serve.Handler(s, serve.HTTPOptions{}))
	defer h.Close()
	client := require.Get(serve.Dial(h.URL, serve.ClientOptions{}))(t)
	defer client.Close()
	o := closedloop.Options{Episodes: 3, Seed: 2, Preference: domain.Preference{Adaptive: true}}
	want := require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "nmpc"}, engine.Options{}, o))(t)
	got := require.Get(c.EvaluateBy(t.Context(), func() (domain.Controller, error) { return client.Controller(t.Context(), "a", time.Hour), nil }, o))(t)
	if got.Safe != want.Safe || !slices.Equal(got.Outcomes.Cost, want.Outcomes.Cost) {
		t.Errorf("%v safe, costs %v, want %v and %v", got.Safe, got.Outcomes.Cost, want.Safe, want.Outcomes.Cost)
	}
	if d := require.Get(client.Decide(t.Context(), "b", serve.Request{Y: []float64{math.NaN()}, C: []float64{0, 0}}))(t); d.Estimate.Faults[0] != "missing" {
		t.Errorf("%+v", d.Estimate)
	}
}

// Through lines y stands in the place of s; what is unknown may be null, and what is wrong is named.
func TestMeasuredLines(t *testing.T) {
	s := require.Get(serve.New(glider(t), cpu(t), serve.Options{Setup: gpc.Setup{Method: "nmpc"}}))(t)
	t.Cleanup(s.Close)
	answers := said(t, s, serve.LineOptions{}, `{"op":"decide","y":[0.3],"c":[null,0]}`, `{"op":"decide","s":[0.3,0],"c":[0,0]}`, `{"op":"decide","y":[0.3,1],"c":[0,0]}`, `{"op":"decide","y":[0.3],"c":[0,null]}`, `{"op":"decide","y":[0.3],"c":[0,7.5]}`)
	if e, there := answers[0]["estimate"].(map[string]any); !there || len(e["s"].([]any)) != 2 {
		t.Errorf("the answer %v", answers[0])
	}
	for i, field := range []string{"s", "y", "c", "c"} {
		if a := answers[i+1]; a["field"] != field || a["error"] == nil {
			t.Errorf("answer %d: %v, want an error of the field %q", i+1, a, field)
		}
	}
}

// An evaluation of a declared plant verifies as any other: what acted on it is of its scene.
func TestADeclaredPlantIsReplayed(t *testing.T) {
	c := glider(t)
	m := *c.Definition().Measurement
	m.Process = []float64{0, 0.02}
	c = require.Get(c.Measured(&m))(t)
	trace := t.TempDir() + "/trace.jsonl"
	o := closedloop.Options{Episodes: 3, Seed: 2, Preference: domain.Preference{Adaptive: true}, TracePath: trace}
	require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "nmpc"}, engine.Options{}, o))(t)
	by := closedloop.VerifyOptions{Case: func(*closedloop.Header) (*domain.Case, bool, error) { return c.Definition(), false, nil }}
	if v := require.Get(closedloop.Verify(t.Context(), trace, by))(t); !v.OK {
		t.Errorf("%+v", v.Mismatches)
	}
}

// A plant with a delay is served as it is evaluated, to the bit, and the answer says in which state its action will act.
func TestADelayIsServed(t *testing.T) {
	c := require.Get(require.Get(glider(t).Measured(nil))(t).Delayed(2))(t)
	s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: gpc.Setup{Method: "nmpc"}}))(t)
	t.Cleanup(s.Close)
	k := require.Get(c.Controller(nil, gpc.Setup{Method: "nmpc"}))(t)
	adaptive := domain.Preference{Adaptive: true}
	ep := require.Get(c.Definition().Plant.Episode(3, 0, domain.EpisodeOptions{Preference: adaptive}))(t)
	require.OK(t, k.Reset(ep))
	x, cx, u := make([]float64, 2), make([]float64, 2), make([]float64, 1)
	var said [][]float64
	for n := 0; !ep.Done(); n++ {
		ep.Observe(x, cx)
		if n >= 2 && math.Abs(said[n-2][0]-x[0]) > 1e-12 {
			t.Errorf("decision %d: the plant is at %v, it was said that it would be at %v", n, x[0], said[n-2][0])
		}
		require.Get(k.Decide(x, cx, adaptive, u))(t)
		d := require.Get(s.Decide(t.Context(), "a", serve.Request{S: x, C: cx}))(t)
		if d.U[0] != u[0] || d.Estimate == nil {
			t.Fatalf("decision %d: %+v, want %v", n, d, u)
		}
		said = append(said, d.Estimate.S)
		require.Get(ep.Apply(u))(t)
	}
	trace := t.TempDir() + "/trace.jsonl"
	o := closedloop.Options{Episodes: 2, Seed: 2, Preference: adaptive, TracePath: trace}
	require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "nmpc"}, engine.Options{}, o))(t)
	by := closedloop.VerifyOptions{
		Case: func(h *closedloop.Header) (*domain.Case, bool, error) {
			if h.Delay != 2 {
				t.Errorf("the header says a delay of %v", h.Delay)
			}
			return c.Definition(), false, nil
		},
		Deep: func(*closedloop.Header) (domain.Controller, string, error) {
			k, err := c.Controller(nil, gpc.Setup{Method: "nmpc"})
			return k, "", err
		},
	}
	if v := require.Get(closedloop.Verify(t.Context(), trace, by))(t); !v.OK {
		t.Errorf("%+v", v.Mismatches)
	}
}
