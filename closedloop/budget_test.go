package closedloop_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

// slow decides in a second.
type slow struct{ domain.Controller }

func (c slow) Decide(s, cx []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	time.Sleep(time.Second)
	return c.Controller.Decide(s, cx, pref, u)
}

// An evaluation whose references have no end keeps its budget, with the episodes that were driven in it, and says why there is no reference.
func TestAnEvaluationKeepsItsBudget(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{Tolerance: 1e-8})
	c.Plant.(*closedloop.Simulation).Oracle = func(ctx context.Context, _, _ []float64, _ int, _ domain.Preference) (float64, [][]float64, error) {
		<-ctx.Done()
		return math.NaN(), nil, ctx.Err()
	}
	method, _ := closedloop.Row(c, "nmpc")
	factory := func() (domain.Controller, error) {
		m, err := method.New(domain.Means{})
		return slow{m}, err
	}
	c.Solver = unsolving{c.Solver.(*ocp.Solver)}
	opt := rowOptions()
	opt.Episodes, opt.Budget = 20, -1
	if r, err := closedloop.Evaluate(t.Context(), c, factory, opt); err == nil || !strings.Contains(err.Error(), "Budget -1ns: want times ≥ 0") {
		t.Errorf("%+v, %v", r, err)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		opt.Budget = 100 * time.Second
		r := require.Get(closedloop.Evaluate(t.Context(), c, factory, opt))(t)
		if elapsed := time.Since(start); elapsed > 110*time.Second || r.Episodes != 3 || !strings.Contains(r.Unfinished, "3 of 20 episodes") {
			t.Errorf("%d episodes in %v: %q", r.Episodes, elapsed, r.Unfinished)
		}
		if len(r.NoReference) != 1 || r.NoReference[0].Episodes != 3 || !strings.Contains(r.NoReference[0].Text(3), "larger budget") {
			t.Errorf("missing references: %+v", r.NoReference)
		}
		opt.Budget = 5 * time.Second
		if r, err := closedloop.Evaluate(t.Context(), c, factory, opt); err == nil || !strings.Contains(err.Error(), "budget of 5s ended before the first of 20 episodes") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
