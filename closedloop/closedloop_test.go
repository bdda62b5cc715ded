package closedloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

const steps = 12

// cartCase is the cart with the generic plant and, as its oracle, the cost of the
// exact feedback, minus one percent.
func cartCase(t testing.TB) *domain.Case {
	t.Helper()
	cart := testdomain.NewCart(steps)
	plant := closedloop.Simulated(cart, []domain.Variable{{Name: "q0", Lo: -1.5, Hi: 1.5}, {Name: "v0", Lo: -0.5, Hi: 0.5}},
		func(p, s, c []float64) { s[0], s[1], c[0] = p[0], p[1], 0 })
	plant.Oracle = func(_ context.Context, s, c []float64, n int, pref domain.Preference) (float64, [][]float64, error) {
		ep, err := plant.Replay(marshal(t, plant.Params()), marshal(t, map[string]any{"p": []float64{}, "s": s, "c": c, "preference": pref}))
		if err != nil {
			return 0, nil, err
		}
		cost := 0.0
		state := make([]float64, 2)
		for !ep.Done() {
			ep.State(state)
			out, err := ep.Apply([]float64{clip(testdomain.Feedback[0]*state[0] + testdomain.Feedback[1]*state[1])})
			if err != nil {
				return 0, nil, err
			}
			cost += out.Cost
		}
		return 0.99 * cost, nil, nil
	}
	return &domain.Case{Problem: cart, Plant: plant}
}

func clip(u float64) float64 { return math.Max(-1, math.Min(1, u)) }

func marshal(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b := require.Get(json.Marshal(v))(t)
	return b
}

func direct(c *domain.Case) func() (domain.Controller, error) {
	cart := c.Problem.(*testdomain.Cart)
	return func() (domain.Controller, error) {
		n, err := batchnav.NewNavigator(ref.New(), testdomain.Map(cart, 9, false), cart, batchnav.Options{Direct: true})
		if err != nil {
			return nil, err
		}
		return n.Controller(), nil
	}
}

// feedback is a controller that can be told to misbehave.
type feedback struct {
	decide func(t int, s []float64) (float64, bool, error)
	t      int
}

func (f *feedback) Reset(domain.Episode) error { f.t = 0; return nil }
func (f *feedback) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	v, ok, err := f.decide(f.t, s)
	u[0] = v
	f.t++
	return domain.Decided(ok), err
}

func controller(decide func(t int, s []float64) (float64, bool, error)) func() (domain.Controller, error) {
	return func() (domain.Controller, error) { return &feedback{decide: decide}, nil }
}

func options(dir string) closedloop.Options {
	o := closedloop.Options{Method: "direct", Episodes: 6, Seed: 7, Preference: domain.Preference{Adaptive: true}, Commit: "c", Device: "test"}
	if dir != "" {
		o.TracePath = filepath.Join(dir, "t.jsonl")
	}
	return o
}

func lookup(c *domain.Case) closedloop.VerifyOptions {
	return closedloop.VerifyOptions{Case: func(h *closedloop.Header) (*domain.Case, bool, error) {
		if h.Case != c.Problem.Spec().Name {
			return nil, false, fmt.Errorf("unknown case %q", h.Case)
		}
		return c, false, nil
	}}
}

func evaluate(t testing.TB, c *domain.Case, f func() (domain.Controller, error), o closedloop.Options) *closedloop.Result {
	t.Helper()
	r := require.Get(closedloop.Evaluate(context.Background(), c, f, o))(t)
	return r
}

// withoutTimes drops what may differ between two equal runs.
var times = regexp.MustCompile(`"latency_us":[^,]*,|,?"times_us":\[[^\]]*\]|"(before_)?sha256":"[^"]*"`)

func withoutTimes(t testing.TB, path string) string {
	t.Helper()
	b := require.Get(os.ReadFile(path))(t)
	return times.ReplaceAllString(string(b), "")
}

