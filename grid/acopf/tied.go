package acopf

import (
	"fmt"

	"github.com/gpc-engine/gpc/grid/network"
)

// A load that keeps its power factor has one variable, its P; its Q is ratio·P. In the KKT
// matrix it is one column with 1 in its bus's active balance and the ratio in the reactive one,
// so that its elimination leaves −[1 r; r r²]/d there. The limits of Q are those of P.

// addPowerFactors lists the units whose Q follows their P.
func (p *plan) addPowerFactors(d network.Dispatchable) error {
	var err error
	if p.powerFactors, _, err = p.net.PowerFactors(d); err != nil {
		return err
	}
	p.followsActive = make([]bool, 2*p.ng)
	for _, t := range p.powerFactors {
		i := p.ng + t.Gen
		if cost, ok := p.unitCost(i); ok && cost.PiecewiseLinear() {
			return fmt.Errorf("network %s, generator %d at bus %d: a load of constant power factor with a piecewise linear cost of reactive power cannot be honoured",
				p.net.Name, p.net.GenRow[t.Gen]+1, p.net.BusID[p.net.GenBus[t.Gen]])
		}
		p.followsActive[i] = true
	}
	return nil
}
