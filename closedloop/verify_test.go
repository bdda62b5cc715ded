package closedloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

// traceOf is the trace of a run.
func traceOf(t testing.TB, c *domain.Case, method func() (domain.Controller, error), o closedloop.Options) string {
	t.Helper()
	o.TracePath = options(t.TempDir()).TracePath
	evaluate(t, c, method, o)
	return string(require.Get(os.ReadFile(o.TracePath))(t))
}

func verified(t testing.TB, trace string, opt closedloop.VerifyOptions) *closedloop.Verification {
	t.Helper()
	v := require.Get(closedloop.VerifyReader(t.Context(), strings.NewReader(trace), opt))(t)
	for _, m := range v.Mismatches {
		header, whole := strings.HasPrefix(m.Field, "header."), m.Field == "episode" || strings.HasPrefix(m.Field, "scene") || m.Field == "sha256" || strings.HasPrefix(m.Field, "end.")
		if header && (m.Line != 1 || m.Episode != -1) || !header && (m.Line < 2 || m.Episode < 0) || (m.T < 0) != (header || whole) {
			t.Errorf("misplaced: %+v", m)
		}
	}
	return v
}

// differing are the fields that a verification found different, each once.
func differing(v *closedloop.Verification) (fields []string) {
	for _, m := range v.Mismatches {
		fields = append(fields, m.Field)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

func checkOf(v *closedloop.Verification, field string) closedloop.Check {
	return v.Checks[slices.IndexFunc(v.Checks, func(c closedloop.Check) bool { return c.Field == field })]
}

// nan has parameters and scenes that no JSON holds.
type nan struct {
	domain.Plant
	params, scenes bool
}

func (p nan) Params() any {
	if p.params {
		return math.NaN()
	}
	return p.Plant.Params()
}

func (p nan) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	ep, err := p.Plant.Episode(seed, index, opt)
	if p.scenes {
		return nanScene{ep}, err
	}
	return ep, err
}

type nanScene struct{ domain.Episode }

func (nanScene) Scene() any { return math.NaN() }

// What cannot be verified is an error of the header's line; what the header says of another plant is found.
func TestAHeaderIsHeldToItsCase(t *testing.T) {
	c := cartCase(t)
	method := direct(c)
	trace := traceOf(t, c, method, options(""))
	broken := errors.New("no such case")
	header := func(old, with string) string { return sealed(strings.Replace(trace, old, with, 1)) }
	for _, x := range []struct {
		want, trace string
		change      func(c *domain.Case, o *closedloop.VerifyOptions)
	}{
		{"line 1: no such case", trace, func(_ *domain.Case, o *closedloop.VerifyOptions) {
			o.Case = func(*closedloop.Header) (*domain.Case, bool, error) { return nil, false, broken }
		}},
		{"has no plant to re-simulate", trace, func(c *domain.Case, _ *closedloop.VerifyOptions) { c.Plant = nil }},
		{"line 1: case \"cart\" cannot begin from a given scene", header(`"preference":`, `"scenes_sha256":"x","preference":`), func(c *domain.Case, _ *closedloop.VerifyOptions) {
			c.Plant = struct{ domain.Plant }{c.Plant}
		}},
		{"plant parameters", trace, func(c *domain.Case, _ *closedloop.VerifyOptions) { c.Plant = nan{c.Plant, true, false} }},
		{"computing_us: a median", header(`"regime":`, `"computing_us":{"p50":2,"p99":1},"regime":`), func(*domain.Case, *closedloop.VerifyOptions) {}},
		{"leave Deep out", header(`"preference":`, `"steered":true,"preference":`), func(*domain.Case, *closedloop.VerifyOptions) {}},
		{"line 1: no such case", trace, func(_ *domain.Case, o *closedloop.VerifyOptions) {
			o.Deep = func(*closedloop.Header) (domain.Controller, string, error) { return nil, "", broken }
		}},
		{"trace line 2: scene: ", header(`"scene":{"p"`, `"scene":{"s":5,"p"`), func(*domain.Case, *closedloop.VerifyOptions) {}},
		{"trace line 3: u has 2 entries, this episode of \"cart\" has 1", header(`"u":[`, `"u":[0,`), func(*domain.Case, *closedloop.VerifyOptions) {}},
	} {
		other := *c
		opt := decided(&other, method)
		x.change(&other, &opt)
		if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(x.trace), opt); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
	if _, err := closedloop.Verify(t.Context(), t.TempDir()+"/none", lookup(c)); err == nil || !strings.HasPrefix(err.Error(), "verify: ") {
		t.Errorf("a file that is not there: %v", err)
	}
	other := *c
	other.Other = &domain.OtherPlant{ProblemSHA256: "a"}
	for text, want := range map[string]bool{`"plant":{"problem_sha256":"a"},"regime":`: true, `"plant":{"problem_sha256":"b"},"regime":`: false} {
		if v := verified(t, header(`"regime":`, text), lookup(&other)); v.OK != want || !want && !slices.Equal(differing(v), []string{"header.plant"}) {
			t.Errorf("%s: %v", text, v.Mismatches)
		}
	}
	// Of params of its own a trace says that nothing confirms them.
	for _, embedded := range []bool{false, true} {
		opt := lookup(c)
		opt.Case = func(*closedloop.Header) (*domain.Case, bool, error) { return c, embedded, nil }
		v := verified(t, trace, opt)
		for _, field := range []string{"header.params", "header.steps", "header.shift", "header.plant"} {
			if check := checkOf(v, field); (check.Verdict == closedloop.Unchecked) != embedded {
				t.Errorf("embedded %v: %+v", embedded, check)
			}
		}
	}
	done := 0
	opt := lookup(c)
	opt.Progress = func(of, total int) {
		if done++; of != done || total != 6 {
			t.Errorf("%d of %d after %d episodes", of, total, done)
		}
	}
	if verified(t, trace, opt); done != 6 {
		t.Errorf("told of %d episodes", done)
	}
}

// A verification ends with its context, or where an episode takes longer than it may.
func TestAVerificationEnds(t *testing.T) {
	c := cartCase(t)
	trace := traceOf(t, c, direct(c), options(""))
	stuck := make(chan struct{})
	defer close(stuck)
	ctx, cancel := context.WithCancel(t.Context())
	opt := lookup(c)
	opt.Case = func(*closedloop.Header) (*domain.Case, bool, error) {
		cancel()
		<-stuck
		return nil, false, errors.New("too late")
	}
	for range 2 { // while it waits, and before it begins
		if _, err := closedloop.VerifyReader(ctx, strings.NewReader(trace), opt); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	opt.EpisodeLimit = time.Millisecond
	if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(trace), opt); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "trace line 1: not verified within 1ms") {
		t.Errorf("beyond its limit: %v", err)
	}
	plant := c.Plant
	c.Plant = staying{plant, stuck}
	limited := lookup(c)
	limited.EpisodeLimit = time.Millisecond
	if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(trace), limited); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "trace line 2, episode 0: ") && !strings.HasPrefix(err.Error(), "trace line 1: ") {
		t.Errorf("an episode beyond its limit: %v", err)
	}
}

