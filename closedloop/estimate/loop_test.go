package estimate_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

var adaptive = domain.Preference{Adaptive: true}

// cart is a mass that is wanted at a wall, 0.5, which it must not touch; a wind pushes it.
func cartOf[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Step: func(s, c, u, n, _ []T) {
			n[1] = s[1] + 0.1*(u[0]+c[0])
			n[0] = s[0] + 0.1*n[1]
		},
		Objectives: func(_, _, u, n, j []T) { j[0], j[1] = (n[0]-0.5)*(n[0]-0.5)+0.1*n[1]*n[1], 0.01*u[0]*u[0] },
		Margins:    func(_, _, _, n, m []T) { m[0] = 0.5 - n[0] - 0.6*n[1] },
	}
}

func cart() equations.System {
	return equations.System{
		Name: "cart", State: []domain.Variable{{Name: "x", Lo: -1, Hi: 1}, {Name: "v", Lo: -1, Hi: 1}}, Context: []domain.Variable{{Name: "wind"}},
		Action: []domain.Variable{{Name: "u", Lo: -2, Hi: 2}}, Objectives: []domain.Variable{{Name: "away"}, {Name: "effort"}},
		Margins: []domain.Variable{{Name: "wall"}}, Scenario: []domain.Variable{{Name: "x", Lo: -0.8, Hi: -0.3}, {Name: "wind", Lo: -0.2, Hi: 0.2}},
		Initial: func(p, s, c []float64) { s[0], s[1], c[0] = p[0], 0, p[1] },
		Steps:   30, StepSeconds: 0.1, Real: cartOf[float64](), Dual: cartOf[complex128](),
	}
}

// seen measures the position alone, and knows neither speed nor wind.
func seen() *domain.Measurement {
	return &domain.Measurement{
		Outputs: []domain.Variable{{Name: "x"}}, Deviation: []float64{0.01},
		Real: func(s, _, _, y []float64) { y[0] = s[0] }, Dual: func(s, _, _, y []complex128) { y[0] = s[0] },
		Process: []float64{0, 0.003}, Unknown: []domain.Unknown{{Context: 0, Deviation: 0.12}},
	}
}

// safe counts safe episodes of `nmpc` at a level.
func safe(t *testing.T, y equations.System, of *domain.Measurement, level float64, episodes int) (safe, noWay int) {
	t.Helper()
	y.Measurement = of
	c := require.Get(require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t).Robust(level))(t)
	o := closedloop.Options{Episodes: episodes, Seed: 5, Preference: adaptive, Visit: func(e *closedloop.EpisodeRecord) {
		if e.End.NoWay {
			noWay++
		}
		if e.End.Safe {
			safe++
		}
	}}
	require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "nmpc"}, engine.Options{}, o))(t)
	return safe, noWay
}

// With the position alone measured, and a wind that nobody knows, the exact solver on the estimate breaks its
// limit in most episodes; with what the errors may take kept off it, in none of these.
func TestLimitsHoldInThePlant(t *testing.T) {
	const episodes = 20
	bare, _ := safe(t, cart(), seen(), 0, episodes)
	kept, noWay := safe(t, cart(), seen(), 4, episodes)
	if bare > episodes/2 {
		t.Errorf("%d of %d are safe without anything kept off: the test shows nothing", bare, episodes)
	}
	if kept < episodes || noWay > 0 {
		t.Errorf("%d of %d are safe, %d have no way", kept, episodes, noWay)
	}
}

// A limit is of the state that the plant reaches, disturbance included: an episode is judged by it, and what is kept off covers it.
func TestMarginsAreOfTheStateThatIsReached(t *testing.T) {
	y := cart()
	y.Measurement = seen()
	y.Measurement.Process = []float64{0.01, 0.03}
	for level, rate := range map[float64]float64{0: 1, 3: 0.01} {
		c := require.Get(require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t).Robust(level))(t)
		broken, decisions := 0, 0
		o := closedloop.Options{Episodes: 30, Seed: 5, Preference: adaptive, Visit: func(e *closedloop.EpisodeRecord) {
			for i, l := range e.Lines {
				margin := 0.5 - l.S[0] - 0.6*l.S[1]
				if got := float64(l.Margin); math.Abs(got-margin) > 1e-12 {
					t.Fatalf("margin %v of decision %d, and the state that is reached has %v", got, i, margin)
				}
				if decisions++; margin < 0 {
					broken++
				}
			}
		}}
		require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "nmpc"}, engine.Options{}, o))(t)
		if level == 0 && broken == 0 || float64(broken) > rate*float64(decisions) {
			t.Errorf("%v deviations kept off: %d of %d decisions break the limit", level, broken, decisions)
		}
	}
}

// A sweep of preferences decides by what is measured, as an evaluation does.
func TestSteeringIsByWhatIsMeasured(t *testing.T) {
	y := cart()
	y.Measurement = seen()
	c := require.Get(require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t).Robust(4))(t)
	front := require.Get(c.Steer(t.Context(), gpc.Setup{Method: "nmpc"}, engine.Options{}, 1, closedloop.SteerOptions{Episodes: 2, Seed: 5}))(t)
	if len(front.Front) != 2 || front.Front[0].Violations+front.Front[1].Violations > 0 {
		t.Errorf("%+v", front.Front)
	}
}

