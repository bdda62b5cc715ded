package closedloop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// flags is a controller whose decisions carry the bits of a list.
type flags struct {
	feedback
	bits []domain.Fallback
}

func (f *flags) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	d, err := f.feedback.Decide(s, c, pref, u)
	d.Fallback = f.bits[f.t-1]
	return d, err
}

func flagged(bits []domain.Fallback) func() (domain.Controller, error) {
	return func() (domain.Controller, error) {
		return &flags{feedback{decide: func(_ int, s []float64) (float64, bool, error) {
			return clip(testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1]), true, nil
		}}, bits}, nil
	}
}

// What a guard did is counted, from a run as from its trace, and a bit that means nothing
// does not verify.
func TestGuardIsCounted(t *testing.T) {
	c := cartCase(t)
	const rescued = domain.FallbackGuard | domain.FallbackRescue | domain.FallbackSolver
	bits := make([]domain.Fallback, steps)
	bits[2], bits[3], bits[5], bits[6], bits[7] = rescued, domain.FallbackGuard|domain.FallbackIncumbent, domain.FallbackIncumbent, domain.FallbackGuard|domain.FallbackRescue, domain.FallbackSolver|domain.FallbackMargin
	o := options(t.TempDir())
	r := evaluate(t, c, flagged(bits), o)
	if g := r.Guard; g == nil || g.Failing != 3*6 || g.Incumbent != 2*6 || g.Rescues != 2*6 || g.Solved != 6 || g.RescueRate != 2./steps || !(g.RescueWorst > 0) {
		t.Fatalf("counted %+v", g)
	}
	joined := require.Get(closedloop.Join(t.Context(), c.Problem.Spec(), []string{o.TracePath}))(t)
	if fmt.Sprint(*joined.Guard) != fmt.Sprint(*r.Guard) {
		t.Errorf("from the trace %+v, from the run %+v", *joined.Guard, *r.Guard)
	}
	if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); !v.OK {
		t.Errorf("the trace does not verify: %v", v.Mismatches)
	}
	text := string(require.Get(os.ReadFile(o.TracePath))(t))
	forged := sealed(strings.Replace(text, fmt.Sprintf(`"fallback":%d`, rescued), `"fallback":262144`, 1))
	v := require.Get(closedloop.VerifyReader(t.Context(), strings.NewReader(forged), lookup(c)))(t)
	if len(v.Mismatches) != 1 || v.Mismatches[0].Field != "fallback" || v.Mismatches[0].Line != 5 {
		t.Errorf("a bit without a meaning: %v", v.Mismatches)
	}
	// The header says which guard there was: another run does not continue the trace.
	if !strings.Contains(text[:strings.Index(text, "\n")], `"guard":{}`) {
		t.Errorf("the header has no guard: %.300s", text)
	}
	off := *c
	off.Guard.Off = true
	if r := evaluate(t, &off, flagged(bits), options("")); r.Guard != nil {
		t.Errorf("without a guard: %+v", r.Guard)
	} else if b := string(require.Get(json.Marshal(r))(t)); strings.Contains(b, `"guard"`) {
		t.Errorf("without a guard: %s", b)
	}
}

// hasty is the cart that is lost when it is fast.
type hasty struct{ *testdomain.Cart }

func (p hasty) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Failed: p.Failed}
}

func (hasty) Failed(s, c []float64) bool { return s[1] > 0.4 }

// In closed loop no episode that the guard looks after is lost, where the map alone loses
// some, and the trace verifies.
func TestGuardKeepsEpisodes(t *testing.T) {
	c := cartCase(t)
	cart := c.Problem.(*testdomain.Cart)
	axes := []domain.Variable{{Name: "q0", Lo: -1.5, Hi: 0}, {Name: "v0", Lo: -0.3, Hi: 0.3}}
	c.Problem = hasty{cart}
	c.Plant = closedloop.Simulated(c.Problem, axes, func(p, s, c []float64) { s[0], s[1], c[0] = p[0], p[1], 0 })
	method := func(g *domain.Guard) func() (domain.Controller, error) {
		return func() (domain.Controller, error) {
			n, err := batchnav.NewNavigator(ref.New(), testdomain.Map(cart, 9, false), c.Problem, batchnav.Options{Direct: true, Guard: g})
			if err != nil {
				return nil, err
			}
			return n.Controller(), nil
		}
	}
	o := options(t.TempDir())
	o.Episodes = 40
	with := evaluate(t, c, method(&domain.Guard{}), o)
	untraced := o
	untraced.TracePath = ""
	without := evaluate(t, c, method(nil), untraced)
	if without.Failed < 5 || with.Failed != 0 || with.Safe != 1 {
		t.Errorf("lost without a guard %d, with it %d, safe %v", without.Failed, with.Failed, with.Safe)
	}
	if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); !v.OK {
		t.Errorf("the trace does not verify: %v", v.Mismatches)
	}
}
