package secure

import (
	"context"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// branchesOf39 solves the network of 39 buses with an outage of every branch, on one thread.
func branchesOf39(t *testing.T) (*Solver, *network.Network) {
	t.Helper()
	n := networktest.Load(t, "case39")
	opt := DefaultOptions()
	opt.Outages, opt.Threads = Branches(n), 1
	s, err := New(n, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s, n
}

// An outage that binds at a high load is no longer remembered after some decisions at a low one, at the same optimum, and
// comes back with the load.
func TestOutagesThatMeanNothingAreForgotten(t *testing.T) {
	s, n := branchesOf39(t)
	at := func(level float64, start *Result) *Result {
		pd, qd := n.Loads(level)
		r, err := s.Solve(context.Background(), Problem{Pd: pd, Qd: qd, Start: start})
		if err != nil || r.Status != Secure {
			t.Fatalf("load %g: %v %v", level, err, r.Reason)
		}
		return r
	}
	const high, low = 0.88, 0.6
	first := at(high, nil)
	r := first
	for k := range idleResults {
		if r = at(low, r); len(r.Remembered) != len(first.Remembered) {
			t.Fatalf("step %d: %d outages remembered of %d", k, len(r.Remembered), len(first.Remembered))
		}
	}
	r = at(low, r)
	if len(r.Remembered) >= len(first.Remembered) {
		t.Errorf("%d outages are still remembered of %d", len(r.Remembered), len(first.Remembered))
	}
	if cold := at(low, nil); math.Abs(r.Objective-cold.Objective) > 1e-8*cold.Objective {
		t.Errorf("%.10g without them, from nothing %.10g", r.Objective, cold.Objective)
	}
	if back := at(high, r); len(back.Remembered) < 1 || math.Abs(back.Objective-first.Objective) > 1e-6*first.Objective {
		t.Errorf("back at the load: %d outages remembered, %.10g; at first %d, %.10g", len(back.Remembered), back.Objective, len(first.Remembered), first.Objective)
	}
}
