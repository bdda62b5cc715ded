package environment_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/closedloop/environment"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/paper/multiagent"
	"github.com/gpc-engine/gpc/paper/opf"
	"github.com/gpc-engine/gpc/tensor"
)

// rows has room for everything of a fleet.
func rows(f *environment.Fleet[float64]) *environment.Rows[float64] {
	n := f.Environments()
	observation, action, objectives, margins := f.Sizes()
	vector := func(width int) []float64 { return make([]float64, n*width) }
	return &environment.Rows[float64]{
		Action: vector(action), Observation: vector(observation), Final: vector(observation), Reward: vector(1), Cost: vector(1),
		Violated: make([]bool, n), Terminated: make([]bool, n), Truncated: make([]bool, n), IsStep: make([]bool, n),
		Objectives: vector(objectives), Margins: vector(margins), Sigma: vector(objectives), Episode: make([]int64, n),
	}
}

// policy is a smooth function of the observation, within [−1, 1].
func policy(observation, a []float64) {
	for i := range a {
		sum := 0.0
		for k, v := range observation {
			sum += v * math.Sin(float64(1+i+3*k))
		}
		a[i] = 0.3*math.Sin(sum) + 0.4*math.Cos(float64(i))
	}
}

// controller is policy as a method of closedloop.
type controller struct {
	unit *domain.Unit
	x, a []float64
}

func newController(p domain.Problem) (*controller, error) {
	unit, err := domain.NewUnit(p)
	return &controller{unit: unit, a: make([]float64, p.Spec().ActionSize())}, err
}

func (c *controller) Reset(domain.Episode) error { return nil }

func (c *controller) Decide(s, cx []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	c.x = append(append(c.x[:0], s...), cx...)
	policy(c.x, c.a)
	c.unit.Action(s, cx, c.a, u)
	return domain.Decided(true), nil
}

// TestEpisodesAreThoseOfAnEvaluation: under one policy every line of an evaluation's episode
// is a row of the environments, for the same seed and number.
func TestEpisodesAreThoseOfAnEvaluation(t *testing.T) {
	for _, of := range []struct {
		c         domain.Case
		noise     float64
		regime    string
		tolerance float64
	}{
		{integrator.Convex(), 0, "", 0}, {integrator.Nonconvex(), 0.02, "", 0}, {multiagent.Static(), 0.01, "", 0},
		{opf.Thirty(), 0, "", 1e-8}, {opf.ThirtyUncertain(), 1e-4, "swing-hidden", 1e-8},
	} {
		spec := of.c.Problem.Spec()
		t.Run(spec.Name, func(t *testing.T) {
			const n, seed = 3, 991
			pref := domain.Preference{Adaptive: true}
			records := map[int]*closedloop.EpisodeRecord{}
			evaluated := of.c
			evaluated.Plant = withoutOracle{of.c.Plant}
			_, err := closedloop.Evaluate(t.Context(), &evaluated, func() (domain.Controller, error) { return newController(of.c.Problem) }, closedloop.Options{
				Method: "policy", Episodes: 2 * n, Seed: seed, Preference: pref, Noise: of.noise, Regime: of.regime,
				Visit: func(e *closedloop.EpisodeRecord) { records[e.Episode] = e },
			})
			require.OK(t, err)
			f, err := environment.New[float64](&of.c, environment.Options{
				Environments: n, Seed: seed, Preference: pref, Noise: of.noise, Regime: of.regime, Past: true, Autoreset: environment.SameStep, Threads: 2,
			})
			require.OK(t, err)
			r := rows(f)
			require.OK(t, f.Reset(t.Context(), nil, nil, r))
			width, actions, objectives, margins := f.Sizes()
			cost, lowest := map[int64]float64{}, map[int64]float64{}
			for step := range 2 * spec.Steps {
				for i := range n {
					policy(r.Observation[i*width:][:width], r.Action[i*actions:][:actions])
				}
				began := slices.Clone(r.Episode)
				require.OK(t, f.Step(t.Context(), r))
				for i := range n {
					e := began[i]
					line := &records[int(e)].Lines[step%spec.Steps]
					same := func(name string, got, want float64) {
						if !(math.Abs(got-want) <= of.tolerance*(1+math.Abs(want))) {
							t.Fatalf("episode %d, step %d: %s is %v, the evaluation's %v", e, step, name, got, want)
						}
					}
					for k, j := range line.J {
						same("an objective", r.Objectives[i*objectives+k], j)
						same("a priority", r.Sigma[i*objectives+k], line.Sigma[k])
					}
					same("the least margin", slices.Min(r.Margins[i*margins:][:margins]), float64(line.Margin))
					if violated := !spec.Keeps(float64(line.Margin)); violated != r.Violated[i] || violated != (r.Cost[i] > 0) {
						t.Fatalf("episode %d, step %d: margin %v, violated %v, cost %v", e, step, line.Margin, r.Violated[i], r.Cost[i])
					}
					cost[e] -= r.Reward[i]
					lowest[e] = min(lowest[e], slices.Min(r.Margins[i*margins:][:margins]))
					if ends := step%spec.Steps == spec.Steps-1; r.Truncated[i] != ends || r.Terminated[i] {
						t.Fatalf("episode %d, step %d: truncated %v, terminated %v", e, step, r.Truncated[i], r.Terminated[i])
					}
				}
			}
			for e, record := range records {
				if want := float64(record.End.Cost); math.Abs(cost[int64(e)]-want) > 1e-8*(1+math.Abs(want)) {
					t.Errorf("episode %d cost %v, in the evaluation %v", e, cost[int64(e)], want)
				}
			}
		})
	}
}

