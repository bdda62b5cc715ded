package closedloop

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// measuredBar is bar as it is measured: s + u, s − c and s itself, of a context that drifts.
func measuredBar(bounded bool) *Simulation {
	return &Simulation{
		Problem: bar{}, Steps: 4000, Parameters: []domain.Variable{{Name: "p", Lo: 1, Hi: 3}},
		Initial: func(p, s, c []float64) { s[0], c[0] = p[0], 0.5 },
		Measurement: &domain.Measurement{
			Outputs: make([]domain.Variable, 3), Deviation: []float64{0.1, 0.2, 0}, Process: []float64{0.5}, Bounded: bounded,
			Real:    func(s, c, u, y []float64) { y[0], y[1], y[2] = s[0]+u[0], s[0]-c[0], s[0] },
			Unknown: []domain.Unknown{{Context: 0, Mean: 7, Lo: -1, Hi: 1, Drift: 3}},
		},
	}
}

// An episode is measured with the stated deviations and disturbed by them, about its model; bounds are kept. What is unknown is shown
// by its mean, and drifts within its limits. Seed and number alone say what happens.
func TestAMeasuredPlantDeviatesAsItSays(t *testing.T) {
	for _, bounded := range []bool{false, true} {
		m := measuredBar(bounded)
		drive := func(ep domain.Episode, err error) (off [4][]float64, contexts []float64) {
			if err != nil {
				t.Fatal(err)
			}
			measure := domain.AbilitiesOfEpisode(ep).Measure
			s, next, hidden, y, c, last := make([]float64, 1), make([]float64, 1), make([]float64, 1), make([]float64, 3), make([]float64, 1), 0.0
			for k := range m.Steps {
				ep.Observe(s, hidden)
				measure(y, c)
				if c[0] != 7 {
					t.Fatalf("the unknown context is shown as %v", c[0])
				}
				u := []float64{-0.5 * s[0]}
				if _, err := ep.Apply(u); err != nil {
					t.Fatal(err)
				}
				ep.State(next)
				for i, v := range []float64{y[0] - s[0] - last, y[1] - s[0] + hidden[0], y[2] - s[0], next[0] - s[0] - u[0]} {
					off[i] = append(off[i], v)
				}
				if contexts = append(contexts, hidden[0]); k == 0 && hidden[0] != 0.5 {
					t.Errorf("the context begins at %v", hidden[0])
				}
				last = u[0]
			}
			return off, contexts
		}
		off, contexts := drive(m.Episode(3, 4, domain.EpisodeOptions{Preference: domain.Preference{W: []float64{1}}}))
		for i, deviation := range []float64{0.1, 0.2, 0, 0.5} {
			sum, squares := 0.0, 0.0
			for _, v := range off[i] {
				sum, squares = sum+v, squares+v*v
			}
			n, most := float64(len(off[i])), max(slices.Max(off[i]), -slices.Min(off[i]))
			if bounded {
				if most > deviation+1e-12 || most < 0.98*deviation {
					t.Errorf("value %d is off by up to %g, its bound is %g", i, most, deviation)
				}
				deviation /= domain.UniformBound
			}
			if rms := math.Sqrt(squares / n); math.Abs(rms-deviation) > 0.04*deviation+1e-12 || math.Abs(sum/n) > 4*deviation/math.Sqrt(n)+1e-12 {
				t.Errorf("bounded %v: value %d is off by %g ± %g, want 0 ± %g", bounded, i, sum/n, rms, deviation)
			}
		}
		if lo, hi := slices.Min(contexts), slices.Max(contexts); lo != -1 || hi != 1 {
			t.Errorf("the context drifts from %g to %g", lo, hi)
		}
		same, _ := drive(m.Episode(3, 4, domain.EpisodeOptions{Preference: domain.Preference{W: []float64{1}}}))
		if !slices.Equal(same[3], off[3]) || !slices.Equal(same[0], off[0]) {
			t.Error("an episode is not the same a second time")
		}
	}
}

// What acts on a plant has a seed that is never 0, of its own for each episode; where nothing acts it is 0.
func TestDisturbancesHaveASeedAnEpisode(t *testing.T) {
	m, seen := measuredBar(false), map[uint64]bool{}
	for seed := range uint64(10) {
		for index := range 10 {
			v := m.processSeed(seed, index)
			if v == 0 || seen[v] || v != m.processSeed(seed, index) {
				t.Errorf("seed %d, episode %d: %d", seed, index, v)
			}
			seen[v] = true
		}
	}
	still := *m.Measurement
	still.Process, still.Unknown = []float64{0}, []domain.Unknown{{Mean: 7, Deviation: 1}}
	for _, measurement := range []*domain.Measurement{nil, &still} {
		m.Measurement = measurement
		if v := m.processSeed(1, 2); v != 0 {
			t.Errorf("nothing acts, by the seed %d", v)
		}
	}
}

