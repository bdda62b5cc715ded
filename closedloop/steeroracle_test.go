package closedloop_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

// An episode whose optimum the solver does not find is driven and not compared; the sweep goes on, as an evaluation does.
func TestASweepGoesOnWithoutAnOptimum(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{})
	plant := c.Plant.(*closedloop.Simulation)
	found, asked := plant.Oracle, 0
	plant.Oracle = func(ctx context.Context, s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
		if asked++; asked <= 3 { // an episode of the first preference has one, of the others none
			return math.NaN(), nil, errors.New("lost state")
		}
		return found(ctx, s, c, steps, pref)
	}
	m, _ := closedloop.Row(c, "hold")
	hold := require.Get(m.New(domain.Means{}))(t)
	got := require.Get(closedloop.Steer(context.Background(), c, hold, closedloop.SteerOptions{
		Episodes: 2, Seed: 1, Weights: [][]float64{{0.8, 0.2}, {0.5, 0.5}, {0.2, 0.8}},
	}))(t)
	for i, want := range []int{0, 1, 2} {
		if p := got.Front[i]; p.Compared+p.Violations != want || p.Episodes != 2 {
			t.Errorf("preference %v: %d of %d episodes compared, %d unsafe; want %d compared", p.W, p.Compared, p.Episodes, p.Violations, want)
		}
	}
}

// The method that decides as the optimum is on the exact front, with the costs of its preference; one that does nothing is above it in
// each preference's own cost. One that breaks a limit in every episode is compared in none.
func TestASweepIsOfEachPreferencesOptimum(t *testing.T) {
	c := cartCase(t)
	plant := c.Plant.(*closedloop.Simulation)
	plant.Oracle = func(_ context.Context, s, _ []float64, n int, pref domain.Preference) (float64, [][]float64, error) {
		s, next, plan := append([]float64(nil), s...), make([]float64, 2), [][]float64{}
		for range n {
			plan = append(plan, []float64{clip(testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1])})
			c.Problem.Step(s, []float64{0}, plan[len(plan)-1], next, make([]float64, 1))
			copy(s, next)
		}
		return 1, plan, nil // the cost is not asked
	}
	calls := 0
	opt := closedloop.SteerOptions{Method: "m", Seed: 3, Episodes: 3, Weights: [][]float64{{0.9, 0.1}, {0.99, 0.01}}, Progress: func(done, total int) {
		if calls++; done != calls || total != 6 {
			t.Errorf("call %d: %d of %d", calls, done, total)
		}
	}}
	sweep := func(decide func(int, []float64) (float64, bool, error)) *closedloop.Steering {
		calls = 0
		return require.Get(closedloop.Steer(t.Context(), c, require.Get(controller(decide)())(t), opt))(t)
	}
	exact := sweep(func(_ int, s []float64) (float64, bool, error) {
		return clip(testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1]), true, nil
	})
	idle := sweep(func(int, []float64) (float64, bool, error) { return 0, true, nil })
	broken := sweep(func(int, []float64) (float64, bool, error) { return 1.5, true, nil })
	for i, w := range opt.Weights {
		e, n, b := exact.Front[i], idle.Front[i], broken.Front[i]
		if e.Compared != 3 || e.Episodes != 3 || e.RegretPct != 0 || e.J[0] != e.OracleJ[0] || e.J[1] != e.OracleJ[1] {
			t.Errorf("the optimum at %v: %+v", w, e)
		}
		cost := func(j []closedloop.Number) float64 { return w[0]*float64(j[0]) + w[1]*float64(j[1]) }
		if want := 100 * (cost(n.J)/cost(n.OracleJ) - 1); n.Compared != 3 || n.J[1] != 0 || n.OracleJ[0] != e.J[0] || math.Abs(float64(n.RegretPct)-want) > 1e-9*math.Abs(want) {
			t.Errorf("without actions at %v: %+v, want a regret of %g %%", w, n, want)
		}
		if b.Compared != 0 || b.Violations != 3 || !math.IsNaN(float64(b.J[0])) {
			t.Errorf("beyond a limit at %v: %+v", w, b)
		}
	}
	recovered := sweep(func(t int, s []float64) (float64, bool, error) {
		if t == 0 {
			return 1.5, true, nil // beyond a limit once, at first
		}
		return 0, true, nil
	})
	if p := recovered.Front[0]; p.Compared != 0 || p.Violations != 3 {
		t.Errorf("once beyond a limit: %+v", p)
	}
	for _, o := range []closedloop.SteerOptions{{Episodes: 0, Weights: opt.Weights}, {Episodes: 1, Weights: [][]float64{{0.5, 0.6}}}, {Episodes: 1, Weights: [][]float64{{1}}}} {
		if _, err := closedloop.Steer(t.Context(), c, require.Get(controller(nil)())(t), o); err == nil {
			t.Errorf("%+v is swept", o)
		}
	}
	if _, err := closedloop.Steer(t.Context(), &domain.Case{Problem: c.Problem}, require.Get(controller(nil)())(t), opt); err == nil {
		t.Error("a case without a plant is swept")
	}
}

// A sweep ends with what ends an episode of it: its plant, its method, its optimum or its context.
func TestASweepEndsByWhatIsWrong(t *testing.T) {
	broken := errors.New("no power")
	still := func(int, []float64) (float64, bool, error) { return 0, true, nil }
	ended, end := context.WithCancel(t.Context())
	end()
	for want, f := range map[string]func(c *domain.Case, plant *closedloop.Simulation) (context.Context, domain.Controller){
		"no way": func(*domain.Case, *closedloop.Simulation) (context.Context, domain.Controller) {
			return t.Context(), &resetting{feedback{decide: still}}
		},
		"no power": func(*domain.Case, *closedloop.Simulation) (context.Context, domain.Controller) {
			return t.Context(), &feedback{decide: func(int, []float64) (float64, bool, error) { return 0, true, broken }}
		},
		"is not finite": func(*domain.Case, *closedloop.Simulation) (context.Context, domain.Controller) {
			return t.Context(), &feedback{decide: func(int, []float64) (float64, bool, error) { return math.NaN(), true, nil }}
		},
		"action [NaN]": func(_ *domain.Case, plant *closedloop.Simulation) (context.Context, domain.Controller) {
			plant.Oracle = func(_ context.Context, s, c []float64, n int, pref domain.Preference) (float64, [][]float64, error) {
				return 1, [][]float64{{math.NaN()}}, nil
			}
			return t.Context(), &feedback{decide: still}
		},
		"last of the 1 given starts": func(_ *domain.Case, plant *closedloop.Simulation) (context.Context, domain.Controller) {
			plant.Starts = [][]float64{{-1, 0}}
			return t.Context(), &feedback{decide: still}
		},
		"context canceled": func(*domain.Case, *closedloop.Simulation) (context.Context, domain.Controller) {
			return ended, &feedback{decide: still}
		},
	} {
		c := cartCase(t)
		ctx, m := f(c, c.Plant.(*closedloop.Simulation))
		got, err := closedloop.Steer(ctx, c, m, closedloop.SteerOptions{Episodes: 6, Seed: 7, Weights: [][]float64{{0.5, 0.5}}})
		if err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := cartCase(t)
	if got := require.Get(closedloop.Steer(t.Context(), c, &feedback{decide: still}, closedloop.SteerOptions{Episodes: 1}))(t); len(got.Front) != 0 || !math.IsNaN(float64(got.MeanRegretPct)) {
		t.Errorf("a sweep of no preference: %+v", got)
	}
}