// staying replays no episode until it is told to.
type staying struct {
	domain.Plant
	stuck chan struct{}
}

func (p staying) Replay(params, scene json.RawMessage) (domain.Episode, error) {
	<-p.stuck
	return p.Plant.Replay(params, scene)
}

// stopping is a plant whose replays end, or fail, at a decision.
type stopping struct {
	domain.Plant
	end, fail int
}

type stopped struct {
	domain.Episode
	plant stopping
	t     int
}

func (p stopping) Replay(params, scene json.RawMessage) (domain.Episode, error) {
	ep, err := p.Plant.Replay(params, scene)
	return &stopped{Episode: ep, plant: p}, err
}

func (e *stopped) Done() bool { return e.t == e.plant.end || e.Episode.Done() }

func (e *stopped) Apply(u []float64) (domain.Outcome, error) {
	if e.t == e.plant.fail {
		return domain.Outcome{}, errors.New("no power")
	}
	e.t++
	return e.Episode.Apply(u)
}

// A trace that goes on where its plant has ended, or takes an action that the plant does not, is found there.
func TestATraceEndsWithItsPlant(t *testing.T) {
	c := cartCase(t)
	trace := traceOf(t, c, direct(c), options(""))
	for _, x := range []struct {
		plant                stopping
		field, replay        string
		decisions, completed int
	}{{stopping{c.Plant, 5, -1}, "t", "the episode is over after 5 decisions", 30, 0}, {stopping{c.Plant, -1, 7}, "u", "no power", 42, 0}} {
		other := *c
		other.Plant = x.plant
		v := verified(t, trace, lookup(&other))
		i := slices.IndexFunc(v.Mismatches, func(m closedloop.Mismatch) bool { return m.Field == x.field })
		if v.OK || v.Decisions != x.decisions || v.Safe != 0 || v.Episodes != 6 || i < 0 || v.Mismatches[i].Replay != x.replay || v.Mismatches[i].T != x.decisions/6 || !slices.Contains(differing(v), "end.completed") {
			t.Errorf("%+v", v)
		}
	}
}

