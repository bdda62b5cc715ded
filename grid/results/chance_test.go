package results

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A secure dispatch with tighter limits breaks some in few scenarios, where the secure one breaks some in most. The probabilities are
// those of every third scenario, which do not enter the limits.
func TestSecureChanceTightensLimits(t *testing.T) {
	n := networktest.Load(t, "case_ieee30")
	list, _ := secure.Survivable(n, secure.Branches(n))
	opt := secure.Options{Outages: list, Emergency: 1.3, Band: 0.05, Threads: 2}
	opt.Participation, _ = secure.NamedParticipation(n, "range")
	var pr secure.Problem
	pr.Pd, pr.Qd = n.Loads(0.9)
	loads := []secure.Problem{pr}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 240 {
		p, q := n.Loads(0.9)
		for b := range p {
			factor := 1 + 0.02*rng.NormFloat64()
			p[b], q[b] = p[b]*factor, q[b]*factor
		}
		loads = append(loads, secure.Problem{Pd: p, Qd: q})
	}
	out, r, err := SecureChance(t.Context(), n, opt, loads, 0.02)
	require.OK(t, err)
	c := out.Chance
	if r == nil || c.Scenarios != 80 || c.Rounds == 0 || len(c.Tightening) == 0 || !(*out.Objective > c.Objective) || !(c.Risk.Probability <= 0.05 && c.Secure.Probability > 0.4) {
		t.Fatalf("%s: %+v", out.Status, c)
	}
	fresh := require.Get(chanceOf(t.Context(), n, opt, r, loads[3:]))(t)
	if fresh.Either != c.Risk || fresh.Either.Scenarios < max(fresh.Before.Scenarios, fresh.After.Scenarios) {
		t.Errorf("%+v, want %+v", c.Risk, fresh.Either)
	}
	for _, l := range c.Tightening { // and the dispatch keeps them
		side := 1.0
		if l.Kind == "vmin" || l.Kind == "pmin" || l.Kind == "qmin" {
			side = -1
		}
		if !(l.Excess > 0) || side*(l.Value-l.Bound) > -l.Excess+1e-3 {
			t.Errorf("%s at %s is %g, tightened by %g from %g", l.Kind, l.Where(), l.Value, l.Excess, l.Bound)
		}
	}
	// A scenario that nothing is enough for leaves no dispatch, which is said.
	heavy := pr
	heavy.Pd, heavy.Qd = n.Loads(1.4)
	out, r, err = SecureChance(t.Context(), n, opt, []secure.Problem{pr, heavy, heavy, heavy}, 0)
	require.OK(t, err)
	if r != nil || out.Objective != nil || !strings.HasPrefix(out.Reason, "with the limits that scenarios tighten: ") || out.Chance.Rounds == 0 {
		t.Errorf("%s after %d rounds: %q", out.Status, out.Chance.Rounds, out.Reason)
	}
}

// Tighter limits of a value never cross, and every rating stays above 0.
func TestTighterLimitsDoNotCross(t *testing.T) {
	n := networktest.Load(t, "case_ieee30")
	w := newSecurityWatch(n, nil)
	amounts := make([]float64, w.count())
	for k := range amounts {
		amounts[k] = 100
	}
	tight := w.tightening(amounts)
	for b := range tight.VMin {
		if tight.VMin[b] > tight.VMax[b] {
			t.Errorf("bus %d: %g to %g", b, tight.VMin[b], tight.VMax[b])
		}
	}
	for g := range tight.PMin {
		if tight.PMin[g] > tight.PMax[g] || tight.QMin[g] > tight.QMax[g] {
			t.Errorf("unit %d: %g to %g, %g to %g", g, tight.PMin[g], tight.PMax[g], tight.QMin[g], tight.QMax[g])
		}
	}
	for k, rate := range tight.Rate {
		if !(rate > 0) {
			t.Errorf("branch %d: %g", k, rate)
		}
	}
}