func TestEvaluateCountsWhatHappened(t *testing.T) {
	c := cartCase(t)
	r := evaluate(t, c, controller(func(_ int, s []float64) (float64, bool, error) {
		return clip(testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1]), true, nil
	}), options(""))
	if r.Episodes != 6 || r.Decisions != 6*steps || r.Safe != 1 || r.Feasible != 1 || r.CollisionFree != 1 || r.Failures != 0 || r.Fallback != 0 {
		t.Errorf("a clean run gives %+v", r)
	}
	// The oracle is one percent below this very feedback.
	want := 100 * (1/0.99 - 1)
	if math.Abs(float64(r.RegretPct)-want) > 1e-9 || math.Abs(float64(r.GapPct)-want) > 1e-9 || r.RegretN != 6 || r.RegretSEM > 1e-9 {
		t.Errorf("regret %v ± %v %%, gap %v %%, n %d; want %g", r.RegretPct, r.RegretSEM, r.GapPct, r.RegretN, want)
	}
	if lo := r.CI95.Safe[0]; math.Abs(lo-math.Pow(0.025, 1.0/6)) > 1e-9 || r.CI95.Safe[1] != 1 {
		t.Errorf("Clopper–Pearson of 6/6 is %v", r.CI95.Safe)
	}

	// More than full braking breaks the input bound and nothing else.
	r = evaluate(t, c, controller(func(int, []float64) (float64, bool, error) { return -1.5, false, nil }), options(""))
	if r.Safe != 0 || r.Feasible != 0 || r.Violations != 6*steps || r.Fallback != 6*steps || r.RegretN != 0 || !math.IsNaN(float64(r.RegretPct)) {
		t.Errorf("breaking the input bound at every step gives %+v", r)
	}
	if math.Abs(float64(r.MarginMin)+0.5) > 1e-9 {
		t.Errorf("smallest margin %v, want −0.5", r.MarginMin)
	}
	// A collision margin alone decides collision_free.
	if r.CollisionFree != 1 {
		t.Errorf("collision free %v: the wall was kept, the input was not", r.CollisionFree)
	}

	// A method that fails, and one that returns NaN, fail their episodes.
	broken := errors.New("no solution")
	for name, f := range map[string]func(int, []float64) (float64, bool, error){
		"error": func(t int, _ []float64) (float64, bool, error) {
			if t == 3 {
				return 0, false, broken
			}
			return 0, true, nil
		},
		"NaN": func(t int, _ []float64) (float64, bool, error) {
			if t == 3 {
				return math.NaN(), true, nil
			}
			return 0, true, nil
		},
	} {
		if r := evaluate(t, c, controller(f), options("")); r.Failures != 6 || r.Safe != 0 || r.Decisions != 18 {
			t.Errorf("%s at the fourth decision: %d failures, safe %v, %d decisions", name, r.Failures, r.Safe, r.Decisions)
		}
	}
}

func TestResultKeys(t *testing.T) {
	text := require.Get(json.Marshal(evaluate(t, cartCase(t), direct(cartCase(t)), options(""))))(t)
	for _, key := range strings.Split("case,method,seed,commit,device,episodes,safe,feasible,collision_free,gap_pct,regret_pct,margin_min,margin_mean,fallback,latency_us,p50,p95,p99,ci95", ",") {
		if !strings.Contains(string(text), `"`+key+`":`) {
			t.Errorf("result lacks %q: %s", key, text)
		}
	}
}

func TestTraceIsReproducibleAndVerifies(t *testing.T) {
	c := cartCase(t)
	a, b := options(t.TempDir()), options(t.TempDir())
	a.Noise, b.Noise = 0.01, 0.01
	evaluate(t, c, direct(c), a)
	b.Threads = 3
	evaluate(t, c, direct(c), b)
	if withoutTimes(t, a.TracePath) != withoutTimes(t, b.TracePath) {
		t.Error("one and three threads write different traces")
	}
	for _, noise := range []float64{0, 0.01} {
		o := options(t.TempDir())
		o.Noise = noise
		r := evaluate(t, c, direct(c), o)
		v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t)
		if !v.OK || v.Episodes != 6 || v.Decisions != 6*steps || float64(v.Safe)/6 != float64(r.Safe) {
			t.Errorf("noise %g: verification %+v", noise, v)
		}
	}
}

