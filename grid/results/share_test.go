package results_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Units of an island with three references share its balance, those at references too, and outages begin there.
func TestSharesOfSeveralReferences(t *testing.T) {
	c := networktest.Case(t, "case30")
	for _, id := range []int{13, 22} {
		c.Bus[id-1].Type, c.Bus[id-1].Va = matpower.Reference, -2
	}
	n := networktest.Of(t, c)
	shares := []float64{1, 2, 3, 4, 5, 6}
	pr := results.FlowProblem{Options: powerflow.Options{Slack: &powerflow.Slack{Shares: shares}}}
	r, sol, err := results.Flow(n, pr)
	if err != nil || !r.Converged {
		t.Fatal(err, r)
	}
	for g, p := range sol.Pg {
		if got, want := p-n.Pg0[g], shares[g]*(sol.Pg[0]-n.Pg0[0]); math.Abs(got-want) > 1e-7 {
			t.Errorf("unit %d takes up %g pu, want %g", g+1, got, want)
		}
	}
	after := require.Get(results.After(t.Context(), n, pr, results.SecurityOptions{}))(t)
	for b, v := range after.Base.Vm {
		if math.Abs(v-sol.Vm[b]) > 1e-8 || math.Abs(after.Base.Va[b]-sol.Va[b]) > 1e-8 {
			t.Errorf("bus %d: outages begin at %g pu and %g, want %g and %g", n.BusID[b], v, after.Base.Va[b], sol.Vm[b], sol.Va[b])
		}
	}
}
