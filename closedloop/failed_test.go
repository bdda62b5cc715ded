package closedloop_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// brittle is the cart whose state is lost where at says so, and whose margins are those
// that limits gives, if it does.
type brittle struct {
	*testdomain.Cart
	at     func(s []float64) bool
	limits func(s, u, m []float64)
}

func (b brittle) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Failed: b.Failed}
}

func (b brittle) Failed(s, _ []float64) bool { return b.at(s) }

func (b brittle) Margins(s, c, u, m []float64) {
	if b.Cart.Margins(s, c, u, m); b.limits != nil {
		b.limits(s, u, m)
	}
}

// brittleCase starts at rest at the origin.
func brittleCase(at func(s []float64) bool, limits func(s, u, m []float64)) *domain.Case {
	b := brittle{testdomain.NewCart(steps), at, limits}
	start := func(_, s, c []float64) { clear(s); clear(c) }
	return &domain.Case{Problem: b, Plant: closedloop.Simulated(b, []domain.Variable{{Name: "q0", Lo: 0, Hi: 1}}, start)}
}

func never([]float64) bool { return false }

// push accelerates in the decisions of one episode that are named.
func push(when ...int) func() (domain.Controller, error) {
	return controller(func(t int, _ []float64) (float64, bool, error) {
		for _, k := range when {
			if t == k {
				return 0.5, true, nil
			}
		}
		return 0, true, nil
	})
}

// An episode through a lost state is not safe, be it the start, one on the way that is
// left again, or that after the last action, and its trace says so and verifies.
func TestALostStateIsNotSafe(t *testing.T) {
	moving := func(s []float64) bool { return s[1] > 0.01 }
	for name, f := range map[string]struct {
		at     func(s []float64) bool
		method func() (domain.Controller, error)
		lines  int // with "failed"
		cause  string
	}{
		"nowhere":   {never, push(0), 0, ""},
		"the start": {func(s []float64) bool { return s[0] == 0 && s[1] == 0 }, push(0), 1, "decision 0: the state is lost"},
		"on the way": {moving, controller(func(t int, _ []float64) (float64, bool, error) {
			return []float64{0, 0, 0.5, -0.5, 0, 0, 0, 0, 0, 0, 0, 0}[t], true, nil
		}), 1, "decision 2: the state is lost"},
		"after all":    {moving, push(steps - 1), 1, "decision 11: the state is lost"},
		"all the time": {moving, push(0), steps, "decision 0: the state is lost"},
	} {
		c, o := brittleCase(f.at, nil), options(t.TempDir())
		o.Episodes = 2
		r := evaluate(t, c, f.method, o)
		want := 0
		if f.lines > 0 {
			want = 2
		}
		if r.Failed != want || float64(r.Safe) != 1-float64(want)/2 || r.Violations != 0 || r.CI95.Failed != closedloop.ClopperPearson(want, 2) {
			t.Errorf("%s: %d failed, safe %v, interval %v", name, r.Failed, r.Safe, r.CI95.Failed)
		}
		if want > 0 && (len(r.Unsafe) != 2 || r.Unsafe[0].Cause != f.cause) {
			t.Errorf("%s: unsafe %+v, want %q", name, r.Unsafe, f.cause)
		}
		trace := require.Get(os.ReadFile(o.TracePath))(t)
		if n := strings.Count(string(trace), `"failed":true`); n != 2*f.lines+want {
			t.Errorf("%s: the trace has %d failed, want %d", name, n, 2*f.lines+want)
		}
		if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); !v.OK || v.Safe != 2-want {
			t.Errorf("%s: verification %+v", name, v)
		}
		if f.lines == 0 {
			continue
		}
		for at, forged := range [][]byte{
			bytes.Replace(trace, []byte(`"failed":true,`), nil, 1),
			bytes.Replace(trace, []byte(`"safe":false`), []byte(`"safe":true`), 1),
		} {
			if v, err := closedloop.VerifyReader(t.Context(), strings.NewReader(sealed(string(forged))), lookup(c)); err != nil || v.OK {
				t.Errorf("%s: forgery %d was not found: %v", name, at, err)
			}
		}
	}
}

// A limit written of the state that an action is taken in holds of the state after the
// last action too; one that an action there may keep or break does not.
func TestTheLastActionAnswersForWhereItLeads(t *testing.T) {
	slow := func(s, _, m []float64) { m[0] = 0.01 - s[1] }
	brake := func(s, u, m []float64) { m[0] = 0.01 - s[1] - u[0] }
	for name, f := range map[string]struct {
		limits func(s, u, m []float64)
		push   int
		safe   closedloop.Number
	}{
		"before the last":             {slow, steps - 2, 0},
		"the last":                    {slow, steps - 1, 0},
		"an action could still brake": {brake, -1, 1},
		"no action":                   {slow, -1, 1},
	} {
		c, o := brittleCase(never, f.limits), options(t.TempDir())
		r := evaluate(t, c, push(f.push), o)
		if r.Safe != f.safe {
			t.Errorf("%s: safe %v, want %v (%+v)", name, r.Safe, f.safe, r.Unsafe)
		}
		if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); !v.OK {
			t.Errorf("%s: %+v", name, v.Mismatches)
		}
	}
}

