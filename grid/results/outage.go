package results

import (
	"fmt"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Outage is a branch or unit that goes out of service.
type Outage struct {
	Kind string `json:"outage"` // branch or unit
	Row  int    `json:"row"`    // in `mpc.branch` or `mpc.gen`, from 1
	From int    `json:"from"`   // bus; of a unit its bus
	To   int    `json:"to"`     // likewise
}

// NewOutage puts an outage in the file's rows and numbers of buses.
func NewOutage(n *network.Network, o secure.Outage) Outage {
	if o.Branch >= 0 {
		return Outage{"branch", n.BranchRow[o.Branch] + 1, n.BusID[n.From[o.Branch]], n.BusID[n.To[o.Branch]]}
	}
	bus := n.BusID[n.GenBus[o.Unit]]
	return Outage{"unit", n.GenRow[o.Unit] + 1, bus, bus}
}

// Outages converts a list; the result is empty, not nil, for none.
func Outages(n *network.Network, list []secure.Outage) []Outage {
	out := []Outage{}
	for _, o := range list {
		out = append(out, NewOutage(n, o))
	}
	return out
}

// Where names the equipment that is out.
func (o Outage) Where() string {
	if o.Kind == "branch" {
		return fmt.Sprintf("branch %d, bus %d to %d", o.Row, o.From, o.To)
	}
	return fmt.Sprintf("unit %d at bus %d", o.Row, o.From)
}
