package closedloop_test

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// Decisions of one and a half periods are all late, every third is not made, and their trace is verified; such of half a period change
// nothing.
func TestALoopOfSlowDecisions(t *testing.T) {
	c := cartCase(t)
	traces := map[float64]string{}
	for _, periods := range []float64{0, 0.5, 1.5} {
		o := options(t.TempDir())
		if us := periods * testdomain.Dt * 1e6; us > 0 {
			o.Computing = &closedloop.Computing{P50: us, P99: us}
		}
		asked := 0
		r := evaluate(t, c, controller(func(_ int, s []float64) (float64, bool, error) {
			asked++
			return clip(testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1]), true, nil
		}), o)
		text := string(require.Get(os.ReadFile(o.TracePath))(t))
		late, decisions := strings.Count(text, `"late":true`), o.Episodes*steps
		if periods > 1 && (late != decisions || asked != 2*decisions/3) || periods < 1 && (late != 0 || asked != decisions) || r.Late != late {
			t.Errorf("%g periods: %d of %d decisions are late, %d were asked for", periods, late, r.Decisions, asked)
		}
		if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); len(v.Mismatches) > 0 {
			t.Errorf("%g periods: %+v", periods, v.Mismatches[0])
		}
		lines := strings.SplitN(withoutTimes(t, o.TracePath), "\n", 2)
		traces[periods] = lines[1]
	}
	if traces[0] != traces[0.5] || traces[0] == traces[1.5] {
		t.Error("decisions within their period do not decide as those that take no time")
	}
}

// measuring decides by measurements, and says what it takes for the state.
type measuring struct {
	domain.Controller
	seen *[][]float64
}

func (m measuring) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{DecideMeasured: func(y, c []float64, pref domain.Preference, s, unknown, u []float64) (domain.Decision, error) {
		*m.seen = append(*m.seen, append([]float64(nil), y...))
		copy(s, y)
		copy(unknown, c)
		return m.Controller.Decide(s, c, pref, u)
	}}
}

// A method that decides by measurements gets them, with the bias of an episode, and its trace has what it took for the state.
func TestAMeasuredLoopDecidesByMeasurements(t *testing.T) {
	for _, bias := range []float64{0, 0.1} {
		c := cartCase(t)
		plant := c.Plant.(*closedloop.Simulation)
		plant.Oracle = nil
		plant.Measurement = domain.Whole(c.Problem.Spec(), 1e-12)
		plant.Measurement.Real = func(s, c, u, y []float64) { copy(y, s) }
		c.Measurement = plant.Measurement
		o := options(t.TempDir())
		o.Bias, o.Episodes = bias, 2
		var seen [][]float64
		evaluate(t, c, func() (domain.Controller, error) {
			m, err := controller(func(_ int, s []float64) (float64, bool, error) { return clip(-s[0]), true, nil })()
			return measuring{m, &seen}, err
		}, o)
		trace := require.Get(os.ReadFile(o.TracePath))(t)
		v := require.Get(closedloop.VerifyReader(t.Context(), bytes.NewReader(trace), lookup(c)))(t)
		if len(seen) != 2*steps || len(v.Mismatches) > 0 || !strings.Contains(string(trace), `"estimated":true`) {
			t.Fatalf("bias %g: %d decisions by measurements, %+v", bias, len(seen), v.Mismatches)
		}
		ep := require.Get(plant.Episode(o.Seed, 0, domain.EpisodeOptions{Preference: o.Preference}))(t)
		s := make([]float64, 2)
		ep.State(s)
		for i, y := range seen[0] {
			if off := math.Abs(y - s[i]); off > 1e-9 != (bias > 0) {
				t.Errorf("bias %g: output %d is measured as %g, the state is %g", bias, i, y, s[i])
			}
		}
	}
}

// A header that no evaluation writes is refused by what is wrong with it, as is an evaluation that cannot be.
func TestHeadersAndOptionsThatAreNone(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	evaluate(t, c, controller(func(int, []float64) (float64, bool, error) { return 0, true, nil }), o)
	trace := string(require.Get(os.ReadFile(o.TracePath))(t))
	header, _, _ := strings.Cut(trace, "\n")
	good := require.Get(closedloop.VerifyReader(t.Context(), strings.NewReader(trace), lookup(c)))(t)
	want := map[string]int{"x": 6 * steps * 2, "s": 6 * steps * 2, "c": 6 * steps, "end.violations": 6 * 2, "scene": 6, "sha256": 6, "end.cost": 6}
	for _, check := range good.Checks {
		if n, ok := want[check.Field]; ok && check.Values+check.Unchecked != n || check.Values < 0 || check.Unchecked < 0 {
			t.Errorf("%+v: want %d values", check, n)
		}
		delete(want, check.Field)
	}
	if len(want) > 0 {
		t.Errorf("nothing is said of %v", want)
	}
	for _, x := range []struct{ field, value, want string }{
		{`"episodes":6`, `"episodes":0`, "has 0 episodes"}, {`"episodes":6`, `"episodes":-1`, "has -1 episodes"},
		{`"shard":[0,1]`, `"shard":[1,1]`, "shard 1/1"}, {`"shard":[0,1]`, `"shard":[-1,1]`, "shard -1/1"}, {`"shard":[0,1]`, `"shard":[0,0]`, "shard 0/0"},
		{`"case":"`, `"case":"","other":"`, "header"}, {`{"trace":`, `{"traces":`, "header"},
	} {
		if !strings.Contains(header, x.field) {
			t.Fatalf("no %s in %s", x.field, header)
		}
		if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(strings.Replace(trace, x.field, x.value, 1)), lookup(c)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.value, err, x.want)
		}
	}
	v := require.Get(closedloop.VerifyReader(t.Context(), strings.NewReader(strings.Replace(trace, `"u":[0]`, `"u":[ 0]`, 1)), lookup(c)))(t)
	if len(v.Mismatches) == 0 || v.Mismatches[0].Field != "sha256" || v.Mismatches[0].T != -1 || v.Mismatches[0].Episode != 0 || v.Mismatches[0].Line != 2 {
		t.Errorf("a broken seal: %+v", v.Mismatches)
	}
	for text, want := range map[string]string{"": "the file is empty", header[:40]: "header"} {
		if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(text), lookup(c)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for want, change := range map[string]func(*closedloop.Options){
		"Bias -1": func(o *closedloop.Options) { o.Bias = -1 }, "Bias +Inf": func(o *closedloop.Options) { o.Bias = math.Inf(1) }, "Bias NaN": func(o *closedloop.Options) { o.Bias = math.NaN() },
		"given scenes": func(o *closedloop.Options) { o.Scenes = &closedloop.Scenes{} }, "median computing time": func(o *closedloop.Options) { o.Computing = &closedloop.Computing{P50: 2, P99: 1} },
	} {
		wrong := options("")
		change(&wrong)
		if _, err := closedloop.Evaluate(t.Context(), c, controller(nil), wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