// unstable is the cart with steps that diverge where its velocity is above diverges, and with no limits where free.
type unstable struct {
	*testdomain.Cart
	free     bool
	diverges float64
	value    float64
}

func (p unstable) Spec() *domain.Spec {
	spec := *p.Cart.Spec()
	if p.free {
		spec.Margins = nil
	}
	return &spec
}

func (p unstable) Margins(s, c, u, m []float64) {
	if !p.free {
		p.Cart.Margins(s, c, u, m)
	}
}

func (p unstable) Step(s, c, u, sNext, cNext []float64) {
	if p.Cart.Step(s, c, u, sNext, cNext); s[1] > p.diverges {
		sNext[0] = p.value
	}
}

func unstableCase(p unstable) *domain.Case {
	start := func(_, s, c []float64) { clear(s); clear(c) }
	return &domain.Case{Problem: p, Plant: closedloop.Simulated(p, []domain.Variable{{Name: "q0", Lo: 0, Hi: 1}}, start)}
}

// An episode whose state is no number any more has failed, ends there and says at which decision. Its trace verifies.
func TestADivergedEpisodeFailsAtItsDecision(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, free := range []bool{false, true} {
			for when, lines := range map[int]int{2: 4, steps - 2: steps} { // the last leaves no decision out
				c, o := unstableCase(unstable{testdomain.NewCart(steps), free, 0.01, value}), options(t.TempDir())
				o.Episodes = 1
				r := evaluate(t, c, push(when), o)
				want := fmt.Sprintf("decision %d: q is %v: the episode diverged", when+1, value)
				if r.Failed != 1 || r.Safe != 0 || len(r.Unsafe) != 1 || r.Unsafe[0].Cause != want || r.Decisions != lines {
					t.Errorf("%v, without limits %v: %d failed, %v safe, %d decisions, %+v, want %q", value, free, r.Failed, r.Safe, r.Decisions, r.Unsafe, want)
				}
				for _, deep := range []bool{false, true} {
					verify := lookup(c)
					if deep {
						verify = decided(c, push(when))
					}
					if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, verify))(t); !v.OK {
						t.Errorf("%v, without limits %v, deep %v: %v", value, free, deep, v.Mismatches)
					}
				}
				trace := string(require.Get(os.ReadFile(o.TracePath))(t))
				for _, forged := range []string{
					strings.Replace(trace, "decision "+fmt.Sprint(when+1), "decision 0", 1), strings.Replace(trace, `"failed":true,`, "", 1), strings.Replace(trace, `"s":[null`, `"s":[1`, 1),
				} {
					if v, err := closedloop.VerifyReader(t.Context(), strings.NewReader(sealed(forged)), lookup(c)); err != nil || v.OK {
						t.Errorf("%v, without limits %v: a forgery was not found: %v", value, free, err)
					}
				}
			}
		}
	}
}

// A trace without hard limits verifies, and an evaluation that is resumed from it has the result of one that was not.
func TestWithoutHardLimitsATraceVerifiesAndResumes(t *testing.T) {
	c, o := unstableCase(unstable{testdomain.NewCart(steps), true, math.Inf(1), 0}), options(t.TempDir())
	o.Episodes = 3
	whole := evaluate(t, c, push(0), o)
	v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t)
	if !v.OK || v.Safe != 3 {
		t.Errorf("%d of 3 safe, %v", v.Safe, v.Mismatches)
	}
	for _, check := range v.Checks {
		if check.Field == "end.violations" && check.Verdict != closedloop.Confirmed {
			t.Errorf("%+v", check)
		}
	}
	o.Resume = true
	resumed := evaluate(t, c, push(0), o)
	if resumed.Violations != 0 || resumed.Feasible != 1 || resumed.MarginMin != whole.MarginMin || resumed.Safe != whole.Safe {
		t.Errorf("resumed %+v, want %+v", resumed, whole)
	}
}

// A margin that is infinite is the same whether an evaluation was resumed or not.
func TestAnInfiniteMarginSurvivesItsTrace(t *testing.T) {
	for _, sign := range []int{1, -1} {
		c, o := brittleCase(never, func(_, _, m []float64) { clear(m); m[0] = math.Inf(sign) }), options(t.TempDir())
		whole := evaluate(t, c, push(0), o)
		if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); !v.OK {
			t.Errorf("%v", v.Mismatches)
		}
		o.Resume = true
		if r := evaluate(t, c, push(0), o); r.Violations != whole.Violations || r.Feasible != whole.Feasible || fmt.Sprint(r.Limits) != fmt.Sprint(whole.Limits) {
			t.Errorf("resumed %+v, want %+v", r.Limits, whole.Limits)
		}
	}
}
