package closedloop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// able is bar with abilities, of a case that keeps |u − s| ≤ 10.
type able struct {
	bar
	abilities domain.ProblemAbilities
}

func (p able) Abilities() *domain.ProblemAbilities { return &p.abilities }

func (able) Project(s, c, u []float64) bool {
	kept := math.Abs(u[0]-s[0]) <= 10
	u[0] = min(max(u[0], s[0]-10), s[0]+10)
	return kept
}

var fixed = domain.EpisodeOptions{Preference: domain.Preference{W: []float64{1}}}

// What acts on a plant moves its margins as the problem says, and soft limits are those of the action's state.
func TestDisturbancesMoveMargins(t *testing.T) {
	p := able{abilities: domain.ProblemAbilities{
		Derivatives: domain.Derivatives{Disturbed: func(s, c, u, d, m []complex128) { m[0] = 100*s[0] + 10*c[0] + u[0] + 1000*d[0] }},
		Soft:        &domain.SoftLimits{Limits: []domain.Variable{{Name: "warm", Unit: "K"}}, Margins: func(s, c, u, m []float64) { m[0] = s[0] + 10*c[0] + 100*u[0] }},
	}}
	m := measuredBar(true)
	m.Problem = p
	ep := require.Get(m.Episode(1, 2, fixed))(t)
	s, next, c := make([]float64, 1), make([]float64, 1), make([]float64, 1)
	ep.State(s)
	for range 3 {
		e := ep.(*simulated)
		c[0] = e.c[0]
		out := require.Get(ep.Apply([]float64{0.25}))(t)
		ep.State(next)
		acted := next[0] - s[0] - 0.25
		if want := 100*s[0] + 10*c[0] + 0.25 + 1000*acted; math.Abs(out.Named[0]-want) > 1e-9*math.Abs(want) || acted == 0 || math.Abs(acted) > 0.5 {
			t.Errorf("a margin of %g, want %g: %g acted", out.Named[0], want, acted)
		}
		if want := s[0] + 10*c[0] + 25; len(out.Soft) != 1 || out.Soft[0] != want {
			t.Errorf("soft margins %v, want %g", out.Soft, want)
		}
		copy(s, next)
	}
	if got := softOf(p); !slices.Equal(got, []SoftLimit{{"warm", "K"}}) || softOf(bar{}) != nil {
		t.Errorf("soft limits %v", got)
	}
	none := *m
	none.Problem = able{abilities: domain.ProblemAbilities{Derivatives: p.abilities.Derivatives}}
	spec := *none.Problem.Spec()
	spec.Margins = nil
	none.Problem = respecified{none.Problem.(able), &spec}
	if out := require.Get(require.Get(none.Episode(1, 2, fixed))(t).Apply([]float64{0}))(t); len(out.Named) != 0 || !math.IsInf(out.Margin, 1) {
		t.Errorf("without limits: %+v", out)
	}
}

// respecified has another Spec.
type respecified struct {
	able
	spec *domain.Spec
}

func (p respecified) Spec() *domain.Spec           { return p.spec }
func (p respecified) Margins(_, _, _, _ []float64) {}

// A measurement within a period is of the state there and of the action that is under way.
func TestAMeasurementWithinAPeriod(t *testing.T) {
	m := measuredBar(false)
	m.Problem = able{}
	m.Measurement.Deviation, m.Measurement.Process, m.Measurement.Unknown = []float64{0, 0, 0}, nil, nil
	for periods, want := range map[float64][]float64{1.25: {2.75, 1.25, 1.75}, 2: {2, 0.5, 1}} { // of a start at 1 with the fallback 1 under way
		m.Delay = domain.Delay{Periods: periods, Part: func(share float64, s, c, u, next []float64) { next[0] = s[0] + share*u[0] }, PartDual: func(float64, []complex128, []complex128, []complex128, []complex128) {}}
		ep := require.Get(m.measured(simulationScene{S: []float64{1}, C: []float64{0.5}, Delay: periods, Preference: fixed.Preference}, 1, 0, domain.EpisodeOptions{}))(t).(*simulated)
		y, c := make([]float64, 3), make([]float64, 1)
		ep.lastAction[0] = 1
		if ep.Measure(y, c); !slices.Equal(y, want) || c[0] != 0.5 {
			t.Errorf("%g periods: measured %v in %v, want %v", periods, y, c, want)
		}
	}
}

