package results

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Outage is a branch or unit that goes out of service.
type Outage struct {
	Kind  string `json:"outage"`          // branch, unit, or group of several elements
	Row   int    `json:"row"`             // in `mpc.branch` or `mpc.gen`, from 1; of a group its number among the groups
	From  int    `json:"from"`            // bus; of a unit its bus; 0 for a group
	To    int    `json:"to"`              // likewise
	Label string `json:"label,omitempty"` // of a group
}

// NewOutage puts an outage in the file's rows and numbers of buses.
func NewOutage(n *network.Network, o secure.Outage) Outage {
	if o.Branch >= 0 {
		return Outage{Kind: "branch", Row: n.BranchRow[o.Branch] + 1, From: n.BusID[n.From[o.Branch]], To: n.BusID[n.To[o.Branch]]}
	}
	bus := n.BusID[n.GenBus[o.Unit]]
	return Outage{Kind: "unit", Row: n.GenRow[o.Unit] + 1, From: bus, To: bus}
}

// Outages converts a list, each outage once; the result is empty, not nil, for none.
func Outages(n *network.Network, list []secure.Outage) []Outage {
	out := []Outage{}
	for _, o := range list {
		if !o.Remote || !slices.Contains(list, secure.Outage{Branch: o.Branch, Unit: -1}) {
			out = append(out, NewOutage(n, o))
		}
	}
	return out
}

// Where names the equipment that is out.
func (o Outage) Where() string {
	if o.Kind == "branch" {
		return fmt.Sprintf("branch %d, bus %d to %d", o.Row, o.From, o.To)
	}
	if o.Label != "" {
		return o.Label
	}
	return fmt.Sprintf("unit %d at bus %d", o.Row, o.From)
}