// Episodes, actions and scenes that cannot be are refused by what is wrong.
func TestASimulationRefuses(t *testing.T) {
	plain := domain.EpisodeOptions{Preference: domain.Preference{W: []float64{1}}}
	noisy := func(v float64) domain.EpisodeOptions {
		return domain.EpisodeOptions{Preference: plain.Preference, Noise: v}
	}
	simple := measuredBar(false)
	simple.Measurement, simple.Steps = nil, 2
	given := *simple
	given.Starts = [][]float64{{1}, {2}}
	for _, c := range []struct {
		want  string
		m     *Simulation
		index int
		opt   domain.EpisodeOptions
	}{
		{"want ≥ 0", simple, -1, plain}, {"last of the 2 given starts", &given, 2, plain}, {"measurement noise is -1", simple, 0, noisy(-1)},
		{"measurement noise is NaN", simple, 0, noisy(math.NaN())}, {"measurement noise is +Inf", simple, 0, noisy(math.Inf(1))},
		{"0 weights", simple, 0, domain.EpisodeOptions{}}, {"storm", simple, 0, domain.EpisodeOptions{Regime: "storm", Preference: plain.Preference}},
		{"cannot be added", measuredBar(true), 0, noisy(0.1)}, {"", measuredBar(true), 0, plain}, {"", simple, 0, noisy(0.1)}, {"", &given, 1, plain},
		{"", &given, 0, plain},
	} {
		if _, err := c.m.Episode(1, c.index, c.opt); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if a, b := given.Start(1, 1), given.Start(9, 1); a[0] != 2 || b[0] != 2 {
		t.Errorf("the given start 2 is %v and %v", a, b)
	}
	ep, err := simple.Episode(1, 0, plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range [][]float64{{}, {1, 2}, {math.NaN()}, {math.Inf(-1)}} {
		if _, err := ep.Apply(u); err == nil {
			t.Errorf("the action %v is taken", u)
		}
	}
	for range 2 {
		if _, err := ep.Apply([]float64{0}); err != nil {
			t.Error(err)
		}
	}
	if _, err := ep.Apply([]float64{0}); err == nil || !strings.Contains(err.Error(), "ended after 2 steps") {
		t.Errorf("an action after the end: %v", err)
	}
	params, err := json.Marshal(simple.Params())
	if err != nil {
		t.Fatal(err)
	}
	for scene, want := range map[string]string{
		`{"p":[1],"s":[1],"c":[0],"preference":{"w":[1]}}`:             "",
		`{"p":[1],"s":[1,2],"c":[0],"preference":{"w":[1]}}`:           "2 state and 1 context",
		`{"p":[1],"s":[1],"c":[],"preference":{"w":[1]}}`:              "1 state and 0 context",
		`{"p":[1],"s":[1],"c":[0],"preference":{"w":[0.5]}}`:           "scene:",
		`{"p":[1],"s":[1],"c":[0],"preference":{"w":[1]},"process":5}`: "nothing that it acts",
		`{"p":[1],"s":[1],"c":[0],"preference":{"w":[1]},"delay":0.5}`: "whole number",
		`{"p":[1],"s":[1],"c":[0],"preference":{"w":[1]},"delay":19}`:  "",
		`{"p":[1],"s":[1],"c":[0],"preference":{"w":[1]},"delay":20}`:  "want 0 to 19",
		`[]`: "scene:",
	} {
		if _, err := simple.Replay(params, json.RawMessage(scene)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", scene, err, want)
		}
	}
	if _, err := simple.Replay(json.RawMessage(`{}`), json.RawMessage(`{}`)); err == nil {
		t.Error("other params are taken")
	}
}

// Measurements are lists of the right lengths: null is a sensor without a number, or an entry of the context that is estimated.
func TestMeasurementsAreRead(t *testing.T) {
	m, spec := measuredBar(false).Measurement, bar{}.Spec()
	known := *m
	known.Unknown = nil
	for _, c := range []struct {
		m          *domain.Measurement
		text, want string
	}{
		{m, `{"y":[1,null,3],"c":[null]}`, ""}, {m, `{"y":[1,2,3],"c":[4]}`, ""}, {&known, `{"y":[1,2,3],"c":[4]}`, ""},
		{&known, `{"y":[1,2,3],"c":[null]}`, "null is allowed only where"}, {m, `{"y":[1,2],"c":[4]}`, `"y" has 2 entries, the case has 3: the next is `},
		{m, `{"y":[1,2,3]}`, `"c" has 0 entries`}, {m, `{"y":[1,2,3],"c":[4],"s":[1]}`, `unknown field "s"`}, {m, `{"y":[1,2,1e39],"c":[4]}`, "want a finite number"},
	} {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.text), &fields); err != nil {
			t.Fatal(err)
		}
		y, cx, err := Measured(fields, c.m, spec)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
		if err == nil && (y[0] != 1 || y[2] != 3 || !(y[1] == 2 || math.IsNaN(y[1])) || c.m == m && cx[0] != 7 || c.m != m && cx[0] != 4) {
			t.Errorf("%s: y %v, c %v", c.text, y, cx)
		}
	}
}