// withoutOracle leaves out what an evaluation compares with.
type withoutOracle struct{ domain.Plant }

func (p withoutOracle) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	e, err := p.Plant.Episode(seed, index, opt)
	return noOracle{e}, err
}

type noOracle struct{ domain.Episode }

func (noOracle) Oracle() (float64, [][]float64, error) { return math.NaN(), nil, nil }

// TestThreads: the bits are the same on any number of threads, and so in fleets of another
// size for the environments that both have.
func TestThreads(t *testing.T) {
	for _, c := range []domain.Case{integrator.Convex(), opf.ThirtyUncertain()} {
		t.Run(c.Problem.Spec().Name, func(t *testing.T) {
			const common = 5
			var want []float64
			for _, of := range []struct{ n, threads int }{{20, 1}, {20, 2}, {20, 7}, {common, 1}} {
				f, err := environment.New[float64](&c, environment.Options{Environments: of.n, Seed: 992, Cycle: common, Preference: domain.Preference{Adaptive: true}, Threads: of.threads})
				require.OK(t, err)
				r := rows(f)
				require.OK(t, f.Reset(t.Context(), nil, nil, r))
				width, actions, _, margins := f.Sizes()
				var got []float64
				for range 12 {
					for i := range of.n {
						policy(r.Observation[i*width:][:width], r.Action[i*actions:][:actions])
					}
					require.OK(t, f.Step(t.Context(), r))
					got = append(got, r.Observation[:common*width]...)
					got = append(got, r.Margins[:common*margins]...)
					got = append(got, r.Reward[:common]...)
				}
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%d environments on %d threads differ from 20 on one", of.n, of.threads)
				}
			}
		})
	}
}

// stub is Case 1 with a plant of its own.
type stub struct {
	domain.Plant
	refuse, lose, arrive int // at which step; −1: never
	diverges             bool
}

func (p stub) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	e, err := p.Plant.Episode(seed, index, opt)
	return &stubEpisode{Episode: e, stub: p}, err
}

type stubEpisode struct {
	domain.Episode
	stub
	t int
}

func (e *stubEpisode) Apply(u []float64) (domain.Outcome, error) {
	at := e.t
	e.t++
	if at == e.refuse {
		return domain.Outcome{}, errors.New("refused")
	}
	out, err := e.Episode.Apply(u)
	if out.Failed = at == e.lose; out.Failed && e.diverges {
		out.S[0], out.Cost, out.Failed = math.Inf(1), math.NaN(), false
	}
	return out, err
}

func (e *stubEpisode) Abilities() *domain.EpisodeAbilities {
	return &domain.EpisodeAbilities{Arrived: e.Arrived}
}

func (e *stubEpisode) Arrived() bool { return e.t > e.arrive && e.arrive >= 0 }