// An altered value, whichever it is, is found, and so is a dropped episode.
func TestVerifyCatchesForgery(t *testing.T) {
	c := cartCase(t)
	o := options(t.TempDir())
	evaluate(t, c, direct(c), o)
	original := require.Get(os.ReadFile(o.TracePath))(t)
	// altered changes the first number behind a key in line n (from 1).
	altered := func(n int, key string, by float64) string {
		lines := strings.SplitAfter(string(original), "\n")
		re := regexp.MustCompile(`("` + key + `":\[?)(-?[0-9.e+-]+)`)
		before := lines[n-1]
		done := false
		lines[n-1] = re.ReplaceAllStringFunc(before, func(s string) string {
			if done {
				return s
			}
			done = true
			m := re.FindStringSubmatch(s)
			var v float64
			require.OK(t, json.Unmarshal([]byte(m[2]), &v))
			return m[1] + fmt.Sprint(v+by)
		})
		if lines[n-1] == before {
			t.Fatalf("line %d has no %q: %s", n, key, before)
		}
		return sealed(strings.Join(lines, ""))
	}
	for _, f := range []struct {
		line int
		key  string
	}{{3, "u"}, {9, "u"}, {3, "margin"}, {5, "s"}, {4, "sigma"}, {4, "J"}, {6, "x"}, {2 + steps + 1, "cost"}, {2 + steps + 1, "margins"}, {2 + steps + 1, "oracle_cost"}} {
		for _, by := range []float64{1e-4, -1e-4} { // too little is as wrong as too much
			v, err := closedloop.VerifyReader(t.Context(), strings.NewReader(altered(f.line, f.key, by)), lookup(c))
			if err != nil {
				t.Fatalf("%s: %v", f.key, err)
			}
			if v.OK || len(v.Mismatches) == 0 || v.Mismatches[0].Line < f.line {
				t.Errorf("%s in line %d altered by %g: %+v", f.key, f.line, by, v.Mismatches)
			}
		}
	}
	flipped := strings.Replace(string(original), `"safe":true`, `"safe":false`, 1)
	lines := strings.SplitAfter(string(original), "\n")
	per := steps + 3
	for name, text := range map[string]string{
		"flipped verdict": flipped,
		"dropped episode": strings.Join(append(append([]string{}, lines[:1+per]...), lines[1+2*per:]...), ""),
		"header alone":    lines[0],
		"cut off":         strings.Join(lines[:len(lines)-4], ""),
	} {
		v, err := closedloop.VerifyReader(t.Context(), strings.NewReader(text), lookup(c))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if v.OK {
			t.Errorf("%s was not found", name)
		}
	}
	// A step left out is malformed: its time is missing.
	missing := strings.Join(append(append([]string{}, lines[:4]...), lines[5:]...), "")
	if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(missing), lookup(c)); err == nil || !strings.Contains(err.Error(), "line 5") {
		t.Errorf("a missing decision gives %v, want an error that names line 5", err)
	}
}