// A record says by what noise every state was measured where it is the same for each, as a share of its range; of bounds, of another
// function and of different noises it says none.
func TestSensingIsOfOneNoise(t *testing.T) {
	spec := &domain.Spec{Measured: []domain.Variable{{Name: "a", Lo: -2, Hi: 2}, {Name: "b", Size: 10}}}
	whole := domain.Whole(spec, 0.03)
	partly, err := domain.Partly(spec, 0.02, []string{"b"})
	if err != nil {
		t.Fatal(err)
	}
	bounded, real, uneven := *whole, *whole, *whole
	bounded.Bounded, uneven.Deviation = true, []float64{0.12, 0.5}
	real.Real = func(s, c, u, y []float64) {}
	for _, c := range []struct {
		m    *domain.Measurement
		want float64
	}{{whole, 0.03}, {partly, 0.02}, {&bounded, 0}, {&real, 0}, {&uneven, 0}} {
		if got := ownNoise(spec, c.m); got != c.want {
			t.Errorf("%+v: %g, want %g", c.m, got, c.want)
		}
	}
}

// What differs between two plants is named by its path, with both values; what is equal is not.
func TestWhatIsAlteredIsNamed(t *testing.T) {
	var a, b any
	long := strings.Repeat("x", 90)
	if json.Unmarshal([]byte(`{"same":1,"deep":{"x":1,"y":[1,2]},"gone":3}`), &a) != nil || json.Unmarshal([]byte(`{"same":1,"deep":{"x":2,"y":[1,2]},"new":"`+long+`"}`), &b) != nil {
		t.Fatal("no JSON")
	}
	want := []string{
		"params.deep.x is 2, maps and policies are trained with 1",
		"params.gone is the default, maps and policies are trained with 3",
		`params.new is "` + long[:79] + "…, maps and policies are trained with the default",
	}
	if got := altered("params", a, b); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for text, want := range map[string]string{"null": "the default", `"` + long[:78] + `"`: `"` + long[:78] + `"`, `"` + long[:79] + `"`: `"` + long[:79] + "…"} { // 80 bytes and 81
		if got := short([]byte(text)); got != want {
			t.Errorf("%s is %s in short", text, got)
		}
	}
	if got := altered("params", map[string]any{"a": 1.0}, 2.0); len(got) != 1 || got[0] != `params is 2, maps and policies are trained with {"a":1}` {
		t.Errorf("%q", got)
	}
	if got := altered("params", a, a); got != nil {
		t.Errorf("of one plant: %q", got)
	}
}

// A sweep's tables have a row for each preference and for each sweep; large regrets are in powers of ten.
func TestSteeringTables(t *testing.T) {
	points := []FrontPoint{
		{W: []float64{1, 0}, J: []Number{1, 4}, OracleJ: []Number{1, 3}, Compared: 3, RegretPct: 2, Episodes: 4, Violations: 1},
		{W: []float64{0.25, 0.75}, J: []Number{2, 2}, OracleJ: []Number{2, 1}, Compared: 4, RegretPct: 123456, Episodes: 4},
	}
	rows := SteeringRows(&Steering{Front: points})
	if want := "1, 0|1.0000, 4.0000|1.0000, 3.0000|2.0000|3/4|1"; len(rows) != 3 || strings.Join(rows[1], "|") != want || rows[2][3] != "1.23e+05" || rows[2][0] != "0.25, 0.75" {
		t.Errorf("%q, want %q", rows, want)
	}
	summary := SteeringSummaryRows(Steering{Case: "case", Method: "m", Front: points})
	if len(summary) != 2 || len(summary[0]) != len(summary[1]) || strings.Join(summary[1][:5], "|") != "case|`m`|2|7/8|6.173e+04" && strings.Join(summary[1][:5], "|") != "case|`m`|2|7/8|61729.0000" ||
		summary[1][5] != "1.23e+05" || summary[1][6] != "0.25, 0.75" || summary[1][9] != "1 – 2 (1 – 2); 2 – 4 (1 – 3)" {
		t.Errorf("%q", summary)
	}
	for v, want := range map[Number]string{-1e5: "-1e+05", 99999: "99999.0000", 1e5: "1e+05", 0: "0.0000"} {
		if got := RegretText(v); got != want {
			t.Errorf("%v: %s, want %s", float64(v), got, want)
		}
	}
}