// TestHowAnEpisodeEnds: what a failure leaves untaken is paid for, an arrival is not.
func TestHowAnEpisodeEnds(t *testing.T) {
	const at, price = 4, 100.0
	for _, of := range []struct {
		name    string
		plant   stub
		past    bool
		untaken int // steps that are paid for; −1: the episode does not terminate
	}{
		{"refused", stub{refuse: at, lose: -1, arrive: -1}, false, integrator.Horizon - at},
		{"lost", stub{refuse: -1, lose: at, arrive: -1}, false, integrator.Horizon - at - 1},
		{"diverged", stub{refuse: -1, lose: at, arrive: -1, diverges: true}, false, integrator.Horizon - at},
		{"arrived", stub{refuse: -1, lose: -1, arrive: at}, false, 0},
		{"past its arrival", stub{refuse: -1, lose: -1, arrive: at}, true, -1},
	} {
		t.Run(of.name, func(t *testing.T) {
			c := integrator.Convex()
			of.plant.Plant = c.Plant
			c.Plant = of.plant
			f, err := environment.New[float64](&c, environment.Options{
				Environments: 2, Seed: 991, Preference: domain.Preference{Adaptive: true}, FailureCost: price, Past: of.past, Autoreset: environment.Disabled,
			})
			require.OK(t, err)
			r := rows(f)
			require.OK(t, f.Reset(t.Context(), nil, nil, r))
			for range at {
				require.OK(t, f.Step(t.Context(), r))
				if r.Terminated[0] || r.Truncated[0] {
					t.Fatal("ended too early")
				}
			}
			require.OK(t, f.Step(t.Context(), r))
			if r.Terminated[0] != (of.untaken >= 0) || r.Truncated[0] {
				t.Fatalf("terminated %v, truncated %v", r.Terminated[0], r.Truncated[0])
			}
			if of.untaken < 0 {
				return
			}
			own := 0.0
			if of.plant.refuse < 0 && !of.plant.diverges {
				for k, s := range r.Sigma[:2] {
					own += s * (r.Objectives[k] - price*float64(of.untaken))
				}
			} else if !math.IsNaN(r.Sigma[0]) {
				t.Error("a step that was not taken has a priority")
			}
			if want := -own - price*float64(of.untaken); !(math.Abs(r.Reward[0]-want) <= 1e-9) {
				t.Errorf("reward %v, want %v", r.Reward[0], want)
			}
			if width, _, _, _ := f.Sizes(); !tensor.Finite(r.Observation[:width]) {
				t.Errorf("the observation is %v", r.Observation[:width])
			}
			if of.untaken > 0 && !(r.Cost[0] >= float64(of.untaken) && r.Violated[0]) {
				t.Errorf("cost %v, violated %v", r.Cost[0], r.Violated[0])
			}
		})
	}
}

// TestFailureCost: by default a failure costs more than staying where one is.
func TestFailureCost(t *testing.T) {
	c := integrator.Convex()
	c.Plant = stub{Plant: c.Plant, refuse: 0, lose: -1, arrive: -1}
	o := environment.Options{Environments: 1, Seed: 991, Preference: domain.Preference{Adaptive: true}}
	f, err := environment.New[float64](&c, o)
	require.OK(t, err)
	r := rows(f)
	require.OK(t, f.Reset(t.Context(), nil, nil, r))
	if err := f.Step(t.Context(), r); err == nil || !strings.Contains(err.Error(), "give that cost (failure_cost)") {
		t.Errorf("a plant that refuses everything: %v", err)
	}
	c = integrator.Convex()
	c.Plant = stub{Plant: c.Plant, refuse: 19, lose: -1, arrive: -1}
	f, err = environment.New[float64](&c, o)
	require.OK(t, err)
	require.OK(t, f.Reset(t.Context(), nil, nil, r))
	worst := 0.0
	for !r.Terminated[0] {
		worst = min(worst, r.Reward[0])
		require.OK(t, f.Step(t.Context(), r))
	}
	if !(r.Reward[0] < worst) {
		t.Errorf("a failure costs %v, a step without an action at most %v", -r.Reward[0], -worst)
	}
}

