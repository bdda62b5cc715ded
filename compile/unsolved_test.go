package compile

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Where no scenario has a sample, the error says how the solver failed, at which start, and what would help, whether or not
// the time is over before the last scenario.
func TestUnsolvedScenariosAreExplained(t *testing.T) {
	y := system() // the speed has to grow, until it may not
	y.Margins = append(y.Margins, domain.Variable{Name: "growth"})
	y.Real.Margins = func(s, _, u, n, m []float64) { m[0], m[1] = 1-n[1], n[1]-s[1]-0.25-0.01*(u[0]-2) }
	y.Dual.Margins = func(s, _, u, n, m []complex128) { m[0], m[1] = 1-n[1], n[1]-s[1]-0.25-0.01*(u[0]-2) }
	c := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
	for tick, scenarios := range map[time.Duration]string{0: "12", 8 * time.Minute: "8"} {
		now := time.Unix(0, 0)
		clock := func() time.Time {
			now = now.Add(tick)
			return now
		}
		_, err := compile(context.Background(), c, small(filepath.Join(t.TempDir(), "sled.safetensors")), clock)
		if err == nil {
			t.Fatal("a limit that no plan keeps is compiled")
		}
		for _, says := range []string{"0 of " + scenarios + " scenarios have samples", "infeasible", "from state [", "end where no action keeps the limits, first margin speed", "what would help: limits that some plan keeps to the end"} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v a look at the clock: %q is not said of %v", tick, says, err)
			}
		}
	}
}

// A system that no controller can be made of is refused before the budget is spent; what may not be meant is in the report.
func TestASystemIsCheckedFirst(t *testing.T) {
	for says, change := range map[string]func(y *equations.System){
		"case sled: at 32 of 32 starts no action keeps the limits for one step: margin speed in 32": func(y *equations.System) {
			y.Real.Margins = func(_, _, _, n, m []float64) { m[0] = n[1] - 3 }
			y.Dual.Margins = func(_, _, _, n, m []complex128) { m[0] = n[1] - 3 }
		},
		"case sled: no objective depends on the action": func(y *equations.System) {
			y.Real.Objectives = func(_, _, _, _, j []float64) { j[0], j[1] = 1, 2 }
			y.Dual.Objectives = func(_, _, _, _, j []complex128) { j[0], j[1] = 1, 2 }
		},
	} {
		y := system()
		change(&y)
		c := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
		out := filepath.Join(t.TempDir(), "sled.safetensors")
		if _, err := Run(context.Background(), c, small(out)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, it says %v", says, err)
		}
		if _, err := os.Stat(out + ".compile"); err == nil {
			t.Errorf("%s: work was begun", says)
		}
	}
}

// A target that is met from a few starts says of how many, and why the others have no reference.
func TestStartsWithoutAReferenceAreSaid(t *testing.T) {
	y := system()
	real, dual := y.Real.Objectives, y.Dual.Objectives
	y.Real.Objectives = func(s, c, u, n, j []float64) {
		real(s, c, u, n, j)
		j[0] -= 100
	}
	y.Dual.Objectives = func(s, c, u, n, j []complex128) {
		dual(s, c, u, n, j)
		j[0] -= 100
	}
	c := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
	o := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	o.Rounds = 1
	r := require.Get(Run(context.Background(), c, o))(t)
	if m := r.Test.NoReference; r.Test.Referenced != 0 || len(m) != 1 || m[0].Episodes != 6 || !strings.Contains(m[0].Reason, "does not cost more than nothing") || !strings.Contains(r.Advice, "no reference in 6 of 6 episodes") {
		t.Errorf("the test is %+v, the advice %q", r.Test, r.Advice)
	}
	if len(r.Findings) == 0 || r.Findings[0].Subject != "objective position" || r.Findings[0].Severity != diagnosis.Remark {
		t.Errorf("the findings are %v", r.Findings)
	}
}