// What was measured without noise is held to the plant, also where the scene is not the seed's.
func TestMeasurementsAreHeldToThePlant(t *testing.T) {
	c := cartCase(t)
	trace := traceOf(t, c, direct(c), options(""))
	forged := sealed(strings.Replace(strings.Replace(trace, `"seed":7`, `"seed":8`, 1), `"x":[`, `"x":[1`, 1))
	if v := verified(t, forged, lookup(c)); !slices.Contains(differing(v), "x[0]") || checkOf(v, "x").Unchecked != 0 || checkOf(v, "c").Unchecked == 0 {
		t.Errorf("%v, %+v", differing(v), checkOf(v, "x"))
	}
	if v := verified(t, sealed(strings.Replace(trace, `"x":[`, `"x":[1`, 1)), lookup(c)); !slices.Equal(differing(v), []string{"x[0]"}) {
		t.Errorf("%v", differing(v))
	}
	noisy := options("")
	noisy.Noise = 0.01
	forged = sealed(strings.Replace(traceOf(t, c, direct(c), noisy), `"seed":7`, `"seed":8`, 1))
	if v := verified(t, forged, lookup(c)); v.OK || checkOf(v, "x").Values != 0 || checkOf(v, "x").Unchecked != 2*6*steps {
		t.Errorf("%+v", checkOf(v, "x"))
	}
}

// An optimum that was found on another instruction set is compared where it is the same, and else is not.
func TestOptimaOfAnotherInstructionSet(t *testing.T) {
	c := cartCase(t)
	trace := traceOf(t, c, direct(c), options(""))
	other := lookup(c)
	other.ISA = "another"
	if v := verified(t, trace, other); !v.OK || checkOf(v, "end.oracle_cost").Values != 6 || checkOf(v, "end.oracle_cost").Unchecked != 0 {
		t.Errorf("%+v", checkOf(v, "end.oracle_cost"))
	}
	altered := sealed(strings.Replace(trace, `"oracle_cost":`, `"oracle_cost":1`, 1))
	if v := verified(t, altered, lookup(c)); v.OK || checkOf(v, "end.oracle_cost").Values != 6 {
		t.Errorf("%+v", v)
	}
	v := verified(t, altered, other)
	if check := checkOf(v, "end.oracle_cost"); !v.OK || check.Values != 5 || check.Unchecked != 1 || !strings.Contains(check.Basis, "instruction set") || !strings.HasSuffix(check.Basis, "this is another, where those that differ are not compared") {
		t.Errorf("%+v", check)
	}
}

// resetting cannot begin episodes that start to the right.
type resetting struct{ feedback }

func (r *resetting) Reset(ep domain.Episode) error {
	s := make([]float64, 2)
	if ep.State(s); s[0] > 0 {
		return errors.New("no way")
	}
	return r.feedback.Reset(ep)
}