// A plant that runs on keeps its limit too, at which it would rest: the most that any stage of its plan asks for is kept off.
func TestLimitsHoldInAPlantThatRunsOn(t *testing.T) {
	y := cart()
	y.Horizon, y.Steps = 15, 60
	const episodes = 10
	bare, _ := safe(t, y, seen(), 0, episodes)
	kept, noWay := safe(t, y, seen(), 4, episodes)
	if bare > episodes/2 {
		t.Errorf("%d of %d are safe without anything kept off: the test shows nothing", bare, episodes)
	}
	if kept < episodes || noWay > 0 {
		t.Errorf("%d of %d are safe, %d have no way", kept, episodes, noWay)
	}
	p := require.Get(equations.New(y))(t)
	f := require.Get(estimate.New(p, seen(), []float64{-0.5, 0}, []float64{0.1, 0.05}))(t)
	off := domain.NewBackoff(p.Spec())
	margin := require.Get(estimate.NewMargin(p, off, f, 2))(t)
	s, c := make([]float64, 2), make([]float64, 1)
	require.OK(t, f.Update([]float64{-0.48}, []float64{0}, s, c))
	margin.Along(s, c, make([]float64, 15), f, nil)
	if v := off.At(c); len(v) != 1 || !(v[0] > 0) || v[0] != off.Row(0.9)[0] {
		t.Errorf("%v is kept off, want one distance at all stages", v)
	}
}

// Of a state that is measured by itself, whichever it is, what is kept off is that of the function that says so.
func TestWhatIsKeptOffKnowsWhichStateIsMeasured(t *testing.T) {
	p := require.Get(equations.New(cart()))(t)
	by := seen()
	by.Real, by.Dual = func(s, _, _, y []float64) { y[0] = s[1] }, func(s, _, _, y []complex128) { y[0] = s[1] }
	own := *by
	own.Real, own.Dual, own.States = nil, nil, []int{1}
	var kept [2][]float64
	for i, m := range []*domain.Measurement{by, &own} {
		f := require.Get(estimate.New(p, m, []float64{-0.5, 0}, []float64{0.1, 0.05}))(t)
		off := domain.NewBackoff(p.Spec())
		margin := require.Get(estimate.NewMargin(p, off, f, 3))(t)
		s, c := make([]float64, 2), make([]float64, 2)
		require.OK(t, f.Update([]float64{0.01}, []float64{0, 0}, s, c))
		margin.Along(s, c, make([]float64, 30), f, nil)
		for k := range 30 {
			kept[i] = append(kept[i], off.Row(float64(k)/30)...)
		}
	}
	for k, want := range kept[0] {
		if got := kept[1][k]; !(want > 0) || !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("stage %d: %v is kept off, by the function %v", k, got, want)
		}
	}
}

// What is kept off vanishes with the errors, and at the present decision is the limit's own share of them:
// along the plan it is, to the digits of the sampling, the spread that the loop under the same feedback has.
func TestWhatIsKeptOffIsTheSpreadOfTheMargin(t *testing.T) {
	p := require.Get(equations.New(cart()))(t)
	m := seen()
	f := require.Get(estimate.New(p, m, []float64{-0.5, 0}, []float64{0.1, 0.05}))(t)
	off := domain.NewBackoff(p.Spec())
	margin := require.Get(estimate.NewMargin(p, off, f, 1))(t)
	s, c := make([]float64, 2), make([]float64, 2)
	require.OK(t, f.Update([]float64{-0.48}, []float64{0, 0}, s, c))
	margin.Along(s, c, make([]float64, 30), f, nil)
	// Of the present margin 0.5 − x⁺ − 0.6 v⁺ with v⁺ = v + 0.1 (u + wind), x⁺ = x + 0.1 v⁺.
	g := []float64{-1, -0.7, -0.07}
	variance := 0.6 * 0.6 * 0.003 * 0.003 // v⁺ is disturbed
	for i := range g {
		for j := range g {
			for k := range g {
				variance += g[i] * g[j] * f.Root()[i*3+k] * f.Root()[j*3+k]
			}
		}
	}
	if got := off.Row(0)[0]; math.Abs(got-math.Sqrt(variance)) > 1e-9 {
		t.Errorf("%v is kept off at the present, its deviation is %v", got, math.Sqrt(variance))
	}
	for k := 1; k < 30; k++ {
		if v := off.Row(float64(k) / 30)[0]; !(v > 0 && v < 0.3) {
			t.Errorf("%v is kept off at stage %d", v, k)
		}
	}
	clearCopy := *m
	clearCopy.Deviation, clearCopy.Process, clearCopy.Unknown = []float64{1e-12}, nil, nil
	exact := require.Get(estimate.New(p, &clearCopy, []float64{-0.5, 0}, []float64{0, 0}))(t)
	margin = require.Get(estimate.NewMargin(p, off, exact, 3))(t)
	require.OK(t, exact.Update([]float64{-0.5}, []float64{0, 0}, s, c))
	margin.Along(s, c, make([]float64, 30), exact, nil)
	for k := range 30 {
		if v := off.Row(float64(k) / 30)[0]; v != 0 {
			t.Errorf("without errors %v is kept off at stage %d", v, k)
		}
	}
}

