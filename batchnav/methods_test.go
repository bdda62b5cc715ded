package batchnav

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// A method's name says its candidates, whether it polishes, searches ahead, or leaves a part out.
func TestAMethodIsWhatItsNameSays(t *testing.T) {
	p := testdomain.NewCart(3)
	for _, m := range Named() {
		o := require.Get(OptionsFor(m.Name))(t)
		var n int
		if _, err := fmt.Sscanf(m.Name, "refine-%d", &n); err != nil && strings.HasPrefix(m.Name, "polish") {
			n = 1
		}
		has := func(part string) bool { return strings.Contains(m.Name, part) }
		polish := 0
		if has("polish") {
			polish = polishIterations
		}
		if o.Search.Candidates != n || n > 1 && m.Candidates != n || o.Search.Polish != polish || o.Search.Ahead != has("-ahead") || m.Ahead != has("-ahead") || o.Direct != strings.HasPrefix(m.Name, "direct") || o.Observer != has("observer") || m.Needs != domain.NeedsMap {
			t.Errorf("%s: %+v, %+v", m.Name, m, o)
		}
		for part, set := range map[string]bool{
			"semantic": o.NoSemantic, "rollout": o.NoRollout, "lie": o.NoLie, "retraction": o.NoRetraction, "projection": o.NoProjection, "fallback": o.NoFallback, "guard": o.NoGuard, "rescue": o.NoRescue,
		} {
			if set != has("-no-"+part) {
				t.Errorf("%s: without %s is %t", m.Name, part, set)
			}
		}
		if n > 1 && !strings.Contains(m.About, fmt.Sprintf("best of %d roll-outs", n)) || n > 1 && strings.Contains(m.About, "improved") != has("polish") || n > 1 && strings.Contains(m.About, "between decisions") != has("ahead") {
			t.Errorf("%s is about %q", m.Name, m.About)
		}
		offered := slices.ContainsFunc(Methods(p, false), func(o domain.Method) bool { return o.Name == m.Name })
		if offered != (polish == 0 && !o.NoGuard && !o.NoRescue) {
			t.Errorf("%s is a method of a cart without a guard: %t", m.Name, offered)
		}
		longer := slices.ContainsFunc(Methods(testdomain.NewPlanCart(3, 2), true), func(o domain.Method) bool { return o.Name == m.Name })
		if longer != (n == 0) {
			t.Errorf("%s is a method of longer plans: %t", m.Name, longer)
		}
	}
}
