package closedloop_test

import (
	"context"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

// unsolving solves no decision.
type unsolving struct{ *ocp.Solver }

func (unsolving) NewHorizon(int) domain.Horizon { return unsolved{} }

type unsolved struct{ domain.Horizon }

func (unsolved) Begin([]float64) {}
func (unsolved) Solve([]float64, []float64, domain.Preference, []float64) (float64, bool, error) {
	return math.NaN(), false, nil
}

// A reference that a method beats, or that there is none of, is solved for from what the method did, in an evaluation and
// where its trace is verified. Where that finds nothing better, what the method cost is the best that is known.
func TestReferenceThatAMethodBeats(t *testing.T) {
	for _, x := range []struct {
		name   string
		factor float64 // on the cost of the reference; 0: there is none
		delay  float64
		solves bool
		want   int
	}{
		{"a poor reference", 2, 0, true, 0},
		{"no reference", 0, 0, true, 0},
		{"a poor reference of a delay", 2, 2, true, 0},
		{"no solver", 2, 0, false, 3},
		{"the optimum", 1, 0, true, 0},
	} {
		c := rowCase(t, testdomain.NewCart(steps), ocp.Options{Tolerance: 1e-8})
		plant := c.Plant.(*closedloop.Simulation)
		plant.Delay.Periods, c.Delay = x.delay, domain.Delay{Periods: x.delay}
		solve := plant.Oracle
		best := row(t, c, "oracle", rowOptions())
		plant.Oracle = func(ctx context.Context, s, c []float64, n int, pref domain.Preference) (float64, [][]float64, error) {
			cost, plan, err := solve(ctx, s, c, n, pref)
			if x.factor == 0 {
				return math.NaN(), nil, domain.ErrNotConverged
			}
			return x.factor * cost, plan, err
		}
		whole := *c
		m, _ := closedloop.Row(&whole, "nmpc")
		if !x.solves {
			c.Solver = unsolving{c.Solver.(*ocp.Solver)}
		}
		o := rowOptions()
		o.TracePath = t.TempDir() + "/t.jsonl"
		r := evaluate(t, c, func() (domain.Controller, error) { return m.New(domain.Means{}) }, o)
		if r.BestKnown != x.want {
			t.Errorf("%s: best known in %d episodes, want %d", x.name, r.BestKnown, x.want)
		}
		if r.RegretN != 3 || r.OracleFailures > 0 || x.delay == 0 && !(math.Abs(float64(r.RegretPct)) < 0.02) {
			t.Errorf("%s: regret %v %% in %d episodes", x.name, r.RegretPct, r.RegretN)
		}
		for i, v := range r.Outcomes.Oracle {
			if want := best.Outcomes.Oracle[i]; math.Abs(v-want) > 3e-4*want {
				t.Errorf("%s, episode %d: the reference costs %v, the optimum %v", x.name, i, v, want)
			}
		}
		if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); !v.OK {
			t.Errorf("%s: %+v", x.name, v.Mismatches)
		}
	}
}

// Methods on the same episodes are compared with the same references: those that the last of them improved.
func TestPairedMethodsHaveTheBestReference(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{Tolerance: 1e-8})
	plant := c.Plant.(*closedloop.Simulation)
	want := row(t, c, "mppi-16", rowOptions())
	solve := plant.Oracle
	plant.Oracle = func(ctx context.Context, s, c []float64, n int, pref domain.Preference) (float64, [][]float64, error) {
		cost, plan, err := solve(ctx, s, c, n, pref)
		return 1.3 * cost, plan, err
	}
	var all []closedloop.Contender
	for _, name := range []string{"mppi-16", "nmpc"} {
		m, _ := closedloop.Row(c, name)
		all = append(all, closedloop.Contender{Method: name, New: func() (domain.Controller, error) { return m.New(domain.Means{}) }})
	}
	p := require.Get(closedloop.Pair(t.Context(), c, all, rowOptions()))(t)
	for i, want := range []closedloop.Number{want.RegretPct, 0} {
		if r := p.Pairs[i]; r.RegretN != 3 || !(math.Abs(float64(r.RegretPct-want)) < 0.02) {
			t.Errorf("%s: regret %v %% in %d episodes, want %v", r.Method, r.RegretPct, r.RegretN, want)
		}
	}
}
