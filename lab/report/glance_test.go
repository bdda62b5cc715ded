package report

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// The rival of a map is the best that needs none: kept limits before cost, cost before time; what
// knows the future, and what was learned, is none.
func TestTheRivalIsTheBestWithoutAMap(t *testing.T) {
	eval := func(method string, safe, regret, p50 float64) closedloop.Result {
		return closedloop.Result{Case: "one", Method: method, Safe: closedloop.Number(safe), RegretPct: closedloop.Number(regret), Latency: closedloop.Latency{Quantiles: closedloop.Quantiles{P50: closedloop.Number(p50)}}}
	}
	cases := map[string]Case{"one": {Methods: []domain.Method{
		{Name: "oracle", Group: domain.GroupExact}, {Name: "navigator", Group: domain.GroupOwn, Needs: domain.NeedsMap}, {Name: "td3", Group: domain.GroupBaseline, Needs: domain.NeedsWeights},
	}}}
	r := Run{&Records{Cases: cases}, "one"}
	all := []closedloop.Result{
		eval("oracle", 1, 0, 1), eval("navigator", 1, 0, 1), eval("td3", 1, 0, 1),
		eval("never", 0, math.NaN(), 1), eval("cheap", 0.5, 0, 1), eval("dear", 1, 2, 1), eval("slow", 1, 1, 3), eval("best", 1, 1.000001, 2), eval("slower", 1, 1, 4),
	}
	if best := r.Rival(all); best == nil || best.Method != "best" {
		t.Errorf("the rival is %+v", best)
	}
	if best := r.Rival(all[:3]); best != nil {
		t.Errorf("%s is a rival", best.Method)
	}
}