// The optimum of a delayed episode begins behind the actions that are under way; where these break a limit or lose the state there is none.
func TestTheOptimumBeginsBehindWhatIsUnderWay(t *testing.T) {
	m := &Simulation{Problem: able{}, Steps: 5, Delay: domain.Delay{Periods: 2}}
	m.Oracle = func(_ context.Context, s, c []float64, n int, pref domain.Preference) (float64, [][]float64, error) {
		return 100 * s[0], [][]float64{{float64(n)}}, nil
	}
	start := func(p domain.Problem) *simulated {
		other := *m
		other.Problem = p
		return other.start(simulationScene{S: []float64{3}, C: []float64{0}, Delay: 2, Preference: fixed.Preference})
	}
	cost, plan, err := start(able{}).Oracle() // 3, 6, 9 by two actions of 3, each of which costs 9
	if err != nil || cost != 918 || len(plan) != 3 || plan[0][0] != 3 || plan[1][0] != 3 || plan[2][0] != 3 {
		t.Errorf("%g by %v, %v", cost, plan, err)
	}
	lost := able{abilities: domain.ProblemAbilities{Failed: func(s, _ []float64) bool { return s[0] > 6 }}}
	if _, _, err := start(lost).Oracle(); err == nil || !strings.Contains(err.Error(), "beyond a limit at decision 1") {
		t.Errorf("a state that is lost under way: %v", err)
	}
	if _, ok := start(lost).solveDriven(nil); ok {
		t.Error("a state that is lost under way has an optimum")
	}
	if _, _, err := start(narrow{}).Oracle(); err == nil || !strings.Contains(err.Error(), "beyond a limit at decision 0") {
		t.Errorf("a limit that is broken under way: %v", err)
	}
	wide := able{abilities: domain.ProblemAbilities{Failed: func(s, _ []float64) bool { return math.IsNaN(s[0]) }}}
	if _, _, err := start(wide).Oracle(); err != nil {
		t.Error(err)
	}
	broken := start(able{})
	broken.scene.S[0] = math.NaN()
	if _, _, err := broken.Oracle(); err == nil {
		t.Error("an action that is no number is under way")
	}
	m.Oracle = nil
	if cost, plan, err := start(able{}).Oracle(); !math.IsNaN(cost) || plan != nil || err != nil {
		t.Errorf("without an oracle: %g, %v, %v", cost, plan, err)
	}
}

// narrow is able whose fallback breaks its limit.
type narrow struct{ able }

func (narrow) Fallback(s, c, u []float64) { u[0] = s[0] + 11 }

