package closedloop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// An episode that somebody drives is a trace that is verified but for its decisions, whole or cut off, of a drawn scene or a given one.
// An action that was not the recorded one is found.
func TestARecordingIsATraceThatIsVerified(t *testing.T) {
	c := cartCase(t)
	for _, staged := range []bool{false, true} {
		for _, decisions := range []int{steps, 5} {
			opt := closedloop.Options{Method: "by hand", Episodes: 4, Seed: 7, Preference: domain.Preference{Adaptive: true}, Commit: "c", Device: "test"}
			ep := require.Get(c.Plant.Episode(opt.Seed, 3, domain.EpisodeOptions{Preference: opt.Preference}))(t)
			r := closedloop.NewRecording(c, ep, staged, opt)
			s, cx, cost := make([]float64, 2), make([]float64, 1), 0.0
			for k := range decisions {
				ep.Observe(s, cx)
				u := []float64{0.1 * float64(k%3)}
				out := require.Get(ep.Apply(u))(t)
				r.Add(s, cx, u, &out, domain.Decided(true), 0)
				cost += out.Cost
			}
			trace := require.Get(r.Trace())(t)
			v, err := closedloop.VerifyReader(t.Context(), bytes.NewReader(trace), lookup(c))
			if err != nil || staged && v == nil {
				t.Fatalf("staged %v, %d decisions: %v", staged, decisions, err)
			}
			if whole := decisions == steps; len(v.Mismatches) > 0 && whole {
				t.Errorf("staged %v, %d decisions: %+v", staged, decisions, v.Mismatches)
			}
			steered := 0
			for _, check := range v.Checks {
				if strings.Contains(check.Basis, "somebody steered") && check.Verdict == closedloop.Unchecked {
					steered++
				}
			}
			if steered == 0 {
				t.Errorf("no check says that it was steered: %+v", v.Checks)
			}
			lines := strings.Split(strings.TrimSpace(string(trace)), "\n")
			var header closedloop.Header
			require.OK(t, json.Unmarshal([]byte(lines[0]), &header))
			if !header.Steered || header.Shard != [2]int{3, 4} || (header.ScenesSHA256 != "") != staged || len(lines) != 1+1+decisions+1+1 {
				t.Errorf("staged %v: %d lines after %+v", staged, len(lines), header)
			}
			end := lines[len(lines)-2]
			if strings.Contains(end, "before the episode was over") == (decisions == steps) {
				t.Errorf("after %d decisions: %s", decisions, end)
			}
			if !strings.Contains(string(trace), `"u":[0.1]`) || math.IsNaN(cost) {
				t.Errorf("no action in %s", trace)
			}
		}
	}
}

// dearer is the cart whose effort costs more, which only its plant knows.
type dearer struct {
	*testdomain.Cart
	factor float64
}

func (p dearer) Objectives(s, u, c, j []float64) {
	p.Cart.Objectives(s, u, c, j)
	j[0], j[1] = p.factor*j[0], p.factor*j[1]
}

// What finer steps of the plant change is said as a share of the cost in the plant itself, of the first episodes.
func TestIntegrationIsTheChangeByFinerSteps(t *testing.T) {
	c := cartCase(t)
	for factor, want := range map[float64]float64{1: 0, 1.1: 10, 0.8: -20} {
		finer := *c
		plant := *c.Plant.(*closedloop.Simulation)
		plant.Problem = dearer{c.Problem.(*testdomain.Cart), factor}
		finer.Plant = &plant
		o := options("")
		o.Finer = &closedloop.Finer{Case: &finer, Factor: 8}
		r := evaluate(t, c, direct(c), o)
		i := r.Integration
		if i == nil || i.Episodes != 4 || i.Factor != 8 || math.Abs(float64(i.CostPct)-want) > 1e-9 || i.Safe != i.SafeFiner || i.Safe != 1 {
			t.Fatalf("factor %g: %+v", factor, i)
		}
		if text := i.String(); !strings.HasPrefix(text, "integration: ") || strings.Contains(text, "safe") {
			t.Error(text)
		}
		i.SafeFiner, i.MarginFiner = 0.75, -0.25
		if text := i.String(); !strings.HasSuffix(text, ", safe 1, and 0.75 with steps of 1/8, where a margin comes to -0.25") {
			t.Error(text)
		}
	}
}