// A case without a Measurement decides as it did: no filter stands before its methods.
func TestWithoutAMeasurementNothingStandsBetween(t *testing.T) {
	c := require.Get(gpc.NewCase(require.Get(cart().Case())(t)))(t)
	k := require.Get(c.Controller(nil, gpc.Setup{Method: "nmpc"}))(t)
	if domain.AbilitiesOfController(k).DecideMeasured != nil {
		t.Error("there is a filter")
	}
	if _, err := c.Robust(3); err == nil {
		t.Error("a case that says of no error keeps off its limits")
	}
}

// bounded is a map, or a method that solves, whose decision keeps the limits where no more than so much is kept off them.
type bounded struct {
	off    *domain.Backoff
	most   float64
	tried  []float64 // what was kept off, of each attempt
	breaks bool      // says so by its guard, and not as a method that solves
}

func (b *bounded) Reset(domain.Episode) error { return nil }

func (b *bounded) Decide(_, c []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	now := b.off.At(c)[0]
	b.tried = append(b.tried, now)
	u[0] = float64(len(b.tried))
	d := domain.Decided(true)
	if now > b.most {
		d = domain.Decided(b.breaks)
		d.Breaks = b.breaks
	}
	return d, nil
}

// Where a method or the guard of a map finds no plan that keeps off all that is asked for, a decision keeps off half of it, a quarter, or
// nothing; and where there is none then either a method that solves has its last resort, and a map its best plan without.
func TestLessIsKeptOffWhereNoPlanKeepsAll(t *testing.T) {
	p := require.Get(equations.New(cart()))(t)
	for _, breaks := range []bool{false, true} {
		for _, share := range []float64{1, 0.5, 0.25, 0, -1} {
			f := require.Get(estimate.New(p, seen(), []float64{-0.5, 0}, []float64{0.1, 0.05}))(t)
			off := domain.NewBackoff(p.Spec())
			inner := &bounded{off: off, most: math.Inf(1), breaks: breaks}
			l := estimate.NewLoop(inner, p, f, require.Get(estimate.NewMargin(p, off, f, 3))(t), domain.Delay{})
			require.OK(t, l.Reset(nil))
			s, c, u := make([]float64, 2), make([]float64, 2), make([]float64, 1)
			require.Get(l.DecideMeasured([]float64{-0.5}, []float64{0, 0}, adaptive, s, c, u))(t)
			// That the action does not keep the limits where it is held says nothing: there is no plan.
			if n := len(inner.tried); n != estimate.Settling || inner.tried[0] != 0 || !(inner.tried[n-1] > 0) || !domain.AbilitiesOfController(l).Way() {
				t.Fatalf("a first decision tries %v", inner.tried)
			}
			// What a later decision would keep off is that of its first attempt.
			inner.tried, inner.most = nil, math.Inf(-1)
			require.Get(l.DecideMeasured([]float64{-0.5}, []float64{0, 1. / 30}, adaptive, s, c, u))(t)
			all := inner.tried[0]
			if len(inner.tried) != 4 || inner.tried[1] != all/2 || inner.tried[2] != all/4 || inner.tried[3] != 0 {
				t.Fatalf("a later decision without any plan tries %v", inner.tried)
			}
			if want := map[bool]float64{false: 1, true: 4}[breaks]; u[0] != want {
				t.Errorf("without any plan %v is executed, want %v", u[0], want)
			}
			if share < 0 && breaks { // one try more, one decision that asks for none, and so on
				for k, attempts := range []int{4, 1, 4, 1, 1, 1, 4} {
					inner.tried = nil
					require.Get(l.DecideMeasured([]float64{-0.5}, []float64{0, float64(2+k) / 30}, adaptive, s, c, u))(t)
					if len(inner.tried) != attempts || attempts == 1 && inner.tried[0] != 0 {
						t.Errorf("decision %d in a row without any plan tries %v, want %d attempts", 2+k, inner.tried, attempts)
					}
				}
			}
			if share < 0 {
				continue
			}
			inner.tried, inner.most = nil, share*all*1.2 // a decision later a little less is asked for
			require.Get(l.DecideMeasured([]float64{-0.5}, []float64{0, 2. / 30}, adaptive, s, c, u))(t)
			if last := inner.tried[len(inner.tried)-1]; u[0] != float64(len(inner.tried)) || last > inner.most || len(inner.tried) > 1 && inner.tried[len(inner.tried)-2] <= inner.most {
				t.Errorf("of at most %v kept off a decision tries %v and executes %v", inner.most, inner.tried, u[0])
			}
		}
	}
}