func TestResume(t *testing.T) {
	c := cartCase(t)
	whole := options(t.TempDir())
	want := evaluate(t, c, direct(c), whole)
	full := require.Get(os.ReadFile(whole.TracePath))(t)
	lines := strings.SplitAfter(string(full), "\n")
	per := steps + 3
	for name, cut := range map[string]string{
		"before the header":        "",
		"inside the header":        lines[0][:len(lines[0])/2],
		"after the header":         lines[0],
		"after two episodes":       strings.Join(lines[:1+2*per], ""),
		"inside the third episode": strings.Join(lines[:1+2*per+5], ""),
		"inside a line":            strings.Join(lines[:1+2*per+5], "") + lines[1+2*per+5][:20],
		"complete":                 string(full),
	} {
		o := options(t.TempDir())
		o.Resume = true
		require.OK(t, os.WriteFile(o.TracePath, []byte(cut), 0o644))
		got := evaluate(t, c, direct(c), o)
		if withoutTimes(t, o.TracePath) != withoutTimes(t, whole.TracePath) {
			t.Errorf("%s: the resumed trace differs", name)
		}
		if got.Episodes != want.Episodes || got.Safe != want.Safe || got.RegretPct != want.RegretPct || got.Displacement != want.Displacement || got.MarginMin != want.MarginMin {
			t.Errorf("%s: resumed result %+v, whole %+v", name, got, want)
		}
	}
	// Another run's trace is refused and left alone.
	o := options(t.TempDir())
	o.Resume, o.Seed = true, 8
	require.OK(t, os.WriteFile(o.TracePath, full, 0o644))
	if _, err := closedloop.Evaluate(context.Background(), c, direct(c), o); err == nil {
		t.Error("a trace of another seed was continued")
	}
	if after, _ := os.ReadFile(o.TracePath); string(after) != string(full) {
		t.Error("a refused trace was changed")
	}
	// A damaged middle is refused too.
	o.Seed = 7
	require.OK(t, os.WriteFile(o.TracePath, []byte(strings.Replace(string(full), `"t":3`, `"t":4`, 1)), 0o644))
	if _, err := closedloop.Evaluate(context.Background(), c, direct(c), o); err == nil {
		t.Error("a damaged trace was continued")
	}
}

func TestShardsMakeTheWhole(t *testing.T) {
	c := cartCase(t)
	whole := options(t.TempDir())
	r := evaluate(t, c, direct(c), whole)
	decisions, episodes := 0, 0
	for i := range 4 {
		o := options(t.TempDir())
		o.ShardIndex, o.ShardCount = i, 4
		of := 0
		o.Progress = func(_, total int) { of = total }
		part := evaluate(t, c, direct(c), o)
		if of != part.Episodes {
			t.Errorf("shard %d: progress is of %d episodes, there are %d", i, of, part.Episodes)
		}
		decisions, episodes = decisions+part.Decisions, episodes+part.Episodes
		if v, err := closedloop.Verify(t.Context(), o.TracePath, lookup(c)); err != nil || !v.OK {
			t.Errorf("shard %d: %v %+v", i, err, v)
		}
	}
	if decisions != r.Decisions || episodes != r.Episodes {
		t.Errorf("shards have %d decisions in %d episodes, the whole %d in %d", decisions, episodes, r.Decisions, r.Episodes)
	}
}

func TestCancelledRunCanBeResumed(t *testing.T) {
	c := cartCase(t)
	o := options(t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	o.Progress = func(done, _ int) {
		if done == 2 {
			cancel()
		}
	}
	if _, err := closedloop.Evaluate(ctx, c, direct(c), o); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled run returned %v", err)
	}
	o.Resume, o.Progress = true, nil
	evaluate(t, c, direct(c), o)
	if v, err := closedloop.Verify(t.Context(), o.TracePath, lookup(c)); err != nil || !v.OK || v.Episodes != 6 {
		t.Errorf("after resuming: %v %+v", err, v)
	}
}

// watched notes whether what draws its episodes may show how far it is.
type watched struct {
	domain.Plant
	shown *bool
}

func (w watched) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	*w.shown = domain.ProgressOf(opt.Until(), "optima") != nil
	return w.Plant.Episode(seed, index, opt)
}

// An episode may show how far its optimum is, in an evaluation and in its verification.
func TestWhatTakesLongInAnEpisodeCanBeShown(t *testing.T) {
	c, shown := cartCase(t), false
	c.Plant = watched{c.Plant, &shown}
	o := options(t.TempDir())
	ctx := domain.WithProgress(t.Context(), func(string, int, int) {})
	require.Get(closedloop.Evaluate(ctx, c, direct(c), o))(t)
	if !shown {
		t.Error("an evaluation's episodes do not know whom to tell")
	}
	shown = false
	if require.Get(closedloop.Verify(ctx, o.TracePath, lookup(c)))(t); !shown {
		t.Error("the episodes of a verification do not know whom to tell")
	}
	if require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); shown {
		t.Error("somebody is told where nobody looks")
	}
}