// A scene that is given says its start by p, by s and c, or by both where they agree; all else is refused by what is wrong.
func TestStartsAreGivenOnce(t *testing.T) {
	m := &Simulation{Problem: able{}, Steps: 3, Parameters: []domain.Variable{{Name: "p", Lo: 1, Hi: 3, Unit: "m"}}, Initial: func(p, s, c []float64) { s[0], c[0] = 2*p[0], 0.5 }}
	lost := *m
	lost.Problem = able{abilities: domain.ProblemAbilities{Failed: func(s, _ []float64) bool { return s[0] == 4 }}}
	plain := *m
	plain.Parameters = nil
	regime, preference := fixed, fixed
	regime.Regime, preference.Preference = "storm", domain.Preference{W: []float64{0.5}}
	for _, c := range []struct {
		m     *Simulation
		scene string
		opt   domain.EpisodeOptions
		index int
		want  string // of s, or of the error
	}{
		{m, `{"p":[2]}`, fixed, 0, "[4]"}, {m, `{"s":[1],"c":[7]}`, fixed, 0, "[1]"}, {m, `{"p":[],"s":[1],"c":[7]}`, fixed, 0, "[1]"}, {m, `{"p":[2],"s":[4],"c":[0.5]}`, fixed, 0, "[4]"}, {m, `{"p":[2],"s":[4]}`, fixed, 0, "[4]"},
		{m, `{"p":[2],"preference":{"adaptive":false,"w":[1]}}`, fixed, 0, "[4]"},
		{m, `{"p":[2],"s":[3],"c":[0.5]}`, fixed, 0, "s or c differs"}, {m, `{"p":[2],"s":[4],"c":[0]}`, fixed, 0, "s or c differs"}, {m, `{"p":[2,3]}`, fixed, 0, "p has 2 entries, case \"bar\" has 1"},
		{m, `{"s":[1]}`, fixed, 0, "c has 0 entries, case \"bar\" has 1"}, {m, `{"s":[],"c":[1]}`, fixed, 0, "s has 0 entries"}, {m, `{"p":[],"c":[1]}`, fixed, 0, "s has 0 entries"},
		{m, `{"p":[2],"preference":{"adaptive":true}}`, fixed, 0, "preference is"}, {m, `{"q":[2]}`, fixed, 0, "unknown field"},
		{m, `{"p":[2]}`, regime, 0, "storm"}, {m, `{"p":[2]}`, preference, 0, "weights"}, {m, `{"p":[2]}`, domain.EpisodeOptions{}, 0, "0 weights"}, {m, `{"p":[2]}`, fixed, -1, "want ≥ 0"},
		{&lost, `{"p":[2]}`, fixed, 0, "the state is lost"}, {&lost, `{"p":[3]}`, fixed, 0, "[6]"}, {m, `{"p":[1e308]}`, fixed, 0, "s[0] (s) is +Inf, want a finite number"},
	} {
		ep, err := c.m.Stage(7, c.index, json.RawMessage(c.scene), c.opt)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.scene, err, c.want)
			}
			continue
		}
		s := make([]float64, 1)
		if ep.State(s); fmt.Sprint(s) != c.want {
			t.Errorf("%s begins at %v, want %s", c.scene, s, c.want)
		}
	}
	beyond := func(m *Simulation, scene string) string {
		return strings.Join(require.Get(m.Stage(7, 0, json.RawMessage(scene), fixed))(t).(*simulated).Beyond(), "; ")
	}
	if text := beyond(m, `{"p":[2]}`) + beyond(m, `{"p":[1]}`) + beyond(m, `{"p":[3]}`); text != "" {
		t.Errorf("within: %q", text)
	}
	if text := beyond(m, `{"p":[4]}`); text != "p[0] (p) is 4 m, maps are trained on 1 to 3" {
		t.Error(text)
	}
	if text := beyond(m, `{"s":[1],"c":[7]}`); text != "s and c are given without p: whether they are among the starts that maps are trained on is not known" {
		t.Error(text)
	}
	tight := *m
	tight.Problem = narrow{}
	if text := beyond(&tight, `{"p":[2]}`); text != "the projection finds no action that keeps every limit from the start on" {
		t.Error(text)
	}
	if draft := m.Draft(require.Get(m.Stage(7, 0, json.RawMessage(`{"p":[2]}`), fixed))(t)); string(require.Get(json.Marshal(draft))(t)) != `{"p":[2],"s":[4],"c":[0.5]}` {
		t.Errorf("%+v", draft)
	}
}

// Parameters of an episode are uniform within their ranges, the end of one alone is its seed and number.
func TestStartsAreUniform(t *testing.T) {
	m := &Simulation{Parameters: []domain.Variable{{Lo: 2, Hi: 6}, {Lo: -1, Hi: -1}}}
	sum, least, most := 0.0, math.Inf(1), math.Inf(-1)
	for i := range 2000 {
		p := m.Start(3, i)
		if sum, least, most = sum+p[0], min(least, p[0]), max(most, p[0]); p[1] != -1 || !slices.Equal(p, m.Start(3, i)) || slices.Equal(p, m.Start(4, i)) {
			t.Fatalf("start %d is %v", i, p)
		}
	}
	if least < 2 || most > 6 || least > 2.02 || most < 5.98 || math.Abs(sum/2000-4) > 0.1 {
		t.Errorf("from %g to %g about %g", least, most, sum/2000)
	}
	m.Starts = [][]float64{{5}, {6}}
	if got := fmt.Sprint(m.Start(1, 0), m.Start(1, 1), m.Start(1, 2)); got != "[5 0] [6 0] []" {
		t.Errorf("given starts are %s", got)
	}
}

