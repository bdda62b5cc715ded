package opf

import (
	"math"
	"testing"
)

// dearest is the largest cost at which units within their limits generate a power, pu: the cost is
// convex, so all but one are at a limit. The last unit is tried in every place.
func dearest(y *System, demand float64) float64 {
	n := y.Network
	units, best := len(n.GenBus), math.Inf(-1)
	for free := range units {
		for at := range 1 << units {
			if at>>free&1 == 1 {
				continue
			}
			left, cost := demand, 0.0
			for i := range units {
				if i == free {
					continue
				}
				p := n.PMin[i]
				if at>>i&1 == 1 {
					p = n.PMax[i]
				}
				v, _, _ := n.Cost[i].At(p)
				left, cost = left-p, cost+v
			}
			if left >= n.PMin[free] && left <= n.PMax[free] {
				v, _, _ := n.Cost[free].At(left)
				best = max(best, cost+v)
			}
		}
	}
	return best
}

// The paper's TD3 costs more than any dispatch that meets the load of its oracle's cost: it breaks
// more than those limits, or is charged for it (docs/paper.md). A twentieth of the load covers what
// lines lose.
func TestThePapersTD3CostsMoreThanAnyDispatch(t *testing.T) {
	y := newTestSystem(t, "case30", Options{})
	load := 0.0
	for _, p := range y.Network.Pd {
		load += p
	}
	for _, c := range []struct{ level, td3 float64 }{{0.70, 743.77}, {0.592, 565.04}} {
		most := dearest(y, 1.05*c.level*load)
		t.Logf("%.3f of the load: the dearest dispatch costs %.0f $/h, the paper's TD3 %.2f", c.level, most, c.td3)
		if !(most < c.td3) || !(most > 300) {
			t.Errorf("at %v of the load the dearest dispatch costs %v", c.level, most)
		}
	}
}
