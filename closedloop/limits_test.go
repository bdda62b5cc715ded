package closedloop_test

import (
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// reckless breaks the limits of the cart in some decisions: it pushes as hard as asked.
func reckless(push float64) func() (domain.Controller, error) {
	return controller(func(int, []float64) (float64, bool, error) { return push, true, nil })
}

// What is counted by kind of limit is what the trace's margins say, and a trace of an older program
// gives no count in place of none.
func TestLimitsAreCountedByKind(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	r := evaluate(t, c, reckless(1), o)
	if r.Violations == 0 || len(r.Limits) != len(c.Problem.Spec().Margins) {
		t.Fatalf("%d violations, %+v", r.Violations, r.Limits)
	}
	text := string(require.Get(os.ReadFile(o.TracePath))(t))
	decisions, sum := 0, 0.0
	least := math.Inf(1)
	for _, l := range r.Limits {
		decisions += l.Decisions
		if float64(l.DecisionRate) != float64(l.Decisions)/float64(r.Decisions) || float64(l.EpisodeRate) != float64(l.Episodes)/float64(r.Episodes) {
			t.Errorf("rates of %+v over %d decisions and %d episodes", l, r.Decisions, r.Episodes)
		}
		if (l.Decisions > 0) != (l.Episodes > 0) || (l.Decisions > 0) != (l.Least < -1e-6) {
			t.Errorf("broken or not: %+v", l)
		}
		if math.Abs(float64(l.Mean-r.MarginsMean[l.Margin])) > 1e-12 {
			t.Errorf("mean margin %v of %s, by its name %v", l.Mean, l.Limit, r.MarginsMean[l.Margin])
		}
		least, sum = math.Min(least, float64(l.Least)), sum+float64(l.SEM)
	}
	if decisions < r.Violations || least != float64(r.MarginMin) || !(sum > 0) {
		t.Errorf("%d decisions broke a limit, by kind %d; least margin %v, by kind %v; errors sum to %v", r.Violations, decisions, r.MarginMin, least, sum)
	}
	joined := require.Get(closedloop.Join(t.Context(), c.Problem.Spec(), []string{o.TracePath}))(t)
	if len(joined.Limits) == 0 || joined.Limits[0] != r.Limits[0] {
		t.Errorf("from the trace: %+v, from the run %+v", joined.Limits, r.Limits)
	}
	older := sealed(regexp.MustCompile(`,"violations":\[[^]]*\]`).ReplaceAllString(text, ""))
	require.OK(t, os.WriteFile(o.TracePath, []byte(older), 0o644))
	joined = require.Get(closedloop.Join(t.Context(), c.Problem.Spec(), []string{o.TracePath}))(t)
	if joined.Limits != nil || joined.Violations != r.Violations {
		t.Errorf("of an older trace: %+v, and %d violations", joined.Limits, joined.Violations)
	}
	v := require.Get(closedloop.VerifyReader(t.Context(), strings.NewReader(older), lookup(c)))(t)
	for _, check := range v.Checks {
		if check.Field == "end.violations" && (check.Verdict != closedloop.Unchecked || check.Unchecked == 0) {
			t.Errorf("counts that the trace has not are %+v", check)
		}
	}
	if !v.OK {
		t.Errorf("an older trace is refused: %v", v.Mismatches)
	}
}

// Above is over all episodes with an oracle, of the safe ones it is the gap; without what episodes
// cost there is none.
func TestAboveCountsUnsafeEpisodes(t *testing.T) {
	c := cartCase(t)
	safe := evaluate(t, c, gained(1), options(""))
	a := safe.Above()
	if safe.RegretN != safe.Episodes || a == nil || a.N != safe.Episodes || math.Abs(float64(a.Pct-safe.GapPct)) > 1e-9 || *a != *safe.AboveOracle {
		t.Fatalf("%+v beside the gap %v of %d", a, safe.GapPct, safe.RegretN)
	}
	if step := (float64(safe.CostMean) * float64(safe.Episodes)) / float64(safe.Decisions) * float64(a.Pct) / (100 + float64(a.Pct)); math.Abs(step-float64(a.Step)) > 1e-9*math.Abs(step) {
		t.Errorf("%v a step, want %v", a.Step, step)
	}
	unsafe := evaluate(t, c, reckless(1), options(""))
	if unsafe.RegretN == unsafe.Episodes || unsafe.Above() == nil || unsafe.Above().N != unsafe.Episodes {
		t.Errorf("%d of %d safe, %+v", unsafe.RegretN, unsafe.Episodes, unsafe.Above())
	}
	older := *safe
	if older.Outcomes = nil; older.Above() != nil {
		t.Error("above the oracle without outcomes")
	}
	older = *safe
	if older.Failures = 1; older.Above() != nil {
		t.Error("above the oracle with fewer decisions than it")
	}
}