// Sensing has the names of the states that are measured, the window and the delay, and says whether something acts.
func TestSensingIsThatOfItsCase(t *testing.T) {
	c := &domain.Case{Problem: able{}, Level: 2, Delay: domain.Delay{Periods: 1.5}}
	if got := SensingOf(c); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", Sensing{Tightening: 2, Delay: 1.5}) {
		t.Errorf("%+v", got)
	}
	c.Measurement = &domain.Measurement{States: []int{0}, Deviation: []float64{0.2}, Window: 6, Process: []float64{1}}
	if got, want := SensingOf(c), (Sensing{Estimated: true, Window: 6, Tightening: 2, Delay: 1.5, MeasuredNoise: 0.05, MeasuredStates: []string{"s"}, Disturbed: true}); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// An observation by names lacks none, has none twice, and is of finite numbers; gaps are allowed where they are asked for.
func TestObservationsByName(t *testing.T) {
	spec := &domain.Spec{Name: "room", Measured: []domain.Variable{{Name: "temp", Unit: "K"}, {Name: "flow"}}, Context: []domain.Variable{{Name: "load"}}}
	twice := *spec
	twice.Context = []domain.Variable{{Name: "flow"}}
	for _, c := range []struct {
		spec *domain.Spec
		text string
		gaps bool
		want string
	}{
		{spec, `{"temp":1,"flow":2,"load":3}`, false, "[1 2] [3]"}, {spec, `{"temp":null,"flow":2,"load":null}`, true, "[NaN 2] [NaN]"}, {spec, `{"s":[null,2],"c":[3]}`, true, "[NaN 2] [3]"},
		{spec, `{"temp":null,"flow":2,"load":3}`, false, `field "temp": want a finite number, got null`}, {spec, `{"flow":2,"load":3}`, false, `field "temp" is missing (a number in K); or give`},
		{spec, `{"temp":1,"load":3}`, false, `field "flow" is missing (a number); or give`}, {spec, `{"temp":1,"flow":2}`, false, `field "load" is missing`}, {spec, `{"temp":1,"flow":"x","load":3}`, true, `field "flow": want a finite number, got "x"`},
		{&twice, `{"temp":1,"flow":2}`, false, `case "room" has two variables "flow"`}, {spec, `{"temp":1,"flow":2,"load":3,"wind":4}`, false, `case "room" has no variable "wind"`},
		{spec, `{"y":[1]}`, false, `field "y" is of measurements`}, {spec, `{"s":[1,2,3],"c":[3]}`, false, `field "s" has 3 entries, the case has 2`}, {spec, `{"s":[1],"c":[3]}`, false, `field "s" has 1 entries, the case has 2: the next is flow`},
		{spec, `{"s":[1,null],"c":[3]}`, false, `field "s", entry 1 (flow): want a finite number, got null`}, {spec, `{"s":[1,2],"c":5}`, false, `field "c": want a list of numbers`},
		{spec, `{"temp":3.4e38,"flow":-3.4e38,"load":0}`, false, "[3.4e+38 -3.4e+38] [0]"}, {spec, `{"temp":3.5e38,"flow":2,"load":0}`, false, `field "temp": want a finite number`}, {spec, `{"s":[1,-3.5e38],"c":[0]}`, false, `field "s", entry 1 (flow): want a finite number`},
	} {
		var fields map[string]json.RawMessage
		require.OK(t, json.Unmarshal([]byte(c.text), &fields))
		s, cx, err := State(fields, c.spec, c.gaps)
		if got := fmt.Sprint(s, cx); err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), "state: "+c.want) {
			t.Errorf("%s: %s, %v, want %q", c.text, got, err, c.want)
		}
	}
	stop := errors.New("stop")
	if _, _, err := ReadState(iotest.ErrReader(stop), spec); !errors.Is(err, stop) {
		t.Errorf("a reader that stops: %v", err)
	}
	pad := func(n int) io.Reader {
		return io.MultiReader(strings.NewReader(`{"temp":1,"flow":2,"load":3}`), io.LimitReader(endless(' '), int64(n)-28))
	}
	if _, _, err := ReadState(pad(16<<20), spec); err != nil {
		t.Error(err)
	}
	if _, _, err := ReadState(pad(16<<20+1), spec); err == nil || !strings.Contains(err.Error(), "longer than 16777216 bytes") {
		t.Errorf("%v", err)
	}
}