// A run in its plant's time takes it, decides the same, and ends with its context.
func TestAPeriodIsKept(t *testing.T) {
	c := cartCase(t)
	o := options(t.TempDir())
	o.Episodes, o.TracePath = 1, ""
	plain := evaluate(t, c, direct(c), o)
	o.Interval = 5 * time.Millisecond
	start := time.Now()
	r := evaluate(t, c, direct(c), o)
	if took, least := time.Since(start), time.Duration(r.Decisions-1)*o.Interval; r.Decisions < 2 || took < least || r.CostMean != plain.CostMean {
		t.Errorf("%d decisions of cost %v in %v, want them in %v at least, of cost %v", r.Decisions, r.CostMean, took, least, plain.CostMean)
	}
	o.Interval = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := closedloop.Evaluate(ctx, c, direct(c), o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a period of an hour: %v", err)
	}
	o.Interval = -1
	if _, err := closedloop.Evaluate(t.Context(), c, direct(c), o); err == nil {
		t.Error("a period below zero is taken")
	}
}

func TestClopperPearson(t *testing.T) {
	// Published values: 0/1000 has the upper end 1 − 0.025^(1/1000) = 0.003682.
	for _, c := range []struct {
		k, n   int
		lo, hi float64
	}{{0, 1000, 0, 0.0036821}, {5, 10, 0.1870860, 0.8129140}, {98, 100, 0.9296161, 0.9975687}} {
		got := closedloop.ClopperPearson(c.k, c.n)
		if math.Abs(got[0]-c.lo) > 1e-6 || math.Abs(got[1]-c.hi) > 1e-6 {
			t.Errorf("%d/%d: %v, want [%g, %g]", c.k, c.n, got, c.lo, c.hi)
		}
	}
}

// Test scenes are not those of another seed, nor noise that of the scenes.
func TestScenesDependOnSeedAndIndex(t *testing.T) {
	plant := cartCase(t).Plant
	seen := map[string]bool{}
	for seed := range uint64(4) {
		for i := range 4 {
			ep := require.Get(plant.Episode(seed, i, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
			seen[string(marshal(t, ep.Scene()))] = true
		}
	}
	if len(seen) != 16 {
		t.Errorf("16 scenes, %d different", len(seen))
	}
}

// reaching are episodes with a goal beside their margins, which those of even numbers reach.
type reaching struct{ domain.Plant }

func (p reaching) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	ep, err := p.Plant.Episode(seed, index, opt)
	return &reached{ep, index%2 == 0}, err
}

type reached struct {
	domain.Episode
	there bool
}

func (e *reached) Abilities() *domain.EpisodeAbilities {
	return &domain.EpisodeAbilities{Succeeded: func() bool { return e.there }}
}

// An episode is safe that keeps its margins and reaches its goal, neither alone.
func TestSafeIsKeptAndReached(t *testing.T) {
	c := cartCase(t)
	c.Plant = reaching{c.Plant}
	for _, kept := range []bool{true, false} {
		o := options("")
		o.Visit = func(e *closedloop.EpisodeRecord) {
			if there := e.Episode%2 == 0; *e.End.GoalReached != there || e.End.Safe != (kept && there) {
				t.Errorf("episode %d, margins kept: %t: safe %t, reached %t", e.Episode, kept, e.End.Safe, *e.End.GoalReached)
			}
		}
		evaluate(t, c, controller(func(int, []float64) (float64, bool, error) {
			return map[bool]float64{true: -0.5, false: -1.5}[kept], true, nil
		}), o)
	}
}

// The optimum of a plant with a delay costs what is under way at first and the best from there.
func TestTheOptimumOfADelayHasWhatIsUnderWay(t *testing.T) {
	const delay = 2
	cart := testdomain.NewCart(steps)
	plant := closedloop.Simulated(cart, testdomain.Starts, testdomain.Start)
	plant.Delay.Periods = delay
	plant.Oracle = func(_ context.Context, s, c []float64, n int, _ domain.Preference) (float64, [][]float64, error) {
		if n != steps-delay {
			t.Errorf("an optimum of %d decisions, want %d", n, steps-delay)
		}
		return 0, nil, nil
	}
	ep := require.Get(plant.Episode(9001, 0, domain.EpisodeOptions{Preference: domain.Preference{W: []float64{0.5, 0.5}}}))(t)
	cost, _, err := ep.Oracle()
	require.OK(t, err)
	want := 0.0
	for range delay {
		out := require.Get(ep.Apply([]float64{0}))(t)
		want += out.Cost
	}
	if !(want > 0) || math.Abs(cost-want) > 1e-12 {
		t.Errorf("the optimum costs %g before an action acts, the plant %g", cost, want)
	}
}

// Without optima no episode is asked for one, and all else is the same.
func TestEpisodesWithoutTheirOptima(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	o.TracePath = ""
	with := evaluate(t, c, direct(c), o)
	o.WithoutOptima = true
	without := evaluate(t, c, direct(c), o)
	if with.Regret.N == 0 || without.Regret.N != 0 || without.CostMean != with.CostMean || without.Safe != with.Safe {
		t.Errorf("%d and %d regrets, costs %v and %v", with.Regret.N, without.Regret.N, with.CostMean, without.CostMean)
	}
}

// A line belongs to the episode whose scene was last.
func TestALineOfAnotherEpisodeIsRefused(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	evaluate(t, c, direct(c), o)
	lines := strings.SplitAfter(string(require.Get(os.ReadFile(o.TracePath))(t)), "\n")
	for name, with := range map[string]string{"of another": `"episode":1`, "of none": `"none":0`} {
		changed := append([]string{}, lines...)
		if changed[3] = strings.Replace(lines[3], `"episode":0`, with, 1); changed[3] == lines[3] {
			t.Fatalf("no episode in %s", lines[3])
		}
		if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(strings.Join(changed, "")), lookup(c)); err == nil || !strings.Contains(err.Error(), "line 4") {
			t.Errorf("a line %s is read: %v", name, err)
		}
	}
}