// resting is a cart that runs on, and whose optimal steady state lies at a position of the start.
type resting struct {
	*testdomain.Cart
	horizon int
}

func (p resting) Spec() *domain.Spec {
	spec := *p.Cart.Spec()
	spec.Horizon = p.horizon
	spec.Measured = []domain.Variable{{Name: "q", Unit: "m", Lo: -1, Hi: 1}, {Name: "v", Lo: -1, Hi: 1}}
	return &spec
}

func (p resting) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{PlanTerminalCost: func(s, c []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool) {
		return &domain.Quadratic{At: []float64{s[0], 0, 0}}, true
	}}
}

// A steady state outside a declared range is said with how many episodes have one, and the furthest.
func TestSteadyStatesOutsideARangeAreSaid(t *testing.T) {
	remark := func(horizon int, starts ...float64) string {
		p := resting{testdomain.NewCart(steps), horizon}
		plant := closedloop.Simulated(p, []domain.Variable{{Name: "q0"}}, func(p, s, c []float64) { s[0], s[1], c[0] = p[0], 0, 0 })
		for _, q := range starts {
			plant.Starts = append(plant.Starts, []float64{q})
		}
		return closedloop.SteadyStateRemark(&domain.Case{Problem: p, Plant: plant}, 1, len(starts)+3, domain.Preference{Adaptive: true})
	}
	if text := remark(5, 0.5, 1.25, -1.75, 1, -1, 1.5); !strings.Contains(text, "in 3 of 9 episodes (q at -1.75 m, of a range of -1 to 1)") {
		t.Errorf("%q", text)
	}
	for _, text := range []string{remark(5, 1, -1, 0), remark(0, 2)} {
		if text != "" {
			t.Errorf("within the range, or without a horizon: %q", text)
		}
	}
}

// The case of a trace is the case as it is; of given scenes it is made of the trace's own params, and says what they alter. Of a crowd it
// has as many robots. A case whose constants are fixed has no other.
func TestACaseOfATraceHasItsParams(t *testing.T) {
	c := cartCase(t)
	plant := c.Plant.(*closedloop.Simulation)
	params := func(n int) json.RawMessage {
		other := *plant
		other.Steps = n
		return marshal(t, other.Params())
	}
	same := closedloop.Header{Params: params(steps), ScenesSHA256: "some"}
	other := closedloop.Header{Params: params(20)}
	given := closedloop.Header{Params: params(20), ScenesSHA256: "some"}
	if _, _, err := given.On(c); err == nil || !strings.Contains(err.Error(), "are fixed") {
		t.Errorf("constants of a case without others: %v", err)
	}
	c.Remake = func(text json.RawMessage) (domain.Case, error) {
		var p struct {
			Steps int `json:"steps"`
		}
		if err := json.Unmarshal(text, &p); err != nil {
			return domain.Case{}, err
		}
		remade, other := *c, *plant
		other.Steps, remade.Plant = p.Steps, &other
		return remade, nil
	}
	crowd := *c
	crowd.ForRobots = func(n int) (json.RawMessage, error) { return params(10 * n), nil }
	for name, x := range map[string]struct {
		h        closedloop.Header
		c        *domain.Case
		steps    int
		embedded bool
	}{
		"as it is": {other, c, steps, false}, "the same": {same, c, steps, false}, "given": {given, c, 20, true}, "no robots": {other, &crowd, steps, false},
		"robots": {closedloop.Header{Params: json.RawMessage(`{"robots":3}`)}, &crowd, 30, false}, "of given scenes with robots": {given, &crowd, 20, true},
	} {
		remade, embedded, err := x.h.On(x.c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ep := require.Get(remade.Plant.Episode(1, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		if embedded != x.embedded || ep.Steps() != x.steps {
			t.Errorf("%s: made of the trace %v, %d steps", name, embedded, ep.Steps())
		}
		if altered := len(remade.Altered) == 1 && strings.HasPrefix(remade.Altered[0], fmt.Sprintf("params.steps is %d, ", x.steps)) && strings.HasSuffix(remade.Altered[0], fmt.Sprintf(" with %d", steps)); altered != (x.steps != steps) {
			t.Errorf("%s: altered is %q", name, remade.Altered)
		}
	}
}
