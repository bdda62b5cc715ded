package network_test

import (
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
)

// Bridges are the branches whose outage takes the network apart.
func TestBridges(t *testing.T) {
	n := networktest.Load(t, "case118")
	found := n.Bridges()
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
			t.Errorf("branch %d: bridge %v, apart %v", k, found[k], apart)
		}
	}
}
