package powerflow_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Units share the balance in proportion, whatever the reference: every unit is at its dispatch and its share of one amount,
// the power flow balances, and one that reaches a limit stays there.
func TestUnitsShareTheBalance(t *testing.T) {
	n := networktest.Load(t, "case118")
	s := require.Get(powerflow.New(n))(t)
	pd, qd := n.Loads(1.05)
	shares := make([]float64, n.Gens())
	for g := range shares {
		shares[g] = max(n.PMax[g], 0)
	}
	input := powerflow.Input{Pd: pd, Qd: qd}
	for name, slack := range map[string]*powerflow.Slack{"shares": {Shares: shares, Unlimited: true}, "within limits": {Shares: shares}, "headroom": {}} {
		sol := s.NewSolution()
		require.OK(t, s.Solve(input, powerflow.Options{Slack: slack, EnforceQ: true}, sol))
		if !sol.Converged() {
			t.Fatalf("%s: %s", name, s.Reason(sol))
		}
		factor := math.NaN() // of the shares
		for g, p := range sol.Pg {
			moved, weight := p-n.Pg0[g], shares[g]
			if name == "headroom" {
				weight = n.PMax[g] - n.Pg0[g]
			}
			switch atLimit := p > n.PMax[g]-1e-9; {
			case weight == 0 && math.Abs(moved) > 1e-8, name != "shares" && p > n.PMax[g]+1e-8 && moved > 1e-8:
				t.Errorf("%s: unit %d moves by %v", name, g, moved)
			case weight == 0, atLimit && name == "within limits":
			case math.IsNaN(factor):
				factor = moved / weight
			case math.Abs(moved/weight-factor) > 1e-6:
				t.Errorf("%s: unit %d takes %v of its share, another %v", name, g, moved/weight, factor)
			}
		}
		if !(factor > 0) {
			t.Errorf("%s: the balance is shared by %v", name, factor)
		}
		// The power flow of this dispatch leaves nothing to the reference.
		again := s.NewSolution()
		require.OK(t, s.Solve(powerflow.Input{Pd: pd, Qd: qd, Pg: sol.Pg}, powerflow.Options{EnforceQ: true}, again))
		for g := range sol.Pg {
			if math.Abs(again.Pg[g]-sol.Pg[g]) > 1e-7 {
				t.Errorf("%s: unit %d: %v, then %v", name, g, sol.Pg[g], again.Pg[g])
			}
		}
	}
	if err := s.Solve(input, powerflow.Options{Slack: &powerflow.Slack{Shares: make([]float64, len(shares))}}, s.NewSolution()); err == nil || !strings.Contains(err.Error(), "add up to 0") {
		t.Errorf("no share at all: %v", err)
	}
	shares[3] = math.Inf(1)
	if err := s.Solve(input, powerflow.Options{Slack: &powerflow.Slack{Shares: shares}}, s.NewSolution()); err == nil {
		t.Error("an infinite share was taken")
	}
}