// TestAutoreset: the three modes of Gymnasium.
func TestAutoreset(t *testing.T) {
	c := integrator.Convex()
	for _, mode := range []environment.Autoreset{environment.NextStep, environment.SameStep, environment.Disabled} {
		t.Run(string(mode), func(t *testing.T) {
			f, err := environment.New[float64](&c, environment.Options{Environments: 2, Seed: 991, Preference: domain.Preference{Adaptive: true}, Autoreset: mode})
			require.OK(t, err)
			r := rows(f)
			require.OK(t, f.Reset(t.Context(), nil, nil, r))
			first := slices.Clone(r.Observation)
			for range integrator.Horizon {
				require.OK(t, f.Step(t.Context(), r))
			}
			if !r.Truncated[0] || !r.Truncated[1] {
				t.Fatal("not truncated at the horizon")
			}
			switch mode {
			case environment.NextStep:
				r.Action[0] = 1
				if r.Episode[0] != 0 {
					t.Errorf("episode %d is observed, want the one that ended", r.Episode[0])
				}
				require.OK(t, f.Step(t.Context(), r))
				if r.IsStep[0] || r.Reward[0] != 0 || r.Truncated[0] {
					t.Error("the step after the last has a row of a step")
				}
			case environment.SameStep:
				if r.Final[8] != 1 || r.Observation[8] != 0 {
					t.Errorf("t/T is %v at the end and %v at the beginning", r.Final[8], r.Observation[8])
				}
			case environment.Disabled:
				if err := f.Step(t.Context(), r); err == nil {
					t.Fatal("a step beyond the end")
				}
				require.OK(t, f.Reset(t.Context(), []bool{true, false}, nil, r))
			}
			if r.Episode[0] != 2 || slices.Equal(first[:9], r.Observation[:9]) {
				t.Errorf("episode %d, want 2", r.Episode[0])
			}
			f.Seed(991)
			require.OK(t, f.Reset(t.Context(), nil, nil, r))
			if !slices.Equal(first, r.Observation) {
				t.Error("the same seed begins with other episodes")
			}
		})
	}
}

// TestSafeguard: with the case's projection every margin is kept from any action.
func TestSafeguard(t *testing.T) {
	c := opf.Thirty()
	for _, guarded := range []bool{false, true} {
		f, err := environment.New[float64](&c, environment.Options{Environments: 4, Cycle: 4, Seed: 991, Preference: domain.Preference{Adaptive: true}, Safeguard: guarded})
		require.OK(t, err)
		r := rows(f)
		require.OK(t, f.Reset(t.Context(), nil, nil, r))
		violated := false
		for range 10 {
			for k := range r.Action {
				r.Action[k] = math.Sin(float64(k * k))
			}
			require.OK(t, f.Step(t.Context(), r))
			violated = violated || slices.Contains(r.Violated, true)
		}
		if violated == guarded {
			t.Errorf("safeguard %v: violated %v", guarded, violated)
		}
	}
}

// TestSafeguardBrakes: where a projection is onto limits of the actuators alone, robots brake if
// one would break a margin in the next step otherwise. It is one step: driven blindly they
// break one all the same, but not as deep.
func TestSafeguardBrakes(t *testing.T) {
	c := multiagent.Static()
	const n, steps = 16, 150
	var before [2]int
	var deepest [2]float64
	for k, guarded := range []bool{false, true} {
		f, err := environment.New[float64](&c, environment.Options{Environments: n, Seed: 991, Preference: domain.Preference{Adaptive: true}, Safeguard: guarded, Autoreset: environment.Disabled, Past: true})
		require.OK(t, err)
		r := rows(f)
		require.OK(t, f.Reset(t.Context(), nil, nil, r))
		var broken [n]bool
		for step := range steps {
			for i := range r.Action {
				r.Action[i] = 0.5
				if i%2 == 1 {
					r.Action[i] = math.Sin(float64(i%12+step)) / 4
				}
			}
			require.OK(t, f.Step(t.Context(), r))
			for i, v := range r.Violated {
				if broken[i] = broken[i] || v; !broken[i] {
					before[k]++
				}
				deepest[k] = math.Max(deepest[k], r.Cost[i])
			}
		}
	}
	if before[0] == n*steps || before[1] < before[0] || deepest[1] > 0.8*deepest[0] {
		t.Errorf("%d steps before the first violation and %g at most, behind the safeguard %d and %g", before[0], deepest[0], before[1], deepest[1])
	}
}