// A trace's file is kept by one writer, is no folder, and is not begun where it cannot be.
func TestTheFileOfATrace(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	full, empty := file("full", "x"), file("empty", "")
	for path, want := range map[string]string{filepath.Join(full, "below"): "trace: ", dir: "is a folder", full: "exists already"} {
		if lock, err := lockTrace(path, false); err == nil || lock != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	for path, resume := range map[string]bool{full: true, empty: false, filepath.Join(dir, "new"): false} {
		lock, err := lockTrace(path, resume)
		if err != nil || lock == nil {
			t.Fatalf("%s: %v", path, err)
		}
		if second, err := lockTrace(path, true); err == nil || second != nil || !strings.HasPrefix(err.Error(), "trace: ") {
			t.Errorf("%s has a second writer: %v", path, err)
		}
		lock.Release()
	}
	if lock, err := lockTrace(os.DevNull, false); lock != nil || err != nil {
		t.Errorf("what is no file is locked: %v, %v", lock, err)
	}
	for text, want := range map[string]bool{"": true, "head": true, "header": false, "header and more": false, "hard": false} {
		if got := cutOff(file("cut", text), []byte("header")); got != want {
			t.Errorf("%q is the part of a header: %v", text, got)
		}
	}
	if cutOff(filepath.Join(dir, "none"), []byte("header")) || cutOff(dir, []byte("header")) {
		t.Error("what cannot be read is the part of a header")
	}
	h := &Header{Trace: 3, Case: "c", Params: json.RawMessage(`{}`), Episodes: 2, Shard: [2]int{0, 1}, Margins: []string{"m"}}
	for name, path := range map[string]string{"a folder": dir, "below a file": filepath.Join(full, "below")} {
		var log episodeLog
		if last, err := log.open(path, h, false); err == nil || last != -1 || !strings.HasPrefix(err.Error(), "trace: ") {
			t.Errorf("%s: %d, %v", name, last, err)
		}
		if last, err := log.open(path, h, true); err == nil || last != -1 {
			t.Errorf("%s is resumed: %d, %v", name, last, err)
		}
	}
	bad := *h
	bad.Params = json.RawMessage(`{`)
	if last, err := new(episodeLog).open(filepath.Join(dir, "bad"), &bad, false); err == nil || last != -1 || !strings.HasPrefix(err.Error(), "trace: ") {
		t.Errorf("a header that is no JSON: %d, %v", last, err)
	}
	// A trace that was begun is resumed after its last episode; a file that is none is left alone.
	spec := bar{}.Spec()
	path := file("begun", "")
	log := episodeLog{sum: newTally(spec, 0)}
	if last := require.Get(log.open(path, h, true))(t); last != -1 {
		t.Errorf("an empty file begins after episode %d", last)
	}
	e := &EpisodeRecord{Scene: json.RawMessage(`{}`), Lines: []Line{{Margin: 1}}}
	require.OK(t, log.add(e))
	require.OK(t, log.close())
	text := require.Get(os.ReadFile(path))(t)
	file("begun", string(text)+`{"episode":1,"before`)
	again := episodeLog{sum: newTally(spec, 0)}
	if last := require.Get(again.open(path, h, true))(t); last != 0 || again.last != log.last || again.sum.total.Episodes != 1 || again.sum.total.Decisions != 1 {
		t.Errorf("resumed after episode %d with %+v", last, again.sum.total)
	}
	if cut := require.Get(os.ReadFile(path))(t); !bytes.Equal(cut, text) {
		t.Errorf("resumed as %q", cut)
	}
	if last, err := new(episodeLog).open(full, h, true); err == nil || last != -1 || !strings.Contains(err.Error(), "cannot resume "+full) {
		t.Errorf("a file that is no trace: %d, %v", last, err)
	}
	// What cannot be written is no episode of the sums.
	if err := again.add(&EpisodeRecord{Scene: json.RawMessage(`{`)}); err == nil || !strings.HasPrefix(err.Error(), "trace "+path) || again.sum.total.Episodes != 1 {
		t.Errorf("a scene that is no JSON: %v, %d episodes", err, again.sum.total.Episodes)
	}
	require.OK(t, again.close())
	if err := again.add(e); err == nil || !strings.HasPrefix(err.Error(), "trace: ") || again.sum.total.Episodes != 1 {
		t.Errorf("a file that is closed: %v, %d episodes", err, again.sum.total.Episodes)
	}
	if err := again.close(); err == nil || !strings.HasPrefix(err.Error(), "trace "+path) {
		t.Errorf("closed twice: %v", err)
	}
	if err := new(episodeLog).close(); err != nil {
		t.Error(err)
	}
}
