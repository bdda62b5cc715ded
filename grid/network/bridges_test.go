package network_test

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
)

// Bridges are the branches whose outage takes the network apart. Their sides are the buses that it leaves without the reference.
func TestBridges(t *testing.T) {
	for _, name := range []string{"case9", "case39", "case118"} { // the first bus of case9 is at the end of one
		bridges(t, name)
	}
}

func bridges(t *testing.T, name string) {
	n := networktest.Load(t, name)
	found, sides := n.Bridges(), n.BridgeSides()
	for k := range found {
		seen := map[int]bool{n.Slack: true}
		for again := true; again; {
			again = false
			for j := range found {
				if j != k && seen[n.From[j]] != seen[n.To[j]] {
					seen[n.From[j]], seen[n.To[j]], again = true, true, true
				}
			}
		}
		if apart := len(seen) < n.Buses(); apart != found[k] {
			t.Errorf("%s, branch %d: bridge %v, apart %v", name, k, found[k], apart)
		}
		if len(sides[k])+len(seen) != n.Buses() || slices.ContainsFunc(sides[k], func(b int) bool { return seen[b] }) {
			t.Errorf("%s, branch %d: %v is not what remains beside %v", name, k, sides[k], seen)
		}
	}
}