// TestWrongInput: each has an error that names what is wrong.
func TestWrongInput(t *testing.T) {
	c := integrator.Convex()
	adaptive := domain.Preference{Adaptive: true}
	for _, of := range []struct {
		opt  environment.Options
		want string
	}{
		{environment.Options{Preference: adaptive}, "0 environments"},
		{environment.Options{Environments: 1, Preference: adaptive, Autoreset: "never"}, `autoreset "never"`},
		{environment.Options{Environments: 1, Preference: adaptive, Cycle: -1}, "cycle of -1"},
		{environment.Options{Environments: 1, Preference: adaptive, FailureCost: math.NaN()}, "the cost of a failure is NaN"},
		{environment.Options{Environments: 1, Preference: domain.Preference{W: []float64{1}}}, "1 weights"},
	} {
		if _, err := environment.New[float32](&c, of.opt); err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%+v: %v, want %q", of.opt, err, of.want)
		}
	}
	f, err := environment.New[float64](&c, environment.Options{Environments: 2, Preference: adaptive})
	require.OK(t, err)
	r := rows(f)
	wants := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	wants(f.Step(t.Context(), r), "before the first reset")
	wants(f.Reset(t.Context(), []bool{true, false}, nil, r), "first reset has to reset all")
	require.OK(t, f.Reset(t.Context(), nil, nil, r))
	before := slices.Clone(r.Observation)
	r.Action[3] = math.Inf(1)
	wants(f.Step(t.Context(), r), "action u2 of environment 1 is +Inf")
	r.Action[3] = 0
	r.Reward = r.Reward[:1]
	wants(f.Step(t.Context(), r), "reward has 1 entries")
	if !slices.Equal(before, r.Observation) {
		t.Error("a refused step has moved an environment")
	}
	wants(f.Reset(t.Context(), nil, []int64{0}, rows(f)), "1 episode numbers")
	wants(f.Reset(t.Context(), nil, []int64{0, -1}, rows(f)), "episode -1")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	thirty := opf.Thirty()
	g, err := environment.New[float64](&thirty, environment.Options{Environments: 1, Preference: adaptive})
	require.OK(t, err)
	if err := g.Reset(ended, nil, nil, rows(g)); !errors.Is(err, context.Canceled) {
		t.Errorf("drawing an episode under an ended context: %v", err)
	}
}

// TestUnit: the ends of [−1, 1] are those of the box, and Case 2's slew bound is kept.
func TestUnit(t *testing.T) {
	c := multiagent.Moving()
	unit, err := domain.NewUnit(c.Problem)
	require.OK(t, err)
	ep, err := c.Plant.Episode(991, 0, domain.EpisodeOptions{})
	require.OK(t, err)
	spec := c.Problem.Spec()
	s, cx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for range 4 {
		ep.Observe(s, cx)
		unit.Action(s, cx, slices.Repeat([]float64{3}, len(u)), u)
		_, err := ep.Apply(u)
		require.OK(t, err)
	}
	if fmt.Sprint(u[:2]) != "[2 2]" {
		t.Errorf("the largest action is %v after four steps, want the ends of the box", u[:2])
	}
}

func BenchmarkStep(b *testing.B) {
	for _, of := range []struct {
		c    domain.Case
		span float64
	}{{integrator.Convex(), 1}, {opf.Thirty(), 1}, {opf.Thirty(), 0.1}, {opf.ThirtyUncertain(), 0.1}, {multiagent.Static(), 1}} {
		b.Run(fmt.Sprintf("%s/±%v", of.c.Problem.Spec().Name, of.span), func(b *testing.B) {
			const n = 64
			f, err := environment.New[float32](&of.c, environment.Options{
				Environments: n, Seed: 991, Cycle: 16, Preference: domain.Preference{Adaptive: true}, Threads: 1, FailureCost: 1, Autoreset: environment.SameStep,
			})
			if err != nil {
				b.Fatal(err)
			}
			observation, action, _, _ := f.Sizes()
			r := &environment.Rows[float32]{Action: make([]float32, n*action), Observation: make([]float32, n*observation), Reward: make([]float64, n)}
			for k := range r.Action {
				r.Action[k] = float32(of.span * math.Sin(float64(k*k)))
			}
			if err := f.Reset(b.Context(), nil, nil, r); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := f.Step(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/step")
		})
	}
}
