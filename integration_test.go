package gpc_test

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// An evaluation says what finer steps of integration change, where it is asked and the system has an integrator: less with
// more substeps.
func TestEvaluationChecksIntegration(t *testing.T) {
	text := string(require.Get(os.ReadFile("equations/systemfile/testdata/crane.json"))(t))
	differs := func(substeps string) float64 {
		c := require.Get(gpc.SystemText([]byte(strings.Replace(text, `"substeps":2`, `"substeps":`+substeps, 1))))(t)
		s := require.Get(c.Setup("nmpc", ""))(t)
		opt := closedloop.Options{Episodes: 2, Seed: 9001, Preference: domain.Preference{Adaptive: true}, WithoutOptima: true}
		if r := require.Get(c.Evaluate(context.Background(), s, engine.Options{}, opt))(t); r.Integration != nil {
			t.Errorf("without being asked: %v", r.Integration)
		}
		opt.CheckIntegration = true
		i := require.Get(c.Evaluate(context.Background(), s, engine.Options{}, opt))(t).Integration
		if i == nil || i.Episodes != 2 || i.Factor != 8 || i.Safe != 1 || i.SafeFiner != 1 {
			t.Fatalf("integration %+v", i)
		}
		return math.Abs(float64(i.CostPct))
	}
	coarse, fine := differs("1"), differs("4")
	if !(coarse < 1) || !(fine < coarse/50) {
		t.Errorf("the cost differs by %v %% with one substep and by %v %% with four, whose error is a 256th", coarse, fine)
	}
	c := require.Get(gpc.SystemText([]byte(strings.Replace(text, `"substeps":2`, `"substeps":"auto","error":1e-7`, 1))))(t)
	if file := require.Get(require.Get(c.System())(t).Marshal())(t); !strings.Contains(string(file), `"substeps":16}`) {
		t.Errorf("the file of chosen substeps is %.1200s", file)
	}
}

// Of a plant that runs on, an optimal steady state outside of a state's range is named by the case's remarks and in each
// result.
func TestSteadyStateOutsideARangeIsSaid(t *testing.T) {
	for _, x := range []struct {
		lo, hi  float64
		outside bool
	}{{0.5, 2, true}, {-1, 2, false}} {
		y := sledSystem(1, 6)
		y.State[0].Lo, y.State[0].Hi = x.lo, x.hi
		c := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
		opt := closedloop.Options{Episodes: 2, Seed: 3, Preference: domain.Preference{Adaptive: true}, WithoutOptima: true}
		r := require.Get(c.Evaluate(context.Background(), require.Get(c.Setup("nmpc", ""))(t), engine.Options{}, opt))(t)
		p := require.Get(c.Pair(context.Background(), []gpc.Contender{{Method: "nmpc"}}, "", engine.Options{}, opt))(t)
		for _, text := range []string{strings.Join(c.Remarks(), "\n"), r.SteadyState, p.SteadyState} {
			if (text != "") != x.outside || x.outside && !strings.Contains(text, "episodes (q at ") || x.outside && !strings.Contains(text, "of a range of 0.5 to 2)") {
				t.Errorf("range %v to %v: %q", x.lo, x.hi, text)
			}
		}
	}
}