// A result says why episodes have no reference, by reason, with an example, and the reasons come from traces too.
func TestMissingReferencesAreCountedByReason(t *testing.T) {
	c := cartCase(t)
	plant := c.Plant.(*closedloop.Simulation)
	asked := 0
	plant.Oracle = func(_ context.Context, s, _ []float64, _ int, _ domain.Preference) (float64, [][]float64, error) {
		asked++
		switch asked % 4 {
		case 1:
			return 0, nil, fmt.Errorf("from state %v: %w", s, domain.ErrInfeasible)
		case 2:
			return 0, nil, fmt.Errorf("from state %v: %w", s, domain.ErrNotConverged)
		case 3:
			return -2, nil, nil
		}
		return 1, nil, nil
	}
	r := evaluate(t, c, direct(c), closedloop.Options{Method: "exact", Episodes: 9, Seed: 5, Preference: domain.Preference{Adaptive: true}, Threads: 1})
	want := []struct {
		reason          string
		episodes, first int
	}{{"no plan keeps the limits", 3, 0}, {"the solver does not converge", 2, 1}, {"the optimum does not cost more than nothing", 2, 2}}
	if len(r.NoReference) != len(want) || r.OracleFailures != 5 {
		t.Fatalf("%+v, %d failures", r.NoReference, r.OracleFailures)
	}
	for i, m := range r.NoReference {
		if w := want[i]; !strings.HasPrefix(m.Reason, w.reason) || m.Episodes != w.episodes || m.Episode != w.first || len(m.Start) != 2 || m.Cause == "" || m.Fix == "" {
			t.Errorf("%+v, want %+v", m, w)
		}
	}
	if says := fmt.Sprintf("no reference in 3 of 9 episodes: no plan keeps the limits, first in episode 0 from the state %.4g: from state", []float64(r.NoReference[0].Start)); !strings.HasPrefix(r.NoReference[0].Text(9), says) {
		t.Errorf("it says %q", r.NoReference[0].Text(9))
	}
}
