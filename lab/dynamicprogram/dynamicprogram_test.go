package dynamicprogram

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper/integrator"
)

// On its coarse grid the method keeps every limit and costs some percent more than the optimum.
func TestTheGridIsNearTheOptimum(t *testing.T) {
	def := integrator.Nonconvex()
	Add(&def)
	c := require.Get(gpc.NewCase(def))(t)
	if !slices.ContainsFunc(c.Methods(), func(m domain.Method) bool { return m.Name == "dp" }) {
		t.Fatal("the case has no method dp")
	}
	if testing.Short() {
		t.Skip("an episode takes seconds")
	}
	r, err := c.Evaluate(t.Context(), gpc.Setup{Method: "dp"}, engine.Options{}, closedloop.Options{Method: "dp", Episodes: 1, Seed: 7, Preference: domain.Preference{Adaptive: true}})
	if err != nil || r.Failures > 0 || r.Safe != 1 || !(r.GapPct > 0 && r.GapPct < 10) {
		t.Errorf("%+v, %v", r, err)
	}
}

// Another case stays as it is.
func TestAnotherCaseStays(t *testing.T) {
	var c domain.Case
	if Add(&c); len(c.Methods) != 0 {
		t.Errorf("methods %v", c.Methods)
	}
}