// An episode that its method could not begin, decide or execute says so, and does so again. Another reason is found.
func TestFailuresAreRepeated(t *testing.T) {
	c := cartCase(t)
	still := func(int, []float64) (float64, bool, error) { return 0, true, nil }
	for name, x := range map[string]struct {
		method func() (domain.Controller, error)
		cause  string
		lines  int
	}{
		"reset": {func() (domain.Controller, error) { return &resetting{feedback{decide: still}}, nil }, "reset: no way", 0},
		"decision": {controller(func(t int, s []float64) (float64, bool, error) {
			if t == 3 && s[0] > 0 {
				return 0, true, errors.New("no way")
			}
			return 0, true, nil
		}), "decision 3: no way", 3},
		"step": {controller(func(t int, s []float64) (float64, bool, error) {
			if t == 3 && s[0] > 0 {
				return math.NaN(), true, nil
			}
			return 0, true, nil
		}), "step 3: action [NaN] is not finite", 3},
	} {
		o := options("")
		failed, kept := 0, 0
		o.Visit = func(e *closedloop.EpisodeRecord) {
			if e.End.Failure == "" {
				kept++
			} else if failed++; e.End.Failure != x.cause || e.End.Completed || e.End.Safe || len(e.Lines) != x.lines {
				t.Errorf("%s: %d lines, %+v", name, len(e.Lines), e.End)
			}
		}
		trace := traceOf(t, c, x.method, o)
		if failed == 0 || kept == 0 {
			t.Fatalf("%s: %d failed, %d kept", name, failed, kept)
		}
		for _, verify := range []closedloop.VerifyOptions{lookup(c), decided(c, x.method)} {
			if v := verified(t, trace, verify); !v.OK {
				t.Errorf("%s: %v", name, v.Mismatches)
			}
		}
		altered := sealed(strings.Replace(trace, x.cause, "something else", 1))
		if v := verified(t, altered, decided(c, x.method)); !slices.Equal(differing(v), []string{"end.failure"}) {
			t.Errorf("%s: another reason differs in %v", name, differing(v))
		}
		healthy := decided(c, controller(still))
		if v := verified(t, trace, healthy); v.OK {
			t.Errorf("%s: a method that does not fail confirms it", name)
		}
	}
	healthy := traceOf(t, c, controller(still), options(""))
	failing := decided(c, controller(func(t int, _ []float64) (float64, bool, error) { return 0, true, errors.New("no way") }))
	v := verified(t, healthy, failing)
	if i := slices.IndexFunc(v.Mismatches, func(m closedloop.Mismatch) bool { return m.Field == "u" }); i < 0 || v.Mismatches[i].Replay != "no way" || v.Differing != 6*steps {
		t.Errorf("a method that fails: %d differ, %v", v.Differing, differing(v))
	}
}

// What a method says of its starts and its bounds is made again with its decisions.
func TestStartsAndBoundsAreRepeated(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{Tolerance: 1e-6})
	m, _ := closedloop.Row(c, "oracle")
	o := rowOptions()
	o.Episodes = 1
	oracle := func() (domain.Controller, error) { return m.New(domain.Means{}) }
	trace := traceOf(t, c, oracle, o)
	if v := verified(t, trace, decided(c, oracle)); !v.OK || checkOf(v, "end.starts").Values < 8 {
		t.Errorf("%+v", v.Mismatches)
	}
	for _, change := range []string{`"starts":[1`, `"starts":[1,`} {
		altered := sealed(strings.Replace(trace, `"starts":[`, change, 1))
		if v := verified(t, altered, decided(c, oracle)); len(differing(v)) != 1 || !strings.HasPrefix(differing(v)[0], "end.starts") {
			t.Errorf("%s: %v", change, differing(v))
		}
	}
	bounded := cartCase(t)
	bounded.Problem = gapped{bounded.Problem.(*testdomain.Cart)}
	plant := *bounded.Plant.(*closedloop.Simulation)
	plant.Problem, bounded.Plant = bounded.Problem, &plant
	method := controller(func(_ int, s []float64) (float64, bool, error) { return clip(-s[0]), true, nil })
	trace = traceOf(t, bounded, method, options(""))
	if v := verified(t, trace, decided(bounded, method)); !v.OK || checkOf(v, "gap_bound").Values != 6*steps {
		t.Errorf("%+v of %v", checkOf(v, "gap_bound"), v.Mismatches)
	}
	altered := sealed(strings.Replace(trace, `"gap_bound":`, `"gap_bound":1`, 1))
	if v := verified(t, altered, decided(bounded, method)); !slices.Equal(differing(v), []string{"gap_bound"}) {
		t.Errorf("another bound differs in %v", differing(v))
	}
}

