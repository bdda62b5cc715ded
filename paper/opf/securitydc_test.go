package opf

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The linear dispatch gives the load and the losses, keeps the ratings of the linear model after every outage where
// the plain one breaks some, and no pair of units can exchange power at a lower cost where none of them is held.
func TestLinearDispatchKeepsTheLinearLimits(t *testing.T) {
	c := require.Get(SecureFromFile("opf-secure:case39.m,outages=all,emergency=1"))(t)
	y := c.Problem.(*System)
	d := require.Get(newDCController(y))(t).(*dcController)
	s, ctx, u := dispatchNear(t, y, 0.8)
	given := 0.0
	for _, p := range u[:y.layout.gens] {
		given += p
	}
	for g := range y.Ramp { // to move as far as it likes
		y.Ramp[g] = 100
	}
	plain := slices.Clone(u)
	ok := require.Get(d.Decide(s, ctx, adaptive.Preference, u))(t).Solved()
	sum := 0.0
	for _, p := range u[:y.layout.gens] {
		sum += p
	}
	if !ok || math.Abs(sum-given) > 1e-3 {
		t.Errorf("kept %v: %v pu are given, the plain optimum gives %v", ok, sum, given)
	}
	worst := func(p []float64) float64 {
		copy(d.p, p)
		d.limited = map[dcLimit]bool{}
		pd, _ := y.Network.Loads(0.8)
		d.addBroken(pd)
		most := 0.0
		for _, k := range y.layout.rated {
			most = max(most, math.Abs(d.flow[k])-y.Network.Rate[k])
			for _, o := range y.security.Outages {
				if k != o.Branch {
					most = max(most, math.Abs(d.outageFlow(k, o))-y.security.Emergency*y.Network.Rate[k])
				}
			}
		}
		return most
	}
	if before, now := worst(plain[:y.layout.gens]), worst(u[:y.layout.gens]); before < 0.1 || now > 1e-3 {
		t.Errorf("a limit is exceeded by %v, by the plain optimum's powers %v", now, before)
	}
	if after := d.outageFlow(0, secure.Outage{Branch: 1, Unit: -1}); after == d.flow[0] {
		t.Error("an outage changes no flow")
	}
}