// gapped knows a bound of its decisions.
type gapped struct{ *testdomain.Cart }

func (gapped) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Gap: func(s, _ []float64, _ domain.Preference, u []float64) float64 { return 0.25 + s[0]*s[0] + u[0]*u[0] }}
}

// Decisions of an observation with gaps are made again with the gaps.
func TestGapsOfAnObservationAreRepeated(t *testing.T) {
	c := cartCase(t)
	c.Plant = faulty{c.Plant}
	method := controller(func(_ int, s []float64) (float64, bool, error) {
		if math.IsNaN(s[0]) {
			return 0.25, true, nil
		}
		return clip(-s[0]), true, nil
	})
	finite := func() (domain.Controller, error) {
		m, err := method()
		return blindly{m}, err
	}
	trace := traceOf(t, c, finite, options(""))
	healthy := *c
	healthy.Plant = c.Plant.(faulty).Plant
	v := verified(t, trace, decided(&healthy, finite))
	if !strings.Contains(trace, `"x":[null`) || !v.OK || checkOf(v, "x").Unchecked != 6 {
		t.Errorf("%+v, %+v", checkOf(v, "x"), v.Mismatches)
	}
}

// blindly answers to an observation with gaps itself.
type blindly struct{ domain.Controller }

func (blindly) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Blind: true}
}

// An evaluation that cannot be run ends before its first episode, by what is wrong.
func TestAnEvaluationEndsByWhatIsWrong(t *testing.T) {
	c := cartCase(t)
	broken := errors.New("no map")
	scenes := &closedloop.Scenes{Files: make([]closedloop.NamedScene, 6)}
	preference := controller(func(t int, _ []float64) (float64, bool, error) {
		return 0, true, fmt.Errorf("decision: %w", domain.PreferenceError{})
	})
	for want, change := range map[string]func(c *domain.Case, o *closedloop.Options, method *func() (domain.Controller, error)){
		"plant parameters": func(c *domain.Case, _ *closedloop.Options, _ *func() (domain.Controller, error)) {
			c.Plant = nan{c.Plant, true, false}
		},
		"scene of episode 0 of cart": func(c *domain.Case, _ *closedloop.Options, _ *func() (domain.Controller, error)) {
			c.Plant = nan{c.Plant, false, true}
		},
		"cannot begin from a given": func(c *domain.Case, o *closedloop.Options, _ *func() (domain.Controller, error)) {
			c.Plant, o.Scenes = struct{ domain.Plant }{c.Plant}, scenes
		},
		`method "direct": no map`: func(_ *domain.Case, _ *closedloop.Options, method *func() (domain.Controller, error)) {
			*method = func() (domain.Controller, error) { return nil, broken }
		},
		"method direct: decision": func(_ *domain.Case, _ *closedloop.Options, method *func() (domain.Controller, error)) {
			*method = preference
		},
		"no such file": func(_ *domain.Case, o *closedloop.Options, _ *func() (domain.Controller, error)) {
			o.TracePath = t.TempDir() + "/none/t"
		},
	} {
		other, o, method := *c, options(""), direct(c)
		change(&other, &o, &method)
		o.Visit = func(e *closedloop.EpisodeRecord) { t.Errorf("%s: an episode was run", want) }
		if _, err := closedloop.Evaluate(t.Context(), &other, method, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// An episode during which the evaluation ends is none.
	ctx, cancel := context.WithCancel(t.Context())
	o := options("")
	o.Visit = func(e *closedloop.EpisodeRecord) { t.Errorf("episode %d counts", e.Episode) }
	r, err := closedloop.Evaluate(ctx, c, controller(func(t int, _ []float64) (float64, bool, error) {
		if t == steps-1 {
			cancel()
		}
		return 0, true, nil
	}), o)
	if !errors.Is(err, context.Canceled) || r == nil || r.Episodes != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
